//! The shared vocabulary of Dewar: ids, names, ranges, layouts, error kinds. No I/O, no async.
//!
//! Every crate depends on this one and this one depends on none of them. A type is therefore here
//! only if two layers must agree on it.

mod error;
mod id;
mod layout;
mod name;
mod range;
mod request;
mod time;
mod version_name;

pub use error::{Error, ErrorKind, Result};
pub use id::{
    BlobId, DiskId, EntryId, GroupId, IdError, PoolId, TenantId, UploadId, UserId, VersionId, Zone,
};
pub use layout::{Layout, LayoutError, PAGE_BYTES, STRIPE_UNIT_BYTES_DEFAULT};
pub use name::{BucketName, KEY_BYTES_MAX, NameError, ObjectKey, TenantName};
pub use range::{ByteRange, RangeSpec};
pub use request::RequestId;
pub use time::Timestamp;
pub use version_name::VersionName;
