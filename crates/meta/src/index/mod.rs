//! The seam under the embedded engine: a sorted, disposable index of the catalog
//! (RECORDS.md section 5).
//!
//! The journal is the truth. An index is fed sorted batches of what the journal made durable, and
//! says up to which batch it has taken them in ([`Index::applied`]); everything later is replayed
//! from the journal. It is never written a single commit at a time.
//!
//! Two stand behind it: [`MemoryIndex`] (tests) and [`runs`] (sorted files on m+1 disks).

mod memory;
pub mod sorted_runs;

use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::Result;

use crate::kv::{Scan, Seq};

pub use memory::MemoryIndex;

/// A key and its new value; `None` deletes it.
pub type Entry = (Bytes, Option<Bytes>);

/// What a scan found, in the order asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPage {
    /// Key and value pairs.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether the limit cut it short.
    pub more: bool,
}

/// A sorted index; see the module.
pub trait Index: Send + Sync {
    /// The index as it is now, for as long as the view is held. Costs no waiting. Hold it for
    /// minutes, not days: files that only it needs stay on the disks.
    fn view(&self) -> Arc<dyn IndexView>;

    /// Takes in a batch: `entries` strictly ascending by key, after which everything up to `upto`
    /// is in the index. Durable on as many disks as the index keeps copies when it returns, all of
    /// it together with `upto` or nothing, and visible to views made from then on. One at a time;
    /// a second call waits for the first.
    ///
    /// An empty batch moves `applied` alone. Dropping the future leaves it open whether the batch
    /// is taken in; [`Index::applied`] tells.
    ///
    /// # Errors
    /// `InvalidArgument` when `entries` are not sorted, or `upto` is below [`Index::applied`];
    /// otherwise nothing was taken in and the caller may try again.
    fn apply(&self, entries: Vec<Entry>, upto: Seq) -> BoxFuture<'_, Result<()>>;

    /// The last batch that is in the index; what comes later in the journal is not.
    fn applied(&self) -> Seq;

    /// The last batch of a state that was durable on as many disks as the index keeps copies: what
    /// the journal has up to it, it has not for the index. At most [`Index::applied`]; below it as long
    /// as an opening found fewer copies.
    fn kept(&self) -> Seq;
}

/// An index as it was at a moment.
pub trait IndexView: Send + Sync {
    /// The last batch that it shows.
    fn applied(&self) -> Seq;

    /// The value of a key if it can be had without waiting; `None` where [`IndexView::get`] would
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
