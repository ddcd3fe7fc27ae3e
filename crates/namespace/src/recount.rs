//! Recounting the usage of users, for catalogs that counted by other rules.
//!
//! Earlier releases counted only readable files as objects, metadata was free, and uploads counted
//! for nothing. Later ones counted all of that, but no directories, or no documents of buckets. A
//! mark in the catalog says by which rules its counters count. If the mark is missing or older, everything is counted from one
//! snapshot when the store opens, before anything else changes the catalog. Each counter is
//! corrected by its error, and the mark is written last. After a crash in between, the next opening
//! only counts again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::{
    Counter, CounterScope, DocumentRecord, Entry, EntryAttributes, FileRecord, Record,
    TenantRecord, UploadRecord, VersionRecord, number,
};
use dewar_catalog::{Usage, keys, tables};
use dewar_kv::{Batch, CommitError, KvRead, Precondition};
use dewar_types::{EntryId, Error, ErrorKind, GroupId, UserId};

use super::Tree;
use super::charge::{of_current, of_dir, of_documents, of_upload, of_version, part_bytes};
use super::removal::{all_removals, scopes_of_removal};

/// How this release counts.
const COUNTING: u8 = 4;

/// Entries read at once.
const PAGE: usize = 1000;

/// Documents read at once; one has at most a megabyte.
const DOCUMENT_PAGE: usize = 16;

/// Counters corrected in one batch.
const COUNTERS_PER_BATCH: usize = 1000;

/// Where it stands how the counters count.
fn mark() -> Bytes {
    keys::work(b'c')
}

impl Tree {
    /// Corrects the counters if the catalog was last opened by a release with other rules. Returns
    /// whether it was. Nothing else may change the catalog meanwhile. It reads every entry, version
    /// and upload once.
    ///
    /// # Errors
    /// `Unsupported` for counters of a newer release; records that do not decode; errors of the
    /// engine.
    pub async fn recount_if_outdated(&self) -> Result<bool, Error> {
        let read = self.kv().get(&mark()).await?;
        match read.value.as_deref() {
            Some([COUNTING]) => return Ok(false),
            Some([newer]) if *newer > COUNTING => {
                let message = "the catalog's counters were written by a newer release";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            Some([_]) | None => {}
            Some(_) => return Err(keys::corrupt(&mark(), "mark of the counters")),
        }
        let kv = self.kv().snapshot();
        let recount = Recount::of(kv.as_ref()).await?;
        let corrections = recount.corrections().await?;
        for chunk in corrections.chunks(COUNTERS_PER_BATCH) {
            self.commit_recount(Batch {
                adds: chunk.to_vec(),
                ..Batch::default()
            })
            .await?;
        }
        self.commit_recount(Batch {
            require: vec![Precondition::same(mark(), &read)],
            puts: vec![(mark(), Bytes::from_static(&[COUNTING]))],
            ..Batch::default()
        })
        .await?;
        Ok(true)
    }

    async fn commit_recount(&self, batch: Batch) -> Result<(), Error> {
        match self.kv().commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Failed(error)) => Err(error),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                "the catalog changed while its counters were made right",
            )),
        }
    }
}

/// What the counters should say.
struct Recount<'k> {
    kv: &'k dyn KvRead,
    counters: BTreeMap<Counter, i64>,
    /// The scopes and the owner of each bucket.
    buckets: BTreeMap<EntryId, (Arc<[CounterScope]>, UserId)>,
    spaces: BTreeSet<EntryId>,
}

impl<'k> Recount<'k> {
    async fn of(kv: &'k dyn KvRead) -> Result<Self, Error> {
        let mut recount = Self {
            kv,
            counters: BTreeMap::new(),
            buckets: BTreeMap::new(),
            spaces: BTreeSet::new(),
        };
        recount.entries().await?;
        recount.documents().await?;
        recount.uploads().await?;
        Ok(recount)
    }

    fn count(&mut self, scopes: &[CounterScope], owner: (UserId, Option<GroupId>), usage: Usage) {
        for scope in scopes.iter().copied().chain(CounterScope::of_owner(owner)) {
            *self.counters.entry(Counter::Objects(scope)).or_default() += usage.objects as i64;
            *self.counters.entry(Counter::Bytes(scope)).or_default() += usage.bytes as i64;
        }
    }

    /// All directories and files with their versions, from the roots of the tenants down.
    async fn entries(&mut self) -> Result<(), Error> {
        let mut open: Vec<(EntryId, Arc<[CounterScope]>)> = Vec::new();
        let mut pages = tables::TENANT.keys().pages(self.kv, PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let tenant = TenantRecord::from_value(key, value)?;
                open.push((tenant.root(), [CounterScope::Tenant(tenant.id)].into()));
            }
        }
        self.walk(open).await?;
        let mut removed = Vec::new();
        for (dir, removal) in all_removals(self.kv).await? {
            let mut scopes = scopes_of_removal(self.kv, &removal).await?;
            let spaces = removal.spaces.into_iter();
            let there = spaces.filter(|space| self.spaces.contains(space));
            scopes.extend(there.map(CounterScope::Space));
            removed.push((dir, scopes.into()));
        }
        self.walk(removed).await
    }

    /// All that is in these directories, which the scopes count.
    async fn walk(&mut self, mut open: Vec<(EntryId, Arc<[CounterScope]>)>) -> Result<(), Error> {
        while let Some((dir, scopes)) = open.pop() {
            let mut pages = keys::entries(dir).pages(self.kv, PAGE);
            while let Some(pairs) = pages.next().await? {
                for (key, value) in &pairs {
                    match Entry::from_value(key, value)? {
                        Entry::Symlink(_) => {}
                        Entry::File(file) => {
                            let EntryAttributes { owner, group, .. } = file.attributes;
                            self.count(&scopes, (owner, group), of_current(&file));
                        }
                        Entry::Dir(child) => {
                            let EntryAttributes { id, owner, .. } = child.attributes;
                            self.count(&scopes, (owner, None), of_dir(&child));
                            let mut inside = scopes.to_vec();
                            if child.bucket.is_some() {
                                inside.push(CounterScope::Bucket(id));
                            }
                            if child.space.is_some() {
                                inside.push(CounterScope::Space(id));
                                self.spaces.insert(id);
                            }
                            let inside: Arc<[CounterScope]> = inside.into();
                            if child.bucket.is_some() {
                                self.buckets.insert(id, (Arc::clone(&inside), owner));
                            }
                            open.push((id, inside));
                        }
                    }
                }
            }
            self.older(dir, &scopes).await?;
        }
        Ok(())
    }

    /// All older versions of the files in a directory.
    async fn older(&mut self, dir: EntryId, scopes: &[CounterScope]) -> Result<(), Error> {
        let mut pages = keys::versions_in(dir).pages(self.kv, PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let version = VersionRecord::from_value(key, value)?;
                let owner = match version.owner {
                    Some(owner) => (owner, version.group),
                    // Without an owner of its own the file's owner has it.
                    None => {
                        let (_, name, _) = keys::parse_version(key)?;
                        let key = keys::file(dir, name);
                        let file = self.kv.get(&key).await?.value;
                        let file = file.map(|value| FileRecord::from_value(&key, &value));
                        let Some(file) = file.transpose()? else {
                            continue;
                        };
                        version.ownership(&file.attributes)
                    }
                };
                self.count(scopes, owner, of_version(&version));
            }
        }
        Ok(())
    }

    /// The documents of all buckets.
    async fn documents(&mut self) -> Result<(), Error> {
        let mut sizes: BTreeMap<EntryId, usize> = BTreeMap::new();
        let mut pages = tables::DOCUMENT.keys().pages(self.kv, DOCUMENT_PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let (bucket, _) = keys::parse_document(key)?;
                let document = DocumentRecord::from_value(key, value)?;
                *sizes.entry(bucket).or_default() += document.content.len();
            }
        }
        for (bucket, bytes) in sizes {
            if let Some((scopes, owner)) = self.buckets.get(&bucket).cloned() {
                self.count(&scopes, (owner, None), of_documents(bytes));
            }
        }
        Ok(())
    }

    async fn uploads(&mut self) -> Result<(), Error> {
        let mut pages = tables::UPLOAD.keys().pages(self.kv, PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let (bucket, _, _) = keys::parse_upload(key)?;
                let upload = UploadRecord::from_value(key, value)?;
                let mut usage = of_upload(&upload);
                usage.bytes += part_bytes(self.kv, upload.id).await?;
                let mut scopes = self
                    .buckets
                    .get(&bucket)
                    .map_or_else(Vec::new, |(scopes, _)| scopes.to_vec());
                let spaces = upload.spaces.iter().copied();
                let there = spaces.filter(|space| self.spaces.contains(space));
                scopes.extend(there.map(CounterScope::Space));
                self.count(&scopes, (upload.owner, upload.group), usage);
                let of_owner = [
                    (Counter::Uploads(upload.owner), usage.objects),
                    (Counter::UploadBytes(upload.owner), usage.bytes),
                ];
                for (counter, more) in of_owner {
                    *self.counters.entry(counter).or_default() += more as i64;
                }
            }
        }
        Ok(())
    }

    /// What each counter is wrong by.
    async fn corrections(self) -> Result<Vec<(Bytes, i64)>, Error> {
        let mut right: BTreeMap<Bytes, i64> = self
            .counters
            .iter()
            .map(|(counter, sum)| (counter.key(), *sum))
            .collect();
        let mut corrections = Vec::new();
        let mut pages = tables::COUNTER.keys().pages(self.kv, PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                if Counter::is_of_usage(key) {
                    let said = number(key, value)?.cast_signed();
                    let sum = right.remove(key).unwrap_or(0);
                    corrections.push((key.clone(), sum - said));
                }
            }
        }
        corrections.extend(right);
        corrections.retain(|(_, delta)| *delta != 0);
        Ok(corrections)
    }
}
