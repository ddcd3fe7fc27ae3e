//! Tags of objects and buckets.

use dewar_http_front::{Answer, empty_answer, value_of};
use dewar_store::api::check_tags;
use dewar_store::api::{BucketTags, Tags};
use dewar_store::limits::{TAGS_PER_BUCKET_MAX, TAGS_PER_OBJECT_MAX};
use dewar_types::VersionName;
use http::StatusCode;
use s3s::dto::{Tag, Tagging};
use s3s::xml::{DeError, DeResult, DeserializeContent, Deserializer};

use super::delete_objects::document;
use super::get_object::absent;
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Code, Refusal, Result, push_element};

/// The tags in a document.
///
/// # Errors
/// `MalformedXML`; `InvalidTag` for a duplicate, and for tags beyond the limits.
pub(super) fn tags_of_document(bytes: &[u8], max: usize) -> Result<Tags> {
    let asked: Tagging = document(bytes)?;
    TagList(asked.tag_set).checked(max)
}

/// Tags as a document lists them.
#[derive(Debug, Default)]
pub(super) struct TagList(Vec<Tag>);

impl<'xml> DeserializeContent<'xml> for TagList {
    fn deserialize_content(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        let mut tags = Vec::new();
        d.for_each_element(|d, name| match name {
            b"Tag" => {
                tags.push(d.content()?);
                Ok(())
            }
            _ => Err(DeError::UnexpectedTagName),
        })?;
        Ok(Self(tags))
    }
}

impl TagList {
    /// The tags by their keys, at most `max`.
    ///
    /// # Errors
    /// `InvalidTag` for a duplicate, and for tags beyond the limits.
    pub(super) fn checked(self, max: usize) -> Result<Tags> {
        let mut tags = Tags::new();
        for tag in self.0 {
            let key = tag.key.unwrap_or_default();
            if tags.insert(key, tag.value.unwrap_or_default()).is_some() {
                let message = "Cannot provide multiple Tags with the same key";
                return Err(Refusal::new(Code::InvalidTag, message));
            }
        }
        let checked = check_tags(&tags, max);
        checked.map_err(|error| Refusal::new(Code::InvalidTag, error.message().to_owned()))?;
        Ok(tags)
    }
}

fn shown(tags: &Tags) -> Answer {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Tagging \
         xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet>",
    );
    for (key, value) in tags {
        xml.push_str("<Tag>");
        push_element(&mut xml, "Key", key);
        push_element(&mut xml, "Value", value);
        xml.push_str("</Tag>");
    }
    xml.push_str("</TagSet></Tagging>");
    text_answer(StatusCode::OK, xml)
}

fn named(mut answer: Answer, name: Option<VersionName>) -> Answer {
    if let Some(name) = name {
        let headers = answer.headers_mut();
        headers.insert("x-amz-version-id", value_of(&name.to_string()));
    }
    answer
}

pub(super) async fn get_of_object(door: &Door, context: &RequestContext) -> Result<Answer> {
    let (object, version) = (context.object()?, context.version()?);
    let found = door.store.get_tags(&context.caller, &object, version).await;
    let (tags, name) = found.map_err(refused)?;
    Ok(named(shown(&tags), name))
}

pub(super) async fn put_of_object(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let tags = tags_of_document(&bytes, TAGS_PER_OBJECT_MAX)?;
    let (object, version) = (context.object()?, context.version()?);
    let done = door
        .store
        .set_tags(&context.caller, &object, version, tags)
        .await;
    Ok(named(empty_answer(StatusCode::OK), done.map_err(refused)?))
}

pub(super) async fn delete_of_object(door: &Door, context: &RequestContext) -> Result<Answer> {
    let (object, version) = (context.object()?, context.version()?);
    let done = door
        .store
        .delete_tags(&context.caller, &object, version)
        .await;
    let answer = empty_answer(StatusCode::NO_CONTENT);
    Ok(named(answer, done.map_err(refused)?))
}

/// A refusal about an object that may be a delete marker.
fn refused(error: dewar_types::Error) -> Refusal {
    use dewar_types::ErrorKind::{DeleteMarker, NotFound};
    if matches!(error.kind(), NotFound | DeleteMarker) {
        return absent(error);
    }
    error.into()
}

pub(super) async fn get_of_bucket(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let found = door
        .store
        .get_bucket_document::<BucketTags>(&context.caller, &bucket)
        .await?;
    match found {
        Some(found) => Ok(shown(&found.tags)),
        None => Err(Refusal::new(
            Code::NoSuchTagSet,
            "The TagSet does not exist",
        )),
    }
}

pub(super) async fn put_of_bucket(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let bytes = context.document(false).await?;
    let tags = tags_of_document(&bytes, TAGS_PER_BUCKET_MAX)?;
    let bucket = context.bucket()?;
    door.store
        .set_bucket_tags(&context.caller, &bucket, &BucketTags { tags })
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}

pub(super) async fn delete_of_bucket(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    door.store
        .delete_bucket_document::<BucketTags>(&context.caller, &bucket)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
