//! PUT.

use std::sync::Arc;

use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_http_front::{
    Answer, BodyLength, declared_digests, digest_fields, empty_answer, header, quoted,
    wanted_digest, write_condition_at,
};
use dewar_store::api::{ExpectedContent, ObjectRef, VersionAttributes, WriteMode, WriteRequest};
use dewar_store::limits::OBJECT_BYTES_MAX;
use dewar_types::{Error, ErrorKind};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE,
    CONTENT_TYPE, ETAG,
};
use http::{HeaderMap, StatusCode};

use super::lock::{ADDED, CHANGED, require_locks};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;

/// The header with a digest that clients of ownCloud send.
const OC_CHECKSUM: &str = "oc-checksum";

pub(super) async fn call(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    if context.headers().contains_key(CONTENT_RANGE) {
        // RFC 9110 section 14.5. A server that ignored it would store a part as the whole.
        let words = "A PUT with Content-Range is not supported: send the whole file.";
        return Err(DavError::new(StatusCode::BAD_REQUEST, words));
    }
    let object = context.path.object().cloned();
    let Some(object) = object.filter(|_| !context.path.of_directory) else {
        let error = Error::new(ErrorKind::IsADirectory, "The path names a directory.");
        return Err(error.into());
    };
    check_locks(front, context, &object).await?;
    let digests = declared_digests(context.headers())?;
    let wanted = wanted_digest(context.headers())?;
    let named = digests.iter().map(dewar_checksum::Digest::algorithm);
    let named = named.chain(wanted.map(|(algorithm, _)| algorithm));
    // A client of ownCloud sends one digest, and later compares the MD5 if it can compute that.
    let of_cloud = context.headers().contains_key(OC_CHECKSUM);
    let of_cloud = of_cloud.then_some([Algorithm::Sha1, Algorithm::Md5]);
    let named = named.chain(of_cloud.into_iter().flatten());
    let size = context.body_length()?;
    let mut length = BodyLength::new(size, OBJECT_BYTES_MAX)?;
    let request = WriteRequest {
        size,
        attributes: attributes_of(context.headers())?,
        keep_extended: true,
        want: named.fold(AlgorithmSet::EMPTY, AlgorithmSet::with),
        condition: write_condition_at(context.headers(), "")?,
        ..WriteRequest::file(object.clone(), WriteMode::Replace)
    };
    // A condition on what exists fails where nothing does (RFC 9110 section 13.1.1).
    let absent: &[ErrorKind] = match request.condition.if_match {
        Some(_) => &[ErrorKind::NotFound],
        None => &[],
    };
    let refused = |error: Error| {
        DavError::from(error).with_status_for(absent, StatusCode::PRECONDITION_FAILED)
    };
    // The store refuses before a byte of the body is read.
    let begun = front.store.write(&context.caller, request).await;
    let mut upload = begun.map_err(refused)?;
    let mut body = context.take_body()?;
    while let Some(bytes) = body.next().await? {
        length.count(bytes.len())?;
        upload.write(bytes).await?;
    }
    length.finish()?;
    // Another client may have locked it while the body came.
    check_locks(front, context, &object).await?;
    let expected = ExpectedContent {
        size: Some(length.received()),
        digests,
    };
    let info = upload.commit(expected).await.map_err(refused)?;
    let mut answer = empty_answer(match info.replaces {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    });
    let headers = answer.headers_mut();
    headers.insert(ETAG, quoted(&info.etag));
    if let Some((algorithm, fields)) = wanted
        && let Some(digest) = info.digests.get(algorithm)
    {
        digest_fields(headers, &digest, fields);
    }
    Ok(answer)
}

/// Checks the locks of a file that is to be written.
///
/// # Errors
/// As [`require_locks`].
pub(super) async fn check_locks(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
) -> Result<()> {
    if !front.store.has_locks().await? {
        return Ok(());
    }
    let exists = front.store.stat(&context.caller, object).await.is_ok();
    let scope = if exists { CHANGED } else { ADDED };
    require_locks(front, context, object, scope).await
}

/// The headers that a GET sends again.
fn attributes_of(headers: &HeaderMap) -> Result<VersionAttributes> {
    let text = |name: http::HeaderName| {
        let value = header(headers, name.as_str())?;
        Ok::<_, DavError>(value.map(str::to_owned))
    };
    let mut attributes = VersionAttributes::default();
    let stored = &mut attributes.headers;
    stored.content_type = text(CONTENT_TYPE)?;
    stored.cache_control = text(CACHE_CONTROL)?;
    stored.content_disposition = text(CONTENT_DISPOSITION)?;
    stored.content_encoding = text(CONTENT_ENCODING)?;
    stored.content_language = text(CONTENT_LANGUAGE)?;
    Ok(attributes)
}
