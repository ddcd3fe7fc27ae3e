//! COPY from another server (pull, with `Source`) and to another server (push, with `Destination`).
//!
//! The rights of the caller are judged before the answer begins and before any name is resolved. The
//! statuses 400, 401, 403, 404 and 501 are answers of their own, because clients show their text.
//! Everything else is the last line of an answer with status 202 ([`answer`]). A COPY of a client of third-party
//! copies with both ends here is answered in the same way.

mod answer;
mod pull_target;
mod request;

use std::sync::Arc;

use dewar_env::Clock;
use dewar_http_front::{Answer, value_of};
use dewar_store::api::{
    GetRequest, ObjectRef, VersionAttributes, WriteCondition, WriteMode, WriteRequest,
};
use dewar_store::file::TreeReport;
use dewar_transfer::{
    Direction, FailureCause, ForwardedHeaders, PullRequest, PushRequest, QueueShare, Transfer,
    TransferDescription, TransferFailure, TransferOptions, TransferOutcome,
};
use dewar_types::{Error, ErrorKind};
use http::{HeaderMap, HeaderName, StatusCode};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use self::pull_target::LocalTarget;
use self::request::RemoteCopy;
use super::put::{ARCHIVE_METADATA, archive_metadata, check_locks};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::third_party::ThirdPartyCopies;

/// Copies a file of another server to the path of the request.
pub(super) async fn pull(
    front: &Arc<WebDav>,
    context: &RequestContext,
    source: &str,
) -> Result<Answer> {
    let copies = copies_of(front)?;
    let copy = RemoteCopy::parse(context, source)?;
    let target = match may_pull(front, context, &copy.options).await {
        Ok(target) => target,
        Err(refusal) => return refuse(refusal),
    };
    let transfer = match enter(copies, context, &copy, Direction::Pull) {
        Ok(transfer) => transfer,
        Err(failure) => return Ok(answer::ended(&Err(failure))),
    };
    let view = transfer.view();
    let target = target.with_view(view.clone());
    let client = Arc::clone(&copies.client);
    let (path, remote) = (context.path.text.clone(), copy.remote.to_string());
    let request = PullRequest {
        source: copy.remote,
        headers: copy.headers,
        options: copy.options,
    };
    let work = async move {
        let pulled = transfer.run(async |progress| client.pull(&request, &target, &progress).await);
        let result = pulled.await;
        log_end(Direction::Pull, &path, &remote, &result);
        result
    };
    let task = copies.registry.runtime().spawn(work.in_current_span());
    let clock = Arc::clone(&front.env.clock);
    Ok(answer::in_task(view, AbortOnDropHandle::new(task), clock))
}

/// Copies the file of the request to another server.
pub(super) async fn push(
    front: &Arc<WebDav>,
    context: &RequestContext,
    target: &str,
) -> Result<Answer> {
    let copies = copies_of(front)?;
    let mut copy = RemoteCopy::parse(context, target)?;
    let object = context.path.object();
    let object = object.ok_or_else(directory_refused)?;
    let request = GetRequest::whole(object.clone());
    let reader = match front.store.open_file(&context.caller, request).await {
        Ok(reader) => reader,
        Err(error) if error.kind() == ErrorKind::IsADirectory => return Err(directory_refused()),
        Err(error) => return refuse(error.into()),
    };
    let archive = &reader.info.attributes.archive_metadata;
    let archive = archive
        .as_ref()
        .filter(|_| !copy.headers.contains(ARCHIVE_METADATA));
    if let Some(text) = archive.map(|text| value_of(text)) {
        copy.headers
            .add(HeaderName::from_static(ARCHIVE_METADATA), text)?;
    }
    let transfer = match enter(copies, context, &copy, Direction::Push) {
        Ok(transfer) => transfer,
        Err(failure) => return Ok(answer::ended(&Err(failure))),
    };
    let view = transfer.view();
    let client = Arc::clone(&copies.client);
    let (path, remote) = (context.path.text.clone(), copy.remote.to_string());
    let request = PushRequest {
        target: copy.remote,
        headers: copy.headers,
        options: copy.options,
    };
    let work = async move {
        let pushed = transfer.run(async |progress| client.push(&request, &reader, &progress).await);
        let result = pushed.await;
        log_end(Direction::Push, &path, &remote, &result);
        result
    };
    let task = copies.registry.runtime().spawn(work.in_current_span());
    let clock = Arc::clone(&front.env.clock);
    Ok(answer::in_task(view, AbortOnDropHandle::new(task), clock))
}

fn copies_of(front: &WebDav) -> Result<&ThirdPartyCopies> {
    front.copies.as_ref().ok_or_else(|| {
        let words = "This server does no third-party copies.";
        DavError::new(StatusCode::NOT_IMPLEMENTED, words)
    })
}

fn directory_refused() -> DavError {
    let words = "A directory cannot be copied to another server: copy its files.";
    DavError::new(StatusCode::BAD_REQUEST, words)
}

/// Judges whether the caller may write the path of the request, without opening anything.
async fn may_pull(
    front: &Arc<WebDav>,
    context: &RequestContext,
    options: &TransferOptions,
) -> Result<LocalTarget> {
    let object: Option<&ObjectRef> = context.path.object();
    let object = object.filter(|_| !context.path.of_directory);
    let Some(object) = object else {
        let error = Error::new(ErrorKind::IsADirectory, "The path names a directory.");
        return Err(error.into());
    };
    check_locks(front, context, object).await?;
    let (mode, condition) = match options.overwrite {
        true => (WriteMode::Replace, context.write_condition()?),
        false => (WriteMode::New, WriteCondition::NONE),
    };
    let request = WriteRequest {
        keep_extended: true,
        condition,
        attributes: VersionAttributes {
            archive_metadata: archive_metadata(context.headers())?,
            ..VersionAttributes::default()
        },
        ..WriteRequest::file(object.clone(), mode)
    };
    let caller = &context.caller;
    front.store.authorize_write(caller, &request).await?;
    let named = options
        .expected
        .iter()
        .map(dewar_checksum::Digest::algorithm);
    Ok(LocalTarget::new(front, context, request, named))
}

/// Whether a client of third-party copies asks for a COPY. Such a client reads the last line of a body, and
/// takes an answer without a body for a failure, also if both ends of the copy are here. davix, which gfal2
/// and FTS use, always sends the first two.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    let known = ["x-number-of-streams", "secure-redirection", "credential"];
    known.iter().any(|name| headers.contains_key(*name)) || ForwardedHeaders::are_in(headers)
}

/// The answer to a client of third-party copies whose copy has both ends here. It has markers if the copy takes
/// longer than the pause between two.
pub(super) async fn local(
    clock: Arc<dyn Clock>,
    copy: impl Future<Output = Result<TreeReport>> + Send + 'static,
) -> Result<Answer> {
    let mut copy = Box::pin(copy);
    match timeout(answer::MARKER_PAUSE, &mut copy).await {
        Ok(Err(refusal)) => refuse(refusal),
        Ok(Ok(report)) => Ok(answer::ended(&of_report(&report))),
        Err(_) => {
            let work = Box::pin(async {
                let report = copy.await.map_err(|refusal| failure_of(&refusal))?;
                of_report(&report)
            });
            Ok(answer::running(None, work, clock))
        }
    }
}

/// The failure of a copy of which a part failed.
fn of_report(report: &TreeReport) -> Result<(), TransferFailure> {
    if report.failed == 0 {
        return Ok(());
    }
    let kind = report.failures.first().map(|(_, error)| error.kind());
    let cause = kind.map_or(FailureCause::LocalStorage, FailureCause::of_store);
    let detail = format!("{} names were not copied", report.failed);
    Err(TransferFailure::new(cause, detail))
}

/// The answer to a copy that does not begin.
///
/// # Errors
/// The refusal, if its status reaches clients with its text.
pub(super) fn refuse(refusal: DavError) -> Result<Answer> {
    let told = [
        StatusCode::BAD_REQUEST,
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::NOT_FOUND,
        StatusCode::NOT_IMPLEMENTED,
    ];
    if told.contains(&refusal.status()) {
        return Err(refusal);
    }
    Ok(answer::ended(&Err(failure_of(&refusal))))
}

/// The failure that a refusal is in the last line of an answer.
fn failure_of(refusal: &DavError) -> TransferFailure {
    let cause = match (refusal.kind(), refusal.status()) {
        (Some(kind), _) => FailureCause::of_store(kind),
        (None, StatusCode::PRECONDITION_FAILED) => FailureCause::LocalExists,
        (None, StatusCode::CONFLICT) => FailureCause::LocalMissing,
        (None, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => FailureCause::LocalDenied,
        (None, _) => FailureCause::LocalStorage,
    };
    TransferFailure::new(cause, refusal.message())
}

/// Takes a copy into the registry.
fn enter(
    copies: &ThirdPartyCopies,
    context: &RequestContext,
    copy: &RemoteCopy,
    direction: Direction,
) -> Result<Transfer, TransferFailure> {
    let description = TransferDescription {
        local_path: context.path.text.clone(),
        remote_host: copy.remote.authority(),
        remote_path: copy.remote.path().to_owned(),
        client_info: copy.client_info.clone(),
        scitag: copy.options.scitag,
        ..TransferDescription::of(&context.caller, "http", direction)
    };
    let share = QueueShare::of(&context.caller);
    let entered = copies.registry.enter(&share, description);
    entered.map_err(|_| TransferFailure::new(FailureCause::QueueFull, ""))
}

fn log_end(
    direction: Direction,
    path: &str,
    remote: &str,
    result: &Result<TransferOutcome, TransferFailure>,
) {
    let direction = direction.name();
    match result {
        Ok(done) => {
            let bytes = done.bytes;
            tracing::debug!(
                direction,
                path,
                remote,
                bytes,
                "a third-party copy is complete"
            );
        }
        Err(failure) => {
            let why = failure.text();
            tracing::info!(direction, path, remote, why, "a third-party copy failed");
        }
    }
}
