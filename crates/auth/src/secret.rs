//! Text that must not leak.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A secret in clear: wiped on drop, never printed, compared in constant time.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text; hand it to nothing that logs.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No test can measure it reliably, so this test reads the code. A change that uses `==` must
    /// also remove the file from this list.
    #[test]
    fn secrets_are_compared_in_constant_time() {
        for (file, code) in [
            ("secret.rs", include_str!("secret.rs")),
            ("macaroon/mod.rs", include_str!("macaroon/mod.rs")),
            ("master_key.rs", include_str!("master_key.rs")),
        ] {
            let code = code.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(code.contains(".ct_eq("), "{file}");
            assert!(!code.contains("signature =="), "{file}");
        }
        assert_eq!(Secret::new("a".into()), Secret::new("a".into()));
        assert_ne!(Secret::new("a".into()), Secret::new("ab".into()));
    }
}
