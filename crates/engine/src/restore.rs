//! Restoring the catalog from a backup.
//!
//! The whole backup is read first. If the journal is of the backup's lineage and continues it
//! without a gap, the backup replaces a lost index, and the next opening applies the later part of
//! the journal. If the journal opens by its rule, the result is exact, and nothing is salvaged. If
//! it does not, the available part is used, and a new lineage begins at its end.
//!
//! If the journal does not continue the backup, the backup's runs become the index of a new
//! lineage, as with a rebuild. Ids and batches begin above all known ones. Objects on the disks
//! that the backup does not name are reported, and salvaged on request. Objects that the backup
//! names and that are missing on the disks are recorded, so that the ledger and `fsck` show them.
//!
//! # Crashes
//! As with a rebuild: repeat the restore, or continue with a rebuild. Once the new journal has
//! begun, the catalog records the backup that it was made from ([`dewar_disks::RebuildMarker`]), and a
//! repetition continues with the salvage.

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::MasterKeys;
use dewar_catalog::record::{ChangeRecord, Record as _};
use dewar_catalog::{IdKind, keys, lineage_key};
use dewar_disks::pool::DewarId;
use dewar_disks::{RebuildMarker, RebuildSource};
use dewar_env::{Disk, Env};
use dewar_kv::embedded::decode_batch;
use dewar_kv::index::sorted_runs::{ReadOnlyRuns, RunIndex, runs_in_files};
use dewar_types::{BlobId, Error, ErrorKind, Result, Timestamp};

use crate::backup::{all, run_path, taken, verify};
use crate::backup_file::BackupFile;
use crate::rebuild::{
    AttachedDisks, LineageStart, begin_anew, disks_of, examine, look_into, mark, reserved,
    save_carried, writable,
};
use crate::recovery_report::{
    Diagnosis, JournalTail, ProgressReporter, RebuildMethod, RebuildOutcome, RestoreReport,
};
use crate::salvage::{Salvage, SalvageReport};
use crate::{BackgroundWork, Engine, EngineConfig, Folders};

/// How long closing may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(600);

/// How to restore.
pub struct Restore<'r> {
    /// The folder of backups.
    pub source: Arc<dyn Disk>,
    /// The backup; the newest if `None`.
    pub name: Option<String>,
    /// Whether anything is changed; otherwise it is only read and judged.
    pub write: bool,
    /// Whether a catalog that could be had without loss is given up.
    pub force: bool,
    /// Whether objects that the backup does not know are put back, or only reported.
    pub salvage: bool,
    /// Whether the same restore was begun before and is not known to have ended. An existing
    /// catalog without loss is then no reason to refuse.
    pub again: bool,
    /// Hears how it goes.
    pub report: &'r mut dyn ProgressReporter,
}

impl Engine {
    /// Restores; see the module. The store is closed afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without such a backup, [`ErrorKind::Corrupt`] with its damaged file,
    /// [`ErrorKind::InvalidArgument`] for a backup of another deployment,
    /// [`ErrorKind::AlreadyExists`] when the catalog exists and may not be given up; those of the
    /// disks.
    pub async fn restore(
        env: &Env,
        config: &EngineConfig,
        dewar: DewarId,
        folders: &Folders,
        master: Arc<MasterKeys>,
        how: Restore<'_>,
    ) -> Result<RestoreReport> {
        let disks = disks_of(folders, dewar, config);
        let diagnosis = examine(env, config, dewar, &disks, false).await.diagnosis;
        let begun = begun(&diagnosis, &how);
        let (name, backup) = choose(&how, begun.as_ref(), dewar).await?;
        verify(&*how.source, &backup).await?;
        let files = backup
            .runs
            .iter()
            .map(|run| (*run, Arc::clone(&how.source), run_path(run)));
        let runs = runs_in_files(files.collect(), backup.upto).await?;
        let gone_on = begun.as_ref() == Some(&name);
        let mut report = RestoreReport {
            name,
            taken: taken(&backup),
            upto: backup.upto,
            entries: runs.entries(),
            bytes: runs.bytes(),
            master_key: backup.master_key.clone(),
            followed: match how.force || gone_on {
                true => None,
                false => followed(env, config, &disks, &runs, backup.upto).await,
            },
            gone_on,
            salvaged: None,
            diagnosis,
        };
        if !how.write {
            return Ok(report);
        }
        if gone_on {
            let engine =
                Self::open(env, config, dewar, folders, master, BackgroundWork::Off).await?;
            return engine.finish_restore(report, how).await;
        }
        if let (RebuildMethod::Exact { upto }, false) = (report.diagnosis.way, how.force) {
            // The last attempt had put index and journal together, and nothing else was to be done.
            if how.again && report.followed.is_some_and(|followed| followed.exact) {
                report.gone_on = true;
                let engine =
                    Self::open(env, config, dewar, folders, master, BackgroundWork::Off).await?;
                return engine.finish_restore(report, how).await;
            }
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "the catalog on these disks is there up to batch {upto}, the backup has {}: a \
                     `dewar catalog rebuild` loses nothing",
                    backup.upto
                ),
            ));
        }
        how.report.begins(RebuildOutcome::Restore(&report))?;
        let known = report.diagnosis.index.as_ref().map_or(0, |i| i.applied);
        let rebuilt = RebuildMarker {
            from: RebuildSource::Backup,
            since: taken(&backup),
            upto: backup.upto,
            source: format!("{}/{}", how.source.label(), report.name),
            bound: BlobId::new(
                config.zone,
                reserved(Some(&runs), &keys::ids(IdKind::Blob as u8)).await?,
            ),
        };
        let mut config = config.clone();
        match report.followed {
            Some(followed) => {
                let rebuilt = RebuildMarker {
                    upto: followed.upto,
                    ..rebuilt
                };
                let top = mark((!followed.exact).then_some(rebuilt));
                let (on, index) = (writable(&disks), config.index(dewar));
                let upto = backup.upto;
                let (index, lost) =
                    RunIndex::bootstrap(env.clone(), on, index, Some(&runs), top, upto).await?;
                index.stop().await;
                if !lost.is_empty() {
                    let message = "the backup cannot be read any more";
                    return Err(Error::new(ErrorKind::Corrupt, message));
                }
                config.journal.accept_loss = !followed.exact;
                dewar_env::coverage_mark("a journal went on from a backup");
            }
            None => {
                let beginning = LineageStart {
                    runs: Some(&runs),
                    known: known.max(backup.upto),
                    rebuilt: Some(rebuilt),
                };
                save_carried(env, &config, dewar, folders, &master, &disks).await?;
                begin_anew(env, &config, dewar, &disks, beginning).await?;
            }
        }
        let engine = Self::open(env, &config, dewar, folders, master, BackgroundWork::Off).await?;
        engine.finish_restore(report, how).await
    }

    async fn finish_restore(
        &self,
        mut report: RestoreReport,
        how: Restore<'_>,
    ) -> Result<RestoreReport> {
        let finished = self.salvage_beyond(&mut report, how).await;
        let closed = self.close(CLOSE_PATIENCE).await;
        finished?;
        closed?;
        Ok(report)
    }

    /// Salvages objects that the backup does not know, unless the journal made the catalog exact.
    async fn salvage_beyond(&self, report: &mut RestoreReport, how: Restore<'_>) -> Result<()> {
        let is_exact = report.followed.is_some_and(|followed| followed.exact);
        let mut settle = false;
        if !is_exact {
            let salvage = Salvage {
                write: true,
                place: how.salvage,
                assume: None,
                settle: false,
                report: &mut *how.report,
            };
            let salvaged = salvage.run(&self.store).await?;
            settle = how.salvage && salvaged.settled;
            report.salvaged = Some(SalvageReport {
                settled: settle,
                ..salvaged
            });
        }
        how.report.ends(RebuildOutcome::Restore(report))?;
        if settle {
            self.store.disks().settle_rebuilt().await?;
        }
        Ok(())
    }
}

/// The part of the journal on the disks behind a backup that ends with batch `upto`.
async fn followed(
    env: &Env,
    config: &EngineConfig,
    disks: &AttachedDisks,
    runs: &ReadOnlyRuns,
    upto: u64,
) -> Option<JournalTail> {
    let (opened, exact) = match look_into(env, config, disks, false).await {
        Ok(opened) => (opened, true),
        Err(_) => (look_into(env, config, disks, true).await.ok()?, false),
    };
    let (journal, mut recovery) = opened;
    let lineage = runs.get(&lineage_key()).await.ok()??;
    let same = lineage[..] == journal.status().lineage.0.to_be_bytes();
    if !same || !(recovery.floor()..=recovery.end()).contains(&upto) {
        return None;
    }
    let mut until = None;
    while let Ok(Some((seq, body))) = recovery.next().await {
        if seq <= upto || body.is_empty() {
            continue;
        }
        let Ok(batch) = decode_batch(&body) else {
            continue;
        };
        let changes = batch.log.iter();
        let changes =
            changes.filter_map(|change| ChangeRecord::from_value(b"the journal", change).ok());
        until = until.max(changes.map(|change| Timestamp(change.clock())).max());
    }
    Some(JournalTail {
        upto: recovery.end(),
        until,
        exact,
    })
}

/// The backup that the catalog was made of, if the restore is unfinished.
fn begun(diagnosis: &Diagnosis, how: &Restore<'_>) -> Option<String> {
    let rebuilt = diagnosis.rebuilt.as_ref().filter(|rebuilt| {
        rebuilt.from == RebuildSource::Backup && diagnosis.way.is_exact() && !how.force
    })?;
    let name = rebuilt.source.strip_prefix(how.source.label())?;
    Some(name.strip_prefix('/')?.to_owned())
}

/// The backup to use. If none is named, the one of the unfinished restore.
async fn choose(
    how: &Restore<'_>,
    begun: Option<&String>,
    dewar: DewarId,
) -> Result<(String, BackupFile)> {
    let mut found = all(&*how.source, dewar).await?;
    let none = |what: String| Error::new(ErrorKind::NotFound, what);
    let name = match how.name.as_ref().or(begun) {
        Some(name) => name.clone(),
        None => found
            .keys()
            .next_back()
            .cloned()
            .ok_or_else(|| none(format!("{} holds no backup", how.source.label())))?,
    };
    match found.remove(&name) {
        Some(Ok(file)) => Ok((name, file)),
        // Another one is taken by name, never silently.
        Some(Err(error)) => Err(error),
        None => Err(none(format!("{} holds no {name}", how.source.label()))),
    }
}
