//! The one decision: may this caller do this to that?
//!
//! Today it knows owners and keys; statements come with policies. It is asked by the store, once
//! in every verb, and by nobody else.

use dewar_types::{Error, ErrorKind, TenantName, UserId};
use thiserror::Error as ThisError;

use crate::{Caller, Principal};

/// What is to be done; named after S3's actions where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// See the names of one's own buckets.
    ListAllMyBuckets,
    /// Make a bucket.
    CreateBucket,
    /// Remove an empty bucket.
    DeleteBucket,
    /// List keys, and learn whether a key exists.
    ListBucket,
    /// List uploads in progress.
    ListBucketMultipartUploads,
    /// Read an object or its attributes.
    GetObject,
    /// Write an object, a part, or complete an upload.
    PutObject,
    /// Remove an object.
    DeleteObject,
    /// Give an object or directory another name.
    RenameObject,
    /// Give an upload up.
    AbortMultipartUpload,
    /// See the parts of an upload.
    ListMultipartUploadParts,
}

/// What it is done to.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// A tenant as a whole: listing and making buckets.
    Tenant(&'a TenantName),
    /// A bucket or something in it.
    Bucket {
        /// The bucket's tenant.
        tenant: &'a TenantName,
        /// The bucket's name.
        bucket: &'a str,
        /// Who owns the bucket.
        owner: UserId,
        /// The key, where the action is about one.
        key: Option<&'a str>,
    },
}

/// The caller may not.
#[derive(Debug, ThisError, Clone, PartialEq, Eq)]
#[error("{caller} may not {action:?} on {resource}")]
pub struct Denied {
    caller: String,
    action: Action,
    resource: String,
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        Self::with_source(ErrorKind::Denied, denied.to_string(), denied)
    }
}

/// Decides.
///
/// # Errors
/// [`Denied`] unless something allows it: everything is closed by default.
pub fn authorize(caller: &Caller, action: Action, resource: Resource<'_>) -> Result<(), Denied> {
    let allowed = match (caller.principal(), resource) {
        (Principal::System, _) => true,
        (Principal::Anonymous, _) => false,
        (Principal::User(user), _) if user.disabled => false,
        (Principal::User(user), Resource::Tenant(tenant)) => user.tenant == *tenant,
        (Principal::User(user), Resource::Bucket { owner, .. }) => user.id == owner,
    };
    if allowed {
        return Ok(());
    }
    Err(Denied {
        caller: caller.to_string(),
        action,
        resource: match resource {
            Resource::Tenant(tenant) => format!("tenant {tenant:?}"),
            Resource::Bucket {
                bucket,
                key: Some(key),
                ..
            } => format!("/{bucket}/{key}"),
            Resource::Bucket {
                bucket, key: None, ..
            } => format!("/{bucket}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dewar_types::Timestamp;

    use super::*;
    use crate::{AccessKey, Origin, Secret, User};

    fn caller(id: u64, tenant: &str, disabled: bool) -> Caller {
        let user = Arc::new(User {
            id: UserId(id),
            name: format!("user{id}"),
            tenant: TenantName::new(tenant).expect("valid"),
            disabled,
            created: Timestamp(0),
        });
        let key = AccessKey {
            id: "AK".into(),
            secret: Secret::new("s".into()),
            revision: 1,
            user,
        };
        Caller::by_access_key(
            &key,
            Origin {
                address: None,
                secure: true,
            },
        )
    }

    #[test]
    fn only_owners_get_in() {
        let tenant = TenantName::default();
        let object = |owner| Resource::Bucket {
            tenant: &tenant,
            bucket: "data",
            owner: UserId(owner),
            key: Some("a/b"),
        };
        assert!(authorize(&caller(7, "", false), Action::GetObject, object(7)).is_ok());
        assert!(authorize(&caller(8, "", false), Action::GetObject, object(7)).is_err());
        assert!(authorize(&caller(7, "", true), Action::GetObject, object(7)).is_err());
        assert!(authorize(&Caller::system(), Action::DeleteObject, object(7)).is_ok());
        let nobody = Caller::anonymous(Origin {
            address: None,
            secure: false,
        });
        assert!(authorize(&nobody, Action::ListBucket, object(7)).is_err());
        // The id of nobody must not open what nobody owns.
        assert!(authorize(&nobody, Action::GetObject, object(0)).is_err());
    }

    #[test]
    fn buckets_are_made_in_the_own_tenant_only() {
        let mine = TenantName::new("atlas").expect("valid");
        let other = TenantName::new("cms").expect("valid");
        let caller = caller(1, "atlas", false);
        assert!(authorize(&caller, Action::CreateBucket, Resource::Tenant(&mine)).is_ok());
        assert!(authorize(&caller, Action::CreateBucket, Resource::Tenant(&other)).is_err());
    }
}
