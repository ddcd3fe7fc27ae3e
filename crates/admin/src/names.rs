//! The names that administrators type.

use dewar_store::api::BucketRef;
use dewar_store::quota::QuotaTarget;
use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, TenantName};

use crate::error::{AdminError, Failure, Result};

/// Parses the name of a tenant; the empty name is the default tenant.
pub(crate) fn tenant_named(name: &str) -> Result<TenantName> {
    Ok(TenantName::new(name).map_err(Error::from)?)
}

/// Splits `[TENANT:]NAME`. The name is not empty.
pub(crate) fn split_tenant(text: &str) -> Result<(TenantName, &str)> {
    let (tenant, name) = match text.split_once(':') {
        None => (TenantName::default(), text),
        Some((tenant, name)) => (tenant_named(tenant)?, name),
    };
    if name.is_empty() {
        return Err(Error::new(ErrorKind::InvalidName, "a name is missing").into());
    }
    Ok((tenant, name))
}

/// Parses the name of a bucket: `NAME`, which is in the tenant of the caller, `/NAME` or
/// `/@TENANT/NAME`.
pub(crate) fn bucket_named(text: &str) -> Result<BucketRef> {
    if !text.starts_with('/') {
        return Ok(BucketRef::own(BucketName::new(text).map_err(Error::from)?));
    }
    match target_named(text)? {
        QuotaTarget::Bucket(bucket) => Ok(bucket),
        _ => {
            let message = format!("{text:?} is no bucket: /BUCKET or /@TENANT/BUCKET is one");
            Err(AdminError::new(Failure::Invalid, message))
        }
    }
}

/// The name of a bucket as administrators type it: `/NAME` or `/@TENANT/NAME`.
#[must_use]
pub fn bucket_path(tenant: &TenantName, name: &BucketName) -> String {
    QuotaTarget::Bucket(BucketRef {
        tenant: Some(tenant.clone()),
        name: name.clone(),
    })
    .to_string()
}

/// Parses the name of a target.
pub(crate) fn target_named(text: &str) -> Result<QuotaTarget> {
    let wrong = |why: String| AdminError::new(Failure::Invalid, format!("{text:?}: {why}"));
    if let Some(name) = text.strip_prefix("user:") {
        return Ok(QuotaTarget::User(name.to_owned()));
    }
    if let Some(name) = text.strip_prefix("group:") {
        return Ok(QuotaTarget::Group(name.to_owned()));
    }
    if let Some(name) = text.strip_prefix("tenant:") {
        let name = TenantName::new(name).map_err(|error| wrong(error.to_string()))?;
        return Ok(QuotaTarget::Tenant(name));
    }
    let path = text.strip_prefix('/').ok_or_else(|| {
        wrong(
            "/BUCKET, /BUCKET/DIR, /@TENANT/BUCKET, user:NAME, group:NAME or tenant:NAME can be \
             limited"
                .into(),
        )
    })?;
    let (tenant, path) = match path.strip_prefix('@').map(|rest| rest.split_once('/')) {
        None => (TenantName::default(), path),
        Some(Some((tenant, path))) => {
            let tenant = TenantName::new(tenant).map_err(|error| wrong(error.to_string()))?;
            (tenant, path)
        }
        Some(None) => return Err(wrong("names no bucket; a tenant is tenant:NAME".into())),
    };
    let (bucket, directory) = path.split_once('/').unwrap_or((path, ""));
    let bucket = BucketRef {
        tenant: Some(tenant),
        name: BucketName::new(bucket).map_err(|error| wrong(error.to_string()))?,
    };
    Ok(match directory.trim_end_matches('/') {
        "" => QuotaTarget::Bucket(bucket),
        directory => {
            let key = ObjectKey::new(directory).map_err(|error| wrong(error.to_string()))?;
            QuotaTarget::Directory(bucket, key)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_what_they_are_called() {
        for text in [
            "/atlas",
            "/atlas/run1/raw",
            "/@lab/atlas",
            "/@lab/atlas/run1",
            "user:ann",
            "user:lab:ann",
            "group:atlas",
            "group:lab:atlas",
            "tenant:lab",
            "tenant:",
        ] {
            let target = target_named(text).expect(text);
            assert_eq!(target.to_string(), text);
        }
        assert_eq!(
            target_named("/atlas/").expect("a bucket").to_string(),
            "/atlas"
        );
        assert_eq!(
            target_named("/atlas/d/").expect("a directory").to_string(),
            "/atlas/d"
        );
        for text in ["atlas", "/", "/@lab", "/A_", "role:x", ""] {
            target_named(text).expect_err(text);
        }
    }
}
