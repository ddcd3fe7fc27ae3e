//! The seam under the catalog: get, range scan on a snapshot, and one atomic batch (RECORDS.md
//! section 4). No closures cross it; callers retry a failed precondition.
//!
//! Two engines implement it: [`memory`] (tests) and [`embedded`] (journal, overlay, [`index`]).
//! Both pass the same contract suite.

mod batch;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod embedded;
pub mod index;
pub mod memory;
mod read_only;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::Error;
use thiserror::Error as ThisError;

pub use batch::{BATCH_BYTES_MAX, Batch, InlineData, KEY_BYTES_MAX, Precondition, VALUE_BYTES_MAX};
pub use memory::MemoryKv;
pub use read_only::ReadOnlyKv;

/// The position of a batch in the one order of all batches; 0 is before the first.
pub type Seq = u64;

/// A value as a snapshot shows it. Pass `seq` in a [`Precondition`], so that an engine can check by
/// the sequence number alone that nothing changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadValue {
    /// The value, if the key exists.
    pub value: Option<Bytes>,
    /// The last batch that this read includes.
    pub seq: Seq,
}

/// The part of a range that a scan reads.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    /// First key of the range.
    pub from: &'a [u8],
    /// First key after the range; empty for no end.
    pub to: &'a [u8],
    /// At most this many pairs.
    pub limit: usize,
    /// Whether to begin at the end.
    pub reverse: bool,
}

/// A page of entries that a scan read, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// Key and value pairs.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether the limit cut it short.
    pub more: bool,
    /// The last batch that this page includes.
    pub seq: Seq,
}

/// Reads. Counters read as their sum, an `i64` in 8 bytes big-endian. A counter without additions
/// does not exist.
pub trait KvRead: Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>>;

    /// A part of a range, consistent in itself.
    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>>;
}

/// An engine. Reads on the engine itself show the durable state at the moment of the call.
pub trait Kv: KvRead {
    /// A view of the present state that does not change. Hold it for seconds, not hours: the engine
    /// keeps old values for it in memory.
    fn snapshot(&self) -> Arc<dyn KvRead>;

    /// Applies a batch completely or not at all, and returns when it is durable and visible. If the
    /// future is dropped, the batch may or may not happen.
    ///
    /// # Errors
    /// [`CommitError::Conflict`] when a precondition does not hold; nothing was changed.
    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<Seq, CommitError>>;

    /// The last batch that was accepted, whether it is visible yet or not. A commit with an unknown
    /// result is decided when reads include this batch ([`ReadValue::seq`]).
    fn last_sequence(&self) -> Seq;

    /// Change-log records after `after`, in commit order, at most `limit` batches.
    fn changes(&self, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>>;
}

/// How often it is looked whether a commit that failed has happened after all.
const DECIDED_EVERY: Duration = Duration::from_millis(200);

/// Waits until a commit that failed with an unknown result is decided ([`Kv::last_sequence`] as of
/// then). `false` when the catalog was closed meanwhile.
pub async fn resolve_unknown_commit(kv: &Weak<dyn Kv>, taken: Seq) -> bool {
    loop {
        tokio::time::sleep(DECIDED_EVERY).await;
        let Some(kv) = kv.upgrade() else { return false };
        if kv.get(b"").await.is_ok_and(|read| read.seq >= taken) {
            return true;
        }
    }
}

/// The reason why a batch was not applied.
#[derive(Debug, ThisError)]
pub enum CommitError {
    /// A precondition does not hold (the index in [`Batch::require`]). The conflicting change is
    /// then visible to reads, so an immediate retry makes sense.
    #[error("precondition {0} does not hold")]
    Conflict(usize),
    /// The engine cannot apply it: too large, disks missing, journal failed.
    #[error(transparent)]
    Failed(#[from] Error),
}
