//! The storage report over HTTP, and the other paths below `/.well-known` that no front has.

use std::sync::Arc;

use dewar_env::BoxFuture;
use dewar_http_front::{
    Answer, AnswerBody, Arrival, HttpFront, RequestSummary, WireBody, host_of, typed_answer,
};
use dewar_webdav::WebDav;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, RETRY_AFTER, SERVER};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::{SRR_PATH, StorageReport};

/// Where clients look for an API of tapes. There is none.
const TAPE_API_PATH: &str = "/.well-known/wlcg-tape-rest-api";

const TEXT: &str = "text/plain; charset=utf-8";

/// The users who may read the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportReaders {
    /// Also those without credentials.
    Everybody,
    /// Only these, by their names `[TENANT:]NAME`.
    Users(Vec<String>),
}

impl ReportReaders {
    /// The readers that a configuration names; `*` is everybody.
    #[must_use]
    pub fn of(names: &[String]) -> Self {
        match names.iter().any(|name| name == "*") {
            true => Self::Everybody,
            false => Self::Users(names.to_vec()),
        }
    }
}

/// The front of the report on one listener.
pub struct SrrFront {
    /// The report.
    pub report: Arc<StorageReport>,
    /// A further path of it; empty for none.
    pub path: String,
    /// The users who may read it.
    pub readers: ReportReaders,
    /// Verifies their credentials.
    pub webdav: Arc<WebDav>,
    /// Domains in front of which the name of a bucket may stand. Paths of such a host are keys.
    pub domains: Vec<String>,
    /// The front for all other requests of the listener.
    pub beside: Arc<dyn HttpFront>,
}

impl SrrFront {
    fn is_bucket_host(&self, head: &Parts) -> bool {
        let Some(host) = host_of(head) else {
            return false;
        };
        let below = |domain: &String| {
            let bucket = host.strip_suffix(domain.as_str());
            bucket.is_some_and(|bucket| bucket.ends_with('.'))
        };
        !self.domains.contains(&host) && self.domains.iter().any(below)
    }

    async fn handle(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> Response<AnswerBody> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let is_report = path == SRR_PATH || (!self.path.is_empty() && path == self.path);
        if self.is_bucket_host(&head) || !(is_report || path == TAPE_API_PATH) {
            let request = Request::from_parts(head, body);
            return Arc::clone(&self.beside).answer(request, arrival).await;
        }
        let mut summary = RequestSummary {
            verb: Some("StorageReport"),
            ..RequestSummary::default()
        };
        let mut answer = match (&head.method, is_report) {
            (_, false) => typed_answer(StatusCode::NOT_FOUND, TEXT, "No such file or directory.\n"),
            (&Method::GET | &Method::HEAD, true) => self.report(&head, arrival, &mut summary).await,
            _ => {
                let words = "The report can only be read.\n";
                let mut answer = typed_answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, words);
                let allowed = HeaderValue::from_static("GET, HEAD");
                answer.headers_mut().insert(ALLOW, allowed);
                answer
            }
        };
        if head.method == Method::HEAD {
            let length = http_body::Body::size_hint(answer.body()).exact();
            answer = answer.map(|_| AnswerBody::empty());
            if let Some(length) = length {
                answer.headers_mut().insert(CONTENT_LENGTH, length.into());
            }
        }
        let server = HeaderValue::from_static("Dewar");
        answer.headers_mut().insert(SERVER, server);
        answer.extensions_mut().insert(summary);
        answer
    }

    async fn report(&self, head: &Parts, arrival: Arrival, summary: &mut RequestSummary) -> Answer {
        if let ReportReaders::Users(names) = &self.readers {
            let user = match self.webdav.identify(head, arrival.origin()).await {
                Ok(user) => user,
                Err(refusal) => return refusal,
            };
            summary.user = Some(user.name.clone());
            let name = match user.tenant.is_default() {
                true => user.name,
                false => format!("{}:{}", user.tenant, user.name),
            };
            if !names.contains(&name) {
                return typed_answer(StatusCode::FORBIDDEN, TEXT, "Permission denied.\n");
            }
        }
        match self.report.json().await {
            Ok(json) => {
                let mut answer = typed_answer(StatusCode::OK, "application/json", json);
                let fresh = HeaderValue::from_static("no-cache");
                answer.headers_mut().insert(CACHE_CONTROL, fresh);
                answer
            }
            Err(error) => {
                tracing::warn!(%error, "the storage report cannot be built");
                let words = "The report cannot be built at the moment. Please try again.\n";
                let mut answer = typed_answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, words);
                let later = HeaderValue::from_static("10");
                answer.headers_mut().insert(RETRY_AFTER, later);
                answer
            }
        }
    }
}

impl HttpFront for SrrFront {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        Box::pin(self.handle(request, arrival))
    }
}
