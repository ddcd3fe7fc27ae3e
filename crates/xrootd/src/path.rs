//! Canonical form of paths from the wire, made once, before any other step.
//!
//! Several slashes in a row count as one, `.` as nothing, and `..` goes up, never above the root. A
//! path that does not begin with a slash means the same as one that does: clients send either for
//! `root://host/x`. Keys that S3 made with empty segments, `.` or `..` can therefore not be named
//! here. The same holds for keys with control characters, which would end the lines of listings.

use dewar_store::api::ObjectRef;
pub(crate) use dewar_store::file::PathTarget;
use dewar_store::file::canonical_path as canonical;
use dewar_types::ErrorKind;
use dewar_xrootd_proto::{Cgi, ErrorCode, split_cgi};

use crate::error::{ErrorReply, VerbResult};

/// A path as it was sent, and what it means.
#[derive(Clone, Debug)]
pub(crate) struct WirePath {
    /// Canonical, for messages.
    pub(crate) shown: String,
    pub(crate) place: PathTarget,
    cgi: String,
    /// It ends with a slash, as paths of directories do.
    pub(crate) of_directory: bool,
}

/// Puts one beginning of paths in place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    from: String,
    to: String,
}

impl Translation {
    /// Parses `FROM=TO`, both absolute: `/store=/cms/store`.
    #[must_use]
    pub fn parse(rule: &str) -> Option<Self> {
        let (from, to) = rule.split_once('=')?;
        let canonical = |path: &str| path.starts_with('/').then(|| canonical(path)).flatten();
        Some(Self {
            from: canonical(from.trim())?,
            to: canonical(to.trim())?,
        })
    }

    /// The path with its beginning exchanged, where that is ours up to a slash.
    fn apply(&self, path: &str) -> Option<String> {
        let rest = match self.from.as_str() {
            "/" => path,
            from => path.strip_prefix(from)?,
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let joined = match self.to.as_str() {
            "/" => rest.to_owned(),
            to if rest == "/" => to.to_owned(),
            to => format!("{to}{rest}"),
        };
        Some(if joined.is_empty() {
            "/".to_owned()
        } else {
            joined
        })
    }
}

impl WirePath {
    /// # Errors
    /// 3010 for what leads above the root, 3000 for what can be no name.
    pub(crate) fn parse(sent: &str, translations: &[Translation]) -> VerbResult<Self> {
        let (path, cgi) = split_cgi(sent);
        let not_allowed = || {
            let message = format!("The path '{path}' leads above the root and is disallowed.");
            ErrorReply::new(ErrorCode::NotAuthorized, message)
        };
        if path.contains(|letter: char| letter.is_ascii_control()) {
            let message = format!("{}: control characters", path.escape_debug());
            return Err(ErrorReply::new(ErrorCode::ArgInvalid, message));
        }
        let shown = canonical(path).ok_or_else(not_allowed)?;
        // The longest beginning decides, whatever their order.
        let matching = translations
            .iter()
            .filter_map(|rule| Some((rule.from.len(), rule.apply(&shown)?)));
        let inner = matching.max_by_key(|(len, _)| *len);
        let place = place(inner.as_ref().map_or(&shown, |(_, path)| path))?;
        Ok(Self {
            shown,
            place,
            cgi: cgi.0.to_owned(),
            of_directory: path.ends_with('/'),
        })
    }

    /// What hangs on it.
    pub(crate) fn cgi(&self) -> Cgi<'_> {
        Cgi(&self.cgi)
    }

    /// The object it means.
    ///
    /// # Errors
    /// 3016 for the root and for buckets.
    pub(crate) fn object(&self, doing: &str) -> VerbResult<&ObjectRef> {
        match &self.place {
            PathTarget::Object(object) => Ok(object),
            PathTarget::Root | PathTarget::Bucket(_) => {
                let message = format!("Unable to {doing} {}; is a directory", self.shown);
                Err(ErrorReply::new(ErrorCode::IsDirectory, message))
            }
        }
    }
}

/// The target of a canonical path.
fn place(path: &str) -> VerbResult<PathTarget> {
    PathTarget::parse(path).map_err(|error| {
        let code = match error.kind() {
            ErrorKind::NotFound => ErrorCode::NotFound,
            _ => ErrorCode::ArgInvalid,
        };
        ErrorReply::new(code, error.message())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, PathTarget) {
        let path = WirePath::parse(path, &[]).expect("a path");
        (path.shown, path.place)
    }

    #[test]
    fn paths_become_canonical() {
        for path in [
            "//data//x///y/",
            "/data/x/y",
            "data/./x/y",
            "/data/z/../x/y?a=/b//c",
        ] {
            let (shown, place) = parsed(path);
            assert_eq!(shown, "/data/x/y");
            let PathTarget::Object(object) = place else {
                panic!("{place:?}");
            };
            assert_eq!(
                (object.bucket.name.as_str(), object.key.as_str()),
                ("data", "x/y")
            );
        }
        assert_eq!(parsed("/").1, PathTarget::Root);
        assert_eq!(parsed("//").1, PathTarget::Root);
        assert!(matches!(parsed("/data/").1, PathTarget::Bucket(_)));
        let PathTarget::Bucket(bucket) = parsed("/@atlas/data").1 else {
            panic!("no bucket");
        };
        assert_eq!(bucket.tenant.expect("named").as_str(), "atlas");
        for above in ["..", "/../etc", "/data/../../x", "a/../.."] {
            let refused = WirePath::parse(above, &[]).expect_err("above");
            assert_eq!(refused.code, ErrorCode::NotAuthorized);
        }
        assert_eq!(
            WirePath::parse("/X_/y", &[]).expect_err("no bucket").code,
            ErrorCode::NotFound
        );
        for lines in ["/data/a\nb", "/data/a\r", "/data/\u{7f}/x"] {
            let refused = WirePath::parse(lines, &[]).expect_err("a line break");
            assert_eq!(refused.code, ErrorCode::ArgInvalid);
        }
    }

    #[test]
    fn beginnings_are_exchanged_at_slashes_only() {
        let rules: Vec<Translation> = ["/store=/cms/store", "/store/temp=/scratch", "/eos=/"]
            .iter()
            .map(|rule| Translation::parse(rule).expect("a rule"))
            .collect();
        let leads = |path: &str| match WirePath::parse(path, &rules).expect("a path").place {
            PathTarget::Root => "/".to_owned(),
            PathTarget::Bucket(bucket) => format!("/{}", bucket.name),
            PathTarget::Object(object) => format!("/{}/{}", object.bucket.name, object.key),
        };
        assert_eq!(leads("//store//a"), "/cms/store/a");
        assert_eq!(leads("/store"), "/cms/store");
        assert_eq!(leads("/store/temp/a"), "/scratch/a");
        assert_eq!(leads("/store/temp/../a"), "/cms/store/a");
        assert_eq!(leads("/stores/a"), "/stores/a");
        assert_eq!(leads("/eos/data/a"), "/data/a");
        assert_eq!(leads("/eos"), "/");
        assert!(Translation::parse("store=/x").is_none() && Translation::parse("/store").is_none());
    }
}
