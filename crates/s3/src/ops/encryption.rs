//! How a bucket encrypts objects that do not say.

use dewar_http_front::{Answer, empty_answer};
use dewar_store::BucketEncryption;
use http::StatusCode;
use s3s::dto;

use super::delete_objects::document;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};

const AES256: &str = "AES256";

pub(super) async fn get(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let found = door
        .store
        .get_bucket_document::<BucketEncryption>(&context.caller, &bucket)
        .await?;
    if found.is_none() {
        let words = "The server side encryption configuration was not found";
        let code = Code::ServerSideEncryptionConfigurationNotFoundError;
        return Err(Refusal::new(code, words).element("BucketName", bucket.name.to_string()));
    }
    let by_default = dto::ServerSideEncryptionByDefault {
        kms_master_key_id: None,
        sse_algorithm: dto::ServerSideEncryption::from_static(AES256),
    };
    let rule = dto::ServerSideEncryptionRule {
        apply_server_side_encryption_by_default: Some(by_default),
        bucket_key_enabled: Some(false),
    };
    xml_answer(&dto::ServerSideEncryptionConfiguration { rules: vec![rule] })
}

pub(super) async fn put(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let wanted: dto::ServerSideEncryptionConfiguration = document(&bytes)?;
    let malformed = || {
        Refusal::new(
            Code::MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published \
             schema",
        )
    };
    let [rule] = wanted.rules.as_slice() else {
        return Err(malformed());
    };
    let by_default = rule.apply_server_side_encryption_by_default.as_ref();
    match by_default.ok_or_else(malformed)?.sse_algorithm.as_str() {
        AES256 => {}
        method @ ("aws:kms" | "aws:kms:dsse") => {
            let words = format!(
                "A parameter you provided implies functionality that is not implemented: {method}"
            );
            return Err(Refusal::new(Code::NotImplemented, words));
        }
        _ => return Err(malformed()),
    }
    let bucket = context.bucket()?;
    door.store
        .put_bucket_document(&context.caller, &bucket, &BucketEncryption::default())
        .await?;
    Ok(empty_answer(StatusCode::OK))
}

pub(super) async fn delete(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    door.store
        .delete_bucket_document::<BucketEncryption>(&context.caller, &bucket)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
