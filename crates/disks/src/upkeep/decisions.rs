//! Decisions about disks: to be emptied, to be replaced, or lost for good.
//!
//! A disk that is replaced is emptied first, while it and the others can be read. It counts as
//! removed once nothing is on it any more: [`Disks::removable`] lists such disks. The replacement and
//! the decision about the old disk are recorded together, so that it is acted on once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_catalog::keys;
use dewar_env::DiskState;
use dewar_kv::{Batch, CommitError, Precondition, Scan};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result};
use minicbor::{Decode, Encode};

use super::blob_index::Encoding;
use super::readmit::RETURNED;
use super::redundancy::DiskView;
use super::scrub::PROGRESS;
use super::stale_disk::{DOUBT, decode_doubt};
use crate::disks::Disks;

/// The kind of `D` record that holds a [`Decision`].
pub(super) const DECISION: u8 = b'd';

/// The kind of `D` record that says whose place a disk took.
const REPLACED: u8 = b'r';

/// Kinds of `D` records of one disk: the two above, [`RETURNED`], [`PROGRESS`], [`DOUBT`], its
/// token and the count of bad shards on it.
const KINDS: usize = 7;

/// Disks that decisions are kept about.
const DECISIONS_MAX: usize = 10_000;

/// Blobs whose objects are looked for, to be named.
const LOST_MAX: usize = 100_000;

/// Records read in one scan.
const PAGE: usize = 512;

/// A decision about a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Decision {
    /// Its shards move to others while it can be read; it takes no new ones.
    #[n(0)]
    Drain,
    /// It is lost or taken away: its data is rebuilt, and it is never used again.
    #[n(1)]
    Remove,
    /// Another disk replaces it: it is drained, and removed when it is empty or absent for too
    /// long.
    #[n(2)]
    Replace,
}

#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) draining: BTreeSet<DiskId>,
    /// Of those, the ones to be removed when they are empty.
    pub(super) replaced: BTreeSet<DiskId>,
    pub(super) removed: BTreeSet<DiskId>,
    /// Taken back, and not looked through yet.
    pub(super) returned: BTreeSet<DiskId>,
}

/// A disk as an administrator sees it.
#[derive(Clone, Debug)]
pub struct DiskLine {
    /// Its id.
    pub disk: DiskId,
    /// Its folder; `None` when it was not found.
    pub label: Option<String>,
    /// Whether it can be used; `None` when it was not found.
    pub state: Option<DiskState>,
    /// The decision about the disk.
    pub decision: Option<Decision>,
    /// It was removed, is taken back, and has not been looked through yet.
    pub returning: bool,
    /// Shards that records place on it.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the shards, those that are known to be bad.
    pub bad: u64,
    /// Room on its device: total and available bytes.
    pub space: Option<(u64, u64)>,
}

/// The content that could not be read without a disk.
#[derive(Clone, Debug, Default)]
pub struct RemovalLoss {
    /// Encodings with a shard on the disk.
    pub encodings: u64,
    /// Of these, the ones that could not be read without it.
    pub unreadable: u64,
    /// The first of the unreadable blobs.
    pub blobs: BTreeMap<BlobId, i32>,
    /// Disks whose content is still being looked through.
    pub unknown: BTreeSet<DiskId>,
}

impl Disks {
    /// Reads earlier decisions. Call it before the workers start.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn load_decisions(&self) -> Result<()> {
        let range = keys::disks();
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: KINDS * DECISIONS_MAX,
            reverse: false,
        };
        let mut found = Decisions::default();
        let mut unverified = BTreeMap::new();
        let mut passes = BTreeMap::new();
        for (key, value) in self.catalog.kv().scan(scan).await?.pairs {
            let (disk, what) = keys::parse_disk(&key)?;
            if what == RETURNED {
                found.returned.insert(disk);
            }
            if what == DOUBT {
                unverified.insert(disk, decode_doubt(disk, &value)?);
            }
            if what == PROGRESS {
                passes.insert(disk, self.decode_progress(disk, &value)?);
            }
            if what != DECISION {
                continue;
            }
            let decision: Decision = minicbor::decode(&value).map_err(|error| {
                let what = format!("what was decided about disk {disk}");
                Error::with_source(ErrorKind::Corrupt, what, error)
            })?;
            match decision {
                Decision::Drain => found.draining.insert(disk),
                Decision::Remove => found.removed.insert(disk),
                Decision::Replace => found.draining.insert(disk) && found.replaced.insert(disk),
            };
        }
        self.blobs.placement().avoid(found.avoided());
        self.upkeep.emptied.lock().clear();
        *self.upkeep.decisions.lock() = found;
        let mut known = self.upkeep.unverified.lock();
        known.retain(|disk, _| unverified.contains_key(disk));
        for (disk, doubt) in unverified {
            // What was read since is known better here than in the catalog.
            let same = known.get(&disk).is_some_and(|at| at.doubt == doubt);
            if !same {
                let pass = passes.remove(&disk).unwrap_or_default();
                known.insert(disk, doubt.left_by(&pass));
            }
        }
        Ok(())
    }

    pub(super) async fn put_decision(&self, batch: Batch) -> Result<()> {
        let doing = "deciding about a disk";
        match self.catalog.kv().commit(batch).await {
            Ok(_) => {}
            Err(CommitError::Conflict(_)) => return Err(Error::new(ErrorKind::Conflict, doing)),
            Err(CommitError::Failed(error)) => return Err(error.context(doing)),
        }
        self.load_decisions().await?;
        self.upkeep.wake();
        Ok(())
    }

    /// The disks as they are now.
    pub(super) fn view(&self) -> DiskView {
        let out = self.out();
        let decisions = self.upkeep.decisions.lock();
        DiskView::new(
            self.blobs.pool(),
            &self.blobs.placement().space(),
            &decisions.draining,
            &decisions.removed,
            out,
        )
        .without(&self.lost_shard_dirs())
        .doubting(self.unverified_blobs(), self.settled())
    }

    /// Disks that have been absent for too long, as far as they were ever found.
    fn out(&self) -> BTreeSet<DiskId> {
        let now = tokio::time::Instant::now();
        let mut since = self.upkeep.away_since.lock();
        for member in self.blobs.pool().members() {
            if member.disk.state().readable() {
                since.remove(&member.id);
            } else {
                since.entry(member.id).or_insert(now);
            }
        }
        let after = self.upkeep.config.out_after;
        since
            .iter()
            .filter(|(_, since)| now - **since >= after)
            .map(|(disk, _)| *disk)
            .collect()
    }

    /// The folder that a disk is in, for the log; `away` when none is known.
    pub(super) fn folder_of(&self, disk: DiskId) -> String {
        let member = self.blobs.pool().member(disk);
        member.map_or_else(
            || "away".to_owned(),
            |member| member.disk.label().to_owned(),
        )
    }

    /// A record names a disk that no folder holds.
    pub(super) fn note_unknown(&self, disk: DiskId) {
        if self.blobs.pool().member(disk).is_none() {
            let now = tokio::time::Instant::now();
            self.upkeep.away_since.lock().entry(disk).or_insert(now);
        }
    }

    /// Calls a function with every encoding and its known damage.
    pub(super) async fn for_each_encoding(
        &self,
        mut look: impl FnMut(&Encoding, &crate::blob::KnownBadShards),
    ) -> Result<()> {
        let mut from = BlobId(0);
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            let findings = self.findings_of(&page.encodings).await?;
            for encoding in &page.encodings {
                let none = crate::blob::KnownBadShards::default();
                look(encoding, findings.get(&encoding.record.id).unwrap_or(&none));
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// The known damage of some encodings, which are in the order of their ids.
    pub(super) async fn findings_of(
        &self,
        encodings: &[Encoding],
    ) -> Result<BTreeMap<BlobId, crate::blob::KnownBadShards>> {
        let mut known = BTreeMap::new();
        let (Some(first), Some(last)) = (encodings.first(), encodings.last()) else {
            return Ok(known);
        };
        let mut from = first.record.id;
        loop {
            let (found, next) = self.table.findings(from, PAGE).await?;
            known.extend(found);
            match next {
                Some(next) if next <= last.record.id => from = next,
                _ => return Ok(known),
            }
        }
    }
}

impl Decisions {
    /// The decision about a disk.
    fn about(&self, disk: DiskId) -> Option<Decision> {
        if self.removed.contains(&disk) {
            Some(Decision::Remove)
        } else if self.replaced.contains(&disk) {
            Some(Decision::Replace)
        } else {
            self.draining.contains(&disk).then_some(Decision::Drain)
        }
    }

    fn avoided(&self) -> BTreeSet<DiskId> {
        self.draining.union(&self.removed).copied().collect()
    }
}

impl Disks {
    /// Records a decision about a disk, or takes a decision to drain it back (`None`). It is not
    /// checked whether data would be lost.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn record_decision(&self, disk: DiskId, decision: Option<Decision>) -> Result<()> {
        let key = keys::disk(disk, DECISION);
        // Disks are replaced when they are full, too.
        let mut batch = Batch {
            frees: true,
            ..Batch::default()
        };
        match decision {
            Some(decision) => {
                // Writing into a vector cannot fail.
                let value = minicbor::to_vec(decision).unwrap_or_default();
                batch.puts.push((key, Bytes::from(value)));
                if decision == Decision::Remove {
                    batch.deletes.push(keys::disk(disk, RETURNED));
                }
            }
            None => batch.deletes.push(key),
        }
        self.put_decision(batch).await
    }

    /// Records that a disk is removed, even if data is lost with it: the journal has given it up.
    pub async fn note_removed(&self, disk: DiskId) -> Result<()> {
        // Writing into a vector cannot fail.
        let value = minicbor::to_vec(Decision::Remove).unwrap_or_default();
        let batch = Batch {
            puts: vec![(keys::disk(disk, DECISION), Bytes::from(value))],
            frees: true,
            ..Batch::default()
        };
        self.put_decision(batch).await
    }

    /// Replaces a disk by another: the old one is emptied and then removed. It takes effect once
    /// for each new disk, so the call may be repeated.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn replace(&self, old: DiskId, new: DiskId) -> Result<()> {
        let note = keys::disk(new, REPLACED);
        if self.catalog.kv().get(&note).await?.value.is_some() {
            return Ok(());
        }
        let old_id = Bytes::copy_from_slice(&old.0.to_be_bytes());
        let mut batch = Batch {
            require: vec![Precondition::absent(note.clone())],
            puts: vec![(note, old_id)],
            frees: true,
            ..Batch::default()
        };
        if self.upkeep.decisions.lock().about(old) != Some(Decision::Remove) {
            // Writing into a vector cannot fail.
            let value = minicbor::to_vec(Decision::Replace).unwrap_or_default();
            let key = keys::disk(old, DECISION);
            batch.puts.push((key, Bytes::from(value)));
        }
        self.put_decision(batch).await
    }

    /// The layout in which content of a pool is written now, and the one without a disk; `None` if
    /// too few disks accept data.
    #[must_use]
    pub fn layouts_without(&self, pool: u16, disk: DiskId) -> (Option<Layout>, Option<Layout>) {
        self.view().layouts_without(pool, disk)
    }

    /// The pool of a disk: from its identity while it is present, otherwise from the records of its
    /// shards; `None` when it has none.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn pool_of_disk(&self, disk: DiskId) -> Result<Option<u16>> {
        if let Some(member) = self.blobs.pool().member(disk) {
            return Ok(Some(member.pool));
        }
        let mut pool = None;
        let look = |encoding: &Encoding, _: &crate::blob::KnownBadShards| {
            if encoding.record.disks.contains(&disk) {
                pool = Some(encoding.record.pool);
            }
        };
        self.for_each_encoding(look).await?;
        Ok(pool)
    }

    /// Disks that were removed.
    #[must_use]
    pub fn removed(&self) -> BTreeSet<DiskId> {
        self.upkeep.decisions.lock().removed.clone()
    }

    /// The decision about a disk.
    #[must_use]
    pub fn decision(&self, disk: DiskId) -> Option<Decision> {
        self.upkeep.decisions.lock().about(disk)
    }

    /// Disks that are being replaced and can be removed now, unless that would lose data: nothing
    /// is on them any more, or they have been absent for too long.
    #[must_use]
    pub fn removable(&self) -> Vec<DiskId> {
        let out = self.out();
        let emptied = self.upkeep.emptied.lock();
        let decisions = self.upkeep.decisions.lock();
        let replaced = decisions.replaced.iter().copied();
        replaced
            .filter(|disk| emptied.contains(disk) || out.contains(disk))
            .collect()
    }

    /// The encodings that could not be read without a disk.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn loss_without(&self, disk: DiskId) -> Result<RemovalLoss> {
        self.look_for_anchors().await;
        let mut loss = RemovalLoss {
            unknown: self.wait_until_known().await,
            ..RemovalLoss::default()
        };
        let mut view = self.view();
        // What has not been looked through may not be there.
        view.distrust(&self.upkeep.decisions.lock().returned);
        view.distrust(&self.not_compared());
        self.for_each_encoding(|encoding, findings| {
            let record = &encoding.record;
            let Some(shard) = record.disks.iter().position(|id| *id == disk) else {
                return;
            };
            loss.encodings += 1;
            let standing = view.standing(record, findings);
            let left = standing.good.without(shard).len();
            if left < usize::from(record.layout.k) {
                loss.unreadable += 1;
                if loss.blobs.len() < LOST_MAX {
                    loss.blobs.insert(record.id, -1);
                }
            }
        })
        .await?;
        Ok(loss)
    }

    /// All disks that a folder or a record names, with their content.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn disk_lines(&self) -> Result<Vec<DiskLine>> {
        let space = self.blobs.placement().space();
        let decisions = {
            let decisions = self.upkeep.decisions.lock();
            let mut all: BTreeMap<DiskId, Decision> = BTreeMap::new();
            let decided = decisions.draining.iter().chain(&decisions.removed);
            all.extend(decided.filter_map(|id| Some((*id, decisions.about(*id)?))));
            all
        };
        let returned = self.upkeep.decisions.lock().returned.clone();
        let mut lines: BTreeMap<DiskId, DiskLine> = BTreeMap::new();
        let line = |disk: DiskId| {
            let member = self.blobs.pool().member(disk);
            let space = space.get(&disk).filter(|_| member.is_some());
            DiskLine {
                disk,
                label: member.as_ref().map(|member| member.disk.label().to_owned()),
                state: member.map(|member| member.disk.state()),
                decision: decisions.get(&disk).copied(),
                returning: returned.contains(&disk),
                shards: 0,
                bytes: 0,
                bad: 0,
                space: space.map(|space| (space.total, space.available)),
            }
        };
        for member in self.blobs.pool().members() {
            lines.insert(member.id, line(member.id));
        }
        for disk in decisions.keys() {
            lines.entry(*disk).or_insert_with(|| line(*disk));
        }
        self.for_each_encoding(|encoding, findings| {
            let record = &encoding.record;
            let Ok(geometry) = record.geometry() else {
                return;
            };
            let bad = findings.bad();
            for (shard, disk) in record.disks.iter().enumerate() {
                let line = lines.entry(*disk).or_insert_with(|| line(*disk));
                line.shards += 1;
                line.bytes += geometry.shard_len(shard);
                let missing = record.missing.contains(&(shard as u8));
                line.bad += u64::from(missing || bad.contains(shard));
            }
        })
        .await?;
        Ok(lines.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are a format: docs/formats/segment.md.
    #[test]
    fn decisions_are_kept_as_they_are_drawn() {
        for (decision, bytes) in [
            (Decision::Drain, [0x82, 0x00, 0x80]),
            (Decision::Remove, [0x82, 0x01, 0x80]),
            (Decision::Replace, [0x82, 0x02, 0x80]),
        ] {
            assert_eq!(minicbor::to_vec(decision).expect("encodes"), bytes);
            assert_eq!(
                minicbor::decode::<Decision>(&bytes).expect("decodes"),
                decision
            );
        }
    }
}
