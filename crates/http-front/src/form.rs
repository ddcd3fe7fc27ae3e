//! Forms of `application/x-www-form-urlencoded`.

use std::collections::BTreeMap;

use dewar_sigv4::decode_percent;

/// The fields of a form, each with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlEncodedForm(BTreeMap<String, String>);

impl UrlEncodedForm {
    /// Parses a form. `None` for broken escapes, text that is not UTF-8, and duplicate fields.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            String::from_utf8(decode_percent(&text)?.into_owned()).ok()
        };
        let mut fields = BTreeMap::new();
        let text = std::str::from_utf8(bytes).ok()?;
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if fields.insert(decoded(name)?, decoded(value)?).is_some() {
                return None;
            }
        }
        Some(Self(fields))
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether the form has this field, or members of a list or structure of this name (`NAME.…`).
    #[must_use]
    pub fn has_field(&self, name: &str) -> bool {
        self.0.keys().any(|field| {
            let rest = field.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}
