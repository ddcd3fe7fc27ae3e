//! Conditional requests (RFC 9110 section 13): headers to conditions.

use dewar_store::api::{ETagMatch, IfRange, ReadCondition, WriteCondition};
use http::HeaderMap;
use http::header::IF_RANGE;

use crate::{RequestError, Result, header, parse_http_date};

/// Entity tags of an If-Match or If-None-Match. Some clients send them without quotes.
#[must_use]
pub fn etags(text: &str) -> Vec<ETagMatch> {
    text.split(',').filter_map(etag).collect()
}

fn etag(text: &str) -> Option<ETagMatch> {
    let text = text.trim();
    let text = text.strip_prefix("W/").unwrap_or(text);
    match text {
        "" => None,
        "*" => Some(ETagMatch::Any),
        text => Some(ETagMatch::Is(text.trim_matches('"').to_owned())),
    }
}

/// The conditions of a read in headers whose names have a prefix.
///
/// # Errors
/// [`RequestError::Header`].
pub fn read_condition_of(headers: &HeaderMap, prefix: &str) -> Result<ReadCondition> {
    let get = |name: &str| header(headers, &format!("{prefix}{name}"));
    let tags = |name| Ok::<_, RequestError>(get(name)?.map(etags).unwrap_or_default());
    let date = |name| Ok::<_, RequestError>(get(name)?.and_then(parse_http_date));
    Ok(ReadCondition {
        if_range: None,
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since: date("if-modified-since")?,
        if_unmodified_since: date("if-unmodified-since")?,
    })
}

/// The conditions of a GET or HEAD.
///
/// # Errors
/// [`RequestError::Header`].
pub fn read_condition(headers: &HeaderMap) -> Result<ReadCondition> {
    Ok(ReadCondition {
        if_range: header(headers, IF_RANGE.as_str())?.map(if_range),
        ..read_condition_of(headers, "")?
    })
}

/// The value of an If-Range. A weak ETag keeps its `W/` here, and so never matches.
fn if_range(text: &str) -> IfRange {
    let text = text.trim();
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    match (quoted, parse_http_date(text)) {
        (Some(etag), _) => IfRange::Is(etag.to_owned()),
        (None, Some(date)) => IfRange::ModifiedAt(date),
        (None, None) => IfRange::Is(text.to_owned()),
    }
}

/// The conditions of a write.
///
/// # Errors
/// [`RequestError::SeveralETags`] and [`RequestError::Header`].
pub fn write_condition(headers: &HeaderMap) -> Result<WriteCondition> {
    write_condition_of(headers, "")
}

/// The conditions of a write in headers whose names have a prefix.
///
/// # Errors
/// As [`write_condition`].
pub fn write_condition_of(headers: &HeaderMap, prefix: &str) -> Result<WriteCondition> {
    let get = |name: &str| header(headers, &format!("{prefix}{name}"));
    let one = |name: &str, title| match get(name)?.map(etags) {
        None => Ok(None),
        Some(mut tags) if tags.len() == 1 => Ok(tags.pop()),
        Some(_) => Err(RequestError::SeveralETags(title)),
    };
    Ok(WriteCondition {
        if_none_match: one("if-none-match", "If-None-Match")?,
        if_match: one("if-match", "If-Match")?,
        ..WriteCondition::default()
    })
}

/// The same with dates. An ETag takes precedence over the date, as in RFC 9110 section 13.2.2.
///
/// # Errors
/// [`RequestError::Value`] for a malformed date, because the write would be unconditional without
/// it. Otherwise as [`write_condition`].
pub fn write_condition_at(headers: &HeaderMap, prefix: &str) -> Result<WriteCondition> {
    let date = |name: &str| {
        let name = format!("{prefix}{name}");
        let date = header(headers, &name)?.map(parse_http_date);
        match date {
            Some(None) => Err(RequestError::Value(name)),
            date => Ok(date.flatten()),
        }
    };
    let condition = write_condition_of(headers, prefix)?;
    let none_match = condition.if_none_match.is_some();
    Ok(WriteCondition {
        if_modified_since: date("if-modified-since")?.filter(|_| !none_match),
        if_unmodified_since: date("if-unmodified-since")?.filter(|_| condition.if_match.is_none()),
        ..condition
    })
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
    fn etags_come_in_many_coats() {
        let is = |text: &str| ETagMatch::Is(text.into());
        assert_eq!(
            etags("\"a\", W/\"b\",c ,*"),
            [is("a"), is("b"), is("c"), ETagMatch::Any]
        );
    }

    #[test]
    fn a_write_takes_one_etag() {
        let absent = write_condition(&headers(&[("if-none-match", "*")])).expect("valid");
        assert_eq!(absent, WriteCondition::absent());
        let other = write_condition(&headers(&[("if-none-match", "\"a\"")])).expect("valid");
        assert_eq!(other.if_none_match, Some(ETagMatch::Is("a".into())));
        assert!(write_condition(&headers(&[("if-none-match", "\"a\",\"b\"")])).is_err());
        assert!(write_condition(&headers(&[("if-match", "\"a\",\"b\"")])).is_err());
        let one = write_condition(&headers(&[("if-match", "\"a\"")])).expect("valid");
        assert_eq!(one.if_match, Some(ETagMatch::Is("a".into())));
    }
}
