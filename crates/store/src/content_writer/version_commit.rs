//! The last step of a writer: the version gets its name.

use dewar_catalog::record::DisplayedChecksum;
use dewar_checksum::DigestSet;
use dewar_disks::BlobTable;
use dewar_namespace::{Bucket, DataChanges, NameRef, NewVersion, Reservation, ResolvedName};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use super::sealed_logs::SealedLogs;
use crate::SharedStore;
use crate::access::ObjectOwner;
use crate::api::{ObjectInfo, WriteCondition};
use crate::content_log::StagedContent;
use crate::content_reader::ContentReader;
use crate::info::{version_info, with_expiry};

/// A written version that gets its name.
pub(super) struct VersionCommit {
    pub(super) shared: SharedStore,
    pub(super) principal: String,
    pub(super) bucket: Bucket,
    pub(super) key: ObjectKey,
    pub(super) found: Option<ResolvedName>,
    pub(super) owner: ObjectOwner,
    pub(super) condition: WriteCondition,
    pub(super) is_new: bool,
    pub(super) held: StagedContent,
    pub(super) sealed: SealedLogs,
    pub(super) reservation: Option<Reservation>,
    /// Keeps the revised content until it is shared.
    pub(super) _base: Option<ContentReader>,
}

impl VersionCommit {
    pub(super) async fn publish(
        mut self,
        new: NewVersion,
        clear: DigestSet,
        checksum: Option<DisplayedChecksum>,
    ) -> Result<ObjectInfo> {
        let mut extra: DataChanges = self.held.extra();
        for log in &self.sealed.logs {
            extra.puts.extend(BlobTable::first_entries(&log.record));
        }
        // What the version counts is judged in its batch.
        drop(self.reservation);
        let actor = self.owner.actor(&self.principal);
        let name = NameRef::new(&self.bucket, &self.key, self.found.take());
        let (tree, condition) = (&self.shared.tree, &self.condition);
        // Boxed, or the task would be five times as large, and copied as a whole when it begins.
        let outcome = Box::pin(tree.publish(&actor, name, new, condition, &extra)).await;
        for log in std::mem::take(&mut self.sealed.logs) {
            let held = StagedContent::Large { record: log.record };
            held.settle(&self.shared, &outcome).await;
        }
        self.held.settle(&self.shared, &outcome).await;
        let published = outcome.map_err(|error| match error.kind() {
            ErrorKind::Precondition if self.is_new => {
                let message = format!("{} exists", self.bucket.path(self.key.as_str()));
                Error::with_source(ErrorKind::AlreadyExists, message, error)
            }
            _ => error,
        })?;
        let mut version = published.version;
        // The writer knows what it wrote, encrypted or not.
        version.digests = clear;
        version.checksum = checksum;
        let info = version_info(&self.bucket, self.owner.owner, &version);
        with_expiry(info, &self.bucket, self.key.as_str(), &version)
    }
}
