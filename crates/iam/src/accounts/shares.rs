//! Shares: an object that somebody without an account may fetch for some days, or a name that such a one
//! may put an object at.
//!
//! A share is an access key of its own, which may do just that and ends by itself. Its secret signs one
//! address and is given to nobody, so that taking the key away is all it takes to end the share. It never may more
//! than the user whose it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_auth::{Bounds, Caveats, Limit, Secret};
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, Result, TenantName, Timestamp, UserId};

use super::Accounts;
use super::keys::{key_of_user, shown};
use crate::names::none;
use crate::record::{KeyRecord, ShareRecord, decode};

/// What the keys of shares begin with.
const PREFIX: &str = "DWSH";
/// Longest share in seconds: what a presigned address may last.
const SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Shares that ended so long ago are forgotten, in seconds.
const KEPT_SECS: u64 = 30 * 24 * 3600;

impl ShareRecord {
    /// What the key is held to.
    pub(super) fn bounds(&self, id: &str, tenant: &TenantName) -> Result<Bounds> {
        let activity = if self.upload { "UPLOAD" } else { "DOWNLOAD" };
        let caveats = Caveats::parse(&[
            format!("path:/{}/{}", self.bucket, self.key),
            format!("activity:{activity}"),
        ]);
        let caveats = caveats.map_err(|error| {
            Error::with_source(ErrorKind::Corrupt, format!("share {id}"), error)
        })?;
        Ok(Bounds {
            credential: format!("share:{id}").into(),
            expires: self.expires,
            limits: vec![
                Limit::Caveats(Arc::new(caveats.within(tenant.clone()))),
                Limit::NoIam,
            ],
            ..Bounds::default()
        })
    }
}

/// A share to make.
#[derive(Clone, Debug)]
pub struct NewShare {
    /// As whom its user acts: `[TENANT:]NAME`.
    pub user: String,
    /// The bucket, of the user's tenant.
    pub bucket: BucketName,
    /// The object.
    pub key: ObjectKey,
    /// Whether something may be put there, not fetched.
    pub upload: bool,
    /// How long it lasts.
    pub seconds: u64,
}

/// A share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareInfo {
    /// Its access key, by which it is revoked.
    pub id: String,
    /// The user: `[TENANT:]NAME`.
    pub user: String,
    /// Of what: `/bucket/key`.
    pub path: String,
    /// Whether something may be put there, not fetched.
    pub upload: bool,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
}

impl Accounts {
    /// Makes a share; its secret is for signing the one address.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] without such a user; [`ErrorKind::InvalidArgument`] for one that lasts
    /// longer than a week, or for a name that no caveat can hold.
    pub async fn add_share(&self, new: NewShare) -> Result<(ShareInfo, Secret)> {
        let now = self.catalog.env().clock.now();
        if !(1..=SECONDS_MAX).contains(&new.seconds) {
            let words = "a share lasts 7 days at most";
            return Err(Error::new(ErrorKind::InvalidArgument, words));
        }
        let user = self.user(&new.user).await?;
        let share = ShareRecord {
            bucket: new.bucket.as_str().to_owned(),
            key: new.key.as_str().to_owned(),
            upload: new.upload,
            expires: Timestamp::from_secs(now.secs() + new.seconds),
        };
        if share.key.ends_with('/') || share.bounds("", &user.tenant).is_err() {
            let words = format!("/{}/{} cannot be shared", share.bucket, share.key);
            return Err(Error::new(ErrorKind::InvalidArgument, words));
        }
        self.forget_old_shares(now).await?;
        let (id, secret) = self.put_key(user, PREFIX, None, None, Some(share)).await?;
        let all = self.shares().await?;
        let info = all.into_iter().find(|share| share.id == id);
        let info = info.ok_or_else(|| none("share", &id))?;
        Ok((info, secret))
    }

    /// All shares, those that ended lately too, by their keys.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn shares(&self) -> Result<Vec<ShareInfo>> {
        let users = self.users().await?.into_iter();
        let names: BTreeMap<UserId, String> = users.map(|user| (user.id, user.name)).collect();
        let mut found = Vec::new();
        for (key, value) in self.all(&catalog::access_keys()).await? {
            let record: KeyRecord = decode(&value)?;
            let name = names.get(&record.user).unwrap_or(&record.user_name);
            if let Some(share) = record.share {
                found.push(ShareInfo {
                    id: String::from_utf8_lossy(&key[1..]).into_owned(),
                    user: shown(&record.tenant, name),
                    path: format!("/{}/{}", share.bucket, share.key),
                    upload: share.upload,
                    created: record.created,
                    expires: share.expires,
                });
            }
        }
        Ok(found)
    }

    /// Ends a share at once.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], for keys that are no share too.
    pub async fn revoke_share(&self, id: &str) -> Result<()> {
        let key = catalog::access_key(id);
        let remove = |record: &mut KeyRecord, batch: &mut Batch| {
            if record.share.is_none() {
                return Err(none("share", id));
            }
            batch.deletes.push(key.clone());
            batch.deletes.push(key_of_user(record.user, id));
            Ok(())
        };
        self.edit(&key, || none("share", id), remove).await
    }

    async fn forget_old_shares(&self, now: Timestamp) -> Result<()> {
        for share in self.shares().await? {
            if share.expires.secs().saturating_add(KEPT_SECS) < now.secs() {
                match self.revoke_share(&share.id).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
