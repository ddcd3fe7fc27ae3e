//! CRC-32, CRC-32C and CRC-64/NVME by the widest instructions of the machine, and their combination.

mod combine;
#[cfg(test)]
mod tests;

use crc_fast::CrcAlgorithm;

/// Bytes of a page of the disk format (RECORDS.md 6) and of `root://`'s page reads.
const PAGE: u64 = 4096;

static BY_PAGE: combine::crc32c::Shift = combine::crc32c::Shift::by(PAGE);

/// CRC-32C of `data`.
#[inline]
#[must_use]
pub fn crc32c(data: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(data)
}

/// CRC-32 (ISO-HDLC, of zip) of `data`.
#[inline]
#[must_use]
pub fn crc32(data: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(data)
}

/// CRC-64/NVME of `data`.
#[inline]
#[must_use]
pub fn crc64nvme(data: &[u8]) -> u64 {
    crc_fast::crc64_nvme(data)
}

/// CRC-32C of a concatenation: `a` of the first part, `b` of the second, which has `length_b` bytes.
#[must_use]
pub fn crc32c_combine(a: u32, b: u32, length_b: u64) -> u32 {
    if length_b == PAGE {
        BY_PAGE.combine(a, b)
    } else {
        combine::crc32c::combine(a, b, length_b)
    }
}

/// CRC-32 of a concatenation: `a` of the first part, `b` of the second, which has `length_b` bytes.
#[must_use]
pub fn crc32_combine(a: u32, b: u32, length_b: u64) -> u32 {
    combine::crc32::combine(a, b, length_b)
}

/// CRC-64/NVME of a concatenation: `a` of the first part, `b` of the second, which has `length_b` bytes.
#[must_use]
pub fn crc64nvme_combine(a: u64, b: u64, length_b: u64) -> u64 {
    combine::crc64nvme::combine(a, b, length_b)
}

/// CRC-32C of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crc32c {
    crc: u32,
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32c {
    /// A stream without bytes.
    #[must_use]
    pub fn new() -> Self {
        Self { crc: 0 }
    }

    /// A stream that continues after bytes whose CRC is `crc`.
    #[must_use]
    pub fn resume(crc: u32) -> Self {
        Self { crc }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        self.crc = go_on(CrcAlgorithm::Crc32Iscsi, u64::from(!self.crc), data) as u32 ^ !0;
    }

    /// Appends `length` bytes of which only the CRC is known. For pages of 4 KiB this is faster
    /// than hashing them; for other lengths it takes up to a microsecond.
    pub fn append(&mut self, crc: u32, length: u64) {
        self.crc = crc32c_combine(self.crc, crc, length);
    }

    /// The CRC of all bytes taken in.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.crc
    }
}

/// CRC-32 of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crc32(u32);

impl Crc32 {
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0 = go_on(CrcAlgorithm::Crc32IsoHdlc, u64::from(!self.0), data) as u32 ^ !0;
    }

    pub(crate) fn value(&self) -> u32 {
        self.0
    }
}

/// The CRC of POSIX `cksum` of a stream: behind the bytes comes their number, in as many bytes as it needs, the least
/// significant first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PosixCksum {
    state: u64,
    length: u64,
}

impl PosixCksum {
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.state = go_on(CrcAlgorithm::Crc32Cksum, self.state, data);
        self.length += data.len() as u64;
    }

    pub(crate) fn value(&self) -> u32 {
        let significant = 8 - self.length.leading_zeros() as usize / 8;
        let length = &self.length.to_le_bytes()[..significant];
        !(go_on(CrcAlgorithm::Crc32Cksum, self.state, length) as u32)
    }
}

/// CRC-64/NVME of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crc64Nvme(u64);

impl Crc64Nvme {
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.0 = go_on(CrcAlgorithm::Crc64Nvme, !self.0, data) ^ !0;
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }
}

/// The raw state after `data`; the value at the end is its complement.
fn go_on(algorithm: CrcAlgorithm, state: u64, data: &[u8]) -> u64 {
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, state);
    digest.update(data);
    digest.get_state()
}
