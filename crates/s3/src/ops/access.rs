//! Verbs for access control: policies, lists, ownership, the public access block, payment.

use dewar_auth::{BUCKET_POLICY_BYTES_MAX, PublicAccessBlock};
use dewar_http_front::{Answer, empty_answer, full_answer, header, value_of};
use dewar_store::api::NewAcl;
use http::StatusCode;
use s3s::dto;

use super::delete_objects::document;
use crate::door::{AccessVerb, Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{acl_document, acl_elements, acl_of, ownership_named};

pub(super) async fn call(
    door: &Door,
    verb: AccessVerb,
    context: &mut RequestContext,
) -> Result<Answer> {
    match verb {
        AccessVerb::GetBucketPolicy => get_policy(door, context).await,
        AccessVerb::PutBucketPolicy => put_policy(door, context).await,
        AccessVerb::DeleteBucketPolicy => {
            let bucket = context.bucket()?;
            door.store
                .delete_bucket_policy(&context.caller, &bucket)
                .await?;
            Ok(empty_answer(StatusCode::NO_CONTENT))
        }
        AccessVerb::GetBucketPolicyStatus => {
            let bucket = context.bucket()?;
            let public = door
                .store
                .bucket_is_public(&context.caller, &bucket)
                .await?;
            xml_answer(&dto::PolicyStatus {
                is_public: Some(public),
            })
        }
        AccessVerb::GetOwnership | AccessVerb::PutOwnership | AccessVerb::DeleteOwnership => {
            ownership(door, verb, context).await
        }
        AccessVerb::GetBlock | AccessVerb::PutBlock | AccessVerb::DeleteBlock => {
            block(door, verb, context).await
        }
        AccessVerb::GetBucketAcl => {
            let bucket = context.bucket()?;
            let shown = door.store.bucket_acl(&context.caller, &bucket).await?;
            acl_answer(&shown)
        }
        AccessVerb::PutBucketAcl => {
            let wish = wanted_acl(context).await?;
            let bucket = context.bucket()?;
            door.store
                .put_bucket_acl(&context.caller, &bucket, &wish)
                .await?;
            Ok(empty_answer(StatusCode::OK))
        }
        AccessVerb::GetObjectAcl => {
            let object = context.object()?;
            let version = context.version()?;
            let shown = door
                .store
                .object_acl(&context.caller, &object, version)
                .await?;
            acl_answer(&shown)
        }
        AccessVerb::PutObjectAcl => {
            let wish = wanted_acl(context).await?;
            let (object, version) = (context.object()?, context.version()?);
            door.store
                .put_object_acl(&context.caller, &object, version, &wish)
                .await?;
            Ok(empty_answer(StatusCode::OK))
        }
        AccessVerb::GetPayment | AccessVerb::PutPayment => payment(door, verb, context).await,
    }
}

async fn get_policy(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let text = door.store.bucket_policy(&context.caller, &bucket).await?;
    let text = text.ok_or_else(|| {
        Refusal::new(Code::NoSuchBucketPolicy, "The bucket policy does not exist")
            .element("BucketName", bucket.name.to_string())
    })?;
    let mut answer = full_answer(text.into());
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, value_of("application/json"));
    Ok(answer)
}

async fn put_policy(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let confirmed = header(context.headers(), "x-amz-confirm-remove-self-bucket-access")?;
    let locks_owner_out = confirmed.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let malformed = |words: &'static str| Refusal::new(Code::MalformedPolicy, words);
    let bytes = context.document(false).await?;
    if bytes.len() > BUCKET_POLICY_BYTES_MAX {
        return Err(malformed(
            "Policy exceeds the maximum allowed document size.",
        ));
    }
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| malformed("Policies must be valid JSON and the first byte must be '{'"))?;
    let bucket = context.bucket()?;
    door.store
        .put_bucket_policy(&context.caller, &bucket, text, locks_owner_out)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

async fn ownership(door: &Door, verb: AccessVerb, context: &mut RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    match verb {
        AccessVerb::PutOwnership => {
            let bytes = context.document(false).await?;
            let controls: dto::OwnershipControls = document(&bytes)?;
            let [rule] = &controls.rules[..] else {
                let message = "OwnershipControls must have exactly one rule";
                return Err(Refusal::new(Code::MalformedXML, message));
            };
            let ownership = ownership_named(rule.object_ownership.as_str())?;
            door.store
                .put_bucket_ownership(&context.caller, &bucket, ownership)
                .await?;
            Ok(empty_answer(StatusCode::OK))
        }
        AccessVerb::DeleteOwnership => {
            door.store
                .delete_bucket_ownership(&context.caller, &bucket)
                .await?;
            Ok(empty_answer(StatusCode::NO_CONTENT))
        }
        _ => {
            let found = door
                .store
                .bucket_ownership(&context.caller, &bucket)
                .await?;
            let found = found.ok_or_else(|| {
                let message = "The bucket ownership controls were not found";
                Refusal::new(Code::OwnershipControlsNotFoundError, message)
            })?;
            xml_answer(&dto::OwnershipControls {
                rules: vec![dto::OwnershipControlsRule {
                    object_ownership: dto::ObjectOwnership::from_static(found.as_str()),
                }],
            })
        }
    }
}

async fn block(door: &Door, verb: AccessVerb, context: &mut RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    match verb {
        AccessVerb::PutBlock => {
            let bytes = context.document(false).await?;
            let wanted: dto::PublicAccessBlockConfiguration = document(&bytes)?;
            let block = PublicAccessBlock {
                block_public_acls: wanted.block_public_acls.unwrap_or_default(),
                ignore_public_acls: wanted.ignore_public_acls.unwrap_or_default(),
                block_public_policy: wanted.block_public_policy.unwrap_or_default(),
                restrict_public_buckets: wanted.restrict_public_buckets.unwrap_or_default(),
            };
            door.store
                .put_public_access_block(&context.caller, &bucket, block)
                .await?;
            Ok(empty_answer(StatusCode::OK))
        }
        AccessVerb::DeleteBlock => {
            door.store
                .delete_public_access_block(&context.caller, &bucket)
                .await?;
            Ok(empty_answer(StatusCode::NO_CONTENT))
        }
        _ => {
            let found = door
                .store
                .public_access_block(&context.caller, &bucket)
                .await?;
            let block = found.ok_or_else(|| {
                let message = "The public access block configuration was not found";
                Refusal::new(Code::NoSuchPublicAccessBlockConfiguration, message)
            })?;
            xml_answer(&dto::PublicAccessBlockConfiguration {
                block_public_acls: Some(block.block_public_acls),
                ignore_public_acls: Some(block.ignore_public_acls),
                block_public_policy: Some(block.block_public_policy),
                restrict_public_buckets: Some(block.restrict_public_buckets),
            })
        }
    }
}

async fn payment(door: &Door, verb: AccessVerb, context: &mut RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    if verb == AccessVerb::PutPayment {
        let bytes = context.document(false).await?;
        let wanted: dto::RequestPaymentConfiguration = document(&bytes)?;
        let requester = match wanted.payer.as_str() {
            "Requester" => true,
            "BucketOwner" => false,
            _ => {
                let message = "The payer is Requester or BucketOwner";
                return Err(Refusal::new(Code::MalformedXML, message));
            }
        };
        door.store
            .put_requester_pays(&context.caller, &bucket, requester)
            .await?;
        return Ok(empty_answer(StatusCode::OK));
    }
    let requester = door.store.requester_pays(&context.caller, &bucket).await?;
    let payer = if requester {
        "Requester"
    } else {
        "BucketOwner"
    };
    xml_answer(&dto::GetBucketRequestPaymentOutput {
        payer: Some(dto::Payer::from_static(payer)),
    })
}

/// The list that a request sets, in headers or as a document.
async fn wanted_acl(context: &mut RequestContext) -> Result<NewAcl> {
    let in_headers = acl_of(context.headers())?;
    let bytes = context.document(false).await?;
    match in_headers {
        Some(_) if !bytes.is_empty() => Err(Refusal::new(
            Code::UnexpectedContent,
            "This request does not support content",
        )),
        Some(wish) => Ok(wish),
        None if bytes.is_empty() => Err(Refusal::new(
            Code::MissingSecurityHeader,
            "Your request was missing a required header",
        )
        .element("MissingHeaderName", "x-amz-acl")),
        None => {
            let policy = document(&bytes).map_err(|_| {
                let message = "The XML you provided was not well-formed or did not validate \
                               against our published schema";
                Refusal::new(Code::MalformedACLError, message)
            })?;
            acl_document(policy)
        }
    }
}

fn acl_answer(shown: &dewar_store::api::NamedAcl) -> Result<Answer> {
    let (owner, grants) = acl_elements(shown);
    xml_answer(&dto::GetBucketAclOutput {
        grants: Some(grants),
        owner: Some(owner),
    })
}
