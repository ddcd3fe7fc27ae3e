//! ListBuckets.

use dewar_http_front::Answer;
use dewar_store::api::BucketInfo;
use dewar_types::BucketName;
use s3s::dto::{Bucket, ListBucketsOutput};

use super::document_fields::Owners;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::xml_date;

/// Most buckets in one page (S3: 10,000).
const BUCKETS_MAX: u32 = 10_000;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let asked = context.number("max-buckets", 1..=BUCKETS_MAX)?;
    let prefix = context.query.get("prefix").unwrap_or_default();
    let elsewhere = context
        .query
        .get("bucket-region")
        .is_some_and(|r| r != &**door.region());
    let mut after = match context.query.get("continuation-token") {
        None | Some("") => None,
        Some(token) => Some(BucketName::new(token).map_err(|_| {
            let message = "The continuation token provided is incorrect";
            Refusal::new(Code::InvalidArgument, message)
        })?),
    };
    let max = asked.unwrap_or(BUCKETS_MAX) as usize;
    let mut buckets: Vec<BucketInfo> = Vec::new();
    // A user owns few buckets, so pages are gone through until enough of them fit.
    let next = loop {
        let page = door
            .store
            .list_buckets(&context.caller, after, PAGE_ITEMS_MAX)
            .await?;
        let fitting = page
            .buckets
            .into_iter()
            .filter(|bucket| !elsewhere && bucket.name.as_str().starts_with(prefix));
        buckets.extend(fitting);
        if buckets.len() > max {
            buckets.truncate(max);
            break buckets.last().map(|bucket| bucket.name.to_string());
        }
        match page.next {
            None => break None,
            next => after = next,
        }
    };
    let shown = buckets.iter().map(|bucket| Bucket {
        bucket_region: Some(door.region().to_string()),
        creation_date: Some(xml_date(bucket.created)),
        name: Some(bucket.name.to_string()),
    });
    let account = context.caller.account();
    let owners = Owners::of(door, vec![account]).await?;
    xml_answer(&ListBucketsOutput {
        buckets: Some(shown.collect()),
        continuation_token: next,
        owner: Some(owners.owner(account)),
        prefix: (!prefix.is_empty()).then(|| prefix.to_owned()),
    })
}
