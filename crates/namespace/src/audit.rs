//! Checks that the catalog is consistent: references, counters, reachability.
//!
//! Reads everything in one snapshot, so it is slow. It serves tests, the simulation and
//! administrators. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_catalog::record::{
    Counter, CounterScope, DocumentKind, DocumentRecord, Entry, Extent, FileRecord, LongRecord,
    PartRecord, Record, TenantRecord, UploadRecord, VersionRecord, number,
};
use dewar_catalog::tables::{self, Table};
use dewar_catalog::{Usage, keys};
use dewar_kv::KvRead;
use dewar_types::{BlobId, EntryId, Error, TenantId, UserId, VersionId, VersionName};

use super::removal::{all_removals, scopes_of_removal};
use super::{Tree, charge};

const PAGE: usize = 1000;

/// The result of an audit of the catalog.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Description of each fault; empty when the catalog is consistent.
    pub faults: Vec<String>,
    /// Blobs (without an offset) and slots with references, with the number of extents.
    pub named: BTreeMap<(BlobId, Option<u32>), u64>,
    /// Blobs in the queue of those to be freed.
    pub queued: BTreeSet<BlobId>,
    /// Dead slots.
    pub dead: BTreeSet<(BlobId, u32)>,
    /// Files that can be read.
    pub files: u64,
    /// Directories below buckets.
    pub dirs: u64,
}

struct Auditor<'k> {
    kv: &'k dyn KvRead,
    audit: Audit,
    counters: BTreeMap<Bytes, (Counter, i64)>,
    /// Reachable directories, with the scopes that count their content.
    dirs: BTreeMap<EntryId, Vec<CounterScope>>,
    /// Buckets with their owner and the mask of their documents.
    buckets: BTreeMap<EntryId, (UserId, u64)>,
    /// Long lists with references.
    lists: BTreeSet<Bytes>,
    /// Directories that were removed, and those in them.
    removed: BTreeSet<EntryId>,
    /// Names with older versions.
    histories: BTreeMap<(EntryId, String), History>,
}

/// What a file's record says about its older versions, less what was found of them.
struct History {
    owner: UserId,
    current: VersionId,
    older: u64,
    null: Option<VersionId>,
}

impl Tree {
    /// Reads the whole catalog and checks it.
    ///
    /// # Errors
    /// Errors of the engine, and records that do not decode.
    pub async fn audit(&self) -> Result<Audit, Error> {
        let kv = self.kv().snapshot();
        let mut auditor = Auditor {
            kv: kv.as_ref(),
            audit: Audit::default(),
            counters: BTreeMap::new(),
            dirs: BTreeMap::new(),
            buckets: BTreeMap::new(),
            lists: BTreeSet::new(),
            removed: BTreeSet::new(),
            histories: BTreeMap::new(),
        };
        auditor.tenants().await?;
        auditor.entries().await?;
        auditor.documents().await?;
        auditor.history().await?;
        auditor.uploads().await?;
        auditor.lists().await?;
        auditor.references().await?;
        auditor.counters().await?;
        Ok(auditor.audit)
    }
}

impl Auditor<'_> {
    fn fault(&mut self, fault: String) {
        self.audit.faults.push(fault);
    }

    async fn all(&self, range: keys::KeyRange) -> Result<Vec<(Bytes, Bytes)>, Error> {
        let mut pages = range.pages(self.kv, PAGE);
        let mut all = Vec::new();
        while let Some(pairs) = pages.next().await? {
            all.extend(pairs);
        }
        Ok(all)
    }

    async fn table(&self, table: Table) -> Result<Vec<(Bytes, Bytes)>, Error> {
        self.all(table.keys()).await
    }

    fn count(&mut self, counter: Counter, delta: i64) {
        self.counters.entry(counter.key()).or_insert((counter, 0)).1 += delta;
    }

    fn charge(&mut self, scope: CounterScope, usage: Usage) {
        self.count(Counter::Objects(scope), usage.objects as i64);
        self.count(Counter::Bytes(scope), usage.bytes as i64);
    }

    async fn tenants(&mut self) -> Result<(), Error> {
        for (key, value) in self.table(tables::TENANT).await? {
            let tenant = TenantRecord::from_value(&key, &value)?;
            let scope = CounterScope::Tenant(TenantId(tenant.root().0));
            self.dirs.insert(tenant.root(), vec![scope]);
        }
        Ok(())
    }

    /// Walks all directories from the tenants' roots down, then looks for entries left over.
    async fn entries(&mut self) -> Result<(), Error> {
        let roots: Vec<EntryId> = self.dirs.keys().copied().collect();
        let mut reached = self.walk(roots).await?;
        let counted: BTreeSet<CounterScope> = self.dirs.values().flatten().copied().collect();
        let mut removed = Vec::new();
        for (dir, removal) in all_removals(self.kv).await? {
            let mut scopes = scopes_of_removal(self.kv, &removal).await?;
            let spaces = removal.spaces.into_iter().map(CounterScope::Space);
            scopes.extend(spaces.filter(|space| counted.contains(space)));
            if self.dirs.insert(dir, scopes).is_some() {
                self.fault(format!("directory {dir} is removed, and in the tree"));
            }
            self.removed.insert(dir);
            removed.push(dir);
        }
        reached += self.walk(removed).await?;
        let all = self.table(tables::ENTRY).await?.len();
        if all != reached {
            self.fault(format!("{} entries cannot be reached", all - reached));
        }
        Ok(())
    }

    /// Walks down from directories, and counts the entries.
    async fn walk(&mut self, mut open: Vec<EntryId>) -> Result<usize, Error> {
        let mut reached = 0;
        while let Some(dir) = open.pop() {
            let scopes = self.dirs.get(&dir).cloned().unwrap_or_default();
            for (key, value) in self.all(keys::entries(dir)).await? {
                reached += 1;
                let (_, name, is_dir) = keys::parse_entry(&key)?;
                let entry = Entry::from_value(&key, &value)?;
                if is_dir != matches!(entry, Entry::Dir(_)) {
                    self.fault(format!("{} holds another kind", key.escape_ascii()));
                }
                match entry {
                    Entry::File(file) => {
                        if file.older > 0 || file.older_null.is_some() {
                            let history = History {
                                owner: file.attributes.owner,
                                current: file.current.id,
                                older: file.older,
                                null: file.older_null,
                            };
                            self.histories.insert((dir, name.to_owned()), history);
                        }
                        let is_live = file.is_live() && !self.removed.contains(&dir);
                        self.audit.files += u64::from(is_live);
                        self.file(&file, &scopes);
                    }
                    Entry::Symlink(_) => {}
                    Entry::Dir(child) => {
                        let id = child.attributes.id;
                        let owner = CounterScope::of_owner((child.attributes.owner, None));
                        for scope in scopes.iter().copied().chain(owner) {
                            self.charge(scope, charge::of_dir(&child));
                        }
                        let mut inside = scopes.clone();
                        if let Some(settings) = &child.bucket {
                            let owner = child.attributes.owner;
                            self.buckets.insert(id, (owner, settings.documents));
                            inside.push(CounterScope::Bucket(id));
                        } else if self.removed.contains(&dir) {
                            self.removed.insert(id);
                        } else {
                            self.audit.dirs += 1;
                        }
                        if child.space.as_ref().is_some_and(|mark| mark.counted) {
                            inside.push(CounterScope::Space(id));
                        }
                        if self.dirs.insert(id, inside).is_some() {
                            self.fault(format!("directory {id} hangs in two places"));
                        } else {
                            open.push(id);
                        }
                    }
                }
            }
        }
        Ok(reached)
    }

    fn file(&mut self, file: &FileRecord, scopes: &[CounterScope]) {
        let mut scopes = scopes.to_vec();
        scopes.push(CounterScope::User(file.attributes.owner));
        scopes.extend(file.attributes.group.map(CounterScope::Group));
        for scope in scopes {
            self.charge(scope, charge::of_current(file));
        }
        self.version(&file.current);
    }

    fn version(&mut self, version: &VersionRecord) {
        self.copies(version.id, version.copies.iter());
        for chunk in 0..version.parts.as_ref().map_or(0, |parts| parts.chunks) {
            let key = keys::long(version.id, keys::PARTS_LIST, chunk);
            self.lists.insert(key);
        }
        for chunk in 0..version
            .parts
            .as_ref()
            .map_or(0, |parts| parts.digest_chunks)
        {
            let key = keys::long(version.id, keys::PART_DIGESTS_LIST, chunk);
            self.lists.insert(key);
        }
        let sum = |extents: &[Extent]| extents.iter().map(|extent| extent.len).sum::<u64>();
        for copy in version.copies.iter().filter(|copy| copy.chunks == 0) {
            if sum(&copy.extents) != version.size {
                self.fault(format!(
                    "version {} has extents of another size",
                    version.id
                ));
            }
        }
    }

    fn copies<'a>(
        &mut self,
        id: VersionId,
        copies: impl Iterator<Item = &'a dewar_catalog::record::ContentCopy>,
    ) {
        for (list, copy) in copies.enumerate() {
            self.extents(&copy.extents);
            for chunk in 0..copy.chunks {
                if !self.lists.insert(keys::long(id, list as u8, chunk)) {
                    self.fault(format!("a long list of {id} is named twice"));
                }
            }
        }
    }

    fn extents(&mut self, extents: &[Extent]) {
        for extent in extents {
            let place = (extent.blob, extent.slot.map(|slot| slot.offset));
            *self.audit.named.entry(place).or_default() += 1;
        }
    }

    async fn history(&mut self) -> Result<(), Error> {
        for (key, value) in self.table(tables::VERSION).await? {
            let (parent, name, id) = keys::parse_version(&key)?;
            let version = VersionRecord::from_value(&key, &value)?;
            if version.id != id {
                self.fault(format!("version {id} stands under another's key"));
            }
            match self.histories.get_mut(&(parent, name.to_owned())) {
                None => self.fault(format!("version {id} is of a name without history")),
                Some(history) => {
                    let owner = version.owner.unwrap_or(history.owner);
                    history.older = history.older.wrapping_sub(1);
                    let newer = id >= history.current;
                    let null = version.name() == VersionName::Null;
                    let unsaid = null && history.null.take() != Some(id);
                    self.charge(CounterScope::User(owner), charge::of_version(&version));
                    if let Some(group) = version.group {
                        self.charge(CounterScope::Group(group), charge::of_version(&version));
                    }
                    if newer {
                        self.fault(format!("version {id} is newer than the current one"));
                    }
                    if unsaid {
                        self.fault(format!("version {id} is null, its file says otherwise"));
                    }
                }
            }
            match self.dirs.get(&parent).cloned() {
                None => self.fault(format!("version {id} cannot be reached")),
                Some(scopes) => {
                    for scope in scopes {
                        self.charge(scope, charge::of_version(&version));
                    }
                }
            }
            self.version(&version);
        }
        for ((dir, name), history) in std::mem::take(&mut self.histories) {
            if history.older != 0 || history.null.is_some() {
                self.fault(format!(
                    "{name:?} in {dir} has {} older versions less than its record says, null: {:?}",
                    history.older, history.null
                ));
            }
        }
        Ok(())
    }

    /// Every bucket has exactly the documents that its entry says, and is charged for them.
    async fn documents(&mut self) -> Result<(), Error> {
        let mut said = self.buckets.clone();
        let mut sizes: BTreeMap<EntryId, usize> = BTreeMap::new();
        for (key, value) in self.table(tables::DOCUMENT).await? {
            let (bucket, _) = keys::parse_document(&key)?;
            let mask = DocumentKind::of_key(&key)?.mask();
            let document = DocumentRecord::from_value(&key, &value)?;
            *sizes.entry(bucket).or_default() += document.content.len();
            match said.get_mut(&bucket) {
                Some((_, said)) if *said & mask != 0 => *said &= !mask,
                _ => self.fault(format!(
                    "document {} is not in its bucket's entry",
                    key.escape_ascii()
                )),
            }
        }
        for (bucket, (owner, left)) in said {
            if left != 0 {
                self.fault(format!("bucket {bucket} lacks documents: {left:b}"));
            }
            let usage = charge::of_documents(sizes.remove(&bucket).unwrap_or(0));
            let mut scopes = self.dirs.get(&bucket).cloned().unwrap_or_default();
            scopes.push(CounterScope::User(owner));
            for scope in scopes {
                self.charge(scope, usage);
            }
        }
        Ok(())
    }

    async fn uploads(&mut self) -> Result<(), Error> {
        let mut uploads = BTreeSet::new();
        let counted: BTreeSet<CounterScope> = self.dirs.values().flatten().copied().collect();
        for (key, value) in self.table(tables::UPLOAD).await? {
            let (bucket, _, upload) = keys::parse_upload(&key)?;
            if !self.buckets.contains_key(&bucket) {
                self.fault(format!("upload {upload} is in no bucket"));
            }
            uploads.insert(upload);
            let record = UploadRecord::from_value(&key, &value)?;
            let mut usage = charge::of_upload(&record);
            usage.bytes += charge::part_bytes(self.kv, upload).await?;
            let mut scopes = self.dirs.get(&bucket).cloned().unwrap_or_default();
            let spaces = record.spaces.iter().copied().map(CounterScope::Space);
            scopes.extend(spaces.filter(|space| counted.contains(space)));
            scopes.push(CounterScope::User(record.owner));
            scopes.extend(record.group.map(CounterScope::Group));
            for scope in scopes {
                self.charge(scope, usage);
            }
            self.count(Counter::Uploads(record.owner), usage.objects as i64);
            self.count(Counter::UploadBytes(record.owner), usage.bytes as i64);
        }
        for (key, value) in self.table(tables::PART).await? {
            let (upload, number) = keys::parse_part(&key)?;
            if !uploads.contains(&upload) {
                self.fault(format!("part {number} belongs to no upload ({upload})"));
            }
            let part = PartRecord::from_value(&key, &value)?;
            self.copies(part.id, part.copies.iter());
        }
        Ok(())
    }

    async fn lists(&mut self) -> Result<(), Error> {
        let mut named = std::mem::take(&mut self.lists);
        for (key, value) in self.table(tables::LONG).await? {
            if !named.remove(&key) {
                self.fault(format!("long list {} is not named", key.escape_ascii()));
            }
            self.extents(&LongRecord::from_value(&key, &value)?.extents);
        }
        for key in named {
            self.fault(format!("long list {} is missing", key.escape_ascii()));
        }
        Ok(())
    }

    /// Counts, queue and dead marks must agree with what is named.
    async fn references(&mut self) -> Result<(), Error> {
        let mut counts = BTreeMap::new();
        for (key, value) in self.table(tables::REFERENCES).await? {
            counts.insert(keys::parse_references(&key)?, number(&key, &value)?);
        }
        let named = self.audit.named.clone();
        for (&(blob, slot), &count) in &named {
            let stored = counts
                .remove(&(blob, slot.map_or(0, u64::from)))
                .unwrap_or(1);
            if stored != count {
                self.fault(format!(
                    "{blob} {slot:?} is named {count} times, its count says {stored}"
                ));
            }
        }
        for (blob, offset) in counts.into_keys() {
            self.fault(format!(
                "a count for {blob} at {offset}, which nothing names"
            ));
        }
        for (key, _) in self.table(tables::FREE).await? {
            let (_, blob) = keys::parse_free(&key)?;
            if named.contains_key(&(blob, None)) {
                self.fault(format!("{blob} is to be freed, but named"));
            }
            if !self.audit.queued.insert(blob) {
                self.fault(format!("{blob} is to be freed twice"));
            }
        }
        for (key, value) in self.table(tables::DEAD).await? {
            let (segment, offset) = keys::parse_dead(&key)?;
            if named.contains_key(&(segment, Some(offset))) {
                self.fault(format!("slot {segment} {offset} is dead, but named"));
            }
            self.audit.dead.insert((segment, offset));
            let len = value
                .as_ref()
                .try_into()
                .map(u32::from_be_bytes)
                .map_err(|_| keys::corrupt(&key, tables::DEAD.name))?;
            self.count(Counter::Dead(segment), i64::from(len));
        }
        Ok(())
    }

    async fn counters(&mut self) -> Result<(), Error> {
        let mut stored = BTreeMap::new();
        for (key, value) in self.table(tables::COUNTER).await? {
            stored.insert(key.clone(), number(&key, &value)?.cast_signed());
        }
        for (key, (counter, sum)) in std::mem::take(&mut self.counters) {
            let said = stored.remove(&key).unwrap_or(0);
            if said != sum {
                self.fault(format!("{counter:?} says {said}, it is {sum}"));
            }
        }
        for (key, said) in stored {
            // Not counted yet, or zero.
            let space = matches!(key.get(1), Some(b'S' | b's'));
            if said != 0 && !space {
                self.fault(format!("counter {} says {said}", key.escape_ascii()));
            }
        }
        Ok(())
    }
}
