//! One page of ListObjectsV2.

use super::{Request, S3Client, S3Error, broken, xml};
use crate::http::Sink;

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// Keys on it.
    pub keys: u64,
    /// Its first and last key, unless it is empty.
    pub ends: Option<(String, String)>,
    /// The continuation token of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl S3Client {
    /// Lists up to `keys_max` keys that begin with `prefix`, starting at a page's `next`.
    ///
    /// # Errors
    /// If the server refuses, no answer comes, or the page has more keys than requested.
    pub fn list(
        &mut self,
        prefix: &str,
        keys_max: u32,
        from: Option<&str>,
    ) -> Result<KeyPage, S3Error> {
        let verb = "list";
        let keys_max_text = keys_max.to_string();
        let mut query = Vec::with_capacity(4);
        if let Some(from) = from {
            query.push(("continuation-token", from));
        }
        query.extend([
            ("list-type", "2"),
            ("max-keys", &*keys_max_text),
            ("prefix", prefix),
        ]);
        let request = Request {
            verb,
            method: "GET",
            key: None,
            query: &query,
            range: None,
            body: None,
        };
        let mut document = Vec::new();
        self.perform(&request, &mut Sink::Collect(&mut document))?;
        let document =
            std::str::from_utf8(&document).map_err(|_| broken(verb, "answer is not UTF-8"))?;
        let (keys, ends) = xml::count(document, "Key");
        if keys > u64::from(keys_max) {
            return Err(broken(
                verb,
                format!("{keys} keys in place of at most {keys_max}"),
            ));
        }
        let truncated = match xml::text(document, "IsTruncated").as_deref() {
            Some("true") => true,
            Some("false") => false,
            _ => return Err(broken(verb, "answer does not say whether it is truncated")),
        };
        let next = xml::text(document, "NextContinuationToken").filter(|_| truncated);
        if truncated && next.is_none() {
            return Err(broken(verb, "truncated without a continuation token"));
        }
        let ends = ends.map(|(first, last)| (xml::unescape(first), xml::unescape(last)));
        Ok(KeyPage { keys, ends, next })
    }
}
