//! One small closed set of error kinds; each front maps it to its wire in one place.

use core::fmt;
use core::time::Duration;
use std::error::Error as StdError;

/// The kind of an error, as far as a client can act on it. Closed on purpose: each front maps it to
/// its wire with an exhaustive match, so that a new kind must be decided on everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The bucket does not exist.
    NoSuchBucket,
    /// The key, user or other named thing does not exist.
    NotFound,
    /// The key has no version of that id.
    NoSuchVersion,
    /// The version is a delete marker, which holds nothing to read or change.
    DeleteMarker,
    /// The version is kept: its retention or a legal hold forbids this.
    Locked,
    /// The bucket's settings do not go with this; they can be changed.
    BucketState,
    /// The bucket lacks the required configuration, and the request makes no sense without it.
    NotConfigured,
    /// There is no storage class of that name.
    NoSuchStorageClass,
    /// The multipart upload does not exist, or no longer.
    NoSuchUpload,
    /// The name is taken.
    AlreadyExists,
    /// The bucket exists and the caller owns it.
    AlreadyOwned,
    /// The name is a directory; a file was expected.
    IsADirectory,
    /// The name is a file; a directory was expected.
    NotADirectory,
    /// The bucket or directory still holds something.
    NotEmpty,
    /// The caller may not do this.
    Denied,
    /// The caller is anonymous, or could not prove the identity.
    Unauthenticated,
    /// A condition of the request does not hold.
    Precondition,
    /// A condition of a read holds: the client's copy is current.
    NotModified,
    /// The request makes no sense.
    InvalidArgument,
    /// A policy document that is malformed, or has unknown elements.
    MalformedPolicy,
    /// The bucket has no access control lists: its owner owns everything in it.
    AclsDisabled,
    /// The bucket's access control list grants something to others, and cannot be switched off.
    AclsGrant,
    /// No user has the mail address.
    NoSuchMail,
    /// No byte of the object lies in the range.
    InvalidRange,
    /// A name breaks the rules.
    InvalidName,
    /// A part list names a part that is absent or has another ETag.
    InvalidPart,
    /// A part list is not in ascending order.
    InvalidPartOrder,
    /// A part but the last is smaller than the minimum.
    PartTooSmall,
    /// The bytes received do not match the digest that was announced.
    ChecksumMismatch,
    /// The body ended early.
    IncompleteBody,
    /// A quota is used up.
    Quota,
    /// The disks are full.
    NoSpace,
    /// Larger than allowed.
    TooLarge,
    /// Two changes collided and this one lost; try again.
    Conflict,
    /// Overloaded: try again after the time, and ask for less at once.
    Busy(Duration),
    /// Not ready yet: the same request is expected to succeed after the time. An example is a
    /// version without an online copy.
    Later(Duration),
    /// Too many disks are missing to read or write this now.
    Unavailable,
    /// A deadline passed.
    Timeout,
    /// Encrypted content and the key that came do not go together.
    EncryptionKey,
    /// Dewar cannot do this.
    Unsupported,
    /// Stored bytes fail their checksum and could not be repaired.
    Corrupt,
    /// A defect of Dewar.
    Internal,
}

/// An error with its path or id and its cause.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    unchanged: bool,
}

/// A result with [`struct@Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    /// An error of `kind`; `message` says what failed, for which path or id.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            unchanged: false,
        }
    }

    /// The same, with the error that caused it.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            message: message.into(),
            source: Some(source.into()),
            unchanged: false,
        }
    }

    /// Puts the operation in progress in front of the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// Marks the error: nothing was changed and nothing will be. The kind alone may leave this
    /// open.
    #[must_use]
    pub fn unchanged(mut self) -> Self {
        self.unchanged = true;
        self
    }

    /// Whether certainly nothing was changed; see [`Error::unchanged`].
    #[must_use]
    pub fn left_unchanged(&self) -> bool {
        self.unchanged
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The text of the error, without the cause.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}

impl From<crate::NameError> for Error {
    fn from(error: crate::NameError) -> Self {
        Self::new(ErrorKind::InvalidName, error.to_string())
    }
}
