//! The parts of a server that commands of administrators work on.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use dewar_audit::AuditLog;
use dewar_disks::pool::Pool;
use dewar_env::Env;
use dewar_env::worker::WorkerRegistry;
use dewar_journal::Journal;
use dewar_store::Store;

use super::command::{AdminCommand, AdminRequest};
use super::envelope::from_envelope;
use super::error::{AdminError, Failure, Result};
use crate::engine::Doors;
use crate::issuers::WebKeys;
use crate::store_engine::{BackupAdmin, DiskChanges, KeyFile, UpkeepAdmin};

/// Carries requests of administrators out.
#[async_trait]
pub trait AdminApi: Send + Sync {
    /// The log that records requests; `None` if nothing is recorded.
    fn audit(&self) -> Option<&AuditLog> {
        None
    }

    /// Carries a request out, and returns the reply as JSON.
    async fn run(&self, request: Box<dyn AdminRequest>) -> Result<Vec<u8>>;
}

impl dyn AdminApi {
    /// Carries a command out without a record in the audit log.
    ///
    /// # Errors
    /// As the command.
    pub async fn ask<C: AdminCommand>(&self, command: C) -> Result<C::Reply> {
        read_reply::<C>(self.run(Box::new(command)).await?)
    }
}

/// Reads the reply to a command. The JSON may contain a secret and is wiped.
pub(crate) fn read_reply<C: AdminCommand>(json: Vec<u8>) -> Result<C::Reply> {
    let json = zeroize::Zeroizing::new(json);
    from_envelope(C::SPEC.reply, &json)
        .map_err(|error| AdminError::new(Failure::Internal, format!("a strange reply: {error}")))
}

/// An open store and the parts around it.
pub struct AdminContext {
    pub(crate) env: Env,
    /// Time at which the process began to serve, by the clock that never jumps.
    pub(crate) started: Duration,
    pub(crate) zone: u16,
    pub(crate) region: String,
    /// Third-party copies that are under way.
    pub(crate) copies: Arc<AtomicU64>,
    pub(crate) doors: Doors,
    pub(crate) store: Store,
    pub(crate) pool: Arc<Pool>,
    pub(crate) journal: Journal,
    pub(crate) changes: DiskChanges,
    pub(crate) upkeep: UpkeepAdmin,
    pub(crate) backups: BackupAdmin,
    pub(crate) key_file: KeyFile,
    pub(crate) web_keys: WebKeys,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) workers: Arc<WorkerRegistry>,
}

#[async_trait]
impl AdminApi for AdminContext {
    fn audit(&self) -> Option<&AuditLog> {
        Some(&self.audit)
    }

    async fn run(&self, request: Box<dyn AdminRequest>) -> Result<Vec<u8>> {
        request.run(self).await
    }
}
