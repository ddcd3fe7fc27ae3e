//! The caveats that restrict a macaroon.
//!
//! | caveat | allows |
//! |---|---|
//! | `path:/BUCKET/DIRECTORY` | this path and all below; parents may be created and looked up |
//! | `activity:DOWNLOAD,LIST` | any of these; of several such caveats, those in all of them |
//! | `before:2026-11-22T12:00:00Z` | use until this time |
//! | `ip:192.0.2.0/24,2001:db8::1` | use from any of these addresses |
//! | `name:ann` | use as long as the user has this name |
//!
//! The syntax is that of dCache and XRootD.

use dewar_types::{TenantName, Timestamp};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::authorize::{Details, Resource};
use crate::network::Network;
use crate::token::{CapabilityDecision, covers_listing};
use crate::{Action, Level, Origin};

/// Why a caveat lets nothing happen.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CaveatError {
    /// A caveat of an unknown kind.
    #[error("the caveat {0:?} is not known")]
    Unknown(String),
    /// It cannot be.
    #[error("the caveat {0:?} cannot be read")]
    Unreadable(String),
}

const DOWNLOAD: u8 = 1;
const UPLOAD: u8 = 1 << 1;
const DELETE: u8 = 1 << 2;
const LIST: u8 = 1 << 3;
const MANAGE: u8 = 1 << 4;
const READ_METADATA: u8 = 1 << 5;
const UPDATE_METADATA: u8 = 1 << 6;
const ALL: u8 = 0x7f;

fn activity(name: &str) -> Option<u8> {
    Some(match name {
        "DOWNLOAD" => DOWNLOAD,
        "UPLOAD" => UPLOAD,
        "DELETE" => DELETE,
        "LIST" => LIST,
        "MANAGE" => MANAGE,
        "READ_METADATA" => READ_METADATA,
        "UPDATE_METADATA" => UPDATE_METADATA,
        _ => return None,
    })
}

/// All caveats of a macaroon, in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caveats {
    tenant: TenantName,
    activities: u8,
    /// Bucket and below; `None` where two exclude each other.
    path: Option<Vec<String>>,
    nets: Vec<Vec<Network>>,
    before: Option<Timestamp>,
    names: Vec<String>,
    text: String,
}

impl Caveats {
    /// Parses the caveats.
    ///
    /// # Errors
    /// [`CaveatError`] for the first unknown one: a caveat that cannot be enforced must not be
    /// ignored.
    pub fn parse(caveats: &[String]) -> Result<Self, CaveatError> {
        let mut all = Self {
            tenant: TenantName::default(),
            activities: ALL,
            path: Some(Vec::new()),
            nets: Vec::new(),
            before: None,
            names: Vec::new(),
            text: caveats.join("; "),
        };
        for caveat in caveats {
            let shown: String = caveat.chars().take(200).collect();
            let (kind, value) = caveat
                .split_once(':')
                .ok_or_else(|| CaveatError::Unknown(shown.clone()))?;
            let taken = match kind {
                "activity" => all.take_activities(value),
                "path" => all.take_path(value),
                "before" => all.take_before(value),
                "ip" => all.take_addresses(value),
                "name" => {
                    all.names.push(value.to_owned());
                    Some(())
                }
                _ => return Err(CaveatError::Unknown(shown)),
            };
            taken.ok_or(CaveatError::Unreadable(shown))?;
        }
        Ok(all)
    }

    /// The same, for a holder of this tenant: paths begin there.
    #[must_use]
    pub fn within(self, tenant: TenantName) -> Self {
        Self { tenant, ..self }
    }

    /// As they were written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Until when they let anything happen.
    #[must_use]
    pub fn before(&self) -> Option<Timestamp> {
        self.before
    }

    /// Whether the holder may be called this.
    #[must_use]
    pub fn lets_name(&self, name: &str) -> bool {
        self.names.iter().all(|wanted| wanted == name)
    }

    /// Unknown activities allow nothing. That is their purpose.
    fn take_activities(&mut self, value: &str) -> Option<()> {
        let mut found = 0;
        for name in value.split(',') {
            found |= activity(name.trim())?;
        }
        self.activities &= found;
        Some(())
    }

    fn take_path(&mut self, value: &str) -> Option<()> {
        let rest = value.strip_prefix('/')?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let mut path = Vec::new();
        for name in rest.split('/').filter(|_| !rest.is_empty()) {
            let fit = !matches!(name, "" | "." | "..") && !name.chars().any(char::is_control);
            path.push(fit.then(|| name.to_owned())?);
        }
        self.path = self.path.take().and_then(|held| {
            if path.starts_with(&held) {
                Some(path)
            } else if held.starts_with(&path) {
                Some(held)
            } else {
                None
            }
        });
        Some(())
    }

    fn take_before(&mut self, value: &str) -> Option<()> {
        let time = OffsetDateTime::parse(value, &Rfc3339).ok()?;
        let seconds = u64::try_from(time.unix_timestamp()).unwrap_or_default();
        let time = Timestamp::from_secs(seconds);
        self.before = Some(self.before.map_or(time, |held| held.min(time)));
        Some(())
    }

    fn take_addresses(&mut self, value: &str) -> Option<()> {
        let nets = value.split(',').map(|text| Network::parse(text.trim()));
        self.nets.push(nets.collect::<Option<_>>()?);
        Some(())
    }

    /// Whether they let `action` happen to `resource`, from there.
    pub(crate) fn lets(
        &self,
        action: Action,
        resource: &Resource<'_>,
        details: &Details<'_>,
        origin: Origin,
    ) -> CapabilityDecision {
        let Some(path) = &self.path else {
            return CapabilityDecision::Never;
        };
        let over = self.before.is_some_and(|before| details.now >= before);
        let from = |nets: &Vec<Network>| {
            let address = origin.address;
            address.is_some_and(|address| nets.iter().any(|net| net.contains(address)))
        };
        if over || !self.nets.iter().all(from) || *resource.tenant() != self.tenant {
            return CapabilityDecision::Never;
        }
        match resource {
            Resource::Identity { .. } => CapabilityDecision::Never,
            Resource::Tenant(_) => {
                let all = action == Action::ListAllMyBuckets && path.is_empty();
                when(all && self.has(LIST))
            }
            Resource::Bucket { bucket, key, .. } => match key {
                Some(key) if action.level() == Level::Object => {
                    let target: Vec<&str> =
                        std::iter::once(*bucket).chain(key.split('/')).collect();
                    self.lets_object(action, path, &target, details.stat)
                }
                _ if action.level() == Level::Bucket => {
                    self.lets_bucket(action, path, bucket, details)
                }
                _ => CapabilityDecision::Never,
            },
        }
    }

    fn has(&self, activities: u8) -> bool {
        self.activities & activities != 0
    }

    fn lets_object(
        &self,
        action: Action,
        path: &[String],
        target: &[&str],
        stat: bool,
    ) -> CapabilityDecision {
        let covered = covers(path, target);
        let bare = target.strip_suffix(&[""]).unwrap_or(target);
        let above = path.len() > bare.len() && path.iter().zip(bare).all(|(a, b)| a == b);
        let directory = bare.len() < target.len();
        match action {
            Action::GetObject
            | Action::GetObjectVersion
            | Action::GetObjectAttributes
            | Action::GetObjectVersionAttributes
            | Action::GetObjectTagging
            | Action::GetObjectVersionTagging => {
                let looks = stat && (covered || above) && self.activities != 0;
                when((covered && self.has(DOWNLOAD)) || looks)
            }
            Action::PutObject | Action::AbortMultipartUpload | Action::ListMultipartUploadParts => {
                if covered && self.has(UPLOAD) && self.has(DELETE) {
                    return CapabilityDecision::Always;
                }
                // Making directories is managing them; those above are made with what is in them.
                let makes = directory && self.has(UPLOAD | MANAGE) && (covered || above);
                if (covered && self.has(UPLOAD)) || makes {
                    CapabilityDecision::IfNew
                } else {
                    CapabilityDecision::Never
                }
            }
            Action::DeleteObject | Action::DeleteObjectVersion => when(covered && self.has(DELETE)),
            Action::RenameObject => when(covered && self.has(MANAGE)),
            Action::PutObjectTagging
            | Action::PutObjectVersionTagging
            | Action::DeleteObjectTagging
            | Action::DeleteObjectVersionTagging => {
                when(covered && self.has(UPDATE_METADATA | MANAGE))
            }
            _ => CapabilityDecision::Never,
        }
    }

    fn lets_bucket(
        &self,
        action: Action,
        path: &[String],
        bucket: &str,
        details: &Details<'_>,
    ) -> CapabilityDecision {
        let inside = path.first().is_none_or(|first| first == bucket);
        let prefix = details.prefix.unwrap_or_default();
        match action {
            Action::ListBucket | Action::ListBucketVersions if details.stat => {
                let target: Vec<&str> = std::iter::once(bucket).chain(prefix.split('/')).collect();
                let bare = target.strip_suffix(&[""]).unwrap_or(&target);
                let above = bare.len() <= path.len() && path.iter().zip(bare).all(|(a, b)| a == b);
                when(inside && self.activities != 0 && (covers(path, &target) || above))
            }
            Action::ListBucket | Action::ListBucketVersions => {
                when(self.has(LIST) && covers_listing(path, bucket, prefix))
            }
            Action::ListBucketMultipartUploads => {
                when(self.has(UPLOAD) && covers_listing(path, bucket, prefix))
            }
            Action::GetBucketLocation | Action::GetBucketVersioning => {
                when(inside && self.activities != 0)
            }
            Action::CreateBucket | Action::DeleteBucket => {
                when(path.is_empty() && self.has(MANAGE))
            }
            _ => CapabilityDecision::Never,
        }
    }
}

/// The caveat that ends at a time.
#[must_use]
pub fn before_caveat(time: Timestamp) -> String {
    let seconds = i64::try_from(time.secs()).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    let text = time.and_then(|time| time.format(&Rfc3339).ok());
    // A time beyond all calendars is none at all.
    format!("before:{}", text.unwrap_or_default())
}

fn when(yes: bool) -> CapabilityDecision {
    if yes {
        CapabilityDecision::Always
    } else {
        CapabilityDecision::Never
    }
}

fn covers(path: &[String], target: &[&str]) -> bool {
    target.len() >= path.len() && path.iter().zip(target).all(|(a, b)| a == b)
}
