//! The digests of one version, as the catalog stores them.

use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};

use crate::adler::adler32_combine;
use crate::crc::{crc32_combine, crc32c_combine, crc64nvme_combine};
use crate::{Algorithm, AlgorithmSet, Digest};

/// The digests of one sequence of bytes: Adler-32 and CRC-32C always, others if they were
/// requested.
///
/// # Format
///
/// A CBOR array with one element for each digest in the order of the numbers below. Elements after
/// the last filled one are left out, and readers skip elements they do not know. Numbers never
/// change their meaning (DESIGN.md, promise 7). The array has 28 bytes with MD5, 11 without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct DigestSet {
    /// Adler-32.
    #[n(0)]
    pub adler32: u32,
    /// CRC-32C.
    #[n(1)]
    pub crc32c: u32,
    #[n(2)]
    md5: Option<ByteArray<16>>,
    #[n(3)]
    crc64nvme: Option<u64>,
    #[n(4)]
    crc32: Option<u32>,
    #[n(5)]
    sha256: Option<ByteArray<32>>,
    #[n(6)]
    sha1: Option<ByteArray<20>>,
    #[n(7)]
    sha512: Option<ByteArray<64>>,
    #[n(8)]
    xxhash64: Option<u64>,
    #[n(9)]
    xxhash3: Option<u64>,
    #[n(10)]
    xxhash128: Option<ByteArray<16>>,
    #[n(15)]
    posix_cksum: Option<u32>,
}

impl DigestSet {
    /// The digests of no bytes at all: what [`DigestSet::concat`] starts from.
    const EMPTY: Self = Self {
        adler32: 1,
        crc32c: 0,
        md5: None,
        crc64nvme: Some(0),
        crc32: Some(0),
        sha256: None,
        sha1: None,
        sha512: None,
        xxhash64: None,
        xxhash3: None,
        xxhash128: None,
        posix_cksum: None,
    };

    /// Stands for digests that are kept in another place or were never computed. It is the digest
    /// of nothing, and contains no digest.
    pub const ABSENT: Self = Self {
        adler32: 0,
        crc32c: 0,
        md5: None,
        crc64nvme: None,
        crc32: None,
        sha256: None,
        sha1: None,
        sha512: None,
        xxhash64: None,
        xxhash3: None,
        xxhash128: None,
        posix_cksum: None,
    };

    /// Whether it is [`DigestSet::ABSENT`]. Both digests of the same bytes are zero for one content
    /// in 2^64.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.adler32 == 0 && self.crc32c == 0
    }

    /// A set of the two that are always there.
    #[must_use]
    pub fn new(adler32: u32, crc32c: u32) -> Self {
        Self {
            adler32,
            crc32c,
            md5: None,
            crc64nvme: None,
            crc32: None,
            sha256: None,
            sha1: None,
            sha512: None,
            xxhash64: None,
            xxhash3: None,
            xxhash128: None,
            posix_cksum: None,
        }
    }

    /// MD5, if known.
    #[must_use]
    pub fn md5(&self) -> Option<[u8; 16]> {
        self.md5.map(|bytes| *bytes)
    }

    /// CRC-32, if known.
    #[must_use]
    pub fn crc32(&self) -> Option<u32> {
        self.crc32
    }

    /// CRC-64/NVME, if known.
    #[must_use]
    pub fn crc64nvme(&self) -> Option<u64> {
        self.crc64nvme
    }

    /// SHA-1, if known.
    #[must_use]
    pub fn sha1(&self) -> Option<[u8; 20]> {
        self.sha1.map(|bytes| *bytes)
    }

    /// SHA-256, if known.
    #[must_use]
    pub fn sha256(&self) -> Option<[u8; 32]> {
        self.sha256.map(|bytes| *bytes)
    }

    /// The CRC of POSIX `cksum`, if known.
    #[must_use]
    pub fn posix_cksum(&self) -> Option<u32> {
        self.posix_cksum
    }

    /// The digests of the same bytes that are in either set. If both have a digest, that of this
    /// set is taken.
    #[must_use]
    pub fn union(self, other: &Self) -> Self {
        let always = match self.is_absent() {
            true => other,
            false => &self,
        };
        Self {
            adler32: always.adler32,
            crc32c: always.crc32c,
            md5: self.md5.or(other.md5),
            crc64nvme: self.crc64nvme.or(other.crc64nvme),
            crc32: self.crc32.or(other.crc32),
            sha256: self.sha256.or(other.sha256),
            sha1: self.sha1.or(other.sha1),
            sha512: self.sha512.or(other.sha512),
            xxhash64: self.xxhash64.or(other.xxhash64),
            xxhash3: self.xxhash3.or(other.xxhash3),
            xxhash128: self.xxhash128.or(other.xxhash128),
            posix_cksum: self.posix_cksum.or(other.posix_cksum),
        }
    }

    /// The set with this MD5.
    #[must_use]
    pub fn with_md5(mut self, md5: [u8; 16]) -> Self {
        self.md5 = Some(md5.into());
        self
    }

    /// The set with this CRC-32.
    #[must_use]
    pub fn with_crc32(mut self, crc32: u32) -> Self {
        self.crc32 = Some(crc32);
        self
    }

    /// The set with this CRC-64/NVME.
    #[must_use]
    pub fn with_crc64nvme(mut self, crc64nvme: u64) -> Self {
        self.crc64nvme = Some(crc64nvme);
        self
    }

    /// The set with this SHA-1.
    #[must_use]
    pub fn with_sha1(mut self, sha1: [u8; 20]) -> Self {
        self.sha1 = Some(sha1.into());
        self
    }

    /// The set with this SHA-256.
    #[must_use]
    pub fn with_sha256(mut self, sha256: [u8; 32]) -> Self {
        self.sha256 = Some(sha256.into());
        self
    }

    /// The set with this SHA-512.
    #[must_use]
    pub fn with_sha512(mut self, sha512: [u8; 64]) -> Self {
        self.sha512 = Some(sha512.into());
        self
    }

    /// The set with this XXH64.
    #[must_use]
    pub fn with_xxhash64(mut self, xxhash64: u64) -> Self {
        self.xxhash64 = Some(xxhash64);
        self
    }

    /// The set with this XXH3 of 64 bits.
    #[must_use]
    pub fn with_xxhash3(mut self, xxhash3: u64) -> Self {
        self.xxhash3 = Some(xxhash3);
        self
    }

    /// The set with this XXH3 of 128 bits.
    #[must_use]
    pub fn with_xxhash128(mut self, xxhash128: u128) -> Self {
        self.xxhash128 = Some(xxhash128.to_be_bytes().into());
        self
    }

    /// The set with this CRC of POSIX `cksum`.
    #[must_use]
    pub fn with_posix_cksum(mut self, crc: u32) -> Self {
        self.posix_cksum = Some(crc);
        self
    }

    /// The digest of an algorithm, if known.
    #[must_use]
    pub fn get(&self, algorithm: Algorithm) -> Option<Digest> {
        let digest = |bytes: &[u8]| Digest::of(algorithm, bytes);
        match algorithm {
            Algorithm::Adler32 | Algorithm::Crc32c if self.is_absent() => None,
            Algorithm::Adler32 => Some(digest(&self.adler32.to_be_bytes())),
            Algorithm::Crc32c => Some(digest(&self.crc32c.to_be_bytes())),
            Algorithm::Crc32 => self.crc32.map(|crc| digest(&crc.to_be_bytes())),
            Algorithm::Crc64Nvme => self.crc64nvme.map(|crc| digest(&crc.to_be_bytes())),
            Algorithm::Md5 => self.md5.map(|bytes| digest(&*bytes)),
            Algorithm::Sha1 => self.sha1.map(|bytes| digest(&*bytes)),
            Algorithm::Sha256 => self.sha256.map(|bytes| digest(&*bytes)),
            Algorithm::Sha512 => self.sha512.map(|bytes| digest(&*bytes)),
            Algorithm::XxHash64 => self.xxhash64.map(|hash| digest(&hash.to_be_bytes())),
            Algorithm::XxHash3 => self.xxhash3.map(|hash| digest(&hash.to_be_bytes())),
            Algorithm::XxHash128 => self.xxhash128.map(|bytes| digest(&*bytes)),
            Algorithm::PosixCksum => self.posix_cksum.map(|crc| digest(&crc.to_be_bytes())),
        }
    }

    /// The algorithms whose digests are in the set.
    #[must_use]
    pub fn algorithms(&self) -> AlgorithmSet {
        Algorithm::ALL
            .into_iter()
            .filter(|&algorithm| self.get(algorithm).is_some())
            .collect()
    }

    /// All digests that are known.
    pub fn iter(&self) -> impl Iterator<Item = Digest> {
        Algorithm::ALL
            .into_iter()
            .filter_map(|algorithm| self.get(algorithm))
    }

    /// Whether `expected` is the computed digest; `None` if its algorithm was not computed.
    #[must_use]
    pub fn verify(&self, expected: &Digest) -> Option<bool> {
        self.get(expected.algorithm())
            .map(|found| found == *expected)
    }

    /// The digests of a concatenation from those of its parts and their lengths in bytes. The CRCs
    /// and Adler-32 can be combined, if all parts have them. MD5, SHA and XXH cannot.
    pub fn concat<'a>(parts: impl IntoIterator<Item = (&'a Self, u64)>) -> Self {
        parts
            .into_iter()
            .fold(Self::EMPTY, |whole, (part, length)| {
                if whole.is_absent() || part.is_absent() {
                    return Self::ABSENT;
                }
                Self {
                    adler32: adler32_combine(whole.adler32, part.adler32, length),
                    crc32c: crc32c_combine(whole.crc32c, part.crc32c, length),
                    crc32: (whole.crc32.zip(part.crc32)).map(|(a, b)| crc32_combine(a, b, length)),
                    crc64nvme: (whole.crc64nvme.zip(part.crc64nvme))
                        .map(|(a, b)| crc64nvme_combine(a, b, length)),
                    ..Self::EMPTY
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{adler32, crc32, crc32c, crc64nvme};
    use proptest::prelude::*;

    fn hex(bytes: &[u8]) -> String {
        crate::digest::hex(bytes)
    }

    fn full() -> DigestSet {
        DigestSet::new(0x0a1b_2c3d, 0xe306_9283)
            .with_md5([0x11; 16])
            .with_crc64nvme(0xae8b_1486_0a79_9888)
            .with_crc32(0xcbf4_3926)
            .with_sha256([0x22; 32])
            .with_sha1([0x33; 20])
            .with_posix_cksum(0x765e_7680)
    }

    fn newest() -> DigestSet {
        full()
            .with_sha512([0x44; 64])
            .with_xxhash64(0x8cb8_41db_40e6_ae83)
            .with_xxhash3(7)
            .with_xxhash128(9)
    }

    #[test]
    fn what_was_never_computed_is_not_known() {
        assert_eq!(DigestSet::ABSENT.iter().count(), 0);
        assert!(!DigestSet::EMPTY.is_absent() && !full().is_absent());
        let joined = DigestSet::concat([(&full(), 5), (&DigestSet::ABSENT, 7), (&full(), 1)]);
        assert!(joined.is_absent());
    }

    /// The stored form: these bytes must be read for ever.
    #[test]
    fn stored_bytes() {
        let least = DigestSet::new(0x0a1b_2c3d, 0xe306_9283);
        let ll = "1a0a1b2c3d1ae3069283";
        let md5 = format!("50{}", "11".repeat(16));
        let rest = format!(
            "1bae8b14860a7998881acbf439265820{}54{}",
            "22".repeat(32),
            "33".repeat(20)
        );
        for (set, expected) in [
            (least, format!("82{ll}")),
            (least.with_md5([0x11; 16]), format!("83{ll}{md5}")),
            (least.with_crc32(7), format!("85{ll}f6f607")),
            (
                full(),
                format!("90{ll}{md5}{rest}{}1a765e7680", "f6".repeat(8)),
            ),
            (
                newest(),
                format!(
                    "90{ll}{md5}{rest}5840{}1b8cb841db40e6ae830750{:032x}f6f6f6f61a765e7680",
                    "44".repeat(64),
                    9
                ),
            ),
        ] {
            let stored = minicbor::to_vec(set).unwrap();
            assert_eq!(hex(&stored), expected);
            assert_eq!(minicbor::decode::<DigestSet>(&stored).unwrap(), set);
        }
    }

    /// What releases before the CRC of `cksum` wrote of everything that they knew.
    #[test]
    fn shorter_records_are_read() {
        let mut stored = minicbor::to_vec(full()).unwrap();
        stored.truncate(stored.len() - 5 - 8);
        stored[0] = 0x87;
        let before = minicbor::decode::<DigestSet>(&stored).unwrap();
        assert_eq!(before.posix_cksum(), None);
        assert_eq!(before.with_posix_cksum(0x765e_7680), full());
    }

    #[test]
    fn a_union_knows_what_either_knows() {
        let least = DigestSet::new(0x0a1b_2c3d, 0xe306_9283);
        let more = least.with_posix_cksum(7).with_sha1([1; 20]);
        assert_eq!(least.union(&more), more);
        assert_eq!(DigestSet::ABSENT.union(&more), more);
        assert_eq!(full().union(&more), full());
    }

    /// A later version of Dewar may add places; an absent or short one is refused.
    #[test]
    fn later_places_are_skipped() {
        let mut stored = minicbor::to_vec(newest()).unwrap();
        stored[0] = 0x92;
        stored.extend_from_slice(&[0x43, 1, 2, 3, 0x18, 99]);
        assert_eq!(minicbor::decode::<DigestSet>(&stored).unwrap(), newest());
        assert!(minicbor::decode::<DigestSet>(&[0x81, 1]).is_err());
        assert!(minicbor::decode::<DigestSet>(&[0x83, 1, 2, 0x41, 3]).is_err());
    }

    #[test]
    fn getters_agree() {
        assert_eq!(newest().algorithms(), Algorithm::ALL.into_iter().collect());
        assert_eq!(newest().iter().count(), Algorithm::ALL.len());
        for digest in newest().iter() {
            assert_eq!(newest().get(digest.algorithm()), Some(digest));
            assert_eq!(newest().verify(&digest), Some(true));
        }
        let other = Digest::of(Algorithm::Sha1, &[0x34; 20]);
        assert_eq!(full().verify(&other), Some(false));
        assert_eq!(DigestSet::new(1, 0).verify(&other), None);
        assert_eq!(DigestSet::new(1, 0).algorithms(), AlgorithmSet::ALWAYS);
    }

    proptest! {
        #[test]
        fn concatenation(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..500), 0..6),
            without in any::<Option<prop::sample::Index>>(),
        ) {
            let of = |data: &[u8]| {
                DigestSet::new(adler32(data), crc32c(data))
                    .with_crc32(crc32(data))
                    .with_crc64nvme(crc64nvme(data))
            };
            let mut sets: Vec<(DigestSet, u64)> =
                parts.iter().map(|part| (of(part), part.len() as u64)).collect();
            let mut expected = of(&parts.concat());
            if let Some(index) = without
                && !sets.is_empty()
            {
                index.get_mut(&mut sets).0.crc32 = None;
                expected.crc32 = None;
            }
            let whole = DigestSet::concat(sets.iter().map(|(set, length)| (set, *length)));
            prop_assert_eq!(whole, expected);
        }
    }
}
