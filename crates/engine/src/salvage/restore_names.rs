//! Restoring found contents under names.
//!
//! The path at writing gets the newest content that was found for it. Its earlier content, or an
//! older found content, is kept in a separate bucket ([`KEPT_BUCKET`]) under a key with path and
//! version. So no found content is given up. Repetition changes nothing: each step is one batch,
//! and existing content of a name is left alone.
//!
//! Contents of one path must be restored one after the other. Different paths may run concurrently.

use std::collections::{BTreeMap, BTreeSet};

use dewar_auth::User;
use dewar_catalog::Actor;
use dewar_catalog::record::{ContentCopy, DisplayedChecksum, ETag, Extent, FileRecord};
use dewar_checksum::DigestSet;
use dewar_disks::salvage_header::{PartOf, SalvageHeader};
use dewar_disks::segment::SegmentRecord;
use dewar_iam::NewUser;
use dewar_namespace::{
    Bucket, CopyOptions, DataChanges, NewBucket, NewPart, NewUpload, NewVersion, VersionAttributes,
    WriteCondition,
};
use dewar_store::Store;
use dewar_types::{
    BlobId, BucketName, Error, ErrorKind, ObjectKey, PoolId, Result, TenantName, Timestamp, UserId,
    VersionId,
};
use parking_lot::Mutex;

use super::report::{Finding, SalvageReporter, SalvageTotals};

/// The actor in the change log. Uploads that a salvage opened are recognised by it.
pub(super) const PRINCIPAL: &str = "salvage";

/// Contents for whose path there is a newer one.
pub const KEPT_BUCKET: &str = "dewar-salvaged";

/// The owner of [`KEPT_BUCKET`].
pub const KEPT_USER: &str = "dewar-salvage";

/// Blobs of which it is remembered whether they can be read.
const REMEMBERED_MAX: usize = 100_000;

/// A path at writing, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginalPath {
    pub(super) tenant: TenantName,
    pub(super) bucket: BucketName,
    pub(super) key: ObjectKey,
}

impl OriginalPath {
    pub(super) fn of(path: &str) -> Result<Self> {
        let no = || Error::new(ErrorKind::InvalidName, format!("{path:?} is no path"));
        let rest = path.strip_prefix('/').ok_or_else(no)?;
        let (tenant, rest) = match rest.strip_prefix('@') {
            Some(named) => named.split_once('/').ok_or_else(no)?,
            None => ("", rest),
        };
        let (bucket, key) = rest.split_once('/').ok_or_else(no)?;
        Ok(Self {
            tenant: TenantName::new(tenant)?,
            bucket: BucketName::new(bucket)?,
            key: ObjectKey::new(key)?,
        })
    }
}

/// A content and where its bytes are.
pub(super) struct SalvagedContent<'a> {
    pub(super) description: &'a SalvageHeader,
    pub(super) extent: Extent,
    /// The number of the main pool.
    pub(super) main: u16,
    /// Records of a large blob.
    pub(super) extra: DataChanges,
}

impl SalvagedContent<'_> {
    fn copies(&self) -> Vec<ContentCopy> {
        vec![ContentCopy {
            pool: PoolId(self.description.pool.unwrap_or(self.main).into()),
            extents: vec![self.extent],
            ..ContentCopy::default()
        }]
    }
}

type BucketKey = (String, String);

/// Gives names, and reports each before it does.
pub(super) struct NameRestorer<'r> {
    pub(super) store: &'r Store,
    /// Whether anything is changed.
    write: bool,
    users: Mutex<BTreeSet<UserId>>,
    buckets: Mutex<BTreeMap<BucketKey, Option<Bucket>>>,
    kept: Mutex<Option<Bucket>>,
    /// Without writing: the newest version seen for a path, by a hash of it.
    newest: Mutex<BTreeMap<u64, VersionId>>,
    readable: Mutex<BTreeMap<BlobId, bool>>,
    teller: Mutex<SalvageReporter<'r>>,
}

impl<'r> NameRestorer<'r> {
    pub(super) async fn new(
        store: &'r Store,
        write: bool,
        teller: SalvageReporter<'r>,
    ) -> Result<Self> {
        let users = store.accounts().users().await?;
        Ok(Self {
            users: Mutex::new(users.into_iter().map(|user| user.id).collect()),
            store,
            write,
            buckets: Mutex::default(),
            kept: Mutex::default(),
            newest: Mutex::default(),
            readable: Mutex::default(),
            teller: Mutex::new(teller),
        })
    }

    /// Tells what belongs together.
    pub(super) fn tell(&self, findings: &[Finding]) {
        self.teller.lock().tell(findings);
    }

    /// Reports that a blob is inspected.
    pub(super) fn looks_at(&self, blob: BlobId) {
        self.teller.lock().looks_at(blob);
    }

    /// The counts of the reports.
    pub(super) fn totals(&self) -> SalvageTotals {
        self.teller.lock().totals
    }

    /// Creates the owner and the bucket of a content if they do not exist. Only one call may run at
    /// a time.
    pub(super) async fn prepare(&self, description: &SalvageHeader) -> Result<()> {
        let place = OriginalPath::of(&description.path)?;
        let owner = UserId(description.owner);
        let name = format!("salvaged-{owner}");
        if self.users.lock().insert(owner) {
            self.tell(&[Finding::User { name: name.clone() }]);
            if self.write {
                let new = NewUser {
                    name,
                    tenant: place.tenant.clone(),
                    ..NewUser::default()
                };
                match self.store.accounts().add_user_with(owner, new).await {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let known = (
            place.tenant.as_str().to_owned(),
            place.bucket.as_str().to_owned(),
        );
        if self.buckets.lock().contains_key(&known) {
            return Ok(());
        }
        let tree = self.store.tree();
        let actor = actor(owner);
        let tenant = match tree.catalog().tenant(&place.tenant).await? {
            Some(tenant) => Some(tenant),
            None if self.write => Some(tree.catalog().create_tenant(&actor, &place.tenant).await?),
            None => None,
        };
        let found = match &tenant {
            Some(tenant) => tree.bucket(tenant, &place.bucket).await?,
            None => None,
        };
        if found.is_none() {
            let path = bucket_path(&place);
            self.tell(&[Finding::Bucket { path }]);
        }
        let bucket = match (found, &tenant) {
            (Some(bucket), _) => Some(bucket),
            (None, Some(tenant)) if self.write => {
                let new = NewBucket::default();
                let made = tree
                    .create_bucket(&actor, tenant, &place.bucket, new)
                    .await?;
                Some(made)
            }
            (None, _) => None,
        };
        self.buckets.lock().insert(known, bucket);
        Ok(())
    }

    /// The bucket of a path; `None` where it would have to be made first.
    fn bucket(&self, place: &OriginalPath) -> Option<Bucket> {
        let key = (
            place.tenant.as_str().to_owned(),
            place.bucket.as_str().to_owned(),
        );
        self.buckets.lock().get(&key).cloned().flatten()
    }

    /// Gives an object, or a part, its name. Returns whether a name leads to exactly these bytes
    /// then.
    pub(super) async fn place(&self, content: &SalvagedContent<'_>) -> Result<bool> {
        let place = OriginalPath::of(&content.description.path)?;
        match content.description.part {
            Some(part) => self.part(&place, content, part).await,
            None => self.object(&place, content).await,
        }
    }

    async fn object(&self, place: &OriginalPath, content: &SalvagedContent<'_>) -> Result<bool> {
        let d = content.description;
        let Some(bucket) = self.bucket(place) else {
            return Ok(self.dry(content));
        };
        let tree = self.store.tree();
        let Some(found) = tree.lookup(&bucket, &place.key).await? else {
            if !self.write {
                return Ok(self.dry(content));
            }
            self.tell(&[put(d)]);
            self.publish(&bucket, &place.key, content).await?;
            return Ok(true);
        };
        let current = &found.current;
        if current.id == d.version {
            let extents = tree.extents(current, 0).await?;
            let here = extents.as_ref() == [content.extent];
            if here || self.is_readable(&extents).await? {
                self.tell(&[known(d)]);
                return Ok(here);
            }
            self.tell(&[put(d)]);
            if self.write {
                let copies = content.copies();
                let moved = tree
                    .relocate(&bucket, &place.key, d.version, &copies, &content.extra)
                    .await?;
                if !moved {
                    let message = format!("{} changes while it is salvaged", d.path);
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
            }
            return Ok(true);
        }
        if current.id > d.version {
            return self.keep(content).await;
        }
        self.tell(&[displaced(&bucket, &place.key, &found), put(d)]);
        if !self.write {
            self.newest.lock().insert(hash(&d.path), d.version);
        } else {
            self.keep_current(&bucket, &place.key, &found).await?;
            self.publish(&bucket, &place.key, content).await?;
        }
        Ok(true)
    }

    /// The result for an object whose path does not exist yet.
    fn dry(&self, content: &SalvagedContent<'_>) -> bool {
        let d = content.description;
        let mut newest = self.newest.lock();
        let before = newest.get(&hash(&d.path)).copied();
        match before {
            Some(before) if before > d.version => self.tell(&[kept(d)]),
            Some(before) if before == d.version => {
                self.tell(&[known(d)]);
                return false;
            }
            Some(before) => {
                newest.insert(hash(&d.path), d.version);
                let older = Finding::Kept {
                    path: d.path.clone(),
                    version: before,
                    // Which one it was is not remembered in a dry run.
                    size: 0,
                    now: kept_path(&d.path, before),
                };
                self.tell(&[older, put(d)]);
            }
            None => {
                newest.insert(hash(&d.path), d.version);
                self.tell(&[put(d)]);
            }
        }
        true
    }

    async fn publish(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        content: &SalvagedContent<'_>,
    ) -> Result<()> {
        let d = content.description;
        let digests = d.digests.unwrap_or(DigestSet::ABSENT);
        let etag = etag_of(d);
        // Which checksum its writer announced is not known; one that nobody computes unasked was.
        let asked = digests.algorithms().iter().find(|algorithm| {
            use dewar_checksum::Algorithm::{Adler32, Crc32c, Md5};
            !matches!(algorithm, Adler32 | Crc32c | Md5)
        });
        let new = NewVersion {
            id: Some(d.version),
            attributes: attributes_of(d),
            modified: Some(Timestamp(d.version.clock())),
            checksum: asked.map(DisplayedChecksum::full),
            encryption: d.encryption.clone(),
            copies: content.copies(),
            ..NewVersion::new(d.size, etag, digests, Vec::new())
        };
        let none = WriteCondition::NONE;
        self.store
            .tree()
            .publish(
                &actor(UserId(d.owner)),
                (bucket, key).into(),
                new,
                &none,
                &content.extra,
            )
            .await?;
        Ok(())
    }

    /// Keeps a content in the bucket for contents without a path of their own.
    async fn keep(&self, content: &SalvagedContent<'_>) -> Result<bool> {
        let d = content.description;
        if !self.write {
            self.tell(&[kept(d)]);
            return Ok(true);
        }
        let bucket = self.kept_bucket().await?;
        let key = kept_key(&d.path, d.version)?;
        let tree = self.store.tree();
        if let Some(found) = tree.lookup(&bucket, &key).await? {
            let extents = tree.extents(&found.current, 0).await?;
            self.tell(&[known(d)]);
            return Ok(extents.as_ref() == [content.extent]);
        }
        self.tell(&[kept(d)]);
        self.publish(&bucket, &key, content).await?;
        Ok(true)
    }

    /// Keeps what a name holds before a newer content takes its place.
    async fn keep_current(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        found: &FileRecord,
    ) -> Result<()> {
        let current = &found.current;
        let to = kept_key(&bucket.path(key.as_str()), current.id)?;
        let kept = self.kept_bucket().await?;
        let tree = self.store.tree();
        if tree.lookup(&kept, &to).await?.is_none() {
            let options = CopyOptions {
                source_version: Some(current.id),
                ..CopyOptions::default()
            };
            let owner = actor(found.attributes.owner);
            tree.copy(&owner, (bucket, key).into(), (&kept, &to).into(), &options)
                .await?;
        }
        Ok(())
    }

    async fn kept_bucket(&self) -> Result<Bucket> {
        if let Some(bucket) = self.kept.lock().clone() {
            return Ok(bucket);
        }
        let (tree, accounts) = (self.store.tree(), self.store.accounts());
        let user: User = match accounts.user(KEPT_USER).await {
            Ok(user) => user,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let id = UserId(tree.ids().entry().await?.0);
                match accounts.add_user(id, KEPT_USER).await {
                    Ok(user) => user,
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        accounts.user(KEPT_USER).await?
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        let default = TenantName::default();
        let tenant =
            tree.catalog().tenant(&default).await?.ok_or_else(|| {
                Error::new(ErrorKind::Internal, "the default tenant is not there")
            })?;
        let name = BucketName::new(KEPT_BUCKET)?;
        let made = tree
            .create_bucket(&actor(user.id), &tenant, &name, NewBucket::default())
            .await;
        let bucket = match made {
            Ok(bucket) => bucket,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AlreadyOwned | ErrorKind::AlreadyExists
                ) =>
            {
                tree.bucket(&tenant, &name).await?.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        *self.kept.lock() = Some(bucket.clone());
        Ok(bucket)
    }

    async fn part(
        &self,
        place: &OriginalPath,
        content: &SalvagedContent<'_>,
        part: PartOf,
    ) -> Result<bool> {
        let d = content.description;
        let finding = Finding::Part {
            path: d.path.clone(),
            upload: part.upload,
            number: part.number,
            size: d.size,
        };
        let Some(bucket) = self.bucket(place) else {
            self.tell(&[finding]);
            return Ok(true);
        };
        let (tree, key) = (self.store.tree(), &place.key);
        if let Some(found) = tree.lookup(&bucket, key).await?
            && found.current.upload == Some(part.upload)
        {
            // A piece of what was joined already.
            let extents = tree.extents(&found.current, 0).await?;
            self.tell(&[known(d)]);
            return Ok(extents.contains(&content.extent));
        }
        if !self.write {
            self.tell(&[finding]);
            return Ok(true);
        }
        let owner = actor(UserId(d.owner));
        let new = NewUpload {
            attributes: attributes_of(d),
            encryption: d.encryption.clone(),
            ..NewUpload::default()
        };
        tree.adopt_upload(&owner, &bucket, key, part.upload, &new)
            .await?;
        let before = part.number.saturating_sub(1);
        let page = tree
            .list_parts(&bucket, key, part.upload, before, 1)
            .await?;
        let there = page.parts.iter().find(|(number, _)| *number == part.number);
        if let Some((_, there)) = there {
            if there.id == d.version {
                let extents = there.copies.first().map(|copy| &copy.extents[..]);
                self.tell(&[known(d)]);
                return Ok(extents == Some(&[content.extent][..]));
            }
            if there.id > d.version {
                return self.keep(content).await;
            }
        }
        let new = NewPart {
            id: Some(d.version),
            size: d.size,
            etag: etag_of(d),
            digests: d.digests.unwrap_or(DigestSet::ABSENT),
            copies: content.copies(),
            checksum: None,
        };
        self.tell(&[finding]);
        tree.put_part(&bucket, key, part.upload, part.number, &new, &content.extra)
            .await?;
        Ok(true)
    }

    /// Keeps the present content of a path under another key and reports it, for a newer object
    /// that replaces it.
    pub(super) async fn make_way(&self, bucket: &Bucket, key: &ObjectKey) -> Result<()> {
        if let Some(found) = self.store.tree().lookup(bucket, key).await? {
            self.tell(&[displaced(bucket, key, &found)]);
            self.keep_current(bucket, key, &found).await?;
        }
        Ok(())
    }

    /// Whether enough shards of all of these are on the disks.
    async fn is_readable(&self, extents: &[Extent]) -> Result<bool> {
        for extent in extents {
            let blob = extent.blob;
            if self.store.segments().is_unsealed(blob) {
                continue;
            }
            let remembered = self.readable.lock().get(&blob).copied();
            let readable = match remembered {
                Some(readable) => readable,
                None => {
                    let readable = self.has_shards(blob, extent.slot.is_some()).await?;
                    let mut all = self.readable.lock();
                    if all.len() >= REMEMBERED_MAX {
                        all.clear();
                    }
                    all.insert(blob, readable);
                    readable
                }
            };
            if !readable {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn has_shards(&self, blob: BlobId, segment: bool) -> Result<bool> {
        let table = self.store.disks().table();
        let record = if segment {
            let value = self.store.tree().catalog().segment_record(blob).await?;
            match value.map(|value| SegmentRecord::from_bytes(&value)) {
                None => None,
                Some(record) => match record? {
                    SegmentRecord::Whole { blob } => Some(blob),
                    SegmentRecord::Packed { blob, .. } => table.named(blob).await?,
                },
            }
        } else {
            table.named(blob).await?
        };
        let Some(record) = record else {
            return Ok(false);
        };
        let there = self.store.disks().blobs().files_of(&record).await;
        Ok(there >= usize::from(record.layout.k))
    }
}

/// The actor of a change.
pub(super) fn actor(user: UserId) -> Actor<'static> {
    Actor {
        user,
        principal: PRINCIPAL,
    }
}

fn etag_of(d: &SalvageHeader) -> ETag {
    let md5 = d.digests.and_then(|digests| digests.md5());
    match (&d.etag, md5) {
        (Some(etag), _) => etag.clone(),
        (None, Some(md5)) => ETag::Md5(md5),
        (None, None) => ETag::Version,
    }
}

fn put(d: &SalvageHeader) -> Finding {
    Finding::Put {
        path: d.path.clone(),
        version: d.version,
        size: d.size,
    }
}

fn known(d: &SalvageHeader) -> Finding {
    Finding::Known {
        path: d.path.clone(),
        version: d.version,
    }
}

fn kept(d: &SalvageHeader) -> Finding {
    Finding::Kept {
        path: d.path.clone(),
        version: d.version,
        size: d.size,
        now: kept_path(&d.path, d.version),
    }
}

/// The present content of a path that a newer content replaces.
/// What a description has of the attributes.
fn attributes_of(d: &SalvageHeader) -> VersionAttributes {
    VersionAttributes {
        headers: d.headers.clone(),
        metadata: d.metadata.clone(),
        ..VersionAttributes::default()
    }
}

fn displaced(bucket: &Bucket, key: &ObjectKey, found: &FileRecord) -> Finding {
    let (path, current) = (bucket.path(key.as_str()), &found.current);
    Finding::Kept {
        now: kept_path(&path, current.id),
        path,
        version: current.id,
        size: current.size,
    }
}

fn bucket_path(place: &OriginalPath) -> String {
    match place.tenant.is_default() {
        true => format!("/{}/", place.bucket.as_str()),
        false => format!("/@{}/{}/", place.tenant.as_str(), place.bucket.as_str()),
    }
}

/// The key under which a content is kept. A path that is too long is left out.
fn kept_key(path: &str, version: VersionId) -> Result<ObjectKey> {
    let full = format!("{}@{version}", path.trim_start_matches('/'));
    match ObjectKey::new(&full) {
        Ok(key) => Ok(key),
        Err(_) => Ok(ObjectKey::new(&format!("{version}"))?),
    }
}

fn kept_path(path: &str, version: VersionId) -> String {
    let key = kept_key(path, version);
    let key = key.as_ref().map_or("", ObjectKey::as_str);
    format!("/{KEPT_BUCKET}/{key}")
}

fn hash(path: &str) -> u64 {
    // FNV-1a: two paths of one hash only make a dry run count one object less.
    path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_as_they_were_put_together() {
        let place = OriginalPath::of("/data/a/b").expect("a path");
        assert!(place.tenant.is_default());
        assert_eq!((place.bucket.as_str(), place.key.as_str()), ("data", "a/b"));
        let place = OriginalPath::of("/@atlas/data//a").expect("a path");
        assert_eq!(place.tenant.as_str(), "atlas");
        assert_eq!((place.bucket.as_str(), place.key.as_str()), ("data", "/a"));
        for bad in ["", "/", "/data", "data/a", "/@atlas/data", "/UPPER/a"] {
            assert!(OriginalPath::of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_kept_has_a_name_that_fits() {
        let version = VersionId(7);
        let short = kept_key("/data/a", version).expect("a key");
        assert_eq!(short.as_str(), format!("data/a@{version}"));
        let long = format!("/data/{}", "k".repeat(1024));
        let key = kept_key(&long, version).expect("a key");
        assert_eq!(key.as_str(), version.to_string());
    }
}
