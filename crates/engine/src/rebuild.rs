//! Rebuilding a catalog from the parts of it that the disks have.
//!
//! [`Engine::diagnose`] reads journal and index and changes nothing. The way of the rebuild
//! follows:
//!
//! | journal | index | way |
//! |---|---|---|
//! | opens by its rule | complete, or the journal reaches back to the beginning | exact |
//! | opens with a loss accepted | complete, and the journal continues it | up to the end of the journal |
//! | does not continue the index | complete | up to the index |
//! | any | no complete state | from the blobs alone |
//!
//! All ways but the first lose something. So they ask for consent, begin a new lineage of the
//! journal, assign ids above all that were found, and salvage objects that the catalog does not
//! name ([`crate::salvage`]).
//!
//! # Order and crashes
//! The new index says that it was rebuilt ([`dewar_disks::RebuildMarker`]). It is durable before the journal
//! begins anew. In between, the journal does not continue the index, so the store cannot be opened.
//! A repetition continues there. Once the new journal has begun, the store opens and sweeps
//! nothing, and a repetition continues with the salvage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::MasterKeys;
use dewar_catalog::{IdKind, keys};
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member};
use dewar_disks::{
    DiskParts, Disks, JournalPin, RebuildMarker, RebuildSource, SegmentRecovery, pool_in,
};
use dewar_env::{Disk, Env};
use dewar_journal::{Journal, JournalConfig, Recovery};
use dewar_kv::embedded::decode_batch;
use dewar_kv::index::Entry;
use dewar_kv::index::sorted_runs::{ReadOnlyRuns, RunIndex, SurvivingRuns, remains};
use dewar_kv::{Kv, MemoryKv, ReadOnlyKv};
use dewar_namespace::Tree;
use dewar_store::{Store, StoreParts};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result, Timestamp};

use crate::recovery_report::{
    Diagnosis, IndexCondition, JournalCondition, ProgressReporter, RebuildMethod, RebuildOutcome,
    RebuildReport,
};
use crate::salvage::{ID_GAP, Salvage, rebuilt_entry};
use crate::{BackgroundWork, Engine, EngineConfig, Folders};

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(600);

/// Interval of checks whether the index is mended, and their number.
const MEND_LOOK_EVERY: Duration = Duration::from_millis(50);
const MEND_LOOKS: u32 = 200;

/// How to rebuild.
pub struct Rebuild<'r> {
    /// Whether anything is changed; otherwise it is only said what would be.
    pub write: bool,
    /// Whether a catalog that lacks something is taken.
    pub accept_loss: bool,
    /// Hears how it goes.
    pub report: &'r mut dyn ProgressReporter,
}

/// The examined state of a catalog, for a decision and for the work.
pub(super) struct CatalogExamination {
    pub(super) diagnosis: Diagnosis,
    pub(super) remains: Option<SurvivingRuns>,
    /// The source of a catalog that would be made now.
    pub(super) assumed: Option<RebuildMarker>,
}

/// The disks of this deployment that are there.
pub(super) type AttachedDisks = Vec<(DiskId, Arc<dyn Disk>)>;

impl Engine {
    /// Inspects the available parts of the catalog; changes nothing. `deep` reads the whole index.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a disk of another deployment.
    pub async fn diagnose(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
        deep: bool,
    ) -> Result<Diagnosis> {
        let disks = disks_of(folders, dewar, config);
        Ok(examine(env, config, dewar, &disks, deep).await.diagnosis)
    }

    /// Rebuilds the catalog; see the module. The store is closed afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when something would be lost and that was not accepted, with a
    /// description of the loss; those of the disks. Completed steps stay, and a repetition
    /// continues there.
    pub async fn rebuild(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
        master: Arc<MasterKeys>,
        how: Rebuild<'_>,
    ) -> Result<RebuildReport> {
        let disks = disks_of(folders, dewar, config);
        let examined = examine(env, config, dewar, &disks, true).await;
        let diagnosis = examined.diagnosis.clone();
        let mut report = RebuildReport {
            entries: diagnosis.index.as_ref().map_or(0, |index| index.entries),
            mended: 0,
            diagnosis: diagnosis.clone(),
            salvaged: None,
        };
        let is_new = diagnosis.rebuilt.is_none();
        if !how.write {
            if diagnosis.way.is_exact() && is_new {
                // All blobs are named, some of them by the journal alone, into which this does not look.
                return Ok(report);
            }
            let store = look_only(env, config, dewar, folders, master, &examined).await?;
            let salvage = Salvage {
                write: false,
                place: false,
                assume: examined.assumed.clone(),
                settle: false,
                report: &mut *how.report,
            };
            report.salvaged = Some(salvage.run(&store).await?);
            return Ok(report);
        }
        if !diagnosis.way.is_exact() && !how.accept_loss {
            return Err(Error::new(ErrorKind::Unavailable, refusal(&diagnosis)));
        }
        if is_new || !diagnosis.way.is_exact() {
            how.report.begins(RebuildOutcome::Rebuild(&report))?;
        }
        let mut config = config.clone();
        prepare(env, &mut config, dewar, folders, &master, &disks, examined).await?;
        let engine = Self::open(env, &config, dewar, folders, master, BackgroundWork::Off).await?;
        let lent = folders.members(dewar, &config).into_iter();
        let lent = lent.map(|(member, _)| member);
        let lent = lent
            .filter(|member| engine.pool.member(member.id).is_none())
            .collect();
        let finished = engine.finish_rebuild(&mut report, lent, how).await;
        let closed = engine.close(CLOSE_PATIENCE).await;
        finished?;
        closed?;
        Ok(report)
    }

    /// `lent` are removed disks that are present. Their data is as valid as before. It may be the
    /// only copy of blobs that nothing named when the disks were emptied. They are inspected
    /// without any change, and stay removed. Records may name shards on them, which can be read
    /// after the disks are taken back.
    async fn finish_rebuild(
        &self,
        report: &mut RebuildReport,
        lent: Vec<Member>,
        how: Rebuild<'_>,
    ) -> Result<()> {
        let removed: Vec<DiskId> = lent.iter().map(|member| member.id).collect();
        for member in lent {
            self.pool.join(member)?;
        }
        let salvage = Salvage {
            write: true,
            place: true,
            assume: None,
            settle: false,
            report: &mut *how.report,
        };
        let salvaged = salvage.run(&self.store).await;
        for disk in removed {
            self.pool.leave(disk);
        }
        let salvaged = salvaged?;
        self.kv.feed_all().await?;
        self.index.settle().await;
        let before = self.index.status().await.healed;
        let mended = self.index.verify().await?;
        // Mending goes on by itself; what is not done in time is found again.
        for _ in 0..MEND_LOOKS {
            if self.index.status().await.healed >= before + mended {
                break;
            }
            tokio::time::sleep(MEND_LOOK_EVERY).await;
        }
        report.entries = self.index.status().await.entries;
        report.mended = mended;
        let settled = salvaged.settled;
        report.salvaged = Some(salvaged);
        how.report.ends(RebuildOutcome::Rebuild(report))?;
        dewar_env::coverage_mark("a rebuild was told of before it was settled");
        if settled {
            self.store.disks().settle_rebuilt().await?;
        }
        Ok(())
    }
}

pub(super) fn disks_of(folders: &Folders, dewar: DewarId, config: &EngineConfig) -> AttachedDisks {
    let members = folders.members(dewar, config).into_iter();
    let disks = members.map(|(member, _)| (member.id, member.disk));
    disks.collect()
}

/// Looks at journal and index.
pub(super) async fn examine(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    disks: &AttachedDisks,
    deep: bool,
) -> CatalogExamination {
    let journal = match look_into(env, config, disks, false).await {
        Ok((_, recovery)) => JournalCondition::Whole {
            floor: recovery.floor(),
            end: recovery.end(),
        },
        Err(why) => match look_into(env, config, disks, true).await {
            Ok((_, recovery)) => JournalCondition::Part {
                floor: recovery.floor(),
                end: recovery.end(),
                why: why.to_string(),
            },
            Err(_) => JournalCondition::None {
                why: why.to_string(),
            },
        },
    };
    let remains = remains(disks.clone(), &config.index(dewar), deep).await;
    let mut rebuilt = None;
    if let Some(found) = &remains
        && let Ok(Some(value)) = found.runs.get(&keys::rebuilt()).await
    {
        rebuilt = RebuildMarker::from_bytes(&value);
    }
    let index = remains.as_ref().map(|found| IndexCondition {
        applied: found.runs.applied(),
        entries: found.runs.entries(),
        bytes: found.runs.bytes(),
        copies: found.copies,
        bad_pieces: found.bad_pieces,
        lost: found.lost.clone(),
    });
    let whole = index.as_ref().filter(|index| index.lost.is_empty());
    let applied = whole.map(|index| index.applied);
    let way = match (&journal, applied) {
        (JournalCondition::Whole { floor, end }, Some(applied))
            if (*floor..=*end).contains(&applied) =>
        {
            RebuildMethod::Exact { upto: *end }
        }
        (JournalCondition::Whole { floor: 0, end }, _) => RebuildMethod::Exact { upto: *end },
        (JournalCondition::Part { floor, end, .. }, Some(applied))
            if (*floor..=*end).contains(&applied) =>
        {
            RebuildMethod::Journal { upto: *end }
        }
        (_, Some(applied)) => RebuildMethod::Index { upto: applied },
        (_, None) => RebuildMethod::Blobs,
    };
    let diagnosis = Diagnosis {
        disks: disks.len(),
        journal,
        index,
        rebuilt,
        way,
    };
    let runs = remains.as_ref().map(|remains| &remains.runs);
    let assumed = assumed(&diagnosis, runs).await;
    CatalogExamination {
        diagnosis,
        remains,
        assumed,
    }
}

/// Opens the journal for reading.
pub(super) async fn look_into(
    env: &Env,
    config: &EngineConfig,
    disks: &AttachedDisks,
    accept_loss: bool,
) -> Result<(Journal, Recovery)> {
    let config = JournalConfig {
        read_only: true,
        accept_loss,
        ..config.journal.clone()
    };
    Ok(Journal::open(env.clone(), disks.clone(), config).await?)
}

async fn assumed(diagnosis: &Diagnosis, runs: Option<&ReadOnlyRuns>) -> Option<RebuildMarker> {
    if diagnosis.rebuilt.is_some() {
        return diagnosis.rebuilt.clone();
    }
    let (from, upto) = match diagnosis.way {
        RebuildMethod::Exact { .. } => return None,
        RebuildMethod::Journal { upto } | RebuildMethod::Index { upto } => {
            (RebuildSource::SurvivingRuns, upto)
        }
        RebuildMethod::Blobs => (RebuildSource::Blobs, 0),
    };
    let runs = runs.filter(|_| from != RebuildSource::Blobs);
    let known = async |kind: IdKind| {
        let found = reserved(runs, &keys::ids(kind as u8)).await;
        found.unwrap_or(0)
    };
    Some(RebuildMarker {
        from,
        // The clock is reserved a minute ahead, again and again: so long ago was the last of that.
        since: Timestamp(known(IdKind::Clock).await),
        upto,
        source: "the disks that were there".to_owned(),
        bound: BlobId(known(IdKind::Blob).await),
    })
}

fn refusal(diagnosis: &Diagnosis) -> String {
    let lost = match diagnosis.way {
        RebuildMethod::Exact { .. } => "nothing would be lost".to_owned(),
        RebuildMethod::Journal { upto } => format!(
            "what was written after batch {upto} would be lost, but for what can be salvaged from \
             its blobs"
        ),
        RebuildMethod::Index { upto } => format!(
            "the catalog can be had up to batch {upto}; what was written later would be lost, but \
             for what can be salvaged from its blobs"
        ),
        RebuildMethod::Blobs => {
            "nothing can be read of the catalog: only what the blobs say of themselves \
             can be salvaged"
                .to_owned()
        }
    };
    let then = match diagnosis.way {
        RebuildMethod::Exact { .. } => "",
        RebuildMethod::Journal { .. } | RebuildMethod::Index { .. } => {
            ". Bring back what disks there still are; when there are none, `dewar catalog rebuild \
             --accept-loss` takes what is there and puts back what the blobs say"
        }
        RebuildMethod::Blobs => {
            ". Bring back what disks there still are; when there are none, and there is a backup, `dewar \
             restore FOLDER --salvage` takes it and puts back what the blobs have beyond it; without one \
             `dewar catalog rebuild --accept-loss` puts back what the blobs say"
        }
    };
    let why = match &diagnosis.journal {
        JournalCondition::Whole { .. } => {
            "the catalog's index is damaged on all disks that have it"
        }
        JournalCondition::Part { why, .. } | JournalCondition::None { why } => why,
    };
    format!("{why}. Without it, {lost}. Nothing was changed{then}")
}

/// Puts index and journal into a state that can be opened.
async fn prepare(
    env: &Env,
    config: &mut EngineConfig,
    dewar: DewarId,
    folders: &Folders,
    master: &Arc<MasterKeys>,
    disks: &AttachedDisks,
    examined: CatalogExamination,
) -> Result<()> {
    let CatalogExamination {
        diagnosis,
        remains,
        assumed,
    } = examined;
    let runs = remains.map(|remains| remains.runs);
    let writable = writable(disks);
    match diagnosis.way {
        RebuildMethod::Exact { .. } => {
            let whole = diagnosis
                .index
                .as_ref()
                .is_some_and(|index| index.lost.is_empty());
            if !whole {
                // The journal has everything.
                let index = config.index(dewar);
                RunIndex::bootstrap(env.clone(), writable, index, None, Vec::new(), 0).await?;
            }
            Ok(())
        }
        RebuildMethod::Journal { .. } => {
            let applied = runs.as_ref().map_or(0, ReadOnlyRuns::applied);
            let top = mark(assumed);
            let index = config.index(dewar);
            RunIndex::bootstrap(env.clone(), writable, index, runs.as_ref(), top, applied).await?;
            config.journal.accept_loss = true;
            Ok(())
        }
        RebuildMethod::Index { .. } | RebuildMethod::Blobs => {
            let runs = match diagnosis.way {
                RebuildMethod::Index { .. } => runs,
                _ => None,
            };
            let known = diagnosis.index.as_ref().map_or(0, |index| index.applied);
            let beginning = LineageStart {
                runs: runs.as_ref(),
                known,
                rebuilt: assumed,
            };
            save_carried(env, config, dewar, folders, master, disks).await?;
            begin_anew(env, config, dewar, disks, beginning).await
        }
    }
}

pub(super) fn mark(rebuilt: Option<RebuildMarker>) -> Vec<Entry> {
    let entry = rebuilt.as_ref().map(rebuilt_entry);
    entry.into_iter().map(|(k, v)| (k, Some(v))).collect()
}

/// The start of a new lineage.
pub(super) struct LineageStart<'a> {
    /// The former catalog, as far as it is known.
    pub(super) runs: Option<&'a ReadOnlyRuns>,
    /// A batch that is known to have been.
    pub(super) known: u64,
    /// The catalog's record about its source.
    pub(super) rebuilt: Option<RebuildMarker>,
}

/// Makes index and journal of a new lineage. All ids and batches are above the known ones.
pub(super) async fn begin_anew(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    disks: &AttachedDisks,
    beginning: LineageStart<'_>,
) -> Result<()> {
    let LineageStart {
        runs,
        known,
        rebuilt,
    } = beginning;
    let floor = Journal::beyond(disks, known).await?;
    let mut top: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
    for kind in [IdKind::Entry, IdKind::Blob, IdKind::Version] {
        let key = keys::ids(kind as u8);
        let reserved = reserved(runs, &key).await?;
        // Nobody who salvages knows the entries that were; numbers by time are above them, and above
        // those that an earlier salvage gave.
        let by_time = (env.clock.now().0 / 1_000_000_000) << 14;
        let first = match (kind, runs) {
            (IdKind::Blob, _) | (_, Some(_)) => reserved + ID_GAP,
            (_, None) => by_time,
        };
        let value = Bytes::copy_from_slice(&first.to_be_bytes());
        top.insert(key, Some(value));
    }
    top.extend(mark(rebuilt));
    let writable = writable(disks);
    let index = config.index(dewar);
    let top = top.into_iter().collect();
    let (index, lost) =
        RunIndex::bootstrap(env.clone(), writable.clone(), index, runs, top, floor).await?;
    index.stop().await;
    if !lost.is_empty() {
        let message = "the source of the catalog cannot be read any more";
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    Journal::found(env, &writable, &config.journal, floor).await?;
    Ok(())
}

pub(super) fn writable(disks: &AttachedDisks) -> AttachedDisks {
    let writable = disks.iter().filter(|(_, disk)| disk.state().writable());
    writable.cloned().collect()
}

pub(super) async fn reserved(runs: Option<&ReadOnlyRuns>, key: &[u8]) -> Result<u64> {
    let value = match runs {
        Some(runs) => runs.get(key).await?,
        None => None,
    };
    let number = value.and_then(|value| value[..].try_into().ok());
    Ok(number.map_or(0, u64::from_be_bytes))
}

/// Writes small objects that are only in the journal to the disks, as segments without a record, so
/// that they exist when the journal is given up.
pub(super) async fn save_carried(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    folders: &Folders,
    master: &Arc<MasterKeys>,
    disks: &AttachedDisks,
) -> Result<()> {
    let Ok((_journal, mut recovery)) = look_into(env, config, disks, true).await else {
        return Ok(());
    };
    let mut carried = SegmentRecovery::default();
    // What cannot be read ends it; what came before counts.
    while let Ok(Some((seq, body))) = recovery.next().await {
        if body.is_empty() {
            continue;
        }
        if let Ok(mut batch) = decode_batch(&body) {
            carried.replay(seq, &mut batch);
        }
    }
    let memory: Arc<dyn Kv> = Arc::new(MemoryKv::new());
    let store = store_on(env, config, dewar, folders, master, memory).await?;
    store.refresh_space().await;
    let blobs = store.disks().blobs();
    for (segment, slots) in carried.unsealed() {
        let shelf = dewar_disks::blob::shelf_of(segment);
        let there = blobs.shelf(&shelf).await;
        if let Some(shards) = there.blobs.get(&segment)
            && blobs.assemble(segment, shards).await.is_ok()
        {
            // Sealed already.
            continue;
        }
        let pool = pool_in(slots.values()).unwrap_or(config.pool);
        store
            .segments()
            .write_unnamed(pool, segment, &slots)
            .await?;
    }
    Ok(())
}

/// A store on a catalog that is only read.
async fn look_only(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    folders: &Folders,
    master: Arc<MasterKeys>,
    examined: &CatalogExamination,
) -> Result<Store> {
    if let Some(found) = examined
        .remains
        .as_ref()
        .filter(|_| examined.diagnosis.way != RebuildMethod::Blobs)
    {
        let frozen: Arc<dyn Kv> = Arc::new(ReadOnlyKv::new(&found.runs));
        // An index that was never fed has not even the default tenant.
        if let Ok(store) = store_on(env, config, dewar, folders, &master, frozen).await {
            return Ok(store);
        }
    }
    let memory: Arc<dyn Kv> = Arc::new(MemoryKv::new());
    store_on(env, config, dewar, folders, &master, memory).await
}

struct NoJournal;

impl JournalPin for NoJournal {
    fn last_seq(&self) -> u64 {
        0
    }

    fn release(&self, _: u64) {}

    fn margin(&self) -> i32 {
        0
    }

    fn pressed(&self) -> bool {
        false
    }
}

async fn store_on(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    folders: &Folders,
    master: &Arc<MasterKeys>,
    kv: Arc<dyn Kv>,
) -> Result<Store> {
    let members = folders.members(dewar, config).into_iter();
    let members = members.map(|(member, _)| member).collect();
    let pool = Arc::new(config.pool_of(env, dewar, members)?);
    let tree = Arc::new(Tree::open(Arc::clone(&kv), env.clone(), config.zone).await?);
    let disks = Disks::new(DiskParts {
        env: env.clone(),
        catalog: tree.catalog().clone(),
        blobs: Arc::new(BlobStore::new(pool)),
        journal: Arc::new(NoJournal),
        segments: config.segments,
        upkeep: config.upkeep.clone(),
    });
    Ok(Store::new(StoreParts {
        env: env.clone(),
        tree,
        disks,
        master: Arc::clone(master),
        small_bytes_max: config.small_bytes_max,
        lifecycle: config.lifecycle.clone(),
        listing: config.listing,
        ownership: config.ownership,
        digests: config.digests,
        part_bytes_min: config.part_bytes_min,
    }))
}
