//! Conditional requests (RFC 9110 section 13): headers to conditions.

use dewar_store::api::{ETagMatch, IfRange, ReadCondition, WriteCondition};
use http::HeaderMap;
use http::header::IF_RANGE;

use crate::{RequestError, Result, header, parse_http_date};

/// Entity tags of an If-None-Match, which compares weakly. Some clients send them without quotes.
#[must_use]
pub fn etags(text: &str) -> Vec<ETagMatch> {
    let strong = |text: &str| etag(text.trim().trim_start_matches("W/"));
    text.split(',').filter_map(strong).collect()
}

/// Entity tags of an If-Match, which compares strongly: a weak one keeps its `W/` and matches nothing.
fn strong_etags(text: &str) -> Vec<ETagMatch> {
    text.split(',').filter_map(etag).collect()
}

fn etag(text: &str) -> Option<ETagMatch> {
    let text = text.trim();
    if text.starts_with("W/") {
        return Some(ETagMatch::Is(text.to_owned()));
    }
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
    let tags = |name, parse: fn(&str) -> Vec<ETagMatch>| {
        Ok::<_, RequestError>(get(name)?.map(parse).unwrap_or_default())
    };
    let date = |name| Ok::<_, RequestError>(get(name)?.and_then(parse_http_date));
    Ok(ReadCondition {
        if_range: None,
        if_match: tags("if-match", strong_etags)?,
        if_none_match: tags("if-none-match", etags)?,
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
/// [`RequestError::Header`]; [`RequestError::Value`] for a header without an entity tag, because the
/// write would be unconditional without it.
pub fn write_condition(headers: &HeaderMap) -> Result<WriteCondition> {
    write_condition_of(headers, "")
}

/// The conditions of a write in headers whose names have a prefix.
///
/// # Errors
/// As [`write_condition`].
pub fn write_condition_of(headers: &HeaderMap, prefix: &str) -> Result<WriteCondition> {
    let get = |name: &str| header(headers, &format!("{prefix}{name}"));
    let tags = |name: &str, parse: fn(&str) -> Vec<ETagMatch>| match get(name)?.map(parse) {
        None => Ok(Vec::new()),
        Some(tags) if tags.is_empty() => Err(RequestError::Value(format!("{prefix}{name}"))),
        Some(tags) => Ok(tags),
    };
    Ok(WriteCondition {
        if_none_match: tags("if-none-match", etags)?,
        if_match: tags("if-match", strong_etags)?,
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
    let none_match = !condition.if_none_match.is_empty();
    Ok(WriteCondition {
        if_modified_since: date("if-modified-since")?.filter(|_| !none_match),
        if_unmodified_since: date("if-unmodified-since")?.filter(|_| condition.if_match.is_empty()),
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
    fn a_write_takes_lists_of_etags() {
        let is = |text: &str| ETagMatch::Is(text.into());
        let absent = write_condition(&headers(&[("if-none-match", "*")])).expect("valid");
        assert_eq!(absent, WriteCondition::absent());
        let other = write_condition(&headers(&[("if-none-match", "\"a\", W/\"b\"")]));
        assert_eq!(other.expect("valid").if_none_match, [is("a"), is("b")]);
        // A weak one equals nothing, as If-Match compares strongly.
        let one = write_condition(&headers(&[("if-match", "\"a\",W/\"b\"")]));
        assert_eq!(one.expect("valid").if_match, [is("a"), is("W/\"b\"")]);
        for name in ["if-match", "if-none-match"] {
            assert!(write_condition(&headers(&[(name, " , ")])).is_err());
        }
    }
}
