//! An open file.

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{self, FallocateFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::buffer::{ALIGN, Aligned, is_aligned, read_cached};
use super::health::Health;
use super::{Call, FailureEffect, Inner, call};
use crate::disk::{DIRECT_BYTES, Result};
use crate::{BoxFuture, DiskErrorKind, DiskFile};

/// Buffers that one system call takes (IOV_MAX).
const PARTS_MAX: usize = 1024;

/// How much of a new file is filled with zeros per operation, so that each has its own deadline.
const ZERO_BYTES: usize = 4 << 20;

/// Reads longer than this ask for the file's length before they ask for memory.
const TRUSTED_BYTES: usize = 1 << 20;

/// Set when the kernel or file system turned out not to know RWF_DSYNC.
static NO_DSYNC: AtomicBool = AtomicBool::new(false);

/// A descriptor and how it was opened.
pub(super) struct OpenDescriptor {
    pub(super) fd: OwnedFd,
    /// Whether it is open with O_DIRECT: asked for, and known to the file system.
    pub(super) direct: bool,
    /// Whether it was asked for.
    pub(super) asked_direct: bool,
    pub(super) writable: bool,
    /// Opened for writing on a disk that could not be written.
    pub(super) refuses: bool,
}

pub(super) struct RealFile {
    inner: Arc<Inner>,
    /// `None` only while it is dropped.
    opened: Option<Arc<OpenDescriptor>>,
    path: String,
}

impl OpenDescriptor {
    pub(super) fn new(fd: OwnedFd, direct: bool) -> Self {
        Self {
            fd,
            direct,
            asked_direct: direct,
            writable: true,
            refuses: false,
        }
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        let size = fs::fstat(&self.fd)?.st_size;
        Ok(u64::try_from(size).unwrap_or(0))
    }

    /// Up to `len` bytes; blocks.
    pub(super) fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let len = if len > TRUSTED_BYTES {
            let left = self.len()?.saturating_sub(offset);
            len.min(usize::try_from(left).unwrap_or(usize::MAX))
        } else {
            len
        };
        if self.direct {
            let mut buffer = Aligned::with_capacity(len);
            let fd = self.fd.as_fd();
            loop {
                let at = offset + buffer.len() as u64;
                let n = buffer.fill(|spare| read_once(fd, spare, at))?;
                // A read that ends within a block has reached the end of the file.
                if n == 0 || buffer.len() >= len || !n.is_multiple_of(ALIGN) {
                    break;
                }
            }
            let len = len.min(buffer.len());
            return Ok(buffer.freeze(len));
        }
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            if read_more(self.fd.as_fd(), &mut bytes, at)? == 0 {
                break;
            }
        }
        // The allocator may have given more than was asked for.
        bytes.truncate(len);
        Ok(bytes.into())
    }

    /// Writes the pieces, then makes the file durable; blocks.
    pub(super) fn complete(&self, pieces: &[(u64, Vec<Bytes>)], health: &Health) -> io::Result<()> {
        for (offset, buffers) in pieces {
            self.write(*offset, buffers, false, health)?;
        }
        self.sync(health)
    }

    fn sync(&self, health: &Health) -> io::Result<()> {
        // Whatever the error: pages may be clean by now that are not on the medium.
        Ok(fs::fdatasync(&self.fd).inspect_err(|_| health.poison())?)
    }

    /// Writes everything, and makes it durable if it shall be; blocks.
    fn write(
        &self,
        offset: u64,
        buffers: &[Bytes],
        durable: bool,
        health: &Health,
    ) -> io::Result<()> {
        let bounced;
        let buffers = match self.direct && !buffers.iter().all(|b| is_aligned(b)) {
            true => {
                let len = buffers.iter().map(Bytes::len).sum();
                let mut bounce = Aligned::with_capacity(len);
                for buffer in buffers {
                    bounce.extend(buffer);
                }
                bounced = [bounce.freeze(len)];
                &bounced
            }
            false => buffers,
        };
        if durable && !NO_DSYNC.load(Ordering::Relaxed) {
            match write_all(&self.fd, offset, buffers, ReadWriteFlags::DSYNC) {
                Err(error) if is_unsupported(&error) => NO_DSYNC.store(true, Ordering::Relaxed),
                outcome => return outcome,
            }
        }
        write_all(&self.fd, offset, buffers, ReadWriteFlags::empty())?;
        match durable {
            true => self.sync(health),
            false => Ok(()),
        }
    }
}

/// Whether the kernel or the file system does not know a flag.
fn is_unsupported(error: &io::Error) -> bool {
    let unknown = [Errno::OPNOTSUPP, Errno::NOSYS].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| unknown.contains(&code))
}

impl RealFile {
    pub(super) fn new(inner: &Arc<Inner>, opened: OpenDescriptor, path: &str) -> Self {
        Self {
            inner: Arc::clone(inner),
            opened: Some(Arc::new(opened)),
            path: path.to_owned(),
        }
    }

    /// Fills the new file with zeros, durably.
    pub(super) async fn zero_fill(&self, len: u64) -> Result<()> {
        let zeros = Aligned::zeroed(ZERO_BYTES);
        let mut offset = 0;
        while offset < len {
            let opened = self.opened();
            let left = usize::try_from(len - offset).unwrap_or(usize::MAX);
            let part = zeros.slice(..left.min(ZERO_BYTES));
            let lane = &self.inner.lanes.writes;
            let call = call("fill", &self.path);
            let fill = self.inner.run(lane, FailureEffect::Write, call, move |_| {
                if offset == 0 {
                    reserve(&opened, len)?;
                }
                write_all(&opened.fd, offset, &[part], ReadWriteFlags::empty())
            });
            fill.await?;
            offset += ZERO_BYTES as u64;
        }
        self.sync().await
    }

    fn opened(&self) -> Arc<OpenDescriptor> {
        Arc::clone(self.opened.as_ref().expect("open until it is dropped"))
    }

    async fn read(&self, pieces: Vec<(u64, usize)>) -> Result<Vec<Bytes>> {
        let opened = self.opened();
        let call = call("read", &self.path);
        let sizes = pieces.iter().copied();
        self.check(sizes, &opened, &call)?;
        let lane = &self.inner.lanes.reads;
        self.inner
            .run(lane, FailureEffect::Read, call, move |_| {
                pieces
                    .into_iter()
                    .map(|(offset, len)| opened.read(offset, len))
                    .collect()
            })
            .await
    }

    async fn write(&self, pieces: Vec<(u64, Vec<Bytes>)>, duty: FailureEffect) -> Result<()> {
        let opened = self.opened();
        let call = call("write", &self.path);
        let sizes = pieces
            .iter()
            .map(|(offset, buffers)| (*offset, buffers.iter().map(Bytes::len).sum()));
        self.check(sizes, &opened, &call)?;
        if !opened.writable {
            return Err(self.inner.error(DiskErrorKind::Invalid, &call));
        }
        if opened.refuses {
            return Err(self.inner.error(DiskErrorKind::Refused, &call));
        }
        let lane = match duty {
            FailureEffect::Durable => &self.inner.lanes.durable,
            FailureEffect::Complete => &self.inner.lanes.syncs,
            _ => &self.inner.lanes.writes,
        };
        let path = self.path.clone();
        self.inner
            .run(lane, duty, call, move |inner| {
                if duty == FailureEffect::Complete {
                    opened.complete(&pieces, &inner.health)?;
                } else {
                    for (offset, buffers) in &pieces {
                        let durable = duty == FailureEffect::Durable;
                        opened.write(*offset, buffers, durable, &inner.health)?;
                    }
                }
                match duty {
                    FailureEffect::Durable | FailureEffect::Complete => {
                        inner.folder.check_place(&path, &opened.fd)
                    }
                    FailureEffect::Read | FailureEffect::Write => Ok(()),
                }
            })
            .await
    }

    /// Direct access comes in whole blocks, also where the file system would not mind.
    fn check(
        &self,
        pieces: impl IntoIterator<Item = (u64, usize)>,
        opened: &OpenDescriptor,
        call: &Call,
    ) -> Result<()> {
        let good = pieces.into_iter().all(|(offset, len)| {
            let aligned =
                offset.is_multiple_of(DIRECT_BYTES) && (len as u64).is_multiple_of(DIRECT_BYTES);
            let end = offset.checked_add(len as u64);
            (aligned || !opened.asked_direct) && end.is_some_and(|end| i64::try_from(end).is_ok())
        });
        if good {
            return Ok(());
        }
        Err(self.inner.error(DiskErrorKind::Invalid, call))
    }
}

impl DiskFile for RealFile {
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>> {
        let opened = self.opened.as_ref()?;
        // With O_DIRECT the kernel would start I/O.
        if opened.asked_direct || !self.inner.health.state().readable() {
            return None;
        }
        let bytes = read_cached(opened.fd.as_fd(), offset, len).ok()?;
        // Shorter: the end of the file, or of what is cached.
        let end = offset + bytes.len() as u64;
        if bytes.len() < len && opened.len().ok()? > end {
            return None;
        }
        Some(Ok(bytes.into()))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let mut read = self.read(vec![(offset, len)]).await?;
            Ok(read.pop().unwrap_or_default())
        })
    }

    fn read_pieces(&self, pieces: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(self.read(pieces))
    }

    fn write_at(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(vec![(offset, buffers)], FailureEffect::Write))
    }

    fn write_pieces(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(pieces, FailureEffect::Write))
    }

    fn complete(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(pieces, FailureEffect::Complete))
    }

    fn write_durable(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(vec![(offset, buffers)], FailureEffect::Durable))
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        let opened = self.opened();
        let (lane, call) = (&self.inner.lanes.syncs, call("sync", &self.path));
        let path = self.path.clone();
        Box::pin(
            self.inner
                .run(lane, FailureEffect::Durable, call, move |inner| {
                    opened.sync(&inner.health)?;
                    inner.folder.check_place(&path, &opened.fd)
                }),
        )
    }

    fn is_in_place(&self) -> BoxFuture<'_, Result<bool>> {
        let opened = self.opened();
        let (lane, call) = (&self.inner.lanes.reads, call("look for", &self.path));
        let path = self.path.clone();
        Box::pin(
            self.inner
                .run(lane, FailureEffect::Read, call, move |inner| {
                    inner.folder.leads_to(&path, &opened.fd)
                }),
        )
    }

    fn len(&self) -> BoxFuture<'_, Result<u64>> {
        let opened = self.opened();
        let (lane, call) = (
            &self.inner.lanes.reads,
            call("ask the length of", &self.path),
        );
        Box::pin(
            self.inner
                .run(lane, FailureEffect::Read, call, move |_| opened.len()),
        )
    }
}

impl Drop for RealFile {
    /// Closing the last descriptor of a removed file frees its blocks, which takes time.
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            let _ = self.inner.lanes.writes.spawn(move || drop(opened));
        }
    }
}

impl fmt::Debug for RealFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RealFile({}/{})", self.inner.label, self.path)
    }
}

/// Writes buffers one behind the other, however many calls it takes.
pub(super) fn write_all(
    fd: &OwnedFd,
    offset: u64,
    buffers: &[Bytes],
    flags: ReadWriteFlags,
) -> io::Result<()> {
    let mut at = offset;
    for some in buffers.chunks(PARTS_MAX) {
        let mut parts: Vec<_> = some.iter().map(|b| IoSlice::new(b)).collect();
        let mut rest = &mut parts[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let n = match rustix::io::pwritev2(fd, rest, at, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => n,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            at += n as u64;
            IoSlice::advance_slices(&mut rest, n);
        }
    }
    Ok(())
}

fn read_once(fd: impl AsFd, spare: &mut [MaybeUninit<u8>], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(&fd, &mut *spare, offset) {
            Ok((read, _)) => return Ok(read.len()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_more(fd: impl AsFd, bytes: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::pread(&fd, spare_capacity(bytes), offset) {
            Ok(n) => return Ok(n),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Lets the file system choose one stretch for the whole file, where it can.
fn reserve(opened: &OpenDescriptor, len: u64) -> io::Result<()> {
    match fs::fallocate(&opened.fd, FallocateFlags::empty(), 0, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskState;

    #[test]
    fn a_failed_sync_poisons_without_rwf_dsync_too() {
        // It takes writes and knows no sync.
        let null = std::fs::File::options().write(true).open("/dev/null");
        let opened = OpenDescriptor::new(null.expect("a device").into(), false);
        let health = Health::default();
        let content = [Bytes::from_static(b"x")];
        let before = NO_DSYNC.swap(true, Ordering::Relaxed);
        let outcome = opened.write(0, &content, true, &health);
        NO_DSYNC.store(before, Ordering::Relaxed);
        assert!(outcome.is_err());
        assert_eq!(health.state(), DiskState::Poisoned);
    }
}
