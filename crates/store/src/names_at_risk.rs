//! Objects with less than full redundancy: all of them, a page at a time.
//!
//! Directories are walked from the roots of the tenants down, once for each number of failures
//! left, the worst first. Memory: a page of each directory on the path, and the encodings below
//! full redundancy. If there are too many of these for memory, their records are read instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use dewar_catalog::keys::{self, KeyRange};
use dewar_catalog::record::{CopyState, Entry, Record, VersionRecord};
use dewar_catalog::tables;
use dewar_kv::Scan;
use dewar_types::{BlobId, EntryId, Result};

use crate::{Inner, SharedStore, Store};
use dewar_disks::upkeep::{Ledger, Margins, ObjectAtRisk};

/// Objects that a ledger or a refusal names.
pub(crate) const NAMED_MAX: usize = 1000;

/// Records read in one scan.
const PAGE: usize = 512;

/// Most records read for one answer, so that a request does not wait for all.
const LOOKED_MAX: usize = 100_000;

/// The data that a ledger is computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerDepth {
    /// Objects are counted and those at risk named: all names are read.
    pub objects: bool,
    /// Every shard is read from its medium first.
    pub read: bool,
}

impl Store {
    /// Computes the ledger again. `progress` counts the blobs that were read.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn ledger(&self, depth: LedgerDepth, progress: &AtomicU64) -> Result<Ledger> {
        Ok(self.check(depth, progress).await?.0)
    }

    /// The same, and the objects below full redundancy that the ledger does not list.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn check(
        &self,
        depth: LedgerDepth,
        progress: &AtomicU64,
    ) -> Result<(Ledger, UnderReplicated)> {
        let (inner, disks) = (&self.inner, &self.inner.disks);
        let (mut ledger, mut margins) = disks.ledger(depth.read, progress).await?;
        let mut lacking = BTreeSet::new();
        if depth.objects {
            let packed = margins.add_packed(disks).await;
            disks.go_on_without(packed, &mut ledger)?;
            let objects = inner.count_objects(&mut ledger, &margins).await;
            lacking = disks.go_on_without(objects, &mut ledger)?;
        }
        let mut rest = UnderReplicated::new(inner, margins, &lacking);
        while ledger.at_risk.len() < NAMED_MAX && !rest.is_over() {
            let named = rest.next(NAMED_MAX).await;
            let failed = named.is_err();
            let named = disks.go_on_without(named, &mut ledger)?;
            ledger.at_risk.extend(named);
            if failed {
                break;
            }
        }
        ledger.more = !rest.is_over() && ledger.unread.is_none();
        disks.note_catalog(&mut ledger);
        Ok((ledger, rest))
    }

    /// Paths of objects that have a part in one of these blobs, [`NAMED_MAX`] of them if there are many.
    pub(crate) async fn objects_in(&self, blobs: &BTreeMap<BlobId, i32>) -> Result<Vec<String>> {
        let inner = &self.inner;
        let mut margins = Margins::only(blobs);
        margins.add_packed(&inner.disks).await?;
        let mut ledger = Ledger::default();
        let lacking = inner.count_objects(&mut ledger, &margins).await?;
        let mut at_risk = UnderReplicated::new(inner, margins, &lacking);
        let mut named = Vec::new();
        while named.len() < NAMED_MAX && !at_risk.is_over() {
            named.extend(at_risk.next(NAMED_MAX).await?);
        }
        named.truncate(NAMED_MAX);
        Ok(named.into_iter().map(|danger| danger.path).collect())
    }
}

impl Inner {
    /// Counts objects by the failures that they survive. Returns the numbers of failures of objects
    /// at risk.
    async fn count_objects(&self, ledger: &mut Ledger, margins: &Margins) -> Result<BTreeSet<i32>> {
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        let mut lacking = BTreeSet::new();
        let kv = self.tree.kv().snapshot();
        for table in [tables::ENTRY, tables::VERSION] {
            let range = table.keys();
            let mut from = range.from.clone();
            loop {
                let scan = Scan {
                    from: &from,
                    to: &range.to,
                    limit: PAGE,
                    reverse: false,
                };
                let page = kv.scan(scan).await?;
                for (key, value) in &page.pairs {
                    let version = if table == tables::VERSION {
                        VersionRecord::from_value(key, value)?
                    } else {
                        match Entry::from_value(key, value)? {
                            Entry::File(file) => file.current,
                            Entry::Dir(_) | Entry::Symlink(_) => continue,
                        }
                    };
                    let left = self.safety(margins, &version).await?;
                    *counts.entry(left.margin).or_default() += 1;
                    if !left.is_whole {
                        lacking.insert(left.margin);
                    }
                }
                match page.pairs.last().filter(|_| page.more) {
                    Some((last, _)) => from = keys::just_after(last),
                    None => break,
                }
            }
        }
        for (margin, objects) in counts {
            ledger.lines.entry(margin).or_default().objects = Some(objects);
        }
        Ok(lacking)
    }

    /// The fewest failures that any part of a version's best copy survives.
    async fn safety(&self, margins: &Margins, version: &VersionRecord) -> Result<Safety> {
        let mut best: Option<Safety> = None;
        for (copy, stored) in version.copies.iter().enumerate() {
            if stored.state == CopyState::Cached {
                continue;
            }
            let full = margins.full_in(stored.pool);
            let mut margin: Option<i32> = None;
            for extent in self.tree.extents(version, copy).await?.iter() {
                let (blob, in_slot) = (extent.blob, extent.slot.is_some());
                let left = margins.of_blob(&self.disks, blob, in_slot, full).await?;
                margin = Some(margin.map_or(left, |least| least.min(left)));
            }
            // Without content it is as safe as its name.
            let margin = margin.unwrap_or(full);
            best = best.max(Some(Safety {
                margin,
                is_whole: margin >= full,
            }));
        }
        Ok(best.unwrap_or(Safety {
            margin: margins.full,
            is_whole: true,
        }))
    }
}

/// How safe an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Safety {
    /// Failures left; negative when it cannot be read now.
    pub(crate) margin: i32,
    /// Whether these are as many as the layout of its pool survives.
    pub(crate) is_whole: bool,
}

/// Objects below full redundancy, the worst first; see the module.
pub struct UnderReplicated {
    inner: SharedStore,
    margins: Margins,
    /// The rest of the search.
    left: VecDeque<RemainingMargin>,
    /// The directories on the way, the outermost first.
    way: Vec<Level>,
    /// Found before an error, and not returned yet.
    found: Vec<ObjectAtRisk>,
}

/// How much objects have left that one walk looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RemainingMargin {
    /// They cannot be read now.
    Nothing,
    Failures(i32),
}

impl RemainingMargin {
    fn of(margin: i32) -> Self {
        match margin {
            margin if margin < 0 => Self::Nothing,
            margin => Self::Failures(margin),
        }
    }
}

/// A directory of the search: its entries, and then the older versions in it.
#[derive(Debug)]
struct Level {
    /// The prefix of its content, with the slash.
    path: String,
    dir: EntryId,
    range: KeyRange,
    of_versions: bool,
}

impl Level {
    fn new(dir: EntryId, path: String) -> Self {
        Self {
            path,
            dir,
            range: keys::entries(dir),
            of_versions: false,
        }
    }
}

impl UnderReplicated {
    /// `lacking` has the margins to look for.
    pub(crate) fn new(inner: &SharedStore, margins: Margins, lacking: &BTreeSet<i32>) -> Self {
        let mut left: Vec<RemainingMargin> =
            lacking.iter().copied().map(RemainingMargin::of).collect();
        // All that cannot be read is looked for at once.
        left.dedup();
        Self {
            inner: SharedStore::clone(inner),
            margins,
            left: left.into(),
            way: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Whether all were named.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left.is_empty() && self.found.is_empty()
    }

    /// The next objects, about `limit`. Fewer, or none, if many others had to be read.
    ///
    /// # Errors
    /// Those of the catalog. The call can be repeated then, and returns some of the objects twice.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<ObjectAtRisk>> {
        let mut found = std::mem::take(&mut self.found);
        let named = self.name(limit, &mut found).await;
        match named {
            Ok(()) => Ok(found),
            Err(error) => {
                self.found = found;
                Err(error)
            }
        }
    }

    async fn name(&mut self, limit: usize, found: &mut Vec<ObjectAtRisk>) -> Result<()> {
        let mut looked = 0;
        while found.len() < limit && looked < LOOKED_MAX {
            let Some(wanted) = self.left.front().copied() else {
                break;
            };
            if self.way.is_empty() {
                let tenants = self.inner.tree.catalog().tenants().await?;
                let roots = tenants.iter().rev().map(|tenant| tenant.root());
                self.way
                    .extend(roots.map(|root| Level::new(root, String::new())));
            }
            looked += self.step(wanted, found).await?;
            if self.way.is_empty() {
                self.left.pop_front();
            }
        }
        Ok(())
    }

    /// Looks at a page of the innermost directory; at how many records.
    async fn step(
        &mut self,
        wanted: RemainingMargin,
        found: &mut Vec<ObjectAtRisk>,
    ) -> Result<usize> {
        let Some(level) = self.way.last_mut() else {
            return Ok(0);
        };
        let scan = Scan {
            from: &level.range.from,
            to: &level.range.to,
            limit: PAGE,
            reverse: false,
        };
        let page = self.inner.tree.kv().scan(scan).await?;
        let mut inside = Vec::new();
        for (key, value) in &page.pairs {
            let (name, version) = match read(level.of_versions, key, value)? {
                EntryKind::Dir(dir, name) => {
                    inside.push(Level::new(dir, format!("{}{name}/", level.path)));
                    continue;
                }
                EntryKind::Version(name, version) => (name, version),
                EntryKind::Other => continue,
            };
            let safety = self.inner.safety(&self.margins, &version).await?;
            if !safety.is_whole && RemainingMargin::of(safety.margin) == wanted {
                found.push(ObjectAtRisk {
                    margin: safety.margin,
                    path: format!("{}{name}", level.path),
                });
            }
        }
        match page.pairs.last().filter(|_| page.more) {
            Some((last, _)) => level.range.from = keys::just_after(last),
            None if !level.of_versions => {
                level.of_versions = true;
                level.range = keys::versions_in(level.dir);
            }
            None => {
                self.way.pop();
            }
        }
        self.way.extend(inside.into_iter().rev());
        // An empty directory is some work, too.
        Ok(page.pairs.len().max(1))
    }
}

/// The entry of a key.
enum EntryKind {
    Dir(EntryId, String),
    Version(String, Box<VersionRecord>),
    Other,
}

fn read(of_versions: bool, key: &Bytes, value: &Bytes) -> Result<EntryKind> {
    if of_versions {
        let (_, name, id) = keys::parse_version(key)?;
        let version = VersionRecord::from_value(key, value)?;
        return Ok(EntryKind::Version(
            format!("{name} (version {id})"),
            Box::new(version),
        ));
    }
    let (_, name, _) = keys::parse_entry(key)?;
    Ok(match Entry::from_value(key, value)? {
        Entry::Dir(dir) => EntryKind::Dir(dir.attributes.id, name.to_owned()),
        Entry::File(file) => EntryKind::Version(name.to_owned(), Box::new(file.current)),
        Entry::Symlink(_) => EntryKind::Other,
    })
}
