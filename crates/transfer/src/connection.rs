//! A connection to the other side, to an address that the rules admit.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::client::TransferClient;
use crate::failure::{FailureCause, TransferFailure};
use crate::limits::{ADDRESSES_TRIED_MAX, ANSWER_HEADERS_MAX, CONNECTION_BUFFER_BYTES};
use crate::outgoing_body::OutgoingBody;
use crate::progress::{ConnectedRemote, TransferProgress};
use crate::url::TransferUrl;

/// Time for a connection to be ready again after an answer that was read to its end.
const REUSE_TIME: Duration = Duration::from_millis(100);

/// A stream of bytes, encrypted or not.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

type Http1 = http1::Connection<TokioIo<Box<dyn ByteStream>>, OutgoingBody>;

/// The part of a connection that reads and writes. It runs inside the futures that use the connection, so
/// that bytes stay on one thread, and everything ends when those futures are dropped.
pub(crate) struct ConnectionDriver(Option<Pin<Box<Http1>>>);

impl ConnectionDriver {
    /// Runs the connection while `user` waits for it.
    pub(crate) async fn drive<T>(&mut self, user: impl Future<Output = T>) -> T {
        let mut user = pin!(user);
        poll_fn(|context| {
            if let Some(connection) = &mut self.0
                && connection.as_mut().poll(context).is_ready()
            {
                // The user sees its error.
                self.0 = None;
            }
            user.as_mut().poll(context)
        })
        .await
    }

    fn is_open(&self) -> bool {
        self.0.is_some()
    }
}

/// An open connection.
pub(crate) struct RemoteConnection {
    pub(crate) sender: http1::SendRequest<OutgoingBody>,
    pub(crate) driver: ConnectionDriver,
    /// The other side's address, and this side's.
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The URL that it was opened for.
    url: TransferUrl,
    _shown: ConnectedRemote,
}

impl RemoteConnection {
    /// Whether another request, to this URL, may use it, as far as is known before one is sent.
    pub(crate) async fn is_reusable_for(&mut self, url: &TransferUrl) -> bool {
        if !self.url.same_origin(url) || !self.driver.is_open() {
            return false;
        }
        let ready = timeout(REUSE_TIME, self.sender.ready());
        matches!(self.driver.drive(ready).await, Ok(Ok(())))
    }
}

impl TransferClient {
    /// Connects to the server of a URL. Its name is resolved, and each address judged, at this moment.
    pub(crate) async fn connect(
        &self,
        url: &TransferUrl,
        progress: &Arc<TransferProgress>,
    ) -> Result<RemoteConnection, TransferFailure> {
        let addresses = self.admitted_addresses(url).await?;
        let limit = self.config.times.connect;
        let (socket, remote) = reach(url, &addresses, limit).await?;
        let failed = |error: std::io::Error| {
            let detail = format!("{}: {error}", url.authority());
            TransferFailure::new(FailureCause::Connect, detail)
        };
        socket.set_nodelay(true).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let stream: Box<dyn ByteStream> = match url.is_secure() {
            true => {
                let encrypted = timeout(limit, self.encrypt(url, socket)).await;
                Box::new(encrypted.map_err(|_| too_late(url, limit))??)
            }
            false => Box::new(socket),
        };
        let shaken = http1::Builder::new()
            .max_headers(ANSWER_HEADERS_MAX)
            .max_buf_size(CONNECTION_BUFFER_BYTES)
            // xrootd 5.5.3 knows `Authorization` in this case only.
            .title_case_headers(true)
            .handshake(TokioIo::new(stream))
            .await;
        let (sender, connection) = shaken.map_err(|error| {
            let detail = format!("{}: {error}", url.authority());
            TransferFailure::new(FailureCause::Protocol, detail)
        })?;
        Ok(RemoteConnection {
            sender,
            driver: ConnectionDriver(Some(Box::pin(connection))),
            remote,
            local,
            url: url.clone(),
            _shown: progress.connected(remote),
        })
    }

    async fn admitted_addresses(
        &self,
        url: &TransferUrl,
    ) -> Result<Vec<SocketAddr>, TransferFailure> {
        let (host, port) = (url.host(), url.port());
        let refused = |why: &str| {
            let detail = format!("{}: {why}", url.authority());
            TransferFailure::new(FailureCause::NotAllowed, detail)
        };
        let rules = &self.config.rules;
        rules.judge_host(host, port).map_err(refused)?;
        let limit = self.config.times.resolve;
        let found = self.resolver.addresses(host, port, limit).await;
        let found = found.map_err(|why| {
            TransferFailure::new(FailureCause::Resolve, format_args!("{host}: {why}"))
        })?;
        rules.judge_addresses(host, &found).map_err(refused)
    }

    async fn encrypt(
        &self,
        url: &TransferUrl,
        socket: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, TransferFailure> {
        let failed = |cause, why: &dyn std::fmt::Display| {
            TransferFailure::new(cause, format_args!("{}: {why}", url.authority()))
        };
        let config = match &self.config.trust {
            Some(trust) => trust.client().await,
            None => None,
        };
        let none = "this server trusts no certificate authority";
        let config = config.ok_or_else(|| failed(FailureCause::Tls, &none))?;
        let name = ServerName::try_from(url.host().to_owned());
        let name = name.map_err(|error| failed(FailureCause::Tls, &error))?;
        let connector = TlsConnector::from(config);
        connector.connect(name, socket).await.map_err(|error| {
            // Errors of TLS itself come as invalid data; a connection that breaks may work next time.
            let cause = match error.kind() {
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput => {
                    FailureCause::Tls
                }
                _ => FailureCause::Connect,
            };
            failed(cause, &error)
        })
    }
}

fn too_late(url: &TransferUrl, limit: Duration) -> TransferFailure {
    let detail = format!("{} within {} s", url.authority(), limit.as_secs());
    TransferFailure::new(FailureCause::ConnectTimeout, detail)
}

/// Connects to the first address that answers. Each one has its share of the time.
async fn reach(
    url: &TransferUrl,
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<(TcpStream, SocketAddr), TransferFailure> {
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    let mut failure = too_late(url, limit);
    for address in &addresses[..tried] {
        match timeout(limit / tried as u32, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok((socket, *address)),
            Ok(Err(error)) => {
                let cause = match error.kind() {
                    std::io::ErrorKind::TimedOut => FailureCause::ConnectTimeout,
                    _ => FailureCause::Connect,
                };
                let detail = format!("{}: {error}", url.authority());
                failure = TransferFailure::new(cause, detail);
            }
            Err(_) => failure = too_late(url, limit),
        }
    }
    Err(failure)
}
