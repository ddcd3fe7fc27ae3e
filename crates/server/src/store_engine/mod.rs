//! The engine that this process serves: disks, journal, catalog, blobs and the store on them.
//!
//! # Opening
//! The disks that are there are looked at first; nothing is written before all of them are known
//! to be ours. A pool is formatted only on the very first start: every configured folder is there
//! and blank, and the state folder has no record of a pool ([`birth`]). Then: master key, journal
//! (which decides whether enough disks are there), catalog index, catalog, segments, store, and
//! the background work.
//!
//! # Closing
//! Background work ends, the catalog is fed to its index, the journal notes that it is complete.
//! A crash instead costs the next start the replay of the journal, nothing else.

mod admin;
mod birth;
mod disks;
mod door;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dewar_auth::{Caller, MasterKeys};
use dewar_data::blob::BlobStore;
use dewar_data::pool::Pool;
use dewar_data::segment::{SegmentTable, Segments};
use dewar_env::Env;
use dewar_journal::{Hold, Journal, JournalConfig, JournalState};
use dewar_meta::index::Index;
use dewar_meta::index::runs::{RunConfig, RunIndex};
use dewar_meta::kv::Kv;
use dewar_meta::kv::embedded::{EmbeddedConfig, EmbeddedKv};
use dewar_meta::ns::Tree;
use dewar_s3::DoorConfig;
use dewar_store::api::BucketRef;
use dewar_store::workers::Workers;
use dewar_store::{BlobTable, JournalHold, Parts, Store};
use dewar_types::{BucketName, Error, ErrorKind};
use tokio::sync::Mutex;

use crate::admin::{AdminApi, AdminError};
use crate::config::Config;
use crate::engine::{Engine, OpenEngine, Purpose};
use crate::listener::BoxError;
use crate::master_key::{self, PoolKey};
use crate::metrics::{Metrics, Readiness};

pub use door::S3Front;

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// The journal counts as filling up when this part of its files is in use.
const PRESSED_PART: (usize, usize) = (1, 2);

/// Opens [`StoreEngine`]s.
pub struct OpenStore {
    /// Clock and randomness.
    pub env: Env,
}

/// An open store.
pub struct StoreEngine {
    env: Env,
    config: Config,
    journal: Journal,
    kv: EmbeddedKv,
    index: Arc<RunIndex>,
    pool: Arc<Pool>,
    folders: Arc<disks::Folders>,
    store: Store,
    workers: Mutex<Option<Workers>>,
    front: S3Front,
}

/// The journal's hold for small objects.
struct SegmentHold {
    journal: Journal,
    hold: Hold,
}

impl JournalHold for SegmentHold {
    fn last_seq(&self) -> u64 {
        self.journal.last_seq()
    }

    fn release(&self, seq: u64) {
        self.hold.advance(seq);
    }

    fn pressed(&self) -> bool {
        let status = self.journal.status();
        status.files * PRESSED_PART.1 > status.files_max * PRESSED_PART.0
    }
}

impl OpenStore {
    /// With the operating system's clock and randomness.
    #[must_use]
    pub fn real() -> Self {
        Self { env: Env::real() }
    }
}

/// What everything else stands on.
struct Ground {
    folders: Arc<disks::Folders>,
    pool: Arc<Pool>,
    master: Arc<MasterKeys>,
    /// Disks that may be lost.
    m: usize,
}

impl OpenStore {
    /// Looks at the disks, makes the pool if this is its very first start, finds the master key.
    async fn ground(&self, config: &Config, purpose: Purpose) -> Result<Ground, BoxError> {
        let env = &self.env;
        let mut folders = Arc::new(disks::Folders::open(config).await?);
        let layout = config.layout();
        let m = usize::from(layout.m);
        let birth = birth::find(config, &folders, purpose)?;
        let key_file = config.master_key_file();
        let made = birth.makes_pool();
        let pool_key = if birth.is_fresh() {
            PoolKey::Fresh
        } else {
            PoolKey::Existing(birth.key())
        };
        let master = master_key::open(&key_file, &config.pool.disks, pool_key, &*env.rng)?;
        let master = Arc::new(master);
        let born = birth.finish(env, config, &folders, &master, m).await?;

        if made {
            // Blank folders have become disks.
            folders = Arc::new(disks::Folders::open(config).await?);
        }
        let pool = Arc::new(Pool::new(
            env.clone(),
            born.dewar,
            0,
            layout,
            folders.members(born.dewar)?,
        )?);
        Ok(Ground {
            folders,
            pool,
            master,
            m,
        })
    }
}

impl OpenEngine for OpenStore {
    type Engine = StoreEngine;

    async fn open(
        &self,
        config: &Config,
        purpose: Purpose,
        metrics: &Metrics,
    ) -> Result<StoreEngine, BoxError> {
        let env = &self.env;
        let Ground {
            folders,
            pool,
            master,
            m,
        } = self.ground(config, purpose).await?;
        let journal_disks = pool
            .members()
            .map(|member| (member.id, Arc::clone(&member.disk)))
            .collect::<Vec<_>>();
        let (journal, recovery) =
            Journal::open(env.clone(), journal_disks.clone(), JournalConfig::new(m)).await?;
        let run_config = RunConfig::new(m + 1, pool.dewar().0);
        let index = Arc::new(RunIndex::open(env.clone(), journal_disks, run_config).await?);
        // Taken before recovery lets go of the records, which the segments may still need.
        let hold = journal.hold("segments", recovery.floor());
        let mut carries = Vec::new();
        let kv = EmbeddedKv::open(
            journal.clone(),
            recovery,
            Arc::clone(&index) as Arc<dyn Index>,
            EmbeddedConfig::default(),
            |seq, carry| carries.push((seq, carry)),
        )
        .await?;
        let seam: Arc<dyn Kv> = Arc::new(kv.clone());
        let tree = Arc::new(Tree::open(Arc::clone(&seam), env.clone(), config.server.zone).await?);
        let blobs = Arc::new(BlobStore::new(Arc::clone(&pool)));
        let table = Arc::new(BlobTable::new(
            env.clone(),
            Arc::clone(&seam),
            Arc::clone(&tree),
            Arc::new(SegmentHold {
                journal: journal.clone(),
                hold,
            }),
        ));
        let segments = Segments::new(
            Arc::clone(&blobs),
            Arc::clone(&table) as Arc<dyn SegmentTable>,
        );
        for (seq, carry) in carries {
            segments.restore(
                seq,
                carry.segment,
                carry.offset,
                carry.bytes.concat().into(),
            );
        }
        segments.restored().await?;
        // The first id of this opening: whatever is older and unnamed is a leftover.
        let first_new = tree.ids().blob().await?;
        let small = u32::try_from(config.pool.small_object_threshold.0).unwrap_or(u32::MAX);
        let store = Store::new(Parts {
            env: env.clone(),
            kv: seam,
            tree,
            blobs,
            segments,
            table,
            master,
            small_bytes_max: small,
        });
        let workers = (purpose == Purpose::Serve).then(|| Workers::start(&store, first_new));
        let front = S3Front::new(
            store.clone(),
            env.clone(),
            DoorConfig {
                region: config.s3.region.clone(),
                domains: config.s3.domains.clone(),
            },
        );
        metrics::register(metrics, &store, &journal, &pool, &folders);
        Ok(StoreEngine {
            env: env.clone(),
            config: config.clone(),
            journal,
            kv,
            index,
            pool,
            folders,
            store,
            workers: Mutex::new(workers),
            front,
        })
    }
}

#[async_trait]
impl Engine for StoreEngine {
    type S3 = S3Front;

    fn s3(&self) -> S3Front {
        self.front.clone()
    }

    fn admin(&self) -> Arc<dyn AdminApi> {
        Arc::new(admin::StoreAdmin::new(
            self.env.clone(),
            &self.config,
            self.store.clone(),
            Arc::clone(&self.pool),
            Arc::clone(&self.folders),
            self.journal.clone(),
        ))
    }

    fn readiness(&self) -> Readiness {
        match self.journal.status().state {
            JournalState::Running | JournalState::Changing => Readiness::Ready,
            JournalState::Stalled(why) => Readiness::NotReady(why),
            JournalState::ReadOnly => Readiness::NotReady("read only".to_owned()),
            JournalState::Closed => Readiness::NotReady("closed".to_owned()),
        }
    }

    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError> {
        let user = self.store.accounts().user(owner).await?;
        let name = BucketName::new(bucket).map_err(Error::from)?;
        let made = self
            .store
            .create_bucket(&Caller::for_user(user), &BucketRef::own(name))
            .await;
        match made {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyOwned => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn close(&self) {
        if let Some(workers) = self.workers.lock().await.take() {
            workers.stop().await;
        }
        if let Err(error) = self.kv.close(CLOSE_PATIENCE).await {
            tracing::warn!(%error, "the catalog was not closed cleanly; the next start takes longer");
        }
        self.index.stop().await;
    }
}
