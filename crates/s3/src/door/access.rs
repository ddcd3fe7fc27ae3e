//! Recognising the requests about access control: policies, lists, ownership, the public access
//! block, payment.

use http::Method;

/// A verb about access control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessVerb {
    GetBucketPolicy,
    PutBucketPolicy,
    DeleteBucketPolicy,
    GetBucketPolicyStatus,
    GetOwnership,
    PutOwnership,
    DeleteOwnership,
    GetBlock,
    PutBlock,
    DeleteBlock,
    GetBucketAcl,
    PutBucketAcl,
    GetObjectAcl,
    PutObjectAcl,
    GetPayment,
    PutPayment,
}

impl AccessVerb {
    /// S3's name of it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetBucketPolicy => "GetBucketPolicy",
            Self::PutBucketPolicy => "PutBucketPolicy",
            Self::DeleteBucketPolicy => "DeleteBucketPolicy",
            Self::GetBucketPolicyStatus => "GetBucketPolicyStatus",
            Self::GetOwnership => "GetBucketOwnershipControls",
            Self::PutOwnership => "PutBucketOwnershipControls",
            Self::DeleteOwnership => "DeleteBucketOwnershipControls",
            Self::GetBlock => "GetPublicAccessBlock",
            Self::PutBlock => "PutPublicAccessBlock",
            Self::DeleteBlock => "DeletePublicAccessBlock",
            Self::GetBucketAcl => "GetBucketAcl",
            Self::PutBucketAcl => "PutBucketAcl",
            Self::GetObjectAcl => "GetObjectAcl",
            Self::PutObjectAcl => "PutObjectAcl",
            Self::GetPayment => "GetBucketRequestPayment",
            Self::PutPayment => "PutBucketRequestPayment",
        }
    }

    /// Whether it does anything with a body.
    pub(crate) const fn reads_body(self) -> bool {
        matches!(
            self,
            Self::PutBucketPolicy
                | Self::PutOwnership
                | Self::PutBlock
                | Self::PutBucketAcl
                | Self::PutObjectAcl
                | Self::PutPayment
        )
    }

    /// The verb of a sub-resource of a bucket.
    pub(super) fn of_bucket(method: &Method, name: &str) -> Option<Self> {
        let (get, put, delete) = match name {
            "policy" => (
                Self::GetBucketPolicy,
                Self::PutBucketPolicy,
                Some(Self::DeleteBucketPolicy),
            ),
            "policyStatus" => {
                return (*method == Method::GET).then_some(Self::GetBucketPolicyStatus);
            }
            "ownershipControls" => (
                Self::GetOwnership,
                Self::PutOwnership,
                Some(Self::DeleteOwnership),
            ),
            "publicAccessBlock" => (Self::GetBlock, Self::PutBlock, Some(Self::DeleteBlock)),
            "acl" => (Self::GetBucketAcl, Self::PutBucketAcl, None),
            "requestPayment" => (Self::GetPayment, Self::PutPayment, None),
            _ => return None,
        };
        match *method {
            Method::GET => Some(get),
            Method::PUT => Some(put),
            Method::DELETE => delete,
            _ => None,
        }
    }
}
