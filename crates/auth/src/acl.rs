//! Access control lists: grants on a bucket or object, the older way of access control.
//!
//! A list names accounts (by their users' ids, which are never reused), everybody, or everybody
//! with a key. It only ever grants. Stored form: one format byte, then CBOR.

use dewar_types::UserId;
use minicbor::{Decode, Encode};
use thiserror::Error;

use crate::Action;

/// Most grants of a list (S3 user guide).
pub const GRANTS_MAX: usize = 100;

/// First byte of a stored list.
const FORMAT: u8 = 1;

/// The grantee of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum Grantee {
    /// An account, by the user whose it is.
    #[n(0)]
    User(#[n(0)] UserId),
    /// Everybody.
    #[n(1)]
    Everyone,
    /// Everybody with a key.
    #[n(2)]
    Authenticated,
    /// The writer of access logs.
    #[n(3)]
    LogDelivery,
}

/// The permission of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Permission {
    /// List a bucket; read an object.
    #[n(0)]
    Read,
    /// Write and delete in a bucket; nothing on an object.
    #[n(1)]
    Write,
    /// Read the list itself.
    #[n(2)]
    ReadAcp,
    /// Change the list itself.
    #[n(3)]
    WriteAcp,
    /// All of these.
    #[n(4)]
    FullControl,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Grant {
    /// To whom.
    #[n(0)]
    pub grantee: Grantee,
    /// The permission.
    #[n(1)]
    pub permission: Permission,
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Acl {
    /// The owner of the bucket or object; 0 if it has none.
    #[n(0)]
    pub owner: UserId,
    /// The grants, at most [`GRANTS_MAX`].
    #[n(1)]
    pub grants: Vec<Grant>,
}

/// A stored list that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("not an access control list of a known format")]
pub struct AclError;

/// The lists that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannedAcl {
    /// The owner alone.
    Private,
    /// Everybody reads.
    PublicRead,
    /// Everybody reads and writes.
    PublicReadWrite,
    /// Everybody with a key reads.
    AuthenticatedRead,
    /// The bucket's owner reads.
    BucketOwnerRead,
    /// The bucket's owner may do everything.
    BucketOwnerFullControl,
    /// Log delivery writes.
    LogDeliveryWrite,
}

impl CannedAcl {
    /// The list of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "private" => Self::Private,
            "public-read" => Self::PublicRead,
            "public-read-write" => Self::PublicReadWrite,
            "authenticated-read" => Self::AuthenticatedRead,
            "bucket-owner-read" => Self::BucketOwnerRead,
            "bucket-owner-full-control" => Self::BucketOwnerFullControl,
            "log-delivery-write" => Self::LogDeliveryWrite,
            // What machines of a cloud read is nothing here: the owner alone.
            "aws-exec-read" => Self::Private,
            _ => return None,
        })
    }

    /// The list that this canned ACL stands for, on a bucket or object of `owner` in a bucket of
    /// `bucket_owner`.
    #[must_use]
    pub fn acl(self, owner: UserId, bucket_owner: UserId) -> Acl {
        use Permission::{FullControl, Read, ReadAcp, Write};
        let mut acl = Acl::private(owner);
        let mut grant = |grantee, permission| {
            acl.grants.push(Grant {
                grantee,
                permission,
            })
        };
        match self {
            Self::Private => {}
            Self::PublicRead => grant(Grantee::Everyone, Read),
            Self::PublicReadWrite => {
                grant(Grantee::Everyone, Read);
                grant(Grantee::Everyone, Write);
            }
            Self::AuthenticatedRead => grant(Grantee::Authenticated, Read),
            Self::BucketOwnerRead if owner != bucket_owner => {
                grant(Grantee::User(bucket_owner), Read);
            }
            Self::BucketOwnerFullControl if owner != bucket_owner => {
                grant(Grantee::User(bucket_owner), FullControl);
            }
            Self::BucketOwnerRead | Self::BucketOwnerFullControl => {}
            Self::LogDeliveryWrite => {
                grant(Grantee::LogDelivery, Write);
                grant(Grantee::LogDelivery, ReadAcp);
            }
        }
        acl
    }
}

impl Permission {
    /// Its name in S3's XML.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::ReadAcp => "READ_ACP",
            Self::WriteAcp => "WRITE_ACP",
            Self::FullControl => "FULL_CONTROL",
        }
    }

    /// The permission of a name in S3's XML.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Read,
            Self::Write,
            Self::ReadAcp,
            Self::WriteAcp,
            Self::FullControl,
        ]
        .into_iter()
        .find(|permission| permission.as_str() == name)
    }

    /// The permission that a bucket's list must grant for an action (S3 user guide, "Mapping of ACL
    /// permissions and access policy permissions").
    #[must_use]
    pub(crate) fn on_bucket(action: Action) -> Option<Self> {
        Some(match action {
            Action::ListBucket
            | Action::ListBucketVersions
            | Action::ListBucketMultipartUploads => Self::Read,
            // With a key and no object: the tags of what is being written.
            Action::PutObject
            | Action::PutObjectTagging
            | Action::DeleteObject
            | Action::DeleteObjectVersion
            | Action::AbortMultipartUpload
            | Action::ListMultipartUploadParts => Self::Write,
            Action::GetBucketAcl => Self::ReadAcp,
            Action::PutBucketAcl => Self::WriteAcp,
            _ => return None,
        })
    }

    /// The permission that an object's list must grant for an action.
    #[must_use]
    pub(crate) fn on_object(action: Action) -> Option<Self> {
        Some(match action {
            Action::GetObject
            | Action::GetObjectVersion
            | Action::GetObjectAttributes
            | Action::GetObjectVersionAttributes
            | Action::GetObjectTorrent => Self::Read,
            Action::GetObjectAcl | Action::GetObjectVersionAcl => Self::ReadAcp,
            Action::PutObjectAcl | Action::PutObjectVersionAcl => Self::WriteAcp,
            _ => return None,
        })
    }
}

impl Acl {
    /// The owner has full control, and others have no rights.
    #[must_use]
    pub fn private(owner: UserId) -> Self {
        Self {
            owner,
            grants: vec![Grant {
                grantee: Grantee::User(owner),
                permission: Permission::FullControl,
            }],
        }
    }

    /// Whether it is the list that everything has for which none was set.
    #[must_use]
    pub fn is_private(&self) -> bool {
        *self == Self::private(self.owner)
    }

    /// Whether everybody, or everybody with a key, was granted something.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.grants.iter().any(|grant| grant.grantee.is_public())
    }

    /// Whether it grants nothing but the owner's full control.
    #[must_use]
    pub fn grants_others(&self) -> bool {
        let own = Grantee::User(self.owner);
        self.grants.iter().any(|grant| grant.grantee != own)
    }

    /// Whether it gives the owner full control and others nothing, in any form.
    #[must_use]
    pub fn is_owners_alone(&self) -> bool {
        let full = |grant: &Grant| grant.permission == Permission::FullControl;
        self.grants.iter().any(full) && !self.grants_others()
    }

    /// The grant that gives the permission to `account`; `None` for an anonymous caller.
    pub(crate) fn grant(
        &self,
        account: Option<UserId>,
        permission: Permission,
        ignore_public: bool,
    ) -> Option<Grant> {
        let fits = |grant: &&Grant| {
            let who = match grant.grantee {
                Grantee::User(id) => account == Some(id),
                Grantee::Everyone => !ignore_public,
                Grantee::Authenticated => account.is_some() && !ignore_public,
                Grantee::LogDelivery => false,
            };
            let what =
                grant.permission == permission || grant.permission == Permission::FullControl;
            who && what
        };
        self.grants.iter().find(fits).copied()
    }

    /// As it is stored.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        minicbor::encode(self, &mut bytes).expect("encoding into memory does not fail");
        bytes
    }

    /// Reads a stored list.
    ///
    /// # Errors
    /// When it is of another format, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AclError> {
        match bytes.split_first() {
            Some((&FORMAT, rest)) => minicbor::decode(rest).map_err(|_| AclError),
            _ => Err(AclError),
        }
    }
}

impl Grantee {
    /// Whether it means more than single accounts.
    #[must_use]
    pub fn is_public(self) -> bool {
        matches!(self, Self::Everyone | Self::Authenticated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canned_lists_are_as_documented() {
        let (ann, bob) = (UserId(1), UserId(2));
        for name in ["private", "aws-exec-read"] {
            let acl = CannedAcl::parse(name).expect("known").acl(ann, bob);
            assert!(acl.is_private());
        }
        let public = CannedAcl::PublicReadWrite.acl(ann, ann);
        assert!(public.is_public() && public.grants.len() == 3);
        assert!(public.grant(None, Permission::Write, false).is_some());
        assert!(public.grant(None, Permission::Write, true).is_none());
        assert!(public.grant(None, Permission::ReadAcp, false).is_none());
        let keyed = CannedAcl::AuthenticatedRead.acl(ann, ann);
        assert!(keyed.grant(None, Permission::Read, false).is_none());
        assert!(keyed.grant(Some(bob), Permission::Read, false).is_some());
        let shared = CannedAcl::BucketOwnerFullControl.acl(ann, bob);
        assert!(
            shared
                .grant(Some(bob), Permission::WriteAcp, true)
                .is_some()
        );
        assert!(CannedAcl::BucketOwnerRead.acl(ann, ann).is_private());
        assert_eq!(CannedAcl::parse("Private"), None);
    }

    /// Format 1, as it was first written.
    #[test]
    fn a_list_of_format_1_opens() {
        let acl = CannedAcl::PublicRead.acl(UserId(5), UserId(5));
        let bytes = [
            0x01, 0xa2, 0x00, 0x05, 0x01, 0x82, 0x82, 0x82, 0x00, 0x81, 0x05, 0x04, 0x82, 0x82,
            0x01, 0x80, 0x00,
        ];
        assert_eq!(Acl::from_bytes(&bytes), Ok(acl.clone()));
        assert_eq!(acl.to_bytes(), bytes);
        for at in 0..bytes.len() {
            assert_eq!(Acl::from_bytes(&bytes[..at]), Err(AclError), "cut at {at}");
        }
        assert_eq!(Acl::from_bytes(&[2, 0xa0]), Err(AclError));
    }
}
