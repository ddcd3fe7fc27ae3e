//! The path of a request.

use dewar_auth::Caller;
use dewar_sigv4::decode_percent;
use dewar_store::api::ObjectRef;
use dewar_store::file::{PathTarget, canonical_path};
use http::StatusCode;

use crate::error::{DavError, Result};
use crate::xml::push_href;

/// A path, decoded and canonical, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// Without a slash at its end, except for the root itself.
    pub(crate) text: String,
    pub(crate) target: PathTarget,
    /// It ends with a slash, as paths of directories do.
    pub(crate) of_directory: bool,
}

impl ResourcePath {
    /// Reads the path of a URL. It is decoded once, then made canonical.
    ///
    /// # Errors
    /// 400 for broken escapes, for text that is not UTF-8, and for a path above the root; those of
    /// [`PathTarget::parse`].
    pub(crate) fn parse(encoded: &str) -> Result<Self> {
        let decoded = decode_percent(encoded);
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes.into_owned()).ok());
        let malformed = || DavError::new(StatusCode::BAD_REQUEST, "The path is not valid.");
        let decoded = decoded.ok_or_else(malformed)?;
        let text = canonical_path(&decoded).ok_or_else(malformed)?;
        Ok(Self {
            target: PathTarget::parse(&text)?,
            of_directory: decoded.ends_with('/'),
            text,
        })
    }

    /// The same path as a caller sees it: buckets of its own tenant have one name, whether or not the
    /// path names the tenant.
    pub(crate) fn seen_by(mut self, caller: &Caller) -> Self {
        let bucket = match &mut self.target {
            PathTarget::Root => return self,
            PathTarget::Bucket(bucket) => bucket,
            PathTarget::Object(object) => &mut object.bucket,
        };
        if bucket.tenant.as_ref() == Some(&caller.tenant()) {
            bucket.tenant = None;
        }
        self
    }

    /// The file or directory below a bucket.
    pub(crate) fn object(&self) -> Option<&ObjectRef> {
        match &self.target {
            PathTarget::Object(object) => Some(object),
            PathTarget::Root | PathTarget::Bucket(_) => None,
        }
    }

    /// The path above; `None` for the root.
    pub(crate) fn parent(&self) -> Option<&str> {
        let (above, name) = self.text.rsplit_once('/')?;
        match (above, name) {
            (_, "") => None,
            ("", _) => Some("/"),
            (above, _) => Some(above),
        }
    }
}

/// Whether a name has a path: it is not empty, not `.` and not `..`.
pub(crate) fn has_path(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

/// Fuzzes [`ResourcePath::parse`]: no input may panic, and the href of a path must mean the same.
pub fn fuzz_path(data: &[u8]) {
    let Some(path) = std::str::from_utf8(data)
        .ok()
        .and_then(|text| ResourcePath::parse(text).ok())
    else {
        return;
    };
    let mut href = String::new();
    push_href(&mut href, &path.text);
    let again = ResourcePath::parse(&href).map(|again| again.text);
    assert_eq!(again.ok(), Some(path.text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> ResourcePath {
        ResourcePath::parse(path).expect(path)
    }

    #[test]
    fn paths_are_decoded_before_they_become_canonical() {
        assert_eq!(parse("//data//a%20b/./c/").text, "/data/a b/c");
        assert_eq!(parse("/data/x/%2e%2e/y").text, "/data/y");
        assert_eq!(parse("/data/x%2Fy").text, "/data/x/y");
        assert_eq!(parse("/data/a%252F").text, "/data/a%2F");
        assert!(parse("/data/a/").of_directory && !parse("/data/a").of_directory);
        assert_eq!(parse("/").target, PathTarget::Root);
        assert_eq!(parse("/data/a/b").parent(), Some("/data/a"));
        assert_eq!(parse("/data").parent(), Some("/"));
        assert_eq!(parse("/").parent(), None);
        for bad in ["/data/%", "/data/%ff", "/..", "/data/%2e%2e/%2e%2e/x"] {
            let refused = ResourcePath::parse(bad).expect_err(bad);
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{bad}");
        }
        let refused = ResourcePath::parse("/.well-known/x").expect_err("no bucket");
        assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn hrefs_encode_only_what_a_segment_forbids() {
        let mut href = String::new();
        push_href(&mut href, "/data/a b%c#d?e+f:g@h,i;j=k&l'm(n)~ü\"<");
        let expected = "/data/a%20b%25c%23d%3Fe+f:g@h,i;j=k&l'm(n)~%C3%BC%22%3C";
        assert_eq!(href, expected);
    }
}
