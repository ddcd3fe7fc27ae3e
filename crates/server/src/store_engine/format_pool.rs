//! The creation of a pool, which happens only once.
//!
//! The state folder records it ([`super::pool_state_file`]): the deployment, whether formatting has ended,
//! and the id of the master key. While formatting has not ended there can be no data, so after a
//! crash in the middle it is repeated. Once it has ended, blank folders always count as missing
//! disks. So an unmounted mount point never receives data.

use dewar_auth::{MasterKeyId, MasterKeys};
use dewar_disks::pool::DewarId;
use dewar_engine::{Engine, EngineConfig, Folder, FolderContent, Folders};
use dewar_env::Env;
use dewar_types::{Error, ErrorKind, Result};

use super::pool_state_file::{self, PoolState};
use super::space;
use crate::config::Config;
use crate::engine::Purpose;

/// The state of the pool, by its disks and the state folder.
pub(super) enum FormatState {
    /// Nothing was ever here.
    Fresh,
    /// Formatting began and did not end.
    Unfinished(DewarId, MasterKeyId),
    /// The pool exists; its key as far as it is known.
    Done(DewarId, Option<MasterKeyId>),
}

/// A pool that exists.
pub(super) struct FormattedPool {
    pub(super) dewar: DewarId,
}

/// Determines whether there is a pool.
///
/// # Errors
/// [`ErrorKind::NotFound`] when there is none and none may be made.
pub(super) fn find(config: &Config, folders: &Folders, purpose: Purpose) -> Result<FormatState> {
    let path = pool_state_file::path(config);
    if let Some(file) = pool_state_file::read(&path)? {
        let dewar = u128::from_str_radix(&file.dewar, 16).map(DewarId);
        let (Ok(dewar), Ok(key)) = (dewar, file.master_key.parse::<MasterKeyId>()) else {
            let message = format!("{} is damaged", path.display());
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        return Ok(match file.formatted {
            true => FormatState::Done(dewar, Some(key)),
            false => FormatState::Unfinished(dewar, key),
        });
    }
    if let Some(dewar) = folders.known()? {
        return Ok(FormatState::Done(dewar, None));
    }
    let refuse = |why: String| Err(Error::new(ErrorKind::NotFound, why));
    if let Some(Folder {
        label,
        content: FolderContent::Absent(error),
        ..
    }) = folders
        .all
        .iter()
        .find(|folder| matches!(folder.content, FolderContent::Absent(_)))
    {
        return refuse(format!(
            "{label}: {error}. A pool is made only when all of its disks are there"
        ));
    }
    if folders.all.is_empty() {
        return refuse("pool.disks names no disk".to_owned());
    }
    if !purpose.serves() {
        return refuse("there is no pool yet: it is made when the server starts".to_owned());
    }
    Ok(FormatState::Fresh)
}

impl FormatState {
    /// Whether secrets may still get a new master key.
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh)
    }

    /// Whether [`FormatState::finish`] will format disks.
    pub(super) fn makes_pool(&self) -> bool {
        !matches!(self, Self::Done(..))
    }

    /// The master key that the pool is known to have.
    pub(super) fn key(&self) -> Option<MasterKeyId> {
        match self {
            Self::Fresh => None,
            Self::Unfinished(_, key) => Some(*key),
            Self::Done(_, key) => *key,
        }
    }

    /// Makes the pool if it is not there yet.
    pub(super) async fn finish(
        self,
        env: &Env,
        config: &Config,
        engine: &EngineConfig,
        folders: &Folders,
        master: &MasterKeys,
    ) -> Result<FormattedPool> {
        let path = pool_state_file::path(config);
        let file = |dewar: DewarId, formatted| PoolState {
            dewar: dewar.to_string(),
            formatted,
            master_key: master.current().to_string(),
            disks: Vec::new(),
        };
        let dewar = match self {
            Self::Done(dewar, known) => {
                if known.is_none() {
                    pool_state_file::write(&path, &file(dewar, true))?;
                }
                return Ok(FormattedPool { dewar });
            }
            Self::Unfinished(dewar, _) => dewar,
            Self::Fresh => DewarId(env.rng.u128()),
        };
        space::check(config, engine, folders).await?;
        pool_state_file::write(&path, &file(dewar, false))?;
        Engine::format(env, engine, dewar, folders).await?;
        pool_state_file::write(&path, &file(dewar, true))?;
        tracing::info!(dewar = %dewar, disks = folders.all.len(), "a new pool was made");
        Ok(FormattedPool { dewar })
    }
}
