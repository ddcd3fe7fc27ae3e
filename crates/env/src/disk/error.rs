//! Errors of a disk.

use std::fmt;
use std::io;

/// The kinds a caller branches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// No such file.
    NotFound,
    /// The file is there already.
    Exists,
    /// No free space, or a quota of the file system.
    Full,
    /// The file system is read-only or the owner is wrong; see [`crate::DiskState::ReadOnly`].
    Refused,
    /// The disk's folder is gone or not the one that was opened.
    Missing,
    /// Another process has the folder for itself.
    InUse,
    /// The deadline passed.
    TimedOut,
    /// An earlier sync failed; see [`crate::DiskState::Poisoned`].
    Poisoned,
    /// The device reports an error.
    Io,
    /// More operations are waiting than the disk's queue holds, or the process may not open
    /// another file.
    Busy,
    /// A request that no disk supports: a path out of the folder, an unaligned direct write, a file
    /// too large for [`crate::Disk::read_file`].
    Invalid,
}

/// A failed operation: which, on which disk and file, and why.
#[derive(Debug)]
pub struct DiskError {
    kind: DiskErrorKind,
    operation: &'static str,
    disk: String,
    path: String,
    source: Option<io::Error>,
}

impl DiskError {
    /// An error of `operation` on `path` of the disk labelled `disk`.
    pub fn new(
        kind: DiskErrorKind,
        operation: &'static str,
        disk: impl Into<String>,
        path: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            operation,
            disk: disk.into(),
            path: path.into(),
            source: None,
        }
    }

    /// The same from an error of the operating system.
    pub fn from_io(
        source: io::Error,
        operation: &'static str,
        disk: impl Into<String>,
        path: impl Into<String>,
    ) -> Self {
        use io::ErrorKind as K;
        let kind = match source.kind() {
            _ if is_want_of_descriptors(&source) => DiskErrorKind::Busy,
            K::NotFound => DiskErrorKind::NotFound,
            K::AlreadyExists => DiskErrorKind::Exists,
            K::StorageFull | K::QuotaExceeded => DiskErrorKind::Full,
            K::ReadOnlyFilesystem | K::PermissionDenied => DiskErrorKind::Refused,
            _ => DiskErrorKind::Io,
        };
        Self {
            kind,
            operation,
            disk: disk.into(),
            path: path.into(),
            source: Some(source),
        }
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> DiskErrorKind {
        self.kind
    }
}

/// Whether it says that no file could be opened, by this process or by any: nothing about a disk.
pub(crate) fn is_want_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.kind {
            DiskErrorKind::NotFound => "no such file",
            DiskErrorKind::Exists => "it exists already",
            DiskErrorKind::Full => "no room left",
            DiskErrorKind::Refused => "the file system refuses",
            DiskErrorKind::Missing => "the disk is missing",
            DiskErrorKind::TimedOut => "the disk did not answer in time",
            DiskErrorKind::Poisoned => "an earlier sync of the disk failed",
            DiskErrorKind::Io => "input/output error",
            DiskErrorKind::InUse => "another process uses the folder",
            DiskErrorKind::Busy => "too many operations are waiting",
            DiskErrorKind::Invalid => "no disk can do that",
        };
        write!(f, "{} {}/{}: {why}", self.operation, self.disk, self.path)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|s| s as _)
    }
}

impl From<DiskError> for dewar_types::Error {
    fn from(error: DiskError) -> Self {
        use dewar_types::ErrorKind as K;
        let kind = match error.kind {
            DiskErrorKind::Full => K::NoSpace,
            DiskErrorKind::TimedOut => K::Timeout,
            DiskErrorKind::Missing
            | DiskErrorKind::InUse
            | DiskErrorKind::Poisoned
            | DiskErrorKind::Refused => K::Unavailable,
            DiskErrorKind::Busy => K::Busy(std::time::Duration::from_secs(1)),
            DiskErrorKind::NotFound
            | DiskErrorKind::Exists
            | DiskErrorKind::Io
            | DiskErrorKind::Invalid => K::Internal,
        };
        Self::with_source(kind, error.to_string(), error)
    }
}
