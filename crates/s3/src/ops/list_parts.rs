//! ListParts.

use dewar_store::api::ListPartsRequest;
use s3s::dto::{ListPartsOutput, Part};

use super::shown::{Checksums, Owners, algorithm, etag, kind, storage_class, upload_id};
use crate::door::{Answer, Door, Exchange, xml_answer};
use crate::error::Result;
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::{abort_headers, customer_key, xml_date};

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
    let parts = page.parts.iter().map(|part| {
        let sums = Checksums::of_digest(part.checksum.as_ref());
        Part {
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
            e_tag: Some(etag(&part.etag)),
            last_modified: Some(xml_date(part.modified)),
            part_number: i32::try_from(part.number).ok(),
            size: i64::try_from(part.size).ok(),
        }
    });
    let number = |n: u32| i32::try_from(n).ok();
    let last = page.parts.last().map_or(after, |part| part.number);
    let mut answer = xml_answer(&ListPartsOutput {
        bucket: Some(object.bucket.name.to_string()),
        key: Some(object.key.to_string()),
        upload_id: Some(upload.to_string()),
        checksum_algorithm: page.checksum.and_then(|(name, _)| algorithm(name)),
        checksum_type: page.checksum.map(|(_, composite)| kind(composite)),
        initiator: Some(owners.initiator(page.owner)),
        owner: Some(owners.owner(page.owner)),
        is_truncated: Some(page.next.is_some()),
        max_parts: i32::try_from(max).ok(),
        next_part_number_marker: number(page.next.unwrap_or(last)),
        part_number_marker: number(after),
        parts: Some(parts.collect()),
        storage_class: Some(storage_class(page.storage_class)),
        ..ListPartsOutput::default()
    })?;
    abort_headers(answer.headers_mut(), page.abort.as_ref());
    Ok(answer)
}
