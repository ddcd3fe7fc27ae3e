//! Files that only the user of the server may read. They are written completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::paths::folder_of;

/// A file cannot be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be written.
    pub source: io::Error,
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
    work().map_err(|source| FileError {
        path: path.to_path_buf(),
        source,
    })
}

/// Checks that a file could be written. It uses the name that the file has while it is being
/// written, so that nobody sees an empty file.
///
/// # Errors
/// The folder is absent or cannot be written to.
pub fn check_writable(path: &Path) -> Result<(), FileError> {
    let work = || {
        let temporary = temporary_of(path)?;
        let _ = fs::remove_file(&temporary);
        create_private_file(&temporary, b"")?;
        fs::remove_file(&temporary)
    };
    work().map_err(|source| FileError {
        path: path.to_path_buf(),
        source,
    })
}

/// The name of a file while it is being written.
fn temporary_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = name.to_os_string();
    temporary.push(".tmp");
    Ok(folder_of(path).join(temporary))
}

/// Creates a file of mode 0600 that must not exist yet, and syncs it.
///
/// # Errors
/// It exists, or cannot be written.
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
