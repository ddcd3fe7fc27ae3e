//! Users and access keys: their records in the catalog, and the one place that unwraps secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{AccessKey, Credentials, MasterKeys, Secret, User};
use dewar_env::{BoxFuture, Env};
use dewar_meta::kv::{Batch, CommitError, Kv, Require, Scan};
use dewar_meta::ns::keys;
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, Timestamp, UserId};
use minicbor::{Decode, Encode};
use parking_lot::RwLock;

/// Access keys kept unwrapped; a miss costs a catalog read and an AES-GCM.
const CACHED_KEYS_MAX: usize = 10_000;

/// Tries of a change that collides with others.
const TRIES: usize = 16;

/// Users live in the default tenant until tenants have commands of their own.
const DEFAULT_TENANT: TenantId = TenantId(1);

const ACCESS_KEY_CHARS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SECRET_CHARS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A user as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct UserRecord {
    #[n(0)]
    id: UserId,
    #[n(1)]
    name: String,
    #[n(2)]
    tenant: String,
    #[n(3)]
    disabled: bool,
    #[n(4)]
    created: Timestamp,
}

/// An access key as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct KeyRecord {
    #[n(0)]
    user: UserId,
    #[n(1)]
    user_name: String,
    #[n(2)]
    tenant: String,
    /// Under the master key, bound to the access key's id.
    #[cbor(n(3), with = "minicbor::bytes")]
    secret: Vec<u8>,
    #[n(4)]
    disabled: bool,
    #[n(5)]
    created: Timestamp,
    #[n(6)]
    revision: u64,
}

/// An access key as administrators see it: without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its public half.
    pub access_key: String,
    /// Whose.
    pub user: String,
    /// Whether it is switched off.
    pub disabled: bool,
    /// Whether its user is, so that it does not work either way.
    pub user_disabled: bool,
    /// When it was added.
    pub created: Timestamp,
}

/// The users and keys of a deployment.
pub struct Accounts {
    kv: Arc<dyn Kv>,
    env: Env,
    master: Arc<MasterKeys>,
    cache: RwLock<Cache>,
}

/// Access keys found lately.
#[derive(Default)]
struct Cache {
    keys: BTreeMap<String, AccessKey>,
    /// Changes so far: what was read before one is not kept after it, or a key that was switched
    /// off in between would stay valid.
    changes: u64,
}

impl Accounts {
    pub(crate) fn new(kv: Arc<dyn Kv>, env: Env, master: Arc<MasterKeys>) -> Self {
        Self {
            kv,
            env,
            master,
            cache: RwLock::default(),
        }
    }

    /// Adds a user of the default tenant. `id` must never have been given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`]; [`ErrorKind::AlreadyExists`].
    pub async fn add_user(&self, id: UserId, name: &str) -> Result<User> {
        check_name(name)?;
        let record = UserRecord {
            id,
            name: name.to_owned(),
            tenant: String::new(),
            disabled: false,
            created: self.env.clock.now(),
        };
        let key = keys::user(DEFAULT_TENANT, name);
        let batch = Batch {
            require: vec![Require::absent(key.clone())],
            puts: vec![(key, encode(&record))],
            ..Batch::default()
        };
        match self.kv.commit(batch).await {
            Ok(_) => record.to_user(),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("user {name} exists already"),
            )),
            Err(CommitError::Failed(error)) => Err(error.context(format!("adding user {name}"))),
        }
    }

    /// All users, by name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn users(&self) -> Result<Vec<User>> {
        let range = keys::users(DEFAULT_TENANT);
        let values = self.all(&range.from, &range.to).await?;
        values
            .into_iter()
            .map(|(_, value)| decode::<UserRecord>(&value)?.to_user())
            .collect()
    }

    /// The user of a name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn user(&self, name: &str) -> Result<User> {
        let value = self.kv.get(&keys::user(DEFAULT_TENANT, name)).await?.value;
        decode::<UserRecord>(&value.ok_or_else(|| no_user(name))?)?.to_user()
    }

    /// Switches a user, and with it all its keys, off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_user_disabled(&self, name: &str, disabled: bool) -> Result<()> {
        let key = keys::user(DEFAULT_TENANT, name);
        self.change(
            &key,
            || no_user(name),
            |value| {
                let mut record: UserRecord = decode(value)?;
                record.disabled = disabled;
                Ok(Some(encode(&record)))
            },
        )
        .await
    }

    /// Removes a user and its keys. What the user owns stays.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_user(&self, name: &str) -> Result<()> {
        // Keys first: a user without keys is harmless, keys without a user are refused anyway.
        for key in self.access_keys(Some(name)).await? {
            self.remove_key(&key.access_key).await?;
        }
        let key = keys::user(DEFAULT_TENANT, name);
        self.change(&key, || no_user(name), |_| Ok(None)).await
    }

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
        let access_key =
            access_key.unwrap_or_else(|| format!("DW{}", self.random_text(18, ACCESS_KEY_CHARS)));
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
        };
        let key = keys::access_key(&access_key);
        let batch = Batch {
            require: vec![Require::absent(key.clone())],
            puts: vec![(key, encode(&record))],
            ..Batch::default()
        };
        match self.kv.commit(batch).await {
            Ok(_) => Ok((access_key, secret)),
            Err(CommitError::Conflict(_)) => {
                let message = format!("access key {access_key} exists already");
                Err(Error::new(ErrorKind::AlreadyExists, message))
            }
            Err(CommitError::Failed(error)) => Err(error.context("adding an access key")),
        }
    }

    /// The access keys, of one user or of all, by id.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn access_keys(&self, user: Option<&str>) -> Result<Vec<KeyInfo>> {
        let range = keys::access_keys();
        let disabled: BTreeSet<String> = self
            .users()
            .await?
            .into_iter()
            .filter(|user| user.disabled)
            .map(|user| user.name)
            .collect();
        let mut found = Vec::new();
        for (key, value) in self.all(&range.from, &range.to).await? {
            let record: KeyRecord = decode(&value)?;
            if user.is_some_and(|user| user != record.user_name) {
                continue;
            }
            found.push(KeyInfo {
                access_key: String::from_utf8_lossy(&key[1..]).into_owned(),
                user_disabled: disabled.contains(&record.user_name),
                user: record.user_name,
                disabled: record.disabled,
                created: record.created,
            });
        }
        Ok(found)
    }

    /// Switches an access key off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_key_disabled(&self, access_key: &str, disabled: bool) -> Result<()> {
        let revision = self.env.rng.u64();
        self.change(
            &keys::access_key(access_key),
            || no_key(access_key),
            |value| {
                let mut record: KeyRecord = decode(value)?;
                record.disabled = disabled;
                record.revision = revision;
                Ok(Some(encode(&record)))
            },
        )
        .await
    }

    /// Removes an access key.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_key(&self, access_key: &str) -> Result<()> {
        self.change(
            &keys::access_key(access_key),
            || no_key(access_key),
            |_| Ok(None),
        )
        .await
    }

    async fn lookup(&self, id: &str) -> Result<Option<AccessKey>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(key) = cache.keys.get(id) {
                return Ok(Some(key.clone()));
            }
            cache.changes
        };
        let Some(value) = self.kv.get(&keys::access_key(id)).await?.value else {
            return Ok(None);
        };
        let record: KeyRecord = decode(&value)?;
        let user = self
            .kv
            .get(&keys::user(DEFAULT_TENANT, &record.user_name))
            .await?
            .value;
        let Some(user) = user else { return Ok(None) };
        let user = decode::<UserRecord>(&user)?.to_user()?;
        // A removed user's name may have been given to another since.
        if record.disabled || user.disabled || user.id != record.user {
            return Ok(None);
        }
        let secret = self
            .master
            .unwrap_secret(&context(id), &record.secret)
            .map_err(|error| {
                let what = format!("the secret of access key {id}");
                Error::with_source(ErrorKind::Internal, what, error)
            })?;
        let key = AccessKey {
            id: id.into(),
            secret,
            revision: record.revision,
            user: Arc::new(user),
        };
        let mut cache = self.cache.write();
        if cache.changes == changes {
            if cache.keys.len() >= CACHED_KEYS_MAX {
                cache.keys.clear();
            }
            cache.keys.insert(id.to_owned(), key.clone());
        }
        Ok(Some(key))
    }

    async fn change(
        &self,
        key: &Bytes,
        absent: impl Fn() -> Error,
        edit: impl Fn(&[u8]) -> Result<Option<Bytes>>,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let read = self.kv.get(key).await?;
            let value = read.value.as_ref().ok_or_else(&absent)?;
            let mut batch = Batch {
                require: vec![Require::same(key.clone(), &read)],
                ..Batch::default()
            };
            match edit(value)? {
                Some(value) => batch.puts.push((key.clone(), value)),
                None => batch.deletes.push(key.clone()),
            }
            match self.kv.commit(batch).await {
                Ok(_) => {
                    // Whatever it was, a key or a user with keys: look everything up anew.
                    let mut cache = self.cache.write();
                    cache.keys.clear();
                    cache.changes += 1;
                    return Ok(());
                }
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "an account changes too often to be changed",
        ))
    }

    async fn all(&self, from: &Bytes, to: &Bytes) -> Result<Vec<(Bytes, Bytes)>> {
        let snapshot = self.kv.snapshot();
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        let mut start = from.clone();
        loop {
            let scan = Scan {
                from: &start,
                to,
                limit: 1000,
                reverse: false,
            };
            let page = snapshot.scan(scan).await?;
            found.extend(page.pairs);
            let Some((last, _)) = found.last().filter(|_| page.more) else {
                return Ok(found);
            };
            start = keys::just_after(last);
        }
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

impl Credentials for Accounts {
    fn access_key<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<AccessKey>>> {
        Box::pin(self.lookup(id))
    }
}

impl UserRecord {
    fn to_user(&self) -> Result<User> {
        let tenant = TenantName::new(&self.tenant)?;
        Ok(User {
            disabled: self.disabled,
            ..User::new(self.id, &self.name, tenant, self.created)
        })
    }
}

/// What a wrapped secret is bound to, so that it cannot be moved to another key.
fn context(access_key: &str) -> String {
    format!("access-key:{access_key}")
}

fn check_name(name: &str) -> Result<()> {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fit) {
        let message =
            format!("user name {name:?}: 1 to 64 letters, digits, and any of -_.@+ are allowed");
        return Err(Error::new(ErrorKind::InvalidName, message));
    }
    Ok(())
}

fn no_user(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no user {name:?}"))
}

fn no_key(access_key: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no access key {access_key:?}"),
    )
}

fn encode<T: Encode<()>>(record: &T) -> Bytes {
    // Writing into a vector cannot fail.
    minicbor::to_vec(record).unwrap_or_default().into()
}

fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T> {
    minicbor::decode(bytes)
        .map_err(|error| Error::with_source(ErrorKind::Corrupt, "an account's record", error))
}
