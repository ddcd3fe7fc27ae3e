//! The S3 front: one request in, one answer out.
//!
//! Order: request id, address (bucket and key), query, **signature**, verb, body head. Then the
//! verb runs, and only the verb reads the body. So an answer that refuses the request is sent
//! before `100 Continue`, which hyper sends when the body is first read.
//!
//! No unverified request reaches a verb: every verb takes an [`RequestContext`], which is created only
//! here, after the signature check. Unsigned requests become exchanges of an anonymous caller. The
//! store denies them unless a policy allows them.
//!
//! Cancellation: dropping the future drops the exchange. An upload that is not committed leaves
//! nothing, and a commit that has begun completes in the store.

mod access;
mod address;
mod answer;
mod busy;
mod cors;
mod document_budget;
mod facts;
mod failed_auth_audit;
mod iam;
mod macaroon;
mod presigned_headers;
mod request_context;
mod request_id;
mod request_log;
mod verb;

use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{AcceptedConnection, Caller, CredentialStore, Origin};
use dewar_env::Env;
use dewar_store::Store;
use dewar_types::{RequestId, TenantName};
use http::header::{AUTHORIZATION, EXPECT, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};

pub(crate) use access::AccessVerb;
use address::{Address, bucket_in_host};
pub use answer::AnswerBody;
pub(crate) use answer::{
    Answer, empty_answer, full_answer, stream_answer, text_answer, xml_answer, xml_text,
};
pub use busy::SLOW_DOWN;
use cors::{CorsRequest, preflight};
use document_budget::DocumentBudget;
pub use facts::TlsVersion;
pub(crate) use facts::WireFacts;
pub(crate) use failed_auth_audit::{audit_failed_auth, claimed_key};
pub(crate) use request_context::RequestContext;
use request_id::RequestIds;
pub use request_id::{HOST_ID, REQUEST_ID};
pub use request_log::RequestSummary;
pub(crate) use verb::{Configuration, Verb};

use crate::error::{Code, Refusal, Result};
use crate::limits::{REFUSED_BODY_BYTES_MAX, REFUSED_BODY_DEADLINE};
use crate::ops;
use crate::payload::{BodyHead, PayloadMode, RequestBody, WireBody};
use crate::sigv4::{CONTENT_SHA256, PresignedUrl, Query, Seed, SignatureCheck, Verifier};

/// How a door is set up.
#[derive(Clone, Debug)]
pub struct DoorConfig {
    /// The region of signatures and of all buckets.
    pub region: String,
    /// Host names that may follow a bucket name, as in `bucket.s3.example.org`; lower case, without
    /// port. Requests to any other host are path-style.
    pub domains: Vec<String>,
}

impl Default for DoorConfig {
    fn default() -> Self {
        Self {
            region: "us-east-1".into(),
            domains: Vec::new(),
        }
    }
}

/// The S3 door on a store; share it between connections.
pub struct Door {
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) verifier: Verifier,
    /// For the IAM API, whose clients sign for another service.
    iam_verifier: Verifier,
    sts_verifier: Verifier,
    config: DoorConfig,
    region: Arc<str>,
    ids: RequestIds,
    documents: Arc<DocumentBudget>,
}

impl Door {
    /// A front on `store`, with the store's users and keys.
    #[must_use]
    pub fn new(store: Store, env: Env, config: DoorConfig) -> Self {
        let credentials = Arc::clone(store.accounts()) as Arc<dyn CredentialStore>;
        Self {
            verifier: Verifier::new(Arc::clone(&credentials), config.region.clone()),
            iam_verifier: Verifier::of_iam(Arc::clone(&credentials)),
            sts_verifier: Verifier::of_sts(credentials),
            ids: RequestIds::new(&env),
            store,
            env,
            region: config.region.as_str().into(),
            config,
            documents: Arc::default(),
        }
    }

    /// The region that signatures must be for.
    #[must_use]
    pub fn region(&self) -> &Arc<str> {
        &self.region
    }

    /// Answers one request. It never fails: every error is an answer. The request's id is the
    /// [`RequestId`] in its extensions. A request without one gets a new id.
    pub async fn handle(&self, request: Request<WireBody>, origin: Origin) -> Response<AnswerBody> {
        let (head, wire) = request.into_parts();
        let id = head.extensions.get::<RequestId>().copied();
        let id = id.unwrap_or_else(|| self.ids.next()).to_string();
        let path = head.uri.path().to_owned();
        let method = head.method.clone();
        let expects = head.headers.contains_key(EXPECT);
        let mut pending = Some(wire);
        let mut told = RequestSummary::default();
        let mut page = CorsRequest::of(&head);
        let outcome = self
            .answer(head, &mut pending, origin, &id, &mut told, &mut page)
            .await;
        let mut answer = match outcome {
            Ok(answer) => answer,
            Err(refusal) => {
                log_refusal(&refusal, &method, &path);
                if let Some(wire) = pending.filter(|_| !expects) {
                    drain(wire).await;
                }
                refusal
                    .to_response(&path, &id, self.ids.host())
                    .map(AnswerBody::from)
            }
        };
        if method == Method::HEAD {
            answer = answer.map(|body| body.without_content());
        }
        if let Some(page) = &page {
            page.add_headers(&self.store, answer.headers_mut()).await;
        }
        self.finish_headers(answer.headers_mut(), &id);
        answer.extensions_mut().insert(told);
        tracing::debug!(%method, %path, status = answer.status().as_u16(), "answered");
        answer
    }

    fn finish_headers(&self, headers: &mut HeaderMap, id: &str) {
        if let Ok(id) = HeaderValue::from_str(id) {
            headers.insert(REQUEST_ID, id);
        }
        if let Ok(host) = HeaderValue::from_str(self.ids.host()) {
            headers.insert(HOST_ID, host);
        }
        headers.insert(http::header::SERVER, HeaderValue::from_static("Dewar"));
    }

    /// The tenant of the access key in a presigned URL, for a request without a signature.
    async fn tenant_in(&self, query: &Query) -> Result<TenantName> {
        let credential = query.get("X-Amz-Credential");
        let id = credential.and_then(|text| text.split('/').next());
        let Some(id) = id.or(query.get("AWSAccessKeyId")) else {
            return Ok(TenantName::default());
        };
        let key = self.store.accounts().access_key(id).await?;
        Ok(key.map(|key| key.user.tenant.clone()).unwrap_or_default())
    }

    /// The caller, as far as the request proves it; the way in which the payload is signed; the
    /// first link for signatures within the payload.
    async fn who(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
        origin: Origin,
    ) -> Result<(Caller, Option<String>, Option<Seed>)> {
        let payload = || {
            let text = crate::wire::header(&head.headers, CONTENT_SHA256.as_str())?;
            Ok::<_, Refusal>(text.map(str::to_owned))
        };
        // A word that is none is told before it is asked whether it was signed.
        PayloadMode::parse(payload()?.as_deref())?;
        if let Some(token) = bearer_token(&head.headers)? {
            if PresignedUrl::is_in(query) {
                let message = "Only one auth mechanism allowed";
                return Err(Refusal::new(Code::InvalidArgument, message));
            }
            let caller = self.store.accounts().bearer(token, origin).await?;
            return Ok((caller, payload()?, None));
        }
        let now = self.env.clock.now();
        let claim = self.verifier.verify(head, query, bucket, now).await;
        let claim = claim.inspect_err(|refusal| {
            audit_failed_auth(&self.store, origin, claimed_key(head, query), refusal);
        });
        match claim? {
            SignatureCheck::Signed(signed) => {
                let caller = Caller::by_access_key(&signed.key, origin);
                Ok((caller, signed.payload, signed.seed))
            }
            SignatureCheck::Anonymous => Ok((Caller::anonymous(origin), payload()?, None)),
        }
    }

    /// Handles a request up to the verb, and runs the verb. `wire` is taken when the body is
    /// needed.
    async fn answer(
        &self,
        mut head: Parts,
        wire: &mut Option<WireBody>,
        origin: Origin,
        id: &str,
        told: &mut RequestSummary,
        page: &mut Option<CorsRequest>,
    ) -> Result<Answer> {
        one_host(&head)?;
        let query = Query::parse(head.uri.query())?;
        let in_host = bucket_in_host(&head, &self.config.domains);
        if head.method == Method::OPTIONS {
            let address = Address::parse(&head, in_host)?;
            let tenant = self.tenant_in(&query).await?;
            if let Some(page) = page {
                page.bucket = address.bucket().map(|bucket| (tenant, bucket.clone()));
            }
            return Box::pin(preflight(&self.store, &head, page.as_ref())).await;
        }
        if iam::is_call(&head, in_host.as_deref())
            && let Some(wire) = wire.take()
        {
            return Box::pin(iam::call(self, head, wire, origin, id, told)).await;
        }
        if in_host.is_none()
            && let Some(call) = macaroon::is_call(&head)
        {
            let call = macaroon::call(self, call, head, wire, &query, origin, told);
            return Box::pin(call).await;
        }
        let now = self.env.clock.now();
        let (caller, payload, seed) = self.who(&head, &query, in_host.as_deref(), origin).await?;
        told.user = caller.user().map(|user| user.name.clone());
        let anonymous = told.user.is_none();
        if !anonymous && let Some(connection) = head.extensions.get::<Arc<dyn AcceptedConnection>>()
        {
            connection.authenticated();
        }
        // What a request without identity asked for is nobody's business, so it is not told
        // whether the request would have made sense either.
        let closed = |refusal: Refusal| {
            if anonymous && refusal.code() != Code::InvalidURI {
                Refusal::new(Code::AccessDenied, "Access Denied")
            } else {
                refusal
            }
        };
        presigned_headers::adopt(&mut head.headers, &query)?;
        let address = Address::parse(&head, in_host).map_err(closed)?;
        told.bucket = address.bucket().map(|bucket| bucket.name.to_string());
        if let Some(page) = page {
            let bucket = address.bucket();
            page.bucket = bucket.map(|bucket| (caller.tenant(), bucket.clone()));
        }
        told.key = address.key().map(|key| key.as_str().to_owned());
        let verb = Verb::of(&head.method, &address, &query, &head.headers).map_err(closed)?;
        told.verb = Some(verb.name());
        let head = Arc::new(head);
        let caller = caller.with_facts(WireFacts::of(&head, Some(&verb), now, self.region()));
        let mode = PayloadMode::parse(payload.as_deref())?;
        let body_head = BodyHead::read(&head.headers)?;
        if verb.reads_body() && wire.is_some() {
            // From here on the body is the verb's.
            let Some(wire) = wire.take() else {
                return Err(Refusal::new(Code::InternalError, "the body is gone"));
            };
            let body = RequestBody::new(wire, mode, body_head, seed)?;
            let mut context = RequestContext::new(
                caller,
                address,
                query,
                head,
                body_head,
                mode,
                Some(body),
                id,
                &self.documents,
            );
            let outcome = ops::call(self, verb, &mut context).await;
            if outcome.is_err()
                && !context.head.headers.contains_key(EXPECT)
                && let Some(mut body) = context.body.take()
            {
                body.drain(REFUSED_BODY_BYTES_MAX, REFUSED_BODY_DEADLINE)
                    .await;
            }
            return outcome;
        }
        let mut context = RequestContext::new(
            caller,
            address,
            query,
            head,
            body_head,
            mode,
            None,
            id,
            &self.documents,
        );
        ops::call(self, verb, &mut context).await
    }
}

/// The token of an `Authorization: Bearer` header (RFC 6750 section 2.1).
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    if values.next().is_some() {
        let message = "The header authorization is given twice.";
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    Ok(Some(token.trim()))
}

/// Reads remaining bytes of a client, within limits, so that the client sees the answer.
async fn drain(wire: WireBody) {
    let head = BodyHead {
        content_length: None,
        decoded_length: None,
        transfer_chunked: true,
    };
    if let Ok(mut body) = RequestBody::new(wire, PayloadMode::Unsigned, head, None) {
        body.drain(REFUSED_BODY_BYTES_MAX, REFUSED_BODY_DEADLINE)
            .await;
    }
}

fn log_refusal(refusal: &Refusal, method: &Method, path: &str) {
    let Some(cause) = refusal
        .cause()
        .filter(|_| refusal.code().status().is_server_error())
    else {
        return;
    };
    let mut chain = cause.to_string();
    let mut source = std::error::Error::source(cause);
    while let Some(error) = source {
        chain.push_str(": ");
        chain.push_str(&error.to_string());
        source = error.source();
    }
    let code = refusal.code().as_str();
    if refusal.code() == Code::InternalError {
        tracing::error!(%method, %path, code, error = %chain, "request failed");
    } else {
        tracing::warn!(%method, %path, code, error = %chain, "request refused");
    }
}

/// A proxy in front of the server may use another of two host names than the server does, and let a
/// request through that it should refuse.
///
/// # Errors
/// `BadRequest` for a request that names no host or several (RFC 9112 section 3.2).
fn one_host(head: &Parts) -> Result<()> {
    let hosts = head.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && head.version == Version::HTTP_11) {
        let message = "The request must have one Host header.";
        return Err(Refusal::new(Code::BadRequest, message));
    }
    Ok(())
}

/// The host a request was sent to, without port, lower case.
fn host_of(head: &Parts) -> Option<String> {
    let header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    let host = header.or_else(|| head.uri.authority().map(http::uri::Authority::as_str))?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    Some(name.to_ascii_lowercase())
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}
