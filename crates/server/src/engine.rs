//! The seam between the process and the engine. The process listens, stops and is administered. The
//! engine stores.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use dewar_admin::catalog::{CatalogInfo, RebuildRequest, RestoreRequest};
use dewar_admin::disks::DiskInfo;
use dewar_admin::status::Doors;
use dewar_admin::{AdminApi, AdminError};
use dewar_auth::Secret;

use crate::config::Config;
use crate::listener::{BoxError, ListenerSpec};
use crate::metrics::{Metrics, Readiness};

/// The code of a loss ([`dewar_engine::LossReport::code`]), as an administrator types it.
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

/// The purpose of opening the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To serve: all background work runs.
    Serve,
    /// The same, although acknowledged writes may be lost (`--accept-loss`), if it is the loss that
    /// was consented to.
    AcceptLoss(Option<LossCode>),
    /// For one admin command while no server runs: no background work, and a pool that was never
    /// formatted is not formatted.
    Administer,
}

impl Purpose {
    /// Whether clients will be served.
    #[must_use]
    pub fn serves(self) -> bool {
        self != Self::Administer
    }
}

/// An open store with the fronts on it.
#[async_trait]
pub trait ServedStore: Sized + Send + Sync + 'static {
    /// The listeners of a configuration, with the fronts that they carry.
    fn listeners(config: &Config) -> Vec<ListenerSpec<Self>>;

    /// The admin API of this engine. It reports `doors`.
    fn admin(&self, doors: Doors) -> Arc<dyn AdminApi>;

    /// Takes up the live keys of a configuration that was reloaded.
    fn take_up(&self, _config: &Config) {}

    /// Whether requests can be served now. Must not block.
    fn readiness(&self) -> Readiness;

    /// Makes sure that `bucket` exists; a new one belongs to `owner`.
    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError>;

    /// A macaroon for all that `user` may do, valid for as long as macaroons can be.
    async fn macaroon(&self, user: &str) -> Result<Secret, AdminError>;

    /// Ends requests that take long and whose clients can be told so. The front stops soon.
    fn end_long_requests(&self) {}

    /// Finishes background work and closes the disks. Every front has stopped before. Acknowledged
    /// writes are durable whether or not this is called.
    async fn close(&self);
}

/// Opens the store that a configuration describes. The caller holds the lock of the state folder.
pub trait OpenEngine: Sync {
    /// The engine that it opens.
    type Engine: ServedStore;

    /// Opens the engine. Recovery is complete when this returns.
    ///
    /// # Errors
    /// The problem, with its path and the action to take.
    fn open(
        &self,
        config: &Config,
        purpose: Purpose,
        metrics: &Metrics,
    ) -> impl Future<Output = Result<Self::Engine, BoxError>> + Send;

    /// Replaces the lost disk `old` by a new disk in `folder`, if the store does not open because
    /// too few disks are left. Otherwise does nothing. The caller holds the lock.
    ///
    /// # Errors
    /// The problem, or that too few disks are left even so.
    fn replace_lost(
        &self,
        _config: &Config,
        _old: &str,
        _folder: &Path,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Information about the folders while the store does not open, such as the disks of the pool
    /// that they hold. The caller holds the lock.
    fn look_at_folders(&self, _config: &Config) -> impl Future<Output = Vec<DiskInfo>> + Send {
        std::future::ready(Vec::new())
    }

    /// Rebuilds the catalog from the data on the disks. The caller holds the lock.
    ///
    /// # Errors
    /// The possible loss if it was not accepted; other problems.
    fn rebuild(
        &self,
        _config: &Config,
        _wish: RebuildRequest,
    ) -> impl Future<Output = Result<CatalogInfo, BoxError>> + Send {
        std::future::ready(Err("this store has no catalog of its own".into()))
    }

    /// Restores the catalog from a backup. The caller holds the lock.
    ///
    /// # Errors
    /// The damaged file of the backup; other problems.
    fn restore(
        &self,
        _config: &Config,
        _wish: RestoreRequest,
    ) -> impl Future<Output = Result<CatalogInfo, BoxError>> + Send {
        std::future::ready(Err("this store has no catalog of its own".into()))
    }
}
