//! Paths as hierarchical fronts name things: `/bucket/key`, and `/@tenant/bucket/key` in another
//! tenant.
//!
//! A front makes a path canonical once, before any other step. Several slashes in a row count as one,
//! `.` as nothing, and `..` goes up, never above the root. A path that does not begin with a slash
//! means the same as one that does. Keys with empty segments, `.` or `..` have no path.

use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, Result, TenantName};

use crate::api::{BucketRef, ObjectRef};

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// Above all buckets.
    Root,
    /// A bucket.
    Bucket(BucketRef),
    /// Something in a bucket.
    Object(ObjectRef),
}

impl PathTarget {
    /// The target of a canonical path.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] for what can be no tenant or key. [`ErrorKind::NotFound`] for what
    /// can be no bucket: nothing there has such a name.
    pub fn parse(path: &str) -> Result<Self> {
        let bad = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::InvalidName, format!("{path}: {error}"))
        };
        let mut rest = path.trim_start_matches('/');
        let mut tenant = None;
        if let Some(named) = rest.strip_prefix('@') {
            let (name, behind) = named.split_once('/').unwrap_or((named, ""));
            tenant = Some(TenantName::new(name).map_err(|error| bad(&error))?);
            rest = behind;
        }
        if rest.is_empty() {
            return Ok(Self::Root);
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let name = BucketName::new(bucket).map_err(|error| {
            let message = format!("{path}: no such file or directory ({error})");
            Error::new(ErrorKind::NotFound, message)
        })?;
        let bucket = BucketRef { tenant, name };
        if key.is_empty() {
            return Ok(Self::Bucket(bucket));
        }
        let key = ObjectKey::new(key).map_err(|error| bad(&error))?;
        Ok(Self::Object(ObjectRef { bucket, key }))
    }
}

/// The canonical form of a path; `None` for one that leads above the root.
#[must_use]
pub fn canonical_path(path: &str) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(format!("/{}", names.join("/")))
}
