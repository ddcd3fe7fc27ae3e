//! The survey of the disks, and the opening rule that decides which epoch counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::{Disk, DiskErrorKind, Space};
use dewar_types::{DiskId, Error, ErrorKind};

use crate::Seq;
use crate::config::JournalConfig;
use crate::epoch::{EPOCH_PATH, Epoch, EpochFile, EpochId, count};
use crate::error::OpenError;
use crate::file_inventory::{FileInventory, HeaderState};

/// A disk and its identity.
pub(crate) type Identified = (DiskId, Arc<dyn Disk>);

/// The reason why a journal cannot be written although all its records are there. Members are
/// absent, and too few are left to write the record of a new epoch to, unless some are declared
/// lost ([`JournalConfig::lost`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumShortage {
    /// The members of the newest epoch.
    pub members: Vec<DiskId>,
    /// The absent ones among them.
    pub away: Vec<DiskId>,
    /// How many can be written.
    pub able: usize,
    /// Disks that are there and no members yet.
    pub new: usize,
    /// m+1: so many must be there, members or new.
    pub needed: usize,
}

/// What was found on the disks.
pub(crate) struct RecoveryScan {
    /// The newest epoch.
    pub(crate) epoch: Epoch,
    /// The highest number of any epoch, proposals included.
    pub(crate) number: u64,
    /// Disks that may take part: all but those of another lineage.
    pub(crate) disks: Vec<Identified>,
    /// Disks of lineages that were given up.
    pub(crate) given_up: Vec<DiskId>,
    /// Members of the newest epoch that are not there.
    pub(crate) away: Vec<DiskId>,
    /// Why an epoch file could not be decoded: it is of a newer Dewar, or damaged so that it looks
    /// so.
    newer: Option<Error>,
}

impl RecoveryScan {
    /// Reads the epoch files and picks the newest confirmed epoch.
    pub(crate) async fn read(disks: &[Identified]) -> Result<Self, OpenError> {
        let EpochFiles { files, newer } = read_all(disks).await;
        let lineage = match pick_lineage(&files) {
            Err(OpenError::NotFormatted) if let Some(newer) = newer => return Err(newer.into()),
            lineage => lineage?,
        };
        let epochs = files.values().filter_map(|file| file.confirmed.as_ref());
        // One epoch is written several times, with ever higher marks.
        let epoch = epochs
            .filter(|epoch| epoch.lineage == lineage)
            .max_by_key(|epoch| (epoch.number, epoch.floor, epoch.acked))
            .ok_or(OpenError::NotFormatted)?
            .clone();
        let mut own = Vec::new();
        let mut given_up = Vec::new();
        for (id, disk) in disks {
            let foreign = files.get(id).and_then(|file| file.confirmed.as_ref());
            match foreign.filter(|epoch| epoch.lineage != lineage) {
                // It was there when the loss was accepted, and has not heard of the end of that.
                Some(_) if epoch.members.contains(id) => own.push((*id, Arc::clone(disk))),
                Some(old) => {
                    tracing::warn!(
                        disk = disk.label(), %id, lineage = %old.lineage,
                        "the disk belongs to a journal that was given up; it is left alone"
                    );
                    given_up.push(*id);
                }
                None => own.push((*id, Arc::clone(disk))),
            }
        }
        own.retain(|(id, disk)| {
            let removed = epoch.removed.contains(id);
            if removed {
                tracing::warn!(disk = disk.label(), %id, "a disk that was removed is left alone");
            }
            !removed
        });
        let number = files.values().map(EpochFile::number).max();
        let confirmed = files.values().filter_map(|file| file.confirmed.as_ref());
        if confirmed.clone().any(|old| old.number < epoch.number) {
            dewar_env::coverage_mark("a disk came back with an old epoch");
        }
        if number.is_some_and(|number| number > epoch.number) {
            dewar_env::coverage_mark("an epoch was proposed and no more");
        }
        let there = |id: &DiskId| files.contains_key(id) && own.iter().any(|(own, _)| own == id);
        let away = epoch.members.iter().copied().filter(|id| !there(id));
        Ok(Self {
            number: number.unwrap_or(0),
            away: away.collect(),
            disks: own,
            given_up,
            epoch,
            newer,
        })
    }

    /// The opening rule: all but m members must be there. A member whose epoch file is of a newer
    /// Dewar is not: had one confirmed an epoch, more than m members would say so.
    pub(crate) fn check(&mut self) -> Result<(), OpenError> {
        let members = self.epoch.members.len();
        let needed = members.saturating_sub(self.epoch.m as usize);
        let found = members - self.away.len();
        if found >= needed || !dewar_env::safeguard("the opening rule") {
            return Ok(());
        }
        if let Some(newer) = self.newer.take() {
            return Err(newer.into());
        }
        Err(OpenError::TooFewMembers {
            epoch: self.epoch.number,
            found,
            needed,
            members,
            away: self.away.clone(),
        })
    }

    /// The disks that can be written.
    pub(crate) fn able(&self) -> Vec<DiskId> {
        let writable = self
            .disks
            .iter()
            .filter(|(_, disk)| disk.state().writable());
        writable.map(|(id, _)| *id).collect()
    }

    /// Nobody who is there is lost.
    pub(crate) fn check_lost(&self, config: &JournalConfig) -> Result<(), OpenError> {
        let there = |id: &&DiskId| self.disks.iter().any(|(other, _)| other == *id);
        match config.lost.iter().find(there) {
            None => Ok(()),
            Some(id) => {
                let message = format!("disk {id} is there and cannot be declared lost");
                Err(Error::new(ErrorKind::InvalidArgument, message).into())
            }
        }
    }

    /// What is lacking for an epoch, if members are away and too few are left, with those that were declared
    /// lost taken into account ([`crate::epoch`]).
    pub(crate) fn shortage(&self, config: &JournalConfig) -> Option<QuorumShortage> {
        let members = &self.epoch.members;
        let (able, new): (Vec<DiskId>, Vec<DiskId>) =
            self.able().into_iter().partition(|id| members.contains(id));
        let m = self.epoch.m as usize;
        if able.len() > m || self.away.is_empty() {
            return None;
        }
        let lost = self.away.iter().filter(|id| config.lost.contains(id));
        let lost = lost.count();
        // So many have to know of the next epoch, and as many are known to be gone.
        let told = lost > 0 && able.len() + lost > m;
        let needed = config.m + 1;
        if told && able.len() + new.len() >= needed {
            return None;
        }
        Some(QuorumShortage {
            members: members.clone(),
            away: self.away.clone(),
            able: able.len(),
            new: new.len(),
            needed,
        })
    }

    /// Counts a disk as away whose journal files cannot be read.
    pub(crate) fn exclude(&mut self, disk: DiskId) {
        self.disks.retain(|(id, _)| *id != disk);
        if self.epoch.members.contains(&disk) && !self.away.contains(&disk) {
            self.away.push(disk);
        }
    }

    /// Members of the next epoch.
    pub(crate) fn next_members(&self, config: &JournalConfig) -> Vec<DiskId> {
        let given_up = |id: &DiskId| {
            config.lost.contains(id) || (config.accept_loss && self.away.contains(id))
        };
        let old = self.epoch.members.iter().copied();
        let mut members: Vec<DiskId> = old.filter(|id| !given_up(id)).collect();
        for (id, disk) in &self.disks {
            if !members.contains(id) && disk.state().writable() {
                members.push(*id);
            }
        }
        members
    }

    /// Disks that never take part again.
    pub(crate) fn next_removed(&self, members: &[DiskId]) -> Vec<DiskId> {
        let mut removed = self.epoch.removed.clone();
        let old = self.epoch.members.iter();
        removed.extend(old.filter(|id| !members.contains(id)));
        removed.extend(&self.given_up);
        removed.sort_unstable();
        removed.dedup();
        removed
    }

    /// Disks for the journal, m+2 of them where there are as many: first those with room for a file,
    /// and of them those that had it.
    pub(crate) async fn holders(
        &self,
        config: &JournalConfig,
    ) -> Result<Vec<Identified>, OpenError> {
        let writable: Vec<Identified> = self
            .disks
            .iter()
            .filter(|(_, disk)| disk.state().writable())
            .cloned()
            .collect();
        let needed = config.m + 1;
        if writable.len() < needed {
            return Err(OpenError::TooFewWritable {
                found: writable.len(),
                needed,
            });
        }
        let spaces = writable.iter().map(|(_, disk)| disk.space());
        let spaces = futures_util::future::join_all(spaces).await;
        let full = |space: &dewar_env::disk::Result<Space>| {
            space
                .as_ref()
                .is_ok_and(|s| s.available < config.file_bytes)
        };
        let mut ranked: Vec<_> = spaces.iter().map(full).zip(writable).collect();
        ranked.sort_by_key(|(full, (id, _))| (*full, count(&self.epoch.holders, &[*id]) == 0));
        ranked.truncate(needed + 1);
        Ok(ranked.into_iter().map(|(_, disk)| disk).collect())
    }
}

/// Whether a disk belongs to another lineage than this one.
pub(crate) async fn is_given_up(disk: &dyn Disk, lineage: EpochId) -> bool {
    let Ok(bytes) = disk.read_file(EPOCH_PATH).await else {
        return false;
    };
    let file = EpochFile::decode(&bytes).ok();
    let epoch = file.and_then(|file| file.confirmed);
    epoch.is_some_and(|epoch| epoch.lineage != lineage)
}

/// What the epoch files say.
pub(crate) struct EpochFiles {
    /// Those that can be read.
    pub(crate) files: BTreeMap<DiskId, EpochFile>,
    /// Why one could not be understood although there is one.
    pub(crate) newer: Option<Error>,
}

/// The epoch file of every disk that has one.
pub(crate) async fn read_all(disks: &[Identified]) -> EpochFiles {
    let reads = disks.iter().map(|(_, disk)| disk.read_file(EPOCH_PATH));
    let reads = futures_util::future::join_all(reads).await;
    let mut files = BTreeMap::new();
    let mut newer = None;
    for ((id, disk), read) in disks.iter().zip(reads) {
        let decoded = match read {
            Ok(bytes) => EpochFile::decode(&bytes),
            Err(error) if error.kind() == DiskErrorKind::NotFound => continue,
            Err(error) => Err(error.into()),
        };
        match decoded {
            Ok(file) => {
                files.insert(*id, file);
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                tracing::warn!(disk = disk.label(), %error, "the epoch file cannot be used");
                newer = Some(error.context(disk.label()));
            }
            Err(error) => {
                tracing::warn!(disk = disk.label(), %error, "the epoch file cannot be used");
            }
        }
    }
    EpochFiles { files, newer }
}

/// The highest sequence that any epoch or journal file on these disks speaks of.
pub(crate) async fn high_mark(disks: &[Identified]) -> Result<Seq, Error> {
    let catalog = FileInventory::read(disks).await?;
    let EpochFiles { files, .. } = read_all(disks).await;
    let mut mark = 0;
    for epoch in files.values().filter_map(|file| file.confirmed.as_ref()) {
        let firsts = epoch.spans.iter().map(|span| span.first).max();
        let said = [epoch.parent_end, epoch.floor, epoch.acked];
        mark = said.into_iter().chain(firsts).fold(mark, Seq::max);
    }
    for file in &catalog.files {
        if let HeaderState::Intact(header) = &file.state {
            mark = mark.max(header.acked).max(header.first);
        }
    }
    Ok(mark)
}

/// The lineage that all others were given up for.
fn pick_lineage(files: &BTreeMap<DiskId, EpochFile>) -> Result<EpochId, OpenError> {
    let epochs = || files.values().filter_map(|file| file.confirmed.as_ref());
    let mut lineages: Vec<EpochId> = epochs().map(|epoch| epoch.lineage).collect();
    lineages.sort_unstable();
    lineages.dedup();
    let newest = lineages.iter().copied().find(|lineage| {
        lineages.iter().all(|other| {
            other == lineage
                || epochs().any(|epoch| epoch.lineage == *lineage && epoch.former.contains(other))
        })
    });
    match newest {
        Some(lineage) => Ok(lineage),
        None if lineages.is_empty() => Err(OpenError::NotFormatted),
        None => Err(OpenError::SplitLineages(lineages)),
    }
}
