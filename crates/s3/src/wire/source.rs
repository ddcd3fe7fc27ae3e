//! Objects named in headers: sources of copies and renames.

use dewar_http_front::parse_range;
use dewar_sigv4::decode_percent;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_types::{BucketName, NameError, ObjectKey, RangeSpec, TenantName, VersionName};

use crate::error::{Code, Refusal, Result};

fn decoded(text: &str) -> Result<String> {
    let bytes = decode_percent(text).map(std::borrow::Cow::into_owned);
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| {
            let message = "The name of the source is not properly URL-encoded.";
            Refusal::new(Code::InvalidArgument, message)
        })
}

/// A bucket by its name, which may say its tenant: `tenant:bucket`.
pub(crate) fn bucket_named(name: &str) -> Result<BucketRef> {
    let invalid = |error: NameError| {
        Refusal::new(
            Code::InvalidBucketName,
            "The specified bucket is not valid.",
        )
        .element("BucketName", name)
        .element("Reason", error.to_string())
    };
    let (tenant, bucket) = match name.split_once(':') {
        Some((tenant, bucket)) => (Some(TenantName::new(tenant).map_err(invalid)?), bucket),
        None => (None, name),
    };
    Ok(BucketRef {
        tenant,
        name: BucketName::new(bucket).map_err(invalid)?,
    })
}

/// A key, if it is one.
pub(crate) fn key_named(key: &str) -> Result<ObjectKey> {
    ObjectKey::new(key).map_err(|_| {
        Refusal::new(Code::KeyTooLongError, "Your key is too long")
            .element("Size", key.len().to_string())
            .element("MaxSizeAllowed", dewar_types::KEY_BYTES_MAX.to_string())
    })
}

/// A version by what a client calls it.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn version_named(text: &str) -> Result<VersionName> {
    text.parse().map_err(|_| {
        Refusal::new(Code::InvalidArgument, "Invalid version id specified")
            .element("ArgumentName", "versionId")
            .element("ArgumentValue", text)
    })
}

/// The object in an `x-amz-copy-source`: `bucket/key`, URL-encoded, optionally with a slash before
/// and `?versionId=` behind it.
///
/// # Errors
/// `InvalidArgument`, `InvalidBucketName`, `KeyTooLongError`.
pub(crate) fn object_named(text: &str) -> Result<(ObjectRef, Option<VersionName>)> {
    let (path, version) = match text.split_once("?versionId=") {
        Some((path, version)) => (path, Some(version)),
        None => (text, None),
    };
    let version = version.map(version_named).transpose()?;
    let path = decoded(path)?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    let parts = path.split_once('/').filter(|(_, key)| !key.is_empty());
    let (bucket, key) = parts.ok_or_else(|| {
        let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
        Refusal::new(Code::InvalidArgument, message)
    })?;
    let object = ObjectRef {
        bucket: bucket_named(bucket)?,
        key: key_named(key)?,
    };
    Ok((object, version))
}

/// The key in an `x-amz-rename-source`, which clients write with or without the bucket before it.
///
/// # Errors
/// `InvalidArgument`, `KeyTooLongError`.
pub(crate) fn rename_source(text: &str, bucket: &str) -> Result<ObjectKey> {
    let path = decoded(text)?;
    let with_bucket = path.strip_prefix('/').and_then(|rest| {
        let rest = rest.strip_prefix(bucket)?;
        rest.strip_prefix('/')
    });
    let key = with_bucket.unwrap_or_else(|| path.strip_prefix('/').unwrap_or(&path));
    if key.is_empty() {
        let message = "x-amz-rename-source names no object";
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    key_named(key)
}

/// The range in an `x-amz-copy-source-range`. Unlike in a GET, both ends are required.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn copy_range(text: &str) -> Result<RangeSpec> {
    match parse_range(text) {
        Some(range @ RangeSpec::FromTo(..)) => Ok(range),
        _ => Err(Refusal::new(
            Code::InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first \
             and last are the zero-based offsets of the first and last bytes to copy",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_clients_write_them() {
        for text in [
            "bucket/a%20b%2Fc",
            "/bucket/a b/c",
            "bucket/a%20b/c?versionId=null",
        ] {
            let (object, version) = object_named(text).expect(text);
            let named = text.contains("versionId");
            assert_eq!(version, named.then_some(VersionName::Null));
            assert_eq!(object.bucket.name.as_str(), "bucket");
            assert_eq!(object.key.as_str(), "a b/c");
        }
        let (other, _) = object_named("atlas:bucket//k").expect("a tenant's");
        assert_eq!(other.bucket.tenant.expect("named").as_str(), "atlas");
        assert_eq!(other.key.as_str(), "/k");
        for bad in [
            "",
            "bucket",
            "bucket/",
            "/bucket",
            "b/k",
            "bucket/%f",
            "bucket/k?versionId=1",
        ] {
            assert!(object_named(bad).is_err(), "{bad}");
        }
        for text in ["/bucket/a/b", "/a/b", "a/b", "a%2Fb"] {
            assert_eq!(rename_source(text, "bucket").expect(text).as_str(), "a/b");
        }
        assert!(copy_range("bytes=0-9").is_ok());
        assert!(copy_range("bytes=0-").is_err() && copy_range("0-9").is_err());
    }
}
