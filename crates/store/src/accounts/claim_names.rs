//! Which claims of login tokens some policy, role or rule names now.
//!
//! A session carries these at least. The names are read once from all bucket policies, groups, roles and
//! managed policies, and then again from those that changed. A name that is missed for a moment is no hole:
//! the claim may then not be kept, and conditions on it fail closed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_auth::token::Issuer;
use dewar_auth::{IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind, User};
use dewar_meta::kv::{Batch, Scan};
use dewar_meta::ns::keys as catalog;
use dewar_meta::ns::record::{DocumentRecord, Record as _};
use dewar_types::{EntryId, Result};

use super::claims::ClaimLimits;
use super::record::{GroupRecord, PolicyRecord, RoleRecord, decode};
use super::{Accounts, GROUP, POLICY, ROLE};
use crate::access::PolicyDocument;
use crate::document::{Document as _, DocumentKind};

/// Most bytes of names that are remembered. Beyond that sessions keep more of what nothing is known to name.
const NAMES_BYTES_MAX: usize = 1024 * 1024;

/// Most changed records that are read again one by one; beyond that all are.
const CHANGED_MAX: usize = 1024;

/// Records of a page while all are read.
const PAGE_RECORDS: usize = 64;

/// Kinds of identities whose policies are looked at. Those of users are their sessions' own to bring.
const KINDS: [u8; 3] = [GROUP, ROLE, POLICY];

/// The names, by the record that names them.
#[derive(Default)]
pub(super) struct ClaimNames {
    /// Nothing until they are needed.
    known: tokio::sync::Mutex<Option<NamesByRecord>>,
    changed: parking_lot::Mutex<BTreeSet<Bytes>>,
}

#[derive(Default)]
struct NamesByRecord {
    names: BTreeMap<Bytes, BTreeSet<String>>,
    /// Records that cannot be read, or have no room here: they may name any claim.
    opaque: BTreeSet<Bytes>,
    bytes: usize,
}

/// What a session is asked for by name.
#[derive(Debug, Default)]
pub(super) struct NamedClaims {
    /// Without provider.
    names: BTreeSet<String>,
    /// Others may be named too, where nobody can read it.
    others: bool,
}

impl NamedClaims {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
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

    /// Adds those of this provider.
    fn add<'a>(&mut self, provider: &str, names: impl IntoIterator<Item = &'a str>) {
        let names = names.into_iter();
        let bare = names.filter_map(|name| name.strip_prefix(provider)?.strip_prefix(':'));
        self.names.extend(bare.map(str::to_owned));
    }

    /// Adds what a policy of the session itself names.
    pub(super) fn add_policy(&mut self, issuer: &Issuer, text: &str) {
        match Policy::parse(text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX) {
            Ok(policy) => self.add(issuer.name(), policy.claims()),
            Err(_) => self.others = true,
        }
    }
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

    /// Notes that records have changed, or may have.
    pub(super) fn note(&self, touched: Vec<Bytes>) {
        let mut changed = self.changed.lock();
        for key in touched {
            // One more says that there were too many.
            if changed.len() <= CHANGED_MAX {
                changed.insert(key);
            }
        }
    }
}

impl NamesByRecord {
    fn remove(&mut self, key: &Bytes) {
        let gone = self.names.remove(key).unwrap_or_default();
        self.bytes -= gone.iter().map(String::len).sum::<usize>();
        self.opaque.remove(key);
    }

    fn put(&mut self, key: Bytes, value: &Bytes) {
        self.remove(&key);
        let names = names_in(&key, value);
        let bytes = names.iter().flatten().map(String::len).sum::<usize>();
        match names {
            Ok(names) if names.is_empty() => {}
            Ok(names) if self.bytes + bytes <= NAMES_BYTES_MAX => {
                self.bytes += bytes;
                self.names.insert(key, names);
            }
            Ok(_) | Err(_) => {
                self.opaque.insert(key);
            }
        }
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
        Policy::parse(text, kind, IDENTITY_POLICY_BYTES_MAX).map_err(|error| {
            dewar_types::Error::with_source(dewar_types::ErrorKind::Corrupt, "a policy", error)
        })
    };
    let identity = PolicyKind::Identity;
    if let Ok((_, kind)) = catalog::parse_document(key) {
        if kind == DocumentKind::Policy as u8 {
            let record = DocumentRecord::from_value(key, value)?;
            add(&PolicyDocument::from_bytes(&record.content)?.policy);
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
    /// The claims of an issuer's tokens that something names now: policies of buckets, groups and roles,
    /// trusts, managed policies, the issuer's rules, and the policies of who gets the session.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn named_claims(&self, issuer: &Issuer, user: &User) -> Result<NamedClaims> {
        let provider = issuer.name();
        let mut named = NamedClaims::default();
        named.names.insert("sub".to_owned());
        let rules = issuer.rules.iter().map(|rule| rule.claim.clone());
        named.names.extend(rules);
        for policy in user.policies.iter() {
            named.add(provider, policy.policy.claims());
        }
        let mut known = self.claim_names.known.lock().await;
        let by_record = self.names_by_record(&mut known).await?;
        for names in by_record.names.values() {
            named.add(provider, names.iter().map(String::as_str));
        }
        named.others |= !by_record.opaque.is_empty();
        Ok(named)
    }

    /// Notes that the policy of a bucket has changed, or may have.
    pub(crate) fn bucket_policy_changed(&self, bucket: EntryId) {
        let key = catalog::document(bucket, DocumentKind::Policy as u8);
        self.claim_names.note(vec![key]);
    }

    async fn names_by_record<'a>(
        &self,
        known: &'a mut Option<NamesByRecord>,
    ) -> Result<&'a NamesByRecord> {
        let changed = std::mem::take(&mut *self.claim_names.changed.lock());
        let mut by_record = match known.take() {
            Some(by_record) if changed.len() <= CHANGED_MAX => by_record,
            _ => return Ok(known.insert(self.read_claim_names().await?)),
        };
        // If the catalog fails here, nothing is known any more, and all is read again.
        for key in changed {
            match self.kv.get(&key).await?.value {
                Some(value) => by_record.put(key, &value),
                None => by_record.remove(&key),
            }
        }
        Ok(known.insert(by_record))
    }

    async fn read_claim_names(&self) -> Result<NamesByRecord> {
        let mut by_record = NamesByRecord::default();
        let snapshot = self.kv.snapshot();
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
            by_record.put(key, &value);
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
                    by_record.put(key, &value);
                }
                if !page.more {
                    break;
                }
            }
        }
        Ok(by_record)
    }
}
