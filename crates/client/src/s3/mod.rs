//! The S3 verbs of a load, one file each, over one connection.
//!
//! A [`S3Client`] signs each request and sends it on its own keep-alive connection. It checks that
//! the answer has the right status, the right number of bytes, and if requested the right bytes.
//! Buckets are addressed by path (`/bucket/key`), which every server supports.
//!
//! If a server ended an idle connection, the request is sent again on a new one ([`S3Client::resent`]
//! counts that). The caller counts all other failures. Nothing else is retried: a load driver with
//! retries would hide the errors that it is meant to show.

mod bucket;
mod delete;
mod get;
mod head;
mod list;
mod multipart;
mod payload_mode;
mod proof;
mod put;
mod xml;

pub use list::KeyPage;
pub use payload_mode::PayloadMode;
pub use proof::{BearerToken, Proof, Tokens};

use std::borrow::Cow;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use crc_fast::{CrcAlgorithm, Digest};
use dewar_sigv4::{
    ChunkChain, EMPTY_SHA256, RequestToSign, STREAMING_SIGNED, STREAMING_UNSIGNED_TRAILER,
    Signature, Signer, UNSIGNED_PAYLOAD, encode_path, encode_strict, hex,
};

use crate::clock;
use crate::http::{self, Bytes, Connection, Deadline, ResponseHead, Sink, Transport};

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    /// No usable answer.
    #[error(transparent)]
    Http(#[from] http::HttpError),
    /// The server refused.
    #[error("{verb} answered {status} {code}: {message}")]
    Status {
        /// The verb.
        verb: &'static str,
        /// The HTTP status.
        status: u16,
        /// S3's error code, empty if the body named none.
        code: String,
        /// The server's explanation.
        message: String,
    },
    /// The server agreed, but its answer is not what the verb promises.
    #[error("{verb}: {what}")]
    Promise {
        /// The verb.
        verb: &'static str,
        /// The problem.
        what: String,
    },
}

impl S3Error {
    /// A few words for counting errors of the same kind.
    #[must_use]
    pub fn kind(&self) -> Cow<'static, str> {
        match self {
            Self::Http(error) => error.kind().into(),
            Self::Status { status, code, .. } if code.is_empty() => format!("{status}").into(),
            Self::Status { status, code, .. } => format!("{status} {code}").into(),
            Self::Promise { .. } => "promise".into(),
        }
    }
}

/// The address of a bucket and the credentials for it, shared by all connections to it.
#[derive(Debug)]
pub struct BucketAccess {
    /// The bucket.
    pub bucket: String,
    /// Region of the signatures.
    pub region: String,
    /// In whose name the requests are made.
    pub proof: Proof,
    /// How bodies are covered by the signature.
    pub payload_mode: PayloadMode,
    /// The time one request may take.
    pub request_limit: Duration,
}

/// The verbs on one bucket, over one connection.
#[derive(Debug)]
pub struct S3Client {
    connection: Connection,
    /// Unless nothing is signed.
    signer: Option<Signer>,
    access: Arc<BucketAccess>,
    authority: String,
    busy: Duration,
    resent: u64,
    path: String,
    query: String,
    head: Vec<u8>,
}

/// One request, before it is signed.
struct Request<'a> {
    verb: &'static str,
    method: &'static str,
    /// The object's key; none for requests on the bucket.
    key: Option<&'a str>,
    /// Query parameters, not encoded, sorted by name.
    query: &'a [(&'a str, &'a str)],
    range: Option<Range<u64>>,
    body: Option<Body<'a>>,
}

#[derive(Clone)]
struct Body<'a> {
    bytes: &'a dyn Bytes,
    part: Range<u64>,
    mode: PayloadMode,
}

impl<'a> Body<'a> {
    fn len(&self) -> u64 {
        self.part.end - self.part.start
    }

    /// The bytes `part` in pieces.
    fn pieces(&self, part: Range<u64>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let mut offset = part.start;
        std::iter::from_fn(move || {
            let left = usize::try_from(part.end.checked_sub(offset)?).unwrap_or(usize::MAX);
            let piece = bytes.at(offset);
            let piece = &piece[..piece.len().min(left)];
            offset += piece.len() as u64;
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// The parts that become the chunks of an aws-chunked body; the empty last one not included.
    fn chunks(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let Range { start, end } = self.part;
        (0..(end - start).div_ceil(CHUNK_BYTES))
            .map(move |i| start + i * CHUNK_BYTES..(start + (i + 1) * CHUNK_BYTES).min(end))
    }

    /// The value of `x-amz-content-sha256`.
    fn payload(&self) -> Cow<'static, str> {
        match self.mode {
            PayloadMode::Unsigned => UNSIGNED_PAYLOAD.into(),
            PayloadMode::Signed => {
                let mut hash = digest::Context::new(&digest::SHA256);
                self.pieces(self.part.clone())
                    .for_each(|piece| hash.update(piece));
                hex(hash.finish().as_ref()).into()
            }
            PayloadMode::StreamingTrailer => STREAMING_UNSIGNED_TRAILER.into(),
            PayloadMode::StreamingSigned => STREAMING_SIGNED.into(),
        }
    }

    /// Bytes of the body on the wire.
    fn wire_bytes(&self) -> u64 {
        let per_chunk = match self.mode {
            PayloadMode::Unsigned | PayloadMode::Signed => return self.len(),
            PayloadMode::StreamingTrailer => 0,
            PayloadMode::StreamingSigned => SIGNATURE_FIELD.len() as u64 + 64,
        };
        let framed = |len: u64| hex_digits(len) + per_chunk + 2 + len + 2;
        let chunks: u64 = self
            .chunks()
            .map(|chunk| framed(chunk.end - chunk.start))
            .sum();
        let end = match self.mode {
            PayloadMode::StreamingTrailer => 1 + 2 + TRAILER.len() as u64 + 1 + 8 + 2 + 2,
            _ => framed(0),
        };
        chunks + end
    }
}

/// Bytes of payload in one chunk of an aws-chunked body. It is the size that the AWS SDKs use, and
/// small enough for any server that buffers a chunk before it can check it.
const CHUNK_BYTES: u64 = 64 * 1024;

const SIGNATURE_FIELD: &str = ";chunk-signature=";
const TRAILER: &str = "x-amz-checksum-crc32";

fn hex_digits(n: u64) -> u64 {
    u64::from((u64::BITS - n.leading_zeros()).div_ceil(4).max(1))
}

impl S3Client {
    /// A client whose connection is not open yet.
    #[must_use]
    pub fn new(transport: Arc<Transport>, access: Arc<BucketAccess>) -> Self {
        let signer = match &access.proof {
            Proof::Key(key, _) => Some(Signer::new(key.clone(), &access.region, clock::unix_s())),
            Proof::Bearer(_) | Proof::Nobody => None,
        };
        Self {
            authority: transport.endpoint.authority(),
            connection: Connection::new(transport),
            signer,
            access,
            busy: Duration::ZERO,
            resent: 0,
            path: String::new(),
            query: String::new(),
            head: Vec::new(),
        }
    }

    /// Opens the connection ahead of the first request.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn open(&mut self) -> Result<(), S3Error> {
        Ok(self
            .connection
            .open(Deadline::after(self.access.request_limit))?)
    }

    /// Time spent in requests since the last call, from the moment a signed request is ready until
    /// its answer is complete. Signing and hashing on this side are not included.
    pub fn take_busy(&mut self) -> Duration {
        std::mem::take(&mut self.busy)
    }

    /// Requests that were sent again because the server had closed the idle connection.
    #[must_use]
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Performs a request and insists on a status of 2xx.
    fn perform(
        &mut self,
        request: &Request<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<ResponseHead, S3Error> {
        let answer = self.exchange(request, sink)?;
        if !(200..300).contains(&answer.status) {
            return Err(refusal(request.verb, &answer));
        }
        Ok(answer)
    }

    /// Performs a request, and accepts every status of its answer.
    fn exchange(
        &mut self,
        request: &Request<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<ResponseHead, S3Error> {
        let seed = self.compose(request);
        let started = clock::now();
        let deadline = Deadline::after(self.access.request_limit);
        let mut result = self.attempt(request, seed, sink, deadline);
        if let Err((error, reused)) = &result
            && *reused
            && error.is_unanswered()
        {
            self.resent += 1;
            result = self.attempt(request, seed, sink, deadline);
        }
        self.busy += started.elapsed();
        result.map_err(|(error, _)| error.into())
    }

    /// One attempt. An error comes with whether the connection had served a request before.
    fn attempt(
        &mut self,
        request: &Request<'_>,
        seed: Option<Signature>,
        sink: &mut Sink<'_>,
        deadline: Deadline,
    ) -> Result<ResponseHead, (http::HttpError, bool)> {
        let reused = self.connection.is_reused();
        let is_head = request.method == "HEAD";
        let sent = self.transmit(request.body.as_ref(), seed, deadline);
        let result = match sent {
            Ok(()) => self.connection.receive(is_head, sink, deadline),
            // A server that refuses a body may answer and close before it has read all of it.
            Err(error) if error.is_unanswered() && request.body.is_some() => {
                let answer = self.connection.receive(is_head, sink, deadline);
                self.connection.close();
                answer.map_err(|_| error)
            }
            Err(error) => Err(error),
        };
        result.map_err(|error| {
            self.connection.close();
            (error, reused)
        })
    }

    /// Writes the head of `request` into `self.head`; returns its signature, if it has one.
    fn compose(&mut self, request: &Request<'_>) -> Option<Signature> {
        self.path.clear();
        self.path.push('/');
        self.path.push_str(&self.access.bucket);
        if let Some(key) = request.key {
            self.path.push('/');
            encode_path(&mut self.path, key.as_bytes());
        }
        self.query.clear();
        for (i, (name, value)) in request.query.iter().enumerate() {
            if i > 0 {
                self.query.push('&');
            }
            encode_strict(&mut self.query, name.as_bytes());
            self.query.push('=');
            encode_strict(&mut self.query, value.as_bytes());
        }
        if let Some(signer) = &mut self.signer {
            signer.tick(clock::unix_s());
        }
        let payload = request
            .body
            .as_ref()
            .map_or(EMPTY_SHA256.into(), Body::payload);
        let range = request
            .range
            .as_ref()
            .map(|r| format!("bytes={}-{}", r.start, r.end - 1));
        let mode = request.body.as_ref().map(|body| body.mode);
        let chunked = matches!(
            mode,
            Some(PayloadMode::StreamingTrailer | PayloadMode::StreamingSigned)
        );
        let decoded = request.body.as_ref().map_or(0, Body::len).to_string();
        let date = self.signer.as_ref().map(|signer| *signer.date());
        let mut headers = Vec::with_capacity(8);
        headers.push(("host", self.authority.as_str()));
        if let Some(range) = &range {
            headers.push(("range", range.as_str()));
        }
        if let Some(date) = &date {
            headers.push(("x-amz-content-sha256", &payload));
            headers.push(("x-amz-date", date.as_str()));
        }
        if chunked {
            headers.push(("x-amz-decoded-content-length", decoded.as_str()));
        }
        if let Proof::Key(_, Some(token)) = &self.access.proof {
            headers.push(("x-amz-security-token", token.0.as_str()));
        }
        if mode == Some(PayloadMode::StreamingTrailer) {
            headers.push(("x-amz-trailer", TRAILER));
        }

        let head = &mut self.head;
        head.clear();
        for text in [request.method, " ", &self.path] {
            head.extend_from_slice(text.as_bytes());
        }
        if !self.query.is_empty() {
            head.push(b'?');
            head.extend_from_slice(self.query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in &headers {
            for text in [name, ": ", value, "\r\n"] {
                head.extend_from_slice(text.as_bytes());
            }
        }
        if chunked {
            head.extend_from_slice(b"content-encoding: aws-chunked\r\n");
        }
        if let Some(body) = &request.body {
            head.extend_from_slice(format!("content-length: {}\r\n", body.wire_bytes()).as_bytes());
        }
        let signature = self.signer.as_mut().map(|signer| {
            head.extend_from_slice(b"authorization: ");
            let canonical = RequestToSign {
                method: request.method,
                path: &self.path,
                query: &self.query,
                headers: &headers,
                payload: &payload,
            };
            let signature = signer.authorize(&canonical, head);
            head.extend_from_slice(b"\r\n");
            signature
        });
        if let Proof::Bearer(tokens) = &self.access.proof {
            for text in ["authorization: Bearer ", tokens.take(), "\r\n"] {
                head.extend_from_slice(text.as_bytes());
            }
        }
        head.extend_from_slice(b"\r\n");
        signature
    }

    /// Sends the composed head and the body.
    fn transmit(
        &mut self,
        body: Option<&Body<'_>>,
        seed: Option<Signature>,
        deadline: Deadline,
    ) -> Result<(), http::HttpError> {
        let Self {
            connection,
            head,
            signer,
            ..
        } = self;
        connection.open(deadline)?;
        match body {
            None => connection.send(&mut [IoSlice::new(head)], deadline)?,
            Some(body) => match body.mode {
                PayloadMode::Unsigned | PayloadMode::Signed => {
                    connection.send_bytes(head, body.bytes, body.part.clone(), deadline)?;
                }
                PayloadMode::StreamingTrailer => {
                    connection.send(&mut [IoSlice::new(head)], deadline)?;
                    send_with_trailer(connection, body, deadline)?;
                }
                PayloadMode::StreamingSigned => {
                    let (signer, seed) = signer.as_ref().zip(seed).expect(
                        "who signs chunks signs requests: the target's description sees to it",
                    );
                    connection.send(&mut [IoSlice::new(head)], deadline)?;
                    send_signed_chunks(connection, body, signer.chunks(seed), deadline)?;
                }
            },
        }
        connection.finish_request(deadline)
    }
}

fn send_with_trailer(
    connection: &mut Connection,
    body: &Body<'_>,
    deadline: Deadline,
) -> Result<(), http::HttpError> {
    let mut crc = Digest::new(CrcAlgorithm::Crc32IsoHdlc);
    let mut frame = Vec::with_capacity(64);
    let mut end_of_last: &[u8] = b"";
    for chunk in body.chunks() {
        body.pieces(chunk.clone())
            .for_each(|piece| crc.update(piece));
        frame.clear();
        frame.extend_from_slice(end_of_last);
        frame.extend_from_slice(format!("{:x}\r\n", chunk.end - chunk.start).as_bytes());
        connection.send_bytes(&frame, body.bytes, chunk, deadline)?;
        end_of_last = b"\r\n";
    }
    let sum = u32::try_from(crc.finalize()).expect("a CRC-32 has 32 bits");
    let sum = base64::engine::general_purpose::STANDARD.encode(sum.to_be_bytes());
    frame.clear();
    frame.extend_from_slice(end_of_last);
    frame.extend_from_slice(format!("0\r\n{TRAILER}:{sum}\r\n\r\n").as_bytes());
    connection.send(&mut [IoSlice::new(&frame)], deadline)
}

fn send_signed_chunks(
    connection: &mut Connection,
    body: &Body<'_>,
    mut chain: ChunkChain,
    deadline: Deadline,
) -> Result<(), http::HttpError> {
    let mut frame = Vec::with_capacity(128);
    let mut end_of_last: &[u8] = b"";
    let end = body.part.end;
    for chunk in body.chunks().chain(std::iter::once(end..end)) {
        body.pieces(chunk.clone())
            .for_each(|piece| chain.update(piece));
        let signature = chain.sign_chunk();
        let len = chunk.end - chunk.start;
        frame.clear();
        frame.extend_from_slice(end_of_last);
        let line = format!("{len:x}{SIGNATURE_FIELD}{signature}\r\n");
        frame.extend_from_slice(line.as_bytes());
        if len == 0 {
            frame.extend_from_slice(b"\r\n");
        }
        connection.send_bytes(&frame, body.bytes, chunk, deadline)?;
        end_of_last = b"\r\n";
    }
    Ok(())
}

fn refusal(verb: &'static str, answer: &ResponseHead) -> S3Error {
    let text = String::from_utf8_lossy(&answer.error_body);
    let tag = |name| xml::text(&text, name).unwrap_or_default();
    S3Error::Status {
        verb,
        status: answer.status,
        code: tag("Code"),
        message: tag("Message"),
    }
}

fn broken(verb: &'static str, what: impl Into<String>) -> S3Error {
    S3Error::Promise {
        verb,
        what: what.into(),
    }
}
