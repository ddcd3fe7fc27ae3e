//! A request as the methods see it: the caller is known, the path is parsed.

use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{Caller, Origin};
use dewar_http_front::{
    BodyReader, BudgetHolder, DocumentBudget, DocumentReservation, WireBody, announced_length,
    header, transfer_chunked, write_condition_at,
};
use dewar_store::api::{ETagMatch, WriteCondition};
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use crate::error::{DavError, Result};
use crate::limits::ANONYMOUS_DOCUMENT_BYTES_MAX;
use crate::resource_path::ResourcePath;

/// A request. Only the front makes one, after it has determined the caller.
pub(crate) struct RequestContext {
    pub(crate) caller: Caller,
    pub(crate) head: Arc<Parts>,
    pub(crate) path: ResourcePath,
    pub(crate) origin: Origin,
    pub(crate) body: Option<WireBody>,
    pub(crate) documents: Arc<DocumentBudget>,
    /// The entity tag that the header `If` requires of the path.
    pub(crate) required_etag: Option<String>,
    /// For a document that was read, until the request ends.
    pub(crate) reservation: Option<DocumentReservation>,
}

/// How many levels below a directory a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Zero,
    One,
    Infinity,
}

impl RequestContext {
    /// The same without the body, for work that outlives the head of the answer.
    pub(crate) fn without_body(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            head: Arc::clone(&self.head),
            path: self.path.clone(),
            origin: self.origin,
            body: None,
            documents: Arc::clone(&self.documents),
            required_etag: self.required_etag.clone(),
            reservation: None,
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The `Depth` of the request; infinity without one, as RFC 4918 has it.
    ///
    /// # Errors
    /// 400 for another value.
    pub(crate) fn depth(&self) -> Result<Depth> {
        match header(self.headers(), "depth")?.map(str::trim) {
            None => Ok(Depth::Infinity),
            Some("0") => Ok(Depth::Zero),
            Some("1") => Ok(Depth::One),
            Some(text) if text.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
            Some(_) => Err(DavError::new(
                StatusCode::BAD_REQUEST,
                "The header Depth is not 0, 1 or infinity.",
            )),
        }
    }

    /// The conditions of a change of the path: those of the headers, and the entity tag that `If`
    /// requires.
    ///
    /// # Errors
    /// 400 for a malformed header.
    pub(crate) fn write_condition(&self) -> Result<WriteCondition> {
        let mut condition = write_condition_at(self.headers(), "")?;
        if let Some(etag) = &self.required_etag
            && condition.if_match.is_empty()
        {
            condition.if_match.push(ETagMatch::Is(etag.clone()));
        }
        Ok(condition)
    }

    /// Whether `Overwrite` lets the request replace what is at its destination. That is the default.
    ///
    /// # Errors
    /// 400 for another value than `T` and `F`.
    pub(crate) fn overwrites(&self) -> Result<bool> {
        match header(self.headers(), "overwrite")?.map(str::trim) {
            None | Some("T" | "t") => Ok(true),
            Some("F" | "f") => Ok(false),
            Some(_) => Err(DavError::new(
                StatusCode::BAD_REQUEST,
                "The header Overwrite is not T or F.",
            )),
        }
    }

    /// The length of the body; `None` for a body in chunks. A request without either has no body.
    ///
    /// # Errors
    /// 400 for a malformed length, 501 for another transfer coding.
    pub(crate) fn body_length(&self) -> Result<Option<u64>> {
        if transfer_chunked(self.headers())? {
            return Ok(None);
        }
        let length = announced_length(self.headers(), "content-length")?;
        Ok(Some(length.unwrap_or_default()))
    }

    /// The reader of the body, once.
    ///
    /// # Errors
    /// 500 for a second call.
    pub(crate) fn take_body(&mut self) -> Result<BodyReader> {
        let body = self.body.take().map(BodyReader::new);
        body.ok_or_else(|| {
            DavError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The server has a defect.",
            )
        })
    }

    /// The whole body, a document of at most `max` bytes. The memory of all documents is limited, and
    /// so is the share of each account.
    ///
    /// # Errors
    /// 413 for a longer document, 503 when the caller's share of memory is in use, and those of
    /// [`BodyReader::next`].
    pub(crate) async fn document(&mut self, max: usize) -> Result<Bytes> {
        let max = match self.caller.user() {
            Some(_) => max,
            None => max.min(ANONYMOUS_DOCUMENT_BYTES_MAX),
        };
        let announced = self.body_length()?;
        if announced == Some(0) {
            return Ok(Bytes::new());
        }
        let bytes = announced.and_then(|length| usize::try_from(length).ok());
        let holder = BudgetHolder::of(&self.caller);
        let reserved = self.documents.room(holder, bytes.unwrap_or(max).min(max));
        self.reservation = Some(reserved.ok_or_else(|| DavError::later(1))?);
        if announced.is_some_and(|length| length > max as u64) {
            let words = format!("The document is longer than {max} bytes.");
            return Err(DavError::new(StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        Ok(self.take_body()?.collect(max).await?)
    }
}
