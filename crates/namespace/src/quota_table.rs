//! Quotas and reservations in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use dewar_catalog::record::CounterScope;
use dewar_catalog::{Catalog, Quota, Usage};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey};
use parking_lot::{Mutex, RwLock};

/// The quotas of tenants, users and buckets, and what open writers have reserved. Of spaces, only
/// that there are some.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    by_scope: RwLock<BTreeMap<CounterScope, Quota>>,
    /// No limit holds while this is set.
    suspended: AtomicBool,
    pub(super) reserved: Reserved,
    /// One change at a time, so that memory and catalog agree.
    pub(super) changing: tokio::sync::Mutex<()>,
}

impl Quotas {
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn load(catalog: &Catalog) -> Result<Self, Error> {
        let all = catalog.all_quotas().await?.into_iter();
        let by_scope = all.map(|set| (set.scope, set.quota)).collect();
        Ok(Self {
            by_scope: RwLock::new(by_scope),
            suspended: AtomicBool::new(false),
            reserved: Reserved::default(),
            changing: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn get(&self, scope: CounterScope) -> Option<Quota> {
        self.by_scope.read().get(&scope).copied()
    }

    /// Whether nothing is limited.
    pub(super) fn is_empty(&self) -> bool {
        self.suspended.load(Relaxed) || self.by_scope.read().is_empty()
    }

    pub(super) fn suspend(&self) {
        self.suspended.store(true, Relaxed);
    }

    pub(super) fn resume(&self) {
        self.suspended.store(false, Relaxed);
    }

    pub(super) fn put(&self, scope: CounterScope, quota: Quota) {
        self.by_scope.write().insert(scope, quota);
    }

    pub(super) fn forget(&self, scope: CounterScope) {
        self.by_scope.write().remove(&scope);
    }
}

/// What is reserved now.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_scope: BTreeMap<CounterScope, u64>,
    /// Names whose current version is credited to a writer.
    credited: BTreeSet<(EntryId, ObjectKey)>,
}

impl Reserved {
    /// Bytes that are reserved in a scope.
    pub(super) fn bytes(&self, scope: CounterScope) -> u64 {
        let state = self.state.lock();
        state.by_scope.get(&scope).copied().unwrap_or(0)
    }

    pub(super) fn take(&self, scopes: &[CounterScope], bytes: u64) {
        let mut state = self.state.lock();
        for &scope in scopes {
            let reserved = state.by_scope.entry(scope).or_default();
            *reserved = reserved.saturating_add(bytes);
        }
    }

    pub(super) fn release(&self, scopes: &[CounterScope], bytes: u64) {
        let mut state = self.state.lock();
        for scope in scopes {
            if let Some(reserved) = state.by_scope.get_mut(scope) {
                *reserved = reserved.saturating_sub(bytes);
                if *reserved == 0 {
                    state.by_scope.remove(scope);
                }
            }
        }
    }

    /// Credits the current version of a name to a writer, unless another writer has the credit.
    pub(super) fn credit(&self, name: &(EntryId, ObjectKey)) -> bool {
        self.state.lock().credited.insert(name.clone())
    }

    /// Ends the credit for a name.
    pub(super) fn end_credit(&self, name: &(EntryId, ObjectKey)) {
        self.state.lock().credited.remove(name);
    }
}

/// Refuses what does not fit beside what is in `what` and what open writers have `reserved`.
pub(super) fn quota_exceeded(what: &str, quota: Quota, usage: Usage, reserved: u64) -> Error {
    let mut words = format!(
        "{what} holds {} bytes in {} objects (versions, delete markers, open uploads and made directories count)",
        usage.bytes, usage.objects
    );
    if reserved > 0 {
        words.push_str(&format!(
            ", files that are being written take {reserved} bytes"
        ));
    }
    words.push_str(", and may hold");
    let mut and = "";
    if let Some(max) = quota.max_bytes {
        words.push_str(&format!(" {max} bytes"));
        and = " and";
    }
    if let Some(max) = quota.max_objects {
        words.push_str(&format!("{and} {max} objects"));
    }
    Error::new(ErrorKind::Quota, words)
}
