//! CreateBucket.

use dewar_store::api::{BucketOptions, NewBucket, ObjectLock, Versioning};
use dewar_types::ErrorKind;
use http::StatusCode;
use http::header::LOCATION;
use s3s::dto::CreateBucketConfiguration;

use super::delete_objects::document;
use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{acl_of, header, ownership_named, refuse_unsupported, value_of};

const OLDEST_REGION: &str = "us-east-1";

pub(super) async fn call(door: &Door, exchange: &mut Exchange) -> Result<Answer> {
    let headers = exchange.headers();
    let locks = header(headers, "x-amz-bucket-object-lock-enabled")?
        .is_some_and(|on| on.eq_ignore_ascii_case("true"));
    refuse_unsupported(headers)?;
    let bytes = exchange.document(false).await?;
    let mut location = None;
    if !bytes.is_empty() {
        location = check_location(&document(&bytes)?, door.region())?;
    }
    let ownership = header(exchange.headers(), "x-amz-object-ownership")?;
    let options = BucketOptions {
        acl: acl_of(exchange.headers())?,
        ownership: ownership.map(ownership_named).transpose()?,
        location,
    };
    let bucket = exchange.bucket()?;
    let mut new = NewBucket::default();
    if locks {
        // Versions are what is kept.
        new.versioning = Versioning::Enabled;
        new.object_lock = Some(ObjectLock::default());
    }
    let made = door
        .store
        .create_bucket_with(&exchange.caller, &bucket, new, &options)
        .await;
    match made {
        // S3's oldest region has always answered so, and clients there count on it.
        Err(error)
            if error.kind() == ErrorKind::AlreadyOwned && **door.region() == *OLDEST_REGION => {}
        made => drop(made?),
    }
    let mut answer = empty_answer(StatusCode::OK);
    let location = value_of(&format!("/{}", bucket.name));
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}

/// Where the bucket shall be, if that is said: here.
fn check_location(
    configuration: &CreateBucketConfiguration,
    region: &str,
) -> Result<Option<String>> {
    if configuration.bucket.is_some() || configuration.location.is_some() {
        let message = "Directory buckets are not implemented";
        return Err(Refusal::new(Code::NotImplemented, message));
    }
    match configuration
        .location_constraint
        .as_ref()
        .map(|place| place.as_str())
    {
        None | Some("") => Ok(None),
        Some(place) if place == region => Ok(Some(place.to_owned())),
        Some(place) => Err(Refusal::new(
            Code::InvalidLocationConstraint,
            "The specified location-constraint is not valid",
        )
        .element("LocationConstraint", place)),
    }
}
