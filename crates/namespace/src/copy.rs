//! Copies that share the source's blobs.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_catalog::Actor;
use dewar_catalog::record::{
    ChangeKind, ContentCopy, DisplayedChecksum, Extent, PartSizes, VersionRecord,
};
use dewar_kv::ReadValue;
use dewar_types::{ByteRange, Error, ErrorKind, GroupId, VersionId, VersionName};

use super::Tree;
use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::condition::{ReadCondition, WriteCondition};
use super::node::Hierarchy;
use super::publish::{NewFile, Published};
use super::resolve::{NameRef, ResolvedName};
use super::retry::ConflictRetry;
use super::version_attributes::VersionAttributes;
use super::versions::{VersionLocation, readable};

/// The options of a copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// Attributes of the copy. Without tags of its own, it has those of the source.
    pub attributes: VersionAttributes,
    /// Whether headers and metadata are those of `attributes`, and not those of the source
    /// (`x-amz-metadata-directive`).
    pub replace_headers: bool,
    /// The checksum to return for the copy, if not the source's.
    pub checksum: Option<DisplayedChecksum>,
    /// Condition on the source.
    pub source: ReadCondition,
    /// Version of the source; the current one if `None`.
    pub source_name: Option<VersionName>,
    /// The required version of the source, if the caller examined one, so that the authorised
    /// version is the copied one.
    pub source_version: Option<VersionId>,
    /// Condition on the target.
    pub target: WriteCondition,
    /// The rules for the target's name.
    pub hierarchy: Hierarchy,
    /// The group that owns the copy.
    pub group: Option<GroupId>,
    /// Permission bits of the copy.
    pub mode: u32,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            attributes: VersionAttributes::default(),
            replace_headers: false,
            checksum: None,
            source: ReadCondition::default(),
            source_name: None,
            source_version: None,
            target: WriteCondition::NONE,
            hierarchy: Hierarchy::Flat,
            group: None,
            mode: 0o644,
        }
    }
}

/// A source of a copy as it was found.
pub(super) struct CopySource {
    pub(super) target: ResolvedName,
    pub(super) version: VersionRecord,
    /// The version's own key and read, when it is an older one.
    older: Option<(Bytes, ReadValue)>,
    /// The copies with their extents in full.
    pub(super) copies: Vec<ContentCopy>,
}

impl Tree {
    /// Copies a file's content and attributes to another name, of the same bucket or another, by
    /// sharing its blobs. Onto itself it replaces headers and metadata. By the rules of a hierarchy a
    /// copy of the current version also has the file's extended attributes.
    ///
    /// # Errors
    /// `NotFound`, `NoSuchVersion` or `DeleteMarker` when there is no source; otherwise as
    /// [`Tree::publish`].
    pub async fn copy(
        &self,
        actor: &Actor<'_>,
        mut from: NameRef<'_>,
        mut to: NameRef<'_>,
        options: &CopyOptions,
    ) -> Result<Published, Error> {
        let id = self.ids().version().await?;
        let mut turn = ConflictRetry::new(self, to.path());
        loop {
            let target = to.resolve(self).await?;
            let current = target.file().map(|file| &file.current);
            let Some(source) = self.source(&mut from, options).await? else {
                turn.lost().await?;
                continue;
            };
            options.target.check(turn.path(), current)?;
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            if options.hierarchy == Hierarchy::Strict {
                self.check_file_place(&mut stage, &target).await?;
            }
            stage.watch_source(&source);
            for copy in &source.copies {
                stage.share(&copy.extents);
            }
            let now = stage.now();
            let mut attributes = options.attributes.clone();
            if !options.replace_headers {
                attributes.headers = source.version.headers.clone();
                attributes.metadata = source.version.metadata.clone();
                let given = attributes.client_modified;
                attributes.client_modified = given.or(source.version.client_modified);
                if attributes.archive_metadata.is_none() {
                    attributes.archive_metadata = source.version.archive_metadata.clone();
                }
            }
            if attributes.tags.is_none() {
                attributes.tags = Some(source.version.tags.clone());
            }
            let checksum = options.checksum.as_ref();
            let version = attributes.apply(VersionRecord {
                id,
                modified: now,
                copies: source.copies,
                parts: self.inline_parts(&source.version).await?,
                upload: None,
                checksum: checksum.or(source.version.checksum.as_ref()).cloned(),
                owner: None,
                group: None,
                ..source.version
            });
            let file = NewFile {
                version,
                owner: actor.user,
                group: options.group,
                mode: options.mode,
                xattrs: match (source.target.file(), options.hierarchy) {
                    (Some(file), Hierarchy::Strict) if options.source_name.is_none() => {
                        file.attributes.xattrs.clone()
                    }
                    _ => BTreeMap::new(),
                },
                verb: ChangeKind::Copy,
                source: Some(source.target.path),
            };
            let published = stage.place(actor, &target, file).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(published),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Finds what is to be copied; `None` when it was replaced while it was looked at.
    pub(super) async fn source(
        &self,
        from: &mut NameRef<'_>,
        options: &CopyOptions,
    ) -> Result<Option<CopySource>, Error> {
        let target = from.resolve(self).await?;
        let place = self.place_of(&target, options.source_name).await?;
        let VersionLocation { version, older, .. } =
            readable(&target.path, place, options.source_name)?;
        if options
            .source_version
            .is_some_and(|wanted| wanted != version.id)
        {
            return Err(Error::new(
                ErrorKind::Precondition,
                format!("{} was replaced before it could be copied", target.path),
            ));
        }
        options.source.check_source(&target.path, &version)?;
        let mut copies = Vec::with_capacity(version.copies.len());
        for (list, copy) in version.copies.iter().enumerate() {
            let Some(extents) = self.load_extents(version.id, list, copy).await? else {
                return Ok(None);
            };
            copies.push(ContentCopy {
                extents: extents.into_owned(),
                chunks: 0,
                ..copy.clone()
            });
        }
        Ok(Some(CopySource {
            target,
            version,
            older,
            copies,
        }))
    }

    /// The part sizes of a version with long lists read in.
    async fn inline_parts(&self, version: &VersionRecord) -> Result<Option<PartSizes>, Error> {
        let Some(parts) = &version.parts else {
            return Ok(None);
        };
        // A list that is gone means the version is gone; the commit will find that out.
        let runs = self.part_runs(version).await?.unwrap_or_default();
        Ok(Some(PartSizes {
            count: parts.count,
            runs,
            chunks: 0,
            digests: self.part_digests(version).await?,
            digest_chunks: 0,
        }))
    }
}

impl BatchBuilder<'_> {
    /// Requires that the source is still there.
    pub(super) fn watch_source(&mut self, source: &CopySource) {
        self.watch(&source.target.chain);
        if let Some((key, read)) = &source.target.slot {
            self.same(key.clone(), read);
        }
        if let Some((key, read)) = &source.older {
            self.same(key.clone(), read);
        }
    }
}

/// The pieces of `extents` that make up `range` of the content.
///
/// # Errors
/// [`ErrorKind::InvalidRange`] when the content is shorter.
pub(super) fn slice(extents: &[Extent], range: ByteRange) -> Result<Vec<Extent>, Error> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for extent in extents {
        let start = range.start.clamp(at, at + extent.len);
        let end = range.end.clamp(at, at + extent.len);
        if start < end {
            pieces.push(Extent {
                offset: extent.offset + (start - at),
                len: end - start,
                ..*extent
            });
        }
        at += extent.len;
    }
    if range.end > at {
        return Err(Error::new(
            ErrorKind::InvalidRange,
            format!("bytes up to {} of a content of {at} bytes", range.end),
        ));
    }
    Ok(pieces)
}
