//! Configuration: one TOML file whose keys are declared once, in [`keys`].
//!
//! The table there gives each key its doc line, type, default, range, and whether it changes on
//! SIGHUP. The [`Config`] structs, `dewar config default|explain|check`, the page of the book and
//! the names of the environment variables are made from it. Rules that a table cannot express are
//! in [`check`], for example two keys that contradict, or disks that share a device.

pub mod check;
pub mod explain;
mod key_rules;
mod keys;
mod load;
pub mod nearest;
mod pools;
mod table;
mod value;

pub use keys::{
    Accounts, Audit, Config, Log, Metrics, Pool, S3, SECTIONS, Security, Server, Transfer, Webdav,
    Xrootd, all, find,
};
pub use load::{ConfigError, Problem, ValueOrigin};
pub use pools::FurtherPool;
pub use table::{Key, Range, Reload, Section};
pub(crate) use value::parse_duration;
pub use value::{ByteSize, Field, LayoutChoice, LogFormat, LogLevel, Raw};

impl Config {
    /// The keys whose values differ from those of `newer`.
    #[must_use]
    pub fn changed(&self, newer: &Self) -> Vec<&'static Key> {
        self.rendered()
            .into_iter()
            .zip(newer.rendered())
            .filter(|((_, old), (_, new))| old != new)
            .map(|((key, _), _)| key)
            .collect()
    }
}

/// The known key nearest to `name`, for messages.
#[must_use]
pub fn nearest_key(name: &str) -> Option<String> {
    nearest::nearest(name, all().map(Key::path))
}

#[cfg(test)]
mod tests;
