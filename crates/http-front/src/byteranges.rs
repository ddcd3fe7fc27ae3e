//! Answers with several ranges: multipart/byteranges (RFC 9110 section 14.6).

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_store::ContentReader;
use dewar_types::{ByteRange, Error, ErrorKind, Result};
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};

use crate::limits::{RANGE_PIECE_BYTES, RANGE_PIECES_AHEAD};
use crate::{Answer, stream_answer, value_of};

/// A piece of the body: what stands before it, and a range of the file.
struct Piece {
    before: String,
    range: ByteRange,
}

/// The pieces of parts, one by one: a part may be as long as the file.
struct Pieces(VecDeque<Piece>);

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let part = self.0.front_mut()?;
        let start = part.range.start;
        let end = part.range.end.min(start.saturating_add(RANGE_PIECE_BYTES));
        let before = std::mem::take(&mut part.before);
        part.range.start = end;
        if end == part.range.end {
            self.0.pop_front();
        }
        let range = ByteRange { start, end };
        Some(Piece { before, range })
    }
}

/// An answer with several ranges of a file, in this order. `kind` is the media type of the file, and
/// `boundary` a text that the file does not contain; a random one.
///
/// At most [`RANGE_PIECES_AHEAD`] pieces of [`RANGE_PIECE_BYTES`] bytes are in memory. The first piece
/// is read before the head is sent, so that missing disks cause an error with a code.
///
/// # Errors
/// Those of reading the first piece.
pub async fn byteranges_answer(
    file: ContentReader,
    ranges: &[ByteRange],
    kind: &str,
    boundary: &str,
) -> Result<Answer> {
    let size = file.info.size;
    let mut length = 0;
    let mut parts = VecDeque::with_capacity(ranges.len());
    for (part, range) in ranges.iter().enumerate() {
        let mut before = String::new();
        let line_end = if part == 0 { "" } else { "\r\n" };
        // Writing to a String cannot fail.
        let _ = write!(
            before,
            "{line_end}--{boundary}\r\nContent-Type: {kind}\r\n\
             Content-Range: bytes {}-{}/{size}\r\n\r\n",
            range.start,
            range.end.saturating_sub(1),
        );
        length += before.len() as u64 + range.len();
        let range = *range;
        parts.push_back(Piece { before, range });
    }
    let last = format!("\r\n--{boundary}--\r\n");
    length += last.len() as u64;
    let file = Arc::new(file);
    let mut body = stream::iter(Pieces(parts))
        .map(move |piece| read_piece(Arc::clone(&file), piece))
        .buffered(RANGE_PIECES_AHEAD)
        .boxed();
    let first = body.next().await.transpose()?.unwrap_or_default();
    let all = stream::iter([Ok(first)])
        .chain(body)
        .chain(stream::iter([Ok(Bytes::from(last))]));
    let mut answer = stream_answer(StatusCode::PARTIAL_CONTENT, all);
    let headers = answer.headers_mut();
    let kind = format!("multipart/byteranges; boundary={boundary}");
    headers.insert(CONTENT_TYPE, value_of(&kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(answer)
}

async fn read_piece(file: Arc<ContentReader>, piece: Piece) -> Result<Bytes> {
    let expected = piece.range.len();
    if let Some(bytes) = file.read_now(piece.range) {
        return Ok(joined(&piece.before, [bytes], expected));
    }
    let mut parts = Vec::new();
    let mut reader = file.read(piece.range);
    while let Some(part) = reader.next().await {
        parts.push(part.inspect_err(|error| {
            tracing::error!(%error, "an answer with several ranges was cut short");
        })?);
    }
    let read: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if read != expected {
        let message = format!("{read} of {expected} bytes of a range could be read");
        return Err(Error::new(ErrorKind::Internal, message));
    }
    Ok(joined(&piece.before, parts, expected))
}

fn joined(before: &str, parts: impl IntoIterator<Item = Bytes>, bytes: u64) -> Bytes {
    let capacity = before.len() + usize::try_from(bytes).unwrap_or_default();
    let mut all = BytesMut::with_capacity(capacity);
    all.extend_from_slice(before.as_bytes());
    for part in parts {
        all.extend_from_slice(&part);
    }
    all.freeze()
}
