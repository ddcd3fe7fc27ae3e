//! Verifying the signature of a request.

use std::sync::Arc;

use dewar_auth::{AccessKey, CredentialStore};
use dewar_sigv4::{
    Authorization, ChunkChain, CredentialScope, Error, Query, RequestDate, Signature,
    SignedHeaders, SignedRequest, SigningKey, SigningKeys, UNSIGNED_PAYLOAD,
};
use dewar_types::Timestamp;
use http::header::{AUTHORIZATION, DATE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use super::presigned_url::PresignedUrl;
use super::scope::{ANY_REGION, CredentialLocation};
use crate::error::{Code, Refusal, Result};
use crate::limits::CLOCK_SKEW_SECS_MAX;
use crate::sigv2::{AuthorizationV2, PresignedUrlV2};

/// Names the payload's digest or mode.
pub(crate) const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
pub(crate) const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
pub(crate) const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// A request whose signature was verified.
#[derive(Debug)]
pub struct VerifiedSignature {
    /// The access key that signed.
    pub key: AccessKey,
    /// The payload as the signer declared it: a digest or a mode. `None` without a declaration,
    /// which only a presigned URL may lack.
    pub payload: Option<String>,
    /// The chain of the signatures within the body; only header signatures have it.
    pub chunks: Option<ChunkChain>,
}

/// The identity that a request claims, after verification.
#[derive(Debug)]
pub enum SignatureCheck {
    /// No signature at all.
    Anonymous,
    /// A verified signature.
    Signed(Box<VerifiedSignature>),
}

/// Verifies signatures for one region and service.
pub struct Verifier {
    credentials: Arc<dyn CredentialStore>,
    keys: SigningKeys,
    region: String,
    service: &'static str,
    /// Whether a signature may be for any region: clients of STS choose their own.
    any_region: bool,
}

/// A credential and the data that it signs, before any secret is known.
struct Proof<'a> {
    location: CredentialLocation,
    /// The session token that goes with the key.
    token: Option<&'a str>,
    scope: &'a CredentialScope,
    date: RequestDate,
    signature: Signature,
    request: SignedRequest<'a>,
}

impl Verifier {
    /// A verifier that looks keys up in `credentials` and serves S3 in `region`.
    #[must_use]
    pub fn new(credentials: Arc<dyn CredentialStore>, region: impl Into<String>) -> Self {
        Self {
            credentials,
            keys: SigningKeys::default(),
            region: region.into(),
            service: "s3",
            any_region: false,
        }
    }

    /// A verifier for the IAM API, which is in no region.
    #[must_use]
    pub fn of_iam(credentials: Arc<dyn CredentialStore>) -> Self {
        Self {
            service: "iam",
            ..Self::new(credentials, ANY_REGION)
        }
    }

    /// A verifier for STS.
    #[must_use]
    pub fn of_sts(credentials: Arc<dyn CredentialStore>) -> Self {
        Self {
            service: "sts",
            any_region: true,
            ..Self::new(credentials, "us-east-1")
        }
    }

    /// The region that signatures must be for.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Whether it verifies calls of S3, and not those of the IAM API.
    pub(crate) fn serves_s3(&self) -> bool {
        self.service == "s3"
    }

    /// Verifies the signature in the head of a request, in its Authorization header or its query
    /// string. It does not read the body. `bucket` is the bucket in the host name, which Signature
    /// V2 includes.
    ///
    /// # Errors
    /// S3's code for each kind of wrong signature; `InternalError` when keys cannot be looked up.
    pub async fn verify(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
        now: Timestamp,
    ) -> Result<SignatureCheck> {
        let header = single(&head.headers, &AUTHORIZATION)?;
        let presigned = PresignedUrl::is_in(query);
        match header {
            Some(_) if presigned || PresignedUrlV2::is_in(query) => Err(Refusal::new(
                Code::InvalidArgument,
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, \
                 Signature query string parameter or the Authorization header should be specified",
            )),
            Some(value) if AuthorizationV2::is(value) => {
                self.verify_header_v2(head, query, bucket, value, now).await
            }
            Some(value) => self.verify_header(head, query, value, now).await,
            None if presigned => self.verify_presigned(head, query, now).await,
            None if PresignedUrlV2::is_in(query) => {
                self.verify_presigned_v2(head, query, bucket, now).await
            }
            None => Ok(SignatureCheck::Anonymous),
        }
    }

    async fn verify_header(
        &self,
        head: &Parts,
        query: &Query,
        value: &str,
        now: Timestamp,
    ) -> Result<SignatureCheck> {
        let authorization = Authorization::parse(value)?;
        let date = header_date(&head.headers)?;
        let payload = single(&head.headers, &CONTENT_SHA256)?.ok_or_else(|| {
            let message = "Missing required header for this request: x-amz-content-sha256";
            Refusal::new(Code::InvalidRequest, message)
        })?;
        check_signed_headers(head, &authorization.signed_headers)?;
        check_skew(&date, now)?;
        let (key, signing_key) = self
            .prove(&Proof {
                location: CredentialLocation::Header,
                token: single(&head.headers, &SECURITY_TOKEN)?,
                scope: &authorization.scope,
                date,
                signature: authorization.signature,
                request: SignedRequest {
                    method: &head.method,
                    path: head.uri.path(),
                    query,
                    headers: &head.headers,
                    authority: head.uri.authority().map(http::uri::Authority::as_str),
                    signed_headers: &authorization.signed_headers,
                    payload,
                },
            })
            .await?;
        let signature = authorization.signature;
        let chunks = ChunkChain::new(signing_key, &date, &authorization.scope, signature);
        Ok(SignatureCheck::Signed(Box::new(VerifiedSignature {
            key,
            payload: Some(payload.to_owned()),
            chunks: Some(chunks),
        })))
    }

    async fn verify_presigned(
        &self,
        head: &Parts,
        query: &Query,
        now: Timestamp,
    ) -> Result<SignatureCheck> {
        let presigned = PresignedUrl::parse(query)?;
        check_signed_headers(head, &presigned.signed_headers)?;
        presigned.check_time(now)?;
        let header = single(&head.headers, &CONTENT_SHA256)?;
        let payload = query.get("X-Amz-Content-Sha256").or(header);
        let token = query.get("X-Amz-Security-Token");
        let (key, _) = self
            .prove(&Proof {
                location: CredentialLocation::Query,
                token: token.or(single(&head.headers, &SECURITY_TOKEN)?),
                scope: &presigned.scope,
                date: presigned.date,
                signature: presigned.signature,
                request: SignedRequest {
                    method: &head.method,
                    path: head.uri.path(),
                    query,
                    headers: &head.headers,
                    authority: head.uri.authority().map(http::uri::Authority::as_str),
                    signed_headers: &presigned.signed_headers,
                    payload: payload.unwrap_or(UNSIGNED_PAYLOAD),
                },
            })
            .await?;
        Ok(SignatureCheck::Signed(Box::new(VerifiedSignature {
            key,
            payload: payload.map(str::to_owned),
            chunks: None,
        })))
    }

    /// Looks the key up and compares the signature.
    async fn prove(&self, proof: &Proof<'_>) -> Result<(AccessKey, SigningKey)> {
        let key = self
            .find_key(proof.location, proof.scope, &proof.date, proof.token)
            .await?;
        let signing_key = self.signing_key(&key, proof.scope);
        let request = &proof.request;
        let verified = request.verify(&signing_key, &proof.date, proof.scope, proof.signature);
        let texts = match verified {
            Ok(()) => return Ok((key, signing_key)),
            Err(Error::Mismatch(texts)) => texts,
            Err(error) => return Err(error.into()),
        };
        let mut refusal = mismatch()
            .element("AWSAccessKeyId", proof.scope.access_key.clone())
            .element("StringToSign", texts.string_to_sign)
            .element("SignatureProvided", proof.signature.to_string());
        let canonical = texts.canonical_request;
        if !canonical.to_ascii_lowercase().contains("security-token") {
            // A canonical request with a session token would put a credential into the answer.
            refusal = refusal.element("CanonicalRequest", canonical);
        }
        Err(refusal)
    }

    /// The signing key that an access key has for a scope.
    pub(super) fn signing_key(&self, key: &AccessKey, scope: &CredentialScope) -> SigningKey {
        self.keys.get(scope, key.secret.reveal(), key.revision)
    }

    /// Checks where the scope is valid and looks its key up.
    pub(super) async fn find_key(
        &self,
        location: CredentialLocation,
        scope: &CredentialScope,
        date: &RequestDate,
        token: Option<&str>,
    ) -> Result<AccessKey> {
        let region = if self.any_region {
            &scope.region
        } else {
            &self.region
        };
        location.check(scope, date.day(), region, self.service)?;
        self.key(&scope.access_key, token).await
    }

    /// The key of an id. With a token, the key of the session, which must be the key that signs.
    pub(crate) async fn key(&self, id: &str, token: Option<&str>) -> Result<AccessKey> {
        if let Some(token) = token {
            let key = self.credentials.session(token).await?;
            if *key.id != *id {
                return Err(invalid_token());
            }
            return Ok(key);
        }
        let found = self.credentials.access_key(id).await?;
        found.ok_or_else(|| {
            Refusal::new(
                Code::InvalidAccessKeyId,
                "The AWS Access Key Id you provided does not exist in our records.",
            )
            .element("AWSAccessKeyId", id)
        })
    }
}

pub(crate) fn mismatch() -> Refusal {
    Refusal::new(
        Code::SignatureDoesNotMatch,
        "The request signature we calculated does not match the signature you provided. Check \
         your key and signing method.",
    )
}

fn invalid_token() -> Refusal {
    let message = "The provided token is malformed or otherwise invalid.";
    Refusal::new(Code::InvalidToken, message)
}

/// A header that may be there once.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some).ok_or_else(|| {
        let message = format!("The header {name} is given twice or is not text.");
        Refusal::new(Code::InvalidArgument, message)
    })
}

pub(crate) fn header_date(headers: &HeaderMap) -> Result<RequestDate> {
    let date = match single(headers, &AMZ_DATE)? {
        Some(text) => RequestDate::parse_header(text),
        None => single(headers, &DATE)?.and_then(RequestDate::parse_header),
    };
    date.ok_or_else(|| {
        let message = "AWS authentication requires a valid Date or x-amz-date header";
        Refusal::new(Code::AccessDenied, message)
    })
}

/// # Errors
/// `RequestTimeTooSkewed` when the date of a request is too far from `now`.
pub(crate) fn check_skew(date: &RequestDate, now: Timestamp) -> Result<()> {
    if date.secs().abs_diff(now.secs()) <= CLOCK_SKEW_SECS_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        Code::RequestTimeTooSkewed,
        "The difference between the request time and the current time is too large.",
    )
    .element("RequestTime", date.as_str())
    .element("ServerTime", RequestDate::at(now.secs()).as_str())
    .element(
        "MaxAllowedSkewMilliseconds",
        (CLOCK_SKEW_SECS_MAX * 1000).to_string(),
    ))
}

/// Checks that the host and every header with an effect in S3 is signed. Otherwise a proxy could
/// add such headers to the request. The payload's digest is exempt: it is part of the canonical
/// request anyway.
fn check_signed_headers(head: &Parts, signed: &SignedHeaders) -> Result<()> {
    let acts = |name: &HeaderName| {
        *name == HOST || (name.as_str().starts_with("x-amz-") && *name != CONTENT_SHA256)
    };
    let unsigned: Vec<&str> = head
        .headers
        .keys()
        .filter(|name| acts(name) && !signed.contains(name.as_str()))
        .map(HeaderName::as_str)
        .collect();
    if !unsigned.is_empty() || !signed.contains("host") {
        let message = "There were headers present in the request which were not signed";
        return Err(Refusal::new(Code::AccessDenied, message)
            .element("HeadersNotSigned", unsigned.join(", ")));
    }
    Ok(())
}
