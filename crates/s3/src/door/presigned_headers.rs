//! Headers that a presigned address carries as parameters. SDKs put `x-amz-` headers there, so that
//! whoever uses the address need not know them. All parameters of such an address are signed, so
//! they count as headers do; what reads headers later finds them there.

use dewar_checksum::{Algorithm, AlgorithmSet, Pipeline};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{Code, Refusal, Result};
use crate::sigv4::Query;

const CONTENT_MD5: &str = "content-md5";

/// Puts the parameters of a presigned address (V4: V2 signs none of them) among the headers.
///
/// # Errors
/// `InvalidArgument` when a header of the request says something else, since which of the two the
/// signer meant would be a guess; and for a value that no header can hold.
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

/// Whether a parameter of this name, in lower case, is a header in another place, and not one of
/// those that are about the signature and that its verification has read.
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
/// yet when they sign an address, and put that there for whatever will come.
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
