//! Signing keys: derived from a secret for one day, region and service, and cached.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use crate::limits::SIGNING_KEYS_MAX;
use crate::{CredentialScope, Signature};

/// A key that signs for one day, region and service.
#[derive(Clone)]
pub struct SigningKey(Arc<hmac::Key>);

impl SigningKey {
    /// Derives the key of a scope with four HMACs.
    #[must_use]
    pub fn derive(secret: &str, scope: &CredentialScope) -> Self {
        let seed = Zeroizing::new([b"AWS4", secret.as_bytes()].concat());
        let mut key = hmac::Key::new(HMAC_SHA256, &seed);
        for part in [&scope.day, &scope.region, &scope.service, "aws4_request"] {
            let tag = hmac::sign(&key, part.as_bytes());
            key = hmac::Key::new(HMAC_SHA256, tag.as_ref());
        }
        Self(Arc::new(key))
    }

    /// Signs a string.
    #[must_use]
    pub fn sign(&self, string: &str) -> Signature {
        let tag = hmac::sign(&self.0, string.as_bytes());
        let mut out = [0; 32];
        out.copy_from_slice(tag.as_ref());
        Signature(out)
    }
}

struct CachedSigningKey {
    revision: u64,
    key: SigningKey,
}

/// Derived keys by access key, day, region and service. An entry is valid only for the revision of
/// the access key from which it was derived, so a changed or disabled secret stops working. At most
/// [`SIGNING_KEYS_MAX`] are kept.
#[derive(Default)]
pub struct SigningKeys {
    keys: RwLock<HashMap<CredentialScope, CachedSigningKey>>,
}

impl SigningKeys {
    /// The signing key of a scope, whose access key has this secret at this revision.
    #[must_use]
    pub fn get(&self, scope: &CredentialScope, secret: &str, revision: u64) -> SigningKey {
        if let Some(cached) = self.keys.read().get(scope)
            && cached.revision == revision
        {
            return cached.key.clone();
        }
        let key = SigningKey::derive(secret, scope);
        let cached = CachedSigningKey {
            revision,
            key: key.clone(),
        };
        let mut keys = self.keys.write();
        if keys.len() >= SIGNING_KEYS_MAX && !keys.contains_key(scope) {
            // Which half goes does not matter: each costs four HMACs to make again.
            let mut keep = false;
            keys.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        keys.insert(scope.clone(), cached);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(region: String) -> CredentialScope {
        CredentialScope {
            access_key: "AK".into(),
            day: "20130524".into(),
            region,
            service: "s3".into(),
        }
    }

    #[test]
    fn the_cache_of_keys_is_bounded() {
        let keys = SigningKeys::default();
        for n in 0..SIGNING_KEYS_MAX * 2 {
            let _key = keys.get(&scope(format!("r{n}")), "secret", 1);
        }
        assert!(keys.keys.read().len() <= SIGNING_KEYS_MAX);
    }

    #[test]
    fn a_key_is_derived_once_for_each_revision() {
        let keys = SigningKeys::default();
        let scope = scope("us-east-1".into());
        let first = keys.get(&scope, "secret", 1).sign("text");
        assert_eq!(keys.get(&scope, "not read", 1).sign("text"), first);
        assert_ne!(keys.get(&scope, "another", 2).sign("text"), first);
        assert_eq!(keys.keys.read().len(), 1);
    }
}
