//! From a path to the directories on it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::{
    ChangeKind, ChangeRecord, CounterScope, DirRecord, Entry, FileRecord, HintStep, Record,
};
use dewar_catalog::{Quota, keys};
use dewar_kv::ReadValue;
use dewar_types::{EntryId, Error, ErrorKind, GroupId, ObjectKey, UserId};

use super::cache::{Dir, Generation};
use super::documents::BucketDocuments;
use super::{Bucket, Tree};

/// The directories on a path, the bucket first.
#[derive(Clone)]
pub(super) struct ResolvedPath {
    /// Those that exist.
    pub(super) dirs: Vec<Arc<Dir>>,
    /// The names below that do not, and the read that found the first of them absent.
    pub(super) missing: Option<MissingDirs>,
    pub(super) bucket: Bucket,
    /// When resolving began.
    pub(super) since: Generation,
}

#[derive(Clone)]
pub(super) struct MissingDirs {
    pub(super) key: Bytes,
    pub(super) read: ReadValue,
    pub(super) names: Vec<String>,
}

impl ResolvedPath {
    /// The deepest directory that exists.
    pub(super) fn last(&self) -> &Arc<Dir> {
        self.dirs.last().expect("a chain holds the bucket at least")
    }

    /// The bucket as it is now, with its settings and documents.
    pub(super) fn bucket_now(&self) -> Bucket {
        let top = self.dirs.first();
        Bucket {
            record: top.map_or_else(|| self.bucket.record.clone(), |top| top.record.clone()),
            documents: top.and_then(|top| top.documents.clone()),
            ..self.bucket.clone()
        }
    }

    /// Its id.
    pub(super) fn last_id(&self) -> EntryId {
        self.last().record.attributes.id
    }

    /// The last directory of the path, if all of it exists.
    pub(super) fn parent(&self) -> Option<EntryId> {
        self.missing.is_none().then(|| self.last_id())
    }

    /// The group of what is made in the last directory, where nobody names another: that of the
    /// innermost directory which has one, or of the bucket.
    pub(super) fn group(&self) -> Option<GroupId> {
        let mut dirs = self.dirs.iter().rev();
        dirs.find_map(|dir| dir.record.attributes.group)
    }

    /// The spaces that count what is in the last directory, outermost first.
    pub(super) fn spaces(&self) -> impl Iterator<Item = EntryId> {
        self.dirs
            .iter()
            .filter(|dir| dir.record.space.is_some())
            .map(|dir| dir.record.attributes.id)
    }

    /// The unbroken run of implicit directories at the end, for a hint on the last one.
    pub(super) fn implicit_run(&self) -> Result<Vec<HintStep>, Error> {
        let mut steps = Vec::new();
        // The bucket, in front, is never implicit.
        for pair in self.dirs.windows(2).rev() {
            let [above, dir] = pair else { break };
            if !dir.record.implicit {
                break;
            }
            let (_, name, _) = keys::parse_entry(&dir.key)?;
            steps.push(HintStep {
                parent: above.record.attributes.id,
                name: name.to_owned(),
            });
        }
        steps.reverse();
        Ok(steps)
    }

    /// The chain of the directory that holds the last one.
    pub(super) fn above(&self) -> Self {
        self.up_to(self.dirs.len().saturating_sub(1))
    }

    /// The first directories of the chain, at least the bucket.
    pub(super) fn up_to(&self, depth: usize) -> Self {
        Self {
            dirs: self.dirs[..depth.max(1)].to_vec(),
            missing: None,
            bucket: self.bucket.clone(),
            since: self.since,
        }
    }

    /// The limits of the spaces on the path.
    pub(super) fn quotas(&self) -> impl Iterator<Item = (CounterScope, Quota)> {
        self.dirs.iter().filter_map(|dir| {
            let mark = dir.record.space.as_ref()?;
            Some((
                CounterScope::Space(dir.record.attributes.id),
                Quota::of_mark(mark),
            ))
        })
    }

    /// Everything that counts what these own in the last directory.
    pub(super) fn scopes_with(&self, owner: (UserId, Option<GroupId>)) -> Vec<CounterScope> {
        let mut scopes = self.scopes();
        scopes.extend(CounterScope::of_owner(owner));
        scopes
    }

    /// Everything that counts what is in the last directory, apart from owners.
    pub(super) fn scopes(&self) -> Vec<CounterScope> {
        let mut scopes = vec![
            CounterScope::Tenant(self.bucket.tenant.id),
            CounterScope::Bucket(self.bucket.id),
        ];
        scopes.extend(self.spaces().map(CounterScope::Space));
        scopes
    }
}

/// A name and the record that it held when it was looked up. A change that is given one starts from
/// it and does not read the name again, unless another change came first.
#[derive(Clone, Debug)]
pub struct ResolvedName {
    pub(super) chain: ResolvedPath,
    pub(super) name: String,
    /// The whole path, for errors and the change log.
    pub(super) path: String,
    /// Key and content, if the directory exists.
    pub(super) slot: Option<(Bytes, ReadValue)>,
    pub(super) entry: Option<Entry>,
}

impl ResolvedName {
    /// A change of the entry, for the change log.
    pub(super) fn change(&self, verb: ChangeKind, parent: EntryId, entry: EntryId) -> ChangeRecord {
        self.chain.bucket.change(verb, parent, entry, &self.path)
    }

    /// The file that can be read there.
    #[must_use]
    pub fn file(&self) -> Option<&FileRecord> {
        match &self.entry {
            Some(Entry::File(file)) if file.is_live() => Some(file),
            _ => None,
        }
    }
}

impl fmt::Debug for ResolvedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResolvedPath({} directories)", self.dirs.len())
    }
}

/// A key of a bucket, with the result of the lookup if the caller has one.
#[derive(Clone, Debug)]
pub struct NameRef<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) key: &'a ObjectKey,
    found: Option<ResolvedName>,
}

impl<'a> NameRef<'a> {
    /// The key of the bucket, as it was found.
    #[must_use]
    pub fn new(bucket: &'a Bucket, key: &'a ObjectKey, found: Option<ResolvedName>) -> Self {
        Self { bucket, key, found }
    }

    /// The whole path.
    pub(super) fn path(&self) -> String {
        self.bucket.path(self.key.as_str())
    }

    /// The name as the caller found it, the first time; later as it is now.
    pub(super) async fn resolve(&mut self, tree: &Tree) -> Result<ResolvedName, Error> {
        match self.found.take() {
            Some(found) => Ok(found),
            None => tree.find_name(self.bucket, self.key).await,
        }
    }
}

impl<'a> From<(&'a Bucket, &'a ObjectKey)> for NameRef<'a> {
    fn from((bucket, key): (&'a Bucket, &'a ObjectKey)) -> Self {
        Self::new(bucket, key, None)
    }
}

impl Tree {
    /// The directory at an entry key, from the cache if it is there.
    pub(super) async fn dir_at(
        &self,
        key: Bytes,
        since: Generation,
    ) -> Result<Result<Arc<Dir>, (Bytes, ReadValue)>, Error> {
        if let Some(dir) = self.cache.get(&key) {
            return Ok(Ok(dir));
        }
        let read = self.kv().get(&key).await?;
        let Some(value) = &read.value else {
            return Ok(Err((key, read)));
        };
        let record = DirRecord::from_value(&key, value)?;
        let dir = if has_documents(&record) {
            match self.documented(key).await? {
                Ok(dir) => Arc::new(dir),
                Err(absent) => return Ok(Err(absent)),
            }
        } else {
            Arc::new(Dir::new(key, record, value.clone(), read.seq))
        };
        self.cache.insert(since, Arc::clone(&dir));
        Ok(Ok(dir))
    }

    /// A bucket with its documents, both of one moment.
    async fn documented(&self, key: Bytes) -> Result<Result<Dir, (Bytes, ReadValue)>, Error> {
        let kv = self.kv().snapshot();
        let read = kv.get(&key).await?;
        let Some(value) = &read.value else {
            return Ok(Err((key, read)));
        };
        let record = DirRecord::from_value(&key, value)?;
        let id = record.attributes.id;
        let documented = has_documents(&record);
        let dir = Dir::new(key, record, value.clone(), read.seq);
        if !documented {
            return Ok(Ok(dir));
        }
        let documents = BucketDocuments::load(kv.as_ref(), id).await?;
        Ok(Ok(dir.with_documents(documents)))
    }

    /// Follows `names` down from the bucket.
    pub(super) async fn resolve(
        &self,
        bucket: &Bucket,
        names: &[&str],
    ) -> Result<ResolvedPath, Error> {
        let since = self.cache.generation();
        let key = keys::dir(bucket.tenant.root(), bucket.name.as_str());
        let top = match self.dir_at(key, since).await? {
            Ok(top) if top.record.attributes.id == bucket.id => top,
            _ => return Err(bucket.gone()),
        };
        let mut chain = ResolvedPath {
            dirs: Vec::with_capacity(names.len() + 1),
            missing: None,
            bucket: bucket.clone(),
            since,
        };
        chain.dirs.push(top);
        for name in names {
            self.descend(&mut chain, name).await?;
        }
        Ok(chain)
    }

    /// Follows one more name down.
    pub(super) async fn descend(&self, chain: &mut ResolvedPath, name: &str) -> Result<(), Error> {
        if let Some(missing) = &mut chain.missing {
            missing.names.push(name.to_owned());
            return Ok(());
        }
        match self
            .dir_at(keys::dir(chain.last_id(), name), chain.since)
            .await?
        {
            Ok(dir) => chain.dirs.push(dir),
            Err((key, read)) => {
                let names = vec![name.to_owned()];
                chain.missing = Some(MissingDirs { key, read, names });
            }
        }
        Ok(())
    }

    /// Looks a key up: one read, if its directories are in the cache.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn find_name(&self, bucket: &Bucket, key: &ObjectKey) -> Result<ResolvedName, Error> {
        let (dirs, name) = key.split();
        let chain = self.resolve(bucket, &dirs).await?;
        let (slot, entry) = match chain.parent() {
            None => (None, None),
            Some(parent) => {
                let key = keys::file(parent, name);
                let read = self.kv().get(&key).await?;
                let entry = match &read.value {
                    Some(value) => Some(Entry::from_value(&key, value)?),
                    None => None,
                };
                (Some((key, read)), entry)
            }
        };
        Ok(ResolvedName {
            chain,
            name: name.to_owned(),
            path: bucket.path(key.as_str()),
            slot,
            entry,
        })
    }

    /// The directory at `path`, whose every segment is a directory.
    pub(super) async fn dir_chain(
        &self,
        bucket: &Bucket,
        path: &ObjectKey,
    ) -> Result<ResolvedPath, Error> {
        let names: Vec<&str> = path.as_str().split('/').collect();
        self.resolve(bucket, &names).await
    }
}

fn has_documents(record: &DirRecord) -> bool {
    let settings = record.bucket.as_ref();
    settings.is_some_and(|settings| settings.documents != 0)
}

/// There is nothing at `path`.
pub(super) fn not_found(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{path} does not exist"))
}
