//! AWS Signature Version 2, in the Authorization header, in presigned URLs and in browser forms.
//! boto3 uses it by default for the latter two, and older clients for everything.
//!
//! HMAC-SHA1 is not broken, but V2 signs less than V4. It does not sign the host, most parameters,
//! or the body, except for its Content-MD5. So the only unsigned parameters that a V2 request may
//! have are those that select a page of a listing. The IAM API, whose calls are bodies, does not
//! accept V2.

mod authorization;
mod canonical;
mod presigned_url;
mod verify;

pub use authorization::{AuthorizationV2, fuzz_authorization_v2};
pub use presigned_url::{PresignedUrlV2, fuzz_presigned_v2};

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
