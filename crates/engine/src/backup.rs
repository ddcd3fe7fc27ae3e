//! Backups of the catalog, taken while the store is served. Each is a copy of the index as it was
//! at one moment, in a folder outside of the pool.
//!
//! The index consists of runs that never change. A backup copies the runs that the folder lacks and
//! adds a file that names all runs. So its cost follows the amount of change. A backup contains the
//! catalog only, not the bytes of objects. Formats: `docs/formats/backup.md`.
//!
//! # Order and crashes
//! Runs are complete and synced before the file that names them exists. They are removed only after
//! the last file that names them. A crash leaves runs that no file names. The next backup writes
//! them anew, or removes them.
//!
//! # Consistency
//! A backup is the index at one batch. Before the snapshot, open segments are sealed, so that the
//! small objects of that moment are durable on their disks. Later objects are in segments that are
//! sealed later, and a restore finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::MasterKeyId;
use dewar_checksum::{Crc32c, crc32c};
use dewar_disks::pool::{DewarId, Pool};
use dewar_env::{CreateOptions, Disk, DiskErrorKind, WorkProgress};
use dewar_kv::embedded::EmbeddedKv;
use dewar_kv::index::sorted_runs::{ReadOnlyRuns, RunFile, RunIndex};
use dewar_store::Store;
use dewar_types::{Error, ErrorKind, Result, Timestamp};

use super::Engine;
use super::backup_file::{BackupExtra, BackupFile, FILES, folder_text, read_folder_text};

/// Says whose backups a folder holds.
const FOLDER_FILE: &str = "dewar-backup";

/// The folder of runs.
pub(super) const RUNS: &str = "runs";

/// The suffix of backup file names.
const SUFFIX: &str = ".backup";

/// How long sealing is waited for.
const SEAL_PATIENCE: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How a backup is taken.
#[derive(Clone, Debug)]
pub struct BackupPlan {
    /// Files that go with it, by name: configuration and the like, never a key.
    pub files: Vec<(String, Bytes)>,
    /// So many backups stay in the folder, this one included; at least 1.
    pub keep: usize,
    /// The id of the key that encrypts secrets in the catalog, not the key.
    pub master_key: MasterKeyId,
}

/// The report about a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Its name in the folder.
    pub name: String,
    /// The last batch that is in it.
    pub upto: u64,
    /// Runs in it, and their bytes.
    pub runs: u64,
    /// See `runs`.
    pub bytes: u64,
    /// Runs that were copied, and their bytes: the folder had the others.
    pub copied_runs: u64,
    /// See `copied_runs`.
    pub copied_bytes: u64,
    /// Bytes of small objects that could not be sealed in time. They are only in the journal, and
    /// the backup names them.
    pub unsealed_bytes: u64,
    /// Older backups that were removed.
    pub removed: u64,
}

/// Takes backups of one store; cheap to clone.
#[derive(Clone)]
pub struct Backups {
    store: Store,
    pool: Arc<Pool>,
    index: Arc<RunIndex>,
    kv: EmbeddedKv,
    /// Whether another task seals segments.
    worked: bool,
}

impl Engine {
    /// The object that takes backups of this engine.
    #[must_use]
    pub fn backups(&self) -> Backups {
        Backups {
            store: self.store.clone(),
            pool: Arc::clone(&self.pool),
            index: Arc::clone(&self.index),
            kv: self.kv.clone(),
            worked: self.worked,
        }
    }
}

impl Backups {
    /// Backs the catalog up into a folder; see the module. `progress` counts the bytes to
    /// copy. Only one backup per folder may run at a time.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a folder of another deployment, or one that contains
    /// something else; those of the folder and of the index. Earlier backups in the folder stay
    /// valid.
    pub async fn take(
        &self,
        target: &Arc<dyn Disk>,
        plan: &BackupPlan,
        progress: &WorkProgress,
    ) -> Result<BackupReport> {
        let dewar = self.pool.dewar();
        claim(&**target, dewar).await?;
        let unsealed_bytes = self.seal_all().await?;
        let since = self.pool.env().clock.now();
        self.kv.feed_all().await?;
        let held = self.index.hold();
        let known = all(&**target, dewar).await?;
        let mut there: BTreeSet<RunKey> = BTreeSet::new();
        for (_, file) in known
            .iter()
            .filter_map(|(name, file)| Some((name, file.as_ref().ok()?)))
        {
            there.extend(file.runs.iter().map(run_key));
        }
        let files = held.files();
        let new = files.iter().filter(|run| !there.contains(&run_key(run)));
        progress.set_total(new.map(|run| run.len).sum());
        let mut report = BackupReport {
            upto: held.applied(),
            unsealed_bytes,
            ..BackupReport::default()
        };
        for (n, run) in files.iter().enumerate() {
            report.runs += 1;
            report.bytes += run.len;
            if there.contains(&run_key(run)) && has_len(&**target, run).await? {
                continue;
            }
            copy_run(&held, n, run, target, progress).await?;
            report.copied_runs += 1;
            report.copied_bytes += run.len;
        }
        let mut files = Vec::new();
        for (name, content) in &plan.files {
            files.push(store_file(&**target, name, content).await?);
        }
        let file = BackupFile {
            dewar,
            pool: self.pool.number(),
            since,
            upto: held.applied(),
            layout: self.pool.layout().to_string(),
            master_key: plan.master_key.to_string(),
            disks: self.pool.members().map(|member| member.id).collect(),
            runs: held.files(),
            files,
        };
        report.name = format!("{:020}-{:016x}{SUFFIX}", since.0, file.upto);
        target
            .replace_file(&report.name, file.to_text().into())
            .await?;
        report.removed = prune(&**target, dewar, plan.keep.max(1)).await?;
        Ok(report)
    }

    /// Seals open segments; returns the bytes that were not sealed in time.
    async fn seal_all(&self) -> Result<u64> {
        let segments = self.store.segments();
        segments.close_current();
        let open: BTreeSet<_> = segments.unsealed().into_iter().collect();
        let sealed = async {
            loop {
                // With workers this is theirs; without, ours.
                while !self.worked && segments.seal_next().await? {}
                if !segments.unsealed().iter().any(|id| open.contains(id)) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(SEAL_PATIENCE, sealed).await {
            Ok(Ok(())) => Ok(0),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(segments.unsealed_bytes()),
        }
    }
}

/// The identity of a run: its id is random, its sum covers the whole run.
type RunKey = (u64, u64, u32);

fn run_key(run: &RunFile) -> RunKey {
    (run.id, run.len, run.crc)
}

/// The path of a run in a backup's folder.
pub(super) fn run_path(run: &RunFile) -> String {
    format!("{RUNS}/{:016x}.run", run.id)
}

/// Makes the folder ours, or sees that it is.
async fn claim(target: &dyn Disk, dewar: DewarId) -> Result<()> {
    match owner(target).await? {
        Some(owner) if owner == dewar => Ok(()),
        Some(owner) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{} holds backups of another Dewar ({owner}); this one is {dewar}",
                target.label()
            ),
        )),
        None => {
            let ignored = ["lost+found".to_owned(), format!("{FOLDER_FILE}.tmp")];
            let holds = target.list("").await?;
            if let Some(entry) = holds.iter().find(|entry| !ignored.contains(&entry.name)) {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "{} is no folder of backups: it holds {:?}",
                        target.label(),
                        entry.name
                    ),
                ));
            }
            target
                .replace_file(FOLDER_FILE, folder_text(dewar).into())
                .await?;
            Ok(())
        }
    }
}

/// The deployment of the backups in a folder; `None` without any.
async fn owner(target: &dyn Disk) -> Result<Option<DewarId>> {
    match target.read_file(FOLDER_FILE).await {
        Ok(bytes) => read_folder_text(&bytes).map(Some).ok_or_else(|| {
            let message = format!("{}/{FOLDER_FILE} is damaged", target.label());
            Error::new(ErrorKind::Corrupt, message)
        }),
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Every backup in a folder by name, oldest first; an error for one that is damaged.
pub(super) async fn all(
    source: &dyn Disk,
    dewar: DewarId,
) -> Result<BTreeMap<String, Result<BackupFile>>> {
    let mut found = BTreeMap::new();
    for entry in source.list("").await? {
        if entry.is_dir || !entry.name.ends_with(SUFFIX) {
            continue;
        }
        let file = read(source, &entry.name).await.and_then(|file| {
            if file.dewar == dewar {
                return Ok(file);
            }
            let message = format!(
                "{}/{} is a backup of another Dewar ({})",
                source.label(),
                entry.name,
                file.dewar
            );
            Err(Error::new(ErrorKind::InvalidArgument, message))
        });
        found.insert(entry.name, file);
    }
    Ok(found)
}

async fn read(source: &dyn Disk, name: &str) -> Result<BackupFile> {
    let bytes = source.read_file(name).await?;
    BackupFile::parse(&bytes).map_err(|why| {
        let message = format!("{}/{name}: {why}", source.label());
        Error::new(ErrorKind::Corrupt, message)
    })
}

async fn has_len(target: &dyn Disk, run: &RunFile) -> Result<bool> {
    match target.open(&run_path(run), dewar_env::Access::Read).await {
        Ok(file) => Ok(file.len().await? == run.len),
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn copy_run(
    held: &ReadOnlyRuns,
    n: usize,
    run: &RunFile,
    target: &Arc<dyn Disk>,
    progress: &WorkProgress,
) -> Result<()> {
    let path = run_path(run);
    let file = match target.create(&path, CreateOptions::default()).await {
        // Of a backup that was cut short.
        Err(error) if error.kind() == DiskErrorKind::Exists => {
            target.remove(&path).await?;
            target.create(&path, CreateOptions::default()).await?
        }
        created => created?,
    };
    let mut reader = held.reader(n)?;
    let mut crc = Crc32c::new();
    let mut at = 0;
    while let Some(bytes) = reader.next().await? {
        crc.update(&bytes);
        let len = bytes.len() as u64;
        file.write_at(at, vec![bytes]).await?;
        at += len;
        progress.add_done(len);
    }
    if (at, crc.value()) != (run.len, run.crc) {
        let message = format!("run {:016x} of the catalog index has another sum", run.id);
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    file.sync().await?;
    target.sync_dir(RUNS).await?;
    Ok(())
}

async fn store_file(target: &dyn Disk, name: &str, content: &Bytes) -> Result<BackupExtra> {
    let extra = BackupExtra {
        name: name.to_owned(),
        len: content.len() as u64,
        crc: crc32c(content),
    };
    let path = extra.path();
    match target.read_file(&path).await {
        Ok(there) if there == *content => {}
        _ => target.replace_file(&path, content.clone()).await?,
    }
    Ok(extra)
}

/// Removes all but the newest backups, and what no backup names.
async fn prune(target: &dyn Disk, dewar: DewarId, keep: usize) -> Result<u64> {
    let known = all(target, dewar).await?;
    let good: Vec<&String> = known
        .iter()
        .filter_map(|(name, file)| file.is_ok().then_some(name))
        .collect();
    let mut removed = 0;
    for name in &good[..good.len().saturating_sub(keep)] {
        target.remove(name).await?;
        removed += 1;
    }
    if removed > 0 {
        // Before what only they name.
        target.sync_dir("").await?;
    }
    let kept = &good[good.len().saturating_sub(keep)..];
    let kept = kept.iter().filter_map(|name| known[*name].as_ref().ok());
    let mut named = BTreeSet::new();
    for file in kept {
        named.extend(file.runs.iter().map(run_path));
        named.extend(file.files.iter().map(BackupExtra::path));
    }
    // What a damaged backup names is not known: nothing goes as long as there is one.
    if known.values().any(Result::is_err) {
        return Ok(removed);
    }
    for dir in [RUNS, FILES] {
        let mut gone = false;
        for entry in target.list(dir).await? {
            let path = format!("{dir}/{}", entry.name);
            if !entry.is_dir && !named.contains(&path) {
                target.remove(&path).await?;
                gone = true;
            }
        }
        if gone {
            target.sync_dir(dir).await?;
        }
    }
    Ok(removed)
}

/// Reads a whole backup and checks every file.
///
/// # Errors
/// [`ErrorKind::Corrupt`] with the name of the damaged file.
pub(super) async fn verify(source: &dyn Disk, backup: &BackupFile) -> Result<()> {
    let runs = backup
        .runs
        .iter()
        .map(|run| (run_path(run), run.len, run.crc));
    let files = backup.files.iter().map(|f| (f.path(), f.len, f.crc));
    for (path, len, crc) in runs.chain(files) {
        let bad = |why: String| {
            let message = format!("{}/{path}: {why}; the backup is refused", source.label());
            Error::new(ErrorKind::Corrupt, message)
        };
        let file = source
            .open(&path, dewar_env::Access::Read)
            .await
            .map_err(|error| bad(error.to_string()))?;
        let there = file.len().await?;
        if there != len {
            return Err(bad(format!("it has {there} bytes and should have {len}")));
        }
        let mut sum = Crc32c::new();
        let mut at = 0;
        while at < len {
            let piece = usize::try_from((len - at).min(1 << 20)).unwrap_or(1 << 20);
            let bytes = file
                .read_at(at, piece)
                .await
                .map_err(|error| bad(error.to_string()))?;
            if bytes.is_empty() {
                return Err(bad("it ends early".to_owned()));
            }
            sum.update(&bytes);
            at += bytes.len() as u64;
        }
        if sum.value() != crc {
            return Err(bad(format!(
                "its checksum is {:08x} and should be {crc:08x}",
                sum.value()
            )));
        }
    }
    Ok(())
}

/// The time at which a backup's catalog was as it says.
#[must_use]
pub(super) fn taken(backup: &BackupFile) -> Timestamp {
    backup.since
}
