//! Replacing a lost disk in a pool that does not open without it.
//!
//! If a pool of fewer than 2m+1 disks has lost m of them, it still has all data. But its journal
//! cannot be written, because too few disks are left. The command that replaces a lost disk is then
//! given while the pool is closed. It declares the old disk lost (`dewar_journal`, `epoch`). It
//! gives the new disk an identity, which names the old one. [`Engine::open`] is passed the lost
//! disks, and begins an epoch with the new one and without the old one. The opening rule stays the
//! same: all but m members must be present, and only disks that a command named are given up.
//!
//! # Crash cases
//! Before the identity exists, nothing has happened. Afterwards the folder has a disk of the pool
//! that is no member, and the same command continues with it. Once the epoch is confirmed, the pool
//! opens normally, and the remaining work follows from the identity ([`super::membership`]).

use std::sync::Arc;

use dewar_disks::pool::{DewarId, FolderProbe, Identity, check_blank, format, inspect};
use dewar_env::{Disk, Env};
use dewar_journal::{Journal, QuorumShortage};
use dewar_types::{DiskId, Error, ErrorKind, Result};

use super::folders::{FolderContent, Folders};
use super::prepare::check_room;
use super::{Engine, EngineConfig};

impl Engine {
    /// The disks that the pool lacks to open, unless disks are declared lost. `None` if enough are
    /// present, or if so few are present that a declaration does not help; [`Engine::open`] then
    /// returns the reason. Changes nothing.
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

    /// Makes `new` a disk that replaces `old` in a deployment that lacks disks. `old` is lost and
    /// was in the pool of that number. Returns the members for
    /// [`dewar_journal::JournalConfig::lost`]: `old`, and those that the same command has replaced
    /// by other new disks that are no members yet.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`] when `old` is not absent, and for a disk of another
    ///   deployment.
    /// - [`ErrorKind::AlreadyExists`] for a folder that is not blank and not of the same earlier
    ///   command.
    /// - [`ErrorKind::NoSpace`] for a folder that is too small.
    /// - [`ErrorKind::Unavailable`] when it cannot be written.
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

/// The disk to be replaced by a new disk that is no member yet, if it is absent. A member's
/// identity was acted on long ago, and the disk that it names may have been taken back since.
fn fresh(identity: &Identity, shortage: &QuorumShortage) -> Option<DiskId> {
    let old = identity.replaces?;
    let waits = !shortage.members.contains(&identity.disk) && shortage.away.contains(&old);
    waits.then_some(old)
}
