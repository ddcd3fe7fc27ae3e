//! Object lock: a bucket's configuration, retention and legal holds of versions.

use dewar_http_front::{Answer, empty_answer, iso_date};
use dewar_store::api::{DefaultRetention, ObjectLock, Retention};
use dewar_types::Timestamp;
use http::StatusCode;
use s3s::dto::{ObjectLockConfiguration, ObjectLockLegalHold, ObjectLockRetention};

use super::delete_objects::{document, malformed};
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{legal_hold_of, mode_name, mode_named};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const XMLNS: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

pub(super) async fn get_of_bucket(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let lock = door.store.get_object_lock(&context.caller, &bucket).await?;
    let lock = lock.ok_or_else(|| {
        Refusal::new(
            Code::ObjectLockConfigurationNotFoundError,
            "Object Lock configuration does not exist for this bucket",
        )
    })?;
    let rule = lock.default.map_or_else(String::new, |default| {
        let unit = if default.years { "Years" } else { "Days" };
        format!(
            "<Rule><DefaultRetention><Mode>{}</Mode><{unit}>{}</{unit}></DefaultRetention></Rule>",
            mode_name(default.mode),
            default.count
        )
    });
    let xml = format!(
        "{HEAD}<ObjectLockConfiguration {XMLNS}><ObjectLockEnabled>Enabled</ObjectLockEnabled>\
         {rule}</ObjectLockConfiguration>"
    );
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn put_of_bucket(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let asked: ObjectLockConfiguration = document(&bytes)?;
    if asked
        .object_lock_enabled
        .is_none_or(|enabled| enabled.as_str() != "Enabled")
    {
        return Err(malformed());
    }
    let default = match asked.rule {
        None => None,
        Some(rule) => Some(default_of(rule.default_retention.ok_or_else(malformed)?)?),
    };
    let bucket = context.bucket()?;
    door.store
        .set_object_lock(&context.caller, &bucket, ObjectLock { default })
        .await?;
    Ok(empty_answer(StatusCode::OK))
}

fn default_of(asked: s3s::dto::DefaultRetention) -> Result<DefaultRetention> {
    let mode = asked
        .mode
        .as_ref()
        .and_then(|mode| mode_named(mode.as_str()));
    let (count, years) = match (asked.days, asked.years) {
        (Some(days), None) => (days, false),
        (None, Some(years)) => (years, true),
        _ => return Err(malformed()),
    };
    let count = u32::try_from(count).ok().filter(|count| {
        let most = if years { 100 } else { 36_500 };
        (1..=most).contains(count)
    });
    Ok(DefaultRetention {
        mode: mode.ok_or_else(malformed)?,
        count: count.ok_or_else(|| {
            let message = "Default retention period must be a positive integer value.";
            Refusal::new(Code::InvalidRetentionPeriod, message)
        })?,
        years,
    })
}

/// Nothing was ever said of a version.
fn unset() -> Refusal {
    Refusal::new(
        Code::NoSuchObjectLockConfiguration,
        "The specified object does not have a ObjectLock configuration",
    )
}

pub(super) async fn get_retention(door: &Door, context: &RequestContext) -> Result<Answer> {
    let (object, version) = (context.object()?, context.version()?);
    let found = door
        .store
        .get_retention(&context.caller, &object, version)
        .await?;
    let retention = found.ok_or_else(unset)?;
    let xml = format!(
        "{HEAD}<Retention {XMLNS}><Mode>{}</Mode><RetainUntilDate>{}</RetainUntilDate></Retention>",
        mode_name(retention.mode),
        iso_date(retention.until)
    );
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn put_retention(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let asked: ObjectLockRetention = document(&bytes)?;
    let retention = match (&asked.mode, asked.retain_until_date) {
        // An empty document takes the retention away, where that is allowed.
        (None, None) => None,
        (Some(mode), Some(until)) => {
            let until = time::OffsetDateTime::from(until).unix_timestamp_nanos();
            Some(Retention {
                mode: mode_named(mode.as_str()).ok_or_else(malformed)?,
                until: Timestamp(u64::try_from(until).map_err(|_| malformed())?),
            })
        }
        _ => return Err(malformed()),
    };
    let bypass = context.bypasses()?;
    let (object, version) = (context.object()?, context.version()?);
    door.store
        .set_retention(&context.caller, &object, version, retention, bypass)
        .await?;
    Ok(empty_answer(StatusCode::OK))
}

pub(super) async fn get_legal_hold(door: &Door, context: &RequestContext) -> Result<Answer> {
    let (object, version) = (context.object()?, context.version()?);
    let found = door
        .store
        .get_legal_hold(&context.caller, &object, version)
        .await?;
    let status = if found.ok_or_else(unset)? {
        "ON"
    } else {
        "OFF"
    };
    let xml = format!("{HEAD}<LegalHold {XMLNS}><Status>{status}</Status></LegalHold>");
    Ok(text_answer(StatusCode::OK, xml))
}

pub(super) async fn put_legal_hold(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let asked: ObjectLockLegalHold = document(&bytes)?;
    let hold = asked.status.ok_or_else(malformed)?;
    let hold = legal_hold_of(hold.as_str()).map_err(|_| malformed())?;
    let (object, version) = (context.object()?, context.version()?);
    door.store
        .set_legal_hold(&context.caller, &object, version, hold)
        .await?;
    Ok(empty_answer(StatusCode::OK))
}
