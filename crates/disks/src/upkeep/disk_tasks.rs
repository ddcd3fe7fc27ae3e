//! Tasks on disks that run side by side, at most one on each disk.

use std::collections::BTreeSet;

use dewar_env::BoxFuture;
use dewar_types::DiskId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// The tasks under way. They run while [`DiskTasks::next`] is awaited.
pub(super) struct DiskTasks<'a, T> {
    running: FuturesUnordered<BoxFuture<'a, (DiskId, T)>>,
    disks: BTreeSet<DiskId>,
}

impl<'a, T: Send + 'a> DiskTasks<'a, T> {
    pub(super) fn new() -> Self {
        Self {
            running: FuturesUnordered::new(),
            disks: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    /// Whether a task runs on the disk.
    pub(super) fn runs_on(&self, disk: DiskId) -> bool {
        self.disks.contains(&disk)
    }

    /// Adds a task on a disk that has none.
    pub(super) fn start(&mut self, disk: DiskId, task: impl Future<Output = T> + Send + 'a) {
        self.disks.insert(disk);
        self.running
            .push(Box::pin(async move { (disk, task.await) }));
    }

    /// The next task that ends; `None` when none is under way.
    pub(super) async fn next(&mut self) -> Option<(DiskId, T)> {
        let (disk, outcome) = self.running.next().await?;
        self.disks.remove(&disk);
        Some((disk, outcome))
    }
}
