//! Conditions of a statement: operator, key and values (IAM user guide, "Condition operators").

mod key;
pub(crate) mod value;

pub(crate) use key::Key;
pub use key::condition_keys;

use std::borrow::Cow;

use super::PolicyError;
use super::json::Node;
use super::parse::{ParseContext, malformed};
use super::pattern::{ALLOCATION_BYTES, PatternSyntax, Variables};
use super::truth::Truth;
use value::{ConditionValue, Operator};

/// The value of a key in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContextValue<'a> {
    /// Nothing.
    Absent,
    /// One value.
    One(Cow<'a, str>),
    /// Absent, with a defined meaning: a listing without prefix has the prefix of every key.
    /// Comparisons see a value, and only `Null` sees that it is absent.
    Implied(Cow<'a, str>),
    /// Any number of values.
    Many(Vec<Cow<'a, str>>),
    /// A name that does not tell the caller apart: an account elsewhere gave it, and somebody else
    /// may have it here.
    Namesake(Cow<'a, str>),
    /// Unknown: a claim of the login token that the caller's session does not contain.
    OmittedClaim,
}

impl<'a> ContextValue<'a> {
    pub(crate) fn maybe(value: Option<Cow<'a, str>>) -> Self {
        value.map_or(Self::Absent, Self::One)
    }

    fn values(&self) -> &[Cow<'a, str>] {
        match self {
            Self::Absent | Self::OmittedClaim => &[],
            Self::One(value) | Self::Implied(value) | Self::Namesake(value) => {
                std::slice::from_ref(value)
            }
            Self::Many(values) => values,
        }
    }
}

/// Whether all values of a key are meant, or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    /// The key has one value.
    Single,
    /// `ForAnyValue:`
    Any,
    /// `ForAllValues:`
    All,
}

/// One line of a condition block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    key: Key,
    test: Operator,
    /// Whether the operator says *not*.
    negated: bool,
    /// Whether a request that does not say passes.
    if_exists: bool,
    quantifier: Quantifier,
    wanted: Vec<ConditionValue>,
}

impl Condition {
    /// Heap memory in bytes, without the object itself.
    pub(super) fn memory_bytes(&self) -> usize {
        let wanted = self.wanted.iter().map(ConditionValue::memory_bytes);
        let own = self.wanted.capacity() * size_of::<ConditionValue>() + ALLOCATION_BYTES;
        self.key.memory_bytes() + own + wanted.sum::<usize>()
    }

    /// Whether a request with the value `found` meets the condition. For a claim that was not kept
    /// every operator is undecided: it may have been absent or present, with any values. For the name
    /// of a namesake it is undecided where the name and no name at all differ.
    pub(crate) fn holds(&self, found: &ContextValue<'_>, variables: Variables<'_>) -> Truth {
        if *found == ContextValue::OmittedClaim {
            return Truth::Unknown;
        }
        if let ContextValue::Namesake(name) = found {
            let named = self.holds(&ContextValue::One(name.clone()), variables);
            let nameless = self.holds(&ContextValue::Absent, variables);
            return if named == nameless {
                named
            } else {
                Truth::Unknown
            };
        }
        if self.test == Operator::Null {
            let absent = found.values().is_empty() || matches!(found, ContextValue::Implied(_));
            return self.wanted.contains(&ConditionValue::Bool(absent)).into();
        }
        let values = found.values();
        if values.is_empty() {
            let holds = match self.quantifier {
                Quantifier::All => true,
                Quantifier::Any => self.if_exists,
                // What is not there is not equal to anything.
                Quantifier::Single => self.if_exists || self.negated,
            };
            return holds.into();
        }
        let meets = values.iter().map(|value| {
            let wanted = self.wanted.iter();
            let one_of = Truth::any(wanted.map(|wanted| self.test.holds(value, wanted, variables)));
            one_of.negated_if(self.negated)
        });
        match self.quantifier {
            Quantifier::All => Truth::all(meets),
            // Of several values of a key without quantifier, none may break a *not*.
            Quantifier::Single if self.negated => Truth::all(meets),
            Quantifier::Any | Quantifier::Single => Truth::any(meets),
        }
    }

    /// Whether it holds only for tokens with a claim about their user. With `client_trust` a claim
    /// about their client is enough.
    pub(crate) fn tells_users_apart(&self, client_trust: bool) -> bool {
        let positive = !self.negated && !self.if_exists && self.test != Operator::Null;
        let key = &self.key;
        let tells = key.is_personal_claim() || (client_trust && key.is_client_claim());
        positive && self.quantifier != Quantifier::All && tells
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// All keys that the condition uses: its own, and those of the variables in its values.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let variables = self.wanted.iter().flat_map(ConditionValue::variables);
        std::iter::once(&self.key).chain(variables)
    }

    /// Whether it matches so few callers that a statement with it is not public.
    pub(crate) fn narrows(&self) -> bool {
        let positive = !self.negated && !self.if_exists && self.quantifier == Quantifier::Single;
        positive && self.key.narrows() && self.wanted.iter().all(ConditionValue::is_narrow)
    }
}

/// Reads a `Condition` block.
pub(super) fn parse(node: &Node, parsing: &ParseContext) -> Result<Vec<Condition>, PolicyError> {
    let Node::Map(operators) = node else {
        return Err(malformed("Condition must be an object"));
    };
    let mut conditions = Vec::new();
    for (operator, keys) in operators {
        let Node::Map(keys) = keys else {
            return Err(malformed(format!(
                "Condition {operator:?} must be an object"
            )));
        };
        for (name, values) in keys {
            let key = Key::parse(name).ok_or_else(|| {
                malformed(format!("Policy has an invalid condition key: {name:?}"))
            })?;
            conditions.push(one(operator, key, values, parsing)?);
        }
    }
    Ok(conditions)
}

fn one(
    operator: &str,
    key: Key,
    values: &Node,
    parsing: &ParseContext,
) -> Result<Condition, PolicyError> {
    let unknown = || malformed(format!("Invalid Condition type : {operator}"));
    let (quantifier, rest) = match operator.split_once(':') {
        Some(("ForAnyValue", rest)) => (Quantifier::Any, rest),
        Some(("ForAllValues", rest)) => (Quantifier::All, rest),
        Some(_) => return Err(unknown()),
        None => (Quantifier::Single, operator),
    };
    let (name, if_exists) = match rest.strip_suffix("IfExists") {
        Some(name) => (name, true),
        None => (rest, false),
    };
    let (test, negated) = Operator::parse(name).ok_or_else(unknown)?;
    if test == Operator::Null && (if_exists || quantifier != Quantifier::Single) {
        return Err(unknown());
    }
    let reading = PatternSyntax {
        wildcards: matches!(test, Operator::Like | Operator::Arn),
        variables: parsing.variables,
        fold: test == Operator::EqualsFolded,
    };
    let wanted = values
        .one_or_many()
        .ok_or_else(|| malformed(format!("Condition {operator} on {key} has no value")))?
        .iter()
        .map(|node| {
            let text = node.as_scalar().ok_or_else(|| {
                malformed(format!("Condition {operator} on {key} needs plain values"))
            })?;
            test.parse_value(&text, reading).ok_or_else(|| {
                malformed(format!(
                    "Condition {operator} on {key} has an invalid value {text:?}"
                ))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Condition {
        key,
        test,
        negated,
        if_exists,
        quantifier,
        wanted,
    })
}
