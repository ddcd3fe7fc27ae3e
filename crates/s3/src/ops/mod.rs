//! The verbs of S3, one file each. Each calls the store with a verified request and makes an answer
//! of the result. Documents are s3s's types, which read and write S3's XML.

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
mod document_fields;
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
mod sts;
mod tagging;
mod upload_part;
mod upload_part_copy;
mod versioning;

use std::pin::Pin;

use dewar_http_front::Answer;

use crate::door::{Door, RequestContext, Verb};
use crate::error::Result;
pub(crate) use iam::{call as iam, refused as iam_refused};
pub(crate) use sts::{call as sts, is_unsigned_call};

/// Runs the verb of the request.
///
/// The future of each verb is boxed separately. In a single future, each request would be as large
/// as the largest verb, 32 KiB, which is copied at each level that awaits it.
pub(crate) fn call<'a>(
    door: &'a Door,
    verb: Verb,
    context: &'a mut RequestContext,
) -> Pin<Box<dyn Future<Output = Result<Answer>> + Send + 'a>> {
    match verb {
        Verb::ListBuckets => Box::pin(list_buckets::call(door, context)),
        Verb::CreateBucket => Box::pin(create_bucket::call(door, context)),
        Verb::HeadBucket => Box::pin(head_bucket::call(door, context)),
        Verb::DeleteBucket => Box::pin(delete_bucket::call(door, context)),
        Verb::GetBucketLocation => Box::pin(get_bucket_location::call(door, context)),
        Verb::Access(verb) => Box::pin(access::call(door, verb, context)),
        Verb::GetBucketCors => Box::pin(cors::get(door, context)),
        Verb::PutBucketCors => Box::pin(cors::put(door, context)),
        Verb::DeleteBucketCors => Box::pin(cors::delete(door, context)),
        Verb::GetBucketEncryption => Box::pin(encryption::get(door, context)),
        Verb::PutBucketEncryption => Box::pin(encryption::put(door, context)),
        Verb::DeleteBucketEncryption => Box::pin(encryption::delete(door, context)),
        Verb::GetBucketConfiguration(what) => Box::pin(configuration::bucket(door, context, what)),
        Verb::ListObjects => Box::pin(list_objects::version_1(door, context)),
        Verb::ListObjectsV2 => Box::pin(list_objects::version_2(door, context)),
        Verb::ListMultipartUploads => Box::pin(list_multipart_uploads::call(door, context)),
        Verb::DeleteObjects => Box::pin(delete_objects::call(door, context)),
        Verb::PostForm => Box::pin(post_form::call(door, context)),
        Verb::PutObject => Box::pin(put_object::call(door, context)),
        Verb::CopyObject => Box::pin(copy_object::call(door, context)),
        Verb::GetObject => Box::pin(get_object::call(door, context)),
        Verb::HeadObject => Box::pin(head_object::call(door, context)),
        Verb::DeleteObject => Box::pin(delete_object::call(door, context)),
        Verb::GetObjectTagging => Box::pin(tagging::get_of_object(door, context)),
        Verb::PutObjectTagging => Box::pin(tagging::put_of_object(door, context)),
        Verb::DeleteObjectTagging => Box::pin(tagging::delete_of_object(door, context)),
        Verb::GetBucketLifecycle => Box::pin(lifecycle::get(door, context)),
        Verb::PutBucketLifecycle => Box::pin(lifecycle::put(door, context)),
        Verb::DeleteBucketLifecycle => Box::pin(lifecycle::delete(door, context)),
        Verb::GetBucketTagging => Box::pin(tagging::get_of_bucket(door, context)),
        Verb::PutBucketTagging => Box::pin(tagging::put_of_bucket(door, context)),
        Verb::DeleteBucketTagging => Box::pin(tagging::delete_of_bucket(door, context)),
        Verb::GetBucketVersioning => Box::pin(versioning::get(door, context)),
        Verb::PutBucketVersioning => Box::pin(versioning::put(door, context)),
        Verb::ListObjectVersions => Box::pin(list_object_versions::call(door, context)),
        Verb::GetObjectLockConfiguration => Box::pin(object_lock::get_of_bucket(door, context)),
        Verb::PutObjectLockConfiguration => Box::pin(object_lock::put_of_bucket(door, context)),
        Verb::GetObjectRetention => Box::pin(object_lock::get_retention(door, context)),
        Verb::PutObjectRetention => Box::pin(object_lock::put_retention(door, context)),
        Verb::GetObjectLegalHold => Box::pin(object_lock::get_legal_hold(door, context)),
        Verb::PutObjectLegalHold => Box::pin(object_lock::put_legal_hold(door, context)),
        Verb::GetObjectAttributes => Box::pin(get_object_attributes::call(door, context)),
        Verb::RenameObject => Box::pin(rename_object::call(door, context)),
        Verb::CreateMultipartUpload => Box::pin(create_multipart_upload::call(door, context)),
        Verb::UploadPart => Box::pin(upload_part::call(door, context)),
        Verb::UploadPartCopy => Box::pin(upload_part_copy::call(door, context)),
        Verb::CompleteMultipartUpload => Box::pin(complete_multipart_upload::call(door, context)),
        Verb::AbortMultipartUpload => Box::pin(abort_multipart_upload::call(door, context)),
        Verb::ListParts => Box::pin(list_parts::call(door, context)),
    }
}
