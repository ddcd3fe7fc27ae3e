//! A simulated disk: the trait, and the controls for tests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::Result;
use super::content::FileContent;
use super::core::{Core, SimCall};
use super::fault::syncs;
use super::fault::{OpStage, SimCounters, SimFaults, SimLatency, SimOp};
use super::file::{SimFile, WriteDurability};
use super::inode::Inode;
use super::world::copied;
use crate::disk::{DIRECT_BYTES, SMALL_FILE_BYTES_MAX, path as paths};
use crate::{
    Access, BoxFuture, CreateOptions, DirEntry, Disk, DiskErrorKind, DiskFile, DiskState, Space,
};

/// A disk in memory; see the module. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) core: Arc<Core>,
}

/// The content of a disk at a moment, to put it back later.
pub struct SimImage(super::core::Media);

impl SimDisk {
    /// Counters of the disk since it was made.
    #[must_use]
    pub fn counters(&self) -> SimCounters {
        self.core.control.lock().counters
    }

    /// Every operation waits, until [`Self::resume`] or its deadline.
    pub fn hang(&self) {
        self.core.control(|c| c.hanging = true);
    }

    /// Ends a hang: stuck operations happen now.
    pub fn resume(&self) {
        self.core.resume();
    }

    /// The folder disappears (renamed, unmounted): nothing is lost, but nothing can be reached.
    pub fn vanish(&self) {
        self.core.control(|c| c.vanished = true);
    }

    /// Unplugs the disk: it is missing, and unsynced changes are lost. Open files stay dead when it
    /// comes back.
    pub fn pull(&self) {
        self.core.control(|c| {
            c.vanished = true;
            c.pulls += 1;
        });
        let rng = &self.core.shared.rng;
        let mut media = self.core.media.lock();
        media.names = media.names.after_power_failure(rng);
        for (_, inode) in media.names.files() {
            inode.with(|content| *content = content.after_power_failure(rng));
        }
    }

    /// The same folder is there again, as it was left.
    pub fn come_back(&self) {
        self.core.control(|c| c.vanished = false);
    }

    /// Sets the size in bytes; less than is used means full.
    pub fn set_capacity(&self, bytes: u64) {
        let media = self.core.media.lock();
        media.room.capacity.store(bytes, Ordering::Relaxed);
    }

    /// Sets whether every change is refused; the disk is then [`DiskState::ReadOnly`].
    pub fn set_read_only(&self, read_only: bool) {
        self.core.control(|c| c.read_only = read_only);
    }

    /// Sets the time after which an operation fails with `TimedOut`.
    pub fn set_deadline(&self, deadline: Duration) {
        self.core.control(|c| c.deadline = deadline);
    }

    /// Sets the duration of operations; zero by default.
    pub fn set_latency(&self, latency: SimLatency) {
        self.core.control(|c| c.latency = latency);
    }

    /// Sets the rate of failures of operations; never by default.
    pub fn set_faults(&self, faults: SimFaults) {
        self.core.control(|c| c.faults = faults);
    }

    /// Sets how many of a million immediate reads find their bytes in the page cache; 750,000 by
    /// default.
    pub fn set_cached(&self, ppm: u32) {
        self.core.control(|c| c.cached = ppm);
    }

    /// The next operation of this kind fails with this error; several calls queue up.
    pub fn fail_next(&self, op: SimOp, kind: DiskErrorKind) {
        self.core.control(|c| c.fail_next.push((op, kind)));
    }

    /// Every operation of this kind fails with this error, until [`Self::heal`].
    pub fn fail_always(&self, op: SimOp, kind: DiskErrorKind) {
        self.core.control(|c| c.fail_always.push((op, kind)));
    }

    /// Ends all faults but poison, hangs, bad pages and absence.
    pub fn heal(&self) {
        self.core.control(|c| {
            c.fail_next.clear();
            c.fail_always.clear();
            c.next_write = None;
            c.faults = SimFaults::default();
            c.read_only = false;
        });
    }

    /// The next write is reported as done and is not.
    pub fn lose_next_write(&self) {
        self.core.control(|c| c.next_write = Some(OpStage::Lost));
    }

    /// The next write is reported as done but goes to another position or file.
    pub fn misdirect_next_write(&self) {
        self.core
            .control(|c| c.next_write = Some(OpStage::Misdirected));
    }

    /// The paths of all files, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let media = self.core.media.lock();
        media.names.files().map(|(path, _)| path.clone()).collect()
    }

    /// The content of a file, whatever state the disk is in; `None` without the file or with a bad
    /// page.
    #[must_use]
    pub fn peek(&self, path: &str) -> Option<Bytes> {
        let inode = self.inode(path)?;
        inode.with(|c| c.read(0, usize::try_from(c.len()).ok()?))
    }

    /// Changes bytes durably without the disk's knowledge. Returns whether the file exists.
    pub fn tamper(&self, path: &str, offset: u64, bytes: &[u8]) -> bool {
        self.edit(path, |content| {
            content.write(offset, bytes);
            content.settle_range(offset, bytes.len() as u64);
        })
    }

    /// Inverts one bit of a file on the medium. Returns whether the byte exists.
    pub fn flip_bit(&self, path: &str, offset: u64, bit: u32) -> bool {
        let mut there = false;
        self.edit(path, |content| {
            there = offset < content.len();
            if there {
                content.flip(offset, bit);
            }
        });
        there
    }

    /// Inverts `count` bits at random positions of the files whose path begins with `prefix`,
    /// mostly in written pages. Returns the files and byte offsets.
    pub fn rot(&self, prefix: &str, count: usize) -> Vec<(String, u64)> {
        let rng = &self.core.shared.rng;
        let mut flipped = Vec::new();
        let mut paths = self.paths();
        paths.retain(|path| path.starts_with(prefix) && self.length(path) > 0);
        while flipped.len() < count && !paths.is_empty() {
            let n = usize::try_from(rng.below(paths.len() as u64)).unwrap_or(0);
            let offset = self.any_offset(&paths[n]);
            self.flip_bit(&paths[n], offset, u32::try_from(rng.below(8)).unwrap_or(0));
            flipped.push((paths[n].clone(), offset));
        }
        flipped
    }

    /// A byte of a file that is not empty, mostly one that was written.
    fn any_offset(&self, path: &str) -> u64 {
        let rng = &self.core.shared.rng;
        let len = self.length(path);
        let written = self.inode(path).map(|inode| inode.with(|c| c.written()));
        let written = written.unwrap_or_default();
        if !written.is_empty() && rng.below(4) > 0 {
            let n = usize::try_from(rng.below(written.len() as u64)).unwrap_or(0);
            let within = rng.below(super::content::PAGE);
            let offset = written[n] * super::content::PAGE + within;
            if offset < len {
                return offset;
            }
        }
        rng.below(len)
    }

    /// Exchanges the content of two files, as a file system with damaged metadata may do. Returns
    /// whether both exist.
    pub fn exchange(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.inode(a), self.inode(b)) else {
            return false;
        };
        if !Arc::ptr_eq(&a, &b) {
            let of_a = a.with(std::mem::take);
            let of_b = b.with(|content| std::mem::replace(content, of_a));
            a.with(|content| *content = of_b);
        }
        true
    }

    /// Makes the 4 KiB pages of a range unreadable until they are written again. Returns whether
    /// the file exists.
    pub fn spoil(&self, path: &str, offset: u64, len: u64) -> bool {
        self.edit(path, |content| content.spoil(offset, len))
    }

    /// Removes a file without the disk's knowledge. Returns whether it existed.
    pub fn lose_file(&self, path: &str) -> bool {
        let mut media = self.core.media.lock();
        let there = media.names.file(path).is_some();
        if there {
            media.names.unlink(path);
            media.names.settle(super::names::parent(path));
        }
        there
    }

    /// Removes a folder with its content without the disk's knowledge. Open files stay open.
    pub fn lose_folder(&self, dir: &str) {
        self.core.media.lock().names.lose_dir(dir);
    }

    /// Whether a power failure now could lose bytes of this file.
    #[must_use]
    pub fn is_dirty(&self, path: &str) -> bool {
        self.inode(path)
            .is_some_and(|inode| inode.with(|content| content.is_dirty()))
    }

    /// The present content of the disk.
    #[must_use]
    pub fn image(&self) -> SimImage {
        let media = self.core.media.lock();
        SimImage(copied(&media.names, &media.room, |inode, room| {
            inode.copy(room)
        }))
    }

    /// Restores an earlier content, for a disk that was absent and comes back old. Use it before
    /// the disk is used (after [`super::SimWorld::crash`]), since open handles keep their files.
    pub fn restore(&self, image: &SimImage) {
        let old = copied(&image.0.names, &image.0.room, |inode, room| {
            inode.copy(room)
        });
        *self.core.media.lock() = old;
    }

    fn inode(&self, path: &str) -> Option<Arc<Inode>> {
        self.core.media.lock().names.file(path).cloned()
    }

    fn length(&self, path: &str) -> u64 {
        self.inode(path)
            .map_or(0, |inode| inode.with(|content| content.len()))
    }

    fn edit(&self, path: &str, f: impl FnOnce(&mut FileContent)) -> bool {
        let inode = self.inode(path);
        inode.is_some_and(|inode| {
            inode.with(f);
            true
        })
    }

    /// A file operation by path, after a look at the path.
    async fn named<T, F>(&self, name: &'static str, op: SimOp, path: &str, effect: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Core, &str, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    {
        let call = SimCall {
            name,
            op,
            path: path.to_owned(),
        };
        paths::check_dir(path).map_err(|kind| self.core.error(kind, &call))?;
        let path = path.to_owned();
        self.core
            .perform(call, move |core, stage| effect(core, &path, stage))
            .await
    }

    async fn make(&self, path: &str, options: CreateOptions) -> Result<Arc<SimFile>> {
        let pulls = self.core.pulls();
        let inode = self.named("create", SimOp::Create, path, move |core, path, _| {
            paths::check_file(path)?;
            if options.direct && !options.zeroed_bytes.is_multiple_of(DIRECT_BYTES) {
                return Err(DiskErrorKind::Invalid);
            }
            let mut media = core.media.lock();
            if media.names.file(path).is_some() || media.names.is_dir(path) {
                return Err(DiskErrorKind::Exists);
            }
            media.names.check_above(path)?;
            media.room.fits(options.zeroed_bytes)?;
            let inode = Inode::new(FileContent::zeroed(options.zeroed_bytes), &media.room);
            media.names.link(path, Arc::clone(&inode));
            Ok(inode)
        });
        let inode = inode.await?;
        let access = if options.direct {
            Access::Direct
        } else {
            Access::Write
        };
        Ok(Arc::new(SimFile {
            core: Arc::clone(&self.core),
            inode,
            access,
            path: path.to_owned(),
            pulls,
        }))
    }

    async fn find(&self, name: &'static str, path: &str, access: Access) -> Result<Arc<SimFile>> {
        let pulls = self.core.pulls();
        let inode = self.named(name, SimOp::Read, path, |core, path, _| {
            paths::check_file(path)?;
            let media = core.media.lock();
            match media.names.file(path) {
                Some(inode) => Ok(Arc::clone(inode)),
                None if media.names.is_dir(path) => Err(DiskErrorKind::Io),
                None => Err(DiskErrorKind::NotFound),
            }
        });
        let inode = inode.await?;
        Ok(Arc::new(SimFile {
            core: Arc::clone(&self.core),
            inode,
            access,
            path: path.to_owned(),
            pulls,
        }))
    }

    async fn replace(&self, path: &str, content: Bytes) -> Result<()> {
        let _alone = self.core.replacing.lock().await;
        let temporary = paths::temporary(path);
        match self.remove(&temporary).await {
            Err(error) if error.kind() != DiskErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.make(&temporary, CreateOptions::default()).await?;
        file.write(vec![(0, vec![content])], WriteDurability::Cached)
            .await?;
        file.sync().await?;
        self.rename(&temporary, path).await?;
        self.sync_dir(super::names::parent(path)).await
    }
}

impl Disk for SimDisk {
    fn label(&self) -> &str {
        &self.core.label
    }

    fn state(&self) -> DiskState {
        self.core.state()
    }

    fn watch(&self) -> watch::Receiver<DiskState> {
        self.core.watch()
    }

    fn space(&self) -> BoxFuture<'_, Result<Space>> {
        Box::pin(
            self.named("ask the space of", SimOp::Read, "", |core, _, _| {
                let media = core.media.lock();
                Ok(Space {
                    total: media.room.capacity.load(Ordering::Relaxed),
                    available: media.room.free(),
                })
            }),
        )
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(async move { Ok(self.make(path, options).await? as Arc<dyn DiskFile>) })
    }

    fn open<'a>(
        &'a self,
        path: &'a str,
        access: Access,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(async move { Ok(self.find("open", path, access).await? as Arc<dyn DiskFile>) })
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.named("remove", SimOp::Remove, path, |core, path, _| {
            paths::check_file(path)?;
            let mut media = core.media.lock();
            if media.names.file(path).is_none() {
                return Err(DiskErrorKind::NotFound);
            }
            media.names.unlink(path);
            Ok(())
        }))
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<()>> {
        let to = to.to_owned();
        Box::pin(
            self.named("rename", SimOp::Rename, from, move |core, from, _| {
                paths::check_file(from)?;
                paths::check_file(&to)?;
                let mut media = core.media.lock();
                if media.names.file(from).is_none() {
                    return Err(DiskErrorKind::NotFound);
                }
                if media.names.is_dir(&to) {
                    return Err(DiskErrorKind::Io);
                }
                media.names.check_above(&to)?;
                media.names.rename(from, &to);
                Ok(())
            }),
        )
    }

    fn list<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        Box::pin(self.named("list", SimOp::Read, dir, |core, dir, _| {
            Ok(core.media.lock().names.list(dir))
        }))
    }

    fn sync_dir<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.named("sync", SimOp::SyncDir, dir, |core, dir, stage| {
            let mut media = core.media.lock();
            if !media.names.is_dir(dir) {
                return Err(DiskErrorKind::NotFound);
            }
            if stage != OpStage::Cut && syncs(SimOp::SyncDir, dir) {
                media.names.settle(dir);
            }
            Ok(())
        }))
    }

    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move {
            let file = self.find("read", path, Access::Read).await?;
            file.read_all(SMALL_FILE_BYTES_MAX).await
        })
    }

    fn replace_file<'a>(&'a self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.replace(path, content))
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDisk({}, {:?})", self.core.label, self.core.state())
    }
}
