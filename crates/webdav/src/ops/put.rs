//! PUT.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_http_front::{
    Answer, BodyLength, declared_digests, digest_fields, empty_answer, header, quoted,
    wanted_digest,
};
use dewar_store::api::{ExpectedContent, ObjectRef, VersionAttributes, WriteMode, WriteRequest};
use dewar_store::limits::OBJECT_BYTES_MAX;
use dewar_types::{Error, ErrorKind, Timestamp};
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_RANGE,
    CONTENT_TYPE, ETAG,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::lock::{ADDED, CHANGED, require_locks};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::ARCHIVE_METADATA_BYTES_MAX;

/// The header with the modification time of the content, and that of the answer.
const X_OC_MTIME: &str = "x-oc-mtime";

/// The header with text for a tape archive.
pub(super) const ARCHIVE_METADATA: &str = "archivemetadata";

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
        condition: context.write_condition()?,
        ..WriteRequest::file(object.clone(), WriteMode::Replace)
    };
    // A condition on what exists fails where nothing does (RFC 9110 section 13.1.1).
    let absent: &[ErrorKind] = match request.condition.if_match[..] {
        [_, ..] => &[ErrorKind::NotFound],
        [] => &[],
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
    if info.attributes.client_modified.is_some() {
        // Without it, rclone does not trust the time.
        headers.insert(X_OC_MTIME, HeaderValue::from_static("accepted"));
    }
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
    if !front.store.has_locks() {
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
    attributes.client_modified = client_modified(headers)?;
    attributes.archive_metadata = archive_metadata(headers)?;
    Ok(attributes)
}

/// The modification time that ownCloud's clients and rclone send: seconds since 1970.
///
/// # Errors
/// 400 for anything else.
fn client_modified(headers: &HeaderMap) -> Result<Option<Timestamp>> {
    let Some(text) = header(headers, X_OC_MTIME)? else {
        return Ok(None);
    };
    let text = text.trim();
    let seconds = text.split_once('.').map_or(text, |(whole, _)| whole);
    let seconds = seconds
        .parse::<u64>()
        .ok()
        .filter(|seconds| *seconds <= u64::MAX / 1_000_000_000);
    match seconds {
        Some(seconds) => Ok(Some(Timestamp::from_secs(seconds))),
        None => {
            let words = "The header X-OC-Mtime is no number of seconds since 1970.";
            Err(DavError::new(StatusCode::BAD_REQUEST, words))
        }
    }
}

/// The text for a tape archive.
///
/// # Errors
/// 400 for text that is longer than [`ARCHIVE_METADATA_BYTES_MAX`] or no JSON in base64.
pub(super) fn archive_metadata(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(text) = header(headers, ARCHIVE_METADATA)?.map(str::trim) else {
        return Ok(None);
    };
    let json = STANDARD.decode(text).ok();
    let is_json =
        json.is_some_and(|json| serde_json::from_slice::<serde_json::Value>(&json).is_ok());
    if text.len() > ARCHIVE_METADATA_BYTES_MAX || !is_json {
        let words = "The header ArchiveMetadata is not JSON in base64 of at most 1,024 bytes.";
        return Err(DavError::new(StatusCode::BAD_REQUEST, words));
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().expect("a value"));
        headers
    }

    #[test]
    fn times_and_archive_metadata_are_checked() {
        let time = |text: &str| client_modified(&one(X_OC_MTIME, text)).ok().flatten();
        assert_eq!(
            time("1700000000"),
            Some(Timestamp::from_secs(1_700_000_000))
        );
        assert_eq!(time("12.75"), Some(Timestamp::from_secs(12)));
        for wrong in ["", "-1", "today", "18446744074"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        let archive = |text: &str| {
            archive_metadata(&one(ARCHIVE_METADATA, text))
                .ok()
                .flatten()
        };
        let valid = STANDARD.encode("{\"file\":1}");
        assert_eq!(archive(&valid), Some(valid));
        let long = STANDARD.encode(format!("{{\"a\":\"{}\"}}", "x".repeat(800)));
        for wrong in ["", "{}", "e30", "e30=}", &STANDARD.encode("{"), &long] {
            assert_eq!(archive(wrong), None, "{wrong}");
        }
    }
}
