//! Bodies of requests: none, or pieces of a file through a short channel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::progress::TransferProgress;

/// The body of a request.
#[derive(Default)]
pub(crate) struct RequestBody(Option<FilePieces>);

/// A file on its way out.
struct FilePieces {
    pieces: mpsc::Receiver<Bytes>,
    size: u64,
    sent: u64,
    progress: Arc<TransferProgress>,
}

impl RequestBody {
    /// A file of `size` bytes. If the channel closes before they came, the connection breaks, so that the
    /// other side cannot take a part for the whole.
    pub(crate) fn file(
        pieces: mpsc::Receiver<Bytes>,
        size: u64,
        progress: &Arc<TransferProgress>,
    ) -> Self {
        Self(Some(FilePieces {
            pieces,
            size,
            sent: 0,
            progress: Arc::clone(progress),
        }))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Some(file) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let piece = std::task::ready!(file.pieces.poll_recv(context));
        Poll::Ready(match piece {
            Some(piece) => {
                let len = piece.len() as u64;
                file.sent += len;
                file.progress.count(len, file.sent);
                Some(Ok(Frame::data(piece)))
            }
            None if file.sent < file.size => Some(Err(io::Error::other("the file was not read"))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|file| file.sent >= file.size)
    }

    fn size_hint(&self) -> SizeHint {
        let left = self
            .0
            .as_ref()
            .map_or(0, |file| file.size.saturating_sub(file.sent));
        SizeHint::with_exact(left)
    }
}
