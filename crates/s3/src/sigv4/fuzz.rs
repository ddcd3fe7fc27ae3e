//! Fuzz functions for what the signature parsers read from the wire.

use super::authorization::{Authorization, SignedHeaders};
use super::canonical::{PathForm, SignedParts, canonical_request};
use super::presigned_url::PresignedUrl;
use super::query::Query;

/// Fuzzes the Authorization header: no input may panic, and what parses is within its limits.
pub fn fuzz_authorization(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(authorization) = Authorization::parse(text) {
        let credential = format!(
            "{}/{}/{}/{}/aws4_request",
            authorization.scope.access_key,
            authorization.scope.day,
            authorization.scope.region,
            authorization.scope.service
        );
        assert!(text.contains(&credential));
        assert!(authorization.signed_headers.iter().all(|n| !n.is_empty()));
    }
}

/// Fuzzes path and query string of a presigned URL, separated by the first `?`. No input may panic,
/// and the canonical request has one line per part for every input.
pub fn fuzz_presigned(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (path, query) = text.split_once('?').unwrap_or(("/", text));
    let Ok(query) = Query::parse(Some(query)) else {
        return;
    };
    if let Ok(presigned) = PresignedUrl::parse(&query) {
        assert!(presigned.expires_secs > 0);
    }
    let Some(signed_headers) = SignedHeaders::parse("host") else {
        return;
    };
    let mut headers = http::HeaderMap::new();
    headers.insert("host", http::HeaderValue::from_static("h"));
    let parts = SignedParts {
        method: &http::Method::GET,
        path,
        query: &query,
        without: Some("X-Amz-Signature"),
        headers: &headers,
        authority: None,
        signed_headers: &signed_headers,
        payload: "UNSIGNED-PAYLOAD",
    };
    if let Ok(canonical) = canonical_request(&parts, PathForm::Encoded) {
        assert_eq!(canonical.split('\n').count(), 7);
    }
}
