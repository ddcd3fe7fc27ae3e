//! Keys of content: encrypted with the master key or a customer's, and derived keys.

use std::fmt;

use aws_lc_rs::aead::{Aad, NONCE_LEN, Nonce};
use aws_lc_rs::hmac;
use dewar_auth::{MasterKeyId, MasterKeys};
use dewar_env::Rng;
use dewar_types::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use super::{DataKey, SealedMetadata, cipher, damaged};

/// A key that a customer sends with each request. Wiped on drop, never printed, stored nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct CustomerKey(Zeroizing<[u8; 32]>);

impl CustomerKey {
    /// A key of 256 bits.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Wraps the key of the content called `id`.
    pub(super) fn wrap(&self, id: &[u8], key: &DataKey) -> Vec<u8> {
        wrap_once(&self.wrapping(id), key)
    }

    /// `None` when it was wrapped with another key, or changed.
    pub(super) fn unwrap(&self, id: &[u8], wrapped: &[u8]) -> Option<DataKey> {
        unwrap_once(&self.wrapping(id), wrapped)
    }

    fn wrapping(&self, id: &[u8]) -> Zeroizing<[u8; 32]> {
        derive(&self.0, b"dewar customer key 1\0", id)
    }
}

impl fmt::Debug for CustomerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomerKey")
    }
}

/// A key for one purpose, made from another.
fn derive(key: &[u8; 32], purpose: &[u8], what: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    mac.update(purpose);
    mac.update(what);
    let mut derived = Zeroizing::new([0; 32]);
    derived.copy_from_slice(mac.sign().as_ref());
    derived
}

/// The key that seals the digests of content under `key`.
pub(super) fn seal_key(key: &DataKey) -> Zeroizing<[u8; 32]> {
    derive(&key.0, b"dewar digests 1\0", b"")
}

/// A name for clear bytes with this MD5 under `key`.
pub(super) fn name(key: &DataKey, md5: &[u8; 16]) -> [u8; 16] {
    let derived = derive(&key.0, b"dewar part name 1\0", md5);
    let mut name = [0; 16];
    name.copy_from_slice(&derived[..16]);
    name
}

const CONTENT_KEY: &[u8] = b"dewar content key 1\0";

/// The id of the master key, then the key encrypted with a key that is derived for it alone.
pub(super) fn wrap(master: &MasterKeys, id: &[u8], key: &DataKey) -> Result<Vec<u8>> {
    let current = master.current();
    let wrapping = master
        .derive(current, CONTENT_KEY, id)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "there is no current master key"))?;
    let mut out = current.0.to_vec();
    out.extend_from_slice(&wrap_once(&wrapping, key));
    Ok(out)
}

pub(super) fn unwrap(master: &MasterKeys, id: &[u8], wrapped: &[u8]) -> Result<DataKey> {
    let (of, rest) = wrapped.split_first_chunk::<8>().ok_or_else(damaged)?;
    let wrapping = master
        .derive(MasterKeyId(*of), CONTENT_KEY, id)
        .ok_or_else(|| {
            let message = format!(
                "content is encrypted under master key {}, which the master key file does not hold",
                MasterKeyId(*of)
            );
            Error::new(ErrorKind::Corrupt, message)
        })?;
    unwrap_once(&wrapping, rest).ok_or_else(damaged)
}

/// Encrypts a key with a key that is used only once, so that a fixed nonce is safe.
fn wrap_once(wrapping: &[u8; 32], key: &DataKey) -> Vec<u8> {
    let mut out = key.0.to_vec();
    cipher(wrapping)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            &mut out,
        )
        .expect("32 bytes are sealed");
    out
}

/// `None` when it was sealed with another key, or changed.
fn unwrap_once(wrapping: &[u8; 32], wrapped: &[u8]) -> Option<DataKey> {
    let mut buffer = Zeroizing::new(wrapped.to_vec());
    let clear = cipher(wrapping)
        .open_in_place(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            &mut buffer,
        )
        .ok()?;
    let key: &[u8; 32] = (&*clear).try_into().ok()?;
    Some(DataKey(Zeroizing::new(*key)))
}

/// Encrypts the sealed facts about content: a random nonce, then the ciphertext.
pub(super) fn seal(key: &[u8; 32], rng: &dyn Rng, told: &SealedMetadata) -> Result<Vec<u8>> {
    let clear = minicbor::to_vec(told)
        .map_err(|error| Error::with_source(ErrorKind::Internal, "encode digests", error))?;
    seal_bytes(key, rng, &[], clear)
}

pub(super) fn unseal(key: &[u8; 32], sealed: &[u8]) -> Result<SealedMetadata> {
    minicbor::decode(&unseal_bytes(key, &[], sealed)?).map_err(|_| damaged())
}

/// Encrypts bytes for the place that `place` names: a random nonce, then the ciphertext.
pub(super) fn seal_bytes(
    key: &[u8; 32],
    rng: &dyn Rng,
    place: &[u8],
    mut clear: Vec<u8>,
) -> Result<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    rng.fill(&mut nonce);
    cipher(key)
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(place),
            &mut clear,
        )
        .map_err(|_| Error::new(ErrorKind::Internal, "seal digests"))?;
    let mut out = nonce.to_vec();
    out.append(&mut clear);
    Ok(out)
}

pub(super) fn unseal_bytes(key: &[u8; 32], place: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
    let (nonce, rest) = sealed
        .split_first_chunk::<NONCE_LEN>()
        .ok_or_else(damaged)?;
    let mut buffer = rest.to_vec();
    let clear = cipher(key)
        .open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(place),
            &mut buffer,
        )
        .map_err(|_| damaged())?;
    Ok(clear.to_vec())
}
