//! From catalog records to what fronts hear, and back.

use dewar_catalog::record::{
    DisplayedChecksum, FileRecord, SystemHeaders, VersionRecord, Versioning,
};
use dewar_checksum::{Algorithm, Composite};
use dewar_namespace::{Bucket, Condition, ETags};
use dewar_types::{Error, ErrorKind, Result, UserId, VersionName};

use crate::api::{ETag, ObjectChecksum, ObjectInfo, ObjectMetadata, ReadCondition, WriteCondition};
use crate::document::document_of;
use crate::lifecycle::Lifecycle;
use crate::limits::ATTRIBUTE_BYTES_MAX;

pub(crate) fn object_info(bucket: &Bucket, file: &FileRecord) -> ObjectInfo {
    version_info(bucket, file.attributes.owner, &file.current)
}

/// The same with the time of expiry, for a current version. For buckets without rules it costs one
/// map lookup.
pub(crate) fn with_expiry(
    mut info: ObjectInfo,
    bucket: &Bucket,
    key: &str,
    version: &VersionRecord,
) -> Result<ObjectInfo> {
    if let Some(rules) = document_of::<Lifecycle>(bucket)? {
        info.expiry = rules.expiry(key, version);
    }
    Ok(info)
}

/// The name of a version for clients of the bucket; `None` in buckets that never kept versions.
pub(crate) fn shown_name(bucket: &Bucket, version: &VersionRecord) -> Option<VersionName> {
    let versioning = bucket
        .settings()
        .map_or(Versioning::Off, |settings| settings.versioning);
    // A version with a name is newer knowledge than a bucket that was looked up before.
    (versioning != Versioning::Off || version.flags.named()).then(|| version.name())
}

pub(crate) fn version_info(bucket: &Bucket, owner: UserId, version: &VersionRecord) -> ObjectInfo {
    ObjectInfo {
        size: version.size,
        etag: version.etag(),
        modified: version.modified,
        version: version.id,
        replaces: version.flags.replaces(),
        name: shown_name(bucket, version),
        owner,
        attributes: ObjectMetadata {
            content_type: version.headers.content_type.clone(),
            cache_control: version.headers.cache_control.clone(),
            content_disposition: version.headers.content_disposition.clone(),
            content_encoding: version.headers.content_encoding.clone(),
            content_language: version.headers.content_language.clone(),
            expires: version.headers.expires.clone(),
            user: version.metadata.clone(),
        },
        digests: version.digests,
        checksum: shown_checksum(version),
        parts: version.parts.as_ref().map(|parts| parts.count),
        part_checksum: None,
        encrypted: version
            .encryption
            .as_ref()
            .map(|record| record.holder.into()),
        tags: version.tags.len(),
        retention: version.retention,
        legal_hold: version.legal_hold,
        storage_class: version.storage_class.clone(),
        expiry: None,
    }
}

/// The checksum that the writer asked to have shown.
pub(crate) fn shown_checksum(version: &VersionRecord) -> Option<ObjectChecksum> {
    let (digest, parts) = version.checksum.as_ref()?.value(&version.digests)?;
    Some(match parts {
        None => ObjectChecksum::Full(digest),
        Some(parts) => ObjectChecksum::Composite(Composite { digest, parts }),
    })
}

/// The kind of the shown checksum, and whether it is over parts.
pub(crate) fn named_checksum(version: &VersionRecord) -> Option<(Algorithm, bool)> {
    let shown = version.checksum.as_ref()?;
    if version.encryption.is_none() {
        shown.value(&version.digests)?;
    }
    match shown {
        DisplayedChecksum::Full(name) => Some((name.parse().ok()?, false)),
        DisplayedChecksum::Composite(name, ..) => Some((name.parse().ok()?, true)),
    }
}

/// How the choice of a checksum is stored.
pub(crate) fn full_checksum(algorithm: Option<Algorithm>) -> Option<DisplayedChecksum> {
    algorithm.map(DisplayedChecksum::full)
}

pub(crate) fn headers(attributes: &ObjectMetadata) -> Result<SystemHeaders> {
    let texts = [
        &attributes.content_type,
        &attributes.cache_control,
        &attributes.content_disposition,
        &attributes.content_encoding,
        &attributes.content_language,
        &attributes.expires,
    ];
    let bytes = texts
        .iter()
        .filter_map(|text| text.as_ref())
        .map(String::len)
        .sum::<usize>()
        + attributes
            .user
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
    if bytes > ATTRIBUTE_BYTES_MAX {
        let message = format!("{bytes} bytes of metadata, {ATTRIBUTE_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(SystemHeaders {
        content_type: attributes.content_type.clone(),
        cache_control: attributes.cache_control.clone(),
        content_disposition: attributes.content_disposition.clone(),
        content_encoding: attributes.content_encoding.clone(),
        content_language: attributes.content_language.clone(),
        expires: attributes.expires.clone(),
        redirect: None,
    })
}

fn tags(etags: &[ETag]) -> Option<ETags> {
    if etags.is_empty() {
        return None;
    }
    let mut values = Vec::with_capacity(etags.len());
    for etag in etags {
        match etag {
            ETag::Any => return Some(ETags::Any),
            ETag::Is(value) => values.push(value.clone()),
        }
    }
    Some(ETags::OneOf(values))
}

pub(crate) fn read_condition(condition: &ReadCondition) -> Condition {
    Condition {
        if_match: tags(&condition.if_match),
        if_none_match: tags(&condition.if_none_match),
        if_modified_since: condition.if_modified_since,
        if_unmodified_since: condition.if_unmodified_since,
        ..Condition::NONE
    }
}

pub(crate) fn write_condition(condition: &WriteCondition) -> Condition {
    let one = |etag: &Option<ETag>| {
        etag.as_ref()
            .and_then(|etag| tags(std::slice::from_ref(etag)))
    };
    // Without this a name that nothing has would satisfy it.
    let exists = condition.if_modified_since.and(Some(ETags::Any));
    let exists = exists.filter(|_| condition.if_unmodified_since.is_none());
    Condition {
        if_match: one(&condition.if_match).or(exists),
        if_none_match: if condition.if_absent {
            Some(ETags::Any)
        } else {
            one(&condition.if_none_match)
        },
        if_modified_since: condition.if_modified_since,
        if_unmodified_since: condition.if_unmodified_since,
        if_size: condition.if_size,
        if_modified_at: condition.if_modified_at,
    }
}
