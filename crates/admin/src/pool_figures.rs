//! How each pool fares, for status and metrics.

use std::collections::BTreeMap;

use dewar_disks::pool::Pool;
use dewar_journal::{Journal, JournalState};
use dewar_types::{Layout, Result};

use crate::disk_changes::DiskChanges;

/// A pool among all of them.
#[derive(Debug)]
pub struct PoolFigures {
    /// Its name.
    pub name: String,
    /// Of new objects while every disk is there.
    pub layout: Layout,
    /// That of an object that came now, or why none would be taken.
    pub now: Result<Layout>,
    /// Whether a new object would be taken, by the catalog too.
    pub writable: bool,
    /// Disks that may still fail for data that was written to all of them; negative if too many are
    /// absent.
    pub margin: i64,
    /// Its disks that can be written.
    pub live: usize,
    /// Bytes of its disks, parity included. Folders on one device each count the whole device.
    pub total_bytes: u64,
    /// Free bytes of these.
    pub available_bytes: u64,
}

impl DiskChanges {
    /// The name of a pool.
    pub fn pool_name(&self, number: u16) -> String {
        let known = self.config.pools.get(&number).cloned();
        known.unwrap_or_else(|| number.to_string())
    }

    /// All pools, the main one first.
    pub fn pools(&self, pool: &Pool, journal: &Journal) -> Vec<PoolFigures> {
        let main = pool.number();
        let mut layouts: Vec<(u16, Layout)> = pool.layouts().collect();
        layouts.sort_by_key(|(number, _)| (*number != main, self.pool_name(*number)));
        let away = self.absent_disks(pool, journal);
        let state = journal.status().state;
        let runs = matches!(state, JournalState::Running | JournalState::Changing);
        let pools = layouts.into_iter().map(|(number, layout)| {
            let now = self.store.layout_for_new_blob(number);
            let away = away.get(&number).copied().unwrap_or(0);
            let space = self.store.space_in(number);
            PoolFigures {
                name: self.pool_name(number),
                layout,
                writable: runs && now.is_ok(),
                now,
                margin: i64::from(layout.m) - away,
                live: pool.writable().filter(|disk| disk.pool == number).count(),
                total_bytes: sum(&mut space.values().map(|space| space.total)),
                available_bytes: sum(&mut space.values().map(|space| space.available)),
            }
        });
        pools.collect()
    }

    /// The number of disks of each pool that cannot be used fully now; removed disks are not
    /// counted. A disk that was not found since the start counts in its last known pool, or in the
    /// main one.
    pub fn absent_disks(&self, pool: &Pool, journal: &Journal) -> BTreeMap<u16, i64> {
        let mut away = BTreeMap::new();
        for id in journal.status().members {
            let member = pool.member(id);
            let number = match &member {
                Some(member) if member.disk.state().writable() => continue,
                Some(member) => Some(member.pool),
                None => self.roster.pool_of(id),
            };
            *away.entry(number.unwrap_or(pool.number())).or_default() += 1;
        }
        away
    }
}

/// File systems may say anything.
fn sum(bytes: &mut dyn Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
