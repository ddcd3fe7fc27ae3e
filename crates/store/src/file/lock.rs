//! Locks of WebDAV: taken, looked up, extended and given back.
//!
//! Locks bind only fronts that look at them: a write does not. They are for callers who may write the
//! name. Others see none.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use dewar_auth::{Action, Caller, makes_only_new};
use dewar_catalog::record::LockRecord;
use dewar_namespace::{Bucket, LockGrant, NameLock};
use dewar_types::{Error, ErrorKind, ObjectKey, Result, Timestamp};

use crate::api::ObjectRef;
use crate::limits::{LOCK_OWNER_BYTES_MAX, LOCK_TIME_MAX, LOCKS_PER_HOLDER_MAX};
use crate::{Inner, Store};

/// The token of a lock: a random number that nobody can guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken(pub u128);

impl LockToken {
    /// Reads a token as clients send it; `None` for one that no lock can have.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix("urn:uuid:");
        let uuid = uuid.or_else(|| text.strip_prefix("opaquelocktoken:"))?;
        let digits: String = uuid.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        number.map(Self)
    }
}

impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        write!(f, "urn:uuid:{}", parts.join("-"))
    }
}

/// The locks that a change of a name must respect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockScope {
    /// Also those of names below it: the change concerns the whole directory.
    pub below: bool,
    /// Also those of the directory that holds it: the change adds or removes the name.
    pub parent: bool,
}

/// A request for a lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The file or directory, without a slash at its end. The directory above must exist.
    pub resource: ObjectRef,
    /// Whether others may have shared locks beside it.
    pub shared: bool,
    /// Whether it also covers what is below the directory.
    pub deep: bool,
    /// The client's words about the owner, at most [`LOCK_OWNER_BYTES_MAX`].
    pub owner: String,
    /// After this time it ends, and after [`LOCK_TIME_MAX`] at the latest.
    pub time: Duration,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Its token.
    pub token: LockToken,
    /// The file or directory, as a key of the bucket.
    pub key: String,
    /// Whether others may have shared locks beside it.
    pub shared: bool,
    /// Whether it also covers what is below the directory.
    pub deep: bool,
    /// The client's words about the owner.
    pub owner: String,
    /// When it ends.
    pub expires: Timestamp,
    /// Whether the caller holds it.
    pub is_own: bool,
}

/// A lock as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// Its token.
    pub token: LockToken,
    /// The file or directory when it was locked, with its bucket.
    pub path: String,
    /// The holder's name.
    pub principal: String,
    /// Whether others may have shared locks beside it.
    pub shared: bool,
    /// Whether it also covers what is below the directory.
    pub deep: bool,
    /// The time until it ends.
    pub remaining: Duration,
    lock: NameLock,
}

/// Whether a lock was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// It was.
    Granted(Lock),
    /// This one excludes it.
    Excluded(Lock),
}

impl Lock {
    fn of(lock: NameLock, caller: &Caller) -> Self {
        let record = lock.record;
        Self {
            token: LockToken(lock.number),
            is_own: holder(caller).is_some_and(|holder| holder == record.holder),
            key: record.path,
            shared: record.shared,
            deep: record.deep,
            owner: record.owner,
            expires: record.expires,
        }
    }
}

/// The id of a caller as the holder of locks; `None` for anonymous callers.
fn holder(caller: &Caller) -> Option<String> {
    caller.user().map(dewar_auth::User::unique_id)
}

impl Store {
    /// Takes a lock for a caller who may write the name. Anonymous callers get none.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`] where the directory
    /// above is missing, [`ErrorKind::TooLarge`] for too much text about the owner,
    /// [`ErrorKind::Quota`] beyond [`LOCKS_PER_HOLDER_MAX`].
    pub async fn lock(&self, caller: &Caller, request: LockRequest) -> Result<LockOutcome> {
        let inner = &self.inner;
        let bucket = inner.lockable(caller, &request.resource).await?;
        let Some(holder) = holder(caller) else {
            return Err(Error::new(ErrorKind::Denied, "locks are for users"));
        };
        let (key, details) = (&request.resource.key, inner.details());
        if request.deep {
            // It keeps others from all that is below.
            let below = format!("{key}/");
            inner.authorize_in_bucket(
                caller,
                Action::PutObject,
                &bucket,
                Some(&below),
                &details,
            )?;
        }
        if makes_only_new(
            caller,
            &bucket.tenant.name,
            bucket.name.as_str(),
            key.as_str(),
        ) {
            let node = inner.tree.find_node(&bucket, key).await?;
            if node.file().is_some() || node.directory().is_some() {
                let message = "the token lets create but not change, so it locks no existing name";
                return Err(Error::new(ErrorKind::Denied, message));
            }
        }
        if request.owner.len() > LOCK_OWNER_BYTES_MAX {
            let message = format!("the owner of a lock has at most {LOCK_OWNER_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let mut random = [0; 16];
        inner.env.rng.fill(&mut random);
        // So that it is a UUID of version 4 (RFC 9562).
        random[6] = random[6] & 0x0f | 0x40;
        random[8] = random[8] & 0x3f | 0x80;
        let record = LockRecord {
            bucket: bucket.id,
            path: request.resource.key.as_str().to_owned(),
            shared: request.shared,
            deep: request.deep,
            holder,
            principal: caller.to_string(),
            owner: request.owner,
            expires: inner.lock_end(request.time),
        };
        let (key, number) = (&request.resource.key, u128::from_be_bytes(random));
        let granted = inner
            .tree
            .take_lock(&bucket, key, number, record, LOCKS_PER_HOLDER_MAX)
            .await?;
        Ok(match granted {
            LockGrant::Granted(lock) => LockOutcome::Granted(Lock::of(lock, caller)),
            LockGrant::Excluded(lock) => LockOutcome::Excluded(Lock::of(lock, caller)),
        })
    }

    /// Whether there is any lock at all.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.inner.tree.has_locks()
    }

    /// All locks that have not ended, by path, for administrators. Those of deleted buckets are left
    /// out.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub async fn held_locks(&self) -> Result<Vec<HeldLock>> {
        let inner = &self.inner;
        let now = inner.env.clock.now();
        let mut held = Vec::new();
        let mut buckets = BTreeMap::new();
        for lock in inner.tree.all_locks().await? {
            let record = &lock.record;
            if record.expires <= now {
                continue;
            }
            let bucket = match buckets.entry(record.bucket) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(inner.bucket_by_id(record.bucket).await?),
            };
            let Some(bucket) = bucket else { continue };
            let left = record.expires.0.saturating_sub(now.0);
            held.push(HeldLock {
                token: LockToken(lock.number),
                path: bucket.path(&record.path),
                principal: record.principal.clone(),
                shared: record.shared,
                deep: record.deep,
                remaining: Duration::from_nanos(left),
                lock,
            });
        }
        held.sort_by(|a, b| (&a.path, a.token).cmp(&(&b.path, b.token)));
        Ok(held)
    }

    /// Ends locks before their time, for administrators.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn break_locks(&self, locks: &[HeldLock]) -> Result<()> {
        let broken = locks.iter().map(|held| held.lock.clone()).collect();
        self.inner.tree.remove_locks(broken).await
    }

    /// The locks that cover a name, and further ones of the scope. Callers who may neither write nor
    /// delete the name, as a file or as a directory, see none.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn locks(
        &self,
        caller: &Caller,
        resource: &ObjectRef,
        scope: LockScope,
    ) -> Result<Vec<Lock>> {
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &resource.bucket).await?;
        let key = &resource.key;
        let mut locks = inner
            .tree
            .locks_covering(&bucket, key, scope.parent)
            .await?;
        if scope.below {
            locks.extend(inner.tree.locks_below(&bucket, key).await?);
        }
        if locks.is_empty() || !inner.may_change(caller, &bucket, key) {
            return Ok(Vec::new());
        }
        Ok(locks
            .into_iter()
            .map(|lock| Lock::of(lock, caller))
            .collect())
    }

    /// Extends a lock that covers a name and that the caller holds.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] if the caller holds no such lock there; [`ErrorKind::Denied`],
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn extend_lock(
        &self,
        caller: &Caller,
        resource: &ObjectRef,
        token: LockToken,
        time: Duration,
    ) -> Result<Lock> {
        let inner = &self.inner;
        let bucket = inner.lockable(caller, resource).await?;
        let lock = inner
            .held_lock(caller, &bucket, &resource.key, token)
            .await?;
        let extended = inner.tree.extend_lock(&lock, inner.lock_end(time)).await?;
        Ok(Lock::of(extended, caller))
    }

    /// Gives back a lock that covers a name and that the caller holds.
    ///
    /// # Errors
    /// As [`Store::extend_lock`].
    pub async fn unlock(
        &self,
        caller: &Caller,
        resource: &ObjectRef,
        token: LockToken,
    ) -> Result<()> {
        let inner = &self.inner;
        let bucket = inner.lockable(caller, resource).await?;
        let lock = inner
            .held_lock(caller, &bucket, &resource.key, token)
            .await?;
        inner.tree.remove_locks(vec![lock]).await
    }

    /// Removes the locks of a name that the caller has removed, and of the names below it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for a caller who may neither write nor delete the name;
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn remove_locks(&self, caller: &Caller, resource: &ObjectRef) -> Result<()> {
        let (inner, key) = (&self.inner, &resource.key);
        let bucket = inner.bucket_of(caller, &resource.bucket).await?;
        if !inner.may_change(caller, &bucket, key) {
            return Err(Error::new(
                ErrorKind::Denied,
                "the name is another caller's",
            ));
        }
        let mut gone = inner.tree.locks_covering(&bucket, key, false).await?;
        gone.retain(|lock| lock.record.path == key.as_str());
        gone.extend(inner.tree.locks_below(&bucket, key).await?);
        inner.tree.remove_locks(gone).await
    }
}

impl Inner {
    /// The bucket of a name, for a caller who may write the name.
    async fn lockable(&self, caller: &Caller, resource: &ObjectRef) -> Result<Bucket> {
        let bucket = self.bucket_of(caller, &resource.bucket).await?;
        let (details, key) = (self.details(), resource.key.as_str());
        self.authorize_in_bucket(caller, Action::PutObject, &bucket, Some(key), &details)?;
        Ok(bucket)
    }

    /// Whether the caller may write or delete a name, as a file or as a directory. A refusal only
    /// hides something, and is not recorded.
    fn may_change(&self, caller: &Caller, bucket: &Bucket, key: &ObjectKey) -> bool {
        let directory = format!("{key}/");
        let may = |action, key| {
            let details = self.details();
            let allowed = self.authorize_optional(caller, action, bucket, Some(key), &details);
            allowed.is_ok()
        };
        [key.as_str(), &directory]
            .into_iter()
            .any(|key| may(Action::PutObject, key) || may(Action::DeleteObject, key))
    }

    /// A lock of the caller that covers a name.
    async fn held_lock(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        token: LockToken,
    ) -> Result<NameLock> {
        let holder = holder(caller);
        let locks = self.tree.locks_covering(bucket, key, false).await?;
        let of_token = locks.into_iter().find(|lock| lock.number == token.0);
        match of_token {
            Some(lock) if holder.as_ref() == Some(&lock.record.holder) => Ok(lock),
            Some(_) => Err(Error::new(
                ErrorKind::Denied,
                "the lock is another caller's",
            )),
            None => {
                let path = bucket.path(key.as_str());
                let message = format!("no lock with this token covers {path}");
                Err(Error::new(ErrorKind::Precondition, message))
            }
        }
    }

    fn lock_end(&self, time: Duration) -> Timestamp {
        let time = time.min(LOCK_TIME_MAX);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Timestamp(self.env.clock.now().0.saturating_add(nanos))
    }
}
