//! The chain of signatures over the chunks of an aws-chunked body.

use aws_lc_rs::{digest, hmac};

use super::{EMPTY_SHA256, Signature, hex};

/// Bytes of payload in one chunk of an aws-chunked body. It is the size that the AWS SDKs use, and
/// small enough for any server that buffers a chunk before it can check it.
pub const CHUNK_BYTES: u64 = 64 * 1024;

/// Signs the chunks of one request, in order: each signature covers the one before it.
#[derive(Debug)]
pub struct ChunkSigner<'a> {
    key: &'a hmac::Key,
    date: &'a str,
    scope: &'a str,
    previous: Signature,
}

impl<'a> ChunkSigner<'a> {
    pub(super) fn new(key: &'a hmac::Key, date: &'a str, scope: &'a str, seed: Signature) -> Self {
        Self {
            key,
            date,
            scope,
            previous: seed,
        }
    }

    /// The signature of the next chunk, given in pieces; no pieces for the last, empty chunk.
    pub fn sign<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Signature {
        let mut hash = digest::Context::new(&digest::SHA256);
        pieces.for_each(|piece| hash.update(piece));
        let chunk = hex(hash.finish().as_ref());
        let mut mac = hmac::Context::with_key(self.key);
        for line in [
            "AWS4-HMAC-SHA256-PAYLOAD",
            self.date,
            self.scope,
            self.previous.as_str(),
        ] {
            mac.update(line.as_bytes());
            mac.update(b"\n");
        }
        mac.update(EMPTY_SHA256.as_bytes());
        mac.update(b"\n");
        mac.update(&chunk);
        self.previous = Signature(hex(mac.sign().as_ref()));
        self.previous
    }
}
