//! Request ids: on every answer. Log lines have them from the span that the listener opens.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_env::Env;
use dewar_types::RequestId;
use http::HeaderName;

/// The header with the id of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
/// The header with the id of the gateway process.
pub const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// The name of this process, and ids for requests without one: those that did not come through a
/// listener.
pub(crate) struct RequestIds {
    key: u64,
    count: AtomicU64,
    host: String,
}

impl RequestIds {
    pub(crate) fn new(env: &Env) -> Self {
        let mut host = [0; 33];
        env.rng.fill(&mut host);
        Self {
            key: env.rng.u64(),
            count: AtomicU64::new(0),
            host: STANDARD.encode(host),
        }
    }

    /// The next id.
    pub(crate) fn next(&self) -> RequestId {
        RequestId::nth(self.key, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// The name of this process.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}
