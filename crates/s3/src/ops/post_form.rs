//! Uploads from a browser's form.

use dewar_auth::Caller;
use dewar_http_front::{
    Answer, boundary_of, empty_answer, header, quoted, value_of, write_condition,
};
use dewar_sigv4::{encode_path, encode_strict};
use dewar_store::api::{ObjectInfo, ObjectRef, WriteRequest};
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};

use dewar_checksum::Algorithm;
use dewar_store::limits::TAGS_PER_OBJECT_MAX;

use super::tagging::tags_of_document;

use crate::door::{Door, RequestContext, WireFacts, audit_failed_auth, text_answer};
use crate::error::{Code, Refusal, Result, push_element, push_name};
use crate::form::{FormFields, FormUpload, LengthRange};
use crate::limits::SINGLE_WRITE_BYTES_MAX;
use crate::sigv4::verify_form;
use crate::wire::{
    DeclaredDigests, acl_of, checksum_headers, encryption_headers, encryption_of, key_named,
    refuse_unsupported, version_attributes_of, version_headers,
};

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    let boundary = header(context.headers(), "content-type")?.and_then(boundary_of);
    let boundary = boundary
        .ok_or_else(|| Refusal::new(Code::MalformedPOSTRequest, "The form has no boundary."))?;
    let bucket = context.bucket()?;
    let body = context.take_body()?;
    let (fields, mut file) = FormUpload::read(body, &boundary).await?;
    let now = door.env.clock.now();
    let mut caller = context.caller.clone();
    let mut length = LengthRange {
        min: 0,
        max: SINGLE_WRITE_BYTES_MAX,
    };
    let proven = verify_form(&door.verifier, &fields, now).await;
    let proven = proven.inspect_err(|refusal| {
        audit_failed_auth(&door.store, context.caller.origin(), None, refusal);
    });
    let mut signed_as_v2 = None;
    if let Some((key, policy)) = proven? {
        signed_as_v2 = Some(fields.get("x-amz-signature").is_none());
        policy.check(&fields, bucket.name.as_str(), now)?;
        caller = Caller::by_access_key(&key, context.caller.origin());
        if let Some(range) = policy.length() {
            length.min = range.min;
            length.max = length.max.min(range.max);
        }
    }
    file.limit(length);
    let key = fields.get("key").ok_or_else(|| {
        let message = "Bucket POST must contain a field named 'key'.";
        Refusal::new(Code::InvalidArgument, message).element("ArgumentName", "key")
    })?;
    let headers = as_headers(&fields)?;
    refuse_unsupported(&headers)?;
    let (head, region) = (&context.head, door.region());
    let facts = WireFacts::of_form(head, headers.clone(), signed_as_v2, now, region);
    let caller = caller.with_facts(facts);
    let declared = DeclaredDigests::read(&headers)?;
    let mut attributes = version_attributes_of(&headers)?;
    if attributes.headers.content_type.is_none() {
        attributes.headers.content_type = fields.file_type().map(str::to_owned);
    }
    if let Some(tagging) = fields.get("tagging") {
        attributes.tags = Some(tags_of_document(tagging.as_bytes(), TAGS_PER_OBJECT_MAX)?);
    }
    let object = ObjectRef {
        bucket,
        key: key_named(key)?,
    };
    let request = WriteRequest {
        attributes,
        want: declared.want(),
        checksum: declared.algorithm.or(Some(Algorithm::Crc64Nvme)),
        condition: write_condition(&headers)?,
        encryption: encryption_of(context, &headers)?,
        acl: acl_of(&headers)?,
        ..WriteRequest::new(object.clone())
    };
    let mut upload = door.store.write(&caller, request).await?;
    while let Some(bytes) = file.next().await? {
        upload.write(bytes).await?;
    }
    let expect = declared.expect(file.received(), None)?;
    let info = upload.commit(expect).await?;
    let mut location = context.location();
    if !location.ends_with('/') {
        location.push('/');
    }
    encode_path(&mut location, object.key.as_str().as_bytes());
    let mut answer = answer(&fields, location, &object, &info);
    encryption_headers(answer.headers_mut(), info.encrypted, &headers);
    Ok(answer)
}

/// Fields with the names of headers, as headers. The other fields belong to the form itself.
fn as_headers(fields: &FormFields) -> Result<HeaderMap> {
    const KEPT: [&str; 8] = [
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "content-md5",
        "expires",
        "if-none-match",
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter() {
        let (name, kept) = match name {
            "acl" => ("x-amz-acl", true),
            name => (name, name.starts_with("x-amz-") || KEPT.contains(&name)),
        };
        if !kept {
            continue;
        }
        let pair = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        let (name, value) = pair.ok_or_else(|| {
            let message = format!("The form field {name:?} cannot be kept with an object.");
            Refusal::new(Code::InvalidArgument, message)
        })?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// `location` is the object's full address.
fn answer(
    fields: &FormFields,
    mut location: String,
    object: &ObjectRef,
    info: &ObjectInfo,
) -> Answer {
    let bucket = object.bucket.name.as_str();
    let redirect = fields
        .get("success_action_redirect")
        .or(fields.get("redirect"));
    let mut answer = if let Some(target) = redirect.and_then(|url| redirection(url, object, info)) {
        location = target;
        empty_answer(StatusCode::SEE_OTHER)
    } else {
        match fields.get("success_action_status") {
            Some("200") => empty_answer(StatusCode::OK),
            Some("201") => {
                let mut xml =
                    String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse>");
                push_element(&mut xml, "Location", &location);
                push_element(&mut xml, "Bucket", bucket);
                push_name(&mut xml, "Key", object.key.as_str());
                push_element(&mut xml, "ETag", &format!("\"{}\"", info.etag));
                xml.push_str("</PostResponse>");
                text_answer(StatusCode::CREATED, xml)
            }
            _ => empty_answer(StatusCode::NO_CONTENT),
        }
    };
    let headers = answer.headers_mut();
    headers.insert(LOCATION, value_of(&location));
    headers.insert(ETAG, quoted(&info.etag));
    checksum_headers(headers, info.checksum.as_ref());
    version_headers(headers, info);
    answer
}

/// The address that the browser is redirected to, with the result of the upload. `None` for text
/// that is no web address, which S3 ignores.
fn redirection(url: &str, object: &ObjectRef, info: &ObjectInfo) -> Option<String> {
    let parsed: Uri = url.parse().ok()?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return None;
    }
    let joint = if parsed.query().is_some() { '&' } else { '?' };
    let mut target = format!("{url}{joint}bucket={}&key=", object.bucket.name);
    encode_strict(&mut target, object.key.as_str().as_bytes());
    target.push_str("&etag=");
    encode_strict(&mut target, format!("\"{}\"", info.etag).as_bytes());
    Some(target)
}
