//! GetBucketVersioning and PutBucketVersioning.

use dewar_http_front::{Answer, empty_answer};
use dewar_store::api::Versioning;
use http::StatusCode;
use s3s::dto::VersioningConfiguration;

use super::delete_objects::{document, malformed};
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Code, Refusal, Result};

pub(super) async fn get(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let status = match door.store.get_versioning(&context.caller, &bucket).await? {
        Versioning::Off => "",
        Versioning::Enabled => "<Status>Enabled</Status>",
        Versioning::Suspended => "<Status>Suspended</Status>",
    };
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<VersioningConfiguration \
         xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{status}</VersioningConfiguration>"
    );
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn put(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let asked: VersioningConfiguration = document(&bytes)?;
    if asked
        .mfa_delete
        .is_some_and(|mfa| mfa.as_str() != "Disabled")
    {
        let message = "MFA delete is not implemented.";
        return Err(Refusal::new(Code::NotImplemented, message));
    }
    let versioning = match asked.status.as_ref().map(|status| status.as_str()) {
        Some("Enabled") => Versioning::Enabled,
        Some("Suspended") => Versioning::Suspended,
        _ => return Err(malformed()),
    };
    let bucket = context.bucket()?;
    door.store
        .set_versioning(&context.caller, &bucket, versioning)
        .await?;
    Ok(empty_answer(StatusCode::OK))
}
