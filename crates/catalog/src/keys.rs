//! Every key of the catalog. The first byte names the table; numbers are big-endian, so that
//! keys sort as their parts do.
//!
//! | table | key | value |
//! |---|---|---|
//! | `e` | parent (8), name, `/` if a directory | entry: `FileRecord`, `DirRecord`, `SymlinkRecord` |
//! | `v` | parent (8), name, `/`, !version (16) | older versions, newest first: `VersionRecord` |
//! | `l` | version (16), list (1), chunk (2) | long extent and part lists |
//! | `B` | bucket (8), kind (1) | a document of the bucket: `DocumentRecord` |
//! | `h` | directory (8) | hint that an implicit directory may have become empty |
//! | `u` | bucket (8), key escaped and ended, upload (16) | `UploadRecord` |
//! | `p` | upload (16), part number (2) | `PartRecord` |
//! | `b` | blob (8) | the data layer's record of a blob |
//! | `s` | segment (8) | the data layer's record of a sealed segment |
//! | `r` | blob (8), offset (8) | count of references, 8 bytes; absent means exactly one |
//! | `d` | segment (8), offset (4) | a dead slot: its length, 4 bytes |
//! | `x` | time (8), blob (8) | a blob to be freed: its names are gone |
//! | `q` | blob (8) | repair queue, the data layer's |
//! | `R` | | set while the fate of blobs that a rebuilt catalog does not name is undecided; the store's |
//! | `D` | disk (16), kind (1) | decisions about a disk, and the progress of its scrub; the store's |
//! | `w` | kind (1) | progress of background work; the store's |
//! | `c` | kind (1), id (8) | counters, `i64` |
//! | `Q` | kind of counter of bytes (1), id (8) | `QuotaRecord` |
//! | `i` | kind (1) | first number not yet reserved, 8 bytes |
//! | `t` | tenant name | `TenantRecord` |
//! | `U` | tenant (8), user name | users, the identity layer's |
//! | `K` | access key | access keys with wrapped secrets, the identity layer's |
//! | `I` | kind (1), tenant (8) or nothing, name | other records of the identity layer |
//! | `L` | (engine) | change log |
//!
//! In table `e` a file `a` sorts as `a` and a directory `a` as `a/`. Names hold no `/`, so walking
//! directories depth-first in key order visits whole paths in byte order, as S3 lists them.

use super::record::{Counter, CounterScope};
use bytes::{BufMut, Bytes, BytesMut};
use dewar_types::{BlobId, DiskId, EntryId, Error, ErrorKind, TenantId, UploadId, VersionId};

/// Entries of directories.
pub const ENTRY: u8 = b'e';
/// Older versions.
pub const VERSION: u8 = b'v';
/// Long lists of a version.
pub const LONG: u8 = b'l';
/// Documents of buckets.
pub const DOCUMENT: u8 = b'B';
/// Directories that may have become empty.
pub const HINT: u8 = b'h';
/// Multipart uploads.
pub const UPLOAD: u8 = b'u';
/// Parts of multipart uploads.
pub const PART: u8 = b'p';
/// Blob records.
pub const BLOB: u8 = b'b';
/// Segment records.
pub const SEGMENT: u8 = b's';
/// Reference counts.
pub const REFERENCES: u8 = b'r';
/// Dead slots.
pub const DEAD: u8 = b'd';
/// Blobs to be freed.
pub const FREE: u8 = b'x';
/// Repair queue.
pub const REPAIR: u8 = b'q';
/// Disks.
pub const DISK: u8 = b'D';
/// Background work.
pub const WORK: u8 = b'w';
/// A catalog that was rebuilt or restored.
pub const REBUILT: u8 = b'R';
/// Counters.
pub const COUNTER: u8 = b'c';
/// Quotas.
pub const QUOTA: u8 = b'Q';
/// Id reservations.
pub const IDS: u8 = b'i';
/// Tenants.
pub const TENANT: u8 = b't';
/// Users.
pub const USER: u8 = b'U';
/// Access keys.
pub const ACCESS_KEY: u8 = b'K';
/// Groups, roles, policies; users by id and by mail address.
pub const IDENTITY: u8 = b'I';

/// Half-open range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key that belongs to it.
    pub from: Bytes,
    /// First key that does not any more.
    pub to: Bytes,
}

impl KeyRange {
    /// All keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: Bytes) -> Self {
        let to = after_prefix(&prefix);
        Self {
            from: prefix,
            to: to.into(),
        }
    }

    /// The keys of the range from `key` on.
    #[must_use]
    pub fn starting(&self, key: &[u8]) -> Self {
        Self {
            from: Bytes::copy_from_slice(key.max(&self.from)),
            to: self.to.clone(),
        }
    }
}

/// The smallest string above every string that begins with `prefix`; empty when there is none.
#[must_use]
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if last < 0xff {
            next.push(last + 1);
            break;
        }
    }
    next
}

/// The smallest string above `key`.
#[must_use]
pub fn just_after(key: &[u8]) -> Bytes {
    build(&[key, &[0]])
}

fn build(parts: &[&[u8]]) -> Bytes {
    let mut key = BytesMut::with_capacity(parts.iter().map(|p| p.len()).sum());
    for part in parts {
        key.put_slice(part);
    }
    key.freeze()
}

/// What the catalog holds is not what it wrote.
pub(super) fn corrupt(key: &[u8], what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("catalog key {} is not a valid {what}", key.escape_ascii()),
    )
}

/// A file or symlink `name` in `parent`.
#[must_use]
pub fn file(parent: EntryId, name: &str) -> Bytes {
    build(&[&[ENTRY], &parent.0.to_be_bytes(), name.as_bytes()])
}

/// A directory `name` in `parent`.
#[must_use]
pub fn dir(parent: EntryId, name: &str) -> Bytes {
    build(&[&[ENTRY], &parent.0.to_be_bytes(), name.as_bytes(), b"/"])
}

/// The entries of a directory.
#[must_use]
pub fn entries(parent: EntryId) -> KeyRange {
    KeyRange::prefix(build(&[&[ENTRY], &parent.0.to_be_bytes()]))
}

/// Key of the first entry in a directory from `name` on. `name` is bytes of a path; it may end in
/// the `/` of a directory or in the middle of a character.
#[must_use]
pub fn entries_from(parent: EntryId, name: &[u8]) -> Bytes {
    build(&[&[ENTRY], &parent.0.to_be_bytes(), name])
}

/// The name in an entry key, and whether it is a directory's.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no entry key.
pub fn parse_entry(key: &[u8]) -> Result<(EntryId, &str, bool), Error> {
    let (parent, rest) = numbered(key, ENTRY, "entry")?;
    let (name, is_dir) = match rest.split_last() {
        Some((b'/', name)) => (name, true),
        _ => (rest, false),
    };
    let name = core::str::from_utf8(name)
        .ok()
        .filter(|name| !name.contains('/'))
        .ok_or_else(|| corrupt(key, "entry"))?;
    Ok((EntryId(parent), name, is_dir))
}

fn numbered<'a>(key: &'a [u8], table: u8, what: &str) -> Result<(u64, &'a [u8]), Error> {
    match key.split_first() {
        Some((&first, rest)) if first == table => match rest.split_first_chunk::<8>() {
            Some((number, rest)) => Ok((u64::from_be_bytes(*number), rest)),
            None => Err(corrupt(key, what)),
        },
        _ => Err(corrupt(key, what)),
    }
}

/// An older version of the file `name` in `parent`.
#[must_use]
pub fn version(parent: EntryId, name: &str, version: VersionId) -> Bytes {
    build(&[
        &[VERSION],
        &parent.0.to_be_bytes(),
        name.as_bytes(),
        b"/",
        &(!version.0).to_be_bytes(),
    ])
}

/// All older versions of the file `name` in `parent`, newest first.
#[must_use]
pub fn versions(parent: EntryId, name: &str) -> KeyRange {
    KeyRange::prefix(build(&[
        &[VERSION],
        &parent.0.to_be_bytes(),
        name.as_bytes(),
        b"/",
    ]))
}

/// All older versions of all files in `parent`.
#[must_use]
pub fn versions_in(parent: EntryId) -> KeyRange {
    KeyRange::prefix(build(&[&[VERSION], &parent.0.to_be_bytes()]))
}

/// Parent, name and version of an older version's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_version(key: &[u8]) -> Result<(EntryId, &str, VersionId), Error> {
    let (parent, rest) = numbered(key, VERSION, "version")?;
    let bad = || corrupt(key, "version");
    let (rest, inverted) = rest.split_last_chunk::<16>().ok_or_else(bad)?;
    let name = rest.strip_suffix(b"/").ok_or_else(bad)?;
    let name = core::str::from_utf8(name).map_err(|_| bad())?;
    Ok((
        EntryId(parent),
        name,
        VersionId(!u128::from_be_bytes(*inverted)),
    ))
}

/// A chunk of a long list: `list` is the copy's index, [`PARTS_LIST`] or [`PART_DIGESTS_LIST`].
#[must_use]
pub fn long(version: VersionId, list: u8, chunk: u16) -> Bytes {
    build(&[
        &[LONG],
        &version.0.to_be_bytes(),
        &[list],
        &chunk.to_be_bytes(),
    ])
}

/// The list of [`long`] that holds part sizes.
pub const PARTS_LIST: u8 = 0xff;
/// The list of [`long`] that holds part checksums.
pub const PART_DIGESTS_LIST: u8 = 0xfe;

/// A document of a bucket; see [`super::record::DocumentKind`] for the kinds.
#[must_use]
pub fn document(bucket: EntryId, kind: u8) -> Bytes {
    build(&[&[DOCUMENT], &bucket.0.to_be_bytes(), &[kind]])
}

/// All documents of a bucket.
#[must_use]
pub fn documents(bucket: EntryId) -> KeyRange {
    KeyRange::prefix(build(&[&[DOCUMENT], &bucket.0.to_be_bytes()]))
}

/// All documents of all buckets.
#[must_use]
pub fn all_documents() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[DOCUMENT]))
}

/// Bucket and kind of a document's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_document(key: &[u8]) -> Result<(EntryId, u8), Error> {
    match numbered(key, DOCUMENT, "bucket document")? {
        (bucket, [kind]) => Ok((EntryId(bucket), *kind)),
        _ => Err(corrupt(key, "bucket document")),
    }
}

/// The hint that the directory may have become empty.
#[must_use]
pub fn hint(dir: EntryId) -> Bytes {
    build(&[&[HINT], &dir.0.to_be_bytes()])
}

/// All hints.
#[must_use]
pub fn hints() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[HINT]))
}

/// The directory of a hint.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no hint key.
pub fn parse_hint(key: &[u8]) -> Result<EntryId, Error> {
    match numbered(key, HINT, "hint")? {
        (dir, []) => Ok(EntryId(dir)),
        _ => Err(corrupt(key, "hint")),
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
    out.put_u8(UPLOAD);
    out.put_u64(bucket.0);
    escape(prefix, &mut out);
    out.freeze()
}

/// Bucket, object key and upload of an upload's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_upload(key: &[u8]) -> Result<(EntryId, String, UploadId), Error> {
    let bad = || corrupt(key, "upload");
    let (bucket, rest) = numbered(key, UPLOAD, "upload")?;
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
    build(&[&[PART], &upload.0.to_be_bytes(), &number.to_be_bytes()])
}

/// All parts of an upload.
#[must_use]
pub fn parts(upload: UploadId) -> KeyRange {
    KeyRange::prefix(build(&[&[PART], &upload.0.to_be_bytes()]))
}

/// Upload and number of a part's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_part(key: &[u8]) -> Result<(UploadId, u16), Error> {
    let rest = key.strip_prefix(&[PART]).unwrap_or_default();
    match (rest.first_chunk::<16>(), rest.last_chunk::<2>()) {
        (Some(upload), Some(number)) if rest.len() == 18 => Ok((
            UploadId(u128::from_be_bytes(*upload)),
            u16::from_be_bytes(*number),
        )),
        _ => Err(corrupt(key, "part")),
    }
}

/// Key of the open facts about a catalog that was rebuilt or restored.
#[must_use]
pub fn rebuilt() -> Bytes {
    build(&[&[REBUILT]])
}

/// The record of a blob.
#[must_use]
pub fn blob(blob: BlobId) -> Bytes {
    build(&[&[BLOB], &blob.0.to_be_bytes()])
}

/// The record of a sealed segment.
#[must_use]
pub fn segment(segment: BlobId) -> Bytes {
    build(&[&[SEGMENT], &segment.0.to_be_bytes()])
}

/// The segment whose record a key is; `None` for any other key.
#[must_use]
pub fn segment_of(key: &[u8]) -> Option<BlobId> {
    let (kind, id) = key.split_first()?;
    let id = id.try_into().ok().filter(|_| *kind == SEGMENT)?;
    Some(BlobId(u64::from_be_bytes(id)))
}

/// The reference count of a blob (offset 0) or of a slot in a segment.
#[must_use]
pub fn references(blob: BlobId, offset: u64) -> Bytes {
    build(&[&[REFERENCES], &blob.0.to_be_bytes(), &offset.to_be_bytes()])
}

/// Blob and offset of a reference count.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_references(key: &[u8]) -> Result<(BlobId, u64), Error> {
    let (blob, rest) = numbered(key, REFERENCES, "reference count")?;
    let offset = rest
        .try_into()
        .map_err(|_| corrupt(key, "reference count"))?;
    Ok((BlobId(blob), u64::from_be_bytes(offset)))
}

/// The mark of a dead slot.
#[must_use]
pub fn dead(segment: BlobId, offset: u32) -> Bytes {
    build(&[&[DEAD], &segment.0.to_be_bytes(), &offset.to_be_bytes()])
}

/// All dead slots of a segment.
#[must_use]
pub fn dead_in(segment: BlobId) -> KeyRange {
    KeyRange::prefix(build(&[&[DEAD], &segment.0.to_be_bytes()]))
}

/// Segment and offset of a dead slot's mark.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_dead(key: &[u8]) -> Result<(BlobId, u32), Error> {
    let (segment, rest) = numbered(key, DEAD, "dead mark")?;
    let offset = rest.try_into().map_err(|_| corrupt(key, "dead mark"))?;
    Ok((BlobId(segment), u32::from_be_bytes(offset)))
}

/// Key of the quota for the scope of a counter.
#[must_use]
pub fn quota(scope: CounterScope) -> Bytes {
    let counter = Counter::Bytes(scope).key();
    build(&[&[QUOTA], counter.get(1..).unwrap_or_default()])
}

/// All quotas.
#[must_use]
pub fn quotas() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[QUOTA]))
}

/// The scope that the key of a quota limits.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_quota(key: &[u8]) -> Result<CounterScope, Error> {
    let counter = build(&[&[COUNTER], key.get(1..).unwrap_or_default()]);
    let scope = Counter::scope_of_bytes(&counter).filter(|_| key.first() == Some(&QUOTA));
    scope.ok_or_else(|| corrupt(key, "quota"))
}

/// A blob to be freed, queued at `time` (nanoseconds since the epoch).
#[must_use]
pub fn free(time: u64, blob: BlobId) -> Bytes {
    build(&[&[FREE], &time.to_be_bytes(), &blob.0.to_be_bytes()])
}

/// Blobs queued to be freed before `time`, oldest first.
#[must_use]
pub fn free_before(time: u64) -> KeyRange {
    KeyRange {
        from: Bytes::from_static(&[FREE]),
        to: build(&[&[FREE], &time.to_be_bytes()]),
    }
}

/// Time and blob of a queued blob's key.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is no such key.
pub fn parse_free(key: &[u8]) -> Result<(u64, BlobId), Error> {
    let (time, rest) = numbered(key, FREE, "queued blob")?;
    let blob = rest.try_into().map_err(|_| corrupt(key, "queued blob"))?;
    Ok((time, BlobId(u64::from_be_bytes(blob))))
}

/// A blob that waits for repair.
#[must_use]
pub fn repair(blob: BlobId) -> Bytes {
    build(&[&[REPAIR], &blob.0.to_be_bytes()])
}

/// Range of all blobs that wait for repair, from a blob on.
#[must_use]
pub fn repairs(from: BlobId) -> KeyRange {
    KeyRange {
        from: repair(from),
        to: Bytes::from(after_prefix(&[REPAIR])),
    }
}

/// The blob of a key of table `q`, `b` or `s`.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is none.
pub fn parse_blob(key: &[u8]) -> Result<BlobId, Error> {
    let id = key.get(1..).and_then(|id| <[u8; 8]>::try_from(id).ok());
    id.map(|id| BlobId(u64::from_be_bytes(id)))
        .ok_or_else(|| corrupt(key, "blob key"))
}

/// All records of table `b` or `s`, from a blob on.
#[must_use]
pub fn encodings(table: u8, from: BlobId) -> KeyRange {
    KeyRange {
        from: build(&[&[table], &from.0.to_be_bytes()]),
        to: Bytes::from(after_prefix(&[table])),
    }
}

/// Key of a record that the store keeps about a disk. The number `what` distinguishes its records.
#[must_use]
pub fn disk(disk: DiskId, what: u8) -> Bytes {
    build(&[&[DISK], &disk.0.to_be_bytes(), &[what]])
}

/// All that is kept about disks.
#[must_use]
pub fn disks() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[DISK]))
}

/// The disk and the kind of record of a key of table `D`.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is none.
pub fn parse_disk(key: &[u8]) -> Result<(DiskId, u8), Error> {
    match key {
        [DISK, id @ .., what] if id.len() == 16 => {
            let id = <[u8; 16]>::try_from(id).map_err(|_| corrupt(key, "disk key"))?;
            Ok((DiskId(u128::from_be_bytes(id)), *what))
        }
        _ => Err(corrupt(key, "disk key")),
    }
}

/// How far some background work is.
#[must_use]
pub fn work(what: u8) -> Bytes {
    build(&[&[WORK, what]])
}

/// A counter; see [`super::record::Counter`] for the kinds.
#[must_use]
pub fn counter(kind: u8, id: u64) -> Bytes {
    build(&[&[COUNTER, kind], &id.to_be_bytes()])
}

/// A reservation of ids.
#[must_use]
pub fn ids(kind: u8) -> Bytes {
    build(&[&[IDS, kind]])
}

/// A tenant by name.
#[must_use]
pub fn tenant(name: &str) -> Bytes {
    build(&[&[TENANT], name.as_bytes()])
}

/// All tenants.
#[must_use]
pub fn tenants() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[TENANT]))
}

/// A user by name.
#[must_use]
pub fn user(tenant: TenantId, name: &str) -> Bytes {
    build(&[&[USER], &tenant.0.to_be_bytes(), name.as_bytes()])
}

/// All users of a tenant.
#[must_use]
pub fn users(tenant: TenantId) -> KeyRange {
    KeyRange::prefix(build(&[&[USER], &tenant.0.to_be_bytes()]))
}

/// All users of all tenants.
#[must_use]
pub fn all_users() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[USER]))
}

/// Key of a group, role or policy of a tenant by name; `kind` distinguishes the three.
#[must_use]
pub fn identity(kind: u8, tenant: TenantId, name: &str) -> Bytes {
    build(&[&[IDENTITY, kind], &tenant.0.to_be_bytes(), name.as_bytes()])
}

/// Range of the keys of a kind whose names begin with `prefix`.
#[must_use]
pub fn identities(kind: u8, tenant: TenantId, prefix: &str) -> KeyRange {
    KeyRange::prefix(identity(kind, tenant, prefix))
}

/// Key of a user by an attribute that no two users of the deployment share.
#[must_use]
pub fn user_by(kind: u8, value: &[u8]) -> Bytes {
    build(&[&[IDENTITY, kind], value])
}

/// An access key by its public part.
#[must_use]
pub fn access_key(access: &str) -> Bytes {
    build(&[&[ACCESS_KEY], access.as_bytes()])
}

/// All access keys.
#[must_use]
pub fn access_keys() -> KeyRange {
    KeyRange::prefix(Bytes::from_static(&[ACCESS_KEY]))
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
            prop_assert!((free(a, BlobId(b)) < free_before(o.into()).to) == (a < u64::from(o)));
        }

        #[test]
        fn parsing_never_panics(key in proptest::collection::vec(any::<u8>(), 0..40), table in proptest::sample::select(b"evuprdxh".to_vec())) {
            let mut key = key;
            if let Some(first) = key.first_mut() { *first = table; }
            let _ = (parse_entry(&key), parse_version(&key), parse_upload(&key), parse_part(&key));
            let _ = (parse_references(&key), parse_dead(&key), parse_free(&key), parse_hint(&key));
        }

        #[test]
        fn after_prefix_is_tight(prefix in proptest::collection::vec(any::<u8>(), 0..5), other in proptest::collection::vec(any::<u8>(), 0..7)) {
            let end = after_prefix(&prefix);
            let inside = other >= prefix && (end.is_empty() || other < end);
            prop_assert_eq!(inside, other.starts_with(&prefix));
        }
    }
}
