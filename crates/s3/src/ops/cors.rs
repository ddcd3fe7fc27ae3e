//! The rules of a bucket for pages of other origins.

use dewar_http_front::{Answer, empty_answer};
use dewar_store::cors::{CORS_RULES_MAX, Cors, CorsRule};
use http::StatusCode;
use s3s::dto;

use super::delete_objects::document;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};

/// The methods that rules may speak of.
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];

pub(super) async fn get(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let found = door
        .store
        .get_bucket_document::<Cors>(&context.caller, &bucket)
        .await?;
    let cors = found.ok_or_else(|| {
        let words = "The CORS configuration does not exist";
        Refusal::new(Code::NoSuchCORSConfiguration, words)
            .element("BucketName", bucket.name.to_string())
    })?;
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let rules = cors.rules.iter().map(|rule| dto::CORSRule {
        allowed_headers: some(&rule.headers),
        allowed_methods: rule.methods.clone(),
        allowed_origins: rule.origins.clone(),
        expose_headers: some(&rule.exposed),
        id: rule.id.clone(),
        max_age_seconds: rule.max_age.and_then(|age| i32::try_from(age).ok()),
    });
    xml_answer(&dto::GetBucketCorsOutput {
        cors_rules: Some(rules.collect()),
    })
}

pub(super) async fn put(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let wanted: dto::CORSConfiguration = document(&bytes)?;
    if wanted.cors_rules.is_empty() || wanted.cors_rules.len() > CORS_RULES_MAX {
        return Err(malformed());
    }
    let rules = wanted.cors_rules.into_iter().map(rule);
    let cors = Cors {
        rules: rules.collect::<Result<_>>()?,
    };
    let bucket = context.bucket()?;
    door.store
        .put_bucket_document(&context.caller, &bucket, &cors)
        .await?;
    Ok(empty_answer(StatusCode::OK))
}

pub(super) async fn delete(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    door.store
        .delete_bucket_document::<Cors>(&context.caller, &bucket)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

fn malformed() -> Refusal {
    Refusal::new(
        Code::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published \
         schema",
    )
}

fn rule(wanted: dto::CORSRule) -> Result<CorsRule> {
    let invalid = |words: String| Refusal::new(Code::InvalidRequest, words);
    if wanted.allowed_methods.is_empty() || wanted.allowed_origins.is_empty() {
        return Err(malformed());
    }
    if let Some(method) = wanted
        .allowed_methods
        .iter()
        .find(|method| !METHODS.contains(&method.as_str()))
    {
        return Err(invalid(format!(
            "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
        )));
    }
    let headers = wanted.allowed_headers.unwrap_or_default();
    let stars = |text: &str| text.matches('*').count() > 1;
    let patterns = wanted.allowed_origins.iter().chain(&headers);
    for pattern in patterns {
        if stars(pattern) {
            return Err(invalid(format!(
                "AllowedOrigin or AllowedHeader \"{pattern}\" can not have more than one wildcard."
            )));
        }
    }
    let age = wanted.max_age_seconds.map(u32::try_from).transpose();
    Ok(CorsRule {
        id: wanted.id,
        origins: wanted.allowed_origins,
        methods: wanted.allowed_methods,
        headers,
        exposed: wanted.expose_headers.unwrap_or_default(),
        max_age: age.map_err(|_| invalid("MaxAgeSeconds must not be negative".to_owned()))?,
    })
}
