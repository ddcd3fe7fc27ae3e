//! GET and HEAD.

use std::sync::Arc;

use dewar_checksum::{Algorithm, Digest};
use dewar_http_front::{
    Answer, DigestFields, byteranges_answer, content_range, digest_fields, download_answer,
    empty_answer, header, http_date, merge_ranges, parse_ranges, quoted, read_condition,
    unsatisfied_range, value_of, wanted_digest, wanted_digests,
};
use dewar_store::ContentReader;
use dewar_store::api::{GetRequest, ObjectInfo, ObjectRef, ReadCondition};
use dewar_store::file::{Node, PathTarget};
use dewar_types::{ByteRange, Error, ErrorKind, RangeSpec, VersionId};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, EXPIRES,
    LAST_MODIFIED, RANGE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::browse;
use super::put::ARCHIVE_METADATA;
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::{DIGEST_WAIT, PART_TYPE_BYTES_MAX, RANGES_MAX, RETRY_AFTER_SECS};

/// The media type of content that has none.
pub(super) const OCTETS: &str = "application/octet-stream";

/// Attempts of a HEAD to show a file and its digest of one version.
const DIGEST_ATTEMPTS_MAX: usize = 4;

/// The bytes of the file that a request asks for.
enum WantedBytes {
    All,
    One(RangeSpec),
    Several(Vec<RangeSpec>),
}

pub(super) async fn get(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    let Some(object) = context.path.object() else {
        return browse::call(front, context).await;
    };
    let headers = context.headers();
    let digests = wanted_digests(headers)?;
    let ranges = header(headers, RANGE.as_str())?.and_then(|text| parse_ranges(text, RANGES_MAX));
    let wanted = match ranges {
        None => WantedBytes::All,
        Some(specs) => match specs[..] {
            [spec] => WantedBytes::One(spec),
            _ => WantedBytes::Several(specs),
        },
    };
    let request = GetRequest {
        range: match wanted {
            WantedBytes::One(spec) => Some(spec),
            WantedBytes::All | WantedBytes::Several(_) => None,
        },
        condition: read_condition(headers)?,
        ..GetRequest::whole(object.clone())
    };
    let if_range = request.condition.if_range.clone();
    let counts = |info: &ObjectInfo| {
        let held = if_range.as_ref();
        held.is_none_or(|held| held.holds(&info.etag, info.modified))
    };
    let store = &front.store;
    if let WantedBytes::Several(specs) = &wanted {
        let opened = store.open_file(&context.caller, request.clone()).await;
        let file = match opened {
            Ok(file) => file,
            Err(error) => return absent_or_directory(front, context, object, error).await,
        };
        if counts(&file.info) {
            return several(front, file, specs, &digests).await;
        }
    }
    let download = match store.get(&context.caller, request).await {
        Ok(download) => download,
        Err(error) => return absent_or_directory(front, context, object, error).await,
    };
    let (info, range) = (&download.info, download.range);
    let mut headers = file_headers(info);
    push_known_digest(info, &digests, &mut headers);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
    let partial = matches!(wanted, WantedBytes::One(_)) && counts(info);
    let mut status = StatusCode::OK;
    if partial {
        headers.insert(CONTENT_RANGE, content_range(range, info.size));
        status = StatusCode::PARTIAL_CONTENT;
    }
    let mut answer = download_answer(download).await?;
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// The answer with several ranges of a file.
async fn several(
    front: &Arc<WebDav>,
    file: ContentReader,
    specs: &[RangeSpec],
    digests: &(Vec<Algorithm>, DigestFields),
) -> Result<Answer> {
    let size = file.info.size;
    let ranges: Vec<ByteRange> = merge_ranges(specs, size);
    if ranges.is_empty() {
        let outside = Error::new(ErrorKind::InvalidRange, "no byte lies in the ranges");
        return Err(DavError::from(outside).header(CONTENT_RANGE, unsatisfied_range(size)));
    }
    let mut headers = file_headers(&file.info);
    push_known_digest(&file.info, digests, &mut headers);
    let kind = file.info.attributes.headers.content_type.clone();
    // It stands in the head of each range.
    let kind =
        kind.filter(|kind| kind.len() <= PART_TYPE_BYTES_MAX && !kind.contains(['\r', '\n']));
    let mut random = [0; 16];
    front.env.rng.fill(&mut random);
    let boundary = dewar_sigv4::hex(&random);
    let kind = kind.as_deref().unwrap_or(OCTETS);
    let mut answer = byteranges_answer(file, &ranges, kind, &boundary).await?;
    headers.remove(CONTENT_TYPE);
    let own = std::mem::replace(answer.headers_mut(), headers);
    answer.headers_mut().extend(own);
    Ok(answer)
}

pub(super) async fn head(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    let object = match &context.path.target {
        PathTarget::Root => {
            browse::require_user(context)?;
            return Ok(directory_head());
        }
        PathTarget::Bucket(bucket) => {
            front.store.stat_bucket(&context.caller, bucket).await?;
            return Ok(directory_head());
        }
        PathTarget::Object(object) => object,
    };
    let digest = wanted_digest(context.headers())?;
    let request = GetRequest {
        condition: read_condition(context.headers())?,
        ..GetRequest::whole(object.clone())
    };
    let (info, digest) = match head_with_digest(front, context, request, digest).await? {
        Ok(found) => found,
        Err(error) => return absent_or_directory(front, context, object, error).await,
    };
    let mut headers = file_headers(&info);
    if let Some((digest, fields)) = digest {
        digest_fields(&mut headers, &digest, fields);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(info.size));
    let mut answer = empty_answer(StatusCode::OK);
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// The head of the answer to a request for a directory.
pub(super) fn directory_head() -> Answer {
    let mut answer = empty_answer(StatusCode::OK);
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// The answer when a file cannot be read: that of the directory with its name, or the error with what
/// the client must know about the file.
async fn absent_or_directory(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
    error: Error,
) -> Result<Answer> {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::IsADirectory => {
            match front.store.stat(&context.caller, object).await {
                Ok(Node::Directory(_)) => browse::call(front, context).await,
                _ => Err(error.into()),
            }
        }
        kind @ (ErrorKind::NotModified | ErrorKind::InvalidRange) => {
            let whole = GetRequest {
                condition: ReadCondition::default(),
                ..GetRequest::whole(object.clone())
            };
            let info = front.store.head(&context.caller, whole).await;
            let refusal = DavError::from(error);
            Err(match (info, kind) {
                (Ok((info, _)), ErrorKind::InvalidRange) => {
                    refusal.header(CONTENT_RANGE, unsatisfied_range(info.size))
                }
                (Ok((info, _)), _) => refusal
                    .header(ETAG, quoted(&info.etag))
                    .header(LAST_MODIFIED, value_of(&http_date(info.modified))),
                (Err(_), _) => refusal,
            })
        }
        _ => Err(error.into()),
    }
}

/// Headers about a file. A browser must neither guess its type nor run it with the rights of this
/// service.
fn file_headers(info: &ObjectInfo) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let stored = &info.attributes.headers;
    for (name, value) in [
        (CACHE_CONTROL, &stored.cache_control),
        (CONTENT_DISPOSITION, &stored.content_disposition),
        (CONTENT_ENCODING, &stored.content_encoding),
        (CONTENT_LANGUAGE, &stored.content_language),
        (EXPIRES, &stored.expires),
    ] {
        if let Some(value) = value {
            headers.insert(name, value_of(value));
        }
    }
    if let Some(archive) = &info.attributes.archive_metadata {
        headers.insert(ARCHIVE_METADATA, value_of(archive));
    }
    let kind = stored.content_type.as_deref().unwrap_or(OCTETS);
    headers.insert(CONTENT_TYPE, value_of(kind));
    headers.insert(ETAG, quoted(&info.etag));
    headers.insert(LAST_MODIFIED, value_of(&http_date(info.modified)));
    for (name, value) in [
        (ACCEPT_RANGES, "bytes"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

/// Adds the digest that the client prefers among those that are known of the version that is sent.
fn push_known_digest(
    info: &ObjectInfo,
    (wanted, fields): &(Vec<Algorithm>, DigestFields),
    headers: &mut HeaderMap,
) {
    let mut known = wanted.iter().filter_map(|it| info.digests.get(*it));
    if let Some(digest) = known.next() {
        digest_fields(headers, &digest, *fields);
    }
}

/// A file with the digest that the client asked for, both of the same version. A digest that the version
/// lacks is computed, for at most [`DIGEST_WAIT`]. A client would take an answer without a digest for a
/// server without digests.
async fn head_with_digest(
    front: &Arc<WebDav>,
    context: &RequestContext,
    request: GetRequest,
    wanted: Option<(Algorithm, DigestFields)>,
) -> Result<Result<(ObjectInfo, Option<(Digest, DigestFields)>), Error>> {
    let (store, caller) = (&front.store, &context.caller);
    let object = request.object.clone();
    let mut computed: Option<(VersionId, Digest)> = None;
    for _ in 0..DIGEST_ATTEMPTS_MAX {
        let info = match store.head(caller, request.clone()).await {
            Ok((info, _)) => info,
            Err(error) => return Ok(Err(error)),
        };
        let Some((algorithm, fields)) = wanted else {
            return Ok(Ok((info, None)));
        };
        let of_version = computed.filter(|(version, _)| *version == info.version);
        let of_version = of_version.map(|(_, digest)| digest);
        if let Some(digest) = info.digests.get(algorithm).or(of_version) {
            return Ok(Ok((info, Some((digest, fields)))));
        }
        let digest = store.digest(caller, &object, algorithm);
        let digest = tokio::time::timeout(DIGEST_WAIT, digest).await;
        computed = Some((info.version, digest.map_err(|_| not_computed())??));
    }
    // It is replaced all the time.
    Err(not_computed())
}

fn not_computed() -> DavError {
    let words = "The digest is not computed yet. Please try again later.";
    DavError::new(StatusCode::SERVICE_UNAVAILABLE, words)
        .header(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECS))
}
