//! The records that an opened journal still holds, in order, in bounded memory.

use std::sync::Arc;

use bytes::Bytes;
use dewar_types::Error;

use crate::Seq;
use crate::epoch::Span;
use crate::log::SharedLog;
use crate::log_reader::{CopySource, LogReader, ReadStart};
use crate::retention_pin::RetentionPin;

/// Returns every record after [`Recovery::floor`], oldest first. They are kept while this exists;
/// before dropping it, register holds for the records that are still needed.
pub struct Recovery {
    chain: LogReader<Arc<dyn CopySource>>,
    hold: Option<RetentionPin>,
    floor: Seq,
    end: Seq,
}

impl Recovery {
    pub(crate) fn new(
        chain: LogReader<Arc<dyn CopySource>>,
        hold: Option<RetentionPin>,
        floor: Seq,
        end: Seq,
    ) -> Self {
        Self {
            chain,
            hold,
            floor,
            end,
        }
    }

    /// The records that were written into a new epoch when the journal was opened.
    pub(crate) fn of_running(shared: &Arc<SharedLog>, span: Span, floor: Seq, end: Seq) -> Self {
        let start = ReadStart {
            file: span.file,
            first: span.first,
            prev: span.prev,
        };
        let hold = RetentionPin::new(Arc::clone(shared), "recovery", floor);
        let span = Span {
            last: Some(end),
            ..span
        };
        let source: Arc<dyn CopySource> = Arc::clone(shared) as _;
        let chain = LogReader::new(source, shared.config.file_bytes, vec![span], start);
        Self::new(chain, Some(hold), floor, end)
    }

    /// Records up to this one were not needed any more and may be gone.
    #[must_use]
    pub fn floor(&self) -> Seq {
        self.floor
    }

    /// The last record there is.
    #[must_use]
    pub fn end(&self) -> Seq {
        self.end
    }

    /// The next record after the floor: its sequence number and body. An empty body is a mark:
    /// records before it were lost, and the loss was accepted.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Corrupt`] if no copy of it verifies.
    pub async fn next(&mut self) -> Result<Option<(Seq, Bytes)>, Error> {
        while let Some(link) = self.chain.next().await? {
            let seq = link.record.header.seq;
            if seq > self.floor {
                return Ok(Some((seq, link.body())));
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recovery({}..={})", self.floor + 1, self.end)
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
    }
}
