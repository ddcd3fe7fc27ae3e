//! Listing in S3's order: whole keys by their bytes, keys with a common beginning rolled up.
//!
//! One page is read from one snapshot and costs about what it returns: the walk begins in the
//! middle of the right directories, and what is rolled up is skipped by seeking past it. Only a
//! directory in which nothing lives any more and which is not yet reclaimed costs a look.

use dewar_types::{Error, ErrorKind};

use super::record::{DirRecord, FileRecord};
use super::walk::{Living, Step, Walk, has_live};
use super::{Bucket, Tree, keys};

/// Most items of one page.
pub const LIST_MAX: usize = 10_000;

/// Which keys are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// Only keys that begin so.
    pub prefix: &'a str,
    /// Keys that have this behind the prefix are rolled up to it; any string. Empty is none.
    pub delimiter: Option<&'a str>,
    /// Only keys above this one, and only rolled-up prefixes that are above it themselves: the
    /// [`Listing::next`] of the page before, or any string.
    pub after: Option<&'a str>,
    /// At most this many items ([`LIST_MAX`] at most).
    pub max: usize,
    /// Whether directories made on request count as something that lives, so that an empty one
    /// shows as a prefix.
    pub explicit_dirs: bool,
}

/// An item of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A file.
    File {
        /// Its key.
        key: String,
        /// Its record.
        file: FileRecord,
    },
    /// Keys rolled up.
    Prefix {
        /// Their common beginning, the delimiter included.
        prefix: String,
        /// The directory, when the prefix is exactly one.
        dir: Option<DirRecord>,
    },
}

impl Listed {
    /// The key or prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File { key, .. } => key,
            Self::Prefix { prefix, .. } => prefix,
        }
    }
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In byte order of [`Listed::name`].
    pub items: Vec<Listed>,
    /// Where the next page begins ([`ListQuery::after`]), if there is one.
    pub next: Option<String>,
}

impl Listing {
    /// Whether there is more.
    #[must_use]
    pub fn truncated(&self) -> bool {
        self.next.is_some()
    }
}

/// Decides what is rolled up.
pub(super) struct Rule<'a> {
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
}

impl Rule<'_> {
    /// The part of `path` that it is rolled up to, if it begins with the prefix and is.
    pub(super) fn rolled<'p>(&self, path: &'p str) -> Option<&'p str> {
        let delimiter = self.delimiter?;
        let rest = path.strip_prefix(self.prefix)?;
        let end = self.prefix.len() + rest.find(delimiter)? + delimiter.len();
        Some(&path[..end])
    }

    /// The first string that may come after `after`.
    pub(super) fn start(&self, after: Option<&str>) -> Vec<u8> {
        let above = match after {
            None => Vec::new(),
            Some(after) => match self.rolled(after) {
                Some(prefix) => keys::after_prefix(prefix.as_bytes()),
                None => [after.as_bytes(), &[0]].concat(),
            },
        };
        above.max(self.prefix.as_bytes().to_vec())
    }
}

impl Tree {
    /// A page of a bucket's keys.
    ///
    /// # Errors
    /// `NoSuchBucket`; what the engine says.
    pub async fn list(&self, bucket: &Bucket, query: ListQuery<'_>) -> Result<Listing, Error> {
        let kv = self.kv.snapshot();
        let kv = kv.as_ref();
        self.bucket_in(kv, bucket).await?;
        let rule = Rule {
            prefix: query.prefix,
            delimiter: query.delimiter.filter(|delimiter| !delimiter.is_empty()),
        };
        let max = query.max.min(LIST_MAX);
        let mut listing = Listing::default();
        if max == 0 {
            return Ok(listing);
        }
        let mut walk = Walk::new(kv, bucket.id, 32.min(max + 1));
        walk.seek(&rule.start(query.after)).await?;
        while let Some(step) = walk.next().await? {
            let (item, skip) = match step {
                Step::Symlink => continue,
                Step::File(key, _) if !key.starts_with(rule.prefix) => break,
                Step::File(_, file) if !file.is_live() => continue,
                Step::File(key, file) => match rule.rolled(&key) {
                    None => (Listed::File { key, file }, None),
                    Some(prefix) => {
                        let skip = keys::after_prefix(prefix.as_bytes());
                        let prefix = prefix.to_owned();
                        (Listed::Prefix { prefix, dir: None }, Some(skip))
                    }
                },
                Step::Dir(path, dir) if rule.prefix.starts_with(&path) => {
                    walk.enter(path, &dir);
                    continue;
                }
                Step::Dir(path, _) if !path.starts_with(rule.prefix) => break,
                Step::Dir(path, dir) => {
                    let Some(prefix) = rule.rolled(&path) else {
                        walk.enter(path, &dir);
                        continue;
                    };
                    let stands = query.explicit_dirs && !dir.implicit;
                    let living = if query.explicit_dirs {
                        Living::Explicit
                    } else {
                        Living::Readable
                    };
                    if !stands && !has_live(kv, dir.attributes.id, living).await? {
                        continue;
                    }
                    let skip =
                        (prefix.len() < path.len()).then(|| keys::after_prefix(prefix.as_bytes()));
                    let dir = skip.is_none().then_some(dir);
                    let prefix = prefix.to_owned();
                    (Listed::Prefix { prefix, dir }, skip)
                }
            };
            if listing.items.len() == max {
                listing.next = listing.items.last().map(|item| item.name().to_owned());
                break;
            }
            listing.items.push(item);
            if let Some(skip) = skip {
                if skip.is_empty() {
                    break;
                }
                walk.seek(&skip).await?;
            }
        }
        Ok(listing)
    }

    /// Fails unless the very bucket is there.
    pub(super) async fn bucket_in(
        &self,
        kv: &dyn crate::kv::KvRead,
        bucket: &Bucket,
    ) -> Result<(), Error> {
        let key = keys::dir(bucket.tenant.root(), bucket.name.as_str());
        let value = kv.get(&key).await?.value.ok_or_else(|| bucket.gone())?;
        let record: DirRecord = super::record::Record::from_value(&key, &value)?;
        if record.attributes.id != bucket.id {
            return Err(Error::new(
                ErrorKind::NoSuchBucket,
                format!("bucket {} was removed and made anew", bucket.name),
            ));
        }
        Ok(())
    }
}
