//! The canonical request and the string to sign.

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, Method};

use crate::encode::{decode_percent, encode_path, push_hex};
use crate::{
    ALGORITHM, CredentialScope, Error, Mismatch, Query, RequestDate, Result, Signature,
    SignedHeaders, SigningKey,
};

/// A received request, in the parts that its signature covers.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path as it was sent.
    pub path: &'a str,
    /// The query.
    pub query: &'a Query,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The host, where it is not in a Host header (HTTP/2's authority).
    pub authority: Option<&'a str>,
    /// The names of the signed headers.
    pub signed_headers: &'a SignedHeaders,
    /// The payload's digest in hexadecimal or the word for its absence.
    pub payload: &'a str,
}

/// The form of the path in the canonical request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathForm {
    /// Decoded and encoded again, once and without normalising `//` or `..`: S3's rule.
    Encoded,
    /// As it was sent. Signers that leave characters like `!` or `(` unescaped in the path also
    /// sign them unescaped, botocore's S3 signer among them.
    AsSent,
}

impl PathForm {
    /// The forms that a signer may have meant by this path.
    fn of(path: &str) -> &'static [Self] {
        let plain = |b: u8| !b.is_ascii_alphanumeric() && !b"-._~/%".contains(&b);
        if path.bytes().any(plain) {
            &[Self::Encoded, Self::AsSent]
        } else {
            &[Self::Encoded]
        }
    }
}

impl SignedRequest<'_> {
    /// Compares the signature of the request with the one that `key` makes.
    ///
    /// # Errors
    /// [`Error::Mismatch`]; [`Error::Uri`], [`Error::HeaderText`] and [`Error::HeaderMissing`] for
    /// a request that cannot have been signed.
    pub fn verify(
        &self,
        key: &SigningKey,
        date: &RequestDate,
        scope: &CredentialScope,
        signature: Signature,
    ) -> Result<()> {
        let mut first = None;
        for form in PathForm::of(self.path) {
            let canonical_request = self.canonical(*form)?;
            let string_to_sign = string_to_sign(&canonical_request, date, scope);
            if key.sign(&string_to_sign) == signature {
                return Ok(());
            }
            first.get_or_insert(Mismatch {
                canonical_request,
                string_to_sign,
            });
        }
        let mismatch = first.expect("a path has at least one form");
        Err(Error::Mismatch(Box::new(mismatch)))
    }

    /// Builds the canonical request.
    ///
    /// Header values are trimmed and runs of blanks folded; several headers of a name are joined by
    /// commas in the order they came.
    fn canonical(&self, form: PathForm) -> Result<String> {
        let mut out = String::with_capacity(512);
        out.push_str(self.method.as_str());
        out.push('\n');
        let path = decode_percent(self.path).ok_or(Error::Uri)?;
        if path.is_empty() {
            out.push('/');
        }
        match form {
            PathForm::Encoded => encode_path(&mut out, &path),
            PathForm::AsSent => out.push_str(self.path),
        }
        out.push('\n');
        self.query.push_canonical(&mut out);
        out.push('\n');
        let names = self.signed_headers.as_str();
        push_headers(&mut out, names, self.payload, |out, name| {
            self.push_values(out, name)
        })?;
        Ok(out)
    }

    fn push_values(&self, out: &mut String, name: &str) -> Result<()> {
        let mut any = false;
        for value in self.headers.get_all(name) {
            let value = std::str::from_utf8(value.as_bytes());
            let value = value.map_err(|_| Error::HeaderText(name.to_owned()))?;
            if any {
                out.push(',');
            }
            any = true;
            push_folded(out, value);
        }
        match (any, name, self.authority) {
            (true, ..) => {}
            (false, "host", Some(authority)) => out.push_str(authority),
            // Proxies answer the expectation themselves and take the header out.
            (false, "expect", _) => out.push_str("100-continue"),
            _ => return Err(Error::HeaderMissing(name.to_owned())),
        }
        Ok(())
    }
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

/// Appends the canonical request from its headers on, behind the method, the path and the query.
pub(crate) fn push_headers<E>(
    out: &mut String,
    names: &str,
    payload: &str,
    mut push_value: impl FnMut(&mut String, &str) -> Result<(), E>,
) -> Result<(), E> {
    for name in names.split(';') {
        out.push_str(name);
        out.push(':');
        push_value(out, name)?;
        out.push('\n');
    }
    out.push('\n');
    out.push_str(names);
    out.push('\n');
    out.push_str(payload);
    Ok(())
}

/// Builds the string to sign over a canonical request.
pub(crate) fn string_to_sign(
    canonical: &str,
    date: &RequestDate,
    scope: &CredentialScope,
) -> String {
    let mut out = String::with_capacity(192);
    out.push_str(ALGORITHM);
    out.push('\n');
    out.push_str(date.as_str());
    out.push('\n');
    scope.push_to(&mut out);
    out.push('\n');
    push_hex(&mut out, digest(&SHA256, canonical.as_bytes()).as_ref());
    out
}

/// Fuzzes a path and a query string, separated by the first `?`. No input may panic, and the
/// canonical request has one line per part for every input.
pub fn fuzz_canonical(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (path, query) = text.split_once('?').unwrap_or(("/", text));
    let (Ok(query), Some(signed_headers)) =
        (Query::parse(Some(query)), SignedHeaders::parse("host"))
    else {
        return;
    };
    let request = SignedRequest {
        method: &Method::GET,
        path,
        query: &query,
        headers: &HeaderMap::new(),
        authority: Some("h"),
        signed_headers: &signed_headers,
        payload: crate::UNSIGNED_PAYLOAD,
    };
    if let Ok(canonical) = request.canonical(PathForm::Encoded) {
        assert_eq!(canonical.split('\n').count(), 7);
    }
}
