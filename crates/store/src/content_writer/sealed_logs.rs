//! Complete logs of one writer that no version names yet.

use dewar_catalog::record::Extent;
use dewar_checksum::DigestSet;
use dewar_disks::blob::BlobRecord;

use crate::SharedStore;

/// A log that is complete and durable, and that nothing names yet.
pub(super) struct SealedLog {
    pub(super) record: BlobRecord,
    pub(super) extent: Extent,
    pub(super) digests: DigestSet,
}

/// Those of one writer; dropped, they are removed.
pub(super) struct SealedLogs {
    pub(super) shared: SharedStore,
    pub(super) logs: Vec<SealedLog>,
}

impl SealedLogs {
    /// Gives up the logs of which nothing is left in the version: all that was in them was written
    /// over, or cut off.
    pub(super) fn drop_unused(&mut self, extents: &[Extent]) {
        let logs = std::mem::take(&mut self.logs);
        let named = |log: &SealedLog| extents.iter().any(|extent| extent.blob == log.record.id);
        let (used, unused) = logs.into_iter().partition(named);
        self.logs = used;
        drop(Self {
            shared: SharedStore::clone(&self.shared),
            logs: unused,
        });
    }
}

impl Drop for SealedLogs {
    fn drop(&mut self) {
        if self.logs.is_empty() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends: the sweep of the next one collects them.
            return;
        };
        let (shared, logs) = (
            SharedStore::clone(&self.shared),
            std::mem::take(&mut self.logs),
        );
        runtime.spawn(async move {
            for log in logs {
                shared.blobs.take_back(&log.record).await;
            }
        });
    }
}
