//! One value of one algorithm, and how it is written.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::Algorithm;

/// The most bytes that a digest has.
const LONGEST: usize = 64;

/// A digest: the algorithm and its value as big-endian bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// Zero beyond the algorithm's length.
    bytes: [u8; LONGEST],
}

/// A text or bytes that are no digest of the algorithm.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum DigestError {
    /// Not hexadecimal or not base64.
    #[error("not a {algorithm} digest in {encoding}: {text:?}")]
    Text {
        /// The algorithm that the text was meant to be of.
        algorithm: Algorithm,
        /// How it was meant to be written.
        encoding: &'static str,
        /// The unexpected text, at most 128 characters of it.
        text: String,
    },
    /// Another number of bytes.
    #[error("a {algorithm} digest has {} bytes, not {found}", .algorithm.digest_len())]
    Length {
        /// The algorithm that the bytes were meant to be of.
        algorithm: Algorithm,
        /// How many bytes were found.
        found: usize,
    },
}

impl Digest {
    /// The digest with this value.
    ///
    /// # Errors
    /// If `bytes` is not as long as the algorithm's digests.
    pub fn new(algorithm: Algorithm, bytes: &[u8]) -> Result<Self, DigestError> {
        if bytes.len() != algorithm.digest_len() {
            return Err(DigestError::Length {
                algorithm,
                found: bytes.len(),
            });
        }
        Ok(Self::of(algorithm, bytes))
    }

    /// For callers whose length is right by type.
    pub(crate) fn of(algorithm: Algorithm, value: &[u8]) -> Self {
        debug_assert_eq!(value.len(), algorithm.digest_len());
        let mut bytes = [0; LONGEST];
        bytes[..value.len()].copy_from_slice(value);
        Self { algorithm, bytes }
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value; numbers in big-endian order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.digest_len()]
    }

    /// In lower-case hexadecimal digits, two a byte, leading zeros included.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(self.as_bytes())
    }

    /// In base64 with padding, as S3 writes checksums.
    #[must_use]
    pub fn base64(&self) -> String {
        STANDARD.encode(self.as_bytes())
    }

    /// Reads hexadecimal digits of either case. The whole text must be digits of the right number.
    ///
    /// # Errors
    /// If `text` is anything else.
    pub fn from_hex(algorithm: Algorithm, text: &str) -> Result<Self, DigestError> {
        let mut bytes = [0; LONGEST];
        let found = decode_hex(text, &mut bytes[..algorithm.digest_len()]);
        found
            .map(|()| Self { algorithm, bytes })
            .ok_or_else(|| DigestError::Text {
                algorithm,
                encoding: "hexadecimal",
                text: excerpt(text),
            })
    }

    /// Reads base64 with padding.
    ///
    /// # Errors
    /// If `text` is not base64 or of another length.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Result<Self, DigestError> {
        let mut buffer = [0; 2 * LONGEST];
        let wrong = || DigestError::Text {
            algorithm,
            encoding: "base64",
            text: excerpt(text),
        };
        // The buffer bounds what is decoded: a longer text is no digest whatever it holds.
        let found = STANDARD
            .decode_slice(text, &mut buffer)
            .map_err(|_| wrong())?;
        Self::new(algorithm, &buffer[..found])
    }
}

impl fmt::Display for Digest {
    /// `algorithm:hex`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

/// Fills `bytes` from exactly so many pairs of digits.
fn decode_hex(text: &str, bytes: &mut [u8]) -> Option<()> {
    if text.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(())
}

fn excerpt(text: &str) -> String {
    text.chars().take(128).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_and_read() {
        let digest = Digest::of(Algorithm::Adler32, &0x0a1b_2c3d_u32.to_be_bytes());
        assert_eq!(digest.hex(), "0a1b2c3d");
        assert_eq!(digest.base64(), "ChssPQ==");
        assert_eq!(digest.to_string(), "adler32:0a1b2c3d");
        assert_eq!(Digest::from_hex(Algorithm::Adler32, "0A1B2C3D"), Ok(digest));
        assert_eq!(
            Digest::from_base64(Algorithm::Adler32, &digest.base64()),
            Ok(digest)
        );
    }

    #[test]
    fn what_is_no_digest() {
        for text in [
            "",
            "0a1b2c3",
            "0a1b2c3d0",
            "0a1b2c3g",
            "+a1b2c3d",
            "0a1b2c\u{e9}",
        ] {
            assert!(Digest::from_hex(Algorithm::Crc32, text).is_err(), "{text}");
        }
        for text in [
            "", "AAAA", "AAAAAA", "AAAAAA=", "AAAAAB==", "AAAAA*==", "AAAAAAA=",
        ] {
            assert!(
                Digest::from_base64(Algorithm::Crc32, text).is_err(),
                "{text}"
            );
        }
        let long = "A".repeat(100_000);
        assert!(Digest::from_base64(Algorithm::Sha256, &long).is_err());
        assert!(Digest::from_hex(Algorithm::Sha256, &long).is_err());
        assert!(Digest::new(Algorithm::Md5, &[0; 15]).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}", which in 0..Algorithm::ALL.len()) {
            let algorithm = Algorithm::ALL[which];
            if let Ok(digest) = Digest::from_hex(algorithm, &text) {
                prop_assert_eq!(digest.hex(), text.to_lowercase());
            }
            if let Ok(digest) = Digest::from_base64(algorithm, &text) {
                prop_assert_eq!(digest.base64(), text);
            }
        }

        #[test]
        fn round_trips(bytes in any::<[u8; 64]>(), which in 0..Algorithm::ALL.len()) {
            let algorithm = Algorithm::ALL[which];
            let digest = Digest::new(algorithm, &bytes[..algorithm.digest_len()]).unwrap();
            prop_assert_eq!(Digest::from_hex(algorithm, &digest.hex()).unwrap(), digest);
            prop_assert_eq!(Digest::from_base64(algorithm, &digest.base64()).unwrap(), digest);
        }
    }
}
