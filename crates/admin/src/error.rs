//! Why a request was not carried out.

use dewar_types::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use thiserror::Error as ThisError;

/// A kind of failure that scripts can distinguish, by the command's exit code and by text in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// There is no such user or key.
    NotFound,
    /// The name is taken.
    Exists,
    /// It is still in use.
    InUse,
    /// The request makes no sense.
    Invalid,
    /// Temporarily unavailable: too many disks are missing, or the server is overloaded or
    /// stopping.
    Unavailable,
    /// Something broke.
    Internal,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, ThisError, Serialize, Deserialize)]
#[error("{message}")]
pub struct AdminError {
    /// The kind of failure.
    pub kind: Failure,
    /// The event, whom it affects, and the action to take.
    pub message: String,
}

impl AdminError {
    /// An error of `kind`.
    pub fn new(kind: Failure, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<Error> for AdminError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound | ErrorKind::NoSuchBucket => Failure::NotFound,
            ErrorKind::AlreadyExists | ErrorKind::AlreadyOwned => Failure::Exists,
            ErrorKind::NotEmpty => Failure::InUse,
            ErrorKind::InvalidArgument
            | ErrorKind::InvalidName
            | ErrorKind::MalformedPolicy
            | ErrorKind::Quota
            | ErrorKind::TooLarge => Failure::Invalid,
            ErrorKind::Unavailable
            | ErrorKind::Busy(_)
            | ErrorKind::Later(_)
            | ErrorKind::Timeout
            | ErrorKind::Conflict
            | ErrorKind::NoSpace => Failure::Unavailable,
            _ => Failure::Internal,
        };
        let message = match error.kind() {
            ErrorKind::Busy(after) | ErrorKind::Later(after) => {
                let secs = after.as_secs().max(1);
                format!("{}; try again in {secs} s", error.message())
            }
            _ => error.message().to_owned(),
        };
        Self::new(kind, message)
    }
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, AdminError>;
