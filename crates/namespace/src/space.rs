//! Spaces: directories whose subtree is counted separately.
//!
//! After the mark is set, everything that is put into the subtree or removed from it is counted
//! immediately, because each change reads the marks on its path and requires them to stay. Earlier
//! content is counted once, from a snapshot. The counter is corrected by the difference between the
//! content of the snapshot and the counter in the same snapshot. Changes made meanwhile are in
//! neither, so the sum is exact. After a crash, the count is done again.

use std::sync::Arc;

use dewar_catalog::record::{ChangeKind, Counter, CounterScope, DirRecord, Record, VersionRecord};
use dewar_catalog::{Actor, Quota, Usage, keys};
use dewar_kv::KvRead;
use dewar_types::{EntryId, Error, GroupId, ObjectKey};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::named_space::marked_with;
use super::removal::all_removals;
use super::resolve::{ResolvedPath, not_found};
use super::retry::ConflictRetry;
use super::space_table::SpacesHold;
use super::walk::{Walk, WalkStep};
use super::{Bucket, Tree, charge};

/// Older versions read at once.
const PAGE: usize = 1000;

impl Tree {
    /// Marks a directory as the root of a space, or changes the limits of one, and returns its id.
    /// An implicit directory becomes permanent by it. Call [`Tree::count_space`] afterwards.
    ///
    /// # Errors
    /// `NotFound`; `Conflict`; errors of the engine.
    pub async fn mark_space(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        quota: Quota,
    ) -> Result<EntryId, Error> {
        let hold = self.spaces.hold().await;
        self.mark_held(actor, (bucket, path), quota, &hold).await
    }

    /// As [`Tree::mark_space`], with an exclusive hold.
    pub(super) async fn mark_held(
        &self,
        actor: &Actor<'_>,
        (bucket, path): (&Bucket, &ObjectKey),
        quota: Quota,
        hold: &Arc<SpacesHold>,
    ) -> Result<EntryId, Error> {
        self.remark(actor, bucket, Some(path), |record, stage| {
            stage.keep_hold(hold);
            record.implicit = false;
            record.space = Some(marked_with(record.space.as_ref(), quota));
            let id = record.attributes.id;
            Self::note_space(stage, id, quota, (bucket.id, path));
        })
        .await
    }

    /// Searches the whole bucket for a space with limits and records its path. Use it for a space
    /// that is not at its recorded path, because a release before did not note a rename. `None` when
    /// the space does not exist; its record goes.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn trace_space(
        &self,
        bucket: &Bucket,
        id: EntryId,
    ) -> Result<Option<ObjectKey>, Error> {
        let key = CounterScope::Space(id).quota_key();
        let kv = self.kv().snapshot();
        let before = kv.get(&key).await?;
        let mut walk = Walk::new(kv.as_ref(), bucket.id, PAGE);
        while let Some(step) = walk.next().await? {
            let WalkStep::Dir(path, dir) = step else {
                continue;
            };
            if dir.attributes.id != id {
                walk.enter(path, &dir);
                continue;
            }
            let path = ObjectKey::new(path.trim_end_matches('/'))?;
            let hold = self.spaces.hold().await;
            let chain = self.dir_chain(bucket, &path).await?;
            let noted = self.kv().get(&key).await?;
            // It may have been renamed meanwhile.
            if noted.value.is_some() && chain.parent() == Some(id) {
                let mut stage = BatchBuilder::new(self);
                stage.keep_hold(&hold);
                stage.watch(&chain);
                stage.same(key, &noted);
                Self::renote_space(&mut stage, id, (bucket.id, &path));
                // Lost to another change of the directory, which notes its place.
                stage.commit().await?;
            }
            return Ok(Some(path));
        }
        // The directory is gone, so nothing is limited any more.
        let mut stage = BatchBuilder::new(self);
        stage.same(key.clone(), &before);
        stage.delete(key);
        stage.changes_limits(id);
        stage.commit().await?;
        Ok(None)
    }

    /// Sets or removes the group of a bucket (no path) or a directory. New content in and below it
    /// belongs to that group, except below a directory with a group of its own. Existing content
    /// keeps its group. An implicit directory becomes permanent by it.
    ///
    /// # Errors
    /// `NotFound`; `NoSuchBucket`; `Conflict`; errors of the engine.
    pub async fn set_group(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
        group: Option<GroupId>,
    ) -> Result<(), Error> {
        let hold = self.spaces.hold().await;
        self.remark(actor, bucket, path, |record, stage| {
            record.implicit = false;
            record.attributes.group = group;
            self.stage_space_group(stage, &hold, record.attributes.id, group);
        })
        .await?;
        Ok(())
    }

    /// The group that a bucket (no path) or a directory has for itself.
    ///
    /// # Errors
    /// `NotFound`; `NoSuchBucket`; errors of the engine.
    pub async fn group_of(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
    ) -> Result<Option<GroupId>, Error> {
        let chain = self.marked(bucket, path).await?;
        Ok(chain.last().record.attributes.group)
    }

    /// The group that is charged for new content at a path, and the directory that has this group
    /// (no path: the bucket itself). The path need not exist.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn charged_group(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
    ) -> Result<Option<(GroupId, Option<ObjectKey>)>, Error> {
        let chain = match path {
            None => self.resolve(bucket, &[]).await?,
            Some(path) => self.dir_chain(bucket, path).await?,
        };
        let dirs = chain.dirs.iter().enumerate().rev();
        let mut groups =
            dirs.filter_map(|(depth, dir)| Some((depth, dir.record.attributes.group?)));
        let Some((depth, group)) = groups.next() else {
            return Ok(None);
        };
        let place = match (depth, path) {
            (0, _) | (_, None) => None,
            (depth, Some(path)) => {
                let names: Vec<&str> = path.as_str().split('/').take(depth).collect();
                Some(ObjectKey::new(&names.join("/"))?)
            }
        };
        Ok(Some((group, place)))
    }

    /// The way to a directory that exists, or to the bucket.
    async fn marked(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
    ) -> Result<ResolvedPath, Error> {
        let Some(path) = path else {
            return self.resolve(bucket, &[]).await;
        };
        let chain = self.dir_chain(bucket, path).await?;
        match self.stands(&chain).await? {
            true => Ok(chain),
            false => Err(not_found(&bucket.path(path.as_str()))),
        }
    }

    pub(super) async fn remark(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
        change: impl Fn(&mut DirRecord, &mut BatchBuilder<'_>),
    ) -> Result<EntryId, Error> {
        let whole = path.map_or("", ObjectKey::as_str);
        let mut turn = ConflictRetry::new(self, bucket.path(whole));
        loop {
            let chain = self.marked(bucket, path).await?;
            let mut stage = BatchBuilder::new(self);
            let id = self.stage_mark(&mut stage, &chain, &change);
            let parent = match path {
                Some(_) => chain.above().last_id(),
                None => bucket.tenant.root(),
            };
            let log = bucket.change(ChangeKind::SetAttributes, parent, id, turn.path());
            stage.log(actor, log).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(id),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    fn stage_mark<'t>(
        &'t self,
        stage: &mut BatchBuilder<'t>,
        chain: &ResolvedPath,
        change: impl Fn(&mut DirRecord, &mut BatchBuilder<'t>),
    ) -> EntryId {
        let mut record = chain.last().record.clone();
        record.attributes.ctime = stage.now();
        stage.watch(chain);
        change(&mut record, stage);
        let before = &chain.last().record;
        stage.recharge_dir(&chain.above(), Some(before), Some(&record));
        let key = chain.last().key.clone();
        stage.forget(key.clone());
        stage.put(key, record.to_value());
        record.attributes.id
    }

    /// Counts the content of a space and corrects its counters. Needed once after it was marked,
    /// and harmless at any time. Holds one snapshot while it walks the subtree.
    ///
    /// # Errors
    /// `NotFound` when there is no such space; `Conflict`; errors of the engine.
    pub async fn count_space(&self, bucket: &Bucket, path: &ObjectKey) -> Result<Usage, Error> {
        let _no_freeing = self.freeing.lock().await;
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let chain = self.dir_chain(bucket, path).await?;
            if chain.parent().is_none() || chain.last().record.space.is_none() {
                return Err(not_found(turn.path()));
            }
            let id = chain.last_id();
            let kv = self.kv().snapshot();
            let kv = kv.as_ref();
            // The mark must be in the snapshot, else changes between the two would be missed.
            let key = chain.last().key.clone();
            let marked = match kv.get(&key).await?.value {
                Some(value) => DirRecord::from_value(&key, &value)?.space.is_some(),
                None => false,
            };
            if !marked {
                turn.lost().await?;
                continue;
            }
            let (objects, bytes) = (
                Counter::Objects(CounterScope::Space(id)),
                Counter::Bytes(CounterScope::Space(id)),
            );
            let said = (objects.value(kv).await?, bytes.value(kv).await?);
            let mut usage = count_below(kv, id).await?;
            usage += charge::uploads_of_space(kv, bucket.id, id).await?;
            // What was removed and is not freed yet still counts.
            for (removed, removal) in all_removals(kv).await? {
                if removal.spaces.contains(&id) {
                    usage += count_below(kv, removed).await?;
                }
            }
            let mut stage = BatchBuilder::new(self);
            self.stage_mark(&mut stage, &chain, |record, stage| {
                if let Some(mark) = &mut record.space {
                    mark.counted = true;
                }
                stage.add(objects, usage.objects as i64 - said.0);
                stage.add(bytes, usage.bytes as i64 - said.1);
            });
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(usage),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}

/// All versions of the files below a directory, and the directories.
pub(super) async fn count_below(kv: &dyn KvRead, dir: EntryId) -> Result<Usage, Error> {
    let mut usage = Usage::default();
    let mut walk = Walk::new(kv, dir, PAGE);
    count_history(kv, dir, &mut usage).await?;
    while let Some(step) = walk.next().await? {
        match step {
            WalkStep::File(_, file) => {
                usage += charge::of_current(&file);
            }
            WalkStep::Dir(path, dir) => {
                usage += charge::of_dir(&dir);
                count_history(kv, dir.attributes.id, &mut usage).await?;
                walk.enter(path, &dir);
            }
            WalkStep::Symlink(_) => {}
        }
    }
    Ok(usage)
}

async fn count_history(kv: &dyn KvRead, dir: EntryId, usage: &mut Usage) -> Result<(), Error> {
    let mut pages = keys::versions_in(dir).pages(kv, PAGE);
    while let Some(pairs) = pages.next().await? {
        for (key, value) in &pairs {
            *usage += charge::of_version(&VersionRecord::from_value(key, value)?);
        }
    }
    Ok(())
}
