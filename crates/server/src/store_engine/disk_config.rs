//! The facts about disks and pools that commands of administrators take from the configuration.

use std::path::{Path, PathBuf};

use dewar_admin::DiskConfig;

use crate::config::Config;
use crate::config::check::{Severity, findings};

/// The facts in this configuration.
pub(super) fn disk_config(config: &Config) -> DiskConfig {
    let further = config.further_pools().into_iter();
    let further = further.map(|pool| (pool.number(), pool.name));
    let checked = config.clone();
    DiskConfig {
        folders: config.folders(),
        pools: further.chain([(0, config.pool.name.clone())]).collect(),
        disk_deadline: config.pool.disk_deadline,
        check_folder: Box::new(move |others, folder| check_folder(&checked, others, folder)),
    }
}

/// Checks whether a folder can get a new disk beside the other folders. Returns warnings, or the reason
/// why it cannot.
pub(super) fn check_folder(
    config: &Config,
    others: &[PathBuf],
    folder: &Path,
) -> Result<Vec<String>, String> {
    let mut before = config.clone();
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
