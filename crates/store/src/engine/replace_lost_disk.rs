//! A new disk for one that is lost, in a pool that does not open without.
//!
//! A pool of fewer than 2m+1 disks that has lost m of them has everything, and its journal cannot be
//! written: too few disks are left. There the command that puts a new disk in the place of a lost one is
//! given while nothing is open. It declares the old one lost (`dewar_journal`, `epoch`) and makes the new
//! one a disk, which names in its identity whose place it takes. Then [`Engine::open`], told who is
//! lost, begins an epoch with the new one and without the old one. Nothing here weakens the opening rule:
//! all but m members have to be there, and nobody is given up whom no command named.
//!
//! # Crash cases
//! Before the identity is there, nothing has happened; afterwards a disk of the pool is in the folder that
//! is no member, and the same command goes on with it. Once the epoch is confirmed the pool opens as
//! ever, and whatever is left to do follows from the identity ([`super::membership`]).

use std::sync::Arc;

use dewar_data::pool::{DewarId, FolderProbe, Identity, check_blank, format, inspect};
use dewar_env::{Disk, Env};
use dewar_journal::{Journal, QuorumShortage};
use dewar_types::{DiskId, Error, ErrorKind, Result};

use super::folders::{FolderContent, Folders};
use super::prepare::check_room;
use super::{Engine, EngineConfig};

impl Engine {
    /// What is lacking for the pool to open, unless disks are declared lost; `None` when enough are there,
    /// or so few that nothing of that kind opens it: [`Engine::open`] says which. Changes nothing.
    pub async fn shortage(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
    ) -> Option<QuorumShortage> {
        let members = folders.members(dewar, config).into_iter();
        let disks = members.map(|(member, _)| (member.id, member.disk));
        let found = Journal::shortage(env.clone(), disks.collect(), config.journal.clone()).await;
        found.ok().flatten()
    }

    /// Makes `new` a disk that is to take the place of `old`, which is lost and was one of the pool of that
    /// number, in a Dewar that lacks disks.
    /// Gives the members that [`dewar_journal::JournalConfig::lost`] is to name: `old`, and those whose
    /// places the same command has given to other new disks that are no members yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when `old` is not away, and for a disk of another deployment;
    /// [`ErrorKind::AlreadyExists`] for a folder that is not blank and not of the same command before,
    /// [`ErrorKind::NoSpace`] for one that is too small, [`ErrorKind::Unavailable`] when it cannot be written.
    pub async fn prepare_successor(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
        shortage: &QuorumShortage,
        (old, pool): (DiskId, u16),
        new: &Arc<dyn Disk>,
    ) -> Result<Vec<DiskId>> {
        let label = new.label();
        if !shortage.away.contains(&old) {
            let message = format!("disk {old} is not one of those that are away");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        match inspect(&**new).await? {
            FolderProbe::Absent(error) => return Err(error),
            FolderProbe::Blank => {
                check_room(&**new, config.journal.file_bytes).await?;
                check_blank(&**new).await?;
                format(env, &**new, dewar, pool, Some(old)).await?;
            }
            FolderProbe::Disk(identity) if identity.dewar != dewar || identity.pool != pool => {
                let message = format!(
                    "{label} is a disk of another Dewar or pool: only a blank folder becomes a disk here"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            FolderProbe::Disk(identity) if fresh(&identity, shortage) == Some(old) => {
                dewar_env::coverage_mark(
                    "a lost disk was replaced by a command that was given again",
                );
            }
            FolderProbe::Disk(identity) => {
                let id = identity.disk;
                let message = format!("{label} is not blank: it is disk {id} of this pool");
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
        }
        let mut lost = vec![old];
        for folder in &folders.all {
            if let FolderContent::Disk { identity, .. } = &folder.content
                && identity.dewar == dewar
                && config.has_pool(identity.pool)
            {
                lost.extend(fresh(identity, shortage));
            }
        }
        lost.sort_unstable();
        lost.dedup();
        Ok(lost)
    }
}

/// Whose place a disk is to take that is no member yet, if that one is away. What the identity of a
/// member says was acted on long ago, and the other may have been taken back since.
fn fresh(identity: &Identity, shortage: &QuorumShortage) -> Option<DiskId> {
    let old = identity.replaces?;
    let waits = !shortage.members.contains(&identity.disk) && shortage.away.contains(&old);
    waits.then_some(old)
}
