//! Ids of requests: on every answer, and in every log line about the request.

use std::sync::atomic::{AtomicU64, Ordering};

use dewar_env::Rng;
use dewar_types::RequestId;

/// Creates request ids: a random start and a count, so that two runs do not create the same.
#[derive(Debug)]
pub struct RequestIds {
    key: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// Starts at random.
    #[must_use]
    pub fn new(rng: &dyn Rng) -> Self {
        Self {
            key: rng.u64(),
            count: AtomicU64::new(0),
        }
    }

    /// The next id.
    pub fn next(&self) -> RequestId {
        RequestId::nth(self.key, self.count.fetch_add(1, Ordering::Relaxed))
    }
}
