//! The master key, which encrypts every secret that Dewar must know in clear (RECORDS.md section
//! 7).
//!
//! This module has the key and the text of its file. The server reads and writes the file. The
//! format is in `docs/formats/secrets.md`.
//!
//! A file may contain several keys. The first encrypts, and every one decrypts. So a key can be
//! replaced while records encrypted with the old one still exist.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::{aead, hmac};
use dewar_env::Rng;
use subtle::ConstantTimeEq as _;
use thiserror::Error;
use zeroize::Zeroizing;

/// First line of a master key file.
const HEADER: &str = "dewar-master-key 1";

/// Bytes of an AES-256 key.
const KEY_BYTES: usize = 32;

/// More keys than this in one file are a mistake.
const KEYS_MAX: usize = 64;

/// The id of a master key: the first 8 bytes of an HMAC-SHA-256 under it. So no key can be taken
/// for another, and the id reveals nothing about the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MasterKeyId(pub [u8; 8]);

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKeyId({self})")
    }
}

impl FromStr for MasterKeyId {
    type Err = MasterKeyError;

    fn from_str(text: &str) -> Result<Self, MasterKeyError> {
        let mut id = [0; 8];
        hex_into(text, &mut id).ok_or(MasterKeyError::Malformed("an id is not 16 hex digits"))?;
        Ok(Self(id))
    }
}

/// The error in the text of a master key file. It contains none of the text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MasterKeyError {
    /// Another kind of file, or a later version.
    #[error("the first line is not {HEADER:?}")]
    Header,
    /// A line that is not as it should be.
    #[error("{0}")]
    Malformed(&'static str),
    /// A key that does not match the id beside it: the file is damaged.
    #[error("the key does not match its id {0}: the file is damaged")]
    Mismatch(MasterKeyId),
}

struct Key {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    aead: aead::LessSafeKey,
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> (MasterKeyId, Self) {
        let mac = hmac::Key::new(hmac::HMAC_SHA256, &*bytes);
        let tag = hmac::sign(&mac, b"dewar master key id");
        let mut id = [0; 8];
        id.copy_from_slice(&tag.as_ref()[..8]);
        let unbound = aead::UnboundKey::new(&aead::AES_256_GCM, &*bytes)
            .expect("32 bytes are an AES-256 key");
        let aead = aead::LessSafeKey::new(unbound);
        (MasterKeyId(id), Self { bytes, aead })
    }
}

/// One current master key and the replaced ones, shared by all code that encrypts and decrypts. A
/// rotation takes effect for all at the same moment ([`MasterKeys::take_up`]). Wiped on drop, never
/// printed.
pub struct MasterKeys {
    ring: ArcSwap<Ring>,
}

/// The keys at one moment.
#[derive(Clone)]
struct Ring {
    keys: BTreeMap<MasterKeyId, Arc<Key>>,
    /// The order of the file; the first one wraps, and there is one.
    order: Vec<MasterKeyId>,
}

/// Why no further key can be made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("there are {KEYS_MAX} master keys already: retire some first")]
pub struct TooManyKeys;

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKeys({:?}, current first)", self.ids())
    }
}

impl Ring {
    fn generated(rng: &dyn Rng) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        rng.fill(&mut *bytes);
        let (id, key) = Key::new(bytes);
        Self {
            keys: BTreeMap::from([(id, Arc::new(key))]),
            order: vec![id],
        }
    }
}

impl From<Ring> for MasterKeys {
    fn from(ring: Ring) -> Self {
        let ring = ArcSwap::from_pointee(ring);
        Self { ring }
    }
}

impl MasterKeys {
    /// A new key from `rng`, which must be fit for keys.
    #[must_use]
    pub fn generate(rng: &dyn Rng) -> Self {
        Ring::generated(rng).into()
    }

    /// These keys behind a new one, which encrypts. Nothing uses it before [`MasterKeys::take_up`].
    ///
    /// # Errors
    /// [`TooManyKeys`].
    pub fn with_new(&self, rng: &dyn Rng) -> Result<Self, TooManyKeys> {
        let mut ring = Ring::generated(rng);
        let old = self.ring.load_full();
        if old.order.len() >= KEYS_MAX {
            return Err(TooManyKeys);
        }
        ring.keys.extend(old.keys.clone());
        ring.order.extend(&old.order);
        Ok(ring.into())
    }

    /// These keys without the one called `id`; `None` if it is the one that encrypts, or does not
    /// exist.
    #[must_use]
    pub fn without(&self, id: MasterKeyId) -> Option<Self> {
        let mut ring = Ring::clone(&self.ring.load());
        if ring.order.first() == Some(&id) {
            return None;
        }
        ring.keys.remove(&id)?;
        ring.order.retain(|other| *other != id);
        Some(ring.into())
    }

    /// Uses `other`'s keys in place of these from now on.
    pub fn take_up(&self, other: &Self) {
        self.ring.store(other.ring.load_full());
    }

    /// Reads the text of a master key file.
    ///
    /// # Errors
    /// When it is not one, or damaged; the error holds none of the text.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if lines.next() != Some(HEADER) {
            return Err(MasterKeyError::Header);
        }
        let mut keys = BTreeMap::new();
        let mut order = Vec::new();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            let (Some("key"), Some(id), Some(hex), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(MasterKeyError::Malformed("a line is not \"key ID HEX\""));
            };
            let id: MasterKeyId = id.parse()?;
            let mut bytes = Zeroizing::new([0; KEY_BYTES]);
            hex_into(hex, &mut *bytes)
                .ok_or(MasterKeyError::Malformed("a key is not 64 hex digits"))?;
            let (derived, key) = Key::new(bytes);
            if !bool::from(derived.0.ct_eq(&id.0)) {
                return Err(MasterKeyError::Mismatch(id));
            }
            if keys.insert(id, Arc::new(key)).is_some() {
                return Err(MasterKeyError::Malformed("a key stands there twice"));
            }
            order.push(id);
            if order.len() > KEYS_MAX {
                return Err(MasterKeyError::Malformed("more than 64 keys"));
            }
        }
        if order.is_empty() {
            return Err(MasterKeyError::Malformed("there is no key in it"));
        }
        Ok(Ring { keys, order }.into())
    }

    /// The text of the file, which [`MasterKeys::parse`] reads.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let ring = self.ring.load();
        // Written into space that is there already: growing would leave copies behind.
        let mut text = Zeroizing::new(String::with_capacity(256 + 128 * ring.order.len()));
        text.push_str(HEADER);
        text.push_str("\n# Keep a copy elsewhere: without it no stored credential can be read.\n");
        for id in &ring.order {
            text.push_str("key ");
            push_hex(&mut text, &id.0);
            text.push(' ');
            push_hex(&mut text, &*ring.keys[id].bytes);
            text.push('\n');
        }
        text
    }

    /// The key that wraps.
    #[must_use]
    pub fn current(&self) -> MasterKeyId {
        self.ring.load().order[0]
    }

    /// All keys, the one that wraps first.
    #[must_use]
    pub fn ids(&self) -> Vec<MasterKeyId> {
        self.ring.load().order.clone()
    }

    /// A key for one purpose and one object, derived from the master key called `id`: HMAC-SHA-256
    /// over purpose and object. `None` if the file does not have that master key.
    #[must_use]
    pub fn derive(
        &self,
        id: MasterKeyId,
        purpose: &[u8],
        what: &[u8],
    ) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
        let key = Arc::clone(self.ring.load().keys.get(&id)?);
        let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &*key.bytes));
        mac.update(purpose);
        mac.update(what);
        let mut derived = Zeroizing::new([0; KEY_BYTES]);
        derived.copy_from_slice(mac.sign().as_ref());
        Some(derived)
    }

    /// Whether the file holds the key called `id`.
    #[must_use]
    pub fn holds(&self, id: MasterKeyId) -> bool {
        self.ring.load().keys.contains_key(&id)
    }

    /// Seals and opens under the key called `id`.
    pub(crate) fn with_aead<T>(
        &self,
        id: MasterKeyId,
        work: impl FnOnce(&aead::LessSafeKey) -> T,
    ) -> Option<T> {
        let key = Arc::clone(self.ring.load().keys.get(&id)?);
        Some(work(&key.aead))
    }

    /// The key that wraps, with its id: both of one moment.
    pub(crate) fn with_current<T>(
        &self,
        work: impl FnOnce(MasterKeyId, &aead::LessSafeKey) -> T,
    ) -> T {
        let ring = self.ring.load_full();
        let id = ring.order[0];
        work(id, &ring.keys[&id].aead)
    }
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn hex_into(text: &str, bytes: &mut [u8]) -> Option<()> {
    let text = text.as_bytes();
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(digits[0]).to_digit(16)?;
        let low = char::from(digits[1]).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats one byte: known answers need known keys.
    struct Repeat(u8);

    impl Rng for Repeat {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let keys = MasterKeys::generate(&dewar_env::RealRng);
        let text = keys.to_text();
        let again = MasterKeys::parse(&text).expect("parses");
        assert_eq!(again.current(), keys.current());
        assert_eq!(*again.to_text(), *text);
        assert_ne!(
            MasterKeys::generate(&dewar_env::RealRng).current(),
            keys.current()
        );
    }

    #[test]
    fn the_id_is_what_the_format_says() {
        // HMAC-SHA-256(key = 32 x 0x07, "dewar master key id"), first 8 bytes; from Python's hmac.
        let keys = MasterKeys::generate(&Repeat(7));
        assert_eq!(keys.current().to_string(), "f3d022720746d4b6");
    }

    #[test]
    fn several_keys_first_is_current() {
        let new = MasterKeys::generate(&Repeat(1));
        let old = MasterKeys::generate(&Repeat(2));
        let line = |keys: &MasterKeys| {
            let text = keys.to_text();
            text.lines().last().expect("a key line").to_owned()
        };
        let text = format!("{HEADER}\n{}\n{}\n", line(&new), line(&old));
        let both = MasterKeys::parse(&text).expect("parses");
        assert_eq!(both.current(), new.current());
        assert!(both.holds(old.current()));
        assert!(!new.holds(old.current()));
    }

    #[test]
    fn a_new_key_wraps_and_the_old_one_goes_on_unwrapping_until_it_is_retired() {
        let keys = MasterKeys::generate(&Repeat(1));
        let old = keys.current();
        let secret = crate::Secret::new("a known secret".to_owned());
        let wrapped = keys.wrap(&Repeat(9), "a", &secret).expect("wraps");
        let next = keys.with_new(&Repeat(2)).expect("room");
        assert_eq!(keys.current(), old, "nothing happens before it is taken up");
        keys.take_up(&next);
        assert_ne!(keys.current(), old);
        assert_eq!(keys.ids(), [keys.current(), old]);
        assert_eq!(keys.unwrap_secret("a", &wrapped), Ok(secret.clone()));
        let anew = keys.wrap(&Repeat(9), "a", &secret).expect("wraps");
        assert_eq!(crate::wrapped_with(&anew), Ok(keys.current()));
        assert!(keys.without(keys.current()).is_none());
        let alone = keys.without(old).expect("it is there");
        assert!(alone.without(old).is_none());
        keys.take_up(&alone);
        assert!(keys.unwrap_secret("a", &wrapped).is_err());
        assert_eq!(
            *MasterKeys::parse(&keys.to_text()).expect("parses").ids(),
            keys.ids()
        );
    }

    #[test]
    fn there_are_never_more_keys_than_a_file_may_hold() {
        let keys = MasterKeys::generate(&dewar_env::RealRng);
        for _ in 1..KEYS_MAX {
            keys.take_up(&keys.with_new(&dewar_env::RealRng).expect("room"));
        }
        MasterKeys::parse(&keys.to_text()).expect("parses");
        assert_eq!(keys.with_new(&dewar_env::RealRng).err(), Some(TooManyKeys));
    }

    #[test]
    fn damage_is_seen_and_not_repeated() {
        let text = MasterKeys::generate(&Repeat(3)).to_text().to_string();
        let secret = "03".repeat(32);
        assert!(text.contains(&secret));
        let damaged = text.replacen(&secret, &("04".to_owned() + &secret[2..]), 1);
        let twice = format!("{text}{}", text.lines().last().expect("a key line"));
        for bad in [
            "",
            "something else",
            HEADER,
            &damaged,
            &twice,
            &text.replace("key ", "kee "),
            &text[..text.len() - 3],
        ] {
            let error = MasterKeys::parse(bad).expect_err("refused");
            assert!(!format!("{error}{error:?}").contains(&secret[..8]));
        }
        assert!(matches!(
            MasterKeys::parse(&damaged),
            Err(MasterKeyError::Mismatch(_))
        ));
        assert!(!format!("{:?}", MasterKeys::generate(&Repeat(3))).contains("0303"));
    }
}
