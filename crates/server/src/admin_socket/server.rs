//! The serving side of the admin socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_admin::{
    AdminApi, AdminError, AdminRequest, Failure, Result, carry_out, parse_request, turned_away,
};
use http::{Method, Request as HttpRequest, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::socket::{AdminSocket, is_allowed};
use crate::listener::Stop;

/// The path for requests.
pub(super) const PATH: &str = "/v1/admin";

/// A request longer than this is refused.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Further connections wait.
const CONNECTIONS_MAX: usize = 32;

/// Longest time of a connection. Commands send a few requests and disconnect.
const CONNECTION_TIME: Duration = Duration::from_secs(300);

/// For the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers admin requests until `stop` drains. The socket is removed with the task.
pub fn serve(socket: AdminSocket, api: Arc<dyn AdminApi>, stop: &Stop) {
    let tracked = stop.clone();
    stop.spawn(async move { accept(socket, api, tracked).await });
}

async fn accept(socket: AdminSocket, api: Arc<dyn AdminApi>, stop: Stop) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let own = rustix::process::geteuid().as_raw();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let accepted = tokio::select! {
            biased;
            () = stop.draining() => return,
            accepted = async {
                let place = place.await.expect("the semaphore is never closed");
                (socket.listener.accept().await, place)
            } => accepted,
        };
        let (stream, place) = match accepted {
            (Ok((stream, _)), place) => (stream, place),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept on the admin socket");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The mode of the socket keeps others out; this holds when somebody changed it.
        match stream.peer_cred() {
            Ok(peer) if is_allowed(peer.uid(), own) => {
                let (api, running) = (Arc::clone(&api), stop.clone());
                stop.spawn(connection(stream, peer.uid(), api, running, place));
            }
            Ok(peer) => {
                turned_away(&*api, peer.uid());
                tracing::warn!(
                    uid = peer.uid(),
                    pid = peer.pid(),
                    "refused on the admin socket"
                );
            }
            Err(error) => tracing::warn!(%error, "no credentials on the admin socket"),
        }
    }
}

async fn connection(
    stream: UnixStream,
    uid: u32,
    api: Arc<dyn AdminApi>,
    stop: Stop,
    _place: OwnedSemaphorePermit,
) {
    let requests = stop.clone();
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        let stop = requests.clone();
        async move { Ok::<_, Infallible>(answer(api, request, uid, &stop).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(REQUEST_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = async {
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = stop.draining() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIME, served).await {
        tracing::debug!(%error, "admin connection failed");
    }
}

async fn answer(
    api: Arc<dyn AdminApi>,
    request: HttpRequest<Incoming>,
    uid: u32,
    stop: &Stop,
) -> Response<Full<Bytes>> {
    let result = match parse(request).await {
        Ok(request) => see_through(api, request, uid, stop).await,
        Err(error) => Err(error),
    };
    let (status, body) = match result {
        Ok(reply) => (StatusCode::OK, reply),
        Err(error) => {
            if error.kind == Failure::Internal {
                tracing::error!(%error, "admin request failed");
            }
            let body = serde_json::to_vec(&error);
            let body = body.expect("errors hold nothing that JSON cannot say");
            (status_of(error.kind), body)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Runs a request in a task that outlives the connection. So a client that disconnects leaves
/// nothing half done, and nothing that the audit log misses.
async fn see_through(
    api: Arc<dyn AdminApi>,
    request: Box<dyn AdminRequest>,
    uid: u32,
    stop: &Stop,
) -> Result<Vec<u8>> {
    let (tell, told) = oneshot::channel();
    stop.spawn(async move {
        // Nobody listens when the connection has gone.
        let _ = tell.send(carry_out(&*api, request, uid).await);
    });
    told.await.unwrap_or_else(|_| {
        let why = "the server stopped while it was at it".to_owned();
        Err(AdminError::new(Failure::Unavailable, why))
    })
}

async fn parse(request: HttpRequest<Incoming>) -> Result<Box<dyn AdminRequest>> {
    let refuse = |message: String| AdminError::new(Failure::Invalid, message);
    if request.method() != Method::POST || request.uri().path() != PATH {
        return Err(refuse(format!("requests are posted to {PATH}")));
    }
    let body = Limited::new(request.into_body(), REQUEST_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| refuse(format!("the request cannot be read: {error}")))?
        .to_bytes();
    // The parser's own words could repeat a secret; where it stumbled is enough.
    parse_request(&body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        refuse(format!("not a known request: line {line}, column {column}"))
    })
}

fn status_of(kind: Failure) -> StatusCode {
    match kind {
        Failure::NotFound => StatusCode::NOT_FOUND,
        Failure::Exists | Failure::InUse => StatusCode::CONFLICT,
        Failure::Invalid => StatusCode::BAD_REQUEST,
        Failure::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
