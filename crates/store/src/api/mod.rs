//! Requests and answers between fronts and the store, without words of a protocol or keys of the
//! catalog.

mod access;
mod bucket;
mod condition;
mod list;
mod multipart;
mod object;

pub use access::{AccountName, BucketOptions, GranteeName, NamedAcl, NewAcl};
pub use bucket::{BucketInfo, BucketPage, BucketRef};
pub use condition::{IfRange, ReadCondition, WriteCondition};
pub use dewar_catalog::Usage;
pub use dewar_catalog::record::{
    DefaultRetention, ObjectLock, Retention, RetentionMode, Versioning,
};
pub use dewar_namespace::{Emptiness, NewBucket};
pub use list::{
    ListPage, ListRequest, ListVersionsRequest, ListedObject, ListedVersion, VersionsPage,
};
pub use multipart::{
    CompletePart, CompleteRequest, CreateUploadRequest, ListPartsRequest, ListUploadsRequest,
    ListedPart, ListedUpload, PartSource, PartsPage, UploadPartRequest, UploadsPage,
};
pub use object::{
    AttributesRequest, CopyRequest, DeleteItem, DeleteMarkerError, DeleteRequest, DeleteResult,
    ETag, ExpectedContent, GetRequest, ObjectChecksum, ObjectInfo, ObjectMetadata, ObjectRef,
    PartAttributes, PutRequest, RenameRequest, VersionAttributes,
};

pub use crate::version_attributes::{BucketTags, Tags, check_tags};
