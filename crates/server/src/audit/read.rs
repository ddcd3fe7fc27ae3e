//! Reading the log: searching it, and looking whether something was taken out of it.
//!
//! Both go over the files themselves, so they do not need a server, and one that writes meanwhile does
//! not hinder them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::files;
use super::line::{Chain, Line};
use super::writer::LINE_BYTES_MAX;

/// Why the log cannot be read.
#[derive(Debug, Error)]
#[error("{}: {error}", .path.display())]
pub struct ReadError {
    path: PathBuf,
    error: io::Error,
}

/// Which lines are wanted: all that is given must fit.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Whose: the name as it stands in the log.
    pub who: Option<String>,
    /// By which credential.
    pub credential: Option<String>,
    /// To what: this path and what is below it.
    pub path: Option<String>,
    /// What was asked for, as `s3:PutObject` or `PutObject`, in any case of letters.
    pub action: Option<String>,
    /// What kind of thing.
    pub event: Option<String>,
    /// What became of it.
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
            && self.path.as_ref().is_none_or(|path| is_below(path, &line.target))
            && self.action.as_ref().is_none_or(action)
            && same(&self.event, &line.event)
            && same(&self.outcome, &line.outcome)
            // RFC 3339 in one form sorts as it stands.
            && self.since.as_ref().is_none_or(|since| line.time >= *since)
            && self.until.as_ref().is_none_or(|until| line.time < *until)
    }
}

/// Whether a path is another one or lies below it, by components.
fn is_below(path: &str, target: &str) -> bool {
    let path = path.trim_end_matches('/');
    let rest = target.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Goes over the lines of the log, oldest first, with the text of each.
fn each(
    folder: &Path,
    mut work: impl FnMut(&Path, &str) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |error| ReadError { path, error }
    };
    for (_, path) in files(folder).map_err(at(folder))? {
        let file = match File::open(&path) {
            Ok(file) => file,
            // It was the oldest, and its time has come.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path)(error)),
        };
        let mut reader = BufReader::new(file);
        let mut text = Vec::new();
        loop {
            text.clear();
            let mut limited = reader.by_ref().take(LINE_BYTES_MAX);
            let count = limited.read_until(b'\n', &mut text).map_err(at(&path))?;
            // The last line may be under way.
            if count == 0 || text.pop() != Some(b'\n') {
                break;
            }
            work(&path, &String::from_utf8_lossy(&text))?;
        }
    }
    Ok(())
}

/// Gives the lines that fit to `found`, oldest first, with their text.
///
/// # Errors
/// A file cannot be read.
pub fn read(
    folder: &Path,
    filter: &Filter,
    mut found: impl FnMut(Line, &str),
) -> Result<(), ReadError> {
    each(folder, |_, text| {
        if let Some((line, ..)) = Line::open(text, &[0; 32])
            && filter.fits(&line)
        {
            found(line, text);
        }
        Ok(())
    })
}

/// Where a log is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// In which file.
    pub file: PathBuf,
    /// Behind which number.
    pub behind: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// What a log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The numbers of the first and the last line.
    pub first: u64,
    /// See `first`.
    pub last: u64,
    /// The last line's chain: who keeps it elsewhere can tell later whether the log was written anew.
    pub chain: String,
    /// Where it is not what was written; at most a hundred.
    pub broken: Vec<Broken>,
}

/// Most breaks that are told one by one.
const BROKEN_MAX: usize = 100;

/// Looks whether each line follows the one before it and is as it was written.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path) -> Result<Verified, ReadError> {
    let mut told = Verified::default();
    // The first file that is kept follows one that is not.
    let mut before: Option<Chain> = None;
    each(folder, |path, text| {
        let start = before.unwrap_or([0; 32]);
        let what = match Line::open(text, &start) {
            None => Some("it is no line of the log"),
            Some((line, claimed, has)) => {
                let begins = before.is_none() && line.seq > 1;
                let what = if before.is_some() && line.seq != told.last + 1 {
                    Some("lines are missing or stand twice")
                } else if claimed != has && !begins {
                    Some("the line is not as it was written")
                } else {
                    None
                };
                if before.is_none() {
                    told.first = line.seq;
                }
                told.last = line.seq;
                before = Some(claimed);
                what
            }
        };
        if let Some(what) = what
            && told.broken.len() < BROKEN_MAX
        {
            told.broken.push(Broken {
                file: path.to_path_buf(),
                behind: told.last,
                what,
            });
        }
        Ok(())
    })?;
    told.chain = before.map_or_else(String::new, |chain| {
        chain.iter().map(|byte| format!("{byte:02x}")).collect()
    });
    Ok(told)
}
