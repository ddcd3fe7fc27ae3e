//! Loading a [`Config`] from a TOML file and the environment.
//!
//! All mistakes are reported, each with its line or variable. An unknown name is an error that
//! suggests the nearest known one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Config, SECTIONS};
use super::nearest::nearest;
use super::table::{Key, Section};
use super::value::Raw;

/// Variables with this prefix override keys.
const PREFIX: &str = "DEWAR_";

/// `DEWAR_` variables that are no keys: the file itself, and names that belong to the load driver
/// and to test suites which pass their environment on to the server they start.
const FOREIGN: [&str; 3] = ["DEWAR_CONFIG", "DEWAR_BENCH_", "DEWAR_TEST_"];

/// A configuration file larger than this is not read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The place where a value is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// A line of the file, counted from one.
    Line(PathBuf, usize),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place where the value is set.
    pub origin: ValueOrigin,
    /// The error and a correct value.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is too large to be one.
    #[error("{}: larger than {FILE_BYTES_MAX} bytes: not a configuration", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// No file was named, and the default one does not exist.
    #[error(
        "no configuration: there is no {}; name one with --config or DEWAR_CONFIG, or try `dewar demo`",
        usual.display()
    )]
    Absent {
        /// The default path.
        usual: PathBuf,
    },
    /// It can be read and has mistakes.
    #[error("{}", lines(.0))]
    Problems(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// A value that was found, with where.
#[derive(Debug)]
pub(super) struct ConfigEntry {
    pub(super) raw: Raw,
    pub(super) origin: ValueOrigin,
    pub(super) base: PathBuf,
}

/// All values that were found, and their errors.
#[derive(Debug, Default)]
pub(super) struct Values {
    given: BTreeMap<String, ConfigEntry>,
    problems: Vec<Problem>,
}

impl Values {
    pub(super) fn take(&mut self, key: &Key) -> Option<ConfigEntry> {
        self.given.remove(&key.path())
    }

    pub(super) fn refuse(&mut self, origin: ValueOrigin, key: &Key, reason: &str) {
        let range = key.range.to_string();
        let range = if range.is_empty() || reason.contains(&range) {
            String::new()
        } else {
            format!(" (range: {range})")
        };
        self.note(origin, format!("{}: {reason}{range}", key.path()));
    }

    fn note(&mut self, origin: ValueOrigin, message: String) {
        self.problems.push(Problem { origin, message });
    }

    /// The text of a file; `base` is where its relative paths start.
    fn add_text(&mut self, text: &str, file: &Path, base: &Path) {
        let at = |offset: usize| ValueOrigin::Line(file.to_path_buf(), line_of(text, offset));
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            let what = match text.get(span.clone()) {
                Some(name) if error.message() == "duplicate key" => {
                    format!("{} is given a second time", name.trim())
                }
                _ => error.message().to_owned(),
            };
            self.note(at(span.start), format!("not TOML: {what}"));
        }
        if !errors.is_empty() {
            return;
        }
        for (name, value) in table.get_ref() {
            let origin = at(name.span().start);
            let Some(section) = SECTIONS.iter().find(|s| s.name == name.get_ref()) else {
                self.unknown_section(origin, name.get_ref());
                continue;
            };
            let DeValue::Table(entries) = value.get_ref() else {
                let message = format!("{0} is a table: write [{0}]", section.name);
                self.note(origin, message);
                continue;
            };
            for (name, value) in entries {
                let origin = at(name.span().start);
                match section.keys.iter().find(|key| key.name == name.get_ref()) {
                    Some(key) => {
                        let given = ConfigEntry {
                            raw: raw(value),
                            origin,
                            base: base.to_path_buf(),
                        };
                        self.given.insert(key.path(), given);
                    }
                    None => self.unknown_key(origin, section, name.get_ref()),
                }
            }
        }
    }

    fn unknown_section(&mut self, origin: ValueOrigin, name: &str) {
        let sections = SECTIONS.iter().map(|section| section.name.to_owned());
        // A key that was written above every table belongs to some table.
        let message = match keys::all().find(|key| key.name == name) {
            Some(key) => format!(
                "unknown table {name:?}; did you mean the key {}?",
                key.path()
            ),
            None => format!(
                "unknown table [{name}]{}",
                meant(
                    nearest(name, sections).map(|name| format!("[{name}]")),
                    "`dewar config explain`"
                )
            ),
        };
        self.note(origin, message);
    }

    fn unknown_key(&mut self, origin: ValueOrigin, section: &Section, name: &str) {
        // The same name in another table is nearer than a similar one in this.
        let elsewhere = keys::all().find(|key| key.name == name).map(Key::path);
        let here = || section.keys.iter().map(Key::path);
        let path = format!("{}.{name}", section.name);
        let near = elsewhere.or_else(|| nearest(&path, here()));
        let all = format!("`dewar config explain {}`", section.name);
        self.note(origin, format!("unknown key {path}{}", meant(near, &all)));
    }

    /// Variables `DEWAR_<TABLE>_<KEY>`; they win over the file.
    fn add_variables(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        let mut found: Vec<(String, OsString)> = variables
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with(PREFIX))
            .filter(|(name, _)| !FOREIGN.iter().any(|foreign| is_foreign(name, foreign)))
            .collect();
        found.sort();
        // Where the process was started.
        let base = folder_of(Path::new("file"));
        for (name, value) in found {
            let origin = ValueOrigin::Variable(name.clone());
            let Some(key) = keys::all().find(|key| key.variable() == name) else {
                let near = nearest(&name, keys::all().map(Key::variable));
                let meant = meant(near, "`dewar config explain`");
                self.note(origin, format!("no such key{meant}"));
                continue;
            };
            let Ok(text) = value.into_string() else {
                self.note(origin, format!("{}: not UTF-8", key.path()));
                continue;
            };
            let given = ConfigEntry {
                raw: Raw::Untyped(text),
                origin,
                base: base.clone(),
            };
            self.given.insert(key.path(), given);
        }
    }

    fn into_config(mut self) -> Result<Config, ConfigError> {
        let config = Config::from_values(&mut self);
        if self.problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Problems(self.problems))
        }
    }
}

/// The end of a message about an unknown name: a similar name, or the command that lists all.
fn meant(near: Option<String>, all: &str) -> String {
    match near {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; {all} tells all"),
    }
}

fn is_foreign(name: &str, foreign: &str) -> bool {
    if foreign.ends_with('_') {
        name.starts_with(foreign)
    } else {
        name == foreign
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(value) => Raw::Boolean(*value),
        DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
            Ok(value) => Raw::Integer(value),
            Err(_) => Raw::Other("an integer beyond 64 bits"),
        },
        DeValue::Array(items) => Raw::List(items.iter().map(raw).collect()),
        DeValue::Float(_) => Raw::Other("a float"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

impl Default for Config {
    /// Every key at its default.
    fn default() -> Self {
        Config::from_values(&mut Values::default())
    }
}

impl Config {
    /// Reads `file`, if one is given, and then the `DEWAR_<TABLE>_<KEY>` among `variables`, which
    /// take precedence. Relative paths in the file start at its folder, those in variables at the
    /// working directory. The resulting paths are absolute.
    ///
    /// # Errors
    /// The file cannot be read, or it and the variables have mistakes: all of them.
    pub fn load(
        file: Option<&Path>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        match Self::load_with_problems(file, variables)? {
            (config, problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(ConfigError::Problems(problems)),
        }
    }

    /// As [`Config::load`], but also returns a configuration in which wrong values are replaced by
    /// defaults, so that the rest can be checked too.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load_with_problems(
        file: Option<&Path>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(Self, Vec<Problem>), ConfigError> {
        let mut values = Values::default();
        if let Some(path) = file {
            let text = read_file(path)?;
            values.add_text(&text, path, &folder_of(path));
        }
        values.add_variables(variables);
        let config = Self::from_values(&mut values);
        Ok((config, values.problems))
    }

    /// Parses the text of a file that is called `name` in messages, without variables.
    ///
    /// # Errors
    /// All mistakes in it.
    pub fn parse(text: &str, name: &Path) -> Result<Self, ConfigError> {
        let mut values = Values::default();
        values.add_text(text, name, &folder_of(name));
        values.into_config()
    }
}

/// The absolute folder of a file. Paths below it are remembered, printed for others to type, and
/// compared.
fn folder_of(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read {
        path: path.to_path_buf(),
        source,
    };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_path_buf(),
        });
    }
    std::fs::read_to_string(path).map_err(failed)
}
