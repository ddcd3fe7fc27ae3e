//! The amounts that versions, delete markers, uploads in progress and directories count for in
//! quotas.
//!
//! - Each version, delete marker and upload in progress is one object, and so is each directory
//!   that was made on request.
//! - The bytes of a version are its content and its metadata beyond [`METADATA_FREE`]. Metadata
//!   means headers, user metadata, tags, the access control list and the text for an archive. For the
//!   current version it includes the extended attributes of the file.
//! - The bytes of an upload are those of its parts, and its metadata in the same way.
//! - The bytes of a bucket are those of its documents beyond [`METADATA_FREE`], all documents
//!   together.
//!
//! A directory is charged to its owner and to everything above it, but not to its group. The group
//! is charged for the content of the directory. The bytes of a directory are its extended
//! attributes beyond [`METADATA_FREE`]. An implicit directory, made only by the slashes of keys, is
//! free. It is removed with the last key below it, and a key has few slashes. It has no extended
//! attributes, since setting one makes the directory permanent. A bucket is no object, because
//! accounts have a limit of buckets. Its documents are charged to its owner, its tenant and itself.
//! Nothing makes symlinks.
//!
//! An upload is charged to the spaces that its record names. It belongs to its key, not to a
//! directory, so the spaces above the key may be renamed or removed while it is open.

use dewar_catalog::record::{
    CounterScope, DirRecord, EntryAttributes, FileRecord, PartRecord, Record, UploadRecord,
    VersionRecord, Versioning,
};
use dewar_catalog::{Usage, keys};
use dewar_kv::KvRead;
use dewar_types::{EntryId, Error, GroupId, UserId};
use minicbor::bytes::ByteVec;

use super::Bucket;
use super::batch_builder::BatchBuilder;
use super::resolve::{ResolvedName, ResolvedPath};
use super::version_attributes::text_bytes;

/// Bytes of metadata of a version or upload, and of documents of a bucket, that are not charged.
pub const METADATA_FREE: u64 = 2048;

/// Uploads or parts read at once.
const PAGE: usize = 1000;

/// The metadata that is charged.
fn excess(metadata: usize) -> u64 {
    (metadata as u64).saturating_sub(METADATA_FREE)
}

fn acl_bytes(acl: Option<&ByteVec>) -> usize {
    acl.map_or(0, |acl| acl.len())
}

fn metadata_bytes(version: &VersionRecord) -> usize {
    version.headers.bytes()
        + text_bytes(&version.metadata)
        + text_bytes(&version.tags)
        + acl_bytes(version.acl.as_ref())
        + version.archive_metadata.as_ref().map_or(0, String::len)
}

fn xattr_bytes(attributes: &EntryAttributes) -> usize {
    let xattrs = attributes.xattrs.iter();
    xattrs.map(|(name, value)| name.len() + value.len()).sum()
}

/// What a directory counts for.
pub(super) fn of_dir(dir: &DirRecord) -> Usage {
    if dir.implicit || dir.bucket.is_some() {
        return Usage::default();
    }
    Usage {
        objects: 1,
        bytes: excess(xattr_bytes(&dir.attributes)),
    }
}

/// What a bucket's documents count for, with the bytes of all of them.
pub(super) fn of_documents(bytes: usize) -> Usage {
    Usage {
        objects: 0,
        bytes: excess(bytes),
    }
}

/// What an older version or delete marker counts for.
pub(super) fn of_version(version: &VersionRecord) -> Usage {
    Usage {
        objects: 1,
        bytes: version.size.saturating_add(excess(metadata_bytes(version))),
    }
}

/// What a file's current version counts for; the file's extended attributes belong to it.
pub(super) fn of_current(file: &FileRecord) -> Usage {
    let metadata = excess(metadata_bytes(&file.current) + xattr_bytes(&file.attributes));
    Usage {
        objects: 1,
        bytes: file.current.size.saturating_add(metadata),
    }
}

/// What goes when a new version is put in front of a file; `None` where only the catalog can tell how
/// many bytes an older version has that goes.
pub(super) fn replaced(file: &FileRecord, versioning: Versioning) -> Option<Usage> {
    match versioning {
        Versioning::Enabled => Some(Usage::default()),
        _ if !file.current.flags.named() => Some(of_current(file)),
        _ if file.older_null.is_some() => None,
        _ => Some(Usage::default()),
    }
}

/// What an upload counts for without its parts.
pub(super) fn of_upload(upload: &UploadRecord) -> Usage {
    let metadata = upload.headers.bytes()
        + text_bytes(&upload.metadata)
        + text_bytes(&upload.tags)
        + acl_bytes(upload.acl.as_ref());
    Usage {
        objects: 1,
        bytes: excess(metadata),
    }
}

/// Everything that counts an upload.
pub(super) fn scopes_of_upload(bucket: &Bucket, upload: &UploadRecord) -> Vec<CounterScope> {
    let mut scopes = vec![
        CounterScope::Tenant(bucket.tenant.id),
        CounterScope::Bucket(bucket.id),
    ];
    scopes.extend(upload.spaces.iter().copied().map(CounterScope::Space));
    scopes.extend(CounterScope::of_owner((upload.owner, upload.group)));
    scopes
}

/// The bytes of an upload's parts.
pub(super) async fn part_bytes(
    kv: &dyn KvRead,
    upload: dewar_types::UploadId,
) -> Result<u64, Error> {
    let mut bytes: u64 = 0;
    let mut pages = keys::parts(upload).pages(kv, PAGE);
    while let Some(pairs) = pages.next().await? {
        for (key, value) in &pairs {
            bytes = bytes.saturating_add(PartRecord::from_value(key, value)?.size);
        }
    }
    Ok(bytes)
}

/// What the uploads of a bucket that are charged to a space count for.
pub(super) async fn uploads_of_space(
    kv: &dyn KvRead,
    bucket: EntryId,
    space: EntryId,
) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut pages = keys::uploads(bucket).pages(kv, PAGE);
    while let Some(pairs) = pages.next().await? {
        for (key, value) in &pairs {
            let upload = UploadRecord::from_value(key, value)?;
            if upload.spaces.contains(&space) {
                usage += of_upload(&upload);
                usage.bytes += part_bytes(kv, upload.id).await?;
            }
        }
    }
    Ok(usage)
}

impl BatchBuilder<'_> {
    /// A file's current version counts for everything above the target and for its owners (`sign` 1),
    /// or no longer (-1).
    pub(super) fn charge_current(&mut self, target: &ResolvedName, file: &FileRecord, sign: i64) {
        let owner = (file.attributes.owner, file.attributes.group);
        self.charge(&target.chain, owner, of_current(file), sign);
    }

    /// The same for an older version of `file`, which owns what has no owner of its own.
    pub(super) fn charge_older(
        &mut self,
        target: &ResolvedName,
        version: &VersionRecord,
        file: &FileRecord,
        sign: i64,
    ) {
        let owner = version.ownership(&file.attributes);
        self.charge(&target.chain, owner, of_version(version), sign);
    }

    /// The documents of a bucket have so many bytes together from now on. With `None` the bucket goes,
    /// and with it what it counts itself.
    pub(super) fn recharge_documents(&mut self, bucket: &Bucket, after: Option<usize>) {
        let owner = (bucket.record.attributes.owner, None);
        let mut scopes = vec![CounterScope::Tenant(bucket.tenant.id)];
        scopes.extend(CounterScope::of_owner(owner));
        if after.is_some() {
            scopes.push(CounterScope::Bucket(bucket.id));
        }
        let before = of_documents(bucket.document_bytes());
        self.charge_scopes(scopes.iter().copied(), before, -1);
        self.charge_scopes(scopes, of_documents(after.unwrap_or(0)), 1);
    }

    /// A directory in the last one of `above` changes, comes (`before` is none) or goes.
    pub(super) fn recharge_dir(
        &mut self,
        above: &ResolvedPath,
        before: Option<&DirRecord>,
        after: Option<&DirRecord>,
    ) {
        for (dir, sign) in [(before, -1), (after, 1)] {
            let Some(dir) = dir else { continue };
            self.charge(above, (dir.attributes.owner, None), of_dir(dir), sign);
        }
    }

    /// A version changes into one with other attributes, or into one of another owner.
    pub(super) fn recharge(
        &mut self,
        before: ChargedItem<'_>,
        after: ChargedItem<'_>,
        chain: &ResolvedPath,
    ) {
        for (charged, sign) in [(before, -1), (after, 1)] {
            let (owner, usage) = charged.charge();
            self.charge(chain, owner, usage, sign);
        }
    }
}

/// A version that counts.
#[derive(Clone, Copy)]
pub(super) enum ChargedItem<'a> {
    /// The current version of this file.
    Current(&'a FileRecord),
    /// An older version of this file.
    Older(&'a VersionRecord, &'a FileRecord),
}

impl ChargedItem<'_> {
    fn charge(self) -> ((UserId, Option<GroupId>), Usage) {
        match self {
            Self::Current(file) => {
                let owner = (file.attributes.owner, file.attributes.group);
                (owner, of_current(file))
            }
            Self::Older(version, file) => {
                (version.ownership(&file.attributes), of_version(version))
            }
        }
    }
}
