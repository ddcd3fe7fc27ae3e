//! AWS Signature Version 4, the signing side.
//!
//! A [`Signer`] belongs to one connection. It derives the signing key once a day and the date
//! strings once a second, and reuses its buffers, so that a request costs two SHA-256 and one HMAC
//! over a few hundred bytes and no allocation.
//!
//! The signature covers the method, the path as it stands on the wire (already percent-encoded; S3
//! does not encode twice and does not normalise `//` or `..`), the query sorted by name, and the
//! given headers. The payload is represented by a string chosen by [`PayloadMode`].
//!
//! Spec: "Signature Calculations for the Authorization Header" of the Amazon S3 API reference,
//! transferring the payload in one chunk, in multiple chunks, and in chunks with trailing headers.

mod chunked;
mod date;
mod encode;
#[cfg(test)]
mod tests;

pub use chunked::{CHUNK_BYTES, ChunkSigner};
pub use date::AmzDate;
pub use encode::{percent_encode, percent_encode_path};

use aws_lc_rs::{digest, hmac};
use zeroize::Zeroizing;

/// The value that replaces the hash of an unsigned payload.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// SHA-256 of nothing, in hex: the payload hash of a request without a body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// How the body of a PUT is covered by the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PayloadMode {
    /// `UNSIGNED-PAYLOAD`: the body is not covered. Costs neither side anything.
    Unsigned,
    /// The SHA-256 of the whole body in `x-amz-content-sha256`, computed before it is sent.
    Signed,
    /// `STREAMING-UNSIGNED-PAYLOAD-TRAILER`: aws-chunked with a CRC-32 trailer, what today's SDKs
    /// send by default over https.
    StreamingTrailer,
    /// `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`: aws-chunked, each chunk signed.
    StreamingSigned,
}

impl PayloadMode {
    /// The name used on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Signed => "signed",
            Self::StreamingTrailer => "streaming-trailer",
            Self::StreamingSigned => "streaming-signed",
        }
    }
}

/// An access key and its secret. The secret is wiped from memory when dropped and never printed.
#[derive(Clone)]
pub struct Credentials {
    /// The access key id, public.
    pub access_key: String,
    secret_key: Zeroizing<String>,
}

impl Credentials {
    /// A pair of access key id and secret key.
    #[must_use]
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            secret_key: Zeroizing::new(secret_key.to_owned()),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// One request as the signature sees it.
#[derive(Debug)]
pub struct Canonical<'a> {
    /// `GET`, `PUT` and so on.
    pub method: &'a str,
    /// The path, percent-encoded, beginning with a slash.
    pub path: &'a str,
    /// The query, percent-encoded pairs joined by `&`, sorted by name; empty if there is none.
    pub query: &'a str,
    /// Headers to sign: names in lower case, sorted; values trimmed.
    pub headers: &'a [(&'a str, &'a str)],
    /// The value of `x-amz-content-sha256`.
    pub payload: &'a str,
}

/// Signs the requests of one connection.
pub struct Signer {
    credentials: Credentials,
    region: String,
    date: AmzDate,
    /// `YYYYMMDD/region/s3/aws4_request`.
    scope: String,
    key: hmac::Key,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("credentials", &self.credentials)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer for `region`, at `unix_s` seconds since 1970. [`Signer::tick`] advances the time.
    #[must_use]
    pub fn new(credentials: Credentials, region: &str, unix_s: u64) -> Self {
        let date = AmzDate::new(unix_s);
        let key = signing_key(&credentials.secret_key, date.day(), region);
        let scope = scope(date.day(), region);
        Self {
            credentials,
            region: region.to_owned(),
            date,
            scope,
            key,
            scratch: Vec::new(),
        }
    }

    /// Sets the time of the following signatures; derives a new key when the UTC day changed.
    pub fn tick(&mut self, unix_s: u64) {
        if unix_s == self.date.unix_s() {
            return;
        }
        let next = AmzDate::new(unix_s);
        if next.day() != self.date.day() {
            self.key = signing_key(&self.credentials.secret_key, next.day(), &self.region);
            self.scope = scope(next.day(), &self.region);
        }
        self.date = next;
    }

    /// The time of the signatures; its text is the value of `x-amz-date`.
    #[must_use]
    pub fn date(&self) -> &AmzDate {
        &self.date
    }

    /// The signature in lower-case hex.
    pub fn signature(&mut self, request: &Canonical<'_>) -> Signature {
        let text = &mut self.scratch;
        text.clear();
        for line in [request.method, request.path, request.query] {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        for (name, value) in request.headers {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
        text.push(b'\n');
        push_signed_names(text, request.headers);
        text.push(b'\n');
        text.extend_from_slice(request.payload.as_bytes());
        let hash = hex(digest::digest(&digest::SHA256, text).as_ref());

        text.clear();
        text.extend_from_slice(b"AWS4-HMAC-SHA256\n");
        text.extend_from_slice(self.date.text().as_bytes());
        text.push(b'\n');
        text.extend_from_slice(self.scope.as_bytes());
        text.push(b'\n');
        text.extend_from_slice(&hash);
        Signature(hex(hmac::sign(&self.key, text).as_ref()))
    }

    /// Appends the value of the `authorization` header to `out` and returns the signature, which
    /// seeds the chain of chunk signatures.
    pub fn authorize(&mut self, request: &Canonical<'_>, out: &mut Vec<u8>) -> Signature {
        let signature = self.signature(request);
        out.extend_from_slice(b"AWS4-HMAC-SHA256 Credential=");
        out.extend_from_slice(self.credentials.access_key.as_bytes());
        out.push(b'/');
        out.extend_from_slice(self.scope.as_bytes());
        out.extend_from_slice(b",SignedHeaders=");
        push_signed_names(out, request.headers);
        out.extend_from_slice(b",Signature=");
        out.extend_from_slice(&signature.0);
        signature
    }

    /// Signs the chunks of the request whose own signature is `seed`.
    #[must_use]
    pub fn chunks(&self, seed: Signature) -> ChunkSigner<'_> {
        ChunkSigner::new(&self.key, self.date.text(), &self.scope, seed)
    }
}

/// A signature: 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// The 64 digits as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

impl std::fmt::Debug for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// SHA-256 of a body given piece by piece, in hex.
#[must_use]
pub fn payload_sha256<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Signature {
    let mut hash = digest::Context::new(&digest::SHA256);
    pieces.for_each(|piece| hash.update(piece));
    Signature(hex(hash.finish().as_ref()))
}

fn push_signed_names(out: &mut Vec<u8>, headers: &[(&str, &str)]) {
    for (i, (name, _)) in headers.iter().enumerate() {
        if i > 0 {
            out.push(b';');
        }
        out.extend_from_slice(name.as_bytes());
    }
}

fn scope(day: &str, region: &str) -> String {
    format!("{day}/{region}/s3/aws4_request")
}

fn signing_key(secret: &str, day: &str, region: &str) -> hmac::Key {
    let mut first = Zeroizing::new(Vec::with_capacity(4 + secret.len()));
    first.extend_from_slice(b"AWS4");
    first.extend_from_slice(secret.as_bytes());
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, &first);
    for part in [day, region, "s3", "aws4_request"] {
        key = hmac::Key::new(
            hmac::HMAC_SHA256,
            hmac::sign(&key, part.as_bytes()).as_ref(),
        );
    }
    key
}

/// Lower-case hex of a SHA-256 sized value.
fn hex(bytes: &[u8]) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = [b'0'; 64];
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out
}
