//! Errors of parsing and verifying.

/// Why a signature was not taken. The text describes the defect in the words that AWS uses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The Authorization header is of another scheme.
    #[error("Unsupported Authorization Type")]
    Scheme,
    /// The signature is of Version 4, and of an algorithm other than HMAC-SHA256.
    #[error(
        "The authorization mechanism you have provided is not supported. Please use \
         AWS4-HMAC-SHA256."
    )]
    Algorithm,
    /// The credential or the header is malformed in this way.
    #[error("{0}")]
    Malformed(&'static str),
    /// The path or query has a broken escape, or the query is not UTF-8.
    #[error("Couldn't parse the specified URI.")]
    Uri,
    /// The query string has too many parameters.
    #[error("The query string has too many parameters.")]
    TooManyParameters,
    /// A parameter is given twice, and the signer may have meant the other value.
    #[error("The query parameter {0:?} is given more than once.")]
    DuplicateParameter(String),
    /// The value of a signed header is not text.
    #[error("The value of the signed header {0} is not UTF-8.")]
    HeaderText(String),
    /// The request lacks a signed header.
    #[error("The signed header {0} is not in the request.")]
    HeaderMissing(String),
    /// The signature is not that of the request.
    #[error("the signature does not match")]
    Mismatch(Box<Mismatch>),
}

/// The texts that belong to the request, unlike its signature. Signers need them to find their
/// mistake.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The canonical request.
    pub canonical_request: String,
    /// The string to sign.
    pub string_to_sign: String,
}

/// A result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
