//! Cache of looked-up keys, users, sessions, tokens, issuers and revocations.
//!
//! Each entry names the accounts by whose records it was decided. A change of an account clears what
//! names it, and nothing else; a change of something that is no account's clears everything.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use dewar_auth::token::Issuer;
use dewar_auth::{AccessKey, Bounds, User};
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{Timestamp, UserId};

use crate::record::{BY_EMAIL, BY_ID, GROUP, GROUP_BY_ID, KEYS_BY_USER, POLICY, ROLE};
use crate::token_digest::Digest;

/// Access keys kept unwrapped; a miss costs a catalog read and an AES-GCM.
const CACHED_MAX: usize = 10_000;

/// Most bytes of tokens that are remembered, as they came. What is kept of one is up to seven times
/// as large: who has a macaroon can make any number of others, full of caveats, by himself.
const REMEMBERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Changes that are remembered, so that what was read before one is not kept after it.
const CHANGES_REMEMBERED: usize = 256;

/// An account, by the name of the user whose it is, in lower case; of all tenants that have one of
/// that name. Empty for what belongs to a tenant and no account.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AccountScope(Arc<str>);

impl AccountScope {
    /// The account of a user: `ann`, of `ann` and of `ann/robot`.
    pub(crate) fn of_user(name: &str) -> Self {
        let root = name.split_once('/').map_or(name, |(root, _)| root);
        Self(root.to_ascii_lowercase().into())
    }

    /// The account of a group, role or policy: `ann` of `ann/readers`; that of a tenant has none.
    pub(crate) fn of_entity(name: &str) -> Self {
        let root = name.split_once('/').map_or("", |(root, _)| root);
        Self(root.to_ascii_lowercase().into())
    }
}

/// What a change may have changed for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    /// Anything.
    All,
    /// What was decided by records of these accounts, and what these access keys are.
    Some(Vec<AccountScope>, Vec<String>),
}

impl Invalidation {
    /// What a batch changes.
    pub(crate) fn by(batch: &Batch) -> Self {
        let (mut scopes, mut ids) = (Vec::new(), Vec::new());
        let mut places = false;
        let puts = batch.puts.iter().map(|(key, _)| key);
        for key in puts.chain(&batch.deletes) {
            match changed_by(key) {
                ChangedRecord::Nothing => {}
                ChangedRecord::IdIndex => places = true,
                ChangedRecord::Account(scope) => scopes.push(scope),
                ChangedRecord::Key(id) => ids.push(id),
                ChangedRecord::Anything => return Self::All,
            }
        }
        match places && scopes.is_empty() {
            true => Self::All,
            false => Self::Some(scopes, ids),
        }
    }

    /// Whether records of accounts have changed, by which an issuer's rules are read.
    fn is_of_records(&self) -> bool {
        match self {
            Self::All => true,
            Self::Some(scopes, _) => !scopes.is_empty(),
        }
    }

    fn concerns(&self, scopes: &[AccountScope], key: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Some(changed, keys) => {
                let id = key.is_some_and(|key| keys.iter().any(|id| id == key));
                id || changed.iter().any(|scope| scopes.contains(scope))
            }
        }
    }
}

enum ChangedRecord {
    Nothing,
    Account(AccountScope),
    Key(String),
    /// By what a record is found, which is written together with the record.
    IdIndex,
    Anything,
}

/// What depends on a record of the catalog, by its key.
fn changed_by(key: &Bytes) -> ChangedRecord {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let users = catalog::all_users().from;
    let keys = catalog::access_keys().from;
    // Behind the kind and the tenant's id.
    let name = |from: usize| key.get(from..).map(text).unwrap_or_default();
    let id_len = size_of::<u64>();
    if key.starts_with(&users) {
        return ChangedRecord::Account(AccountScope::of_user(&name(users.len() + id_len)));
    }
    if key.starts_with(&keys) {
        return ChangedRecord::Key(name(keys.len()));
    }
    let of_kind = |kind| key.starts_with(&catalog::user_by(kind, b""));
    if [GROUP, ROLE, POLICY].into_iter().any(of_kind) {
        let scope = AccountScope::of_entity(&name(2 + id_len));
        return match scope.0.is_empty() {
            true => ChangedRecord::Anything,
            false => ChangedRecord::Account(scope),
        };
    }
    if of_kind(KEYS_BY_USER) {
        return ChangedRecord::Nothing;
    }
    match [BY_ID, BY_EMAIL, GROUP_BY_ID].into_iter().any(of_kind) {
        true => ChangedRecord::IdIndex,
        false => ChangedRecord::Anything,
    }
}

/// When a cache entry was used last. Copies are of the same entry.
#[derive(Clone)]
pub(crate) struct LastUse(Arc<AtomicU64>);

impl LastUse {
    /// Of an entry that is new.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Notes that the entry is used now.
    pub(crate) fn note(&self, now: Timestamp) {
        self.0.store(now.0, Relaxed);
    }

    fn is_before(&self, time: Timestamp) -> bool {
        self.0.load(Relaxed) < time.0
    }
}

/// An access key, with whose user it is.
pub(crate) struct CachedKey {
    pub(crate) key: AccessKey,
    pub(crate) scopes: Arc<[AccountScope]>,
    pub(crate) last_use: LastUse,
}

/// A user, with the accounts by whose records its policies were decided.
#[derive(Clone)]
pub(crate) struct CachedUser {
    pub(crate) user: Arc<User>,
    pub(crate) scopes: Arc<[AccountScope]>,
    pub(crate) last_use: LastUse,
}

impl CachedUser {
    /// A user that was just read, with the accounts by whose records its policies were decided.
    pub(crate) fn new((user, scopes): (User, Vec<AccountScope>), now: Timestamp) -> Self {
        Self {
            user: Arc::new(user),
            scopes: scopes.into(),
            last_use: LastUse::at(now),
        }
    }
}

/// A session that was opened.
#[derive(Clone)]
pub(crate) struct CachedSession {
    pub(crate) key: AccessKey,
    pub(crate) expires: Timestamp,
    /// Accounts by whose records it was decided.
    pub(crate) scopes: Arc<[AccountScope]>,
    pub(crate) last_use: LastUse,
}

/// Tokens that were proven lately.
#[derive(Default)]
pub(crate) struct BearerCache {
    /// With the length of each.
    found: BTreeMap<Digest, (CachedBearer, usize)>,
    bytes: usize,
}

impl BearerCache {
    pub(crate) fn get(&self, digest: &Digest) -> Option<&CachedBearer> {
        self.found.get(digest).map(|(bearer, _)| bearer)
    }

    pub(crate) fn insert(&mut self, digest: Digest, bearer: CachedBearer, bytes: usize) {
        if self.found.len() >= CACHED_MAX || self.bytes + bytes > REMEMBERED_BYTES_MAX {
            *self = Self::default();
        }
        self.remove(&digest);
        self.bytes += bytes;
        self.found.insert(digest, (bearer, bytes));
    }

    pub(crate) fn remove(&mut self, digest: &Digest) -> Option<CachedBearer> {
        let (bearer, bytes) = self.found.remove(digest)?;
        self.bytes -= bytes;
        Some(bearer)
    }

    /// Takes out some, by the user, the scopes and the last use.
    fn extract(&mut self, which: impl Fn(&User, &[AccountScope], &LastUse) -> bool) -> Self {
        let taken = self.found.extract_if(.., |_, (one, _)| {
            which(&one.user, &one.scopes, &one.last_use)
        });
        let taken = Self {
            found: taken.collect(),
            bytes: 0,
        };
        self.bytes = self.found.values().map(|(_, bytes)| bytes).sum();
        taken
    }
}

/// A token that was proven.
#[derive(Clone)]
pub(crate) struct CachedBearer {
    pub(crate) user: Arc<User>,
    pub(crate) bounds: Arc<Bounds>,
    /// Accounts by whose records it was decided.
    pub(crate) scopes: Arc<[AccountScope]>,
    pub(crate) last_use: LastUse,
}

/// See the module.
#[derive(Default)]
pub(crate) struct AccountCache {
    pub(crate) keys: BTreeMap<String, CachedKey>,
    pub(crate) users: BTreeMap<UserId, CachedUser>,
    pub(crate) issuers: Option<Arc<BTreeMap<String, Arc<Issuer>>>>,
    pub(crate) revoked: Option<Arc<BTreeMap<String, Timestamp>>>,
    pub(crate) sessions: BTreeMap<Digest, CachedSession>,
    pub(crate) bearers: BearerCache,
    /// Changes so far.
    pub(crate) changes: u64,
    /// The last of them, the newest at the end.
    recent: VecDeque<Invalidation>,
}

/// What was taken out of the cache, to be dropped when its lock is not held.
pub(crate) struct EvictedEntries {
    _keys: Vec<CachedKey>,
    _users: Vec<CachedUser>,
    _sessions: Vec<CachedSession>,
    _bearers: BearerCache,
}

impl AccountCache {
    /// Something was changed: what depends on it is looked up anew.
    #[must_use]
    pub(crate) fn forget(&mut self, change: Invalidation) -> EvictedEntries {
        self.changes += 1;
        let dropped = self.drop_entries(&change);
        if change == Invalidation::All {
            self.revoked = None;
        }
        if change.is_of_records() {
            // Their rules name users and groups of any account.
            self.issuers = None;
        }
        if self.recent.len() >= CHANGES_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(change);
        dropped
    }

    fn drop_entries(&mut self, change: &Invalidation) -> EvictedEntries {
        self.extract(|id, _, scopes, _| change.concerns(scopes, id))
    }

    /// Takes out the entries of an account's users and roles.
    #[must_use]
    pub(crate) fn evict_account(&mut self, account: UserId) -> EvictedEntries {
        self.extract(|_, user, _, _| user.account == account)
    }

    /// Takes out entries that no request has used since `time`.
    #[must_use]
    pub(crate) fn evict_idle(&mut self, time: Timestamp) -> EvictedEntries {
        self.extract(|_, _, _, last_use| last_use.is_before(time))
    }

    /// Takes out entries by the id of an access key, the user, the scopes and the last use.
    fn extract(
        &mut self,
        which: impl Fn(Option<&str>, &User, &[AccountScope], &LastUse) -> bool,
    ) -> EvictedEntries {
        let keys = self.keys.extract_if(.., |id, cached| {
            which(Some(id), &cached.key.user, &cached.scopes, &cached.last_use)
        });
        let keys = keys.map(|(_, cached)| cached).collect();
        let users = self.users.extract_if(.., |_, cached| {
            which(None, &cached.user, &cached.scopes, &cached.last_use)
        });
        let users = users.map(|(_, user)| user).collect();
        let sessions = self.sessions.extract_if(.., |_, cached| {
            which(None, &cached.key.user, &cached.scopes, &cached.last_use)
        });
        let sessions = sessions.map(|(_, cached)| cached).collect();
        EvictedEntries {
            _keys: keys,
            _users: users,
            _sessions: sessions,
            _bearers: self
                .bearers
                .extract(|user, scopes, last_use| which(None, user, scopes, last_use)),
        }
    }

    /// Whether what was read when there were `since` changes still holds: nothing by which it was
    /// decided has changed.
    pub(crate) fn holds(&self, since: u64, scopes: &[AccountScope], key: Option<&str>) -> bool {
        let newer = usize::try_from(self.changes - since).unwrap_or(usize::MAX);
        if newer > self.recent.len() {
            return false;
        }
        let changes = self.recent.iter().rev().take(newer);
        !changes
            .into_iter()
            .any(|change| change.concerns(scopes, key))
    }

    /// Makes room for one more key.
    pub(crate) fn put_key(&mut self, id: &str, cached: CachedKey) {
        if self.keys.len() >= CACHED_MAX {
            self.keys.clear();
        }
        self.keys.insert(id.to_owned(), cached);
    }

    /// The same for a user.
    pub(crate) fn put_user(&mut self, cached: CachedUser) {
        if self.users.len() >= CACHED_MAX {
            self.users.clear();
        }
        self.users.insert(cached.user.id, cached);
    }

    /// The same for a session.
    pub(crate) fn put_session(&mut self, digest: Digest, cached: CachedSession) {
        if self.sessions.len() >= CACHED_MAX {
            self.sessions.clear();
        }
        self.sessions.insert(digest, cached);
    }
}
