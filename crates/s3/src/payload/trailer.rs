//! Trailers after an aws-chunked body.

use crate::error::{Code, Refusal, Result};
use crate::limits::TRAILERS_MAX;

/// The trailers of a body, names in lower case, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    lines: Vec<(String, String)>,
}

pub(super) fn malformed(message: &'static str) -> Refusal {
    Refusal::new(Code::MalformedTrailerError, message)
}

impl Trailers {
    /// The value of a trailer, by its lower-case name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.lines.iter().find(|(there, _)| there == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// Adds a line `name:value`, without its line end.
    pub(super) fn push_line(&mut self, line: &[u8]) -> Result<()> {
        if self.lines.len() == TRAILERS_MAX {
            return Err(malformed("There are too many trailers."));
        }
        let text = std::str::from_utf8(line).map_err(|_| malformed("A trailer is not text."))?;
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| malformed("A trailer has no colon."))?;
        let name = name.trim().to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(malformed("A trailer has no proper name."));
        }
        if self.get(&name).is_some() {
            return Err(malformed("A trailer is given twice."));
        }
        self.lines.push((name, value.trim().to_owned()));
        Ok(())
    }

    /// The signed text of the trailers: `name:value\n` each.
    pub(super) fn canonical(&self) -> String {
        let mut out = String::new();
        for (name, value) in self.iter() {
            out.push_str(name);
            out.push(':');
            out.push_str(value);
            out.push('\n');
        }
        out
    }
}
