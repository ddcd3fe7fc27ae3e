//! The master key file while the store is open: rotating, retiring and exporting keys.
//!
//! The file on the disk always has every key that is in use. A new key is in it before it encrypts
//! anything. An old key is removed when no record under it is found any more. So a crash at any
//! moment loses nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dewar_auth::{AgeRecipient, MasterKeyId, age_encrypt};
use dewar_engine::host::{PoolStateFile, master_key_file};
use dewar_env::Env;
use dewar_store::Store;
use dewar_types::Timestamp;

use crate::key_file::MasterKeyInfo;
use crate::time_text::rfc3339;
use crate::{AdminError, Failure, Result};

/// No session and no macaroon lasts longer.
const SESSIONS_END: Duration = Duration::from_secs(24 * 3600);

/// Changes the master key file, one change at a time.
#[derive(Clone)]
pub struct KeyFileAdmin {
    env: Env,
    store: Store,
    path: PathBuf,
    /// Time after a replacement when no write with the old key can be in progress: such writes have
    /// been committed or given up by then.
    settle_time: Duration,
    roster: Arc<PoolStateFile>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

fn after(time: Timestamp, rest: Duration) -> Timestamp {
    Timestamp(
        time.0
            .saturating_add(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX)),
    )
}

impl KeyFileAdmin {
    /// The file `path` of an open store. Writes with a replaced key end within `settle_time`.
    pub fn new(
        env: Env,
        path: PathBuf,
        settle_time: Duration,
        store: Store,
        roster: Arc<PoolStateFile>,
    ) -> Self {
        Self {
            env,
            store,
            path,
            settle_time,
            roster,
            turn: Arc::default(),
        }
    }

    /// The keys in the file.
    pub(crate) async fn list(&self) -> Result<Vec<MasterKeyInfo>> {
        let infos = self.store.master_key_infos().await?;
        let info = |info: dewar_store::MasterKeyInfo| {
            let state = match (info.replaced, info.done) {
                (None, _) => "current",
                (Some(_), false) => "wraps still",
                (Some(_), true) => "replaced",
            };
            let end = |at: Timestamp| rfc3339(after(at, SESSIONS_END));
            MasterKeyInfo {
                id: info.id.to_string(),
                state: state.to_owned(),
                replaced: info.replaced.map(rfc3339),
                sessions_end: info.replaced.map(end),
            }
        };
        Ok(infos.into_iter().map(info).collect())
    }

    /// Makes a new current key. Its caller must be a task that outlives the administrator's connection.
    pub(crate) async fn rotate(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let keys = self.store.master_keys();
        let next = keys
            .with_new(&*self.env.rng)
            .map_err(|error| AdminError::new(Failure::Invalid, error.to_string()))?;
        self.replace(&next)?;
        self.store.master_keys_changed().await?;
        tracing::info!(key = %next.current(), "the master key was replaced; take a copy of its file");
        Ok(())
    }

    /// Writes the file, then uses its keys.
    fn replace(&self, next: &dewar_auth::MasterKeys) -> Result<()> {
        let keys = self.store.master_keys();
        master_key_file::replace(&self.path, keys, next)
            .map_err(|error| AdminError::new(Failure::Unavailable, error.to_string()))?;
        keys.take_up(next);
        Ok(self.roster.note_master_key(next.current())?)
    }

    /// Takes a key that was replaced out of the file.
    pub(crate) async fn retire(&self, id: &str, end_sessions: bool) -> Result<()> {
        let _turn = self.turn.lock().await;
        let unknown = || AdminError::new(Failure::NotFound, format!("there is no master key {id}"));
        let wanted: MasterKeyId = id.parse().map_err(|_| unknown())?;
        let infos = self.store.master_key_infos().await?;
        let info = infos.iter().find(|info| info.id == wanted);
        let info = info.ok_or_else(unknown)?;
        let Some(replaced) = info.replaced else {
            let why = "it wraps; `dewar key-file rotate` replaces it";
            return Err(AdminError::new(Failure::Invalid, why));
        };
        if !info.done {
            let why = "something is wrapped under it still; `dewar key-file list` says when not";
            return Err(AdminError::new(Failure::InUse, why));
        }
        let rest = match end_sessions {
            true => self.settle_time,
            false => SESSIONS_END,
        };
        let from = after(replaced, rest);
        if self.env.clock.now() < from {
            let what = match end_sessions {
                true => "what is being written under it",
                false => "sessions under it (--end-sessions ends them)",
            };
            let why = format!("{what} may last until {}", rfc3339(from));
            return Err(AdminError::new(Failure::InUse, why));
        }
        let still = self.store.old_key_needed(wanted).await?;
        if still != dewar_store::PendingRewraps::default() {
            let why = format!(
                "wrapped under it are still {} access keys, {} versions of objects and {} uploads",
                still.access_keys, still.versions, still.uploads
            );
            return Err(AdminError::new(Failure::InUse, why));
        }
        let next = self.store.master_keys().without(wanted);
        self.replace(&next.ok_or_else(unknown)?)?;
        self.store.master_keys_changed().await?;
        tracing::info!(key = %wanted, "the master key was retired");
        Ok(())
    }

    /// The file, encrypted to each of the recipients.
    pub(crate) fn export(&self, recipients: &[String]) -> Result<String> {
        let invalid =
            |error: dewar_auth::AgeError| AdminError::new(Failure::Invalid, error.to_string());
        let parsed: std::result::Result<Vec<AgeRecipient>, _> =
            recipients.iter().map(|text| text.trim().parse()).collect();
        let text = self.store.master_keys().to_text();
        age_encrypt(&*self.env.rng, &parsed.map_err(invalid)?, text.as_bytes()).map_err(invalid)
    }
}
