//! Access keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{AccessKey, Secret, User};
use dewar_meta::kv::Batch;
use dewar_meta::ns::keys as catalog;
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};

use super::record::{KeyRecord, UserRecord, decode, encode};
use super::shares::ShareRecord;
use super::users::user_key;
use super::{Accounts, CACHED_MAX, designation, exists, folded, is_of, none};

/// Characters of an access key that is made up.
const KEY_CHARS: usize = 20;
const ACCESS_KEY_CHARS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SECRET_CHARS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// An access key as administrators see it: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its public half.
    pub access_key: String,
    /// Whose: `[TENANT:]NAME`.
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
            .wrap(&*self.env.rng, &context(&access_key), &secret)
            .map_err(|error| Error::with_source(ErrorKind::Internal, "wrapping a secret", error))?;
        let record = KeyRecord {
            user: user.id,
            user_name: user.name,
            tenant: user.tenant.as_str().to_owned(),
            secret: wrapped,
            disabled: false,
            created: self.env.clock.now(),
            revision: self.env.rng.u64(),
            share,
        };
        let puts = vec![(catalog::access_key(&access_key), encode(&record))];
        self.add(puts, || exists("access key", &access_key)).await?;
        Ok((access_key, secret))
    }

    /// The access keys, of one user (`[TENANT:]NAME`) or of all, by id.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn access_keys(&self, user: Option<&str>) -> Result<Vec<KeyInfo>> {
        self.keys_listed(user, false).await
    }

    /// The same, with those that are shares where that is wanted.
    async fn keys_listed(&self, user: Option<&str>, shares: bool) -> Result<Vec<KeyInfo>> {
        let users = self.users().await?.into_iter();
        let users: BTreeMap<UserId, User> = users.map(|user| (user.id, user)).collect();
        let wanted = match user {
            None => None,
            Some(user) => {
                let (tenant, name) = designation(user)?;
                let named = |user: &&User| {
                    let same = folded(&user.name) == folded(name) && is_of(&user.name, name);
                    same && user.tenant == tenant
                };
                Some(users.values().find(named).map(|user| user.id))
            }
        };
        let mut found = Vec::new();
        for (key, value) in self.all(&catalog::access_keys()).await? {
            let record: KeyRecord = decode(&value)?;
            let unwanted = record.share.is_some() && !shares;
            if unwanted || wanted.is_some_and(|wanted| wanted != Some(record.user)) {
                continue;
            }
            // The user may have been renamed since the key was written.
            let user = users.get(&record.user);
            let name = user.map_or(&record.user_name, |user| &user.name);
            found.push(KeyInfo {
                access_key: String::from_utf8_lossy(&key[1..]).into_owned(),
                user_disabled: user.is_some_and(|user| user.disabled),
                user: shown(&record.tenant, name),
                disabled: record.disabled,
                created: record.created,
            });
        }
        Ok(found)
    }

    /// All that signs for a user, shares among it.
    pub(super) async fn keys_of(&self, tenant: &TenantName, name: &str) -> Result<Vec<KeyInfo>> {
        let user = shown(tenant.as_str(), name);
        self.keys_listed(Some(&user), true).await
    }

    /// Switches an access key off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_key_disabled(&self, access_key: &str, disabled: bool) -> Result<()> {
        let revision = self.env.rng.u64();
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
        let remove = |_: &mut KeyRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            Ok(())
        };
        self.edit(&key, || none("access key", access_key), remove)
            .await
    }

    /// The record of an access key with its secret wrapped under the current master key.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when it is none, or its secret does not unwrap.
    pub(crate) fn rewrapped(&self, key: &[u8], value: &[u8]) -> Result<Bytes> {
        let mut record: KeyRecord = decode(value)?;
        let id = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
        let failed = |error| {
            let what = format!("the secret of access key {id}");
            Error::with_source(ErrorKind::Corrupt, what, error)
        };
        let context = context(&id);
        let secret = self.master.unwrap_secret(&context, &record.secret);
        let secret = secret.map_err(failed)?;
        let wrapped = self.master.wrap(&*self.env.rng, &context, &secret);
        record.secret = wrapped.map_err(failed)?;
        Ok(encode(&record))
    }

    pub(super) async fn lookup(&self, id: &str) -> Result<Option<AccessKey>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(key) = cache.keys.get(id) {
                return Ok(self.unless_over(key.clone()));
            }
            cache.changes
        };
        let Some(record) = self.read::<KeyRecord>(&catalog::access_key(id)).await? else {
            return Ok(None);
        };
        let user = match self.record_by_id(record.user).await? {
            None => self.user_of_first_days(&record).await?,
            found => found,
        };
        let Some(user) = user else { return Ok(None) };
        if record.disabled || user.disabled {
            return Ok(None);
        }
        // With the account's own user all of the account is switched off.
        if let Some(account) = user.account {
            let root = self.user_by_id(account).await?;
            if root.is_none_or(|root| root.disabled) {
                return Ok(None);
            }
        }
        let user = self.whole(user).await?;
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
            user: Arc::new(user),
            bounds: bounds.map(Arc::new),
        };
        let mut cache = self.cache.write();
        if cache.changes == changes {
            if cache.keys.len() >= CACHED_MAX {
                cache.keys.clear();
            }
            cache.keys.insert(id.to_owned(), key.clone());
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
        let now = self.env.clock.now();
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
        self.env.rng.fill(&mut bytes);
        bytes
            .iter()
            .map(|b| char::from(alphabet[usize::from(*b) % alphabet.len()]))
            .collect()
    }
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
