//! Encryption of content at rest, with Dewar's keys or the customer's (S3: SSE-S3 and SSE-C).
//!
//! Each object, or multipart upload, has a random key. It is stored encrypted with the master key,
//! or with the key that the customer sends with each request and that is never stored. Page
//! checksums cover the stored bytes, so scrub and repair need no key. Digests of the clear bytes
//! would reveal the content, so they are encrypted too. But the ETag of content under Dewar's key
//! is its MD5, because clients check uploads by it.

mod default;
mod keys;
mod stream;

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use dewar_auth::{MasterKeyId, MasterKeys};
use dewar_catalog::record::{DisplayedChecksum, ETag, EncryptionRecord, KeyHolder, VersionRecord};
use dewar_checksum::DigestSet;
use dewar_env::Rng;
use dewar_types::{Error, ErrorKind, Result};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use zeroize::Zeroizing;

pub use default::BucketEncryption;
pub(crate) use default::chosen;
pub use keys::CustomerKey;
pub(crate) use stream::{Opener, Sealer};

/// How content is encrypted: the only scheme so far.
const SCHEME: u32 = 1;

/// By whose key new content is to be encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Dewar's.
    Dewar,
    /// The customer's.
    Customer(CustomerKey),
}

/// By whose key content is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionMode {
    /// Dewar's.
    ByDewar,
    /// The customer's.
    ByCustomer,
}

impl From<&Encryption> for EncryptionMode {
    fn from(how: &Encryption) -> Self {
        match how {
            Encryption::Dewar => Self::ByDewar,
            Encryption::Customer(_) => Self::ByCustomer,
        }
    }
}

impl From<KeyHolder> for EncryptionMode {
    fn from(holder: KeyHolder) -> Self {
        match holder {
            KeyHolder::Dewar => Self::ByDewar,
            KeyHolder::Customer => Self::ByCustomer,
        }
    }
}

/// The key of one object's bytes. Wiped on drop, never printed.
#[derive(Clone)]
pub(crate) struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    fn cipher(&self) -> LessSafeKey {
        cipher(&self.0)
    }

    #[cfg(test)]
    fn for_tests(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

fn cipher(key: &[u8; 32]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key).expect("32 bytes are a key of AES-256");
    LessSafeKey::new(key)
}

/// The encrypted facts beside the bytes.
#[derive(Debug, PartialEq, Encode, Decode)]
#[cbor(map)]
struct SealedMetadata {
    #[n(0)]
    digests: DigestSet,
    #[n(1)]
    checksum: Option<DisplayedChecksum>,
}

/// Content to be encrypted: its key, and its stored fields.
pub(crate) struct NewDataKey {
    pub(crate) key: DataKey,
    record: EncryptionRecord,
}

/// Chooses a key for new content.
///
/// # Errors
/// [`ErrorKind::Internal`] when the master key cannot encrypt it.
pub(crate) fn begin(how: &Encryption, master: &MasterKeys, rng: &dyn Rng) -> Result<NewDataKey> {
    let mut id = [0; 16];
    rng.fill(&mut id);
    let mut bytes = Zeroizing::new([0; 32]);
    rng.fill(&mut *bytes);
    let key = DataKey(bytes);
    let (holder, wrapped) = match how {
        Encryption::Dewar => (KeyHolder::Dewar, keys::wrap(master, &id, &key)?),
        Encryption::Customer(customer) => (KeyHolder::Customer, customer.wrap(&id, &key)),
    };
    Ok(NewDataKey {
        key,
        record: EncryptionRecord {
            holder,
            scheme: SCHEME,
            id: id.to_vec().into(),
            key: wrapped.into(),
            sealed: None,
        },
    })
}

impl NewDataKey {
    /// The stored fields of complete content: its record, and its ETag.
    pub(crate) fn finish(
        mut self,
        master: &MasterKeys,
        rng: &dyn Rng,
        digests: DigestSet,
        checksum: Option<DisplayedChecksum>,
    ) -> Result<(EncryptionRecord, ETag)> {
        let etag = match (self.record.holder, digests.md5()) {
            (KeyHolder::Dewar, Some(md5)) => ETag::Md5(md5),
            (KeyHolder::Dewar, None) => ETag::Version,
            (KeyHolder::Customer, _) => {
                let mut random = [0; 16];
                rng.fill(&mut random);
                etag_of(random)
            }
        };
        let told = SealedMetadata { digests, checksum };
        let sealed = keys::seal(&keys::seal_key(&self.key), rng, &told)?;
        // It may have taken hours to come, and the master key of its beginning may be gone.
        wrap_anew(&mut self.record, &self.key, master)?;
        let record = EncryptionRecord {
            sealed: Some(sealed.into()),
            ..self.record
        };
        Ok((record, etag))
    }

    /// The stored fields of an upload that has no parts yet.
    pub(crate) fn upload(self) -> EncryptionRecord {
        self.record
    }
}

/// The ETag of a part under a customer's key, which reveals nothing without the key. The same part
/// gets the same ETag when it is sent again, so the first answer stays valid, as with an MD5.
pub(crate) fn part_etag(key: &DataKey, clear: &DigestSet) -> ETag {
    etag_of(keys::name(key, &clear.md5().unwrap_or_default()))
}

fn etag_of(bytes: [u8; 16]) -> ETag {
    ETag::Text(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// The stored fields of content that was joined from the parts of the upload of `record`.
pub(crate) fn finish_upload(
    record: &EncryptionRecord,
    key: &DataKey,
    master: &MasterKeys,
    rng: &dyn Rng,
    digests: DigestSet,
    checksum: Option<DisplayedChecksum>,
) -> Result<EncryptionRecord> {
    let sealed = keys::seal(
        &keys::seal_key(key),
        rng,
        &SealedMetadata { digests, checksum },
    )?;
    let mut record = EncryptionRecord {
        sealed: Some(sealed.into()),
        ..record.clone()
    };
    wrap_anew(&mut record, key, master)?;
    Ok(record)
}

/// Encrypts a content's known key with the current master key, if it is encrypted with an older
/// one. The older master key need not exist any more.
fn wrap_anew(record: &mut EncryptionRecord, key: &DataKey, master: &MasterKeys) -> Result<()> {
    if wrapped_under(record).is_some_and(|id| id != master.current()) {
        record.key = keys::wrap(master, &record.id, key)?.into();
    }
    Ok(())
}

/// The master key that encrypts a content's key; `None` for a customer's key.
pub(crate) fn wrapped_under(record: &EncryptionRecord) -> Option<MasterKeyId> {
    let id = record.key.first_chunk::<8>()?;
    (record.holder == KeyHolder::Dewar).then_some(MasterKeyId(*id))
}

/// Encrypts the content's key with the current master key, if it is encrypted with an older one.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it cannot be decrypted.
pub(crate) fn rewrap(record: &mut EncryptionRecord, master: &MasterKeys) -> Result<()> {
    match wrapped_under(record) {
        Some(id) if id != master.current() => {
            let key = keys::unwrap(master, &record.id, &record.key)?;
            wrap_anew(record, &key, master)
        }
        _ => Ok(()),
    }
}

/// The key of stored content, for a caller who may have it.
///
/// # Errors
/// [`ErrorKind::EncryptionKey`] when the customer's key is missing, wrong, or given for content
/// that is not encrypted with a customer's key.
pub(crate) fn open(
    record: Option<&EncryptionRecord>,
    customer: Option<&CustomerKey>,
    master: &MasterKeys,
) -> Result<Option<DataKey>> {
    let refused = |message: &str| Err(Error::new(ErrorKind::EncryptionKey, message.to_owned()));
    let Some(record) = record else {
        return match customer {
            Some(_) => refused("The encryption parameters are not applicable to this object."),
            None => Ok(None),
        };
    };
    if record.scheme != SCHEME {
        let message = format!("encryption scheme {} is not known", record.scheme);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    match (record.holder, customer) {
        (KeyHolder::Dewar, None) => keys::unwrap(master, &record.id, &record.key).map(Some),
        (KeyHolder::Customer, Some(customer)) => match customer.unwrap(&record.id, &record.key) {
            Some(key) => Ok(Some(key)),
            None => refused("The encryption key provided is not the one of this object."),
        },
        (KeyHolder::Dewar, Some(_)) => {
            refused("The encryption parameters are not applicable to this object.")
        }
        (KeyHolder::Customer, None) => refused(
            "The object was stored using a form of Server Side Encryption. The correct parameters \
             must be provided to retrieve the object.",
        ),
    }
}

/// Decrypts the digests of an encrypted version into their fields.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when they cannot be decrypted.
pub(crate) fn unseal(version: &mut VersionRecord, key: &DataKey) -> Result<()> {
    let Some(record) = &version.encryption else {
        return Ok(());
    };
    let sealed = record.sealed.as_ref().ok_or_else(damaged)?;
    let told: SealedMetadata = keys::unseal(&keys::seal_key(key), sealed)?;
    version.digests = told.digests;
    version.checksum = told.checksum;
    Ok(())
}

/// Adds computed digests to a version, encrypted if its content is encrypted.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when its existing digests cannot be decrypted.
pub(crate) fn learn(
    version: &mut VersionRecord,
    key: Option<&DataKey>,
    master: &MasterKeys,
    rng: &dyn Rng,
    digests: &DigestSet,
) -> Result<()> {
    let Some(record) = &version.encryption else {
        version.digests = version.digests.union(digests);
        return Ok(());
    };
    let key = key.ok_or_else(damaged)?;
    let sealed = record.sealed.as_ref().ok_or_else(damaged)?;
    let told: SealedMetadata = keys::unseal(&keys::seal_key(key), sealed)?;
    let all = told.digests.union(digests);
    let sealed = finish_upload(record, key, master, rng, all, told.checksum)?;
    version.encryption = Some(sealed);
    Ok(())
}

/// The kind of a shown checksum, without its value: for listings, which have no key.
pub(crate) fn named(checksum: &DisplayedChecksum) -> DisplayedChecksum {
    match checksum {
        DisplayedChecksum::Full(name) => DisplayedChecksum::Full(name.clone()),
        DisplayedChecksum::Composite(name, _, parts) => {
            DisplayedChecksum::Composite(name.clone(), Vec::new().into(), *parts)
        }
    }
}

/// Encrypts the digests of the parts of joined content, in their order.
pub(crate) fn seal_parts(
    key: &DataKey,
    rng: &dyn Rng,
    digests: Vec<ByteVec>,
) -> Result<Vec<ByteVec>> {
    let key = keys::seal_key(key);
    let digests = (0_u32..).zip(digests);
    digests
        .map(|(index, digest)| {
            let sealed = keys::seal_bytes(&key, rng, &index.to_be_bytes(), digest.into())?;
            Ok(sealed.into())
        })
        .collect()
}

/// Decrypts the digest of a part, counted from 0.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it cannot be decrypted.
pub(crate) fn unseal_part(key: &DataKey, index: u32, sealed: &[u8]) -> Result<Vec<u8>> {
    keys::unseal_bytes(&keys::seal_key(key), &index.to_be_bytes(), sealed)
}

fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "the record of an encryption is damaged")
}
