//! The access settings of a bucket as documents. Their stored forms are in [`dewar_auth`].

use bytes::Bytes;
use dewar_auth::{Acl, Action, BucketPolicy, Ownership, PublicAccessBlock, RequestPayment};
use dewar_types::{Error, ErrorKind, Result};

use crate::document::{Document, DocumentKind};

/// Makes an access setting a document: its kind and its actions by their names.
macro_rules! access_document {
    ($type:ident, $kind:ident, get $get:ident, put $put:ident, delete $delete:ident, $read:expr) => {
        impl Document for $type {
            const KIND: DocumentKind = DocumentKind::$kind;
            const GET: Action = Action::$get;
            const PUT: Action = Action::$put;
            const DELETE: Action = Action::$delete;

            fn to_bytes(&self) -> Bytes {
                <$type>::to_bytes(self).into()
            }

            fn from_bytes(bytes: &[u8]) -> Result<Self> {
                $read(bytes)
            }
        }
    };
}

access_document!(BucketPolicy, Policy, get GetBucketPolicy, put PutBucketPolicy,
    delete DeleteBucketPolicy, BucketPolicy::from_bytes);
access_document!(Acl, Acl, get GetBucketAcl, put PutBucketAcl, delete PutBucketAcl, read_acl);
access_document!(Ownership, Ownership, get GetBucketOwnershipControls,
    put PutBucketOwnershipControls, delete PutBucketOwnershipControls, Ownership::from_bytes);
access_document!(PublicAccessBlock, PublicAccessBlock, get GetBucketPublicAccessBlock,
    put PutBucketPublicAccessBlock, delete PutBucketPublicAccessBlock, PublicAccessBlock::from_bytes);
access_document!(RequestPayment, RequestPayment, get GetBucketRequestPayment,
    put PutBucketRequestPayment, delete PutBucketRequestPayment, RequestPayment::from_bytes);

fn read_acl(bytes: &[u8]) -> Result<Acl> {
    Acl::from_bytes(bytes).map_err(|error| {
        let what = "a bucket's access control list";
        Error::with_source(ErrorKind::Corrupt, what, error)
    })
}
