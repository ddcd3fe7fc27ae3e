//! The thread that writes: takes what was queued, numbers and chains it, writes, syncs, rotates.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use dewar_auth::AuditRecord;
use dewar_env::Clock;
use dewar_types::Timestamp;
use parking_lot::{Condvar, Mutex};
use thiserror::Error;

use super::line::{Chain, Line, RECORD_BYTES, bounded};
use super::{AuditConfig, Unwritable, files, own};

/// Bytes of records that wait for the disk, about.
const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Records of nobody in particular that are kept in a second. Anybody can cause them, and they must
/// not push out the others.
const BY_NOBODY_MAX: u32 = 50;

/// Between one sync and the next.
const SYNC_PAUSE: Duration = Duration::from_millis(100);

/// Such pauses before a failed write is tried again.
const RETRY_STEPS: usize = 10;

/// How long somebody waits for the disk at the end.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// Between two complaints in the server's log.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

/// Longest line; what is longer is none of the log.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 10;

/// Why the log cannot be opened.
#[derive(Debug, Error)]
#[error("the audit log in {}: {error}", .folder.display())]
pub struct OpenError {
    folder: PathBuf,
    error: io::Error,
}

/// What was counted since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Records that are on the disk.
    pub(crate) written: u64,
    /// Those that were not taken because the queue was full.
    pub(crate) lost: u64,
    /// Those of nobody in particular that were only counted.
    pub(crate) summed: u64,
}

#[derive(Default)]
struct Queue {
    records: VecDeque<(Timestamp, AuditRecord)>,
    bytes: usize,
    /// Not taken, and not told of yet.
    lost: u64,
    summed: u64,
    /// The second in which so many records of nobody were taken.
    second: u64,
    by_nobody: u32,
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
pub(super) struct Writer {
    shared: Arc<Shared>,
    unwritable: Unwritable,
    cut: Option<u64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    pub(super) fn open(config: AuditConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let failed = |error| OpenError {
            folder: config.folder.clone(),
            error,
        };
        let unwritable = config.unwritable;
        let (log, cut) = Log::open(config.clone()).map_err(failed)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            more: Condvar::new(),
            written: Condvar::new(),
            lost: AtomicU64::new(0),
            summed: AtomicU64::new(0),
            done: AtomicU64::new(0),
        });
        let ours = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || run(log, &ours, &*clock))
            .map_err(failed)?;
        Ok(Self {
            shared,
            unwritable,
            cut: (cut > 0).then_some(cut),
            thread: Some(thread),
        })
    }

    /// Bytes of an unfinished line that were cut off.
    pub(super) fn cut(&self) -> Option<u64> {
        self.cut
    }

    pub(super) fn take(&self, now: Timestamp, record: AuditRecord) {
        let record = bounded(record);
        let size = RECORD_BYTES + record.who.len() + record.target.len() + record.why.len();
        let mut queue = self.shared.queue.lock();
        if record.by_nobody {
            if queue.second != now.secs() {
                queue.second = now.secs();
                queue.by_nobody = 0;
            }
            if queue.by_nobody >= BY_NOBODY_MAX {
                queue.summed += 1;
                self.shared.summed.fetch_add(1, Relaxed);
                return;
            }
            queue.by_nobody += 1;
        }
        if queue.bytes + size > QUEUE_BYTES_MAX {
            queue.lost += 1;
            self.shared.lost.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes += size;
        queue.taken += 1;
        queue.records.push_back((now, record));
        drop(queue);
        self.shared.more.notify_one();
    }

    pub(super) fn is_ready(&self) -> bool {
        if self.unwritable == Unwritable::Alarm {
            return true;
        }
        let queue = self.shared.queue.lock();
        queue.failing.is_none() && queue.bytes < QUEUE_BYTES_MAX / 8 * 7
    }

    pub(super) fn failing(&self) -> Option<String> {
        self.shared.queue.lock().failing.clone()
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            written: self.shared.done.load(Relaxed),
            lost: self.shared.lost.load(Relaxed),
            summed: self.shared.summed.load(Relaxed),
        }
    }

    /// Waits until what was taken up to now is on the disk; whether it is.
    pub(super) fn flush(&self) -> bool {
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

/// The files, and where in them the log ends.
struct Log {
    config: AuditConfig,
    /// The last one, once there is a line for it.
    file: Option<File>,
    length: u64,
    next: u64,
    chain: Chain,
}

impl Log {
    /// Goes on behind the last whole line, and says how much behind it was cut off.
    fn open(config: AuditConfig) -> io::Result<(Self, u64)> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&config.folder)?;
        let mut log = Self {
            config,
            file: None,
            length: 0,
            next: 1,
            chain: [0; 32],
        };
        let mut cut = 0;
        // A file without a line is left over from a crash just after it was made.
        for (first, path) in files(&log.config.folder)?.into_iter().rev() {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let length = file.metadata()?.len();
            let (end, last) = last_line(&file, length)?;
            cut += length - end;
            if let Some((line, chain)) = last {
                if end < length {
                    file.set_len(end)?;
                    file.sync_all()?;
                }
                log.next = line.seq + 1;
                log.chain = chain;
                log.length = end;
                log.file = Some(file);
                break;
            }
            if length > LINE_BYTES_MAX {
                let what = format!("{} has no line of the log", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            log.next = first;
            fs::remove_file(&path)?;
        }
        Ok((log, cut))
    }

    /// Makes sure that there is a file that the next lines go to.
    fn rotate(&mut self) -> io::Result<()> {
        if self.file.is_some() && self.length < self.config.file_bytes {
            return Ok(());
        }
        let folder = &self.config.folder;
        let path = folder.join(format!("audit-{:016}.jsonl", self.next));
        let made = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        File::open(folder)?.sync_all()?;
        self.file = Some(made);
        self.length = 0;
        self.drop_old()
    }

    fn drop_old(&self) -> io::Result<()> {
        if self.config.files_max == 0 {
            return Ok(());
        }
        let all = files(&self.config.folder)?;
        let many = all.len().saturating_sub(self.config.files_max);
        for (_, path) in &all[..many] {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Writes lines durably, or nothing that counts: what fails is written anew at the same place.
    fn append(&mut self, text: &str) -> io::Result<()> {
        self.rotate()?;
        let at = self.length;
        let Some(file) = &self.file else {
            return Err(io::Error::other("there is no file to write to"));
        };
        file.write_all_at(text.as_bytes(), at)?;
        if let Err(error) = file.sync_data() {
            // What the end of such a file holds is not known any more: these lines go to another one.
            if file.set_len(at).is_err() {
                tracing::error!("lines of the audit log may stand in two of its files");
            }
            self.file = None;
            return Err(error);
        }
        self.length = at + text.len() as u64;
        Ok(())
    }
}

/// The end of the last whole line, and that line with its chain.
fn last_line(file: &File, length: u64) -> io::Result<(u64, Option<(Line, Chain)>)> {
    let from = length.saturating_sub(2 * LINE_BYTES_MAX);
    let size = usize::try_from(length - from).unwrap_or(usize::MAX);
    let mut tail = vec![0; size];
    file.read_exact_at(&mut tail, from)?;
    let mut end = tail.len();
    while let Some(newline) = tail[..end].iter().rposition(|byte| *byte == b'\n') {
        let start = tail[..newline].iter().rposition(|byte| *byte == b'\n');
        let start = start.map_or(0, |before| before + 1);
        let text = std::str::from_utf8(&tail[start..newline]).unwrap_or_default();
        if let Some((line, chain, _)) = Line::open(text, &[0; 32]) {
            return Ok((from + newline as u64 + 1, Some((line, chain))));
        }
        end = newline;
    }
    Ok((0, None))
}

/// What is written at once.
struct Taken {
    records: VecDeque<(Timestamp, AuditRecord)>,
    bytes: usize,
    lost: u64,
    summed: u64,
}

/// Waits for records; `None` at the end.
fn next(shared: &Shared) -> Option<Taken> {
    let mut queue = shared.queue.lock();
    loop {
        if !queue.records.is_empty() || queue.lost > 0 || queue.summed > 0 {
            return Some(Taken {
                records: std::mem::take(&mut queue.records),
                // They count until they are on the disk.
                bytes: queue.bytes,
                lost: std::mem::take(&mut queue.lost),
                summed: std::mem::take(&mut queue.summed),
            });
        }
        if queue.ends {
            return None;
        }
        shared.more.wait(&mut queue);
    }
}

fn run(mut log: Log, shared: &Shared, clock: &dyn Clock) {
    while let Some(taken) = next(shared) {
        let count = taken.records.len() as u64;
        let mut sealed = Sealed::behind(&log);
        for (time, record) in taken.records {
            sealed.push(time, record);
        }
        for (count, why) in [
            (
                taken.lost,
                "records are missing here: the log could not be written fast enough",
            ),
            (
                taken.summed,
                "refusals of nobody in particular were not recorded one by one",
            ),
        ] {
            if count > 0 {
                let why = format!("{count} {why}");
                sealed.push(
                    clock.now(),
                    AuditRecord {
                        why,
                        ..own("audit:gap")
                    },
                );
            }
        }
        if !persist(&mut log, &sealed.text, shared, clock) {
            tracing::error!(
                records = count,
                "the audit log ends without its last records"
            );
            return;
        }
        (log.next, log.chain) = (sealed.next, sealed.chain);
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

/// Writes until it is written; false where the process ends before.
fn persist(log: &mut Log, text: &str, shared: &Shared, clock: &dyn Clock) -> bool {
    let mut complained: Option<Duration> = None;
    while let Err(error) = log.append(text) {
        let elapsed = clock.elapsed();
        if complained.is_none_or(|last| elapsed.saturating_sub(last) >= COMPLAINT_PAUSE) {
            complained = Some(elapsed);
            let folder = log.config.folder.display();
            tracing::error!(%error, %folder, "the audit log cannot be written; it is tried again");
        }
        shared.queue.lock().failing = Some(error.to_string());
        for _ in 0..RETRY_STEPS {
            if shared.queue.lock().ends {
                return log.append(text).is_ok();
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
struct Sealed {
    text: String,
    next: u64,
    chain: Chain,
}

impl Sealed {
    fn behind(log: &Log) -> Self {
        Self {
            text: String::new(),
            next: log.next,
            chain: log.chain,
        }
    }

    fn push(&mut self, time: Timestamp, record: AuditRecord) {
        let (text, chain) = Line::new(self.next, time, record).seal(&self.chain);
        self.text.push_str(&text);
        self.next += 1;
        self.chain = chain;
    }
}
