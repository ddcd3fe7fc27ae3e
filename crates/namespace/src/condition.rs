//! Conditions of a request on the present version of a name (RFC 9110 section 13, and the conditional
//! writes of S3). Times are compared in whole seconds, as HTTP dates are.

use dewar_catalog::record::VersionRecord;
use dewar_types::{Error, ErrorKind, Timestamp};

/// An entity tag of a condition, without its quotes, or the wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagMatch {
    /// `*`
    Any,
    /// A value, without quotes. The text of a weak ETag in an If-Match begins with `W/` here and equals no
    /// ETag, because that header compares strongly (RFC 9110 section 13.1.1).
    Is(String),
}

impl ETagMatch {
    fn holds(&self, version: &VersionRecord) -> bool {
        match self {
            Self::Any => true,
            Self::Is(value) => *value == version.etag(),
        }
    }
}

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
/// decides (RFC 9110 section 13.2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCondition {
    /// The version has one of these ETags; empty for no such condition.
    pub if_match: Vec<ETagMatch>,
    /// The version has none of these ETags: else "not modified".
    pub if_none_match: Vec<ETagMatch>,
    /// The version changed after this time: else "not modified".
    pub if_modified_since: Option<Timestamp>,
    /// The version did not change after this time.
    pub if_unmodified_since: Option<Timestamp>,
    /// The condition for the range. If it fails, the range is ignored, and the whole object is
    /// read.
    pub if_range: Option<IfRange>,
}

impl ReadCondition {
    /// Checks the condition for a read of `version`, in the order of RFC 9110 section 13.2.2.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] or [`ErrorKind::NotModified`].
    pub fn check(&self, path: &str, version: &VersionRecord) -> Result<(), Error> {
        let holds = |tags: &[ETagMatch]| tags.iter().any(|tag| tag.holds(version));
        let since = |time: &Timestamp| version.modified.secs() > time.secs();
        match &self.if_match[..] {
            [] if self.if_unmodified_since.as_ref().is_some_and(since) => {
                return Err(unmet(path, "If-Unmodified-Since"));
            }
            [] => {}
            tags if !holds(tags) => return Err(unmet(path, "If-Match")),
            _ => {}
        }
        let current = match &self.if_none_match[..] {
            [] => self
                .if_modified_since
                .as_ref()
                .is_some_and(|time| !since(time)),
            tags => holds(tags),
        };
        if current {
            return Err(Error::new(
                ErrorKind::NotModified,
                format!("{path} is what the client already has"),
            ));
        }
        Ok(())
    }

    /// Checks the condition for the source of a copy: as for a read, but every failure is
    /// [`ErrorKind::Precondition`].
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`].
    pub fn check_source(&self, path: &str, version: &VersionRecord) -> Result<(), Error> {
        self.check(path, version)
            .map_err(|error| Error::new(ErrorKind::Precondition, error.message().to_owned()))
    }
}

/// The condition for a write or delete, checked in the transaction that does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCondition {
    /// The current version has one of these ETags; empty for no such condition. [`ETagMatch::Any`] means
    /// that the name exists.
    pub if_match: Vec<ETagMatch>,
    /// The current version, if there is one, has none of these ETags. [`ETagMatch::Any`] means that
    /// nothing has the name.
    pub if_none_match: Vec<ETagMatch>,
    /// The current version was modified after this second; something has the name.
    pub if_modified_since: Option<Timestamp>,
    /// The current version was not modified after this second; something has the name.
    pub if_unmodified_since: Option<Timestamp>,
    /// The current version has this many bytes (S3's conditional delete).
    pub if_size: Option<u64>,
    /// The current version was last modified at this second (S3's conditional delete).
    pub if_modified_at: Option<Timestamp>,
}

impl WriteCondition {
    /// No condition.
    pub const NONE: Self = Self {
        if_match: Vec::new(),
        if_none_match: Vec::new(),
        if_modified_since: None,
        if_unmodified_since: None,
        if_size: None,
        if_modified_at: None,
    };

    /// Nothing has the name yet: `If-None-Match: *`.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            if_none_match: vec![ETagMatch::Any],
            ..Self::NONE
        }
    }

    /// Whether there is any condition.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether the condition depends on the current version, beyond its existence.
    #[must_use]
    pub fn compares(&self) -> bool {
        let is = |tags: &[ETagMatch]| tags.iter().any(|tag| matches!(tag, ETagMatch::Is(_)));
        is(&self.if_match)
            || is(&self.if_none_match)
            || self.if_modified_at.is_some()
            || self.if_modified_since.is_some()
            || self.if_unmodified_since.is_some()
            || self.if_size.is_some()
    }

    /// Checks the condition for a change of a name that holds `current`.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] when it does not hold. As in S3, [`ErrorKind::NotFound`] when it
    /// requires a certain version and there is none.
    pub fn check(&self, path: &str, current: Option<&VersionRecord>) -> Result<(), Error> {
        let Some(version) = current else {
            let wants_one = !self.if_match.is_empty()
                || self.if_modified_since.is_some()
                || self.if_unmodified_since.is_some()
                || self.if_size.is_some()
                || self.if_modified_at.is_some();
            if wants_one {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("{path} does not exist, and the request is for an existing object"),
                ));
            }
            return Ok(());
        };
        let since = |time: &Timestamp| version.modified.secs() > time.secs();
        let holds = |tags: &[ETagMatch]| tags.iter().any(|tag| tag.holds(version));
        let failed = if !self.if_match.is_empty() && !holds(&self.if_match) {
            "If-Match"
        } else if holds(&self.if_none_match) {
            "If-None-Match"
        } else if self.if_match.is_empty() && self.if_unmodified_since.as_ref().is_some_and(since) {
            "If-Unmodified-Since"
        } else if self
            .if_modified_since
            .as_ref()
            .is_some_and(|time| !since(time))
        {
            "If-Modified-Since"
        } else if self.if_size.is_some_and(|size| size != version.size) {
            "size"
        } else if self
            .if_modified_at
            .is_some_and(|time| time.secs() != version.modified.secs())
        {
            "modification time"
        } else {
            return Ok(());
        };
        Err(unmet(path, failed))
    }
}

fn unmet(path: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Precondition,
        format!("{path}: the condition on {what} does not hold"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use dewar_catalog::record::ETag;
    use dewar_types::VersionId;

    fn version() -> VersionRecord {
        let etag = ETag::Text("abc".into());
        let digests = dewar_checksum::DigestSet::new(1, 0);
        VersionRecord::new(VersionId(1), 3, etag, Timestamp(5_700_000_000), digests)
    }

    fn one(tag: &str) -> Vec<ETagMatch> {
        vec![ETagMatch::Is(tag.into())]
    }

    #[test]
    fn reads_follow_rfc_9110() {
        let v = version();
        let read = |c: ReadCondition| c.check("/b/k", &v).map_err(|e| e.kind());
        let at = |s| Some(Timestamp::from_secs(s));
        assert_eq!(read(ReadCondition::default()), Ok(()));
        assert_eq!(
            read(ReadCondition {
                if_match: one("abc"),
                if_unmodified_since: at(1),
                ..ReadCondition::default()
            }),
            Ok(())
        );
        assert_eq!(
            read(ReadCondition {
                if_match: one("x"),
                ..ReadCondition::default()
            }),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(
            read(ReadCondition {
                if_unmodified_since: at(4),
                ..ReadCondition::default()
            }),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(
            read(ReadCondition {
                if_unmodified_since: at(5),
                ..ReadCondition::default()
            }),
            Ok(())
        );
        assert_eq!(
            read(ReadCondition {
                if_none_match: one("abc"),
                ..ReadCondition::default()
            }),
            Err(ErrorKind::NotModified)
        );
        assert_eq!(
            read(ReadCondition {
                if_none_match: one("x"),
                if_modified_since: at(9),
                ..ReadCondition::default()
            }),
            Ok(())
        );
        assert_eq!(
            read(ReadCondition {
                if_modified_since: at(5),
                ..ReadCondition::default()
            }),
            Err(ErrorKind::NotModified)
        );
        assert_eq!(
            read(ReadCondition {
                if_modified_since: at(4),
                ..ReadCondition::default()
            }),
            Ok(())
        );
    }

    #[test]
    fn writes_follow_s3() {
        let v = version();
        let write = |c: &WriteCondition, v: Option<&VersionRecord>| {
            c.check("/b/k", v).map_err(|e| e.kind())
        };
        assert_eq!(
            write(&WriteCondition::absent(), Some(&v)),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(write(&WriteCondition::absent(), None), Ok(()));
        let matches = WriteCondition {
            if_match: one("abc"),
            ..WriteCondition::NONE
        };
        assert_eq!(write(&matches, Some(&v)), Ok(()));
        assert_eq!(write(&matches, None), Err(ErrorKind::NotFound));
        let several = WriteCondition {
            if_match: vec![ETagMatch::Is("x".into()), ETagMatch::Is("abc".into())],
            if_none_match: one("x"),
            ..WriteCondition::NONE
        };
        assert_eq!(write(&several, Some(&v)), Ok(()));
        let none_of = WriteCondition {
            if_none_match: several.if_match.clone(),
            ..WriteCondition::NONE
        };
        assert_eq!(write(&none_of, Some(&v)), Err(ErrorKind::Precondition));
        assert_eq!(write(&none_of, None), Ok(()));
        let size = WriteCondition {
            if_size: Some(4),
            ..WriteCondition::NONE
        };
        assert_eq!(write(&size, Some(&v)), Err(ErrorKind::Precondition));
    }
}
