//! A request as the verbs see it: verified, addressed, its body decoded.

use std::sync::Arc;

use dewar_auth::Caller;
use dewar_http_front::{BudgetHolder, DocumentBudget, DocumentReservation, header};
use dewar_sigv4::Query;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_types::VersionName;
use http::HeaderMap;
use http::request::Parts;

use super::address::Address;
use super::no_room;
use crate::error::{Code, Refusal, Result};
use crate::limits::{UNSIGNED_XML_BODY_BYTES_MAX, XML_BODY_BYTES_MAX};
use crate::payload::{BodyHead, PayloadMode, RequestBody};
use crate::wire::{DeclaredDigests, verify_small, version_named};

/// A request with a verified signature, or without one. Only this module creates them.
pub(crate) struct RequestContext {
    pub(crate) caller: Caller,
    address: Address,
    pub(crate) query: Query,
    pub(crate) head: Arc<Parts>,
    pub(crate) body_head: BodyHead,
    mode: PayloadMode,
    pub(crate) body: Option<RequestBody>,
    pub(crate) request_id: String,
    documents: Arc<DocumentBudget>,
    /// For a document that was read, until the request ends.
    room: Option<DocumentReservation>,
}

impl RequestContext {
    #[allow(
        clippy::too_many_arguments,
        reason = "made in one place, from all that was found out"
    )]
    pub(super) fn new(
        caller: Caller,
        address: Address,
        query: Query,
        head: Arc<Parts>,
        body_head: BodyHead,
        mode: PayloadMode,
        body: Option<RequestBody>,
        request_id: &str,
        documents: &Arc<DocumentBudget>,
    ) -> Self {
        Self {
            caller,
            address,
            query,
            head,
            body_head,
            mode,
            body,
            request_id: request_id.to_owned(),
            documents: Arc::clone(documents),
            room: None,
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The bucket that the request is about.
    pub(crate) fn bucket(&self) -> Result<BucketRef> {
        let bucket = self.address.bucket().cloned();
        bucket.ok_or_else(|| Refusal::new(Code::InvalidRequest, "The request names no bucket."))
    }

    /// The object that the request is about.
    pub(crate) fn object(&self) -> Result<ObjectRef> {
        match (self.address.bucket(), self.address.key()) {
            (Some(bucket), Some(key)) => Ok(ObjectRef {
                bucket: bucket.clone(),
                key: key.clone(),
            }),
            _ => Err(Refusal::new(
                Code::InvalidRequest,
                "The request names no object.",
            )),
        }
    }

    /// The full address of the request, as its client wrote it: scheme, host and path. Only the
    /// path if the request has no host.
    pub(crate) fn location(&self) -> String {
        let path = self.head.uri.path();
        let host = self.headers().get(http::header::HOST);
        let host = host.and_then(|value| value.to_str().ok());
        let host = host.or_else(|| self.head.uri.authority().map(http::uri::Authority::as_str));
        let scheme = match self.caller.origin().secure {
            true => "https",
            false => "http",
        };
        host.map_or_else(
            || path.to_owned(),
            |host| format!("{scheme}://{host}{path}"),
        )
    }

    /// The version that the request names.
    ///
    /// # Errors
    /// `InvalidArgument` for malformed text.
    pub(crate) fn version(&self) -> Result<Option<VersionName>> {
        self.query.get("versionId").map(version_named).transpose()
    }

    /// Whether the caller asks to bypass governance retention.
    pub(crate) fn bypasses(&self) -> Result<bool> {
        let value = header(self.headers(), "x-amz-bypass-governance-retention")?;
        Ok(value.is_some_and(|value| value.eq_ignore_ascii_case("true")))
    }

    /// The body, once.
    pub(crate) fn take_body(&mut self) -> Result<RequestBody> {
        let body = self.body.take();
        body.ok_or_else(|| Refusal::new(Code::InternalError, "the body was read twice"))
    }

    /// Refuses a write without a length.
    ///
    /// # Errors
    /// `MissingContentLength`.
    pub(crate) fn need_length(&self) -> Result<()> {
        let head = self.body_head;
        if head.content_length.is_some() || head.transfer_chunked {
            return Ok(());
        }
        let message = "You must provide the Content-Length HTTP header.";
        Err(Refusal::new(Code::MissingContentLength, message))
    }

    /// The whole body of a request with XML, verified against every digest that it declares. It is
    /// in memory before the caller's rights are checked. So anonymous callers get little memory,
    /// each account has a share, and the memory of all callers together is limited.
    ///
    /// # Errors
    /// `MaxMessageLengthExceeded`, `AccessDenied` and `SlowDown` when there is no memory left,
    /// `BadDigest`, and those of [`RequestBody::next`]; `InvalidRequest` when `must_declare` is set
    /// and the body has no digest.
    pub(crate) async fn document(&mut self, must_declare: bool) -> Result<bytes::Bytes> {
        let declared = DeclaredDigests::read(self.headers())?;
        self.document_with(&declared, must_declare).await
    }

    /// The same, for requests whose `x-amz-checksum-` headers are not about the body: those of
    /// CompleteMultipartUpload are about the object.
    ///
    /// # Errors
    /// As [`RequestContext::document`].
    pub(crate) async fn document_beside_checksums(&mut self) -> Result<bytes::Bytes> {
        let declared = DeclaredDigests::read_md5(self.headers())?;
        self.document_with(&declared, false).await
    }

    async fn document_with(
        &mut self,
        declared: &DeclaredDigests,
        must_declare: bool,
    ) -> Result<bytes::Bytes> {
        if must_declare && !declared.is_any() && !matches!(self.mode, PayloadMode::Exact(_)) {
            return Err(Refusal::new(
                Code::InvalidRequest,
                "Missing required header for this request: Content-MD5 OR x-amz-checksum-*",
            ));
        }
        let anonymous = self.caller.user().is_none();
        let limit = if anonymous {
            UNSIGNED_XML_BODY_BYTES_MAX
        } else {
            XML_BODY_BYTES_MAX
        };
        let mut body = self.take_body()?;
        let announced = body
            .length()
            .map_or(limit, |length| usize::try_from(length).unwrap_or(limit));
        self.room = Some(self.document_room(announced.min(limit))?);
        let bytes = body.collect(limit).await.map_err(|refusal| {
            if anonymous && refusal.code() == Code::MaxMessageLengthExceeded {
                Refusal::new(Code::AccessDenied, "Access Denied")
            } else {
                refusal
            }
        })?;
        verify_small(declared, &bytes, body.trailers())?;
        Ok(bytes)
    }

    fn document_room(&self, bytes: usize) -> Result<DocumentReservation> {
        let room = self.documents.room(BudgetHolder::of(&self.caller), bytes);
        room.ok_or_else(no_room)
    }

    /// A number in the query string.
    ///
    /// # Errors
    /// `InvalidArgument` when it is malformed or not in `range`.
    pub(crate) fn number(
        &self,
        name: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>> {
        let Some(text) = self.query.get(name) else {
            return Ok(None);
        };
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = text.parse().ok().filter(|n| digits && range.contains(n));
        number.map(Some).ok_or_else(|| {
            let message = format!(
                "Argument {name} must be an integer between {} and {}",
                range.start(),
                range.end()
            );
            Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", name)
                .element("ArgumentValue", text)
        })
    }

    /// Whether listings are to be URL-encoded.
    ///
    /// # Errors
    /// `InvalidArgument` for another encoding.
    pub(crate) fn url_encoding(&self) -> Result<bool> {
        match self.query.get("encoding-type") {
            None | Some("") => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("url") => Ok(true),
            Some(text) => Err(Refusal::new(
                Code::InvalidArgument,
                "Invalid Encoding Method specified in Request",
            )
            .element("ArgumentName", "encoding-type")
            .element("ArgumentValue", text)),
        }
    }
}
