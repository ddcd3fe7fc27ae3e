//! The verbs of S3, one file each: a verified request to a call of the store, its result to an
//! answer. Documents are s3s's types, which read and write S3's XML.

mod abort_multipart_upload;
mod access;
mod complete_multipart_upload;
mod configuration;
mod copy_object;
mod cors;
mod create_bucket;
mod create_multipart_upload;
mod delete_bucket;
mod delete_object;
mod delete_objects;
mod encryption;
mod get_bucket_location;
mod get_object;
mod get_object_attributes;
mod head_bucket;
mod head_object;
mod iam;
mod iam_policies;
mod iam_providers;
mod lifecycle;
mod list_buckets;
mod list_multipart_uploads;
mod list_object_versions;
mod list_objects;
mod list_parts;
mod object_lock;
mod parts_documents;
mod post_form;
mod put_object;
mod rename_object;
mod shown;
mod sts;
mod tagging;
mod upload_part;
mod upload_part_copy;
mod versioning;

use std::pin::Pin;

use crate::door::{Answer, Door, Exchange, Verb};
use crate::error::Result;
pub(crate) use iam::{Form, call as iam, refused as iam_refused};
pub(crate) use sts::{call as sts, is_unsigned_call};

/// Does what the request asks for.
///
/// The future of each verb is of its own size, on the heap: in one for all, each request would be as large
/// as the largest, 32 KiB, which is copied at each level that awaits it.
pub(crate) fn call<'a>(
    door: &'a Door,
    verb: Verb,
    exchange: &'a mut Exchange,
) -> Pin<Box<dyn Future<Output = Result<Answer>> + Send + 'a>> {
    match verb {
        Verb::ListBuckets => Box::pin(list_buckets::call(door, exchange)),
        Verb::CreateBucket => Box::pin(create_bucket::call(door, exchange)),
        Verb::HeadBucket => Box::pin(head_bucket::call(door, exchange)),
        Verb::DeleteBucket => Box::pin(delete_bucket::call(door, exchange)),
        Verb::GetBucketLocation => Box::pin(get_bucket_location::call(door, exchange)),
        Verb::Access(verb) => Box::pin(access::call(door, verb, exchange)),
        Verb::GetBucketCors => Box::pin(cors::get(door, exchange)),
        Verb::PutBucketCors => Box::pin(cors::put(door, exchange)),
        Verb::DeleteBucketCors => Box::pin(cors::delete(door, exchange)),
        Verb::GetBucketEncryption => Box::pin(encryption::get(door, exchange)),
        Verb::PutBucketEncryption => Box::pin(encryption::put(door, exchange)),
        Verb::DeleteBucketEncryption => Box::pin(encryption::delete(door, exchange)),
        Verb::GetBucketConfiguration(what) => Box::pin(configuration::bucket(door, exchange, what)),
        Verb::ListObjects => Box::pin(list_objects::version_1(door, exchange)),
        Verb::ListObjectsV2 => Box::pin(list_objects::version_2(door, exchange)),
        Verb::ListMultipartUploads => Box::pin(list_multipart_uploads::call(door, exchange)),
        Verb::DeleteObjects => Box::pin(delete_objects::call(door, exchange)),
        Verb::PostForm => Box::pin(post_form::call(door, exchange)),
        Verb::PutObject => Box::pin(put_object::call(door, exchange)),
        Verb::CopyObject => Box::pin(copy_object::call(door, exchange)),
        Verb::GetObject => Box::pin(get_object::call(door, exchange)),
        Verb::HeadObject => Box::pin(head_object::call(door, exchange)),
        Verb::DeleteObject => Box::pin(delete_object::call(door, exchange)),
        Verb::GetObjectTagging => Box::pin(tagging::get_of_object(door, exchange)),
        Verb::PutObjectTagging => Box::pin(tagging::put_of_object(door, exchange)),
        Verb::DeleteObjectTagging => Box::pin(tagging::delete_of_object(door, exchange)),
        Verb::GetBucketLifecycle => Box::pin(lifecycle::get(door, exchange)),
        Verb::PutBucketLifecycle => Box::pin(lifecycle::put(door, exchange)),
        Verb::DeleteBucketLifecycle => Box::pin(lifecycle::delete(door, exchange)),
        Verb::GetBucketTagging => Box::pin(tagging::get_of_bucket(door, exchange)),
        Verb::PutBucketTagging => Box::pin(tagging::put_of_bucket(door, exchange)),
        Verb::DeleteBucketTagging => Box::pin(tagging::delete_of_bucket(door, exchange)),
        Verb::GetBucketVersioning => Box::pin(versioning::get(door, exchange)),
        Verb::PutBucketVersioning => Box::pin(versioning::put(door, exchange)),
        Verb::ListObjectVersions => Box::pin(list_object_versions::call(door, exchange)),
        Verb::GetObjectLockConfiguration => Box::pin(object_lock::get_of_bucket(door, exchange)),
        Verb::PutObjectLockConfiguration => Box::pin(object_lock::put_of_bucket(door, exchange)),
        Verb::GetObjectRetention => Box::pin(object_lock::get_retention(door, exchange)),
        Verb::PutObjectRetention => Box::pin(object_lock::put_retention(door, exchange)),
        Verb::GetObjectLegalHold => Box::pin(object_lock::get_legal_hold(door, exchange)),
        Verb::PutObjectLegalHold => Box::pin(object_lock::put_legal_hold(door, exchange)),
        Verb::GetObjectAttributes => Box::pin(get_object_attributes::call(door, exchange)),
        Verb::RenameObject => Box::pin(rename_object::call(door, exchange)),
        Verb::CreateMultipartUpload => Box::pin(create_multipart_upload::call(door, exchange)),
        Verb::UploadPart => Box::pin(upload_part::call(door, exchange)),
        Verb::UploadPartCopy => Box::pin(upload_part_copy::call(door, exchange)),
        Verb::CompleteMultipartUpload => Box::pin(complete_multipart_upload::call(door, exchange)),
        Verb::AbortMultipartUpload => Box::pin(abort_multipart_upload::call(door, exchange)),
        Verb::ListParts => Box::pin(list_parts::call(door, exchange)),
    }
}
