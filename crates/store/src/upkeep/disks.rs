//! What was decided about disks: to be emptied, or lost for good.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_env::DiskState;
use dewar_meta::kv::{Batch, CommitError, Scan};
use dewar_meta::ns::keys;
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result};
use minicbor::{Decode, Encode};

use super::encodings::Encoding;
use super::standing::Disks;
use crate::{Inner, Store};

/// The kind of `D` record that holds a [`Decision`].
const DECISION: u8 = b'd';

/// Disks that decisions are kept about.
const DECISIONS_MAX: usize = 10_000;

/// Encodings that a refusal names.
const NAMED_MAX: usize = 100;

/// Records looked at in one scan.
const PAGE: usize = 512;

/// What was decided about a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Decision {
    /// Its shards move to others while it can be read; it takes no new ones.
    #[n(0)]
    Drain,
    /// It is lost or taken away: what it held is rebuilt, and it is never used again.
    #[n(1)]
    Remove,
}

#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) leaving: BTreeSet<DiskId>,
    pub(super) gone: BTreeSet<DiskId>,
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
    /// What was decided about it.
    pub decision: Option<Decision>,
    /// Shards that records place on it.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the shards, those that are known to be bad.
    pub bad: u64,
    /// Room on its device: total and available bytes.
    pub space: Option<(u64, u64)>,
}

impl Inner {
    /// Reads what was decided before.
    pub(crate) async fn load_decisions(&self) -> Result<()> {
        let range = keys::disks();
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: 2 * DECISIONS_MAX,
            reverse: false,
        };
        let mut found = Decisions::default();
        for (key, value) in self.tree.kv().scan(scan).await?.pairs {
            let (disk, what) = keys::parse_disk(&key)?;
            if what != DECISION {
                continue;
            }
            let decision: Decision = minicbor::decode(&value).map_err(|error| {
                let what = format!("what was decided about disk {disk}");
                Error::with_source(ErrorKind::Corrupt, what, error)
            })?;
            match decision {
                Decision::Drain => found.leaving.insert(disk),
                Decision::Remove => found.gone.insert(disk),
            };
        }
        self.blobs.placement().avoid(found.avoided());
        *self.upkeep.decisions.lock() = found;
        Ok(())
    }

    /// The disks as they are now.
    pub(super) fn disks(&self) -> Disks {
        let out = self.out();
        let decisions = self.upkeep.decisions.lock();
        Disks::new(
            self.blobs.pool(),
            &self.blobs.placement().space(),
            &decisions.leaving,
            &decisions.gone,
            out,
        )
    }

    /// Disks that have been away for too long, as far as they were found once.
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

    /// A record names a disk that no folder holds.
    pub(super) fn note_unknown(&self, disk: DiskId) {
        if self.blobs.pool().member(disk).is_none() {
            let now = tokio::time::Instant::now();
            self.upkeep.away_since.lock().entry(disk).or_insert(now);
        }
    }

    /// Looks at every encoding with what is known to be wrong with it.
    pub(super) async fn for_each_encoding(
        &self,
        mut look: impl FnMut(&Encoding, &dewar_data::blob::Findings),
    ) -> Result<()> {
        let mut from = BlobId(0);
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            let findings = self.findings_of(&page.encodings).await?;
            for encoding in &page.encodings {
                let none = dewar_data::blob::Findings::default();
                look(encoding, findings.get(&encoding.record.id).unwrap_or(&none));
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// What is known to be wrong with some encodings, which are in the order of their ids.
    pub(super) async fn findings_of(
        &self,
        encodings: &[Encoding],
    ) -> Result<BTreeMap<BlobId, dewar_data::blob::Findings>> {
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
    fn avoided(&self) -> BTreeSet<DiskId> {
        self.leaving.union(&self.gone).copied().collect()
    }
}

impl Store {
    /// Decides about a disk, or takes a decision to drain it back (`None`).
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when removing it would lose something, which is named;
    /// [`ErrorKind::NotFound`] for a disk that no folder and no record knows;
    /// [`ErrorKind::InvalidArgument`] for taking back a removal.
    pub async fn decide(&self, disk: DiskId, decision: Option<Decision>) -> Result<()> {
        let inner = &self.inner;
        let before = {
            let decisions = inner.upkeep.decisions.lock();
            match (
                decisions.leaving.contains(&disk),
                decisions.gone.contains(&disk),
            ) {
                (_, true) => Some(Decision::Remove),
                (true, _) => Some(Decision::Drain),
                _ => None,
            }
        };
        if before == decision {
            return Ok(());
        }
        if before == Some(Decision::Remove) {
            let message = format!("disk {disk} was removed: format its folder to use it again");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if decision == Some(Decision::Remove) {
            self.refuse_loss(disk).await?;
        }
        let key = keys::disk(disk, DECISION);
        let mut batch = Batch::default();
        match decision {
            Some(decision) => {
                // Writing into a vector cannot fail.
                let value = minicbor::to_vec(decision).unwrap_or_default();
                batch.puts.push((key, Bytes::from(value)));
            }
            None => batch.deletes.push(key),
        }
        match inner.tree.kv().commit(batch).await {
            Ok(_) => {}
            Err(CommitError::Conflict(_)) => {
                return Err(Error::new(ErrorKind::Conflict, "deciding about a disk"));
            }
            Err(CommitError::Failed(error)) => return Err(error.context("deciding about a disk")),
        }
        inner.load_decisions().await?;
        inner.upkeep.wake();
        Ok(())
    }

    /// Whether everything could still be read without a disk.
    async fn refuse_loss(&self, disk: DiskId) -> Result<()> {
        let inner = &self.inner;
        let disks = inner.disks();
        let mut lost = Vec::new();
        let mut count = 0_u64;
        let mut on_it = 0_u64;
        inner
            .for_each_encoding(|encoding, findings| {
                let record = &encoding.record;
                let Some(shard) = record.disks.iter().position(|id| *id == disk) else {
                    return;
                };
                on_it += 1;
                let standing = disks.standing(record, findings);
                let left = standing.good.without(shard).len();
                if left < usize::from(record.layout.k) {
                    count += 1;
                    if lost.len() < NAMED_MAX {
                        lost.push(record.id.to_string());
                    }
                }
            })
            .await?;
        if count > 0 {
            let message = format!(
                "without disk {disk} {count} blobs could not be read any more: {}{}",
                lost.join(", "),
                if count > NAMED_MAX as u64 {
                    ", ..."
                } else {
                    ""
                }
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if on_it == 0 && inner.blobs.pool().member(disk).is_none() {
            let message = format!("no folder and no record knows a disk {disk}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(())
    }

    /// All disks that a folder or a record names, with what is on them.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn disk_lines(&self) -> Result<Vec<DiskLine>> {
        let inner = &self.inner;
        let space = inner.blobs.placement().space();
        let decisions = {
            let decisions = inner.upkeep.decisions.lock();
            let mut all: BTreeMap<DiskId, Decision> = BTreeMap::new();
            all.extend(decisions.leaving.iter().map(|id| (*id, Decision::Drain)));
            all.extend(decisions.gone.iter().map(|id| (*id, Decision::Remove)));
            all
        };
        let mut lines: BTreeMap<DiskId, DiskLine> = BTreeMap::new();
        let line = |disk: DiskId| {
            let member = inner.blobs.pool().member(disk);
            let space = space.get(&disk).filter(|_| member.is_some());
            DiskLine {
                disk,
                label: member.as_ref().map(|member| member.disk.label().to_owned()),
                state: member.map(|member| member.disk.state()),
                decision: decisions.get(&disk).copied(),
                shards: 0,
                bytes: 0,
                bad: 0,
                space: space.map(|space| (space.total, space.available)),
            }
        };
        for member in inner.blobs.pool().members() {
            lines.insert(member.id, line(member.id));
        }
        inner
            .for_each_encoding(|encoding, findings| {
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
        ] {
            assert_eq!(minicbor::to_vec(decision).expect("encodes"), bytes);
            assert_eq!(
                minicbor::decode::<Decision>(&bytes).expect("decodes"),
                decision
            );
        }
    }
}
