//! The algorithms and their names on the wires.

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// A digest that Dewar computes. More may be added. An algorithm that a client asks for and that is
/// not in this list is unknown, which is not an error by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Algorithm {
    /// Adler-32 (RFC 1950), the usual checksum of grid storage.
    Adler32 = 0,
    /// CRC-32 of zip and Ethernet (ISO-HDLC).
    Crc32 = 1,
    /// CRC-32C (Castagnoli, iSCSI): of pages and of `root://`.
    Crc32c = 2,
    /// CRC-64/NVME, the default of S3 if the client sent no checksum.
    Crc64Nvme = 3,
    /// MD5 (RFC 1321): of S3's and Swift's ETags.
    Md5 = 4,
    /// SHA-1.
    Sha1 = 5,
    /// SHA-256.
    Sha256 = 6,
    /// SHA-512.
    Sha512 = 7,
    /// XXH64 with seed 0.
    XxHash64 = 8,
    /// XXH3 of 64 bits with seed 0.
    XxHash3 = 9,
    /// XXH3 of 128 bits with seed 0.
    XxHash128 = 10,
    /// The CRC of the POSIX utility `cksum`, length included; the `crc32` of `root://`. Its number
    /// leaves a gap for the digests of S3.
    PosixCksum = 15,
}

/// A name that is no [`Algorithm`].
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("unknown digest algorithm: {0:?}")]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Adler32,
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Md5,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
        Self::PosixCksum,
    ];

    /// Dewar's own name: `adler32`, `crc64nvme`, `sha256`. It is also that of `root://`, except for the two CRC-32s.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::XxHash64 => "xxhash64",
            Self::XxHash3 => "xxhash3",
            Self::XxHash128 => "xxhash128",
            Self::PosixCksum => "cksum",
        }
    }

    /// Bytes of a value.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32 | Self::Crc32c | Self::PosixCksum => 4,
            Self::Crc64Nvme | Self::XxHash64 | Self::XxHash3 => 8,
            Self::Md5 | Self::XxHash128 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The name in S3's `x-amz-checksum-algorithm` and in its XML, such as `CRC64NVME`; `None` if
    /// S3 has no such checksum.
    #[must_use]
    pub const fn s3_name(self) -> Option<&'static str> {
        match self {
            Self::Crc32 => Some("CRC32"),
            Self::Crc32c => Some("CRC32C"),
            Self::Crc64Nvme => Some("CRC64NVME"),
            Self::Sha1 => Some("SHA1"),
            Self::Sha256 => Some("SHA256"),
            Self::Md5 => Some("MD5"),
            Self::Sha512 => Some("SHA512"),
            Self::XxHash64 => Some("XXHASH64"),
            Self::XxHash3 => Some("XXHASH3"),
            Self::XxHash128 => Some("XXHASH128"),
            Self::Adler32 | Self::PosixCksum => None,
        }
    }

    /// The header or trailer that carries the value in S3, such as `x-amz-checksum-crc64nvme`; its value is base64.
    #[must_use]
    pub const fn s3_header(self) -> Option<&'static str> {
        match self {
            Self::Crc32 => Some("x-amz-checksum-crc32"),
            Self::Crc32c => Some("x-amz-checksum-crc32c"),
            Self::Crc64Nvme => Some("x-amz-checksum-crc64nvme"),
            Self::Sha1 => Some("x-amz-checksum-sha1"),
            Self::Sha256 => Some("x-amz-checksum-sha256"),
            Self::Md5 => Some("x-amz-checksum-md5"),
            Self::Sha512 => Some("x-amz-checksum-sha512"),
            Self::XxHash64 => Some("x-amz-checksum-xxhash64"),
            Self::XxHash3 => Some("x-amz-checksum-xxhash3"),
            Self::XxHash128 => Some("x-amz-checksum-xxhash128"),
            Self::Adler32 | Self::PosixCksum => None,
        }
    }

    /// The algorithm of an S3 name, in any case; `None` for unknown ones, which newer clients may
    /// send.
    #[must_use]
    pub fn from_s3_name(name: &str) -> Option<Self> {
        Self::find(|algorithm| algorithm.s3_name(), name)
    }

    /// The algorithm of an S3 header, in any case; None also for `x-amz-checksum-algorithm`, `-type` and `-mode`.
    #[must_use]
    pub fn from_s3_header(name: &str) -> Option<Self> {
        Self::find(|algorithm| algorithm.s3_header(), name)
    }

    /// The name in `Digest` and `Want-Digest` (RFC 3230 and RFC 5843; for the CRCs, the names of
    /// grid storage).
    #[must_use]
    pub const fn rfc3230_name(self) -> Option<&'static str> {
        match self {
            Self::Adler32 => Some("adler32"),
            Self::Crc32 => Some("crc32"),
            Self::Crc32c => Some("crc32c"),
            Self::Crc64Nvme
            | Self::XxHash64
            | Self::XxHash3
            | Self::XxHash128
            | Self::PosixCksum => None,
            Self::Md5 => Some("md5"),
            Self::Sha1 => Some("sha"),
            Self::Sha256 => Some("sha-256"),
            Self::Sha512 => Some("sha-512"),
        }
    }

    /// The algorithm of a name in `Digest` or `Want-Digest`, in any case.
    #[must_use]
    pub fn from_rfc3230_name(name: &str) -> Option<Self> {
        Self::find(|algorithm| algorithm.rfc3230_name(), name)
    }

    /// The name in `Repr-Digest` and `Want-Repr-Digest` (RFC 9530 and IANA's registry for it).
    #[must_use]
    pub const fn rfc9530_name(self) -> Option<&'static str> {
        match self {
            Self::Adler32 => Some("adler"),
            Self::Crc32c => Some("crc32c"),
            Self::Md5 => Some("md5"),
            Self::Sha1 => Some("sha"),
            Self::Sha256 => Some("sha-256"),
            Self::Sha512 => Some("sha-512"),
            Self::Crc32
            | Self::PosixCksum
            | Self::Crc64Nvme
            | Self::XxHash64
            | Self::XxHash3
            | Self::XxHash128 => None,
        }
    }

    /// The algorithm of a name in `Repr-Digest` or `Want-Repr-Digest`; grid storage also uses
    /// `adler32` there.
    #[must_use]
    pub fn from_rfc9530_name(name: &str) -> Option<Self> {
        Self::find(|algorithm| algorithm.rfc9530_name(), name)
            .or_else(|| (name.eq_ignore_ascii_case("adler32")).then_some(Self::Adler32))
    }

    fn find(naming: impl Fn(Self) -> Option<&'static str>, name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|&algorithm| naming(algorithm).is_some_and(|its| its.eq_ignore_ascii_case(name)))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Takes [`Algorithm::name`] in any case.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::find(|algorithm| Some(algorithm.name()), name)
            .ok_or_else(|| UnknownAlgorithm(name.chars().take(64).collect()))
    }
}

/// A set of algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AlgorithmSet(u32);

impl AlgorithmSet {
    /// None.
    pub const EMPTY: Self = Self(0);

    /// The digests of every version: Adler-32 and CRC-32C.
    pub const ALWAYS: Self = Self::EMPTY.with(Algorithm::Adler32).with(Algorithm::Crc32c);

    /// The set with `algorithm` in it.
    #[must_use]
    pub const fn with(self, algorithm: Algorithm) -> Self {
        Self(self.0 | 1 << algorithm as u8)
    }

    /// The set with `algorithm` not in it.
    #[must_use]
    pub const fn without(self, algorithm: Algorithm) -> Self {
        Self(self.0 & !(1 << algorithm as u8))
    }

    /// The algorithms that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `algorithm` is in it.
    #[must_use]
    pub const fn contains(self, algorithm: Algorithm) -> bool {
        self.0 & 1 << algorithm as u8 != 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its members, in the order of [`Algorithm::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Algorithm> {
        Algorithm::ALL
            .into_iter()
            .filter(move |&algorithm| self.contains(algorithm))
    }
}

impl From<Algorithm> for AlgorithmSet {
    fn from(algorithm: Algorithm) -> Self {
        Self::EMPTY.with(algorithm)
    }
}

impl FromIterator<Algorithm> for AlgorithmSet {
    fn from_iter<I: IntoIterator<Item = Algorithm>>(algorithms: I) -> Self {
        algorithms
            .into_iter()
            .fold(Self::EMPTY, |set, algorithm| set.with(algorithm))
    }
}

impl fmt::Debug for AlgorithmSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().to_uppercase().parse(), Ok(algorithm));
            if let Some(name) = algorithm.s3_name() {
                assert_eq!(
                    Algorithm::from_s3_name(&name.to_lowercase()),
                    Some(algorithm)
                );
                let header = format!("X-Amz-Checksum-{name}");
                assert_eq!(Algorithm::from_s3_header(&header), Some(algorithm));
            }
            if let Some(name) = algorithm.rfc3230_name() {
                assert_eq!(
                    Algorithm::from_rfc3230_name(&name.to_uppercase()),
                    Some(algorithm)
                );
            }
            if let Some(name) = algorithm.rfc9530_name() {
                assert_eq!(Algorithm::from_rfc9530_name(name), Some(algorithm));
            }
        }
    }

    #[test]
    fn unknown_names_are_no_algorithm() {
        assert!("blake3".parse::<Algorithm>().is_err());
        assert_eq!(Algorithm::from_s3_name("ADLER32"), None);
        assert_eq!(Algorithm::from_s3_header("x-amz-checksum-algorithm"), None);
        assert_eq!(Algorithm::from_s3_header("x-amz-checksum-sha384"), None);
        assert_eq!(Algorithm::from_rfc3230_name("unixcksum"), None);
        assert_eq!(
            Algorithm::from_rfc9530_name("adler32"),
            Some(Algorithm::Adler32)
        );
    }

    #[test]
    fn sets() {
        let set: AlgorithmSet = [Algorithm::Sha256, Algorithm::Crc32].into_iter().collect();
        assert!(set.contains(Algorithm::Crc32) && !set.contains(Algorithm::Crc32c));
        let all = set.union(AlgorithmSet::ALWAYS).without(Algorithm::Crc32);
        assert_eq!(
            all.iter().collect::<Vec<_>>(),
            [Algorithm::Adler32, Algorithm::Crc32c, Algorithm::Sha256]
        );
        assert!(AlgorithmSet::EMPTY.is_empty() && !all.is_empty());
    }
}
