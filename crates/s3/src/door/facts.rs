//! What the door knows of a request that a policy may ask for.

use std::borrow::Cow;
use std::sync::Arc;

use dewar_auth::{Fact, Facts};
use dewar_types::{RequestId, Timestamp};
use http::HeaderMap;
use http::request::Parts;

use crate::sigv4::{Query, RequestDate};

/// The head of a request, looked at when a policy asks.
pub(crate) struct WireFacts {
    head: Arc<Parts>,
    /// The fields of a form that count as headers.
    form: Option<HeaderMap>,
    now: Timestamp,
}

impl WireFacts {
    /// Of a request.
    pub(crate) fn of(head: &Arc<Parts>, now: Timestamp) -> Arc<dyn Facts> {
        Arc::new(Self {
            head: Arc::clone(head),
            form: None,
            now,
        })
    }

    /// Of a form in a request.
    pub(crate) fn of_form(head: &Arc<Parts>, form: HeaderMap, now: Timestamp) -> Arc<dyn Facts> {
        Arc::new(Self {
            head: Arc::clone(head),
            form: Some(form),
            now,
        })
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let form = self.form.as_ref().and_then(|form| form.get(name));
        let value = form.or_else(|| self.head.headers.get(name))?;
        Some(String::from_utf8_lossy(value.as_bytes()))
    }

    fn query(&self) -> Option<Query> {
        Query::parse(self.head.uri.query()).ok()
    }

    /// Where the signature stands, and of which version it is.
    fn signature(&self) -> Option<(&'static str, &'static str)> {
        if self.form.is_some() {
            return Some(("POST", "AWS4-HMAC-SHA256"));
        }
        if let Some(header) = self.header("authorization") {
            let new = header.starts_with("AWS4");
            return Some(("REST-HEADER", if new { "AWS4-HMAC-SHA256" } else { "AWS" }));
        }
        let query = self.query()?;
        if query.has("X-Amz-Signature") {
            Some(("REST-QUERY-STRING", "AWS4-HMAC-SHA256"))
        } else if query.has("Signature") {
            Some(("REST-QUERY-STRING", "AWS"))
        } else {
            None
        }
    }

    /// Milliseconds since the request was signed.
    fn signature_age(&self) -> Option<u64> {
        let date = match self.header("x-amz-date") {
            Some(date) => RequestDate::parse_header(&date)?,
            // Signature V2 has it in the Date header, where V4 may have it too.
            None if self.head.headers.contains_key("authorization") => {
                RequestDate::parse_header(&self.header("date")?)?
            }
            None => RequestDate::parse(self.query()?.get("X-Amz-Date")?)?,
        };
        let signed = date.secs().saturating_mul(1000);
        Some(self.now.millis().saturating_sub(signed))
    }
}

impl Facts for WireFacts {
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>> {
        let name = match fact {
            Fact::UserAgent => "user-agent",
            Fact::Referer => "referer",
            Fact::IfMatch => "if-match",
            Fact::IfNoneMatch => "if-none-match",
            Fact::ObjectLockMode => "x-amz-object-lock-mode",
            Fact::ObjectLockRetainUntil => "x-amz-object-lock-retain-until-date",
            Fact::ObjectLockLegalHold => "x-amz-object-lock-legal-hold",
            Fact::AuthType => return self.signature().map(|(kind, _)| kind.into()),
            Fact::SignatureVersion => return self.signature().map(|(_, version)| version.into()),
            Fact::SignatureAge => return self.signature_age().map(|age| age.to_string().into()),
            Fact::TlsVersion | Fact::LocationConstraint | Fact::ObjectLockRemainingDays => {
                return None;
            }
            // The others are headers by the same name.
            other => other.key().strip_prefix("s3:")?,
        };
        self.header(name)
    }

    fn request_id(&self) -> Option<String> {
        let id = self.head.extensions.get::<RequestId>();
        id.map(ToString::to_string)
    }

    fn expected_owner(&self) -> Option<Cow<'_, str>> {
        self.header("x-amz-expected-bucket-owner")
    }

    fn expected_source_owner(&self) -> Option<Cow<'_, str>> {
        self.header("x-amz-source-expected-bucket-owner")
    }

    fn pays(&self) -> bool {
        self.header("x-amz-request-payer")
            .is_some_and(|payer| payer.eq_ignore_ascii_case("requester"))
    }
}
