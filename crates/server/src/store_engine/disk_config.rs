//! The facts about disks and pools that commands of administrators take from the configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dewar_admin::DiskConfig;

use crate::config::Config;
use crate::config::check::{Severity, findings};

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
