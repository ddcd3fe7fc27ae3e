//! The signature of a browser's form: over its policy document.

use dewar_auth::AccessKey;
use dewar_sigv4::limits::ACCESS_KEY_BYTES_MAX;
use dewar_sigv4::{ALGORITHM, RequestDate, Signature};
use dewar_types::Timestamp;

use super::scope::CredentialLocation;
use super::verify::{Verifier, mismatch};
use crate::error::{Code, Refusal, Result};
use crate::form::{FormFields, Policy};
use crate::limits::{CLOCK_SKEW_SECS_MAX, PRESIGNED_SECS_MAX};
use crate::sigv2;

/// Verifies the signature of a form. `None` when it has neither policy nor signature: it is
/// anonymous. The returned policy is signed but has not been compared with the fields yet.
///
/// # Errors
/// S3's code for each kind of wrong signature.
pub async fn verify_form(
    verifier: &Verifier,
    form: &FormFields,
    now: Timestamp,
) -> Result<Option<(AccessKey, Policy)>> {
    let Some(document) = form.get("policy") else {
        return match form.get("x-amz-signature") {
            None => Ok(None),
            Some(_) => Err(missing("policy")),
        };
    };
    let get = |name: &'static str| form.get(name).ok_or_else(|| missing(name));
    if form.get("signature").is_some() && form.get("x-amz-signature").is_none() {
        return verify_form_v2(verifier, form, document).await.map(Some);
    }
    let (algorithm, credential) = (get("x-amz-algorithm")?, get("x-amz-credential")?);
    let (date_text, signature) = (get("x-amz-date")?, get("x-amz-signature")?);
    if algorithm != ALGORITHM {
        let message = "x-amz-algorithm only supports \"AWS4-HMAC-SHA256\"";
        return Err(Refusal::new(Code::InvalidRequest, message));
    }
    let scope = CredentialLocation::Form.parse(credential)?;
    let date = RequestDate::parse(date_text)
        .ok_or_else(|| CredentialLocation::Form.malformed("x-amz-date is not a date."))?;
    let signature = Signature::parse(signature).ok_or_else(mismatch)?;
    check_age(&date, now)?;

    let token = form.get("x-amz-security-token");
    let key = verifier
        .find_key(CredentialLocation::Form, &scope, &date, token)
        .await?;
    if verifier.signing_key(&key, &scope).sign(document) != signature {
        return Err(mismatch().element("StringToSign", document));
    }
    // Only now is the document worth parsing. It must itself fix what the signature was made for.
    let policy = Policy::parse(document)?;
    for (field, value) in [
        ("x-amz-algorithm", algorithm),
        ("x-amz-credential", credential),
        ("x-amz-date", date_text),
    ] {
        if !policy.fixes(field, value) {
            let message = format!("Invalid according to Policy: Extra input fields: {field}");
            return Err(Refusal::new(Code::AccessDenied, message));
        }
    }
    Ok(Some((key, policy)))
}

/// The same for Signature V2, where the policy's own expiration is the only date.
async fn verify_form_v2(
    verifier: &Verifier,
    form: &FormFields,
    document: &str,
) -> Result<(AccessKey, Policy)> {
    let get = |name: &'static str| form.get(name).ok_or_else(|| missing(name));
    let (id, signature) = (get("awsaccesskeyid")?, get("signature")?);
    if id.len() > ACCESS_KEY_BYTES_MAX {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "The AWSAccessKeyId is too long",
        ));
    }
    let token = form.get("x-amz-security-token");
    let key = verifier.key(id, token).await?;
    if !sigv2::verifies(&key.secret, document, signature) {
        return Err(mismatch().element("StringToSign", document));
    }
    Ok((key, Policy::parse(document)?))
}

/// A form may be submitted long after it was signed, but only as long as a signing key is valid.
fn check_age(date: &RequestDate, now: Timestamp) -> Result<()> {
    let (signed, now) = (date.secs(), now.secs());
    if signed > now + CLOCK_SKEW_SECS_MAX {
        return Err(Refusal::new(Code::AccessDenied, "Request is not valid yet"));
    }
    if now > signed + PRESIGNED_SECS_MAX {
        return Err(Refusal::new(Code::AccessDenied, "Request has expired"));
    }
    Ok(())
}

fn missing(name: &str) -> Refusal {
    Refusal::new(
        Code::InvalidArgument,
        format!("Bucket POST must contain a field named '{name}'."),
    )
    .element("ArgumentName", name)
}
