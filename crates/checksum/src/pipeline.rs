//! All digests of a stream in one pass over its bytes.

use core::hash::Hasher as _;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

use crate::crc::{Crc32, Crc32c, Crc64Nvme, PosixCksum};
use crate::{Algorithm, AlgorithmSet, DigestSet, Md5};

/// Bytes that all digests take in before the next are touched: they stay in the nearest cache.
const PIECE: usize = 16 << 10;

/// Computes a chosen set of digests while bytes stream; Adler-32 and CRC-32C always. Never waits.
/// MD5, if it is requested here, is hashed at once, at several times the cost of lanes shared with
/// other streams (see [`StreamDigests`](crate::StreamDigests)).
pub struct Pipeline {
    adler32: simd_adler32::Adler32,
    crc32c: Crc32c,
    crc32: Option<Crc32>,
    crc64nvme: Option<Crc64Nvme>,
    posix_cksum: Option<PosixCksum>,
    md5: Option<Md5>,
    sha1: Option<Context>,
    sha256: Option<Context>,
    sha512: Option<Context>,
    // Some hundred bytes each, which most streams do not need.
    xxhash64: Option<Box<XxHash64>>,
    xxhash3: Option<Box<XxHash3_64>>,
    xxhash128: Option<Box<XxHash3_128>>,
    length: u64,
}

impl core::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pipeline")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// A stream without bytes that computes `want` and [`AlgorithmSet::ALWAYS`].
    #[must_use]
    pub fn new(want: AlgorithmSet) -> Self {
        let wanted = |algorithm| want.contains(algorithm);
        Self {
            adler32: simd_adler32::Adler32::new(),
            crc32c: Crc32c::new(),
            crc32: wanted(Algorithm::Crc32).then(Crc32::default),
            crc64nvme: wanted(Algorithm::Crc64Nvme).then(Crc64Nvme::default),
            posix_cksum: wanted(Algorithm::PosixCksum).then(PosixCksum::default),
            md5: wanted(Algorithm::Md5).then(Md5::new),
            sha1: wanted(Algorithm::Sha1).then(|| Context::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            sha256: wanted(Algorithm::Sha256).then(|| Context::new(&SHA256)),
            sha512: wanted(Algorithm::Sha512).then(|| Context::new(&SHA512)),
            xxhash64: wanted(Algorithm::XxHash64).then(|| Box::new(XxHash64::with_seed(0))),
            xxhash3: wanted(Algorithm::XxHash3).then(|| Box::new(XxHash3_64::new())),
            xxhash128: wanted(Algorithm::XxHash128).then(|| Box::new(XxHash3_128::new())),
            length: 0,
        }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.crc32c.update(piece);
            self.update_others(piece);
        }
        self.length += bytes.len() as u64;
    }

    /// Takes the next bytes with their CRC-32C, which the caller has computed, or combined from
    /// those of its pages ([`Crc32c::append`]). A wrong CRC makes a wrong digest.
    pub fn update_with_crc32c(&mut self, bytes: &[u8], crc32c_of_bytes: u32) {
        debug_assert_eq!(crate::crc32c(bytes), crc32c_of_bytes);
        self.crc32c.append(crc32c_of_bytes, bytes.len() as u64);
        for piece in bytes.chunks(PIECE) {
            self.update_others(piece);
        }
        self.length += bytes.len() as u64;
    }

    /// Bytes taken in so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The digests of all bytes taken in.
    #[must_use]
    pub fn finish(self) -> DigestSet {
        let mut set = DigestSet::new(self.adler32.finish(), self.crc32c.value());
        if let Some(crc32) = self.crc32 {
            set = set.with_crc32(crc32.value());
        }
        if let Some(crc64nvme) = self.crc64nvme {
            set = set.with_crc64nvme(crc64nvme.value());
        }
        if let Some(posix_cksum) = self.posix_cksum {
            set = set.with_posix_cksum(posix_cksum.value());
        }
        if let Some(md5) = self.md5 {
            set = set.with_md5(md5.finish());
        }
        if let Some(sha1) = self.sha1 {
            set = set.with_sha1(fixed(sha1));
        }
        if let Some(sha256) = self.sha256 {
            set = set.with_sha256(fixed(sha256));
        }
        if let Some(sha512) = self.sha512 {
            set = set.with_sha512(fixed(sha512));
        }
        if let Some(xxhash64) = self.xxhash64 {
            set = set.with_xxhash64(xxhash64.finish());
        }
        if let Some(xxhash3) = self.xxhash3 {
            set = set.with_xxhash3(xxhash3.finish());
        }
        if let Some(xxhash128) = self.xxhash128 {
            set = set.with_xxhash128(xxhash128.finish_128());
        }
        set
    }

    fn update_others(&mut self, piece: &[u8]) {
        self.adler32.write(piece);
        if let Some(crc32) = &mut self.crc32 {
            crc32.update(piece);
        }
        if let Some(crc64nvme) = &mut self.crc64nvme {
            crc64nvme.update(piece);
        }
        if let Some(posix_cksum) = &mut self.posix_cksum {
            posix_cksum.update(piece);
        }
        if let Some(md5) = &mut self.md5 {
            md5.update(piece);
        }
        let shas = [&mut self.sha1, &mut self.sha256, &mut self.sha512];
        for sha in shas.into_iter().flatten() {
            sha.update(piece);
        }
        if let Some(xxhash64) = &mut self.xxhash64 {
            xxhash64.write(piece);
        }
        if let Some(xxhash3) = &mut self.xxhash3 {
            xxhash3.write(piece);
        }
        if let Some(xxhash128) = &mut self.xxhash128 {
            xxhash128.write(piece);
        }
    }
}

/// The digest of a context whose algorithm has `N` bytes.
fn fixed<const N: usize>(context: Context) -> [u8; N] {
    let digest = context.finish();
    digest
        .as_ref()
        .try_into()
        .expect("the algorithm's digest has this length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{adler32, crc32, crc32c, crc64nvme, md5};
    use proptest::prelude::*;

    /// Bit by bit, as POSIX has it.
    fn posix_cksum_of(bytes: &[u8]) -> u32 {
        let mut crc = 0u32;
        let mut take = |byte: u8| {
            crc ^= u32::from(byte) << 24;
            for _ in 0..8 {
                let carry = crc >> 31;
                crc = (crc << 1) ^ (carry * 0x04c1_1db7);
            }
        };
        bytes.iter().copied().for_each(&mut take);
        let mut length = bytes.len();
        while length > 0 {
            take(length as u8);
            length >>= 8;
        }
        !crc
    }

    fn everything() -> AlgorithmSet {
        Algorithm::ALL.into_iter().collect()
    }

    /// FIPS 180 examples and the catalogue's check values.
    #[test]
    fn known_answers() {
        let mut pipeline = Pipeline::new(everything());
        pipeline.update(b"a");
        pipeline.update(b"");
        pipeline.update(b"bc");
        assert_eq!(pipeline.length(), 3);
        let set = pipeline.finish();
        let hex = |algorithm| set.get(algorithm).unwrap().hex();
        assert_eq!(hex(Algorithm::Adler32), "024d0127");
        assert_eq!(hex(Algorithm::Crc32), "352441c2");
        assert_eq!(hex(Algorithm::Crc32c), "364b3fb7");
        // `printf abc | cksum` says 1219131554, and of nothing 4294967295.
        assert_eq!(hex(Algorithm::PosixCksum), format!("{:08x}", 1_219_131_554));
        let nothing = Pipeline::new(everything()).finish();
        assert_eq!(nothing.posix_cksum(), Some(4_294_967_295));
        assert_eq!(hex(Algorithm::Md5), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(Algorithm::Sha1),
            "a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert_eq!(
            hex(Algorithm::Sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            hex(Algorithm::Sha512),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
             2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
        // As Python's xxhash says them.
        assert_eq!(hex(Algorithm::XxHash64), "44bc2cf5ad770999");
        assert_eq!(hex(Algorithm::XxHash3), "78af5f94892f3950");
        assert_eq!(
            hex(Algorithm::XxHash128),
            "06b05ab6733a618578af5f94892f3950"
        );
        let long: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        let mut pipeline = Pipeline::new(everything());
        long.chunks(777).for_each(|chunk| pipeline.update(chunk));
        let set = pipeline.finish();
        let hex = |algorithm| set.get(algorithm).unwrap().hex();
        assert_eq!(hex(Algorithm::XxHash64), "4cf75ee72cd8f4cc");
        assert_eq!(hex(Algorithm::XxHash3), "42c23aeead96750d");
        assert_eq!(
            hex(Algorithm::XxHash128),
            "54182c58bbb1337c42c23aeead96750d"
        );
    }

    #[test]
    fn only_what_is_wanted() {
        let set = Pipeline::new(Algorithm::Sha1.into()).finish();
        assert_eq!(set.algorithms(), AlgorithmSet::ALWAYS.with(Algorithm::Sha1));
        assert_eq!((set.adler32, set.crc32c), (1, 0));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same(
            pieces in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..400), 1usize..100, any::<bool>()),
                0..6,
            ),
        ) {
            let mut pipeline = Pipeline::new(everything());
            let mut whole = Vec::new();
            for (bytes, times, with_crc) in pieces {
                let bytes = bytes.repeat(times);
                if with_crc {
                    pipeline.update_with_crc32c(&bytes, crc32c(&bytes));
                } else {
                    pipeline.update(&bytes);
                }
                whole.extend_from_slice(&bytes);
            }
            let cksum = posix_cksum_of(&whole);
            let sha = |algorithm| aws_lc_rs::digest::digest(algorithm, &whole);
            let expected = DigestSet::new(adler32(&whole), crc32c(&whole))
                .with_crc32(crc32(&whole))
                .with_crc64nvme(crc64nvme(&whole))
                .with_posix_cksum(cksum)
                .with_md5(md5(&whole))
                .with_sha1(sha(&SHA1_FOR_LEGACY_USE_ONLY).as_ref().try_into().unwrap())
                .with_sha256(sha(&SHA256).as_ref().try_into().unwrap())
                .with_sha512(sha(&SHA512).as_ref().try_into().unwrap())
                .with_xxhash64(XxHash64::oneshot(0, &whole))
                .with_xxhash3(XxHash3_64::oneshot(&whole))
                .with_xxhash128(XxHash3_128::oneshot(&whole));
            prop_assert_eq!(pipeline.finish(), expected);
        }
    }
}
