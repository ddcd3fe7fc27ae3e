//! The seam between the process and what it serves: the process knows how to listen, to stop and
//! to be administered, the engine how to store.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use crate::admin::{
    AdminApi, AdminError, CatalogInfo, DiskInfo, DoorStatus, RebuildRequest, RestoreRequest,
};
use crate::config::Config;
use crate::health::HealthIssue;
use crate::listener::{BoxError, Front, ListenerMetrics, SocketFront};
use crate::metrics::{Metrics, Readiness};
use crate::tls::Tls;

/// Names a loss ([`dewar_store::engine::LossReport::code`]), as an administrator types it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossCode(u32);

impl std::str::FromStr for LossCode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.replacen('-', "", 1);
        let code = u32::from_str_radix(&digits, 16).ok();
        code.filter(|_| digits.len() == 8)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no code: it looks like 1b4f-07a5"))
    }
}

impl std::fmt::Display for LossCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}-{:04x}", self.0 >> 16, self.0 & 0xffff)
    }
}

/// What the engine is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve: all background work runs.
    Serve,
    /// The same, although acknowledged writes may be lost by it (`--accept-loss`), if that is the loss
    /// which was consented to.
    AcceptLoss(Option<LossCode>),
    /// For one admin command while no server runs: no background work, and a pool that was never
    /// formatted stays so.
    Administer,
}

impl Purpose {
    /// Whether clients will be served.
    #[must_use]
    pub fn serves(self) -> bool {
        self != Self::Administer
    }
}

/// The doors, for administrators.
#[derive(Clone)]
pub struct Doors {
    /// Where they are listened on.
    pub list: Vec<DoorStatus>,
    /// Says what is wrong now with what they depend on.
    pub troubles: Arc<dyn Fn() -> Vec<HealthIssue> + Send + Sync>,
}

impl Default for Doors {
    /// None.
    fn default() -> Self {
        Self {
            list: Vec::new(),
            troubles: Arc::new(Vec::new),
        }
    }
}

/// An open store with the fronts on it.
#[async_trait]
pub trait ServedStore: Send + Sync + 'static {
    /// The S3 door.
    type S3: Front;

    /// The S3 door.
    fn s3(&self) -> Self::S3;

    /// The XRootD door, which encrypts with `tls`, if there is one. The process listens on `listeners`.
    fn xrootd(
        &self,
        _tls: Option<Arc<Tls>>,
        _metrics: ListenerMetrics,
        _listeners: Vec<SocketAddr>,
    ) -> Option<Arc<dyn SocketFront>> {
        None
    }

    /// What administrators ask. They are told of `doors`.
    fn admin(&self, doors: Doors) -> Arc<dyn AdminApi>;

    /// Whether requests can be served now. Must not block.
    fn readiness(&self) -> Readiness;

    /// Makes sure that `bucket` exists; a new one belongs to `owner`.
    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError>;

    /// Finishes background work and closes the disks. Every front has stopped before; what was
    /// acknowledged is durable whether or not this is called.
    async fn close(&self);
}

/// Opens the store that a configuration describes. The caller holds the lock of the state folder.
pub trait OpenEngine: Sync {
    /// What it opens.
    type Engine: ServedStore;

    /// Opens it: recovery included, so that it serves when this returns.
    ///
    /// # Errors
    /// What stands in the way, with the path it is about and what to do.
    fn open(
        &self,
        config: &Config,
        purpose: Purpose,
        metrics: &Metrics,
    ) -> impl Future<Output = Result<Self::Engine, BoxError>> + Send;

    /// Puts a new disk in `folder` in the place of the lost disk that `old` names, if the store does not open
    /// because too few disks are left; otherwise does nothing. The caller holds the lock.
    ///
    /// # Errors
    /// What stands in the way; that there are still too few.
    fn replace_lost(
        &self,
        _config: &Config,
        _old: &str,
        _folder: &Path,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        std::future::ready(Ok(()))
    }

    /// What can be said of the folders while the store does not open: which of them hold disks of the pool. The
    /// caller holds the lock.
    fn look_at_folders(&self, _config: &Config) -> impl Future<Output = Vec<DiskInfo>> + Send {
        std::future::ready(Vec::new())
    }

    /// Makes the catalog whole again out of what the disks have of it. The caller holds the lock.
    ///
    /// # Errors
    /// What would be lost if that was not accepted; what stands in the way.
    fn rebuild(
        &self,
        _config: &Config,
        _wish: RebuildRequest,
    ) -> impl Future<Output = Result<CatalogInfo, BoxError>> + Send {
        std::future::ready(Err("this store has no catalog of its own".into()))
    }

    /// Puts a backup in place of the catalog. The caller holds the lock.
    ///
    /// # Errors
    /// Which file of the backup is damaged; what stands in the way.
    fn restore(
        &self,
        _config: &Config,
        _wish: RestoreRequest,
    ) -> impl Future<Output = Result<CatalogInfo, BoxError>> + Send {
        std::future::ready(Err("this store has no catalog of its own".into()))
    }
}
