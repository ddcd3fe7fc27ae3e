//! The margins of encodings with less than full redundancy, to find out how safe objects are.

use std::collections::BTreeMap;

use crate::segment::SegmentRecord;
use dewar_catalog::{keys, tables};
use dewar_kv::Scan;
use dewar_types::{BlobId, PoolId, Result};

use super::redundancy::DiskView;
use crate::disks::Disks;

/// Records read in one scan.
const PAGE: usize = 512;

/// The margins of encodings that survive fewer failures than the layout of their pool.
#[derive(Clone, Debug, Default)]
pub struct Margins {
    held: BTreeMap<BlobId, i32>,
    held_max: usize,
    /// There are more than are held.
    more: bool,
    /// Failures that the layout of the safest pool is to survive.
    pub full: i32,
    /// Failures that small objects which are only in the journal survive.
    catalog: i32,
    view: DiskView,
}

impl Margins {
    /// At most `held_max` in memory. `full` is for copies in pools that `view` does not know.
    pub(super) fn new(held_max: usize, full: i32, catalog: i32, view: DiskView) -> Self {
        Self {
            held_max,
            full,
            catalog,
            view,
            ..Self::default()
        }
    }

    /// Margins of these blobs only; the records are ignored.
    #[must_use]
    pub fn only(held: &BTreeMap<BlobId, i32>) -> Self {
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
    #[must_use]
    pub fn full_in(&self, pool: PoolId) -> i32 {
        let number = u16::try_from(pool.0).ok();
        let meant = number.and_then(|number| self.view.meant_in(number));
        meant.unwrap_or(self.full)
    }

    /// Failures that a blob or a slot of a segment survives, in a pool whose layout is to survive
    /// `full`.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn of_blob(
        &self,
        disks: &Disks,
        blob: BlobId,
        in_slot: bool,
        full: i32,
    ) -> Result<i32> {
        match self.held.get(&blob) {
            Some(left) => Ok(*left),
            None if in_slot && disks.segments.is_unsealed(blob) => Ok(self.catalog.min(full)),
            None if self.more => self.looked_up(disks, blob, full).await,
            None => Ok(full),
        }
    }

    async fn looked_up(&self, disks: &Disks, blob: BlobId, full: i32) -> Result<i32> {
        let mut id = blob;
        let mut encoding = disks.table.encoding(id).await?;
        if encoding.is_none()
            && let Some(record) = disks.catalog.segment_record(id).await?
            && let SegmentRecord::Packed { blob, .. } = SegmentRecord::from_bytes(&record)?
        {
            id = blob;
            encoding = disks.table.encoding(id).await?;
        }
        let Some(encoding) = encoding else {
            return Ok(full);
        };
        let findings = disks.table.finding(id).await?.unwrap_or_default();
        let standing = self.view.standing(&encoding.record, &findings);
        Ok(standing.margin.min(full))
    }

    /// Adds the segments that were packed into a blob below full redundancy.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn add_packed(&mut self, disks: &Disks) -> Result<()> {
        let mut range = keys::encodings(tables::SEGMENT, BlobId(0));
        while !self.held.is_empty() {
            let scan = Scan {
                from: &range.from,
                to: &range.to,
                limit: PAGE,
                reverse: false,
            };
            let page = disks.catalog.kv().scan(scan).await?;
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
