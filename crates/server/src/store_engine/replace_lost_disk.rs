//! `dewar disk replace` for a pool that does not open because too few of its disks are left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dewar_admin::ID_DIGITS_MIN;
use dewar_disks::pool::{FolderProbe, inspect};
use dewar_engine::host::pool_state_file::spelled;
use dewar_engine::host::{PoolStateFile, open_disk};
use dewar_engine::{BackgroundWork, Engine, Folder, FolderContent};
use dewar_env::Disk;
use dewar_journal::QuorumShortage;
use dewar_types::{DiskId, Error, ErrorKind, Result};

use super::disk_config::check_folder;
use super::{CLOSE_PATIENCE, OpenContext, OpenStore, hint};
use crate::config::Config;
use crate::engine::Purpose;
use crate::listener::BoxError;

impl OpenStore {
    /// Lets the pool open with a new disk in `folder` for the lost disk `old`, if it does not open
    /// otherwise. If it does, nothing is done. The remaining work is the same as for any other
    /// disk.
    pub(super) async fn go_on_with(
        &self,
        config: &Config,
        old: &str,
        folder: &Path,
    ) -> std::result::Result<(), BoxError> {
        let OpenContext {
            mut folders,
            dewar,
            master,
            mut engine,
        } = self.ground(config, Purpose::Administer).await?;
        let env = &self.env;
        let Some(shortage) = Engine::shortage(env, &engine, dewar, &folders).await else {
            return Ok(());
        };
        check_place(config, folder)?;
        let label = folder.display().to_string();
        let known = folders.all.iter().position(|known| known.label == label);
        let opened = known.and_then(|n| match &folders.all[n].content {
            FolderContent::Disk { disk, .. } | FolderContent::Blank { disk } => {
                Some(Arc::clone(disk))
            }
            FolderContent::Absent(_) => None,
        });
        let new = match opened {
            Some(disk) => disk,
            None => open_disk(folder, config.pool.disk_deadline).await?,
        };
        let roster = PoolStateFile::open(&config.server.state_dir)?;
        let lost = lost(&roster, old, folder, &*new, &shortage).await?;
        let lost = lost.ok_or_else(|| {
            let away: Vec<String> = shortage.away.iter().map(ToString::to_string).collect();
            let message = format!(
                "{old} is none of the disks that are away: {}",
                away.join(", ")
            );
            Error::new(
                ErrorKind::NotFound,
                spelled(&config.server.state_dir, &message),
            )
        })?;
        // Before it is formatted, so that every later start looks into it.
        let pool = roster.pool_of(lost).unwrap_or(engine.pool);
        roster.reserve(folder, pool)?;
        let lost = (lost, pool);
        engine.journal.lost =
            Engine::prepare_successor(env, &engine, dewar, &folders, &shortage, lost, &new).await?;
        let there = Folder::look_again(label, Ok(new)).await;
        match known {
            Some(n) => folders.all[n] = there,
            None => folders.all.push(there),
        }
        let opened = Engine::open(env, &engine, dewar, &folders, master, BackgroundWork::Off).await;
        let opened = opened.map_err(|error| hint(config, Purpose::Administer, error))?;
        Ok(opened.close(CLOSE_PATIENCE).await?)
    }
}

/// Refuses a folder that a pool could not have.
fn check_place(config: &Config, folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        let message = format!("there is no folder {}", folder.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let folders = config.folders().into_iter().map(|(other, _)| other);
    let others: Vec<PathBuf> = folders.filter(|other| other != folder).collect();
    match check_folder(config, &others, folder) {
        Ok(_) => Ok(()),
        Err(why) => Err(Error::new(ErrorKind::AlreadyExists, why)),
    }
}

/// The named disk among the absent ones: by its number, its folder, its id or the first digits of
/// it.
async fn lost(
    roster: &PoolStateFile,
    old: &str,
    folder: &Path,
    new: &dyn Disk,
    shortage: &QuorumShortage,
) -> Result<Option<DiskId>> {
    let named = match old.trim_end_matches('/') {
        "" => old,
        named => named,
    };
    let mut found = None;
    if Path::new(named) == folder
        && let FolderProbe::Disk(identity) = inspect(new).await?
    {
        // From the same command before.
        found = identity.replaces;
    }
    found = found.or_else(|| roster.at(Path::new(named)));
    if named.len() < ID_DIGITS_MIN {
        let number = named.parse().ok();
        found = found.or_else(|| number.and_then(|number| roster.by_number(number)));
    } else {
        let id = named.to_ascii_lowercase();
        let mut away = shortage.away.iter();
        found = found.or_else(|| away.find(|disk| disk.to_string().starts_with(&id)).copied());
    }
    Ok(found.filter(|id| shortage.away.contains(id)))
}
