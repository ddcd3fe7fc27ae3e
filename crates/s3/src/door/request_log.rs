//! A summary of a request, for logs and metrics.

/// The summary of an answered request, stored as an extension of the answer. For a request that was
/// refused early, some fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// S3's name of the verb.
    pub verb: Option<&'static str>,
    /// The user who signed.
    pub user: Option<String>,
    /// The bucket that was named.
    pub bucket: Option<String>,
    /// The key that was named.
    pub key: Option<String>,
}
