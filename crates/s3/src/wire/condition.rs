//! Conditional requests: headers to conditions.

use dewar_store::api::{ETagMatch, IfRange, ReadCondition, WriteCondition};
use http::HeaderMap;
use http::header::IF_RANGE;

use super::{header, parse_http_date};
use crate::error::{Code, Refusal, Result};

/// Entity tags of an If-Match or If-None-Match. Some clients send them without quotes.
fn etags(text: &str) -> Vec<ETagMatch> {
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

fn reading(headers: &HeaderMap, prefix: &str) -> Result<ReadCondition> {
    let get = |name: &str| header(headers, &format!("{prefix}{name}"));
    let tags = |name| Ok::<_, Refusal>(get(name)?.map(etags).unwrap_or_default());
    let date = |name| Ok::<_, Refusal>(get(name)?.and_then(parse_http_date));
    Ok(ReadCondition {
        if_range: None,
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since: date("if-modified-since")?,
        if_unmodified_since: date("if-unmodified-since")?,
    })
}

/// The conditions of a GET or HEAD.
pub(crate) fn read_condition(headers: &HeaderMap) -> Result<ReadCondition> {
    Ok(ReadCondition {
        if_range: header(headers, IF_RANGE.as_str())?.map(if_range),
        ..reading(headers, "")?
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

/// The conditions that a copy puts on its source.
pub(crate) fn copy_source_condition(headers: &HeaderMap) -> Result<ReadCondition> {
    reading(headers, "x-amz-copy-source-")
}

/// The conditions of a write.
///
/// # Errors
/// `NotImplemented` for conditions that S3 does not support on writes.
pub(crate) fn write_condition(headers: &HeaderMap) -> Result<WriteCondition> {
    writing(headers, "")
}

fn writing(headers: &HeaderMap, prefix: &str) -> Result<WriteCondition> {
    let get = |name: &str| header(headers, &format!("{prefix}{name}"));
    let not_here = |what: &str| {
        Refusal::new(
            Code::NotImplemented,
            format!("A header you provided implies functionality that is not implemented: {what}"),
        )
    };
    let one = |name: &str, title: &str| match get(name)?.map(etags) {
        None => Ok(None),
        Some(mut tags) if tags.len() == 1 => Ok(tags.pop()),
        Some(_) => Err(not_here(&format!("{title} with other than one ETag"))),
    };
    Ok(WriteCondition {
        if_none_match: one("if-none-match", "If-None-Match")?,
        if_match: one("if-match", "If-Match")?,
        ..WriteCondition::default()
    })
}

/// The conditions of a rename, on its source or on its target, by the prefix of their names. An
/// ETag takes precedence over the date, as in RFC 9110 section 13.2.2.
///
/// # Errors
/// `InvalidArgument` for a malformed date, because the rename would be unconditional without it.
/// Otherwise as [`write_condition`].
pub(crate) fn rename_condition(headers: &HeaderMap, prefix: &str) -> Result<WriteCondition> {
    let date = |name: &str| {
        let name = format!("{prefix}{name}");
        let text = header(headers, &name)?;
        let date = text.map(|text| parse_http_date(text).ok_or_else(|| broken(&name)));
        date.transpose()
    };
    let condition = writing(headers, prefix)?;
    let none_match = condition.if_none_match.is_some();
    Ok(WriteCondition {
        if_modified_since: date("if-modified-since")?.filter(|_| !none_match),
        if_unmodified_since: date("if-unmodified-since")?.filter(|_| condition.if_match.is_none()),
        ..condition
    })
}

fn broken(name: &str) -> Refusal {
    let message = format!("The value of {name} is not valid.");
    Refusal::new(Code::InvalidArgument, message)
}

/// The conditions of a DELETE.
///
/// # Errors
/// `InvalidArgument` for a malformed date or size: ignoring it would delete too much.
pub(crate) fn delete_condition(headers: &HeaderMap) -> Result<WriteCondition> {
    let mut condition = write_condition(headers)?;
    if condition.if_none_match.is_some() {
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
    fn etags_come_in_many_coats() {
        let is = |text: &str| ETagMatch::Is(text.into());
        assert_eq!(
            etags("\"a\", W/\"b\",c ,*"),
            [is("a"), is("b"), is("c"), ETagMatch::Any]
        );
    }

    #[test]
    fn writes_take_what_s3_takes() {
        let absent = write_condition(&headers(&[("if-none-match", "*")])).expect("valid");
        assert_eq!(absent, WriteCondition::absent());
        let other = write_condition(&headers(&[("if-none-match", "\"a\"")])).expect("valid");
        assert_eq!(other.if_none_match, Some(ETagMatch::Is("a".into())));
        assert!(write_condition(&headers(&[("if-none-match", "\"a\",\"b\"")])).is_err());
        assert!(write_condition(&headers(&[("if-match", "\"a\",\"b\"")])).is_err());
        let one = write_condition(&headers(&[("if-match", "\"a\"")])).expect("valid");
        assert_eq!(one.if_match, Some(ETagMatch::Is("a".into())));
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
