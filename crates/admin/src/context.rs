//! The parts of a server that commands of administrators work on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dewar_audit::AuditLog;
use dewar_disks::pool::Pool;
use dewar_env::Env;
use dewar_env::worker::WorkerRegistry;
use dewar_iam::FetchKeys;
use dewar_journal::Journal;
use dewar_store::Store;
use dewar_transfer::TransferRegistry;

use crate::backup_admin::BackupAdmin;
use crate::command::{AdminCommand, AdminRequest};
use crate::disk_changes::DiskChanges;
use crate::error::{AdminError, Failure, Result};
use crate::key_file_admin::KeyFileAdmin;
use crate::status::Doors;
use crate::upkeep_admin::UpkeepAdmin;

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
///
/// # Errors
/// The JSON is no reply to this command.
pub fn read_reply<C: AdminCommand>(json: Vec<u8>) -> Result<C::Reply> {
    let json = zeroize::Zeroizing::new(json);
    C::parse_reply(&json)
        .map_err(|error| AdminError::new(Failure::Internal, format!("a strange reply: {error}")))
}

/// An open store and the parts around it.
pub struct AdminContext {
    /// Clock and random numbers.
    pub env: Env,
    /// Time at which the process began to serve, by the clock that never jumps.
    pub started: Duration,
    /// The zone of the server.
    pub zone: u16,
    /// The region for which S3 clients sign.
    pub region: String,
    /// Third-party copies.
    pub transfers: Arc<TransferRegistry>,
    /// The doors of the server.
    pub doors: Doors,
    /// The store.
    pub store: Store,
    /// Its pool.
    pub pool: Arc<Pool>,
    /// Its journal.
    pub journal: Journal,
    /// Changes of its disks.
    pub changes: DiskChanges,
    /// The reports about its disks, and the upkeep of their content.
    pub upkeep: UpkeepAdmin,
    /// Its backups.
    pub backups: BackupAdmin,
    /// The file of its master key.
    pub key_file: KeyFileAdmin,
    /// Fetches the keys of token issuers.
    pub web_keys: Arc<dyn FetchKeys>,
    /// The log that records requests.
    pub audit: Arc<AuditLog>,
    /// The background work.
    pub workers: Arc<WorkerRegistry>,
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
