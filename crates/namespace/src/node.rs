//! Paths as a hierarchy sees them: a file or a directory has the name, and directories are above it.
//!
//! Keys of S3 also allow a file and a directory of the same name, and names below a file. If both
//! have a name, a hierarchy shows the directory.

use bytes::Bytes;
use dewar_catalog::keys;
use dewar_catalog::record::{DirRecord, Entry, FileRecord};
use dewar_kv::ReadValue;
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey};

use super::batch_builder::BatchBuilder;
use super::resolve::{ResolvedName, ResolvedPath};
use super::{Bucket, Tree};

/// The rules that names follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hierarchy {
    /// Names are keys, as in S3: a file and a directory may have the same name, and names may lie
    /// below a file.
    #[default]
    Flat,
    /// Names are paths, as in a file system: one of the two has a name, and only directories have
    /// names below them.
    Strict,
}

/// A path with the file and the directory that it leads to.
#[derive(Clone, Debug)]
pub struct ResolvedNode {
    name: ResolvedName,
    /// The path with the name as its last directory.
    pub(super) chain: ResolvedPath,
    /// Whether that directory exists for users.
    pub(super) visible: bool,
}

impl ResolvedNode {
    /// The file that has the name. A directory may have it as well.
    #[must_use]
    pub fn file(&self) -> Option<&FileRecord> {
        self.name.file()
    }

    /// The directory that has the name.
    #[must_use]
    pub fn directory(&self) -> Option<&DirRecord> {
        self.visible.then(|| &self.chain.last().record)
    }

    /// The name, for changes of the file.
    #[must_use]
    pub fn name(&self) -> &ResolvedName {
        &self.name
    }

    /// The name, for changes of the file.
    #[must_use]
    pub fn into_name(self) -> ResolvedName {
        self.name
    }
}

/// The directory above a name.
#[derive(Clone, Debug)]
pub struct ParentDirectory {
    /// Whether it exists for users.
    pub(super) visible: bool,
    /// The read that found no file where a missing directory would be.
    pub(super) no_file: Option<(Bytes, ReadValue)>,
}

impl Tree {
    /// Looks up the file and the directory of a path.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn find_node(&self, bucket: &Bucket, key: &ObjectKey) -> Result<ResolvedNode, Error> {
        let name = self.find_name(bucket, key).await?;
        let mut chain = name.chain.clone();
        self.descend(&mut chain, &name.name).await?;
        let visible = self.stands(&chain).await?;
        Ok(ResolvedNode {
            name,
            chain,
            visible,
        })
    }

    /// Checks that no file is where the path of a name needs a directory.
    ///
    /// # Errors
    /// `NotADirectory`; errors of the engine.
    pub async fn check_above(&self, name: &ResolvedName) -> Result<ParentDirectory, Error> {
        let chain = &name.chain;
        let mut above = ParentDirectory {
            visible: false,
            no_file: None,
        };
        if let Some(missing) = &chain.missing {
            let first = missing.names.first().map_or("", String::as_str);
            let (key, read, file) = self.file_at(chain.last_id(), first).await?;
            if file {
                return Err(chain.not_a_directory(first));
            }
            above.no_file = Some((key, read));
        }
        let mut at = chain.clone();
        at.missing = None;
        // A directory that exists for users has only such directories above it.
        while !self.is_visible(&at.last().record).await? {
            let (parent, name) =
                keys::parse_entry(&at.last().key).map(|(up, name, _)| (up, name))?;
            let (_, _, file) = self.file_at(parent, name).await?;
            let up = at.above();
            if file {
                return Err(up.not_a_directory(name));
            }
            at = up;
        }
        above.visible = chain.missing.is_none() && at.dirs.len() == chain.dirs.len();
        Ok(above)
    }

    /// Checks that a file may come to a name by the rules of a hierarchy, and requires that it stays
    /// so.
    ///
    /// # Errors
    /// `IsADirectory`, `NotADirectory`; errors of the engine.
    pub(super) async fn check_file_place(
        &self,
        stage: &mut BatchBuilder<'_>,
        name: &ResolvedName,
    ) -> Result<(), Error> {
        let mut chain = name.chain.clone();
        self.descend(&mut chain, &name.name).await?;
        if self.stands(&chain).await? {
            let message = format!("{} is a directory", name.path);
            return Err(Error::new(ErrorKind::IsADirectory, message));
        }
        if name.file().is_none() {
            let above = self.check_above(name).await?;
            stage.watch_above(&above);
        }
        stage.watch(&chain);
        Ok(())
    }

    /// Whether a name in a directory is a file that can be read, and the read that found it.
    async fn file_at(
        &self,
        parent: EntryId,
        name: &str,
    ) -> Result<(Bytes, ReadValue, bool), Error> {
        let key = keys::file(parent, name);
        let read = self.kv().get(&key).await?;
        let entry = match &read.value {
            Some(value) => Some(Entry::from_value(&key, value)?),
            None => None,
        };
        let file = matches!(entry, Some(Entry::File(file)) if file.is_live());
        Ok((key, read, file))
    }
}

impl ResolvedPath {
    /// The path of a name in the last directory that exists.
    pub(super) fn path_of(&self, name: &str) -> String {
        let names = self.dirs.iter().skip(1).filter_map(|dir| {
            let (_, name, _) = keys::parse_entry(&dir.key).ok()?;
            Some(name)
        });
        let names: Vec<&str> = names.chain([name]).collect();
        self.bucket.path(&names.join("/"))
    }

    fn not_a_directory(&self, name: &str) -> Error {
        let message = format!("{} is no directory", self.path_of(name));
        Error::new(ErrorKind::NotADirectory, message)
    }
}
