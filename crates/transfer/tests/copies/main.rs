//! Pulls and pushes with other servers, sound and broken, over real sockets.

#![allow(unreachable_pub, reason = "modules of one test binary")]

mod connections;
mod fixture;
mod peer;
mod pull;
mod push;
mod resume;

use bytes::Bytes;
use dewar_checksum::{Algorithm, Digest, adler32};

/// Bytes that a seed determines.
fn content(len: usize, seed: u64) -> Bytes {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = (0..len).map(|_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    });
    bytes.collect::<Vec<u8>>().into()
}

fn adler(content: &[u8]) -> Digest {
    let sum = adler32(content).to_be_bytes();
    Digest::new(Algorithm::Adler32, &sum).expect("four bytes")
}

/// The `Digest` header of a content.
fn digest_header(content: &[u8]) -> String {
    format!("Digest: adler32={}\r\n", adler(content).hex())
}

fn md5(content: &[u8]) -> Digest {
    Digest::new(Algorithm::Md5, &dewar_checksum::md5(content)).expect("sixteen bytes")
}
