//! Usage, and the limits of usage.

use std::ops::AddAssign;

use dewar_types::{EntryId, Error, ObjectKey, UserId};

use crate::keys::{self, KeyRange};
use crate::record::{Counter, CounterScope, QuotaRecord, Record, SpaceMark};
use crate::{Catalog, tables};

/// Quotas read at once.
const PAGE: usize = 1000;

/// The amount that a counter scope holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Versions of files, delete markers, uploads in progress, and directories that were made on request.
    pub objects: u64,
    /// Bytes of all versions and of the parts of uploads, with the metadata and the documents of
    /// buckets that are charged.
    pub bytes: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.objects = self.objects.saturating_add(more.objects);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// Limits of the content of a scope. The soft limits are only reported and refuse nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Maximum bytes: of all versions, of parts of uploads in progress, and of metadata and
    /// documents of buckets beyond the free amount.
    pub max_bytes: Option<u64>,
    /// Maximum objects: versions, delete markers, uploads in progress and directories that were
    /// made on request.
    pub max_objects: Option<u64>,
    /// Bytes from which on it is said that there are many.
    pub soft_bytes: Option<u64>,
    /// Objects from which on it is said that there are many.
    pub soft_objects: Option<u64>,
}

impl Quota {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits in the mark of a space.
    #[must_use]
    pub fn of_mark(mark: &SpaceMark) -> Self {
        Self {
            max_bytes: mark.max_bytes,
            max_objects: mark.max_objects,
            soft_bytes: mark.soft_bytes,
            soft_objects: mark.soft_objects,
        }
    }

    /// The hard limit of a counter.
    #[must_use]
    pub fn max(&self, counter: Counter) -> Option<u64> {
        match counter {
            Counter::Objects(_) => self.max_objects,
            Counter::Bytes(_) => self.max_bytes,
            Counter::Uploads(_) | Counter::UploadBytes(_) | Counter::Dead(_) => None,
        }
    }

    /// Whether this many more objects and bytes fit in addition to the present usage.
    #[must_use]
    pub fn fits(&self, usage: Usage, objects: u64, bytes: u64) -> bool {
        let fits = |max: Option<u64>, used: u64, more: u64| {
            more == 0 || max.is_none_or(|max| used.saturating_add(more) <= max)
        };
        fits(self.max_objects, usage.objects, objects) && fits(self.max_bytes, usage.bytes, bytes)
    }

    /// Whether the usage exceeds the soft limits.
    #[must_use]
    pub fn is_soft_exceeded(&self, usage: Usage) -> bool {
        let over = |soft: Option<u64>, used: u64| soft.is_some_and(|soft| used > soft);
        over(self.soft_objects, usage.objects) || over(self.soft_bytes, usage.bytes)
    }
}

/// A quota as it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetQuota {
    /// Scope of the limits.
    pub scope: CounterScope,
    /// Its limits; those of a space are in its mark.
    pub quota: Quota,
    /// Bucket and path of a space when its limits were set. It may have been moved since.
    pub place: Option<(EntryId, ObjectKey)>,
}

impl Catalog {
    /// All quotas that are set. Spaces have the place that they had then, and their limits are in
    /// their mark.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn all_quotas(&self) -> Result<Vec<SetQuota>, Error> {
        let mut found = Vec::new();
        let mut pages = tables::QUOTA.keys().pages(&**self.kv(), PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let record = QuotaRecord::from_value(key, value)?;
                let place = match record.place {
                    Some((bucket, path)) => Some((bucket, ObjectKey::new(&path)?)),
                    None => None,
                };
                found.push(SetQuota {
                    scope: CounterScope::of_quota_key(key)?,
                    quota: Quota {
                        max_bytes: record.max_bytes,
                        max_objects: record.max_objects,
                        soft_bytes: record.soft_bytes,
                        soft_objects: record.soft_objects,
                    },
                    place,
                });
            }
        }
        Ok(found)
    }

    /// The present usage of a scope.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn usage(&self, scope: CounterScope) -> Result<Usage, Error> {
        let kv = self.kv().snapshot();
        let objects = Counter::Objects(scope).value(&*kv).await?;
        let bytes = Counter::Bytes(scope).value(&*kv).await?;
        Ok(Usage {
            objects: u64::try_from(objects).unwrap_or(0),
            bytes: u64::try_from(bytes).unwrap_or(0),
        })
    }

    /// The usage of every account that owns content, by the ids of the accounts.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn account_usage(&self) -> Result<Vec<(UserId, Usage)>, Error> {
        let objects = |id| Counter::Objects(CounterScope::User(UserId(id))).key();
        let range = KeyRange {
            from: objects(0),
            to: keys::just_after(&objects(u64::MAX)),
        };
        let mut accounts = Vec::new();
        let mut pages = range.pages(&**self.kv(), PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, _) in &pairs {
                let id = key.last_chunk::<8>().map(|id| u64::from_be_bytes(*id));
                let Some(account) = id.map(UserId) else {
                    continue;
                };
                let usage = self.usage(CounterScope::User(account)).await?;
                if usage != Usage::default() {
                    accounts.push((account, usage));
                }
            }
        }
        Ok(accounts)
    }
}
