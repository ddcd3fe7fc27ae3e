//! Values of configuration keys: parsing from TOML or from an environment variable, error messages,
//! and formatting.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dewar_audit::Unwritable;
use dewar_types::{Layout, PAGE_BYTES};

use super::table::{Key, Range};

/// A value before it is parsed for its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// Text without a type: a default of the table or an environment variable.
    Untyped(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML array.
    List(Vec<Raw>),
    /// Anything else TOML knows, by its name there.
    Other(&'static str),
}

impl Raw {
    fn found(&self) -> &'static str {
        match self {
            Self::Untyped(_) => "text",
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "a boolean",
            Self::List(_) => "an array",
            Self::Other(name) => name,
        }
    }

    /// The elements of a list; untyped text is cut at its commas, a single string is a list of
    /// one.
    fn elements(&self) -> Option<Vec<String>> {
        match self {
            Self::Untyped(text) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .map(str::to_owned)
                    .collect(),
            ),
            Self::Text(text) => Some(vec![text.clone()]),
            Self::List(items) => items
                .iter()
                .map(|item| match item {
                    Self::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Untyped(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The context in which a value is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The key, for its range and rule.
    pub key: &'a Key,
    /// Relative paths start here: the folder of the configuration file.
    pub base: &'a Path,
}

/// A type that a configuration key can have.
pub trait Field: Sized {
    /// The name of the type in the reference, with an example where its form is not obvious.
    const KIND: &'static str;

    /// Parses a value and checks it against the key's range.
    ///
    /// # Errors
    /// A sentence with the expected and the actual value. The caller adds key and line.
    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String>;

    /// The value in TOML.
    fn render(&self) -> String;
}

fn wrong_type<T: Field>(raw: &Raw) -> String {
    format!("expected {}, found {}", T::KIND, raw.found())
}

fn unreadable<T: Field>(text: &str) -> String {
    format!("expected {}, found {text:?}", T::KIND)
}

fn within<T: PartialOrd>(
    value: T,
    key: &Key,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, String> {
    let (Range::Between(low, high) | Range::Pages(low, high)) = key.range else {
        return Ok(value);
    };
    // The table's own test reads every bound, so a bound that cannot be read is not met here.
    let below = parse(low).is_some_and(|low| value < low);
    let above = parse(high).is_some_and(|high| value > high);
    if below || above {
        return Err(format!("out of range, which is {low} to {high}"));
    }
    Ok(value)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn quoted_list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(&text(item))).collect();
    format!("[{}]", items.join(", "))
}

impl Field for bool {
    const KIND: &'static str = "true or false";

    fn read(raw: &Raw, _: Context<'_>) -> Result<Self, String> {
        match raw {
            Raw::Boolean(value) => Ok(*value),
            Raw::Untyped(text) => match text.trim() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(unreadable::<Self>(text)),
            },
            _ => Err(wrong_type::<Self>(raw)),
        }
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

macro_rules! integer_field {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            const KIND: &'static str = "an integer";

            fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
                let value = match raw {
                    Raw::Integer(value) => *value,
                    Raw::Untyped(text) => {
                        text.trim().parse().map_err(|_| unreadable::<Self>(text))?
                    }
                    _ => return Err(wrong_type::<Self>(raw)),
                };
                let value = within(value, context.key, |text| text.parse().ok())?;
                Self::try_from(value).map_err(|_| format!("{value} is out of range"))
            }

            fn render(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_field!(u16, u32);

impl Field for String {
    const KIND: &'static str = "a string";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let text = raw.text().ok_or_else(|| wrong_type::<Self>(raw))?;
        context.key.range.admits(text)?;
        Ok(text.to_owned())
    }

    fn render(&self) -> String {
        quoted(self)
    }
}

impl Field for Vec<String> {
    const KIND: &'static str = "a list of strings";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let items = raw.elements().ok_or_else(|| wrong_type::<Self>(raw))?;
        for item in &items {
            context.key.range.admits(item)?;
        }
        Ok(items)
    }

    fn render(&self) -> String {
        quoted_list(self, String::clone)
    }
}

fn path(text: &str, base: &Path) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("expected a path, found an empty string".to_owned());
    }
    if text.contains('\0') {
        return Err("a path cannot hold a zero byte".to_owned());
    }
    // Without `.` in the middle: paths stand in messages.
    Ok(base.join(text).components().collect())
}

impl Field for PathBuf {
    const KIND: &'static str = "a path";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let text = raw.text().ok_or_else(|| wrong_type::<Self>(raw))?;
        path(text, context.base)
    }

    fn render(&self) -> String {
        quoted(&self.to_string_lossy())
    }
}

impl Field for Option<PathBuf> {
    const KIND: &'static str = "a path, or \"\" for none";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        match raw.text().ok_or_else(|| wrong_type::<Self>(raw))? {
            "" => Ok(None),
            text => path(text, context.base).map(Some),
        }
    }

    fn render(&self) -> String {
        quoted(&self.as_deref().unwrap_or(Path::new("")).to_string_lossy())
    }
}

impl Field for Vec<PathBuf> {
    const KIND: &'static str = "a list of paths";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        raw.elements()
            .ok_or_else(|| wrong_type::<Self>(raw))?
            .iter()
            .map(|text| path(text, context.base))
            .collect()
    }

    fn render(&self) -> String {
        quoted_list(self, |path| path.to_string_lossy().into_owned())
    }
}

impl Field for Vec<SocketAddr> {
    const KIND: &'static str = "addresses with ports, like \"127.0.0.1:9000\" or \"[::]:9000\"";

    fn read(raw: &Raw, _: Context<'_>) -> Result<Self, String> {
        raw.elements()
            .ok_or_else(|| wrong_type::<Self>(raw))?
            .iter()
            .map(|text| text.parse().map_err(|_| unreadable::<Self>(text)))
            .collect()
    }

    fn render(&self) -> String {
        quoted_list(self, SocketAddr::to_string)
    }
}

/// A number of bytes, written like `64KiB`, `10MB` or `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

impl ByteSize {
    /// Reads a size: digits and a unit (`B`, `KB`, `KiB` … `TiB`, in any case); none means bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = unit.trim_start();
        let factor = if unit.is_empty() {
            1
        } else {
            SIZE_UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
                .1
        };
        number.parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, factor) = SIZE_UNITS
            .iter()
            .find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor))
            .unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / factor)
    }
}

impl Field for ByteSize {
    const KIND: &'static str = "a size in bytes, like \"64KiB\", \"10MB\" or 4096";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let value = match raw {
            Raw::Integer(bytes) => u64::try_from(*bytes)
                .map(Self)
                .map_err(|_| unreadable::<Self>(&bytes.to_string()))?,
            Raw::Untyped(text) | Raw::Text(text) => {
                Self::parse(text).ok_or_else(|| unreadable::<Self>(text))?
            }
            _ => return Err(wrong_type::<Self>(raw)),
        };
        let value = within(value, context.key, Self::parse)?;
        if context.key.range_is_pages() && !value.0.is_multiple_of(PAGE_BYTES as u64) {
            return Err(format!("{value} is not a multiple of {PAGE_BYTES} bytes"));
        }
        Ok(value)
    }

    fn render(&self) -> String {
        quoted(&self.to_string())
    }
}

const TIME_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a duration: numbers with units (`ms`, `s`, `m`, `h`, `d`), added up: `1h30m`.
#[must_use]
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let factor = TIME_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        millis = millis.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = tail.trim_start();
    }
    Some(Duration::from_millis(millis))
}

/// Writes a duration in the largest unit that needs no fraction, as [`parse_duration`] reads it.
#[must_use]
pub(super) fn render_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (name, factor) = TIME_UNITS
        .iter()
        .find(|(_, factor)| millis != 0 && millis.is_multiple_of(*factor))
        .unwrap_or(&("s", 1_000));
    format!("{}{name}", millis / factor)
}

impl Field for Duration {
    const KIND: &'static str = "a duration, like \"30s\", \"500ms\" or \"1h30m\"";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let text = raw.text().ok_or_else(|| wrong_type::<Self>(raw))?;
        let value = parse_duration(text).ok_or_else(|| unreadable::<Self>(text))?;
        within(value, context.key, parse_duration)
    }

    fn render(&self) -> String {
        quoted(&render_duration(*self))
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One readable line per event.
    Human,
    /// One JSON object per event.
    Json,
}

impl Field for LogFormat {
    const KIND: &'static str = "a string";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        match String::read(raw, context)?.as_str() {
            "json" => Ok(Self::Json),
            _ => Ok(Self::Human),
        }
    }

    fn render(&self) -> String {
        quoted(match self {
            Self::Human => "human",
            Self::Json => "json",
        })
    }
}

/// The action to take when nothing can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwritableAudit(pub Unwritable);

impl Field for UnwritableAudit {
    const KIND: &'static str = "a string";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        match String::read(raw, context)?.as_str() {
            "refuse" => Ok(Self(Unwritable::Refuse)),
            _ => Ok(Self(Unwritable::Alarm)),
        }
    }

    fn render(&self) -> String {
        quoted(match self.0 {
            Unwritable::Alarm => "alarm",
            Unwritable::Refuse => "refuse",
        })
    }
}

/// The log level: events of this importance or more are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(pub tracing::Level);

impl Field for LogLevel {
    const KIND: &'static str = "a string";

    fn read(raw: &Raw, context: Context<'_>) -> Result<Self, String> {
        let text = String::read(raw, context)?;
        text.parse()
            .map(Self)
            .map_err(|_| unreadable::<Self>(&text))
    }

    fn render(&self) -> String {
        quoted(&self.0.as_str().to_ascii_lowercase())
    }
}

/// The erasure layout of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// Chosen from the number of disks ([`Layout::default_for`]).
    Auto,
    /// This layout. The stripe unit is a separate key.
    Fixed(Layout),
}

impl Field for LayoutChoice {
    const KIND: &'static str = "\"auto\" or k+m, like \"4+2\"";

    fn read(raw: &Raw, _: Context<'_>) -> Result<Self, String> {
        match raw.text().ok_or_else(|| wrong_type::<Self>(raw))? {
            "auto" => Ok(Self::Auto),
            text => text
                .parse()
                .map(Self::Fixed)
                .map_err(|error: dewar_types::LayoutError| error.to_string()),
        }
    }

    fn render(&self) -> String {
        match self {
            Self::Auto => quoted("auto"),
            Self::Fixed(layout) => quoted(&layout.to_string()),
        }
    }
}
