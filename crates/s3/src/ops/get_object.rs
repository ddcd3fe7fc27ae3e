//! GetObject.

use dewar_http_front::{
    Answer, content_range, download_answer, header, http_date, parse_range, quoted, read_condition,
    unsatisfied_range, value_of,
};
use dewar_store::api::{DeleteMarkerError, GetRequest, IfRange, ObjectInfo, ReadCondition};
use dewar_types::{ByteRange, Error, ErrorKind};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::door::{Door, RequestContext};
use crate::error::{Code, Refusal, Result};
use crate::limits::PART_NUMBER_MAX;
use crate::wire::{
    checksum_headers, customer_key, encryption_headers, object_headers, part_checksum_headers,
};

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let request = read_request(context)?;
    let partial = PartialRead::of(&request);
    let download = match door.store.get(&context.caller, request).await {
        Ok(download) => download,
        Err(error) => return Err(explain(door, context, error).await),
    };
    let (status, headers) = head(context, &download.info, download.range, &partial)?;
    let mut answer = download_answer(download).await?;
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// Whether an answer is about a part of its object.
pub(super) struct PartialRead {
    part: bool,
    range: bool,
    /// If this condition fails, the range is ignored and the whole object is sent.
    if_range: Option<IfRange>,
}

impl PartialRead {
    /// The parameters of a request.
    pub(super) fn of(request: &GetRequest) -> Self {
        Self {
            part: request.part.is_some(),
            range: request.range.is_some(),
            if_range: request.condition.if_range.clone(),
        }
    }

    fn is_of(&self, info: &ObjectInfo) -> bool {
        let held = self.if_range.as_ref();
        let counts = held.is_none_or(|held| held.holds(&info.etag, info.modified));
        self.part || (self.range && counts)
    }
}

/// The parameters of a GET or HEAD.
pub(super) fn read_request(context: &RequestContext) -> Result<GetRequest> {
    let headers = context.headers();
    let part = context.number("partNumber", 1..=PART_NUMBER_MAX)?;
    let range = header(headers, RANGE.as_str())?;
    if part.is_some() && range.is_some() {
        let message = "Cannot specify both Range header and partNumber query parameter";
        return Err(Refusal::new(Code::InvalidRequest, message));
    }
    Ok(GetRequest {
        object: context.object()?,
        version: context.version()?,
        range: range.and_then(parse_range),
        part,
        condition: read_condition(headers)?,
        customer_key: customer_key(context)?,
    })
}

/// Status and headers of an answer with `range` of an object, or of the answer to its HEAD.
pub(super) fn head(
    context: &RequestContext,
    info: &ObjectInfo,
    range: ByteRange,
    partial: &PartialRead,
) -> Result<(StatusCode, HeaderMap)> {
    let mut headers = object_headers(info);
    encryption_headers(&mut headers, info.encrypted, context.headers());
    override_headers(context, &mut headers)?;
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.len()));
    let asked = header(context.headers(), "x-amz-checksum-mode")?;
    let whole = range.len() == info.size;
    if asked.is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED")) {
        // What is shown is always of the bytes that go out: clients hold it against them.
        match &info.part_checksum {
            Some(digest) => part_checksum_headers(&mut headers, digest, info.checksum.as_ref()),
            None if whole => checksum_headers(&mut headers, info.checksum.as_ref()),
            None => {}
        }
    }
    if !partial.is_of(info) {
        return Ok((StatusCode::OK, headers));
    }
    if context.query.has("partNumber")
        && let Some(parts) = info.parts
    {
        headers.insert("x-amz-mp-parts-count", HeaderValue::from(parts));
    }
    if range.is_empty() {
        // Part 1 of an empty object: there is no range that could be named.
        return Ok((StatusCode::OK, headers));
    }
    headers.insert(CONTENT_RANGE, content_range(range, info.size));
    Ok((StatusCode::PARTIAL_CONTENT, headers))
}

/// `response-…` parameters replace headers of the answer, for signed requests only.
fn override_headers(context: &RequestContext, headers: &mut HeaderMap) -> Result<()> {
    for (name, target) in [
        ("response-cache-control", CACHE_CONTROL),
        ("response-content-disposition", CONTENT_DISPOSITION),
        ("response-content-encoding", CONTENT_ENCODING),
        ("response-content-language", CONTENT_LANGUAGE),
        ("response-content-type", CONTENT_TYPE),
        ("response-expires", EXPIRES),
    ] {
        let Some(text) = context.query.get(name) else {
            continue;
        };
        if context.caller.user().is_none() {
            let message = "Request specific response headers cannot be used for anonymous GET \
                           requests.";
            return Err(Refusal::new(Code::InvalidRequest, message));
        }
        let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
            let message = format!("{name} cannot stand in a header.");
            Refusal::new(Code::InvalidArgument, message).element("ArgumentName", name)
        })?;
        headers.insert(target, value);
    }
    Ok(())
}

/// Refusals with information about the object: the headers that a 304 must repeat, and the object's
/// size for an invalid range.
pub(super) async fn explain(door: &Door, context: &RequestContext, error: Error) -> Refusal {
    let kind = error.kind();
    if matches!(kind, ErrorKind::NotFound | ErrorKind::DeleteMarker) {
        return absent(error);
    }
    let refusal = match kind {
        // As Ceph answers; Amazon says 416 InvalidPartNumber.
        ErrorKind::InvalidPart => Refusal::new(
            Code::InvalidPart,
            "The requested partnumber is not satisfiable",
        ),
        _ => Refusal::from(error),
    };
    if !matches!(kind, ErrorKind::NotModified | ErrorKind::InvalidRange) {
        return refusal;
    }
    let Ok(object) = context.object() else {
        return refusal;
    };
    let plain = GetRequest {
        object,
        version: context.version().unwrap_or_default(),
        range: None,
        part: None,
        condition: ReadCondition::default(),
        customer_key: customer_key(context).ok().flatten(),
    };
    let Ok((info, _)) = door.store.head(&context.caller, plain).await else {
        return refusal;
    };
    if kind == ErrorKind::InvalidRange {
        return refusal
            .element("ActualObjectSize", info.size.to_string())
            .header(CONTENT_RANGE, unsatisfied_range(info.size));
    }
    // RFC 9110 section 15.4.5: what a cache takes over from it.
    let kept = [
        (CACHE_CONTROL, info.attributes.headers.cache_control),
        (EXPIRES, info.attributes.headers.expires),
    ];
    let refusal = refusal
        .header(ETAG, quoted(&info.etag))
        .header(LAST_MODIFIED, value_of(&http_date(info.modified)));
    let kept = kept.into_iter();
    kept.fold(refusal, |refusal, (name, value)| match value {
        Some(value) => refusal.header(name, value_of(&value)),
        None => refusal,
    })
}

/// The error for a missing object, or for a delete marker with its time.
pub(super) fn absent(error: Error) -> Refusal {
    let marker = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    let marker: Option<DeleteMarkerError> = marker.copied();
    let named = error.kind() == ErrorKind::DeleteMarker;
    let mut refusal = Refusal::from(error);
    let text = if marker.is_some() { "true" } else { "false" };
    refusal = refusal.header(
        HeaderName::from_static("x-amz-delete-marker"),
        HeaderValue::from_static(text),
    );
    if let Some(marker) = marker {
        let name = HeaderName::from_static("x-amz-version-id");
        refusal = refusal.header(name, value_of(&marker.name.to_string()));
    }
    if named {
        refusal = refusal.header(ALLOW, HeaderValue::from_static("DELETE"));
    }
    refusal
}
