//! The chain of signatures in an aws-chunked body.

use aws_lc_rs::digest::{Context, SHA256, digest};

use crate::encode::push_hex;
use crate::{CredentialScope, EMPTY_SHA256, RequestDate, Signature, SigningKey};

/// The signatures of a body's chunks, in order. Each covers the one before it, and the first covers
/// the signature of the request.
#[derive(Clone)]
pub struct ChunkChain {
    key: SigningKey,
    /// `date \n scope \n`, the part common to all strings to sign.
    context: String,
    previous: Signature,
    chunk: Context,
}

impl std::fmt::Debug for ChunkChain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkChain")
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl ChunkChain {
    /// Begins at the signature of the request.
    #[must_use]
    pub fn new(
        key: SigningKey,
        date: &RequestDate,
        scope: &CredentialScope,
        request: Signature,
    ) -> Self {
        let mut context = format!("{}\n", date.as_str());
        scope.push_to(&mut context);
        context.push('\n');
        Self {
            key,
            context,
            previous: request,
            chunk: Context::new(&SHA256),
        }
    }

    /// Takes a piece of the current chunk's data.
    pub fn update(&mut self, data: &[u8]) {
        self.chunk.update(data);
    }

    /// Ends the current chunk and signs it.
    pub fn sign_chunk(&mut self) -> Signature {
        let string = self.end_chunk();
        self.sign(&string)
    }

    /// Ends the current chunk and compares its signature.
    ///
    /// # Errors
    /// The string to sign, if the signature is wrong.
    pub fn verify_chunk(&mut self, signature: Signature) -> Result<(), String> {
        let string = self.end_chunk();
        self.compare(string, signature)
    }

    /// Compares the signature of the trailers, given in their canonical form.
    ///
    /// # Errors
    /// The string to sign, if the signature is wrong.
    pub fn verify_trailers(&mut self, canonical: &str, signature: Signature) -> Result<(), String> {
        let mut string = self.string("AWS4-HMAC-SHA256-TRAILER\n");
        push_hex(&mut string, digest(&SHA256, canonical.as_bytes()).as_ref());
        self.compare(string, signature)
    }

    /// The string to sign of the chunk that ends here.
    fn end_chunk(&mut self) -> String {
        let chunk = std::mem::replace(&mut self.chunk, Context::new(&SHA256));
        let mut string = self.string("AWS4-HMAC-SHA256-PAYLOAD\n");
        string.push_str(EMPTY_SHA256);
        string.push('\n');
        push_hex(&mut string, chunk.finish().as_ref());
        string
    }

    fn string(&self, algorithm: &str) -> String {
        let mut string = String::with_capacity(320);
        string.push_str(algorithm);
        string.push_str(&self.context);
        self.previous.push_to(&mut string);
        string.push('\n');
        string
    }

    fn sign(&mut self, string: &str) -> Signature {
        self.previous = self.key.sign(string);
        self.previous
    }

    fn compare(&mut self, string: String, signature: Signature) -> Result<(), String> {
        if self.sign(&string) == signature {
            return Ok(());
        }
        Err(string)
    }
}
