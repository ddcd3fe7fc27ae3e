//! From catalog records to what fronts hear, and back.

use dewar_catalog::record::{DisplayedChecksum, FileRecord, VersionRecord, Versioning};
use dewar_checksum::{Algorithm, Composite};
use dewar_namespace::{Bucket, VersionAttributes};
use dewar_types::{Error, ErrorKind, Result, UserId, VersionName};

use crate::api::{ObjectChecksum, ObjectInfo};
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
        attributes: VersionAttributes::from(version),
        digests: version.digests,
        checksum: shown_checksum(version),
        parts: version.parts.as_ref().map(|parts| parts.count),
        part_checksum: None,
        encrypted: version
            .encryption
            .as_ref()
            .map(|record| record.holder.into()),
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

/// Checks the size of headers and user metadata.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub(crate) fn check_metadata(attributes: &VersionAttributes) -> Result<()> {
    let bytes = attributes.metadata_bytes();
    if bytes > ATTRIBUTE_BYTES_MAX {
        let message = format!("{bytes} bytes of metadata, {ATTRIBUTE_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}
