//! The seam under the embedded engine: a sorted, disposable index of the catalog (RECORDS.md
//! section 5).
//!
//! The journal is authoritative. An index is fed sorted batches of durable journal records, and
//! reports the last one that it contains ([`Index::applied`]). Later records are replayed from the
//! journal. Single commits are never written to the index.
//!
//! Two implementations exist: [`MemoryIndex`] (tests) and [`sorted_runs`] (sorted files on m+1
//! disks).

mod memory;
pub mod sorted_runs;

use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::Result;

use crate::{Scan, Seq};

pub use memory::MemoryIndex;

/// A key and its new value; `None` deletes it.
pub type Entry = (Bytes, Option<Bytes>);

/// A page of entries that a scan read, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPage {
    /// Key and value pairs.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether the limit cut it short.
    pub more: bool,
}

/// A sorted index; see the module.
pub trait Index: Send + Sync {
    /// The present state of the index, for as long as the view is held. Does not wait. Hold it for
    /// minutes, not days: files that only this view needs stay on the disks.
    fn view(&self) -> Arc<dyn IndexView>;

    /// Applies a batch: `entries` strictly ascending by key. Afterwards the index contains
    /// everything up to `upto`. When this returns, the batch is durable on as many disks as the
    /// index keeps copies, and visible to views made from then on. `entries` and `upto` are applied
    /// together or not at all. A second call waits for the first.
    ///
    /// An empty batch changes `applied` alone. If the future is dropped, the batch may or may not
    /// be applied; see [`Index::applied`].
    ///
    /// # Errors
    /// `InvalidArgument` when `entries` are not sorted, or `upto` is below [`Index::applied`].
    /// After any error nothing was applied, and the caller may try again.
    fn apply(&self, entries: Vec<Entry>, upto: Seq) -> BoxFuture<'_, Result<()>>;

    /// The last batch that is in the index; later ones are only in the journal.
    fn applied(&self) -> Seq;

    /// The last batch of a state that was durable on as many disks as the index keeps copies. The
    /// index does not need the journal's records up to it. At most [`Index::applied`]; lower as
    /// long as an opening found fewer copies.
    fn kept(&self) -> Seq;
}

/// The state of an index at one moment.
pub trait IndexView: Send + Sync {
    /// The last batch that it shows.
    fn applied(&self) -> Seq;

    /// The value of a key if it is available without waiting; `None` if [`IndexView::get`] would
    /// have to wait for a disk.
    fn get_now(&self, key: &[u8]) -> Option<Result<Option<Bytes>>>;

    /// The value of a key.
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>>>;

    /// A part of a range.
    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<IndexPage>>;
}

/// Whether a batch is strictly ascending and does not go back.
fn check_batch(entries: &[Entry], upto: Seq, applied: Seq) -> Result<()> {
    use dewar_types::{Error, ErrorKind};
    if !entries.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "a batch for the catalog index is not strictly sorted by key",
        ));
    }
    if upto < applied {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("the catalog index has taken in {applied} already, not only {upto}"),
        ));
    }
    Ok(())
}
