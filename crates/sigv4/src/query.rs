//! A query string, decoded once.

use crate::encode::{decode_query, encode_strict};
use crate::limits::QUERY_PARAMETERS_MAX;
use crate::{Error, Result};

/// The parameter that holds the signature of a presigned URL, the one that is not signed.
pub const SIGNATURE_PARAMETER: &str = "X-Amz-Signature";

/// The decoded parameters of a query string in their order, without duplicate names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses a query string without its `?`.
    ///
    /// # Errors
    /// [`Error::Uri`], [`Error::TooManyParameters`], [`Error::DuplicateParameter`].
    pub fn parse(query: Option<&str>) -> Result<Self> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let parts = query.unwrap_or_default().split('&');
        for part in parts.filter(|part| !part.is_empty()) {
            if pairs.len() == QUERY_PARAMETERS_MAX {
                return Err(Error::TooManyParameters);
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let text = |raw: &str| {
                let bytes = decode_query(raw)?.into_owned();
                String::from_utf8(bytes).ok()
            };
            let (Some(name), Some(value)) = (text(name), text(value)) else {
                return Err(Error::Uri);
            };
            if pairs.iter().any(|(there, _)| *there == name) {
                return Err(Error::DuplicateParameter(name));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// The value of a parameter; empty for one without `=`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(there, _)| there == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The parameters in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Appends the canonical query string: encoded strictly, sorted by encoded name, without the
    /// signature itself.
    pub(crate) fn push_canonical(&self, out: &mut String) {
        let encoded = |text: &str| {
            let mut out = String::with_capacity(text.len() + 16);
            encode_strict(&mut out, text.as_bytes());
            out
        };
        let kept = self.iter().filter(|(name, _)| *name != SIGNATURE_PARAMETER);
        let mut pairs: Vec<_> = kept.map(|(n, v)| (encoded(n), encoded(v))).collect();
        pairs.sort_unstable();
        for (i, (name, value)) in pairs.iter().enumerate() {
            if i > 0 {
                out.push('&');
            }
            out.push_str(name);
            out.push('=');
            out.push_str(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(query: &str) -> String {
        let mut out = String::new();
        let query = Query::parse(Some(query)).expect("valid");
        query.push_canonical(&mut out);
        out
    }

    #[test]
    fn sorts_and_encodes_anew() {
        assert_eq!(canonical("prefix=J&max-keys=2"), "max-keys=2&prefix=J");
        assert_eq!(canonical("lifecycle"), "lifecycle=");
        assert_eq!(canonical("b=a+b&a=%7e%2F&&B="), "B=&a=~%2F&b=a%20b");
        assert_eq!(canonical("X-Amz-Signature=1&z=x=y"), "z=x%3Dy");
        assert_eq!(canonical(""), "");
    }

    #[test]
    fn refuses_what_could_be_read_two_ways() {
        let error = |query: &str| Query::parse(Some(query)).expect_err(query);
        let twice = || Error::DuplicateParameter("a".into());
        assert_eq!(error("a=1&a=2"), twice());
        assert_eq!(error("a=1&%61=2"), twice());
        assert_eq!(error("a=%ff"), Error::Uri);
        assert_eq!(error("a=%f"), Error::Uri);
        let many: Vec<_> = (0..=QUERY_PARAMETERS_MAX)
            .map(|i| format!("p{i}"))
            .collect();
        assert_eq!(error(&many.join("&")), Error::TooManyParameters);
    }
}
