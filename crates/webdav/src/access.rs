//! Credentials: who asks.
//!
//! A request proves its caller by a bearer token or a macaroon in `Authorization` or in `authz` of the
//! query, or by an access key and its secret as Basic credentials. Passwords and tokens are accepted
//! over TLS only, or from the machine itself.

use dewar_auth::{Caller, CredentialStore as _, Origin, User};
use dewar_http_front::{Answer, BasicCredentials, RequestError, bearer_token, count_connection};
use dewar_sigv4::Query;
use http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use subtle::ConstantTimeEq as _;

use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::limits::RETRY_AFTER_SECS;

/// The parameter of the query with a token.
const TOKEN_PARAMETER: &str = "authz";

/// Longest name of a refused user in the audit log.
const NAME_CHARS_MAX: usize = 128;

impl WebDav {
    /// The caller of a request, for whom the connection counts from now on; anonymous without a
    /// credential.
    ///
    /// # Errors
    /// 401 for a credential that is not valid, 403 for one that came in the clear, 429 after too many
    /// failures, 400 for a malformed one, 503 if the caller has as many connections as are free for
    /// others.
    pub(crate) async fn caller(&self, head: &Parts, origin: Origin) -> Result<Caller> {
        let caller = self.authenticate(head, origin).await?;
        if count_connection(head, &caller) {
            return Ok(caller);
        }
        let words =
            "Too many connections of this account are open. Close some, or try again later.";
        let refusal = DavError::new(StatusCode::SERVICE_UNAVAILABLE, words);
        Err(refusal.header(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECS)))
    }

    /// The user who asks, for a document beside the files. A refusal is the whole answer.
    ///
    /// # Errors
    /// As of all requests of this front, and 401 without a credential.
    pub async fn identify(&self, head: &Parts, origin: Origin) -> Result<User, Answer> {
        let refusal = match self.caller(head, origin).await {
            Ok(caller) => match caller.user() {
                Some(user) => return Ok(user.clone()),
                None => {
                    let words = "The document is for certain users only.";
                    DavError::new(StatusCode::UNAUTHORIZED, words)
                }
            },
            Err(refusal) => refusal,
        };
        let mut answer = refusal.to_answer();
        if answer.status() == StatusCode::UNAUTHORIZED {
            push_challenges(answer.headers_mut(), &head.headers, origin);
        }
        Err(answer)
    }

    async fn authenticate(&self, head: &Parts, origin: Origin) -> Result<Caller> {
        if let Some(token) = bearer_token(&head.headers)? {
            return Ok(self.store.accounts().bearer(token, origin).await?);
        }
        if let Some(credentials) = BasicCredentials::of(&head.headers)? {
            return self.by_password(&credentials, origin).await;
        }
        if head.headers.contains_key(AUTHORIZATION) {
            let words = "The scheme of the credential is not supported: use Bearer or Basic.";
            return Err(DavError::new(StatusCode::UNAUTHORIZED, words));
        }
        let query = Query::parse(head.uri.query())
            .map_err(|_| RequestError::Value("the query".to_owned()))?;
        let Some(token) = query.get(TOKEN_PARAMETER) else {
            return Ok(Caller::anonymous(origin));
        };
        // XRootD writes the whole value of the header there.
        let token = match token.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token,
            _ => token,
        };
        Ok(self.store.accounts().bearer(token.trim(), origin).await?)
    }

    /// The owner of an access key, for a client that knows its secret.
    async fn by_password(&self, credentials: &BasicCredentials, origin: Origin) -> Result<Caller> {
        if !origin.is_confidential() {
            return Err(DavError::clear());
        }
        let (name, now) = (credentials.name.as_str(), self.env.clock.now());
        self.logins.check(origin, name, now).map_err(|left| {
            let words = "Too many logins failed. Please try again later.";
            let secs = left.as_secs().max(1);
            DavError::new(StatusCode::TOO_MANY_REQUESTS, words)
                .header(RETRY_AFTER, HeaderValue::from(secs))
        })?;
        let key = self.store.accounts().access_key(name).await?;
        let given = credentials.password.reveal().as_bytes();
        let key = key.filter(|key| bool::from(key.secret.reveal().as_bytes().ct_eq(given)));
        let Some(key) = key else {
            self.logins.failed(origin, name, now);
            let shown: String = name
                .chars()
                .filter(char::is_ascii_graphic)
                .take(NAME_CHARS_MAX)
                .collect();
            let named = format!("key:{shown}");
            let why = "no such access key, or another secret";
            self.store
                .authorizer()
                .record_refused_login(origin, "basic", Some(&named), why);
            let words = "The access key or its secret is not valid.";
            return Err(DavError::new(StatusCode::UNAUTHORIZED, words));
        };
        Ok(Caller::by_access_key(&key, origin))
    }
}

/// Adds the ways to log in to a refusal with status 401. A password is not asked for where others
/// could read it.
pub(crate) fn push_challenges(headers: &mut HeaderMap, asked: &HeaderMap, origin: Origin) {
    let bearer = match asked.contains_key(AUTHORIZATION) {
        true => "Bearer realm=\"dewar\", error=\"invalid_token\"",
        false => "Bearer realm=\"dewar\"",
    };
    headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(bearer));
    if origin.is_confidential() {
        let basic = "Basic realm=\"dewar\", charset=\"UTF-8\"";
        headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(basic));
    }
}
