//! Users.

use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{Caller, CredentialError, Origin, User};
use dewar_catalog::{Tenant, keys as catalog};
use dewar_kv::{Batch, Precondition};
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, UserId};

use super::limits::EntityKind;
use super::{Accounts, TRIES, refused};
use crate::cache::{AccountScope, CachedUser};
use crate::names::{account_of, check_name, check_path, designation, exists, folded, is_of, none};
use crate::record::{BY_EMAIL, BY_ID, IdIndexRecord, UserRecord, decode, encode};

/// Longest display name in bytes.
const DISPLAY_NAME_BYTES_MAX: usize = 256;
/// Longest mail address in bytes.
const EMAIL_BYTES_MAX: usize = 254;

/// A user to add.
#[derive(Clone, Debug, Default)]
pub struct NewUser {
    /// `NAME`, or `ROOT/NAME` for a user of ROOT's account.
    pub name: String,
    /// Its tenant, made if there is none.
    pub tenant: TenantName,
    /// Path of the user within its account; `/` if empty.
    pub path: String,
    /// Name for people.
    pub display_name: Option<String>,
    /// Mail address.
    pub email: Option<String>,
    /// Whether it manages the tenant.
    pub tenant_admin: bool,
}

/// A change of a user.
#[derive(Clone, Debug, Default)]
pub struct UserChange {
    /// Another name, of the same account.
    pub name: Option<String>,
    /// Another path.
    pub path: Option<String>,
    /// Another display name.
    pub display_name: Option<String>,
    /// Whether it is switched off.
    pub disabled: Option<bool>,
    /// Whether it manages the tenant.
    pub tenant_admin: Option<bool>,
}

impl Accounts {
    /// Adds a user of the default tenant. `id` must never have been given.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`]; [`ErrorKind::AlreadyExists`].
    pub async fn add_user(&self, id: UserId, name: &str) -> Result<User> {
        let new = NewUser {
            name: name.to_owned(),
            ..NewUser::default()
        };
        self.add_user_with(id, new).await
    }

    /// Adds a user.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] or [`ErrorKind::InvalidArgument`] for what cannot be;
    /// [`ErrorKind::AlreadyExists`] for a name or mail address that is taken;
    /// [`ErrorKind::NotFound`] for one of an account that there is not.
    pub async fn make_user(&self, new: NewUser) -> Result<User> {
        let id = UserId(self.new_id().await?);
        self.add_user_with(id, new).await
    }

    /// Makes a user with an id that is given, such as one that salvage found.
    ///
    /// # Errors
    /// As [`Accounts::make_user`].
    pub async fn add_user_with(&self, id: UserId, new: NewUser) -> Result<User> {
        check_name("user", &new.name)?;
        let tenant = self.make_tenant(&new.tenant).await?;
        let account = match new.name.split_once('/') {
            None => None,
            Some((root, _)) => Some(self.user_in(tenant, root).await?.id),
        };
        let record = UserRecord {
            id,
            name: new.name,
            tenant: new.tenant.as_str().to_owned(),
            disabled: false,
            created: self.catalog.env().clock.now(),
            account,
            path: Some(new.path).filter(|path| !path.is_empty() && path != "/"),
            display_name: new.display_name,
            email: new.email,
            tenant_admin: Some(new.tenant_admin).filter(|admin| *admin),
            held: crate::record::AttachedPolicies::default(),
            groups: Vec::new(),
            group_ids: Vec::new(),
        };
        check_record(&record)?;
        let root = account_of(&record.name).unwrap_or_default();
        let own = catalog::user(tenant, &folded(&format!("{root}/")));
        let own = catalog::KeyRange::prefix(own);
        let quota = EntityKind::User;
        let _making = self.within_quota(quota, &record.name, &own).await?;
        let mut puts = vec![(user_key(tenant, &record.name), encode(&record))];
        puts.extend(places(&record));
        self.add(puts, || match &record.email {
            None => exists("user", &record.name),
            Some(email) => Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "user {} or mail address {email} exists already",
                    record.name
                ),
            ),
        })
        .await?;
        self.whole(record).await
    }

    /// All users of all tenants, by tenant and name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn users(&self) -> Result<Vec<User>> {
        self.user_range(&catalog::all_users()).await
    }

    /// The users of an account but its own, by name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn users_of(&self, tenant: &TenantName, root: &str) -> Result<Vec<User>> {
        let tenant = self.tenant_id(tenant).await?;
        let prefix = catalog::user(tenant, &folded(&format!("{root}/")));
        let mut users = self.user_range(&catalog::KeyRange::prefix(prefix)).await?;
        users.retain(|user| account_of(&user.name) == Some(root));
        Ok(users)
    }

    async fn user_range(&self, range: &catalog::KeyRange) -> Result<Vec<User>> {
        let values = self.all(range).await?;
        values
            .into_iter()
            .map(|(_, value)| bare(&decode::<UserRecord>(&value)?))
            .collect()
    }

    /// The user of a name, `[TENANT:]NAME`, with its policies.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn user(&self, name: &str) -> Result<User> {
        let (tenant, name) = designation(name)?;
        self.user_of(&tenant, name).await
    }

    /// The same with the accounts by whose records its policies were decided.
    pub(super) async fn user_with_scopes(&self, name: &str) -> Result<(User, Vec<AccountScope>)> {
        let (tenant, name) = designation(name)?;
        let tenant = self.tenant_id(&tenant).await?;
        let record = self.user_in(tenant, name).await?;
        self.whole_with_scopes(record).await
    }

    /// The same, its tenant given.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn user_of(&self, tenant: &TenantName, name: &str) -> Result<User> {
        let tenant = self.tenant_id(tenant).await?;
        let record = self.user_in(tenant, name).await?;
        self.whole(record).await
    }

    pub(super) async fn user_in(&self, tenant: TenantId, name: &str) -> Result<UserRecord> {
        let found = self.read::<UserRecord>(&user_key(tenant, name)).await?;
        let found = found.filter(|record| is_of(&record.name, name));
        found.ok_or_else(|| none("user", name))
    }

    /// The user of an id, which is also its account's if it has one. Cached.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn user_by_id(&self, id: UserId) -> Result<Option<Arc<User>>> {
        Ok(self.cached_user(id).await?.map(|cached| cached.user))
    }

    pub(super) async fn cached_user(&self, id: UserId) -> Result<Option<CachedUser>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(cached) = cache.users.get(&id) {
                cached.last_use.note(self.catalog.env().clock.now());
                return Ok(Some(cached.clone()));
            }
            cache.changes
        };
        let Some(record) = self.record_by_id(id).await? else {
            return Ok(None);
        };
        let whole = self.whole_with_scopes(record).await?;
        let cached = CachedUser::new(whole, self.catalog.env().clock.now());
        let may_cache = self.compiled.may_cache();
        let mut cache = self.cache.write();
        if may_cache && cache.holds(changes, &cached.scopes, None) {
            cache.put_user(cached.clone());
        }
        drop(cache);
        Ok(Some(cached))
    }

    /// The user of an id as a caller, for fronts that let clients in without a secret. Cached.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`] if the user is gone or switched off, or its account is.
    pub async fn admitted(&self, id: UserId, origin: Origin) -> Result<Caller> {
        let gone = || refused(CredentialError::Invalid, format!("user {} is gone", id.0));
        let user = self.user_by_id(id).await?.ok_or_else(gone)?;
        if user.disabled || self.is_account_disabled(&user).await? {
            let words = format!("user {} is disabled", user.name);
            return Err(refused(CredentialError::Invalid, words));
        }
        Ok(Caller::admitted(user, origin))
    }

    /// The user of a mail address.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn user_by_email(&self, email: &str) -> Result<Option<User>> {
        let email = email.to_ascii_lowercase();
        let key = catalog::user_by(BY_EMAIL, email.as_bytes());
        let has = |record: &UserRecord| {
            let own = record.email.as_deref();
            own.is_some_and(|own| own.eq_ignore_ascii_case(&email))
        };
        match self.at_place(&key, has).await? {
            Some(record) => self.whole(record).await.map(Some),
            None => Ok(None),
        }
    }

    /// The record of the user of an id.
    pub(super) async fn record_by_id(&self, id: UserId) -> Result<Option<UserRecord>> {
        let key = catalog::user_by(BY_ID, &id.0.to_be_bytes());
        self.at_place(&key, |record| record.id == id).await
    }

    /// The user that is found by something else than its name.
    async fn at_place(
        &self,
        key: &Bytes,
        fits: impl Fn(&UserRecord) -> bool,
    ) -> Result<Option<UserRecord>> {
        let mut before = None;
        // A user that is renamed between the two reads is looked for again.
        for _ in 0..TRIES {
            let Some(place) = self.read::<IdIndexRecord>(key).await? else {
                return Ok(None);
            };
            let tenant = self.tenant_id(&TenantName::new(&place.tenant)?).await?;
            match self.user_in(tenant, &place.name).await {
                Ok(record) if fits(&record) => return Ok(Some(record)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            if before.as_ref() == Some(&place) {
                return Ok(None);
            }
            before = Some(place);
        }
        Ok(None)
    }

    /// Switches a user, and with it all its keys, off or on again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn set_user_disabled(&self, name: &str, disabled: bool) -> Result<()> {
        let change = UserChange {
            disabled: Some(disabled),
            ..UserChange::default()
        };
        self.change_user(name, change).await.map(drop)
    }

    /// Changes a user.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::AlreadyExists`] for a new name that is taken;
    /// [`ErrorKind::InvalidName`], [`ErrorKind::InvalidArgument`].
    pub async fn change_user(&self, name: &str, change: UserChange) -> Result<User> {
        let (tenant_name, name) = designation(name)?;
        let tenant = self.tenant_id(&tenant_name).await?;
        let key = user_key(tenant, name);
        let edit = |record: &mut UserRecord, batch: &mut Batch| {
            if let Some(disabled) = change.disabled {
                record.disabled = disabled;
            }
            if let Some(admin) = change.tenant_admin {
                record.tenant_admin = Some(admin).filter(|admin| *admin);
            }
            if let Some(path) = &change.path {
                record.path = Some(path.clone()).filter(|path| path != "/");
            }
            if let Some(display_name) = &change.display_name {
                record.display_name = Some(display_name.clone());
            }
            if let Some(new) = change.name.as_ref().filter(|new| **new != record.name) {
                check_name("user", new)?;
                record.name.clone_from(new);
                let moved = user_key(tenant, new);
                batch.puts.extend(places(record));
                if moved != key {
                    batch.require.push(Precondition::absent(moved.clone()));
                    batch.puts.push((moved, encode(&*record)));
                    batch.deletes.push(key.clone());
                }
            }
            check_record(record)?;
            Ok(record.clone())
        };
        if let Some(new) = change
            .name
            .as_deref()
            .filter(|new| folded(new) != folded(name))
        {
            let taken = self.read::<UserRecord>(&user_key(tenant, new)).await?;
            if taken.is_some() {
                return Err(exists("user", new));
            }
        }
        let record = self.edit(&key, || none("user", name), edit).await?;
        self.whole(record).await
    }

    /// Removes a user and its keys. Buckets and objects of the user stay.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn remove_user(&self, name: &str) -> Result<()> {
        // Keys first: a user without keys is harmless, keys without a user are refused anyway.
        let (tenant, name) = designation(name)?;
        let tenant = self.tenant_id(&tenant).await?;
        let user = self.user_in(tenant, name).await?;
        for (id, _) in self.keys_of_user(user.id).await? {
            self.remove_key(&id).await?;
        }
        let key = user_key(tenant, name);
        let remove = |record: &mut UserRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            batch
                .deletes
                .push(catalog::user_by(BY_ID, &record.id.0.to_be_bytes()));
            if let Some(email) = &record.email {
                let email = email.to_ascii_lowercase();
                batch
                    .deletes
                    .push(catalog::user_by(BY_EMAIL, email.as_bytes()));
            }
            Ok(())
        };
        self.edit(&key, || none("user", name), remove).await
    }
}

pub(super) fn user_key(tenant: TenantId, name: &str) -> Bytes {
    catalog::user(tenant, &folded(name))
}

/// What leads from a user's id and mail address to its name.
fn places(record: &UserRecord) -> Vec<(Bytes, Bytes)> {
    let place = encode(&IdIndexRecord {
        tenant: record.tenant.clone(),
        name: record.name.clone(),
    });
    let by_id = catalog::user_by(BY_ID, &record.id.0.to_be_bytes());
    let email = record
        .email
        .as_ref()
        .map(|email| email.to_ascii_lowercase());
    let by_email = email.map(|email| catalog::user_by(BY_EMAIL, email.as_bytes()));
    let keys = [Some(by_id), by_email].into_iter().flatten();
    keys.map(|key| (key, place.clone())).collect()
}

fn check_record(record: &UserRecord) -> Result<()> {
    if let Some(path) = &record.path {
        check_path(path)?;
    }
    let fits = |text: &Option<String>, max: usize| {
        text.as_ref().is_none_or(|text| {
            !text.is_empty() && text.len() <= max && !text.chars().any(char::is_control)
        })
    };
    if !fits(&record.display_name, DISPLAY_NAME_BYTES_MAX) {
        let message = format!("a display name has 1 to {DISPLAY_NAME_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    let address = record
        .email
        .as_ref()
        .is_none_or(|email| email.contains('@'));
    if !fits(&record.email, EMAIL_BYTES_MAX) || !address {
        let message = "a mail address holds an @ and has at most 254 bytes";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

/// The user of a record, without policies.
pub(super) fn bare(record: &UserRecord) -> Result<User> {
    let tenant = TenantName::new(&record.tenant)?;
    Ok(User {
        disabled: record.disabled,
        account: record.account.unwrap_or(record.id),
        path: record.path.clone().unwrap_or_else(|| "/".into()),
        display_name: record.display_name.clone(),
        email: record.email.clone(),
        tenant_admin: record.tenant_admin.unwrap_or_default(),
        ..User::new(record.id, &record.name, tenant, record.created)
    })
}

/// A tenant's id as records without tenant mean it.
pub(super) fn default_tenant() -> TenantId {
    Tenant::default_tenant().id
}
