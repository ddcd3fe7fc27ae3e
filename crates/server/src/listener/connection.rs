//! One connection, from its first byte to its last.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tracing::Instrument as _;
use tracing::instrument::Instrumented;

use super::watch::{InFlight, Overdue, RequestBody, ResponseBody, Watch, WatchedSocket};
use super::{Arrival, BoxError, Door, Front, Stop};

/// How long, and how many bytes, a half-closed connection is read on so that its last answer
/// arrives.
const LINGER_TIME: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 4 << 20;

/// Serves a connection until it ends, is overdue, or `stop` drains.
pub(super) async fn run<F: Front>(
    socket: TcpStream,
    peer: SocketAddr,
    door: &Arc<Door>,
    front: F,
    stop: Stop,
) {
    // Without it, an answer in two writes waits for the client's delayed acknowledgement.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "TCP_NODELAY");
    }
    let watch = Arc::new(Watch::new());
    let socket = WatchedSocket {
        inner: socket,
        watch: Arc::clone(&watch),
    };
    match &door.tls {
        None => {
            watch.handshake_done();
            http(socket, peer, door, front, stop, watch, false).await;
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
                    http(stream, peer, door, front, stop, watch, true).await;
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

async fn http<T, F>(
    stream: T,
    peer: SocketAddr,
    door: &Arc<Door>,
    front: F,
    stop: Stop,
    watch: Arc<Watch>,
    secure: bool,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send,
    F: Front,
{
    let limits = door.limits.load_full();
    let service = Watched {
        front,
        door: Arc::clone(door),
        watch: Arc::clone(&watch),
        peer,
        secure,
    };
    let mut connection = http1::Builder::new()
        // The watch does this, with one timer for all phases.
        .header_read_timeout(None)
        .max_buf_size(door.read_bytes_max)
        .max_header_size(limits.header_bytes_max)
        .serve_connection(TokioIo::new(stream), service);

    let mut draining = pin!(stop.draining());
    let mut is_draining = false;
    let mut timer = pin!(tokio::time::sleep(limits.header_timeout));
    drop(limits);
    let mut head_seen = false;
    let ended = poll_fn(|cx| {
        loop {
            if let Poll::Ready(result) = connection.poll_without_shutdown(cx) {
                return Poll::Ready(Ended::Itself(result));
            }
            if is_draining || draining.as_mut().poll(cx).is_pending() {
                break;
            }
            is_draining = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        // The deadline of a head that has only begun may be nearer than the timer.
        let head = watch.in_head();
        let mut look = head && !head_seen;
        head_seen = head;
        loop {
            if look {
                match watch.check(&door.limits.load()) {
                    Ok(next) => timer.as_mut().reset(next),
                    Err(overdue) => return Poll::Ready(Ended::Overdue(overdue)),
                }
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            look = true;
        }
    })
    .await;

    match ended {
        Ended::Itself(Ok(())) => {
            let stream = connection.into_parts().io.into_inner();
            close(stream, watch.body_left()).await;
        }
        Ended::Itself(Err(error)) => {
            tracing::debug!(door = door.name, %peer, %error, "connection failed");
            // hyper has answered a malformed head; the client may still be sending.
            let stream = connection.into_parts().io.into_inner();
            close(stream, error.is_parse()).await;
        }
        Ended::Overdue(overdue) => {
            if overdue != Overdue::Idle {
                door.metrics.timed_out.inc();
            }
            tracing::debug!(door = door.name, %peer, ?overdue, "connection timed out");
        }
    }
}

enum Ended {
    Itself(hyper::Result<()>),
    Overdue(Overdue),
}

/// Closes the sending side; with `linger`, reads what the client still sends, within bounds, so
/// that the kernel does not reset the connection under the last answer.
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

/// The front as hyper sees it: requests get their id and span, bodies are watched.
struct Watched<F> {
    front: F,
    door: Arc<Door>,
    watch: Arc<Watch>,
    peer: SocketAddr,
    secure: bool,
}

/// No field is ever pinned in place.
impl<F> Unpin for Watched<F> {}

impl<F: Front> Service<Request<Incoming>> for Watched<F> {
    type Response = Response<ResponseBody<F::Body>>;
    type Error = BoxError;
    type Future = Answer<F::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.watch.request_began();
        let in_flight = InFlight(Arc::clone(&self.watch));
        let arrival = Arrival {
            id: self.door.ids.next(),
            peer: self.peer,
            secure: self.secure,
        };
        let span = tracing::info_span!("request", request_id = %arrival.id);
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(arrival);
        let body = RequestBody::new(body, Arc::clone(&self.watch));
        let answer = span.in_scope(|| self.front.call(Request::from_parts(parts, body)));
        Answer {
            answer: Box::pin(answer.instrument(span)),
            in_flight: Some(in_flight),
        }
    }
}

/// A front's answer to come.
struct Answer<A> {
    /// Boxed: fronts' futures are large, and hyper moves this one.
    answer: Pin<Box<Instrumented<A>>>,
    in_flight: Option<InFlight>,
}

impl<A, B, E> Future for Answer<A>
where
    A: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<B>>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.answer.as_mut().poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(result) => result,
        };
        let in_flight = self
            .in_flight
            .take()
            .expect("a future is not polled after it is ready");
        Poll::Ready(match result {
            Ok(response) => Ok(response.map(|inner| ResponseBody {
                inner,
                _in_flight: in_flight,
            })),
            Err(error) => Err(error.into()),
        })
    }
}
