//! The configured folders as disks of the operating system.

use std::sync::Arc;

use dewar_data::pool::IDENTITY_FILE;
use dewar_env::Disk;
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_store::engine::{Folder, Folders};

use crate::config::Config;

/// Looks at every configured folder; changes nothing.
pub(super) async fn look(config: &Config) -> Folders {
    let mut all = Vec::with_capacity(config.pool.disks.len());
    for path in &config.pool.disks {
        let real = RealDiskConfig {
            deadline: config.pool.disk_deadline,
            identity: Some(IDENTITY_FILE.to_owned()),
            ..RealDiskConfig::default()
        };
        let opened = match RealDisk::open(path, real).await {
            Ok(disk) => Ok(Arc::new(disk) as Arc<dyn Disk>),
            Err(error) => Err(error.into()),
        };
        all.push(Folder::look(path.display().to_string(), opened).await);
    }
    Folders { all }
}
