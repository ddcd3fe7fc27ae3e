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
mod facts;
mod failed_auth_audit;
mod iam;
mod macaroon;
mod preflight;
mod presigned_headers;
mod request_context;
mod verb;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_auth::{Caller, CredentialStore, Origin};
use dewar_env::{BoxFuture, Env};
use dewar_http_front::macaroon::MacaroonEndpoint;
use dewar_http_front::{
    Answer, AnswerBody, Arrival, BodyReader, CorsRequest, DocumentBudget, HttpFront, RequestIds,
    RequestSummary, WireBody, bearer_token, has_one_host, header,
};
use dewar_sigv4::{ChunkChain, Query};
use dewar_store::Store;
use dewar_types::{RequestId, TenantName};
use http::header::{EXPECT, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};

pub(crate) use access::AccessVerb;
use address::{Address, bucket_in_host};
pub(crate) use answer::{text_answer, xml_answer, xml_text};
pub use facts::TlsVersion;
pub(crate) use facts::WireFacts;
pub(crate) use failed_auth_audit::{audit_failed_auth, claimed_key};
pub(crate) use request_context::RequestContext;
pub(crate) use verb::{Configuration, Verb};

use crate::error::{Code, Refusal, Result};
use crate::ops;
use crate::payload::{BodyHead, PayloadMode, RequestBody};
use crate::sigv4::{CONTENT_SHA256, PresignedUrl, SignatureCheck, Verifier};

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

/// The header with the id of the request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
/// The header with the id of the gateway process.
pub const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

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
    /// The name of this process.
    host_id: String,
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
            ids: RequestIds::new(&*env.rng),
            host_id: host_id(&env),
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
            .run(head, &mut pending, origin, &id, &mut told, &mut page)
            .await;
        let mut answer = match outcome {
            Ok(answer) => answer,
            Err(refusal) => {
                log_refusal(&refusal, &method, &path);
                if let Some(wire) = pending.filter(|_| !expects) {
                    BodyReader::new(wire).drain().await;
                }
                refusal
                    .to_response(&path, &id, &self.host_id)
                    .map(AnswerBody::from)
            }
        };
        if method == Method::HEAD {
            answer = answer.map(|_| AnswerBody::empty());
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
        if let Ok(host) = HeaderValue::from_str(&self.host_id) {
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
    ) -> Result<(Caller, Option<String>, Option<ChunkChain>)> {
        let payload = || {
            let text = header(&head.headers, CONTENT_SHA256.as_str())?;
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
                Ok((caller, signed.payload, signed.chunks))
            }
            SignatureCheck::Anonymous => Ok((Caller::anonymous(origin), payload()?, None)),
        }
    }

    /// Handles a request up to the verb, and runs the verb. `wire` is taken when the body is
    /// needed.
    async fn run(
        &self,
        mut head: Parts,
        wire: &mut Option<WireBody>,
        origin: Origin,
        id: &str,
        told: &mut RequestSummary,
        page: &mut Option<CorsRequest>,
    ) -> Result<Answer> {
        if !has_one_host(&head) {
            let message = "The request must have one Host header.";
            return Err(Refusal::new(Code::BadRequest, message));
        }
        let query = Query::parse(head.uri.query())?;
        let in_host = bucket_in_host(&head, &self.config.domains);
        if head.method == Method::OPTIONS {
            let address = Address::parse(&head, in_host)?;
            let tenant = self.tenant_in(&query).await?;
            if let Some(page) = page {
                page.bucket = address.bucket().map(|bucket| (tenant, bucket.clone()));
            }
            return Box::pin(preflight::answer(&self.store, &head, page.as_ref())).await;
        }
        if iam::is_call(&head, in_host.as_deref())
            && let Some(wire) = wire.take()
        {
            return Box::pin(iam::call(self, head, wire, origin, id, told)).await;
        }
        if in_host.is_none()
            && let Some(call) = MacaroonEndpoint::of(&head)
        {
            let call = macaroon::call(self, call, head, wire, &query, origin, told);
            return Box::pin(call).await;
        }
        let now = self.env.clock.now();
        let (caller, payload, chunks) = self.who(&head, &query, in_host.as_deref(), origin).await?;
        told.user = caller.user().map(|user| user.name.clone());
        let anonymous = told.user.is_none();
        count_connection(&head, &caller)?;
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
            let body = RequestBody::new(wire, mode, body_head, chunks)?;
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
                body.drain().await;
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

impl HttpFront for Door {
    fn answer(
        self: Arc<Self>,
        mut request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        if let Some(version) = arrival.tls {
            request.extensions_mut().insert(TlsVersion(version));
        }
        Box::pin(async move { self.handle(request, arrival.origin()).await })
    }

    fn busy(&self) -> &'static [u8] {
        busy::SLOW_DOWN
    }
}

fn host_id(env: &Env) -> String {
    let mut host = [0; 33];
    env.rng.fill(&mut host);
    STANDARD.encode(host)
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

/// Counts the connection of a request for its caller, if that is known.
///
/// # Errors
/// `SlowDown` if the caller has as many connections as are free for others.
fn count_connection(head: &Parts, caller: &Caller) -> Result<()> {
    if dewar_http_front::count_connection(head, caller) {
        return Ok(());
    }
    let message = "Too many connections of this account are open; close some, or try again soon.";
    Err(Refusal::new(Code::SlowDown, message).header(RETRY_AFTER, HeaderValue::from_static("1")))
}

/// The refusal for a caller that already uses its share of the memory for documents.
fn no_room() -> Refusal {
    Refusal::new(Code::SlowDown, "Please reduce your request rate.")
        .header(RETRY_AFTER, HeaderValue::from_static("1"))
}
