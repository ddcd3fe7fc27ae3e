//! Making and opening a journal.
//!
//! # Opening
//! 1. The newest confirmed epoch is found and the opening rule checked ([`crate::epoch`]).
//! 2. A new epoch is proposed. This also makes the record durable on which this opening is based.
//! 3. The old chain is read, each record from any copy that verifies. It is written into the files
//!    of the new epoch, on m+2 live disks. No file of the old epoch is changed.
//! 4. When that is durable on m+1 of them, the new epoch is confirmed. From then on the old files
//!    are free, and bytes beyond the end of the chain are void for ever.
//!
//! # Crash cases
//! Before the confirmation the old epoch is opened again, after it the new one. Both hold the same
//! acknowledged records.

use std::sync::Arc;

use dewar_env::{Disk, Env};
use dewar_types::{DiskId, Error, ErrorKind};
use tokio::runtime::Handle;

use crate::config::JournalConfig;
use crate::epoch::{Epoch, EpochFile, EpochId, JournalMember, Publication, Span, lists, publish};
use crate::error::{OpenError, listed};
use crate::file_inventory::{FileInventory, HeaderState, InventoryEntry};
use crate::log::{LogPhase, LogReserve, SharedLog, WriteStart};
use crate::log_reader::LogReader;
use crate::membership::BackgroundTasks;
use crate::recovery::Recovery;
use crate::recovery_scan::{EpochFiles, Identified, QuorumShortage, RecoveryScan, read_all};
use crate::replica::{FileSlot, ReplicaInventory, ReplicaWriter};
use crate::{Journal, Seq};

/// Sequences left out after a loss was accepted, so that none is given twice.
pub(crate) const GAP: Seq = 1 << 32;

/// Makes an empty journal on all these disks.
pub(crate) async fn create(
    env: &Env,
    disks: &[Identified],
    config: &JournalConfig,
) -> Result<(), OpenError> {
    let mut number = 0;
    let EpochFiles { files, newer } = read_all(disks).await;
    if let Some(newer) = newer {
        return Err(newer.into());
    }
    for (id, file) in files {
        if file.confirmed.is_some() {
            return Err(OpenError::Formatted(id));
        }
        number = number.max(file.number());
    }
    let start = NewLineage {
        number: number + 1,
        former: Vec::new(),
        file: 0,
        floor: 0,
    };
    let epoch = start.epoch(env, disks, config)?;
    let proposal = EpochFile {
        confirmed: None,
        proposed: Some(epoch.number),
    };
    let members = epoch.members.clone();
    let confirmation = EpochFile {
        confirmed: Some(epoch),
        proposed: None,
    };
    let writers: Vec<_> = disks.iter().map(member).collect();
    for file in [proposal, confirmation] {
        // A new journal must be on all its disks.
        let publication = Publication {
            content: file.encode(),
            lists: vec![(members.clone(), members.len() - 1)],
        };
        publish(&Handle::current(), &writers, &publication).await?;
    }
    Ok(())
}

/// Makes an empty journal that begins behind `floor`, in a lineage for which all that are found on
/// these disks are given up. Nothing proposes here: there is no epoch that it could go on from.
pub(crate) async fn found(
    env: &Env,
    disks: &[Identified],
    config: &JournalConfig,
    floor: Seq,
) -> Result<(), OpenError> {
    let EpochFiles { files, newer } = read_all(disks).await;
    if let Some(newer) = newer {
        return Err(newer.into());
    }
    let mut former = Vec::new();
    for epoch in files.values().filter_map(|file| file.confirmed.as_ref()) {
        former.extend(epoch.former.iter().copied());
        former.push(epoch.lineage);
    }
    former.sort_unstable();
    former.dedup();
    let number = files.values().map(EpochFile::number).max().unwrap_or(0);
    let catalog = FileInventory::read(disks).await?;
    let last_file = catalog.files.iter().filter_map(|file| match file.state {
        HeaderState::Intact(header) => Some(header.file),
        _ => None,
    });
    let start = NewLineage {
        number: number + 1,
        former,
        file: last_file.max().map_or(0, |last| last + 1),
        floor,
    };
    let epoch = start.epoch(env, disks, config)?;
    let members = epoch.members.clone();
    let confirmation = EpochFile {
        confirmed: Some(epoch),
        proposed: None,
    };
    // What an opening will ask for.
    let needed = members.len() - config.m;
    let publication = Publication {
        content: confirmation.encode(),
        lists: vec![(members, needed - 1)],
    };
    let writers: Vec<_> = disks.iter().map(member).collect();
    publish(&Handle::current(), &writers, &publication).await?;
    Ok(())
}

/// Where a lineage begins.
struct NewLineage {
    number: u64,
    former: Vec<EpochId>,
    file: u64,
    floor: Seq,
}

impl NewLineage {
    /// The first epoch of a lineage, of all these disks.
    fn epoch(
        self,
        env: &Env,
        disks: &[Identified],
        config: &JournalConfig,
    ) -> Result<Epoch, OpenError> {
        config.check()?;
        if disks.len() <= config.m {
            return Err(OpenError::TooFewWritable {
                found: disks.len(),
                needed: config.m + 1,
            });
        }
        let id = EpochId(env.rng.u128());
        let members: Vec<DiskId> = disks.iter().map(|(id, _)| *id).collect();
        Ok(Epoch {
            lineage: id,
            former: self.former,
            id,
            number: self.number,
            parent: None,
            parent_end: self.floor,
            m: small(config.m),
            holders: members.iter().copied().take(config.m + 2).collect(),
            members,
            spans: vec![Span {
                epoch: id,
                number: self.number,
                file: self.file,
                first: self.floor + 1,
                prev: 0,
                last: None,
            }],
            floor: self.floor,
            acked: self.floor,
            removed: Vec::new(),
        })
    }
}

/// Opens a journal; see the module.
pub(crate) async fn open(
    env: Env,
    disks: Vec<Identified>,
    config: JournalConfig,
) -> Result<(Journal, Recovery), OpenError> {
    let mut opening = Opening::survey(env, disks, config).await?;
    if !opening.config.accept_loss {
        opening.survey.check()?;
    }
    if opening.config.read_only {
        opening.read_only().await
    } else {
        opening.writable().await
    }
}

/// The loss of an opening that accepts one.
#[derive(Debug)]
pub struct AcceptedLoss {
    /// Why the journal does not open without one.
    pub why: OpenError,
    /// Number of the newest epoch that was found.
    pub epoch: u64,
    /// Its members.
    pub members: usize,
    /// The absent ones among them.
    pub away: Vec<DiskId>,
    /// A complete index needs no record up to this one.
    pub floor: Seq,
    /// The last record that can be read.
    pub end: Seq,
    /// Records up to this one had been acknowledged, as far as is known.
    pub acked: Seq,
}

/// Finds out what an opening would lose; see [`Journal::loss`].
pub(crate) async fn loss(
    env: Env,
    disks: Vec<Identified>,
    config: JournalConfig,
) -> Result<Option<AcceptedLoss>, OpenError> {
    let mut opening = Opening::survey(env, disks, config).await?;
    let rule = opening.survey.check().err();
    let mut chain = opening.chain();
    let broken = loop {
        match chain.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(OpenError::Other(error)),
        }
    };
    let ended = opening.check_end(&mut chain).await.err();
    let evidence = chain.evidence().await.unwrap_or(0);
    let Some(why) = rule.or(broken).or(ended) else {
        return Ok(None);
    };
    let end = chain.end().max(opening.floor);
    Ok(Some(AcceptedLoss {
        why,
        epoch: opening.survey.epoch.number,
        members: opening.survey.epoch.members.len(),
        away: opening.survey.away.clone(),
        floor: opening.floor,
        end,
        acked: opening.acked.max(evidence).max(end),
    }))
}

/// Finds out whether disks have to be declared lost; see [`Journal::shortage`].
pub(crate) async fn shortage(
    env: Env,
    disks: Vec<Identified>,
    config: JournalConfig,
) -> Result<Option<QuorumShortage>, OpenError> {
    let mut opening = Opening::survey(env, disks, config).await?;
    opening.survey.check()?;
    Ok(opening.survey.shortage(&opening.config))
}

struct Opening {
    env: Env,
    config: JournalConfig,
    survey: RecoveryScan,
    catalog: Arc<FileInventory>,
    /// Records up to this one are not needed.
    floor: Seq,
    /// Records up to this one had certainly been acknowledged.
    acked: Seq,
    /// Disks that could be written at first, so that one that fails meanwhile is noticed.
    able: Vec<DiskId>,
}

impl Opening {
    async fn survey(
        env: Env,
        disks: Vec<Identified>,
        config: JournalConfig,
    ) -> Result<Self, OpenError> {
        config.check()?;
        let mut survey = RecoveryScan::read(&disks).await?;
        let catalog = FileInventory::read(&survey.disks).await?;
        for disk in &catalog.failed {
            survey.exclude(*disk);
        }
        Ok(Self {
            floor: catalog.floor(&survey.epoch),
            acked: catalog.acked(&survey.epoch),
            able: survey.able(),
            catalog: Arc::new(catalog),
            survey,
            env,
            config,
        })
    }

    fn chain(&self) -> LogReader<Arc<FileInventory>> {
        let (spans, start) = self.catalog.start(&self.survey.epoch, self.floor);
        let sizes = self.catalog.files.iter().map(|file| file.bytes);
        let file_bytes = sizes.max().unwrap_or(self.config.file_bytes);
        LogReader::new(Arc::clone(&self.catalog), file_bytes, spans, start)
    }

    /// Refuses a chain that is known to be shorter than it was.
    async fn check_end(&self, chain: &mut LogReader<Arc<FileInventory>>) -> Result<(), OpenError> {
        let end = chain.end();
        let mut unreadable = chain.unreadable().to_vec();
        let evidence = chain.evidence().await.unwrap_or(0).max(self.acked);
        if evidence > end && !self.config.accept_loss {
            return Err(OpenError::Lost {
                end,
                acked: evidence,
            });
        }
        unreadable.extend(&self.catalog.partial);
        unreadable.sort_unstable();
        unreadable.dedup();
        let away = &self.survey.away;
        let more = unreadable.iter().filter(|disk| !away.contains(disk));
        // The opening rule again, with what was seen since.
        let silent = match dewar_env::safeguard("the opening rule") {
            true => away.len() + more.count(),
            false => 0,
        };
        if silent > self.survey.epoch.m as usize && !self.config.accept_loss {
            return Err(OpenError::Other(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "the journal may go on after record {end}, but {silent} disks are away ({}) or \
                     cannot be read ({})",
                    listed(away),
                    listed(&unreadable)
                ),
            )));
        }
        Ok(())
    }

    async fn read_only(self) -> Result<(Journal, Recovery), OpenError> {
        let mut chain = self.chain();
        while chain.next().await.map_err(OpenError::Other)?.is_some() {}
        self.check_end(&mut chain).await?;
        let end = chain.end().max(self.floor);
        let mut epoch = self.survey.epoch.clone();
        epoch.floor = self.floor;
        if let Some(span) = epoch.spans.last_mut() {
            span.first = end + 1;
        }
        let again = self.chain().erased();
        let beginning = WriteStart {
            epoch,
            members: Vec::new(),
            lanes: Vec::new(),
            phase: LogPhase::ReadOnly,
        };
        let floor = self.floor;
        let shared = SharedLog::new(self.env, self.config, beginning);
        let recovery = Recovery::new(again, None, floor, end);
        Ok((Journal::new(shared, Arc::default()), recovery))
    }

    async fn writable(self) -> Result<(Journal, Recovery), OpenError> {
        self.survey.check_lost(&self.config)?;
        if !self.config.accept_loss
            && let Some(shortage) = self.survey.shortage(&self.config)
        {
            return Err(OpenError::TooFewLeft(shortage));
        }
        let holders = self.survey.holders(&self.config).await?;
        let epoch = self.next_epoch(&holders);
        let lanes: Vec<_> = holders
            .iter()
            .map(|(id, disk)| {
                let found = self.reusable(*id);
                let lane = ReplicaWriter::new(*id, Arc::clone(disk), self.config.file_bytes, found);
                lane.begin_at(epoch.spans[0].file);
                lane
            })
            .collect();
        let members: Vec<_> = self.survey.disks.iter().map(member).collect();
        let beginning = WriteStart {
            epoch: epoch.clone(),
            members: members.clone(),
            lanes,
            phase: LogPhase::Opening,
        };
        let shared = SharedLog::new(self.env.clone(), self.config.clone(), beginning);
        self.propose(&shared, &epoch, &members).await?;
        let lanes = shared.state.lock().lanes.clone();
        futures_util::future::join_all(lanes.iter().map(|lane| lane.sync_names())).await;
        let tasks = Arc::new(BackgroundTasks::default());
        for lane in &shared.state.lock().lanes {
            tasks.tend(&shared, lane);
        }

        let end = self.rewrite(&shared).await?;
        let epoch = self.confirm(&shared, epoch, end, &members).await?;
        let span = epoch.spans[0].clone();
        let floor = self.floor;
        let leftovers = self.leftovers(&shared.state.lock().lanes);
        // A slot is used again only when nobody else has it.
        drop(self);
        // Before files are made ahead, so that none is made while these are free.
        leftovers.clean(&shared, &tasks);
        {
            let mut state = shared.state.lock();
            state.epoch = epoch;
            state.phase = LogPhase::Running;
            shared.keep_reserve(&mut state);
            for lane in &state.lanes {
                lane.attention.notify_one();
            }
        }
        tasks.keep(&shared);
        let recovery = Recovery::of_running(&shared, span, floor, end);
        Ok((Journal::new(shared, tasks), recovery))
    }

    fn next_epoch(&self, holders: &[Identified]) -> Epoch {
        let old = &self.survey.epoch;
        let id = EpochId(self.env.rng.u128());
        let number = self.survey.number + 1;
        let last_file = self
            .catalog
            .files
            .iter()
            .filter_map(|file| match file.state {
                HeaderState::Intact(header) => Some(header.file),
                _ => None,
            });
        let mut former = old.former.clone();
        if self.config.accept_loss {
            former.push(old.lineage);
        }
        let members = self.survey.next_members(&self.config);
        Epoch {
            removed: self.survey.next_removed(&members),
            lineage: if self.config.accept_loss {
                id
            } else {
                old.lineage
            },
            former,
            id,
            number,
            parent: Some(old.id),
            parent_end: 0,
            m: small(self.config.m),
            members,
            holders: holders.iter().map(|(id, _)| *id).collect(),
            spans: vec![Span {
                epoch: id,
                number,
                file: last_file.max().map_or(0, |last| last + 1),
                first: self.floor + 1,
                prev: 0,
                last: None,
            }],
            floor: self.floor,
            acked: 0,
        }
    }

    /// Whether a file can be written anew before the new epoch is confirmed. A member that is away
    /// may have a later epoch confirmed that no other has: it holds nothing that was acknowledged
    /// since, but whoever finds it next goes by it, so its files stay whole until then.
    fn is_free(&self, file: &InventoryEntry) -> bool {
        let epoch = &self.survey.epoch;
        let later = match &file.state {
            HeaderState::Intact(header) => header.epoch_number > epoch.number,
            HeaderState::Blank | HeaderState::Damaged => false,
        };
        let hidden = later && !self.survey.away.is_empty();
        file.bytes == self.config.file_bytes
            && !self.catalog.belongs(file, epoch)
            && !(hidden && dewar_env::safeguard("files of later epochs stay whole"))
    }

    /// Files of a disk that nothing needs.
    fn reusable(&self, disk: DiskId) -> ReplicaInventory {
        let files = self.catalog.files.iter().filter(|file| file.disk == disk);
        let free = files.filter(|file| self.is_free(file));
        ReplicaInventory {
            spares: free.map(|file| Arc::clone(&file.slot)).collect(),
            leftovers: Vec::new(),
            name: self.catalog.names.get(&disk).copied().unwrap_or(0),
        }
    }

    /// Writes the old chain into the new epoch and gives its end.
    async fn rewrite(&self, shared: &Arc<SharedLog>) -> Result<Seq, OpenError> {
        let mut chain = self.chain();
        loop {
            let link = match chain.next().await {
                Ok(Some(link)) => link,
                Ok(None) => break,
                Err(error) if self.config.accept_loss => {
                    tracing::error!(%error, "records are lost");
                    break;
                }
                Err(error) => return Err(OpenError::Other(error)),
            };
            if link.record.header.seq <= self.floor {
                continue;
            }
            let body = link.body();
            let permit = shared.admit(body.len(), LogReserve::Last).await?;
            shared.skip_to(link.record.header.seq);
            shared.append(permit, &[body])?;
        }
        self.check_end(&mut chain).await?;
        let mut end = chain.end().max(self.floor);
        if self.config.accept_loss {
            shared.skip_to(end.max(self.acked) + GAP);
            let permit = shared.admit(0, LogReserve::Last).await?;
            end = shared.append(permit, &[])?;
        }
        shared.durable(end).await?;
        if chain.mended() > 0 {
            dewar_env::coverage_mark("a record was bad in one copy");
        }
        shared.state.lock().counters.mended = chain.mended();
        Ok(end)
    }

    /// Lists that both writings of the new epoch's record must reach.
    fn lists(&self, epoch: &Epoch) -> Vec<(Vec<DiskId>, usize)> {
        if self.config.accept_loss {
            vec![(epoch.members.clone(), self.config.m)]
        } else {
            lists(&self.survey.epoch, epoch, &self.config.lost, &self.able)
        }
    }

    /// Makes durable which epoch this opening stands on, before any file is written anew that an
    /// older one may need: a process that was killed may have left a record that a power failure
    /// takes back.
    async fn propose(
        &self,
        shared: &Arc<SharedLog>,
        epoch: &Epoch,
        members: &[Arc<JournalMember>],
    ) -> Result<(), OpenError> {
        if !dewar_env::safeguard("epochs are proposed before they are filled") {
            return Ok(());
        }
        let proposal = EpochFile {
            confirmed: Some(self.survey.epoch.clone()),
            proposed: Some(epoch.number),
        };
        let publication = Publication {
            content: proposal.encode(),
            lists: self.lists(epoch),
        };
        publish(&shared.runtime, members, &publication).await?;
        Ok(())
    }

    /// Makes the new epoch the one that counts.
    async fn confirm(
        &self,
        shared: &Arc<SharedLog>,
        mut epoch: Epoch,
        end: Seq,
        members: &[Arc<JournalMember>],
    ) -> Result<Epoch, OpenError> {
        epoch.acked = end;
        epoch.parent_end = end;
        let confirmation = EpochFile {
            confirmed: Some(epoch.clone()),
            proposed: None,
        };
        let publication = Publication {
            content: confirmation.encode(),
            lists: self.lists(&epoch),
        };
        publish(&shared.runtime, members, &publication).await?;
        Ok(epoch)
    }

    /// Files of the old epoch that the holders can use again, and those that must go.
    fn leftovers(&self, lanes: &[Arc<ReplicaWriter>]) -> Leftovers {
        let mut leftovers = Leftovers::default();
        for file in &self.catalog.files {
            let lane = lanes.iter().find(|lane| lane.id == file.disk);
            let fits = file.bytes == self.config.file_bytes;
            if let Some(lane) = lane.filter(|_| fits) {
                if self.is_free(file) {
                    continue; // the lane had it from the start and may have removed it since
                }
                let reuse = (Arc::clone(lane), Arc::clone(&file.slot));
                leftovers.reuse.push(reuse);
            } else if let Some((_, disk)) = self.survey.disks.iter().find(|d| d.0 == file.disk) {
                let remove = (Arc::clone(disk), file.slot.path.clone());
                leftovers.remove.push(remove);
            }
        }
        leftovers
    }
}

#[derive(Default)]
struct Leftovers {
    reuse: Vec<(Arc<ReplicaWriter>, Arc<FileSlot>)>,
    remove: Vec<(Arc<dyn Disk>, String)>,
}

impl Leftovers {
    fn clean(self, shared: &Arc<SharedLog>, tasks: &Arc<BackgroundTasks>) {
        for (lane, slot) in self.reuse {
            lane.adopt(slot);
        }
        tasks.spawn(shared, async move {
            for (disk, path) in self.remove {
                if let Err(error) = disk.remove(&path).await {
                    tracing::warn!(%error, "an old journal file stays");
                }
            }
        });
    }
}

fn member((id, disk): &Identified) -> Arc<JournalMember> {
    JournalMember::new(*id, Arc::clone(disk))
}

fn small(m: usize) -> u32 {
    u32::try_from(m).unwrap_or(u32::MAX)
}
