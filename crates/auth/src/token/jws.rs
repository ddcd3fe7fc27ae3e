//! A signed token in compact form (RFC 7515 section 7.1), before and after its signature is
//! verified.
//!
//! The list of algorithms is closed: RSA PKCS #1 v1.5 and ECDSA with SHA-2. HMAC (whose "key" would
//! be a public one) and `none` are not implemented at all. A key verifies only its own algorithm:
//! see [`super::keys`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::TokenError;

/// Longest token in bytes. Tokens of large collaborations have about 4 KiB.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Longest name of a key in bytes.
const KEY_ID_BYTES_MAX: usize = 512;

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are RFC 7518's")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
    Es384,
    Es512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
    ];

    /// Its name in a header (RFC 7518 section 3.1).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }

    /// The algorithm of a name, exactly as it is written.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The used part of a header. Everything else is ignored, as RFC 7515 section 4 requires.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

/// A token, taken apart. Nothing in it is proven.
#[derive(Debug)]
pub struct Jws<'a> {
    /// How it says it is signed.
    pub algorithm: Algorithm,
    /// With which key.
    pub key_id: Option<String>,
    /// The signed bytes: header and payload as received.
    pub message: &'a [u8],
    /// The decoded payload.
    pub payload: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Splits and decodes a token.
    ///
    /// # Errors
    /// [`TokenError::Malformed`]; [`TokenError::Algorithm`] for an algorithm that is not allowed.
    pub fn parse(text: &'a str) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed("it is longer than 16 KiB"));
        }
        let mut parts = text.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed(
                "it is not three parts with dots between",
            ));
        };
        let decode = |part: &str| {
            URL_SAFE_NO_PAD
                .decode(part)
                .map_err(|_| TokenError::Malformed("a part is not base64url"))
        };
        let bytes = decode(header)?;
        let head: Header = serde_json::from_slice(&bytes)
            .map_err(|_| TokenError::Malformed("its header is not a JSON object with alg"))?;
        if head.crit.is_some() {
            // Something must be understood, and nothing that can be named there is.
            return Err(TokenError::Malformed("its header has crit"));
        }
        if head
            .kid
            .as_ref()
            .is_some_and(|id| id.len() > KEY_ID_BYTES_MAX)
        {
            return Err(TokenError::Malformed("its kid is longer than 512 bytes"));
        }
        let algorithm = Algorithm::parse(&head.alg).ok_or_else(|| {
            let shown: String = head.alg.chars().take(32).collect();
            TokenError::Algorithm(shown)
        })?;
        Ok(Self {
            algorithm,
            key_id: head.kid,
            message: &text.as_bytes()[..header.len() + 1 + payload.len()],
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }
}
