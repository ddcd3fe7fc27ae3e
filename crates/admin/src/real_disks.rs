//! Folders as disks of the operating system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::IDENTITY_FILE;
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{BoxFuture, Disk};
use dewar_store::engine::{DiskObserver, Folder};
use dewar_types::Result;
use parking_lot::Mutex;

/// Opens a folder as a disk that only this process uses. The disk counts as hung after `deadline`.
///
/// # Errors
/// The folder is missing, in use, or cannot be accessed.
pub async fn open_disk(path: &Path, deadline: Duration) -> Result<Arc<dyn Disk>> {
    let real = RealDiskConfig {
        deadline,
        identity: Some(IDENTITY_FILE.to_owned()),
        exclusive: true,
        ..RealDiskConfig::default()
    };
    Ok(Arc::new(RealDisk::open(path, real).await?))
}

/// The folders in which disks of the pools are expected. It looks for disks in them.
pub struct ConfiguredFolders {
    paths: Mutex<Vec<PathBuf>>,
    deadline: Duration,
}

impl ConfiguredFolders {
    /// The folders `paths`, numbered from 0. A disk counts as hung after `deadline`.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, deadline: Duration) -> Self {
        Self {
            paths: Mutex::new(paths),
            deadline,
        }
    }

    /// A further folder, under the number that [`dewar_store::engine::LiveFolders::add`] gave.
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
