//! A request's body as the verbs read it.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::{Bytes, BytesMut};
use dewar_http_front::{BodyLength, BodyReader, WireBody, announced_length, transfer_chunked};
use dewar_sigv4::{ChunkChain, hex};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use subtle::ConstantTimeEq;

use super::chunked::{ChunkedDecoder, ChunkedStep};
use super::mode::PayloadMode;
use super::trailer::Trailers;
use crate::error::{Code, Refusal, Result};
use crate::limits::SINGLE_WRITE_BYTES_MAX;

/// The length and encoding of a request's body, as its head announces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyHead {
    /// Bytes on the wire, when given.
    pub content_length: Option<u64>,
    /// Bytes of the object, when the body is framed and it was given.
    pub decoded_length: Option<u64>,
    /// Whether the body comes in HTTP chunks, its length unknown.
    pub transfer_chunked: bool,
}

impl BodyHead {
    /// Parses the headers.
    ///
    /// # Errors
    /// `InvalidRequest` for a length that is not a number, `NotImplemented` for a transfer coding
    /// other than `chunked` (RFC 9112 section 6.1), because its bytes would be stored encoded.
    pub fn read(headers: &HeaderMap) -> Result<Self> {
        Ok(Self {
            content_length: announced_length(headers, CONTENT_LENGTH.as_str())?,
            decoded_length: announced_length(headers, "x-amz-decoded-content-length")?,
            transfer_chunked: transfer_chunked(headers)?,
        })
    }
}

enum Decoder {
    Plain,
    Sha256 { context: Context, wanted: [u8; 32] },
    Chunked(Box<ChunkedDecoder>),
}

/// A body that is read once, in slices, and verified to its end.
pub struct RequestBody {
    wire: BodyReader,
    /// The unprocessed rest of the last frame.
    input: Bytes,
    decoder: Decoder,
    /// Of the object.
    length: BodyLength,
    ended: bool,
}

impl RequestBody {
    /// Wraps the body from the connection. `chunks` are the signatures within the body.
    ///
    /// # Errors
    /// `InvalidRequest` when the mode needs chunk signatures and the request has none;
    /// `EntityTooLarge` when the announced length is too large.
    pub fn new(
        wire: WireBody,
        mode: PayloadMode,
        head: BodyHead,
        chunks: Option<ChunkChain>,
    ) -> Result<Self> {
        let decoder = match mode {
            PayloadMode::Unsigned => Decoder::Plain,
            PayloadMode::Exact(wanted) => Decoder::Sha256 {
                context: Context::new(&SHA256),
                wanted,
            },
            PayloadMode::Chunked { signed, trailers } => {
                let chain = match (signed, chunks) {
                    (false, _) => None,
                    (true, Some(chain)) => Some(chain),
                    (true, None) => {
                        let message = "A body of signed chunks needs a signed Authorization header";
                        return Err(Refusal::new(Code::InvalidRequest, message));
                    }
                };
                Decoder::Chunked(Box::new(ChunkedDecoder::new(chain, trailers)))
            }
        };
        let length = match mode {
            PayloadMode::Chunked { .. } => head.decoded_length,
            _ if head.transfer_chunked => None,
            _ => Some(head.content_length.unwrap_or(0)),
        };
        Ok(Self {
            wire: BodyReader::new(wire),
            input: Bytes::new(),
            decoder,
            length: BodyLength::new(length, SINGLE_WRITE_BYTES_MAX)?,
            ended: false,
        })
    }

    /// Lowers the largest accepted size.
    ///
    /// # Errors
    /// `EntityTooLarge` when the announced length is larger.
    pub fn limit(&mut self, largest: u64) -> Result<()> {
        Ok(self.length.limit(largest)?)
    }

    /// How many bytes of the object are to come, when the client said so.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length.announced()
    }

    /// Bytes of the object so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.length.received()
    }

    /// The next bytes of the object, never empty; `None` once the body has ended and everything
    /// that was announced about it is verified.
    ///
    /// # Errors
    /// `IncompleteBody`, `RequestTimeout`, `EntityTooLarge`, `XAmzContentSHA256Mismatch`, and those
    /// of [`ChunkedDecoder::step`]. The body must not be used after an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(data) = self.decode()? {
                self.length.count(data.len())?;
                return Ok(Some(data));
            }
            if self.ended {
                return Ok(None);
            }
            match self.wire.next().await? {
                Some(bytes) => self.input = bytes,
                None => {
                    self.finish()?;
                    self.ended = true;
                }
            }
        }
    }

    /// The whole body in memory, if it has at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`RequestBody::next`]; `MaxMessageLengthExceeded`.
    pub async fn collect(&mut self, limit: usize) -> Result<Bytes> {
        let too_long = || Refusal::new(Code::MaxMessageLengthExceeded, "Your request was too big.");
        let known = self.length().map_or(Ok(0), usize::try_from);
        if known.map_or(true, |length| length > limit) {
            return Err(too_long());
        }
        let Some(first) = self.next().await? else {
            return Ok(Bytes::new());
        };
        let mut whole: Option<BytesMut> = None;
        while let Some(more) = self.next().await? {
            let buffer = whole.get_or_insert_with(|| BytesMut::from(&first[..]));
            if buffer.len() + more.len() > limit {
                return Err(too_long());
            }
            buffer.extend_from_slice(&more);
        }
        match whole {
            Some(buffer) => Ok(buffer.freeze()),
            None if first.len() > limit => Err(too_long()),
            None => Ok(first),
        }
    }

    /// Reads and discards a part of the body of a refused request, so that a client that writes
    /// before it reads sees the answer.
    pub async fn drain(&mut self) {
        self.wire.drain().await;
    }

    /// The trailers; complete once [`RequestBody::next`] has given `None`.
    #[must_use]
    pub fn trailers(&self) -> Option<&Trailers> {
        match &self.decoder {
            Decoder::Chunked(decoder) => Some(decoder.trailers()),
            _ => None,
        }
    }

    /// The decoder's next bytes from the input at hand.
    fn decode(&mut self) -> Result<Option<Bytes>> {
        if self.input.is_empty() {
            return Ok(None);
        }
        match &mut self.decoder {
            Decoder::Plain => Ok(Some(std::mem::take(&mut self.input))),
            Decoder::Sha256 { context, .. } => {
                context.update(&self.input);
                Ok(Some(std::mem::take(&mut self.input)))
            }
            Decoder::Chunked(decoder) => match decoder.step(&mut self.input)? {
                ChunkedStep::Data(data) => Ok(Some(data)),
                ChunkedStep::More | ChunkedStep::Done => Ok(None),
            },
        }
    }

    /// Checks everything that can be checked only at the end.
    fn finish(&mut self) -> Result<()> {
        if let Decoder::Chunked(decoder) = &mut self.decoder {
            decoder.end()?;
        }
        self.length.finish()?;
        let Decoder::Sha256 { context, wanted } = &self.decoder else {
            return Ok(());
        };
        let digest = context.clone().finish();
        if bool::from(digest.as_ref().ct_eq(wanted)) {
            return Ok(());
        }
        let message =
            "The provided 'x-amz-content-sha256' header does not match what was computed.";
        Err(Refusal::new(Code::XAmzContentSHA256Mismatch, message)
            .element("ClientComputedContentSHA256", hex(wanted))
            .element("S3ComputedContentSHA256", hex(digest.as_ref())))
    }
}
