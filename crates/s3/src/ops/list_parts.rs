//! ListParts.

use dewar_http_front::Answer;
use dewar_store::api::ListPartsRequest;

use super::document_fields::{Owners, upload_id};
use super::parts_documents::PartsResult;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::Result;
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::{abort_headers, customer_key};

/// The largest number S3 takes in a listing's parameters.
const NUMBER_MAX: u32 = i32::MAX as u32;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let object = context.object()?;
    let upload = upload_id(context)?;
    let after = context
        .number("part-number-marker", 0..=NUMBER_MAX)?
        .unwrap_or(0);
    let asked = context.number("max-parts", 0..=NUMBER_MAX)?;
    let max = asked.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX));
    context.url_encoding()?;
    let request = ListPartsRequest {
        object: object.clone(),
        upload,
        customer_key: customer_key(context)?,
        after,
        max,
    };
    let page = door.store.list_parts(&context.caller, request).await?;
    let owners = Owners::of(door, vec![page.owner]).await?;
    let last = page.parts.last().map_or(after, |part| part.number);
    let mut answer = xml_answer(&PartsResult {
        bucket: object.bucket.name.as_str(),
        key: object.key.as_str(),
        upload: upload.to_string(),
        checksum: page.checksum,
        initiator: owners.initiator(page.owner),
        owner: owners.owner(page.owner),
        after,
        next: page.next.unwrap_or(last),
        max,
        truncated: page.next.is_some(),
        storage_class: page.storage_class.clone(),
        parts: &page.parts,
    })?;
    abort_headers(answer.headers_mut(), page.abort.as_ref());
    Ok(answer)
}
