//! Making an index from given runs, in place of an older one on the disks.
//!
//! The runs are written again, block by block, under ids of their own. Files under the old ids are
//! not touched before the new index is complete and durable. Then one manifest names all new runs,
//! above every known number and batch. Only after that are the old files removed.
//!
//! # Crash cases
//! Before the first manifest: the old index is valid, and the next opening removes the other files.
//! After it: the new index is valid, and the next opening completes it.

use std::sync::Arc;

use dewar_env::{Disk, Env};
use dewar_types::{DiskId, Result};

use super::build::{CopyWriter, IndexDisk, RunBuilder};
use super::format::BlockCursor;
use super::read_only::{LostKeyRange, ReadOnlyRuns, ReadableBlocks};
use super::sorted_run::SortedRun;
use super::view::Version;
use super::{Inner, RunConfig, RunIndex, WRITE_BYTES, merge, open};
use crate::Seq;
use crate::index::Entry;

impl RunIndex {
    /// Makes an index of the lineage on these disks. It holds the entries of `source` and, above
    /// them, those of `top` (sorted, may be empty). It counts as having applied the journal up to
    /// `applied`. `applied` must be above that of every index of the lineage, so that no index on
    /// an absent disk is taken as newer later. Ranges of `source` of which no copy can be read are
    /// left out and returned.
    ///
    /// # Errors
    /// `Unavailable` or `NoSpace` when fewer disks than copies can be written. The index that was
    /// there is then unchanged.
    pub async fn bootstrap(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: RunConfig,
        source: Option<&ReadOnlyRuns>,
        top: Vec<Entry>,
        applied: Seq,
    ) -> Result<(Self, Vec<LostKeyRange>)> {
        let inner = open::beginning(env, disks, config).await;
        let targets = inner.targets(&*inner.books.lock().await)?;
        let mut runs = Vec::new();
        let mut lost = Vec::new();
        if !top.is_empty() {
            runs.push(inner.write_run(&top, &targets).await?);
        }
        for run in source.map_or(&[][..], ReadOnlyRuns::runs) {
            let (copy, left_out) = inner.rewrite(run, &targets).await?;
            runs.extend(copy);
            lost.extend(left_out);
        }
        inner
            .install(&mut *inner.books.lock().await, Version { runs, applied })
            .await?;
        open::sweep_all(&inner).await;
        merge::start(&inner);
        Ok((Self { inner }, lost))
    }

    /// The present state of the index, for copying: its files stay as long as this is held.
    #[must_use]
    pub fn hold(&self) -> ReadOnlyRuns {
        ReadOnlyRuns::new(self.inner.version())
    }
}

impl Inner {
    /// Writes what can be read of a run under a new id; `None` when that is nothing.
    async fn rewrite(
        &self,
        source: &Arc<SortedRun>,
        targets: &[IndexDisk],
    ) -> Result<(Option<Arc<SortedRun>>, Vec<LostKeyRange>)> {
        let chores = &self.shared.chores;
        let writing = chores.begin(&*self.env.rng);
        let mut writer = CopyWriter::create(writing.run, targets, chores).await;
        let mut builder = RunBuilder::new(writing.run);
        let mut blocks = ReadableBlocks::of(source);
        while let Some(block) = blocks.next().await {
            let mut entry = BlockCursor::new(block);
            while entry.advance().map_err(|why| source.malformed(why))? {
                if let Some(key) = entry.key() {
                    builder.add(key, entry.value());
                }
            }
            if builder.ready() >= WRITE_BYTES
                && let Err(error) = writer.write(builder.take()).await
            {
                writer.abandon().await;
                return Err(error);
            }
            tokio::task::yield_now().await;
        }
        if builder.is_empty() {
            writer.abandon().await;
            return Ok((None, blocks.lost()));
        }
        let (last, meta, directory) = builder.finish(source.meta.level)?;
        if let Err(error) = writer.write(last).await {
            writer.abandon().await;
            return Err(error);
        }
        let copies = writer.finish().await?;
        let run = Arc::new(SortedRun::new(
            meta,
            directory,
            copies,
            Arc::clone(&self.shared),
        ));
        self.shared.chores.register(&run);
        Ok((Some(run), blocks.lost()))
    }
}
