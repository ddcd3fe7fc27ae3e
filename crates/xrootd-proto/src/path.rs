//! Options of a path: `path?name=value&name=value`.

use std::borrow::Cow;

/// Splits a path from its options: `/a/b?oss.asize=1` is `/a/b` and `oss.asize=1`. Further question
/// marks belong to the options, since clients append options without a check.
#[must_use]
pub fn split_cgi(path: &str) -> (&str, Cgi<'_>) {
    match path.split_once('?') {
        Some((path, cgi)) => (path, Cgi(cgi)),
        None => (path, Cgi("")),
    }
}

/// Options of a path: names and values. Nothing is decoded, since the kind of value determines
/// whether it is percent-encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cgi<'a>(pub &'a str);

impl<'a> Cgi<'a> {
    /// The pairs in their order.
    pub fn pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .split(['&', '?'])
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    }

    /// The value of a name; the first value if the name occurs more than once.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.pairs()
            .find(|(its, _)| *its == name)
            .map(|(_, value)| value)
    }

    /// The percent-decoded value of a name; `None` also if that is not text.
    #[must_use]
    pub fn decoded(self, name: &str) -> Option<Cow<'a, str>> {
        let value = self.get(name)?;
        if !value.contains('%') {
            return Some(Cow::Borrowed(value));
        }
        let mut out = Vec::with_capacity(value.len());
        let mut rest = value.as_bytes();
        while let Some((&byte, tail)) = rest.split_first() {
            let digit = |at: usize| tail.get(at).and_then(|digit| (*digit as char).to_digit(16));
            match (byte, digit(0), digit(1)) {
                (b'%', Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    rest = &tail[2..];
                }
                _ => {
                    out.push(byte);
                    rest = tail;
                }
            }
        }
        String::from_utf8(out).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_on_a_path_is_found() {
        let (path, cgi) = split_cgi("/a b?oss.asize=7&x&authz=Bearer%20a.b?tried=h&x=2");
        assert_eq!(path, "/a b");
        assert_eq!(cgi.get("oss.asize"), Some("7"));
        assert_eq!(cgi.get("x"), Some(""));
        assert_eq!(cgi.get("tried"), Some("h"));
        assert_eq!(cgi.decoded("authz").as_deref(), Some("Bearer a.b"));
        assert_eq!(cgi.get("y"), None);
        assert_eq!(split_cgi("/a").1.pairs().count(), 0);
        assert_eq!(Cgi("a=%zz%4").decoded("a").as_deref(), Some("%zz%4"));
        assert_eq!(Cgi("a=%ff").decoded("a"), None);
    }
}
