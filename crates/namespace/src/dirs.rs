//! Directories: making, removing, looking up, and the definition of empty.

use dewar_catalog::record::{ChangeKind, CounterScope, DirRecord, Entry, Record};
use dewar_catalog::{Actor, keys};
use dewar_kv::{ReadValue, Scan};
use dewar_types::{EntryId, Error, ErrorKind, GroupId, ObjectKey};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::effort::{Effort, ListBudget};
use super::resolve::{ResolvedPath, not_found};
use super::retry::ConflictRetry;
use super::walk::{Liveness, Walk, WalkStep, has_live};
use super::{Bucket, Tree, charge};

/// Entries read at once.
const PAGE: usize = 1000;

/// Names that are looked at to see whether something lives in a directory. One with more dead names than
/// that counts as one in which something does.
const VISIBLE_NAMES_MAX: usize = 1000;

/// Which directories go where nothing else is.
#[derive(Clone, Copy)]
pub(super) enum PrunePolicy<'s> {
    /// Directories that were made only by the slashes of keys.
    Implicit,
    /// Also directories that were made on request, and spaces with their limits. The given scopes
    /// count the content of the directory where the purge begins, whatever happens meanwhile.
    All(&'s [CounterScope]),
}

/// Options for making a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirOptions {
    /// The group that owns it.
    pub group: Option<GroupId>,
    /// Permission bits.
    pub mode: u32,
    /// Whether directories missing above it are made, as a key's slashes make them.
    pub make_parents: bool,
}

impl Tree {
    /// The directory at `path`, whose every segment is a directory's name. `None` when it does not
    /// exist, or when it is implicit and contains no live entry.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn find_dir(
        &self,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<Option<DirRecord>, Error> {
        let chain = self.dir_chain(bucket, path).await?;
        if !self.stands(&chain).await? {
            return Ok(None);
        }
        Ok(Some(chain.last().record.clone()))
    }

    /// Makes a directory that stays when it becomes empty.
    ///
    /// # Errors
    /// `AlreadyExists` when a visible directory is there; `NotFound` when a directory above is
    /// missing and is not to be made; `Conflict`.
    pub async fn make_dir(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        options: DirOptions,
    ) -> Result<DirRecord, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let (parents, name) = path.split();
            let above = self.resolve(bucket, &parents).await?;
            if !options.make_parents && !self.stands(&above).await? {
                return Err(not_found(&bucket.path(&parents.join("/"))));
            }
            let chain = self.dir_chain(bucket, path).await?;
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            stage.watch(&above);
            stage.watch(&chain);
            let id = if chain.missing.is_none() {
                if self.is_visible(&chain).await? {
                    return Err(Error::new(
                        ErrorKind::AlreadyExists,
                        format!("{} exists", turn.path()),
                    ));
                }
                chain.last_id()
            } else {
                self.ids().entry().await?
            };
            let parent = stage.make_dirs(&above, actor.user, options.group).await?;
            let record = DirRecord {
                attributes: stage.attributes(id, actor.user, options.group, options.mode),
                implicit: false,
                bucket: None,
                space: None,
            };
            // What was there was free.
            stage.recharge_dir(&above, None, Some(&record));
            let key = keys::dir(parent, name);
            // One that was there and invisible changes what the cache knows of it.
            stage.forget(key.clone());
            stage.put_dir(key, record.clone());
            let change = bucket.change(ChangeKind::MakeDir, parent, id, turn.path());
            stage.log(actor, change).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotEmpty` when it contains live entries or older versions; `Conflict`.
    pub async fn remove_dir(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<(), Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let chain = self.dir_chain(bucket, path).await?;
            if !self.stands(&chain).await? {
                return Err(not_found(turn.path()));
            }
            let id = chain.last_id();
            if !self.purge_empty(id, PrunePolicy::Implicit).await? {
                return Err(Error::new(
                    ErrorKind::NotEmpty,
                    format!("directory {} is not empty", turn.path()),
                ));
            }
            let mut stage = BatchBuilder::new(self);
            stage.watch(&chain);
            stage.vanish(chain.last().key.clone(), id);
            stage.delete(chain.last().key.clone());
            if chain.last().record.space.is_some() {
                stage.drop_space(id);
            }
            let above = chain.above();
            stage.recharge_dir(&above, Some(&chain.last().record), None);
            stage.hint(&above).await?;
            let change = bucket.change(ChangeKind::RemoveDir, above.last_id(), id, turn.path());
            stage.log(actor, change).await?;
            match stage.commit().await? {
                CommitOutcome::Done => {
                    self.quotas.forget(CounterScope::Space(id));
                    return Ok(());
                }
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Whether the whole path of the chain exists for users.
    pub(super) async fn stands(&self, chain: &ResolvedPath) -> Result<bool, Error> {
        Ok(chain.missing.is_none() && self.is_visible(chain).await?)
    }

    /// Whether the last directory of the chain exists for users.
    pub(super) async fn is_visible(&self, chain: &ResolvedPath) -> Result<bool, Error> {
        let dir = &chain.last().record;
        if !dir.implicit {
            return Ok(true);
        }
        let kv = self.kv().snapshot();
        let mut effort = Effort::new(ListBudget {
            names_max: VISIBLE_NAMES_MAX,
            gate: None,
        });
        let live = has_live(
            kv.as_ref(),
            dir.attributes.id,
            Liveness::Explicit,
            &mut effort,
        );
        Ok(live.await?.unwrap_or(true))
    }

    /// Whether there is anything below `dir` but directories.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn holds_names(&self, dir: EntryId) -> Result<bool, Error> {
        let kv = self.kv().snapshot();
        let budget = ListBudget {
            names_max: usize::MAX,
            gate: None,
        };
        let mut effort = Effort::new(budget);
        let mut walk = Walk::new(kv.as_ref(), dir, PAGE);
        while let Some(step) = walk.next().await? {
            effort.look().await?;
            match step {
                WalkStep::File(..) | WalkStep::Symlink(_) => return Ok(true),
                WalkStep::Dir(path, dir) => walk.enter(path, &dir),
            }
        }
        Ok(false)
    }

    /// Removes all directories of the kind below `dir` if that leaves nothing in it, and says whether
    /// nothing is in it. Finds out with few reads when something lives near the front.
    ///
    /// # Errors
    /// `Conflict` when others change what is below for too long; errors of the engine.
    pub(super) async fn purge_empty(
        &self,
        dir: EntryId,
        purge: PrunePolicy<'_>,
    ) -> Result<bool, Error> {
        // Directories on the way down: id, and key and content of its entry but for the first.
        let mut open: Vec<(EntryId, Option<(bytes::Bytes, ReadValue)>)> = vec![(dir, None)];
        let mut inside = 0;
        let mut turn = ConflictRetry::around(self, format!("directory {dir}"));
        while let Some((dir, _)) = open.last() {
            let dir = *dir;
            if let Some((key, read)) = self.first_entry(dir).await? {
                let Some(value) = &read.value else {
                    return Ok(false);
                };
                match Entry::from_value(&key, value)? {
                    Entry::Dir(child)
                        if matches!(purge, PrunePolicy::All(_))
                            || (child.implicit && child.space.is_none()) =>
                    {
                        inside += 1;
                        open.push((child.attributes.id, Some((key, read))));
                        continue;
                    }
                    _ => return Ok(false),
                }
            }
            if !self.is_clear(keys::versions_in(dir)).await? {
                return Ok(false);
            }
            let Some((_, Some((key, read)))) = open.pop() else {
                break;
            };
            let mut stage = BatchBuilder::new(self);
            stage.same(key.clone(), &read);
            stage.delete(key.clone());
            let record = match &read.value {
                Some(value) => Some(DirRecord::from_value(&key, value)?),
                None => None,
            };
            let space = record.as_ref().is_some_and(|dir| dir.space.is_some());
            if space {
                stage.drop_space(dir);
            }
            if let (PrunePolicy::All(outside), Some(record)) = (purge, &record) {
                let mut scopes = outside.to_vec();
                for (id, entry) in &open {
                    let Some((key, read)) = entry else { continue };
                    // It may have become a space meanwhile, which counts what is in it.
                    stage.same(key.clone(), read);
                    let Some(value) = &read.value else { continue };
                    if DirRecord::from_value(key, value)?.space.is_some() {
                        scopes.push(CounterScope::Space(*id));
                    }
                }
                scopes.extend(CounterScope::of_owner((record.attributes.owner, None)));
                stage.charge_scopes(scopes, charge::of_dir(record), -1);
            }
            stage.vanish(key, dir);
            match stage.commit().await? {
                CommitOutcome::Done if space => self.quotas.forget(CounterScope::Space(dir)),
                CommitOutcome::Done => {}
                CommitOutcome::Lost => {
                    // Somebody put something there, or removed it too: the collector of empty
                    // directories does the same at its own pace.
                    turn.lost().await?;
                    open.truncate(1);
                }
            }
        }
        tracing::trace!(%dir, inside, "directory is empty");
        Ok(true)
    }

    /// Whether no key is in the range.
    pub(super) async fn is_clear(&self, range: keys::KeyRange) -> Result<bool, Error> {
        let page = self.kv().scan(Scan {
            from: &range.from,
            to: &range.to,
            limit: 1,
            reverse: false,
        });
        Ok(page.await?.pairs.is_empty())
    }

    async fn first_entry(&self, dir: EntryId) -> Result<Option<(bytes::Bytes, ReadValue)>, Error> {
        let range = keys::entries(dir);
        let page = self.kv().scan(Scan {
            from: &range.from,
            to: &range.to,
            limit: 1,
            reverse: false,
        });
        let page = page.await?;
        let seq = page.seq;
        Ok(page.pairs.into_iter().next().map(|(key, value)| {
            let value = Some(value);
            (key, ReadValue { value, seq })
        }))
    }
}
