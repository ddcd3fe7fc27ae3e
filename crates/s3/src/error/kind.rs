//! The one place where the store's error kinds become S3's codes.

use dewar_auth::CredentialError;
use dewar_types::{Error, ErrorKind};
use http::HeaderValue;
use http::header::RETRY_AFTER;

use super::{Code, Refusal};

/// Seconds a client is asked to wait when Dewar is missing disks.
const UNAVAILABLE_RETRY_SECS: u64 = 5;

/// The wire code of an error kind. There is no wildcard: a new kind must be decided here.
const fn code_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NoSuchBucket => Code::NoSuchBucket,
        ErrorKind::NotFound => Code::NoSuchKey,
        ErrorKind::NoSuchVersion => Code::NoSuchVersion,
        ErrorKind::DeleteMarker => Code::MethodNotAllowed,
        ErrorKind::Locked => Code::AccessDenied,
        ErrorKind::BucketState => Code::InvalidBucketState,
        ErrorKind::NotConfigured => Code::InvalidRequest,
        ErrorKind::NoSuchStorageClass => Code::InvalidStorageClass,
        ErrorKind::NoSuchUpload => Code::NoSuchUpload,
        ErrorKind::AlreadyExists => Code::BucketAlreadyExists,
        ErrorKind::AlreadyOwned => Code::BucketAlreadyOwnedByYou,
        ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::EncryptionKey => {
            Code::InvalidRequest
        }
        ErrorKind::NotEmpty => Code::BucketNotEmpty,
        ErrorKind::Denied => Code::AccessDenied,
        ErrorKind::Unauthenticated => Code::InvalidToken,
        ErrorKind::Precondition => Code::PreconditionFailed,
        ErrorKind::NotModified => Code::NotModified,
        ErrorKind::InvalidArgument => Code::InvalidArgument,
        ErrorKind::MalformedPolicy => Code::MalformedPolicy,
        ErrorKind::AclsDisabled => Code::AccessControlListNotSupported,
        ErrorKind::AclsGrant => Code::InvalidBucketAclWithObjectOwnership,
        ErrorKind::NoSuchMail => Code::UnresolvableGrantByEmailAddress,
        ErrorKind::InvalidRange => Code::InvalidRange,
        ErrorKind::InvalidName => Code::InvalidURI,
        ErrorKind::InvalidPart => Code::InvalidPart,
        ErrorKind::InvalidPartOrder => Code::InvalidPartOrder,
        ErrorKind::PartTooSmall => Code::EntityTooSmall,
        ErrorKind::ChecksumMismatch => Code::BadDigest,
        ErrorKind::IncompleteBody => Code::IncompleteBody,
        ErrorKind::Quota => Code::QuotaExceeded,
        ErrorKind::NoSpace => Code::InsufficientStorage,
        ErrorKind::TooLarge => Code::EntityTooLarge,
        ErrorKind::Conflict => Code::ConditionalRequestConflict,
        ErrorKind::Busy(_) => Code::SlowDown,
        ErrorKind::Unavailable | ErrorKind::Later(_) | ErrorKind::Timeout => {
            Code::ServiceUnavailable
        }
        ErrorKind::Unsupported => Code::NotImplemented,
        ErrorKind::Corrupt | ErrorKind::Internal => Code::InternalError,
    }
}

/// The message for the client. Messages of denials, of disks and of defects stay internal. The
/// first would reveal what exists, the others how Dewar is built and where its disks are.
fn words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Denied => "Access Denied".into(),
        ErrorKind::Unauthenticated => {
            "The provided token is malformed or otherwise invalid.".into()
        }
        ErrorKind::NoSuchBucket => "The specified bucket does not exist".into(),
        ErrorKind::NotFound => "The specified key does not exist.".into(),
        ErrorKind::NoSuchVersion => "The specified version does not exist.".into(),
        ErrorKind::DeleteMarker => {
            "The specified method is not allowed against this resource.".into()
        }
        ErrorKind::Locked => "Access Denied because object protected by object lock.".into(),
        ErrorKind::NoSuchStorageClass => "The storage class you specified is not valid".into(),
        ErrorKind::NoSuchUpload => "The specified upload does not exist. The upload ID may be \
             invalid, or the upload may have been aborted or completed."
            .into(),
        ErrorKind::Precondition => {
            "At least one of the pre-conditions you specified did not hold".into()
        }
        ErrorKind::InvalidRange => "The requested range is not satisfiable".into(),
        ErrorKind::NotEmpty => "The bucket you tried to delete is not empty".into(),
        ErrorKind::AlreadyOwned => {
            "Your previous request to create the named bucket succeeded and \
             you already own it."
                .into()
        }
        ErrorKind::AlreadyExists => "The requested bucket name is not available. The bucket \
             namespace is shared by all users of the system. Please select a different name and \
             try again."
            .into(),
        ErrorKind::InvalidPart => {
            "One or more of the specified parts could not be found.  The part \
             may not have been uploaded, or the specified entity tag may not match the part's \
             entity tag."
                .into()
        }
        ErrorKind::InvalidPartOrder => {
            "The list of parts was not in ascending order. Parts must be \
             ordered by part number."
                .into()
        }
        ErrorKind::PartTooSmall => {
            "Your proposed upload is smaller than the minimum allowed size".into()
        }
        ErrorKind::ChecksumMismatch => "The Content-MD5 or checksum value that you specified did \
             not match what the server received."
            .into(),
        ErrorKind::IncompleteBody => {
            "You did not provide the number of bytes specified by the Content-Length HTTP header."
                .into()
        }
        ErrorKind::Conflict => "The conditional request cannot succeed due to a conflicting \
             operation against this resource."
            .into(),
        ErrorKind::AclsDisabled => "The bucket does not allow ACLs".into(),
        ErrorKind::NoSpace => "The disks are full.".into(),
        ErrorKind::Corrupt => "Stored bytes fail their checksum and could not be repaired.".into(),
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            "Too few disks can be reached at the moment. Please try again.".into()
        }
        ErrorKind::Later(after) => format!(
            "The content cannot be read yet. Please try again in {} seconds.",
            after.as_secs()
        ),
        ErrorKind::Busy(_) => "Please reduce your request rate.".into(),
        ErrorKind::Internal => "We encountered an internal error. Please try again.".into(),
        _ => error.message().to_owned(),
    }
}

/// Why a credential that ends was not taken, if that is what happened.
pub(crate) fn credential_error(error: &Error) -> Option<CredentialError> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<CredentialError>().copied()
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let mut refusal = match credential_error(&error) {
            Some(CredentialError::Expired) => {
                Self::new(Code::ExpiredToken, "The provided token has expired.")
            }
            Some(CredentialError::Clear) => Self::new(
                Code::AccessDenied,
                "Tokens are taken over TLS only, or from the machine itself.",
            ),
            Some(CredentialError::Invalid | CredentialError::Unreachable) | None => {
                Self::new(code_of(error.kind()), words(&error))
            }
        };
        let retry_after_secs = match error.kind() {
            ErrorKind::Busy(after) | ErrorKind::Later(after) => Some(after.as_secs().max(1)),
            ErrorKind::Unavailable | ErrorKind::Timeout => Some(UNAVAILABLE_RETRY_SECS),
            _ => None,
        };
        if let Some(secs) = retry_after_secs {
            refusal = refusal.header(RETRY_AFTER, HeaderValue::from(secs));
        }
        refusal.0.source = Some(error);
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_and_defects_tell_nothing() {
        let told = |kind| Refusal::from(Error::new(kind, "/secret/path of disk 3")).to_string();
        assert_eq!(told(ErrorKind::Denied), "AccessDenied: Access Denied");
        for kind in [
            ErrorKind::Internal,
            ErrorKind::Corrupt,
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::NoSpace,
            ErrorKind::Busy(std::time::Duration::from_secs(1)),
        ] {
            assert!(!told(kind).contains("secret"), "{kind:?}");
        }
        assert!(told(ErrorKind::InvalidArgument).contains("/secret/path"));
    }

    /// Tools look for these words.
    #[test]
    fn common_errors_read_as_those_of_amazon() {
        for (kind, words) in [
            (
                ErrorKind::NotFound,
                "NoSuchKey: The specified key does not exist.",
            ),
            (
                ErrorKind::NoSuchBucket,
                "NoSuchBucket: The specified bucket does not exist",
            ),
            (
                ErrorKind::NotEmpty,
                "BucketNotEmpty: The bucket you tried to delete is not empty",
            ),
            (
                ErrorKind::AlreadyOwned,
                "BucketAlreadyOwnedByYou: Your previous request to create the named bucket \
                 succeeded and you already own it.",
            ),
            (
                ErrorKind::InvalidPart,
                "InvalidPart: One or more of the specified parts could not be found.  The part may \
                 not have been uploaded, or the specified entity tag may not match the part's \
                 entity tag.",
            ),
            (
                ErrorKind::PartTooSmall,
                "EntityTooSmall: Your proposed upload is smaller than the minimum allowed size",
            ),
        ] {
            let told = Refusal::from(Error::new(kind, "in our words")).to_string();
            assert_eq!(told, words);
        }
    }
}
