//! Answers: heads with an empty, a whole or a streaming body.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use dewar_store::ContentReader;
use dewar_types::{Error, Result};
use futures_util::{Stream, StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};

/// An answer of a front.
pub type Answer = Response<AnswerBody>;

type Bodies = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

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
    pub fn stream(stream: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
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
#[must_use]
pub fn empty_answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::empty());
    *answer.status_mut() = status;
    answer
}

/// An answer whose whole body is at hand.
#[must_use]
pub fn full_answer(bytes: Bytes) -> Answer {
    Response::new(AnswerBody::full(bytes))
}

/// An answer with a streaming body. The caller sets the length in the head.
pub fn stream_answer(
    status: StatusCode,
    stream: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> Answer {
    let mut answer = Response::new(AnswerBody::stream(stream));
    *answer.status_mut() = status;
    answer
}

/// An answer with a document of a media type.
#[must_use]
pub fn typed_answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = full_answer(body.into());
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// An answer with the content of an object. Its first bytes are read before the head is sent. So
/// missing disks cause an error with a code, and not a broken connection. Content that fits into the
/// first bytes needs no stream.
///
/// # Errors
/// Those of reading the first bytes.
pub async fn download_answer(mut download: ContentReader) -> Result<Answer> {
    let length = download.range.len();
    if length == 0 {
        return Ok(empty_answer(StatusCode::OK));
    }
    let first = download.next().await.transpose()?.unwrap_or_default();
    if first.len() as u64 == length {
        return Ok(full_answer(first));
    }
    let rest = stream::unfold(download, read_on);
    let all = stream::once(std::future::ready(Ok(first))).chain(rest);
    Ok(stream_answer(StatusCode::OK, all))
}

async fn read_on(mut download: ContentReader) -> Option<(Result<Bytes>, ContentReader)> {
    let bytes = download.next().await?;
    if let Err(error) = &bytes {
        // The head is sent: all that is left is to break the connection off, and to say why here.
        tracing::error!(%error, "an answer was cut short");
    }
    Some((bytes, download))
}
