//! Headers that a presigned URL carries as parameters. SDKs put `x-amz-` headers there, so that the
//! user of the URL need not know them. All parameters of such a URL are signed, so they count like
//! headers. This module adds them to the headers, where later code finds them.

use dewar_checksum::{Algorithm, AlgorithmSet, Pipeline};
use dewar_sigv4::Query;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{Code, Refusal, Result};

const CONTENT_MD5: &str = "content-md5";

/// Adds the parameters of a presigned URL to the headers (V4 only: V2 signs none of them).
///
/// # Errors
/// `InvalidArgument` when a header of the request has another value, because it is unknown which of
/// the two the signer meant; and for a value that is not allowed in a header.
pub(super) fn adopt(headers: &mut HeaderMap, query: &Query) -> Result<()> {
    if !query.has("X-Amz-Signature") {
        return Ok(());
    }
    for (parameter, value) in query.iter() {
        let name = parameter.to_ascii_lowercase();
        if !is_header(&name) || says_nothing(&name, value) {
            continue;
        }
        let Ok(name) = HeaderName::try_from(name) else {
            continue;
        };
        let refuse = |why: &str| {
            let message = format!("The query parameter {parameter:?} {why}.");
            Err(Refusal::new(Code::InvalidArgument, message).element("ArgumentName", parameter))
        };
        let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else {
            return refuse("cannot stand in a header");
        };
        if headers.get_all(&name).iter().any(|there| *there != value) {
            return refuse("and the header of this name differ");
        }
        headers.insert(name, value);
    }
    Ok(())
}

/// Whether a parameter of this name, in lower case, is a header, and not one of the signature's own
/// parameters, which the verification has read.
fn is_header(name: &str) -> bool {
    let of_signature = matches!(
        name,
        "x-amz-algorithm"
            | "x-amz-credential"
            | "x-amz-date"
            | "x-amz-expires"
            | "x-amz-signedheaders"
            | "x-amz-signature"
            | "x-amz-security-token"
            | "x-amz-content-sha256"
    );
    name == CONTENT_MD5 || (name.starts_with("x-amz-") && !of_signature)
}

/// Whether it is the checksum of an empty body. SDKs that add checksums by themselves have no body
/// yet when they sign a URL, so they add this checksum for any later body.
fn says_nothing(name: &str, value: &str) -> bool {
    let algorithm = match name {
        CONTENT_MD5 => Some(Algorithm::Md5),
        _ => Algorithm::from_s3_header(name),
    };
    algorithm.is_some_and(|algorithm| {
        let of_nothing = Pipeline::new(AlgorithmSet::EMPTY.with(algorithm)).finish();
        let digest = of_nothing.get(algorithm);
        digest.is_some_and(|digest| digest.base64() == value)
    })
}
