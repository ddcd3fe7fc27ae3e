//! How far long work is, in one shape for all of it.

use dewar_env::WorkProgress;
use serde::{Deserialize, Serialize};

use crate::amount::amount;

/// How far long work is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The work, as `backup` or `drain of /data/d3`.
    pub what: String,
    /// The part that is done, in units.
    pub done: u64,
    /// The whole, if it is known. It can grow while the work goes on.
    pub total: Option<u64>,
    /// `bytes`, `blobs` or `shards`.
    pub unit: ProgressUnit,
    /// When the work began, RFC 3339 in UTC.
    pub started: Option<String>,
    /// The items that failed or were found bad.
    pub errors: u64,
}

/// The unit of the amounts of a [`Progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Blobs: large objects or parts of them, and segments of small ones.
    Blobs,
    /// Shards of blobs.
    Shards,
}

impl ProgressUnit {
    fn amount(self, count: u64) -> String {
        match self {
            Self::Bytes => amount(count),
            Self::Blobs => format!("{count} blobs"),
            Self::Shards => format!("{count} shards"),
        }
    }
}

impl Progress {
    /// The counts of work that began at `started`.
    #[must_use]
    pub fn of(what: String, unit: ProgressUnit, started: String, work: &WorkProgress) -> Self {
        Self {
            what,
            done: work.done(),
            total: work.total(),
            unit,
            started: Some(started),
            errors: work.errors(),
        }
    }

    /// The part that is done, and the whole, for people: `3.0 GB of 4.0 GB (75 %)`.
    #[must_use]
    pub fn share(&self) -> String {
        let total = match self.total {
            Some(total) if total > 0 => total,
            _ => return self.unit.amount(self.done),
        };
        let done = match self.unit {
            ProgressUnit::Bytes => amount(self.done),
            _ => self.done.to_string(),
        };
        let share = u128::from(self.done.min(total)) * 100 / u128::from(total);
        format!("{done} of {} ({share} %)", self.unit.amount(total))
    }

    /// A line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{}: {}", self.what, self.share());
        if self.errors > 0 {
            line.push_str(&format!(", {} errors", self.errors));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_work_share_and_errors() {
        let mut progress = Progress {
            what: "scrub of /data/d1".to_owned(),
            done: 3_000_000,
            total: Some(4_000_000),
            ..Progress::default()
        };
        assert_eq!(
            progress.line(),
            "scrub of /data/d1: 3.0 MB of 4.0 MB (75 %)"
        );
        progress.errors = 2;
        progress.done = 5_000_000;
        assert_eq!(
            progress.line(),
            "scrub of /data/d1: 5.0 MB of 4.0 MB (100 %), 2 errors"
        );
        (progress.unit, progress.total) = (ProgressUnit::Blobs, None);
        assert_eq!(progress.share(), "5000000 blobs");
        (progress.done, progress.total) = (1, Some(4));
        assert_eq!(progress.share(), "1 of 4 blobs (25 %)");
    }
}
