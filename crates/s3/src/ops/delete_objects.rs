//! DeleteObjects: up to a thousand keys, each for itself.

use std::fmt::Write as _;

use dewar_http_front::Answer;
use dewar_store::api::{DeleteItem, ETagMatch, WriteCondition};
use dewar_types::Timestamp;
use s3s::dto::{Delete, DeleteObjectsOutput, DeletedObject, ObjectIdentifier};
use s3s::xml::{Deserialize, Deserializer};

use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::BULK_DELETE_KEYS_MAX;
use crate::wire::key_named;

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(true).await?;
    let Delete { objects, quiet } = document(&bytes)?;
    if objects.is_empty() || objects.len() > BULK_DELETE_KEYS_MAX {
        return Err(malformed());
    }
    let bypass = context.bypasses()?;
    let mut wanted = Vec::with_capacity(objects.len());
    let mut output = DeleteObjectsOutput::default();
    let mut errors = Vec::new();
    for object in &objects {
        match read(object) {
            Ok(item) => wanted.push(item),
            Err(refusal) => {
                errors.push(failed(&object.key, object.version_id.clone(), &refusal));
            }
        }
    }
    let named: Vec<_> = wanted
        .iter()
        .map(|item| {
            (
                item.key.to_string(),
                item.version.map(|name| name.to_string()),
            )
        })
        .collect();
    let bucket = context.bucket()?;
    let outcomes = door
        .store
        .delete_many(&context.caller, &bucket, wanted, bypass)
        .await?;
    let mut deleted = Vec::new();
    for ((key, version), outcome) in named.into_iter().zip(outcomes) {
        match outcome {
            Ok(done) => {
                let marker = done.name.filter(|_| done.marker);
                deleted.push(DeletedObject {
                    key: Some(key),
                    version_id: version,
                    delete_marker: done.marker.then_some(true),
                    delete_marker_version_id: marker.map(|name| name.to_string()),
                });
            }
            Err(error) => errors.push(failed(&key, version, &Refusal::from(error))),
        }
    }
    output.deleted = (!quiet.unwrap_or(false)).then_some(deleted);
    output.errors = Some(errors);
    xml_answer(&output)
}

pub(super) fn malformed() -> Refusal {
    Refusal::new(
        Code::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published \
         schema",
    )
}

/// Reads one of S3's documents.
pub(super) fn document<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    let mut reader = Deserializer::new(bytes);
    let read = T::deserialize(&mut reader).and_then(|document| {
        reader.expect_eof()?;
        Ok(document)
    });
    read.map_err(|error| {
        tracing::debug!(%error, "a document that is not S3's");
        malformed()
    })
}

fn read(object: &ObjectIdentifier) -> Result<DeleteItem> {
    let version = object.version_id.as_deref().map(str::parse).transpose();
    let version = version.map_err(|_| {
        let message = "The specified version does not exist.";
        Refusal::new(Code::NoSuchVersion, message)
    })?;
    let number = |n: i64| {
        u64::try_from(n).map_err(|_| Refusal::new(Code::InvalidArgument, "A size is negative."))
    };
    let if_match = object.e_tag.as_ref().map(|etag| match etag.value() {
        "*" => ETagMatch::Any,
        value => ETagMatch::Is(value.to_owned()),
    });
    let modified = object
        .last_modified_time
        .clone()
        .map(time::OffsetDateTime::from);
    let condition = WriteCondition {
        if_match: if_match.into_iter().collect(),
        if_modified_at: modified
            .map(|at| number(at.unix_timestamp()).map(Timestamp::from_secs))
            .transpose()?,
        if_size: object.size.map(number).transpose()?,
        ..WriteCondition::default()
    };
    Ok(DeleteItem {
        key: key_named(&object.key)?,
        version,
        condition,
    })
}

fn failed(key: &str, version: Option<String>, refusal: &Refusal) -> s3s::dto::Error {
    let mut message = String::new();
    // Writing to a String cannot fail.
    let _ = write!(message, "{}", refusal.message());
    s3s::dto::Error {
        code: Some(refusal.code().as_str().to_owned()),
        key: Some(key.to_owned()),
        message: Some(message),
        version_id: version,
    }
}
