//! Access keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use dewar_auth::{AccessKey, MasterKeyId, Secret, User, wrapped_with};
use dewar_catalog::keys as catalog;
use dewar_kv::{Batch, CommitError};
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};

use super::Accounts;
use super::limits::exceeded;
use super::users::user_key;
use crate::cache::{CachedKey, CachedUser, LastUse};
use crate::names::{designation, exists, none};
use crate::record::{KEYS_BY_USER, KeyRecord, ShareRecord, UserRecord, decode, encode};

/// Characters of an access key that is made up.
const KEY_CHARS: usize = 20;
const ACCESS_KEY_CHARS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SECRET_CHARS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What stands there.
const KEYS_BY_USER_VERSION: u8 = 1;

/// An access key as administrators see it: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its public half.
    pub access_key: String,
    /// The user: `[TENANT:]NAME`.
    pub user: String,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Whether its user is, so that it does not work either way.
    pub user_disabled: bool,
    /// When it was added.
    pub created: Timestamp,
}

impl Accounts {
    /// Adds an access key; makes up what is not given. The secret is returned this once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without such a user; [`ErrorKind::AlreadyExists`];
    /// [`ErrorKind::InvalidName`] or [`ErrorKind::InvalidArgument`] for an unfit id or secret.
    pub async fn add_key(
        &self,
        user: &str,
        access_key: Option<String>,
        secret: Option<Secret>,
    ) -> Result<(String, Secret)> {
        let user = self.user(user).await?;
        self.put_key(user, "DW", access_key, secret, None).await
    }

    /// Adds an access key for somebody who may make keys of the user, up to the quota of a user.
    ///
    /// # Errors
    /// As [`Accounts::add_key`]; [`ErrorKind::Quota`].
    pub(crate) async fn add_own_key(&self, user: &str) -> Result<(String, Secret)> {
        let _making = self.making.lock().await;
        let keys = self.access_keys(Some(user)).await?.len();
        let max = self.limits().keys_per_user;
        if keys >= max {
            return Err(exceeded("AccessKeysPerUser", max));
        }
        self.add_key(user, None, None).await
    }

    /// Adds a key of a user, or a share; makes up what is not given, with `prefix` in front.
    pub(super) async fn put_key(
        &self,
        user: User,
        prefix: &str,
        access_key: Option<String>,
        secret: Option<Secret>,
        share: Option<ShareRecord>,
    ) -> Result<(String, Secret)> {
        let access_key = access_key.unwrap_or_else(|| {
            let rest = KEY_CHARS.saturating_sub(prefix.len());
            format!("{prefix}{}", self.random_text(rest, ACCESS_KEY_CHARS))
        });
        let fit = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        if !(3..=128).contains(&access_key.len()) || !access_key.bytes().all(fit) {
            let message = format!(
                "access key {access_key:?}: 3 to 128 letters, digits, '-', '_' and '.' are allowed"
            );
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        let secret = secret.unwrap_or_else(|| self.random_secret());
        if !(8..=128).contains(&secret.reveal().len()) {
            let message = "a secret key has 8 to 128 characters";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let wrapped = self
            .master
            .wrap(&*self.catalog.env().rng, &context(&access_key), &secret)
            .map_err(|error| Error::with_source(ErrorKind::Internal, "wrapping a secret", error))?;
        let record = KeyRecord {
            user: user.id,
            user_name: user.name,
            tenant: user.tenant.as_str().to_owned(),
            secret: wrapped,
            disabled: false,
            created: self.catalog.env().clock.now(),
            revision: self.catalog.env().rng.u64(),
            share,
        };
        let puts = vec![
            (catalog::access_key(&access_key), encode(&record)),
            (key_of_user(record.user, &access_key), Bytes::new()),
        ];
        self.add(puts, || exists("access key", &access_key)).await?;
        Ok((access_key, secret))
    }

    /// The access keys, of one user (`[TENANT:]NAME`) or of all, by id.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn access_keys(&self, user: Option<&str>) -> Result<Vec<KeyInfo>> {
        let mut found = Vec::new();
        let mut list = |id: String, record: &KeyRecord, user: Option<(&str, bool)>| {
            if record.share.is_none() {
                // The user may have been renamed since the key was written.
                let name = user.map_or(record.user_name.as_str(), |(name, _)| name);
                found.push(KeyInfo {
                    access_key: id,
                    user_disabled: user.is_some_and(|(_, disabled)| disabled),
                    user: shown(&record.tenant, name),
                    disabled: record.disabled,
                    created: record.created,
                });
            }
        };
        if let Some(name) = user {
            let (tenant, name) = designation(name)?;
            let user = match self.tenant_id(&tenant).await {
                Ok(tenant) => self.user_in(tenant, name).await,
                Err(error) => Err(error),
            };
            let user = match user {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
                user => user?,
            };
            for (id, record) in self.keys_of_user(user.id).await? {
                list(id, &record, Some((&user.name, user.disabled)));
            }
            return Ok(found);
        }
        let users = self.users().await?.into_iter();
        let users: BTreeMap<UserId, User> = users.map(|user| (user.id, user)).collect();
        for (key, value) in self.all(&catalog::access_keys()).await? {
            let record: KeyRecord = decode(&value)?;
            let user = users.get(&record.user);
            list(
                id_of(&key),
                &record,
                user.map(|user| (user.name.as_str(), user.disabled)),
            );
        }
        Ok(found)
    }

    /// The access keys of a user with their records, shares among them, by id.
    pub(super) async fn keys_of_user(&self, user: UserId) -> Result<Vec<(String, KeyRecord)>> {
        self.index_keys().await?;
        let range = catalog::KeyRange::prefix(key_of_user(user, ""));
        let mut found = Vec::new();
        for (key, _) in self.all(&range).await? {
            let id = String::from_utf8_lossy(&key[range.from.len()..]).into_owned();
            let record = self.read::<KeyRecord>(&catalog::access_key(&id)).await?;
            if let Some(record) = record.filter(|record| record.user == user) {
                found.push((id, record));
            }
        }
        Ok(found)
    }

    /// Makes the index of keys by user, once, for catalogs that earlier releases wrote. Keys that are
    /// added meanwhile are in it from the beginning. Cut short, it is made again.
    async fn index_keys(&self) -> Result<()> {
        if self.keys_indexed.load(Relaxed) {
            return Ok(());
        }
        let marker = catalog::user_by(KEYS_BY_USER, b"");
        if self.catalog.kv().get(&marker).await?.value.is_none() {
            for (key, _) in self.all(&catalog::access_keys()).await? {
                let add = |record: &mut KeyRecord, batch: &mut Batch| {
                    let row = key_of_user(record.user, &id_of(&key));
                    batch.puts.push((row, Bytes::new()));
                    Ok(())
                };
                let gone = || none("access key", &id_of(&key));
                match self.edit(&key, gone, add).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            let done = Batch {
                puts: vec![(marker, Bytes::from_static(&[KEYS_BY_USER_VERSION]))],
                ..Batch::default()
            };
            match self.commit(done).await {
                Err(CommitError::Failed(error)) => return Err(error),
                Ok(_) | Err(CommitError::Conflict(_)) => {}
            }
        }
        self.keys_indexed.store(true, Relaxed);
        Ok(())
    }

    /// Switches an access key off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_key_disabled(&self, access_key: &str, disabled: bool) -> Result<()> {
        let revision = self.catalog.env().rng.u64();
        let change = |record: &mut KeyRecord, _: &mut Batch| {
            record.disabled = disabled;
            record.revision = revision;
            Ok(())
        };
        let key = catalog::access_key(access_key);
        self.edit(&key, || none("access key", access_key), change)
            .await
    }

    /// Removes an access key.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_key(&self, access_key: &str) -> Result<()> {
        let key = catalog::access_key(access_key);
        let remove = |record: &mut KeyRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            batch.deletes.push(key_of_user(record.user, access_key));
            Ok(())
        };
        self.edit(&key, || none("access key", access_key), remove)
            .await
    }

    /// The master key that encrypts the secret in the record of an access key.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`], [`ErrorKind::Unsupported`].
    pub fn wrapped_under(value: &[u8]) -> Result<MasterKeyId> {
        let record: KeyRecord = decode(value)?;
        wrapped_with(&record.secret)
            .map_err(|error| Error::with_source(ErrorKind::Corrupt, "an access key", error))
    }

    /// The record of an access key with its secret wrapped under the current master key.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when it is none, or its secret does not unwrap.
    pub fn rewrapped(&self, key: &[u8], value: &[u8]) -> Result<Bytes> {
        let mut record: KeyRecord = decode(value)?;
        let id = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
        let failed = |error| {
            let what = format!("the secret of access key {id}");
            Error::with_source(ErrorKind::Corrupt, what, error)
        };
        let context = context(&id);
        let secret = self.master.unwrap_secret(&context, &record.secret);
        let secret = secret.map_err(failed)?;
        let wrapped = self
            .master
            .wrap(&*self.catalog.env().rng, &context, &secret);
        record.secret = wrapped.map_err(failed)?;
        Ok(encode(&record))
    }

    pub(super) async fn lookup(&self, id: &str) -> Result<Option<AccessKey>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(cached) = cache.keys.get(id) {
                cached.last_use.note(self.catalog.env().clock.now());
                return Ok(self.unless_over(cached.key.clone()));
            }
            cache.changes
        };
        let Some(record) = self.read::<KeyRecord>(&catalog::access_key(id)).await? else {
            return Ok(None);
        };
        // All keys of a user share its compiled policies.
        let cached = match self.cached_user(record.user).await? {
            Some(cached) => Some(cached),
            None => match self.user_of_first_days(&record).await? {
                Some(user) => {
                    let whole = self.whole_with_scopes(user).await?;
                    Some(CachedUser::new(whole, self.catalog.env().clock.now()))
                }
                None => None,
            },
        };
        let Some(CachedUser { user, scopes, .. }) = cached else {
            return Ok(None);
        };
        if record.disabled || user.disabled || self.is_account_disabled(&user).await? {
            return Ok(None);
        }
        let secret = self
            .master
            .unwrap_secret(&context(id), &record.secret)
            .map_err(|error| {
                let what = format!("the secret of access key {id}");
                Error::with_source(ErrorKind::Internal, what, error)
            })?;
        let share = record.share.as_ref();
        let bounds = share
            .map(|share| share.bounds(id, &user.tenant))
            .transpose()?;
        let key = AccessKey {
            id: id.into(),
            secret,
            revision: record.revision,
            user,
            bounds: bounds.map(Arc::new),
        };
        let may_cache = self.compiled.may_cache();
        let last_use = LastUse::at(self.catalog.env().clock.now());
        let mut cache = self.cache.write();
        if may_cache && cache.holds(changes, &scopes, Some(id)) {
            let cached = CachedKey {
                key: key.clone(),
                scopes,
                last_use,
            };
            cache.put_key(id, cached);
        }
        drop(cache);
        Ok(self.unless_over(key))
    }

    /// The user of a key from before users were found by id.
    async fn user_of_first_days(&self, key: &KeyRecord) -> Result<Option<UserRecord>> {
        let tenant = self.tenant_id(&TenantName::new(&key.tenant)?).await?;
        let user = self
            .read::<UserRecord>(&user_key(tenant, &key.user_name))
            .await?;
        Ok(user.filter(|user| user.id == key.user))
    }

    /// A share that has ended is no key any more.
    fn unless_over(&self, key: AccessKey) -> Option<AccessKey> {
        let now = self.catalog.env().clock.now();
        let over = key
            .bounds
            .as_ref()
            .is_some_and(|bounds| now >= bounds.expires);
        (!over).then_some(key)
    }

    /// A new secret. None begins with a dash: command lines take that for an option.
    fn random_secret(&self) -> Secret {
        loop {
            let text = self.random_text(40, SECRET_CHARS);
            if !text.starts_with('-') {
                return Secret::new(text);
            }
        }
    }

    /// `len` characters, each as likely as the others (the alphabets divide 256).
    fn random_text(&self, len: usize, alphabet: &[u8]) -> String {
        let mut bytes = vec![0; len];
        self.catalog.env().rng.fill(&mut bytes);
        bytes
            .iter()
            .map(|b| char::from(alphabet[usize::from(*b) % alphabet.len()]))
            .collect()
    }
}

/// Where it stands that an access key is a user's.
pub(super) fn key_of_user(user: UserId, access_key: &str) -> Bytes {
    let mut value = user.0.to_be_bytes().to_vec();
    value.extend_from_slice(access_key.as_bytes());
    catalog::user_by(KEYS_BY_USER, &value)
}

/// The id of an access key, from the key of its record.
pub(super) fn id_of(key: &Bytes) -> String {
    String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned()
}

/// A name as people write it.
pub(super) fn shown(tenant: &str, name: &str) -> String {
    if tenant.is_empty() {
        name.to_owned()
    } else {
        format!("{tenant}:{name}")
    }
}

/// What a wrapped secret is bound to, so that it cannot be moved to another key.
fn context(access_key: &str) -> String {
    format!("access-key:{access_key}")
}
