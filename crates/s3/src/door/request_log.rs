//! What a request turned out to be, for logs and metrics.

/// What is known of a request once it was answered, as an extension of the answer: of one that was
/// refused early, less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// S3's name of what was asked for.
    pub verb: Option<&'static str>,
    /// Who signed.
    pub user: Option<String>,
    /// The bucket that was named.
    pub bucket: Option<String>,
    /// The key that was named.
    pub key: Option<String>,
}
