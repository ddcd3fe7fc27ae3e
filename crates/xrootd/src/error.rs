//! Errors of the store in the wire's words: the one place.

use std::error::Error as _;
use std::time::Duration;

use dewar_auth::CredentialError;
use dewar_types::{Error, ErrorKind};
use dewar_xrootd_proto::{DecodeError, ErrorCode};

/// A request that failed.
#[derive(Clone, Debug)]
pub(crate) struct ErrorReply {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// The server could not do what it should, as 5xx says it over HTTP.
    pub(crate) ours: bool,
    /// Ask again after so many seconds, instead of failing.
    pub(crate) wait: Option<u32>,
    /// Ask another server, instead of failing: its host with what to append to the path, and its port.
    pub(crate) elsewhere: Option<(String, u16)>,
}

pub(crate) type VerbResult<T> = Result<T, ErrorReply>;

impl ErrorReply {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            ours: false,
            wait: None,
            elsewhere: None,
        }
    }

    /// Nothing is wrong; the client shall ask again after so long, of whole seconds.
    pub(crate) fn later(after: Duration, why: &str) -> Self {
        Self {
            wait: Some(u32::try_from(after.as_secs()).unwrap_or(u32::MAX)),
            ..Self::new(ErrorCode::Overloaded, why)
        }
    }

    /// Nothing is wrong; the client shall ask there.
    pub(crate) fn elsewhere(host: String, port: u16) -> Self {
        Self {
            elsewhere: Some((host, port)),
            ..Self::new(ErrorCode::Overloaded, "another server is to be asked")
        }
    }

    pub(crate) fn unsupported(what: &str) -> Self {
        Self::new(ErrorCode::Unsupported, format!("{what} is not supported"))
    }

    /// Says what was being done, as users of this protocol are used to read it.
    pub(crate) fn of(error: &Error, doing: &str, path: &str) -> Self {
        let code = code_of(error.kind());
        let reason = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NoSuchBucket => "no such file or directory",
            ErrorKind::Denied | ErrorKind::Unauthenticated => "permission denied",
            ErrorKind::AlreadyExists => "file exists",
            ErrorKind::IsADirectory => "is a directory",
            ErrorKind::NotADirectory => "not a directory",
            ErrorKind::NotEmpty => "directory not empty",
            ErrorKind::Internal => "internal error",
            _ => error.message(),
        };
        if error.kind() == ErrorKind::Internal {
            tracing::error!(doing, %error, "a defect");
        }
        let wait = match error.kind() {
            ErrorKind::Busy(after) | ErrorKind::Later(after) => {
                Some(u32::try_from(after.as_secs()).unwrap_or(60).clamp(1, 60))
            }
            _ => None,
        };
        Self {
            wait,
            ours: is_ours(error.kind()),
            ..Self::new(code, format!("Unable to {doing} {path}; {reason}"))
        }
    }

    /// Says that a credential is not taken. What exactly is wrong with it is not told to who may be
    /// guessing, but that its time is over or that its issuer is silent helps only who holds it.
    pub(crate) fn of_credential(error: &Error, client: &str) -> Self {
        let why = error.source().and_then(|source| source.downcast_ref());
        let message = match (error.kind(), why) {
            (ErrorKind::Unauthenticated, Some(CredentialError::Clear)) => {
                let message = "Encryption is required: tokens are taken over TLS only";
                return Self::new(ErrorCode::TlsRequired, message);
            }
            (ErrorKind::Unauthenticated, Some(why @ CredentialError::Expired))
            | (ErrorKind::Unauthenticated, Some(why @ CredentialError::Unreachable)) => {
                format!("Authentication failed; {why}")
            }
            (ErrorKind::Busy(_) | ErrorKind::Unavailable | ErrorKind::Timeout, _) => {
                return Self::of(error, "log in from", client);
            }
            _ => "Authentication failed".to_owned(),
        };
        tracing::debug!(client, %error, "a credential was refused");
        Self::new(ErrorCode::AuthFailed, message)
    }
}

impl From<DecodeError> for ErrorReply {
    fn from(error: DecodeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Whether the client can do nothing about it.
fn is_ours(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoSpace
            | ErrorKind::Busy(_)
            | ErrorKind::Timeout
            | ErrorKind::Unavailable
            | ErrorKind::Corrupt
            | ErrorKind::Internal
    )
}

fn code_of(kind: ErrorKind) -> ErrorCode {
    match kind {
        ErrorKind::NoSuchBucket
        | ErrorKind::NotFound
        | ErrorKind::NoSuchVersion
        | ErrorKind::DeleteMarker
        | ErrorKind::NoSuchUpload
        | ErrorKind::NoSuchStorageClass
        | ErrorKind::NoSuchMail => ErrorCode::NotFound,
        ErrorKind::Denied | ErrorKind::AclsDisabled | ErrorKind::AclsGrant => {
            ErrorCode::NotAuthorized
        }
        ErrorKind::Unauthenticated => ErrorCode::AuthFailed,
        // What clients know as "not empty" has no number of its own.
        ErrorKind::AlreadyExists | ErrorKind::AlreadyOwned | ErrorKind::NotEmpty => {
            ErrorCode::ItExists
        }
        ErrorKind::IsADirectory => ErrorCode::IsDirectory,
        ErrorKind::NotADirectory => ErrorCode::FsError,
        ErrorKind::Locked => ErrorCode::FileLocked,
        ErrorKind::Precondition | ErrorKind::NotModified | ErrorKind::Conflict => {
            ErrorCode::Conflict
        }
        ErrorKind::InvalidArgument
        | ErrorKind::MalformedPolicy
        | ErrorKind::InvalidRange
        | ErrorKind::InvalidName
        | ErrorKind::InvalidPart
        | ErrorKind::InvalidPartOrder
        | ErrorKind::PartTooSmall => ErrorCode::ArgInvalid,
        ErrorKind::ChecksumMismatch => ErrorCode::ChkSumErr,
        ErrorKind::Quota => ErrorCode::OverQuota,
        ErrorKind::NoSpace => ErrorCode::NoSpace,
        ErrorKind::TooLarge => ErrorCode::ArgTooLong,
        ErrorKind::Busy(_) | ErrorKind::Later(_) => ErrorCode::Overloaded,
        ErrorKind::Timeout => ErrorCode::ReqTimedOut,
        ErrorKind::Unsupported
        | ErrorKind::BucketState
        | ErrorKind::NotConfigured
        | ErrorKind::EncryptionKey => ErrorCode::Unsupported,
        ErrorKind::IncompleteBody | ErrorKind::Unavailable | ErrorKind::Corrupt => {
            ErrorCode::IoError
        }
        ErrorKind::Internal => ErrorCode::ServerError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_did_wrong_is_no_failure_of_the_server() {
        let ours = |kind| ErrorReply::of(&Error::new(kind, "why"), "mv", "/b/x").ours;
        for kind in [
            ErrorKind::NotADirectory,
            ErrorKind::Later(Duration::from_secs(60)),
            ErrorKind::NotFound,
            ErrorKind::IncompleteBody,
            ErrorKind::Quota,
            ErrorKind::Denied,
        ] {
            assert!(!ours(kind), "{kind:?}");
        }
        for kind in [
            ErrorKind::NoSpace,
            ErrorKind::Corrupt,
            ErrorKind::Unavailable,
            ErrorKind::Busy(Duration::from_secs(1)),
            ErrorKind::Internal,
        ] {
            assert!(ours(kind), "{kind:?}");
        }
        assert!(!ErrorReply::new(ErrorCode::NoMemory, "too many files are open").ours);
    }
}
