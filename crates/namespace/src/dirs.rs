//! Directories: making, removing, looking up, and the definition of empty.

use dewar_catalog::record::{ChangeKind, CounterScope, DirRecord, Entry, Record};
use dewar_catalog::{Actor, keys};
use dewar_kv::{ReadValue, Scan};
use dewar_types::{EntryId, Error, ErrorKind, GroupId, ObjectKey};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::effort::{Effort, ListBudget};
use super::node::{Hierarchy, ParentDirectory};
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
    /// Whether an existing directory is no error.
    pub existing: bool,
    /// The rules for the name. In a hierarchy, directories that are made above it stay as well.
    pub hierarchy: Hierarchy,
}

impl Tree {
    /// Makes a directory that stays when it becomes empty, in one batch with the directories above
    /// it.
    ///
    /// # Errors
    /// `AlreadyExists` when a visible directory is there; `NotFound` when a directory above is
    /// missing and is not to be made; `Conflict`. In a hierarchy also `AlreadyExists` when a file is
    /// there, and `NotADirectory` when a file is above it.
    pub async fn make_dir(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        options: DirOptions,
    ) -> Result<DirRecord, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(path.as_str()));
        loop {
            let exists = || Error::new(ErrorKind::AlreadyExists, format!("{} exists", turn.path()));
            let node = self.find_node(bucket, path).await?;
            let name = node.name();
            let above = &name.chain;
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            let strict = options.hierarchy == Hierarchy::Strict;
            let visible = if strict {
                if node.file().is_some() {
                    return Err(exists());
                }
                let parent = self.check_above(name).await?;
                stage.watch_above(&parent);
                if let Some((key, read)) = &name.slot {
                    stage.same(key.clone(), read);
                }
                parent.visible
            } else {
                options.make_parents || self.stands(above).await?
            };
            if !visible && !options.make_parents {
                let (parents, _) = path.split();
                return Err(not_found(&bucket.path(&parents.join("/"))));
            }
            match node.directory() {
                Some(directory) if options.existing => return Ok(directory.clone()),
                Some(_) => return Err(exists()),
                None => {}
            }
            stage.watch(above);
            stage.watch(&node.chain);
            let id = match node.chain.missing {
                None => node.chain.last_id(),
                Some(_) => self.ids().entry().await?,
            };
            let parent = if strict && !visible {
                stage.make_lasting_dirs(actor, above, options).await?
            } else {
                stage.make_dirs(above, actor.user, options.group).await?
            };
            let place = (parent, name.name.as_str(), turn.path());
            let record = stage.put_made_dir(actor, above, place, id, options).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotEmpty` when it contains live entries or older versions, and for the directory of a
    /// named space; `Conflict`.
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
                self.require_no_name(&mut stage, id).await?;
                stage.drop_space(id).await;
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
        Ok(chain.missing.is_none() && self.is_visible(&chain.last().record).await?)
    }

    /// Whether a directory exists for users.
    pub(super) async fn is_visible(&self, dir: &DirRecord) -> Result<bool, Error> {
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
                self.require_no_name(&mut stage, dir).await?;
                stage.drop_space(dir).await;
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

impl BatchBuilder<'_> {
    /// Requires that no file comes to be where a directory is missing.
    pub(super) fn watch_above(&mut self, above: &ParentDirectory) {
        if let Some((key, read)) = &above.no_file {
            self.same(key.clone(), read);
        }
    }

    /// Makes all directories of a path that do not exist for users, so that they stay, and gives the
    /// last one.
    async fn make_lasting_dirs(
        &mut self,
        actor: &Actor<'_>,
        chain: &ResolvedPath,
        options: DirOptions,
    ) -> Result<EntryId, Error> {
        let mut depth = chain.dirs.len();
        while depth > 1
            && !self
                .tree()
                .is_visible(&chain.dirs[depth - 1].record)
                .await?
        {
            depth -= 1;
        }
        for hidden in depth..chain.dirs.len() {
            let above = chain.up_to(hidden);
            let dir = &chain.dirs[hidden];
            let (parent, name, _) = keys::parse_entry(&dir.key)?;
            let (path, id) = (above.path_of(name), dir.record.attributes.id);
            let place = (parent, name, path.as_str());
            self.put_made_dir(actor, &above, place, id, options).await?;
        }
        let mut parent = chain.last_id();
        let mut below = String::new();
        for name in chain.missing.iter().flat_map(|missing| &missing.names) {
            below.push_str(name);
            let (path, id) = (chain.path_of(&below), self.mint_entry().await?);
            let place = (parent, name.as_str(), path.as_str());
            self.put_made_dir(actor, chain, place, id, options).await?;
            below.push('/');
            parent = id;
        }
        Ok(parent)
    }

    /// Puts a directory that is made on request; `above` leads to its parent, or to a directory above
    /// that.
    async fn put_made_dir(
        &mut self,
        actor: &Actor<'_>,
        above: &ResolvedPath,
        (parent, name, path): (EntryId, &str, &str),
        id: EntryId,
        options: DirOptions,
    ) -> Result<DirRecord, Error> {
        let record = DirRecord {
            attributes: self.attributes(id, actor.user, options.group, options.mode),
            implicit: false,
            bucket: None,
            space: None,
        };
        // What was there was free.
        self.recharge_dir(above, None, Some(&record));
        let key = keys::dir(parent, name);
        // One that was there and invisible changes what the cache knows of it.
        self.forget(key.clone());
        self.put_dir(key, record.clone());
        let change = above.bucket.change(ChangeKind::MakeDir, parent, id, path);
        self.log(actor, change).await?;
        Ok(record)
    }
}
