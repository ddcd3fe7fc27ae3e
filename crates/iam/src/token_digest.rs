//! Digests of credentials, under which they are remembered and named in logs.

/// Something that is remembered under the digest of a token, so that no token is kept.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest_of(token: &str) -> Digest {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

/// What a token is called in logs: the first digits of its digest.
pub(crate) fn token_name(digest: &Digest) -> String {
    let mut name = String::from("token:");
    for byte in &digest[..8] {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}
