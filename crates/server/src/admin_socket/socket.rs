//! The unix socket of the admin API.
//!
//! It is bound under a temporary name, set to mode 0600 and then renamed. So nobody can connect
//! while it has another mode, and a stale socket of a killed server is replaced in one step. The
//! caller holds the lock of the state folder, so no other server can use the name.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use dewar_engine::host::paths::folder_of;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// A socket cannot be made.
#[derive(Debug, Error)]
#[error("cannot {doing} the admin socket {}: {source}", path.display())]
pub struct SocketError {
    path: PathBuf,
    doing: &'static str,
    source: io::Error,
}

/// A bound admin socket; its file is removed when this is dropped.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    inode: u64,
    pub(super) listener: UnixListener,
}

/// A path that fits into a socket address, which has 107 bytes. A long path uses its folder's
/// descriptor, which must stay open meanwhile.
struct Reachable {
    path: PathBuf,
    _folder: Option<File>,
}

const ADDRESS_BYTES_MAX: usize = 107;

fn reachable(path: &Path) -> io::Result<Reachable> {
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return Ok(Reachable {
            path: path.to_path_buf(),
            _folder: None,
        });
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = File::open(folder_of(path))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    Ok(Reachable {
        path: short.join(name),
        _folder: Some(folder),
    })
}

impl AdminSocket {
    /// Binds `path`, replacing a stale socket.
    ///
    /// # Errors
    /// The folder is absent or cannot be written to, or `path` is not a socket.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |doing| {
            move |source| SocketError {
                path: path.to_path_buf(),
                doing,
                source,
            }
        };
        if let Ok(found) = fs::symlink_metadata(path)
            && !found.file_type().is_socket()
        {
            let source = io::Error::other("it is something else than a socket");
            return Err(failed("replace")(source));
        }
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let _ = fs::remove_file(&temporary);
        let work = || {
            let listener = UnixListener::bind(&reachable(&temporary)?.path)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
            let inode = fs::symlink_metadata(&temporary)?.ino();
            fs::rename(&temporary, path)?;
            Ok((listener, inode))
        };
        let (listener, inode) = work().map_err(|error| {
            let _ = fs::remove_file(&temporary);
            failed("bind")(error)
        })?;
        Ok(Self {
            path: path.to_path_buf(),
            inode,
            listener,
        })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Somebody else's socket under the same name is not ours to remove.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to the server behind `path`; `None` when there is none.
pub(super) async fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    let connected = match reachable(path) {
        Ok(short) => UnixStream::connect(&short.path).await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether a peer may administer a server that runs as `own`: root and the same user may.
pub(super) fn is_allowed(peer: u32, own: u32) -> bool {
    peer == 0 || peer == own
}
