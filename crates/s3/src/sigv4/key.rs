//! Signing keys: derived from a secret for one day, region and service, and cached.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use dewar_auth::{AccessKey, Secret};
use parking_lot::RwLock;
use zeroize::Zeroizing;

use super::scope::CredentialScope;
use crate::limits::SIGNING_KEYS_MAX;

/// A key that signs for one day, region and service.
#[derive(Clone)]
pub struct SigningKey(Arc<hmac::Key>);

impl SigningKey {
    /// Derives it with four HMACs.
    #[must_use]
    pub fn derive(secret: &Secret, day: &str, region: &str, service: &str) -> Self {
        let seed = Zeroizing::new([b"AWS4", secret.reveal().as_bytes()].concat());
        let mut key = hmac::Key::new(HMAC_SHA256, &seed);
        for part in [day, region, service, "aws4_request"] {
            let tag = hmac::sign(&key, part.as_bytes());
            key = hmac::Key::new(HMAC_SHA256, tag.as_ref());
        }
        Self(Arc::new(key))
    }

    /// Signs a string.
    #[must_use]
    pub fn sign(&self, string: &str) -> [u8; 32] {
        let tag = hmac::sign(&self.0, string.as_bytes());
        let mut out = [0; 32];
        out.copy_from_slice(tag.as_ref());
        out
    }
}

#[derive(PartialEq, Eq, Hash)]
struct CacheKey {
    access_key: Arc<str>,
    day: String,
    region: String,
    service: String,
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
    keys: RwLock<HashMap<CacheKey, CachedSigningKey>>,
}

impl SigningKeys {
    /// The signing key of `access_key` for a scope whose access key it is.
    #[must_use]
    pub fn get(&self, access_key: &AccessKey, scope: &CredentialScope) -> SigningKey {
        let cache_key = CacheKey {
            access_key: Arc::clone(&access_key.id),
            day: scope.day.clone(),
            region: scope.region.clone(),
            service: scope.service.clone(),
        };
        if let Some(cached) = self.keys.read().get(&cache_key)
            && cached.revision == access_key.revision
        {
            return cached.key.clone();
        }
        let key = SigningKey::derive(
            &access_key.secret,
            &scope.day,
            &scope.region,
            &scope.service,
        );
        let cached = CachedSigningKey {
            revision: access_key.revision,
            key: key.clone(),
        };
        let mut keys = self.keys.write();
        if keys.len() >= SIGNING_KEYS_MAX && !keys.contains_key(&cache_key) {
            // Which half goes does not matter: each costs four HMACs to make again.
            let mut keep = false;
            keys.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
        keys.insert(cache_key, cached);
        key
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.read().len()
    }
}
