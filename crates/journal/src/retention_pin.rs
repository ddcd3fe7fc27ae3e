//! Who still needs which records.

use std::sync::Arc;

use crate::Seq;
use crate::log::SharedLog;

/// Keeps the records after a sequence from being freed. Dropping it does *not* give them up: what
/// needs them may only have been stopped. See [`RetentionPin::release`].
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

    /// Records up to `seq` are no longer needed. It never goes back, nor beyond what is durable.
    pub fn advance(&self, seq: Seq) {
        self.shared.advance_hold(self.id, seq);
    }

    /// Nothing is kept for this holder any more.
    pub fn release(self) {
        self.shared.release_hold(self.id);
    }
}

impl std::fmt::Debug for RetentionPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({})", self.id)
    }
}
