//! Every key of the catalog. The first byte names the table ([`crate::tables`]); numbers are
//! big-endian, so that keys sort as their parts do. docs/formats/catalog.md has the parts of each
//! key.
//!
//! In table `e` a file `a` sorts as `a` and a directory `a` as `a/`. Names hold no `/`, so walking
//! directories depth-first in key order visits whole paths in byte order, as S3 lists them.

use bytes::{BufMut, Bytes, BytesMut};
use dewar_types::{BlobId, DiskId, EntryId, Error, ErrorKind, TenantId, UploadId, VersionId};

pub use crate::key_range::{KeyRange, Pages, after_prefix, just_after};
use crate::tables::{
    ACCESS_KEY, BLOB, COUNTER, DEAD, DISK, DOCUMENT, ENTRY, FREE, HINT, IDENTITY, IDS, LOCK, LONG,
    PART, REBUILT, REFERENCES, REMOVAL, REPAIR, SEGMENT, SPACE, TENANT, Table, UPLOAD, USER,
    VERSION, WORK,
};

/// The error of a key or value that no release wrote.
#[must_use]
pub fn corrupt(key: &[u8], what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("catalog key {} is not a valid {what}", key.escape_ascii()),
    )
}

/// A file or symlink `name` in `parent`.
#[must_use]
pub fn file(parent: EntryId, name: &str) -> Bytes {
    ENTRY.key(&[&parent.0.to_be_bytes(), name.as_bytes()])
}

/// A directory `name` in `parent`.
#[must_use]
pub fn dir(parent: EntryId, name: &str) -> Bytes {
    ENTRY.key(&[&parent.0.to_be_bytes(), name.as_bytes(), b"/"])
}

/// The entries of a directory.
#[must_use]
pub fn entries(parent: EntryId) -> KeyRange {
    ENTRY.range(&[&parent.0.to_be_bytes()])
}

/// Key of the first entry in a directory from `name` on. `name` is bytes of a path; it may end in
/// the `/` of a directory or in the middle of a character.
#[must_use]
pub fn entries_from(parent: EntryId, name: &[u8]) -> Bytes {
    ENTRY.key(&[&parent.0.to_be_bytes(), name])
}

/// The name in an entry key, and whether it is a directory's.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no entry key.
pub fn parse_entry(key: &[u8]) -> Result<(EntryId, &str, bool), Error> {
    let (parent, rest) = numbered(key, ENTRY)?;
    let (name, is_dir) = match rest.split_last() {
        Some((b'/', name)) => (name, true),
        _ => (rest, false),
    };
    let name = core::str::from_utf8(name)
        .ok()
        .filter(|name| !name.contains('/'))
        .ok_or_else(|| corrupt(key, ENTRY.name))?;
    Ok((EntryId(parent), name, is_dir))
}

/// The number behind the first byte of a key of `table`, and the rest of the key.
fn numbered(key: &[u8], table: Table) -> Result<(u64, &[u8]), Error> {
    let rest = key.strip_prefix(&[table.prefix]);
    let (number, rest) = rest
        .and_then(|rest| rest.split_first_chunk::<8>())
        .ok_or_else(|| corrupt(key, table.name))?;
    Ok((u64::from_be_bytes(*number), rest))
}

/// An older version of the file `name` in `parent`.
#[must_use]
pub fn version(parent: EntryId, name: &str, version: VersionId) -> Bytes {
    VERSION.key(&[
        &parent.0.to_be_bytes(),
        name.as_bytes(),
        b"/",
        &(!version.0).to_be_bytes(),
    ])
}

/// All older versions of the file `name` in `parent`, newest first.
#[must_use]
pub fn versions(parent: EntryId, name: &str) -> KeyRange {
    VERSION.range(&[&parent.0.to_be_bytes(), name.as_bytes(), b"/"])
}

/// All older versions of all files in `parent`.
#[must_use]
pub fn versions_in(parent: EntryId) -> KeyRange {
    VERSION.range(&[&parent.0.to_be_bytes()])
}

/// Parent, name and version of an older version's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_version(key: &[u8]) -> Result<(EntryId, &str, VersionId), Error> {
    let (parent, rest) = numbered(key, VERSION)?;
    let bad = || corrupt(key, VERSION.name);
    let (rest, inverted) = rest.split_last_chunk::<16>().ok_or_else(bad)?;
    let name = rest.strip_suffix(b"/").ok_or_else(bad)?;
    let name = core::str::from_utf8(name).map_err(|_| bad())?;
    Ok((
        EntryId(parent),
        name,
        VersionId(!u128::from_be_bytes(*inverted)),
    ))
}

/// A lock of the file or directory `name` in `parent`.
#[must_use]
pub fn lock(parent: EntryId, name: &str, lock: u128) -> Bytes {
    LOCK.key(&[
        &parent.0.to_be_bytes(),
        name.as_bytes(),
        b"/",
        &lock.to_be_bytes(),
    ])
}

/// All locks of the file or directory `name` in `parent`.
#[must_use]
pub fn locks(parent: EntryId, name: &str) -> KeyRange {
    LOCK.range(&[&parent.0.to_be_bytes(), name.as_bytes(), b"/"])
}

/// The number of the lock in its key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_lock(key: &[u8]) -> Result<u128, Error> {
    let (_, rest) = numbered(key, LOCK)?;
    let (name, lock) = rest
        .split_last_chunk::<16>()
        .ok_or_else(|| corrupt(key, LOCK.name))?;
    match name.ends_with(b"/") {
        true => Ok(u128::from_be_bytes(*lock)),
        false => Err(corrupt(key, LOCK.name)),
    }
}

/// The name of the space in a directory.
#[must_use]
pub fn space(directory: EntryId) -> Bytes {
    SPACE.key(&[&directory.0.to_be_bytes()])
}

/// The directory of a space in its key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_space(key: &[u8]) -> Result<EntryId, Error> {
    match numbered(key, SPACE)? {
        (directory, []) => Ok(EntryId(directory)),
        _ => Err(corrupt(key, SPACE.name)),
    }
}

/// A chunk of a long list: `list` is the copy's index, [`PARTS_LIST`] or [`PART_DIGESTS_LIST`].
#[must_use]
pub fn long(version: VersionId, list: u8, chunk: u16) -> Bytes {
    LONG.key(&[&version.0.to_be_bytes(), &[list], &chunk.to_be_bytes()])
}

/// The list of [`long`] that holds part sizes.
pub const PARTS_LIST: u8 = 0xff;
/// The list of [`long`] that holds part checksums.
pub const PART_DIGESTS_LIST: u8 = 0xfe;

/// A document of a bucket; see [`crate::record::DocumentKind`] for the kinds.
#[must_use]
pub fn document(bucket: EntryId, kind: u8) -> Bytes {
    DOCUMENT.key(&[&bucket.0.to_be_bytes(), &[kind]])
}

/// All documents of a bucket.
#[must_use]
pub fn documents(bucket: EntryId) -> KeyRange {
    DOCUMENT.range(&[&bucket.0.to_be_bytes()])
}

/// All documents of all buckets.
#[must_use]
pub fn all_documents() -> KeyRange {
    DOCUMENT.keys()
}

/// Bucket and kind of a document's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_document(key: &[u8]) -> Result<(EntryId, u8), Error> {
    match numbered(key, DOCUMENT)? {
        (bucket, [kind]) => Ok((EntryId(bucket), *kind)),
        _ => Err(corrupt(key, DOCUMENT.name)),
    }
}

/// The hint that the directory may have become empty.
#[must_use]
pub fn hint(dir: EntryId) -> Bytes {
    HINT.key(&[&dir.0.to_be_bytes()])
}

/// The directory of a hint.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no hint key.
pub fn parse_hint(key: &[u8]) -> Result<EntryId, Error> {
    match numbered(key, HINT)? {
        (dir, []) => Ok(EntryId(dir)),
        _ => Err(corrupt(key, HINT.name)),
    }
}

/// A removed directory whose content is being freed.
#[must_use]
pub fn removal(dir: EntryId) -> Bytes {
    REMOVAL.key(&[&dir.0.to_be_bytes()])
}

/// The directory of a removal.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_removal(key: &[u8]) -> Result<EntryId, Error> {
    match numbered(key, REMOVAL)? {
        (dir, []) => Ok(EntryId(dir)),
        _ => Err(corrupt(key, REMOVAL.name)),
    }
}

/// Object keys as they stand inside a longer key: 0x00 becomes 0x00 0xff, and 0x00 0x00 ends it,
/// so that order is kept and no key is a prefix of another.
fn escape(key: &[u8], out: &mut BytesMut) {
    for &byte in key {
        out.put_u8(byte);
        if byte == 0 {
            out.put_u8(0xff);
        }
    }
}

/// A multipart upload of `key` in `bucket`.
#[must_use]
pub fn upload(bucket: EntryId, key: &str, upload: UploadId) -> Bytes {
    let mut out = BytesMut::from(&uploads_prefix(bucket, key.as_bytes())[..]);
    out.put_slice(&[0, 0]);
    out.put_slice(&upload.0.to_be_bytes());
    out.freeze()
}

/// All uploads of a bucket.
#[must_use]
pub fn uploads(bucket: EntryId) -> KeyRange {
    KeyRange::prefix(uploads_prefix(bucket, b""))
}

/// Common prefix of the keys of all uploads to object keys that begin with `prefix`.
#[must_use]
pub fn uploads_prefix(bucket: EntryId, prefix: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(32 + prefix.len());
    out.put_u8(UPLOAD.prefix);
    out.put_u64(bucket.0);
    escape(prefix, &mut out);
    out.freeze()
}

/// Bucket, object key and upload of an upload's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_upload(key: &[u8]) -> Result<(EntryId, String, UploadId), Error> {
    let bad = || corrupt(key, UPLOAD.name);
    let (bucket, rest) = numbered(key, UPLOAD)?;
    let (escaped, id) = rest.split_last_chunk::<16>().ok_or_else(bad)?;
    let escaped = escaped.strip_suffix(&[0, 0]).ok_or_else(bad)?;
    let mut plain = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(byte);
        if byte == 0 && bytes.next() != Some(&0xff) {
            return Err(bad());
        }
    }
    let object = String::from_utf8(plain).map_err(|_| bad())?;
    Ok((EntryId(bucket), object, UploadId(u128::from_be_bytes(*id))))
}

/// A part of an upload.
#[must_use]
pub fn part(upload: UploadId, number: u16) -> Bytes {
    PART.key(&[&upload.0.to_be_bytes(), &number.to_be_bytes()])
}

/// All parts of an upload.
#[must_use]
pub fn parts(upload: UploadId) -> KeyRange {
    PART.range(&[&upload.0.to_be_bytes()])
}

/// Upload and number of a part's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_part(key: &[u8]) -> Result<(UploadId, u16), Error> {
    let rest = key.strip_prefix(&[PART.prefix]).unwrap_or_default();
    match (rest.first_chunk::<16>(), rest.last_chunk::<2>()) {
        (Some(upload), Some(number)) if rest.len() == 18 => Ok((
            UploadId(u128::from_be_bytes(*upload)),
            u16::from_be_bytes(*number),
        )),
        _ => Err(corrupt(key, PART.name)),
    }
}

/// Key of the open facts about a catalog that was rebuilt or restored.
#[must_use]
pub fn rebuilt() -> Bytes {
    REBUILT.key(&[])
}

/// The record of a blob.
#[must_use]
pub fn blob(blob: BlobId) -> Bytes {
    BLOB.key(&[&blob.0.to_be_bytes()])
}

/// The record of a sealed segment.
#[must_use]
pub fn segment(segment: BlobId) -> Bytes {
    SEGMENT.key(&[&segment.0.to_be_bytes()])
}

/// The segment whose record a key is; `None` for any other key.
#[must_use]
pub fn segment_of(key: &[u8]) -> Option<BlobId> {
    let id = key.strip_prefix(&[SEGMENT.prefix])?.try_into().ok()?;
    Some(BlobId(u64::from_be_bytes(id)))
}

/// The reference count of a blob (offset 0) or of a slot in a segment.
#[must_use]
pub fn references(blob: BlobId, offset: u64) -> Bytes {
    REFERENCES.key(&[&blob.0.to_be_bytes(), &offset.to_be_bytes()])
}

/// Blob and offset of a reference count.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_references(key: &[u8]) -> Result<(BlobId, u64), Error> {
    let (blob, rest) = numbered(key, REFERENCES)?;
    let offset = rest.try_into().map_err(|_| corrupt(key, REFERENCES.name))?;
    Ok((BlobId(blob), u64::from_be_bytes(offset)))
}

/// The mark of a dead slot.
#[must_use]
pub fn dead(segment: BlobId, offset: u32) -> Bytes {
    DEAD.key(&[&segment.0.to_be_bytes(), &offset.to_be_bytes()])
}

/// All dead slots of a segment.
#[must_use]
pub fn dead_in(segment: BlobId) -> KeyRange {
    DEAD.range(&[&segment.0.to_be_bytes()])
}

/// Segment and offset of a dead slot's mark.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_dead(key: &[u8]) -> Result<(BlobId, u32), Error> {
    let (segment, rest) = numbered(key, DEAD)?;
    let offset = rest.try_into().map_err(|_| corrupt(key, DEAD.name))?;
    Ok((BlobId(segment), u32::from_be_bytes(offset)))
}

/// A blob to be freed, queued at `time` (nanoseconds since the epoch).
#[must_use]
pub fn free(time: u64, blob: BlobId) -> Bytes {
    FREE.key(&[&time.to_be_bytes(), &blob.0.to_be_bytes()])
}

/// Blobs queued to be freed before `time`, oldest first.
#[must_use]
pub fn free_before(time: u64) -> KeyRange {
    KeyRange {
        to: FREE.key(&[&time.to_be_bytes()]),
        ..FREE.keys()
    }
}

/// Time and blob of a queued blob's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_free(key: &[u8]) -> Result<(u64, BlobId), Error> {
    let (time, rest) = numbered(key, FREE)?;
    let blob = rest.try_into().map_err(|_| corrupt(key, FREE.name))?;
    Ok((time, BlobId(u64::from_be_bytes(blob))))
}

/// A blob that waits for repair.
#[must_use]
pub fn repair(blob: BlobId) -> Bytes {
    REPAIR.key(&[&blob.0.to_be_bytes()])
}

/// Range of all blobs that wait for repair, from a blob on.
#[must_use]
pub fn repairs(from: BlobId) -> KeyRange {
    REPAIR.keys().starting(&repair(from))
}

/// The blob of a key of table [`REPAIR`], [`BLOB`] or [`SEGMENT`].
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is none.
pub fn parse_blob(key: &[u8]) -> Result<BlobId, Error> {
    let id = key.get(1..).and_then(|id| <[u8; 8]>::try_from(id).ok());
    id.map(|id| BlobId(u64::from_be_bytes(id)))
        .ok_or_else(|| corrupt(key, "blob key"))
}

/// All records of table [`BLOB`] or [`SEGMENT`], from a blob on.
#[must_use]
pub fn encodings(table: Table, from: BlobId) -> KeyRange {
    let first = table.key(&[&from.0.to_be_bytes()]);
    table.keys().starting(&first)
}

/// Key of a record that the store keeps about a disk. The number `what` distinguishes its records.
#[must_use]
pub fn disk(disk: DiskId, what: u8) -> Bytes {
    DISK.key(&[&disk.0.to_be_bytes(), &[what]])
}

/// All that is kept about disks.
#[must_use]
pub fn disks() -> KeyRange {
    DISK.keys()
}

/// The disk and the kind of record of a key of table [`DISK`].
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is none.
pub fn parse_disk(key: &[u8]) -> Result<(DiskId, u8), Error> {
    let parts = key
        .strip_prefix(&[DISK.prefix])
        .and_then(|rest| rest.split_first_chunk::<16>());
    match parts {
        Some((id, [what])) => Ok((DiskId(u128::from_be_bytes(*id)), *what)),
        _ => Err(corrupt(key, DISK.name)),
    }
}

/// How far some background work is.
#[must_use]
pub fn work(what: u8) -> Bytes {
    WORK.key(&[&[what]])
}

/// A counter; see [`crate::record::Counter`] for the kinds.
#[must_use]
pub fn counter(kind: u8, id: u64) -> Bytes {
    COUNTER.key(&[&[kind], &id.to_be_bytes()])
}

/// All counters of a kind.
#[must_use]
pub fn counters(kind: u8) -> KeyRange {
    COUNTER.range(&[&[kind]])
}

/// Kind and number of a counter's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_counter(key: &[u8]) -> Result<(u8, u64), Error> {
    let rest = key.strip_prefix(&[COUNTER.prefix]);
    let (kind, id) = rest
        .and_then(<[u8]>::split_first)
        .ok_or_else(|| corrupt(key, COUNTER.name))?;
    let id = id.try_into().map_err(|_| corrupt(key, COUNTER.name))?;
    Ok((*kind, u64::from_be_bytes(id)))
}

/// A reservation of ids.
#[must_use]
pub fn ids(kind: u8) -> Bytes {
    IDS.key(&[&[kind]])
}

/// A tenant by name.
#[must_use]
pub fn tenant(name: &str) -> Bytes {
    TENANT.key(&[name.as_bytes()])
}

/// A user by name.
#[must_use]
pub fn user(tenant: TenantId, name: &str) -> Bytes {
    USER.key(&[&tenant.0.to_be_bytes(), name.as_bytes()])
}

/// All users of a tenant.
#[must_use]
pub fn users(tenant: TenantId) -> KeyRange {
    USER.range(&[&tenant.0.to_be_bytes()])
}

/// All users of all tenants.
#[must_use]
pub fn all_users() -> KeyRange {
    USER.keys()
}

/// Key of a group, role or policy of a tenant by name; `kind` distinguishes the three.
#[must_use]
pub fn identity(kind: u8, tenant: TenantId, name: &str) -> Bytes {
    IDENTITY.key(&[&[kind], &tenant.0.to_be_bytes(), name.as_bytes()])
}

/// Range of the keys of a kind whose names begin with `prefix`.
#[must_use]
pub fn identities(kind: u8, tenant: TenantId, prefix: &str) -> KeyRange {
    KeyRange::prefix(identity(kind, tenant, prefix))
}

/// Key of a user by an attribute that no two users of the deployment share.
#[must_use]
pub fn user_by(kind: u8, value: &[u8]) -> Bytes {
    IDENTITY.key(&[&[kind], value])
}

/// An access key by its public part.
#[must_use]
pub fn access_key(access: &str) -> Bytes {
    ACCESS_KEY.key(&[access.as_bytes()])
}

/// All access keys.
#[must_use]
pub fn access_keys() -> KeyRange {
    ACCESS_KEY.keys()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names with the characters that make trouble: NUL, neighbours of `/`, 0x7f, multi-byte.
    fn name() -> impl Strategy<Value = String> {
        proptest::collection::vec(
            proptest::sample::select(vec![
                '\0',
                '\u{1}',
                '-',
                '.',
                '0',
                'a',
                'b',
                '\u{7f}',
                'é',
                '\u{10ffff}',
            ]),
            0..6,
        )
        .prop_map(|chars| chars.into_iter().collect())
    }

    fn path() -> impl Strategy<Value = String> {
        proptest::collection::vec(name(), 1..4).prop_map(|names| names.join("/"))
    }

    proptest! {
        #[test]
        fn entries_sort_as_whole_paths(a in name(), b in name(), a_dir: bool, b_dir: bool, c in path(), d in path()) {
            let parent = EntryId(7);
            let key = |n: &str, is_dir| if is_dir { dir(parent, n) } else { file(parent, n) };
            let whole = |n: &str, is_dir, below: &str| {
                if is_dir { format!("{n}/{below}") } else { n.to_owned() }
            };
            let (left, right) = (key(&a, a_dir), key(&b, b_dir));
            if left != right {
                let paths = (whole(&a, a_dir, &c), whole(&b, b_dir, &d));
                prop_assert_eq!(left.cmp(&right), paths.0.as_bytes().cmp(paths.1.as_bytes()));
            }
            prop_assert_eq!(parse_entry(&left).unwrap(), (parent, a.as_str(), a_dir));
            let range = entries(parent);
            prop_assert!(range.from <= left && left < range.to);
        }

        #[test]
        fn uploads_sort_by_key_then_age(a in path(), b in path(), x: u128, y: u128, bucket: u64) {
            let bucket = EntryId(bucket);
            let left = upload(bucket, &a, UploadId(x));
            let right = upload(bucket, &b, UploadId(y));
            prop_assert_eq!(left.cmp(&right), (a.as_bytes(), x).cmp(&(b.as_bytes(), y)));
            prop_assert_eq!(parse_upload(&left).unwrap(), (bucket, a.clone(), UploadId(x)));
            let range = KeyRange::prefix(uploads_prefix(bucket, b.as_bytes()));
            let inside = range.from <= left && (range.to.is_empty() || left < range.to);
            prop_assert_eq!(inside, a.as_bytes().starts_with(b.as_bytes()));
        }

        #[test]
        fn versions_sort_newest_first_within_a_name(a in name(), b in name(), x: u128, y: u128, p: u64) {
            let parent = EntryId(p);
            let left = version(parent, &a, VersionId(x));
            let right = version(parent, &b, VersionId(y));
            if a == b {
                prop_assert_eq!(left.cmp(&right), y.cmp(&x));
            }
            prop_assert_eq!(parse_version(&left).unwrap(), (parent, a.as_str(), VersionId(x)));
            let range = versions(parent, &b);
            let inside = range.from <= left && (range.to.is_empty() || left < range.to);
            prop_assert_eq!(inside, a == b);
        }

        #[test]
        fn numbers_come_back(a: u64, b: u64, c: u128, n: u16, o: u32) {
            prop_assert_eq!(parse_references(&references(BlobId(a), b)).unwrap(), (BlobId(a), b));
            prop_assert_eq!(parse_dead(&dead(BlobId(a), o)).unwrap(), (BlobId(a), o));
            prop_assert_eq!(parse_free(&free(a, BlobId(b))).unwrap(), (a, BlobId(b)));
            prop_assert_eq!(parse_part(&part(UploadId(c), n)).unwrap(), (UploadId(c), n));
            prop_assert_eq!(parse_hint(&hint(EntryId(a))).unwrap(), EntryId(a));
            prop_assert_eq!(parse_counter(&counter(n as u8, a)).unwrap(), (n as u8, a));
            prop_assert_eq!(parse_removal(&removal(EntryId(a))).unwrap(), EntryId(a));
            prop_assert_eq!(parse_space(&space(EntryId(a))).unwrap(), EntryId(a));
            prop_assert!((free(a, BlobId(b)) < free_before(o.into()).to) == (a < u64::from(o)));
        }

        #[test]
        fn parsing_never_panics(key in proptest::collection::vec(any::<u8>(), 0..40), table in proptest::sample::select(b"evuprdxhzcWS".to_vec())) {
            let mut key = key;
            if let Some(first) = key.first_mut() { *first = table; }
            let _ = (parse_entry(&key), parse_version(&key), parse_upload(&key), parse_part(&key));
            let _ = (parse_references(&key), parse_dead(&key), parse_free(&key), parse_hint(&key), parse_removal(&key));
            let _ = (parse_counter(&key), parse_lock(&key), parse_space(&key));
        }
    }
}
