//! Compiled policies: one for each text of an account, whoever has it, and bounded by bytes.
//!
//! A compiled policy is charged to the account that owns it, until the last user, session or request
//! that holds it is gone. An account may have compiled policies as long as these take no more memory
//! than is free for others: alone it gets half of it. If there is too little, cached policies are
//! dropped first, from the account that has most. The rest belongs to requests that run, and a request
//! that needs more is told to ask again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_auth::{IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind};
use dewar_types::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};

use super::cache::{Cache, Change, Scope};
use super::{Digest, digest_of};

/// Memory of compiled policies unless configured otherwise, in bytes.
pub(super) const COMPILED_BYTES_DEFAULT: usize = 64 << 20;

/// When to ask again where too little memory is free.
const LATER: Duration = Duration::from_secs(1);

/// The compiled policies of a deployment.
pub(super) struct CompiledPolicies {
    cache: Arc<RwLock<Cache>>,
    charges: Arc<Mutex<Charges>>,
}

struct Charges {
    bytes_max: usize,
    bytes: usize,
    by: BTreeMap<Scope, AccountPolicies>,
}

/// Those of one account.
#[derive(Default)]
struct AccountPolicies {
    bytes: usize,
    policies: HashMap<Digest, Weak<Policy>>,
}

/// What a policy takes of the memory, until this is dropped.
struct PolicyCharge {
    charges: Arc<Mutex<Charges>>,
    scope: Scope,
    digest: Digest,
    bytes: usize,
}

impl Drop for PolicyCharge {
    fn drop(&mut self) {
        let mut charges = self.charges.lock();
        charges.bytes -= self.bytes;
        let Some(own) = charges.by.get_mut(&self.scope) else {
            return;
        };
        own.bytes -= self.bytes;
        let gone = own.policies.get(&self.digest);
        if gone.is_some_and(|policy| policy.strong_count() == 0) {
            own.policies.remove(&self.digest);
        }
        if own.policies.is_empty() && own.bytes == 0 {
            charges.by.remove(&self.scope);
        }
    }
}

/// Compiles a policy of a user, group or role.
pub(super) fn compile(text: &str) -> Result<Policy> {
    Policy::parse(text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX)
        .map_err(|error| Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error))
}

impl CompiledPolicies {
    pub(super) fn new(cache: Arc<RwLock<Cache>>) -> Self {
        let charges = Charges {
            bytes_max: COMPILED_BYTES_DEFAULT,
            bytes: 0,
            by: BTreeMap::new(),
        };
        Self {
            cache,
            charges: Arc::new(Mutex::new(charges)),
        }
    }

    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        self.charges.lock().bytes_max = bytes_max;
    }

    /// Bytes that compiled policies take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.charges.lock().bytes
    }

    /// A text of an account, compiled.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`]; [`ErrorKind::Busy`] where too little memory is free.
    pub(super) fn get(&self, scope: &Scope, text: &str) -> Result<Arc<Policy>> {
        let digest = digest_of(text);
        let find = |charges: &Charges| charges.by.get(scope)?.policies.get(&digest)?.upgrade();
        let found = find(&self.charges.lock());
        if let Some(policy) = found {
            return Ok(policy);
        }
        let policy = compile(text)?;
        let bytes = policy.memory_bytes();
        let charge = self.charge(scope, digest, bytes)?;
        let policy = Arc::new(policy.with_charge(Arc::new(charge)));
        let mut charges = self.charges.lock();
        // Somebody else may have compiled the same meanwhile.
        let faster = find(&charges);
        if faster.is_none() {
            let own = charges.by.entry(scope.clone()).or_default();
            own.policies.insert(digest, Arc::downgrade(&policy));
        }
        drop(charges);
        Ok(faster.unwrap_or(policy))
    }

    fn charge(&self, scope: &Scope, digest: Digest, bytes: usize) -> Result<PolicyCharge> {
        let mut emptied: Vec<Scope> = Vec::new();
        loop {
            let heaviest = {
                let mut charges = self.charges.lock();
                let own = charges.by.get(scope).map_or(0, |own| own.bytes);
                let free = charges.bytes_max.saturating_sub(charges.bytes);
                if bytes <= free && (own == 0 || own + bytes <= free - bytes) {
                    charges.bytes += bytes;
                    charges.by.entry(scope.clone()).or_default().bytes += bytes;
                    return Ok(PolicyCharge {
                        charges: Arc::clone(&self.charges),
                        scope: scope.clone(),
                        digest,
                        bytes,
                    });
                }
                let others = charges.by.iter();
                let others = others.filter(|(scope, _)| !emptied.contains(scope));
                let heaviest = others.max_by_key(|(_, own)| own.bytes);
                heaviest.map(|(scope, _)| scope.clone())
            };
            let Some(heaviest) = heaviest else {
                let message = "too little memory is free for compiled policies";
                return Err(Error::new(ErrorKind::Busy(LATER), message));
            };
            // Dropped without the lock of the cache: policies give back what they took.
            let dropped = self.cache.write().drop_entries(&Change::of(&heaviest));
            drop(dropped);
            emptied.push(heaviest);
        }
    }
}
