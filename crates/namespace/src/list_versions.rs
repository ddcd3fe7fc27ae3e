//! Listing versions and delete markers: keys in S3's order, the versions of each newest first.
//!
//! As [`super::list`], with a scan more for each key that has older versions.

use dewar_catalog::keys;
use dewar_catalog::record::{FileRecord, Record, VersionRecord};
use dewar_kv::{KvRead, Scan};
use dewar_types::{EntryId, Error, VersionId, VersionName};

use super::effort::{Effort, ListBudget};
use super::list::{LIST_MAX, ListProgress, RollUpRule, SubtreeListing};
use super::walk::{Liveness, Walk, WalkStep, has_live};
use super::{Bucket, Tree};

/// A query for the versions of a bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct VersionQuery<'a> {
    /// Only keys that begin so.
    pub prefix: &'a str,
    /// Keys that contain this string after the prefix are rolled up to it. Empty means none.
    pub delimiter: Option<&'a str>,
    /// Only keys above this one, and only rolled-up prefixes that are above it themselves. With
    /// [`VersionQuery::after_version`], also the versions of this very key that are older than that
    /// one.
    pub after: Option<&'a str>,
    /// See [`VersionQuery::after`]. The version need not exist any more, unless it is `null`.
    pub after_version: Option<VersionName>,
    /// At most this many items ([`LIST_MAX`] at most).
    pub max: usize,
}

/// An item of a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedVersion {
    /// A version or delete marker.
    Version {
        /// Its key.
        key: String,
        /// Whether it is the current one.
        current: bool,
        /// The version, with its owner and group.
        version: Box<VersionRecord>,
    },
    /// Keys rolled up: their common beginning, the delimiter included.
    Prefix(String),
}

/// A page of a listing of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionListing {
    /// In byte order of keys and prefixes, the versions of a key newest first.
    pub items: Vec<ListedVersion>,
    /// Start of the next page, if there is one: key or prefix, and the version. The version is
    /// given by its id, even if its name is `null`.
    pub next: Option<(String, Option<VersionId>)>,
}

impl Tree {
    /// A page of a bucket's versions and delete markers, with the usual budget.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn list_versions(
        &self,
        bucket: &Bucket,
        query: VersionQuery<'_>,
    ) -> Result<VersionListing, Error> {
        let budget = ListBudget::default();
        self.list_versions_within(bucket, query, budget).await
    }

    /// A page of a bucket's versions and delete markers that costs no more than the budget, as
    /// [`Tree::list_within`]. Only directories without any version are looked at and not shown.
    ///
    /// # Errors
    /// `NoSuchBucket`; the refusal of the budget; errors of the engine.
    pub async fn list_versions_within(
        &self,
        bucket: &Bucket,
        query: VersionQuery<'_>,
        budget: ListBudget<'_>,
    ) -> Result<VersionListing, Error> {
        let kv = self.kv().snapshot();
        let kv = kv.as_ref();
        self.bucket_in(kv, bucket).await?;
        let rule = RollUpRule::new(query.prefix, query.delimiter);
        let max = query.max.min(LIST_MAX);
        let mut listing = VersionListing::default();
        if max == 0 {
            return Ok(listing);
        }
        // The rest of a key's versions, if the page before ended among them.
        let within = query
            .after
            .zip(query.after_version)
            .filter(|(key, _)| rule.rolled(key).is_none() && key.starts_with(rule.prefix));
        let start = match within {
            Some((key, _)) => key.as_bytes().to_vec(),
            None => rule.start(query.after),
        };
        let mut walk = Walk::new(kv, bucket.id, 32.min(max + 1));
        walk.seek(&start).await?;
        let mut effort = Effort::new(budget);
        let mut progress = ListProgress::default();
        'walk: while let Some(step) = walk.next().await? {
            progress.pass(step.path());
            if !effort.look().await?
                && let Some(next) = ended_at(&listing, &mut progress)
            {
                listing.next = Some(next);
                break;
            }
            let (prefix, skip) = match step {
                WalkStep::Symlink(_) => continue,
                WalkStep::File(key, _) if !key.starts_with(rule.prefix) => break,
                WalkStep::File(key, file) => match rule.rolled(&key) {
                    None => {
                        let after = within
                            .filter(|(marker, _)| *marker == key)
                            .map(|(_, version)| version);
                        let dir = walk.dir();
                        let room = max - listing.items.len();
                        for (current, version) in
                            versions_of(kv, dir, &key, file, after, room + 1).await?
                        {
                            if listing.items.len() == max {
                                listing.next = listing.items.last().map(ListedVersion::marker);
                                break 'walk;
                            }
                            listing.items.push(ListedVersion::Version {
                                key: key.clone(),
                                current,
                                version: Box::new(version),
                            });
                        }
                        effort.show(1);
                        progress.done(key);
                        continue;
                    }
                    Some(prefix) => {
                        let skip = keys::after_prefix(prefix.as_bytes());
                        (prefix.to_owned(), skip)
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
                    let below = has_live(kv, dir.attributes.id, Liveness::Version, &mut effort);
                    match progress.judge(below.await?, prefix) {
                        SubtreeListing::Shown => {}
                        SubtreeListing::Hidden => continue,
                        SubtreeListing::Unclear => {
                            listing.next = ended_at(&listing, &mut progress);
                            break;
                        }
                    }
                    (prefix.to_owned(), keys::after_prefix(prefix.as_bytes()))
                }
            };
            if listing.items.len() == max {
                listing.next = listing.items.last().map(ListedVersion::marker);
                break;
            }
            effort.show(1);
            progress.done(prefix.clone());
            listing.items.push(ListedVersion::Prefix(prefix));
            if skip.is_empty() {
                break;
            }
            walk.seek(&skip).await?;
        }
        Ok(listing)
    }
}

/// Where a page ends that has to end before it is full.
fn ended_at(
    listing: &VersionListing,
    progress: &mut ListProgress,
) -> Option<(String, Option<VersionId>)> {
    let (name, _) = progress.cut()?;
    let last = listing.items.last().map(ListedVersion::marker);
    // Behind a key's last version stands nothing of that key.
    Some(match last {
        Some(last) if last.0 == name => last,
        _ => (name, None),
    })
}

impl ListedVersion {
    fn marker(&self) -> (String, Option<VersionId>) {
        match self {
            Self::Version { key, version, .. } => (key.clone(), Some(version.id)),
            Self::Prefix(prefix) => (prefix.clone(), None),
        }
    }
}

/// The versions of a key, newest first, at most `limit`, those only that are older than `after`.
async fn versions_of(
    kv: &dyn KvRead,
    dir: EntryId,
    key: &str,
    file: FileRecord,
    after: Option<VersionName>,
    limit: usize,
) -> Result<Vec<(bool, VersionRecord)>, Error> {
    let FileRecord {
        attributes,
        mut current,
        older,
        older_null,
    } = file;
    let below = match after {
        None => None,
        Some(VersionName::Id(id)) => Some(id),
        Some(VersionName::Null) if current.name() == VersionName::Null => Some(current.id),
        // A `null` that is gone was the last one that is known to have been seen.
        Some(VersionName::Null) => Some(older_null.unwrap_or(VersionId(0))),
    };
    let mut found = Vec::new();
    if below.is_none_or(|below| current.id < below) {
        current.owner = Some(attributes.owner);
        current.group = attributes.group;
        found.push((true, current));
    }
    if older == 0 || found.len() >= limit {
        return Ok(found);
    }
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let mut range = keys::versions(dir, name);
    if let Some(below) = below {
        // Newest first: what is older stands behind.
        range = range.starting(&keys::just_after(&keys::version(dir, name, below)));
    }
    let mut from = range.from.clone();
    loop {
        let page = kv
            .scan(Scan {
                from: &from,
                to: &range.to,
                limit: (limit - found.len()).min(LIST_MAX),
                reverse: false,
            })
            .await?;
        for (key, value) in &page.pairs {
            let mut version = VersionRecord::from_value(key, value)?;
            let (owner, group) = version.ownership(&attributes);
            version.owner = Some(owner);
            version.group = group;
            found.push((false, version));
        }
        match page.pairs.last() {
            Some((last, _)) if page.more && found.len() < limit => {
                from = keys::just_after(last);
            }
            _ => return Ok(found),
        }
    }
}
