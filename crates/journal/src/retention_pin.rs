//! Holds: the records that a user of the journal still needs.

use std::sync::Arc;

use crate::Seq;
use crate::log::SharedLog;

/// Keeps the records after a sequence number from being freed. Dropping it does *not* release them,
/// since the component that needs them may only have been stopped. See [`RetentionPin::release`].
#[derive(Clone)]
pub struct RetentionPin {
    shared: Arc<SharedLog>,
    id: u64,
}

impl RetentionPin {
    pub(crate) fn new(shared: Arc<SharedLog>, name: &str, seq: Seq) -> Self {
        let id = shared.add_hold(name, seq);
        Self { shared, id }
    }

    /// Records up to `seq` are no longer needed. The hold never goes back, and never beyond the
    /// durable records.
    pub fn advance(&self, seq: Seq) {
        self.shared.advance_hold(self.id, seq);
    }

    /// Releases the hold: no records are kept for it any more.
    pub fn release(self) {
        self.shared.release_hold(self.id);
    }
}

impl std::fmt::Debug for RetentionPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({})", self.id)
    }
}
