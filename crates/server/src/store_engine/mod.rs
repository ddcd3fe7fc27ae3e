//! The engine that this process serves: disks, journal, catalog, blobs and the store on them.
//!
//! Here is what is about configuration files, administrators and the door; how disks become a store
//! is [`dewar_store::engine`]. The disks that are there are looked at first; nothing is written
//! before all of them are known to be ours. A pool is formatted only on the very first start: every
//! configured folder is there and blank, and the state folder has no record of a pool ([`birth`]).

mod admin;
mod birth;
mod catalog;
mod disks;
mod door;
mod identity;
mod metrics;
mod room;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dewar_auth::{Caller, MasterKeyId, MasterKeys, Ownership};
use dewar_data::pool::DewarId;
use dewar_env::Env;
use dewar_journal::JournalState;
use dewar_s3::DoorConfig;
use dewar_store::api::BucketRef;
use dewar_store::engine::{self, EngineConfig, Folders, LiveFolders, Work};
use dewar_store::lifecycle::LifecycleConfig;
use dewar_store::upkeep::UpkeepConfig;
use dewar_types::{BucketName, Error, ErrorKind};

use crate::admin::{AdminApi, AdminError, CatalogInfo, RebuildWish, RestoreWish};
use crate::config::Config;
use crate::engine::{Engine, OpenEngine, Purpose};
use crate::listener::BoxError;
use crate::master_key::{self, PoolKey};
use crate::metrics::{Metrics, Readiness};

pub use door::S3Front;

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// Opens [`StoreEngine`]s.
pub struct OpenStore {
    /// Clock and randomness.
    pub env: Env,
}

/// An open store.
pub struct StoreEngine {
    env: Env,
    config: Config,
    master_key: MasterKeyId,
    engine: engine::Engine,
    folders: Arc<LiveFolders>,
    front: S3Front,
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
    folders: Folders,
    dewar: DewarId,
    master: Arc<MasterKeys>,
    engine: EngineConfig,
}

impl OpenStore {
    /// Looks at the disks, makes the pool if this is its very first start, finds the master key.
    async fn ground(&self, config: &Config, purpose: Purpose) -> Result<Ground, BoxError> {
        let env = &self.env;
        let mut folders = disks::look(config).await;
        let small = config.pool.small_object_threshold.0;
        let engine = EngineConfig {
            zone: config.server.zone,
            small_bytes_max: u32::try_from(small).unwrap_or(u32::MAX),
            upkeep: UpkeepConfig {
                repair_busy: config.upkeep.repair_rate.0,
                repair_idle: config.upkeep.repair_rate_idle.0,
                scrub_busy: config.upkeep.scrub_rate.0,
                scrub_idle: config.upkeep.scrub_rate_idle.0,
                scrub_every: config.upkeep.scrub_interval,
                out_after: config.upkeep.rebuild_after,
            },
            lifecycle: LifecycleConfig {
                day: config.lifecycle.day,
                classes: config.lifecycle.storage_classes.iter().cloned().collect(),
            },
            ownership: Ownership::parse(&config.s3.object_ownership).unwrap_or_default(),
            ..EngineConfig::new(config.layout())
        };
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
        let born = birth
            .finish(env, config, &engine, &folders, &master)
            .await?;
        if made {
            // Blank folders have become disks.
            folders = disks::look(config).await;
        }
        Ok(Ground {
            folders,
            dewar: born.dewar,
            master,
            engine,
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
        let ground = self.ground(config, purpose).await?;
        let work = match purpose {
            Purpose::Serve => Work::On,
            Purpose::Administer => Work::Off,
        };
        let engine = engine::Engine::open(
            env,
            &ground.engine,
            ground.dewar,
            &ground.folders,
            Arc::clone(&ground.master),
            work,
        )
        .await?;
        if let Some(rebuilt) = engine.store().rebuilt().await? {
            tracing::warn!(
                source = rebuilt.source,
                upto = rebuilt.upto,
                "the catalog was rebuilt or restored, and what it does not name is kept: stop, and \
                 `dewar catalog rebuild` puts it back, with --discard-unnamed it is given up"
            );
        }
        let front = S3Front::new(
            engine.store().clone(),
            env.clone(),
            DoorConfig {
                region: config.s3.region.clone(),
                domains: config.s3.domains.clone(),
            },
        );
        let folders = LiveFolders::new(ground.folders);
        if purpose == Purpose::Serve {
            let outlook = Arc::new(disks::Configured::new(config));
            engine.keep_looking(Arc::clone(&folders), outlook).await;
        }
        metrics::register(metrics, &engine, &folders);
        Ok(StoreEngine {
            env: env.clone(),
            config: config.clone(),
            master_key: ground.master.current(),
            engine,
            folders,
            front,
        })
    }

    async fn rebuild(&self, config: &Config, wish: RebuildWish) -> Result<CatalogInfo, BoxError> {
        self.rebuild_catalog(config, wish).await
    }

    async fn restore(&self, config: &Config, wish: RestoreWish) -> Result<CatalogInfo, BoxError> {
        self.restore_catalog(config, wish).await
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
            self.master_key,
            &self.engine,
            Arc::clone(&self.folders),
        ))
    }

    fn readiness(&self) -> Readiness {
        match self.engine.journal().status().state {
            JournalState::Running | JournalState::Changing => Readiness::Ready,
            JournalState::Stalled(why) => Readiness::NotReady(why),
            JournalState::ReadOnly => Readiness::NotReady("read only".to_owned()),
            JournalState::Closed => Readiness::NotReady("closed".to_owned()),
        }
    }

    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError> {
        let store = self.engine.store();
        let user = store.accounts().user(owner).await?;
        let name = BucketName::new(bucket).map_err(Error::from)?;
        let made = store
            .create_bucket(&Caller::for_user(user), &BucketRef::own(name))
            .await;
        match made {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyOwned => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn close(&self) {
        if let Err(error) = self.engine.close(CLOSE_PATIENCE).await {
            tracing::warn!(%error, "the catalog was not closed cleanly; the next start takes longer");
        }
    }
}
