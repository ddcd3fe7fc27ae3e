//! Pools and storage classes, as the keys of several sections configure them together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::key_rules::{parse_layout, split_class};
use super::keys::Config;

/// A further pool, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FurtherPool {
    /// Its name.
    pub name: String,
    /// Its layout while every disk is there, with the stripe unit.
    pub layout: dewar_types::Layout,
    /// Its folders.
    pub disks: Vec<PathBuf>,
}

impl FurtherPool {
    /// The number that its disks and records know it by.
    #[must_use]
    pub fn number(&self) -> u16 {
        dewar_disks::pool::number_of(&self.name)
    }
}

impl Config {
    /// The further pools, by name.
    #[must_use]
    pub fn further_pools(&self) -> Vec<FurtherPool> {
        let mut pools: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
        let split = |text: &'_ String| {
            text.split_once('=')
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        let layouts: BTreeMap<String, String> =
            self.pools.layouts.iter().filter_map(split).collect();
        for name in layouts.keys() {
            pools.insert(name, Vec::new());
        }
        for (name, folder) in self
            .pools
            .disks
            .iter()
            .filter_map(|text| text.split_once('='))
        {
            pools.entry(name).or_default().push(PathBuf::from(folder));
        }
        let unit = self.layout().unit;
        let pools = pools.into_iter().map(|(name, disks)| {
            let given = layouts.get(name).and_then(|layout| parse_layout(layout));
            let layout = given.unwrap_or_else(|| dewar_types::Layout::default_for(disks.len()));
            FurtherPool {
                name: name.to_owned(),
                layout: dewar_types::Layout { unit, ..layout },
                disks,
            }
        });
        pools.collect()
    }

    /// The number of the pool of this name, if it is configured.
    #[must_use]
    pub fn pool_number(&self, name: &str) -> Option<u16> {
        if name == self.pool.name {
            return Some(0);
        }
        let further = self.further_pools();
        let found = further.iter().find(|pool| pool.name == name);
        found.map(FurtherPool::number)
    }

    /// The name of the pool of this number, if it is configured.
    #[must_use]
    pub fn pool_name(&self, number: u16) -> Option<String> {
        if number == 0 {
            return Some(self.pool.name.clone());
        }
        let mut further = self.further_pools().into_iter();
        let found = further.find(|pool| pool.number() == number);
        found.map(|pool| pool.name)
    }

    /// The folders of all pools, those of the main one first, each with its pool's number.
    #[must_use]
    pub fn folders(&self) -> Vec<(PathBuf, u16)> {
        let main = self.pool.disks.iter().map(|folder| (folder.clone(), 0));
        let further = self.further_pools().into_iter().flat_map(|pool| {
            let number = pool.number();
            pool.disks.into_iter().map(move |folder| (folder, number))
        });
        main.chain(further).collect()
    }

    /// Takes a further folder for a disk of a pool; of the main one, where no pool has this number.
    pub fn add_folder(&mut self, folder: PathBuf, pool: u16) {
        match self.pool_name(pool).filter(|_| pool != 0) {
            Some(name) => self
                .pools
                .disks
                .push(format!("{name}={}", folder.display())),
            None => self.pool.disks.push(folder),
        }
    }

    /// Forgets a folder.
    pub fn drop_folder(&mut self, folder: &Path) {
        self.pool.disks.retain(|known| known != folder);
        let other = |text: &String| {
            let known = text.split_once('=').map(|(_, known)| Path::new(known));
            known != Some(folder)
        };
        self.pools.disks.retain(other);
    }

    /// Storage classes and the numbers of their pools, `None` for the main one.
    #[must_use]
    pub fn classes(&self) -> BTreeMap<String, Option<u16>> {
        let classes = self.lifecycle.storage_classes.iter().map(|text| {
            let (class, pool) = split_class(text);
            let number = pool.and_then(|pool| self.pool_number(pool));
            (class.to_owned(), number.filter(|number| *number != 0))
        });
        classes.collect()
    }

    /// The pools that storage classes name.
    pub(super) fn named_pools(&self) -> impl Iterator<Item = &str> {
        let classes = self.lifecycle.storage_classes.iter();
        classes.filter_map(|text| split_class(text).1)
    }
}
