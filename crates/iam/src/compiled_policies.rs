//! Compiled policies: one for each text of an owner, whoever has it, and bounded by bytes.
//!
//! # Owners
//! A compiled policy is charged to its owner ([`PolicyOwner`]) until the last user, session or request
//! that uses it is gone. Policies of an account are charged to it by its id. Policies
//! that the administrator wrote for a whole tenant are charged to the tenant.
//!
//! # Bounds
//! An owner may have compiled policies as long as these take no more memory than is free for others:
//! alone it gets half of it. The cache may fill seven eighths of the memory. The rest belongs to
//! requests whose policies the cache does not have, and a request that finds too little of it is asked
//! to come again.
//!
//! # Eviction
//! An account that needs memory evicts its own cache entries. Those of others are evicted only if no
//! request has used them for a minute. So neither an account nor a request that has proven nothing yet
//! makes the server compile again what others use.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_auth::{IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind};
use dewar_env::Env;
use dewar_types::{Error, ErrorKind, Result, TenantId, Timestamp, UserId};
use parking_lot::{Mutex, RwLock};

use crate::cache::AccountCache;
use crate::token_digest::{Digest, digest_of};

/// Memory of compiled policies unless configured otherwise, in bytes.
pub(crate) const COMPILED_BYTES_DEFAULT: usize = 64 << 20;

/// When to ask again where too little memory is free.
const LATER: Duration = Duration::from_secs(1);

/// The least time between two looks for cache entries that no request uses.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// Whose memory a compiled policy takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyOwner {
    /// An account. No other account of any tenant has its id, or ever gets it.
    Account(UserId),
    /// A tenant, for what belongs to no account.
    Tenant(TenantId),
    /// The server, for the policies that it brings.
    Server,
}

/// The compiled policies of a deployment.
pub(crate) struct CompiledPolicies {
    env: Env,
    cache: Arc<RwLock<AccountCache>>,
    charges: Arc<Mutex<Charges>>,
}

struct Charges {
    bytes_max: usize,
    bytes: usize,
    by: BTreeMap<PolicyOwner, OwnPolicies>,
    /// When idle cache entries were looked for.
    swept: Timestamp,
}

/// Those of one owner.
#[derive(Default)]
struct OwnPolicies {
    bytes: usize,
    policies: HashMap<Digest, Weak<Policy>>,
}

/// What a policy takes of the memory, until this is dropped.
struct PolicyCharge {
    charges: Arc<Mutex<Charges>>,
    owner: PolicyOwner,
    digest: Digest,
    bytes: usize,
}

impl Drop for PolicyCharge {
    fn drop(&mut self) {
        let mut charges = self.charges.lock();
        charges.bytes -= self.bytes;
        let Some(own) = charges.by.get_mut(&self.owner) else {
            return;
        };
        own.bytes -= self.bytes;
        let gone = own.policies.get(&self.digest);
        if gone.is_some_and(|policy| policy.strong_count() == 0) {
            own.policies.remove(&self.digest);
        }
        if own.policies.is_empty() && own.bytes == 0 {
            charges.by.remove(&self.owner);
        }
    }
}

/// Compiles a policy of a user, group or role.
pub(crate) fn compile(text: &str) -> Result<Policy> {
    Policy::parse(text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX)
        .map_err(|error| Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error))
}

impl CompiledPolicies {
    pub(crate) fn new(env: Env, cache: Arc<RwLock<AccountCache>>) -> Self {
        let charges = Charges {
            bytes_max: COMPILED_BYTES_DEFAULT,
            bytes: 0,
            by: BTreeMap::new(),
            swept: env.clock.now(),
        };
        Self {
            env,
            cache,
            charges: Arc::new(Mutex::new(charges)),
        }
    }

    pub(crate) fn set_bytes_max(&self, bytes_max: usize) {
        self.charges.lock().bytes_max = bytes_max;
    }

    /// Bytes that compiled policies take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.charges.lock().bytes
    }

    /// Whether the cache may take up more. The last eighth of the memory is for requests alone.
    pub(crate) fn may_cache(&self) -> bool {
        let charges = self.charges.lock();
        charges.bytes <= charges.bytes_max - charges.bytes_max / 8
    }

    /// A text of an owner, compiled.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`]; [`ErrorKind::Busy`] where too little memory is free.
    pub(crate) fn get(&self, owner: PolicyOwner, text: &str) -> Result<Arc<Policy>> {
        let digest = digest_of(text);
        let find = |charges: &Charges| charges.by.get(&owner)?.policies.get(&digest)?.upgrade();
        let found = find(&self.charges.lock());
        if let Some(policy) = found {
            return Ok(policy);
        }
        let policy = compile(text)?;
        let bytes = policy.memory_bytes();
        let charge = self.charge(owner, digest, bytes)?;
        let policy = Arc::new(policy.with_charge(Arc::new(charge)));
        let mut charges = self.charges.lock();
        // Somebody else may have compiled the same meanwhile.
        let faster = find(&charges);
        if faster.is_none() {
            let own = charges.by.entry(owner).or_default();
            own.policies.insert(digest, Arc::downgrade(&policy));
        }
        drop(charges);
        Ok(faster.unwrap_or(policy))
    }

    fn charge(&self, owner: PolicyOwner, digest: Digest, bytes: usize) -> Result<PolicyCharge> {
        let take = || self.take(owner, digest, bytes);
        if let Some(charge) = take() {
            return Ok(charge);
        }
        if let PolicyOwner::Account(account) = owner {
            // Dropped without the lock of the cache: policies give back what they took.
            let evicted = self.cache.write().evict_account(account);
            drop(evicted);
            if let Some(charge) = take() {
                return Ok(charge);
            }
        }
        if let Some(since) = self.sweep_since() {
            let evicted = self.cache.write().evict_idle(since);
            drop(evicted);
            if let Some(charge) = take() {
                return Ok(charge);
            }
        }
        let message = "too little memory is free for compiled policies";
        Err(Error::new(ErrorKind::Busy(LATER), message))
    }

    /// Charges an owner, unless it would have more than is free for others.
    fn take(&self, owner: PolicyOwner, digest: Digest, bytes: usize) -> Option<PolicyCharge> {
        let mut charges = self.charges.lock();
        let own = charges.by.get(&owner).map_or(0, |own| own.bytes);
        let left = charges.bytes_max.checked_sub(charges.bytes + bytes)?;
        if own > 0 && own + bytes > left {
            return None;
        }
        charges.bytes += bytes;
        charges.by.entry(owner).or_default().bytes += bytes;
        drop(charges);
        Some(PolicyCharge {
            charges: Arc::clone(&self.charges),
            owner,
            digest,
            bytes,
        })
    }

    /// Since when an entry must be unused to be evicted for others; `None` where idle entries were looked
    /// for in the last minute.
    fn sweep_since(&self) -> Option<Timestamp> {
        let now = self.env.clock.now();
        let idle = u64::try_from(IDLE.as_nanos()).unwrap_or(u64::MAX);
        let since = Timestamp(now.0.saturating_sub(idle));
        let mut charges = self.charges.lock();
        if charges.swept > since {
            return None;
        }
        charges.swept = now;
        Some(since)
    }
}
