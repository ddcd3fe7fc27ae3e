//! MKCOL.

use std::sync::Arc;

use dewar_http_front::{Answer, empty_answer};
use dewar_store::file::{MakeDirRequest, PathTarget};
use dewar_types::ErrorKind;
use http::StatusCode;

use super::lock::{ADDED, require_locks};
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;

pub(super) async fn call(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    if context.body_length()? != Some(0) {
        let words = "A MKCOL with a body is not supported.";
        return Err(DavError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let (store, caller) = (&front.store, &context.caller);
    let exists = [
        ErrorKind::AlreadyExists,
        ErrorKind::AlreadyOwned,
        ErrorKind::IsADirectory,
    ];
    let above = [
        ErrorKind::NotFound,
        ErrorKind::NoSuchBucket,
        ErrorKind::NotADirectory,
    ];
    let made = match &context.path.target {
        PathTarget::Root => {
            let words = "The root exists.";
            return Err(DavError::new(StatusCode::METHOD_NOT_ALLOWED, words));
        }
        PathTarget::Bucket(bucket) => store.create_bucket(caller, bucket).await.map(drop),
        PathTarget::Object(object) => {
            require_locks(front, context, object, ADDED).await?;
            let request = MakeDirRequest {
                directory: object.clone(),
                mode: 0o755,
                parents: false,
                existing: false,
            };
            store.make_dir(caller, request).await
        }
    };
    made.map_err(|error| {
        DavError::from(error)
            .with_status_for(&exists, StatusCode::METHOD_NOT_ALLOWED)
            .with_status_for(&above, StatusCode::CONFLICT)
    })?;
    Ok(empty_answer(StatusCode::CREATED))
}
