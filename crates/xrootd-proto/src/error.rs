//! Why bytes are no message.

use thiserror::Error;

use crate::ErrorCode;

/// Bytes that violate the protocol.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// A length below zero.
    #[error("the length {0} is below zero")]
    NegativeLength(i32),
    /// More than there may be.
    #[error("{what} of {len} bytes is too long, {max} are allowed")]
    TooLong {
        /// The violated field.
        what: &'static str,
        /// How much was announced.
        len: usize,
        /// How much there may be.
        max: usize,
    },
    /// Less than there must be.
    #[error("{0} ends early")]
    Short(&'static str),
    /// Text that is not UTF-8.
    #[error("{0} is not text")]
    NotText(&'static str),
    /// A value that makes no sense.
    #[error("{0} makes no sense")]
    Invalid(&'static str),
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A request that the protocol does not know.
    #[error("there is no request {0}")]
    UnknownRequest(u16),
    /// Checksums that do not agree.
    #[error("{what} fails its checksum: {found:08x} for {expected:08x}")]
    Checksum {
        /// The data with the checksum.
        what: &'static str,
        /// The announced checksum.
        expected: u32,
        /// The computed checksum.
        found: u32,
    },
}

impl DecodeError {
    /// The error code that a server sends for it.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NegativeLength(_) | Self::Short(_) | Self::NotText(_) | Self::Invalid(_) => {
                ErrorCode::ArgInvalid
            }
            Self::TooLong { .. } => ErrorCode::ArgTooLong,
            Self::Missing(_) => ErrorCode::ArgMissing,
            Self::UnknownRequest(_) => ErrorCode::InvalidRequest,
            Self::Checksum { .. } => ErrorCode::ChkSumErr,
        }
    }
}
