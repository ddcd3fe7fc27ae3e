//! The pool's folders as disks of the operating system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::IDENTITY_FILE;
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{BoxFuture, Disk};
use dewar_store::engine::{DiskObserver, Folder, Folders};
use dewar_types::Result;
use parking_lot::Mutex;

use super::changes::DiskConfig;
use crate::config::Config;
use crate::config::check::{Severity, findings};

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
    pub(super) fn new(paths: Vec<PathBuf>, deadline: Duration) -> Self {
        Self {
            paths: Mutex::new(paths),
            deadline,
        }
    }

    /// A further folder, under the number that [`dewar_store::engine::LiveFolders::add`] gave.
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

impl DiskConfig for Config {
    fn folders(&self) -> Vec<(PathBuf, u16)> {
        self.folders()
    }

    fn pool_name(&self, number: u16) -> Option<String> {
        self.pool_name(number)
    }

    fn pool_number(&self, name: &str) -> Option<u16> {
        self.pool_number(name)
    }

    fn disk_deadline(&self) -> Duration {
        self.pool.disk_deadline
    }

    fn check_folder(
        &self,
        others: &[PathBuf],
        folder: &Path,
    ) -> std::result::Result<Vec<String>, String> {
        let mut before = self.clone();
        before.pool.disks = others.to_vec();
        before.pools.disks.clear();
        before.pools.layouts.clear();
        before.lifecycle.storage_classes.clear();
        let mut after = before.clone();
        after.pool.disks.push(folder.to_path_buf());
        let before = findings(&before);
        let mut new = findings(&after);
        new.retain(|finding| finding.key != "pool.layout" && !before.contains(finding));
        match new.iter().find(|new| new.severity == Severity::Error) {
            Some(error) => Err(error.message.clone()),
            None => Ok(new.into_iter().map(|finding| finding.message).collect()),
        }
    }
}
