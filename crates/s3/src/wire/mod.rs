//! S3's headers and XML, read and written: attributes, conditions, checksums, dates.

mod acl;
mod attributes;
mod checksum;
mod condition;
mod date;
mod encryption;
mod source;
mod unsupported;
mod version_attributes;

pub(crate) use acl::{acl_document, acl_elements, acl_of, ownership_named};
pub(crate) use attributes::{object_headers, version_attributes_of};
pub(crate) use checksum::{
    DeclaredDigests, algorithm_named, announced_checksum, checksum_headers, named_checksum,
    part_checksum_headers, verify_small,
};
pub(crate) use condition::{
    copy_source_condition, delete_condition, read_condition, rename_condition, write_condition,
};
pub(crate) use date::{http_date, iso_date, parse_http_date, parse_iso_date, xml_date};
pub(crate) use encryption::{customer_key, encryption_headers, encryption_of, source_key};
pub(crate) use source::{
    bucket_named, copy_range, key_named, object_named, rename_source, version_named,
};
pub(crate) use unsupported::refuse_unsupported;
pub(crate) use version_attributes::{
    abort_headers, legal_hold_of, mode_name, mode_named, settings_of, version_headers,
};

use http::{HeaderMap, HeaderValue};

use crate::error::{Code, Refusal, Result};

/// A header that may be there once, as text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes()).ok();
    text.filter(|_| values.next().is_none())
        .map(Some)
        .ok_or_else(|| {
            let message = format!("The header {name} is given twice or is not text.");
            Refusal::new(Code::InvalidArgument, message)
        })
}

/// Text as a header's value, without control characters, which headers do not allow.
pub(crate) fn value_of(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or_else(|_| {
        let kept: String = text.chars().filter(|c| !c.is_control()).collect();
        HeaderValue::from_bytes(kept.as_bytes()).unwrap_or(HeaderValue::from_static(""))
    })
}

/// An ETag in its quotes.
pub(crate) fn quoted(etag: &str) -> HeaderValue {
    value_of(&format!("\"{etag}\""))
}
