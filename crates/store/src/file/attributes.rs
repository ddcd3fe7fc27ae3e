//! Permission bits and extended attributes of files and directories.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_auth::{Action, Caller, makes_only_new};
use dewar_catalog::record::EntryAttributes;
use dewar_namespace::Bucket;
use dewar_types::{Error, ErrorKind, Result};
use minicbor::bytes::ByteVec;

use crate::Store;
use crate::api::ObjectRef;
use crate::authorize::actor;
use crate::limits::{DIRECTORY_XATTR_BYTES_MAX, XATTR_BYTES_MAX};

use super::Revision;

/// A change of attributes.
#[derive(Clone, Debug, Default)]
pub struct AttributeChange {
    /// New permission bits. They are kept and shown. Policies decide about access.
    pub mode: Option<u32>,
    /// Extended attributes to set.
    pub set: Vec<(String, Bytes)>,
    /// Extended attributes to remove; that there is none is no error.
    pub remove: Vec<String>,
    /// Only when none of those to set is there.
    pub only_new: bool,
}

impl Store {
    /// The extended attributes of a file or directory. They are not S3's metadata, which belongs to
    /// a version; these stay when a file is changed in place and go when it is replaced.
    ///
    /// # Errors
    /// As [`Store::stat`].
    pub async fn extended_attributes(
        &self,
        caller: &Caller,
        name: &ObjectRef,
    ) -> Result<BTreeMap<String, Bytes>> {
        // Who may look at it may look at these.
        self.stat(caller, name).await?;
        let bucket = self.inner.bucket_of(caller, &name.bucket).await?;
        let attributes = match self.inner.either(&bucket, &name.key).await? {
            (_, Some(directory)) => directory.attributes,
            (Some(file), None) => file.attributes,
            (None, None) => return Err(not_found(&bucket, name)),
        };
        Ok(shown(&attributes.xattrs))
    }

    /// Changes attributes of a file or directory, all of them or none.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for one that was to be new, [`ErrorKind::TooLarge`] for too many
    /// bytes of them; [`ErrorKind::NotFound`], [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`],
    /// [`ErrorKind::Conflict`].
    pub async fn change_attributes(
        &self,
        caller: &Caller,
        name: &ObjectRef,
        change: AttributeChange,
    ) -> Result<()> {
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &name.bucket).await?;
        let found = inner.either(&bucket, &name.key).await?;
        let details = inner.details();
        let key = match &found {
            (_, Some(_)) => format!("{}/", name.key),
            _ => name.key.as_str().to_owned(),
        };
        inner.authorize_in_bucket(caller, Action::PutObject, &bucket, Some(&key), &details)?;
        let (tenant, name_of) = (&bucket.tenant.name, bucket.name.as_str());
        if makes_only_new(caller, tenant, name_of, &key) {
            let message = format!(
                "{}: the token lets create but not change",
                bucket.path(&key)
            );
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let bytes_max = match &found {
            (_, Some(_)) => DIRECTORY_XATTR_BYTES_MAX,
            _ => XATTR_BYTES_MAX,
        };
        let alter = |attributes: &mut EntryAttributes| apply(&change, attributes, bytes_max);
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        let tree = &inner.tree;
        match found {
            (_, Some(_)) => tree.alter_dir(&actor, &bucket, &name.key, alter).await?,
            (Some(_), None) => tree.alter_file(&actor, &bucket, &name.key, alter).await?,
            (None, None) => return Err(not_found(&bucket, name)),
        };
        Ok(())
    }
}

impl Revision {
    /// The extended attributes that the version's file will have.
    #[must_use]
    pub fn extended_attributes(&self) -> BTreeMap<String, Bytes> {
        shown(&self.xattrs)
    }

    /// Changes what attributes the file will have, all of them or none.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] for one that was to be new, [`ErrorKind::TooLarge`] for too many bytes of
    /// them.
    pub fn change_attributes(&mut self, change: &AttributeChange) -> Result<()> {
        self.xattrs = changed(change, &self.xattrs, XATTR_BYTES_MAX)?;
        if let Some(mode) = change.mode {
            self.permissions = mode & 0o7777;
        }
        Ok(())
    }
}

fn not_found(bucket: &Bucket, name: &ObjectRef) -> Error {
    let message = format!("{} does not exist", bucket.path(name.key.as_str()));
    Error::new(ErrorKind::NotFound, message)
}

/// As they are told.
fn shown(xattrs: &BTreeMap<String, ByteVec>) -> BTreeMap<String, Bytes> {
    let pairs = xattrs.iter();
    pairs
        .map(|(name, value)| (name.clone(), Bytes::copy_from_slice(value)))
        .collect()
}

fn apply(
    change: &AttributeChange,
    attributes: &mut EntryAttributes,
    bytes_max: usize,
) -> Result<()> {
    attributes.xattrs = changed(change, &attributes.xattrs, bytes_max)?;
    if let Some(mode) = change.mode {
        attributes.mode = mode & 0o7777;
    }
    Ok(())
}

/// Extended attributes as a change makes them, at most so many bytes if it adds some.
fn changed(
    change: &AttributeChange,
    xattrs: &BTreeMap<String, ByteVec>,
    bytes_max: usize,
) -> Result<BTreeMap<String, ByteVec>> {
    let mut xattrs = xattrs.clone();
    for name in &change.remove {
        xattrs.remove(name);
    }
    for (name, value) in &change.set {
        if change.only_new && xattrs.contains_key(name) {
            let message = format!("there is an attribute {name}");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let value = ByteVec::from(value.to_vec());
        xattrs.insert(name.clone(), value);
    }
    let bytes = |(name, value): (&String, &ByteVec)| name.len() + value.len();
    let total: usize = xattrs.iter().map(bytes).sum();
    if total > bytes_max && !change.set.is_empty() {
        let message = format!("{total} bytes of attributes, {bytes_max} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(xattrs)
}
