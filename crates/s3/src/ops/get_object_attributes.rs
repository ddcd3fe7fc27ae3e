//! GetObjectAttributes: the answer of HEAD, and the parts.

use dewar_http_front::{Answer, header, http_date, value_of};
use dewar_store::api::{AttributesRequest, ObjectChecksum, PartAttributes};
use http::StatusCode;
use http::header::LAST_MODIFIED;

use super::get_object::explain;
use crate::door::{Door, RequestContext, text_answer};
use crate::error::{Code, Refusal, Result, push_element};
use crate::limits::{PAGE_ITEMS_MAX, PART_NUMBER_MAX};
use crate::wire::customer_key;

const KNOWN: [&str; 5] = [
    "ETag",
    "Checksum",
    "ObjectParts",
    "StorageClass",
    "ObjectSize",
];

/// The requested attributes.
struct AttributeSelection(Vec<String>);

impl AttributeSelection {
    fn read(context: &RequestContext) -> Result<Self> {
        let refuse = || {
            let message = "Invalid attribute name specified";
            Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", "x-amz-object-attributes")
        };
        let mut names = Vec::new();
        for value in context.headers().get_all("x-amz-object-attributes") {
            let text = value.to_str().map_err(|_| refuse())?;
            names.extend(text.split(',').map(|name| name.trim().to_owned()));
        }
        if names.is_empty() || !names.iter().all(|name| KNOWN.contains(&name.as_str())) {
            return Err(refuse());
        }
        Ok(Self(names))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|asked| asked == name)
    }
}

fn number(context: &RequestContext, name: &str, most: u32) -> Result<Option<u32>> {
    let Some(text) = header(context.headers(), name)? else {
        return Ok(None);
    };
    let number = text.parse().ok().filter(|n| *n <= most);
    number.map(Some).ok_or_else(|| {
        let message = format!("{name} must be an integer between 0 and {most}");
        Refusal::new(Code::InvalidArgument, message).element("ArgumentValue", text)
    })
}

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let asked = AttributeSelection::read(context)?;
    let max = number(context, "x-amz-max-parts", i32::MAX as u32)?;
    let max = max.map_or(PAGE_ITEMS_MAX, |n| (n as usize).min(PAGE_ITEMS_MAX));
    let after = number(context, "x-amz-part-number-marker", PART_NUMBER_MAX)?.unwrap_or(0);
    let request = AttributesRequest {
        object: context.object()?,
        version: context.version()?,
        customer_key: customer_key(context)?,
        after,
        max,
    };
    let (info, parts) = match door.store.attributes(&context.caller, request).await {
        Ok(found) => found,
        Err(error) => return Err(explain(door, context, error).await),
    };
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<GetObjectAttributesResponse \
         xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    if asked.has("ETag") {
        push_element(&mut xml, "ETag", &info.etag);
    }
    if asked.has("Checksum")
        && let Some(checksum) = &info.checksum
    {
        let (algorithm, value, kind) = match checksum {
            ObjectChecksum::Full(digest) => (digest.algorithm(), digest.base64(), "FULL_OBJECT"),
            ObjectChecksum::Composite(sum) => {
                (sum.digest.algorithm(), sum.to_string(), "COMPOSITE")
            }
        };
        if let Some(name) = algorithm.s3_name() {
            xml.push_str("<Checksum>");
            push_element(&mut xml, &format!("Checksum{name}"), &value);
            push_element(&mut xml, "ChecksumType", kind);
            xml.push_str("</Checksum>");
        }
    }
    if asked.has("ObjectParts")
        && let Some(count) = info.parts
    {
        push_parts(&mut xml, count, after, max, &parts);
    }
    if asked.has("StorageClass") {
        let class = info
            .attributes
            .storage_class
            .as_deref()
            .unwrap_or("STANDARD");
        push_element(&mut xml, "StorageClass", class);
    }
    if asked.has("ObjectSize") {
        push_element(&mut xml, "ObjectSize", &info.size.to_string());
    }
    xml.push_str("</GetObjectAttributesResponse>");
    let mut answer = text_answer(StatusCode::OK, xml);
    let headers = answer.headers_mut();
    headers.insert(LAST_MODIFIED, value_of(&http_date(info.modified)));
    if let Some(name) = info.name {
        headers.insert("x-amz-version-id", value_of(&name.to_string()));
    }
    Ok(answer)
}

fn push_parts(xml: &mut String, count: u32, after: u32, max: usize, parts: &[PartAttributes]) {
    let last = parts.last().map_or(after, |part| part.number);
    xml.push_str("<ObjectParts>");
    push_element(xml, "PartsCount", &count.to_string());
    push_element(xml, "PartNumberMarker", &after.to_string());
    push_element(xml, "NextPartNumberMarker", &last.to_string());
    push_element(xml, "MaxParts", &max.to_string());
    push_element(xml, "IsTruncated", &(last < count).to_string());
    for part in parts {
        xml.push_str("<Part>");
        push_element(xml, "PartNumber", &part.number.to_string());
        push_element(xml, "Size", &part.size.to_string());
        if let Some(digest) = &part.checksum
            && let Some(name) = digest.algorithm().s3_name()
        {
            push_element(xml, &format!("Checksum{name}"), &digest.base64());
        }
        xml.push_str("</Part>");
    }
    xml.push_str("</ObjectParts>");
}
