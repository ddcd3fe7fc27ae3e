//! The byte stream beneath a connection: a plain socket, or TLS over one.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;

use super::{Deadline, Endpoint, ErrorPhase, HttpError, POLL};

/// A connected stream whose calls return `WouldBlock` after [`POLL`].
pub(super) enum HttpStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl HttpStream {
    /// Connects to the first of `addresses` that answers; with `tls` also shakes hands, so that
    /// the handshake is part of connecting and not of the first request.
    pub(super) fn connect(
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        tls: Option<&Arc<ClientConfig>>,
        deadline: Deadline,
    ) -> Result<Self, HttpError> {
        let during = ErrorPhase::Connect;
        let socket = connect_socket(addresses, deadline)?;
        let prepare = || -> io::Result<()> {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(POLL))?;
            socket.set_write_timeout(Some(POLL))
        };
        prepare().map_err(|source| HttpError::Io { during, source })?;
        let Some(config) = tls else {
            return Ok(Self::Plain(socket));
        };
        let refuse = |e| HttpError::Io {
            during,
            source: io::Error::new(io::ErrorKind::InvalidData, e),
        };
        let name = ServerName::try_from(endpoint.host().to_owned())
            .map_err(|_| HttpError::malformed("the host is no name a certificate can carry"))?;
        let session = ClientConnection::new(Arc::clone(config), name).map_err(refuse)?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(e) if is_pause(&e) => {}
                Err(source) => return Err(HttpError::Io { during, source }),
            }
            deadline.check(during)?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Sends some of `slices`, returns how many bytes.
    pub(super) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(slices),
            Self::Tls(stream) => stream.write_vectored(slices),
        }
    }

    /// Sends what TLS still holds back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }

    /// Receives some bytes into `buffer`; 0 at the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Receives up to `buffer.len()` bytes and discards them. A plain socket drops them in the
    /// kernel and leaves the buffer untouched. Waits for all of them unless time runs out or the
    /// stream ends.
    pub(super) fn discard(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Plain(socket) => {
                use rustix::net::RecvFlags;
                let flags = RecvFlags::TRUNC | RecvFlags::WAITALL;
                let (_, received) = rustix::net::recv(&*socket, buffer, flags)?;
                Ok(received)
            }
            _ => self.read(buffer),
        }
    }
}

/// Whether a call ended only because of the poll interval or a signal.
pub(super) fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn connect_socket(addresses: &[SocketAddr], deadline: Deadline) -> Result<TcpStream, HttpError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for address in addresses {
        deadline.check(ErrorPhase::Connect)?;
        match TcpStream::connect_timeout(address, deadline.left().max(POLL)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    if last.kind() == io::ErrorKind::TimedOut {
        deadline.check(ErrorPhase::Connect)?;
    }
    Err(HttpError::Io {
        during: ErrorPhase::Connect,
        source: last,
    })
}
