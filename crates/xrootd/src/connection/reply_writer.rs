//! The reply writer: the one place where a connection sends answers.
//!
//! Answers come from many tasks and are sent completely, in the order of their arrival. All but the
//! smallest hold memory ([`crate::session::BufferReservation`]) until the socket has taken them.
//! The number of the smallest is limited.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use dewar_xrootd_proto::{Reply, StreamId};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::small;
use crate::error::ErrorReply;
use crate::limits::{FRAME_BYTES_LEAST, MESSAGE_BYTES_MAX, OUT_BYTES_MAX, SMALL_ANSWER_BYTES};
use crate::session::{Budget, BufferReservation};

/// Answers waiting for the socket.
const QUEUED_MAX: usize = 64;

/// Pieces given to the kernel at once, as many as it takes.
const SLICES_MAX: usize = 1024;

/// One answer, or a part of one.
struct Frame {
    pieces: Vec<Bytes>,
    _share: Option<BufferReservation>,
    /// Completed when the socket has taken it and everything before.
    taken: Option<oneshot::Sender<()>>,
}

/// The way out of a connection; clones lead to the same.
#[derive(Clone)]
pub(crate) struct ReplyWriter {
    queue: mpsc::Sender<Frame>,
    budget: Arc<Budget>,
}

impl ReplyWriter {
    /// Starts the task that writes. It ends when all clones are dropped, when `cut` is cancelled, or
    /// when the client takes nothing for `stall`, and then cancels `cut` itself.
    pub(super) fn start<W: AsyncWrite + Send + Unpin + 'static>(
        writer: W,
        room: Arc<Semaphore>,
        stall: Duration,
        cut: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (queue, frames) = mpsc::channel(QUEUED_MAX);
        let task = tokio::spawn(async move {
            let outcome = tokio::select! {
                biased;
                () = cut.cancelled() => Ok(()),
                outcome = write_frames(writer, frames, stall) => outcome,
            };
            if let Err(error) = outcome {
                tracing::trace!(%error, "an answer could not be sent");
                cut.cancel();
            }
        });
        let budget = Arc::new(Budget::new(OUT_BYTES_MAX, FRAME_BYTES_LEAST, room));
        (Self { queue, budget }, task)
    }

    /// Room for an answer of `wanted` bytes, or for less.
    pub(crate) async fn room(&self, wanted: usize) -> BufferReservation {
        self.budget.take(wanted).await
    }

    /// The same at once and for all of it, or nothing.
    pub(crate) fn room_now(&self, wanted: usize) -> Option<BufferReservation> {
        self.budget.take_now(wanted)
    }

    /// Room to keep what was read ahead, while room for an answer is waited for.
    pub(crate) fn room_to_keep(&self, bytes: usize) -> Option<BufferReservation> {
        self.budget.keep(bytes)
    }

    /// Room for an answer that can be sent whole only.
    pub(crate) async fn room_for_whole(&self, wanted: usize) -> BufferReservation {
        self.budget.take_whole(wanted).await
    }

    /// Sends an answer; without a `share` it takes the room that it needs. That nobody takes it any
    /// more is nothing that the sender could mend.
    pub(crate) async fn send(&self, pieces: Vec<Bytes>, share: Option<BufferReservation>) {
        let len = pieces.iter().map(Bytes::len).sum();
        let share = match share {
            None if len > SMALL_ANSWER_BYTES => Some(self.room(len).await),
            share => share,
        };
        let frame = Frame {
            pieces,
            _share: share,
            taken: None,
        };
        let _ = self.queue.send(frame).await;
    }

    /// Sends a small answer.
    pub(crate) async fn reply(&self, stream: StreamId, reply: &Reply) {
        self.send(vec![small(reply, stream)], None).await;
    }

    /// Sends a small answer and waits until the socket has taken it; `false` if the connection broke before.
    pub(crate) async fn reply_and_flush(&self, stream: StreamId, reply: &Reply) -> bool {
        let (taken, told) = oneshot::channel();
        let frame = Frame {
            pieces: vec![small(reply, stream)],
            _share: None,
            taken: Some(taken),
        };
        self.queue.send(frame).await.is_ok() && told.await.is_ok()
    }

    /// Sends an answer that holds room already.
    pub(crate) async fn reply_in(&self, share: BufferReservation, stream: StreamId, reply: &Reply) {
        self.send(vec![small(reply, stream)], Some(share)).await;
    }

    /// Says that a request failed, or shall be sent again, or to somebody else.
    pub(crate) async fn refuse(&self, stream: StreamId, refusal: &ErrorReply) {
        let reply = match (&refusal.elsewhere, refusal.wait) {
            (Some((host, port)), _) => Reply::Redirect {
                port: i32::from(*port),
                host: host.clone(),
            },
            (None, Some(seconds)) => Reply::Wait {
                seconds,
                message: shortened(&refusal.message),
            },
            (None, None) => Reply::error(refusal.code, shortened(&refusal.message)),
        };
        self.reply(stream, &reply).await;
    }

    /// Whether both lead to the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.queue.same_channel(&other.queue)
    }
}

/// A message without what makes it long: paths of clients stand in it.
fn shortened(message: &str) -> String {
    message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned()
}

async fn write_frames<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut frames: mpsc::Receiver<Frame>,
    stall: Duration,
) -> std::io::Result<()> {
    let mut waiting: VecDeque<Frame> = VecDeque::new();
    let mut pieces: VecDeque<Bytes> = VecDeque::new();
    loop {
        let Some(first) = frames.recv().await else {
            return writer.shutdown().await;
        };
        let mut next = Some(first);
        while let Some(mut frame) = next {
            pieces.extend(frame.pieces.drain(..).filter(|piece| !piece.is_empty()));
            waiting.push_back(frame);
            next = match pieces.len() {
                len if len < SLICES_MAX => frames.try_recv().ok(),
                _ => None,
            };
        }
        while !pieces.is_empty() {
            let slices: Vec<IoSlice<'_>> = pieces
                .iter()
                .take(SLICES_MAX)
                .map(|piece| IoSlice::new(piece))
                .collect();
            let written = tokio::time::timeout(stall, writer.write_vectored(&slices)).await;
            let mut written = written.map_err(|_| std::io::ErrorKind::TimedOut)??;
            if written == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            while let Some(piece) = pieces.front_mut() {
                if piece.len() > written {
                    piece.advance(written);
                    break;
                }
                written -= piece.len();
                pieces.pop_front();
            }
        }
        // Their room is free now.
        let taken: Vec<_> = waiting.drain(..).filter_map(|frame| frame.taken).collect();
        tokio::time::timeout(stall, writer.flush())
            .await
            .map_err(|_| std::io::ErrorKind::TimedOut)??;
        for told in taken {
            // Who asked may have gone.
            let _ = told.send(());
        }
    }
}
