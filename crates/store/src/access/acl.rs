//! Access control lists: converting a client's list to the stored one, and the verbs.

use bytes::Bytes;
use dewar_auth::{
    Acl, Action, Caller, CannedAcl, GRANTS_MAX, Grant, Grantee, Ownership, PublicAccessBlock,
};
use dewar_catalog::Actor;
use dewar_namespace::{Bucket, ChangeContext, NameRef, VersionAttributes};
use dewar_types::{Error, ErrorKind, Result, UserId, VersionName};
use minicbor::bytes::ByteVec;

use super::access_of;
use crate::api::{AccountName, BucketRef, GranteeName, NamedAcl, NewAcl, ObjectRef};
use crate::authorize::{AccessFacts, actor};
use crate::document::{Document as _, document_in};
use crate::info::shown_name;
use crate::{Inner, Store};

/// The future owner of a caller's object, and the object's list, if it is not the private one.
pub(crate) struct ObjectOwner {
    pub(crate) owner: UserId,
    pub(crate) acl: Option<Acl>,
}

impl ObjectOwner {
    /// The list as it is stored.
    pub(crate) fn acl_bytes(&self) -> Option<ByteVec> {
        self.acl.as_ref().map(|acl| acl.to_bytes().into())
    }

    /// The actor of the change, for the catalog: the owner of the new object.
    pub(crate) fn actor<'a>(&self, principal: &'a str) -> Actor<'a> {
        Actor {
            user: self.owner,
            principal,
        }
    }
}

fn disabled() -> Error {
    let message = "The bucket does not allow ACLs";
    Error::new(ErrorKind::AclsDisabled, message)
}

fn blocked() -> Error {
    let message = "public access control lists are blocked by the bucket's public access block";
    Error::new(ErrorKind::Denied, message)
}

impl Inner {
    /// The future owner of an object that the caller writes at `key` in the bucket, and the
    /// object's list.
    ///
    /// # Errors
    /// [`ErrorKind::AclsDisabled`]; [`ErrorKind::Denied`] for a public list where the public access
    /// block forbids it; errors in the list.
    pub(crate) async fn object_owner(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &str,
        wish: Option<&NewAcl>,
    ) -> Result<ObjectOwner> {
        let access = access_of(bucket)?;
        let bucket_owner = bucket.record.attributes.owner;
        // What nobody in particular writes belongs to whoever let them.
        let writer = match caller.account() {
            UserId(0) => bucket_owner,
            account => account,
        };
        let owner = match access.ownership() {
            Ownership::BucketOwnerEnforced => bucket_owner,
            Ownership::BucketOwnerPreferred if wish == Some(&FULL) => bucket_owner,
            Ownership::BucketOwnerPreferred | Ownership::ObjectWriter => writer,
        };
        let Some(wish) = wish else {
            return Ok(ObjectOwner { owner, acl: None });
        };
        let acl = self.acl_wanted(wish, owner, bucket_owner, None).await?;
        if access.ownership() == Ownership::BucketOwnerEnforced {
            // What is the bucket owner's alone anyway: clients like older rclone ask for `private` with
            // every object.
            let own = writer == bucket_owner && acl.is_private();
            return if own || is_no_op_acl(wish, &acl) {
                Ok(ObjectOwner { owner, acl: None })
            } else {
                Err(disabled())
            };
        }
        if !acl.is_private() {
            self.authorize_acl(caller, bucket, key, &self.details())?;
        }
        if access.block().block_public_acls && acl.is_public() {
            return Err(blocked());
        }
        Ok(ObjectOwner {
            owner,
            acl: Some(acl).filter(|acl| !acl.is_private()),
        })
    }

    /// The list that a client sets on a bucket or object of `owner`. `there` is the list that it
    /// replaces.
    pub(crate) async fn acl_wanted(
        &self,
        wish: &NewAcl,
        owner: UserId,
        bucket_owner: UserId,
        there: Option<&Acl>,
    ) -> Result<Acl> {
        let grants = match wish {
            NewAcl::Canned(canned) => return Ok(canned.acl(owner, bucket_owner)),
            NewAcl::Grants(grants) => grants,
            NewAcl::Document {
                owner: said,
                grants,
            } => {
                if said.parse::<UserId>() != Ok(owner) {
                    let message = format!("the owner is not {said:?} and cannot be changed");
                    return Err(Error::new(ErrorKind::Denied, message));
                }
                grants
            }
        };
        if grants.len() > GRANTS_MAX {
            let message = format!("a list has at most {GRANTS_MAX} grants");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let mut acl = Acl {
            owner,
            grants: Vec::with_capacity(grants.len()),
        };
        for (name, permission) in grants {
            let grantee = self.grantee(name, there).await?;
            acl.grants.push(Grant {
                grantee,
                permission: *permission,
            });
        }
        Ok(acl)
    }

    async fn grantee(&self, name: &GranteeName, there: Option<&Acl>) -> Result<Grantee> {
        Ok(match name {
            GranteeName::Everyone => Grantee::Everyone,
            GranteeName::Authenticated => Grantee::Authenticated,
            GranteeName::LogDelivery => Grantee::LogDelivery,
            GranteeName::Id(text) => {
                let invalid = || Error::new(ErrorKind::InvalidArgument, "Invalid id");
                let id: UserId = text.parse().map_err(|_| invalid())?;
                // Who is gone may stay in a list that is put back as it was read.
                let stays = there.is_some_and(|acl| {
                    let own = Grantee::User(id);
                    acl.owner == id || acl.grants.iter().any(|grant| grant.grantee == own)
                });
                match self.accounts.user_by_id(id).await? {
                    Some(user) => Grantee::User(user.account),
                    None if stays => Grantee::User(id),
                    None => return Err(invalid()),
                }
            }
            GranteeName::Email(email) => {
                let user = self.accounts.user_by_email(email).await?.ok_or_else(|| {
                    let message = "The e-mail address you provided does not match any account \
                                   on record.";
                    Error::new(ErrorKind::NoSuchMail, message)
                })?;
                Grantee::User(user.account)
            }
        })
    }

    /// The list with names for its accounts.
    pub(crate) async fn shown_acl(&self, acl: Acl) -> Result<NamedAcl> {
        let mut ids = vec![acl.owner];
        for grant in &acl.grants {
            if let Grantee::User(id) = grant.grantee
                && !ids.contains(&id)
            {
                ids.push(id);
            }
        }
        let mut accounts = Vec::with_capacity(ids.len());
        for id in ids {
            let user = self.accounts.user_by_id(id).await?;
            accounts.push(AccountName {
                id,
                display_name: user.map(|user| user.shown_name().to_owned()),
            });
        }
        Ok(NamedAcl { acl, accounts })
    }
}

/// The canned list that gives the bucket's owner full control.
const FULL: NewAcl = NewAcl::Canned(CannedAcl::BucketOwnerFullControl);

/// Whether a list has no effect on an object of the bucket's owner, who has full control anyway
/// where lists are off. The list may be spelled out, as readers see it, or be the canned one.
fn is_no_op_acl(wish: &NewAcl, acl: &Acl) -> bool {
    match wish {
        NewAcl::Canned(_) => *wish == FULL,
        NewAcl::Grants(_) | NewAcl::Document { .. } => acl.is_owners_alone(),
    }
}

impl Store {
    /// The display name of an account; `None` for id 0, and for a user that was deleted.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn display_name(&self, id: UserId) -> Result<Option<String>> {
        let user = self.inner.accounts.user_by_id(id).await?;
        Ok(user.map(|user| user.shown_name().to_owned()))
    }

    /// The access control list of a bucket.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn bucket_acl(&self, caller: &Caller, bucket: &BucketRef) -> Result<NamedAcl> {
        let found = self
            .inner
            .authorize_bucket(caller, Action::GetBucketAcl, bucket, None)
            .await?;
        let access = access_of(&found)?;
        let private = || Acl::private(found.record.attributes.owner);
        let acl = match access.acl {
            Some(acl) if access.ownership() != Ownership::BucketOwnerEnforced => Acl::clone(&acl),
            _ => private(),
        };
        self.inner.shown_acl(acl).await
    }

    /// The access control list of an object.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::NoSuchVersion`], [`ErrorKind::DeleteMarker`].
    pub async fn object_acl(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
    ) -> Result<NamedAcl> {
        let inner = &self.inner;
        let found = inner.bucket_of(caller, &object.bucket).await?;
        let action = match version {
            None => Action::GetObjectAcl,
            Some(_) => Action::GetObjectVersionAcl,
        };
        let file = inner
            .authorized_version(caller, action, &found, &object.key, version)
            .await?;
        let access_facts = AccessFacts::of(&file)?;
        let enforced = access_of(&found)?.ownership() == Ownership::BucketOwnerEnforced;
        let acl = match access_facts.acl {
            _ if enforced => Acl::private(found.record.attributes.owner),
            Some(acl) => acl,
            None => Acl::private(access_facts.owner),
        };
        inner.shown_acl(acl).await
    }

    /// Sets the access control list of an object. Returns the version's name.
    ///
    /// # Errors
    /// The errors of [`Store::object_acl`]. [`ErrorKind::Denied`] also for a public list where the
    /// public access block forbids it; [`ErrorKind::AclsDisabled`]; errors in the list.
    pub async fn put_object_acl(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
        wish: &NewAcl,
    ) -> Result<Option<VersionName>> {
        let inner = &self.inner;
        let found = inner.bucket_of(caller, &object.bucket).await?;
        let action = match version {
            None => Action::PutObjectAcl,
            Some(_) => Action::PutObjectVersionAcl,
        };
        let name = inner.tree.find_name(&found, &object.key).await?;
        let (target, details) = ((&found, &object.key, name.clone()), inner.details());
        let file = inner
            .authorized_version_in(caller, action, target, version, &details)
            .await?;
        let access = access_of(&found)?;
        let bucket_owner = found.record.attributes.owner;
        if access.ownership() == Ownership::BucketOwnerEnforced {
            let acl = inner
                .acl_wanted(wish, bucket_owner, bucket_owner, None)
                .await?;
            if !is_no_op_acl(wish, &acl) {
                return Err(disabled());
            }
            return Ok(shown_name(&found, &file.current));
        }
        let owner = file.attributes.owner;
        let there = AccessFacts::of(&file)?.acl;
        let acl = inner
            .acl_wanted(wish, owner, bucket_owner, there.as_ref())
            .await?;
        if access.block().block_public_acls && acl.is_public() {
            return Err(blocked());
        }
        let bytes: Option<ByteVec> = (!acl.is_private()).then(|| acl.to_bytes().into());
        let principal = caller.to_string();
        let change = |attributes: &mut VersionAttributes, _: ChangeContext| {
            attributes.acl.clone_from(&bytes);
            Ok(())
        };
        let actor = actor(caller, &principal);
        let name = NameRef::new(&found, &object.key, Some(name));
        let changed = inner
            .tree
            .change_version(&actor, name, version, change)
            .await?;
        Ok(shown_name(&found, &changed))
    }

    /// Sets the access control list of a bucket.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also for a public list where the public access block forbids it;
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::AclsDisabled`]; errors in the list.
    pub async fn put_bucket_acl(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        wish: &NewAcl,
    ) -> Result<()> {
        let inner = &self.inner;
        let found = inner
            .authorize_bucket(caller, Action::PutBucketAcl, bucket, None)
            .await?;
        let owner = found.record.attributes.owner;
        let there = access_of(&found)?.acl;
        let acl = inner
            .acl_wanted(wish, owner, owner, there.as_deref())
            .await?;
        let nothing_new = is_no_op_acl(wish, &acl);
        let bytes = Bytes::from(acl.to_bytes());
        let principal = caller.to_string();
        inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                if document_in(change)? == Some(Ownership::BucketOwnerEnforced) {
                    return if nothing_new { Ok(()) } else { Err(disabled()) };
                }
                let block = document_in::<PublicAccessBlock>(change)?;
                if acl.is_public() && block.is_some_and(|block| block.block_public_acls) {
                    return Err(blocked());
                }
                if acl.is_private() {
                    change.remove(Acl::KIND);
                } else {
                    change.put(Acl::KIND, bytes.clone());
                }
                Ok(())
            })
            .await
    }
}
