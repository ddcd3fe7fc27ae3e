//! The policy document of a browser upload: its expiration, and the allowed values of the form's
//! fields.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dewar_types::Timestamp;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::read::FormFields;
use crate::error::{Code, Refusal, Result};
use crate::limits::POLICY_CONDITIONS_MAX;

/// How many bytes the file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthRange {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    StartsWith,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    operator: Operator,
    /// The field's name, lower case.
    field: String,
    value: String,
}

/// A policy document, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    expires_secs: u64,
    conditions: Vec<Condition>,
    length: Option<LengthRange>,
}

fn invalid(what: &'static str) -> Refusal {
    Refusal::new(
        Code::InvalidPolicyDocument,
        format!("Invalid Policy: {what}"),
    )
}

fn denied(what: String) -> Refusal {
    Refusal::new(
        Code::AccessDenied,
        format!("Invalid according to Policy: {what}"),
    )
}

impl Policy {
    /// Parses the field `policy`, which is base64 of JSON.
    ///
    /// # Errors
    /// `InvalidPolicyDocument`.
    pub fn parse(field: &str) -> Result<Self> {
        let packed: String = field.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let json = STANDARD
            .decode(packed)
            .map_err(|_| invalid("it is not base64."))?;
        let document: Value =
            serde_json::from_slice(&json).map_err(|_| invalid("it is not JSON."))?;
        let expiration = document.get("expiration").and_then(Value::as_str);
        let expires = expiration
            // The parser takes a blank for the T, which ISO 8601 does not.
            .filter(|text| text.contains('T'))
            .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok())
            .ok_or_else(|| invalid("its expiration is missing or not a date."))?;
        let mut policy = Self {
            expires_secs: u64::try_from(expires.unix_timestamp()).unwrap_or(0),
            conditions: Vec::new(),
            length: None,
        };
        let list = document.get("conditions").and_then(Value::as_array);
        let list = list.ok_or_else(|| invalid("it has no list of conditions."))?;
        if list.len() > POLICY_CONDITIONS_MAX {
            return Err(invalid("it has too many conditions."));
        }
        for condition in list {
            policy.add(condition)?;
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Value) -> Result<()> {
        let wrong = || invalid("a condition is of no known form.");
        match condition {
            Value::Object(pairs) if !pairs.is_empty() => {
                for (field, value) in pairs {
                    let value = value.as_str().ok_or_else(wrong)?;
                    self.push(Operator::Equals, field, value);
                }
                Ok(())
            }
            Value::Array(items) => {
                let [operator, field, value] = items.as_slice() else {
                    return Err(wrong());
                };
                let operator = operator.as_str().ok_or_else(wrong)?;
                if operator.eq_ignore_ascii_case("content-length-range") {
                    return self.limit(field, value);
                }
                let operator = match operator {
                    text if text.eq_ignore_ascii_case("eq") => Operator::Equals,
                    text if text.eq_ignore_ascii_case("starts-with") => Operator::StartsWith,
                    _ => return Err(wrong()),
                };
                let field = field.as_str().and_then(|text| text.strip_prefix('$'));
                let value = value.as_str().ok_or_else(wrong)?;
                self.push(operator, field.ok_or_else(wrong)?, value);
                Ok(())
            }
            _ => Err(wrong()),
        }
    }

    fn limit(&mut self, min: &Value, max: &Value) -> Result<()> {
        let number = |value: &Value| match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let range = number(min).zip(number(max)).filter(|(min, max)| min <= max);
        let (min, max) = range.ok_or_else(|| invalid("its content-length-range is no range."))?;
        // Several ranges must all hold.
        let there = self.length.unwrap_or(LengthRange {
            min: 0,
            max: u64::MAX,
        });
        self.length = Some(LengthRange {
            min: there.min.max(min),
            max: there.max.min(max),
        });
        Ok(())
    }

    fn push(&mut self, operator: Operator, field: &str, value: &str) {
        self.conditions.push(Condition {
            operator,
            field: field.to_ascii_lowercase(),
            value: value.to_owned(),
        });
    }

    /// How many bytes the file may have.
    #[must_use]
    pub fn length(&self) -> Option<LengthRange> {
        self.length
    }

    /// Checks the expiration and every condition, and that every field and the bucket are covered
    /// by a condition.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn check(&self, form: &FormFields, bucket: &str, now: Timestamp) -> Result<()> {
        if now.secs() >= self.expires_secs {
            return Err(denied("Policy expired.".into()));
        }
        for condition in &self.conditions {
            let value = match condition.field.as_str() {
                "bucket" => bucket,
                name => form.get(name).unwrap_or_default(),
            };
            if !condition.holds(value) {
                return Err(denied(format!("Policy Condition failed: {condition:?}")));
            }
        }
        let covered = |name: &str| self.conditions.iter().any(|c| c.field == name);
        let free = |name: &str| {
            matches!(
                name,
                "policy" | "x-amz-signature" | "file" | "awsaccesskeyid" | "signature"
            ) || name.starts_with("x-ignore-")
                // A checksum can only make an upload fail.
                || name.starts_with("x-amz-checksum-")
        };
        // The bucket stands in the address and not in the form, and is a field all the same: a form is
        // for the bucket that its signer named.
        let mut names = form.iter().map(|(name, _)| name).chain(["bucket"]);
        match names.find(|name| !free(name) && !covered(name)) {
            Some(name) => Err(denied(format!("Extra input fields: {name}"))),
            None => Ok(()),
        }
    }

    /// Whether the document itself fixes a field to this value.
    pub(crate) fn fixes(&self, field: &str, value: &str) -> bool {
        let fixed =
            |c: &Condition| c.operator == Operator::Equals && c.field == field && c.value == value;
        self.conditions.iter().any(fixed)
    }
}

impl Condition {
    fn holds(&self, value: &str) -> bool {
        match self.operator {
            Operator::Equals => self.value == value,
            Operator::StartsWith if self.field == "content-type" => {
                // A list of types must begin so in each of its members.
                let mut types = value.split(',');
                types.all(|one| one.trim_start().starts_with(&self.value))
            }
            Operator::StartsWith => value.starts_with(&self.value),
        }
    }
}
