//! Making a version the current one of a name. See [`super::versions`] for the other versions.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_catalog::Actor;
use dewar_catalog::record::{
    ChangeKind, ChangeRecord, ContentCopy, DisplayedChecksum, ETag, EncryptionRecord, Extent,
    VersionRecord, Versioning,
};
use dewar_checksum::DigestSet;
use dewar_kv::InlineData;
use dewar_types::{BlobId, EntryId, Error, ErrorKind, GroupId, Timestamp, UserId, VersionId};
use minicbor::bytes::ByteVec;

use super::Tree;
use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::condition::WriteCondition;
use super::node::Hierarchy;
use super::resolve::{NameRef, ResolvedName};
use super::retry::ConflictRetry;
use super::version_attributes::VersionAttributes;
use super::versions::Name;

/// Written content that is to get a name. All blobs and slots in `copies` must be new: nothing else
/// names them yet, except the version that it [revises](NewVersion::revises).
#[derive(Clone, Debug)]
pub struct NewVersion {
    /// Its id, if it was minted before the bytes were written ([`dewar_catalog::Ids::version`]).
    pub id: Option<VersionId>,
    /// Bytes.
    pub size: u64,
    /// Its ETag.
    pub etag: ETag,
    /// Digests of the content.
    pub digests: DigestSet,
    /// Its attributes.
    pub attributes: VersionAttributes,
    /// Places of the bytes.
    pub copies: Vec<ContentCopy>,
    /// When it was written, if not now.
    pub modified: Option<Timestamp>,
    /// The checksum to be shown to readers.
    pub checksum: Option<DisplayedChecksum>,
    /// How the bytes are encrypted.
    pub encryption: Option<EncryptionRecord>,
    /// The group that owns the file.
    pub group: Option<GroupId>,
    /// Permission bits of the file.
    pub mode: u32,
    /// Extended attributes of the file.
    pub xattrs: BTreeMap<String, ByteVec>,
    /// The rules for its name.
    pub hierarchy: Hierarchy,
    /// The version that it was made from and shares content with, and the places of that content.
    /// That version must still be the current one, with its content at these places.
    pub revises: Option<(VersionId, Vec<ContentCopy>)>,
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
            attributes: VersionAttributes::default(),
            copies: vec![copy],
            modified: None,
            checksum: None,
            encryption: None,
            group: None,
            mode: 0o644,
            xattrs: BTreeMap::new(),
            hierarchy: Hierarchy::Flat,
            revises: None,
        }
    }
}

/// Changes that the data layer adds to the same batch.
#[derive(Clone, Debug, Default)]
pub struct DataChanges {
    /// Its records, such as a blob's.
    pub puts: Vec<(Bytes, Bytes)>,
    /// The bytes of a small object.
    pub carry: Option<InlineData>,
}

impl DataChanges {
    pub(super) fn stage(&self, stage: &mut BatchBuilder<'_>) {
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
    /// The version that it replaced, if the name had one; the bucket may have kept it.
    pub replaced: Option<VersionRecord>,
}

/// A file as it shall be.
pub(super) struct NewFile {
    pub(super) version: VersionRecord,
    pub(super) owner: UserId,
    pub(super) group: Option<GroupId>,
    pub(super) mode: u32,
    pub(super) xattrs: BTreeMap<String, ByteVec>,
    pub(super) verb: ChangeKind,
    pub(super) source: Option<String>,
}

impl Tree {
    /// Gives a content its name. One batch makes missing directories, replaces and releases the
    /// content that the name held, updates the counters and appends to the change log. Lost races
    /// are retried, and the condition is checked again each time.
    ///
    /// # Errors
    /// `Precondition` or `NotFound` when the condition does not hold; `IsADirectory` or
    /// `NotADirectory` in a hierarchy; `Conflict` after too many
    /// lost races, or when the version that it revises was replaced; `NoSuchBucket`; errors of the
    /// engine. After an error of the engine, or when the future is dropped, the version may or may
    /// not have been published.
    pub async fn publish(
        &self,
        actor: &Actor<'_>,
        mut name: NameRef<'_>,
        new: NewVersion,
        condition: &WriteCondition,
        extra: &DataChanges,
    ) -> Result<Published, Error> {
        let id = match new.id {
            Some(id) => id,
            None => self.ids().version().await?,
        };
        let mut turn = ConflictRetry::new(self, name.path());
        loop {
            let target = name.resolve(self).await?;
            let current = target.file().map(|file| &file.current);
            condition.check(turn.path(), current)?;
            let kept = match &new.revises {
                None => BTreeSet::new(),
                Some((id, copies)) => self.places_of(turn.path(), *id, copies, current).await?,
            };
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            if new.hierarchy == Hierarchy::Strict {
                self.check_file_place(&mut stage, &target).await?;
            }
            for copy in &new.copies {
                let (shared, fresh): (Vec<_>, Vec<_>) = copy
                    .extents
                    .iter()
                    .copied()
                    .partition(|extent| kept.contains(&place_of(extent)));
                stage.share(&shared);
                stage.fresh(&fresh);
            }
            extra.stage(&mut stage);
            let file = NewFile {
                version: new_version(id, &new, stage.now()),
                owner: actor.user,
                group: new.group,
                mode: new.mode,
                xattrs: new.xattrs.clone(),
                verb: ChangeKind::Put,
                source: None,
            };
            let published = stage.place(actor, &target, file).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(published),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}

/// What an extent refers to: a blob, or a slot in a segment.
fn place_of(extent: &Extent) -> (BlobId, Option<u32>) {
    (extent.blob, extent.slot.map(|slot| slot.offset))
}

impl Tree {
    /// Where the content of the version lies that is to be revised.
    async fn places_of(
        &self,
        path: &str,
        id: VersionId,
        copies: &[ContentCopy],
        current: Option<&VersionRecord>,
    ) -> Result<BTreeSet<(BlobId, Option<u32>)>, Error> {
        let same = |current: &&VersionRecord| current.id == id && current.copies == copies;
        let Some(current) = current.filter(same) else {
            let message = format!("{path} was replaced or moved while it was being changed");
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        let mut places = BTreeSet::new();
        for copy in 0..current.copies.len() {
            places.extend(self.extents(current, copy).await?.iter().map(place_of));
        }
        Ok(places)
    }
}

fn new_version(id: VersionId, new: &NewVersion, now: Timestamp) -> VersionRecord {
    let modified = new.modified.unwrap_or(now);
    new.attributes.clone().apply(VersionRecord {
        copies: new.copies.clone(),
        encryption: new.encryption.clone(),
        checksum: new.checksum.clone(),
        ..VersionRecord::new(id, new.size, new.etag.clone(), modified, new.digests)
    })
}

impl BatchBuilder<'_> {
    /// Puts a file at the target. References of its extents are the caller's business; those of
    /// what goes because of it are released here. With versions that stay, the new one may get
    /// another id than it came with ([`super::versions`]).
    pub(super) async fn place(
        &mut self,
        actor: &Actor<'_>,
        target: &ResolvedName,
        file: NewFile,
    ) -> Result<Published, Error> {
        let group = file.group.or_else(|| target.chain.group());
        // Directories that a file brings along pass on what they inherit, and have none of their own.
        let parent = self.make_dirs(&target.chain, file.owner, None).await?;
        let versioning = target.chain.versioning();
        let mut name = Name::new(target, parent);
        let before = name.file().map(|old| (old.attributes.id, old.current.id));
        let replaced = match name.file() {
            Some(old) if versioning == Versioning::Enabled => Some(old.current.clone()),
            _ => None,
        };
        let gone = name.give_way(self, versioning).await?;
        let mut version = file.version;
        version.flags = version.flags.with_name(versioning == Versioning::Enabled);
        version.flags = version.flags.with_replaced(before.is_some());
        if version.retention.is_none()
            && let Some(default) = target.chain.object_lock().and_then(|lock| lock.default)
        {
            version.retention = Some(default.starting(self.now()));
        }
        if let Some((_, floor)) = before
            && version.id <= floor
            && name.file().is_some_and(|file| file.older > 0)
        {
            version.id = self.tree().ids().version_above(floor).await?;
        }
        self.spill_version(&mut version)?;
        let id = match before {
            Some((id, _)) => id,
            None => self.mint_entry().await?,
        };
        let mut attributes = self.attributes(id, file.owner, group, file.mode);
        attributes.mtime = version.client_modified.unwrap_or(version.modified);
        attributes.xattrs = file.xattrs;
        name.put(attributes, version.clone());
        name.settle(self).await?;
        let replaced = replaced.or(gone);
        let change = ChangeRecord {
            version: Some((&version).into()),
            source: file.source,
            replaced: replaced.as_ref().map(|version| version.id),
            ..target.change(file.verb, parent, id)
        };
        self.log(actor, change).await?;
        Ok(Published {
            entry: id,
            version,
            replaced,
        })
    }
}
