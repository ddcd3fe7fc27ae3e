//! Encryption of secrets for storage: AES-256-GCM under the master key.
//!
//! An encrypted secret is bound to its record. The caller names the record as `context`, and a
//! value that was moved to another record cannot be decrypted. Nonces are random. 96 random bits
//! are safe for about 2^32 encryptions under one key (NIST SP 800-38D section 8.3), far more than
//! the number of access keys.
//!
//! The format is described in `docs/formats/secrets.md`.

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use dewar_env::Rng;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{MasterKeyId, MasterKeys, Secret};

/// First byte of a wrapped secret.
const VERSION: u8 = 1;

const ID_AT: usize = 1;
const NONCE_AT: usize = ID_AT + 8;
const SECRET_AT: usize = NONCE_AT + NONCE_LEN;
const TAG_BYTES: usize = 16;

/// Secrets longer than this are refused, in both directions.
pub const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Why a secret could not be wrapped or unwrapped.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum WrapError {
    /// Longer than [`SECRET_BYTES_MAX`].
    #[error("a secret of {0} bytes is longer than {SECRET_BYTES_MAX}")]
    TooLong(usize),
    /// Cut, or of a version that this program does not know.
    #[error("not a wrapped secret of a known version")]
    Malformed,
    /// Wrapped with a key that the master key file does not hold.
    #[error("wrapped with master key {0}, which the master key file does not hold")]
    UnknownKey(MasterKeyId),
    /// Changed, or moved from another record.
    #[error("the wrapped secret is damaged or belongs to another record")]
    Damaged,
}

impl MasterKeys {
    /// Encrypts `secret` for the record that `context` names, like `access-key:AKIA…`.
    ///
    /// # Errors
    /// [`WrapError::TooLong`].
    pub fn wrap(
        &self,
        rng: &dyn Rng,
        context: &str,
        secret: &Secret,
    ) -> Result<Vec<u8>, WrapError> {
        let clear = secret.reveal().as_bytes();
        if clear.len() > SECRET_BYTES_MAX {
            return Err(WrapError::TooLong(clear.len()));
        }
        let mut nonce = [0; NONCE_LEN];
        rng.fill(&mut nonce);
        self.with_current(|id, key| {
            let mut out = Vec::with_capacity(SECRET_AT + clear.len() + TAG_BYTES);
            out.push(VERSION);
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&nonce);
            out.extend_from_slice(clear);
            let tag = key
                .seal_in_place_separate_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(associated(id, context)),
                    &mut out[SECRET_AT..],
                )
                .expect("a text below the limit of AES-GCM is sealed");
            out.extend_from_slice(tag.as_ref());
            Ok(out)
        })
    }

    /// Decrypts a value that [`MasterKeys::wrap`] made for the same `context`.
    ///
    /// # Errors
    /// When the bytes are malformed, the key does not exist, or they were changed or moved.
    pub fn unwrap_secret(&self, context: &str, wrapped: &[u8]) -> Result<Secret, WrapError> {
        let id = wrapped_with(wrapped)?;
        if wrapped.len() > SECRET_AT + SECRET_BYTES_MAX + TAG_BYTES {
            return Err(WrapError::TooLong(wrapped.len()));
        }
        let nonce = wrapped[NONCE_AT..SECRET_AT]
            .try_into()
            .map_err(|_| WrapError::Malformed)?;
        let mut buffer = Zeroizing::new(wrapped[SECRET_AT..].to_vec());
        let clear = self
            .with_aead(id, |key| {
                key.open_in_place(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(associated(id, context)),
                    &mut buffer,
                )
            })
            .ok_or(WrapError::UnknownKey(id))?
            .map_err(|_| WrapError::Damaged)?;
        let text = std::str::from_utf8(clear).map_err(|_| WrapError::Damaged)?;
        Ok(Secret::new(text.to_owned()))
    }
}

/// The master key that `wrapped` was encrypted with.
///
/// # Errors
/// When the bytes are not an encrypted secret of a known version.
pub fn wrapped_with(wrapped: &[u8]) -> Result<MasterKeyId, WrapError> {
    if wrapped.len() < SECRET_AT + TAG_BYTES || wrapped[0] != VERSION {
        return Err(WrapError::Malformed);
    }
    let id = wrapped[ID_AT..NONCE_AT]
        .try_into()
        .map_err(|_| WrapError::Malformed)?;
    Ok(MasterKeyId(id))
}

/// The authenticated data beside the secret: purpose, version, key and record.
fn associated(id: MasterKeyId, context: &str) -> Vec<u8> {
    let mut out = b"dewar secret\0".to_vec();
    out.push(VERSION);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(context.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use dewar_env::RealRng;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[test]
    fn unwraps_what_it_wrapped() {
        let keys = MasterKeys::generate(&RealRng);
        for text in ["", "x", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "päss"] {
            let wrapped = keys
                .wrap(&RealRng, "access-key/A", &secret(text))
                .expect("wraps");
            assert_eq!(wrapped_with(&wrapped), Ok(keys.current()));
            let clear = keys
                .unwrap_secret("access-key/A", &wrapped)
                .expect("unwraps");
            assert_eq!(clear.reveal(), text);
            let holds = |part: &[u8]| wrapped.windows(part.len()).any(|window| window == part);
            assert!(text.len() < 4 || !holds(text.as_bytes()));
            let again = keys
                .wrap(&RealRng, "access-key/A", &secret(text))
                .expect("wraps");
            assert_ne!(again, wrapped, "a nonce is never used twice");
        }
    }

    /// Version 1 must always open. These bytes were made by another implementation (Python's
    /// `cryptography`) from key 32 x 0x07, nonce 12 x 0x09 and the layout in the format page.
    #[test]
    fn a_secret_of_version_1_opens() {
        struct Seven;
        impl Rng for Seven {
            fn fill(&self, bytes: &mut [u8]) {
                bytes.fill(if bytes.len() == 32 { 7 } else { 9 });
            }
        }
        let keys = MasterKeys::generate(&Seven);
        let wrapped = [
            0x01, 0xf3, 0xd0, 0x22, 0x72, 0x07, 0x46, 0xd4, 0xb6, 0x09, 0x09, 0x09, 0x09, 0x09,
            0x09, 0x09, 0x09, 0x09, 0x09, 0x09, 0x09, 0x46, 0xa5, 0xef, 0xfa, 0xd1, 0x87, 0xaf,
            0x41, 0xd3, 0x07, 0xa8, 0x4a, 0x83, 0x9e, 0x0f, 0x27, 0x8a, 0xae, 0xfd, 0x6d, 0x94,
            0xc2, 0x26, 0x0a, 0x29, 0x18, 0xb4, 0xf9, 0xcf, 0x0b,
        ];
        let clear = keys
            .unwrap_secret("access-key/AKIA", &wrapped)
            .expect("opens");
        assert_eq!(clear.reveal(), "a known secret");
        let again = keys.wrap(&Seven, "access-key/AKIA", &clear).expect("wraps");
        assert_eq!(again, wrapped);
    }

    #[test]
    fn what_was_changed_moved_or_cut_does_not_unwrap() {
        let keys = MasterKeys::generate(&RealRng);
        let wrapped = keys
            .wrap(&RealRng, "access-key/A", &secret("s3cret"))
            .expect("wraps");
        let damaged = Err(WrapError::Damaged);
        assert_eq!(keys.unwrap_secret("access-key/B", &wrapped), damaged);
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert!(
                keys.unwrap_secret("access-key/A", &changed).is_err(),
                "byte {at}"
            );
            assert!(
                keys.unwrap_secret("access-key/A", &wrapped[..at]).is_err(),
                "cut at {at}"
            );
        }
        let other = MasterKeys::generate(&RealRng);
        assert_eq!(
            other.unwrap_secret("access-key/A", &wrapped),
            Err(WrapError::UnknownKey(keys.current()))
        );
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        assert!(keys.wrap(&RealRng, "a", &secret(&long)).is_err());
    }
}
