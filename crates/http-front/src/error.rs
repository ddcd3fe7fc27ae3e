//! Defects of requests.

/// A defect of a request. Each front turns it into an error of its protocol, in one file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A header that may be given once is given twice, or is not text.
    #[error("The header {0} is given twice or is not text.")]
    Header(String),
    /// The value of a header makes no sense, and ignoring it would change too much.
    #[error("The value of {0} is not valid.")]
    Value(String),
    /// A length that is not a number.
    #[error("The header {0} is not a length.")]
    Length(String),
    /// A transfer coding other than `chunked` (RFC 9112 section 6.1).
    #[error(
        "A header you provided implies functionality that is not implemented: Transfer-Encoding"
    )]
    TransferCoding,
    /// The client stopped sending its body.
    #[error(
        "Your socket connection to the server was not read from or written to within the timeout \
         period. Idle connections will be closed."
    )]
    Stalled,
    /// The body ended before its announced length.
    #[error("You did not provide the number of bytes specified by the Content-Length HTTP header")]
    Incomplete,
    /// The body goes on after its announced length.
    #[error("The body is longer than its announced length.")]
    TooLong,
    /// The body is larger than allowed.
    #[error("Your proposed upload exceeds the maximum allowed size")]
    TooLarge {
        /// Bytes that were announced or have come.
        size: u64,
        /// Bytes that are allowed.
        largest: u64,
    },
    /// A form is not as RFC 7578 has it.
    #[error("{0}")]
    Form(&'static str),
    /// A request for a macaroon is malformed.
    #[error("{0}")]
    Macaroon(&'static str),
}

/// A result with [`RequestError`].
pub type Result<T, E = RequestError> = std::result::Result<T, E>;
