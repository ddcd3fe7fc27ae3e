//! Names of the claims of login tokens that policies, roles or rules use now.
//!
//! A session carries these at least. The names are read once from all bucket policies, groups, roles and
//! managed policies, and then again from those that changed. A name that is missed for a moment is no hole:
//! the claim may then not be kept, and conditions on it fail closed.
//!
//! Names count for the sessions of their own tenant. Each account may contribute so many ([`AuthorNames`]);
//! policies beyond that do not count, so that conditions of theirs fail closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::token::Issuer;
use dewar_auth::{
    BucketPolicy, IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind, STORED_POLICY_BYTES_MAX, User,
};
use dewar_catalog::keys as catalog;
use dewar_catalog::record::{DirRecord, DocumentKind, DocumentRecord, Record as _};
use dewar_kv::{Batch, Scan};
use dewar_types::{EntryId, Result, TenantId, UserId};

use super::Accounts;
use crate::claims::{ClaimLimits, ClaimRank};
use crate::record::{GROUP, GroupRecord, POLICY, PolicyRecord, ROLE, RoleRecord, decode};

/// Most different names that the policies of an account may contribute, and most bytes of them.
const ACCOUNT_NAMES_MAX: usize = 64;
const ACCOUNT_BYTES_MAX: usize = 4 * 1024;

/// The same of what the administrator wrote for a tenant.
const TENANT_NAMES_MAX: usize = 16 * 1024;
const TENANT_BYTES_MAX: usize = 1024 * 1024;

/// Most changed records that are read again one by one; beyond that all are.
const CHANGED_MAX: usize = 1024;

/// Most records of an author that are read again when it has contributed less.
const LEFT_OUT_MAX: usize = 256;

/// Records of a page while all are read.
const PAGE_RECORDS: usize = 64;

/// Kinds of identities whose policies are looked at. Those of users are their sessions' own to bring.
const KINDS: [u8; 3] = [GROUP, ROLE, POLICY];

/// Whose a record is. An account is two authors: of its identities and of its buckets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Author {
    /// A tenant, for what belongs to no account.
    Tenant(TenantId),
    /// An account by the name of its user, in lower case, as in the keys of the catalog.
    Account(TenantId, String),
    /// An account that owns buckets.
    BucketOwner(TenantId, UserId),
}

impl Author {
    /// That of a group, role or policy, by its key in the catalog.
    fn of_identity(key: &[u8]) -> Option<Self> {
        let (tenant, name) = key.get(2..)?.split_first_chunk()?;
        let tenant = TenantId(u64::from_be_bytes(*tenant));
        let name = String::from_utf8_lossy(name);
        Some(match name.split_once('/') {
            None => Self::Tenant(tenant),
            Some((root, _)) => Self::Account(tenant, root.to_owned()),
        })
    }

    fn tenant(&self) -> TenantId {
        match *self {
            Self::Tenant(tenant) | Self::Account(tenant, _) | Self::BucketOwner(tenant, _) => {
                tenant
            }
        }
    }
}

/// The names, by whose records name them.
#[derive(Default)]
pub(super) struct ClaimNames {
    /// Nothing until they are needed.
    known: tokio::sync::Mutex<Option<NamesByAuthor>>,
    /// Records that have changed, with whose they are.
    changed: parking_lot::Mutex<BTreeMap<Bytes, Author>>,
}

#[derive(Default)]
struct NamesByAuthor {
    authors: BTreeMap<TenantId, BTreeMap<Author, AuthorNames>>,
    /// Whose each record is that counts, or that an author has left out.
    records: BTreeMap<Bytes, Author>,
}

/// What the records of one author name.
#[derive(Default)]
struct AuthorNames {
    /// Each name with the number of records that name it.
    names: BTreeMap<Arc<str>, usize>,
    /// Bytes of these names.
    bytes: usize,
    records: BTreeMap<Bytes, Vec<Arc<str>>>,
    /// Records that cannot be read: they may name any claim.
    opaque: BTreeSet<Bytes>,
    /// Records that are beyond the author's share.
    left_out: BTreeSet<Bytes>,
}

impl AuthorNames {
    /// Takes a record's names up, if the author has a share left for them.
    fn put(&mut self, key: Bytes, names: BTreeSet<String>, names_max: usize, bytes_max: usize) {
        let new = names
            .iter()
            .filter(|name| !self.names.contains_key(name.as_str()));
        let (count, bytes) = new.fold((0, 0), |(count, bytes), name| {
            (count + 1, bytes + name.len())
        });
        if self.names.len() + count > names_max || self.bytes + bytes > bytes_max {
            if self.left_out.len() < LEFT_OUT_MAX {
                self.left_out.insert(key);
            }
            return;
        }
        self.bytes += bytes;
        let mut shared = Vec::with_capacity(names.len());
        for name in names {
            let known = self.names.get_key_value(name.as_str());
            let name = known.map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
            *self.names.entry(Arc::clone(&name)).or_default() += 1;
            shared.push(name);
        }
        self.records.insert(key, shared);
    }

    /// Forgets a record. True where something has become free.
    fn remove(&mut self, key: &Bytes) -> bool {
        self.opaque.remove(key);
        self.left_out.remove(key);
        let mut freed = false;
        for name in self.records.remove(key).unwrap_or_default() {
            let Some(count) = self.names.get_mut(&name) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.names.remove(&name);
                self.bytes -= name.len();
                freed = true;
            }
        }
        freed
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.opaque.is_empty() && self.left_out.is_empty()
    }
}

/// What a session is asked for by name.
#[derive(Debug, Default)]
pub(super) struct ReferencedClaims {
    /// Without provider: what the session must carry.
    required: BTreeSet<String>,
    /// The same of what other accounts of the tenant name.
    optional: BTreeSet<String>,
    /// Others may be named too, where nobody can read it.
    others: bool,
}

impl ReferencedClaims {
    pub(super) fn rank_of(&self, name: &str) -> ClaimRank {
        if self.required.contains(name) {
            ClaimRank::Required
        } else if self.optional.contains(name) {
            ClaimRank::Optional
        } else {
            ClaimRank::Unnamed
        }
    }

    /// How much a session keeps.
    pub(super) fn limits(&self) -> ClaimLimits {
        let sealed = ClaimLimits::SEALED;
        ClaimLimits {
            all: if self.others {
                sealed.named
            } else {
                sealed.all
            },
            ..sealed
        }
    }

    /// Adds what a policy of the session itself names.
    pub(super) fn add_policy(&mut self, issuer: &Issuer, text: &str) {
        match Policy::parse(text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX) {
            Ok(policy) => self.required.extend(bare(issuer.name(), policy.claims())),
            Err(_) => self.others = true,
        }
    }
}

/// The names that are of this provider, without it.
fn bare<'a>(
    provider: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = String> {
    let names = names.into_iter();
    names.filter_map(move |name| Some(name.strip_prefix(provider)?.strip_prefix(':')?.to_owned()))
}

impl ClaimNames {
    /// Records that a batch of changes touches.
    pub(super) fn touched(batch: &Batch) -> Vec<Bytes> {
        let keys = batch.puts.iter().map(|(key, _)| key).chain(&batch.deletes);
        let ours = |key: &&Bytes| {
            let ranges = KINDS.map(kind_range);
            ranges
                .iter()
                .any(|range| range.from <= **key && **key < range.to)
        };
        keys.filter(ours).cloned().collect()
    }

    /// Notes that records of identities have changed, or may have.
    pub(super) fn note(&self, touched: Vec<Bytes>) {
        for key in touched {
            if let Some(author) = Author::of_identity(&key) {
                self.note_record(key, author);
            }
        }
    }

    fn note_record(&self, key: Bytes, author: Author) {
        let mut changed = self.changed.lock();
        // One more says that there were too many.
        if changed.len() <= CHANGED_MAX {
            changed.insert(key, author);
        }
    }
}

impl NamesByAuthor {
    fn author(&mut self, author: &Author) -> &mut AuthorNames {
        let authors = self.authors.entry(author.tenant()).or_default();
        authors.entry(author.clone()).or_default()
    }

    /// Forgets a record. Gives those that were left out and may fit now, with whose they are.
    fn remove(&mut self, key: &Bytes) -> Option<(Author, BTreeSet<Bytes>)> {
        let author = self.records.remove(key)?;
        let names = self.author(&author);
        let freed = names.remove(key);
        let left_out = freed.then(|| std::mem::take(&mut names.left_out));
        if names.is_empty()
            && let Some(authors) = self.authors.get_mut(&author.tenant())
        {
            authors.remove(&author);
            if authors.is_empty() {
                self.authors.remove(&author.tenant());
            }
        }
        Some((author, left_out.unwrap_or_default()))
    }

    fn put(&mut self, key: Bytes, author: Author, value: &Bytes) {
        let (names_max, bytes_max) = match author {
            Author::Tenant(_) => (TENANT_NAMES_MAX, TENANT_BYTES_MAX),
            Author::Account(..) | Author::BucketOwner(..) => (ACCOUNT_NAMES_MAX, ACCOUNT_BYTES_MAX),
        };
        match names_in(&key, value) {
            Ok(names) if names.is_empty() => return,
            Ok(names) => self
                .author(&author)
                .put(key.clone(), names, names_max, bytes_max),
            Err(_) => {
                self.author(&author).opaque.insert(key.clone());
            }
        }
        self.records.insert(key, author);
    }
}

fn kind_range(kind: u8) -> catalog::KeyRange {
    catalog::KeyRange::prefix(catalog::user_by(kind, b""))
}

/// The claims that a record names.
fn names_in(key: &Bytes, value: &Bytes) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut add = |policy: &Policy| names.extend(policy.claims().map(str::to_owned));
    let parsed = |text: &str, kind| {
        Policy::parse(text, kind, STORED_POLICY_BYTES_MAX).map_err(|error| {
            dewar_types::Error::with_source(dewar_types::ErrorKind::Corrupt, "a policy", error)
        })
    };
    let identity = PolicyKind::Identity;
    if let Ok((_, kind)) = catalog::parse_document(key) {
        if kind == DocumentKind::Policy as u8 {
            let record = DocumentRecord::from_value(key, value)?;
            add(&BucketPolicy::from_bytes(&record.content)?.policy);
        }
        return Ok(names);
    }
    match key.get(1) {
        Some(&GROUP) => {
            for text in decode::<GroupRecord>(value)?.held.inline.values() {
                add(&parsed(text, identity)?);
            }
        }
        Some(&ROLE) => {
            let record: RoleRecord = decode(value)?;
            add(&parsed(&record.trust, PolicyKind::Trust)?);
            for text in record.held.inline.values() {
                add(&parsed(text, identity)?);
            }
        }
        Some(&POLICY) => {
            let record: PolicyRecord = decode(value)?;
            if let Some(version) = record.versions.get(&record.default) {
                add(&parsed(&version.text, identity)?);
            }
        }
        _ => {}
    }
    Ok(names)
}

impl Accounts {
    /// The claims of an issuer's tokens that something names now: policies of buckets, groups and roles of
    /// the tenant, trusts, managed policies, the issuer's rules, and the policies of who gets the session.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn named_claims(
        &self,
        issuer: &Issuer,
        user: &User,
    ) -> Result<ReferencedClaims> {
        let provider = issuer.name();
        let tenant = self.tenant_id(&user.tenant).await?;
        let mut named = ReferencedClaims::default();
        let own = &mut named.required;
        own.insert("sub".to_owned());
        own.extend(issuer.rules.iter().map(|rule| rule.claim.clone()));
        for policy in user.policies.iter() {
            own.extend(bare(provider, policy.policy.claims()));
        }
        let root = user.name.split('/').next().unwrap_or_default();
        let authors = [
            Author::Tenant(tenant),
            Author::Account(tenant, root.to_ascii_lowercase()),
            Author::BucketOwner(tenant, user.account),
        ];
        let mut known = self.claim_names.known.lock().await;
        let by_author = self.names_by_author(&mut known).await?;
        for (author, all) in by_author.authors.get(&tenant).into_iter().flatten() {
            let names = bare(provider, all.names.keys().map(|name| &**name));
            match authors.contains(author) {
                true => named.required.extend(names),
                false => named.optional.extend(names),
            }
            named.others |= !all.opaque.is_empty();
        }
        Ok(named)
    }

    /// Notes that the policy of a bucket has changed, or may have.
    pub fn bucket_policy_changed(&self, tenant: TenantId, owner: UserId, bucket: EntryId) {
        let key = catalog::document(bucket, DocumentKind::Policy as u8);
        let author = Author::BucketOwner(tenant, owner);
        self.claim_names.note_record(key, author);
    }

    async fn names_by_author<'a>(
        &self,
        known: &'a mut Option<NamesByAuthor>,
    ) -> Result<&'a NamesByAuthor> {
        let mut changed = std::mem::take(&mut *self.claim_names.changed.lock());
        let mut by_author = match known.take() {
            Some(by_author) if changed.len() <= CHANGED_MAX => by_author,
            _ => return Ok(known.insert(self.read_claim_names().await?)),
        };
        // If the catalog fails here, nothing is known any more, and all is read again.
        while let Some((key, author)) = changed.pop_first() {
            let value = self.catalog.kv().get(&key).await?.value;
            if let Some((whose, left_out)) = by_author.remove(&key) {
                changed.extend(left_out.into_iter().map(|key| (key, whose.clone())));
            }
            if let Some(value) = value {
                by_author.put(key, author, &value);
            }
        }
        Ok(known.insert(by_author))
    }

    async fn read_claim_names(&self) -> Result<NamesByAuthor> {
        let mut by_author = NamesByAuthor::default();
        let mut owners = self.bucket_owners().await?;
        let snapshot = self.catalog.kv().snapshot();
        // Policies come first among the documents of a bucket, so the rest of each is skipped.
        let documents = catalog::all_documents();
        let mut from = documents.from.clone();
        loop {
            let scan = Scan {
                from: &from,
                to: &documents.to,
                limit: 1,
                reverse: false,
            };
            let Some((key, value)) = snapshot.scan(scan).await?.pairs.pop() else {
                break;
            };
            let (bucket, _) = catalog::parse_document(&key)?;
            // A bucket that was made meanwhile is noted as changed when it gets a policy.
            if let Some(owner) = owners.remove(&bucket) {
                by_author.put(key, owner, &value);
            }
            from = catalog::documents(bucket).to;
        }
        for kind in KINDS {
            let range = kind_range(kind);
            let mut from = range.from.clone();
            loop {
                let scan = Scan {
                    from: &from,
                    to: &range.to,
                    limit: PAGE_RECORDS,
                    reverse: false,
                };
                let page = snapshot.scan(scan).await?;
                let Some((last, _)) = page.pairs.last() else {
                    break;
                };
                from = catalog::just_after(last);
                for (key, value) in page.pairs {
                    if let Some(author) = Author::of_identity(&key) {
                        by_author.put(key, author, &value);
                    }
                }
                if !page.more {
                    break;
                }
            }
        }
        Ok(by_author)
    }

    /// Whose the buckets are of all tenants.
    async fn bucket_owners(&self) -> Result<BTreeMap<EntryId, Author>> {
        let mut owners = BTreeMap::new();
        for tenant in self.catalog.tenants().await? {
            for (key, value) in self.all(&catalog::entries(tenant.root())).await? {
                let attributes = DirRecord::from_value(&key, &value)?.attributes;
                let owner = Author::BucketOwner(tenant.id, attributes.owner);
                owners.insert(attributes.id, owner);
            }
        }
        Ok(owners)
    }
}
