//! Errors as answers: the one file that words the errors of this front.

use std::borrow::Cow;
use std::fmt;

use dewar_auth::CredentialError;
use dewar_http_front::{Answer, RequestError, empty_answer, typed_answer};
use dewar_store::api::CrossDeviceError;
use dewar_types::{Error, ErrorKind};
use http::header::RETRY_AFTER;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::limits::RETRY_AFTER_SECS;
use crate::xml::{XmlError, push_escaped, push_href_element};

/// A refusal: a status, words for people, and the precondition of RFC 4918 that was violated.
#[derive(Debug)]
pub(crate) struct DavError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    status: StatusCode,
    message: Cow<'static, str>,
    precondition: Option<&'static str>,
    /// The path that the precondition is about.
    href: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    source: Option<Error>,
}

/// A result with [`DavError`].
pub(crate) type Result<T, E = DavError> = std::result::Result<T, E>;

impl DavError {
    /// A refusal with a status and words.
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            status,
            message: message.into(),
            precondition: None,
            href: None,
            headers: Vec::new(),
            source: None,
        }))
    }

    /// Names the precondition that was violated: an element of `DAV:`.
    #[must_use]
    pub(crate) fn precondition(mut self, name: &'static str) -> Self {
        self.0.precondition = Some(name);
        self
    }

    /// Names the path that violates the precondition.
    #[must_use]
    pub(crate) fn href(mut self, path: String) -> Self {
        self.0.href = Some(path);
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The same refusal with another status, where the error of the store is of this kind.
    #[must_use]
    pub(crate) fn with_status_for(mut self, kinds: &[ErrorKind], status: StatusCode) -> Self {
        if self.kind().is_some_and(|kind| kinds.contains(&kind)) {
            self.0.status = status;
        }
        self
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The kind of the error of the store behind it.
    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        self.0.source.as_ref().map(Error::kind)
    }

    /// Whether a rename was refused because it leads to another bucket or space.
    pub(crate) fn is_cross_device(&self) -> bool {
        let source = self.0.source.as_ref().and_then(std::error::Error::source);
        source.is_some_and(|source| source.is::<CrossDeviceError>())
    }

    /// The words for the client.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The error of the store behind it.
    ///
    /// # Errors
    /// The words for the client, if there is none.
    pub(crate) fn into_cause(self) -> std::result::Result<Error, String> {
        let inner = *self.0;
        inner.source.ok_or_else(|| inner.message.into_owned())
    }

    /// The error of the store behind it, to be logged if it is a defect.
    pub(crate) fn cause(&self) -> Option<&Error> {
        self.0.source.as_ref()
    }

    /// The answer: an XML document if a precondition was violated, otherwise a line of text.
    pub(crate) fn to_answer(&self) -> Answer {
        let inner = &self.0;
        let mut answer = match inner.precondition {
            _ if inner.status == StatusCode::NOT_MODIFIED => empty_answer(inner.status),
            None => typed_answer(
                inner.status,
                "text/plain; charset=utf-8",
                format!("{}\n", inner.message),
            ),
            Some(name) => {
                let mut text = String::from(
                    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:",
                );
                text.push_str(name);
                match &inner.href {
                    None => text.push_str("/>"),
                    Some(path) => {
                        text.push('>');
                        push_href_element(&mut text, path, false);
                        text.push_str("</D:");
                        text.push_str(name);
                        text.push('>');
                    }
                }
                text.push_str("<!-- ");
                // A comment has no two dashes in a row.
                let words = inner.message.replace("--", "- -").replace("--", "- -");
                push_escaped(&mut text, &words);
                text.push_str(" --></D:error>\n");
                typed_answer(inner.status, "application/xml; charset=utf-8", text)
            }
        };
        for (name, value) in &inner.headers {
            answer.headers_mut().append(name.clone(), value.clone());
        }
        answer
    }
}

impl fmt::Display for DavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.status, self.0.message)
    }
}

/// The status of an error kind. There is no wildcard: a new kind must be decided here.
pub(crate) const fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NoSuchBucket
        | ErrorKind::NotFound
        | ErrorKind::NoSuchVersion
        | ErrorKind::DeleteMarker
        | ErrorKind::NoSuchUpload
        | ErrorKind::NoSuchStorageClass
        | ErrorKind::NoSuchMail => StatusCode::NOT_FOUND,
        ErrorKind::Denied
        | ErrorKind::Locked
        | ErrorKind::EncryptionKey
        | ErrorKind::AclsDisabled
        | ErrorKind::AclsGrant => StatusCode::FORBIDDEN,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::AlreadyExists
        | ErrorKind::AlreadyOwned
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::NotEmpty
        | ErrorKind::BucketState
        | ErrorKind::NotConfigured => StatusCode::CONFLICT,
        ErrorKind::Precondition | ErrorKind::ChecksumMismatch => StatusCode::PRECONDITION_FAILED,
        ErrorKind::NotModified => StatusCode::NOT_MODIFIED,
        ErrorKind::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
        ErrorKind::InvalidArgument
        | ErrorKind::InvalidName
        | ErrorKind::MalformedPolicy
        | ErrorKind::InvalidPart
        | ErrorKind::InvalidPartOrder
        | ErrorKind::PartTooSmall
        | ErrorKind::IncompleteBody => StatusCode::BAD_REQUEST,
        ErrorKind::Quota | ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Conflict
        | ErrorKind::Busy(_)
        | ErrorKind::Later(_)
        | ErrorKind::Unavailable
        | ErrorKind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Corrupt | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The words for the client. Those of denials and of disks stay internal. The first would tell what
/// exists, the others how Dewar is built. FTS decides by words whether it tries again, so those of
/// lasting errors are the words that it looks for.
fn words(error: &Error) -> Cow<'static, str> {
    let fixed = match error.kind() {
        ErrorKind::Denied => "Permission denied.",
        ErrorKind::Unauthenticated => "The credential is not valid here.",
        ErrorKind::NoSuchBucket | ErrorKind::NotFound | ErrorKind::DeleteMarker => {
            "No such file or directory."
        }
        ErrorKind::Locked => "Permission denied: the retention of the object forbids it.",
        ErrorKind::AlreadyExists | ErrorKind::AlreadyOwned => "File exists.",
        ErrorKind::ChecksumMismatch => "The content does not have the digest that was declared.",
        ErrorKind::Precondition => "A condition of the request does not hold.",
        ErrorKind::InvalidRange => "The range lies outside of the file.",
        ErrorKind::NoSpace => "The disks are full.",
        ErrorKind::EncryptionKey => "The content is encrypted with a key of its owner.",
        ErrorKind::Corrupt => "Stored bytes fail their checksum and could not be repaired.",
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            "Too few disks can be reached at the moment. Please try again."
        }
        ErrorKind::Later(_) => "The content cannot be read yet. Please try again later.",
        ErrorKind::Busy(_) => "The server is busy. Please try again later.",
        ErrorKind::Conflict => "Another change came first. Please try again.",
        ErrorKind::Internal => "The server has a defect.",
        _ => return Cow::Owned(error.message().to_owned()),
    };
    Cow::Borrowed(fixed)
}

/// The reason why a credential was refused, if that is what happened.
fn credential_error(error: &Error) -> Option<CredentialError> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<CredentialError>().copied()
}

impl From<Error> for DavError {
    fn from(error: Error) -> Self {
        let mut refusal = match credential_error(&error) {
            Some(CredentialError::Expired) => {
                Self::new(StatusCode::UNAUTHORIZED, "The token has expired.")
            }
            Some(CredentialError::Clear) => Self::clear(),
            Some(CredentialError::Unreachable) => Self::new(
                StatusCode::UNAUTHORIZED,
                "The keys of the token's issuer cannot be had at the moment.",
            ),
            Some(CredentialError::Invalid) | None => {
                Self::new(status_of(error.kind()), words(&error))
            }
        };
        let after = match error.kind() {
            ErrorKind::Busy(after) | ErrorKind::Later(after) => Some(after.as_secs().max(1)),
            ErrorKind::Conflict => Some(1),
            ErrorKind::Unavailable | ErrorKind::Timeout => Some(RETRY_AFTER_SECS),
            _ => None,
        };
        if let Some(secs) = after {
            refusal = refusal.header(RETRY_AFTER, HeaderValue::from(secs));
        }
        refusal.0.source = Some(error);
        refusal
    }
}

impl DavError {
    /// The refusal of a secret that others could read on its way.
    pub(crate) fn clear() -> Self {
        let words = "Passwords and tokens are accepted over TLS only, or from the machine itself.";
        Self::new(StatusCode::FORBIDDEN, words)
    }

    /// The same refusal for a caller who showed no credential. The handshake of TLS does not tell whether
    /// the client has a certificate, so the words are for everybody.
    #[must_use]
    pub(crate) fn ask_for_credential(mut self) -> Self {
        self.0.status = StatusCode::UNAUTHORIZED;
        self.0.message =
            "Permission denied: this request has no token, macaroon or access key. Client \
                          certificates (X.509 proxies, VOMS) are not accepted."
                .into();
        self
    }

    /// The refusal of a client that uses its share of memory or time.
    pub(crate) fn later(secs: u64) -> Self {
        let words = "The server is busy. Please try again later.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
            .header(RETRY_AFTER, HeaderValue::from(secs))
    }
}

impl From<RequestError> for DavError {
    fn from(error: RequestError) -> Self {
        let status = match &error {
            RequestError::Header(_)
            | RequestError::Value(_)
            | RequestError::Macaroon(_)
            | RequestError::Length(_)
            | RequestError::TooLong
            | RequestError::Incomplete
            | RequestError::Form(_) => StatusCode::BAD_REQUEST,
            RequestError::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            RequestError::Stalled => StatusCode::REQUEST_TIMEOUT,
            RequestError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<XmlError> for DavError {
    fn from(error: XmlError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_and_defects_tell_nothing() {
        for kind in [
            ErrorKind::Denied,
            ErrorKind::Internal,
            ErrorKind::Corrupt,
            ErrorKind::Unavailable,
            ErrorKind::NoSpace,
            ErrorKind::NotFound,
        ] {
            let refusal = DavError::from(Error::new(kind, "/secret/path of disk 3"));
            assert!(!refusal.to_string().contains("secret"), "{kind:?}");
        }
    }

    /// FTS tries again unless it reads one of these words, and gives up when it does.
    #[test]
    fn lasting_errors_have_the_words_that_fts_looks_for() {
        let lasting = [
            "No such file or directory",
            "Permission denied",
            "File exists",
        ];
        let shown = |kind| DavError::from(Error::new(kind, "x")).to_string();
        for (kind, word) in [
            (ErrorKind::NotFound, lasting[0]),
            (ErrorKind::NoSuchBucket, lasting[0]),
            (ErrorKind::Denied, lasting[1]),
            (ErrorKind::AlreadyExists, lasting[2]),
        ] {
            assert!(shown(kind).contains(word), "{kind:?}");
        }
        let second = std::time::Duration::from_secs(1);
        for passing in [
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::Busy(second),
            ErrorKind::Later(second),
            ErrorKind::Conflict,
        ] {
            let shown = shown(passing);
            assert!(lasting.iter().all(|word| !shown.contains(word)), "{shown}");
        }
    }
}
