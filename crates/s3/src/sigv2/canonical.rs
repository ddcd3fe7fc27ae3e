//! The string to sign of Signature V2. It is the same for headers and presigned URLs, except for
//! the line with the date.

use dewar_sigv4::Query;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;

use crate::error::{Code, Refusal, Result};

/// The signed parameters.
const SIGNED: &[&str] = &[
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// Unsigned parameters that are allowed: those of the signature itself, of the page of a listing,
/// and headers that botocore repeats.
const UNSIGNED: &[&str] = &[
    "AWSAccessKeyId",
    "Signature",
    "Expires",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "encoding-type",
    "list-type",
    "start-after",
    "continuation-token",
    "fetch-owner",
    "key-marker",
    "version-id-marker",
    "upload-id-marker",
    "max-buckets",
    "max-uploads",
    "max-parts",
    "part-number-marker",
    "allow-unordered",
    "content-type",
    "content-md5",
];

/// # Errors
/// `AccessDenied` for a parameter that the signature does not cover, except those that only select
/// a page.
pub(super) fn check_parameters(query: &Query) -> Result<()> {
    let known =
        |name: &str| SIGNED.contains(&name) || UNSIGNED.contains(&name) || name.starts_with("x-");
    match query.iter().find(|(name, _)| !known(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Refusal::new(
            Code::AccessDenied,
            format!("The parameter {name} is not signed"),
        )),
    }
}

/// The possible strings to sign, with each of these lines for the date. `bucket` is put before the
/// path if it comes from the host. Some clients, botocore among them, sign the path of a bucket
/// with a slash behind it.
pub(super) fn strings_to_sign(
    head: &Parts,
    query: &Query,
    bucket: Option<&str>,
    dates: &[&str],
) -> Vec<String> {
    let path = head.uri.path();
    let alone = bucket.is_none() && !path[1.min(path.len())..].contains('/') && path != "/";
    let slashes: &[&str] = if alone { &["", "/"] } else { &[""] };
    let mut strings = Vec::with_capacity(dates.len() * slashes.len());
    for date in dates {
        for slash in slashes {
            strings.push(string_to_sign(head, query, bucket, date, slash));
        }
    }
    strings
}

fn string_to_sign(
    head: &Parts,
    query: &Query,
    bucket: Option<&str>,
    date: &str,
    slash: &str,
) -> String {
    let mut out = String::with_capacity(256);
    out.push_str(head.method.as_str());
    out.push('\n');
    let md5 = HeaderName::from_static("content-md5");
    for name in [md5, CONTENT_TYPE] {
        let value = head
            .headers
            .get(&name)
            .and_then(|value| value.to_str().ok());
        out.push_str(value.unwrap_or_default().trim());
        out.push('\n');
    }
    out.push_str(date);
    out.push('\n');
    push_amz_headers(&mut out, head);
    if let Some(bucket) = bucket {
        out.push('/');
        out.push_str(bucket);
    }
    out.push_str(head.uri.path());
    out.push_str(slash);
    push_sub_resources(&mut out, query);
    out
}

fn push_amz_headers(out: &mut String, head: &Parts) {
    let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    names.retain(|name| name.starts_with("x-amz-"));
    names.sort_unstable();
    for name in names {
        let values = head.headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
            .collect();
        out.push_str(name);
        out.push(':');
        out.push_str(&values.join(","));
        out.push('\n');
    }
}

fn push_sub_resources(out: &mut String, query: &Query) {
    let mut signed: Vec<_> = query
        .iter()
        .filter(|(name, _)| SIGNED.contains(name))
        .collect();
    signed.sort_unstable();
    for (i, (name, value)) in signed.into_iter().enumerate() {
        out.push(if i == 0 { '?' } else { '&' });
        out.push_str(name);
        if !value.is_empty() {
            out.push('=');
            out.push_str(value);
        }
    }
}
