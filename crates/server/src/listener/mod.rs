//! Accepting connections, once for every front.
//!
//! A [`ListenerSpec`] describes a listener and the [`Fronts`] that it carries: fronts on HTTP by path
//! prefix, or one front for another protocol.
//!
//! A [`Listener`] is bound first, so that a taken port is an error of the start, and given its
//! service later. Each connection is a task: TLS if configured, then hyper's HTTP/1.1 with one
//! timer ([`watch`]) for handshake, head, idling and stalled bodies.
//!
//! **Limits.** At `connections_max`, and where an address holds its share without having
//! authenticated ([`slot`]), a further connection is asked to slow down and closed. An idle
//! connection holds its socket, one task and two buffers of 8 KiB; larger ones exist only while a
//! body streams and for half a second longer, and their sum is bounded. Heads are bounded by
//! `header_bytes_max`.
//!
//! **Stopping** ([`Stop::drain`]): the sockets close, idle connections end, running requests finish
//! and their connections end with them; at the deadline the remaining requests are dropped.
//!
//! **Cancellation.** When a client disconnects, hyper drops the future of the service. A front that
//! must not stop in the middle runs its work in a separate task.
//!
//! **Early answers.** Closing a socket with unread bytes causes a reset. It would destroy an answer
//! that was sent before the whole body was read. So such a connection is half-closed and drained
//! for a moment before it is closed, and the answer announces the close.

mod connection;
mod fronts;
mod metrics;
mod request_log;
mod slot;
mod spec;
mod stop;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dewar_auth::Network;
use dewar_http_front::{HttpFront, RequestIds};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::tls::Tls;

use fronts::PathRouter;
pub use fronts::{Fronts, SocketFront};
pub use metrics::{
    CopyFamilies, CopyMetrics, DoorMetrics, ListenerMetrics, RequestLabels, VerbLabels,
};
pub use request_log::ACCESS;
use slot::RefusedConnection;
pub use slot::{ConnectionSlot, Slots};
pub use spec::{FrontContext, ListenerSpec};
pub use stop::Stop;

/// Limits of a connection. They may be replaced while connections are open. Timers use the new
/// values the next time they fire, and the size of heads applies from the next connection on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most open connections on all addresses of this door.
    pub connections_max: usize,
    /// The divisor for the limit of an address before its clients authenticate; at least 1.
    pub unauthenticated_share: usize,
    /// Addresses that many clients share; they may hold half of the connections.
    pub shared_addresses: Vec<Network>,
    /// Limit for a TLS handshake, and from the first byte of a request to the end of its headers.
    pub header_timeout: Duration,
    /// Limit for a connection without a request. While few connections are left, connections whose
    /// clients have not authenticated get `header_timeout`, if that is shorter.
    pub idle_timeout: Duration,
    /// Limit for the next bytes of an expected body, and for space to send the next bytes of an
    /// answer.
    pub body_timeout: Duration,
    /// Bytes of a request line with its headers.
    pub header_bytes_max: usize,
}

impl Limits {
    fn shortest(&self) -> Duration {
        self.header_timeout
            .min(self.idle_timeout)
            .min(self.body_timeout)
    }
}

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An address cannot be listened on.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}{hint}")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
    hint: &'static str,
}

impl ListenError {
    /// Whether another process listens there.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

/// The state that all listeners of one door share.
pub struct ListenerContext {
    /// Its name in logs and metrics, like `s3`.
    pub name: &'static str,
    /// May be exchanged at any time.
    pub limits: ArcSwap<Limits>,
    /// Certificates, if the door speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// The source of request ids.
    pub ids: Arc<RequestIds>,
    /// The metrics.
    pub metrics: ListenerMetrics,
    /// The largest read from a socket while a body streams. Large bodies cost half at 1 MiB of
    /// their cost at 64 KiB. Small answers never make the buffer grow.
    pub read_bytes_max: usize,
    /// The most bytes for these buffers together. With many connections open, each gets less.
    pub read_bytes_total: usize,
    /// Connections that are open now.
    pub slots: Slots,
}

/// Smallest read of a body, for any number of connections.
const READ_BYTES_MIN: usize = 64 * 1024;

impl ListenerContext {
    /// The largest read of a connection that begins now.
    fn read_bytes(&self) -> usize {
        let share = self.read_bytes_total / self.slots.open().max(1);
        share.max(READ_BYTES_MIN).min(self.read_bytes_max)
    }
}

/// A bound socket whose connections wait in the kernel until [`Listener::serve`].
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    plain: bool,
}

impl Listener {
    /// Binds `address`; port 0 takes any free one.
    ///
    /// # Errors
    /// The address is in use, not of this machine, or not allowed.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source: io::Error| ListenError {
            address,
            hint: match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "; is another server running? choose another port (for a demo: --port-base N)"
                }
                io::ErrorKind::PermissionDenied => "; ports below 1024 need a capability",
                _ => "",
            },
            source,
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self {
            tcp,
            address,
            plain: false,
        })
    }

    /// Without TLS, even if the door has a certificate. For fronts on HTTP.
    #[must_use]
    pub fn without_tls(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Whether it never speaks TLS.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The address with the port that was taken.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections for the fronts until `stop`, in a separate task.
    pub fn serve(self, door: Arc<ListenerContext>, fronts: Fronts, stop: &Stop) {
        match fronts {
            Fronts::Http(fronts) => self.serve_http(door, Arc::new(PathRouter::new(fronts)), stop),
            Fronts::Socket(front) => self.serve_sockets(door, front, stop),
        }
    }

    fn serve_http(self, door: Arc<ListenerContext>, front: Arc<dyn HttpFront>, stop: &Stop) {
        let tracked = stop.clone();
        let tls = door.tls.clone().filter(|_| !self.plain);
        let (busy, begin_tls) = (front.busy(), tls.clone());
        let begin = move |socket, peer, slot: ConnectionSlot, stop: &Stop| {
            let (front, tls, running) = (Arc::clone(&front), begin_tls.clone(), stop.clone());
            let slot = Arc::new(slot);
            stop.spawn(async move {
                connection::run(socket, peer, tls.as_deref(), &slot, front, running).await;
            });
        };
        let refuse = move |socket: TcpStream, refused: Option<RefusedConnection>, stop: &Stop| {
            let tls = tls.clone();
            match refused {
                Some(refused) => stop.spawn(async move {
                    connection::refuse(socket, tls, busy).await;
                    drop(refused);
                }),
                // A fresh socket has room for it.
                None if tls.is_none() => drop(socket.try_write(busy)),
                None => {}
            }
        };
        stop.spawn(async move {
            let until = tracked.draining();
            accept(&self.tcp, door, &tracked, until, refuse, begin).await;
        });
    }

    fn serve_sockets(self, door: Arc<ListenerContext>, front: Arc<dyn SocketFront>, stop: &Stop) {
        let tracked = stop.clone();
        stop.spawn(async move {
            let begin = |told: CancellationToken| {
                let front = Arc::clone(&front);
                move |socket, peer, slot: ConnectionSlot, stop: &Stop| {
                    let slot = Arc::new(slot);
                    stop.spawn(front.serve(socket, peer, slot, told.clone()));
                }
            };
            let refuse = |socket, refused: Option<RefusedConnection>, stop: &Stop| {
                if let Some(refused) = refused {
                    let refusing = front.refuse(socket);
                    stop.spawn(async move {
                        refusing.await;
                        drop(refused);
                    });
                }
            };
            let until = tracked.draining();
            let now = begin(tracked.drain_token().clone());
            accept(&self.tcp, Arc::clone(&door), &tracked, until, refuse, now).await;
            let lingers = front.lingers();
            if !lingers.is_zero() {
                let late = CancellationToken::new();
                let until = tokio::time::sleep(lingers);
                accept(
                    &self.tcp,
                    door,
                    &tracked,
                    until,
                    refuse,
                    begin(late.clone()),
                )
                .await;
                late.cancel();
            }
        });
    }
}

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

async fn accept(
    tcp: &TcpListener,
    door: Arc<ListenerContext>,
    stop: &Stop,
    until: impl Future<Output = ()>,
    refuse: impl Fn(TcpStream, Option<RefusedConnection>, &Stop),
    begin: impl Fn(TcpStream, SocketAddr, ConnectionSlot, &Stop),
) {
    let mut until = std::pin::pin!(until);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut until => return,
            accepted = tcp.accept() => accepted,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                door.metrics.accept_errors.inc();
                tracing::warn!(door = door.name, %error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = ConnectionSlot::take(&door, peer.ip()) else {
            door.metrics.refused.inc();
            refuse(socket, RefusedConnection::take(&door), stop);
            continue;
        };
        begin(socket, peer, slot, stop);
    }
}

/// Errors of the connection that was about to be accepted, not of the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests;
