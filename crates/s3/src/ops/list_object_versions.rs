//! ListObjectVersions. It is written by hand: S3 lists versions and delete markers in one sequence,
//! by key and then by age. A document type with separate lists could not keep this order.

use dewar_http_front::{Answer, iso_date};
use dewar_store::api::{ListVersionsRequest, ListedVersion};

use super::document_fields::{Owners, listed};
use super::head_bucket::bucket_region;
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Result, push_element, push_name};
use crate::limits::PAGE_ITEMS_MAX;
use crate::wire::version_named;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let text = |name| context.query.get(name).unwrap_or_default();
    let max = context.number("max-keys", 0..=i32::MAX as u32)?;
    let encode = context.url_encoding()?;
    let version = context.query.get("version-id-marker");
    let version = version.filter(|text| !text.is_empty());
    let request = ListVersionsRequest {
        bucket: context.bucket()?,
        prefix: text("prefix").to_owned(),
        delimiter: text("delimiter").to_owned(),
        after: text("key-marker").to_owned(),
        after_version: version.map(version_named).transpose()?,
        max: max.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX)),
    };
    let page = door
        .store
        .list_versions(&context.caller, request.clone())
        .await?;
    let shown = |text: &str| listed(text, encode);
    let mut xml = String::with_capacity(512 + 400 * page.versions.len());
    xml.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    push_element(&mut xml, "Name", request.bucket.name.as_str());
    push_name(&mut xml, "Prefix", &shown(&request.prefix));
    push_name(&mut xml, "KeyMarker", &shown(&request.after));
    push_element(&mut xml, "VersionIdMarker", version.unwrap_or_default());
    push_element(&mut xml, "MaxKeys", &request.max.to_string());
    if !request.delimiter.is_empty() {
        push_name(&mut xml, "Delimiter", &shown(&request.delimiter));
    }
    if encode {
        push_element(&mut xml, "EncodingType", "url");
    }
    let truncated = page.next.is_some();
    push_element(&mut xml, "IsTruncated", &truncated.to_string());
    if let Some((key, version)) = &page.next {
        push_name(&mut xml, "NextKeyMarker", &shown(key));
        if let Some(version) = version {
            push_element(&mut xml, "NextVersionIdMarker", &version.to_string());
        }
    }
    let owners = Owners::of(door, page.versions.iter().map(|v| v.object.owner).collect()).await?;
    for version in &page.versions {
        push_version(&mut xml, version, &shown(&version.object.key), &owners);
    }
    for prefix in &page.prefixes {
        xml.push_str("<CommonPrefixes>");
        push_name(&mut xml, "Prefix", &shown(prefix));
        xml.push_str("</CommonPrefixes>");
    }
    xml.push_str("</ListVersionsResult>");
    Ok(bucket_region(door, text_answer(http::StatusCode::OK, xml)))
}

fn push_version(xml: &mut String, version: &ListedVersion, key: &str, owners: &Owners) {
    let object = &version.object;
    let element = if version.marker {
        "DeleteMarker"
    } else {
        "Version"
    };
    xml.push('<');
    xml.push_str(element);
    xml.push('>');
    push_name(xml, "Key", key);
    push_element(xml, "VersionId", &version.name.to_string());
    push_element(xml, "IsLatest", &version.latest.to_string());
    push_element(xml, "LastModified", &iso_date(object.modified));
    if !version.marker {
        push_element(xml, "ETag", &format!("\"{}\"", object.etag));
        if let Some((algorithm, composite)) = object.checksum
            && let Some(name) = algorithm.s3_name()
        {
            let kind = if composite {
                "COMPOSITE"
            } else {
                "FULL_OBJECT"
            };
            push_element(xml, "ChecksumAlgorithm", name);
            push_element(xml, "ChecksumType", kind);
        }
        push_element(xml, "Size", &object.size.to_string());
        let class = object.storage_class.as_deref().unwrap_or("STANDARD");
        push_element(xml, "StorageClass", class);
    }
    xml.push_str("<Owner>");
    push_element(xml, "ID", &object.owner.to_string());
    if let Some(name) = owners.owner(object.owner).display_name {
        push_element(xml, "DisplayName", &name);
    }
    xml.push_str("</Owner></");
    xml.push_str(element);
    xml.push('>');
}
