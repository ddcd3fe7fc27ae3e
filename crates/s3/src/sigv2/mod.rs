//! AWS Signature Version 2, for presigned URLs and browser forms only: boto3 signs both with it
//! unless its user says otherwise. Requests with a V2 Authorization header are refused; every client
//! has signed those with V4 for a decade.
//!
//! HMAC-SHA1 is not broken, but V2 signs less than V4: neither host nor most parameters. So a
//! V2 URL may carry only parameters that are signed, or that choose a page of a listing.

mod presigned;

pub use presigned::{PresignedV2, fuzz_presigned_v2};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_auth::Secret;

/// Whether a signature in base64 is that of `text`; in constant time.
pub(crate) fn verifies(secret: &Secret, text: &str, signature: &str) -> bool {
    let key = hmac::Key::new(
        hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        secret.reveal().as_bytes(),
    );
    let Ok(signature) = STANDARD.decode(signature) else {
        return false;
    };
    hmac::verify(&key, text.as_bytes(), &signature).is_ok()
}
