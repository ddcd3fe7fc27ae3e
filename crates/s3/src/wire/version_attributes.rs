//! Tags, retention, holds and version ids in headers.

use std::collections::BTreeMap;

use dewar_http_front::{header, http_date, iso_date, parse_iso_date, value_of};
use dewar_sigv4::{decode_percent, encode_strict};
use dewar_store::api::check_tags;
use dewar_store::api::{ObjectInfo, Retention, RetentionMode, VersionAttributes};
use dewar_store::limits::TAGS_PER_OBJECT_MAX;
use dewar_types::VersionName;
use http::{HeaderMap, HeaderValue};

use crate::error::{Code, Refusal, Result};

const TAGGING: &str = "x-amz-tagging";
const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const HOLD: &str = "x-amz-object-lock-legal-hold";

/// The tags, retention, legal hold and storage class that a client sets on a version, from its
/// headers.
///
/// # Errors
/// `InvalidTag`, `InvalidArgument`.
pub(crate) fn settings_of(headers: &HeaderMap) -> Result<VersionAttributes> {
    Ok(VersionAttributes {
        tags: header(headers, TAGGING)?.map(tags_of_query).transpose()?,
        retention: retention_of(headers)?,
        legal_hold: header(headers, HOLD)?.map(legal_hold_of).transpose()?,
        storage_class: header(headers, "x-amz-storage-class")?
            .filter(|class| *class != "STANDARD")
            .map(str::to_owned),
        ..VersionAttributes::default()
    })
}

/// Parses tags in the form of a query string.
///
/// # Errors
/// `InvalidTag` for a duplicate, and for tags beyond the limits.
fn tags_of_query(text: &str) -> Result<BTreeMap<String, String>> {
    let refuse = || {
        let message = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL \
                       query parameters without tag name duplicates.";
        Refusal::new(Code::InvalidArgument, message)
    };
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        let bytes = decode_percent(&spaced).map(std::borrow::Cow::into_owned);
        bytes.and_then(|bytes| String::from_utf8(bytes).ok())
    };
    let mut tags = BTreeMap::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (key, value) = decoded(key).zip(decoded(value)).ok_or_else(refuse)?;
        if tags.insert(key, value).is_some() {
            return Err(refuse());
        }
    }
    let checked = check_tags(&tags, TAGS_PER_OBJECT_MAX);
    checked.map_err(|error| Refusal::new(Code::InvalidTag, error.message().to_owned()))?;
    Ok(tags)
}

fn retention_of(headers: &HeaderMap) -> Result<Option<Retention>> {
    let refuse = |message| Refusal::new(Code::InvalidArgument, message);
    match (header(headers, MODE)?, header(headers, UNTIL)?) {
        (None, None) => Ok(None),
        (Some(mode), Some(until)) => {
            let mode = mode_named(mode).ok_or_else(|| refuse("Unknown wormMode directive."))?;
            let until = parse_iso_date(until).ok_or_else(|| {
                refuse("The retain until date must be provided in ISO 8601 format")
            })?;
            Ok(Some(Retention { mode, until }))
        }
        _ => Err(refuse(
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied",
        )),
    }
}

/// A legal hold as S3 writes it.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn legal_hold_of(text: &str) -> Result<bool> {
    match text {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        _ => Err(Refusal::new(
            Code::InvalidArgument,
            "Legal Hold must be either of 'ON' or 'OFF'",
        )),
    }
}

/// A mode as S3 writes it.
pub(crate) fn mode_named(text: &str) -> Option<RetentionMode> {
    match text {
        "GOVERNANCE" => Some(RetentionMode::Governance),
        "COMPLIANCE" => Some(RetentionMode::Compliance),
        _ => None,
    }
}

/// S3's name of a mode.
pub(crate) fn mode_name(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => "GOVERNANCE",
        RetentionMode::Compliance => "COMPLIANCE",
    }
}

/// Headers about a version's tags, retention and legal hold, for its readers.
pub(super) fn version_attribute_headers(headers: &mut HeaderMap, info: &ObjectInfo) {
    if let Some(name) = info.name {
        headers.insert("x-amz-version-id", value_of(&name.to_string()));
    }
    expiration_header(headers, info);
    let attributes = &info.attributes;
    let tags = attributes.tags.as_ref().map_or(0, BTreeMap::len);
    if tags > 0 {
        headers.insert("x-amz-tagging-count", HeaderValue::from(tags));
    }
    if let Some(class) = &attributes.storage_class {
        headers.insert("x-amz-storage-class", value_of(class));
    }
    if let Some(retention) = attributes.retention {
        let mode = HeaderValue::from_static(mode_name(retention.mode));
        headers.insert(MODE, mode);
        headers.insert(UNTIL, value_of(&iso_date(retention.until)));
    }
    if let Some(hold) = attributes.legal_hold {
        let text = if hold { "ON" } else { "OFF" };
        headers.insert(HOLD, HeaderValue::from_static(text));
    }
}

/// Headers about a new version: its id, if it has its own, and its expiry.
pub(crate) fn version_headers(headers: &mut HeaderMap, info: &ObjectInfo) {
    if let Some(name @ VersionName::Id(_)) = info.name {
        headers.insert("x-amz-version-id", value_of(&name.to_string()));
    }
    expiration_header(headers, info);
}

/// When an upload in parts is given up, and by which rule.
pub(crate) fn abort_headers(
    headers: &mut HeaderMap,
    abort: Option<&dewar_store::lifecycle::Expiry>,
) {
    let Some(abort) = abort else {
        return;
    };
    headers.insert("x-amz-abort-date", value_of(&http_date(abort.when)));
    headers.insert("x-amz-abort-rule-id", value_of(&abort.rule));
}

fn expiration_header(headers: &mut HeaderMap, info: &ObjectInfo) {
    let Some(expiry) = &info.expiry else {
        return;
    };
    let mut rule = String::new();
    encode_strict(&mut rule, expiry.rule.as_bytes());
    let date = http_date(expiry.when);
    let text = format!("expiry-date=\"{date}\", rule-id=\"{rule}\"");
    headers.insert("x-amz-expiration", value_of(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_query_strings_are() {
        let tags = tags_of_query("foo=bar&empty&a+b=%C3%A9%3D&c=").expect("valid");
        let pairs: Vec<_> = tags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [("a b", "\u{e9}="), ("c", ""), ("empty", ""), ("foo", "bar")]
        );
        for bad in ["a=1&a=2", "%zz=1", "=value", "%ff=1"] {
            assert!(tags_of_query(bad).is_err(), "{bad}");
        }
        let many: Vec<_> = (0..11).map(|n| format!("k{n}=v")).collect();
        let refused = tags_of_query(&many.join("&")).expect_err("too many");
        assert_eq!(refused.code(), Code::InvalidTag);
    }
}
