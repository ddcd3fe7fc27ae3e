//! Making a pool out of blank folders.

use std::sync::Arc;

use dewar_disks::pool::{DewarId, IDENTITY_FILE, format};
use dewar_env::{Disk, Env};
use dewar_journal::Journal;
use dewar_kv::index::sorted_runs::RunIndex;
use dewar_types::{DiskId, Error, ErrorKind, Result};

use super::folders::{FolderContent, Folders};
use super::{Engine, EngineConfig};

impl Engine {
    /// Gives every folder an identity and makes the first journal and index. The caller must
    /// durably record beforehand that formatting has begun, and afterwards that it has ended. An
    /// interrupted attempt is repeated with the same deployment, because no data can exist yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a disk of another deployment, [`ErrorKind::Unavailable`]
    /// when a folder is absent; those of the disks.
    pub async fn format(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
    ) -> Result<()> {
        let mut disks: Vec<(DiskId, Arc<dyn Disk>)> = Vec::new();
        for folder in &folders.all {
            let (disk, id) = match &folder.content {
                FolderContent::Blank { disk } => {
                    let identity = format(env, &**disk, dewar, folder.pool, None).await?;
                    (disk, identity.disk)
                }
                // From the try that did not end. That the identity can be read does not make it
                // durable: the process may have been killed before it synced the folder.
                FolderContent::Disk { disk, identity } if identity.dewar == dewar => {
                    clear(&**disk).await?;
                    let text = identity.to_text();
                    if dewar_env::safeguard("identities are made durable again") {
                        disk.replace_file(IDENTITY_FILE, text.into()).await?;
                    }
                    (disk, identity.disk)
                }
                FolderContent::Disk { identity, .. } => {
                    let message = format!(
                        "{} is a disk of another Dewar ({})",
                        folder.label, identity.dewar
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                FolderContent::Absent(error) => {
                    let message = format!("{}: {error}", folder.label);
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
            };
            disks.push((id, Arc::clone(disk)));
        }
        Journal::create(env, &disks, &config.journal).await?;
        RunIndex::create(env.clone(), disks, config.index(dewar), 0).await?;
        Ok(())
    }
}

/// Removes the files of an unfinished formatting. They cannot contain data.
async fn clear(disk: &dyn Disk) -> Result<()> {
    for dir in ["journal", "index"] {
        for entry in disk.list(dir).await? {
            if !entry.is_dir {
                disk.remove(&format!("{dir}/{}", entry.name)).await?;
            }
        }
    }
    Ok(())
}
