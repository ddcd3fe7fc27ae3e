//! Third-party copies, as requests ask for them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_transfer::{Direction, QueueShare, TransferDescription};
use dewar_xrootd_client::{BearerToken, Endpoint, Resolver as _, SystemResolver};
use dewar_xrootd_proto::{ErrorCode, FileHandle};
use tokio::time::{Instant, timeout};

use super::{Context, deferred_reply};
use crate::callers::Proof;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::COPY_LATER;
use crate::measure::CopyEnd;
use crate::path::WirePath;
use crate::session::{Handle, Writer};
use crate::tpc::copy::{Copy, CopyOwner, SyncReply};
use crate::tpc::fair_share::ShareOwner;
use crate::tpc::keys::{Grant, Grantor, KeyGuard, KeyRejected};
use crate::tpc::opaque_params::{self, FetchParams, ReaderParams};

/// For looking up a host that a client names.
const RESOLVE_TIME: Duration = Duration::from_secs(5);

/// Who reads, and the key that is left once the file is open.
pub(super) struct ReadAccess {
    pub(super) caller: Caller,
    key: Option<KeyRequest>,
}

/// A key that a client wants to leave for a destination. The destination's name is not looked up yet.
struct KeyRequest {
    key: String,
    destination: String,
    time: Duration,
    path: String,
    proof: Proof,
}

impl ReadAccess {
    /// Leaves the key. For who may read the file only: the destination's name is looked up.
    pub(super) async fn leave(self, context: &Context) -> VerbResult<Option<KeyGuard>> {
        let Some(request) = self.key else {
            return Ok(None);
        };
        let (path, destination) = (request.path, request.destination);
        let hosts = addresses(&destination).await.ok_or_else(|| {
            let message =
                format!("Unable to open {path}; tpc destination {destination:?} is unknown");
            ErrorReply::new(ErrorCode::ArgInvalid, message)
        })?;
        let grant = Grant {
            path: path.clone(),
            origin: context.session.claimed().name.clone(),
            hosts,
            giver: Grantor {
                proof: request.proof,
                origin: context.peer.origin(),
            },
            until: Instant::now() + request.time,
            sharer: ShareOwner::of(&self.caller),
        };
        let left = context.door.tpc.keys.leave(&request.key, grant);
        left.map(Some).map_err(|why| match why {
            KeyRejected::Twice => {
                let message = format!("Unable to open {path}; duplicate tpc authorization");
                ErrorReply::new(ErrorCode::FsError, message)
            }
            KeyRejected::Full => ErrorReply::later(COPY_LATER, "too many tpc authorizations wait"),
        })
    }
}

/// Who reads a file: the session's caller, who may leave a key, or the one who left it.
pub(super) async fn reading(context: &Context, path: &WirePath) -> VerbResult<ReadAccess> {
    match opaque_params::reading(path.cgi(), &path.shown)? {
        None => Ok(ReadAccess {
            caller: context.caller(path).await?,
            key: None,
        }),
        Some(ReaderParams::Redeem { key, origin }) => {
            let keys = &context.door.tpc.keys;
            let from = context.peer.client.ip();
            let redeemed = keys.redeem(key, &path.shown, origin, from).await;
            context.door.meter.key_shown(redeemed.is_some());
            match redeemed {
                // Whom the giver's proof makes now: a key does not outlive the right to leave it.
                Some(giver) => Ok(ReadAccess {
                    caller: context.caller_from(&giver.proof, giver.origin).await?,
                    key: None,
                }),
                None => {
                    let message =
                        format!("Unable to open {}; tpc authorization expired", path.shown);
                    Err(ErrorReply::new(ErrorCode::NotAuthorized, message))
                }
            }
        }
        Some(ReaderParams::Grant {
            key,
            destination,
            time,
        }) => {
            let proof = context.proof(path).await?;
            let caller = context.caller_of(&proof).await?;
            Ok(ReadAccess {
                caller,
                key: Some(KeyRequest {
                    key: key.to_owned(),
                    destination: destination.to_owned(),
                    time,
                    path: path.shown.clone(),
                    proof,
                }),
            })
        }
    }
}

/// The addresses of a host.
async fn addresses(host: &str) -> Option<Vec<IpAddr>> {
    let place = Endpoint::parse(host, false).ok()?;
    let found = timeout(RESOLVE_TIME, SystemResolver.resolve(&place)).await;
    let found = found.ok()?.ok()?;
    Some(
        found
            .iter()
            .map(|address| address.ip().to_canonical())
            .collect(),
    )
}

/// From where a file shall come, if not from the client. Still to be judged.
pub(super) fn writing(context: &Context, path: &WirePath) -> VerbResult<Option<FetchParams>> {
    let token = token(context).is_some();
    let fetch = opaque_params::writing(path.cgi(), &path.shown, &path.shown, token)?;
    let Some(fetch) = fetch else {
        return Ok(None);
    };
    if context.door.config.tpc.sources.0.is_empty() {
        // In these words clients find that they must copy themselves.
        let message = format!("Unable to open {}; tpc not supported", path.shown);
        return Err(ErrorReply::new(ErrorCode::FsError, message));
    }
    Ok(Some(fetch))
}

/// Whether a file may come from there. For who may write it only: the source's name is looked up.
pub(super) async fn judge(
    context: &Context,
    path: &WirePath,
    fetch: &FetchParams,
) -> VerbResult<()> {
    match context.door.tpc.resolver(fetch).resolve(&fetch.place).await {
        Ok(_) => Ok(()),
        Err(error) => {
            if matches!(error, dewar_xrootd_client::Error::NotAllowed { .. }) {
                let (client, path) = (context.peer.client.ip(), &path.shown);
                tracing::info!(%client, path, source = %fetch.place, "nothing may be fetched from there");
                context.door.meter.copy_began();
                context.door.meter.copy_ended(CopyEnd::Forbidden);
            }
            let message = format!("Unable to open {}; {error}", path.shown);
            Err(ErrorReply::new(ErrorCode::NotAuthorized, message))
        }
    }
}

/// A file that is fetched.
pub(super) async fn copy(
    context: &Context,
    caller: &Caller,
    fetch: FetchParams,
    writer: Arc<Writer>,
) -> Arc<Copy> {
    let claimed = context.session.claimed();
    let origin = format!("{}@{}", claimed.name, host(context).await);
    let token = fetch.key.is_none().then(|| token(context)).flatten();
    let path = fetch
        .path
        .split_once('?')
        .map_or(&*fetch.path, |(path, _)| path);
    let description = TransferDescription {
        local_path: writer.path.clone(),
        remote_host: fetch.place.to_string(),
        remote_path: path.to_owned(),
        ..TransferDescription::of(caller, "root", Direction::Pull)
    };
    let owner = CopyOwner {
        sharer: ShareOwner::of(caller),
        share: QueueShare::of(caller),
        description,
    };
    Copy::new(writer, fetch, (origin, owner), token)
}

/// The client's host, as the source sees it too: by the name that it gives itself, if that is its.
async fn host(context: &Context) -> String {
    let client = context.peer.client.ip().to_canonical();
    if client.is_loopback() {
        return "localhost".to_owned();
    }
    match &context.session.claimed().host {
        Some(name)
            if addresses(name)
                .await
                .is_some_and(|found| found.contains(&client)) =>
        {
            name.clone()
        }
        _ => client.to_string(),
    }
}

/// The token that the client showed at its login.
fn token(context: &Context) -> Option<BearerToken> {
    match context.session.proof() {
        Some(Proof::Token(token)) => Some(BearerToken::new(token.reveal())),
        _ => None,
    }
}

/// Whether a copy can be done in the name of the client without a key.
pub(super) fn may_delegate(context: &Context) -> bool {
    let is_token = matches!(context.session.proof(), Some(Proof::Token(_)));
    is_token && !context.door.config.tpc.sources.0.is_empty()
}

/// Arms a copy, or starts it and answers when it is over.
pub(super) async fn sync(context: &Context, copy: Arc<Copy>) -> VerbResult<()> {
    let outcome = copy.sync(&context.door.tpc)?;
    // Only the handle keeps it running.
    drop(copy);
    let mut over = match outcome {
        SyncReply::Now => {
            context.ok(Bytes::new()).await;
            return Ok(());
        }
        SyncReply::Later(over) => over,
    };
    deferred_reply::answer(context, async move {
        match over.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone().map(|()| Bytes::new()),
            Ok(None) | Err(_) => {
                let message = "the third-party copy was cancelled";
                Err(ErrorReply::new(ErrorCode::Cancelled, message))
            }
        }
    })
    .await;
    Ok(())
}

/// Ends a copy.
pub(super) async fn cancel(context: &Context, handle: FileHandle) -> VerbResult<()> {
    let Handle::Copy(copy) = context.session.handle(handle, "cancel")? else {
        let message = "tpc operation not found";
        return Err(ErrorReply::new(ErrorCode::ArgInvalid, message));
    };
    copy.cancel();
    context.ok(Bytes::new()).await;
    Ok(())
}
