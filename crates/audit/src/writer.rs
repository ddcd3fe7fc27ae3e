//! The writer thread: takes queued records, numbers and chains them, writes, syncs, rotates.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use dewar_auth::AuditRecord;
use dewar_env::Clock;
use dewar_types::Timestamp;
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use crate::file_set::FileSet;
use crate::line::{DigestChain, Line, RECORD_BYTES, bounded};
use crate::rate::{RateLimiter, SkippedRecords};
use crate::set::AuditSet;
use crate::{AuditConfig, Unwritable, own};

/// Bytes of records that wait for the disk, about.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Between one sync and the next.
const SYNC_PAUSE: Duration = Duration::from_millis(100);

/// Such pauses before a failed write is tried again.
const RETRY_STEPS: usize = 10;

/// The longest wait for the disk at the end.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Between two complaints in the server's log.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Interval of checks whether a minute is over in which records were only counted.
const WINDOW_PAUSE: Duration = Duration::from_secs(1);

/// Why the log cannot be opened.
#[derive(Debug, Error)]
#[error("the audit log in {}: {error}", .folder.display())]
pub struct OpenError {
    folder: PathBuf,
    error: io::Error,
}

/// The counters since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditCounters {
    /// Records that are on the disk.
    pub written: u64,
    /// Those that were not taken because the queue was full.
    pub lost: u64,
    /// Those beyond the rate of their account, which were only counted.
    pub summed: u64,
}

struct Queue {
    records: VecDeque<(Timestamp, AuditSet, AuditRecord)>,
    bytes: usize,
    /// Records that were not taken and are not reported yet.
    lost: u64,
    rates: RateLimiter,
    /// Records taken and written since the opening.
    taken: u64,
    done: u64,
    ends: bool,
    failing: Option<String>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// For the thread: there is something, or the end.
    more: Condvar,
    /// For those who wait for the disk.
    written: Condvar,
    lost: AtomicU64,
    summed: AtomicU64,
    done: AtomicU64,
}

/// Owns the thread, and ends it.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    unwritable: Unwritable,
    cut: Vec<(AuditSet, u64)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn open(config: AuditConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let failed = |error| OpenError {
            folder: config.folder.clone(),
            error,
        };
        let unwritable = config.unwritable;
        let mut cut = Vec::new();
        let mut open = |set| {
            let (files, bytes) = FileSet::open(config.clone(), set).map_err(failed)?;
            if bytes > 0 {
                cut.push((set, bytes));
            }
            Ok(files)
        };
        let sets = [open(AuditSet::Data)?, open(AuditSet::Security)?];
        let queue = Queue {
            records: VecDeque::new(),
            bytes: 0,
            lost: 0,
            rates: RateLimiter::new(config.rates),
            taken: 0,
            done: 0,
            ends: false,
            failing: None,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            more: Condvar::new(),
            written: Condvar::new(),
            lost: AtomicU64::new(0),
            summed: AtomicU64::new(0),
            done: AtomicU64::new(0),
        });
        let ours = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || run(sets, &ours, &*clock))
            .map_err(failed)?;
        Ok(Self {
            shared,
            unwritable,
            cut,
            thread: Some(thread),
        })
    }

    /// Bytes of an unfinished line that were cut off each set.
    pub(crate) fn cut(&self) -> &[(AuditSet, u64)] {
        &self.cut
    }

    pub(crate) fn take(&self, now: Timestamp, set: AuditSet, record: AuditRecord) {
        let record = bounded(record);
        let names: usize = record.names.iter().map(|name| name.len()).sum();
        let size = RECORD_BYTES + record.who.len() + record.target.len() + record.why.len() + names;
        let mut queue = self.shared.queue.lock();
        if !queue.rates.admits(now, set, &record) {
            self.shared.summed.fetch_add(record.count, Relaxed);
            return;
        }
        if queue.bytes + size > QUEUE_BYTES_MAX {
            queue.lost += 1;
            self.shared.lost.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes += size;
        queue.taken += 1;
        queue.records.push_back((now, set, record));
        drop(queue);
        self.shared.more.notify_one();
    }

    pub(crate) fn is_ready(&self) -> bool {
        if self.unwritable == Unwritable::Alarm {
            return true;
        }
        let queue = self.shared.queue.lock();
        queue.failing.is_none() && queue.bytes < QUEUE_BYTES_MAX / 8 * 7
    }

    pub(crate) fn failing(&self) -> Option<String> {
        self.shared.queue.lock().failing.clone()
    }

    pub(crate) fn counts(&self) -> AuditCounters {
        AuditCounters {
            written: self.shared.done.load(Relaxed),
            lost: self.shared.lost.load(Relaxed),
            summed: self.shared.summed.load(Relaxed),
        }
    }

    /// Waits until all records taken so far are on the disk; returns whether they are.
    pub(crate) fn flush(&self) -> bool {
        let mut queue = self.shared.queue.lock();
        let wanted = queue.taken;
        while queue.done < wanted {
            let waited = self.shared.written.wait_for(&mut queue, FLUSH_TIME);
            if waited.timed_out() {
                return queue.done >= wanted;
            }
        }
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.queue.lock().ends = true;
        self.shared.more.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the audit log has panicked");
        }
    }
}

/// The records of one write.
struct WriteBatch {
    records: VecDeque<(Timestamp, AuditSet, AuditRecord)>,
    bytes: usize,
    lost: u64,
    skipped: Vec<SkippedRecords>,
}

/// Waits for records; `None` at the end.
fn next(shared: &Shared, clock: &dyn Clock) -> Option<WriteBatch> {
    let mut queue = shared.queue.lock();
    loop {
        let ends = queue.ends;
        if ends {
            queue.rates.end();
        }
        if queue.rates.is_due(clock.now()) || !queue.records.is_empty() || queue.lost > 0 {
            return Some(WriteBatch {
                records: std::mem::take(&mut queue.records),
                // They count until they are on the disk.
                bytes: queue.bytes,
                lost: std::mem::take(&mut queue.lost),
                skipped: queue.rates.take_skipped(),
            });
        }
        if ends {
            return None;
        }
        if queue.rates.has_skipped() {
            // A window may end without another record.
            shared.more.wait_for(&mut queue, WINDOW_PAUSE);
        } else {
            shared.more.wait(&mut queue);
        }
    }
}

fn gap(why: String) -> AuditRecord {
    AuditRecord {
        why,
        ..own("audit:gap")
    }
}

fn run(mut sets: [FileSet; 2], shared: &Shared, clock: &dyn Clock) {
    while let Some(taken) = next(shared, clock) {
        let count = taken.records.len() as u64;
        let [data, security] = &sets;
        let mut texts = [SealedLines::behind(data), SealedLines::behind(security)];
        for (time, set, record) in taken.records {
            texts[index(set)].push(time, record);
        }
        if taken.lost > 0 {
            let why = format!(
                "{} records are missing here: the log could not be written fast enough",
                taken.lost
            );
            texts[index(AuditSet::Security)].push(clock.now(), gap(why));
        }
        for skipped in taken.skipped {
            let record = AuditRecord {
                who: skipped.who,
                count: skipped.count,
                ..gap(skipped.why)
            };
            texts[index(skipped.set)].push(clock.now(), record);
        }
        for (files, lines) in sets.iter_mut().zip(texts) {
            if lines.text.is_empty() {
                continue;
            }
            if !persist(files, &lines.text, shared, clock) {
                tracing::error!(
                    records = count,
                    "the audit log ends without its last records"
                );
                return;
            }
            (files.next, files.chain) = (lines.next, lines.chain);
        }
        shared.done.fetch_add(count, Relaxed);
        let mut queue = shared.queue.lock();
        queue.done += count;
        queue.bytes -= taken.bytes;
        shared.written.notify_all();
        let ends = queue.ends;
        drop(queue);
        if !ends {
            // What comes in between shares the next sync.
            std::thread::sleep(SYNC_PAUSE);
        }
    }
}

/// The index of a set in this thread.
const fn index(set: AuditSet) -> usize {
    match set {
        AuditSet::Data => 0,
        AuditSet::Security => 1,
    }
}

/// Writes until it is written; false where the process ends before.
fn persist(files: &mut FileSet, text: &str, shared: &Shared, clock: &dyn Clock) -> bool {
    let mut complained: Option<Duration> = None;
    while let Err(error) = files.append(text) {
        let elapsed = clock.elapsed();
        if complained.is_none_or(|last| elapsed.saturating_sub(last) >= COMPLAINT_PAUSE) {
            complained = Some(elapsed);
            let folder = files.folder().display();
            tracing::error!(%error, %folder, "the audit log cannot be written; it is tried again");
        }
        shared.queue.lock().failing = Some(error.to_string());
        for _ in 0..RETRY_STEPS {
            if shared.queue.lock().ends {
                return files.append(text).is_ok();
            }
            std::thread::sleep(SYNC_PAUSE);
        }
    }
    if shared.queue.lock().failing.take().is_some() {
        tracing::warn!("the audit log is written again");
    }
    true
}

/// Lines that are ready for the disk.
struct SealedLines {
    text: String,
    next: u64,
    chain: DigestChain,
}

impl SealedLines {
    fn behind(files: &FileSet) -> Self {
        Self {
            text: String::new(),
            next: files.next,
            chain: files.chain,
        }
    }

    fn push(&mut self, time: Timestamp, record: AuditRecord) {
        let (text, chain) = Line::new(self.next, time, record).seal(&self.chain);
        self.text.push_str(&text);
        self.next += 1;
        self.chain = chain;
    }
}
