//! The conditions that only S3 has.

use dewar_http_front::{RequestError, header, parse_http_date, write_condition};
use dewar_store::api::WriteCondition;
use http::HeaderMap;

use crate::error::{Refusal, Result};

fn broken(name: &str) -> Refusal {
    RequestError::Value(name.to_owned()).into()
}

/// The conditions of a DELETE.
///
/// # Errors
/// `InvalidArgument` for a malformed date or size: ignoring it would delete too much.
pub(crate) fn delete_condition(headers: &HeaderMap) -> Result<WriteCondition> {
    let mut condition = write_condition(headers)?;
    if !condition.if_none_match.is_empty() {
        return Err(broken("If-None-Match"));
    }
    let name = "x-amz-if-match-last-modified-time";
    if let Some(text) = header(headers, name)? {
        let date = parse_http_date(text).ok_or_else(|| broken(name))?;
        condition.if_modified_at = Some(date);
    }
    let name = "x-amz-if-match-size";
    if let Some(text) = header(headers, name)? {
        condition.if_size = Some(text.parse().map_err(|_| broken(name))?);
    }
    Ok(condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, value.parse().expect("a value"))
        });
        pairs.collect()
    }

    #[test]
    fn a_broken_condition_never_deletes() {
        assert!(delete_condition(&headers(&[("x-amz-if-match-size", "many")])).is_err());
        let name = "x-amz-if-match-last-modified-time";
        assert!(delete_condition(&headers(&[(name, "today")])).is_err());
        let size = delete_condition(&headers(&[("x-amz-if-match-size", "5")])).expect("valid");
        assert_eq!(size.if_size, Some(5));
    }
}
