//! The pool's folders as disks of the operating system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::IDENTITY_FILE;
use dewar_engine::{DiskObserver, Folder, Folders};
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{BoxFuture, Disk};
use dewar_types::Result;
use parking_lot::Mutex;

use crate::config::Config;

/// Looks at every configured folder; changes nothing.
pub(super) async fn probe(config: &Config) -> Folders {
    let mut all = Vec::new();
    for (path, pool) in &config.folders() {
        let opened = open(path, config.pool.disk_deadline).await;
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

pub(super) async fn open(path: &Path, deadline: Duration) -> Result<Arc<dyn Disk>> {
    let real = RealDiskConfig {
        deadline,
        identity: Some(IDENTITY_FILE.to_owned()),
        exclusive: true,
        ..RealDiskConfig::default()
    };
    Ok(Arc::new(RealDisk::open(path, real).await?))
}

/// The folders that the configuration names.
pub(super) struct ConfiguredFolders {
    paths: Mutex<Vec<PathBuf>>,
    deadline: Duration,
}

impl ConfiguredFolders {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            paths: Mutex::new(config.folders().into_iter().map(|(path, _)| path).collect()),
            deadline: config.pool.disk_deadline,
        }
    }

    /// A further folder, under the number that [`dewar_engine::LiveFolders::add`] gave.
    pub(super) fn set(&self, number: usize, path: &Path) {
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
            let opened = open(&path, self.deadline).await;
            Folder::look_again(path.display().to_string(), opened).await
        })
    }
}
