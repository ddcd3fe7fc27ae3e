//! ListObjects, version 1 and 2.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dewar_http_front::Answer;
use dewar_store::api::{BucketRef, ListPage, ListRequest, ListedObject};
use s3s::dto::{
    CommonPrefix, EncodingType, ListObjectsOutput, ListObjectsV2Output, Object, ObjectStorageClass,
};

use super::document_fields::{Owners, algorithm, etag, kind, listed};
use super::head_bucket::bucket_region;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::xml_date;

/// The parameters that both versions have.
struct ListParameters {
    bucket: BucketRef,
    prefix: String,
    delimiter: String,
    max: usize,
    encode: bool,
}

impl ListParameters {
    fn read(context: &RequestContext) -> Result<Self> {
        let text = |name| context.query.get(name).unwrap_or_default().to_owned();
        let max = context.number("max-keys", 0..=i32::MAX as u32)?;
        let unordered = context.query.get("allow-unordered") == Some("true");
        if unordered
            && context
                .query
                .get("delimiter")
                .is_some_and(|text| !text.is_empty())
        {
            // Ceph's parameter, and its rule. Dewar's order costs nothing, so it stays.
            let message = "allow-unordered and delimiter do not go together";
            return Err(Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", "allow-unordered"));
        }
        Ok(Self {
            bucket: context.bucket()?,
            prefix: text("prefix"),
            delimiter: text("delimiter"),
            max: max.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX)),
            encode: context.url_encoding()?,
        })
    }

    async fn page(&self, door: &Door, context: &RequestContext, after: &str) -> Result<ListPage> {
        let request = ListRequest {
            bucket: self.bucket.clone(),
            prefix: self.prefix.clone(),
            delimiter: self.delimiter.clone(),
            after: after.to_owned(),
            max: self.max,
        };
        Ok(door.store.list(&context.caller, request).await?)
    }

    fn listed(&self, text: &str) -> String {
        listed(text, self.encode)
    }

    fn encoding(&self) -> Option<EncodingType> {
        self.encode
            .then(|| EncodingType::from_static(EncodingType::URL))
    }

    fn delimiter(&self) -> Option<String> {
        (!self.delimiter.is_empty()).then(|| self.listed(&self.delimiter))
    }

    fn max(&self) -> Option<i32> {
        i32::try_from(self.max).ok()
    }

    fn prefixes(&self, page: &ListPage) -> Vec<CommonPrefix> {
        let prefixes = page.prefixes.iter();
        prefixes
            .map(|prefix| CommonPrefix {
                prefix: Some(self.listed(prefix)),
            })
            .collect()
    }

    fn objects(&self, page: &ListPage, owners: Option<&Owners>) -> Vec<Object> {
        let objects = page.objects.iter();
        objects.map(|object| self.object(object, owners)).collect()
    }

    fn object(&self, object: &ListedObject, owners: Option<&Owners>) -> Object {
        let checksum = object.checksum;
        Object {
            checksum_algorithm: checksum
                .and_then(|(name, _)| algorithm(name))
                .map(|name| vec![name]),
            checksum_type: checksum.map(|(_, composite)| kind(composite)),
            e_tag: Some(etag(&object.etag)),
            key: Some(self.listed(&object.key)),
            last_modified: Some(xml_date(object.modified)),
            owner: owners.map(|owners| owners.owner(object.owner)),
            restore_status: None,
            size: i64::try_from(object.size).ok(),
            storage_class: Some(match &object.storage_class {
                None => ObjectStorageClass::from_static(ObjectStorageClass::STANDARD),
                Some(class) => class.clone().into(),
            }),
        }
    }
}

/// Version 1. Parameters of version 2 mean nothing here, as with S3.
pub(super) async fn version_1(door: &Door, context: &RequestContext) -> Result<Answer> {
    let asked = ListParameters::read(context)?;
    let marker = context.query.get("marker").unwrap_or_default();
    let page = asked.page(door, context, marker).await?;
    let owners = Owners::of(
        door,
        page.objects.iter().map(|object| object.owner).collect(),
    )
    .await?;
    let answer = xml_answer(&ListObjectsOutput {
        name: Some(asked.bucket.name.to_string()),
        // S3 documents it as encoded, but botocore does not decode it here, so it is plain where
        // XML can hold it.
        prefix: Some(listed(
            &asked.prefix,
            asked.encode && !is_xml(&asked.prefix),
        )),
        marker: Some(asked.listed(marker)),
        max_keys: asked.max(),
        is_truncated: Some(page.next.is_some()),
        contents: Some(asked.objects(&page, Some(&owners))),
        common_prefixes: Some(asked.prefixes(&page)),
        delimiter: asked.delimiter(),
        next_marker: page.next.as_deref().map(|next| asked.listed(next)),
        encoding_type: asked.encoding(),
        request_charged: None,
    })?;
    Ok(bucket_region(door, answer))
}

/// Version 2.
pub(super) async fn version_2(door: &Door, context: &RequestContext) -> Result<Answer> {
    let asked = ListParameters::read(context)?;
    let start_after = context.query.get("start-after");
    let token = context.query.get("continuation-token");
    let after = match token {
        Some(token) if !token.is_empty() => from_token(token)?,
        _ => start_after.unwrap_or_default().to_owned(),
    };
    let with_owner = context.query.get("fetch-owner") == Some("true");
    let page = asked.page(door, context, &after).await?;
    let count = page.objects.len() + page.prefixes.len();
    let owners = if with_owner {
        Some(
            Owners::of(
                door,
                page.objects.iter().map(|object| object.owner).collect(),
            )
            .await?,
        )
    } else {
        None
    };
    let answer = xml_answer(&ListObjectsV2Output {
        name: Some(asked.bucket.name.to_string()),
        prefix: Some(asked.listed(&asked.prefix)),
        max_keys: asked.max(),
        key_count: i32::try_from(count).ok(),
        continuation_token: token.map(str::to_owned),
        is_truncated: Some(page.next.is_some()),
        next_continuation_token: page.next.as_deref().map(to_token),
        contents: Some(asked.objects(&page, owners.as_ref())),
        common_prefixes: Some(asked.prefixes(&page)),
        delimiter: asked.delimiter(),
        encoding_type: asked.encoding(),
        start_after: start_after.map(|text| asked.listed(text)),
        request_charged: None,
    })?;
    Ok(bucket_region(door, answer))
}

/// Whether XML 1.0 can hold a text (section 2.2).
fn is_xml(text: &str) -> bool {
    let holds = |c| match c {
        '\t' | '\n' | '\u{7f}' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_ascii_control(),
    };
    text.chars().all(holds)
}

/// Encodes a position as a continuation token. The form is opaque, so that clients do not construct
/// one.
fn to_token(next: &str) -> String {
    format!("1{}", URL_SAFE_NO_PAD.encode(next))
}

fn from_token(token: &str) -> Result<String> {
    token
        .strip_prefix('1')
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| {
            Refusal::new(
                Code::InvalidArgument,
                "The continuation token provided is incorrect",
            )
            .element("ArgumentName", "continuation-token")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_and_others_are_refused() {
        for key in ["", "a/b", "ü&\n"] {
            assert_eq!(from_token(&to_token(key)).expect("ours"), key);
        }
        for bad in ["", "a", "2abc", "1%%", "1gA"] {
            assert!(from_token(bad).is_err(), "{bad}");
        }
    }
}
