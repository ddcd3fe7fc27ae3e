//! The effect of rules on a version, at a given time.

use std::time::Duration;

use dewar_catalog::record::VersionRecord;
use dewar_types::Timestamp;

use super::DAY;
use super::rules::{Expiration, Filter, Lifecycle, Rule};

/// When a version expires, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When.
    pub when: Timestamp,
    /// The rule's id.
    pub rule: String,
}

/// The action that is due for a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    /// It goes.
    Expire,
    /// It moves to this storage class.
    Move(String),
}

/// A version among those of its key.
pub(super) struct EvaluatedVersion<'a> {
    pub(super) key: &'a str,
    pub(super) version: &'a VersionRecord,
    /// For an older version: the number of newer ones among the older, and the time of its
    /// successor.
    pub(super) older: Option<(u32, Timestamp)>,
    /// Whether it is the only version of its key.
    pub(super) alone: bool,
}

/// `days` after `from`, rounded up to midnight if days have their real length, as in S3.
fn after(from: Timestamp, days: u32, day: Duration) -> Timestamp {
    let day_nanos = u64::try_from(day.as_nanos()).unwrap_or(u64::MAX);
    let at = from.0.saturating_add(day_nanos.saturating_mul(days.into()));
    if day == DAY {
        return Timestamp(at.div_ceil(day_nanos).saturating_mul(day_nanos));
    }
    Timestamp(at)
}

impl Filter {
    fn matches(&self, key: &str, version: &VersionRecord) -> bool {
        let marker = version.flags.delete_marker();
        let measured = self.larger.is_some() || self.smaller.is_some() || !self.tags.is_empty();
        self.matches_key(key)
            && !(marker && measured)
            && self.larger.is_none_or(|than| version.size > than)
            && self.smaller.is_none_or(|than| version.size < than)
            && self
                .tags
                .iter()
                .all(|(key, value)| version.tags.get(key) == Some(value))
    }

    /// Whether keys can match at all.
    pub(super) fn matches_key(&self, key: &str) -> bool {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        key.starts_with(prefix)
    }
}

impl Rule {
    /// When the current version expires by this rule.
    fn current_expiry(&self, seen: &EvaluatedVersion<'_>, day: Duration) -> Option<Timestamp> {
        let marker = seen.version.flags.delete_marker();
        if marker && !seen.alone {
            return None;
        }
        let written = seen.version.modified;
        match self.expiration? {
            Expiration::Days(days) => Some(after(written, days, day)),
            // What was deleted before the day is no business of the day.
            Expiration::Date(date) => (!marker).then_some(date),
            Expiration::Marker(on) => (marker && on).then_some(written),
        }
    }

    fn due(&self, seen: &EvaluatedVersion<'_>, now: Timestamp, day: Duration) -> Option<DueAction> {
        if !self.enabled || !self.filter.matches(seen.key, seen.version) {
            return None;
        }
        let Some((newer, since)) = seen.older else {
            if self
                .current_expiry(seen, day)
                .is_some_and(|when| when <= now)
            {
                return Some(DueAction::Expire);
            }
            let from = seen.version.modified;
            let due = self.transitions.iter().filter_map(|to| {
                let when = match (to.days, to.date) {
                    (Some(days), _) => after(from, days, day),
                    (None, Some(date)) => date,
                    (None, None) => return None,
                };
                (when <= now).then_some((when, &to.class))
            });
            return moves(due, seen.version);
        };
        if let Some(older) = self.noncurrent
            && older.keep.is_none_or(|keep| newer >= keep)
            && after(since, older.days, day) <= now
        {
            return Some(DueAction::Expire);
        }
        let due = self.noncurrent_transitions.iter().filter_map(|to| {
            let when = after(since, to.days, day);
            let stays = to.keep.is_some_and(|keep| newer < keep);
            (when <= now && !stays).then_some((when, &to.class))
        });
        moves(due, seen.version)
    }
}

/// The last move that is due, unless the version is there.
fn moves<'a>(
    due: impl Iterator<Item = (Timestamp, &'a String)>,
    version: &VersionRecord,
) -> Option<DueAction> {
    let (_, class) = due.max_by_key(|(when, _)| *when)?;
    let here = version.storage_class.as_deref().unwrap_or(super::STANDARD);
    let moves = class != here && !version.flags.delete_marker();
    moves.then(|| DueAction::Move(class.clone()))
}

impl Lifecycle {
    /// The key prefixes of rules about versions, in order, none of them within another.
    pub(super) fn prefixes(&self) -> Vec<&str> {
        let rules = self.rules.iter().filter(|rule| rule.enabled);
        let rules = rules.filter(|rule| {
            rule.expiration.is_some()
                || rule.noncurrent.is_some()
                || !rule.transitions.is_empty()
                || !rule.noncurrent_transitions.is_empty()
        });
        let mut prefixes: Vec<&str> = rules
            .map(|rule| rule.filter.prefix.as_deref().unwrap_or_default())
            .collect();
        prefixes.sort_unstable();
        // What begins with a prefix comes right behind it.
        prefixes.dedup_by(|next, kept| next.starts_with(*kept));
        prefixes
    }

    /// The action that is due for a version. Expiration takes precedence over moves.
    pub(super) fn due(
        &self,
        seen: &EvaluatedVersion<'_>,
        now: Timestamp,
        day: Duration,
    ) -> Option<DueAction> {
        let mut moving = None;
        for rule in &self.rules {
            match rule.due(seen, now, day) {
                Some(DueAction::Expire) => return Some(DueAction::Expire),
                Some(due) => moving = moving.or(Some(due)),
                None => {}
            }
        }
        moving
    }

    /// Whether an upload that began at `initiated` is to be given up.
    pub(super) fn aborts(
        &self,
        key: &str,
        initiated: Timestamp,
        now: Timestamp,
        day: Duration,
    ) -> bool {
        self.rules.iter().any(|rule| {
            let days = rule.abort_days.filter(|_| rule.enabled);
            rule.filter.matches_key(key)
                && days.is_some_and(|days| after(initiated, days, day) <= now)
        })
    }

    /// The time when an upload that began at `initiated` is given up, and the rule, for clients
    /// that continue it. Days have their real length, as in [`Lifecycle::expiry`].
    #[must_use]
    pub fn abort(&self, key: &str, initiated: Timestamp) -> Option<Expiry> {
        let rules = self.rules.iter().filter(|rule| rule.enabled);
        let rules = rules.filter(|rule| rule.filter.matches_key(key));
        rules
            .filter_map(|rule| Some((after(initiated, rule.abort_days?, DAY), rule)))
            .min_by_key(|(when, _)| *when)
            .map(|(when, rule)| Expiry {
                when,
                rule: rule.id.clone(),
            })
    }

    /// The time when a current version expires, for its readers. Days have their real length, also
    /// in tests.
    #[must_use]
    pub fn expiry(&self, key: &str, version: &VersionRecord) -> Option<Expiry> {
        let seen = EvaluatedVersion {
            key,
            version,
            older: None,
            alone: false,
        };
        self.rules
            .iter()
            .filter(|rule| rule.enabled && rule.filter.matches(key, version))
            .filter_map(|rule| Some((rule.current_expiry(&seen, DAY)?, rule)))
            .min_by_key(|(when, _)| *when)
            .map(|(when, rule)| Expiry {
                when,
                rule: rule.id.clone(),
            })
    }
}
