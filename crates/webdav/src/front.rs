//! The front: one request in, one answer out.
//!
//! Order: host, method, caller, path. Then the file of the method runs, and only it reads the body. So
//! an answer that refuses the request is sent before `100 Continue`, which hyper sends when the body
//! is first read.

use std::sync::Arc;

use dewar_auth::Origin;
use dewar_env::{BoxFuture, Env};
use dewar_http_front::limits::MACAROON_REQUEST_BYTES_MAX;
use dewar_http_front::macaroon::MacaroonEndpoint;
use dewar_http_front::{
    Answer, AnswerBody, Arrival, BodyReader, DocumentBudget, HttpFront, LoginLimiter, RequestError,
    RequestSummary, WireBody, base_url, has_one_host, host_of,
};
use dewar_store::Store;
use dewar_store::file::PathTarget;
use dewar_types::ErrorKind;
use http::header::{ALLOW, EXPECT, ORIGIN, SERVER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};

use crate::access::push_challenges;
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::facts::WireFacts;
use crate::ops::{self, DavMethod};
use crate::resource_path::ResourcePath;
use crate::third_party::ThirdPartyCopies;

/// How the front is set up.
#[derive(Clone, Debug)]
pub struct WebDavConfig {
    /// Whether DELETE, and a COPY or MOVE that replaces, remove a directory with its content.
    pub recursive_delete: bool,
    /// Whether PROPFIND of infinite depth is answered.
    pub propfind_infinity: bool,
    /// The addresses under which clients know this service, as in `https://storage.example.org:8443`.
    pub public_urls: Vec<String>,
}

impl Default for WebDavConfig {
    fn default() -> Self {
        Self {
            recursive_delete: true,
            propfind_infinity: false,
            public_urls: Vec::new(),
        }
    }
}

/// The header with the id of the request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The WebDAV front on a store; share it between connections.
pub struct WebDav {
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) config: WebDavConfig,
    pub(crate) logins: LoginLimiter,
    pub(crate) copies: Option<ThirdPartyCopies>,
    documents: Arc<DocumentBudget>,
}

impl WebDav {
    /// A front on `store`, with the store's users and keys.
    #[must_use]
    pub fn new(store: Store, env: Env, config: WebDavConfig) -> Self {
        Self {
            store,
            env,
            config,
            logins: LoginLimiter::default(),
            copies: None,
            documents: Arc::default(),
        }
    }

    /// The same front with copies from and to other servers.
    #[must_use]
    pub fn with_copies(self, copies: ThirdPartyCopies) -> Self {
        Self {
            copies: Some(copies),
            ..self
        }
    }

    async fn handle(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> Response<AnswerBody> {
        let (head, wire) = request.into_parts();
        let head = Arc::new(head);
        let origin = arrival.origin();
        let expects = head.headers.contains_key(EXPECT);
        let mut body = Some(wire);
        let mut summary = RequestSummary::default();
        let outcome = self.run(&head, &mut body, arrival, &mut summary).await;
        let mut answer = match outcome {
            Ok(answer) => answer,
            Err(mut refusal) => {
                log_refusal(&refusal, &head);
                if let Some(wire) = body.filter(|_| !expects) {
                    BodyReader::new(wire).drain().await;
                }
                let anonymous = summary.user.is_none();
                // A caller without credentials may try again with some.
                if anonymous && refusal.kind() == Some(ErrorKind::Denied) {
                    refusal = refusal.ask_for_credential();
                }
                let mut answer = refusal.to_answer();
                if answer.status() == StatusCode::UNAUTHORIZED {
                    push_challenges(answer.headers_mut(), &head.headers, origin);
                }
                answer
            }
        };
        if head.method == Method::HEAD {
            answer = answer.map(|_| AnswerBody::empty());
        }
        let headers = answer.headers_mut();
        if let Ok(id) = HeaderValue::from_str(&arrival.id.to_string()) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(SERVER, HeaderValue::from_static("Dewar"));
        answer.extensions_mut().insert(summary);
        answer
    }

    /// Handles a request up to its method, and runs that. `body` is taken when it is read.
    async fn run(
        self: &Arc<Self>,
        head: &Arc<Parts>,
        body: &mut Option<WireBody>,
        arrival: Arrival,
        summary: &mut RequestSummary,
    ) -> Result<Answer> {
        let origin = arrival.origin();
        if !has_one_host(head) {
            let words = "The request must have one Host header.";
            return Err(DavError::new(StatusCode::BAD_REQUEST, words));
        }
        let endpoint = MacaroonEndpoint::of(head);
        let Some(method) = DavMethod::of(&head.method) else {
            if let Some(endpoint) = endpoint {
                return self.macaroon(endpoint, head, body, arrival, summary).await;
            }
            return Err(match head.method {
                Method::POST | Method::TRACE | Method::CONNECT => {
                    DavError::new(StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed.")
                        .header(ALLOW, HeaderValue::from_static(ops::ALLOWED))
                }
                _ => DavError::new(StatusCode::NOT_IMPLEMENTED, "The method is not known."),
            });
        };
        summary.verb = Some(method.name());
        if method == DavMethod::Options {
            return Ok(ops::options());
        }
        if let Some(endpoint) = endpoint {
            return self.macaroon(endpoint, head, body, arrival, summary).await;
        }
        if method.changes() {
            self.refuse_foreign_page(head, origin)?;
        }
        let caller = self.caller(head, origin).await?;
        summary.user = caller.user().map(|user| user.name.clone());
        let caller = caller.with_facts(WireFacts::of(head, arrival.tls));
        let path = ResourcePath::parse(head.uri.path())?.seen_by(&caller);
        match &path.target {
            PathTarget::Root => {}
            PathTarget::Bucket(bucket) => summary.bucket = Some(bucket.name.to_string()),
            PathTarget::Object(object) => {
                summary.bucket = Some(object.bucket.name.to_string());
                summary.key = Some(object.key.as_str().to_owned());
            }
        }
        let mut context = RequestContext {
            caller,
            head: Arc::clone(head),
            path,
            origin,
            body: body.take(),
            documents: Arc::clone(&self.documents),
            required_etag: None,
            reservation: None,
        };
        let outcome = Box::pin(ops::call(self, method, &mut context)).await;
        *body = context.body.take();
        outcome
    }

    /// The addresses of this service: those of the configuration, and the one that was asked.
    pub(crate) fn own_urls(&self, context: &RequestContext) -> Vec<String> {
        let mut own = self.config.public_urls.clone();
        own.extend(base_url(&context.head, context.origin.secure));
        own
    }

    /// Refuses a change by a page of another service: a browser would send its stored password along.
    fn refuse_foreign_page(&self, head: &Parts, origin: Origin) -> Result<()> {
        let Some(page) = head.headers.get(ORIGIN) else {
            return Ok(());
        };
        let own = self.config.public_urls.iter().cloned();
        let mut own = own.chain(base_url(head, origin.secure));
        let is_page = |own: String| {
            let own = own.trim_end_matches('/').as_bytes();
            own.eq_ignore_ascii_case(page.as_bytes())
        };
        if own.any(is_page) {
            return Ok(());
        }
        let words = "Pages of other services may not change anything here.";
        Err(DavError::new(StatusCode::FORBIDDEN, words))
    }

    /// Answers a request for a macaroon.
    async fn macaroon(
        self: &Arc<Self>,
        endpoint: MacaroonEndpoint,
        head: &Arc<Parts>,
        body: &mut Option<WireBody>,
        arrival: Arrival,
        summary: &mut RequestSummary,
    ) -> Result<Answer> {
        summary.verb = Some("Macaroon");
        let origin = arrival.origin();
        let here = base_url(head, origin.secure).unwrap_or_default();
        if let Some(answer) = endpoint.answer_at_once(head, &here) {
            return Ok(answer);
        }
        let caller = self.caller(head, origin).await?;
        summary.user = caller.user().map(|user| user.name.clone());
        let path = match endpoint {
            MacaroonEndpoint::Path => caveat_path(&ResourcePath::parse(head.uri.path())?)?,
            MacaroonEndpoint::Token | MacaroonEndpoint::Metadata => None,
        };
        let mut context = RequestContext {
            caller: caller.with_facts(WireFacts::of(head, arrival.tls)),
            head: Arc::clone(head),
            path: ResourcePath::parse("/")?,
            origin,
            body: body.take(),
            documents: Arc::clone(&self.documents),
            required_etag: None,
            reservation: None,
        };
        let document = context.document(MACAROON_REQUEST_BYTES_MAX).await;
        *body = context.body.take();
        let mut request = endpoint.parse(path, &document?)?;
        request.location = host_of(head).unwrap_or_default();
        let now = self.env.clock.now();
        let granted = self.store.accounts().macaroon(&context.caller, request);
        let (token, ends) = granted.await?;
        let seconds = ends.secs().saturating_sub(now.secs());
        Ok(endpoint.granted(token.reveal(), seconds))
    }
}

impl HttpFront for WebDav {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        Box::pin(self.handle(request, arrival))
    }
}

/// A path as a caveat of a macaroon names it.
fn caveat_path(path: &ResourcePath) -> Result<Option<String>> {
    let (bucket, key) = match &path.target {
        PathTarget::Root => return Ok(None),
        PathTarget::Bucket(bucket) => (bucket, ""),
        PathTarget::Object(object) => (&object.bucket, object.key.as_str()),
    };
    if bucket.tenant.is_some() {
        let words = "macaroons are for paths of one's own tenant";
        return Err(RequestError::Macaroon(words).into());
    }
    Ok(Some(format!("/{}/{key}", bucket.name)))
}

fn log_refusal(refusal: &DavError, head: &Parts) {
    let Some(cause) = refusal
        .cause()
        .filter(|_| refusal.status().is_server_error())
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
    // The query may contain a token, so only the path is logged.
    let (method, path) = (&head.method, head.uri.path());
    let status = refusal.status().as_u16();
    if refusal.status() == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::error!(%method, %path, status, error = %chain, "request failed");
    } else {
        tracing::warn!(%method, %path, status, error = %chain, "request refused");
    }
}
