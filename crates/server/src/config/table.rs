//! The structure of the key table. The typed [`Config`] structs, their defaults, the reference and
//! the checks are all made from its entries, one per key.
//!
//! [`Config`]: super::Config

use std::fmt;
use std::path::Path;

use super::load::Values;
use super::value::{Context, Field, Raw};

/// The values that a key admits beyond its type.
#[derive(Clone, Copy)]
pub enum Range {
    /// Every value of the type.
    Any,
    /// From the first to the second, both included, written like the value.
    Between(&'static str, &'static str),
    /// The same, and a multiple of the 4 KiB page.
    Pages(&'static str, &'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Text for which the function holds; the sentence says when that is.
    Rule(&'static str, fn(&str) -> bool),
}

impl Range {
    /// Checks text against the range.
    ///
    /// # Errors
    /// A sentence with the allowed values.
    pub(super) fn admits(&self, text: &str) -> Result<(), String> {
        match self {
            Self::OneOf(words) if !words.contains(&text) => {
                Err(format!("{text:?} is not one of {}", words.join(", ")))
            }
            Self::Rule(rule, holds) if !holds(text) => Err(format!("{text:?} is not {rule}")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::Pages(low, high) => write!(f, "{low} to {high}, a multiple of 4KiB"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::Rule(rule, _) => f.write_str(rule),
        }
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range({self})")
    }
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// On SIGHUP, without a restart.
    Live,
    /// When the server starts again.
    Restart,
}

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The table of the key, `s3` for `[s3]`.
    pub section: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The description, one line of the source per element.
    pub doc: &'static [&'static str],
    /// How its type is called.
    pub kind: &'static str,
    /// Its default, as an environment variable would say it.
    pub default: &'static str,
    /// The values that it admits beyond its type.
    pub range: Range,
    /// The unit of the number; empty where the value has its own unit.
    pub unit: &'static str,
    /// When a change takes effect.
    pub reload: Reload,
    /// Reads a value as this key's type and writes it back as TOML.
    pub normalise: fn(&Raw, &Key, &Path) -> Result<String, String>,
}

impl Key {
    /// `section.name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The environment variable that overrides it: `DEWAR_S3_LISTEN` for `s3.listen`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("DEWAR_{}_{}", self.section, self.name).to_ascii_uppercase()
    }

    /// The default in TOML.
    #[must_use]
    pub fn default_toml(&self) -> String {
        let raw = Raw::Untyped(self.default.to_owned());
        (self.normalise)(&raw, self, Path::new("")).expect("the table's test reads every default")
    }

    /// Its description as one paragraph.
    #[must_use]
    pub fn description(&self) -> String {
        paragraph(self.doc)
    }

    pub(super) fn range_is_pages(&self) -> bool {
        matches!(self.range, Range::Pages(..))
    }
}

/// One table of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name, `s3` for `[s3]`.
    pub name: &'static str,
    /// The description of the section.
    pub doc: &'static [&'static str],
    /// Its keys in the order in which they are shown.
    pub keys: &'static [Key],
}

impl Section {
    /// Its description as one paragraph.
    #[must_use]
    pub fn description(&self) -> String {
        paragraph(self.doc)
    }
}

fn paragraph(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// Reads one key for the generated constructor: the configured value, or the default.
pub(super) fn read<T: Field>(values: &mut Values, key: &'static Key) -> T {
    if let Some(given) = values.take(key) {
        let context = Context {
            key,
            base: &given.base,
        };
        match T::read(&given.raw, context) {
            Ok(value) => return value,
            Err(reason) => values.refuse(given.origin, key, &reason),
        }
    }
    let raw = Raw::Untyped(key.default.to_owned());
    let context = Context {
        key,
        base: Path::new(""),
    };
    T::read(&raw, context).expect("the table's test reads every default")
}

/// Declares the sections: see `keys.rs`, which is the one use.
macro_rules! sections {
    ($(
        $(#[doc = $section_doc:literal])*
        [$section:ident] $Section:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $ty:ty = $default:literal $({ $($option:ident: $value:expr),* $(,)? })?;
            )*
        }
    )*) => {
        $(
            $(#[doc = $section_doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $Section {
                $( $(#[doc = $doc])* pub $key: $ty, )*
            }

            impl $Section {
                const KEYS: &'static [Key] = &[$(
                    Key {
                        $($($option: $value,)*)?
                        ..Key {
                            section: stringify!($section),
                            name: stringify!($key),
                            doc: &[$($doc),*],
                            kind: <$ty as Field>::KIND,
                            default: $default,
                            range: Range::Any,
                            unit: "",
                            reload: Reload::Restart,
                            normalise: |raw, key, base| {
                                <$ty as Field>::read(raw, Context { key, base })
                                    .map(|value| value.render())
                            },
                        }
                    }
                ),*];
            }
        )*

        /// The configuration of one `dewar serve`: one field per table of the file.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $( $(#[doc = $section_doc])* pub $section: $Section, )*
        }

        /// Every table of the file with every key, in the order in which they are shown.
        pub static SECTIONS: &[Section] = &[$(
            Section {
                name: stringify!($section),
                doc: &[$($section_doc),*],
                keys: $Section::KEYS,
            }
        ),*];

        impl Config {
            /// Builds the structs. A value that cannot be parsed is recorded in `values`, and the
            /// default is used, so that one run reports every mistake.
            pub(super) fn from_values(values: &mut Values) -> Self {
                Self {
                    $($section: {
                        let mut keys = $Section::KEYS.iter();
                        $Section {
                            $($key: read(values, keys.next().expect("one entry per field")),)*
                        }
                    },)*
                }
            }

            /// Every key with its value as TOML.
            pub fn rendered(&self) -> Vec<(&'static Key, String)> {
                let mut all = Vec::new();
                $(
                    let mut keys = $Section::KEYS.iter();
                    $(all.push((
                        keys.next().expect("one entry per field"),
                        Field::render(&self.$section.$key),
                    ));)*
                )*
                all
            }
        }
    };
}
pub(super) use sections;
