//! From the first byte to the login.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use dewar_auth::Secret;
use dewar_auth::fair_share::ShareOwner;
use dewar_types::{Error, UserId};
use dewar_xrootd_proto::options::{protocol, server};
use dewar_xrootd_proto::reply::{LoginReply, ProtocolReply};
use dewar_xrootd_proto::request::{Login, Protocol};
use dewar_xrootd_proto::{
    Cgi, ErrorCode, Handshake, HandshakeReply, Reply, Request, RequestCode, RequestHeader,
    SessionId, StreamId, VERSION,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::{Connection, ConnectionEnd, TlsStream, small};
use crate::callers::{Peer, Proof};
use crate::door::Door;
use crate::error::ErrorReply;
use crate::limits::{BOUND_MAX, CROWDED_LOGIN_TIME, FIRST_BYTES_MAX, LOGIN_TIME, TLS_TIME};
use crate::session::{ClientInfo, Session};
use crate::sss;

/// What was read and found out before the connection is split.
pub(super) struct HandshakeResult {
    pub(super) peer: Peer,
    /// Read, and not looked at.
    pub(super) unread: BytesMut,
    /// The client announced a third-party copy.
    pub(super) third_party: bool,
    /// When the login must be done.
    pub(super) until: Instant,
}

/// A connection on which both sides know how to go on.
pub(super) enum NegotiatedStream {
    Plain(TcpStream, HandshakeResult),
    Secure(Box<dyn TlsStream>, HandshakeResult),
}

/// Who a connection is.
pub(super) enum LoginState {
    /// It did not say.
    Nobody,
    /// It said, and must prove it.
    Claims(SessionId, ClientInfo),
    /// In a session, as its first connection or as a further one.
    In { session: Arc<Session>, main: bool },
}

impl LoginState {
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        match self {
            Self::In { session, .. } => Some(Arc::clone(session)),
            Self::Nobody | Self::Claims(..) => None,
        }
    }
}

/// Handshake and `protocol`, up to TLS where both sides can.
pub(super) async fn negotiate(
    door: &Arc<Door>,
    mut socket: TcpStream,
    mut peer: Peer,
    is_crowded: bool,
) -> Result<NegotiatedStream, ConnectionEnd> {
    let until = Instant::now() + login_time(is_crowded);
    let mut buffer = BytesMut::with_capacity(4096);
    let negotiating = exchange(door, &mut socket, &peer, &mut buffer);
    let asked = timeout_at(until, negotiating)
        .await
        .map_err(|_| ConnectionEnd::Stalled)??;
    let third_party = asked.third_party;
    let Some(tls) = door.tls.as_ref().filter(|_| asked.to_tls) else {
        let begun = HandshakeResult {
            peer,
            unread: buffer,
            third_party,
            until,
        };
        return Ok(NegotiatedStream::Plain(socket, begun));
    };
    // What came in clear behind the last clear request would count as encrypted.
    if !buffer.is_empty() {
        return Err(ConnectionEnd::Protocol(
            "bytes before the TLS handshake".to_owned(),
        ));
    }
    let stream = timeout_at(until.min(Instant::now() + TLS_TIME), tls.upgrade(socket))
        .await
        .map_err(|_| ConnectionEnd::Stalled)??;
    peer.secure = true;
    let begun = HandshakeResult {
        peer,
        unread: BytesMut::new(),
        third_party,
        until,
    };
    Ok(NegotiatedStream::Secure(stream, begun))
}

fn login_time(is_crowded: bool) -> Duration {
    match is_crowded {
        true => CROWDED_LOGIN_TIME,
        false => LOGIN_TIME,
    }
}

/// Answers the first request of a client with an error, and waits until it hangs up.
pub(super) async fn refuse(door: &Door, mut socket: TcpStream) -> Result<(), ConnectionEnd> {
    let mut head = [0; Handshake::LEN + RequestHeader::LEN];
    socket.read_exact(&mut head).await?;
    let (hello, request) = head.split_at(Handshake::LEN);
    if !Handshake::can_begin_with(hello) {
        return Err(ConnectionEnd::Protocol("another protocol".to_owned()));
    }
    let mut header = [0; RequestHeader::LEN];
    header.copy_from_slice(request);
    let header = RequestHeader::decode(&header)
        .map_err(|error| ConnectionEnd::Protocol(error.to_string()))?;
    let message =
        "Too many connections are open, of all clients or of your address; try again soon";
    let reply = Reply::error(ErrorCode::Overloaded, message);
    socket.write_all(&hello_reply(door).encode()).await?;
    socket.write_all(&small(&reply, header.stream)).await?;
    socket.shutdown().await?;
    // What is not read when a socket closes makes the kernel destroy what was sent.
    let mut rest = [0; 1024];
    let mut left = FIRST_BYTES_MAX;
    while left > 0 {
        match socket.read(&mut rest).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

fn hello_reply(door: &Door) -> HandshakeReply {
    HandshakeReply {
        version: VERSION,
        data_server: !door.config.redirect.is_all(),
    }
}

/// What the first requests asked for.
#[derive(Clone, Copy, Default)]
struct ProtocolOptions {
    to_tls: bool,
    third_party: bool,
}

/// Answers what comes first, and says what comes next.
async fn exchange(
    door: &Door,
    socket: &mut TcpStream,
    peer: &Peer,
    buffer: &mut BytesMut,
) -> Result<ProtocolOptions, ConnectionEnd> {
    let mut found = ProtocolOptions::default();
    // A first segment may be short; what it is shows only when enough of it is there.
    while buffer.len() < Handshake::LEN {
        fill(socket, buffer).await?;
        if !Handshake::can_begin_with(buffer) {
            return Err(ConnectionEnd::Protocol("another protocol".to_owned()));
        }
    }
    buffer.advance(Handshake::LEN);
    socket.write_all(&hello_reply(door).encode()).await?;
    loop {
        while buffer.len() < RequestHeader::LEN {
            fill(socket, buffer).await?;
        }
        let mut head = [0; RequestHeader::LEN];
        head.copy_from_slice(&buffer[..RequestHeader::LEN]);
        let header = RequestHeader::decode(&head)
            .map_err(|error| ConnectionEnd::Protocol(error.to_string()))?;
        if header.code != RequestCode::Protocol.number() {
            // The rest goes on where requests are read.
            return Ok(found);
        }
        let len = header
            .arguments_len()
            .map_err(|error| ConnectionEnd::Protocol(error.to_string()))?;
        if len > FIRST_BYTES_MAX {
            return Err(ConnectionEnd::Protocol(
                "a protocol request too long".to_owned(),
            ));
        }
        while buffer.len() < RequestHeader::LEN + len {
            fill(socket, buffer).await?;
        }
        buffer.advance(RequestHeader::LEN);
        let arguments = buffer.split_to(len).freeze();
        let Ok(Request::Protocol(asked)) = Request::decode(&header, arguments) else {
            return Err(ConnectionEnd::Protocol(
                "a protocol request that is none".to_owned(),
            ));
        };
        door.counts.request(RequestCode::Protocol);
        found.third_party = asked.expect == protocol::EXPECT_TPC;
        let reply = protocol_reply(door, peer, asked, true);
        found.to_tls = reply.flags & server::GOTO_TLS != 0;
        let reply = Reply::Ok(reply.encode());
        socket.write_all(&small(&reply, header.stream)).await?;
        if found.to_tls {
            return Ok(found);
        }
    }
}

async fn fill(socket: &mut TcpStream, buffer: &mut BytesMut) -> Result<(), ConnectionEnd> {
    match socket.read_buf(buffer).await? {
        0 => Err(ConnectionEnd::Closed),
        _ => Ok(()),
    }
}

/// What this server can do. `first`: the connection can still change to TLS.
pub(super) fn protocol_reply(
    door: &Door,
    peer: &Peer,
    asked: Protocol,
    first: bool,
) -> ProtocolReply {
    let mut flags = server::SUPPORTS_POSC | server::SUPPORTS_PAGES;
    // To a manager clients come back when the server fails to which it sent them.
    flags |= match door.config.redirect.is_all() {
        true => server::IS_MANAGER,
        false => server::IS_SERVER,
    };
    if door.tls.is_some() {
        flags |= server::HAVE_TLS;
        let able = asked.flags & (protocol::ABLE_TLS | protocol::WANT_TLS) != 0;
        if first && able && !peer.secure {
            flags |= server::GOTO_TLS | server::TLS_LOGIN;
        }
    }
    ProtocolReply {
        version: VERSION,
        flags,
        bind: None,
        signing: None,
    }
}

/// A credential that is not taken: what its bearer is told, and what is wrong with it, for the audit only.
struct AuthFailure {
    refusal: ErrorReply,
    why: String,
}

impl AuthFailure {
    fn of(error: &Error, peer: &Peer) -> Self {
        Self {
            refusal: ErrorReply::of_credential(error, &peer.client.to_string()),
            why: error.to_string(),
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Connection<R> {
    pub(super) async fn login(
        &mut self,
        stream: StreamId,
        login: Login,
    ) -> Result<(), ConnectionEnd> {
        if !matches!(self.standing, LoginState::Nobody) {
            let message = "Invalid request; the user is logged in already";
            let reply = Reply::error(ErrorCode::InvalidRequest, message);
            self.outlet.reply(stream, &reply).await;
            return Ok(());
        }
        let env = &self.door.env;
        let id = crate::session::id::new(env.clock.now(), &*env.rng);
        tracing::trace!(client = %self.peer.client, user = login.user, pid = login.pid, "login");
        let claimed = claimed(&login);
        if self.door.config.redirect.is_all() {
            // Who it is matters to the server to which it is sent. Nobody proves more than this here.
            if !self
                .slot
                .authenticated(&ShareOwner::at(self.peer.client.ip()))
            {
                return self.turn_away(stream, &too_many_connections()).await;
            }
            self.enter(id, None, claimed);
            self.greet(stream, id, String::new()).await;
            return Ok(());
        }
        let callers = Arc::clone(&self.door.callers);
        match callers.of_connection(&self.peer).await {
            Ok(Some(user)) => self.enter_as_local(stream, (id, user), claimed).await,
            Ok(None) => {
                let tokens = callers.takes_tokens().await;
                let ways = self.ways(tokens).await;
                if ways.is_empty() {
                    let why = self.no_way(tokens);
                    callers.turned_away(&self.peer, "none", &why);
                    tracing::debug!(client = %self.peer.client, why, "a client cannot log in");
                    // Clients show the reason of a refused request, and none for a refused login.
                    let refused = Some(why);
                    self.enter(id, None, ClientInfo { refused, ..claimed });
                    self.greet(stream, id, ways).await;
                    return Ok(());
                }
                self.standing = LoginState::Claims(id, claimed);
                self.greet(stream, id, ways).await;
                Ok(())
            }
            Err(error) => {
                let refusal = ErrorReply::of(&error, "log in from", &self.peer.client.to_string());
                self.turn_away(stream, &refusal).await
            }
        }
    }

    /// Admits a client because of where its connection comes from. The connection is looked at again when the
    /// socket has taken the answer, and before any request is read: only then it is certain that its end still
    /// belongs to that client.
    async fn enter_as_local(
        &mut self,
        stream: StreamId,
        (id, user): (SessionId, UserId),
        claimed: ClientInfo,
    ) -> Result<(), ConnectionEnd> {
        let proof = Proof::User(user);
        if !self.is_counted(&proof).await {
            return self.turn_away(stream, &too_many_connections()).await;
        }
        self.enter(id, Some(proof.clone()), claimed);
        let security = String::new();
        let reply = Reply::Ok(
            LoginReply {
                session: id,
                security,
            }
            .encode(),
        );
        if !self.outlet.reply_and_flush(stream, &reply).await {
            return Err(ConnectionEnd::Closed);
        }
        let callers = &self.door.callers;
        if !matches!(callers.of_connection(&self.peer).await, Ok(Some(same)) if same == user) {
            return Err(ConnectionEnd::Protocol(
                "it is no local client any more".to_owned(),
            ));
        }
        if let Ok(caller) = callers.caller(&proof, self.peer.origin()).await {
            callers.logged_in(&caller, "host");
        }
        Ok(())
    }

    async fn greet(&mut self, stream: StreamId, session: SessionId, security: String) {
        let reply = LoginReply { session, security };
        self.outlet.reply(stream, &Reply::Ok(reply.encode())).await;
    }

    /// How a client may prove who it is, as the login's answer says it.
    async fn ways(&self, tokens: bool) -> String {
        let mut ways = String::new();
        if self.peer.secure && tokens {
            ways.push_str("&P=ztn,0:16384:");
        }
        if !self.door.callers.service_keys().await.is_empty() {
            // Blowfish, the second version of the protocol, for so many seconds, and no keytab that
            // a client could not know.
            ways.push_str(&format!("&P=sss,0.+{}:", sss::LIFETIME));
        }
        if self.door.callers.trusts_names(&self.peer) {
            ways.push_str("&P=unix");
        }
        // Last, for servers that have nothing to show but a key.
        if self.third_party {
            ways.push_str("&P=host");
        }
        ways
    }

    /// Why a client to which no way is offered cannot log in, and what to do.
    fn no_way(&self, tokens: bool) -> String {
        let mut why = "Login refused: this server offers this client no way to log in. ".to_owned();
        why.push_str(match (tokens, self.peer.secure, self.door.tls.is_some()) {
            (true, false, true) => {
                "Tokens are taken over TLS only: use roots://, or a client that can encrypt"
            }
            (true, false, false) => {
                "Tokens are taken over TLS only, and this door has no certificate: its administrator \
                 sets xrootd.tls_certificate_file"
            }
            _ => {
                "Its administrator lets token issuers (dewar issuer add), service keys \
                 (xrootd.sss_keytab_file) or the server's own user (xrootd.local_user) in"
            }
        });
        why
    }

    async fn turn_away(
        &mut self,
        stream: StreamId,
        refusal: &ErrorReply,
    ) -> Result<(), ConnectionEnd> {
        self.outlet.refuse(stream, refusal).await;
        Err(ConnectionEnd::Protocol(refusal.message.clone()))
    }

    fn enter(&mut self, id: SessionId, proof: Option<Proof>, claimed: ClientInfo) {
        if proof.is_none() {
            // Who may do next to nothing need not stay for long.
            self.inlet.set_idle(login_time(self.slot.is_crowded()));
        }
        let who = (proof, claimed);
        let session = Session::new(id, who, self.peer, &self.door, &self.outlet, &self.cut);
        self.door.register(&session);
        self.is_in(session, true);
    }

    /// Counts the connection for the caller of a proof; `false` if that one has too many. A caller
    /// that is none any more does nothing, and its connections count for their address.
    async fn is_counted(&self, proof: &Proof) -> bool {
        let caller = self.door.callers.caller(proof, self.peer.origin()).await;
        caller.map_or(true, |caller| {
            self.slot.authenticated(&ShareOwner::of(&caller))
        })
    }

    fn is_in(&mut self, session: Arc<Session>, main: bool) {
        // It enters once.
        let _ = self.entered.set(Arc::clone(&session));
        self.standing = LoginState::In { session, main };
    }

    pub(super) async fn auth(
        &mut self,
        stream: StreamId,
        kind: [u8; 4],
        credential: Bytes,
    ) -> Result<(), ConnectionEnd> {
        let (id, claimed) = match &self.standing {
            LoginState::Claims(id, claimed) => (*id, claimed.clone()),
            LoginState::In { .. } => {
                // Clients that were told of no way may still try one; they are in.
                self.outlet.reply(stream, &Reply::Ok(Bytes::new())).await;
                return Ok(());
            }
            LoginState::Nobody => {
                let message = "Invalid request; user not logged in";
                let reply = Reply::error(ErrorCode::InvalidRequest, message);
                self.outlet.reply(stream, &reply).await;
                return Err(ConnectionEnd::Protocol(
                    "a credential before the login".to_owned(),
                ));
            }
        };
        match self.prove(kind, &credential).await {
            Ok(proof) => {
                self.enter(id, proof, claimed);
                self.outlet.reply(stream, &Reply::Ok(Bytes::new())).await;
                Ok(())
            }
            Err(AuthFailure { refusal, why }) => {
                let way: String = kind.iter().map(|byte| char::from(*byte)).collect();
                let way: String = way.chars().filter(char::is_ascii_graphic).collect();
                let callers = &self.door.callers;
                callers.turned_away(&self.peer, &way, &why);
                self.turn_away(stream, &refusal).await
            }
        }
    }

    /// Whom the key of a service speaks for.
    async fn by_key(&self, credential: &[u8]) -> Result<UserId, AuthFailure> {
        let client = self.peer.client;
        let refused = |why: sss::CredentialError| {
            tracing::debug!(%client, %why, "a credential was refused");
            AuthFailure {
                refusal: ErrorReply::new(ErrorCode::AuthFailed, "Authentication failed"),
                why: why.to_string(),
            }
        };
        let keys = self.door.callers.service_keys().await;
        let now = self.door.env.clock.now().secs();
        let opened = sss::open(credential, &keys, client.ip(), now).map_err(refused)?;
        let (user, key, nonce) = opened;
        let taken = self.door.sss_seen.lock().take(key, nonce, now);
        taken.map_err(refused)?;
        let found = self.door.callers.by_name(&user).await;
        found.map_err(|error| AuthFailure::of(&error, &self.peer))
    }

    /// `None` proves nothing and lets in all the same, for files to which there are keys.
    async fn prove(&self, kind: [u8; 4], credential: &[u8]) -> Result<Option<Proof>, AuthFailure> {
        let callers = &self.door.callers;
        let failed = |why: &str| AuthFailure {
            refusal: ErrorReply::new(ErrorCode::AuthFailed, why),
            why: why.to_owned(),
        };
        let refused = |error| AuthFailure::of(&error, &self.peer);
        let (way, proof) = match &kind {
            b"ztn\0" if self.peer.secure && callers.takes_tokens().await => {
                let token = ztn_token(credential).ok_or_else(|| failed("no token was sent"))?;
                let token = Secret::new(token.to_owned());
                ("ztn", Proof::Token(Arc::new(token)))
            }
            b"sss\0" => ("sss", Proof::User(self.by_key(credential).await?)),
            b"unix" if callers.trusts_names(&self.peer) => {
                let name = unix_name(credential).ok_or_else(|| failed("no user was named"))?;
                let user = callers.by_name(name).await.map_err(refused)?;
                ("unix", Proof::User(user))
            }
            b"host" if self.third_party => return Ok(None),
            _ => return Err(failed("this method of authentication is not offered")),
        };
        let caller = callers.caller(&proof, self.peer.origin()).await;
        let caller = caller.map_err(refused)?;
        if !self.slot.authenticated(&ShareOwner::of(&caller)) {
            let refusal = too_many_connections();
            let why = refusal.message.clone();
            return Err(AuthFailure { refusal, why });
        }
        callers.logged_in(&caller, way);
        Ok(Some(proof))
    }

    pub(super) async fn bind(
        &mut self,
        stream: StreamId,
        id: SessionId,
    ) -> Result<(), ConnectionEnd> {
        let found = match &self.standing {
            LoginState::Nobody => self.door.session(id),
            // A connection is one thing only.
            LoginState::Claims(..) | LoginState::In { .. } => None,
        };
        // What was proven in clear or over TLS holds for connections of the same kind and place.
        let same = |session: &Arc<Session>| {
            let first = session.peer();
            first.secure == self.peer.secure && first.client.ip() == self.peer.client.ip()
        };
        let Some(session) = found.filter(same) else {
            let reply = Reply::error(ErrorCode::NotFound, "There is no such session");
            self.outlet.reply(stream, &reply).await;
            return Err(ConnectionEnd::Protocol("a session that is not".to_owned()));
        };
        if let Some(proof) = session.proof()
            && !self.is_counted(proof).await
        {
            return self.turn_away(stream, &too_many_connections()).await;
        }
        let Some(number) = session.bind(&self.outlet, &self.cut) else {
            let message = format!("A session has at most {BOUND_MAX} bound connections");
            let reply = Reply::error(ErrorCode::NoMemory, message);
            self.outlet.reply(stream, &reply).await;
            return Err(ConnectionEnd::Protocol(
                "too many bound connections".to_owned(),
            ));
        };
        self.is_in(session, false);
        let reply = Reply::Ok(Bytes::copy_from_slice(&[number]));
        self.outlet.reply(stream, &reply).await;
        Ok(())
    }
}

/// For a client that has as many connections as are free for others.
fn too_many_connections() -> ErrorReply {
    ErrorReply::new(
        ErrorCode::Overloaded,
        "Too many connections of this account are open; close some, or try again soon",
    )
}

/// What a login says of its client.
fn claimed(login: &Login) -> ClientInfo {
    let info = std::str::from_utf8(&login.info).unwrap_or_default();
    let info = Cgi(info.trim_end_matches('\0'));
    let (host, release) = (info.get("xrd.hostname"), info.get("xrd.rn"));
    ClientInfo {
        name: format!("{}.{}", login.user, login.pid),
        host: host.filter(|host| !host.is_empty()).map(str::to_owned),
        comes_again: release.is_some_and(|release| release.starts_with('v')),
        refused: None,
    }
}

/// The token in a credential of protocol ztn: its name, a version, `T`, two bytes of nothing, a
/// length, and the token with a NUL.
fn ztn_token(credential: &[u8]) -> Option<&str> {
    let rest = credential.strip_prefix(b"ztn\0")?;
    let (head, rest) = rest.split_at_checked(6)?;
    if head[1] != b'T' {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let token = rest.get(..len)?;
    let token = token.strip_suffix(b"\0").unwrap_or(token);
    std::str::from_utf8(token)
        .ok()
        .filter(|token| !token.is_empty())
}

/// The user in a credential of protocol unix: its name, a NUL, and user and group with a space.
fn unix_name(credential: &[u8]) -> Option<&str> {
    let rest = credential.strip_prefix(b"unix\0")?;
    let end = rest.iter().position(|byte| matches!(byte, 0 | b' '));
    let name = &rest[..end.unwrap_or(rest.len())];
    std::str::from_utf8(name)
        .ok()
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_cut_at_their_lengths() {
        let token = |len: u16, rest: &[u8]| {
            let mut credential = b"ztn\0\0T\0\0".to_vec();
            credential.extend_from_slice(&len.to_be_bytes());
            credential.extend_from_slice(rest);
            ztn_token(&credential).map(str::to_owned)
        };
        assert_eq!(token(5, b"abcd\0").as_deref(), Some("abcd"));
        assert_eq!(token(4, b"abcd").as_deref(), Some("abcd"));
        assert_eq!(token(6, b"abcd\0"), None);
        assert_eq!(token(1, b"\0"), None);
        assert_eq!(ztn_token(b"ztn\0\0"), None);
        assert_eq!(unix_name(b"unix\0ann users\0"), Some("ann"));
        assert_eq!(unix_name(b"unix\0ann\0"), Some("ann"));
        assert_eq!(unix_name(b"unix\0 users"), None);
    }
}
