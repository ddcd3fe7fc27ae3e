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
mod lifecycle;
mod list_buckets;
mod list_multipart_uploads;
mod list_object_versions;
mod list_objects;
mod list_parts;
mod object_lock;
mod post_form;
mod put_object;
mod rename_object;
mod shown;
mod sts;
mod tagging;
mod upload_part;
mod upload_part_copy;
mod versioning;

use crate::door::{Answer, Door, Exchange, Verb};
use crate::error::Result;
pub(crate) use iam::{Form, call as iam, refused as iam_refused};
pub(crate) use sts::{call as sts, is_unsigned_call};

/// Does what the request asks for.
pub(crate) async fn call(door: &Door, verb: Verb, exchange: &mut Exchange) -> Result<Answer> {
    match verb {
        Verb::ListBuckets => list_buckets::call(door, exchange).await,
        Verb::CreateBucket => create_bucket::call(door, exchange).await,
        Verb::HeadBucket => head_bucket::call(door, exchange).await,
        Verb::DeleteBucket => delete_bucket::call(door, exchange).await,
        Verb::GetBucketLocation => get_bucket_location::call(door, exchange).await,
        Verb::Access(verb) => access::call(door, verb, exchange).await,
        Verb::GetBucketCors => cors::get(door, exchange).await,
        Verb::PutBucketCors => cors::put(door, exchange).await,
        Verb::DeleteBucketCors => cors::delete(door, exchange).await,
        Verb::GetBucketEncryption => encryption::get(door, exchange).await,
        Verb::PutBucketEncryption => encryption::put(door, exchange).await,
        Verb::DeleteBucketEncryption => encryption::delete(door, exchange).await,
        Verb::GetBucketConfiguration(what) => configuration::bucket(door, exchange, what).await,
        Verb::ListObjects => list_objects::version_1(door, exchange).await,
        Verb::ListObjectsV2 => list_objects::version_2(door, exchange).await,
        Verb::ListMultipartUploads => list_multipart_uploads::call(door, exchange).await,
        Verb::DeleteObjects => delete_objects::call(door, exchange).await,
        Verb::PostForm => post_form::call(door, exchange).await,
        Verb::PutObject => put_object::call(door, exchange).await,
        Verb::CopyObject => copy_object::call(door, exchange).await,
        Verb::GetObject => get_object::call(door, exchange).await,
        Verb::HeadObject => head_object::call(door, exchange).await,
        Verb::DeleteObject => delete_object::call(door, exchange).await,
        Verb::GetObjectTagging => tagging::get_of_object(door, exchange).await,
        Verb::PutObjectTagging => tagging::put_of_object(door, exchange).await,
        Verb::DeleteObjectTagging => tagging::delete_of_object(door, exchange).await,
        Verb::GetBucketLifecycle => lifecycle::get(door, exchange).await,
        Verb::PutBucketLifecycle => lifecycle::put(door, exchange).await,
        Verb::DeleteBucketLifecycle => lifecycle::delete(door, exchange).await,
        Verb::GetBucketTagging => tagging::get_of_bucket(door, exchange).await,
        Verb::PutBucketTagging => tagging::put_of_bucket(door, exchange).await,
        Verb::DeleteBucketTagging => tagging::delete_of_bucket(door, exchange).await,
        Verb::GetBucketVersioning => versioning::get(door, exchange).await,
        Verb::PutBucketVersioning => versioning::put(door, exchange).await,
        Verb::ListObjectVersions => list_object_versions::call(door, exchange).await,
        Verb::GetObjectLockConfiguration => object_lock::get_of_bucket(door, exchange).await,
        Verb::PutObjectLockConfiguration => object_lock::put_of_bucket(door, exchange).await,
        Verb::GetObjectRetention => object_lock::get_retention(door, exchange).await,
        Verb::PutObjectRetention => object_lock::put_retention(door, exchange).await,
        Verb::GetObjectLegalHold => object_lock::get_legal_hold(door, exchange).await,
        Verb::PutObjectLegalHold => object_lock::put_legal_hold(door, exchange).await,
        Verb::GetObjectAttributes => get_object_attributes::call(door, exchange).await,
        Verb::RenameObject => rename_object::call(door, exchange).await,
        Verb::CreateMultipartUpload => create_multipart_upload::call(door, exchange).await,
        Verb::UploadPart => upload_part::call(door, exchange).await,
        Verb::UploadPartCopy => upload_part_copy::call(door, exchange).await,
        Verb::CompleteMultipartUpload => complete_multipart_upload::call(door, exchange).await,
        Verb::AbortMultipartUpload => abort_multipart_upload::call(door, exchange).await,
        Verb::ListParts => list_parts::call(door, exchange).await,
    }
}
