//! Permission bits and extended attributes of files and directories.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_auth::{Action, Caller, makes_only_new};
use dewar_catalog::record::EntryAttributes;
use dewar_namespace::NameRef;
use dewar_types::{Error, ErrorKind, Result};
use minicbor::bytes::ByteVec;

use crate::Store;
use crate::api::ObjectRef;
use crate::authorize::actor;
use crate::content_writer::ContentWriter;
use crate::limits::XATTR_BYTES_MAX;

use super::directory::not_found;

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
        // A caller who may look at it may look at these.
        let (bucket, node) = self.inner.authorized_node(caller, name).await?;
        let attributes = match (node.file(), node.directory()) {
            (_, Some(directory)) => &directory.attributes,
            (Some(file), None) => &file.attributes,
            (None, None) => return Err(not_found(&bucket, name.key.as_str())),
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
        let node = inner.tree.find_node(&bucket, &name.key).await?;
        let (is_file, is_dir) = (node.file().is_some(), node.directory().is_some());
        let details = inner.details();
        let key = match is_dir {
            true => format!("{}/", name.key),
            false => name.key.as_str().to_owned(),
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
        let alter = |attributes: &mut EntryAttributes| apply(&change, attributes);
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        let tree = &inner.tree;
        match (is_file, is_dir) {
            (_, true) => tree.alter_dir(&actor, &bucket, &name.key, alter).await?,
            (true, false) => {
                let file = NameRef::new(&bucket, &name.key, Some(node.into_name()));
                tree.alter_file(&actor, file, alter).await?
            }
            (false, false) => return Err(not_found(&bucket, name.key.as_str())),
        };
        Ok(())
    }
}

impl ContentWriter {
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
        self.xattrs = changed(change, &self.xattrs)?;
        if let Some(mode) = change.mode {
            self.permissions = mode & 0o7777;
        }
        Ok(())
    }
}

/// As they are told.
fn shown(xattrs: &BTreeMap<String, ByteVec>) -> BTreeMap<String, Bytes> {
    let pairs = xattrs.iter();
    pairs
        .map(|(name, value)| (name.clone(), Bytes::copy_from_slice(value)))
        .collect()
}

fn apply(change: &AttributeChange, attributes: &mut EntryAttributes) -> Result<()> {
    attributes.xattrs = changed(change, &attributes.xattrs)?;
    if let Some(mode) = change.mode {
        attributes.mode = mode & 0o7777;
    }
    Ok(())
}

/// Extended attributes as a change makes them, at most [`XATTR_BYTES_MAX`] if it adds some.
fn changed(
    change: &AttributeChange,
    xattrs: &BTreeMap<String, ByteVec>,
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
    if total > XATTR_BYTES_MAX && !change.set.is_empty() {
        let message = format!("{total} bytes of attributes, {XATTR_BYTES_MAX} are allowed");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(xattrs)
}
