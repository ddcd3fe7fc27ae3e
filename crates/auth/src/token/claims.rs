//! The claims of a token whose issuer is verified.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::TokenError;

/// The claims of a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Parses a payload.
    ///
    /// # Errors
    /// [`TokenError::Malformed`] when it is no JSON object.
    pub fn parse(payload: &[u8]) -> Result<Self, TokenError> {
        match serde_json::from_slice(payload) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            _ => Err(TokenError::Malformed("its payload is no JSON object")),
        }
    }

    /// A claim by its name. If the token has no such claim, dots in the name lead into objects, as
    /// in `realm_access.roles`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        if let Some(value) = self.0.get(name) {
            return Some(value);
        }
        let mut parts = name.split('.');
        let mut value = self.0.get(parts.next()?)?;
        for part in parts {
            value = value.as_object()?.get(part)?;
        }
        Some(value)
    }

    /// A claim that is one text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A claim in seconds since 1970; fractions are dropped.
    #[must_use]
    pub fn seconds(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "saturates, which is what is meant"
        )]
        value
            .as_i64()
            .or_else(|| value.as_f64().map(|secs| secs as i64))
    }

    /// The values of a claim. A text, a number or a truth value is one value, an array has several.
    /// Texts with spaces are one value. The number is not limited: a token is at most
    /// [`super::TOKEN_BYTES_MAX`] long.
    #[must_use]
    pub fn values(&self, name: &str) -> Vec<Cow<'_, str>> {
        fn plain(value: &Value) -> Option<Cow<'_, str>> {
            match value {
                Value::String(text) => Some(Cow::Borrowed(text)),
                Value::Number(number) => Some(Cow::Owned(number.to_string())),
                Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            }
        }
        match self.get(name) {
            Some(Value::Array(values)) => values.iter().filter_map(plain).collect(),
            Some(value) => plain(value).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// The names of all claims.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
