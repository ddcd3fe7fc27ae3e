//! Conditions of a request on the present version of a name (RFC 9110 section 13, S3's conditional
//! writes).

use dewar_catalog::record::VersionRecord;
use dewar_types::{Error, ErrorKind, Timestamp};

/// The entity tags of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETags {
    /// `*`
    Any,
    /// One of these, without quotes.
    OneOf(Vec<String>),
}

impl ETags {
    fn holds(&self, version: &VersionRecord) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.contains(&version.etag()),
        }
    }
}

/// A condition on the current version. Times are compared in whole seconds, as HTTP dates are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The name holds one of these.
    pub if_match: Option<ETags>,
    /// The name holds none of these; [`ETags::Any`]: the name holds nothing.
    pub if_none_match: Option<ETags>,
    /// It changed after this time.
    pub if_modified_since: Option<Timestamp>,
    /// It did not change after this time.
    pub if_unmodified_since: Option<Timestamp>,
    /// It has this many bytes (S3's conditional delete).
    pub if_size: Option<u64>,
    /// It was modified at exactly this time (S3's conditional delete).
    pub if_modified_at: Option<Timestamp>,
}

impl Condition {
    /// No condition.
    pub const NONE: Self = Self {
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        if_size: None,
        if_modified_at: None,
    };

    /// The name holds nothing yet: `If-None-Match: *`.
    #[must_use]
    pub fn absent() -> Self {
        Self {
            if_none_match: Some(ETags::Any),
            ..Self::NONE
        }
    }

    /// Whether there is any condition.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Checks the condition for a change of a name that holds `current`.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] when it does not hold. As in S3, [`ErrorKind::NotFound`] when it
    /// requires a certain version and there is none.
    pub fn check_write(&self, path: &str, current: Option<&VersionRecord>) -> Result<(), Error> {
        let Some(version) = current else {
            let wants_one = self.if_match.is_some()
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
        let failed = if self
            .if_match
            .as_ref()
            .is_some_and(|tags| !tags.holds(version))
        {
            "If-Match"
        } else if self
            .if_none_match
            .as_ref()
            .is_some_and(|tags| tags.holds(version))
        {
            "If-None-Match"
        } else if self.if_match.is_none() && self.if_unmodified_since.as_ref().is_some_and(since) {
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

    /// Checks the condition for a read of `version`, in the order of RFC 9110 section 13.2.2.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] or [`ErrorKind::NotModified`].
    pub fn check_read(&self, path: &str, version: &VersionRecord) -> Result<(), Error> {
        let since = |time: &Timestamp| version.modified.secs() > time.secs();
        match &self.if_match {
            Some(tags) if !tags.holds(version) => return Err(unmet(path, "If-Match")),
            Some(_) => {}
            None if self.if_unmodified_since.as_ref().is_some_and(since) => {
                return Err(unmet(path, "If-Unmodified-Since"));
            }
            None => {}
        }
        let current = match &self.if_none_match {
            Some(tags) => tags.holds(version),
            None => self
                .if_modified_since
                .as_ref()
                .is_some_and(|time| !since(time)),
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
        self.check_read(path, version)
            .map_err(|error| Error::new(ErrorKind::Precondition, error.message().to_owned()))
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
        VersionRecord {
            id: VersionId(1),
            size: 3,
            etag: ETag::Text("abc".into()),
            modified: Timestamp(5_700_000_000),
            digests: dewar_checksum::DigestSet::new(1, 0),
            flags: Default::default(),
            headers: Default::default(),
            metadata: Default::default(),
            copies: Vec::new(),
            parts: None,
            upload: None,
            storage_class: None,
            encryption: None,
            checksum: None,
            tags: Default::default(),
            retention: None,
            legal_hold: None,
            acl: None,
            owner: None,
            group: None,
        }
    }

    fn one(tag: &str) -> Option<ETags> {
        Some(ETags::OneOf(vec![tag.into()]))
    }

    #[test]
    fn reads_follow_rfc_9110() {
        let v = version();
        let read = |c: Condition| c.check_read("/b/k", &v).map_err(|e| e.kind());
        let at = |s| Some(Timestamp::from_secs(s));
        assert_eq!(read(Condition::NONE), Ok(()));
        assert_eq!(
            read(Condition {
                if_match: one("abc"),
                if_unmodified_since: at(1),
                ..Condition::NONE
            }),
            Ok(())
        );
        assert_eq!(
            read(Condition {
                if_match: one("x"),
                ..Condition::NONE
            }),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(
            read(Condition {
                if_unmodified_since: at(4),
                ..Condition::NONE
            }),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(
            read(Condition {
                if_unmodified_since: at(5),
                ..Condition::NONE
            }),
            Ok(())
        );
        assert_eq!(
            read(Condition {
                if_none_match: one("abc"),
                ..Condition::NONE
            }),
            Err(ErrorKind::NotModified)
        );
        assert_eq!(
            read(Condition {
                if_none_match: one("x"),
                if_modified_since: at(9),
                ..Condition::NONE
            }),
            Ok(())
        );
        assert_eq!(
            read(Condition {
                if_modified_since: at(5),
                ..Condition::NONE
            }),
            Err(ErrorKind::NotModified)
        );
        assert_eq!(
            read(Condition {
                if_modified_since: at(4),
                ..Condition::NONE
            }),
            Ok(())
        );
    }

    #[test]
    fn writes_follow_s3() {
        let v = version();
        let write = |c: &Condition, v: Option<&VersionRecord>| {
            c.check_write("/b/k", v).map_err(|e| e.kind())
        };
        assert_eq!(
            write(&Condition::absent(), Some(&v)),
            Err(ErrorKind::Precondition)
        );
        assert_eq!(write(&Condition::absent(), None), Ok(()));
        let matches = Condition {
            if_match: one("abc"),
            ..Condition::NONE
        };
        assert_eq!(write(&matches, Some(&v)), Ok(()));
        assert_eq!(write(&matches, None), Err(ErrorKind::NotFound));
        let size = Condition {
            if_size: Some(4),
            ..Condition::NONE
        };
        assert_eq!(write(&size, Some(&v)), Err(ErrorKind::Precondition));
    }
}
