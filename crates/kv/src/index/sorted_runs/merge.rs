//! Merging: eight runs of a level become one of the next, in the background.
//!
//! Levels never mix in age: the runs of a level are newer than those of the next. An entry is
//! therefore written once for each level, and a get reads at most a few runs a level. Two merges
//! may run at once, on different levels, so that small runs do not accumulate during a long merge.
//! Deletions are dropped when the oldest run takes part. When a quarter of all entries are
//! deletions, all runs are merged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dewar_types::{Error, ErrorKind, Result};

use super::Inner;
use super::build::{CopyWriter, RunBuilder};
use super::format::{Block, BlockCursor, Piece};
use super::manifest_store::batches;
use super::sorted_run::SortedRun;
use super::view::Version;

/// Runs of a level that become one of the next.
pub(super) const FAN: usize = 8;

/// Runs that one merge takes at most.
const INPUTS_MAX: usize = 2 * FAN;

/// Merges at once.
const RUNNING_MAX: usize = 2;

/// Fewer deletions are not worth merging everything.
const DELETIONS_MIN: u64 = 4096;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Entries between two chances for others to run, about 50 us.
const STEPS_BETWEEN_YIELDS: u32 = 128;

/// Which merges are under way.
#[derive(Default)]
pub(super) struct MergeScheduler {
    busy: BTreeSet<u64>,
    pub(super) running: usize,
    /// The last one failed; the next batch tries again.
    pub(super) failed: bool,
}

struct Job {
    /// Newest first, adjacent in age.
    inputs: Vec<Arc<SortedRun>>,
    level: u32,
    drop_deletions: bool,
}

/// Starts what there is to merge.
pub(super) fn start(inner: &Arc<Inner>) {
    while let Some(job) = pick(inner) {
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            let result = run(&inner, &job).await;
            let failed = result.is_err();
            {
                let mut merges = inner.merges.lock();
                merges.running -= 1;
                merges.failed = failed;
                for input in &job.inputs {
                    merges.busy.remove(&input.meta.id);
                }
            }
            if let Err(error) = result
                && !inner.stopped()
            {
                tracing::warn!(%error, "merging runs of the catalog index failed");
            }
            inner.progress.send_modify(|n| *n += 1);
            if !failed {
                start(&inner);
            }
        });
    }
}

/// Whether something is being merged or waits for it.
pub(super) fn is_busy(inner: &Inner) -> bool {
    let version = inner.version();
    let merges = inner.merges.lock();
    merges.running > 0 || (!merges.failed && next_job(&version, &merges).is_some())
}

fn pick(inner: &Arc<Inner>) -> Option<Job> {
    if inner.stopped() {
        return None;
    }
    let version = inner.version();
    let mut merges = inner.merges.lock();
    let job = next_job(&version, &merges)?;
    merges.running += 1;
    merges.busy.extend(job.inputs.iter().map(|run| run.meta.id));
    Some(job)
}

fn next_job(version: &Version, merges: &MergeScheduler) -> Option<Job> {
    let runs = &version.runs;
    if merges.running == 0 {
        let entries: u64 = runs.iter().map(|run| run.meta.entries).sum();
        let deletions: u64 = runs.iter().map(|run| run.meta.deletions).sum();
        if deletions >= DELETIONS_MIN && deletions.saturating_mul(4) >= entries {
            return Some(Job {
                inputs: runs.clone(),
                level: runs.iter().map(|run| run.meta.level).max()?,
                drop_deletions: true,
            });
        }
    }
    if merges.running >= RUNNING_MAX {
        return None;
    }
    for level in runs.chunk_by(|a, b| a.meta.level == b.meta.level) {
        let busy = level.iter().any(|run| merges.busy.contains(&run.meta.id));
        if level.len() < FAN || busy {
            continue;
        }
        let inputs = level[level.len().saturating_sub(INPUTS_MAX)..].to_vec();
        let oldest = |runs: &[Arc<SortedRun>]| runs.last().map(|run| run.meta.id);
        return Some(Job {
            level: inputs.first()?.meta.level + 1,
            drop_deletions: oldest(&inputs) == oldest(runs),
            inputs,
        });
    }
    None
}

async fn run(inner: &Arc<Inner>, job: &Job) -> Result<()> {
    let (generation, targets) = {
        let books = inner.books.lock().await;
        (books.generation, inner.targets(&books)?)
    };
    let chores = &inner.shared.chores;
    let writing = chores.begin(&*inner.env.rng);
    let mut writer = CopyWriter::create(writing.run, &targets, chores).await;
    let mut builder = RunBuilder::new(writing.run);
    let merged = merge(inner, job, &mut builder, &mut writer).await;
    if let Err(error) = merged {
        writer.abandon().await;
        return Err(error);
    }
    let output = if builder.is_empty() {
        writer.abandon().await;
        None
    } else {
        let (last, meta, directory) = builder.finish(job.level)?;
        let written = async {
            writer.write(last).await?;
            writer.finish().await
        };
        let copies = written.await?;
        let run = Arc::new(SortedRun::new(
            meta,
            directory,
            copies,
            Arc::clone(&inner.shared),
        ));
        inner.shared.chores.register(&run);
        Some(run)
    };
    drop(writing);
    let bytes = output.as_ref().map_or(0, |run| run.meta.len);
    let mut books = inner.books.lock().await;
    if books.generation != generation {
        output.inspect(|run| run.retire());
        return Err(Error::new(
            ErrorKind::Conflict,
            "the disks changed meanwhile",
        ));
    }
    let current = inner.version();
    let next = Version {
        runs: replaced(&current.runs, &job.inputs, output),
        applied: current.applied,
    };
    inner.install(&mut books, next).await?;
    let counters = &inner.shared.counters;
    counters.merges.fetch_add(1, Ordering::Relaxed);
    counters.bytes_merged.fetch_add(bytes, Ordering::Relaxed);
    Ok(())
}

/// The list with `inputs`, which are neighbours in it, replaced by `output`.
fn replaced(
    runs: &[Arc<SortedRun>],
    inputs: &[Arc<SortedRun>],
    output: Option<Arc<SortedRun>>,
) -> Vec<Arc<SortedRun>> {
    let is_input = |run: &Arc<SortedRun>| inputs.iter().any(|input| Arc::ptr_eq(input, run));
    let start = runs.iter().position(is_input).unwrap_or(0);
    let newer = runs[..start].iter().cloned();
    let older = runs[start..].iter().filter(|run| !is_input(run)).cloned();
    newer.chain(output).chain(older).collect()
}

async fn merge(
    inner: &Inner,
    job: &Job,
    builder: &mut RunBuilder,
    writer: &mut CopyWriter,
) -> Result<()> {
    let mut sources = Vec::new();
    for run in &job.inputs {
        sources.push(MergeInput::open(run).await?);
    }
    let mut order = Order::default();
    for n in 0..sources.len() {
        order.place(n, &sources);
    }
    let mut last: Option<Vec<u8>> = None;
    let mut steps = 0;
    while let Some(n) = order.take() {
        let source = &mut sources[n];
        let key = source.cursor.key().unwrap_or_default();
        if last.as_deref() != Some(key) {
            let value = source.cursor.value();
            if value.is_some() || !job.drop_deletions {
                builder.add(key, value);
            }
            let before = last.get_or_insert_default();
            before.clear();
            before.extend_from_slice(key);
        }
        if source.advance().await? {
            order.place(n, &sources);
        }
        if builder.ready() >= WRITE_BYTES {
            writer.write(builder.take()).await?;
        }
        steps += 1;
        if steps % STEPS_BETWEEN_YIELDS == 0 {
            if inner.stopped() {
                return Err(Error::new(ErrorKind::Unavailable, "the index is closing"));
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// The sources that have entries left, the one with the least key last; of equal keys the newest
/// run's. Few sources: a sorted list beats a heap, as keys come in stretches.
#[derive(Default)]
struct Order(Vec<usize>);

impl Order {
    fn place(&mut self, n: usize, sources: &[MergeInput]) {
        let Some(key) = sources[n].cursor.key() else {
            return;
        };
        let comes_after = |other: usize| {
            let other_key = sources[other].cursor.key().unwrap_or_default();
            (other_key, other) > (key, n)
        };
        let at = self.0.partition_point(|&other| comes_after(other));
        self.0.insert(at, n);
    }

    fn take(&mut self) -> Option<usize> {
        self.0.pop()
    }
}

/// One input, read ahead a stretch at a time past the caches.
struct MergeInput {
    run: Arc<SortedRun>,
    next_partition: usize,
    /// Ranges of the current partition that were not read, the next last.
    stretches: Vec<Vec<Piece>>,
    /// Blocks that were read, the next last.
    blocks: Vec<Bytes>,
    cursor: BlockCursor,
}

impl MergeInput {
    async fn open(run: &Arc<SortedRun>) -> Result<Self> {
        let partition = run.partition(0).await?;
        let first = run.block(partition.block(0)).await?;
        let mut source = Self {
            run: Arc::clone(run),
            next_partition: 0,
            stretches: Vec::new(),
            blocks: Vec::new(),
            // Only to have one: reading begins with the first stretch.
            cursor: BlockCursor::new(first),
        };
        source.enter_next().await?;
        Ok(source)
    }

    async fn advance(&mut self) -> Result<bool> {
        if self
            .cursor
            .advance()
            .map_err(|why| self.run.malformed(why))?
        {
            return Ok(true);
        }
        self.enter_next().await
    }

    async fn enter_next(&mut self) -> Result<bool> {
        loop {
            if let Some(bytes) = self.blocks.pop() {
                let block = Block::parse(bytes).map_err(|why| self.run.malformed(why))?;
                self.cursor.enter(block);
                if self
                    .cursor
                    .advance()
                    .map_err(|why| self.run.malformed(why))?
                {
                    return Ok(true);
                }
            } else if let Some(stretch) = self.stretches.pop() {
                self.blocks = self.run.read_all(&stretch).await?;
                self.blocks.reverse();
            } else if self.next_partition < self.run.directory.len() {
                let partition = self.run.partition(self.next_partition).await?;
                let blocks: Vec<Piece> = (0..partition.len()).map(|n| partition.block(n)).collect();
                self.stretches = batches(&blocks).map(<[Piece]>::to_vec).collect();
                self.stretches.reverse();
                self.next_partition += 1;
            } else {
                return Ok(false);
            }
        }
    }
}
