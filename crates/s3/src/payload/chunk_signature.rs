//! The chain of signatures in a signed aws-chunked body (S3 API reference, "Signature
//! calculations: transferring payload in multiple chunks").

use aws_lc_rs::digest::{Context, SHA256, digest};
use subtle::ConstantTimeEq;

use crate::error::{Code, Refusal, Result};
use crate::sigv4::{Seed, push_hex};

/// SHA-256 of nothing, in hexadecimal.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Verifies the signature of each chunk, which includes the signature before it. The first includes
/// the request's.
pub struct ChunkSigner {
    seed: Seed,
    chunk: Context,
}

impl ChunkSigner {
    /// Begins at the request's own signature.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            chunk: Context::new(&SHA256),
        }
    }

    /// Takes a piece of the current chunk's data.
    pub fn update(&mut self, data: &[u8]) {
        self.chunk.update(data);
    }

    /// Ends the current chunk with the `signature` of its header.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`.
    pub fn end_chunk(&mut self, signature: &[u8; 32]) -> Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, Context::new(&SHA256));
        let mut string = self.string("AWS4-HMAC-SHA256-PAYLOAD\n");
        string.push_str(EMPTY_SHA256);
        string.push('\n');
        push_hex(&mut string, chunk.finish().as_ref());
        self.compare(&string, signature)
    }

    /// Checks the signature of the trailers.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`.
    pub fn end_trailers(&mut self, canonical: &str, signature: &[u8; 32]) -> Result<()> {
        let mut string = self.string("AWS4-HMAC-SHA256-TRAILER\n");
        push_hex(&mut string, digest(&SHA256, canonical.as_bytes()).as_ref());
        self.compare(&string, signature)
    }

    fn string(&self, algorithm: &str) -> String {
        let mut string = String::with_capacity(320);
        string.push_str(algorithm);
        string.push_str(&self.seed.context);
        push_hex(&mut string, &self.seed.signature);
        string.push('\n');
        string
    }

    fn compare(&mut self, string: &str, signature: &[u8; 32]) -> Result<()> {
        let expected = self.seed.key.sign(string);
        if bool::from(expected.ct_eq(signature)) {
            self.seed.signature = expected;
            return Ok(());
        }
        Err(Refusal::new(
            Code::SignatureDoesNotMatch,
            "The chunk signature we calculated does not match the signature you provided.",
        )
        .element("StringToSign", string))
    }
}
