//! Renaming files and directories inside a bucket.
//!
//! A file is moved together with its older versions, whose keys contain its name. A directory is
//! moved in one small batch, whatever its size, because its entries refer to its id.

use std::fmt;
use std::sync::Arc;

use dewar_catalog::record::{
    ChangeKind, ChangeRecord, CounterScope, DirRecord, Entry, FileRecord, HintStep, QuotaRecord,
    Record, VersionRecord, Versioning,
};
use dewar_catalog::{Actor, keys};
use dewar_kv::{ReadValue, Scan};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::condition::WriteCondition;
use super::dirs::PrunePolicy;
use super::node::Hierarchy;
use super::publish::Published;
use super::resolve::{NameRef, ResolvedName, ResolvedPath, not_found};
use super::retry::ConflictRetry;
use super::space_table::SpacesHold;
use super::versions::Name;
use super::{Bucket, Tree};

/// Most older versions that a file may have to be renamed: they move in one batch.
const HISTORY_MAX: usize = 5_000;

/// The source of the error that a rename leads to another bucket or space, so that a front can copy
/// instead.
#[derive(Clone, Copy, Debug)]
pub struct CrossDeviceError;

impl fmt::Display for CrossDeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another bucket or space")
    }
}

impl std::error::Error for CrossDeviceError {}

/// The entries that a rename may replace, beside a file by a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplaceRule {
    /// Nothing.
    #[default]
    Nothing,
    /// An empty directory by a directory, as in POSIX.
    EmptyDirectory,
    /// A file by a directory.
    File,
    /// A directory with its content, as [`Tree::detach_dir`] removes it.
    Directory,
    /// A file, and a directory with its content.
    Everything,
}

impl ReplaceRule {
    fn takes_file(self) -> bool {
        matches!(self, Self::File | Self::Everything)
    }

    fn takes_content(self) -> bool {
        matches!(self, Self::Directory | Self::Everything)
    }
}

/// How to rename a directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenameOptions {
    /// The entries that may be replaced at the target.
    pub replaces: ReplaceRule,
    /// Whether missing directories of the target's path are made, as by a key's slashes. Otherwise
    /// the error is `NotFound`.
    pub make_parents: bool,
    /// The rules for the target's name.
    pub hierarchy: Hierarchy,
}

impl Tree {
    /// Renames a file in its bucket, replacing the content of the new name; `conditions` are for
    /// the source and for the target. The version stays the same. A rename onto itself does
    /// nothing.
    ///
    /// # Errors
    /// `NotFound` when there is no such file; `Precondition`; `Unsupported` when `from` and `to`
    /// are in different buckets, in a bucket with object lock, and onto a name that has versions
    /// where the bucket keeps them; `TooLarge` with more than 5,000 older versions; `Conflict`. In a
    /// hierarchy also `IsADirectory` and `NotADirectory`.
    pub async fn rename_file(
        &self,
        actor: &Actor<'_>,
        from: NameRef<'_>,
        to: NameRef<'_>,
        conditions: (&WriteCondition, &WriteCondition),
        hierarchy: Hierarchy,
    ) -> Result<Published, Error> {
        let replaces = ReplaceRule::Nothing;
        self.rename_over(actor, from, to, conditions, (hierarchy, replaces))
            .await
    }

    /// As [`Tree::rename_file`] in a hierarchy. A directory that has the new name is removed with its
    /// content, in the same batch.
    ///
    /// # Errors
    /// As [`Tree::rename_file`]; for the directory as [`Tree::detach_dir`], and `InvalidArgument` if
    /// the file is in it.
    pub async fn rename_file_over(
        &self,
        actor: &Actor<'_>,
        from: NameRef<'_>,
        to: NameRef<'_>,
        conditions: (&WriteCondition, &WriteCondition),
    ) -> Result<Published, Error> {
        let rules = (Hierarchy::Strict, ReplaceRule::Directory);
        self.rename_over(actor, from, to, conditions, rules).await
    }

    async fn rename_over(
        &self,
        actor: &Actor<'_>,
        mut from: NameRef<'_>,
        mut to: NameRef<'_>,
        conditions: (&WriteCondition, &WriteCondition),
        (hierarchy, replaces): (Hierarchy, ReplaceRule),
    ) -> Result<Published, Error> {
        let mut turn = ConflictRetry::new(self, to.path());
        if from.bucket.id != to.bucket.id {
            return Err(cross_device(&from.path(), turn.path()));
        }
        let hold = match replaces.takes_content() {
            true => Some(self.spaces.hold().await),
            false => None,
        };
        loop {
            let source = from.resolve(self).await?;
            let Some(file) = source.file().cloned() else {
                return Err(not_found(&source.path));
            };
            conditions.0.check(&source.path, Some(&file.current))?;
            let target = to.resolve(self).await?;
            conditions
                .1
                .check(turn.path(), target.file().map(|file| &file.current))?;
            refuse_rename(&source, Some(&target))?;
            if from.key == to.key {
                return Ok(Published {
                    entry: file.attributes.id,
                    version: file.current,
                    replaced: None,
                });
            }
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            let mut replaced_dir = false;
            if let Some(hold) = &hold {
                stage.keep_hold(hold);
                replaced_dir = self
                    .replace_dir_by_file(actor, &mut stage, &source, (&target, to.key))
                    .await?;
            }
            if hierarchy == Hierarchy::Strict && !replaced_dir {
                self.check_file_place(&mut stage, &target).await?;
            }
            let published = stage.move_file(actor, &source, &target, file).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(published),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Takes a directory out of the tree that has the new name of a file, and says whether there was
    /// one.
    async fn replace_dir_by_file(
        &self,
        actor: &Actor<'_>,
        stage: &mut BatchBuilder<'_>,
        source: &ResolvedName,
        (target, key): (&ResolvedName, &ObjectKey),
    ) -> Result<bool, Error> {
        let mut old = target.chain.clone();
        self.descend(&mut old, &target.name).await?;
        if !self.stands(&old).await? {
            return Ok(false);
        }
        refuse_own_directory(&source.chain, &old, &source.path)?;
        self.stage_detach(actor, stage, &old, key).await?;
        Ok(true)
    }

    /// Renames a directory in its bucket, with all its entries. Uploads in progress keep the key
    /// for which they were begun.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory; `NotEmpty` or `AlreadyExists` when the target
    /// exists; `InvalidArgument` when the target lies in the directory itself; `Unsupported` across
    /// buckets or spaces; `Conflict`. In a hierarchy also `NotADirectory` when a file is at the target
    /// or above it.
    pub async fn rename_dir(
        &self,
        actor: &Actor<'_>,
        from: (&Bucket, &ObjectKey),
        to: (&Bucket, &ObjectKey),
        options: RenameOptions,
    ) -> Result<(), Error> {
        let path = from.0.path(from.1.as_str());
        let mut turn = ConflictRetry::new(self, to.0.path(to.1.as_str()));
        if from.0.id != to.0.id {
            return Err(cross_device(&path, turn.path()));
        }
        let hold = self.hold_for_rename(from, options.replaces).await;
        loop {
            let source = self.dir_chain(from.0, from.1).await?;
            if !self.stands(&source).await? {
                return Err(not_found(&path));
            }
            if source.object_lock().is_some() {
                return Err(locked_in(&path));
            }
            let (parents, name) = to.1.split();
            let above = self.resolve(to.0, &parents).await?;
            let moved = source.last_id();
            if above
                .dirs
                .iter()
                .any(|dir| dir.record.attributes.id == moved)
            {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!("{path} cannot be moved into itself, to {}", turn.path()),
                ));
            }
            if from.1 == to.1 {
                return Ok(());
            }
            if !options.make_parents && !self.stands(&above).await? {
                return Err(not_found(&to.0.path(&parents.join("/"))));
            }
            // The spaces above the directory count it; its own mark, if any, moves along.
            let outside = source.dirs[..source.dirs.len() - 1]
                .iter()
                .filter(|dir| dir.record.space.is_some())
                .map(|dir| dir.record.attributes.id);
            if !outside.eq(above.spaces()) {
                return Err(cross_device(&path, turn.path()));
            }
            let mut stage = BatchBuilder::new(self);
            if options.hierarchy == Hierarchy::Strict {
                let target = self.find_name(to.0, to.1).await?;
                if let Some(file) = target.file() {
                    if !options.replaces.takes_file() {
                        let message = format!("{} is no directory", turn.path());
                        return Err(Error::new(ErrorKind::NotADirectory, message));
                    }
                    stage.replace_file_by_dir(actor, &target, file).await?;
                }
                stage.watch_above(&self.check_above(&target).await?);
                if let Some((key, read)) = &target.slot {
                    stage.same(key.clone(), read);
                }
            }
            let old = self.dir_chain(to.0, to.1).await?;
            stage.watch(&old);
            if old.missing.is_none() {
                refuse_own_directory(&source, &old, &path)?;
                self.clear_for_rename(actor, &mut stage, &old, to.1, options)
                    .await?;
            }
            stage
                .move_dir(actor, &source, &above, name, (&path, turn.path()))
                .await?;
            stage.keep_hold(&hold);
            self.stage_renamed_spaces(&mut stage, &hold, from, to.1);
            self.stage_renamed_limits(&mut stage, from, to.1).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(()),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// The hold on the spaces for the rename of a directory.
    async fn hold_for_rename(
        &self,
        (bucket, path): (&Bucket, &ObjectKey),
        replaces: ReplaceRule,
    ) -> Arc<SpacesHold> {
        if replaces.takes_content() {
            return self.spaces.hold().await;
        }
        let hold = self.spaces.hold_shared().await;
        let inside = self.limited.within(bucket.id, path);
        if inside.is_empty() && self.spaces.within(bucket, Some(path)).is_empty() {
            return hold;
        }
        drop(hold);
        self.spaces.hold().await
    }

    /// The quota records of limited directories get their new places.
    async fn stage_renamed_limits(
        &self,
        stage: &mut BatchBuilder<'_>,
        (bucket, from): (&Bucket, &ObjectKey),
        to: &ObjectKey,
    ) -> Result<(), Error> {
        for (id, path) in self.limited.within(bucket.id, from) {
            let key = CounterScope::Space(id).quota_key();
            let read = self.kv().get(&key).await?;
            // The directory may be removed just now.
            let Some(value) = &read.value else { continue };
            let mut record = QuotaRecord::from_value(&key, value)?;
            let rest = path.get(from.as_str().len()..).unwrap_or_default();
            record.place = Some((bucket.id, format!("{to}{rest}")));
            stage.same(key.clone(), &read);
            stage.put(key, record.to_value());
            stage.changes_limits(id);
        }
        Ok(())
    }

    /// Makes sure that the directory at a rename's target may be replaced.
    async fn clear_for_rename(
        &self,
        actor: &Actor<'_>,
        stage: &mut BatchBuilder<'_>,
        old: &ResolvedPath,
        key: &ObjectKey,
        options: RenameOptions,
    ) -> Result<(), Error> {
        let path = old.bucket.path(key.as_str());
        let dir = &old.last().record;
        if !dir.implicit && matches!(options.replaces, ReplaceRule::Nothing | ReplaceRule::File) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("{path} exists"),
            ));
        }
        let id = dir.attributes.id;
        let empty = dir.space.is_none() && self.purge_empty(id, PrunePolicy::Implicit).await?;
        if !empty && options.replaces.takes_content() {
            return self.stage_detach(actor, stage, old, key).await;
        }
        if !empty {
            return Err(Error::new(
                ErrorKind::NotEmpty,
                format!("directory {path} is not empty"),
            ));
        }
        stage.recharge_dir(&old.above(), Some(dir), None);
        stage.vanish(old.last().key.clone(), id);
        Ok(())
    }

    /// All older versions of a name, newest first, each as it was read.
    pub(super) async fn history(
        &self,
        parent: EntryId,
        name: &str,
        path: &str,
    ) -> Result<Vec<(VersionRecord, ReadValue)>, Error> {
        let range = keys::versions(parent, name);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: HISTORY_MAX,
            reverse: false,
        };
        let page = self.kv().scan(scan).await?;
        if page.more {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("{path} has more than {HISTORY_MAX} versions and cannot be renamed"),
            ));
        }
        let seq = page.seq;
        page.pairs
            .into_iter()
            .map(|(key, value)| {
                let version = VersionRecord::from_value(&key, &value)?;
                let value = Some(value);
                Ok((version, ReadValue { value, seq }))
            })
            .collect()
    }
}

impl BatchBuilder<'_> {
    async fn move_file(
        &mut self,
        actor: &Actor<'_>,
        source: &ResolvedName,
        target: &ResolvedName,
        mut file: FileRecord,
    ) -> Result<Published, Error> {
        let Some((old_key, old_read)) = &source.slot else {
            return Err(not_found(&source.path));
        };
        self.watch(&source.chain);
        self.same(old_key.clone(), old_read);
        self.watch(&target.chain);
        let attributes = &file.attributes;
        let owner = attributes.owner;
        // As for a file that is put: what it brings along has no group of its own.
        let parent = self.make_dirs(&target.chain, owner, None).await?;
        // Where versions stay, nothing stands at the target: see `refuse_rename`.
        let mut there = Name::new(target, parent);
        let replaced = there.give_way(self, Versioning::Off).await?;
        if let Some(Entry::File(gone)) = &target.entry {
            self.charge_current(target, gone, -1);
        }
        self.charge_current(source, &file, -1);
        self.charge_current(target, &file, 1);
        if file.older > 0 {
            self.move_history(source, target, parent, &file).await?;
        }
        file.attributes.ctime = self.now();
        // Also where nothing is there: what was may have been moved away before.
        file.current.flags = file.current.flags.with_replaced(true);
        self.delete(old_key.clone());
        if let Some((key, read)) = &target.slot {
            self.same(key.clone(), read);
        }
        self.put(keys::file(parent, &target.name), file.to_value());
        self.hint(&source.chain).await?;
        let record = ChangeRecord {
            source: Some(source.path.clone()),
            version: Some((&file.current).into()),
            replaced: replaced.as_ref().map(|version| version.id),
            ..target.change(ChangeKind::Rename, parent, file.attributes.id)
        };
        self.log(actor, record).await?;
        Ok(Published {
            entry: file.attributes.id,
            version: file.current,
            replaced,
        })
    }

    /// A file goes whose name a directory gets.
    async fn replace_file_by_dir(
        &mut self,
        actor: &Actor<'_>,
        target: &ResolvedName,
        file: &FileRecord,
    ) -> Result<(), Error> {
        if target.chain.versioning() != Versioning::Off {
            return Err(hides_versions(target));
        }
        let Some((key, _)) = &target.slot else {
            return Ok(());
        };
        let mut there = Name::new(target, target.chain.last_id());
        let replaced = there.give_way(self, Versioning::Off).await?;
        self.charge_current(target, file, -1);
        self.delete(key.clone());
        let (parent, id) = (target.chain.last_id(), file.attributes.id);
        let record = ChangeRecord {
            version: replaced.as_ref().map(Into::into),
            ..target.change(ChangeKind::Delete, parent, id)
        };
        self.log(actor, record).await
    }

    /// The older versions follow their name.
    async fn move_history(
        &mut self,
        source: &ResolvedName,
        target: &ResolvedName,
        parent: EntryId,
        file: &FileRecord,
    ) -> Result<(), Error> {
        let history = self
            .tree()
            .history(source.chain.last_id(), &source.name, &source.path)
            .await?;
        for (version, read) in history {
            let key = keys::version(source.chain.last_id(), &source.name, version.id);
            self.charge_older(source, &version, file, -1);
            self.charge_older(target, &version, file, 1);
            self.same(key.clone(), &read);
            self.delete(key);
            let key = keys::version(parent, &target.name, version.id);
            if let Some(value) = read.value {
                self.put(key, value);
            }
        }
        Ok(())
    }

    /// Hangs the last directory of `source` into that of `above`; `paths` are for the log.
    async fn move_dir(
        &mut self,
        actor: &Actor<'_>,
        source: &ResolvedPath,
        above: &ResolvedPath,
        name: &str,
        (from, to): (&str, &str),
    ) -> Result<(), Error> {
        self.watch(source);
        self.watch(above);
        let dir = source.last();
        let mut record: DirRecord = dir.record.clone();
        let attributes = &mut record.attributes;
        attributes.ctime = self.now();
        let id = attributes.id;
        let (parent, mut steps) = self
            .make_dirs_with_steps(above, attributes.owner, None)
            .await?;
        self.delete(dir.key.clone());
        self.forget(dir.key.clone());
        let key = keys::dir(parent, name);
        self.put(key.clone(), record.to_value());
        self.forget(key);
        if record.implicit {
            // A hint that it has already names its old place.
            steps.push(HintStep {
                parent,
                name: name.to_owned(),
            });
            self.hint_at(id, steps).await?;
        }
        self.hint(&source.above()).await?;
        let change = ChangeRecord {
            source: Some(from.to_owned()),
            ..source.bucket.change(ChangeKind::RenameDir, parent, id, to)
        };
        self.log(actor, change).await
    }
}

/// A rename would hide versions that are to be kept, or move what is to stay where it is.
fn refuse_rename(source: &ResolvedName, target: Option<&ResolvedName>) -> Result<(), Error> {
    if source.chain.object_lock().is_some() {
        return Err(locked_in(&source.path));
    }
    let hides = |target: &&ResolvedName| {
        target.chain.versioning() != Versioning::Off
            && target.path != source.path
            && matches!(target.entry, Some(Entry::File(_)))
    };
    match target.filter(hides) {
        Some(target) => Err(hides_versions(target)),
        None => Ok(()),
    }
}

fn hides_versions(target: &ResolvedName) -> Error {
    let message = format!("{} has versions that a rename would hide", target.path);
    Error::new(ErrorKind::Unsupported, message)
}

/// An entry cannot take the place of a directory that it is in.
fn refuse_own_directory(
    source: &ResolvedPath,
    old: &ResolvedPath,
    path: &str,
) -> Result<(), Error> {
    let replaced = old.last_id();
    let mut dirs = source.dirs.iter();
    match dirs.any(|dir| dir.record.attributes.id == replaced) {
        true => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{path} cannot take the place of a directory that it is in"),
        )),
        false => Ok(()),
    }
}

fn locked_in(path: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("{path} is in a bucket with object lock, where nothing is renamed"),
    )
}

fn cross_device(from: &str, to: &str) -> Error {
    Error::with_source(
        ErrorKind::Unsupported,
        format!("{from} cannot be moved to {to}: another bucket or space; copy it"),
        CrossDeviceError,
    )
}
