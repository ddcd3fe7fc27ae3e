//! Encryption of a small text to several recipients in the format of age (age-encryption.org/v1).
//!
//! It serves for a copy of the master key that is kept where others have access. Any one recipient
//! can open the copy with the tool `age`, without Dewar. Recipients are X25519 ones (`age1…`). A
//! text is one chunk.
//!
//! Only encryption is implemented: Dewar never reads such a file.

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::{aead, hkdf, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use dewar_env::Rng;
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a chunk, and so the longest text.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// More recipients than this are a mistake.
const RECIPIENTS_MAX: usize = 20;

/// Characters of a line between the marks.
const LINE_CHARS: usize = 64;

const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n";
const END: &str = "-----END AGE ENCRYPTED FILE-----\n";

/// Why a text was not encrypted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AgeError {
    /// No recipient of a kind that is known, or one with a mistake in it.
    #[error("{0:?} is no recipient as age-keygen prints it (age1 and 58 more characters)")]
    Recipient(String),
    /// None, or too many.
    #[error("1 to {RECIPIENTS_MAX} recipients are wanted, not {0}")]
    Recipients(usize),
    /// More than one chunk.
    #[error("a text of {0} bytes is longer than {TEXT_BYTES_MAX}")]
    TooLong(usize),
}

/// A recipient: the public key of a person who can decrypt the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgeRecipient([u8; 32]);

impl std::str::FromStr for AgeRecipient {
    type Err = AgeError;

    fn from_str(text: &str) -> Result<Self, AgeError> {
        unbech32("age", text)
            .map(Self)
            .ok_or_else(|| AgeError::Recipient(text.chars().take(80).collect()))
    }
}

/// Encrypts `text` so that each of `recipients` can decrypt it alone. The result is armoured, in
/// lines of ASCII.
///
/// # Errors
/// [`AgeError`].
pub fn age_encrypt(
    rng: &dyn Rng,
    recipients: &[AgeRecipient],
    text: &[u8],
) -> Result<String, AgeError> {
    if recipients.is_empty() || recipients.len() > RECIPIENTS_MAX {
        return Err(AgeError::Recipients(recipients.len()));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(AgeError::TooLong(text.len()));
    }
    let mut file_key = Zeroizing::new([0; 16]);
    rng.fill(&mut *file_key);
    let mut file = b"age-encryption.org/v1\n".to_vec();
    for recipient in recipients {
        let stanza = stanza(rng, recipient, &file_key)?;
        file.extend_from_slice(stanza.as_bytes());
    }
    file.extend_from_slice(b"---");
    let mac_key = derive(&[], &*file_key, b"header");
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &*mac_key), &file);
    file.push(b' ');
    file.extend_from_slice(STANDARD_NO_PAD.encode(mac).as_bytes());
    file.push(b'\n');

    let mut salt = [0; 16];
    rng.fill(&mut salt);
    file.extend_from_slice(&salt);
    // The only chunk is the last one, which the nonce says.
    let mut nonce = [0; aead::NONCE_LEN];
    nonce[aead::NONCE_LEN - 1] = 1;
    let chunk = seal(&derive(&salt, &*file_key, b"payload"), nonce, text);
    file.extend_from_slice(&chunk);

    let mut out = String::with_capacity(file.len() * 3 / 2 + 128);
    out.push_str(BEGIN);
    let encoded = STANDARD.encode(&file);
    for line in encoded.as_bytes().chunks(LINE_CHARS) {
        out.extend(line.iter().map(|byte| char::from(*byte)));
        out.push('\n');
    }
    out.push_str(END);
    Ok(out)
}

/// The key of the file for one recipient.
fn stanza(
    rng: &dyn Rng,
    recipient: &AgeRecipient,
    file_key: &[u8; 16],
) -> Result<String, AgeError> {
    let refused = || AgeError::Recipient("a point of small order".to_owned());
    let mut secret = Zeroizing::new([0; 32]);
    rng.fill(&mut *secret);
    let secret =
        PrivateKey::from_private_key(&X25519, &*secret).expect("32 bytes are a secret of X25519");
    let share = secret
        .compute_public_key()
        .expect("every secret of X25519 has its public half");
    let peer = UnparsedPublicKey::new(&X25519, recipient.0);
    let wrapping = agree(&secret, peer, refused(), |shared| {
        let salt = [share.as_ref(), &recipient.0].concat();
        Ok(derive(&salt, shared, b"age-encryption.org/v1/X25519"))
    })?;
    let body = seal(&wrapping, [0; aead::NONCE_LEN], file_key);
    let (share, body) = (
        STANDARD_NO_PAD.encode(share.as_ref()),
        STANDARD_NO_PAD.encode(body),
    );
    Ok(format!("-> X25519 {share}\n{body}\n"))
}

fn seal(key: &[u8; 32], nonce: [u8; aead::NONCE_LEN], clear: &[u8]) -> Vec<u8> {
    let key = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).expect("32 bytes are a key");
    // Space for the tag too: growing would leave a copy of the text behind.
    let mut out = Vec::with_capacity(clear.len() + aead::CHACHA20_POLY1305.tag_len());
    out.extend_from_slice(clear);
    aead::LessSafeKey::new(key)
        .seal_in_place_append_tag(
            aead::Nonce::assume_unique_for_key(nonce),
            aead::Aad::empty(),
            &mut out,
        )
        .expect("a chunk is sealed");
    out
}

fn derive(salt: &[u8], from: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    let key = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(from);
    let mut out = Zeroizing::new([0; 32]);
    key.expand(&[info], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut *out))
        .expect("32 bytes are the length of SHA-256");
    out
}

const BECH32: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [
        0x3b6a_57b2,
        0x2650_8e6d,
        0x1ea1_19fa,
        0x3d42_33dd,
        0x2a14_62b3,
    ];
    values.fold(1, |sum, value| {
        let top = sum >> 25;
        let sum = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        (0..5).fold(sum, |sum, i| match top >> i & 1 {
            1 => sum ^ GENERATOR[i],
            _ => sum,
        })
    })
}

/// The 32 bytes of a Bech32 text (BIP 173) that begins with `prefix` and `1`.
fn unbech32(prefix: &str, text: &str) -> Option<[u8; 32]> {
    // Either case, but not both.
    let lower = text.to_ascii_lowercase();
    if text != lower && text != text.to_ascii_uppercase() {
        return None;
    }
    let data = lower.strip_prefix(prefix)?.strip_prefix('1')?;
    let value = |byte| BECH32.iter().position(|c| *c == byte);
    let values: Vec<u8> = data
        .bytes()
        .map(|byte| value(byte).and_then(|at| u8::try_from(at).ok()))
        .collect::<Option<_>>()?;
    let head = prefix.bytes().map(|byte| byte >> 5);
    let tail = prefix.bytes().map(|byte| byte & 31);
    if polymod(head.chain([0]).chain(tail).chain(values.iter().copied())) != 1 {
        return None;
    }
    // 52 values of 5 bits hold 256 bits and 4 that are zero; 6 values of checksum follow.
    let values: &[u8; 58] = values.as_slice().try_into().ok()?;
    let (mut bits, mut held, mut out) = (0u32, 0, Vec::with_capacity(32));
    for value in &values[..52] {
        bits = bits << 5 | u32::from(*value);
        held += 5;
        if held >= 8 {
            held -= 8;
            out.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    match bits & ((1 << held) - 1) {
        0 => out.try_into().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use dewar_env::RealRng;

    use super::*;

    /// The reading side, as the format says it, for one recipient's secret.
    fn decrypt(secret: &[u8; 32], armoured: &str) -> Option<Vec<u8>> {
        let inner = armoured.strip_prefix(BEGIN)?.strip_suffix(END)?;
        let file = STANDARD.decode(inner.replace('\n', "")).ok()?;
        let end = file.windows(5).position(|w| w == b"\n--- ")? + 1;
        let (header, rest) = file.split_at(end + 3);
        let mac = STANDARD_NO_PAD.decode(&rest[1..44]).ok()?;
        let secret = PrivateKey::from_private_key(&X25519, secret).ok()?;
        let own = secret.compute_public_key().ok()?;
        let lines: Vec<&str> = std::str::from_utf8(header).ok()?.lines().collect();
        let open = |key: &[u8; 32], nonce, sealed: &[u8]| {
            let key = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, key).ok()?;
            let mut sealed = sealed.to_vec();
            let clear = aead::LessSafeKey::new(key)
                .open_in_place(
                    aead::Nonce::assume_unique_for_key(nonce),
                    aead::Aad::empty(),
                    &mut sealed,
                )
                .ok()?;
            Some(clear.to_vec())
        };
        let file_key = lines[1..lines.len() - 1].chunks(2).find_map(|stanza| {
            let share = STANDARD_NO_PAD
                .decode(stanza[0].strip_prefix("-> X25519 ")?)
                .ok()?;
            let peer = UnparsedPublicKey::new(&X25519, share.clone());
            let wrapping = agree(&secret, peer, (), |shared| {
                let salt = [&share, own.as_ref()].concat();
                Ok(derive(&salt, shared, b"age-encryption.org/v1/X25519"))
            });
            let body = STANDARD_NO_PAD.decode(stanza[1]).ok()?;
            open(&*wrapping.ok()?, [0; 12], &body)
        })?;
        let key = derive(&[], &file_key, b"header");
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &*key), header, &mac).ok()?;
        let payload = &rest[45..];
        let mut nonce = [0; 12];
        nonce[11] = 1;
        open(
            &derive(&payload[..16], &file_key, b"payload"),
            nonce,
            &payload[16..],
        )
    }

    fn pair() -> ([u8; 32], AgeRecipient) {
        let mut secret = [0; 32];
        RealRng.fill(&mut secret);
        let private = PrivateKey::from_private_key(&X25519, &secret).expect("a key");
        let public = private.compute_public_key().expect("its public half");
        (
            secret,
            AgeRecipient(public.as_ref().try_into().expect("32 bytes")),
        )
    }

    #[test]
    fn each_recipient_opens_it_and_nobody_else() {
        let (ann, bob, eve) = (pair(), pair(), pair());
        let text = b"dewar-master-key 1\n".repeat(30);
        let file = age_encrypt(&RealRng, &[ann.1, bob.1], &text).expect("encrypts");
        assert_eq!(decrypt(&ann.0, &file).as_deref(), Some(&text[..]));
        assert_eq!(decrypt(&bob.0, &file).as_deref(), Some(&text[..]));
        assert_eq!(decrypt(&eve.0, &file), None);
        assert!(file.lines().all(|line| line.len() <= LINE_CHARS));
    }

    #[test]
    fn recipients_are_read_as_the_tool_prints_them() {
        // From age's own documentation and tests.
        let text = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
        let recipient: AgeRecipient = text.parse().expect("parses");
        assert_eq!(text.to_uppercase().parse(), Ok(recipient));
        for at in 4..text.len() {
            let other = if text.as_bytes()[at] == b'q' {
                "p"
            } else {
                "q"
            };
            let mut wrong = text.to_owned();
            wrong.replace_range(at..=at, other);
            assert!(wrong.parse::<AgeRecipient>().is_err(), "{wrong}");
        }
        let secret = "AGE-SECRET-KEY-1QQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQPQQ";
        for wrong in [
            "",
            "age1",
            "age1é",
            &text[..40],
            secret,
            &format!("A{}", &text[1..]),
        ] {
            assert!(wrong.parse::<AgeRecipient>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn none_too_many_and_worthless_recipients_are_refused() {
        let one = pair().1;
        assert_eq!(
            age_encrypt(&RealRng, &[], b"x"),
            Err(AgeError::Recipients(0))
        );
        let many = vec![one.clone(); RECIPIENTS_MAX + 1];
        assert!(age_encrypt(&RealRng, &many, b"x").is_err());
        let long = vec![0; TEXT_BYTES_MAX + 1];
        assert!(age_encrypt(&RealRng, &[one], &long).is_err());
        // What is agreed on with a point of small order is known to all.
        assert!(age_encrypt(&RealRng, &[AgeRecipient([0; 32])], b"x").is_err());
    }
}
