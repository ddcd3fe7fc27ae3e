//! LOCK and UNLOCK, and the check whether a lock forbids a change.

use std::sync::Arc;
use std::time::Duration;

use dewar_http_front::{Answer, empty_answer, header, typed_answer, value_of};
use dewar_store::api::{ExpectedContent, ObjectRef, WriteMode, WriteRequest};
use dewar_store::file::{Lock, LockOutcome, LockRequest, LockScope, LockToken};
use dewar_store::limits::LOCK_TIME_MAX;
use dewar_types::{ErrorKind, Timestamp};
use http::StatusCode;

use super::copy_move::check_parent;
use super::delete::path_of;
use crate::context::{Depth, RequestContext};
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::if_header::IfHeader;
use crate::limits::{DOCUMENT_BYTES_MAX, LOCK_TIME_DEFAULT};
use crate::xml::{DAV, XmlElement, push_href_element, push_xml_content};

/// What a client asks for.
struct LockInfo {
    shared: bool,
    owner: String,
}

pub(super) async fn lock(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    let document = context.document(DOCUMENT_BYTES_MAX).await?;
    let Some(object) = context.path.object().cloned() else {
        let words = "Permission denied: buckets cannot be locked.";
        return Err(DavError::new(StatusCode::FORBIDDEN, words));
    };
    let time = timeout_of(context)?;
    if document.is_empty() {
        return extend(front, context, &object, time).await;
    }
    let deep = match context.depth()? {
        Depth::Zero => false,
        Depth::Infinity => true,
        Depth::One => {
            let words = "The header Depth of a LOCK is 0 or infinity.";
            return Err(DavError::new(StatusCode::BAD_REQUEST, words));
        }
    };
    let info = LockInfo::parse(&document)?;
    let creates = is_unmapped(front, context, &object, &info).await?;
    let request = LockRequest {
        resource: object.clone(),
        shared: info.shared,
        deep,
        owner: info.owner,
        time,
    };
    match front.store.lock(&context.caller, request).await? {
        LockOutcome::Granted(lock) => {
            let created = match creates {
                true => make_unmapped(front, context, &object).await,
                false => Ok(false),
            };
            if created.is_err() {
                let (store, caller) = (&front.store, &context.caller);
                if let Err(error) = store.unlock(caller, &object, lock.token).await {
                    tracing::debug!(%error, "the lock of a file that was not made is left");
                }
            }
            let status = match created? {
                true => StatusCode::CREATED,
                false => StatusCode::OK,
            };
            let mut answer = discovery_answer(front, &object, &lock, status);
            let token = value_of(&format!("<{}>", lock.token));
            answer.headers_mut().insert("lock-token", token);
            Ok(answer)
        }
        LockOutcome::Excluded(_) => Err(excluded()),
    }
}

fn excluded() -> DavError {
    let words = "Another lock excludes this one.";
    DavError::new(StatusCode::LOCKED, words).precondition("no-conflicting-lock")
}

/// Whether nothing has the name, so that an empty file is made for the lock (RFC 4918 section 7.3).
///
/// # Errors
/// 409 without the directory above; 423 where another lock forbids to make it.
async fn is_unmapped(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
    info: &LockInfo,
) -> Result<bool> {
    let (store, caller) = (&front.store, &context.caller);
    match store.stat(caller, object).await {
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let covering = store.locks(caller, object, LockScope::default()).await?;
    if covering.iter().any(|lock| !(lock.shared && info.shared)) {
        return Err(excluded());
    }
    check_parent(front, context, &context.path).await?;
    require_locks(front, context, object, ADDED).await?;
    Ok(true)
}

/// Makes an empty file, unless there is one by now, and says whether it did.
async fn make_unmapped(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
) -> Result<bool> {
    let (store, caller) = (&front.store, &context.caller);
    let request = WriteRequest {
        size: Some(0),
        ..WriteRequest::file(object.clone(), WriteMode::New)
    };
    let made = match store.write(caller, request).await {
        Ok(upload) => upload
            .commit(ExpectedContent::of_size(Some(0)))
            .await
            .map(drop),
        Err(error) => Err(error),
    };
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn extend(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
    time: Duration,
) -> Result<Answer> {
    let submitted = IfHeader::of(context.headers())?;
    let token = submitted.and_then(|header| header.tokens().next());
    let Some(token) = token else {
        let words = "A LOCK without a body extends a lock: its token is missing in the header If.";
        return Err(DavError::new(StatusCode::BAD_REQUEST, words));
    };
    let extended = front
        .store
        .extend_lock(&context.caller, object, token, time);
    let lock = extended.await?;
    Ok(discovery_answer(front, object, &lock, StatusCode::OK))
}

pub(super) async fn unlock(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    let refused = |status, words: &'static str| DavError::new(status, words);
    let text = header(context.headers(), "lock-token")?.map(str::trim);
    let text = text.and_then(|text| text.strip_prefix('<')?.strip_suffix('>'));
    let malformed = || {
        refused(
            StatusCode::BAD_REQUEST,
            "The header Lock-Token is not valid.",
        )
    };
    let text = text.ok_or_else(malformed)?;
    let no_lock = || {
        refused(
            StatusCode::CONFLICT,
            "No lock with this token covers the path.",
        )
        .precondition("lock-token-matches-request-uri")
    };
    let token = LockToken::parse(text).ok_or_else(no_lock)?;
    let object = context.path.object().ok_or_else(no_lock)?;
    match front.store.unlock(&context.caller, object, token).await {
        Ok(()) => Ok(empty_answer(StatusCode::NO_CONTENT)),
        Err(error) if error.kind() == ErrorKind::Precondition => Err(no_lock()),
        Err(error) => Err(error.into()),
    }
}

impl LockInfo {
    fn parse(document: &[u8]) -> Result<Self> {
        let refused = |words: &'static str| DavError::new(StatusCode::BAD_REQUEST, words);
        let root = XmlElement::parse(document)?;
        let scope = root.dav("lockscope");
        let is_write = root
            .dav("locktype")
            .is_some_and(|kind| kind.dav("write").is_some());
        let (Some(scope), true) = (scope, is_write && root.name.is(DAV, "lockinfo")) else {
            return Err(refused("The document does not ask for a write lock."));
        };
        let shared = match (scope.dav("exclusive"), scope.dav("shared")) {
            (Some(_), None) => false,
            (None, Some(_)) => true,
            _ => return Err(refused("A lock is either exclusive or shared.")),
        };
        let mut owner = String::new();
        if let Some(element) = root.dav("owner") {
            push_xml_content(&mut owner, element);
        }
        Ok(Self { shared, owner })
    }
}

/// The time that a client asks for, at most [`LOCK_TIME_MAX`].
fn timeout_of(context: &RequestContext) -> Result<Duration> {
    let Some(text) = header(context.headers(), "timeout")? else {
        return Ok(LOCK_TIME_DEFAULT);
    };
    for wish in text.split(',').map(str::trim) {
        if wish.eq_ignore_ascii_case("infinite") {
            return Ok(LOCK_TIME_MAX);
        }
        let seconds = wish
            .get(..7)
            .filter(|it| it.eq_ignore_ascii_case("second-"));
        if let Some(seconds) = seconds.and_then(|_| wish[7..].parse::<u64>().ok()) {
            return Ok(Duration::from_secs(seconds.max(1)).min(LOCK_TIME_MAX));
        }
    }
    Ok(LOCK_TIME_DEFAULT)
}

/// The answer that shows a lock.
fn discovery_answer(
    front: &Arc<WebDav>,
    object: &ObjectRef,
    lock: &Lock,
    status: StatusCode,
) -> Answer {
    let mut document = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>",
    );
    push_active_lock(&mut document, object, lock, front.env.clock.now());
    document.push_str("</D:lockdiscovery></D:prop>\n");
    typed_answer(status, "application/xml; charset=utf-8", document)
}

/// Appends a lock as an element of `lockdiscovery`.
pub(super) fn push_active_lock(out: &mut String, object: &ObjectRef, lock: &Lock, now: Timestamp) {
    let scope = if lock.shared { "shared" } else { "exclusive" };
    let depth = if lock.deep { "infinity" } else { "0" };
    let seconds = lock.expires.secs().saturating_sub(now.secs());
    let token = lock.token;
    out.push_str("<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:");
    out.push_str(scope);
    out.push_str("/></D:lockscope><D:depth>");
    out.push_str(depth);
    out.push_str("</D:depth>");
    if !lock.owner.is_empty() {
        out.push_str("<D:owner>");
        out.push_str(&lock.owner);
        out.push_str("</D:owner>");
    }
    out.push_str(&format!("<D:timeout>Second-{seconds}</D:timeout>"));
    // The token of another holder is of no use to the caller.
    if lock.is_own {
        out.push_str(&format!(
            "<D:locktoken><D:href>{token}</D:href></D:locktoken>"
        ));
    }
    out.push_str("<D:lockroot>");
    push_href_element(out, &path_of(&object.bucket, &lock.key), false);
    out.push_str("</D:lockroot></D:activelock>");
}

/// A change of a file or of properties.
pub(super) const CHANGED: LockScope = LockScope {
    below: false,
    parent: false,
};

/// A new name in a directory.
pub(super) const ADDED: LockScope = LockScope {
    below: false,
    parent: true,
};

/// A name that gets other content, with what is below it.
pub(super) const REPLACED: LockScope = LockScope {
    below: true,
    parent: false,
};

/// A name that goes, with what is below it.
pub(super) const REMOVED: LockScope = LockScope {
    below: true,
    parent: true,
};

/// Refuses a change that a lock forbids: for each locked name that it concerns, the client must hold
/// one of the locks and submit its token.
///
/// # Errors
/// 423.
pub(super) async fn require_locks(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
    scope: LockScope,
) -> Result<()> {
    let found = front.store.locks(&context.caller, object, scope).await;
    let locks = match found {
        Ok(locks) => locks,
        // The change itself says so.
        Err(error) if error.kind() == ErrorKind::NoSuchBucket => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if locks.is_empty() {
        return Ok(());
    }
    let submitted = IfHeader::of(context.headers())?.unwrap_or_default();
    let submitted: Vec<LockToken> = submitted.tokens().collect();
    let is_submitted = |lock: &Lock| lock.is_own && submitted.contains(&lock.token);
    for lock in &locks {
        let beside = locks.iter().filter(|other| other.key == lock.key);
        if !beside.into_iter().any(is_submitted) {
            let root = path_of(&object.bucket, &lock.key);
            let words = format!("{root} is locked.");
            let refusal = DavError::new(StatusCode::LOCKED, words);
            return Err(refusal.precondition("lock-token-submitted").href(root));
        }
    }
    Ok(())
}

/// Removes the locks of names that are gone. A failure is only noted: the locks end by themselves.
pub(super) async fn remove_locks(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
) {
    if !front.store.has_locks() {
        return;
    }
    if let Err(error) = front.store.remove_locks(&context.caller, object).await {
        tracing::debug!(%error, "locks of a removed name are left until they end");
    }
}
