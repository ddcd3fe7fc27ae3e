//! The creation of a pool, which happens only once.
//!
//! The state folder records it ([`super::pool_state_file`]): the deployment, whether formatting has ended,
//! and the id of the master key. While formatting has not ended there can be no data, so after a
//! crash in the middle it is repeated. Once it has ended, blank folders always count as missing
//! disks. So an unmounted mount point never receives data.

use std::path::Path;

use dewar_auth::{MasterKeyId, MasterKeys};
use dewar_disks::pool::DewarId;
use dewar_env::Env;
use dewar_types::{Error, ErrorKind, Result};

use super::first_space;
use super::pool_state_file::{self, PoolState};
use crate::{Engine, EngineConfig, Folder, FolderContent, Folders};

/// The state of the pool, by its disks and the state folder.
#[derive(Clone, Copy, Debug)]
pub enum FormatState {
    /// Nothing was ever here.
    Fresh,
    /// Formatting began and did not end.
    Unfinished(DewarId, MasterKeyId),
    /// The pool exists; its key as far as it is known.
    Done(DewarId, Option<MasterKeyId>),
}

/// A pool that exists.
#[derive(Clone, Copy, Debug)]
pub struct FormattedPool {
    /// Its id.
    pub dewar: DewarId,
}

/// Determines whether there is a pool. `may_make` says whether a new one is allowed.
///
/// # Errors
/// [`ErrorKind::NotFound`] when there is none and none may be made; [`ErrorKind::Corrupt`] for a
/// damaged record.
pub fn find(state_dir: &Path, folders: &Folders, may_make: bool) -> Result<FormatState> {
    let path = pool_state_file::path(state_dir);
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
    if !may_make {
        return refuse("there is no pool yet: it is made when the server starts".to_owned());
    }
    Ok(FormatState::Fresh)
}

impl FormatState {
    /// Whether secrets may still get a new master key.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self, Self::Fresh)
    }

    /// Whether [`FormatState::finish`] will format disks.
    #[must_use]
    pub fn makes_pool(&self) -> bool {
        !matches!(self, Self::Done(..))
    }

    /// The master key that the pool is known to have.
    #[must_use]
    pub fn key(&self) -> Option<MasterKeyId> {
        match self {
            Self::Fresh => None,
            Self::Unfinished(_, key) => Some(*key),
            Self::Done(_, key) => *key,
        }
    }

    /// Makes the pool if it is not there yet.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] on disks that are too small; those of the disks and of the state folder.
    pub async fn finish(
        self,
        env: &Env,
        state_dir: &Path,
        engine: &EngineConfig,
        folders: &Folders,
        master: &MasterKeys,
    ) -> Result<FormattedPool> {
        let path = pool_state_file::path(state_dir);
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
        first_space::check(engine, folders).await?;
        pool_state_file::write(&path, &file(dewar, false))?;
        Engine::format(env, engine, dewar, folders).await?;
        pool_state_file::write(&path, &file(dewar, true))?;
        tracing::info!(dewar = %dewar, disks = folders.all.len(), "a new pool was made");
        Ok(FormattedPool { dewar })
    }
}
