//! CORS rules of a bucket: the origins whose pages may use it (the Fetch standard's CORS protocol).
//!
//! A browser asks before it sends the request, without credentials. The rules decide about a page
//! and not about a user. So these questions are answered for everybody, and only about one origin
//! at a time.

use dewar_namespace::Bucket;
use dewar_types::{ErrorKind, Result, TenantName};
use minicbor::{Decode, Encode};

use crate::Store;
use crate::api::BucketRef;
use crate::document::document_of;

/// Most rules of a bucket (S3 user guide).
pub const CORS_RULES_MAX: usize = 100;

/// The rules of a bucket; the first that fits decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Cors {
    /// In order.
    #[n(0)]
    pub rules: Vec<CorsRule>,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CorsRule {
    /// The name that its author gave to the rule.
    #[n(0)]
    pub id: Option<String>,
    /// Origins, each with at most one `*`.
    #[n(1)]
    pub origins: Vec<String>,
    /// Methods.
    #[n(2)]
    pub methods: Vec<String>,
    /// Headers that requests may carry, each with at most one `*`.
    #[n(3)]
    pub headers: Vec<String>,
    /// Headers of answers that pages may read.
    #[n(4)]
    pub exposed: Vec<String>,
    /// For how many seconds a browser may remember the answer.
    #[n(5)]
    pub max_age: Option<u32>,
}

crate::cbor_document!(Cors, format 1, Cors, get GetBucketCors, put PutBucketCors, delete PutBucketCors);

impl Cors {
    /// The first rule that allows a page of `origin` to use `method` with `headers`.
    #[must_use]
    pub fn rule(&self, origin: &str, method: &str, headers: &[&str]) -> Option<&CorsRule> {
        self.rules.iter().find(|rule| {
            let allowed = |name: &str| {
                let mut patterns = rule.headers.iter();
                patterns.any(|pattern| like(&pattern.to_ascii_lowercase(), name))
            };
            rule.origins.iter().any(|pattern| like(pattern, origin))
                && rule.methods.iter().any(|known| known == method)
                && headers
                    .iter()
                    .all(|name| allowed(&name.to_ascii_lowercase()))
        })
    }
}

impl CorsRule {
    /// Whether every origin fits it.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }
}

/// Whether a text matches a pattern with at most one `*`.
fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => {
            text.len() >= start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
        }
    }
}

impl Store {
    /// The rule of a bucket that allows a page of `origin` to use `method` with `headers`. `None`
    /// if no rule does, or if the bucket does not exist. The bucket's name is resolved in `tenant`.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn cors_rule(
        &self,
        tenant: &TenantName,
        bucket: &BucketRef,
        origin: &str,
        method: &str,
        headers: &[&str],
    ) -> Result<Option<CorsRule>> {
        let Some(found) = self.any_bucket(tenant, bucket).await? else {
            return Ok(None);
        };
        let cors = document_of::<Cors>(&found)?;
        Ok(cors.and_then(|cors| cors.rule(origin, method, headers).cloned()))
    }

    async fn any_bucket(&self, tenant: &TenantName, bucket: &BucketRef) -> Result<Option<Bucket>> {
        let tree = &self.inner.tree;
        let tenant = bucket.tenant.as_ref().unwrap_or(tenant);
        let Some(tenant) = tree.catalog().tenant(tenant).await? else {
            return Ok(None);
        };
        match tree.bucket(&tenant, &bucket.name).await {
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => Ok(None),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn rule(origin: &str, method: &str, header: &str) -> CorsRule {
        CorsRule {
            origins: vec![origin.into()],
            methods: vec![method.into()],
            headers: vec![header.into()],
            ..CorsRule::default()
        }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let cors = Cors {
            rules: vec![
                rule("https://*.example.org", "GET", "X-Amz-*"),
                rule("start*end", "PUT", "*"),
                rule("*", "GET", "content-type"),
            ],
        };
        let found = |origin: &str, method: &str, headers: &[&str]| {
            let rule = cors.rule(origin, method, headers)?;
            cors.rules.iter().position(|known| known == rule)
        };
        assert_eq!(
            found("https://a.example.org", "GET", &["x-amz-date"]),
            Some(0)
        );
        assert_eq!(
            found("https://a.example.org", "GET", &["Content-Type"]),
            Some(2)
        );
        assert_eq!(found("https://example.org", "GET", &[]), Some(2));
        assert_eq!(found("startend", "PUT", &["anything"]), Some(1));
        assert_eq!(found("stend", "PUT", &[]), None);
        assert_eq!(found("any", "DELETE", &[]), None);
        assert_eq!(found("any", "GET", &["x-other"]), None);
        assert!(cors.rules[2].is_for_all() && !cors.rules[0].is_for_all());
    }

    /// Format 1, as it was first written.
    #[test]
    fn rules_of_format_1_open() {
        let cors = Cors {
            rules: vec![CorsRule {
                id: Some("r".into()),
                max_age: Some(60),
                ..rule("*", "GET", "a")
            }],
        };
        let bytes = [
            0x01, 0xa1, 0x00, 0x81, 0xa6, 0x00, 0x61, b'r', 0x01, 0x81, 0x61, b'*', 0x02, 0x81,
            0x63, b'G', b'E', b'T', 0x03, 0x81, 0x61, b'a', 0x04, 0x80, 0x05, 0x18, 0x3c,
        ];
        assert_eq!(Cors::from_bytes(&bytes).expect("opens"), cors);
        assert_eq!(*cors.to_bytes(), bytes);
    }
}
