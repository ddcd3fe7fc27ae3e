//! Files and directories, for fronts that speak of a hierarchy: XRootD, WebDAV, a mount.
//!
//! They see the same names as S3 does. If a key and a directory share a name, they see the
//! directory. Directories come by themselves with the first name below them and go with the last, as a key's slashes make them; those
//! that were made on request stay.
//!
//! - [`crate::Store::stat`], [`crate::Store::read_dir`], [`crate::Store::make_dir`],
//!   [`crate::Store::remove_file`], [`crate::Store::remove_dir`] ([`directory`]);
//! - [`crate::Store::copy_tree`], [`crate::Store::copy_dir`], [`crate::Store::remove_tree`] ([`tree`]);
//! - [`crate::Store::rename_node`];
//! - [`crate::Store::extended_attributes`], [`crate::Store::change_attributes`] ([`attributes`]);
//! - [`crate::Store::lock`], [`crate::Store::locks`], [`crate::Store::unlock`]: locks of WebDAV ([`lock`]);
//! - [`crate::Store::open_file`]: one version, opened once and read at any places, side by side;
//! - [`crate::Store::write`]: a new version written at any places, which appears when it is committed.

mod attributes;
pub(crate) mod directory;
mod lock;
mod open;
mod path;
mod tree;

use dewar_catalog::record::EntryAttributes;
use dewar_types::{EntryId, Error, Timestamp, UserId};

use crate::api::{BucketRef, ObjectInfo, ObjectRef};

pub use attributes::AttributeChange;
pub use dewar_disks::blob::{ChecksummedBytes, VerifiedBytes};
pub use lock::{HeldLock, Lock, LockOutcome, LockRequest, LockScope, LockToken};
pub use path::{PathTarget, canonical_path};

/// Attributes that files and directories have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAttributes {
    /// Stays through renames.
    pub id: EntryId,
    /// Whose it is.
    pub owner: UserId,
    /// Permission bits. They are kept and shown. Policies decide about access.
    pub mode: u32,
    /// When its content changed.
    pub modified: Timestamp,
    /// When anything about it changed.
    pub changed: Timestamp,
    /// Whether it has extended attributes.
    pub extended: bool,
}

impl From<&EntryAttributes> for NodeAttributes {
    fn from(attributes: &EntryAttributes) -> Self {
        Self {
            id: attributes.id,
            owner: attributes.owner,
            mode: attributes.mode,
            modified: attributes.mtime,
            changed: attributes.ctime,
            extended: !attributes.xattrs.is_empty(),
        }
    }
}

/// The file or directory that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file, with its current version.
    File(NodeAttributes, Box<ObjectInfo>),
    /// A directory.
    Directory(NodeAttributes),
}

impl Node {
    /// The attributes that both have.
    #[must_use]
    pub fn attributes(&self) -> &NodeAttributes {
        match self {
            Self::File(attributes, _) | Self::Directory(attributes) => attributes,
        }
    }
}

/// A request to list a directory.
#[derive(Clone, Debug)]
pub struct ReadDirRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// The directory's key without a slash at its end; empty for the bucket's own.
    pub directory: String,
    /// Only names after this one: the [`DirPage::next`] of the page before.
    pub after: Option<String>,
    /// At most so many, 1 to 1,000.
    pub max: usize,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without slashes.
    pub name: String,
    /// The file or directory.
    pub node: Node,
}

/// A part of what is in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirPage {
    /// In the order in which S3 lists: a directory's name counts with a slash at its end.
    pub entries: Vec<DirEntry>,
    /// The name at which to continue, if there are more.
    pub next: Option<String>,
}

/// A directory is to be made.
#[derive(Clone, Debug)]
pub struct MakeDirRequest {
    /// Where; the key without a slash at its end.
    pub directory: ObjectRef,
    /// Permission bits.
    pub mode: u32,
    /// Whether directories that are missing above it are made too.
    pub parents: bool,
    /// Whether an existing directory is no error.
    pub existing: bool,
}

/// A request to copy a directory with its content.
#[derive(Clone, Debug)]
pub struct CopyTreeRequest {
    /// The directory, without a slash at its end.
    pub source: ObjectRef,
    /// The directory that gets the content.
    pub target: ObjectRef,
    /// Whether files at the target are replaced.
    pub overwrite: bool,
}

/// The result of a verb on a directory with its content.
#[derive(Debug, Default)]
pub struct TreeReport {
    /// The number of files and directories that were copied or removed.
    pub done: u64,
    /// The number of those that were not.
    pub failed: u64,
    /// The first failures ([`crate::limits::TREE_FAILURES_MAX`]), by key.
    pub failures: Vec<(String, Error)>,
}
