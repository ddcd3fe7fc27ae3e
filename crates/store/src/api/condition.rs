//! Conditions on reads and writes (RFC 9110 section 13), as S3 and WebDAV have them.

use dewar_types::Timestamp;

use super::ETag;

/// The validator of the content that the client already has (`If-Range`, RFC 9110 section 13.1.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfRange {
    /// Content with this ETag, without quotes. A text that is no strong ETag matches none.
    Is(String),
    /// Content that was last modified at this second.
    ModifiedAt(Timestamp),
}

impl IfRange {
    /// Whether content with this ETag and time is the content that the client has. Only identical
    /// content qualifies: a range of other content must not be appended to the client's bytes.
    #[must_use]
    pub fn holds(&self, etag: &str, modified: Timestamp) -> bool {
        match self {
            Self::Is(value) => value == etag,
            Self::ModifiedAt(time) => time.secs() == modified.secs(),
        }
    }
}

/// The condition for a read to answer with content. If both an ETag and a date are given, the ETag
/// decides (RFC 9110 section 13.2.2). Dates are compared in whole seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCondition {
    /// One of these; empty for no such condition.
    pub if_match: Vec<ETag>,
    /// None of these: else "not modified".
    pub if_none_match: Vec<ETag>,
    /// Changed after: else "not modified".
    pub if_modified_since: Option<Timestamp>,
    /// Not changed after.
    pub if_unmodified_since: Option<Timestamp>,
    /// The condition for the range. If it fails, the range is ignored, and the whole object is
    /// read.
    pub if_range: Option<IfRange>,
}

/// The condition for a write or delete, checked in the transaction that does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCondition {
    /// Nothing has the name (`If-None-Match: *`).
    pub if_absent: bool,
    /// The current version, if there is one, has another ETag.
    pub if_none_match: Option<ETag>,
    /// The current version has this ETag. [`ETag::Any`] means that the name exists.
    pub if_match: Option<ETag>,
    /// The current version was last modified at this second.
    pub if_modified_at: Option<Timestamp>,
    /// It was modified after this second; something has the name.
    pub if_modified_since: Option<Timestamp>,
    /// It was not modified after this second; something has the name.
    pub if_unmodified_since: Option<Timestamp>,
    /// The current version has this many bytes.
    pub if_size: Option<u64>,
}
