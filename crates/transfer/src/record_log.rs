//! The files with the records of finished copies: one JSON object per line, in files that are rotated
//! by size.
//!
//! A thread writes. A copy never waits for it: a record that does not fit into the queue is counted as
//! lost, and the server's log says so once a minute. Records are statistics and no audit log, so they
//! are not synced one by one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;

use crate::record::TransferRecord;

/// Records that wait for the thread.
const QUEUE_MAX: usize = 10_000;

/// Longest record in bytes, about: the end of a file is searched as far for a torn line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The longest wait for the thread at the end.
const FLUSH_TIME: Duration = Duration::from_secs(2);

const PREFIX: &str = "transfers-";
const SUFFIX: &str = ".jsonl";

/// The place of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConfig {
    /// The folder, made with mode 0700.
    pub folder: PathBuf,
    /// Size at which a new file is begun, in bytes.
    pub file_bytes: u64,
    /// Most files; the oldest are removed. 0 keeps all.
    pub files_max: usize,
}

enum Message {
    Line(String),
    Flush(SyncSender<()>),
}

/// The open log. Dropped, it writes what waits and ends its thread.
pub struct RecordLog {
    queue: Option<SyncSender<Message>>,
    lost: Arc<AtomicU64>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl RecordLog {
    /// Opens the folder, and continues behind the last whole line of its newest file.
    ///
    /// # Errors
    /// The folder or a file in it cannot be made or read.
    pub fn open(config: RecordConfig) -> io::Result<Self> {
        let files = RotatedFiles::open(config)?;
        let (queue, work) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || write_all(files, &work, &counted))?;
        Ok(Self {
            queue: Some(queue),
            lost,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Appends a record. It does not wait.
    pub fn append(&self, record: &TransferRecord) {
        let Ok(mut line) = serde_json::to_string(record) else {
            self.lost.fetch_add(1, Relaxed);
            return;
        };
        line.push('\n');
        let sent = self
            .queue
            .as_ref()
            .map(|queue| queue.try_send(Message::Line(line)));
        if !matches!(sent, Some(Ok(()))) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Records that were not written: the disk was too slow, full or broken.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Waits for at most two seconds until all records so far are written; returns whether they are.
    pub fn flush(&self) -> bool {
        let (done, wait) = sync_channel(1);
        let sent = self
            .queue
            .as_ref()
            .map(|queue| queue.try_send(Message::Flush(done)));
        matches!(sent, Some(Ok(()))) && wait.recv_timeout(FLUSH_TIME).is_ok()
    }
}

impl Drop for RecordLog {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// The life of the thread.
fn write_all(mut files: RotatedFiles, work: &Receiver<Message>, lost: &AtomicU64) {
    let mut failing = false;
    while let Ok(message) = work.recv() {
        let line = match message {
            Message::Line(line) => line,
            Message::Flush(done) => {
                // The one who asked may have gone.
                let _ = done.try_send(());
                continue;
            }
        };
        match files.append(&line) {
            Ok(()) => failing = false,
            Err(error) => {
                lost.fetch_add(1, Relaxed);
                if !std::mem::replace(&mut failing, true) {
                    let folder = files.config.folder.display();
                    tracing::warn!(%folder, %error, "records of transfers cannot be written");
                }
            }
        }
    }
}

/// The files, and the one that is written.
struct RotatedFiles {
    config: RecordConfig,
    number: u64,
    file: Option<File>,
    length: u64,
}

impl RotatedFiles {
    fn open(config: RecordConfig) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&config.folder)?;
        let mut files = Self {
            number: 0,
            file: None,
            length: 0,
            config,
        };
        if let Some((number, path)) = numbered(&files.config.folder)?.pop() {
            let file = OpenOptions::new().read(true).append(true).open(&path)?;
            files.length = cut_torn_line(&file)?;
            files.number = number;
            files.file = Some(file);
        }
        Ok(files)
    }

    fn append(&mut self, line: &str) -> io::Result<()> {
        if self.file.is_none() || self.length >= self.config.file_bytes {
            self.begin_file()?;
        }
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("there is no file to write to"));
        };
        if let Err(error) = file.write_all(line.as_bytes()) {
            // A part of the line may be there. If it cannot be removed, the next line goes to another file.
            if file.set_len(self.length).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        let is_first = self.length == 0;
        self.length += line.len() as u64;
        // A new file that cannot be written must not cost an old one.
        if is_first && let Err(error) = self.remove_old() {
            let folder = self.config.folder.display();
            tracing::warn!(%folder, %error, "old records of transfers cannot be removed");
        }
        Ok(())
    }

    fn begin_file(&mut self) -> io::Result<()> {
        let path = |number: u64| {
            let name = format!("{PREFIX}{number:016}{SUFFIX}");
            self.config.folder.join(name)
        };
        let made = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path(self.number + 1))?;
        self.number += 1;
        (self.file, self.length) = (Some(made), 0);
        Ok(())
    }

    fn remove_old(&self) -> io::Result<()> {
        if self.config.files_max > 0 {
            let all = numbered(&self.config.folder)?;
            let many = all.len().saturating_sub(self.config.files_max);
            for (_, path) in &all[..many] {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Removes what follows the last line of a file, which a crash may have torn; the new length.
fn cut_torn_line(mut file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(LINE_BYTES_MAX).read_to_end(&mut tail)?;
    let kept = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let end = from + kept as u64;
    if end < length {
        file.set_len(end)?;
    }
    Ok(end)
}

/// The files with their numbers, oldest first.
fn numbered(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX))
            .and_then(|digits| digits.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, file_bytes: u64) -> RecordConfig {
        RecordConfig {
            folder: folder.join("records"),
            file_bytes,
            files_max: 3,
        }
    }

    fn lines(config: &RecordConfig) -> Vec<String> {
        let files = numbered(&config.folder).expect("the folder");
        let text = files
            .iter()
            .map(|(_, path)| fs::read_to_string(path).expect("a file"));
        text.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn files_rotate_and_the_oldest_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(folder.path(), 10);
        let mut files = RotatedFiles::open(config.clone()).expect("a folder");
        for number in 0..12 {
            files
                .append(&format!("{{\"n\":{number}}}\n"))
                .expect("room");
        }
        // Two lines of 8 or 9 bytes each fill a file.
        let kept: Vec<String> = (6..12)
            .map(|number| format!("{{\"n\":{number}}}"))
            .collect();
        assert_eq!(lines(&config), kept);
    }

    #[test]
    fn an_old_file_stays_until_the_new_one_has_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = RecordConfig {
            files_max: 1,
            ..config(folder.path(), 1000)
        };
        let mut files = RotatedFiles::open(config.clone()).expect("a folder");
        files.append("{\"n\":1}\n").expect("room");
        files.begin_file().expect("a new file");
        assert_eq!(lines(&config), ["{\"n\":1}"]);
        files.append("{\"n\":2}\n").expect("room");
        assert_eq!(lines(&config), ["{\"n\":2}"]);
    }

    #[test]
    fn a_torn_line_goes_and_the_file_is_continued() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(folder.path(), 1000);
        let mut files = RotatedFiles::open(config.clone()).expect("a folder");
        files.append("{\"n\":1}\n").expect("room");
        files.append("{\"n\":2").expect("room");
        drop(files);
        let mut files = RotatedFiles::open(config.clone()).expect("the same");
        files.append("{\"n\":3}\n").expect("room");
        assert_eq!(lines(&config), ["{\"n\":1}", "{\"n\":3}"]);
        assert_eq!(numbered(&config.folder).expect("the folder").len(), 1);
    }

    #[test]
    fn records_are_written_by_the_thread() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(folder.path(), 100_000);
        let log = RecordLog::open(config.clone()).expect("a log");
        log.append(&TransferRecord::default());
        assert!(log.flush());
        let written = lines(&config);
        assert_eq!(written.len(), 1);
        let again: serde_json::Value = serde_json::from_str(&written[0]).expect("JSON");
        assert!(again.get("id").is_some());
        assert_eq!(log.lost(), 0);
        // Nothing can be written where the folder is gone and a new file is needed.
        drop(log);
        assert_eq!(lines(&config).len(), 1);
    }
}
