//! The checksum of a page, bound to its position.
//!
//! A slot holds CRC-32C(stored bytes of the page) XOR mix(blob, generation, shard, page). An intact
//! page of another blob, an older encoding, another shard or another position does not verify,
//! except with a probability of 2^-32. Readers know the mix, so an XOR gives the plain CRC that
//! XRootD's page reads need.
//!
//! **A page that was never written does not verify.** In a hole of a file, or in allocated but
//! unwritten space, slot and page read as zeros. That pair would verify if the mix happened to
//! equal the CRC of zeros, so the mix avoids that one value (see [`PageKey::mix`]).
//!
//! A checksum page has no checksum of its own. A flipped bit in a slot makes only the page of that
//! slot fail. The page is then rebuilt with its slot like any bad page.

use core::fmt;

use dewar_checksum::crc32c;
use dewar_types::{BlobId, PAGE_BYTES};
use thiserror::Error;

use super::SLOT_BYTES;

/// CRC-32C of a whole page of zeros.
const CRC_OF_ZERO_PAGE: u32 = 0x98f9_4189;

static ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// A stored page that does not match its slot: damaged, never written, or from another position.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("page {page} of {key} fails its checksum: {found:08x} for {expected:08x}")]
pub struct PageError {
    /// The shard.
    pub key: PageKey,
    /// The page within the shard, from 0.
    pub page: u64,
    /// The CRC-32C that the slot promises.
    pub expected: u32,
    /// The CRC-32C of the bytes.
    pub found: u32,
}

/// Computes and verifies the slots of one shard's pages. Small and cheap to copy.
///
/// Pages are numbered from 0 within the shard. Only the last page of a shard may hold less than
/// [`PAGE_BYTES`], and no page is empty. Its checksum covers its real bytes alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PageKey {
    blob: BlobId,
    generation: u32,
    shard: u8,
    seed: u64,
}

/// SplitMix64's finaliser after its increment: a bijection in which every input bit changes every
/// output bit with probability close to one half, and which does not keep 0.
const fn scatter(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn crc_of_zeros(length: usize) -> u32 {
    if length == PAGE_BYTES {
        CRC_OF_ZERO_PAGE
    } else {
        crc32c(&ZERO_PAGE[..length])
    }
}

impl PageKey {
    /// The key of shard `shard` of generation `generation` of `blob`.
    #[must_use]
    pub const fn new(blob: BlobId, generation: u32, shard: u8) -> Self {
        let encoding = (generation as u64) << 32 | shard as u64;
        Self {
            blob,
            generation,
            shard,
            seed: scatter(scatter(blob.0) ^ encoding),
        }
    }

    /// The value that the CRC of page `page`, of `length` bytes, is XORed with. It is the upper
    /// half of scatter(seed XOR page). If that is the CRC of `length` zeros, it is that value XOR
    /// 1.
    ///
    /// # Panics
    /// When `length` is not 1 to [`PAGE_BYTES`].
    #[must_use]
    pub fn mix(&self, page: u64, length: usize) -> u32 {
        assert!(
            (1..=PAGE_BYTES).contains(&length),
            "a page of {length} bytes"
        );
        if !dewar_env::safeguard("pages know their place") {
            return 1;
        }
        let mix = (scatter(self.seed ^ page) >> 32) as u32;
        if mix == crc_of_zeros(length) {
            mix ^ 1
        } else {
            mix
        }
    }

    /// The slot of page `page` with these stored bytes.
    ///
    /// # Panics
    /// When there are no bytes, or more than [`PAGE_BYTES`].
    #[must_use]
    pub fn slot(&self, page: u64, bytes: &[u8]) -> u32 {
        crc32c(bytes) ^ self.mix(page, bytes.len())
    }

    /// The slot of page `page` of `length` bytes with a known CRC-32C, for example one that a page
    /// write sent. The same function returns the plain CRC when `crc` is a slot.
    ///
    /// # Panics
    /// When `length` is not 1 to [`PAGE_BYTES`].
    #[must_use]
    pub fn slot_of_crc(&self, page: u64, length: usize, crc: u32) -> u32 {
        crc ^ self.mix(page, length)
    }

    /// The plain CRC-32C of page `page` of `length` bytes, from its slot.
    ///
    /// # Panics
    /// When `length` is not 1 to [`PAGE_BYTES`].
    #[must_use]
    pub fn crc(&self, page: u64, length: usize, slot: u32) -> u32 {
        slot ^ self.mix(page, length)
    }

    /// Compares the bytes of page `page` with its slot; the plain CRC-32C if they agree.
    ///
    /// # Errors
    /// [`PageError`] when they do not.
    ///
    /// # Panics
    /// When there are no bytes, or more than [`PAGE_BYTES`].
    pub fn verify(&self, page: u64, bytes: &[u8], slot: u32) -> Result<u32, PageError> {
        let expected = self.crc(page, bytes.len(), slot);
        let found = crc32c(bytes);
        if found == expected || !dewar_env::safeguard("checksums of pages") {
            Ok(found)
        } else {
            Err(PageError {
                key: *self,
                page,
                expected,
                found,
            })
        }
    }

    /// Writes the slots of consecutive pages, the first of them `first_page`, in the form of a
    /// checksum page. Only the last page in `bytes` may be short.
    ///
    /// # Panics
    /// When `slots` has not [`SLOT_BYTES`] for each page.
    pub fn fill_slots(&self, first_page: u64, bytes: &[u8], slots: &mut [u8]) {
        assert_eq!(slots.len(), slot_bytes_for(bytes), "room for the slots");
        let pages = bytes
            .chunks(PAGE_BYTES)
            .zip(slots.chunks_exact_mut(SLOT_BYTES));
        for (page, (bytes, slot)) in (first_page..).zip(pages) {
            slot.copy_from_slice(&self.slot(page, bytes).to_le_bytes());
        }
    }

    /// Verifies consecutive pages, the first of them `first_page`, against their slots in the form
    /// of a checksum page. Only the last page in `bytes` may be short.
    ///
    /// # Errors
    /// [`PageError`] for the first page that fails.
    ///
    /// # Panics
    /// When `slots` has not [`SLOT_BYTES`] for each page.
    pub fn verify_pages(
        &self,
        first_page: u64,
        bytes: &[u8],
        slots: &[u8],
    ) -> Result<(), PageError> {
        assert_eq!(slots.len(), slot_bytes_for(bytes), "a slot for each page");
        let pages = bytes.chunks(PAGE_BYTES).zip(slots.chunks_exact(SLOT_BYTES));
        for (page, (bytes, slot)) in (first_page..).zip(pages) {
            self.verify(page, bytes, read_slot(slot))?;
        }
        Ok(())
    }
}

/// The slot in the first [`SLOT_BYTES`] of `bytes`.
///
/// # Panics
/// When there are fewer.
#[must_use]
pub(super) fn read_slot(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn slot_bytes_for(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(PAGE_BYTES) * SLOT_BYTES
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (blob, generation, shard) = (self.blob, self.generation, self.shard);
        write!(f, "shard {shard} of blob {blob} generation {generation}")
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PageKey = PageKey::new(BlobId(0x0001_0000_0000_002a), 7, 3);

    #[test]
    fn known_values() {
        // Computed by testdata/format-v1/make.py from docs/formats/shard.md.
        assert_eq!(scatter(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(crc32c(&ZERO_PAGE), CRC_OF_ZERO_PAGE);
        for (page, mix) in [
            (0, 0x8346_6425),
            (1, 0xa4eb_f943),
            (1023, 0xeafe_8c86),
            (1024, 0x6526_95af),
            (1 << 40, 0xf8e9_f5e2),
        ] {
            assert_eq!(KEY.mix(page, PAGE_BYTES), mix, "page {page}");
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_fails() {
        let bytes = [0x5a; PAGE_BYTES];
        let slot = KEY.slot(5, &bytes);
        assert_eq!(KEY.verify(5, &bytes, slot), Ok(crc32c(&bytes)));
        let wrong = [
            PageKey::new(BlobId(KEY.blob.0 + 1), 7, 3),
            PageKey::new(KEY.blob, 8, 3),
            PageKey::new(KEY.blob, 7, 2),
            PageKey::new(KEY.blob, 3, 7),
        ];
        for other in wrong {
            assert!(other.verify(5, &bytes, slot).is_err(), "{other}");
        }
        for page in (0..2000).filter(|&page| page != 5) {
            assert!(KEY.verify(page, &bytes, slot).is_err(), "page {page}");
        }
        assert!(KEY.verify(5, &bytes[1..], slot).is_err(), "a byte short");
    }

    #[test]
    fn every_flipped_bit_shows() {
        let mut bytes: Vec<u8> = (0..100).collect();
        let slot = KEY.slot(0, &bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(KEY.verify(0, &bytes, slot).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for bit in 0..32 {
            assert!(
                KEY.verify(0, &bytes, slot ^ 1 << bit).is_err(),
                "slot bit {bit}"
            );
        }
    }

    /// A key whose mix would be the CRC of zeros is found backwards through the bijection.
    #[test]
    fn zeros_under_a_zero_slot_fail_even_where_the_hash_would_have_it() {
        for length in [PAGE_BYTES, 1, 777] {
            let unlucky = PageKey {
                seed: gather(u64::from(crc_of_zeros(length)) << 32 | 0x1234) ^ 9,
                ..KEY
            };
            let hash = (scatter(unlucky.seed ^ 9) >> 32) as u32;
            assert_eq!(hash, crc_of_zeros(length), "the search went right");
            let zeros = &ZERO_PAGE[..length];
            assert!(unlucky.verify(9, zeros, 0).is_err());
            let slot = unlucky.slot(9, zeros);
            assert_eq!(slot, 1);
            assert_eq!(unlucky.verify(9, zeros, slot), Ok(crc32c(zeros)));
        }
        for page in 0..10_000 {
            assert!(KEY.verify(page, &ZERO_PAGE, 0).is_err(), "page {page}");
        }
    }

    /// The inverse of [`scatter`].
    fn gather(mut z: u64) -> u64 {
        let unshift = |z: u64, by: u32| {
            let mut x = z;
            for _ in 0..64 / by {
                x = z ^ (x >> by);
            }
            x
        };
        let inverse = |odd: u64| {
            (0..6).fold(odd, |x, _| {
                x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
            })
        };
        z = unshift(z, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        z = unshift(z, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        unshift(z, 30).wrapping_sub(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn scatter_scatters() {
        assert_eq!(gather(scatter(0xdead_beef)), 0xdead_beef);
        // One changed input bit changes about half of the 32 bits of a mix.
        let mut changed = 0;
        for bit in 0..64 {
            for page in 0..256 {
                let seed = scatter(page) ^ page;
                let bits = (scatter(seed) ^ scatter(seed ^ 1 << bit)) >> 32;
                changed += bits.count_ones();
            }
        }
        let mean = f64::from(changed) / f64::from(64 * 256);
        assert!((15.8..16.2).contains(&mean), "{mean}");
    }

    #[test]
    fn slots_of_many_pages() {
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES + 10).map(|n| (n / 7) as u8).collect();
        let mut slots = [0; 16];
        KEY.fill_slots(40, &bytes, &mut slots);
        assert_eq!(KEY.verify_pages(40, &bytes, &slots), Ok(()));
        assert_eq!(
            KEY.verify_pages(41, &bytes, &slots).map_err(|e| e.page),
            Err(41)
        );
        let mut bad = bytes.clone();
        bad[2 * PAGE_BYTES] ^= 4;
        let error = KEY.verify_pages(40, &bad, &slots).expect_err("damaged");
        assert_eq!(error.page, 42);
        assert!(
            error
                .to_string()
                .contains("page 42 of shard 3 of blob 000100000000002a"),
            "{error}"
        );
        let last = read_slot(&slots[12..]);
        assert_eq!(KEY.crc(43, 10, last), crc32c(&bytes[3 * PAGE_BYTES..]));
        assert_eq!(
            KEY.slot_of_crc(43, 10, crc32c(&bytes[3 * PAGE_BYTES..])),
            last
        );
    }
}
