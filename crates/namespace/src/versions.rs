//! The versions of a name.
//!
//! The current version is in the file's record. Older versions are in a range of their own, newest
//! first. The record counts them and says which of them is called `null`. This has these effects:
//!
//! - There are older versions only where there is a record. A name whose last version is a delete
//!   marker still has one.
//! - Every change of the set of versions changes the record, and requires it to be as it was read.
//!   Changes of one name therefore happen one after the other.
//! - The current version has the highest id. A new version may have a lower id, because its bytes
//!   took longer to arrive than those of another one. It gets a new id when it replaces a version
//!   that stays.
//! - A name without history has no extra cost.
//!
//! The bucket decides at the moment of the commit whether the replaced version is kept or removed.
//! With versioning suspended (or never enabled), new versions are called `null` and replace the
//! version of that name, wherever it is.

use bytes::Bytes;
use dewar_checksum::DigestSet;
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, Timestamp, VersionId, VersionName};
use std::collections::BTreeMap;

use dewar_catalog::record::{
    ChangeKind, ChangeRecord, ETag, Entry, EntryAttributes, FileRecord, ObjectLock, Record,
    VersionFlags, VersionRecord, Versioning,
};
use dewar_catalog::{Actor, keys};
use dewar_kv::{ReadValue, Scan};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::charge::ChargedItem;
use super::resolve::{NameRef, ResolvedName, ResolvedPath, not_found};
use super::retry::ConflictRetry;
use super::version_attributes::VersionAttributes;
use super::{Bucket, Tree};

/// The circumstances of a change of attributes.
#[derive(Clone, Copy, Debug)]
pub struct ChangeContext {
    /// The version that changes.
    pub id: VersionId,
    /// When.
    pub now: Timestamp,
    /// The object lock settings of the bucket.
    pub object_lock: Option<ObjectLock>,
}

/// A version as it was found.
pub(super) struct VersionLocation {
    pub(super) version: VersionRecord,
    /// Its own key and read, when it is an older one.
    pub(super) older: Option<(Bytes, ReadValue)>,
}

impl ResolvedPath {
    /// What the bucket does with versions that are replaced.
    pub(super) fn versioning(&self) -> Versioning {
        self.settings(|settings| settings.versioning)
            .unwrap_or_default()
    }

    /// What the bucket says about object lock.
    pub(super) fn object_lock(&self) -> Option<ObjectLock> {
        self.settings(|settings| settings.object_lock).flatten()
    }

    fn settings<T>(
        &self,
        get: impl FnOnce(&dewar_catalog::record::BucketSettings) -> T,
    ) -> Option<T> {
        self.dirs.first()?.record.bucket.as_ref().map(get)
    }
}

/// An older version, with who owns it.
fn older_of(file: &FileRecord) -> VersionRecord {
    VersionRecord {
        owner: Some(file.attributes.owner),
        group: file.attributes.group,
        ..file.current.clone()
    }
}

/// The version is kept.
pub(super) fn locked(path: &str, version: &VersionRecord) -> Error {
    let message = format!("version {} of {path} is kept", version.name());
    Error::new(ErrorKind::Locked, message)
}

fn no_such_version(path: &str, name: VersionName) -> Error {
    let message = format!("{path} has no version {name}");
    Error::new(ErrorKind::NoSuchVersion, message)
}

/// A name with its versions, while they are changed.
///
/// Changes may follow each other; [`Name::settle`] stages what they come to.
pub(super) struct Name<'a> {
    target: &'a ResolvedName,
    /// The directory, which this change may make.
    parent: EntryId,
    /// The record as it shall be.
    file: Option<FileRecord>,
    /// Older versions that this change put in their table.
    archived: BTreeMap<VersionId, VersionRecord>,
    /// Older versions that this change removes, each as in its table. `None` if this change put it
    /// there.
    taken: BTreeMap<VersionId, Option<VersionRecord>>,
}

impl<'a> Name<'a> {
    pub(super) fn new(target: &'a ResolvedName, parent: EntryId) -> Self {
        let file = match &target.entry {
            Some(Entry::File(file)) => Some(file.clone()),
            _ => None,
        };
        Self {
            target,
            parent,
            file,
            archived: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    /// The record as it is after the changes so far.
    pub(super) fn file(&self) -> Option<&FileRecord> {
        self.file.as_ref()
    }

    fn key_of(&self, id: VersionId) -> Bytes {
        keys::version(self.parent, &self.target.name, id)
    }

    /// A version goes for good.
    async fn discard(
        &self,
        stage: &mut BatchBuilder<'_>,
        version: &VersionRecord,
        bypass: bool,
    ) -> Result<(), Error> {
        if version.is_kept(stage.now(), bypass) {
            return Err(locked(&self.target.path, version));
        }
        stage.release_version(version).await
    }

    /// An older version as it stands in its table or was put there by this change.
    async fn older(
        &self,
        stage: &mut BatchBuilder<'_>,
        id: VersionId,
    ) -> Result<Option<VersionRecord>, Error> {
        if let Some(version) = self.archived.get(&id) {
            return Ok(Some(version.clone()));
        }
        if self.taken.contains_key(&id) {
            return Ok(None);
        }
        let key = self.key_of(id);
        let read = stage.tree().kv().get(&key).await?;
        let Some(value) = &read.value else {
            return Ok(None);
        };
        let version = VersionRecord::from_value(&key, value)?;
        stage.same(key, &read);
        Ok(Some(version))
    }

    /// An older version leaves its table.
    fn take(&mut self, version: &VersionRecord) {
        let id = version.id;
        let stood = self.archived.remove(&id).is_none();
        // What this change had taken before and put there again still stands as it was.
        let before = self.taken.remove(&id).flatten();
        let stood = before.or_else(|| stood.then(|| version.clone()));
        self.taken.insert(id, stood);
        if let Some(file) = &mut self.file {
            file.older = file.older.saturating_sub(1);
            if file.older_null == Some(id) {
                file.older_null = None;
            }
        }
    }

    /// Makes room for a new current version: keeps what is there, or lets the one go that is called
    /// `null`, and gives how the record goes on (older versions, and which of them is `null`) and
    /// what went.
    pub(super) async fn give_way(
        &mut self,
        stage: &mut BatchBuilder<'_>,
        versioning: Versioning,
    ) -> Result<Option<VersionRecord>, Error> {
        let Some(file) = self.file.clone() else {
            return Ok(None);
        };
        // A new name, the common case, does not pay for the room that this needs.
        Box::pin(self.replace(file, stage, versioning)).await
    }

    async fn replace(
        &mut self,
        file: FileRecord,
        stage: &mut BatchBuilder<'_>,
        versioning: Versioning,
    ) -> Result<Option<VersionRecord>, Error> {
        let keeps = versioning == Versioning::Enabled;
        if !keeps && !file.current.flags.named() {
            self.discard(stage, &file.current, false).await?;
            return Ok(Some(file.current));
        }
        let mut gone = None;
        if !keeps && let Some(null) = file.older_null {
            match self.older(stage, null).await? {
                Some(version) => {
                    self.discard(stage, &version, false).await?;
                    self.take(&version);
                    gone = Some(version);
                }
                None => stage.lose(),
            }
        }
        let version = older_of(&file);
        if let Some(file) = &mut self.file {
            file.older += 1;
            if !version.flags.named() {
                file.older_null = Some(version.id);
            }
        }
        self.archived.insert(version.id, version);
        Ok(gone)
    }

    /// The new version is the current one.
    pub(super) fn put(&mut self, attributes: EntryAttributes, current: VersionRecord) {
        let (older, older_null) = self
            .file
            .as_ref()
            .map_or((0, None), |file| (file.older, file.older_null));
        self.file = Some(FileRecord {
            attributes,
            current,
            older,
            older_null,
        });
    }

    /// A delete marker becomes the current version.
    pub(super) async fn mark(
        &mut self,
        stage: &mut BatchBuilder<'_>,
        actor: &Actor<'_>,
        versioning: Versioning,
    ) -> Result<VersionRecord, Error> {
        let floor = self.file.as_ref().map(|file| file.current.id);
        let gone = self.give_way(stage, versioning).await?;
        let id = match floor {
            Some(floor) => stage.tree().ids().version_above(floor).await?,
            None => stage.tree().ids().version().await?,
        };
        let (etag, digests) = (ETag::Version, DigestSet::new(1, 0));
        let marker = VersionRecord {
            flags: VersionFlags::DELETE_MARKER.with_name(versioning == Versioning::Enabled),
            ..VersionRecord::new(id, 0, etag, stage.now(), digests)
        };
        let attributes = match self.file.as_ref() {
            Some(file) => EntryAttributes {
                owner: actor.user,
                ctime: stage.now(),
                ..file.attributes.clone()
            },
            None => {
                let group = self.target.chain.group();
                stage.attributes(stage.mint_entry().await?, actor.user, group, 0o644)
            }
        };
        let id = attributes.id;
        self.put(attributes, marker.clone());
        let record = ChangeRecord {
            version: Some((&marker).into()),
            replaced: gone.map(|version| version.id),
            ..self.target.change(ChangeKind::Mark, self.parent, id)
        };
        stage.log(actor, record).await?;
        Ok(marker)
    }

    /// Finds a version by its name, as it is after the changes so far.
    pub(super) async fn find(
        &self,
        stage: &mut BatchBuilder<'_>,
        name: VersionName,
    ) -> Result<Option<VersionRecord>, Error> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        if file.current.name() == name {
            return Ok(Some(file.current.clone()));
        }
        let id = match name {
            VersionName::Id(id) => id,
            VersionName::Null => match file.older_null {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        if file.older == 0 || id >= file.current.id {
            return Ok(None);
        }
        let found = self.older(stage, id).await?;
        Ok(found.filter(|version| version.name() == name))
    }

    /// A version goes for good; when it was the current one, the newest older one takes its place.
    pub(super) async fn remove(
        &mut self,
        stage: &mut BatchBuilder<'_>,
        actor: &Actor<'_>,
        version: &VersionRecord,
        bypass: bool,
    ) -> Result<(), Error> {
        let Some(file) = self.file.clone() else {
            return Ok(());
        };
        let current = file.current.id == version.id;
        self.discard(stage, version, bypass).await?;
        if current {
            self.promote(stage, file.clone()).await?;
        } else {
            self.take(version);
        }
        let verb = if current && self.file.is_none() {
            ChangeKind::Delete
        } else {
            ChangeKind::DeleteVersion
        };
        let record = ChangeRecord {
            version: Some(version.into()),
            ..self.target.change(verb, self.parent, file.attributes.id)
        };
        stage.log(actor, record).await
    }

    /// The newest older version becomes the current one.
    async fn promote(
        &mut self,
        stage: &mut BatchBuilder<'_>,
        mut file: FileRecord,
    ) -> Result<(), Error> {
        if file.older == 0 {
            self.file = None;
            return Ok(());
        }
        let Some(newest) = self.newest(stage).await? else {
            stage.lose();
            return Ok(());
        };
        self.file = Some(file.clone());
        self.take(&newest);
        let (owner, group) = newest.ownership(&file.attributes);
        file.attributes = EntryAttributes {
            owner,
            group,
            mtime: newest.modified,
            ctime: stage.now(),
            ..file.attributes
        };
        file.current = VersionRecord {
            owner: None,
            group: None,
            flags: newest.flags.with_replaced(true),
            ..newest
        };
        (file.older, file.older_null) = self
            .file
            .as_ref()
            .map_or((0, None), |file| (file.older, file.older_null));
        self.file = Some(file);
        Ok(())
    }

    /// The newest of the older versions.
    async fn newest(&self, stage: &mut BatchBuilder<'_>) -> Result<Option<VersionRecord>, Error> {
        let range = keys::versions(self.parent, &self.target.name);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: self.taken.len() + 1,
            reverse: false,
        };
        let page = stage.tree().kv().scan(scan).await?;
        let mut stored = None;
        for (key, value) in page.pairs {
            let (_, _, id) = keys::parse_version(&key)?;
            if !self.taken.contains_key(&id) {
                stored = Some((key, value));
                break;
            }
        }
        let ours = self.archived.values().next_back();
        let Some((key, value)) = stored else {
            return Ok(ours.cloned());
        };
        let version = VersionRecord::from_value(&key, &value)?;
        if let Some(ours) = ours.filter(|ours| ours.id > version.id) {
            return Ok(Some(ours.clone()));
        }
        let read = ReadValue {
            value: Some(value),
            seq: page.seq,
        };
        stage.same(key, &read);
        Ok(Some(version))
    }

    /// Stages what the changes come to.
    pub(super) async fn settle(self, stage: &mut BatchBuilder<'_>) -> Result<(), Error> {
        stage.watch(&self.target.chain);
        let key = match &self.target.slot {
            Some((key, read)) => {
                stage.same(key.clone(), read);
                key.clone()
            }
            None => keys::file(self.parent, &self.target.name),
        };
        let before = match &self.target.entry {
            Some(Entry::File(file)) => Some(file),
            _ => None,
        };
        if let Some(file) = before {
            stage.charge_current(self.target, file, -1);
        }
        for (id, stood) in &self.taken {
            stage.delete(self.key_of(*id));
            if let (Some(version), Some(file)) = (stood, before) {
                stage.charge_older(self.target, version, file, -1);
            }
        }
        for (id, version) in &self.archived {
            stage.put(self.key_of(*id), version.to_value());
            if let Some(file) = before.or(self.file.as_ref()) {
                stage.charge_older(self.target, version, file, 1);
            }
        }
        match &self.file {
            Some(file) => {
                stage.charge_current(self.target, file, 1);
                stage.put(key, file.to_value());
            }
            None => {
                stage.delete(key);
                Box::pin(stage.hint(&self.target.chain)).await?;
            }
        }
        Ok(())
    }
}

impl Tree {
    /// Finds a version of a name: the current one, or the one named. Delete markers are found as
    /// well: see [`FileRecord::is_live`]. For an older version, `current` of the result is that
    /// version, and the attributes have its owner.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn lookup_version(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        name: Option<VersionName>,
    ) -> Result<Option<FileRecord>, Error> {
        let found = self.find_name(bucket, key).await?;
        self.version_of(found, name).await
    }

    /// The same for a name that was looked up.
    ///
    /// # Errors
    /// As [`Tree::lookup_version`].
    pub async fn version_of(
        &self,
        found: ResolvedName,
        name: Option<VersionName>,
    ) -> Result<Option<FileRecord>, Error> {
        let older = match &found.entry {
            // The common case moves what was read.
            Some(Entry::File(file)) if name.is_none_or(|name| file.current.name() == name) => None,
            Some(Entry::File(_)) => match self.place_of(&found, name).await? {
                Some(place) => place.older.map(|_| place.version),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Some(Entry::File(file)) = found.entry else {
            return Ok(None);
        };
        let Some(version) = older else {
            return Ok(Some(file));
        };
        let (owner, group) = version.ownership(&file.attributes);
        Ok(Some(FileRecord {
            attributes: EntryAttributes {
                owner,
                group,
                mtime: version.modified,
                ..file.attributes
            },
            current: version,
            older: 0,
            older_null: None,
        }))
    }

    /// Where a version of what the target holds stands.
    pub(super) async fn place_of(
        &self,
        target: &ResolvedName,
        name: Option<VersionName>,
    ) -> Result<Option<VersionLocation>, Error> {
        let (Some(parent), Some(Entry::File(file))) = (target.chain.parent(), &target.entry) else {
            return Ok(None);
        };
        let current = || VersionLocation {
            version: file.current.clone(),
            older: None,
        };
        let id = match name {
            None => return Ok(Some(current())),
            Some(name) if file.current.name() == name => return Ok(Some(current())),
            Some(VersionName::Id(id)) => Some(id),
            Some(VersionName::Null) => file.older_null,
        };
        let Some(id) = id.filter(|id| file.older > 0 && *id < file.current.id) else {
            return Ok(None);
        };
        let key = keys::version(parent, &target.name, id);
        let read = self.kv().get(&key).await?;
        let Some(value) = &read.value else {
            return Ok(None);
        };
        let version = VersionRecord::from_value(&key, value)?;
        if name != Some(version.name()) {
            return Ok(None);
        }
        Ok(Some(VersionLocation {
            version,
            older: Some((key, read)),
        }))
    }

    /// Adds facts about a version that were learned later. They are neither set by a client nor
    /// visible in its times. `name` is the version's name if it has one. Returns `false` when the
    /// version is gone. `amend` is called with the present version, and again after a lost race.
    ///
    /// # Errors
    /// Those of `amend`; `NoSuchBucket`; `Conflict`; errors of the engine, after which the change
    /// may or may not have been written.
    pub async fn amend_version(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        (name, id): (Option<VersionName>, VersionId),
        amend: impl Fn(&mut VersionRecord) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let target = self.find_name(bucket, key).await?;
            let place = self.place_of(&target, name).await?;
            let Ok(place) = readable(&target.path, place, name) else {
                return Ok(false);
            };
            if place.version.id != id {
                return Ok(false);
            }
            let mut version = place.version;
            amend(&mut version)?;
            let mut stage = BatchBuilder::new(self);
            let staged = stage.rewrite_quietly(actor, &target, place.older, version);
            staged.await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(true),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Changes attributes of a version, the current one or the one named, and returns the new ones.
    /// `change` is called with the present attributes, and again after a lost race. An error of
    /// `change` is returned. Nothing is written when `change` changes nothing.
    ///
    /// # Errors
    /// Those of `change`; `NotFound` without a file or where the current version is a delete
    /// marker, `NoSuchVersion`, `DeleteMarker` where the named version is one; `Conflict`; errors
    /// of the engine.
    pub async fn change_version(
        &self,
        actor: &Actor<'_>,
        mut of: NameRef<'_>,
        name: Option<VersionName>,
        change: impl Fn(&mut VersionAttributes, ChangeContext) -> Result<(), Error>,
    ) -> Result<VersionRecord, Error> {
        let mut turn = ConflictRetry::new(self, of.path());
        loop {
            let target = of.resolve(self).await?;
            let place = self.place_of(&target, name).await?;
            let place = readable(&target.path, place, name)?;
            let mut stage = BatchBuilder::new(self);
            let mut attributes = VersionAttributes::from(&place.version);
            let before = attributes.clone();
            let circumstances = ChangeContext {
                id: place.version.id,
                now: stage.now(),
                object_lock: target.chain.object_lock(),
            };
            change(&mut attributes, circumstances)?;
            if attributes == before {
                return Ok(place.version);
            }
            let version = attributes.apply(place.version);
            stage.keep_to_quotas();
            stage
                .rewrite(actor, &target, place.older, version.clone())
                .await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(version),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}

/// The version that a reader gets.
pub(super) fn readable(
    path: &str,
    place: Option<VersionLocation>,
    name: Option<VersionName>,
) -> Result<VersionLocation, Error> {
    let place = match (place, name) {
        (Some(place), _) => place,
        (None, None) => return Err(not_found(path)),
        (None, Some(name)) => return Err(no_such_version(path, name)),
    };
    match name {
        _ if !place.version.flags.delete_marker() => Ok(place),
        None => Err(not_found(path)),
        Some(name) => {
            let message = format!("version {name} of {path} is a delete marker");
            Err(Error::new(ErrorKind::DeleteMarker, message))
        }
    }
}

impl BatchBuilder<'_> {
    /// Puts a version in its own place with other attributes.
    pub(super) async fn rewrite(
        &mut self,
        actor: &Actor<'_>,
        target: &ResolvedName,
        older: Option<(Bytes, ReadValue)>,
        version: VersionRecord,
    ) -> Result<(), Error> {
        let ctime = Some(self.now());
        self.rewrite_at(actor, target, older, version, ctime).await
    }

    /// The same, and the file does not count as changed.
    async fn rewrite_quietly(
        &mut self,
        actor: &Actor<'_>,
        target: &ResolvedName,
        older: Option<(Bytes, ReadValue)>,
        version: VersionRecord,
    ) -> Result<(), Error> {
        self.rewrite_at(actor, target, older, version, None).await
    }

    async fn rewrite_at(
        &mut self,
        actor: &Actor<'_>,
        target: &ResolvedName,
        older: Option<(Bytes, ReadValue)>,
        version: VersionRecord,
        ctime: Option<Timestamp>,
    ) -> Result<(), Error> {
        let (Some((key, read)), Some(Entry::File(file))) = (&target.slot, &target.entry) else {
            return Err(not_found(&target.path));
        };
        self.watch(&target.chain);
        let log = ChangeRecord {
            version: Some((&version).into()),
            ..target.change(
                ChangeKind::SetAttributes,
                target.chain.last_id(),
                file.attributes.id,
            )
        };
        match older {
            Some((key, read)) => {
                if let Some(value) = &read.value {
                    let before = VersionRecord::from_value(&key, value)?;
                    let before = ChargedItem::Older(&before, file);
                    self.recharge(before, ChargedItem::Older(&version, file), &target.chain);
                }
                self.same(key.clone(), &read);
                self.put(key, version.to_value());
            }
            None => {
                self.same(key.clone(), read);
                let mut changed = file.clone();
                changed.attributes.ctime = ctime.unwrap_or(file.attributes.ctime);
                changed.current = version;
                let after = ChargedItem::Current(&changed);
                self.recharge(ChargedItem::Current(file), after, &target.chain);
                self.put(key.clone(), changed.to_value());
            }
        }
        self.log(actor, log).await
    }
}
