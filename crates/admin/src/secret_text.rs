//! A secret as JSON text, where one must be transmitted: to the server with `key add
//! --secret-key-file`, back once when a key was made, and into a demo's own file.

use dewar_auth::Secret;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes the secret as text.
///
/// # Errors
/// As `to`.
pub fn serialize<S: Serializer>(secret: &Secret, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(secret.reveal())
}

/// Reads a secret.
///
/// # Errors
/// As `from`.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    String::deserialize(from).map(Secret::new)
}

/// The same for a secret that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Secret, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        secret: &Option<Secret>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match secret {
            Some(secret) => to.serialize_some(secret.reveal()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Secret>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(Secret::new))
    }
}
