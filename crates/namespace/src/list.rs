//! Listing in S3's order: whole keys by their bytes, keys with a common prefix rolled up.
//!
//! One page is read from one snapshot, and its cost is about proportional to its result. The walk
//! begins in the middle of the right directories, and rolled-up keys are skipped by seeking past
//! them. Names that are not shown cost one read each: delete markers, and directories without live
//! entries. The number of names that a page examines is limited ([`super::effort`]).

use dewar_catalog::keys;
use dewar_catalog::record::{DirRecord, FileRecord};
use dewar_types::{Error, ErrorKind};

use super::effort::{Effort, ListBudget};
use super::walk::{Liveness, Walk, WalkStep, has_live};
use super::{Bucket, Tree};

/// Most items of one page.
pub const LIST_MAX: usize = 10_000;

/// A query for the keys of a bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// Only keys that begin so.
    pub prefix: &'a str,
    /// Keys that contain this string after the prefix are rolled up to it. Empty means none.
    pub delimiter: Option<&'a str>,
    /// Only keys above this one, and only rolled-up prefixes that are above it themselves: the
    /// [`Listing::next`] of the previous page, or any string.
    pub after: Option<&'a str>,
    /// At most this many items ([`LIST_MAX`] at most).
    pub max: usize,
    /// Whether directories made on request count as live, so that an empty one is listed as a
    /// prefix.
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
    /// Start of the next page ([`ListQuery::after`]), if there is one.
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
pub(super) struct RollUpRule<'a> {
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
}

impl<'a> RollUpRule<'a> {
    pub(super) fn new(prefix: &'a str, delimiter: Option<&'a str>) -> Self {
        Self {
            prefix,
            delimiter: delimiter.filter(|delimiter| !delimiter.is_empty()),
        }
    }

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

/// What becomes of a directory in a listing.
pub(super) enum SubtreeListing {
    Shown,
    Hidden,
    /// The page ends before it.
    Unclear,
}

/// How far a page has come, for one that has to end before it is full.
#[derive(Default)]
pub(super) struct ListProgress {
    /// All names up to this one have been dealt with.
    cut: Option<String>,
    /// A rolled-up prefix of which some names have been skipped; later ones may be live.
    unclear: Option<String>,
    /// The directory that was entered last. The next key may be the same, slash included.
    entered: Option<String>,
}

impl ListProgress {
    /// The walk has come to `path`.
    pub(super) fn pass(&mut self, path: &str) {
        if let Some(dir) = self.entered.take_if(|dir| dir != path) {
            self.cut = Some(dir);
        }
        if let Some(prefix) = self.unclear.take_if(|prefix| !path.starts_with(&**prefix)) {
            self.cut = Some(prefix);
        }
    }

    pub(super) fn done(&mut self, name: String) {
        self.entered = None;
        self.unclear = None;
        self.cut = Some(name);
    }

    pub(super) fn within(&mut self, prefix: &str) {
        if self.unclear.as_deref() != Some(prefix) {
            self.unclear = Some(prefix.to_owned());
        }
    }

    pub(super) fn entered(&mut self, path: &str) {
        self.entered = Some(path.to_owned());
    }

    /// What becomes of a directory that is rolled up to `prefix`, by whether something lives in it. With
    /// a page of its own it is clear, or shown.
    pub(super) fn judge(&mut self, lives: Option<bool>, prefix: &str) -> SubtreeListing {
        match lives {
            Some(false) => {
                self.within(prefix);
                SubtreeListing::Hidden
            }
            None if self.cut.is_some() => SubtreeListing::Unclear,
            Some(true) | None => SubtreeListing::Shown,
        }
    }

    /// Where the page may end: the last name that was dealt with, else behind the prefix that the page
    /// began with, which is to be shown then.
    pub(super) fn cut(&mut self) -> Option<(String, Option<String>)> {
        if let Some(name) = self.cut.take() {
            return Some((name, None));
        }
        let prefix = self.unclear.take()?;
        Some((prefix.clone(), Some(prefix)))
    }
}

impl Tree {
    /// A page of a bucket's keys, with the usual budget.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn list(&self, bucket: &Bucket, query: ListQuery<'_>) -> Result<Listing, Error> {
        self.list_within(bucket, query, ListBudget::default()).await
    }

    /// A page of a bucket's keys that costs no more than the budget. A page that has looked at as many
    /// names as it may ends early, perhaps without any item; [`Listing::next`] is then the last name that
    /// it looked at. A prefix below which the whole budget of a page finds nothing that lives is shown
    /// as if something did.
    ///
    /// # Errors
    /// `NoSuchBucket`; the refusal of the budget; errors of the engine.
    pub async fn list_within(
        &self,
        bucket: &Bucket,
        query: ListQuery<'_>,
        budget: ListBudget<'_>,
    ) -> Result<Listing, Error> {
        let kv = self.kv().snapshot();
        let kv = kv.as_ref();
        self.bucket_in(kv, bucket).await?;
        let rule = RollUpRule::new(query.prefix, query.delimiter);
        let max = query.max.min(LIST_MAX);
        let mut listing = Listing::default();
        if max == 0 {
            return Ok(listing);
        }
        let mut walk = Walk::new(kv, bucket.id, 32.min(max + 1));
        walk.seek(&rule.start(query.after)).await?;
        let mut effort = Effort::new(budget);
        let mut progress = ListProgress::default();
        while let Some(step) = walk.next().await? {
            progress.pass(step.path());
            if !effort.look().await?
                && let Some((next, unclear)) = progress.cut()
            {
                if let Some(prefix) = unclear {
                    listing.items.push(Listed::Prefix { prefix, dir: None });
                }
                listing.next = Some(next);
                break;
            }
            let (item, skip) = match step {
                WalkStep::Symlink(_) => continue,
                WalkStep::File(key, _) if !key.starts_with(rule.prefix) => break,
                WalkStep::File(key, file) if !file.is_live() => {
                    match rule.rolled(&key) {
                        Some(prefix) => progress.within(prefix),
                        None => progress.done(key),
                    }
                    continue;
                }
                WalkStep::File(key, file) => match rule.rolled(&key) {
                    None => (Listed::File { key, file }, None),
                    Some(prefix) => {
                        let skip = keys::after_prefix(prefix.as_bytes());
                        let prefix = prefix.to_owned();
                        (Listed::Prefix { prefix, dir: None }, Some(skip))
                    }
                },
                WalkStep::Dir(path, dir) if rule.prefix.starts_with(&path) => {
                    progress.entered(&path);
                    walk.enter(path, &dir);
                    continue;
                }
                WalkStep::Dir(path, _) if !path.starts_with(rule.prefix) => break,
                WalkStep::Dir(path, dir) => {
                    let Some(prefix) = rule.rolled(&path) else {
                        progress.entered(&path);
                        walk.enter(path, &dir);
                        continue;
                    };
                    let stands = query.explicit_dirs && !dir.implicit;
                    let living = if query.explicit_dirs {
                        Liveness::Explicit
                    } else {
                        Liveness::Readable
                    };
                    if !stands {
                        let below = has_live(kv, dir.attributes.id, living, &mut effort);
                        match progress.judge(below.await?, prefix) {
                            SubtreeListing::Shown => {}
                            SubtreeListing::Hidden => continue,
                            SubtreeListing::Unclear => {
                                listing.next = progress.cut().map(|(next, _)| next);
                                break;
                            }
                        }
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
            effort.show(1);
            progress.done(item.name().to_owned());
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
        kv: &dyn dewar_kv::KvRead,
        bucket: &Bucket,
    ) -> Result<(), Error> {
        let key = keys::dir(bucket.tenant.root(), bucket.name.as_str());
        let value = kv.get(&key).await?.value.ok_or_else(|| bucket.gone())?;
        let record: DirRecord = dewar_catalog::record::Record::from_value(&key, &value)?;
        if record.attributes.id != bucket.id {
            return Err(Error::new(
                ErrorKind::NoSuchBucket,
                format!("bucket {} was removed and made anew", bucket.name),
            ));
        }
        Ok(())
    }
}
