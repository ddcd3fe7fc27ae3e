//! One request to the other side and its answer, over as many redirects as are allowed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_sigv4::decode_percent;
use http::header::{CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::answer_head::retry_after;
use crate::client::TransferClient;
use crate::connection::RemoteConnection;
use crate::failure::{FailureCause, TransferFailure};
use crate::forwarded_headers::ForwardedHeaders;
use crate::limits::{
    ANSWER_HEAD_BYTES_MAX, EXPLANATION_CHARS_MAX, OTHER_BODY_BYTES_MAX, OTHER_BODY_TIME,
    REDIRECTS_MAX,
};
use crate::outgoing_body::OutgoingBody;
use crate::progress::TransferProgress;
use crate::url::TransferUrl;

const AGENT: &str = concat!("dewar-transfer/", env!("CARGO_PKG_VERSION"));

/// The requests of one transfer to one URL, one after the other.
pub(crate) struct RemoteSession<'a> {
    pub(crate) client: &'a TransferClient,
    pub(crate) url: &'a TransferUrl,
    headers: &'a ForwardedHeaders,
    pub(crate) progress: &'a Arc<TransferProgress>,
    /// A connection that the next request may use.
    idle: Option<RemoteConnection>,
    /// Where the last ranges came from, after redirects.
    settled: Option<TransferUrl>,
    /// The pause that the last refusal asked for.
    pub(crate) pause: Option<Duration>,
}

/// The head of an answer, and its body on a connection of its own.
pub(crate) struct RemoteAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: RemoteBody,
    /// The URL that answered, after redirects.
    pub(crate) url: TransferUrl,
}

/// The body of an answer.
pub(crate) struct RemoteBody {
    incoming: Incoming,
    pub(crate) connection: RemoteConnection,
}

impl RemoteBody {
    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            let Self {
                incoming,
                connection,
            } = self;
            match connection.driver.drive(incoming.frame()).await? {
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Some(Ok(bytes));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Reads the rest of a body that is not the file, if it is short. Then the connection can be used again.
    async fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut text = Vec::new();
        let reading = async {
            while let Some(bytes) = self.next().await {
                let Ok(bytes) = bytes else {
                    return false;
                };
                let left = OTHER_BODY_BYTES_MAX.saturating_sub(text.len());
                text.extend_from_slice(&bytes[..bytes.len().min(left)]);
                if bytes.len() > left {
                    return false;
                }
            }
            true
        };
        let whole = timeout(OTHER_BODY_TIME, reading).await.unwrap_or(false);
        (text, whole)
    }
}

impl<'a> RemoteSession<'a> {
    pub(crate) fn new(
        client: &'a TransferClient,
        url: &'a TransferUrl,
        headers: &'a ForwardedHeaders,
        progress: &'a Arc<TransferProgress>,
    ) -> Self {
        Self {
            client,
            url,
            headers,
            progress,
            idle: None,
            settled: None,
            pause: None,
        }
    }

    /// Asks for the head of the file, or for content of it, and follows redirects.
    ///
    /// # Errors
    /// Those of connecting, redirects and deadlines. An answer of any other status is no error here.
    pub(crate) async fn ask(
        &mut self,
        method: &Method,
        own: &HeaderMap,
        limit: Duration,
    ) -> Result<RemoteAnswer, TransferFailure> {
        let times = self.client.config.times;
        // Each request and each connection has its own limit. Those of redirects must not add up.
        let all = limit + times.resolve + times.connect;
        let url = self.url;
        let asking = self.ask_anywhere(method, own, limit);
        in_time(all, url, "no answer, over all redirects,", asking).await?
    }

    /// Asks where the last ranges came from, and else at the URL of the copy.
    async fn ask_anywhere(
        &mut self,
        method: &Method,
        own: &HeaderMap,
        limit: Duration,
    ) -> Result<RemoteAnswer, TransferFailure> {
        if let Some(settled) = self.settled.take() {
            // A URL that a redirect gave may be for one request only.
            match self.ask_from(settled, method, own, limit).await {
                Ok(answer) if is_refusal(answer.status) => {}
                Err(failure) if failure.cause() != FailureCause::Stall => {}
                answered => return answered,
            }
        }
        self.ask_from(self.url.clone(), method, own, limit).await
    }

    async fn ask_from(
        &mut self,
        mut url: TransferUrl,
        method: &Method,
        own: &HeaderMap,
        limit: Duration,
    ) -> Result<RemoteAnswer, TransferFailure> {
        for _ in 0..=REDIRECTS_MAX {
            let mut answer = self.ask_once(&url, method, own, limit).await?;
            let Some(next) = self.redirect(&answer)? else {
                return Ok(answer);
            };
            if answer.body.rest().await.1 {
                self.keep(answer.body);
            }
            url = next;
        }
        Err(self.too_many_redirects())
    }

    async fn ask_once(
        &mut self,
        url: &TransferUrl,
        method: &Method,
        own: &HeaderMap,
        limit: Duration,
    ) -> Result<RemoteAnswer, TransferFailure> {
        if let Some(mut connection) = self.idle.take()
            && connection.is_reusable_for(url).await
        {
            let request = self.request(url, method, own, OutgoingBody::default())?;
            match exchange(connection, url, request, limit).await {
                // The other side may have closed it since the last answer.
                Err(failure) if failure.cause() != FailureCause::Stall => {}
                answered => return answered,
            }
        }
        let connection = self.client.connect(url, self.progress).await?;
        let request = self.request(url, method, own, OutgoingBody::default())?;
        exchange(connection, url, request, limit).await
    }

    /// Builds a request. The forwarded headers are added only if they may go to that host.
    pub(crate) fn request(
        &self,
        url: &TransferUrl,
        method: &Method,
        own: &HeaderMap,
        body: OutgoingBody,
    ) -> Result<Request<OutgoingBody>, TransferFailure> {
        let broken = |error: http::Error| TransferFailure::new(FailureCause::Protocol, error);
        let target = url.request_target().as_str();
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, url.host_header())
            .body(body)
            .map_err(broken)?;
        let headers = request.headers_mut();
        if self.may_know_headers(url) {
            self.headers.add_to(headers, url);
        }
        for (name, value) in own {
            headers.insert(name, value.clone());
        }
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        }
        Ok(request)
    }

    /// Whether a host may see the forwarded headers: the one that the client named, and those that the
    /// administrator trusts.
    fn may_know_headers(&self, url: &TransferUrl) -> bool {
        let (host, own) = (url.host(), self.url.host());
        let trusted = |rule: &String| match rule.strip_prefix("*.") {
            Some(domain) => host
                .strip_suffix(&domain.to_ascii_lowercase())
                .is_some_and(|rest| rest.ends_with('.')),
            None => rule.eq_ignore_ascii_case(host),
        };
        host == own || self.client.config.redirect_trust.iter().any(trusted)
    }

    /// The URL to which an answer redirects, if it does.
    ///
    /// # Errors
    /// [`FailureCause::Redirect`]; [`FailureCause::RemoteStatus`] with 404 for a directory.
    pub(crate) fn redirect(
        &self,
        answer: &RemoteAnswer,
    ) -> Result<Option<TransferUrl>, TransferFailure> {
        if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let failed = |why: &dyn std::fmt::Display| {
            let detail = format!("{} from {}: {why}", answer.status.as_u16(), answer.url);
            Err(TransferFailure::new(FailureCause::Redirect, detail))
        };
        let location = answer.headers.get(LOCATION);
        let Some(location) = location.and_then(|location| location.to_str().ok()) else {
            return failed(&"it has no Location");
        };
        match answer.url.join(location) {
            Ok(next) if answer.url.is_secure() && !next.is_secure() => {
                failed(&"from https to http")
            }
            // Web servers lead from a directory to its path with a slash, where its listing is.
            Ok(next) if next.is_directory() => {
                let detail = format!("{} is a directory", answer.url);
                Err(TransferFailure::new(
                    FailureCause::RemoteStatus(404),
                    detail,
                ))
            }
            Ok(next) => Ok(Some(next)),
            Err(error) => failed(&error),
        }
    }

    pub(crate) fn too_many_redirects(&self) -> TransferFailure {
        let detail = format!("more than {REDIRECTS_MAX} from {}", self.url);
        TransferFailure::new(FailureCause::Redirect, detail)
    }

    /// The failure that an answer is. Reads a little of its body, where the reason may be.
    pub(crate) async fn refused(
        &mut self,
        method: &Method,
        answer: RemoteAnswer,
    ) -> TransferFailure {
        let RemoteAnswer {
            status,
            headers,
            mut body,
            url,
        } = answer;
        self.pause = retry_after(&headers);
        let mut detail = format!("{method} {url}: {status}");
        let plain = headers
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok());
        let plain = plain.is_none_or(|kind| kind.starts_with("text/plain"));
        // Pages in HTML and XML explain nothing in one line.
        if plain && *method != Method::HEAD {
            let (text, whole) = body.rest().await;
            let text = String::from_utf8_lossy(&text);
            let text = without_values(&text, self.headers, [self.url, &url]);
            let text: String = text.trim().chars().take(EXPLANATION_CHARS_MAX).collect();
            if !text.is_empty() {
                detail = format!("{detail}: {text}");
            }
            if whole {
                self.keep(body);
            }
        }
        TransferFailure::new(FailureCause::RemoteStatus(status.as_u16()), detail)
    }

    /// Keeps the connection of a body that was read to its end.
    pub(crate) fn keep(&mut self, body: RemoteBody) {
        self.idle = Some(body.connection);
    }

    /// The same, and the next request goes at once to the URL that answered this one.
    pub(crate) fn settle(&mut self, body: RemoteBody, url: TransferUrl) {
        self.settled = Some(url);
        self.keep(body);
    }

    /// Keeps the connection of an answer to HEAD.
    pub(crate) fn keep_head(&mut self, answer: RemoteAnswer) {
        if answer.body.incoming.is_end_stream() {
            self.keep(answer.body);
        }
    }
}

/// Shortest word of a header or value of a query that is taken for a secret. Shorter ones are words such as
/// `Bearer`.
const SECRET_BYTES_MIN: usize = 8;

/// An explanation of the other side without what it was told in confidence: values of headers, the words in them,
/// and values of queries.
fn without_values(text: &str, headers: &ForwardedHeaders, urls: [&TransferUrl; 2]) -> String {
    let mut secrets = Vec::new();
    for value in headers.values() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let words = value.split([' ', ',', ';', '=', ':', '"']);
        secrets.extend(words.map(str::to_owned));
        secrets.push(value);
    }
    for url in urls {
        let query = url.request_target().query().unwrap_or_default();
        for pair in query.split('&') {
            let value = pair.split_once('=').map_or(pair, |(_, value)| value);
            // Servers show it as it was sent, or decoded.
            let decoded = decode_percent(value).unwrap_or_default();
            let decoded = String::from_utf8_lossy(&decoded);
            secrets.extend(decoded.split([' ', '+']).map(str::to_owned));
            secrets.extend([value.to_owned(), decoded.into_owned()]);
        }
    }
    secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
    // The longer ones first, since they contain the others.
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    let mut text = text.to_owned();
    for secret in secrets {
        text = text.replace(&secret, "...");
    }
    text
}

/// Whether another URL may answer better. A failed condition or range is an answer.
fn is_refusal(status: StatusCode) -> bool {
    (status.is_client_error() || status.is_server_error()) && !matches!(status.as_u16(), 412 | 416)
}

async fn exchange(
    mut connection: RemoteConnection,
    url: &TransferUrl,
    request: Request<OutgoingBody>,
    limit: Duration,
) -> Result<RemoteAnswer, TransferFailure> {
    let RemoteConnection { sender, driver, .. } = &mut connection;
    let sending = timeout(limit, sender.send_request(request));
    let answer = driver.drive(sending).await;
    let answer = answer.map_err(|_| {
        let detail = format!("no answer from {} within {} s", url, limit.as_secs());
        TransferFailure::new(FailureCause::Stall, detail)
    })?;
    head_of(answer, connection, url)
}

/// An answer whose head is within the limits.
pub(crate) fn head_of(
    answer: Result<Response<Incoming>, hyper::Error>,
    connection: RemoteConnection,
    url: &TransferUrl,
) -> Result<RemoteAnswer, TransferFailure> {
    let answer = answer.map_err(|error| broken(&error, url))?;
    let (head, incoming) = answer.into_parts();
    let bytes =
        |(name, value): (&http::HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if head.headers.iter().map(bytes).sum::<usize>() > ANSWER_HEAD_BYTES_MAX {
        let detail = format!("{url}: the head of the answer is too long");
        return Err(TransferFailure::new(FailureCause::Protocol, detail));
    }
    Ok(RemoteAnswer {
        status: head.status,
        headers: head.headers,
        body: RemoteBody {
            incoming,
            connection,
        },
        url: url.clone(),
    })
}

/// The failure that an error of the connection is.
pub(crate) fn broken(error: &hyper::Error, url: &TransferUrl) -> TransferFailure {
    let cause = match error.is_parse() || error.is_parse_status() || error.is_parse_too_large() {
        true => FailureCause::Protocol,
        false => FailureCause::Truncated,
    };
    // The cause says more than the error itself.
    let detail = match std::error::Error::source(error) {
        Some(source) => format!("{url}: {error}: {source}"),
        None => format!("{url}: {error}"),
    };
    TransferFailure::new(cause, detail)
}

/// Waits for something of the other side, at most `limit`.
pub(crate) async fn in_time<T>(
    limit: Duration,
    url: &TransferUrl,
    what: &str,
    source: impl Future<Output = T>,
) -> Result<T, TransferFailure> {
    timeout(limit, source).await.map_err(|_| {
        let detail = format!("{url}: {what} for {} s", limit.as_secs());
        TransferFailure::new(FailureCause::Stall, detail)
    })
}
