//! CreateBucket.

use dewar_http_front::{Answer, empty_answer, header, value_of};
use dewar_store::api::{BucketOptions, NewBucket, ObjectLock, Tags, Versioning};
use dewar_store::limits::TAGS_PER_BUCKET_MAX;
use dewar_types::ErrorKind;
use http::StatusCode;
use http::header::LOCATION;
use s3s::xml::{DeError, DeResult, Deserialize, Deserializer};

use super::delete_objects::document;
use super::tagging::TagList;
use crate::door::{Door, RequestContext};
use crate::error::{Code, Refusal, Result};
use crate::wire::{acl_of, ownership_named, refuse_unsupported};

const OLDEST_REGION: &str = "us-east-1";

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let headers = context.headers();
    let locks = header(headers, "x-amz-bucket-object-lock-enabled")?
        .is_some_and(|on| on.eq_ignore_ascii_case("true"));
    refuse_unsupported(headers)?;
    let bytes = context.document(false).await?;
    let (mut location, mut tags) = (None, Tags::new());
    if !bytes.is_empty() {
        let wanted: BucketConfiguration = document(&bytes)?;
        if wanted.directory {
            let message = "Directory buckets are not implemented";
            return Err(Refusal::new(Code::NotImplemented, message));
        }
        location = check_location(wanted.location, door.region())?;
        tags = wanted.tags.checked(TAGS_PER_BUCKET_MAX)?;
    }
    let ownership = header(context.headers(), "x-amz-object-ownership")?;
    let options = BucketOptions {
        acl: acl_of(context.headers())?,
        ownership: ownership.map(ownership_named).transpose()?,
        location,
        tags,
    };
    let bucket = context.bucket()?;
    let mut new = NewBucket::default();
    if locks {
        // Versions are what is kept.
        new.versioning = Versioning::Enabled;
        new.object_lock = Some(ObjectLock::default());
    }
    let made = door
        .store
        .create_bucket_with(&context.caller, &bucket, new, &options)
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

/// The body of a CreateBucket.
struct BucketConfiguration {
    location: Option<String>,
    tags: TagList,
    /// Whether it is to be a directory bucket.
    directory: bool,
}

impl<'xml> Deserialize<'xml> for BucketConfiguration {
    fn deserialize(d: &mut Deserializer<'xml>) -> DeResult<Self> {
        let (mut location, mut tags, mut directory) = (None, None, false);
        d.named_element("CreateBucketConfiguration", |d| {
            d.for_each_element(|d, name| {
                match name {
                    b"LocationConstraint" if location.is_none() => location = Some(d.content()?),
                    b"Tags" if tags.is_none() => tags = Some(d.content()?),
                    b"Location" | b"Bucket" => {
                        directory = true;
                        d.for_each_element(|d, _| d.content::<String>().map(drop))?;
                    }
                    b"LocationConstraint" | b"Tags" => return Err(DeError::DuplicateField),
                    _ => return Err(DeError::UnexpectedTagName),
                }
                Ok(())
            })
        })?;
        Ok(Self {
            location,
            tags: tags.unwrap_or_default(),
            directory,
        })
    }
}

/// The location of the bucket, if the request has one. It must be this region.
fn check_location(location: Option<String>, region: &str) -> Result<Option<String>> {
    match location {
        None => Ok(None),
        Some(place) if place.is_empty() => Ok(None),
        Some(place) if place == region => Ok(Some(place)),
        Some(place) => Err(Refusal::new(
            Code::InvalidLocationConstraint,
            "The specified location-constraint is not valid",
        )
        .element("LocationConstraint", place)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_says_where_and_which_tags() {
        let read = |inside: &str| {
            let text = format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 {inside}</CreateBucketConfiguration>"
            );
            document::<BucketConfiguration>(text.as_bytes())
        };
        let tag = |key: &str| format!("<Tag><Key>{key}</Key><Value>v</Value></Tag>");
        let both = read(&format!(
            "<LocationConstraint>eu-1</LocationConstraint><Tags>{}{}</Tags>",
            tag("a"),
            tag("b")
        ))
        .expect("read");
        assert_eq!(both.location.as_deref(), Some("eu-1"));
        assert_eq!(both.tags.checked(50).expect("fits").len(), 2);
        assert!(
            read("")
                .expect("read")
                .tags
                .checked(50)
                .expect("fits")
                .is_empty()
        );
        let twice = read(&format!("<Tags>{}{}</Tags>", tag("a"), tag("a"))).expect("read");
        assert_eq!(
            twice.tags.checked(50).expect_err("twice").code(),
            Code::InvalidTag
        );
        let many = read(&format!("<Tags>{}{}</Tags>", tag("a"), tag("b"))).expect("read");
        assert_eq!(
            many.tags.checked(1).expect_err("many").code(),
            Code::InvalidTag
        );
        assert!(
            read("<Bucket><Type>Directory</Type></Bucket>")
                .expect("read")
                .directory
        );
        assert!(read("<Unknown>1</Unknown>").is_err());
    }
}
