//! Headers for features that Dewar does not have. Requests with such a header are refused. If it
//! were ignored, the client would wrongly believe that its object is locked or tagged.

use http::HeaderMap;

use crate::error::{Code, Refusal, Result};

/// # Errors
/// `NotImplemented`.
pub(crate) fn refuse_unsupported(headers: &HeaderMap) -> Result<()> {
    for name in headers.keys() {
        let name = name.as_str();
        let refused = matches!(
            name,
            "x-amz-website-redirect-location"
                | "x-amz-server-side-encryption-aws-kms-key-id"
                | "x-amz-server-side-encryption-bucket-key-enabled"
                | "x-amz-server-side-encryption-context"
                | "x-amz-write-offset-bytes"
        );
        if refused {
            return Err(Refusal::new(
                Code::NotImplemented,
                format!(
                    "A header you provided implies functionality that is not implemented: {name}"
                ),
            ));
        }
    }
    Ok(())
}
