//! The aws-chunked framing, decoded without copying and without I/O.
//!
//! ```text
//! body    = chunk* last trailer* CRLF
//! chunk   = size-hex [ ";chunk-signature=" 64 hex ] CRLF  data CRLF
//! last    = "0"      [ ";chunk-signature=" 64 hex ] CRLF
//! trailer = name ":" value CRLF        the last one may be x-amz-trailer-signature
//! ```
//!
//! Clients differ at the end: the line end before a trailer signature may be `\n\r\n`, and the last
//! empty line may be missing. Both are accepted. Any other deviation is an error.

use bytes::{Buf, Bytes};
use dewar_sigv4::{ChunkChain, Signature, hex_digit};

use super::trailer::{Trailers, malformed};
use crate::error::{Code, Refusal, Result};
use crate::limits::{CHUNK_HEADER_BYTES_MAX, TRAILER_LINE_BYTES_MAX};

const TRAILER_SIGNATURE: &[u8] = b"x-amz-trailer-signature:";

/// The result of a call of [`ChunkedDecoder::step`].
#[derive(Debug, PartialEq, Eq)]
pub enum ChunkedStep {
    /// Bytes of the object.
    Data(Bytes),
    /// All input is used up; more is needed.
    More,
    /// The body has ended, and all signatures were right.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Header,
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailer,
    Done,
}

/// Decodes one body. Call [`ChunkedDecoder::step`] with its bytes, then [`ChunkedDecoder::end`].
pub struct ChunkedDecoder {
    state: State,
    /// The line that is being read, at most [`CHUNK_HEADER_BYTES_MAX`] or
    /// [`TRAILER_LINE_BYTES_MAX`] bytes.
    line: Vec<u8>,
    chain: Option<ChunkChain>,
    chunk_signature: Option<Signature>,
    with_trailers: bool,
    trailers: Trailers,
    trailers_signed: bool,
}

fn broken(message: &'static str) -> Refusal {
    Refusal::new(Code::InvalidRequest, message)
}

fn incomplete() -> Refusal {
    Refusal::new(
        Code::IncompleteBody,
        "The request body terminated unexpectedly",
    )
}

fn mismatch(string_to_sign: String) -> Refusal {
    Refusal::new(
        Code::SignatureDoesNotMatch,
        "The chunk signature we calculated does not match the signature you provided.",
    )
    .element("StringToSign", string_to_sign)
}

impl ChunkedDecoder {
    /// A decoder for a body. Its chunks are signed if there is a `chain`, and it may end in
    /// trailers.
    #[must_use]
    pub fn new(chain: Option<ChunkChain>, with_trailers: bool) -> Self {
        Self {
            state: State::Header,
            line: Vec::new(),
            chain,
            chunk_signature: None,
            with_trailers,
            trailers: Trailers::default(),
            trailers_signed: false,
        }
    }

    /// Continues with `input`, and removes the processed bytes from its front.
    ///
    /// # Errors
    /// `InvalidRequest` for broken framing, `SignatureDoesNotMatch`, `MalformedTrailerError`. The
    /// decoder must not be used after an error.
    pub fn step(&mut self, input: &mut Bytes) -> Result<ChunkedStep> {
        while !input.is_empty() {
            match self.state {
                State::Header => {
                    if self.take_line(input, CHUNK_HEADER_BYTES_MAX)? {
                        self.chunk_header()?;
                    }
                }
                State::Data { left } => {
                    let take = usize::try_from(left).map_or(input.len(), |l| l.min(input.len()));
                    let data = input.split_to(take);
                    if let Some(chain) = &mut self.chain {
                        chain.update(&data);
                    }
                    let left = left - take as u64;
                    self.state = if left == 0 {
                        State::DataCr
                    } else {
                        State::Data { left }
                    };
                    return Ok(ChunkedStep::Data(data));
                }
                State::DataCr => self.expect(input, b'\r', State::DataLf)?,
                State::DataLf => {
                    self.expect(input, b'\n', State::Header)?;
                    self.end_chunk()?;
                }
                State::Trailer => {
                    if self.take_line(input, TRAILER_LINE_BYTES_MAX)? {
                        self.trailer_line()?;
                    }
                }
                State::Done => return Err(broken("Bytes follow the end of the chunked body.")),
            }
        }
        Ok(if self.state == State::Done {
            ChunkedStep::Done
        } else {
            ChunkedStep::More
        })
    }

    /// Marks the end of the input.
    ///
    /// # Errors
    /// `IncompleteBody` when the body is incomplete; those of [`ChunkedDecoder::step`] for a last
    /// line without line end.
    pub fn end(&mut self) -> Result<()> {
        match self.state {
            State::Done => Ok(()),
            State::Trailer => {
                if !self.line.is_empty() {
                    self.trailer_line()?;
                }
                self.end_trailers()
            }
            _ => Err(incomplete()),
        }
    }

    /// The trailers; complete once the body has ended.
    #[must_use]
    pub fn trailers(&self) -> &Trailers {
        &self.trailers
    }

    fn expect(&mut self, input: &mut Bytes, byte: u8, next: State) -> Result<()> {
        if input.get_u8() != byte {
            return Err(broken("A chunk is not followed by CRLF."));
        }
        self.state = next;
        Ok(())
    }

    /// Moves input to `line` up to and with a line feed; whether it came.
    fn take_line(&mut self, input: &mut Bytes, limit: usize) -> Result<bool> {
        let window = &input[..input.len().min(limit + 1)];
        let (take, whole) = match memchr::memchr(b'\n', window) {
            Some(at) => (at + 1, true),
            None => (window.len(), false),
        };
        if self.line.len() + take > limit {
            return Err(broken("A line of the chunked framing is too long."));
        }
        self.line.extend_from_slice(&input[..take]);
        input.advance(take);
        Ok(whole)
    }

    fn chunk_header(&mut self) -> Result<()> {
        let line = self.line.strip_suffix(b"\r\n");
        let line = line.ok_or_else(|| broken("A chunk header does not end in CRLF."))?;
        let (size, extension) = match memchr::memchr(b';', line) {
            Some(at) => (&line[..at], Some(&line[at + 1..])),
            None => (line, None),
        };
        if !(1..=16).contains(&size.len()) {
            return Err(broken("A chunk size is not 1 to 16 hexadecimal digits."));
        }
        let left = size.iter().try_fold(0_u64, |n, digit| {
            Some(n << 4 | u64::from(hex_digit(*digit)?))
        });
        let left = left.ok_or_else(|| broken("A chunk size is not hexadecimal."))?;
        if self.chain.is_some() {
            let signature = extension
                .and_then(|text| text.strip_prefix(b"chunk-signature="))
                .and_then(|text| std::str::from_utf8(text).ok())
                .and_then(Signature::parse);
            let missing = || broken("A chunk header carries no chunk-signature.");
            self.chunk_signature = Some(signature.ok_or_else(missing)?);
        }
        self.line.clear();
        if left > 0 {
            self.state = State::Data { left };
        } else {
            self.end_chunk()?;
            self.state = State::Trailer;
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<()> {
        match (&mut self.chain, self.chunk_signature.take()) {
            (Some(chain), Some(signature)) => chain.verify_chunk(signature).map_err(mismatch),
            _ => Ok(()),
        }
    }

    fn trailer_line(&mut self) -> Result<()> {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii();
        if text.is_empty() {
            // In a signed body an empty line may stand before the trailers' signature.
            if !self.with_trailers || self.chain.is_none() || self.trailers_signed {
                self.end_trailers()?;
                self.state = State::Done;
            }
            return Ok(());
        }
        if !self.with_trailers {
            return Err(malformed("There are trailers that were not announced."));
        }
        if self.trailers_signed {
            return Err(malformed("A trailer follows the trailers' signature."));
        }
        let named = text.get(..TRAILER_SIGNATURE.len());
        if named.is_some_and(|name| name.eq_ignore_ascii_case(TRAILER_SIGNATURE)) {
            return self.trailer_signature(&text[TRAILER_SIGNATURE.len()..]);
        }
        self.trailers.push_line(text)
    }

    fn trailer_signature(&mut self, text: &[u8]) -> Result<()> {
        let Some(chain) = &mut self.chain else {
            return Err(malformed("An unsigned body has a trailer signature."));
        };
        let signature = std::str::from_utf8(text.trim_ascii()).ok();
        let signature = signature
            .and_then(Signature::parse)
            .ok_or_else(|| malformed("x-amz-trailer-signature is not 64 hexadecimal digits."))?;
        let verified = chain.verify_trailers(&self.trailers.canonical(), signature);
        verified.map_err(mismatch)?;
        self.trailers_signed = true;
        Ok(())
    }

    fn end_trailers(&self) -> Result<()> {
        if self.with_trailers && self.chain.is_some() && !self.trailers_signed {
            return Err(malformed("The trailers carry no x-amz-trailer-signature."));
        }
        Ok(())
    }
}
