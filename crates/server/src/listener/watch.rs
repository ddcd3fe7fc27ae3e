//! The current state of a connection, and its start time.
//!
//! One timer per connection looks at this record; handling a request sets no timer. Four wrappers
//! keep the record: the socket (below TLS, so that progress means bytes on the wire), the inlet
//! (above TLS, where hyper's buffer is seen), the request's body and the answer's body.
//!
//! ```text
//! handshake --done--> idle --first byte--> head --headers complete--> busy --answer sent--> idle
//! ```
//!
//! Handshake and head have an absolute deadline, so a client that sends a byte now and then cannot
//! extend them. Busy has no deadline of its own, because the store may be working. In this state
//! only the time of waiting for the client counts: for bytes of the body that were requested, or
//! for space in the send buffer. A body must also make progress, so that one in drops does not keep
//! its connection for ever: bytes must come in the sum of these waits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use dewar_http_front::AnswerBody;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tracing::Span;

use super::request_log::RequestRecord;
use super::{BoxError, Limits};

/// Why a connection was closed by its timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    Handshake,
    Head,
    Idle,
    Body,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Handshake,
    Idle,
    Head,
    Busy,
}

impl Phase {
    fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Handshake,
            1 => Self::Idle,
            2 => Self::Head,
            _ => Self::Busy,
        }
    }
}

/// Every so many bytes of a body must come within [`BODY_PROGRESS_TIME`], 1 KiB/s on average.
const BODY_PROGRESS_BYTES: u64 = 60 << 10;

/// The time of waiting for the client in which [`BODY_PROGRESS_BYTES`] must come, or
/// [`Limits::body_timeout`] if that is longer.
const BODY_PROGRESS_TIME: Duration = Duration::from_secs(60);

/// Times are milliseconds since the connection was accepted, plus one; zero means "not waiting".
/// Relaxed order is enough: a timer that reads a value late checks again.
pub(super) struct Watch {
    start: Instant,
    phase: AtomicU8,
    phase_since: AtomicU64,
    body_wait: AtomicU64,
    /// Milliseconds of earlier waits for the bytes of a body, and the bytes that came meanwhile. Both
    /// begin anew with [`BODY_PROGRESS_BYTES`].
    body_waited: AtomicU64,
    body_progress: AtomicU64,
    write_wait: AtomicU64,
    body_left: AtomicBool,
    /// The client sent nothing of a body for too long, which ends the body.
    stalled: AtomicBool,
    /// The task that waits for the body.
    reader: Mutex<Option<Waker>>,
    pub(super) body_bytes: AtomicU64,
    buffer_grown: AtomicBool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            phase: AtomicU8::new(Phase::Handshake as u8),
            phase_since: AtomicU64::new(1),
            body_wait: AtomicU64::new(0),
            body_waited: AtomicU64::new(0),
            body_progress: AtomicU64::new(0),
            write_wait: AtomicU64::new(0),
            body_left: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            reader: Mutex::default(),
            body_bytes: AtomicU64::new(0),
            buffer_grown: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        1 + u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }

    fn phase(&self) -> Phase {
        Phase::from_u8(self.phase.load(Relaxed))
    }

    fn enter(&self, phase: Phase) {
        self.phase_since.store(self.now(), Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    pub(super) fn handshake_done(&self) {
        self.enter(Phase::Idle);
    }

    pub(super) fn request_began(&self) {
        self.body_left.store(false, Relaxed);
        self.stalled.store(false, Relaxed);
        self.body_bytes.store(0, Relaxed);
        self.body_waited.store(0, Relaxed);
        self.body_progress.store(0, Relaxed);
        // The time does not matter while busy, so the clock is not asked.
        self.phase.store(Phase::Busy as u8, Relaxed);
    }

    fn request_ended(&self) {
        self.body_wait.store(0, Relaxed);
        self.enter(Phase::Idle);
    }

    /// Ends an awaited body with an error, so that the front can answer. Returns `false` if that
    /// was done before with this request.
    pub(super) fn give_body_up(&self) -> bool {
        if self.stalled.swap(true, Relaxed) {
            return false;
        }
        self.body_wait.store(0, Relaxed);
        if let Some(reader) = self.reader.lock().take() {
            reader.wake();
        }
        true
    }

    /// Whether a request's body was not read to its end. Further bytes from the client would then
    /// make the kernel reset the connection and destroy an answer in transit.
    pub(super) fn body_left(&self) -> bool {
        self.body_left.load(Relaxed)
    }

    /// The time since which hyper has kept a large buffer for a connection that waits for its next
    /// request; `None` if it has none. All data to send has been sent then.
    pub(super) fn idle_with_large_buffer(&self) -> Option<Instant> {
        let idle = self.buffer_grown.load(Relaxed)
            && self.phase() == Phase::Idle
            && self.write_wait.load(Relaxed) == 0;
        let since = self.phase_since.load(Relaxed).saturating_sub(1);
        idle.then(|| self.start + Duration::from_millis(since))
    }

    /// The buffer was given back.
    pub(super) fn buffer_released(&self) {
        self.buffer_grown.store(false, Relaxed);
    }

    /// The expired deadline, or the time of the next check. A `hurried` connection may idle only
    /// for as long as a request may take to arrive.
    pub(super) fn check(&self, limits: &Limits, hurried: bool) -> Result<Instant, Overdue> {
        let idle_timeout = match hurried {
            true => limits.idle_timeout.min(limits.header_timeout),
            false => limits.idle_timeout,
        };
        let now = self.now();
        let mut next = now.saturating_add(millis(limits.shortest()));
        let mut until = |since: u64, limit: Duration, overdue: Overdue| {
            let deadline = since.saturating_add(millis(limit));
            next = next.min(deadline);
            if deadline <= now {
                Err(overdue)
            } else {
                Ok(())
            }
        };
        let since = self.phase_since.load(Relaxed);
        match self.phase() {
            Phase::Handshake => until(since, limits.header_timeout, Overdue::Handshake)?,
            Phase::Idle => until(since, idle_timeout, Overdue::Idle)?,
            Phase::Head => until(since, limits.header_timeout, Overdue::Head)?,
            Phase::Busy => {
                let since = self.body_wait.load(Relaxed);
                if since != 0 {
                    until(since, limits.body_timeout, Overdue::Body)?;
                    let waited = Duration::from_millis(self.body_waited.load(Relaxed));
                    let progress = BODY_PROGRESS_TIME.max(limits.body_timeout);
                    until(since, progress.saturating_sub(waited), Overdue::Body)?;
                }
            }
        }
        let since = self.write_wait.load(Relaxed);
        if since != 0 {
            until(since, limits.body_timeout, Overdue::Write)?;
        }
        Ok(self.start + Duration::from_millis(next.saturating_sub(1)))
    }

    /// So many bytes of the body are there.
    fn body_came(&self, bytes: u64) {
        self.body_bytes.fetch_add(bytes, Relaxed);
        let progress = self.body_progress.fetch_add(bytes, Relaxed) + bytes;
        if progress >= BODY_PROGRESS_BYTES {
            self.body_progress.store(0, Relaxed);
            self.body_waited.store(0, Relaxed);
            self.body_wait.store(0, Relaxed);
        }
        let since = self.body_wait.swap(0, Relaxed);
        if since != 0 {
            let waited = self.now().saturating_sub(since);
            self.body_waited.fetch_add(waited, Relaxed);
        }
    }

    fn read_some(&self) {
        if self.phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    fn waits(&self, what: &AtomicU64) {
        if what.load(Relaxed) == 0 {
            what.store(self.now(), Relaxed);
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A socket that notes when bytes move.
pub(super) struct WatchedSocket<T> {
    pub(super) inner: T,
    pub(super) watch: Arc<Watch>,
}

impl<T> WatchedSocket<T> {
    fn note_write<R>(&self, result: Poll<R>) -> Poll<R> {
        if result.is_pending() {
            self.watch.waits(&self.watch.write_wait);
        } else {
            self.watch.write_wait.store(0, Relaxed);
        }
        result
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WatchedSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.watch.read_some();
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.note_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A read that offers more space than this comes from a large buffer.
const LARGE_READ: usize = 32 * 1024;

/// The input of hyper: first the bytes that an earlier hyper connection on the same stream had read
/// too many, then the stream.
pub(super) struct Inlet<T> {
    pub(super) before: Bytes,
    pub(super) inner: T,
    pub(super) watch: Arc<Watch>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Inlet<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let taken = self.before.len().min(buf.remaining());
            buf.put_slice(&self.before.split_to(taken));
            return Poll::Ready(Ok(()));
        }
        if buf.remaining() > LARGE_READ {
            self.watch.buffer_grown.store(true, Relaxed);
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Inlet<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A request's body. It ends with an error when the connection breaks. It ends with an
/// [`io::Error`] of kind `TimedOut` when the client sends nothing for longer than the listener's
/// `body_timeout` while data is awaited, or less than [`BODY_PROGRESS_BYTES`] in the time for them. The answer to that is the connection's last.
pub(super) struct RequestBody {
    inner: Incoming,
    watch: Arc<Watch>,
    ended: bool,
}

impl RequestBody {
    pub(super) fn new(inner: Incoming, watch: Arc<Watch>) -> Self {
        let ended = inner.is_end_stream();
        Self {
            inner,
            watch,
            ended,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let result = Pin::new(&mut self.inner).poll_frame(cx);
        if result.is_pending() {
            // Before the flag is looked at, so that whoever sets it finds this one.
            let mut reader = self.watch.reader.lock();
            if !reader.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
                *reader = Some(cx.waker().clone());
            }
            drop(reader);
            if self.watch.stalled.load(Relaxed) {
                return Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())));
            }
            self.watch.waits(&self.watch.body_wait);
        }
        match &result {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.watch.body_came(bytes as u64);
            }
            Poll::Ready(ended) => {
                self.ended |= ended.is_none();
                self.watch.body_wait.store(0, Relaxed);
            }
            Poll::Pending => {}
        }
        result.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.watch.body_wait.store(0, Relaxed);
        if !self.ended && !self.inner.is_end_stream() {
            self.watch.body_left.store(true, Relaxed);
        }
    }
}

/// Ends the busy phase when dropped: with the answer's body, or with its future.
pub(super) struct InFlight(pub(super) Arc<Watch>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

/// An answer's body, which keeps the connection busy until its last byte is taken. The code that
/// produces it runs in the request's span.
pub(super) struct ResponseBody {
    pub(super) inner: AnswerBody,
    pub(super) account: RequestRecord,
    pub(super) span: Span,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = dewar_types::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let result = {
            let _entered = this.span.enter();
            Pin::new(&mut this.inner).poll_frame(cx)
        };
        match &result {
            Poll::Ready(None) => this.account.ended(),
            Poll::Ready(Some(Ok(frame))) => {
                this.account.sent(frame.data_ref().map_or(0, Bytes::len));
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        result
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
