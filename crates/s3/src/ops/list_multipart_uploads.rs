//! ListMultipartUploads.

use dewar_http_front::Answer;
use dewar_store::api::ListUploadsRequest;
use s3s::dto::{CommonPrefix, EncodingType, ListMultipartUploadsOutput, MultipartUpload};

use super::document_fields::{Owners, algorithm, kind, listed, storage_class};
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::xml_date;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let encode = context.url_encoding()?;
    let text = |name| context.query.get(name).unwrap_or_default().to_owned();
    let (prefix, delimiter, after_key) = (text("prefix"), text("delimiter"), text("key-marker"));
    let marker = text("upload-id-marker");
    // S3 ignores an upload marker without a key marker.
    let after_upload = if marker.is_empty() || after_key.is_empty() {
        None
    } else {
        Some(marker.parse().map_err(|_| {
            Refusal::new(Code::InvalidArgument, "Invalid uploadId marker")
                .element("ArgumentName", "upload-id-marker")
        })?)
    };
    let asked = context.number("max-uploads", 0..=i32::MAX as u32)?;
    let max = asked.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX));
    let request = ListUploadsRequest {
        bucket: bucket.clone(),
        prefix: prefix.clone(),
        delimiter: delimiter.clone(),
        after_key: after_key.clone(),
        after_upload,
        max,
    };
    let page = door.store.list_uploads(&context.caller, request).await?;
    let owners = Owners::of(
        door,
        page.uploads.iter().map(|upload| upload.owner).collect(),
    )
    .await?;
    let uploads = page.uploads.iter().map(|upload| MultipartUpload {
        checksum_algorithm: upload.checksum.and_then(|(name, _)| algorithm(name)),
        checksum_type: upload.checksum.map(|(_, composite)| kind(composite)),
        initiated: Some(xml_date(upload.initiated)),
        initiator: Some(owners.initiator(upload.owner)),
        key: Some(listed(&upload.key, encode)),
        owner: Some(owners.owner(upload.owner)),
        storage_class: Some(storage_class(upload.storage_class.clone())),
        upload_id: Some(upload.upload.to_string()),
    });
    let prefixes = page.prefixes.iter().map(|prefix| CommonPrefix {
        prefix: Some(listed(prefix, encode)),
    });
    let next = page.next.as_ref();
    xml_answer(&ListMultipartUploadsOutput {
        bucket: Some(bucket.name.to_string()),
        uploads: Some(uploads.collect()),
        common_prefixes: Some(prefixes.collect()),
        delimiter: (!delimiter.is_empty()).then(|| listed(&delimiter, encode)),
        encoding_type: encode.then(|| EncodingType::from_static(EncodingType::URL)),
        is_truncated: Some(next.is_some()),
        key_marker: Some(listed(&after_key, encode)),
        upload_id_marker: Some(marker),
        max_uploads: i32::try_from(max).ok(),
        next_key_marker: next.map(|(key, _)| listed(key, encode)),
        next_upload_id_marker: next
            .and_then(|(_, upload)| upload.as_ref())
            .map(ToString::to_string),
        prefix: Some(listed(&prefix, encode)),
        ..ListMultipartUploadsOutput::default()
    })
}
