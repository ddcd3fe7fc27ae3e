//! Objects with less than full redundancy: all of them, a page at a time.
//!
//! Directories are walked from the roots of the tenants down, once for each number of failures
//! left, the worst first. Memory: a page of each directory on the path, and the encodings below
//! full redundancy. If there are too many of these for memory, their records are read instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use dewar_catalog::keys::{self, KeyRange};
use dewar_catalog::record::{CopyState, Entry, Record, VersionRecord};
use dewar_catalog::tables;
use dewar_data::segment::SegmentRecord;
use dewar_kv::Scan;
use dewar_types::{BlobId, EntryId, PoolId, Result};

use super::ledger::ObjectAtRisk;
use super::redundancy::DiskView;
use crate::{Inner, SharedStore};

/// Most encodings below full redundancy in memory; few in tests, so that they cover the case beyond
/// it.
const HELD_MAX: usize = if cfg!(test) { 4 } else { 1 << 20 };

/// Records read in one scan.
const PAGE: usize = 512;

/// Most records read for one answer, so that a request does not wait for all.
const LOOKED_MAX: usize = 100_000;

/// The margins of encodings that survive fewer failures than the layout of their pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins {
    held: BTreeMap<BlobId, i32>,
    held_max: usize,
    /// There are more than are held.
    more: bool,
    /// Failures that the layout of the safest pool is to survive.
    full: i32,
    /// Failures that small objects which are only in the journal survive.
    catalog: i32,
    disks: DiskView,
}

impl Margins {
    /// `full` is for copies in pools that `disks` does not know.
    pub(super) fn new(full: i32, catalog: i32, disks: DiskView) -> Self {
        Self {
            held_max: HELD_MAX,
            full,
            catalog,
            disks,
            ..Self::default()
        }
    }

    /// Margins of these blobs only; the records are ignored.
    pub(super) fn only(held: &BTreeMap<BlobId, i32>) -> Self {
        Self {
            held: held.clone(),
            held_max: usize::MAX,
            ..Self::default()
        }
    }

    pub(super) fn hold(&mut self, blob: BlobId, margin: i32) {
        if self.held.len() < self.held_max {
            self.held.insert(blob, margin);
        } else {
            self.more = true;
        }
    }

    /// Failures that a copy in a pool survives if none of its parts is in the map.
    fn full_in(&self, pool: PoolId) -> i32 {
        let number = u16::try_from(pool.0).ok();
        let meant = number.and_then(|number| self.disks.meant_in(number));
        meant.unwrap_or(self.full)
    }

    /// The fewest failures that any part of a version's best copy survives.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn of(&self, inner: &Inner, version: &VersionRecord) -> Result<Safety> {
        let mut best: Option<Safety> = None;
        for (copy, stored) in version.copies.iter().enumerate() {
            if stored.state == CopyState::Cached {
                continue;
            }
            let full = self.full_in(stored.pool);
            let mut margin: Option<i32> = None;
            for extent in inner.tree.extents(version, copy).await?.iter() {
                let left = match self.held.get(&extent.blob) {
                    Some(left) => *left,
                    None if extent.slot.is_some() && inner.segments.is_unsealed(extent.blob) => {
                        self.catalog.min(full)
                    }
                    None if self.more => self.looked_up(inner, extent.blob, full).await?,
                    None => full,
                };
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
            margin: self.full,
            is_whole: true,
        }))
    }

    async fn looked_up(&self, inner: &Inner, blob: BlobId, full: i32) -> Result<i32> {
        let mut id = blob;
        let mut encoding = inner.table.encoding(id).await?;
        if encoding.is_none()
            && let Some(record) = inner.tree.catalog().segment_record(id).await?
            && let SegmentRecord::Packed { blob, .. } = SegmentRecord::from_bytes(&record)?
        {
            id = blob;
            encoding = inner.table.encoding(id).await?;
        }
        let Some(encoding) = encoding else {
            return Ok(full);
        };
        let findings = inner.table.finding(id).await?.unwrap_or_default();
        let standing = self.disks.standing(&encoding.record, &findings);
        Ok(standing.margin.min(full))
    }

    /// Adds the segments that were packed into a blob below full redundancy.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn add_packed(&mut self, inner: &Inner) -> Result<()> {
        let mut range = keys::encodings(tables::SEGMENT, BlobId(0));
        while !self.held.is_empty() {
            let scan = Scan {
                from: &range.from,
                to: &range.to,
                limit: PAGE,
                reverse: false,
            };
            let page = inner.tree.kv().scan(scan).await?;
            for (key, value) in &page.pairs {
                if let SegmentRecord::Packed { blob, .. } = SegmentRecord::from_bytes(value)?
                    && let Some(margin) = self.held.get(&blob).copied()
                {
                    self.hold(keys::parse_blob(key)?, margin);
                }
            }
            match page.pairs.last().filter(|_| page.more) {
                Some((last, _)) => range.from = keys::just_after(last),
                None => break,
            }
        }
        Ok(())
    }
}

/// How safe an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Safety {
    /// Failures left; negative when it cannot be read now.
    pub(super) margin: i32,
    /// Whether these are as many as the layout of its pool survives.
    pub(super) is_whole: bool,
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
    pub(super) fn new(inner: &SharedStore, margins: Margins, lacking: &BTreeSet<i32>) -> Self {
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
            let safety = self.margins.of(&self.inner, &version).await?;
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
