//! Deleting objects and versions, one or many.

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::VersionRecord;
use dewar_namespace::{Bucket, DeleteOutcome, DeleteTarget};
use dewar_types::{Error, ErrorKind, Result};

use crate::Store;
use crate::api::{BucketRef, DeleteItem, DeleteRequest, DeleteResult, ETagMatch};
use crate::authorize::actor;
use crate::info::shown_name;

impl Store {
    /// Deletes an object. In a bucket with versions it adds a delete marker; otherwise it deletes
    /// the object for good. A named version is always deleted for good. A missing object is no
    /// error.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`],
    /// [`dewar_types::ErrorKind::Precondition`], [`dewar_types::ErrorKind::Locked`].
    pub async fn delete(&self, caller: &Caller, request: DeleteRequest) -> Result<DeleteResult> {
        let key = request.object.key;
        let action = match request.version {
            None => Action::DeleteObject,
            Some(_) => Action::DeleteObjectVersion,
        };
        let version = request.version.map(|version| version.to_string());
        let details = Details {
            version: version.as_deref(),
            ..self.inner.details()
        };
        let named = Some(key.as_str());
        let bucket = self
            .inner
            .authorize_bucket_with(caller, action, &request.object.bucket, named, &details)
            .await?;
        let found = self
            .inner
            .compared_name(caller, &bucket, &key, &request.condition)
            .await?;
        let bypass = request.bypass && self.inner.may_bypass(caller, &bucket, named, &details);
        let doomed = DeleteTarget {
            key,
            version: request.version,
            condition: request.condition,
            only: None,
            found,
        };
        let principal = caller.to_string();
        let removed = self
            .inner
            .tree
            .delete(&actor(caller, &principal), &bucket, &doomed, bypass)
            .await?;
        Ok(deleted(&bucket, &doomed, &removed))
    }

    /// Removes many objects and versions of one bucket, in few batches. Each of them has its own
    /// result.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn delete_many(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        items: Vec<DeleteItem>,
        bypass: bool,
    ) -> Result<Vec<Result<DeleteResult>>> {
        let caller = &self.inner.authorizer.batched(caller);
        let bucket = self.inner.bucket_of(caller, bucket).await?;
        let details = self.inner.details();
        // Who may not bypass for all of them may for none.
        let bypass = bypass
            && items.iter().all(|item| {
                self.inner
                    .may_bypass(caller, &bucket, Some(item.key.as_str()), &details)
            });
        let principal = caller.to_string();
        let mut denied = Vec::with_capacity(items.len());
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let action = match item.version {
                None => Action::DeleteObject,
                Some(_) => Action::DeleteObjectVersion,
            };
            let key = Some(item.key.as_str());
            let version = item.version.map(|version| version.to_string());
            let etags = item.condition.if_match.iter().map(|etag| match etag {
                ETagMatch::Any => "*".to_owned(),
                ETagMatch::Is(value) => match value.strip_prefix("W/") {
                    Some(weak) => format!("W/\"{weak}\""),
                    None => format!("\"{value}\""),
                },
            });
            let etags = etags.collect::<Vec<_>>().join(", ");
            let if_match = (!etags.is_empty()).then_some(etags);
            let details = Details {
                version: version.as_deref(),
                if_match: if_match.as_deref(),
                ..details
            };
            let mut may = self
                .inner
                .authorize_in_bucket(caller, action, &bucket, key, &details)
                .map(|()| None);
            if may.is_ok() {
                let (key, condition) = (&item.key, &item.condition);
                may = self
                    .inner
                    .compared_name(caller, &bucket, key, condition)
                    .await;
            }
            match may {
                Ok(found) => {
                    denied.push(None);
                    list.push(DeleteTarget {
                        key: item.key,
                        version: item.version,
                        condition: item.condition,
                        only: None,
                        found,
                    });
                }
                Err(error) => denied.push(Some(error)),
            }
        }
        let gone = if list.is_empty() {
            Vec::new()
        } else {
            self.inner
                .tree
                .delete_many(&actor(caller, &principal), &bucket, &list, bypass)
                .await?
        };
        let mut done = list.iter().zip(gone);
        let outcome = |denied: Option<Error>| match denied {
            Some(error) => Err(error),
            None => match done.next() {
                Some((doomed, result)) => result.map(|gone| deleted(&bucket, doomed, &gone)),
                None => Err(Error::new(ErrorKind::Internal, "a deletion is missing")),
            },
        };
        Ok(denied.into_iter().map(outcome).collect())
    }
}

fn deleted(bucket: &Bucket, doomed: &DeleteTarget, removed: &DeleteOutcome) -> DeleteResult {
    let marks = |version: &VersionRecord| version.flags.delete_marker();
    match (&removed.marker, &removed.version) {
        (Some(marker), _) => DeleteResult {
            existed: true,
            name: shown_name(bucket, marker),
            marker: true,
        },
        (None, Some(version)) => DeleteResult {
            existed: true,
            name: doomed.version,
            marker: marks(version),
        },
        (None, None) => DeleteResult {
            existed: false,
            name: doomed.version,
            marker: false,
        },
    }
}
