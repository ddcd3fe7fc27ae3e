//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::AcceptedConnection;
use dewar_env::BoxFuture;
use dewar_http_front::{AnswerBody, Arrival, HttpFront};
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::rustls::ProtocolVersion;
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span};

use super::request_log::RequestRecord;
use super::watch::{Inlet, Overdue, RequestBody, ResponseBody, Watch, WatchedSocket};
use crate::tls::Tls;

use super::{ConnectionSlot, Stop};

/// The time, and the number of bytes, for which a half-closed connection is read further so that
/// its last answer arrives.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 32 << 20;

/// Serves a connection, with TLS if `tls` is given, until it ends, is overdue, or `stop` drains.
pub(super) async fn run(
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<&Tls>,
    slot: &Arc<ConnectionSlot>,
    front: Arc<dyn HttpFront>,
    stop: Stop,
) {
    let door = &slot.door;
    // Without it, an answer in two writes waits for the client's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY");
    }
    let watch = Arc::new(Watch::new());
    let socket = WatchedSocket {
        inner: socket,
        watch: Arc::clone(&watch),
    };
    match tls {
        None => {
            watch.handshake_done();
            Box::pin(http(socket, peer, slot, front, stop, watch, None)).await;
        }
        Some(tls) => {
            let limit = door.limits.load().header_timeout;
            let handshake = tokio::time::timeout(limit, tls.accept(socket));
            let accepted = tokio::select! {
                biased;
                () = stop.draining() => return,
                accepted = handshake => accepted,
            };
            match accepted {
                Ok(Ok(stream)) => {
                    watch.handshake_done();
                    let version = stream.get_ref().1.protocol_version();
                    let tls = Some(version_name(version));
                    Box::pin(http(stream, peer, slot, front, stop, watch, tls)).await;
                }
                Ok(Err(error)) => {
                    door.metrics.handshakes_failed.inc();
                    tracing::debug!(door = door.name, %peer, %error, "TLS handshake failed");
                }
                Err(_) => {
                    door.metrics.handshakes_failed.inc();
                    tracing::debug!(door = door.name, %peer, "TLS handshake took too long");
                }
            }
        }
    }
}

/// A version of TLS as policies write it. Older versions are not supported.
fn version_name(version: Option<ProtocolVersion>) -> &'static str {
    match version {
        Some(ProtocolVersion::TLSv1_3) => "1.3",
        _ => "1.2",
    }
}

/// HTTP on a stream. hyper keeps a read buffer that a large body made grow, a megabyte, as long as
/// its connection lives. So when a connection has idled with such a buffer for a moment, hyper is
/// replaced on the stream by a new instance with a small buffer.
async fn http<T>(
    stream: T,
    peer: SocketAddr,
    slot: &Arc<ConnectionSlot>,
    front: Arc<dyn HttpFront>,
    stop: Stop,
    watch: Arc<Watch>,
    tls: Option<&'static str>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let door = &slot.door;
    let mut inlet = Inlet {
        before: Bytes::new(),
        inner: stream,
        watch: Arc::clone(&watch),
    };
    let mut service = Watched {
        front,
        slot: Arc::clone(slot),
        watch: Arc::clone(&watch),
        peer,
        tls,
    };
    let mut draining = pin!(stop.drain_token().cancelled());
    let mut timer = pin!(tokio::time::sleep(Duration::ZERO));
    loop {
        let mut connection = http1::Builder::new()
            // The watch does this, with one timer for all phases.
            .header_read_timeout(None)
            .max_buf_size(door.read_bytes())
            .max_header_size(door.limits.load().header_bytes_max)
            .serve_connection(TokioIo::new(inlet), service);
        let ended = drive(
            &mut connection,
            slot,
            &watch,
            draining.as_mut(),
            timer.as_mut(),
        )
        .await;
        let mut parts = connection.into_parts();
        match ended {
            Ended::Shrink => {
                watch.buffer_released();
                door.metrics.buffers_released.inc();
                inlet = parts.io.into_inner();
                // A whole request cannot be in it, or it would not be idle; copied, so that the
                // large buffer goes.
                inlet.before = Bytes::copy_from_slice(&parts.read_buf);
                parts.read_buf.clear();
                service = parts.service;
            }
            Ended::Itself(result) => {
                // hyper has answered a malformed head; the client may still be sending.
                let malformed = result.as_ref().is_err_and(hyper::Error::is_parse);
                if let Err(error) = result {
                    tracing::debug!(door = door.name, %peer, %error, "connection failed");
                }
                close(parts.io.into_inner(), malformed || watch.body_left()).await;
                return;
            }
            Ended::Overdue(overdue) => {
                if overdue != Overdue::Idle {
                    door.metrics.timed_out.inc();
                }
                tracing::debug!(door = door.name, %peer, ?overdue, "connection timed out");
                return;
            }
        }
    }
}

/// Polls a connection until it ends, exceeds a deadline, or should get a small buffer.
async fn drive<T>(
    connection: &mut http1::Connection<TokioIo<Inlet<T>>, Watched>,
    slot: &ConnectionSlot,
    watch: &Watch,
    mut draining: Pin<&mut impl Future<Output = ()>>,
    mut timer: Pin<&mut Sleep>,
) -> Ended
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let door = &slot.door;
    let mut is_draining = false;
    // Whether the timer was set for a large buffer.
    let mut armed = false;
    let mut look = true;
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = connection.poll_without_shutdown(cx) {
                return Poll::Ready(Ended::Itself(result));
            }
            if is_draining || draining.as_mut().poll(cx).is_pending() {
                break;
            }
            is_draining = true;
            Pin::new(&mut *connection).graceful_shutdown();
        }
        // The timer looks at least once in the shortest of the limits, so that it is never late
        // for one of them; only a large buffer has to go sooner.
        let shrinks = watch.idle_with_large_buffer().is_some();
        look |= shrinks && !armed;
        armed = shrinks;
        loop {
            if look {
                look = false;
                let mut next = match watch.check(&door.limits.load(), slot.is_hurried()) {
                    Ok(next) => next,
                    Err(Overdue::Body) if watch.give_body_up() => {
                        door.metrics.timed_out.inc();
                        // Its reader was woken, and with it whoever polls this.
                        look = true;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Err(overdue) => return Poll::Ready(Ended::Overdue(overdue)),
                };
                if let Some(since) = watch.idle_with_large_buffer() {
                    let until = since + LARGE_BUFFER_TIME;
                    if until <= Instant::now() {
                        return Poll::Ready(Ended::Shrink);
                    }
                    next = next.min(until);
                }
                timer.as_mut().reset(next);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            look = true;
        }
    })
    .await
}

/// Time that an idle connection keeps a large buffer: longer than the gap between the requests of a
/// busy client.
const LARGE_BUFFER_TIME: Duration = Duration::from_millis(500);

enum Ended {
    Itself(hyper::Result<()>),
    Overdue(Overdue),
    Shrink,
}

/// How long a client that is refused may take for TLS and its goodbye.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// Answers every request of a client with `answer`, and closes the connection.
pub(super) async fn refuse(socket: TcpStream, tls: Option<Arc<Tls>>, answer: &'static [u8]) {
    async fn say<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, answer: &[u8]) {
        if stream.write_all(answer).await.is_ok() {
            close(stream, true).await;
        }
    }
    let work = async {
        match tls {
            None => say(socket, answer).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(socket).await {
                    say(stream, answer).await;
                }
            }
        }
    };
    let _ = tokio::time::timeout(REFUSAL_TIME, work).await;
}

/// Closes the sending side. With `linger`, reads further bytes of the client, within limits, so
/// that the kernel does not reset the connection before the last answer arrives.
async fn close<T: AsyncRead + AsyncWrite + Unpin>(mut stream: T, linger: bool) {
    let work = async {
        let _ = stream.shutdown().await;
        if !linger {
            return;
        }
        let mut scratch = vec![0; 16 * 1024];
        let mut drained = 0;
        while drained < LINGER_BYTES {
            match stream.read(&mut scratch).await {
                Ok(0) | Err(_) => return,
                Ok(read) => drained += read,
            }
        }
    };
    let _ = tokio::time::timeout(LINGER_TIME, work).await;
}

/// The front for hyper: requests get their id and span, and bodies are watched.
struct Watched {
    front: Arc<dyn HttpFront>,
    slot: Arc<ConnectionSlot>,
    watch: Arc<Watch>,
    peer: SocketAddr,
    tls: Option<&'static str>,
}

impl Service<Request<Incoming>> for Watched {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = PendingAnswer;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.watch.request_began();
        let arrival = Arrival {
            id: self.slot.door.ids.next(),
            peer: self.peer,
            tls: self.tls,
        };
        let watch = Arc::clone(&self.watch);
        let account = RequestRecord::open(&self.slot, arrival, request.method(), watch);
        // At every level: a warning that does not say which request it is about helps nobody.
        let span = tracing::error_span!("request", request_id = %arrival.id);
        let (mut parts, body) = request.into_parts();
        let expects_in_vain = parts.headers.contains_key(EXPECT) && body.is_end_stream();
        parts.extensions.insert(arrival.id);
        parts
            .extensions
            .insert(Arc::clone(&self.slot) as Arc<dyn AcceptedConnection>);
        let body = RequestBody::new(body, Arc::clone(&self.watch)).boxed();
        let front = Arc::clone(&self.front);
        let answer = span.in_scope(|| front.answer(Request::from_parts(parts, body), arrival));
        PendingAnswer {
            answer: answer.instrument(span.clone()),
            open: Some((account, span)),
            expects_in_vain,
        }
    }
}

/// A front's answer to come.
struct PendingAnswer {
    answer: Instrumented<BoxFuture<'static, Response<AnswerBody>>>,
    open: Option<(RequestRecord, Span)>,
    /// Whether it waits for `100 Continue`, which hyper does not send because there is no body.
    expects_in_vain: bool,
}

impl Future for PendingAnswer {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut response = match Pin::new(&mut self.answer).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(response) => response,
        };
        let (mut account, span) = self
            .open
            .take()
            .expect("a future is not polled after it is ready");
        account.answered(&mut response);
        if self.expects_in_vain || account.is_last() {
            // A client that still waits for `100 Continue` never sends the body; the next request
            // on this connection would be taken for it. And older botocore (1.29) takes the answers
            // to later requests for this one, until it connects anew.
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Poll::Ready(Ok(response.map(|inner| ResponseBody {
            inner,
            account,
            span,
        })))
    }
}
