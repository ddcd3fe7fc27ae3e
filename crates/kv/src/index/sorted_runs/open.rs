//! Making and opening an index.
//!
//! Opening trusts a run on a disk only if that disk's own manifest names it, since the run was then
//! synced there. Of all manifests of the lineage, the one with the newest batch is used, provided
//! that each of its runs is complete on some disk ([`newest`]). An older state is also correct,
//! since the journal has the later records.
//!
//! A readable manifest is not necessarily durable: the process that wrote it may have been killed
//! before it synced the folder. The sync is therefore done before anything relies on it
//! ([`settle`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dewar_env::{Disk, DiskErrorKind, Env};
use dewar_types::{DiskId, Error, ErrorKind, Result};
use futures_util::future::join_all;

use super::build::IndexDisk;
use super::cache::PieceCache;
use super::format::{Manifest, RunMeta};
use super::gc::{self, GcTasks};
use super::manifest_store::{ManifestStore, manifest_path};
use super::sorted_run::{FOLDER, RunContext, RunCopy, RunCounters, SortedRun, path_of};
use super::view::Version;
use super::{Inner, RunConfig};
use crate::Seq;

/// What a disk says it holds.
pub(super) struct DiskManifest {
    pub(super) member: IndexDisk,
    pub(super) manifest: Option<Manifest>,
}

/// Makes an empty index; what was there under the same folder goes.
pub(super) async fn create(
    env: Env,
    disks: Vec<(DiskId, Arc<dyn Disk>)>,
    config: RunConfig,
    applied: Seq,
) -> Result<Arc<Inner>> {
    let inner = beginning(env, disks, config).await;
    {
        let mut books = inner.books.lock().await;
        let runs = Vec::new();
        inner.install(&mut books, Version { runs, applied }).await?;
    }
    sweep_all(&inner).await;
    Ok(inner)
}

/// Nothing yet, on disks where nothing was touched.
pub(super) async fn beginning(
    env: Env,
    disks: Vec<(DiskId, Arc<dyn Disk>)>,
    config: RunConfig,
) -> Arc<Inner> {
    let found = look(members(disks)).await;
    // Above whatever an earlier index of this lineage left anywhere within reach.
    let numbers = found.iter().flat_map(|f| &f.manifest).map(|m| m.number);
    let number = numbers.max().unwrap_or(0);
    let shared = shared(&config);
    assemble(
        env,
        config,
        &found,
        Vec::new(),
        Version::default(),
        number,
        shared,
    )
}

/// Opens the newest whole state.
pub(super) async fn open(
    env: Env,
    disks: Vec<(DiskId, Arc<dyn Disk>)>,
    config: RunConfig,
) -> Result<Arc<Inner>> {
    let mut found = look(members(disks)).await;
    for disk in &mut found {
        disk.manifest = disk.manifest.take().filter(|m| m.lineage == config.lineage);
    }
    let manifests = found.iter().flat_map(|f| &f.manifest);
    let number = manifests.map(|m| m.number).max().unwrap_or(0);
    let shared = shared(&config);
    let (manifest, runs) = newest(&found, &config, &shared).await?;
    let applied = manifest.applied;
    let holders = found
        .iter()
        .filter(|f| f.manifest.as_ref() == Some(&manifest));
    let settled = holders.map(|f| async move { settle(&f.member).await.then_some(f.member.id) });
    let holders: Vec<DiskId> = join_all(settled).await.into_iter().flatten().collect();
    let version = Version { runs, applied };
    let inner = assemble(env, config, &found, holders, version, number, shared);
    complete(&inner).await;
    sweep_all(&inner).await;
    Ok(inner)
}

/// The last batch in the newest whole state.
pub(super) async fn probe(disks: Vec<(DiskId, Arc<dyn Disk>)>, config: &RunConfig) -> Result<Seq> {
    let mut found = look(members(disks)).await;
    for disk in &mut found {
        disk.manifest = disk.manifest.take().filter(|m| m.lineage == config.lineage);
    }
    let (manifest, _) = newest(&found, config, &shared(config)).await?;
    Ok(manifest.applied)
}

/// The newest state that is whole, and its runs.
///
/// A change that was cut short may have left a state on one disk alone, and what is damaged there
/// no other has. As long as there are others to choose from, a state with too few copies is read
/// whole before it is taken.
async fn newest(
    found: &[DiskManifest],
    config: &RunConfig,
    shared: &Arc<RunContext>,
) -> Result<(Manifest, Vec<Arc<SortedRun>>)> {
    let mut candidates: Vec<&Manifest> = found.iter().flat_map(|f| &f.manifest).collect();
    candidates.sort_by_key(|m| std::cmp::Reverse((m.applied, m.number)));
    candidates.dedup();
    let mut why = Error::new(
        ErrorKind::NotFound,
        "no disk has a manifest of the catalog index",
    );
    // What can be opened, but not be read to its end.
    let mut torn = None;
    let alone = candidates.len() == 1;
    for manifest in candidates {
        let opened = async {
            let runs = open_runs(manifest, found, shared).await;
            let runs = runs.map_err(|error| (error, None))?;
            if !alone && let Err(error) = verify_scarce(&runs, config.copies).await {
                return Err((error, Some(runs)));
            }
            Ok(runs)
        };
        match opened.await {
            Ok(runs) => return Ok((manifest.clone(), runs)),
            Err((error, runs)) => {
                let number = manifest.number;
                dewar_env::coverage_mark("a state of the index was passed over");
                tracing::warn!(number, %error, "a state of the catalog index is not whole");
                why = error;
                torn = torn.or(runs.map(|runs| (manifest.clone(), runs)));
            }
        }
    }
    torn.ok_or(why)
}

/// Reads the runs to their end that fewer disks have than should.
async fn verify_scarce(runs: &[Arc<SortedRun>], copies: usize) -> Result<()> {
    for run in runs.iter().filter(|run| run.copies().len() < copies) {
        run.verify().await?;
    }
    Ok(())
}

/// Lets the runs count that are whole on a disk that came (back).
pub(super) async fn adopt(inner: &Inner, member: &IndexDisk, version: &Version) {
    let found = look_at(member.clone()).await;
    let manifest = found.manifest.as_ref();
    let manifest = manifest.filter(|m| m.lineage == inner.config.lineage);
    let durable = manifest.is_some() && settle(member).await;
    for run in &version.runs {
        if let Some(copy) = trusted(member, manifest, &run.meta).await {
            run.add_copy(copy);
            if !durable {
                run.leave(|copy| copy.id == member.id);
            }
        }
    }
}

/// Makes durable what the folder of a disk shows; whether it counts. What is on a disk that takes no
/// writes counts as it is: no change builds on it, since those need disks that do.
async fn settle(member: &IndexDisk) -> bool {
    if !member.disk.state().writable() {
        return true;
    }
    if !dewar_env::safeguard("manifests are made durable again") {
        return true;
    }
    match member.disk.sync_dir(FOLDER).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "a copy of the catalog index does not count");
            false
        }
    }
}

/// Opens the files of a holder anew that was away. Whether it has the whole current state; what it has
/// not counts no more. One that goes away meanwhile is left as it is.
pub(super) async fn reopen(inner: &Inner, member: &IndexDisk, version: &Version) -> bool {
    let found = look_at(member.clone()).await;
    if !member.disk.state().readable() {
        return true;
    }
    let manifest = found.manifest.as_ref();
    let manifest = manifest.filter(|m| m.lineage == inner.config.lineage);
    let durable = manifest.is_some() && settle(member).await;
    let mut whole = durable
        && manifest.is_some_and(|manifest| {
            let runs = version.runs.iter().map(|run| run.meta);
            manifest.applied == version.applied && runs.eq(manifest.runs.iter().copied())
        });
    for run in &version.runs {
        if !run.is_stale_on(member.id) {
            continue;
        }
        match trusted(member, manifest, &run.meta).await {
            Some(copy) => {
                run.add_copy(copy);
                if !durable {
                    run.leave(|copy| copy.id == member.id);
                }
            }
            None => {
                run.retain_copies(|copy| copy.id != member.id);
                inner.shared.chores.sweep(member.id, &member.disk);
                whole = false;
            }
        }
    }
    whole
}

pub(super) fn members(disks: Vec<(DiskId, Arc<dyn Disk>)>) -> Vec<IndexDisk> {
    let members = disks.into_iter().map(|(id, disk)| IndexDisk { id, disk });
    members.collect()
}

pub(super) async fn look(members: Vec<IndexDisk>) -> Vec<DiskManifest> {
    join_all(members.into_iter().map(look_at)).await
}

async fn look_at(member: IndexDisk) -> DiskManifest {
    let manifest = match member.disk.read_file(&manifest_path()).await {
        Ok(bytes) => match Manifest::decode(&bytes) {
            Ok(manifest) => Some(manifest),
            Err(why) => {
                let disk = member.disk.label();
                tracing::warn!(disk, %why, "a manifest of the catalog index is unreadable");
                None
            }
        },
        Err(error) if error.kind() == DiskErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(%error, "a manifest of the catalog index cannot be read");
            None
        }
    };
    DiskManifest { member, manifest }
}

pub(super) async fn open_runs(
    manifest: &Manifest,
    found: &[DiskManifest],
    shared: &Arc<RunContext>,
) -> Result<Vec<Arc<SortedRun>>> {
    let mut runs = Vec::new();
    for meta in &manifest.runs {
        let mut opening = Vec::new();
        for disk in found {
            opening.push(trusted(&disk.member, disk.manifest.as_ref(), meta));
        }
        let copies: Vec<RunCopy> = join_all(opening).await.into_iter().flatten().collect();
        let run = Arc::new(SortedRun::open(*meta, copies, shared).await?);
        shared.chores.register(&run);
        runs.push(run);
    }
    Ok(runs)
}

/// The run on this disk, if its manifest names it and the file is as long as it should be.
async fn trusted(
    member: &IndexDisk,
    manifest: Option<&Manifest>,
    meta: &RunMeta,
) -> Option<RunCopy> {
    if !manifest?
        .runs
        .iter()
        .any(|run| run.id == meta.id && run.crc == meta.crc)
    {
        return None;
    }
    let opened = async {
        let copy = RunCopy::open(member.id, &member.disk, &path_of(meta.id)).await?;
        let len = copy.file.len().await?;
        Ok::<_, dewar_env::DiskError>((copy, len))
    };
    match opened.await {
        Ok((copy, len)) if len == meta.len => Some(copy),
        Ok((_, len)) => {
            let (disk, path) = (member.disk.label(), path_of(meta.id));
            tracing::warn!(
                disk,
                path,
                len,
                "a run of the catalog index has a wrong length"
            );
            None
        }
        Err(error) => {
            tracing::warn!(%error, "a run of the catalog index cannot be opened");
            None
        }
    }
}

fn shared(config: &RunConfig) -> Arc<RunContext> {
    let (chores, queue) = GcTasks::new();
    tokio::spawn(gc::keep(queue, chores.registered()));
    Arc::new(RunContext {
        blocks: PieceCache::new(config.cache_bytes),
        partitions: PieceCache::new(config.pinned_bytes),
        chores,
        counters: RunCounters::default(),
    })
}

#[allow(clippy::too_many_arguments, reason = "the parts of one struct")]
fn assemble(
    env: Env,
    config: RunConfig,
    found: &[DiskManifest],
    holders: Vec<DiskId>,
    version: Version,
    number: u64,
    shared: Arc<RunContext>,
) -> Arc<Inner> {
    let books = ManifestStore {
        disks: found.iter().map(|f| f.member.clone()).collect(),
        holders,
        number,
        generation: 0,
        limbo: Vec::new(),
    };
    let inner = Arc::new(Inner::new(env, config, shared, version, books));
    inner.shared.chores.belong_to(&inner);
    inner
}

/// Makes as many disks hold the index as should; if that cannot be, it is served all the same and
/// the status tells.
async fn complete(inner: &Inner) {
    let mut books = inner.books.lock().await;
    let current = inner.version();
    if inner.is_complete(&books) {
        inner.kept.store(current.applied, Ordering::Relaxed);
        return;
    }
    let same = Version {
        runs: current.runs.clone(),
        applied: current.applied,
    };
    if let Err(error) = inner.install(&mut books, same).await {
        tracing::warn!(%error, "the catalog index has fewer copies than it should");
    }
}

pub(super) async fn sweep_all(inner: &Inner) {
    let books = inner.books.lock().await;
    let mut sweeping = Vec::new();
    for member in &books.disks {
        sweeping.push(sweep(inner, &books, member));
    }
    join_all(sweeping).await;
}

/// Removes what nobody needs on this disk, now or when it can be written: leftovers of crashes and of
/// older states.
pub(super) async fn sweep(inner: &Inner, books: &ManifestStore, member: &IndexDisk) {
    let swept = member.disk.state().writable()
        && gc::sweep(inner, member.id, &member.disk, Some(books)).await;
    if !swept {
        inner.shared.chores.sweep(member.id, &member.disk);
    }
}
