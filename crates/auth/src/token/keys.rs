//! An issuer's keys: a published JWK set (RFC 7517).
//!
//! A key is used for one family of algorithms only. Its type and curve decide the family, together
//! with its `alg` if it has one. So no token can choose how a key is used. Unusable keys
//! (encryption keys, other types, RSA below 2048 bits) are left out and are no error, because sets
//! are shared with other services.

use aws_lc_rs::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use super::{Algorithm, TokenError};

/// Longest set in bytes.
pub const KEY_SET_BYTES_MAX: usize = 256 * 1024;

/// Most keys that are taken from a set.
const KEYS_MAX: usize = 64;

/// RSA moduli in bytes: 2048 to 8192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Uncompressed point, and the one algorithm of its curve.
    Ec {
        point: Vec<u8>,
        only: Algorithm,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    only: Option<Algorithm>,
    material: Material,
}

/// The keys of an issuer that can prove a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    /// Parses a published set.
    ///
    /// # Errors
    /// [`TokenError::Keys`] when it is not a key set, or has no key that can verify a token.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokenError> {
        if bytes.len() > KEY_SET_BYTES_MAX {
            return Err(TokenError::Keys("the key set is longer than 256 KiB"));
        }
        let set: Set = serde_json::from_slice(bytes)
            .map_err(|_| TokenError::Keys("the key set is not JSON with an array \"keys\""))?;
        let keys: Vec<Key> = set
            .keys
            .into_iter()
            .filter_map(Key::read)
            .take(KEYS_MAX)
            .collect();
        if keys.is_empty() {
            return Err(TokenError::Keys(
                "the key set has no RSA or EC key for signatures",
            ));
        }
        Ok(Self { keys })
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key of this name exists. For tokens without a name: whether the set has exactly
    /// one key.
    #[must_use]
    pub fn has(&self, id: Option<&str>) -> bool {
        self.find(id).next().is_some()
    }

    fn find(&self, id: Option<&str>) -> impl Iterator<Item = &Key> {
        let alone = self.keys.len() == 1;
        self.keys.iter().filter(move |key| match id {
            Some(id) => key.id.as_deref() == Some(id),
            None => alone,
        })
    }

    /// Whether a key of this name made the signature.
    #[must_use]
    pub fn verifies(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.find(id)
            .any(|key| key.verifies(algorithm, message, signature))
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let signs = jwk
            .purpose
            .as_deref()
            .is_none_or(|purpose| purpose == "sig")
            && jwk
                .key_ops
                .as_ref()
                .is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !signs {
            return None;
        }
        let only = match jwk.alg.as_deref() {
            None => None,
            // One that is made for something else proves nothing here.
            Some(name) => Some(Algorithm::parse(name)?),
        };
        let bytes = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let material = match jwk.kty.as_str() {
            "RSA" => {
                let strip = |mut bytes: Vec<u8>| {
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    bytes.drain(..zeros);
                    bytes
                };
                let (modulus, exponent) = (strip(bytes(jwk.n)?), strip(bytes(jwk.e)?));
                if !MODULUS_BYTES.contains(&modulus.len()) || exponent.len() > 8 {
                    return None;
                }
                Material::Rsa { modulus, exponent }
            }
            "EC" => {
                let (only, size) = match jwk.crv.as_deref()? {
                    "P-256" => (Algorithm::Es256, 32),
                    "P-384" => (Algorithm::Es384, 48),
                    "P-521" => (Algorithm::Es512, 66),
                    _ => return None,
                };
                let (x, y) = (bytes(jwk.x)?, bytes(jwk.y)?);
                if x.len() != size || y.len() != size {
                    return None;
                }
                let point = [&[4][..], &x, &y].concat();
                Material::Ec { point, only }
            }
            _ => return None,
        };
        Some(Self {
            id: jwk.kid,
            only,
            material,
        })
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.only.is_some_and(|only| only != algorithm) {
            return false;
        }
        match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters: &RsaParameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::Es512 => return false,
                };
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, message, signature).is_ok()
            }
            Material::Ec { point, only } => {
                let scheme: &'static dyn VerificationAlgorithm = match (only, algorithm) {
                    (Algorithm::Es256, Algorithm::Es256) => &signature::ECDSA_P256_SHA256_FIXED,
                    (Algorithm::Es384, Algorithm::Es384) => &signature::ECDSA_P384_SHA384_FIXED,
                    (Algorithm::Es512, Algorithm::Es512) => &signature::ECDSA_P521_SHA512_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(scheme, point)
                    .verify(message, signature)
                    .is_ok()
            }
        }
    }
}
