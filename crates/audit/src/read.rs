//! Reading the log: searching it, and checking whether lines were removed or changed.
//!
//! Both read the files themselves. They need no server, and do not interfere with one that writes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::line::{DigestChain, LINE_BYTES_MAX, Line};
use crate::set::{AuditSet, files};

/// Why the log cannot be read.
#[derive(Debug, Error)]
#[error("{}: {error}", .path.display())]
pub struct ReadError {
    path: PathBuf,
    error: io::Error,
}

/// A filter for lines. A line must match every field that is set.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// The name of the caller, as in the log.
    pub who: Option<String>,
    /// By which credential.
    pub credential: Option<String>,
    /// The target: this path and everything below it.
    pub path: Option<String>,
    /// The requested action, as `s3:PutObject` or `PutObject`, in any case of letters.
    pub action: Option<String>,
    /// The kind of event.
    pub event: Option<String>,
    /// The outcome.
    pub outcome: Option<String>,
    /// Not before this time, as lines have it.
    pub since: Option<String>,
    /// Before this time.
    pub until: Option<String>,
}

impl Filter {
    /// Whether a line is wanted.
    #[must_use]
    pub fn fits(&self, line: &Line) -> bool {
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let credential = line.credential.as_deref().unwrap_or_default();
        let named = |wanted: &String| {
            let bare = credential.split_once(':').map_or(credential, |(_, id)| id);
            wanted == credential || wanted == bare
        };
        let action = |wanted: &String| {
            let bare = line.action.split_once(':').map_or("", |(_, name)| name);
            wanted.eq_ignore_ascii_case(&line.action) || wanted.eq_ignore_ascii_case(bare)
        };
        same(&self.who, &line.who)
            && self.credential.as_ref().is_none_or(named)
            && self.path.as_ref().is_none_or(|path| is_about(path, line))
            && self.action.as_ref().is_none_or(action)
            && same(&self.event, &line.event)
            && same(&self.outcome, &line.outcome)
            // RFC 3339 in one form sorts as it stands.
            && self.since.as_ref().is_none_or(|since| line.time >= *since)
            && self.until.as_ref().is_none_or(|until| line.time < *until)
    }
}

/// Whether a line is about a path or something below it. A line may count more targets than it
/// names. It then matches each path below their common folder, since any of them may be a target.
fn is_about(path: &str, line: &Line) -> bool {
    let more = line
        .count
        .is_some_and(|count| count > line.names.len() as u64);
    is_below(path, &line.target)
        || line.names.iter().any(|name| is_below(path, name))
        || (more && !line.target.is_empty() && is_below(&line.target, path))
}

/// Whether a path is another one or lies below it, by components.
fn is_below(path: &str, target: &str) -> bool {
    let path = path.trim_end_matches('/');
    let rest = target.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The lines of a set, oldest first.
struct SetLines {
    files: VecDeque<PathBuf>,
    current: Option<(PathBuf, BufReader<File>)>,
}

impl SetLines {
    fn open(folder: &Path, set: AuditSet) -> Result<Self, ReadError> {
        let found = files(folder, set).map_err(|error| ReadError {
            path: folder.to_path_buf(),
            error,
        })?;
        Ok(Self {
            files: found.into_iter().map(|(_, path)| path).collect(),
            current: None,
        })
    }

    /// The next line, with its file; nothing at the end.
    fn next(&mut self) -> Result<Option<(PathBuf, String)>, ReadError> {
        loop {
            let Some((path, reader)) = &mut self.current else {
                let Some(path) = self.files.pop_front() else {
                    return Ok(None);
                };
                match File::open(&path) {
                    Ok(file) => self.current = Some((path, BufReader::new(file))),
                    // It was the oldest, and its time has come.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(ReadError { path, error }),
                }
                continue;
            };
            let mut text = Vec::new();
            let mut limited = reader.by_ref().take(LINE_BYTES_MAX);
            let count = limited
                .read_until(b'\n', &mut text)
                .map_err(|error| ReadError {
                    path: path.clone(),
                    error,
                })?;
            // The last line may be under way.
            if count == 0 || text.pop() != Some(b'\n') {
                self.current = None;
                continue;
            }
            let text = String::from_utf8_lossy(&text).into_owned();
            return Ok(Some((path.clone(), text)));
        }
    }

    /// The next line that is one of the log, with its text.
    fn next_line(&mut self) -> Result<Option<(Line, String)>, ReadError> {
        while let Some((_, text)) = self.next()? {
            if let Some((line, ..)) = Line::open(&text, &[0; 32]) {
                return Ok(Some((line, text)));
            }
        }
        Ok(None)
    }
}

/// Returns the lines of both sets that match the filter, oldest first, with their text.
///
/// # Errors
/// A file cannot be read.
pub fn read(
    folder: &Path,
    filter: &Filter,
    mut found: impl FnMut(Line, &str),
) -> Result<(), ReadError> {
    let mut data = SetLines::open(folder, AuditSet::Data)?;
    let mut security = SetLines::open(folder, AuditSet::Security)?;
    let mut heads = (data.next_line()?, security.next_line()?);
    loop {
        // RFC 3339 in one form sorts as it stands.
        let data_is_next = match &heads {
            (Some((left, _)), Some((right, _))) => left.time <= right.time,
            (left, _) => left.is_some(),
        };
        let next = match data_is_next {
            true => std::mem::replace(&mut heads.0, data.next_line()?),
            false => std::mem::replace(&mut heads.1, security.next_line()?),
        };
        let Some((line, text)) = next else {
            return Ok(());
        };
        if filter.fits(&line) {
            found(line, &text);
        }
    }
}

/// A place where a log is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBreak {
    /// In which file.
    pub file: PathBuf,
    /// Behind which number.
    pub behind: u64,
    /// The problem there.
    pub what: &'static str,
}

/// The result of the verification of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSet {
    /// The set.
    pub set: AuditSet,
    /// The numbers of the first and the last line.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// The last line's chain. An administrator who keeps it elsewhere can later detect that the log
    /// was rewritten.
    pub chain: String,
    /// The places where it is not as it was written; at most a hundred.
    pub broken: Vec<ChainBreak>,
}

/// Most breaks that are reported one by one.
const BROKEN_MAX: usize = 100;

/// Checks in each set whether each line follows the one before it and is unchanged.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path) -> Result<Vec<VerifiedSet>, ReadError> {
    let sets = AuditSet::ALL.into_iter();
    sets.map(|set| verify_set(folder, set)).collect()
}

fn verify_set(folder: &Path, set: AuditSet) -> Result<VerifiedSet, ReadError> {
    let mut verified = VerifiedSet {
        set,
        first: 0,
        last: 0,
        chain: String::new(),
        broken: Vec::new(),
    };
    // The first file that is kept follows one that is not.
    let mut before: Option<DigestChain> = None;
    let mut lines = SetLines::open(folder, set)?;
    while let Some((path, text)) = lines.next()? {
        let start = before.unwrap_or([0; 32]);
        let what = match Line::open(&text, &start) {
            None => Some("it is no line of the log"),
            Some((line, claimed, has)) => {
                let begins = before.is_none() && line.seq > 1;
                let what = if before.is_some() && line.seq != verified.last + 1 {
                    Some("lines are missing or stand twice")
                } else if claimed != has && !begins {
                    Some("the line is not as it was written")
                } else {
                    None
                };
                if before.is_none() {
                    verified.first = line.seq;
                }
                verified.last = line.seq;
                before = Some(claimed);
                what
            }
        };
        if let Some(what) = what
            && verified.broken.len() < BROKEN_MAX
        {
            verified.broken.push(ChainBreak {
                file: path,
                behind: verified.last,
                what,
            });
        }
    }
    verified.chain = before.map_or_else(String::new, |chain| {
        chain.iter().map(|byte| format!("{byte:02x}")).collect()
    });
    Ok(verified)
}
