//! The set of disks that hold the index, and the switch to a new state of the index.
//!
//! A new state is published in this order:
//!
//! 1. The runs of the new state are complete and synced on as many disks as the index has copies.
//! 2. Each of these disks gets the new manifest.
//! 3. Readers see the new state.
//! 4. Files that the new manifest does not name may be removed.
//!
//! A crash in between leaves the old state on all disks, or the new state on some of them. Opening
//! takes the newest state whose runs are all present, and completes the other disks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dewar_env::{Disk, DiskError};
use dewar_types::{DiskId, Error, ErrorKind, Result};
use futures_util::future::join_all;

use super::Inner;
use super::build::{CopyWriter, IndexDisk};
use super::format::{Manifest, Piece};
use super::sorted_run::{FOLDER, RunCopy, SortedRun};
use super::view::Version;

/// Bytes copied at a time, about.
const COPY_BYTES: u64 = 1 << 20;

/// What one change at a time may touch.
pub(super) struct ManifestStore {
    /// Disks that can be used, in order of preference.
    pub(super) disks: Vec<IndexDisk>,
    /// Disks that have the current manifest and all runs.
    pub(super) holders: Vec<DiskId>,
    /// The highest manifest number that may be on a disk.
    pub(super) number: u64,
    /// Counts changes of `disks`.
    pub(super) generation: u64,
    /// Runs that a manifest on some disk may name although the change that made them failed.
    pub(super) limbo: Vec<Arc<SortedRun>>,
}

/// Where the manifest stands on every holder.
pub(super) fn manifest_path() -> String {
    format!("{FOLDER}/manifest")
}

impl ManifestStore {
    /// The holders that are among the disks.
    pub(super) fn placed(&self) -> Vec<IndexDisk> {
        let is_holder = |m: &&IndexDisk| self.holders.contains(&m.id);
        self.disks.iter().filter(is_holder).cloned().collect()
    }

    /// Whether this is what a disk is reached by.
    pub(super) fn knows(&self, id: DiskId, disk: &Arc<dyn Disk>) -> bool {
        let same = |m: &IndexDisk| m.id == id && Arc::ptr_eq(&m.disk, disk);
        self.disks.iter().any(same)
    }

    /// The disks that hold the index from now on: present holders stay.
    fn choose(&self, copies: usize, tried: &BTreeSet<DiskId>) -> Vec<IndexDisk> {
        let good = |m: &&IndexDisk| m.disk.state().writable() && !tried.contains(&m.id);
        let is_holder = |m: &&IndexDisk| self.holders.contains(&m.id);
        let stay = self.disks.iter().filter(is_holder).filter(good);
        let join = self.disks.iter().filter(|m| !is_holder(m)).filter(good);
        stay.chain(join).take(copies).cloned().collect()
    }
}

impl Inner {
    /// The disks that a new run is written to.
    pub(super) fn targets(&self, books: &ManifestStore) -> Result<Vec<IndexDisk>> {
        let chosen = books.choose(self.config.copies, &BTreeSet::new());
        self.enough(chosen, None)
    }

    fn enough(&self, chosen: Vec<IndexDisk>, why: Option<Error>) -> Result<Vec<IndexDisk>> {
        let copies = self.config.copies;
        if chosen.len() >= copies {
            return Ok(chosen);
        }
        let message = format!(
            "the catalog index needs {copies} disks that can be written and has {}",
            chosen.len()
        );
        Err(match why {
            Some(why) => Error::with_source(why.kind(), message, why),
            None => Error::new(ErrorKind::Unavailable, message),
        })
    }

    /// Makes `next` the current state. On an error the old one stays; runs that are only in
    /// `next` may then have been named by a manifest and are kept until the next success.
    pub(super) async fn install(&self, books: &mut ManifestStore, next: Version) -> Result<()> {
        let mut tried = BTreeSet::new();
        let mut why = None;
        let mut named = false;
        let installed = loop {
            let chosen = books.choose(self.config.copies, &tried);
            let holders = match self.enough(chosen, why.take()) {
                Ok(holders) => holders,
                Err(error) => break Err(error),
            };
            if let Err((disk, error)) = complete(&next.runs, &holders).await {
                match disk {
                    Some(disk) => tried.insert(disk),
                    // No disk is to blame: no copy of a run can be read.
                    None => break Err(error),
                };
                why = Some(error);
                continue;
            }
            named = true;
            books.number += 1;
            match self.write_manifests(books.number, &next, &holders).await {
                Ok(()) => break Ok(holders),
                Err((disk, error)) => {
                    tracing::warn!(%error, "a disk takes no manifest of the catalog index");
                    tried.insert(disk);
                    why = Some(error.into());
                }
            }
        };
        match installed {
            Ok(holders) => {
                self.replace_current(books, next, &holders);
                Ok(())
            }
            Err(error) => {
                let current = self.version();
                let is_new =
                    |run: &&Arc<SortedRun>| !current.runs.iter().any(|old| Arc::ptr_eq(old, run));
                for run in next.runs.iter().filter(is_new) {
                    if named {
                        books.limbo.push(Arc::clone(run));
                    } else {
                        run.retire();
                    }
                }
                Err(error)
            }
        }
    }

    async fn write_manifests(
        &self,
        number: u64,
        next: &Version,
        holders: &[IndexDisk],
    ) -> Result<(), (DiskId, DiskError)> {
        let manifest = Manifest {
            lineage: self.config.lineage,
            number,
            applied: next.applied,
            runs: next.runs.iter().map(|run| run.meta).collect(),
        };
        let path = manifest_path();
        let content = Bytes::from(manifest.encode());
        let mut writing = Vec::new();
        for holder in holders {
            writing.push(holder.disk.replace_file(&path, content.clone()));
        }
        let written = holders.iter().zip(join_all(writing).await);
        let mut failed = written.filter_map(|(holder, written)| Some((holder.id, written.err()?)));
        failed.next().map_or(Ok(()), Err)
    }

    fn replace_current(&self, books: &mut ManifestStore, next: Version, holders: &[IndexDisk]) {
        let ids: Vec<DiskId> = holders.iter().map(|holder| holder.id).collect();
        if books.holders != ids {
            let disks: Vec<String> = ids.iter().map(DiskId::to_string).collect();
            let disks = disks.join(" ");
            tracing::info!(disks, "the catalog index is on these disks now");
            books.holders = ids;
        }
        *self.placed.write() = books.placed();
        self.kept.store(next.applied, Ordering::Relaxed);
        let next = Arc::new(next);
        let old = std::mem::replace(&mut *self.current.write(), Arc::clone(&next));
        for run in old.runs.iter().chain(&books.limbo) {
            if !next.runs.iter().any(|stays| Arc::ptr_eq(stays, run)) {
                run.retire();
            }
        }
        books.limbo.clear();
        for run in &next.runs {
            // A disk that holds the index no longer gets its room back.
            for gone in run.retain_copies(|copy| books.holders.contains(&copy.id)) {
                self.shared.chores.sweep(gone.id, &gone.disk);
            }
        }
        self.progress.send_modify(|n| *n += 1);
    }
}

/// Copies runs to the disks that lack them. An error names the disk that is to blame, if one is.
async fn complete(
    runs: &[Arc<SortedRun>],
    holders: &[IndexDisk],
) -> Result<(), (Option<DiskId>, Error)> {
    for run in runs {
        for holder in holders.iter().filter(|holder| !run.is_on(holder.id)) {
            copy_run(run, holder).await?;
        }
    }
    Ok(())
}

async fn copy_run(run: &Arc<SortedRun>, to: &IndexDisk) -> Result<(), (Option<DiskId>, Error)> {
    let mut writer =
        CopyWriter::create(run.meta.id, std::slice::from_ref(to), &run.shared().chores).await;
    match write_copy(run, &mut writer).await {
        Ok(()) => {}
        Err((blame, error)) => {
            writer.abandon().await;
            return Err((blame.then_some(to.id), error));
        }
    }
    let copies = writer.finish().await;
    for copy in copies.map_err(|error| (Some(to.id), error))? {
        run.add_copy(copy);
    }
    Ok(())
}

/// Writes all verified pieces in their order; an error says whether the written disk is to blame.
async fn write_copy(run: &SortedRun, writer: &mut CopyWriter) -> Result<(), (bool, Error)> {
    for n in 0..run.directory.len() {
        let partition = run.partition(n).await.map_err(|e| (false, e))?;
        write_pieces(run, &run.pieces(n, &partition), writer).await?;
    }
    write_pieces(run, &run.tail(), writer).await
}

async fn write_pieces(
    run: &SortedRun,
    pieces: &[Piece],
    writer: &mut CopyWriter,
) -> Result<(), (bool, Error)> {
    for batch in batches(pieces) {
        for bytes in run.read_all(batch).await.map_err(|e| (false, e))? {
            writer.write(bytes).await.map_err(|e| (true, e))?;
        }
    }
    Ok(())
}

/// Stretches of about [`COPY_BYTES`], at least a piece each.
pub(super) fn batches(pieces: &[Piece]) -> impl Iterator<Item = &[Piece]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let start = rest.first()?.offset;
        let fits = rest.iter().take_while(|p| p.end() - start <= COPY_BYTES);
        let (batch, after) = rest.split_at(fits.count().max(1));
        rest = after;
        Some(batch)
    })
}

/// Has only the copies count that lie on these disks. Those on a disk that is not among them are read
/// until there are enough others: they may be the last. What is reached by other means now is
/// forgotten.
pub(super) fn count_only(run: &SortedRun, disks: &[IndexDisk]) {
    run.leave(|copy| !disks.iter().any(|member| member.id == copy.id));
    let other =
        |copy: &RunCopy, m: &IndexDisk| m.id == copy.id && !Arc::ptr_eq(&m.disk, &copy.disk);
    run.retain_copies(|copy| !disks.iter().any(|member| other(copy, member)));
}
