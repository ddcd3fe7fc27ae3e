//! The pool's folders as disks of the operating system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::IDENTITY_FILE;
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{BoxFuture, Disk};
use dewar_types::Result;
use parking_lot::Mutex;

use crate::{DiskObserver, Folder, Folders};

/// Looks at every folder, each with the number of its pool; changes nothing. A disk that does not
/// answer within `deadline` counts as absent.
pub async fn probe(folders: &[(PathBuf, u16)], deadline: Duration) -> Folders {
    let mut all = Vec::new();
    for (path, pool) in folders {
        let opened = open_disk(path, deadline).await;
        let folder = Folder::look(path.display().to_string(), opened).await;
        let folder = folder.of(*pool);
        let in_use = folder.is_in_use();
        all.push(folder);
        // Of two processes that begin at once one gets them all.
        if in_use {
            break;
        }
    }
    Folders { all }
}

/// Opens a folder as a disk that this process alone uses.
///
/// # Errors
/// The folder is missing, in use, or does not answer within `deadline`.
pub async fn open_disk(path: &Path, deadline: Duration) -> Result<Arc<dyn Disk>> {
    let real = RealDiskConfig {
        deadline,
        identity: Some(IDENTITY_FILE.to_owned()),
        exclusive: true,
        ..RealDiskConfig::default()
    };
    Ok(Arc::new(RealDisk::open(path, real).await?))
}

/// The folders that the configuration names.
pub struct ConfiguredFolders {
    paths: Mutex<Vec<PathBuf>>,
    deadline: Duration,
}

impl ConfiguredFolders {
    /// These folders. A disk that does not answer within `deadline` counts as absent.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, deadline: Duration) -> Self {
        Self {
            paths: Mutex::new(paths),
            deadline,
        }
    }

    /// A further folder, under the number that [`crate::LiveFolders::add`] gave.
    pub fn set(&self, number: usize, path: &Path) {
        let mut paths = self.paths.lock();
        if number == paths.len() {
            paths.push(path.to_path_buf());
        }
    }
}

impl DiskObserver for ConfiguredFolders {
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder> {
        Box::pin(async move {
            let path = self.paths.lock()[folder].clone();
            let opened = open_disk(&path, self.deadline).await;
            Folder::look_again(path.display().to_string(), opened).await
        })
    }
}
