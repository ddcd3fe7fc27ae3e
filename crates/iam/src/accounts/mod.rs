//! Users, groups, roles, policies and access keys: their records in the catalog, and the one place
//! that unwraps secrets.
//!
//! # Names
//! A user is named `NAME` within its tenant, or `TENANT:NAME` where the tenant is another than the
//! default one. A user of an account is `ROOT/NAME`, ROOT being the user whose account it is; so
//! are groups, roles and policies of an account. Those without a slash belong to the tenant. The
//! names of what an account makes are told apart without regard to case, as IAM does.
//!
//! # What is cached
//! The cache ([`crate::cache`]) has keys with their users, sessions, tokens, and users by id, all with
//! their policies compiled. A change of an account's record clears what was decided by that account's
//! records. A change of anything else clears the whole cache, except that new keys of an issuer clear
//! nothing. Compiled policies are bounded by bytes ([`crate::compiled_policies`]).

mod aws_policies;
mod bearer;
mod claim_names;
mod entities;
mod issuer_keys;
mod issuers;
mod keys;
mod limits;
#[cfg(test)]
mod login_tests;
mod macaroons;
mod policies;
mod principals;
#[cfg(test)]
mod provider_tests;
mod providers;
#[cfg(test)]
mod quota_tests;
mod references;
mod sessions;
mod shares;
mod sts;
#[cfg(test)]
mod tests;
mod users;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use dewar_auth::{
    AccessKey, Authorizer, Caller, CredentialError, CredentialStore, MasterKeys, Origin,
};
use dewar_catalog::{Actor, Catalog, Tenant, keys as catalog};
use dewar_env::BoxFuture;
use dewar_kv::{Batch, CommitError, Kv, Precondition, Scan, Seq, resolve_unknown_commit};
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, UserId};
use minicbor::{Decode, Encode};
use parking_lot::RwLock;

pub use aws_policies::{AwsPolicy, aws_policies, aws_policy, is_aws_policy};
pub use bearer::MappedIdentity;
pub use entities::{Group, Role, RoleChange};
pub use issuer_keys::{FetchKeys, IssuerKeyStatus};
pub use issuers::{IssuerInfo, NewIssuer};
pub use keys::KeyInfo;
pub use limits::AccountLimits;
pub use macaroons::MacaroonRequest;
pub use policies::POLICY_VERSIONS_MAX;
pub use policies::{ManagedPolicy, PolicyHolder, PolicyHolderKind, PolicyVersion};
pub use providers::{FederationConfig, Provider, ProviderChange, ProviderOwner};
pub use sessions::RevokeTarget;
pub use shares::{NewShare, ShareInfo};
pub use sts::{AssumeRole, IssuedSession, WebIdentity, caller_identity};
pub use users::{NewUser, UserChange};

use claim_names::ClaimNames;
use issuer_keys::IssuerKeyCache;
use providers::Federation;

use crate::cache::{AccountCache, Invalidation};
use crate::compiled_policies::CompiledPolicies;
use crate::record::{decode, encode};

/// Tries of a change that collides with others.
const TRIES: usize = 16;

/// The users, groups, roles, policies and keys of a deployment.
pub struct Accounts {
    pub(crate) catalog: Catalog,
    master: Arc<MasterKeys>,
    pub(crate) authorizer: Arc<Authorizer>,
    cache: Arc<RwLock<AccountCache>>,
    compiled: CompiledPolicies,
    limits: RwLock<AccountLimits>,
    /// Held by who makes one more of what an account may have only so many of.
    making: tokio::sync::Mutex<()>,
    /// Whether the index of keys by user is known to be complete.
    keys_indexed: AtomicBool,
    /// Held by who puts users into groups, or gives policies to somebody.
    joining: tokio::sync::Mutex<()>,
    /// Keys of the groups and policies that are being removed: nobody gets these meanwhile.
    removals: parking_lot::Mutex<BTreeSet<Bytes>>,
    /// Whether all references by name to what there is have become references by id.
    by_id: AtomicBool,
    /// Keys of issuers; not a part of what a change clears.
    held: IssuerKeyCache,
    /// What those may who let providers in for themselves.
    federation: Federation,
    claim_names: Arc<ClaimNames>,
}

/// Forgets once more when a change that failed without saying so has happened or never will.
async fn forget_when_decided(
    kv: Weak<dyn Kv>,
    taken: Seq,
    cache: Arc<RwLock<AccountCache>>,
    change: Invalidation,
) {
    if resolve_unknown_commit(&kv, taken).await {
        forget(&cache, change);
    }
}

/// Clears what depends on a change.
fn forget(cache: &RwLock<AccountCache>, change: Invalidation) {
    let dropped = cache.write().forget(change);
    // Without the lock.
    drop(dropped);
}

impl Accounts {
    /// The accounts in a catalog. `master` encrypts their secrets, and `authorizer` decides about
    /// the verbs of the IAM API.
    #[must_use]
    pub fn new(catalog: Catalog, master: Arc<MasterKeys>, authorizer: Arc<Authorizer>) -> Self {
        let cache = Arc::new(RwLock::new(AccountCache::default()));
        Self {
            compiled: CompiledPolicies::new(catalog.env().clone(), Arc::clone(&cache)),
            cache,
            keys_indexed: AtomicBool::new(false),
            limits: RwLock::default(),
            making: tokio::sync::Mutex::default(),
            catalog,
            master,
            authorizer,
            joining: tokio::sync::Mutex::default(),
            removals: parking_lot::Mutex::default(),
            by_id: AtomicBool::new(false),
            held: IssuerKeyCache::default(),
            federation: Federation::default(),
            claim_names: Arc::default(),
        }
    }

    /// The tenant of a name, if there is one.
    async fn tenant_id(&self, name: &TenantName) -> Result<TenantId> {
        if name.is_default() {
            return Ok(Tenant::default_tenant().id);
        }
        let found = self.catalog.tenant(name).await?;
        found
            .map(|tenant| tenant.id)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no tenant {name}")))
    }

    /// The tenant of a name, made if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] for one that could be taken for the id of an account.
    pub async fn make_tenant(&self, name: &TenantName) -> Result<TenantId> {
        match self.tenant_id(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        if name.as_str().parse::<UserId>().is_ok() {
            let message = format!("tenant {name}: 16 hexadecimal digits name accounts");
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        let actor = Actor {
            user: UserId(0),
            principal: "system",
        };
        match self.catalog.create_tenant(&actor, name).await {
            Ok(tenant) => Ok(tenant.id),
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.tenant_id(name).await,
            Err(error) => Err(error),
        }
    }

    async fn read<T: for<'b> Decode<'b, ()>>(&self, key: &Bytes) -> Result<Option<T>> {
        let value = self.catalog.kv().get(key).await?.value;
        value.map(|value| decode(&value)).transpose()
    }

    /// Writes what must not be there yet.
    async fn add(&self, puts: Vec<(Bytes, Bytes)>, exists: impl Fn() -> Error) -> Result<()> {
        let batch = Batch {
            require: puts
                .iter()
                .map(|(key, _)| Precondition::absent(key.clone()))
                .collect(),
            puts,
            ..Batch::default()
        };
        match self.commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(_)) => Err(exists()),
            Err(CommitError::Failed(error)) => Err(error.context("adding to the accounts")),
        }
    }

    /// Changes a record that is there, with what goes along.
    async fn edit<T, R>(
        &self,
        key: &Bytes,
        absent: impl Fn() -> Error,
        change: impl Fn(&mut T, &mut Batch) -> Result<R>,
    ) -> Result<R>
    where
        T: for<'b> Decode<'b, ()> + Encode<()> + PartialEq + Clone,
    {
        for _ in 0..TRIES {
            let read = self.catalog.kv().get(key).await?;
            let value = read.value.as_ref().ok_or_else(&absent)?;
            let before: T = decode(value)?;
            let mut record = before.clone();
            let mut batch = Batch {
                require: vec![Precondition::same(key.clone(), &read)],
                ..Batch::default()
            };
            let result = change(&mut record, &mut batch)?;
            if record != before && !batch.deletes.contains(key) {
                batch.puts.push((key.clone(), encode(&record)));
            }
            if batch.puts.is_empty() && batch.deletes.is_empty() {
                return Ok(result);
            }
            match self.commit(batch).await {
                Ok(_) => return Ok(result),
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "an account changes too often to be changed",
        ))
    }

    /// Commits in a task that outlives the caller, and forgets what was found before: a client that
    /// goes away in the middle of revoking something must not keep it in force.
    async fn commit(&self, batch: Batch) -> Result<Seq, CommitError> {
        let kv = Arc::clone(self.catalog.kv());
        let cache = Arc::clone(&self.cache);
        let claim_names = Arc::clone(&self.claim_names);
        let task = tokio::spawn(async move {
            let touched = ClaimNames::touched(&batch);
            let change = Invalidation::by(&batch);
            let committed = kv.commit(batch).await;
            claim_names.note(touched);
            if let Err(CommitError::Failed(error)) = &committed
                && !error.left_unchanged()
            {
                let weak = Arc::downgrade(&kv);
                let (cache, change) = (Arc::clone(&cache), change.clone());
                tokio::spawn(forget_when_decided(weak, kv.last_sequence(), cache, change));
            }
            forget(&cache, change);
            committed
        });
        task.await.unwrap_or_else(|error| {
            Err(CommitError::Failed(Error::with_source(
                ErrorKind::Internal,
                "the task that changes accounts ended early",
                error,
            )))
        })
    }

    /// Clears the cache, so that every credential is looked up again.
    pub fn forget(&self) {
        forget(&self.cache, Invalidation::All);
    }

    /// Sets how much memory compiled policies may take, in bytes.
    pub fn set_compiled_bytes_max(&self, bytes_max: usize) {
        self.compiled.set_bytes_max(bytes_max);
    }

    async fn all(&self, range: &catalog::KeyRange) -> Result<Vec<(Bytes, Bytes)>> {
        let snapshot = self.catalog.kv().snapshot();
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        let mut start = range.from.clone();
        loop {
            let scan = Scan {
                from: &start,
                to: &range.to,
                limit: 1000,
                reverse: false,
            };
            let page = snapshot.scan(scan).await?;
            found.extend(page.pairs);
            let Some((last, _)) = found.last().filter(|_| page.more) else {
                return Ok(found);
            };
            start = catalog::just_after(last);
        }
    }

    async fn new_id(&self) -> Result<u64> {
        Ok(self.catalog.ids().entry().await?.0)
    }
}

impl CredentialStore for Accounts {
    fn access_key<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<AccessKey>>> {
        Box::pin(self.lookup(id))
    }

    fn session<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<AccessKey>> {
        Box::pin(self.open_session(token))
    }

    fn bearer<'a>(&'a self, token: &'a str, origin: Origin) -> BoxFuture<'a, Result<Caller>> {
        Box::pin(self.bearer_of(token, origin))
    }
}

/// A credential that is not taken, with the words that may be told.
fn refused(why: CredentialError, words: impl Into<String>) -> Error {
    Error::with_source(ErrorKind::Unauthenticated, words.into(), why)
}
