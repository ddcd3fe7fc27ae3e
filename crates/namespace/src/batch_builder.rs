//! A change of the tree in preparation, and its commit.
//!
//! All parts of a change are one batch. References are first summed per blob, so that a copy onto
//! itself, or a list of deletes that share blobs, is correct. Each touched count is required to be
//! unchanged.
//!
//! Order and crashes: a batch is applied completely or not at all, so a crash leaves no half
//! change. The batch that removes the last reference of a blob also queues the blob to be freed.
//! Its bytes are removed later, so names never refer to bytes that are gone.
//!
//! Cancellation: if the future of a commit is dropped, the commit may or may not happen. A batch
//! that moves or removes a directory is committed by a task of its own, because the cache must
//! forget the directory even when the caller is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::{
    ChangeRecord, ContentCopy, Counter, CounterScope, DirRecord, EntryAttributes, Extent,
    HintRecord, HintStep, LockRecord, LongRecord, Record, VersionRecord, number,
};
use dewar_catalog::{Actor, Quota, Usage, keys};
use dewar_kv::{
    Batch, CommitError, InlineData, Kv, Precondition, ReadValue, Seq, resolve_unknown_commit,
};
use dewar_types::{BlobId, EntryId, Error, ErrorKind, GroupId, Timestamp, UserId, VersionId};
use parking_lot::RwLock;
use tokio::sync::OwnedMutexGuard;

use super::Tree;
use super::cache::{Dir, Generation};
use super::limited_dirs::LimitedDirs;
use super::lock_index::LockIndex;
use super::quota_table::quota_exceeded;
use super::resolve::ResolvedPath;
use super::space_table::{Spaces, SpacesHold};

/// Extents (or runs of parts) that stand in the version's own record; more go to long lists.
pub(super) const INLINE: usize = 16;
/// Extents in one chunk of a long list.
const CHUNK: usize = 1000;

/// How a commit went.
pub(super) enum CommitOutcome {
    /// It is durable and visible.
    Done,
    /// Something it was based on changed meanwhile.
    Lost,
}

/// References to one blob or slot in one batch.
struct References {
    delta: i64,
    /// Length of the slot, if it is one.
    slot: Option<u32>,
}

pub(super) struct BatchBuilder<'t> {
    tree: &'t Tree,
    now: Timestamp,
    since: Generation,
    dirs: Vec<Arc<Dir>>,
    watched: BTreeSet<EntryId>,
    require: Vec<Precondition>,
    writes: BTreeMap<Bytes, Option<Bytes>>,
    adds: BTreeMap<Counter, i64>,
    references: BTreeMap<(BlobId, u64), References>,
    log: Vec<Bytes>,
    carry: Option<InlineData>,
    made: Vec<(Bytes, DirRecord)>,
    forget: Vec<Bytes>,
    /// Something that was read is gone already: the commit cannot succeed.
    stale: bool,
    /// The limits of the counted spaces, and whether limits are enforced.
    spaces: BTreeMap<CounterScope, Quota>,
    limited: bool,
    after: AfterCommit,
}

/// The spaces, limits and locks of WebDAV that a batch changes in memory. The guards are kept until the batch is committed and memory
/// agrees with the catalog.
#[derive(Default)]
struct AfterCommit {
    spaces_hold: Option<Arc<SpacesHold>>,
    drops: Option<OwnedMutexGuard<()>>,
    changes_spaces: bool,
    /// Directories whose limits or places change.
    limited: Vec<EntryId>,
    /// Keys of locks of WebDAV that change.
    locks: Vec<Bytes>,
    grants: Option<OwnedMutexGuard<()>>,
}

impl AfterCommit {
    fn is_empty(&self) -> bool {
        self.spaces_hold.is_none()
            && self.drops.is_none()
            && self.grants.is_none()
            && self.limited.is_empty()
    }

    /// Takes the changed records into memory.
    async fn reload(
        &self,
        kv: &dyn Kv,
        spaces: &Spaces,
        limited: &LimitedDirs,
        locks: &RwLock<LockIndex>,
    ) {
        for key in &self.locks {
            let record = match kv.get(key).await {
                Ok(read) => read.value.map(|value| LockRecord::from_value(key, &value)),
                Err(error) => Some(Err(error)),
            };
            match record {
                None => locks.write().remove(key),
                Some(Ok(record)) => locks.write().insert(key, &record),
                Some(Err(error)) => tracing::error!(%error, "a lock cannot be read"),
            }
        }
        if self.changes_spaces
            && let Err(error) = spaces.reload(kv).await
        {
            tracing::error!(%error, "the spaces cannot be read; the next change reads them again");
        }
        limited.reload(kv, &self.limited).await;
    }
}

impl<'t> BatchBuilder<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self {
            tree,
            now: tree.catalog.env().clock.now(),
            since: tree.cache.generation(),
            dirs: Vec::new(),
            watched: BTreeSet::new(),
            require: Vec::new(),
            writes: BTreeMap::new(),
            adds: BTreeMap::new(),
            references: BTreeMap::new(),
            log: Vec::new(),
            carry: None,
            made: Vec::new(),
            forget: Vec::new(),
            stale: false,
            spaces: BTreeMap::new(),
            limited: false,
            after: AfterCommit::default(),
        }
    }

    /// Keeps a hold on the named spaces until the change is committed.
    pub(super) fn keep_hold(&mut self, hold: &Arc<SpacesHold>) {
        self.after.spaces_hold = Some(Arc::clone(hold));
    }

    /// It changes records of named spaces, which nobody else may change meanwhile.
    pub(super) fn changes_spaces(&mut self, hold: &Arc<SpacesHold>) {
        self.keep_hold(hold);
        self.after.changes_spaces = true;
    }

    /// It changes the limits or the place of a directory.
    pub(super) fn changes_limits(&mut self, directory: EntryId) {
        self.after.limited.push(directory);
    }

    /// It changes locks of WebDAV. The guard keeps others from it.
    pub(super) fn changes_locks(
        &mut self,
        guard: OwnedMutexGuard<()>,
        keys: impl IntoIterator<Item = Bytes>,
    ) {
        self.after.grants = Some(guard);
        self.after.locks.extend(keys);
    }

    /// Keeps others from removing counters of spaces until the change is committed.
    pub(super) async fn hold_drops(&mut self) {
        if self.after.drops.is_none() {
            let lock = Arc::clone(&self.tree.space_drops);
            self.after.drops = Some(lock.lock_owned().await);
        }
    }

    /// The number of blobs and slots whose references change.
    pub(super) fn references(&self) -> usize {
        self.references.len()
    }

    /// What it adds must fit into the quotas.
    pub(super) fn keep_to_quotas(&mut self) {
        self.limited = true;
    }

    /// The limit of a counter that something is added to.
    fn limit(&self, counter: Counter) -> Option<(CounterScope, Quota)> {
        let (Counter::Objects(scope) | Counter::Bytes(scope)) = counter else {
            return None;
        };
        let quota = match scope {
            CounterScope::Space(_) => self.spaces.get(&scope).copied(),
            _ => self.tree.quota(scope),
        };
        Some((scope, quota?))
    }

    /// What must hold so that what is added fits, each with what is limited.
    fn limits(&self) -> Vec<(Precondition, CounterScope, Quota)> {
        if !self.limited || !self.tree.has_quotas() {
            return Vec::new();
        }
        let added = self.adds.iter().filter(|(_, delta)| **delta > 0);
        added
            .filter_map(|(counter, delta)| {
                let (scope, quota) = self.limit(*counter)?;
                let reserved = match counter {
                    Counter::Bytes(_) => self.tree.quotas.reserved.bytes(scope),
                    _ => 0,
                };
                let max = quota.max(*counter)?.saturating_sub(reserved);
                let max = i64::try_from(max).unwrap_or(i64::MAX);
                let require = Precondition::AtMost {
                    counter: counter.key(),
                    max: max.saturating_sub(*delta),
                };
                Some((require, scope, quota))
            })
            .collect()
    }

    /// The time of the change.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Requires that the path stays what it was.
    pub(super) fn watch(&mut self, chain: &ResolvedPath) {
        for dir in &chain.dirs {
            if self.watched.insert(dir.record.attributes.id) {
                self.dirs.push(Arc::clone(dir));
            }
        }
        if let Some(missing) = &chain.missing {
            self.same(missing.key.clone(), &missing.read);
        }
        self.since = chain.since.min(self.since);
    }

    /// Requires that the key is as it was read.
    pub(super) fn same(&mut self, key: Bytes, read: &ReadValue) {
        self.require.push(Precondition::same(key, read));
    }

    pub(super) fn require(&mut self, require: Precondition) {
        self.require.push(require);
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        self.writes.insert(key, Some(value));
    }

    pub(super) fn delete(&mut self, key: Bytes) {
        self.writes.insert(key, None);
    }

    pub(super) fn add(&mut self, counter: Counter, delta: i64) {
        *self.adds.entry(counter).or_default() += delta;
    }

    pub(super) fn carry(&mut self, carry: Option<InlineData>) {
        self.carry = carry;
    }

    /// The cache must not show this directory any more once the batch is visible.
    pub(super) fn forget(&mut self, key: Bytes) {
        self.forget.push(key);
    }

    /// Something that was read does not fit together: the change is tried again.
    pub(super) fn lose(&mut self) {
        self.stale = true;
    }

    /// The limits of the spaces on the path are known.
    pub(super) fn limits_of(&mut self, chain: &ResolvedPath) {
        self.spaces.extend(chain.quotas());
    }

    /// Counts objects and bytes for everything above the path and for the owners, or discounts them (a
    /// `sign` of -1).
    pub(super) fn charge(
        &mut self,
        chain: &ResolvedPath,
        owner: (UserId, Option<GroupId>),
        usage: Usage,
        sign: i64,
    ) {
        self.limits_of(chain);
        self.charge_scopes(chain.scopes_with(owner), usage, sign);
    }

    /// The same for scopes that are known.
    pub(super) fn charge_scopes(
        &mut self,
        scopes: impl IntoIterator<Item = CounterScope>,
        usage: Usage,
        sign: i64,
    ) {
        let objects = sign * usage.objects as i64;
        let bytes = sign * usage.bytes as i64;
        for scope in scopes {
            self.add(Counter::Objects(scope), objects);
            self.add(Counter::Bytes(scope), bytes);
        }
    }

    /// Makes the directories of the path that are missing and gives the last one.
    pub(super) async fn make_dirs(
        &mut self,
        chain: &ResolvedPath,
        owner: UserId,
        group: Option<GroupId>,
    ) -> Result<EntryId, Error> {
        Ok(self.make_dirs_with_steps(chain, owner, group).await?.0)
    }

    /// As [`Self::make_dirs`], with the run of implicit directories that ends in it.
    pub(super) async fn make_dirs_with_steps(
        &mut self,
        chain: &ResolvedPath,
        owner: UserId,
        group: Option<GroupId>,
    ) -> Result<(EntryId, Vec<HintStep>), Error> {
        let mut parent = chain.last_id();
        let mut steps = chain.implicit_run()?;
        for name in chain.missing.iter().flat_map(|missing| &missing.names) {
            let key = keys::dir(parent, name);
            // Another name of the same batch may have needed it before.
            let made = self.made.iter().find(|(made, _)| *made == key);
            let id = match made {
                Some((_, made)) => made.attributes.id,
                None => {
                    let id = self.tree.ids().entry().await?;
                    let record = DirRecord {
                        attributes: self.attributes(id, owner, group, 0o755),
                        implicit: true,
                        bucket: None,
                        space: None,
                    };
                    self.put_dir(key, record);
                    id
                }
            };
            steps.push(HintStep {
                parent,
                name: name.clone(),
            });
            parent = id;
        }
        Ok((parent, steps))
    }

    /// Puts a directory that is to be remembered by the cache.
    pub(super) fn put_dir(&mut self, key: Bytes, record: DirRecord) {
        self.put(key.clone(), record.to_value());
        self.made.push((key, record));
    }

    /// Attributes of an entry that is made now.
    pub(super) fn attributes(
        &self,
        id: EntryId,
        owner: UserId,
        group: Option<GroupId>,
        mode: u32,
    ) -> EntryAttributes {
        EntryAttributes {
            id,
            owner,
            group,
            mode,
            mtime: self.now,
            ctime: self.now,
            xattrs: BTreeMap::new(),
        }
    }

    /// The last directory of the path loses an entry: if only slashes made it, it may have to go.
    pub(super) async fn hint(&mut self, chain: &ResolvedPath) -> Result<(), Error> {
        self.hint_at(chain.last_id(), chain.implicit_run()?).await
    }

    /// The directory at the end of `steps` may have become empty.
    pub(super) async fn hint_at(
        &mut self,
        dir: EntryId,
        steps: Vec<HintStep>,
    ) -> Result<(), Error> {
        if !steps.is_empty() {
            let stamp = self.tree.ids().version().await?;
            self.put(keys::hint(dir), HintRecord { stamp, steps }.to_value());
        }
        Ok(())
    }

    /// A directory goes that must have nothing in it, neither entries nor older versions. Its key
    /// is the caller's to delete or to put anew.
    pub(super) fn vanish(&mut self, key: Bytes, id: EntryId) {
        for range in [keys::entries(id), keys::versions_in(id)] {
            self.require.push(Precondition::Empty {
                from: range.from,
                to: range.to,
            });
        }
        self.delete(keys::hint(id));
        self.forget(key);
    }

    /// A space goes: its counters and limits go along.
    pub(super) async fn drop_space(&mut self, id: EntryId) {
        self.hold_drops().await;
        self.changes_limits(id);
        let space = CounterScope::Space(id);
        self.delete(Counter::Objects(space).key());
        self.delete(Counter::Bytes(space).key());
        self.delete(space.quota_key());
    }

    pub(super) fn tree(&self) -> &'t Tree {
        self.tree
    }

    pub(super) async fn mint_entry(&self) -> Result<EntryId, Error> {
        self.tree.ids().entry().await
    }

    /// New blobs and slots: each begins with one reference, so only further extents count.
    pub(super) fn fresh(&mut self, extents: &[Extent]) {
        let mut seen = BTreeSet::new();
        for extent in extents {
            if !seen.insert((extent.blob, extent.slot.map(|slot| slot.offset))) {
                self.refer(std::slice::from_ref(extent), 1);
            }
        }
    }

    /// One more reference to each extent.
    pub(super) fn share(&mut self, extents: &[Extent]) {
        self.refer(extents, 1);
    }

    fn refer(&mut self, extents: &[Extent], delta: i64) {
        for extent in extents {
            let offset = extent.slot.map_or(0, |slot| u64::from(slot.offset));
            let entry = self
                .references
                .entry((extent.blob, offset))
                .or_insert(References {
                    delta: 0,
                    slot: extent.slot.map(|slot| slot.len),
                });
            entry.delta += delta;
        }
    }

    /// A version's or part's content goes: its references and its long lists.
    pub(super) async fn release(
        &mut self,
        id: VersionId,
        copies: &[ContentCopy],
    ) -> Result<(), Error> {
        for (list, copy) in copies.iter().enumerate() {
            match self.tree.load_extents(id, list, copy).await? {
                Some(extents) => self.refer(&extents, -1),
                None => self.stale = true,
            }
        }
        self.drop_lists(id, copies);
        Ok(())
    }

    /// As [`Self::release`], with the list of part sizes that a version may have.
    pub(super) async fn release_version(&mut self, version: &VersionRecord) -> Result<(), Error> {
        self.release(version.id, &version.copies).await?;
        if let Some(parts) = &version.parts {
            for chunk in 0..parts.chunks {
                self.delete(keys::long(version.id, keys::PARTS_LIST, chunk));
            }
            for chunk in 0..parts.digest_chunks {
                self.delete(keys::long(version.id, keys::PART_DIGESTS_LIST, chunk));
            }
        }
        Ok(())
    }

    /// The content of a version that stays is in other places from now on, which nothing names yet.
    pub(super) async fn replace_copies(
        &mut self,
        id: VersionId,
        old: &[ContentCopy],
        new: &mut [ContentCopy],
    ) -> Result<(), Error> {
        for (list, copy) in old.iter().enumerate() {
            match self.tree.load_extents(id, list, copy).await? {
                Some(extents) => self.refer(&extents, -1),
                None => self.stale = true,
            }
        }
        for copy in new.iter() {
            self.fresh(&copy.extents);
        }
        self.spill(id, new)?;
        // Chunks that are written anew have the same keys.
        for (list, copy) in old.iter().enumerate() {
            let kept = new.get(list).map_or(0, |copy| copy.chunks);
            for chunk in kept..copy.chunks {
                self.delete(keys::long(id, list as u8, chunk));
            }
        }
        Ok(())
    }

    /// Long lists go; what they name is accounted for elsewhere.
    pub(super) fn drop_lists(&mut self, id: VersionId, copies: &[ContentCopy]) {
        for (list, copy) in copies.iter().enumerate() {
            for chunk in 0..copy.chunks {
                self.delete(keys::long(id, list as u8, chunk));
            }
        }
    }

    /// Moves lists that are too long for the record to records of their own.
    pub(super) fn spill(&mut self, id: VersionId, copies: &mut [ContentCopy]) -> Result<(), Error> {
        if copies.len() >= usize::from(keys::PART_DIGESTS_LIST) {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("version {id} has {} copies", copies.len()),
            ));
        }
        for (list, copy) in copies.iter_mut().enumerate() {
            if copy.extents.len() <= INLINE {
                continue;
            }
            let extents = std::mem::take(&mut copy.extents);
            copy.chunks = chunks(extents.len(), id)?;
            for (chunk, extents) in extents.chunks(CHUNK).enumerate() {
                let record = LongRecord {
                    extents: extents.to_vec(),
                    ..LongRecord::default()
                };
                self.put(keys::long(id, list as u8, chunk as u16), record.to_value());
            }
        }
        Ok(())
    }

    /// As [`Self::spill`], for all lists of a version.
    pub(super) fn spill_version(&mut self, version: &mut VersionRecord) -> Result<(), Error> {
        self.spill(version.id, &mut version.copies)?;
        let id = version.id;
        let Some(parts) = &mut version.parts else {
            return Ok(());
        };
        if parts.runs.len() > INLINE {
            let runs = std::mem::take(&mut parts.runs);
            parts.chunks = chunks(runs.len(), id)?;
            for (chunk, runs) in runs.chunks(CHUNK).enumerate() {
                let record = LongRecord {
                    runs: runs.to_vec(),
                    ..LongRecord::default()
                };
                let key = keys::long(id, keys::PARTS_LIST, chunk as u16);
                self.put(key, record.to_value());
            }
        }
        if parts.digests.len() > INLINE {
            let digests = std::mem::take(&mut parts.digests);
            parts.digest_chunks = chunks(digests.len(), id)?;
            for (chunk, digests) in digests.chunks(CHUNK).enumerate() {
                let record = LongRecord {
                    digests: digests.to_vec(),
                    ..LongRecord::default()
                };
                let key = keys::long(id, keys::PART_DIGESTS_LIST, chunk as u16);
                self.put(key, record.to_value());
            }
        }
        Ok(())
    }

    /// Appends to the change log; the stamp is filled in here.
    pub(super) async fn log(
        &mut self,
        actor: &Actor<'_>,
        change: ChangeRecord,
    ) -> Result<(), Error> {
        self.log
            .push(self.tree.catalog.logged(actor, change).await?);
        Ok(())
    }

    /// Whether nothing has been staged to write.
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Turns the summed references into counts, queue entries and dead marks.
    async fn settle_references(&mut self) -> Result<(), Error> {
        for ((blob, offset), change) in std::mem::take(&mut self.references) {
            if change.delta == 0 {
                continue;
            }
            let key = keys::references(blob, offset);
            let read = self.tree.kv().get(&key).await?;
            let before = match &read.value {
                None => 1,
                Some(value) => number(&key, value)?,
            };
            let Some(after) = before.checked_add_signed(change.delta) else {
                // Either another change freed it first, then the commit is lost anyway, or the
                // count is wrong, then nothing must be freed.
                self.stale = true;
                tracing::debug!(%blob, offset, before, delta = change.delta, "count below zero");
                continue;
            };
            self.require.push(Precondition::same(key.clone(), &read));
            match after {
                2.. => self.put(key, Bytes::copy_from_slice(&after.to_be_bytes())),
                _ if read.value.is_some() => self.delete(key),
                _ => {}
            }
            if after == 0 {
                self.free(blob, offset, change.slot);
            }
        }
        Ok(())
    }

    /// Nothing names the blob or slot any more.
    fn free(&mut self, blob: BlobId, offset: u64, slot: Option<u32>) {
        match slot {
            None => self.put(keys::free(self.now.0, blob), Bytes::new()),
            Some(len) => {
                let key = keys::dead(blob, offset as u32);
                self.put(key, Bytes::copy_from_slice(&len.to_be_bytes()));
                self.add(Counter::Dead(blob), i64::from(len));
            }
        }
    }

    /// Commits what was staged.
    pub(super) async fn commit(mut self) -> Result<CommitOutcome, Error> {
        self.settle_references().await?;
        if self.stale {
            return Ok(CommitOutcome::Lost);
        }
        let limits = self.limits();
        let mut batch = Batch {
            require: self.dirs.iter().map(|dir| dir.unchanged()).collect(),
            log: self.log,
            carry: self.carry,
            ..Batch::default()
        };
        batch.require.append(&mut self.require);
        let first_limit = batch.require.len();
        let required = limits.iter().map(|(require, ..)| require.clone());
        batch.require.extend(required);
        for (key, value) in self.writes {
            match value {
                Some(value) => batch.puts.push((key, value)),
                None => batch.deletes.push(key),
            }
        }
        batch.adds = self
            .adds
            .into_iter()
            .filter(|(_, delta)| *delta != 0)
            .map(|(counter, delta)| (counter.key(), delta))
            .collect();

        let committed = if self.forget.is_empty() && self.after.is_empty() {
            self.tree.kv().commit(batch).await
        } else {
            let tree = self.tree;
            tree.commit_and_forget(batch, self.forget, self.after).await
        };
        match committed {
            Ok(seq) => {
                for dir in &self.dirs {
                    dir.seen(seq);
                }
                for (key, record) in self.made {
                    let value = record.to_value();
                    let dir = Dir::new(key, record, value, seq);
                    self.tree.cache.insert(self.since, Arc::new(dir));
                }
                Ok(CommitOutcome::Done)
            }
            Err(CommitError::Conflict(index)) => {
                if let Some(dir) = self.dirs.get(index) {
                    self.tree.cache.forget([&dir.key]);
                }
                let limit = index.checked_sub(first_limit);
                if let Some((_, scope, quota)) = limit.and_then(|at| limits.get(at)) {
                    let usage = self.tree.catalog().usage(*scope).await?;
                    let reserved = self.tree.quotas.reserved.bytes(*scope);
                    let what = self.tree.scope_words(*scope);
                    return Err(quota_exceeded(&what, *quota, usage, reserved));
                }
                Ok(CommitOutcome::Lost)
            }
            Err(CommitError::Failed(error)) => Err(error),
        }
    }
}

fn chunks(len: usize, id: VersionId) -> Result<u16, Error> {
    u16::try_from(len.div_ceil(CHUNK)).map_err(|_| {
        Error::new(
            ErrorKind::TooLarge,
            format!("version {id} has a list of {len} pieces"),
        )
    })
}

impl Tree {
    /// Commits in a task that outlives the caller, then forgets the directories, and takes changed
    /// records of spaces into memory. If the outcome is unknown, both wait until it is decided.
    async fn commit_and_forget(
        &self,
        batch: Batch,
        forget: Vec<Bytes>,
        after: AfterCommit,
    ) -> Result<Seq, CommitError> {
        let kv = Arc::clone(self.kv());
        let cache = Arc::clone(&self.cache);
        let spaces = Arc::clone(&self.spaces);
        let limited = Arc::clone(&self.limited);
        let locks = Arc::clone(&self.locks);
        let task = tokio::spawn(async move {
            let committed = kv.commit(batch).await;
            match &committed {
                Err(CommitError::Failed(error)) if !error.left_unchanged() => {
                    dewar_env::coverage_mark("it is open whether a directory changed");
                    cache.block(&forget);
                    let taken = kv.last_sequence();
                    let kv = Arc::downgrade(&kv);
                    tokio::spawn(async move {
                        // Whoever opens the catalog next begins with an empty memory.
                        if resolve_unknown_commit(&kv, taken).await
                            && let Some(kv) = kv.upgrade()
                        {
                            cache.unblock(&forget);
                            after.reload(&*kv, &spaces, &limited, &locks).await;
                        }
                    });
                }
                _ => {
                    cache.forget(&forget);
                    after.reload(&*kv, &spaces, &limited, &locks).await;
                }
            }
            committed
        });
        task.await.unwrap_or_else(|error| {
            Err(CommitError::Failed(Error::with_source(
                ErrorKind::Internal,
                "the task that commits a change of directories ended early",
                error,
            )))
        })
    }
}
