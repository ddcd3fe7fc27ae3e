//! Checks and steps before a folder's disk joins.

use dewar_disks::pool::{IDENTITY_FILE, Identity};
use dewar_env::{Disk, DiskErrorKind};
use dewar_types::{Error, ErrorKind, Result};

/// A file that every member of the journal has (docs/formats/journal.md).
const EPOCH_FILE: &str = "journal/epoch";

/// Folders that a disk which is taken back comes without.
const WIPED: [&str; 2] = ["index", "journal"];

/// Journal files that a new disk must have room for.
const FIRST_FILES: u64 = 2;

/// Checks whether a folder that is to become a disk can be written and has space for the first
/// journal files.
pub(super) async fn check_room(disk: &dyn Disk, file_bytes: u64) -> Result<()> {
    let label = disk.label();
    if !disk.state().writable() {
        let message = format!(
            "{label} cannot be written: its file system is read-only, or it belongs to another user"
        );
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    let space = disk.space().await?;
    let needed = FIRST_FILES * file_bytes + space.reserve();
    if space.available < needed {
        let message = format!(
            "{label} has no room: {} MiB are free, and a disk needs {} MiB to begin with",
            space.available >> 20,
            needed.div_ceil(1 << 20)
        );
        return Err(Error::new(ErrorKind::NoSpace, message));
    }
    Ok(())
}

/// Removes all of journal and index from a disk, its epoch file last.
pub(super) async fn wipe(disk: &dyn Disk) -> Result<()> {
    for dir in WIPED {
        let files = disk.list(dir).await?;
        let paths = files
            .iter()
            .filter(|entry| !entry.is_dir)
            .map(|entry| format!("{dir}/{}", entry.name))
            .filter(|path| path != EPOCH_FILE);
        let paths: Vec<String> = paths.collect();
        for path in &paths {
            match disk.remove(path).await {
                Err(error) if error.kind() != DiskErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        if !paths.is_empty() {
            disk.sync_dir(dir).await?;
        }
    }
    match disk.remove(EPOCH_FILE).await {
        Ok(()) => Ok(disk.sync_dir("journal").await?),
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the identity of a disk durable. The process that wrote it may have been killed before it
/// synced the folder, although the identity can be read. So it is written again before anything
/// relies on it, as long as the disk has no epoch of the journal.
pub(super) async fn settle_identity(disk: &dyn Disk, identity: &Identity) -> Result<()> {
    match disk.read_file(EPOCH_FILE).await {
        Err(error) if error.kind() == DiskErrorKind::NotFound => {
            if dewar_env::safeguard("identities are made durable again") {
                let text = identity.to_text();
                disk.replace_file(IDENTITY_FILE, text.into()).await?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
