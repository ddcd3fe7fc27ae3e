//! Answers: heads with an empty, a whole or a streaming body.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use dewar_types::Error;
use futures_util::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::error::{Code, Refusal, Result};

/// An answer of a verb.
pub(crate) type Answer = Response<AnswerBody>;

type Bodies = Pin<Box<dyn Stream<Item = std::result::Result<Bytes, Error>> + Send>>;

/// The body of an answer.
pub struct AnswerBody(Kind);

enum Kind {
    Empty,
    Full(Bytes),
    Stream(Bodies),
}

impl AnswerBody {
    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// These bytes.
    #[must_use]
    pub fn full(bytes: Bytes) -> Self {
        Self(if bytes.is_empty() {
            Kind::Empty
        } else {
            Kind::Full(bytes)
        })
    }

    /// A body from a stream. An error breaks the connection off, so that no
    /// client takes a truncated body for a whole one.
    pub(crate) fn stream(
        stream: impl Stream<Item = std::result::Result<Bytes, Error>> + Send + 'static,
    ) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }

    /// The empty body of an answer to HEAD.
    #[must_use]
    pub(super) fn without_content(self) -> Self {
        Self::empty()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Error>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Stream(stream) => stream.as_mut().poll_next(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer without a body.
pub(crate) fn empty_answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::empty());
    *answer.status_mut() = status;
    answer
}

/// An answer whose whole body is at hand.
pub(crate) fn full_answer(bytes: Bytes) -> Answer {
    Response::new(AnswerBody::full(bytes))
}

/// An answer with a streaming body. The caller sets the length in the head.
pub(crate) fn stream_answer(
    status: StatusCode,
    stream: impl Stream<Item = std::result::Result<Bytes, Error>> + Send + 'static,
) -> Answer {
    let mut answer = Response::new(AnswerBody::stream(stream));
    *answer.status_mut() = status;
    answer
}

/// An answer with XML that is text already.
pub(crate) fn text_answer(status: StatusCode, xml: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(AnswerBody::full(xml.into()));
    *answer.status_mut() = status;
    let xml = HeaderValue::from_static("application/xml");
    answer.headers_mut().insert(CONTENT_TYPE, xml);
    answer
}

/// An answer with one of S3's documents.
pub(crate) fn xml_answer(document: &impl s3s::xml::Serialize) -> Result<Answer> {
    Ok(text_answer(StatusCode::OK, xml_text(document, true)?))
}

/// A document as XML text, with or without the declaration. Control characters in a key are written
/// as references. Readers turn a bare carriage return into a line feed (XML 1.0 section 2.11),
/// which is another key. The other control characters are not allowed in a document at all. S3
/// writes them in the same way.
pub(crate) fn xml_text(document: &impl s3s::xml::Serialize, declaration: bool) -> Result<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    let mut writer = s3s::xml::Serializer::new(&mut text);
    let written = if declaration { writer.decl() } else { Ok(()) };
    written
        .and_then(|()| document.serialize(&mut writer))
        .map_err(|error| {
            tracing::error!(%error, "an answer could not be written as XML");
            Refusal::new(
                Code::InternalError,
                "We encountered an internal error. Please try again.",
            )
        })?;
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n');
    if text.iter().any(is_control) {
        for byte in std::mem::take(&mut text) {
            if is_control(&byte) {
                text.extend_from_slice(format!("&#{byte};").as_bytes());
            } else {
                text.push(byte);
            }
        }
    }
    Ok(text)
}
