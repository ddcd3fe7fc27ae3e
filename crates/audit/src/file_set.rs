//! The files of one set: the position to continue at, appending lines, rotating and removing files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::AuditConfig;
use crate::line::{DigestChain, LINE_BYTES_MAX, Line};
use crate::set::{AuditSet, files};

/// The files of a set, and where in them the set ends.
pub(crate) struct FileSet {
    config: AuditConfig,
    set: AuditSet,
    /// The last one, once there is a line for it.
    file: Option<File>,
    length: u64,
    /// The number of the next line.
    pub(crate) next: u64,
    /// The digest behind the last line.
    pub(crate) chain: DigestChain,
}

impl FileSet {
    /// Continues after the last complete line, and reports the number of bytes that were removed
    /// behind it.
    pub(crate) fn open(config: AuditConfig, set: AuditSet) -> io::Result<(Self, u64)> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&config.folder)?;
        let mut log = Self {
            config,
            set,
            file: None,
            length: 0,
            next: 1,
            chain: [0; 32],
        };
        let mut cut = 0;
        // A file without a line is left over from a crash just after it was made.
        for (first, path) in files(&log.config.folder, set)?.into_iter().rev() {
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

    /// The folder of the files.
    pub(crate) fn folder(&self) -> &Path {
        &self.config.folder
    }

    /// Makes sure that there is a file that the next lines go to.
    fn rotate(&mut self) -> io::Result<()> {
        if self.file.is_some() && self.length < self.config.file_bytes {
            return Ok(());
        }
        let folder = &self.config.folder;
        let path = folder.join(self.set.file_name(self.next));
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
        let all = files(&self.config.folder, self.set)?;
        let many = all.len().saturating_sub(self.config.files_max);
        for (_, path) in &all[..many] {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Writes lines durably, or none: after a failure the next write overwrites the same position.
    pub(crate) fn append(&mut self, text: &str) -> io::Result<()> {
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
fn last_line(file: &File, length: u64) -> io::Result<(u64, Option<(Line, DigestChain)>)> {
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
