//! The folders that the configuration names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dewar_admin::{DiskConfig, open_disk};
use dewar_store::engine::{Folder, Folders};

use crate::config::Config;
use crate::config::check::{Severity, findings};

/// Looks at every configured folder; changes nothing.
pub(super) async fn probe(config: &Config) -> Folders {
    let mut all = Vec::new();
    for (path, pool) in &config.folders() {
        let opened = open_disk(path, config.pool.disk_deadline).await;
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

    fn check_folder(&self, others: &[PathBuf], folder: &Path) -> Result<Vec<String>, String> {
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
