//! The two sets of files that the log consists of.

use std::io;
use std::path::{Path, PathBuf};

use dewar_auth::{AuditEvent, AuditOutcome, AuditRecord};

/// A set of files with its own numbers and chain of digests. The number of files is limited per
/// set, so that many records of one set never remove records of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditSet {
    /// Allowed actions on data: `audit-*.jsonl`. Logs of older releases have all records here.
    Data,
    /// Logins, sessions, commands of the administrator, the IAM API, refusals, and the log itself:
    /// `security-*.jsonl`.
    Security,
}

impl AuditSet {
    /// Both sets.
    pub const ALL: [Self; 2] = [Self::Data, Self::Security];

    /// Its name, as `dewar audit --verify` prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Security => "security",
        }
    }

    /// The prefix of its file names.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Data => "audit-",
            Self::Security => "security-",
        }
    }

    /// The name of the file whose first line has this number.
    pub(crate) fn file_name(self, first: u64) -> String {
        format!("{}{first:016}.jsonl", self.prefix())
    }

    /// The set that a record belongs to.
    pub(crate) fn of(record: &AuditRecord) -> Self {
        let is_about_data = record.event == AuditEvent::Access
            && record.outcome == AuditOutcome::Allowed
            && record.action.starts_with("s3:");
        match is_about_data {
            true => Self::Data,
            false => Self::Security,
        }
    }
}

/// The files of a set, oldest first, with the number of the first line of each.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn files(folder: &Path, set: AuditSet) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name
            .and_then(|name| name.strip_prefix(set.prefix())?.strip_suffix(".jsonl"))
            .and_then(|digits| digits.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}
