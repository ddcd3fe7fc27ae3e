//! Request ids: on every answer, in every log line about it.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_env::Env;
use http::HeaderName;

/// The header with the id of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
/// The header with the id of the gateway process.
pub const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// Mints request ids: unique in the process, hard to guess across processes.
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

    /// The next id: a counter behind a bijection, so that no two are equal.
    pub(crate) fn next(&self) -> String {
        let n = self.count.fetch_add(1, Ordering::Relaxed);
        let mut x = n.wrapping_add(self.key);
        // The finaliser of SplitMix64, which maps 64 bits one to one.
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("{:016X}", x ^ (x >> 31))
    }

    /// What names this process.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}
