//! Operations on names in the folder. Every function here blocks.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rustix::fs::{self, Access as Right, AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::buffer::Aligned;
use super::dir_lock::{self, DirLock};
use super::file::{OpenDescriptor, write_all};
use crate::disk::SMALL_FILE_BYTES_MAX;
use crate::disk::path::{parent, temporary};
use crate::{Access, DirEntry, Space};

/// Made and removed to see whether the folder takes files again.
const PROBE_FILE: &str = ".dewar-probe";
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIR_MODE: Mode = Mode::from_raw_mode(0o700);

pub(super) struct Folder {
    path: PathBuf,
    identity: Option<String>,
    /// Whether the identity file was seen; from then on it must exist.
    identified: AtomicBool,
    /// Device and inode.
    place: (u64, u64),
    root: RwLock<Arc<OwnedFd>>,
    /// Keeps other processes out, if that is wanted.
    hold: Mutex<Option<Arc<DirLock>>>,
    exclusive: bool,
    /// Folders whose own names, and those of all folders above, are durable.
    anchored: Mutex<BTreeSet<String>>,
    /// One replacement at a time: they share the temporary name.
    replacing: Mutex<()>,
}

impl Folder {
    pub(super) fn open(
        path: PathBuf,
        identity: Option<String>,
        exclusive: bool,
    ) -> io::Result<Self> {
        let root = open_root(&path)?;
        let stat = fs::fstat(&root)?;
        let place = (stat.st_dev, stat.st_ino);
        let hold = match exclusive {
            true => Some(dir_lock::take(&root, place)?),
            false => None,
        };
        let folder = Self {
            path,
            identity,
            identified: AtomicBool::new(false),
            place,
            root: RwLock::new(Arc::new(root)),
            hold: Mutex::new(hold),
            exclusive,
            anchored: Mutex::default(),
            replacing: Mutex::default(),
        };
        folder.has_identity()?;
        Ok(folder)
    }

    /// Whether the path leads to the folder that was opened.
    pub(super) fn is_in_place(&self) -> bool {
        fs::stat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.place)
    }

    /// Whether a name leads to this open file.
    pub(super) fn leads_to(&self, path: &str, file: &OwnedFd) -> io::Result<bool> {
        let open = fs::fstat(file)?;
        match fs::statat(&*self.root(), path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (open.st_dev, open.st_ino)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Fails if nobody would find this open file again under its name.
    pub(super) fn check_place(&self, path: &str, file: &OwnedFd) -> io::Result<()> {
        if self.leads_to(path, file)? {
            return Ok(());
        }
        let message = "somebody removed or replaced the file while it was open";
        Err(io::Error::new(io::ErrorKind::NotFound, message))
    }

    /// Whether it is in its place, and its identity file is in it.
    pub(super) fn is_itself(&self) -> bool {
        self.is_in_place() && self.has_identity().unwrap_or(false)
    }

    /// After an absence: the folder's descriptor may be of a device that is gone.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let root = open_root(&self.path)?;
        let stat = fs::fstat(&root)?;
        if (stat.st_dev, stat.st_ino) != self.place {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.exclusive {
            let mut held = self.hold.lock();
            *held = None;
            *held = Some(dir_lock::take(&root, self.place)?);
        }
        self.anchored.lock().clear();
        *self.root.write() = Arc::new(root);
        Ok(())
    }

    /// Reads from the device, past the page cache. Whether that was possible.
    pub(super) fn probe(&self) -> bool {
        let Some(identity) = &self.identity else {
            return false;
        };
        let Ok(file) = self.open_file(identity, Access::Direct) else {
            return false;
        };
        if !file.direct {
            return false;
        }
        let mut buffer = Aligned::with_capacity(1);
        buffer
            .fill(|spare| Ok(rustix::io::pread(&file.fd, spare, 0)?.0.len()))
            .is_ok()
    }

    /// Whether the operating system says that nothing can be made in the folder: the file system is
    /// read-only, or this process has not the right to.
    pub(super) fn refuses_writes(&self) -> bool {
        let rights = Right::WRITE_OK | Right::EXEC_OK;
        let may = fs::accessat(&*self.root(), ".", rights, AtFlags::EACCESS);
        may.is_err_and(|errno| is_refusal(&errno.into()))
    }

    /// Whether a file can be made: more than what [`Self::refuses_writes`] promises.
    pub(super) fn takes_files(&self) -> bool {
        self.make_file().is_ok()
    }

    /// Whether no file can be made, for a reason that does not go away by itself: it is refused, or the
    /// kernel has shut the file system off and answers with nothing but an error.
    pub(super) fn is_shut_off(&self) -> bool {
        let made = self.make_file();
        made.is_err_and(|errno| is_refusal(&errno.into()) || errno == Errno::IO)
    }

    fn make_file(&self) -> rustix::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = self.root();
        drop(fs::openat(&*root, PROBE_FILE, flags, FILE_MODE)?);
        fs::unlinkat(&*root, PROBE_FILE, AtFlags::empty())
    }

    pub(super) fn space(&self) -> io::Result<Space> {
        let stat = fs::fstatvfs(&*self.root())?;
        Ok(Space {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            available: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    pub(super) fn create(&self, path: &str, direct: bool) -> io::Result<OpenDescriptor> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match self.open_at(path, flags, direct) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dirs(parent(path))?;
                self.open_at(path, flags, direct)
            }
            other => other,
        }
    }

    pub(super) fn open_file(&self, path: &str, access: Access) -> io::Result<OpenDescriptor> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write | Access::Direct => OFlags::RDWR,
        };
        let direct = access == Access::Direct;
        let mut opened = match self.open_at(path, flags, direct) {
            // What is on a disk that cannot be written can be read; its writes are refused.
            Err(error) if access != Access::Read && is_refusal(&error) => {
                let mut opened = self.open_at(path, OFlags::RDONLY, direct)?;
                opened.refuses = true;
                opened
            }
            other => other?,
        };
        opened.writable = access != Access::Read;
        let kind = FileType::from_raw_mode(fs::fstat(&opened.fd)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(opened),
            FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
            _ => Err(io::Error::other("not a regular file")),
        }
    }

    pub(super) fn remove(&self, path: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&*self.root(), path, AtFlags::empty())?)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let root = self.root();
        let found =
            FileType::from_raw_mode(fs::statat(&*root, from, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        if found == FileType::Directory {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        match fs::renameat(&*root, from, &*root, to) {
            Err(Errno::NOENT) => {
                self.make_dirs(parent(to))?;
                Ok(fs::renameat(&*root, from, &*root, to)?)
            }
            other => Ok(other?),
        }
    }

    pub(super) fn list(&self, dir: &str) -> io::Result<Vec<DirEntry>> {
        let fd = match self.open_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                // Dewar makes no such name.
                continue;
            };
            if name == "." || name == ".." || (dir.is_empty() && name == PROBE_FILE) {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let stat = fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            entries.push(DirEntry {
                name: name.to_owned(),
                is_dir: kind == FileType::Directory,
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    pub(super) fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sync(&self.open_dir(dir)?)?;
        if dir.is_empty() || self.anchored.lock().contains(dir) {
            return Ok(());
        }
        let mut above = dir;
        while !above.is_empty() {
            above = parent(above);
            sync(&self.open_dir(above)?)?;
        }
        self.anchored.lock().insert(dir.to_owned());
        Ok(())
    }

    /// `None` if it is too large.
    pub(super) fn read_file(&self, path: &str) -> io::Result<Option<Bytes>> {
        let file = self.open_file(path, Access::Read)?;
        let len = file.len()?;
        if len > SMALL_FILE_BYTES_MAX {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Ok(Some(file.read(0, len)?))
    }

    pub(super) fn replace_file(&self, path: &str, content: &Bytes) -> io::Result<()> {
        let _alone = self.replacing.lock();
        let temporary = temporary(path);
        match self.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.create(&temporary, false)?;
        let written = write_all(
            &file.fd,
            0,
            std::slice::from_ref(content),
            ReadWriteFlags::empty(),
        );
        let renamed = written.and_then(|()| {
            sync(&file.fd)?;
            self.rename(&temporary, path)
        });
        if renamed.is_err() {
            // The name that counts is as it was; the next replacement clears this one anyway.
            let _ = self.remove(&temporary);
        }
        renamed?;
        self.sync_dir(parent(path))
    }

    fn has_identity(&self) -> io::Result<bool> {
        let Some(identity) = &self.identity else {
            return Ok(true);
        };
        match fs::statat(&*self.root(), identity, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => {
                self.identified.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(!self.identified.load(Ordering::Relaxed)),
            Err(error) => Err(error.into()),
        }
    }

    fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root.read())
    }

    fn open_at(&self, path: &str, flags: OFlags, direct: bool) -> io::Result<OpenDescriptor> {
        let root = self.root();
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if direct {
            match fs::openat(&*root, path, flags | OFlags::DIRECT, FILE_MODE) {
                // The file system has no O_DIRECT. A file that this call made stays.
                Err(Errno::INVAL) => {
                    let fd = fs::openat(&*root, path, flags - OFlags::EXCL, FILE_MODE)?;
                    return Ok(OpenDescriptor {
                        direct: false,
                        ..OpenDescriptor::new(fd, true)
                    });
                }
                other => return Ok(OpenDescriptor::new(other?, true)),
            }
        }
        let fd = fs::openat(&*root, path, flags, FILE_MODE)?;
        Ok(OpenDescriptor::new(fd, false))
    }

    fn open_dir(&self, dir: &str) -> io::Result<OwnedFd> {
        let dir = if dir.is_empty() { "." } else { dir };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(fs::openat(self.root().as_fd(), dir, flags, Mode::empty())?)
    }

    fn make_dirs(&self, dir: &str) -> io::Result<()> {
        let root = self.root();
        let mut ends: Vec<_> = dir.match_indices('/').map(|(at, _)| at).collect();
        ends.push(dir.len());
        for end in ends {
            match fs::mkdirat(&*root, &dir[..end], DIR_MODE) {
                // One of this name may have been removed behind our back.
                Ok(()) => self.anchored.lock().retain(|known| {
                    let below = known.strip_prefix(&dir[..end]);
                    !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Syncs a file or a folder. A file system that turns read-only in the middle refuses nothing here,
/// it has lost something.
fn sync(fd: &OwnedFd) -> io::Result<()> {
    match fs::fsync(fd) {
        Err(Errno::ROFS) => Err(Errno::IO.into()),
        other => Ok(other?),
    }
}

/// Whether an error says that this disk cannot be written by us, rather than that it failed.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(error.kind(), K::ReadOnlyFilesystem | K::PermissionDenied)
}

fn open_root(path: &PathBuf) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?)
}
