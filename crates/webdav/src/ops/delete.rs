//! DELETE.

use std::sync::Arc;

use dewar_http_front::{Answer, empty_answer};
use dewar_store::api::{BucketRef, DeleteRequest, Emptiness, ObjectRef};
use dewar_store::file::{Node, PathTarget, TreeReport};
use dewar_types::{Error, ErrorKind};
use http::StatusCode;

use super::lock::{REMOVED, remove_locks, require_locks};
use super::multistatus::failures_answer;
use crate::context::RequestContext;
use crate::error::{DavError, Result};
use crate::front::WebDav;

pub(super) async fn call(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    let store = &front.store;
    let object = match &context.path.target {
        PathTarget::Root => {
            let words = "Permission denied: the root cannot be removed.";
            return Err(DavError::new(StatusCode::FORBIDDEN, words));
        }
        PathTarget::Bucket(bucket) => {
            let removed = store.delete_bucket(&context.caller, bucket, Emptiness::Bare);
            removed.await?;
            return Ok(empty_answer(StatusCode::NO_CONTENT));
        }
        PathTarget::Object(object) => object,
    };
    let condition = context.write_condition()?;
    require_locks(front, context, object, REMOVED).await?;
    if !condition.is_none() {
        let answer = remove_conditionally(front, context, object, condition).await?;
        remove_locks(front, context, object).await;
        return Ok(answer);
    }
    let report = remove(front, context, object).await?;
    if report.failed > 0 {
        return Ok(failures_answer(&object.bucket, &report));
    }
    remove_locks(front, context, object).await;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

/// Removes a file, or a directory with its content if the configuration allows it. The report names
/// what could not be removed.
pub(super) async fn remove(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
) -> Result<TreeReport> {
    let (store, caller) = (&front.store, &context.caller);
    match store.remove_file(caller, object).await {
        Ok(()) => return Ok(TreeReport::default()),
        Err(error) if error.kind() == ErrorKind::IsADirectory => {}
        Err(error) => return Err(error.into()),
    }
    if !front.config.recursive_delete {
        store.remove_dir(caller, object).await?;
        return Ok(TreeReport::default());
    }
    let report = store.remove_tree(caller, object).await?;
    Ok(report)
}

/// Removes a file if a condition holds. Directories have no ETag and no date, so that no condition
/// holds for them.
async fn remove_conditionally(
    front: &Arc<WebDav>,
    context: &RequestContext,
    object: &ObjectRef,
    condition: dewar_store::api::WriteCondition,
) -> Result<Answer> {
    let store = &front.store;
    if let Node::Directory(_) = store.stat(&context.caller, object).await? {
        let words = "a directory has neither an ETag nor a date";
        return Err(Error::new(ErrorKind::Precondition, words).into());
    }
    let request = DeleteRequest {
        object: object.clone(),
        version: None,
        condition,
        bypass: false,
    };
    store.delete(&context.caller, request).await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

/// The path of a key in a bucket.
pub(super) fn path_of(bucket: &BucketRef, key: &str) -> String {
    match &bucket.tenant {
        None => format!("/{}/{key}", bucket.name),
        Some(tenant) => format!("/@{tenant}/{}/{key}", bucket.name),
    }
}
