//! The requests, one file for each group of them.

mod attributes;
mod checksum;
mod clone;
mod config;
mod deferred_reply;
mod dirlist;
mod file;
mod namespace;
mod query;
mod read;
mod redirect;
mod stat_format;
mod third_party;
mod vector;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_auth::{Caller, Origin, Secret};
use dewar_types::Error;
use dewar_xrootd_proto::request::{HandleOrPath, Request, Stat};
use dewar_xrootd_proto::{ErrorCode, Reply, StreamId};

use crate::callers::{Peer, Proof};
use crate::connection::ReplyWriter;
use crate::door::Door;
use crate::error::{ErrorReply, VerbResult};
use crate::measure::Measure;
use crate::path::WirePath;
use crate::session::id as session_id;
use crate::session::{BufferReservation, NameOpTicket, Session, Writer};

pub(crate) use file::{QueuedChange, enqueue_change};
pub(crate) use namespace::removes;

/// What a request runs with.
pub(crate) struct Context {
    pub(crate) door: Arc<Door>,
    pub(crate) outlet: ReplyWriter,
    pub(crate) session: Arc<Session>,
    pub(crate) stream: StreamId,
    pub(crate) peer: Peer,
    pub(crate) measure: Measure,
    /// Its place among what changes names, if it does.
    pub(crate) turn: Option<NameOpTicket>,
    /// What this client was writing, when the request came, under the name that it removes.
    pub(crate) removes: Option<Arc<Writer>>,
    /// The server stops: files that are open are served to their end, no others are opened.
    pub(crate) stopping: bool,
}

fn proof_of(session: &Session) -> VerbResult<&Proof> {
    session.proof().ok_or_else(|| {
        if let Some(why) = &session.claimed().refused {
            return ErrorReply::new(ErrorCode::AuthFailed, why.clone());
        }
        let message =
            "A session without authentication can open only a file for which it has a tpc key";
        ErrorReply::new(ErrorCode::NotAuthorized, message)
    })
}

impl Context {
    /// A path of the request, canonical.
    fn path(&self, sent: &str) -> VerbResult<WirePath> {
        WirePath::parse(sent, &self.door.config.translations)
    }

    /// Who asks: whom the token speaks for that hangs on the path, else the session's caller.
    async fn caller(&self, path: &WirePath) -> VerbResult<Caller> {
        self.caller_of(&self.proof(path).await?).await
    }

    /// What who asks has proven.
    async fn proof(&self, path: &WirePath) -> VerbResult<Proof> {
        if path.cgi().get("authz").is_none() || !self.door.callers.takes_tokens().await {
            return proof_of(&self.session).cloned();
        }
        // Who sends what can be no token is not whoever the session belongs to.
        let token = path.cgi().decoded("authz").ok_or_else(|| {
            ErrorReply::new(
                ErrorCode::AuthFailed,
                "Authentication failed; authz is no text",
            )
        })?;
        let token = token.strip_prefix("Bearer ").unwrap_or(&token);
        Ok(Proof::Token(Arc::new(Secret::new(token.to_owned()))))
    }

    async fn caller_of_session(&self, session: &Session) -> VerbResult<Caller> {
        self.caller_of(proof_of(session)?).await
    }

    async fn caller_of(&self, proof: &Proof) -> VerbResult<Caller> {
        self.caller_from(proof, self.peer.origin()).await
    }

    async fn caller_from(&self, proof: &Proof, origin: Origin) -> VerbResult<Caller> {
        let told = self.door.callers.caller(proof, origin).await;
        told.map_err(|error| ErrorReply::of_credential(&error, &self.peer.client.to_string()))
    }

    /// Whether another session was opened by whoever opened this one, from the same address.
    async fn is_of_same(&self, other: &Session) -> VerbResult<bool> {
        if other.peer().client.ip() != self.peer.client.ip() {
            return Ok(false);
        }
        let Ok(theirs) = self.caller_of_session(other).await else {
            return Ok(false);
        };
        let ours = self.caller_of_session(&self.session).await?;
        Ok(theirs.principal() == ours.principal())
    }

    /// Waits for what came before and changes names.
    async fn wait_for_turn(&self) {
        if let Some(turn) = &self.turn {
            turn.comes().await;
        }
    }

    /// The way out that a request names.
    fn outlet(&self, number: u8) -> VerbResult<ReplyWriter> {
        if number == 0 {
            return Ok(self.outlet.clone());
        }
        self.session.outlet(number).ok_or_else(|| {
            let message = format!("There is no bound connection {number}");
            ErrorReply::new(ErrorCode::ArgInvalid, message)
        })
    }

    /// Whether the session was let in for files to which there are keys, and for nothing else.
    fn is_unproven(&self) -> bool {
        self.session.proof().is_none() && !self.door.config.redirect.is_all()
    }

    /// Room for an answer of so many bytes, before it is made; for fewer, where there is little.
    async fn room(&self, bytes: usize) -> BufferReservation {
        self.outlet.room(bytes).await
    }

    /// A success, for which there is room already.
    async fn ok_in(&self, mut room: BufferReservation, body: Bytes) {
        room.shrink(body.len());
        let reply = Reply::Ok(body);
        self.outlet.reply_in(room, self.stream, &reply).await;
    }

    async fn ok(&self, body: impl Into<Bytes>) {
        self.outlet
            .reply(self.stream, &Reply::Ok(body.into()))
            .await;
    }

    /// A success in words; clients want a NUL behind them.
    async fn text(&self, text: &str) {
        self.ok(with_nul(text)).await;
    }
}

fn with_nul(text: &str) -> Bytes {
    let mut body = BytesMut::with_capacity(text.len() + 1);
    body.extend_from_slice(text.as_bytes());
    body.extend_from_slice(b"\0");
    body.freeze()
}

/// Says a store's error as a request's failure.
fn failed<'a>(doing: &'a str, path: &'a WirePath) -> impl Fn(Error) -> ErrorReply + 'a {
    move |error| ErrorReply::of(&error, doing, &path.shown)
}

/// Does a request, or waits for what has its place already, and answers it.
pub(crate) async fn answer(context: Context, request: Request, placed: Option<QueuedChange>) {
    let outcome = match (placed, redirect::redirect(&context, &request).await) {
        (Some(placed), _) => match placed.await {
            Ok(body) => {
                context.ok(body).await;
                Ok(())
            }
            Err(refusal) => Err(refusal),
        },
        (None, Ok(())) => dispatch(&context, request).await,
        (None, Err(refusal)) => Err(refusal),
    };
    if let Err(refusal) = &outcome {
        context.outlet.refuse(context.stream, refusal).await;
    }
    context.measure.answered(outcome.as_ref().err());
}

async fn dispatch(context: &Context, request: Request) -> VerbResult<()> {
    match request {
        Request::Ping => {
            context.ok(Bytes::new()).await;
            Ok(())
        }
        Request::Open(open) => file::open(context, open).await,
        Request::Sync { handle } => file::sync(context, handle).await,
        Request::Truncate {
            target: HandleOrPath::Path(path),
            size,
        } => file::truncate(context, &path, size).await,
        Request::Read(read) => read::read(context, read).await,
        Request::Pgread(read) => read::pages(context, read).await,
        Request::Readv { path_id, items } => vector::read(context, path_id, items).await,
        Request::Stat(stat) => match stat {
            Stat {
                target: HandleOrPath::Path(path),
                options,
                ..
            } => namespace::stat(context, &path, options).await,
            Stat {
                target: HandleOrPath::Handle(handle),
                ..
            } => file::stat(context, handle).await,
        },
        Request::Statx { paths, .. } => namespace::statx(context, paths).await,
        Request::Dirlist { options, path } => dirlist::list(context, &path, options).await,
        Request::Mkdir {
            options,
            mode,
            path,
        } => namespace::mkdir(context, &path, options, mode).await,
        Request::Rm { path } => namespace::rm(context, &path).await,
        Request::Rmdir { path } => namespace::rmdir(context, &path).await,
        Request::Mv { from, to } => namespace::mv(context, &from, &to).await,
        Request::Chmod { mode, path } => attributes::chmod(context, &path, mode).await,
        Request::Fattr(fattr) => attributes::fattr(context, fattr).await,
        Request::Locate { path, .. } => namespace::locate(context, &path).await,
        Request::Query {
            kind,
            handle,
            argument,
        } => query::query(context, kind, handle, &argument).await,
        Request::Prepare(prepare) => query::prepare(context, prepare).await,
        Request::Set { text, .. } => query::set(context, &text).await,
        Request::Endsess { session } => {
            let Some(old) = context.door.session(session) else {
                context.session.had_before(session_id::began(session));
                context.ok(Bytes::new()).await;
                return Ok(());
            };
            // Only who has the session's own way of proving itself may end it.
            if old.id() != context.session.id() && context.is_of_same(&old).await? {
                // Clients end the session whose connection broke before they go on in another.
                old.park_files(&context.door.interrupted);
                old.end();
                context.door.forget(session);
            }
            context.ok(Bytes::new()).await;
            Ok(())
        }
        Request::Gpfile { .. } => Err(ErrorReply::unsupported("gpfile")),
        // The connection took these itself, or gave them their place.
        Request::Protocol(_)
        | Request::Close { .. }
        | Request::Clone { .. }
        | Request::Chkpoint { .. }
        | Request::Truncate {
            target: HandleOrPath::Handle(_),
            ..
        }
        | Request::Login(_)
        | Request::Auth { .. }
        | Request::Bind { .. }
        | Request::Sigver(_)
        | Request::Write(_)
        | Request::Pgwrite(_)
        | Request::Writev { .. } => {
            let message = "Invalid request";
            Err(ErrorReply::new(ErrorCode::InvalidRequest, message))
        }
    }
}
