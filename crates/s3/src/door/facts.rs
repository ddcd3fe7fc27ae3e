//! The facts about a request that a policy may test.

use std::borrow::Cow;
use std::sync::Arc;

use dewar_auth::{Fact, Facts};
use dewar_sigv4::{Query, RequestDate};
use dewar_types::{RequestId, Timestamp};
use http::HeaderMap;
use http::request::Parts;

use super::Verb;
use crate::sigv4::CONTENT_SHA256;

/// The TLS version of a request, as policies write it, like `1.3`. The listener adds it to the
/// request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsVersion(pub &'static str);

/// The place of a signature, and whether it is of version 2.
#[derive(Clone, Copy)]
enum Signature {
    Header { old: bool },
    Query { old: bool },
    Form { old: bool },
}

/// A form: its fields that count as headers, and how it is signed.
struct Form {
    headers: HeaderMap,
    signature: Option<Signature>,
}

/// The head of a request, read when a policy tests a fact.
pub(crate) struct WireFacts {
    head: Arc<Parts>,
    form: Option<Form>,
    /// Facts that the verb reads from its document only. A header with them has no effect, so
    /// policies do not see it.
    in_document: &'static [Fact],
    now: Timestamp,
    region: Arc<str>,
}

/// The facts that a verb reads from its document and not from headers.
fn in_document(verb: &Verb) -> &'static [Fact] {
    match verb {
        Verb::DeleteObjects => &[Fact::IfMatch],
        Verb::PutObjectRetention | Verb::PutObjectLegalHold => &[
            Fact::ObjectLockMode,
            Fact::ObjectLockRetainUntil,
            Fact::ObjectLockLegalHold,
        ],
        Verb::PutObjectTagging
        | Verb::DeleteObjectTagging
        | Verb::PutBucketTagging
        | Verb::DeleteBucketTagging => &[Fact::Tagging],
        _ => &[],
    }
}

impl WireFacts {
    /// Of a request to the door of a region; `verb` where it is one of S3's.
    pub(crate) fn of(
        head: &Arc<Parts>,
        verb: Option<&Verb>,
        now: Timestamp,
        region: &Arc<str>,
    ) -> Arc<dyn Facts> {
        Arc::new(Self {
            head: Arc::clone(head),
            form: None,
            in_document: verb.map_or(&[], in_document),
            now,
            region: Arc::clone(region),
        })
    }

    /// Of a form in a request, with the fields that count as headers; whether it is signed as in
    /// Signature V2, where it is signed at all.
    pub(crate) fn of_form(
        head: &Arc<Parts>,
        headers: HeaderMap,
        signed_as_v2: Option<bool>,
        now: Timestamp,
        region: &Arc<str>,
    ) -> Arc<dyn Facts> {
        let signature = signed_as_v2.map(|old| Signature::Form { old });
        Arc::new(Self {
            head: Arc::clone(head),
            form: Some(Form { headers, signature }),
            in_document: &[],
            now,
            region: Arc::clone(region),
        })
    }

    /// A header of the request itself. Several headers of a name are joined to one list, as the
    /// server uses them and as the signature covers them.
    fn head(&self, name: &str) -> Option<Cow<'_, str>> {
        joined(&self.head.headers, name)
    }

    /// The value of a header. For a form, only its fields count, because the headers around it have
    /// no effect.
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let form = self.form.as_ref().map(|form| &form.headers);
        joined(form.unwrap_or(&self.head.headers), name)
    }

    /// The value of a fact that may be in either.
    fn anywhere(&self, name: &str) -> Option<Cow<'_, str>> {
        self.header(name).or_else(|| self.head(name))
    }

    fn query(&self) -> Option<Query> {
        Query::parse(self.head.uri.query()).ok()
    }

    /// The place of the signature; `None` without one. A token is no signature.
    fn signature(&self) -> Option<Signature> {
        if let Some(form) = &self.form {
            return form.signature;
        }
        if let Some(header) = self.head("authorization") {
            let old = header.starts_with("AWS ");
            return (old || header.starts_with("AWS4")).then_some(Signature::Header { old });
        }
        let query = self.query()?;
        if query.has("X-Amz-Signature") {
            Some(Signature::Query { old: false })
        } else if query.has("Signature") {
            Some(Signature::Query { old: true })
        } else {
            None
        }
    }

    /// Milliseconds since the request was signed. URLs and forms of Signature V2 do not contain
    /// that time, so they count as older than any limit.
    fn signature_age(&self) -> Option<u64> {
        let date = match self.signature()? {
            // In V4, too, it may stand in the Date header.
            Signature::Header { .. } => {
                let date = self.head("x-amz-date").or_else(|| self.head("date"))?;
                RequestDate::parse_header(&date)?
            }
            Signature::Query { old: false } => {
                RequestDate::parse(self.query()?.get("X-Amz-Date")?)?
            }
            Signature::Form { old: false } => RequestDate::parse(&self.header("x-amz-date")?)?,
            Signature::Query { old: true } | Signature::Form { old: true } => {
                return Some(u64::MAX);
            }
        };
        let signed = date.secs().saturating_mul(1000);
        Some(self.now.millis().saturating_sub(signed))
    }

    /// The way in which the payload is signed. For a presigned URL it is unsigned by default.
    fn payload(&self) -> Option<Cow<'_, str>> {
        let said = || self.head(CONTENT_SHA256.as_str());
        match self.signature() {
            Some(Signature::Query { old: false }) => {
                let query = self.query()?;
                let named = query.get("X-Amz-Content-Sha256").map(str::to_owned);
                let unsigned = || Cow::Borrowed("UNSIGNED-PAYLOAD");
                Some(named.map(Cow::Owned).or_else(said).unwrap_or_else(unsigned))
            }
            _ if self.form.is_some() => None,
            _ => said(),
        }
    }
}

/// A header, those of one name as one list.
fn joined<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    let mut values = headers.get_all(name).iter();
    let first = String::from_utf8_lossy(values.next()?.as_bytes());
    Some(values.fold(first, |list, value| {
        Cow::Owned(format!(
            "{list},{}",
            String::from_utf8_lossy(value.as_bytes())
        ))
    }))
}

impl Facts for WireFacts {
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>> {
        if self.in_document.contains(&fact) {
            return None;
        }
        let name = match fact {
            Fact::UserAgent => return self.head("user-agent"),
            Fact::Referer => return self.head("referer"),
            Fact::RequestedRegion => return Some(Cow::Borrowed(&self.region)),
            Fact::ContentSha256 => return self.payload(),
            Fact::TlsVersion => {
                let version = self.head.extensions.get::<TlsVersion>();
                return version.map(|TlsVersion(version)| Cow::Borrowed(*version));
            }
            Fact::IfMatch => "if-match",
            Fact::IfNoneMatch => "if-none-match",
            Fact::ObjectLockMode => "x-amz-object-lock-mode",
            Fact::ObjectLockRetainUntil => "x-amz-object-lock-retain-until-date",
            Fact::ObjectLockLegalHold => "x-amz-object-lock-legal-hold",
            Fact::AuthType => {
                let kind = match self.signature()? {
                    Signature::Header { .. } => "REST-HEADER",
                    Signature::Query { .. } => "REST-QUERY-STRING",
                    Signature::Form { .. } => "POST",
                };
                return Some(Cow::Borrowed(kind));
            }
            Fact::SignatureVersion => {
                let old = match self.signature()? {
                    Signature::Header { old }
                    | Signature::Query { old }
                    | Signature::Form { old } => old,
                };
                return Some(Cow::Borrowed(if old { "AWS" } else { "AWS4-HMAC-SHA256" }));
            }
            Fact::SignatureAge => return self.signature_age().map(|age| age.to_string().into()),
            // They stand in documents, or follow from what does: the store tells them.
            Fact::LocationConstraint | Fact::ObjectLockRemainingDays => return None,
            // The others are headers by the same name.
            other => other.key().strip_prefix("s3:")?,
        };
        self.header(name)
    }

    fn says_page_length(&self) -> bool {
        self.query().is_none_or(|query| query.has("max-keys"))
    }

    fn request_id(&self) -> Option<String> {
        let id = self.head.extensions.get::<RequestId>();
        id.map(ToString::to_string)
    }

    fn expected_owner(&self) -> Option<Cow<'_, str>> {
        self.anywhere("x-amz-expected-bucket-owner")
    }

    fn expected_source_owner(&self) -> Option<Cow<'_, str>> {
        self.anywhere("x-amz-source-expected-bucket-owner")
    }

    fn pays(&self) -> bool {
        self.anywhere("x-amz-request-payer")
            .is_some_and(|payer| payer.eq_ignore_ascii_case("requester"))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Request};

    use super::*;

    fn head(target: &str, headers: &[(&'static str, &str)]) -> Arc<Parts> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Arc::new(request.body(()).expect("a request").into_parts().0)
    }

    fn facts(target: &str, headers: &[(&'static str, &str)]) -> Arc<dyn Facts> {
        let now = Timestamp::from_secs(1_700_000_000);
        WireFacts::of(&head(target, headers), None, now, &"here".into())
    }

    fn said(facts: &Arc<dyn Facts>, fact: Fact) -> Option<String> {
        facts.fact(fact).map(Cow::into_owned)
    }

    /// Otherwise a policy would not see the second of two headers, which it denies.
    #[test]
    fn headers_of_one_name_are_one_list() {
        let name = "x-amz-grant-read";
        let twice = facts("/b/k", &[(name, "id=1"), (name, "uri=all")]);
        let list = said(&twice, Fact::GrantRead);
        assert_eq!(list.as_deref(), Some("id=1,uri=all"));
        assert_eq!(said(&twice, Fact::GrantWrite), None);
    }

    #[test]
    fn signatures_are_told_apart_and_tokens_are_none() {
        let signed = |header: &str| facts("/b/k", &[("authorization", header)]);
        let v4 = "AWS4-HMAC-SHA256";
        for (facts, kind, version) in [
            (signed("AWS4-HMAC-SHA256 Credential=a"), "REST-HEADER", v4),
            (signed("AWS a:b"), "REST-HEADER", "AWS"),
            (
                facts("/b/k?X-Amz-Signature=a", &[]),
                "REST-QUERY-STRING",
                v4,
            ),
            (facts("/b/k?Signature=a", &[]), "REST-QUERY-STRING", "AWS"),
        ] {
            assert_eq!(said(&facts, Fact::AuthType).as_deref(), Some(kind));
            assert_eq!(
                said(&facts, Fact::SignatureVersion).as_deref(),
                Some(version)
            );
        }
        for none in [signed("Bearer token"), facts("/b/k", &[])] {
            for fact in [Fact::AuthType, Fact::SignatureVersion, Fact::SignatureAge] {
                assert_eq!(said(&none, fact), None);
            }
        }
    }

    #[test]
    fn ages_are_those_of_the_signature_that_counts() {
        let age = |facts: Arc<dyn Facts>| said(&facts, Fact::SignatureAge);
        // 100 seconds before.
        let date = "20231114T221140Z";
        let address = format!("/b/k?X-Amz-Signature=a&X-Amz-Date={date}");
        assert_eq!(age(facts(&address, &[])).as_deref(), Some("100000"));
        // A header beside it makes it no younger.
        let now = [("x-amz-date", "20231114T221320Z")];
        assert_eq!(age(facts(&address, &now)).as_deref(), Some("100000"));
        let header = [
            ("authorization", "AWS4-HMAC-SHA256 a"),
            ("x-amz-date", date),
        ];
        assert_eq!(age(facts("/b/k", &header)).as_deref(), Some("100000"));
        let old = age(facts("/b/k?Signature=a&Expires=1700000060", &[]));
        assert_eq!(old, Some(u64::MAX.to_string()));
    }

    #[test]
    fn payloads_of_addresses_are_unsigned_unless_they_say_otherwise() {
        let payload = |target: &str, headers: &[(&'static str, &str)]| {
            said(&facts(target, headers), Fact::ContentSha256)
        };
        let address = "/b/k?X-Amz-Signature=a";
        assert_eq!(payload(address, &[]).as_deref(), Some("UNSIGNED-PAYLOAD"));
        let digest = [("x-amz-content-sha256", "00ff")];
        assert_eq!(payload(address, &digest).as_deref(), Some("00ff"));
        let named = format!("{address}&X-Amz-Content-Sha256=11");
        assert_eq!(payload(&named, &digest).as_deref(), Some("11"));
        assert_eq!(payload("/b/k", &[]), None);
    }

    /// Headers of the request around a form have no effect, so policies do not see them.
    #[test]
    fn of_a_form_the_fields_count() {
        let around = head(
            "/b",
            &[
                ("x-amz-server-side-encryption", "AES256"),
                ("x-amz-content-sha256", "00ff"),
                ("user-agent", "browser"),
            ],
        );
        let mut fields = HeaderMap::new();
        fields.insert(
            HeaderName::from_static("x-amz-acl"),
            HeaderValue::from_static("public-read"),
        );
        let now = Timestamp::from_secs(1_700_000_000);
        let facts = WireFacts::of_form(&around, fields, Some(true), now, &"here".into());
        assert_eq!(said(&facts, Fact::ServerSideEncryption), None);
        assert_eq!(said(&facts, Fact::ContentSha256), None);
        assert_eq!(
            said(&facts, Fact::CannedAcl).as_deref(),
            Some("public-read")
        );
        assert_eq!(said(&facts, Fact::UserAgent).as_deref(), Some("browser"));
        assert_eq!(said(&facts, Fact::AuthType).as_deref(), Some("POST"));
        assert_eq!(said(&facts, Fact::SignatureVersion).as_deref(), Some("AWS"));
        assert_eq!(said(&facts, Fact::SignatureAge), Some(u64::MAX.to_string()));
    }
}
