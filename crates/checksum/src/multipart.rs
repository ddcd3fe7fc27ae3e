//! Digests of S3 for an object that was uploaded in parts: its ETag and composite checksums.
//!
//! A checksum of type `FULL_OBJECT` is that of the bytes
//! ([`DigestSet::concat`](crate::DigestSet::concat) for the CRCs). A checksum of type `COMPOSITE`
//! is the algorithm over the concatenated digests of the parts. It is written with `-N`, N the
//! number of parts.

use core::fmt;

use thiserror::Error;

use crate::{Algorithm, Digest, DigestError, Pipeline, md5};

/// A digest over the digests of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composite {
    /// The digest over the parts' digests.
    pub digest: Digest,
    /// How many parts there are.
    pub parts: u32,
}

/// Why parts make no composite checksum, or a text is none.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CompositeError {
    /// No part, or more than a 32-bit number says.
    #[error("{0} parts make no composite checksum")]
    Count(usize),
    /// Parts with digests of two algorithms.
    #[error("part {part} has a {found} digest among {expected} ones")]
    Mixed {
        /// The first part that differs, counted from 1 in the order given.
        part: usize,
        /// The algorithm of the parts before.
        expected: Algorithm,
        /// Its algorithm.
        found: Algorithm,
    },
    /// A text without `-N`, or with an N that is no number of parts.
    #[error("not a composite checksum: {0:?}")]
    Suffix(String),
    /// The part before the dash is no digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

impl Composite {
    /// The composite checksum of parts, from their digests in the order of the parts.
    ///
    /// # Errors
    /// If there is no part or the algorithms differ.
    pub fn of(parts: &[Digest]) -> Result<Self, CompositeError> {
        let wrong = || CompositeError::Count(parts.len());
        let algorithm = parts.first().ok_or_else(wrong)?.algorithm();
        let count = u32::try_from(parts.len()).map_err(|_| wrong())?;
        let mut pipeline = Pipeline::new(algorithm.into());
        for (i, part) in parts.iter().enumerate() {
            if part.algorithm() != algorithm {
                return Err(CompositeError::Mixed {
                    part: i + 1,
                    expected: algorithm,
                    found: part.algorithm(),
                });
            }
            pipeline.update(part.as_bytes());
        }
        let digest = pipeline
            .finish()
            .get(algorithm)
            .expect("a pipeline computes what it was asked for");
        Ok(Self {
            digest,
            parts: count,
        })
    }

    /// Reads the text form of [`Composite`].
    ///
    /// # Errors
    /// If `text` is not base64 of a digest, a dash and a number from 1 on.
    pub fn parse(algorithm: Algorithm, text: &str) -> Result<Self, CompositeError> {
        let wrong = || CompositeError::Suffix(text.chars().take(128).collect());
        let (digest, parts) = text.rsplit_once('-').ok_or_else(wrong)?;
        if !parts.bytes().all(|byte| byte.is_ascii_digit()) || parts.starts_with('0') {
            return Err(wrong());
        }
        Ok(Self {
            digest: Digest::from_base64(algorithm, digest)?,
            parts: parts.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for Composite {
    /// Base64 of the digest, a dash, the number of parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.digest.base64(), self.parts)
    }
}

/// The ETag of a multipart object, without quotes: MD5 over the MD5s of its parts in hexadecimal digits, a dash, their number.
#[must_use]
pub fn multipart_etag(part_md5s: &[[u8; 16]]) -> String {
    let whole = md5(part_md5s.as_flattened());
    format!("{}-{}", crate::digest::hex(&whole), part_md5s.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts, "a" and "b"; the expected values are of Python's hashlib and zlib.
    #[test]
    fn etag_and_composites() {
        assert_eq!(
            multipart_etag(&[md5(b"a"), md5(b"b")]),
            "96e024ba2074fe77e8e965ba43a704be-2"
        );
        for (algorithm, expected) in [
            (Algorithm::Crc32, "7pJxdw==-2"),
            (
                Algorithm::Sha256,
                "5aAf7hTg7VxIcU8iGA8lrYNltT+XefedxKPX6Tlj+Uo=-2",
            ),
        ] {
            let parts = [b"a", b"b"].map(|part| {
                let mut pipeline = Pipeline::new(algorithm.into());
                pipeline.update(part);
                pipeline.finish().get(algorithm).unwrap()
            });
            let composite = Composite::of(&parts).unwrap();
            assert_eq!(composite.to_string(), expected);
            assert_eq!(Composite::parse(algorithm, expected), Ok(composite));
        }
    }

    #[test]
    fn what_is_no_composite() {
        assert_eq!(Composite::of(&[]), Err(CompositeError::Count(0)));
        let mixed = [
            Digest::of(Algorithm::Crc32, &[0; 4]),
            Digest::of(Algorithm::Crc32c, &[0; 4]),
        ];
        assert!(matches!(
            Composite::of(&mixed),
            Err(CompositeError::Mixed { part: 2, .. })
        ));
        for text in [
            "AAAAAA==",
            "AAAAAA==-",
            "AAAAAA==-0",
            "AAAAAA==-01",
            "AAAAAA==-+1",
            "AAAA-1",
            "-1",
            "AAAAAA==-99999999999",
        ] {
            assert!(Composite::parse(Algorithm::Crc32, text).is_err(), "{text}");
        }
    }
}
