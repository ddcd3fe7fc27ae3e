//! A signature and its text.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::encode::{parse_hex_32, push_hex};

/// A signature, written as 64 lower-case hexadecimal digits. Two signatures are compared in
/// constant time.
#[derive(Clone, Copy)]
pub struct Signature(pub(crate) [u8; 32]);

impl Signature {
    /// Parses the 64 digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex_32(text).map(Self)
    }

    pub(crate) fn push_to(self, out: &mut String) {
        push_hex(out, &self.0);
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Signature {}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::hex(&self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test can measure it reliably, so this test reads the code.
    #[test]
    fn signatures_are_compared_in_constant_time() {
        let code = include_str!("signature.rs");
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(code.contains(".ct_eq(") && !code.contains("derive(Clone, Copy, PartialEq"));
        let text = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let signature = Signature::parse(text).expect("64 digits");
        assert_eq!(signature.to_string(), text);
        assert_ne!(Some(signature), Signature::parse(crate::EMPTY_SHA256));
        assert_eq!(Signature::parse(&text.to_uppercase()), None);
    }
}
