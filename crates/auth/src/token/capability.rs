//! Capabilities: the rights that the scopes of a token give (WLCG common JWT profile 1.3,
//! "Scope-based authorization"; SciTokens 2.0).
//!
//! A capability only restricts. Policies decide whether the bearer has the right at all. Paths are
//! compared by components, never as strings: `/foo/bar` covers `/foo/bar` and everything below it,
//! and not `/foo/barbaz`.
//!
//! The profile leaves some points open. Dewar decides them as follows:
//! - Reading includes listing, because no other scope would allow it. A listing must be below the
//!   path as a whole: with `storage.read:/data`, the prefix `data/` may be listed and `dat` may
//!   not.
//! - Creating never overwrites and never deletes. Renaming needs `storage.modify`, because the
//!   creator of the old name is not recorded. Missing parents of the path may be created.
//! - Staging does not allow reading (as since 1.2, whatever `wlcg.ver` says).
//! - No capability covers policies, access control lists, retention or settings of buckets.

use dewar_types::TenantName;

use super::TokenError;
use super::issuer::BasePath;
use crate::{Action, Details, Level, Resource};

/// Most capabilities of a token.
const CAPABILITIES_MAX: usize = 256;

/// A right that a capability gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reading online data.
    Read,
    /// Creating new files and directories.
    Create,
    /// Make, overwrite, rename, delete.
    Modify,
    /// Bring from tape.
    Stage,
    /// Ask where something is.
    Poll,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Capability {
    right: Right,
    /// Bucket and below.
    path: Vec<String>,
    /// Whether the path must be a directory: it ended in a slash.
    directory: bool,
}

/// The capabilities of a token, all below one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    tenant: TenantName,
    all: Box<[Capability]>,
    /// The scope as in the token, and the path that it is relative to.
    text: Box<str>,
    base: BasePath,
}

/// Whether capabilities let something happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapabilityDecision {
    /// No.
    Never,
    /// If nothing has the name yet.
    IfNew,
    /// Yes.
    Always,
}

impl Capabilities {
    /// Parses the capabilities of a scope claim; `None` if it has none. `scitoken` says whether the
    /// names of SciTokens (`read:/…`) count too.
    ///
    /// # Errors
    /// [`TokenError::Scope`] for a capability without a path or with an invalid one. The whole
    /// token is refused then, because it cannot have been meant so.
    pub fn parse(scope: &str, base: &BasePath, scitoken: bool) -> Result<Option<Self>, TokenError> {
        let mut all = Vec::new();
        for word in scope.split_ascii_whitespace() {
            let (name, path) = match word.split_once(':') {
                Some((name, path)) => (name, Some(path)),
                None => (word, None),
            };
            let rights: &[Right] = match name {
                "storage.read" => &[Right::Read],
                "storage.create" => &[Right::Create],
                "storage.modify" => &[Right::Modify],
                "storage.stage" => &[Right::Stage],
                "storage.poll" => &[Right::Poll],
                "read" if scitoken => &[Right::Read],
                // SciTokens: to write is to create, overwrite and delete.
                "write" if scitoken => &[Right::Modify],
                "create" if scitoken => &[Right::Create],
                "modify" if scitoken => &[Right::Modify],
                "stage" if scitoken => &[Right::Stage],
                // A right to storage that is not known gives nothing, and is no group either.
                name if name.starts_with("storage.") => &[],
                _ => continue,
            };
            let refuse = |why: &str| {
                let word: String = word.chars().take(200).collect();
                TokenError::Scope(format!("{word}: {why}"))
            };
            let path = path.ok_or_else(|| refuse("it has no path"))?;
            let (below, directory) =
                components(path).ok_or_else(|| refuse("its path cannot be"))?;
            for right in rights {
                let path = base.path.iter().cloned().chain(below.iter().cloned());
                all.push(Capability {
                    right: *right,
                    path: path.collect(),
                    directory,
                });
            }
            if rights.is_empty() {
                // Keeps the set from being taken for no capabilities at all.
                all.push(Capability {
                    right: Right::Poll,
                    path: vec![String::new()],
                    directory: true,
                });
            }
            if all.len() > CAPABILITIES_MAX {
                return Err(refuse("there are too many capabilities"));
            }
        }
        Ok((!all.is_empty()).then(|| Self {
            tenant: base.tenant.clone(),
            all: all.into(),
            text: scope.into(),
            base: base.clone(),
        }))
    }

    /// The scope claim that they come from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path that the capabilities are relative to.
    #[must_use]
    pub fn base(&self) -> &BasePath {
        &self.base
    }

    /// Whether they let `action` happen to `resource`.
    #[must_use]
    pub fn lets(
        &self,
        action: Action,
        resource: &Resource<'_>,
        details: &Details<'_>,
    ) -> CapabilityDecision {
        let (tenant, bucket, key) = match resource {
            Resource::Identity { .. } => return CapabilityDecision::Never,
            Resource::Tenant(tenant) => {
                let whole = **tenant == self.tenant
                    && self.any(|c| c.right == Right::Read && c.path.is_empty());
                return CapabilityDecision::when(whole && action == Action::ListAllMyBuckets);
            }
            Resource::Bucket {
                tenant,
                bucket,
                key,
                ..
            } => (*tenant, *bucket, *key),
        };
        if *tenant != self.tenant {
            return CapabilityDecision::Never;
        }
        if action.level() == Level::Object {
            return key.map_or(CapabilityDecision::Never, |key| {
                self.lets_object(action, &target(bucket, key), details.stat)
            });
        }
        self.lets_bucket(action, bucket, details)
    }

    fn any(&self, test: impl Fn(&Capability) -> bool) -> bool {
        self.all.iter().any(test)
    }

    fn lets_object(&self, action: Action, target: &[&str], stat: bool) -> CapabilityDecision {
        let covered = |right| self.any(|c| c.right == right && c.covers(target));
        if is_reading(action) {
            let looks = stat
                && (self.any(|c| c.right != Right::Poll && c.covers(target))
                    || self.is_above(target));
            return CapabilityDecision::when(covered(Right::Read) || looks);
        }
        if action == Action::RestoreObject {
            return CapabilityDecision::when(covered(Right::Stage));
        }
        if is_creating(action) {
            if covered(Right::Modify) {
                return CapabilityDecision::Always;
            }
            // A directory above the path: `a/` for a path `a/b/c`.
            let parent = target.last() == Some(&"") && self.is_above(&target[..target.len() - 1]);
            return if covered(Right::Create) || parent {
                CapabilityDecision::IfNew
            } else {
                CapabilityDecision::Never
            };
        }
        CapabilityDecision::when(is_modifying(action) && covered(Right::Modify))
    }

    /// Whether something that may be written lies below `target`.
    fn is_above(&self, target: &[&str]) -> bool {
        self.any(|c| {
            matches!(c.right, Right::Create | Right::Modify)
                && c.path.len() > target.len()
                && c.path.iter().zip(target).all(|(a, b)| a == b)
        })
    }

    fn lets_bucket(
        &self,
        action: Action,
        bucket: &str,
        details: &Details<'_>,
    ) -> CapabilityDecision {
        let inside = |c: &Capability| c.path.first().is_none_or(|first| first == bucket);
        match action {
            Action::ListBucket | Action::ListBucketVersions => {
                let prefix = details.prefix.unwrap_or_default();
                if details.stat {
                    // Whether something is there: a bucket as a whole, or one name in it.
                    let target = target(bucket, prefix);
                    let bare = target.strip_suffix(&[""]).unwrap_or(&target);
                    return CapabilityDecision::when(match details.prefix {
                        None | Some("") => self.any(|c| c.right != Right::Poll && inside(c)),
                        Some(_) => {
                            self.any(|c| c.right != Right::Poll && c.covers(&target))
                                || self.any(|c| c.right != Right::Poll && c.covers(bare))
                                || self.is_above(bare)
                        }
                    });
                }
                CapabilityDecision::when(
                    self.any(|c| c.right == Right::Read && covers_listing(&c.path, bucket, prefix)),
                )
            }
            Action::GetBucketLocation | Action::GetBucketVersioning => {
                CapabilityDecision::when(self.any(|c| c.right != Right::Poll && inside(c)))
            }
            Action::ListBucketMultipartUploads => {
                let prefix = details.prefix.unwrap_or_default();
                let may = |c: &Capability| matches!(c.right, Right::Create | Right::Modify);
                CapabilityDecision::when(
                    self.any(|c| may(c) && covers_listing(&c.path, bucket, prefix)),
                )
            }
            Action::CreateBucket => {
                let may = |c: &Capability| matches!(c.right, Right::Create | Right::Modify);
                CapabilityDecision::when(self.any(|c| may(c) && c.path.is_empty()))
            }
            Action::DeleteBucket => CapabilityDecision::when(
                self.any(|c| c.right == Right::Modify && c.path.is_empty()),
            ),
            _ => CapabilityDecision::Never,
        }
    }
}

impl CapabilityDecision {
    fn when(yes: bool) -> Self {
        if yes { Self::Always } else { Self::Never }
    }
}

impl Capability {
    fn covers(&self, target: &[&str]) -> bool {
        let below = target.len() > self.path.len();
        (below || (target.len() == self.path.len() && !self.directory))
            && self.path.iter().zip(target).all(|(a, b)| a == b)
    }
}

/// Whether every key that begins with `prefix` is below a path, given by a bucket and names.
pub(crate) fn covers_listing(path: &[String], bucket: &str, prefix: &str) -> bool {
    let Some((first, rest)) = path.split_first() else {
        return true;
    };
    let mut left = prefix;
    first == bucket
        && rest.iter().all(|name| {
            let after = left.strip_prefix(name.as_str());
            match after.and_then(|after| after.strip_prefix('/')) {
                Some(after) => {
                    left = after;
                    true
                }
                None => false,
            }
        })
}

/// Bucket and segments of a key; `a/` has an empty last one.
fn target<'a>(bucket: &'a str, key: &'a str) -> Vec<&'a str> {
    std::iter::once(bucket).chain(key.split('/')).collect()
}

/// The components of a capability's path, and whether it ends in a slash. `None` for a path that is
/// not absolute, or has components such as `..`.
fn components(path: &str) -> Option<(Vec<String>, bool)> {
    let rest = path.strip_prefix('/')?;
    if rest.is_empty() {
        return Some((Vec::new(), false));
    }
    let (rest, directory) = match rest.strip_suffix('/') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let names = rest.split('/').map(|part| {
        let name = unescaped(part)?;
        let fit = !name.is_empty()
            && name != "."
            && name != ".."
            && !name.contains(['/', '\0'])
            && !name.chars().any(char::is_control);
        fit.then_some(name)
    });
    Some((names.collect::<Option<_>>()?, directory))
}

/// Percent-decoding; `None` for malformed text.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high << 4 | low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

fn is_reading(action: Action) -> bool {
    matches!(
        action,
        Action::GetObject
            | Action::GetObjectVersion
            | Action::GetObjectAttributes
            | Action::GetObjectVersionAttributes
            | Action::GetObjectTagging
            | Action::GetObjectVersionTagging
            | Action::GetObjectLegalHold
            | Action::GetObjectRetention
    )
}

fn is_creating(action: Action) -> bool {
    matches!(
        action,
        Action::PutObject | Action::AbortMultipartUpload | Action::ListMultipartUploadParts
    )
}

fn is_modifying(action: Action) -> bool {
    matches!(
        action,
        Action::DeleteObject
            | Action::DeleteObjectVersion
            | Action::RenameObject
            | Action::PutObjectTagging
            | Action::PutObjectVersionTagging
            | Action::DeleteObjectTagging
            | Action::DeleteObjectVersionTagging
    )
}
