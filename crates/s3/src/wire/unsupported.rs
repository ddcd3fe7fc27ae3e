//! Headers that ask for what Dewar does not do. To ignore one would be a broken promise: the
//! client would believe its object locked, tagged or public.

use http::HeaderMap;

use super::header;
use crate::error::{Code, Refusal, Result};

/// # Errors
/// `NotImplemented`, `AccessControlListNotSupported`.
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
                | "x-amz-expected-bucket-owner"
                | "x-amz-source-expected-bucket-owner"
        );
        if refused {
            return Err(Refusal::new(
                Code::NotImplemented,
                format!(
                    "A header you provided implies functionality that is not implemented: {name}"
                ),
            ));
        }
        if name.starts_with("x-amz-grant-") {
            return Err(no_acls());
        }
    }
    match header(headers, "x-amz-acl")? {
        None | Some("private" | "bucket-owner-full-control" | "bucket-owner-read") => {}
        Some(_) => return Err(no_acls()),
    }
    Ok(())
}

fn no_acls() -> Refusal {
    Refusal::new(
        Code::AccessControlListNotSupported,
        "The bucket does not allow ACLs",
    )
}
