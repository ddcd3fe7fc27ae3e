//! Taking backups of the catalog, for administrators.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_engine::{BackupPlan, BackupReport, Backups};
use dewar_env::disk::real::{RealDisk, RealDiskConfig};
use dewar_env::{Disk, DiskErrorKind, Env, WorkProgress};
use dewar_store::Store;
use parking_lot::Mutex;

use crate::catalog::{BackupInfo, BackupTakenInfo};
use crate::progress::{Progress, ProgressUnit};
use crate::time_text::rfc3339;
use crate::{AdminError, Failure, Result};

/// A folder of backups may be at the other end of a network.
const TARGET_DEADLINE: Duration = Duration::from_secs(120);

/// Takes backups, one at a time.
pub struct BackupAdmin {
    env: Env,
    backups: Backups,
    store: Store,
    /// The configuration as it is in force, as a file.
    configuration: String,
    /// The file that remembers the disks.
    pool_state: PathBuf,
    last: Arc<Mutex<Option<RunningBackup>>>,
}

struct RunningBackup {
    target: String,
    started: String,
    progress: Arc<WorkProgress>,
    outcome: Option<Result<BackupTakenInfo>>,
}

impl BackupAdmin {
    /// Backups of an open store. Each contains the configuration and the file `pool_state`.
    pub fn new(
        env: Env,
        backups: Backups,
        store: Store,
        configuration: String,
        pool_state: PathBuf,
    ) -> Self {
        Self {
            env,
            backups,
            store,
            configuration,
            pool_state,
            last: Arc::default(),
        }
    }

    pub(crate) async fn start(&self, target: &str, keep: u32) -> Result<()> {
        let disk = backup_folder(Path::new(target)).await?;
        let mut plan = BackupPlan {
            files: Vec::new(),
            keep: usize::try_from(keep).unwrap_or(usize::MAX).max(1),
            master_key: self.store.master_keys().current(),
        };
        let configured = self.configuration.clone();
        plan.files
            .push(("dewar.toml".to_owned(), configured.into()));
        // It only remembers what the disks say too, so that nothing is lost where it is not there.
        if let Ok(content) = std::fs::read(&self.pool_state) {
            plan.files
                .push(("pool.json".to_owned(), Bytes::from(content)));
        }
        let progress = Arc::<WorkProgress>::default();
        {
            let mut last = self.last.lock();
            if last.as_ref().is_some_and(|taking| taking.outcome.is_none()) {
                return Err(AdminError::new(
                    Failure::InUse,
                    "a backup is being taken already",
                ));
            }
            *last = Some(RunningBackup {
                target: target.to_owned(),
                started: rfc3339(self.env.clock.now()),
                progress: Arc::clone(&progress),
                outcome: None,
            });
        }
        let (backups, last) = (self.backups.clone(), Arc::clone(&self.last));
        tokio::spawn(async move {
            let taken = backups.take(&disk, &plan, &progress).await;
            let outcome = match taken {
                Ok(report) => Ok(taken_info(report)),
                Err(error) => {
                    tracing::error!(%error, "the backup failed");
                    Err(AdminError::from(error))
                }
            };
            if let Some(taking) = &mut *last.lock() {
                taking.outcome = Some(outcome);
            }
        });
        Ok(())
    }

    pub(crate) fn status(&self) -> BackupInfo {
        let last = self.last.lock();
        let Some(taking) = &*last else {
            return BackupInfo::default();
        };
        let (taken, error) = match &taking.outcome {
            Some(Ok(taken)) => (Some(taken.clone()), None),
            Some(Err(error)) => (None, Some(error.message.clone())),
            None => (None, None),
        };
        let running = taking.outcome.is_none();
        let progress = || {
            let what = format!("backup to {}", taking.target);
            let (unit, started) = (ProgressUnit::Bytes, taking.started.clone());
            Progress::of(what, unit, started, &taking.progress)
        };
        BackupInfo {
            running,
            copied_bytes: taking.progress.done(),
            taken,
            error,
            progress: running.then(progress),
        }
    }
}

fn taken_info(report: BackupReport) -> BackupTakenInfo {
    BackupTakenInfo {
        name: report.name,
        upto: report.upto,
        runs: report.runs,
        bytes: report.bytes,
        copied_runs: report.copied_runs,
        copied_bytes: report.copied_bytes,
        unsealed_bytes: report.unsealed_bytes,
        removed: report.removed,
    }
}

/// The folder of backups as a disk. It is outside of the pool.
///
/// # Errors
/// The folder is missing, or cannot be opened within two minutes.
pub async fn backup_folder(path: &Path) -> Result<Arc<dyn Disk>> {
    let config = RealDiskConfig {
        deadline: TARGET_DEADLINE,
        ..RealDiskConfig::default()
    };
    match RealDisk::open(path, config).await {
        Ok(disk) => Ok(Arc::new(disk)),
        Err(error) => {
            let path = path.display();
            let message = match error.kind() {
                DiskErrorKind::Missing => format!("{path}: there is no such folder; make it first"),
                _ => format!("{path}: {error}"),
            };
            Err(AdminError::new(Failure::NotFound, message))
        }
    }
}
