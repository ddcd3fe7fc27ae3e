//! Making a version the current one of a name.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_checksum::DigestSet;
use dewar_types::{BlobId, EntryId, Error, GroupId, ObjectKey, Timestamp, UserId, VersionId};
use minicbor::bytes::ByteVec;

use super::condition::Condition;
use super::record::{
    ChangeRecord, ContentCopy, ETag, EncryptionRecord, Entry, Extent, FileRecord, Parts, Record,
    ShownChecksum, SystemHeaders, Verb, VersionFlags, VersionRecord,
};
use super::resolve::Target;
use super::stage::{Committed, Stage};
use super::turn::Turn;
use super::{Actor, Bucket, Tree, keys};
use crate::kv::Carry;

/// A content that was written and is to get a name. All blobs and slots in `copies` must be new:
/// nothing else names them yet.
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// Its id, if it was minted before the bytes were written ([`super::Ids::version`]).
    pub id: Option<VersionId>,
    /// Bytes.
    pub size: u64,
    /// Its ETag.
    pub etag: ETag,
    /// Digests of the content.
    pub digests: DigestSet,
    /// Headers that go out as they came in.
    pub headers: SystemHeaders,
    /// User metadata.
    pub metadata: BTreeMap<String, String>,
    /// Where the bytes are.
    pub copies: Vec<ContentCopy>,
    /// When it was written, if not now.
    pub modified: Option<Timestamp>,
    /// Storage class, if not the default.
    pub storage_class: Option<String>,
    /// The checksum to be shown to readers.
    pub checksum: Option<ShownChecksum>,
    /// How the bytes are encrypted.
    pub encryption: Option<EncryptionRecord>,
    /// The group that owns the file.
    pub group: Option<GroupId>,
    /// Permission bits of the file.
    pub mode: u32,
    /// Extended attributes of the file.
    pub xattrs: BTreeMap<String, ByteVec>,
}

impl NewVersion {
    /// A version without headers and attributes, mode 0644.
    #[must_use]
    pub fn new(size: u64, etag: ETag, digests: DigestSet, extents: Vec<Extent>) -> Self {
        let copy = ContentCopy {
            extents,
            ..ContentCopy::default()
        };
        Self {
            id: None,
            size,
            etag,
            digests,
            headers: SystemHeaders::default(),
            metadata: BTreeMap::new(),
            copies: vec![copy],
            modified: None,
            storage_class: None,
            checksum: None,
            encryption: None,
            group: None,
            mode: 0o644,
            xattrs: BTreeMap::new(),
        }
    }
}

/// What the data layer wants in the same batch.
#[derive(Clone, Debug, Default)]
pub struct Extra {
    /// Its records, such as [`Extra::blob`]'s.
    pub puts: Vec<(Bytes, Bytes)>,
    /// The bytes of a small object.
    pub carry: Option<Carry>,
}

impl Extra {
    /// Adds a blob's record.
    #[must_use]
    pub fn blob(mut self, blob: BlobId, record: Bytes) -> Self {
        self.puts.push((keys::blob(blob), record));
        self
    }

    pub(super) fn stage(&self, stage: &mut Stage<'_>) {
        for (key, value) in &self.puts {
            stage.put(key.clone(), value.clone());
        }
        stage.carry(self.carry.clone());
    }
}

/// A version that is current now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The file.
    pub entry: EntryId,
    /// The version, as it is stored.
    pub version: VersionRecord,
    /// The version whose place it took, if the name held one.
    pub replaced: Option<VersionRecord>,
}

/// A file as it shall be.
pub(super) struct NewFile {
    pub(super) version: VersionRecord,
    pub(super) owner: UserId,
    pub(super) group: Option<GroupId>,
    pub(super) mode: u32,
    pub(super) xattrs: BTreeMap<String, ByteVec>,
    pub(super) verb: Verb,
    pub(super) source: Option<String>,
}

impl Tree {
    /// Gives a content its name: one batch makes missing directories, replaces what the name held,
    /// releases that, counts, and appends to the change log. Lost races are retried, the condition
    /// judged anew each time.
    ///
    /// # Errors
    /// `Precondition` or `NotFound` when the condition does not hold; `Conflict` after too many
    /// lost races; `NoSuchBucket`; what the engine says. After an error from the engine, or when
    /// the future is dropped, it is open whether the version was published.
    pub async fn publish(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        new: NewVersion,
        condition: &Condition,
        extra: &Extra,
    ) -> Result<Published, Error> {
        let id = match new.id {
            Some(id) => id,
            None => self.ids.version().await?,
        };
        let mut turn = Turn::new(self, bucket.path(key.as_str()));
        loop {
            let target = self.target(bucket, key).await?;
            let current = target.file().map(|file| &file.current);
            condition.check_write(turn.path(), current)?;
            let mut stage = Stage::new(self);
            for copy in &new.copies {
                stage.fresh(&copy.extents);
            }
            extra.stage(&mut stage);
            let file = NewFile {
                version: new_version(id, &new, stage.now()),
                owner: actor.user,
                group: new.group,
                mode: new.mode,
                xattrs: new.xattrs.clone(),
                verb: Verb::Put,
                source: None,
            };
            let published = stage.place(actor, &target, file).await?;
            match stage.commit().await? {
                Committed::Done => return Ok(published),
                Committed::Lost => turn.lost().await?,
            }
        }
    }
}

fn new_version(id: VersionId, new: &NewVersion, now: Timestamp) -> VersionRecord {
    VersionRecord {
        id,
        size: new.size,
        etag: new.etag.clone(),
        modified: new.modified.unwrap_or(now),
        digests: new.digests,
        flags: VersionFlags::default(),
        headers: new.headers.clone(),
        metadata: new.metadata.clone(),
        copies: new.copies.clone(),
        parts: None::<Parts>,
        upload: None,
        storage_class: new.storage_class.clone(),
        encryption: new.encryption.clone(),
        checksum: new.checksum.clone(),
    }
}

impl Stage<'_> {
    /// Puts a file at the target. References of its extents are the caller's business; those of
    /// what it replaces are released here.
    pub(super) async fn place(
        &mut self,
        actor: &Actor<'_>,
        target: &Target,
        file: NewFile,
    ) -> Result<Published, Error> {
        self.watch(&target.chain);
        let parent = self
            .make_dirs(&target.chain, file.owner, file.group)
            .await?;
        let key = match &target.slot {
            Some((key, read)) => {
                self.same(key.clone(), read);
                key.clone()
            }
            None => keys::file(parent, &target.name),
        };
        let replaced = self.displace(target).await?;
        let id = match &target.entry {
            Some(Entry::File(old)) => old.attributes.id,
            _ => self.mint_entry().await?,
        };
        let mut version = file.version;
        self.spill_version(&mut version)?;
        let mut attributes = self.attributes(id, file.owner, file.group, file.mode);
        attributes.mtime = version.modified;
        attributes.xattrs = file.xattrs;
        self.count(&target.chain, &attributes, 1, version.size as i64);
        let record = FileRecord {
            attributes,
            current: version,
        };
        self.put(key, record.to_value());
        let change = ChangeRecord {
            version: Some((&record.current).into()),
            source: file.source,
            replaced: replaced.as_ref().map(|version| version.id),
            ..change(file.verb, target, parent, id)
        };
        self.log(actor, change).await?;
        Ok(Published {
            entry: id,
            version: record.current,
            replaced,
        })
    }

    /// What the target holds goes: references and counters. The key itself is the caller's.
    pub(super) async fn displace(
        &mut self,
        target: &Target,
    ) -> Result<Option<VersionRecord>, Error> {
        let Some(Entry::File(old)) = &target.entry else {
            return Ok(None);
        };
        self.release_version(&old.current).await?;
        self.count(
            &target.chain,
            &old.attributes,
            -i64::from(old.is_live()),
            -(old.current.size as i64),
        );
        Ok(Some(old.current.clone()))
    }
}

/// A record for the change log; the stamp comes with [`Stage::log`].
pub(super) fn change(verb: Verb, target: &Target, parent: EntryId, entry: EntryId) -> ChangeRecord {
    ChangeRecord {
        stamp: VersionId(0),
        verb,
        bucket: target.chain.bucket.id,
        parent,
        entry,
        path: target.path.clone(),
        source: None,
        principal: String::new(),
        version: None,
        replaced: None,
        documents: Vec::new(),
    }
}
