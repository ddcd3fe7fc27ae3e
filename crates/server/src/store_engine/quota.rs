//! Admin requests about quotas.

use dewar_store::Store;
use dewar_store::api::BucketRef;
use dewar_store::quota::{Quota, QuotaReport, QuotaTarget};
use dewar_types::{BucketName, ObjectKey, TenantName};

use crate::admin::{AdminError, Failure, QuotaInfo, QuotaLimits, QuotaRequest};

/// Answers.
pub(super) async fn answer(
    store: &Store,
    request: QuotaRequest,
) -> Result<Vec<QuotaInfo>, AdminError> {
    let reports = match request {
        QuotaRequest::List {} => store.quotas().await?,
        QuotaRequest::Show { target } => vec![store.quota(&parse(&target)?).await?],
        QuotaRequest::Set { target, limits } => {
            let quota = Quota {
                max_bytes: limits.max_bytes,
                max_objects: limits.max_objects,
                soft_bytes: limits.soft_bytes,
                soft_objects: limits.soft_objects,
            };
            vec![store.set_quota(&parse(&target)?, quota).await?]
        }
    };
    Ok(reports.into_iter().map(info).collect())
}

fn info(report: QuotaReport) -> QuotaInfo {
    let QuotaReport {
        target,
        quota,
        usage,
    } = report;
    let state = if !quota.fits(usage, 1, 1) {
        "full"
    } else if quota.is_soft_exceeded(usage) {
        "soft"
    } else {
        "ok"
    };
    QuotaInfo {
        target,
        limits: QuotaLimits {
            max_bytes: quota.max_bytes,
            max_objects: quota.max_objects,
            soft_bytes: quota.soft_bytes,
            soft_objects: quota.soft_objects,
        },
        bytes: usage.bytes,
        objects: usage.objects,
        state: state.into(),
    }
}

/// Parses the name of a target.
pub(super) fn parse(text: &str) -> Result<QuotaTarget, AdminError> {
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
            let target = parse(text).expect(text);
            assert_eq!(target.to_string(), text);
        }
        assert_eq!(parse("/atlas/").expect("a bucket").to_string(), "/atlas");
        assert_eq!(
            parse("/atlas/d/").expect("a directory").to_string(),
            "/atlas/d"
        );
        for text in ["atlas", "/", "/@lab", "/A_", "role:x", ""] {
            parse(text).expect_err(text);
        }
    }
}
