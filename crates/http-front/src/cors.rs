//! Pages of other origins: what a page asks for, and the headers on every answer to it (the Fetch
//! standard's CORS protocol). The rules are those of the bucket.

use dewar_store::Store;
use dewar_store::api::BucketRef;
use dewar_store::cors::CorsRule;
use dewar_types::TenantName;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::value_of;

/// The request of a page: its origin, and the method and headers that it wants to use.
pub struct CorsRequest {
    origin: String,
    method: String,
    headers: Vec<String>,
    /// The bucket that it uses, once that is known, and the tenant in which its name is resolved.
    pub bucket: Option<(TenantName, BucketRef)>,
}

impl CorsRequest {
    /// The page behind a request, if there is one.
    #[must_use]
    pub fn of(head: &Parts) -> Option<Self> {
        let text = |name: HeaderName| head.headers.get(name)?.to_str().ok();
        let headers = text(ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
        let headers = headers.split(',').map(str::trim);
        Some(Self {
            origin: text(ORIGIN)?.to_owned(),
            method: text(ACCESS_CONTROL_REQUEST_METHOD)
                .unwrap_or(head.method.as_str())
                .to_owned(),
            headers: headers
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            bucket: None,
        })
    }

    /// The method that the page wants to use, or uses.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The rule of the bucket that allows the request. A page is refused if the rules cannot be
    /// read.
    pub async fn rule(&self, store: &Store) -> Option<CorsRule> {
        let (tenant, bucket) = self.bucket.as_ref()?;
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let rule = store
            .cors_rule(tenant, bucket, &self.origin, &self.method, &headers)
            .await;
        rule.unwrap_or_else(|error| {
            tracing::warn!(%error, "the rules for other origins cannot be read");
            None
        })
    }

    /// Adds to an answer what the browser must know to hand it to the page.
    pub async fn add_headers(&self, store: &Store, answer: &mut HeaderMap) {
        if answer.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        if let Some(rule) = self.rule(store).await {
            self.allow(&rule, answer);
        }
    }

    /// Adds the headers of a rule to an answer.
    pub fn allow(&self, rule: &CorsRule, answer: &mut HeaderMap) {
        if rule.is_for_all() {
            let any = HeaderValue::from_static("*");
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, any);
        } else {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value_of(&self.origin));
            let yes = HeaderValue::from_static("true");
            answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
        let methods = value_of(&rule.methods.join(", "));
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        if !rule.exposed.is_empty() {
            let exposed = value_of(&rule.exposed.join(", "));
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        if let Some(seconds) = rule.max_age {
            answer.insert(ACCESS_CONTROL_MAX_AGE, seconds.into());
        }
        if !self.headers.is_empty() {
            let headers = value_of(&self.headers.join(", ").to_ascii_lowercase());
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers);
        }
        let vary = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method";
        answer.append(VARY, HeaderValue::from_static(vary));
    }
}
