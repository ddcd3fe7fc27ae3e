//! The tests of crashes must fail when the journal is broken on purpose.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dewar_env::disk::Result;
use dewar_env::{Access, BoxFuture, CreateOptions, DirEntry, DiskFile, DiskState, Space};
use tokio::sync::watch;

use super::*;
use crate::format::sabotage::skip;

thread_local! {
    static LIE: Cell<bool> = const { Cell::new(false) };
}

/// The disks themselves, or ones that only pretend to make writes durable.
pub(super) fn wrapped(disks: Vec<(DiskId, Arc<dyn Disk>)>) -> Vec<(DiskId, Arc<dyn Disk>)> {
    if !LIE.get() {
        return disks;
    }
    let lying = disks.into_iter().map(|(id, disk)| {
        let disk: Arc<dyn Disk> = Arc::new(Lying(disk));
        (id, disk)
    });
    lying.collect()
}

#[derive(Debug)]
struct Lying<T>(T);

impl Disk for Lying<Arc<dyn Disk>> {
    fn label(&self) -> &str {
        self.0.label()
    }
    fn state(&self) -> DiskState {
        self.0.state()
    }
    fn watch(&self) -> watch::Receiver<DiskState> {
        self.0.watch()
    }
    fn space(&self) -> BoxFuture<'_, Result<Space>> {
        self.0.space()
    }
    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(async move {
            let file = self.0.create(path, options).await?;
            Ok(Arc::new(Lying(file)) as Arc<dyn DiskFile>)
        })
    }
    fn open<'a>(
        &'a self,
        path: &'a str,
        access: Access,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(async move {
            let file = self.0.open(path, access).await?;
            Ok(Arc::new(Lying(file)) as Arc<dyn DiskFile>)
        })
    }
    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.remove(path)
    }
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.rename(from, to)
    }
    fn list<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        self.0.list(dir)
    }
    fn sync_dir<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<()>> {
        self.0.sync_dir(dir)
    }
    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes>> {
        self.0.read_file(path)
    }
    fn replace_file<'a>(&'a self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<()>> {
        self.0.replace_file(path, content)
    }
}

impl DiskFile for Lying<Arc<dyn DiskFile>> {
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>> {
        self.0.read_now(offset, len)
    }
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>> {
        self.0.read_at(offset, len)
    }
    fn read_pieces(&self, pieces: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.0.read_pieces(pieces)
    }
    fn write_at(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        self.0.write_at(offset, buffers)
    }
    fn write_pieces(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        self.0.write_pieces(pieces)
    }
    /// Here it lies.
    fn write_durable(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        self.0.write_at(offset, buffers)
    }
    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        self.0.sync()
    }
    fn is_in_place(&self) -> BoxFuture<'_, Result<bool>> {
        self.0.is_in_place()
    }

    fn len(&self) -> BoxFuture<'_, Result<u64>> {
        self.0.len()
    }
}

fn noticed(test: impl AsyncFnOnce()) -> bool {
    let run = AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(test());
    });
    catch_unwind(run).is_err()
}

#[test]
fn a_skipped_sync_is_noticed() {
    assert!(!noticed(async || crash::lost_and_stale(3).await));
    LIE.set(true);
    let seen = noticed(async || crash::lost_and_stale(3).await);
    LIE.set(false);
    assert!(seen);
}

#[test]
fn a_skipped_checksum_is_noticed() {
    skip(true);
    let seen = noticed(async || crash::rot().await);
    skip(false);
    assert!(seen);
}
