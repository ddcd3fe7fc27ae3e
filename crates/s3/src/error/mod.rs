//! Errors as S3 answers.

mod code;
mod kind;
mod request;
mod xml;

use std::borrow::Cow;
use std::fmt;

use http::{HeaderName, HeaderValue};

pub use code::Code;
pub(crate) use kind::credential_error;
pub(crate) use xml::{push_element, push_name};

/// A refusal: S3's code, a message for people, and the further elements that S3 adds to some codes.
#[derive(Debug)]
pub struct Refusal(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    message: Cow<'static, str>,
    elements: Vec<(&'static str, String)>,
    headers: Vec<(HeaderName, HeaderValue)>,
    source: Option<dewar_types::Error>,
}

/// A result with [`Refusal`].
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

impl Refusal {
    /// A refusal with a code and words.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            elements: Vec::new(),
            headers: Vec::new(),
            source: None,
        }))
    }

    /// Adds an element beside Code and Message, such as `Region`.
    #[must_use]
    pub fn element(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.0.elements.push((name, value.into()));
        self
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The value of a further element.
    #[must_use]
    pub fn find(&self, element: &str) -> Option<&str> {
        let found = self.0.elements.iter().find(|(name, _)| *name == element);
        found.map(|(_, value)| value.as_str())
    }

    /// The store's error behind it, to be logged when it is a defect.
    #[must_use]
    pub fn cause(&self) -> Option<&dewar_types::Error> {
        self.0.source.as_ref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.message)
    }
}

impl std::error::Error for Refusal {}
