//! The charge of an upload: its share of the counters.

use dewar_catalog::record::{Counter, CounterScope};
use dewar_types::{EntryId, Error};

use super::super::Tree;
use super::super::batch_builder::BatchBuilder;
use super::super::charge::scopes_of_upload;
use super::OpenUpload;

impl BatchBuilder<'_> {
    /// Counts for an upload: `objects` and `bytes` more or less.
    pub(super) async fn charge_upload(
        &mut self,
        open: &OpenUpload,
        objects: i64,
        bytes: i64,
    ) -> Result<(), Error> {
        self.limits_of(&open.chain);
        for scope in scopes_of_upload(&open.chain.bucket, &open.record) {
            if let CounterScope::Space(id) = scope
                && !open.chain.spaces().any(|space| space == id)
                && !self.tree().is_counted(id).await?
            {
                // The space was removed, and its counters with it.
                continue;
            }
            self.add(Counter::Objects(scope), objects);
            self.add(Counter::Bytes(scope), bytes);
        }
        self.add(Counter::Uploads(open.record.owner), objects);
        self.add(Counter::UploadBytes(open.record.owner), bytes);
        Ok(())
    }
}

impl Tree {
    /// Whether a space that is not where it was has counters.
    pub(crate) async fn is_counted(&self, space: EntryId) -> Result<bool, Error> {
        let key = Counter::Objects(CounterScope::Space(space)).key();
        Ok(self.kv().get(&key).await?.value.is_some())
    }
}
