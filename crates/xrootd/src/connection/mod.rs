//! One connection: negotiation, then requests one after the other.
//!
//! ```text
//! handshake + protocol --> (TLS) --> login --> auth? --> requests ... end
//!                                    bind  ------------> requests ... end
//! ```
//!
//! Requests that change the connection itself (protocol, login, auth, bind) are answered before the
//! next request is read. Every other request runs as a task. The number of tasks is limited; at the
//! limit the socket is not read. Data of writes is read from the socket here and passed to the
//! file's own task, limited by a budget.

mod checkpoint;
mod handshake;
mod reply_writer;
mod request_reader;
mod write_data;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dewar_auth::AcceptedConnection;
use dewar_env::BoxFuture;
use dewar_xrootd_proto::request::Checkpoint;
use dewar_xrootd_proto::{
    DecodeError, ErrorCode, Reply, Request, RequestCode, RequestHeader, StreamId,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use reply_writer::ReplyWriter;
pub(crate) use request_reader::RequestReader;

use crate::callers::Peer;
use crate::door::Door;
use crate::error::ErrorReply;
use crate::limits::{
    CREDENTIAL_BYTES_MAX, FIRST_BYTES_MAX, REFUSAL_TIME, REQUESTS_MAX, SKIP_BYTES_MAX,
};
use crate::measure::{Measure, RequestOutcome};
use crate::ops::{self, Context};
use crate::session::Session;

/// A stream that TLS was put on.
pub trait TlsStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> TlsStream for T {}

/// Puts TLS on connections.
pub trait TlsUpgrade: Send + Sync {
    /// Does the handshake.
    fn upgrade(&self, socket: TcpStream) -> BoxFuture<'_, std::io::Result<Box<dyn TlsStream>>>;
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionEnd {
    #[error("the client closed it")]
    Closed,
    #[error("nothing came for too long")]
    Idle,
    #[error("a request stalled")]
    Stalled,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Protocol(String),
    #[error("the server stops")]
    Stopped,
}

impl Door {
    /// Serves a connection until it ends or `stop` is cancelled. `slot` is told when its client has
    /// logged in with a credential.
    pub async fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
        client: SocketAddr,
        slot: Arc<dyn AcceptedConnection>,
        stop: CancellationToken,
    ) {
        // Small answers must not wait for the acknowledgement of others.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%client, %error, "TCP_NODELAY");
        }
        let Ok(server) = socket.local_addr() else {
            return;
        };
        let peer = Peer {
            client,
            server,
            secure: false,
        };
        let outcome = tokio::select! {
            biased;
            () = stop.cancelled() => Err(ConnectionEnd::Stopped),
            outcome = handshake::negotiate(self, socket, peer, slot.is_crowded()) => outcome,
        };
        let outcome = match outcome {
            Ok(handshake::NegotiatedStream::Plain(socket, begun)) => {
                let (reader, writer) = socket.into_split();
                run(self, reader, writer, begun, slot, stop).await
            }
            Ok(handshake::NegotiatedStream::Secure(stream, begun)) => {
                let (reader, writer) = tokio::io::split(stream);
                run(self, reader, writer, begun, slot, stop).await
            }
            Err(ended) => Err(ended),
        };
        match outcome {
            Err(ended @ ConnectionEnd::Protocol(_)) => {
                tracing::debug!(%client, %ended, "connection ended")
            }
            Err(ended) => tracing::trace!(%client, %ended, "connection ended"),
            Ok(()) => {}
        }
    }

    /// Refuses a client because there are too many connections. The first request is answered with
    /// that, and the connection is closed.
    pub async fn refuse(&self, socket: TcpStream) {
        let refusing = handshake::refuse(self, socket);
        if let Ok(Err(ended)) = tokio::time::timeout(REFUSAL_TIME, refusing).await {
            tracing::trace!(%ended, "a connection could not be refused in words");
        }
    }
}

/// A request that waits for its answer.
pub(crate) struct PendingRequest {
    pub(crate) stream: StreamId,
    pub(crate) measure: Measure,
    /// Permit for one of the requests that may run at the same time, until it is answered.
    permit: OwnedSemaphorePermit,
}

/// A connection after its negotiation.
struct Connection<R> {
    door: Arc<Door>,
    inlet: RequestReader<R>,
    outlet: ReplyWriter,
    peer: Peer,
    slot: Arc<dyn AcceptedConnection>,
    /// State of the login.
    standing: handshake::LoginState,
    /// The same, for the task that waits until its files are closed.
    entered: Arc<OnceLock<Arc<Session>>>,
    /// It announced a third-party copy.
    third_party: bool,
    running: Arc<Semaphore>,
    tasks: TaskTracker,
    /// The server stops: nothing new begins.
    stop: CancellationToken,
    /// Cancels all tasks of this connection.
    cut: CancellationToken,
}

async fn run<R, W>(
    door: &Arc<Door>,
    reader: R,
    writer: W,
    begun: handshake::HandshakeResult,
    slot: Arc<dyn AcceptedConnection>,
    stop: CancellationToken,
) -> Result<(), ConnectionEnd>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let cut = CancellationToken::new();
    let entered = Arc::new(OnceLock::new());
    let limits = door.config.limits;
    let (outlet, sending) = ReplyWriter::start(
        writer,
        Arc::clone(&door.room_out),
        limits.stall_timeout,
        cut.clone(),
    );
    let mut connection = Connection {
        inlet: RequestReader::new(reader, begun.unread, limits, begun.until),
        door: Arc::clone(door),
        outlet,
        peer: begun.peer,
        slot,
        standing: handshake::LoginState::Nobody,
        entered: Arc::clone(&entered),
        third_party: begun.third_party,
        running: Arc::new(Semaphore::new(REQUESTS_MAX)),
        tasks: TaskTracker::new(),
        stop: stop.clone(),
        cut: cut.clone(),
    };
    let outcome = tokio::select! {
        biased;
        () = drained(&stop, &entered) => Err(ConnectionEnd::Stopped),
        () = cut.cancelled() => Err(ConnectionEnd::Stalled),
        outcome = connection.requests() => outcome,
    };
    // What was answered leaves before the socket closes; what still runs is for nobody.
    let polite = matches!(
        outcome,
        Err(ConnectionEnd::Stopped | ConnectionEnd::Protocol(_))
    );
    let stopped = matches!(outcome, Err(ConnectionEnd::Stopped)) || stop.is_cancelled();
    connection.end(polite, stopped).await;
    drop(connection);
    if polite {
        let _ = tokio::time::timeout(limits.stall_timeout, sending).await;
    }
    cut.cancel();
    outcome
}

/// Returns when the server stops and the files that were open then are closed: a transfer ends
/// before its connection does. What is left at the end of the server's patience is cut.
async fn drained(stop: &CancellationToken, entered: &OnceLock<Arc<Session>>) {
    stop.cancelled().await;
    if let Some(session) = entered.get() {
        session.all_closed().await;
    }
}

impl<R: AsyncRead + Send + Unpin> Connection<R> {
    async fn requests(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            match self.standing {
                handshake::LoginState::In { .. } => self.next_request().await?,
                // However slowly it comes, and whatever its credential is asked about.
                handshake::LoginState::Nobody | handshake::LoginState::Claims(..) => {
                    let until = self.inlet.login_until();
                    let next = timeout_at(until, self.next_request()).await;
                    next.map_err(|_| ConnectionEnd::Stalled)??;
                }
            }
        }
    }

    async fn next_request(&mut self) -> Result<(), ConnectionEnd> {
        let header = self.inlet.header().await?;
        let header = RequestHeader::decode(&header)
            .map_err(|error| ConnectionEnd::Protocol(error.to_string()))?;
        if self.standing.session().is_none() {
            self.may_come_first(&header).await?;
        }
        self.request(header).await
    }

    /// Refuses what may not come before the login, before any more of it is read.
    async fn may_come_first(&self, header: &RequestHeader) -> Result<(), ConnectionEnd> {
        let max = match RequestCode::from_number(header.code) {
            Some(RequestCode::Protocol | RequestCode::Login | RequestCode::Bind) => FIRST_BYTES_MAX,
            Some(RequestCode::Auth) => CREDENTIAL_BYTES_MAX,
            _ => {
                let message = "Invalid request; user not logged in";
                let reply = Reply::error(ErrorCode::InvalidRequest, message);
                self.outlet.reply(header.stream, &reply).await;
                return Err(ConnectionEnd::Protocol(
                    "a request before the login".to_owned(),
                ));
            }
        };
        if header.len as usize > max {
            let message = format!("Invalid request; more than {max} bytes before the login");
            let reply = Reply::error(ErrorCode::ArgTooLong, message.as_str());
            self.outlet.reply(header.stream, &reply).await;
            return Err(ConnectionEnd::Protocol(message));
        }
        Ok(())
    }

    /// Reads and begins one request.
    async fn request(&mut self, header: RequestHeader) -> Result<(), ConnectionEnd> {
        let len = match header.arguments_len() {
            Ok(len) => len,
            Err(error) => return self.senseless(&header, &error, header.len as usize).await,
        };
        let arguments = self.inlet.exact(len).await?;
        let request = match Request::decode(&header, arguments) {
            Ok(request) => request,
            Err(error) => {
                // What follows the arguments of a vector is not known without them.
                if header.code == RequestCode::Writev.number() {
                    return Err(ConnectionEnd::Protocol(error.to_string()));
                }
                return self.senseless(&header, &error, 0).await;
            }
        };
        self.door.counts.request(request.code());
        let measure = Measure::begin(&self.door, request.code());
        let negotiated = match request {
            Request::Protocol(protocol) => {
                let reply = handshake::protocol_reply(&self.door, &self.peer, protocol, false);
                self.outlet
                    .reply(header.stream, &Reply::Ok(reply.encode()))
                    .await;
                Ok(())
            }
            Request::Login(login) => self.login(header.stream, login).await,
            Request::Auth { kind, credential } => self.auth(header.stream, kind, credential).await,
            Request::Bind { session } => self.bind(header.stream, session).await,
            request => match self.standing.session() {
                Some(session) => return self.begin(session, &header, request, measure).await,
                None => {
                    let message = "Invalid request; user not logged in";
                    let reply = Reply::error(ErrorCode::InvalidRequest, message);
                    self.outlet.reply(header.stream, &reply).await;
                    Err(ConnectionEnd::Protocol(
                        "a request before the login".to_owned(),
                    ))
                }
            },
        };
        measure.end(match negotiated {
            Ok(()) => RequestOutcome::Done,
            Err(_) => RequestOutcome::Refused,
        });
        negotiated
    }

    /// Answers what cannot be understood and skips `rest` bytes of it, if they are not too many.
    async fn senseless(
        &mut self,
        header: &RequestHeader,
        error: &DecodeError,
        rest: usize,
    ) -> Result<(), ConnectionEnd> {
        let refusal = ErrorReply::new(error.code(), error.to_string());
        self.outlet.refuse(header.stream, &refusal).await;
        if rest > SKIP_BYTES_MAX || self.standing.session().is_none() {
            return Err(ConnectionEnd::Protocol(error.to_string()));
        }
        self.inlet.skip(rest).await
    }

    /// Lets a request of a session run.
    async fn begin(
        &mut self,
        session: Arc<Session>,
        header: &RequestHeader,
        request: Request,
        measure: Measure,
    ) -> Result<(), ConnectionEnd> {
        let permit = Arc::clone(&self.running).acquire_owned().await;
        let asked = PendingRequest {
            stream: header.stream,
            measure,
            permit: permit.map_err(|_| ConnectionEnd::Stopped)?,
        };
        match request {
            Request::Write(write) => self.take_write(&session, asked, write).await,
            Request::Pgwrite(write) => self.take_pages(&session, asked, write).await,
            Request::Writev { items, .. } => self.take_vector(&session, asked, items).await,
            Request::Chkpoint {
                handle,
                action: Checkpoint::Execute(embedded),
            } => self.checkpointed(session, asked, handle, &embedded).await,
            // Nothing was asked to be signed; what is signed all the same goes on as it is.
            Request::Sigver(_) => {
                asked.measure.end(RequestOutcome::Done);
                Ok(())
            }
            request => self.spawn(session, asked, request).await,
        }
    }

    /// Lets a request run as a task of its own. What changes an open file has its place behind the
    /// writes that came before it already, and before those that come next.
    async fn spawn(
        &mut self,
        session: Arc<Session>,
        asked: PendingRequest,
        request: Request,
    ) -> Result<(), ConnectionEnd> {
        let permit = asked.permit;
        let placed = ops::enqueue_change(&session, &request).await;
        let turn = session.names.enter(&request);
        let removes = ops::removes(&self.door, &session, &request);
        let context = Context {
            door: Arc::clone(&self.door),
            outlet: self.outlet.clone(),
            session,
            stream: asked.stream,
            measure: asked.measure,
            turn,
            removes,
            peer: self.peer,
            stopping: self.stop.is_cancelled(),
        };
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            let _permit = permit;
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = ops::answer(context, request, placed) => {}
            }
        });
        Ok(())
    }

    /// Ends what runs; with `polite` after it was answered. Unless the server has stopped, the client may go
    /// on over another connection.
    async fn end(&mut self, polite: bool, stopped: bool) {
        self.tasks.close();
        if polite {
            let patience = self.door.config.limits.stall_timeout;
            let _ = tokio::time::timeout(patience, self.tasks.wait()).await;
        }
        if let handshake::LoginState::In { session, main } = &self.standing
            && *main
        {
            if !stopped {
                session.park_files(&self.door.interrupted);
            }
            match polite {
                true => session.finish(),
                false => session.end(),
            }
            self.door.forget(session.id());
        } else if let handshake::LoginState::In { session, .. } = &self.standing {
            session.unbind(&self.outlet);
        }
    }
}

/// Bytes of a reply that fit into one buffer.
pub(crate) fn small(reply: &Reply, stream: StreamId) -> Bytes {
    let mut out = bytes::BytesMut::new();
    reply.encode(stream, &mut out);
    out.freeze()
}
