//! The engine: opens a store on disks, and closes it.
//!
//! The server opens an [`Engine`] on the operating system's disks and clock, the simulation on its
//! own. Nothing else puts these parts together, so the simulation runs the same code as the server.
//!
//! # Opening
//! [`Folder::look`] reports the content of each folder and changes nothing. [`Engine::format`] is
//! called once in a pool's life. [`Engine::open`] then opens the parts in order: pool, journal
//! (which decides whether enough disks are present), catalog index, catalog, tree, blobs and
//! segments, store, background work. When it returns, recovery is complete.
//!
//! # Closing
//! Background work ends, the catalog is written to its index, and the journal notes that it is
//! complete. After a crash instead, the only cost is the replay of the journal at the next opening.

mod backup;
mod backup_file;
mod disk_refusal;
mod folders;
mod format;
pub mod host;
mod joining;
mod loss_report;
mod membership;
mod prepare;
mod rebuild;
mod recovery_report;
mod replace_lost_disk;
mod restore;
pub mod salvage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dewar_auth::{MasterKeys, Ownership};
use dewar_catalog::Ids;
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Identity, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks, JournalPin, SegmentRecovery};
use dewar_env::worker::WorkerRegistry;
use dewar_env::{Disk, Env};
use dewar_journal::{Journal, JournalConfig, OpenError, RetentionPin};
use dewar_kv::Kv;
use dewar_kv::embedded::{EmbeddedConfig, EmbeddedKv};
use dewar_kv::index::Index;
use dewar_kv::index::sorted_runs::{RunConfig, RunIndex};
use dewar_namespace::Tree;
use dewar_store::lifecycle::LifecycleConfig;
use dewar_store::limits::{PART_BYTES_MIN, SMALL_BYTES_DEFAULT};
use dewar_store::{DigestLimits, ListingConfig, Store, StoreParts};
use dewar_types::{DiskId, Error, Layout, Result};
use tokio::sync::Mutex;

pub use backup::{BackupPlan, BackupReport, Backups};
pub use disk_refusal::DiskRefusal;
pub use folders::{Folder, FolderContent, Folders};
pub use joining::{DiskObserver, LiveFolders};
pub use loss_report::LossReport;
pub use membership::Membership;
pub use rebuild::Rebuild;
pub use recovery_report::{
    Diagnosis, IndexCondition, JournalCondition, JournalTail, ProgressReporter, RebuildMethod,
    RebuildOutcome, RebuildReport, RestoreReport,
};
pub use restore::Restore;

use joining::WatchTasks;
use membership::PendingMoves;

/// The journal counts as filling up when this part of its files is in use.
const PRESSED_PART: (usize, usize) = (1, 2);

/// How long an opening waits for what a disk says of its size.
const SPACE_PATIENCE: Duration = Duration::from_secs(2);

/// The configuration of an engine. [`EngineConfig::new`] has the defaults. The limits of the parts
/// are fields here, so that a simulation reaches in seconds states that take days in production.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The main pool's number.
    pub pool: u16,
    /// The zone, as ids have it.
    pub zone: u16,
    /// The main pool's layout of large content while no disk is missing.
    pub layout: Layout,
    /// The layouts of further pools, by their numbers; see [`EngineConfig::with_pool`].
    pub pools: BTreeMap<u16, Layout>,
    /// Largest object that counts as small, in bytes.
    pub small_bytes_max: u32,
    /// Smallest part of an upload but its last, in bytes.
    pub part_bytes_min: u64,
    /// The default rule for the owner of objects that others write into new buckets.
    pub ownership: Ownership,
    /// Limits for computing digests.
    pub digests: DigestLimits,
    /// The journal's settings.
    pub journal: JournalConfig,
    /// Memory for the index's blocks, in bytes.
    pub index_cache_bytes: usize,
    /// The catalog's settings.
    pub catalog: EmbeddedConfig,
    /// The bounds of segments.
    pub segments: SegmentLimits,
    /// How disks are scrubbed and blobs repaired.
    pub upkeep: UpkeepConfig,
    /// How lifecycle is done, and which storage classes there are.
    pub lifecycle: LifecycleConfig,
    /// Limits for listings.
    pub listing: ListingConfig,
}

impl EngineConfig {
    /// Defaults for a pool of this layout.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let m = usize::from(layout.m);
        Self {
            pool: 0,
            zone: 0,
            layout,
            pools: BTreeMap::new(),
            small_bytes_max: SMALL_BYTES_DEFAULT,
            part_bytes_min: PART_BYTES_MIN,
            ownership: Ownership::BucketOwnerEnforced,
            digests: DigestLimits::default(),
            journal: JournalConfig::new(m),
            index_cache_bytes: RunConfig::new(m + 1, 0).cache_bytes,
            catalog: EmbeddedConfig::default(),
            upkeep: UpkeepConfig::default(),
            lifecycle: LifecycleConfig::default(),
            listing: ListingConfig::default(),
            segments: SegmentLimits::default(),
        }
    }

    /// Adds a further pool. Journal and catalog survive as many losses as the safest pool.
    #[must_use]
    pub fn with_pool(mut self, number: u16, layout: Layout) -> Self {
        self.pools.insert(number, layout);
        self.journal.m = self.journal.m.max(usize::from(layout.m));
        self
    }

    /// Whether a pool of this number is configured.
    #[must_use]
    pub fn has_pool(&self, number: u16) -> bool {
        number == self.pool || self.pools.contains_key(&number)
    }

    fn index(&self, dewar: DewarId) -> RunConfig {
        RunConfig {
            cache_bytes: self.index_cache_bytes,
            ..RunConfig::new(self.journal.m + 1, dewar.0)
        }
    }

    /// The disks that were found, in their pools.
    fn pool_of(&self, env: &Env, dewar: DewarId, members: Vec<Member>) -> Result<Pool> {
        let main = Pool::new(env.clone(), dewar, self.pool, self.layout, members)?;
        let further = self.pools.iter();
        Ok(further.fold(main, |pool, (number, layout)| pool.with(*number, *layout)))
    }
}

/// Whether background work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundWork {
    /// All of it.
    On,
    /// None: for one command while nothing is served.
    Off,
}

/// An open store with its parts.
pub struct Engine {
    store: Store,
    pool: Arc<Pool>,
    journal: Journal,
    index: Arc<RunIndex>,
    kv: EmbeddedKv,
    membership: Arc<Membership>,
    workers: Arc<WorkerRegistry>,
    looking: Mutex<Option<WatchTasks>>,
    /// Whether workers seal, compact and repair.
    worked: bool,
    settling: Mutex<Option<WatchTasks>>,
}

/// The journal's hold for small objects.
struct SegmentPin {
    journal: Journal,
    index: Arc<RunIndex>,
    hold: RetentionPin,
    moves: Arc<PendingMoves>,
}

impl JournalPin for SegmentPin {
    fn last_seq(&self) -> u64 {
        self.journal.last_seq()
    }

    fn release(&self, seq: u64) {
        self.hold.advance(seq);
    }

    fn margin(&self) -> i32 {
        if self.index.lost_pieces() > 0 {
            // What cannot be read is not there, however many disks have the rest.
            return -1;
        }
        let copies = i32::try_from(self.index.copies()).unwrap_or(i32::MAX);
        self.journal.status().margin.min(copies - 1)
    }

    fn lost(&self) -> u64 {
        self.index.lost_pieces() as u64
    }

    fn pressed(&self) -> bool {
        let status = self.journal.status();
        status.cramped || status.files * PRESSED_PART.1 > status.files_max * PRESSED_PART.0
    }

    fn moves(&self) -> bool {
        self.moves.any() || self.journal.status().files_to_copy > 0
    }
}

/// The disks of the pool whose identities are durable.
async fn settled(
    folders: &Folders,
    config: &EngineConfig,
    dewar: DewarId,
) -> Vec<(Member, Identity)> {
    let mut found = Vec::new();
    for (member, identity) in folders.members(dewar, config) {
        match prepare::settle_identity(&*member.disk, &identity).await {
            Ok(()) => found.push((member, identity)),
            Err(error) => {
                tracing::warn!(disk = member.disk.label(), %error, "a new disk cannot join yet");
            }
        }
    }
    found
}

/// Opens the index. If an accepted loss took it, makes a new one, provided that the journal begins
/// with the first record and so is complete.
async fn open_index(
    env: &Env,
    config: &EngineConfig,
    dewar: DewarId,
    disks: Vec<(DiskId, Arc<dyn Disk>)>,
    floor: u64,
) -> Result<RunIndex> {
    let runs = config.index(dewar);
    match RunIndex::open(env.clone(), disks.clone(), runs.clone()).await {
        Err(error) if floor == 0 && config.journal.accept_loss => {
            tracing::warn!(%error, "the catalog index is built anew from the journal");
            RunIndex::create(env.clone(), disks, runs, 0).await
        }
        index => index,
    }
}

/// The tree of names, with counters that count as this release does.
async fn open_tree(env: &Env, config: &EngineConfig, kv: &Arc<dyn Kv>) -> Result<Arc<Tree>> {
    let tree = Tree::open(Arc::clone(kv), env.clone(), config.zone).await?;
    if tree.recount_if_outdated().await? {
        tracing::info!("usage was counted anew, for quotas");
    }
    Ok(Arc::new(tree))
}

/// Runs before any id is assigned. No id may equal one that was assigned in lost data.
async fn begin_lineage(
    env: &Env,
    config: &EngineConfig,
    journal: &Journal,
    kv: &Arc<dyn Kv>,
    blobs: &BlobStore,
) -> Result<()> {
    let ids = Ids::new(Arc::clone(kv), env.clone(), config.zone);
    let status = journal.status();
    let lost = status.losses_accepted > 0;
    let highest = || blobs.highest_number();
    if ids.begin_lineage(status.lineage.0, lost, highest).await? {
        dewar_env::coverage_mark("a loss was accepted");
        tracing::warn!(lineage = %status.lineage, "ids go on behind a gap, for what was lost");
    }
    Ok(())
}

/// The journal's settings, with no more files than fit into a sixteenth of the smallest disk. Full
/// disks must have space for the files of another disk that is absent.
async fn fitting(config: &JournalConfig, disks: &[(DiskId, Arc<dyn Disk>)]) -> JournalConfig {
    let asking = disks
        .iter()
        .map(async |(_, disk)| tokio::time::timeout(SPACE_PATIENCE, disk.space()).await);
    let answers = futures_util::future::join_all(asking).await.into_iter();
    let totals = answers.filter_map(|answer| Some(answer.ok()?.ok()?.total));
    let files = totals.min().map(|total| total / 16 / config.file_bytes);
    let files = files.and_then(|files| usize::try_from(files).ok());
    let files = files.unwrap_or(config.files_max);
    JournalConfig {
        files_max: config.files_max.min(files.max(JournalConfig::FILES_LEAST)),
        ..config.clone()
    }
}

/// Adds the folders without a disk to the error: the journal knows only ids.
fn name_folders(error: OpenError, folders: &Folders) -> Error {
    let error = Error::from(error);
    match folders.without_disk() {
        Some(why) => {
            let message = format!("{error}. Configured, but not to be used: {why}");
            Error::with_source(error.kind(), message, error)
        }
        None => error,
    }
}

impl Engine {
    /// Opens the store of a formatted pool on the disks that were found.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::InvalidArgument`] for two disks that claim the same id; [`dewar_types::ErrorKind::Unavailable`] when too few are there; those of
    /// the parts.
    pub async fn open(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
        master: Arc<MasterKeys>,
        work: BackgroundWork,
    ) -> Result<Self> {
        let found = settled(folders, config, dewar).await;
        let replacing = found.iter().filter_map(|(_, identity)| {
            let old = identity.replaces?;
            Some((identity.disk, old))
        });
        let replacing = replacing.collect();
        let members = found.into_iter().map(|(member, _)| member).collect();
        let pool = Arc::new(config.pool_of(env, dewar, members)?);
        let disks = pool.members().map(|member| (member.id, member.disk));
        let disks: Vec<_> = disks.collect();
        let journal = fitting(&config.journal, &disks).await;
        let (journal, recovery) = Journal::open(env.clone(), disks.clone(), journal)
            .await
            .map_err(|error| name_folders(error, folders))?;
        let removed = journal.status().removed;
        for disk in &removed {
            pool.leave(*disk);
        }
        let stay = disks.into_iter().filter(|(id, _)| !removed.contains(id));
        let stay: Vec<_> = stay.collect();
        let index = open_index(env, config, dewar, stay, recovery.floor()).await?;
        let index = Arc::new(index);
        // Taken before recovery lets go of the records, which the segments may still need.
        let hold = journal.hold("segments", recovery.floor());
        let mut carried = SegmentRecovery::default();
        let kv = EmbeddedKv::open(
            journal.clone(),
            recovery,
            Arc::clone(&index) as Arc<dyn Index>,
            config.catalog.clone(),
            |seq, batch| carried.replay(seq, batch),
        )
        .await?;
        let moves = Arc::new(PendingMoves::default());
        let seam: Arc<dyn Kv> = Arc::new(kv.clone());
        let blobs = Arc::new(BlobStore::new(Arc::clone(&pool)));
        begin_lineage(env, config, &journal, &seam, &blobs).await?;
        let tree = open_tree(env, config, &seam).await?;
        let disks = Disks::new(DiskParts {
            env: env.clone(),
            catalog: tree.catalog().clone(),
            blobs,
            journal: Arc::new(SegmentPin {
                journal: journal.clone(),
                index: Arc::clone(&index),
                hold,
                moves: Arc::clone(&moves),
            }),
            segments: config.segments,
            upkeep: config.upkeep.clone(),
        });
        carried.restore(disks.segments(), config.pool).await?;
        // The first id of this opening: whatever is older and unnamed is a leftover.
        let first_new = tree.ids().blob().await?;
        let store = Store::new(StoreParts {
            env: env.clone(),
            tree,
            disks,
            master,
            small_bytes_max: config.small_bytes_max,
            part_bytes_min: config.part_bytes_min,
            lifecycle: config.lifecycle.clone(),
            listing: config.listing,
            ownership: config.ownership,
            digests: config.digests,
        });
        store.disks().load_decisions().await?;
        store.accounts().try_refer_by_id().await;
        let workers = match work {
            BackgroundWork::On => dewar_store::workers::start(&store, first_new),
            BackgroundWork::Off => WorkerRegistry::new(env.clone()),
        };
        let membership = Membership::new(membership::MembershipDeps {
            env: env.clone(),
            pool: Arc::clone(&pool),
            journal: journal.clone(),
            index: Arc::clone(&index),
            store: store.clone(),
            file_bytes: config.journal.file_bytes,
            moves,
            replacing,
        });
        let settling = (work == BackgroundWork::On).then(|| joining::settle(&membership));
        Ok(Self {
            store,
            pool,
            journal,
            index,
            kv,
            membership,
            settling: Mutex::new(settling),
            workers: Arc::new(workers),
            looking: Mutex::default(),
            worked: work == BackgroundWork::On,
        })
    }

    /// The loss that [`Engine::open`] would cause with [`JournalConfig::accept_loss`]; `None` when
    /// it opens without loss. Changes nothing.
    ///
    /// # Errors
    /// Problems that prevent an opening even if the loss is accepted.
    pub async fn loss(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
    ) -> Result<Option<LossReport>> {
        let members = folders.members(dewar, config);
        let disks: Vec<_> = members
            .into_iter()
            .map(|(member, _)| (member.id, member.disk))
            .collect();
        let found = Journal::loss(env.clone(), disks.clone(), config.journal.clone()).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        // Without a catalog nothing would be gained, and the disks that have it given up.
        let index = RunIndex::probe(disks, &config.index(dewar)).await;
        match loss_report::catalog_trouble(&found, &index) {
            Some(why) => Err(Error::new(dewar_types::ErrorKind::Unavailable, why)),
            None => Ok(Some(loss_report::report(
                dewar,
                config.pool,
                &found,
                folders,
            ))),
        }
    }

    /// The verbs.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The disks.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The disks that belong to the pool, and the calls to change them.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// The background work.
    #[must_use]
    pub const fn workers(&self) -> &Arc<WorkerRegistry> {
        &self.workers
    }

    /// The log below everything.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The catalog's index.
    #[must_use]
    pub fn index(&self) -> &Arc<RunIndex> {
        &self.index
    }

    /// Finishes background work and closes the catalog and the journal, waiting for disks up to
    /// `patience`. Acknowledged writes are durable whether or not this is called or succeeds.
    ///
    /// # Errors
    /// If the catalog was not closed cleanly, which makes the next opening longer.
    pub async fn close(&self, patience: Duration) -> Result<()> {
        self.looking.lock().await.take();
        self.settling.lock().await.take();
        self.workers.stop().await;
        let closed = self.kv.close(patience).await;
        self.index.stop().await;
        closed
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
