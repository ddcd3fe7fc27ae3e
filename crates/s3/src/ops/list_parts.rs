//! ListParts.

use dewar_store::api::ListPartsRequest;

use super::parts_documents::PartsResult;
use super::shown::{Owners, upload_id};
use crate::door::{Answer, Door, Exchange, xml_answer};
use crate::error::Result;
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::{abort_headers, customer_key};

/// The largest number S3 takes in a listing's parameters.
const NUMBER_MAX: u32 = i32::MAX as u32;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let object = exchange.object()?;
    let upload = upload_id(exchange)?;
    let after = exchange
        .number("part-number-marker", 0..=NUMBER_MAX)?
        .unwrap_or(0);
    let asked = exchange.number("max-parts", 0..=NUMBER_MAX)?;
    let max = asked.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX));
    exchange.url_encoding()?;
    let request = ListPartsRequest {
        object: object.clone(),
        upload,
        customer_key: customer_key(exchange)?,
        after,
        max,
    };
    let page = door.store.list_parts(&exchange.caller, request).await?;
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
