//! The credential with which a client proves that it has a key.
//!
//! ```text
//! "sss" 0   2 bytes of nothing   length of the key's name   '0' Blowfish   number of the key, 8 bytes
//! the key's name, filled with zeros to whole words of 8
//! sealed:   32 random bytes   when it was made   3 bytes of nothing   options
//!           items: a letter, a length of 2 bytes, a text with a NUL
//!           CRC-32
//! ```
//!
//! Numbers are big-endian. The sealed part is encrypted with Blowfish in CFB mode with a zero
//! initialization vector. The CRC proves that the key was the right one.

use std::net::IpAddr;

use blowfish::Blowfish;
use cfb_mode::Decryptor;
use cfb_mode::cipher::{InnerIvInit as _, KeyInit as _};
use thiserror::Error;
use zeroize::Zeroizing;

use super::LIFETIME;
use super::keytab::{KeyId, KeyUser, SssKey};

/// What no two credentials share.
pub(crate) type Nonce = [u8; 32];

/// Why a credential is not taken; for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct CredentialError(pub(crate) &'static str);

/// Longest credential, in bytes, as the reference server has it.
const CREDENTIAL_BYTES_MAX: usize = 16 + 192 + 40 + 16_344 + 4;

/// When its clocks begin, in seconds since 1970.
const EPOCH: u64 = 1_222_183_880;

/// Before the items: random bytes, time, filling, options.
const HEAD_BYTES: usize = 40;

const NAME: u8 = 0x01;
const HOST: u8 = 0x20;

/// Opens a credential that came from `client` at `now`, in seconds since 1970: for which user, with
/// which key, and what makes it unlike all others.
pub(crate) fn open(
    credential: &[u8],
    keys: &[SssKey],
    client: IpAddr,
    now: u64,
) -> Result<(String, KeyId, Nonce), CredentialError> {
    if credential.len() > CREDENTIAL_BYTES_MAX {
        return Err(CredentialError("the credential is too long"));
    }
    let short = || CredentialError("the credential is too short");
    let (head, rest) = credential.split_first_chunk::<16>().ok_or_else(short)?;
    if head[..4] != *b"sss\0" || head[7] != b'0' {
        return Err(CredentialError("the credential is of another kind"));
    }
    let sealed = rest.get(usize::from(head[6])..).ok_or_else(short)?;
    if sealed.len() < HEAD_BYTES + 4 {
        return Err(short());
    }
    let mut number = [0; 8];
    number.copy_from_slice(&head[8..]);
    let number = i64::from_be_bytes(number);
    let usable = |key: &&SssKey| key.number == number && (key.expires == 0 || key.expires > now);
    let (key, data) = keys
        .iter()
        .filter(usable)
        .find_map(|key| Some((key, unseal(sealed, key)?)))
        .ok_or(CredentialError("no key opens the credential"))?;
    let mut nonce = [0; 32];
    nonce.copy_from_slice(&data[..32]);
    let mut made = [0; 4];
    made.copy_from_slice(&data[32..36]);
    let made = EPOCH + u64::from(u32::from_be_bytes(made));
    if made.saturating_add(LIFETIME) <= now || now.saturating_add(LIFETIME) <= made {
        return Err(CredentialError(
            "the credential is too old or from the future",
        ));
    }
    if data[39] != 0 {
        return Err(CredentialError(
            "the server shall prove itself, which it cannot",
        ));
    }
    let claims = Claims::read(&data[HEAD_BYTES..])?;
    if !key.anywhere
        && claims.address.map(|from| from.to_canonical()) != Some(client.to_canonical())
    {
        return Err(CredentialError("the credential was made elsewhere"));
    }
    match (&key.user, claims.name) {
        (KeyUser::Named(user), _) => Ok((user.clone(), key.id(), nonce)),
        (KeyUser::Any, Some(user)) => Ok((user, key.id(), nonce)),
        (KeyUser::Any, None) => Err(CredentialError("the credential names no user")),
    }
}

/// What was sealed, without its CRC.
fn unseal(sealed: &[u8], key: &SssKey) -> Option<Zeroizing<Vec<u8>>> {
    let cipher: Blowfish = Blowfish::new_from_slice(&key.value).ok()?;
    let mut data = Zeroizing::new(sealed.to_vec());
    Decryptor::inner_iv_slice_init(cipher, &[0; 8])
        .ok()?
        .decrypt(&mut data);
    let (rest, sum) = data.split_last_chunk::<4>()?;
    if dewar_checksum::crc32(rest) != u32::from_be_bytes(*sum) {
        return None;
    }
    let len = rest.len();
    data.truncate(len);
    Some(data)
}

/// What a client says of itself.
#[derive(Default)]
struct Claims {
    name: Option<String>,
    /// Address of the sender.
    address: Option<IpAddr>,
}

impl Claims {
    fn read(mut items: &[u8]) -> Result<Self, CredentialError> {
        let bad = || CredentialError("what the credential says cannot be read");
        let mut claims = Self::default();
        while let Some((kind, rest)) = items.split_first() {
            let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(bad)?;
            let len = usize::from(u16::from_be_bytes(*len));
            let (text, rest) = rest.split_at_checked(len).ok_or_else(bad)?;
            items = rest;
            let text = text.strip_suffix(b"\0").unwrap_or(text);
            match *kind {
                NAME => {
                    let name = std::str::from_utf8(text).map_err(|_| bad())?;
                    claims.name = Some(name.to_owned()).filter(|name| !name.is_empty());
                }
                // Older clients name their host instead, which proves nothing.
                HOST => claims.address = claims.address.or_else(|| address(text)),
                _ => {}
            }
        }
        Ok(claims)
    }
}

/// An address in brackets, with or without a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let inside = std::str::from_utf8(text).ok()?.strip_prefix('[')?;
    inside.split(']').next()?.parse().ok()
}

/// Fuzz target: parses any bytes as a keytab, as a credential, and as the decrypted part of a
/// credential.
pub fn fuzz_sss(bytes: &[u8]) {
    let nobody = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    let text = String::from_utf8_lossy(bytes);
    let keys = super::parse_keytab(&text).unwrap_or_default();
    // Nothing of chance opens: the sum under the cipher would have to be right.
    let _ = open(bytes, &keys, nobody, EPOCH);
    if let Ok(claims) = Claims::read(bytes) {
        assert!(claims.name.is_none_or(|name| !name.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_keytab;
    use super::*;
    use cfb_mode::Encryptor;

    const NOW: u64 = 1_800_000_000;
    const HERE: &str = "192.0.2.7";

    fn seal(key: &SssKey, made: u64, options: u8, items: &[(u8, &str)]) -> Vec<u8> {
        let mut data = vec![9; 32];
        data.extend_from_slice(&((made - EPOCH) as u32).to_be_bytes());
        data.extend_from_slice(&[0, 0, 0, options]);
        for (kind, text) in items {
            data.push(*kind);
            data.extend_from_slice(&(text.len() as u16 + 1).to_be_bytes());
            data.extend_from_slice(text.as_bytes());
            data.push(0);
        }
        let sum = dewar_checksum::crc32(&data);
        data.extend_from_slice(&sum.to_be_bytes());
        let cipher: Blowfish = Blowfish::new_from_slice(&key.value).expect("a key");
        Encryptor::inner_iv_slice_init(cipher, &[0; 8])
            .expect("8 bytes")
            .encrypt(&mut data);
        let mut credential = b"sss\0\0\0\x08".to_vec();
        credential.push(b'0');
        credential.extend_from_slice(&key.number.to_be_bytes());
        credential.extend_from_slice(b"service\0");
        credential.extend(data);
        credential
    }

    fn opened(credential: &[u8], keys: &[SssKey]) -> Result<String, &'static str> {
        let here = HERE.parse().expect("an address");
        let opened = open(credential, keys, here, NOW);
        opened.map(|(user, ..)| user).map_err(|refused| refused.0)
    }

    #[test]
    fn only_what_was_sealed_now_and_here_opens() {
        let keys = parse_keytab(
            "0 u:ann N:1 k:00112233445566778899aabbccddeeff\n\
             0 u:anybody n:far+ N:2 k:ffeeddccbbaa99887766\n\
             0 u:old N:3 e:1700000000 k:00112233\n\
             0 u:bob N:1 k:8899aabbccddeeff\n",
        )
        .expect("sound");
        let (ann, any, old, bob) = (&keys[0], &keys[1], &keys[2], &keys[3]);
        let here = [(NAME, "somebody"), (HOST, "[::ffff:192.0.2.7]")];
        // A key with a user speaks for that one, whatever is said; of two with one number the
        // right one is found.
        assert_eq!(
            opened(&seal(ann, NOW, 0, &here), &keys).as_deref(),
            Ok("ann")
        );
        assert_eq!(
            opened(&seal(bob, NOW - 12, 0, &here), &keys).as_deref(),
            Ok("bob")
        );
        assert_eq!(
            opened(&seal(any, NOW + 12, 0, &here[..1]), &keys).as_deref(),
            Ok("somebody")
        );
        for (credential, why) in [
            (seal(ann, NOW - 13, 0, &here), "old"),
            (seal(ann, NOW + 13, 0, &here), "future"),
            (seal(ann, NOW, 1, &here), "prove"),
            (seal(ann, NOW, 0, &here[..1]), "elsewhere"),
            (seal(ann, NOW, 0, &[(HOST, "[192.0.2.8]")]), "elsewhere"),
            (seal(ann, NOW, 0, &[(HOST, "192.0.2.7")]), "elsewhere"),
            (seal(any, NOW, 0, &here[1..]), "names no user"),
            (seal(old, NOW, 0, &here), "no key"),
        ] {
            let refused = opened(&credential, &keys).expect_err(why);
            assert!(refused.contains(why), "{refused}: {why}");
        }
        let sound = seal(ann, NOW, 0, &here);
        for at in 8..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            let outcome = opened(&damaged, &keys);
            // The key's name is not looked at.
            assert_eq!(outcome.is_ok(), (16..24).contains(&at), "{at}");
        }
        for len in 0..sound.len() {
            assert!(opened(&sound[..len], &keys).is_err());
        }
    }
}
