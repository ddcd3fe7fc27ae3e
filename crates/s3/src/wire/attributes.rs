//! Attributes of objects: system headers, user metadata and settings.

use std::collections::BTreeMap;

use dewar_http_front::{header, http_date, quoted, value_of};
use dewar_store::api::{ObjectInfo, SystemHeaders, VersionAttributes};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::settings_of;
use crate::error::{Code, Refusal, Result};
use crate::limits::{SYSTEM_METADATA_BYTES_MAX, USER_METADATA_BYTES_MAX};
use crate::payload::strip_aws_chunked;

const META_PREFIX: &str = "x-amz-meta-";

/// The attributes that a client stores with an object, from its headers.
///
/// # Errors
/// `MetadataTooLarge`, `InvalidArgument` for a header that is not text; as [`settings_of`].
pub(crate) fn version_attributes_of(headers: &HeaderMap) -> Result<VersionAttributes> {
    let mut metadata = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(META_PREFIX) else {
            continue;
        };
        let mut values = Vec::new();
        for value in headers.get_all(name) {
            let text = std::str::from_utf8(value.as_bytes()).map_err(|_| {
                let message = format!("The value of {name} is not UTF-8.");
                Refusal::new(Code::InvalidArgument, message)
            })?;
            values.push(text.trim());
        }
        metadata.insert(key.to_owned(), values.join(","));
    }
    let system =
        |name: HeaderName| Ok::<_, Refusal>(header(headers, name.as_str())?.map(str::to_owned));
    let encoding = system(CONTENT_ENCODING)?;
    let system = SystemHeaders {
        content_type: system(CONTENT_TYPE)?,
        cache_control: system(CACHE_CONTROL)?,
        content_disposition: system(CONTENT_DISPOSITION)?,
        content_encoding: encoding.as_deref().and_then(strip_aws_chunked),
        content_language: system(CONTENT_LANGUAGE)?,
        expires: system(EXPIRES)?,
        redirect: None,
    };
    let user: usize = metadata.iter().map(|(k, v)| k.len() + v.len()).sum();
    if user > USER_METADATA_BYTES_MAX || system.bytes() > SYSTEM_METADATA_BYTES_MAX {
        let message = "Your metadata headers exceed the maximum allowed metadata size";
        return Err(Refusal::new(Code::MetadataTooLarge, message)
            .element("Size", user.to_string())
            .element("MaxSizeAllowed", USER_METADATA_BYTES_MAX.to_string()));
    }
    Ok(VersionAttributes {
        headers: system,
        metadata,
        ..settings_of(headers)?
    })
}

/// The headers that describe an object to its readers.
pub(crate) fn object_headers(info: &ObjectInfo) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(ETAG, quoted(&info.etag));
    headers.insert(LAST_MODIFIED, value_of(&http_date(info.modified)));
    let kept = &info.attributes.headers;
    let content_type = kept.content_type.as_deref();
    headers.insert(
        CONTENT_TYPE,
        value_of(content_type.unwrap_or("binary/octet-stream")),
    );
    for (name, text) in [
        (CACHE_CONTROL, &kept.cache_control),
        (CONTENT_DISPOSITION, &kept.content_disposition),
        (CONTENT_ENCODING, &kept.content_encoding),
        (CONTENT_LANGUAGE, &kept.content_language),
        (EXPIRES, &kept.expires),
    ] {
        if let Some(text) = text {
            headers.insert(name, value_of(text));
        }
    }
    for (key, text) in &info.attributes.metadata {
        if let Ok(name) = HeaderName::try_from(format!("{META_PREFIX}{key}")) {
            headers.insert(name, value_of(text));
        }
    }
    super::version_attributes::version_attribute_headers(&mut headers, info);
    headers
}
