//! Comparing a value with what a condition wants.

use std::net::IpAddr;

use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime, PrimitiveDateTime};

use super::super::pattern::{ALLOCATION_BYTES, Pattern, PatternSyntax, Variables};
use super::super::truth::Truth;
use super::Key;
use crate::network::Network;

/// The test of an operator, without *not*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equals,
    EqualsFolded,
    Like,
    Numeric(Comparison),
    Date(Comparison),
    Bool,
    Binary,
    Ip,
    Arn,
    Null,
}

/// The direction in which a number or a date must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
}

/// A value that a condition wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionValue {
    Text(Pattern),
    Bool(bool),
    /// Bits of the finite `f64`.
    Number(Number),
    /// Nanoseconds since the epoch.
    Instant(i128),
    Network(Network),
    /// The parts of an ARN between its colons.
    Arn(Box<[Pattern; 6]>),
}

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(f64);

impl Eq for Number {}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
        let number: f64 = text.parse().ok().filter(|_| plain)?;
        number.is_finite().then_some(Self(number))
    }
}

impl ConditionValue {
    /// Heap memory in bytes, without the object itself.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Text(pattern) => pattern.memory_bytes(),
            Self::Arn(parts) => {
                let parts_own = size_of_val(&**parts) + ALLOCATION_BYTES;
                parts_own + parts.iter().map(Pattern::memory_bytes).sum::<usize>()
            }
            Self::Bool(_) | Self::Number(_) | Self::Instant(_) | Self::Network(_) => 0,
        }
    }

    /// Whether it leaves over few enough to count as a restriction.
    pub(super) fn is_narrow(&self) -> bool {
        match self {
            Self::Network(network) => network.is_narrow(),
            Self::Text(pattern) => pattern.as_exact().is_some(),
            Self::Arn(parts) => parts.iter().all(|part| part.as_exact().is_some()),
            _ => false,
        }
    }

    /// The keys of the variables in it.
    pub(super) fn variables(&self) -> impl Iterator<Item = &Key> {
        let patterns = match self {
            Self::Text(pattern) => std::slice::from_ref(pattern),
            Self::Arn(parts) => &parts[..],
            _ => &[],
        };
        patterns.iter().flat_map(Pattern::variables)
    }
}

impl Operator {
    /// The test of an operator's name without quantifier and `IfExists`, and whether it says *not*.
    pub(super) fn parse(name: &str) -> Option<(Self, bool)> {
        use Comparison::{Equals, Greater, GreaterEquals, Less, LessEquals};
        Some(match name {
            "StringEquals" => (Self::Equals, false),
            "StringNotEquals" => (Self::Equals, true),
            "StringEqualsIgnoreCase" => (Self::EqualsFolded, false),
            "StringNotEqualsIgnoreCase" => (Self::EqualsFolded, true),
            "StringLike" => (Self::Like, false),
            "StringNotLike" => (Self::Like, true),
            "NumericEquals" => (Self::Numeric(Equals), false),
            "NumericNotEquals" => (Self::Numeric(Equals), true),
            "NumericLessThan" => (Self::Numeric(Less), false),
            "NumericLessThanEquals" => (Self::Numeric(LessEquals), false),
            "NumericGreaterThan" => (Self::Numeric(Greater), false),
            "NumericGreaterThanEquals" => (Self::Numeric(GreaterEquals), false),
            "DateEquals" => (Self::Date(Equals), false),
            "DateNotEquals" => (Self::Date(Equals), true),
            "DateLessThan" => (Self::Date(Less), false),
            "DateLessThanEquals" => (Self::Date(LessEquals), false),
            "DateGreaterThan" => (Self::Date(Greater), false),
            "DateGreaterThanEquals" => (Self::Date(GreaterEquals), false),
            "Bool" => (Self::Bool, false),
            "BinaryEquals" => (Self::Binary, false),
            "IpAddress" => (Self::Ip, false),
            "NotIpAddress" => (Self::Ip, true),
            "ArnEquals" | "ArnLike" => (Self::Arn, false),
            "ArnNotEquals" | "ArnNotLike" => (Self::Arn, true),
            "Null" => (Self::Null, false),
            _ => return None,
        })
    }

    /// A value of the policy as this test compares with it.
    pub(super) fn parse_value(self, text: &str, reading: PatternSyntax) -> Option<ConditionValue> {
        Some(match self {
            Self::Equals | Self::EqualsFolded | Self::Like => {
                ConditionValue::Text(Pattern::new(text, reading).ok()?)
            }
            Self::Binary => ConditionValue::Text(Pattern::exact(text)),
            Self::Numeric(_) => ConditionValue::Number(Number::parse(text)?),
            Self::Date(_) => ConditionValue::Instant(instant(text)?),
            Self::Bool | Self::Null => ConditionValue::Bool(boolean(text)?),
            Self::Ip => ConditionValue::Network(Network::parse(text)?),
            Self::Arn => {
                let parts = arn_parts(text)?;
                let patterns: Vec<Pattern> = parts
                    .iter()
                    .map(|part| Pattern::new(part, reading).ok())
                    .collect::<Option<_>>()?;
                ConditionValue::Arn(Box::new(patterns.try_into().ok()?))
            }
        })
    }

    /// Whether a value of the request passes the test. A value that cannot be parsed for the test
    /// fails it.
    pub(super) fn holds(
        self,
        value: &str,
        wanted: &ConditionValue,
        variables: Variables<'_>,
    ) -> Truth {
        let holds = match (self, wanted) {
            (_, ConditionValue::Text(pattern)) => return pattern.matches(value, variables),
            (_, ConditionValue::Arn(patterns)) => {
                let parts: Vec<&str> = value.splitn(6, ':').collect();
                if parts.len() != patterns.len() {
                    return Truth::No;
                }
                let pairs = patterns.iter().zip(parts);
                return Truth::all(pairs.map(|(pattern, part)| pattern.matches(part, variables)));
            }
            (_, ConditionValue::Bool(wanted)) => boolean(value) == Some(*wanted),
            (Self::Numeric(order), ConditionValue::Number(wanted)) => {
                Number::parse(value).is_some_and(|value| order.holds(&value.0, &wanted.0))
            }
            (Self::Date(order), ConditionValue::Instant(wanted)) => {
                instant(value).is_some_and(|value| order.holds(&value, wanted))
            }
            (_, ConditionValue::Network(network)) => value
                .parse::<IpAddr>()
                .is_ok_and(|value| network.contains(value)),
            _ => false,
        };
        holds.into()
    }
}

impl Comparison {
    fn holds<T: PartialOrd>(self, value: &T, wanted: &T) -> bool {
        match self {
            Self::Equals => value == wanted,
            Self::Less => value < wanted,
            Self::LessEquals => value <= wanted,
            Self::Greater => value > wanted,
            Self::GreaterEquals => value >= wanted,
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// A date of ISO 8601, or seconds since the epoch, as nanoseconds since it.
pub(crate) fn instant(text: &str) -> Option<i128> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Some(i128::from(seconds) * 1_000_000_000);
    }
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(text, &Iso8601::DEFAULT))
        .or_else(|_| {
            PrimitiveDateTime::parse(text, &Iso8601::DEFAULT).map(PrimitiveDateTime::assume_utc)
        })
        .or_else(|_| Date::parse(text, &Iso8601::DEFAULT).map(|date| date.midnight().assume_utc()))
        .ok()?;
    Some(at.unix_timestamp_nanos())
}

/// The six parts of an ARN, cut at colons that are not inside a variable.
pub(crate) fn arn_parts(text: &str) -> Option<Vec<&str>> {
    if text == "*" {
        return Some(vec!["*"; 6]);
    }
    let mut parts = Vec::with_capacity(6);
    let (mut start, mut inside) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '$' if text[at..].starts_with("${") => inside = true,
            '}' => inside = false,
            ':' if !inside && parts.len() < 5 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (parts.len() == 6).then_some(parts)
}
