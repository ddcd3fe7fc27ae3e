//! Files of mode 0600 that are written atomically and durably.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file cannot be written or removed.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// The reason why the file `path` cannot be written or removed.
    #[must_use]
    pub fn new(path: &Path, source: io::Error) -> Self {
        Self {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// Writes a file of mode 0600 atomically and durably, also in case of a power failure.
///
/// # Errors
/// The folder is absent or cannot be written to; an older file is then unchanged.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let work = || {
        let folder = folder_of(path);
        let temporary = temporary_of(path)?;
        // A leftover of a killed process; it has the same name, so that none stays for ever.
        let _ = fs::remove_file(&temporary);
        let result = create_private_file(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, path))
            .and_then(|()| File::open(folder)?.sync_all());
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        result
    };
    work().map_err(|error| FileError::new(path, error))
}

/// The name of a file while it is being written.
fn temporary_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = name.to_os_string();
    temporary.push(".tmp");
    Ok(folder_of(path).join(temporary))
}

/// Checks that a file of mode 0600 can be written at `path`, without making it.
///
/// # Errors
/// The folder is absent or cannot be written to.
pub fn probe_private_file(path: &Path) -> Result<(), FileError> {
    let work = || {
        let temporary = temporary_of(path)?;
        let _ = fs::remove_file(&temporary);
        create_private_file(&temporary, b"")?;
        fs::remove_file(&temporary)
    };
    work().map_err(|error| FileError::new(path, error))
}

/// Creates a file of mode 0600 that must not exist yet, and syncs it.
///
/// # Errors
/// The file exists, or its folder is absent or cannot be written to.
pub fn create_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // A strange umask could have taken bits away from us.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The folder of a file; `.` for a bare name.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether `path` is `folder` or in it. Symbolic links are followed as far as they exist.
#[must_use]
pub fn is_within(path: &Path, folder: &Path) -> bool {
    resolved(path).starts_with(resolved(folder))
}

/// `path` with its existing part made absolute and free of symbolic links.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in absolute.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // Joining an empty path would add a slash at the end.
            return if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            };
        }
    }
    absolute
}
