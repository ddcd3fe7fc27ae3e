//! CopyObject.

use std::collections::BTreeMap;

use dewar_http_front::{Answer, header, read_condition_of, value_of, write_condition};
use dewar_store::api::{CopyRequest, Hierarchy, ObjectRef, VersionAttributes};
use dewar_types::VersionName;
use http::HeaderMap;

use super::parts_documents::{CopyChecksum, CopyResult};
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{
    acl_of, algorithm_named, encryption_headers, encryption_of, object_named, refuse_unsupported,
    settings_of, source_key, version_attributes_of, version_headers,
};

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let headers = context.headers();
    refuse_unsupported(headers)?;
    let (source, source_version) = copy_source(headers)?;
    let target = context.object()?;
    let replace = match header(headers, "x-amz-metadata-directive")? {
        None | Some("COPY") => false,
        Some("REPLACE") => true,
        Some(_) => {
            let message = "Unknown metadata directive.";
            return Err(Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", "x-amz-metadata-directive"));
        }
    };
    let checksum = header(headers, "x-amz-checksum-algorithm")?;
    let checksum = checksum.map(algorithm_named).transpose()?;
    let encryption = encryption_of(context, headers)?;
    let mut attributes = match replace {
        true => version_attributes_of(headers)?,
        false => settings_of(headers)?,
    };
    if !replaces_tags(headers)? {
        attributes.tags = None;
    } else if attributes.tags.is_none() {
        attributes.tags = Some(BTreeMap::new());
    }
    let settings_kept = attributes == VersionAttributes::default();
    let as_it_was = encryption.is_none() && settings_kept && source_version.is_none();
    if source == target && !replace && checksum.is_none() && as_it_was {
        return Err(Refusal::new(
            Code::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself \
             without changing the object's metadata, storage class, website redirect location or \
             encryption attributes.",
        ));
    }
    let request = CopyRequest {
        hierarchy: Hierarchy::Flat,
        source,
        source_version,
        source_condition: read_condition_of(headers, "x-amz-copy-source-")?,
        target,
        attributes,
        replace_headers: replace,
        checksum,
        condition: write_condition(headers)?,
        source_key: source_key(context)?,
        encryption,
        acl: acl_of(headers)?,
    };
    let info = door
        .store
        .copy(&context.caller, request)
        .await
        .map_err(failed_source)?;
    let mut answer = xml_answer(&CopyResult {
        element: "CopyObjectResult",
        etag: &info.etag,
        modified: info.modified,
        checksum: CopyChecksum::Object(info.checksum.as_ref()),
    })?;
    encryption_headers(answer.headers_mut(), info.encrypted, headers);
    let told = answer.headers_mut();
    version_headers(told, &info);
    if let Some(name) = source_version {
        let name = value_of(&name.to_string());
        told.insert("x-amz-copy-source-version-id", name);
    }
    Ok(answer)
}

/// The source of a copy, and which version of it.
pub(super) fn copy_source(headers: &HeaderMap) -> Result<(ObjectRef, Option<VersionName>)> {
    object_named(header(headers, "x-amz-copy-source")?.unwrap_or_default())
}

/// A failed "not modified" condition on the source fails a copy like any other condition.
pub(super) fn failed_source(error: dewar_types::Error) -> Refusal {
    if error.kind() == dewar_types::ErrorKind::NotModified {
        let message = "At least one of the pre-conditions you specified did not hold";
        return Refusal::new(Code::PreconditionFailed, message);
    }
    error.into()
}

/// Whether the copy gets its own tags instead of the source's.
fn replaces_tags(headers: &HeaderMap) -> Result<bool> {
    match header(headers, "x-amz-tagging-directive")? {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => {
            let message = "Unknown tagging directive.";
            Err(Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", "x-amz-tagging-directive"))
        }
    }
}
