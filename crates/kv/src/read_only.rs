//! A read-only catalog over an index; nothing can be committed.

use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::{Error, ErrorKind};

use super::{Batch, CommitError, Kv, KvRead, ReadValue, Scan, ScanPage, Seq};
use crate::index::IndexView;
use crate::index::sorted_runs::ReadOnlyRuns;

/// See the module.
#[derive(Clone)]
pub struct ReadOnlyKv {
    view: Arc<dyn IndexView>,
}

impl ReadOnlyKv {
    /// The catalog as of the last batch in `runs`.
    #[must_use]
    pub fn new(runs: &ReadOnlyRuns) -> Self {
        Self { view: runs.view() }
    }
}

impl KvRead for ReadOnlyKv {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        Box::pin(async move {
            Ok(ReadValue {
                value: self.view.get(key).await?,
                seq: self.view.applied(),
            })
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        Box::pin(async move {
            let page = self.view.scan(scan).await?;
            Ok(ScanPage {
                pairs: page.pairs,
                more: page.more,
                seq: self.view.applied(),
            })
        })
    }
}

impl Kv for ReadOnlyKv {
    fn snapshot(&self) -> Arc<dyn KvRead> {
        Arc::new(self.clone())
    }

    fn commit(&self, _: Batch) -> BoxFuture<'_, Result<Seq, CommitError>> {
        Box::pin(std::future::ready(Err(CommitError::Failed(Error::new(
            ErrorKind::Unsupported,
            "this catalog is only looked at",
        )))))
    }

    fn last_sequence(&self) -> Seq {
        0
    }

    fn changes(&self, _: Seq, _: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>> {
        Box::pin(std::future::ready(Err(Error::new(
            ErrorKind::Unsupported,
            "this catalog is only looked at",
        ))))
    }
}
