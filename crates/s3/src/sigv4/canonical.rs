//! The canonical request and the string to sign.

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, Method};

use super::authorization::SignedHeaders;
use super::date::RequestDate;
use super::encode::{decode_percent, encode_path, push_hex};
use super::query::Query;
use super::scope::CredentialScope;
use crate::error::{Code, Refusal, Result};

/// The signed parts of a request.
#[derive(Clone, Copy)]
pub(super) struct SignedParts<'a> {
    pub(super) method: &'a Method,
    /// The path as it was sent.
    pub(super) path: &'a str,
    pub(super) query: &'a Query,
    /// The parameter that holds the signature itself.
    pub(super) without: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
    /// The host, where it is not in a Host header (HTTP/2's authority).
    pub(super) authority: Option<&'a str>,
    pub(super) signed_headers: &'a SignedHeaders,
    /// The payload's digest in hexadecimal or the word for its absence.
    pub(super) payload: &'a str,
}

/// The form of the path in the canonical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathForm {
    /// Decoded and encoded again, once and without normalising `//` or `..`: S3's rule.
    Encoded,
    /// As it was sent. Signers that leave characters like `!` or `(` unescaped in the path also
    /// sign them unescaped, botocore's S3 signer among them.
    AsSent,
}

impl PathForm {
    /// The forms that a signer may have meant by this path.
    pub(super) fn of(path: &str) -> &'static [Self] {
        let plain = |b: u8| !b.is_ascii_alphanumeric() && !b"-._~/%".contains(&b);
        if path.bytes().any(plain) {
            &[Self::Encoded, Self::AsSent]
        } else {
            &[Self::Encoded]
        }
    }
}

/// Builds the canonical request.
///
/// Header values are trimmed and runs of blanks folded; several headers of a name are joined by
/// commas in the order they came.
pub(super) fn canonical_request(parts: &SignedParts<'_>, form: PathForm) -> Result<String> {
    let mut out = String::with_capacity(512);
    out.push_str(parts.method.as_str());
    out.push('\n');
    let path = decode_percent(parts.path)
        .ok_or_else(|| Refusal::new(Code::InvalidURI, "Couldn't parse the specified URI."))?;
    if path.is_empty() {
        out.push('/');
    }
    match form {
        PathForm::Encoded => encode_path(&mut out, &path),
        PathForm::AsSent => out.push_str(parts.path),
    }
    out.push('\n');
    parts.query.push_canonical(&mut out, parts.without);
    out.push('\n');
    for name in parts.signed_headers.iter() {
        out.push_str(name);
        out.push(':');
        push_header_values(&mut out, parts, name)?;
        out.push('\n');
    }
    out.push('\n');
    out.push_str(parts.signed_headers.as_str());
    out.push('\n');
    out.push_str(parts.payload);
    Ok(out)
}

fn push_header_values(out: &mut String, parts: &SignedParts<'_>, name: &str) -> Result<()> {
    let mut any = false;
    for value in parts.headers.get_all(name) {
        let value = std::str::from_utf8(value.as_bytes()).map_err(|_| {
            let message = format!("The value of the signed header {name} is not UTF-8.");
            Refusal::new(Code::InvalidArgument, message)
        })?;
        if any {
            out.push(',');
        }
        any = true;
        push_folded(out, value);
    }
    if !any
        && name == "host"
        && let Some(authority) = parts.authority
    {
        out.push_str(authority);
        any = true;
    }
    if any {
        return Ok(());
    }
    if name == "expect" {
        // Proxies answer the expectation themselves and take the header out.
        out.push_str("100-continue");
        return Ok(());
    }
    let message = format!("The signed header {name} is not in the request.");
    Err(Refusal::new(Code::SignatureDoesNotMatch, message))
}

fn push_folded(out: &mut String, value: &str) {
    let mut blank = false;
    for c in value.trim().chars() {
        if c == ' ' {
            blank = true;
            continue;
        }
        if blank {
            out.push(' ');
            blank = false;
        }
        out.push(c);
    }
}

/// Builds the string to sign over a canonical request.
pub(super) fn string_to_sign(
    canonical: &str,
    date: &RequestDate,
    scope: &CredentialScope,
) -> String {
    let mut out = String::with_capacity(192);
    out.push_str("AWS4-HMAC-SHA256\n");
    out.push_str(date.as_str());
    out.push('\n');
    scope.push_to(&mut out);
    out.push('\n');
    push_hex(&mut out, digest(&SHA256, canonical.as_bytes()).as_ref());
    out
}
