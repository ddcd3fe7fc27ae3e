//! From an address to a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use dewar_xrootd_proto::options::{protocol, server};
use dewar_xrootd_proto::reply::{LoginReply, ProtocolReply};
use dewar_xrootd_proto::request::{Login, Protocol};
use dewar_xrootd_proto::{
    Handshake, HandshakeReply, Reply, Request, ResponseHeader, SessionId, Status, StreamId,
    VERSION, VERSION_PAGES,
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::limits::{ADDRESSES_TRIED_MAX, TEXT_BYTES_MAX, WAYS_MAX};
use crate::options::Identity;

/// A stream on which both sides know how to go on.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What a session began with.
pub(crate) struct HandshakeResult {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) secure: bool,
    /// To this machine itself.
    pub(crate) local: bool,
    /// Bits of [`server`].
    pub(crate) flags: u32,
    pub(crate) version: u32,
    pub(crate) session: SessionId,
    /// Where that server was reached.
    pub(crate) address: SocketAddr,
}

impl HandshakeResult {
    /// Whether page reads and writes are there.
    pub(crate) fn has_pages(&self) -> bool {
        self.version >= VERSION_PAGES && self.flags & server::SUPPORTS_PAGES != 0
    }
}

/// Connects to the first address that answers and logs in. Has no deadline of its own: `limit` is the
/// caller's, of which each address has its share.
pub(crate) async fn begin(
    place: &Endpoint,
    addresses: &[SocketAddr],
    tls: Option<&Arc<ClientConfig>>,
    identity: &Identity,
    limit: Duration,
) -> Result<HandshakeResult> {
    let expect = match identity.third_party {
        true => protocol::EXPECT_TPC,
        false => protocol::EXPECT_LOGIN,
    };
    let mut begun = reach(place, addresses, tls, expect, limit).await?;
    begun.session = login(&mut begun, place, identity).await?;
    Ok(begun)
}

/// Another connection of a session that has begun, to the same address and encrypted if that one is, and
/// its number. Has no deadline of its own.
pub(crate) async fn bind(
    place: &Endpoint,
    address: SocketAddr,
    tls: Option<&Arc<ClientConfig>>,
    session: SessionId,
    limit: Duration,
) -> Result<(Box<dyn Stream>, u8)> {
    let place = Endpoint {
        secure: tls.is_some(),
        ..place.clone()
    };
    let mut begun = reach(&place, &[address], tls, protocol::EXPECT_BIND, limit).await?;
    match exchange(&mut begun, &Request::Bind { session }).await? {
        Reply::Ok(body) => match body.first() {
            Some(number @ 1..) => Ok((begun.stream, *number)),
            _ => Err(Error::Protocol(
                "a bound connection without number".to_owned(),
            )),
        },
        reply => Err(unexpected(reply)),
    }
}

/// Connects to the first address that answers, up to where a login may come.
async fn reach(
    place: &Endpoint,
    addresses: &[SocketAddr],
    tls: Option<&Arc<ClientConfig>>,
    expect: u8,
    limit: Duration,
) -> Result<HandshakeResult> {
    let unreachable = |why: String| Error::Connect {
        host: place.to_string(),
        why,
    };
    let mut found = Err(unreachable("it has no address".to_owned()));
    let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
    for address in &addresses[..tried] {
        // One at which nobody says anything leaves time for the others.
        match timeout(limit / tried as u32, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                found = Ok((socket, *address));
                break;
            }
            Ok(Err(error)) => found = Err(unreachable(error.to_string())),
            Err(_) => found = Err(unreachable(format!("{address} does not answer"))),
        }
    }
    let (mut socket, address) = found?;
    let local = address.ip().to_canonical().is_loopback();
    socket
        .set_nodelay(true)
        .map_err(|error| unreachable(error.to_string()))?;
    let said = negotiate(&mut socket, place, tls.is_some(), expect).await?;
    let goes = said.flags & (server::GOTO_TLS | server::TLS_LOGIN) != 0;
    let (stream, secure): (Box<dyn Stream>, bool) = match tls.filter(|_| goes) {
        Some(config) => (Box::new(encrypt(socket, place, config).await?), true),
        None if place.secure || goes => {
            return Err(no_tls(
                place,
                "the server offers none, or this client has none",
            ));
        }
        None => (Box::new(socket), false),
    };
    Ok(HandshakeResult {
        stream,
        secure,
        local,
        flags: said.flags,
        version: said.version,
        session: SessionId::default(),
        address,
    })
}

fn no_tls(place: &Endpoint, why: impl std::fmt::Display) -> Error {
    Error::Tls {
        host: place.to_string(),
        why: why.to_string(),
    }
}

async fn encrypt(
    socket: TcpStream,
    place: &Endpoint,
    config: &Arc<ClientConfig>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = ServerName::try_from(place.host.clone()).map_err(|error| no_tls(place, error))?;
    let connector = TlsConnector::from(Arc::clone(config));
    let stream = connector.connect(name, socket).await;
    stream.map_err(|error| no_tls(place, error))
}

/// Handshake and `protocol`.
async fn negotiate(
    socket: &mut TcpStream,
    place: &Endpoint,
    able: bool,
    expect: u8,
) -> Result<ProtocolReply> {
    let mut flags = 0;
    if able {
        flags |= protocol::ABLE_TLS;
    }
    if place.secure {
        flags |= protocol::WANT_TLS;
    }
    let asked = Protocol {
        version: VERSION,
        flags,
        expect,
    };
    let mut hello = BytesMut::from(&Handshake::BYTES[..]);
    Request::Protocol(asked).encode(StreamId::default(), &mut hello);
    socket.write_all(&hello).await.map_err(lost)?;
    let mut reply = [0; HandshakeReply::LEN];
    socket.read_exact(&mut reply).await.map_err(lost)?;
    if HandshakeReply::decode(&reply).is_none() {
        return Err(Error::Protocol("no handshake".to_owned()));
    }
    let body = answer(socket).await?;
    match body {
        Reply::Ok(body) => Ok(ProtocolReply::decode(&body)?),
        reply => Err(unexpected(reply)),
    }
}

fn lost(error: std::io::Error) -> Error {
    Error::Closed(error.to_string())
}

/// One reply of a connection on which nothing else is under way; messages are skipped.
async fn answer(stream: &mut (impl AsyncRead + Unpin + ?Sized)) -> Result<Reply> {
    loop {
        let mut header = [0; ResponseHeader::LEN];
        stream.read_exact(&mut header).await.map_err(lost)?;
        let header = ResponseHeader::decode(&header)?;
        if header.len as usize > TEXT_BYTES_MAX {
            return Err(Error::Protocol("a reply that is too long".to_owned()));
        }
        let mut body = vec![0; header.len as usize];
        stream.read_exact(&mut body).await.map_err(lost)?;
        if header.status != Status::Attn {
            return Ok(Reply::decode(&header, Bytes::from(body))?);
        }
    }
}

fn unexpected(reply: Reply) -> Error {
    match reply {
        Reply::Error { code, message } => Error::Server { code, message },
        Reply::Redirect { port, host } => Error::Redirect { host, port },
        Reply::Wait { seconds, message } => {
            Error::Closed(format!("it asks to come back in {seconds} s: {message}"))
        }
        _ => Error::Protocol("a reply that answers nothing".to_owned()),
    }
}

async fn login(
    begun: &mut HandshakeResult,
    place: &Endpoint,
    identity: &Identity,
) -> Result<SessionId> {
    let info = format!("xrd.appname={}&xrd.rn=dewar", identity.program);
    let login = Login {
        pid: std::process::id(),
        user: identity
            .user
            .chars()
            .filter(char::is_ascii)
            .take(8)
            .collect(),
        ability_more: 0,
        ability: 0,
        // The fifth generation, and it takes replies later.
        capability: 0x85,
        info: Bytes::from(info),
    };
    let body = match exchange(begun, &Request::Login(login)).await? {
        Reply::Ok(body) => body,
        reply => return Err(unexpected(reply)),
    };
    let reply = LoginReply::decode(body)?;
    if reply.security.is_empty() {
        return Ok(reply.session);
    }
    let mut refused: Option<String> = None;
    let offered = reply.security.split("&P=").filter(|way| !way.is_empty());
    let mut names: Vec<&str> = offered
        .take(WAYS_MAX)
        .map(|way| way.split([',', '\0', '&']).next().unwrap_or_default())
        .collect();
    if identity.third_party {
        // Who comes for others claims no more than it needs: a name only where nothing else will do.
        names.sort_by_key(|name| *name == "unix");
    }
    for name in names {
        let Some((kind, credential)) = credential(name, begun.secure, identity) else {
            continue;
        };
        let request = Request::Auth { kind, credential };
        let answer = match exchange(begun, &request).await {
            Ok(answer) => answer,
            // Some hang up after what they refuse.
            Err(_) if refused.is_some() => break,
            Err(error) => return Err(error),
        };
        match answer {
            Reply::Ok(_) => return Ok(reply.session),
            Reply::Error { code, message } => refused = Some(format!("[{code}] {message}")),
            Reply::AuthMore(_) => refused = Some(format!("{name} wants more")),
            answer => return Err(unexpected(answer)),
        }
    }
    Err(Error::Login {
        host: place.to_string(),
        why: refused.unwrap_or_else(|| {
            let offer = reply.security.trim_end_matches('\0');
            format!("it offers {}", offer.trim_start_matches('&'))
        }),
    })
}

async fn exchange(begun: &mut HandshakeResult, request: &Request) -> Result<Reply> {
    let mut wire = BytesMut::new();
    request.encode(StreamId::default(), &mut wire);
    begun.stream.write_all(&wire).await.map_err(lost)?;
    begun.stream.flush().await.map_err(lost)?;
    answer(&mut *begun.stream).await
}

/// What is shown for a way of proving oneself; `None` where there is nothing.
fn credential(name: &str, secure: bool, identity: &Identity) -> Option<([u8; 4], Bytes)> {
    let mut out = BytesMut::new();
    let kind = match name {
        "ztn" if secure => {
            let token = identity.token.as_ref()?.reveal();
            let len = u16::try_from(token.len() + 1).ok()?;
            out.put_slice(b"ztn\0\0T\0\0");
            out.put_u16(len);
            out.put_slice(token.as_bytes());
            out.put_u8(0);
            *b"ztn\0"
        }
        "unix" => {
            out.put_slice(b"unix\0");
            out.put_slice(identity.user.as_bytes());
            out.put_u8(0);
            *b"unix"
        }
        "host" => {
            out.put_slice(b"host\0");
            *b"host"
        }
        _ => return None,
    };
    Some((kind, out.freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BearerToken;

    #[test]
    fn tokens_are_shown_over_tls_only() {
        let identity = Identity {
            token: Some(BearerToken::new("abcd")),
            ..Identity::default()
        };
        let shown = credential("ztn", true, &identity).expect("shown");
        assert_eq!(&shown.1[..], b"ztn\0\0T\0\0\0\x05abcd\0");
        assert!(credential("ztn", false, &identity).is_none());
        assert!(credential("gsi", true, &identity).is_none());
        assert!(credential("ztn", true, &Identity::default()).is_none());
        assert!(!format!("{identity:?}").contains("abcd"));
    }
}
