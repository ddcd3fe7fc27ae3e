//! Removing a directory with all that is in it, in one step.
//!
//! One small batch takes the directory out of the tree, whatever its size, and notes it in the table
//! of removals. From then on no path leads to its entries. They are freed in the background, a batch
//! at a time, and count in quotas until then. Each batch is complete in itself, so that the work goes
//! on after a crash where it was.
//!
//! Content that must be kept is not removed in this way: that of buckets with versions or object
//! lock, and spaces. The caller removes such a directory name by name, or refuses.

use bytes::Bytes;
use dewar_catalog::record::{
    ChangeKind, CounterScope, DirRecord, Entry, FileRecord, Record, RemovalRecord, Versioning,
};
use dewar_catalog::{Actor, keys, tables};
use dewar_kv::{KvRead, ReadValue, Scan, ScanPage};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, TenantId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::resolve::{ResolvedPath, not_found};
use super::retry::ConflictRetry;
use super::{Bucket, Tree, charge};

/// Names that are freed in one batch.
const NAMES_PER_BATCH: usize = 250;

/// Blobs and slots after which a batch ends, with the file that it is at. A batch of the engine is
/// limited in bytes.
const EXTENTS_PER_BATCH: usize = 20_000;

/// Removals that are read at once.
const PAGE: usize = 1000;

/// The outcome of a step that frees what was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeingStep {
    /// So many names were freed, and more may be left.
    Freed(usize),
    /// Another change came first; the next step tries again.
    Lost,
    /// Nothing is left of the directory.
    Done,
}

/// A directory on the way down to what is freed, and its entry.
struct OpenDir {
    id: EntryId,
    key: Bytes,
    read: ReadValue,
    record: DirRecord,
}

impl Tree {
    /// Removes a directory with all that is in it, in one batch that does not depend on its size.
    /// Its content is freed later, by [`Tree::free_removed`], and counts in quotas until then.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` where content is to be kept: in a bucket that keeps versions or has
    /// object lock, for a space, and above a space; `Conflict`; errors of the engine.
    pub async fn detach_dir(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<(), Error> {
        // Nobody limits or renames a directory meanwhile.
        let hold = self.spaces.hold().await;
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let chain = self.dir_chain(bucket, path).await?;
            if !self.stands(&chain).await? {
                return Err(not_found(turn.path()));
            }
            let mut stage = BatchBuilder::new(self);
            stage.keep_hold(&hold);
            self.stage_detach(actor, &mut stage, &chain, path).await?;
            stage.hint(&chain.above()).await?;
            match stage.commit().await? {
                CommitOutcome::Done => {
                    self.quotas.forget(CounterScope::Space(chain.last_id()));
                    return Ok(());
                }
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Takes the last directory of a path out of the tree. The batch must keep an exclusive hold on the
    /// spaces, so that nobody limits a directory in it, or renames a limited one into it.
    ///
    /// # Errors
    /// `Unsupported` as [`Tree::detach_dir`]; errors of the engine.
    pub(super) async fn stage_detach(
        &self,
        actor: &Actor<'_>,
        stage: &mut BatchBuilder<'_>,
        chain: &ResolvedPath,
        key: &ObjectKey,
    ) -> Result<(), Error> {
        let path = &chain.bucket.path(key.as_str());
        let refused = |reason: &str| {
            let message = format!("{path} is not removed in one step: {reason}");
            Err(Error::new(ErrorKind::Unsupported, message))
        };
        if chain.object_lock().is_some() {
            return refused("its bucket has object lock");
        }
        if chain.versioning() != Versioning::Off {
            return refused("its bucket keeps versions");
        }
        let named = self.spaces.within(&chain.bucket, Some(key));
        if !named.is_empty() || self.limited.may_be_within(chain.bucket.id, key) {
            return refused("a directory with a quota goes only when it is empty");
        }
        let dir = chain.last();
        let id = chain.last_id();
        let above = chain.above();
        stage.watch(chain);
        stage.delete(dir.key.clone());
        stage.delete(keys::hint(id));
        stage.forget(dir.key.clone());
        stage.recharge_dir(&above, Some(&dir.record), None);
        // Its limits were removed, and it still has counters.
        if dir.record.space.is_some() {
            stage.drop_space(id).await;
        }
        let bucket = &chain.bucket;
        let removal = RemovalRecord {
            tenant: bucket.tenant.id,
            bucket: bucket.id,
            bucket_name: bucket.name.to_string(),
            spaces: above.spaces().collect(),
            path: path.to_owned(),
            since: stage.now(),
        };
        stage.put(keys::removal(id), removal.to_value());
        let change = bucket.change(ChangeKind::RemoveDir, above.last_id(), id, path);
        stage.log(actor, change).await
    }

    /// Removed directories whose content is not freed yet, at most 1,000 of them.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn removed_dirs(&self) -> Result<Vec<EntryId>, Error> {
        let range = tables::REMOVAL.keys();
        let page = self.kv().scan(Scan {
            from: &range.from,
            to: &range.to,
            limit: PAGE,
            reverse: false,
        });
        let pairs = page.await?.pairs;
        pairs
            .iter()
            .map(|(key, _)| keys::parse_removal(key))
            .collect()
    }

    /// Frees some of what is in a removed directory, in one batch.
    ///
    /// # Errors
    /// `NotEmpty` for a directory of a named space in it; errors of the engine, and records that do not
    /// decode.
    pub async fn free_removed(&self, removed: EntryId) -> Result<FreeingStep, Error> {
        let _no_count = self.freeing.lock().await;
        let key = keys::removal(removed);
        let read = self.kv().get(&key).await?;
        let Some(value) = &read.value else {
            return Ok(FreeingStep::Done);
        };
        let removal = RemovalRecord::from_value(&key, value)?;
        let mut stage = BatchBuilder::new(self);
        stage.same(key.clone(), &read);
        // A space that is dropped meanwhile would get counters again.
        stage.hold_drops().await;
        let mut scopes = self.scopes_of_removal(&mut stage, &removal).await?;
        // Directories on the way down to what is freed.
        let mut open: Vec<OpenDir> = Vec::new();
        let (pairs, seq) = loop {
            let dir = open.last().map_or(removed, |dir| dir.id);
            let page = self.scan_entries(dir, 1).await?;
            let Some((key, value)) = page.pairs.first() else {
                break (Vec::new(), page.seq);
            };
            let Entry::Dir(record) = Entry::from_value(key, value)? else {
                let page = self.scan_entries(dir, NAMES_PER_BATCH).await?;
                break (page.pairs, page.seq);
            };
            let id = record.attributes.id;
            if record.space.is_some() {
                self.require_no_name(&mut stage, id).await?;
                // It counts what is in it until it goes.
                scopes.push(CounterScope::Space(id));
            }
            let (key, value) = (key.clone(), Some(value.clone()));
            let read = ReadValue {
                value,
                seq: page.seq,
            };
            open.push(OpenDir {
                id,
                key,
                read,
                record,
            });
        };
        let mut freed = 0;
        for (key, value) in pairs {
            match Entry::from_value(&key, &value)? {
                Entry::Dir(_) => break,
                Entry::Symlink(_) => {}
                Entry::File(file) => self.free_file(&mut stage, &key, &file, &scopes).await?,
            }
            let value = Some(value);
            stage.same(key.clone(), &ReadValue { value, seq });
            stage.delete(key);
            freed += 1;
            if stage.references() >= EXTENTS_PER_BATCH {
                break;
            }
        }
        let mut space = None;
        let mut is_done = false;
        if freed == 0 {
            // Nothing is left in the innermost directory.
            if let Some(dir) = open.pop() {
                let own = CounterScope::Space(dir.id);
                let owner = CounterScope::of_owner((dir.record.attributes.owner, None));
                let around = scopes.iter().copied().filter(|scope| *scope != own);
                stage.charge_scopes(around.chain(owner), charge::of_dir(&dir.record), -1);
                if dir.record.space.is_some() {
                    stage.drop_space(dir.id).await;
                    space = Some(own);
                }
                stage.same(dir.key.clone(), &dir.read);
                stage.delete(dir.key.clone());
                stage.vanish(dir.key, dir.id);
            } else {
                is_done = true;
                stage.delete(key.clone());
                stage.vanish(key, removed);
            }
            freed = 1;
        }
        match stage.commit().await? {
            CommitOutcome::Done => {}
            CommitOutcome::Lost => return Ok(FreeingStep::Lost),
        }
        if let Some(space) = space {
            self.quotas.forget(space);
        }
        Ok(match is_done {
            true => FreeingStep::Done,
            false => FreeingStep::Freed(freed),
        })
    }

    /// The first entries of a directory.
    async fn scan_entries(&self, dir: EntryId, limit: usize) -> Result<ScanPage, Error> {
        let range = keys::entries(dir);
        let page = self.kv().scan(Scan {
            from: &range.from,
            to: &range.to,
            limit,
            reverse: false,
        });
        page.await
    }

    /// A file of a removed directory goes, with older versions if a rebuilt catalog has some.
    async fn free_file(
        &self,
        stage: &mut BatchBuilder<'_>,
        key: &Bytes,
        file: &FileRecord,
        scopes: &[CounterScope],
    ) -> Result<(), Error> {
        let attributes = &file.attributes;
        let owner = CounterScope::of_owner((attributes.owner, attributes.group));
        let charged = scopes.iter().copied().chain(owner);
        stage.charge_scopes(charged, charge::of_current(file), -1);
        stage.release_version(&file.current).await?;
        if file.older == 0 {
            return Ok(());
        }
        let (parent, name, _) = keys::parse_entry(key)?;
        for (version, read) in self.history(parent, name, name).await? {
            let owner = CounterScope::of_owner(version.ownership(attributes));
            let charged = scopes.iter().copied().chain(owner);
            stage.charge_scopes(charged, charge::of_version(&version), -1);
            stage.release_version(&version).await?;
            let key = keys::version(parent, name, version.id);
            stage.same(key.clone(), &read);
            stage.delete(key);
        }
        Ok(())
    }

    /// The scopes that count the content of a removed directory, apart from owners. A bucket that is there has to
    /// stay until the batch is committed.
    async fn scopes_of_removal(
        &self,
        stage: &mut BatchBuilder<'_>,
        removal: &RemovalRecord,
    ) -> Result<Vec<CounterScope>, Error> {
        let key = bucket_key(removal);
        let read = self.kv().get(&key).await?;
        if is_bucket(removal, &key, read.value.as_ref())? {
            stage.same(key, &read);
        }
        let kv = &**self.kv();
        let mut scopes = scopes_of_removal(kv, removal).await?;
        for &space in &removal.spaces {
            if self.is_counted(space).await? {
                scopes.push(CounterScope::Space(space));
            }
        }
        Ok(scopes)
    }
}

fn bucket_key(removal: &RemovalRecord) -> Bytes {
    let TenantId(root) = removal.tenant;
    keys::dir(EntryId(root), &removal.bucket_name)
}

/// Whether a bucket's entry is that of the removal.
fn is_bucket(removal: &RemovalRecord, key: &Bytes, value: Option<&Bytes>) -> Result<bool, Error> {
    let record = value.map(|value| DirRecord::from_value(key, value));
    Ok(record
        .transpose()?
        .is_some_and(|record| record.attributes.id == removal.bucket))
}

/// The scopes that count the content of a removed directory now, apart from owners and spaces. A bucket that is
/// gone counts nothing.
pub(super) async fn scopes_of_removal(
    kv: &dyn KvRead,
    removal: &RemovalRecord,
) -> Result<Vec<CounterScope>, Error> {
    let mut scopes = vec![CounterScope::Tenant(removal.tenant)];
    let key = bucket_key(removal);
    if is_bucket(removal, &key, kv.get(&key).await?.value.as_ref())? {
        scopes.push(CounterScope::Bucket(removal.bucket));
    }
    Ok(scopes)
}

/// All removals, each with the directory that was removed.
pub(super) async fn all_removals(kv: &dyn KvRead) -> Result<Vec<(EntryId, RemovalRecord)>, Error> {
    let mut all = Vec::new();
    let mut pages = tables::REMOVAL.keys().pages(kv, PAGE);
    while let Some(pairs) = pages.next().await? {
        for (key, value) in &pairs {
            let dir = keys::parse_removal(key)?;
            all.push((dir, RemovalRecord::from_value(key, value)?));
        }
    }
    Ok(all)
}
