//! DeleteObjects: up to a thousand keys, each for itself.

use std::fmt::Write as _;

use dewar_store::api::{ETag, WriteCondition};
use dewar_types::{ObjectKey, Timestamp};
use s3s::dto::{Delete, DeleteObjectsOutput, DeletedObject, ObjectIdentifier};
use s3s::xml::{Deserialize, Deserializer};

use crate::door::{Answer, Door, Exchange, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::BULK_DELETE_KEYS_MAX;
use crate::wire::key_named;

pub(super) async fn call(door: &Door, exchange: &mut Exchange) -> Result<Answer> {
    let bytes = exchange.document(true).await?;
    let Delete { objects, quiet } = document(&bytes)?;
    if objects.is_empty() || objects.len() > BULK_DELETE_KEYS_MAX {
        return Err(malformed());
    }
    let mut wanted = Vec::with_capacity(objects.len());
    let mut output = DeleteObjectsOutput::default();
    let mut errors = Vec::new();
    for object in &objects {
        match read(object) {
            Ok(pair) => wanted.push(pair),
            Err(refusal) => errors.push(failed(&object.key, &refusal)),
        }
    }
    let keys: Vec<String> = wanted.iter().map(|(key, _)| key.to_string()).collect();
    let bucket = exchange.bucket()?;
    let outcomes = door
        .store
        .delete_many(&exchange.caller, &bucket, wanted)
        .await?;
    let mut deleted = Vec::new();
    for (key, outcome) in keys.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) => deleted.push(DeletedObject {
                key: Some(key),
                ..DeletedObject::default()
            }),
            Err(error) => errors.push(failed(&key, &Refusal::from(error))),
        }
    }
    output.deleted = (!quiet.unwrap_or(false)).then_some(deleted);
    output.errors = Some(errors);
    xml_answer(&output)
}

fn malformed() -> Refusal {
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

fn read(object: &ObjectIdentifier) -> Result<(ObjectKey, WriteCondition)> {
    if object
        .version_id
        .as_deref()
        .is_some_and(|version| version != "null")
    {
        let message = "The specified version does not exist.";
        return Err(Refusal::new(Code::NoSuchVersion, message));
    }
    let number = |n: i64| {
        u64::try_from(n).map_err(|_| Refusal::new(Code::InvalidArgument, "A size is negative."))
    };
    let if_match = object.e_tag.as_ref().map(|etag| match etag.value() {
        "*" => ETag::Any,
        value => ETag::Is(value.to_owned()),
    });
    let modified = object
        .last_modified_time
        .clone()
        .map(time::OffsetDateTime::from);
    let condition = WriteCondition {
        if_absent: false,
        if_match,
        if_modified_at: modified
            .map(|at| number(at.unix_timestamp()).map(Timestamp::from_secs))
            .transpose()?,
        if_size: object.size.map(number).transpose()?,
    };
    Ok((key_named(&object.key)?, condition))
}

fn failed(key: &str, refusal: &Refusal) -> s3s::dto::Error {
    let mut message = String::new();
    // Writing to a String cannot fail.
    let _ = write!(message, "{}", refusal.message());
    s3s::dto::Error {
        code: Some(refusal.code().as_str().to_owned()),
        key: Some(key.to_owned()),
        message: Some(message),
        version_id: None,
    }
}
