//! Requests and answers between fronts and the store, without words of a protocol or keys of the
//! catalog.

mod access;
mod bucket;
mod list;
mod multipart;
mod object;

pub use access::{AccountName, BucketOptions, GranteeName, NamedAcl, NewAcl};
pub use bucket::{BucketInfo, BucketPage, BucketRef};
pub use dewar_catalog::Usage;
pub use dewar_catalog::record::{
    DefaultRetention, ObjectLock, Retention, RetentionMode, SystemHeaders, Versioning,
};
pub use dewar_namespace::{
    ETagMatch, Emptiness, Hierarchy, IfRange, NewBucket, ReadCondition, VersionAttributes,
    WriteCondition,
};
pub use list::{
    ListPage, ListRequest, ListVersionsRequest, ListedObject, ListedVersion, VersionsPage,
};
pub use multipart::{
    CompletePart, CompleteRequest, CreateUploadRequest, ListPartsRequest, ListUploadsRequest,
    ListedPart, ListedUpload, PartSource, PartsPage, UploadPartRequest, UploadsPage,
};
pub use object::{
    AttributesRequest, CopyRequest, DeleteItem, DeleteMarkerError, DeleteRequest, DeleteResult,
    DigestMismatch, ExpectedContent, GetRequest, ObjectChecksum, ObjectInfo, ObjectRef, Overwrite,
    PartAttributes, RenameNodeRequest, RenameRequest, WriteMode, WriteRequest,
};

pub use crate::version_attributes::{BucketTags, Tags, check_tags};
