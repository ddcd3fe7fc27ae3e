//! What fronts say to the store and what they hear: no wire's words, no catalog's keys.

mod bucket;
mod condition;
mod list;
mod multipart;
mod object;

pub use bucket::{BucketInfo, BucketPage, BucketRef};
pub use condition::{ReadCondition, WriteCondition};
pub use list::{ListPage, ListRequest, ListedObject};
pub use multipart::{
    CompletePart, CompleteRequest, CreateUploadRequest, ListPartsRequest, ListUploadsRequest,
    ListedPart, ListedUpload, PartSource, PartsPage, UploadPartRequest, UploadsPage,
};
pub use object::{
    Attributes, CopyRequest, DeleteRequest, Deleted, ETag, Expect, GetRequest, ObjectChecksum,
    ObjectInfo, ObjectRef, PutRequest, RenameRequest,
};
