//! The rules of a bucket, as they are stored.

use dewar_types::{Error, ErrorKind, Result, Timestamp};
use minicbor::{Decode, Encode};

/// Rules of one bucket (S3: 1,000).
pub const RULES_MAX: usize = 1000;
/// Longest id of a rule, in characters.
pub const ID_CHARS_MAX: usize = 255;

/// The lifecycle rules of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Lifecycle {
    /// The rules. Each applies by itself; if several match a version, the first that is due
    /// applies.
    #[n(0)]
    pub rules: Vec<Rule>,
}

crate::cbor_document!(Lifecycle, format 1, Lifecycle, get GetLifecycleConfiguration, put PutLifecycleConfiguration, delete PutLifecycleConfiguration);

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Rule {
    /// Its name, unique in the bucket.
    #[n(0)]
    pub id: String,
    /// Whether it counts.
    #[n(1)]
    pub enabled: bool,
    /// The versions that the rule covers.
    #[n(2)]
    pub filter: Filter,
    /// When current versions expire.
    #[n(3)]
    pub expiration: Option<Expiration>,
    /// When older versions expire.
    #[n(4)]
    pub noncurrent: Option<NoncurrentExpiration>,
    /// Days after which an upload in parts is given up.
    #[n(5)]
    pub abort_days: Option<u32>,
    /// Transitions of current versions.
    #[n(6)]
    pub transitions: Vec<Transition>,
    /// Transitions of older versions.
    #[n(7)]
    pub noncurrent_transitions: Vec<NoncurrentTransition>,
}

/// The versions that a rule covers. All fields must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Filter {
    /// How it was written, so that it is shown so again.
    #[n(0)]
    pub form: FilterForm,
    /// Keys that begin so.
    #[n(1)]
    pub prefix: Option<String>,
    /// Versions that have all of these tags.
    #[n(2)]
    pub tags: Vec<(String, String)>,
    /// Versions of more bytes.
    #[n(3)]
    pub larger: Option<u64>,
    /// Versions of fewer bytes.
    #[n(4)]
    pub smaller: Option<u64>,
}

/// How a filter was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum FilterForm {
    /// `Filter` with at most one element.
    #[default]
    #[n(0)]
    Filter,
    /// `Filter` with `And`.
    #[n(1)]
    And,
    /// `Prefix` without a filter, as it was before there were filters.
    #[n(2)]
    Prefix,
}

/// When current versions expire: exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Expiration {
    /// So many days after they were written.
    #[n(0)]
    Days(#[n(0)] u32),
    /// From a day on.
    #[n(1)]
    Date(#[n(0)] Timestamp),
    /// Only delete markers without older versions; `false` has no effect.
    #[n(2)]
    Marker(#[n(0)] bool),
}

/// When older versions expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NoncurrentExpiration {
    /// So many days after another took their place.
    #[n(0)]
    pub days: u32,
    /// How many of the newest of them stay all the same.
    #[n(1)]
    pub keep: Option<u32>,
}

/// A transition of current versions to another class.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Transition {
    /// Days after they were written.
    #[n(0)]
    pub days: Option<u32>,
    /// From a day on, where no days are given.
    #[n(1)]
    pub date: Option<Timestamp>,
    /// To which class.
    #[n(2)]
    pub class: String,
}

/// A transition of older versions to another class.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NoncurrentTransition {
    /// Days after another took their place.
    #[n(0)]
    pub days: u32,
    /// How many of the newest of them stay where they are.
    #[n(1)]
    pub keep: Option<u32>,
    /// To which class.
    #[n(2)]
    pub class: String,
}

impl Lifecycle {
    /// Checks whether the rules make sense. Syntax is checked by the front.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] with the reason.
    pub fn check(&self, known_class: impl Fn(&str) -> bool) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
        if self.rules.is_empty() || self.rules.len() > RULES_MAX {
            return refuse(format!("{} rules; 1 to {RULES_MAX}", self.rules.len()));
        }
        let mut ids: Vec<&str> = self.rules.iter().map(|rule| rule.id.as_str()).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            let id = twice[0];
            return refuse(format!(
                "Rule ID must be unique. Found same ID for more than one rule: {id}"
            ));
        }
        for rule in &self.rules {
            if rule.id.chars().count() > ID_CHARS_MAX {
                return refuse("ID length should not exceed allowed limit of 255".into());
            }
            rule.check_times()?;
            let classes = rule.transitions.iter().map(|to| &to.class);
            let older = rule.noncurrent_transitions.iter().map(|to| &to.class);
            if let Some(class) = classes.chain(older).find(|class| !known_class(class)) {
                return refuse(format!("{class} is no storage class"));
            }
        }
        Ok(())
    }
}

impl Rule {
    fn check_times(&self) -> Result<()> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidArgument, message));
        let zero = matches!(self.expiration, Some(Expiration::Days(0)))
            || self.noncurrent.is_some_and(|older| older.days == 0)
            || self.abort_days == Some(0);
        if zero {
            return refuse("'Days' for Expiration action must be a positive integer");
        }
        let midnight = |date: &Timestamp| date.0.is_multiple_of(super::DAY.as_nanos() as u64);
        let dated = match &self.expiration {
            Some(Expiration::Date(date)) => midnight(date),
            _ => true,
        };
        if !dated
            || !self
                .transitions
                .iter()
                .filter_map(|to| to.date.as_ref())
                .all(midnight)
        {
            return refuse("'Date' must be at midnight GMT");
        }
        let tagged = !self.filter.tags.is_empty();
        if tagged
            && (self.abort_days.is_some()
                || matches!(self.expiration, Some(Expiration::Marker(true))))
        {
            return refuse("A rule with tags cannot abort uploads or expire delete markers");
        }
        Ok(())
    }
}
