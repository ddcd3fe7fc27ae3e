//! TEMPORARY shard format
use bytes::Bytes;
use dewar_types::{BlobId, ByteRange, DiskId, Layout, PAGE_BYTES, Timestamp};
pub(crate) const PAGES_PER_RUN: u64 = 1024;
pub(crate) fn slots_offset(run: u64) -> u64 {
    4096 + run * 1025 * 4096
}
pub(crate) fn page_offset(page: u64) -> u64 {
    slots_offset(page / 1024) + 4096 + (page % 1024) * PAGE_BYTES as u64
}
pub(crate) struct Slot {
    pub(crate) blob: BlobId,
    pub(crate) generation: u32,
    pub(crate) shard: u8,
    pub(crate) page: u64,
}
impl Slot {
    pub(crate) fn seal(&self, crc: u32) -> u32 {
        let mut x = self.blob.0
            ^ (u64::from(self.generation) << 32)
            ^ (u64::from(self.shard) << 56)
            ^ self.page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        crc ^ (x >> 32) as u32
    }
}
pub(crate) struct ShardHeader {
    pub(crate) dewar: u128,
    pub(crate) disk: DiskId,
    pub(crate) pool: u16,
    pub(crate) blob: BlobId,
    pub(crate) generation: u32,
    pub(crate) shard: u8,
    pub(crate) layout: Layout,
    pub(crate) len: u64,
    pub(crate) created: Timestamp,
    pub(crate) describe: Bytes,
}
impl ShardHeader {
    pub(crate) const DESCRIBE_BYTES_MAX: usize = 3072;
    pub(crate) fn encode(&self) -> Vec<u8> {
        let _ = (
            self.dewar,
            self.disk,
            self.pool,
            self.blob,
            self.generation,
            self.shard,
            self.layout,
            self.len,
            self.created,
        );
        let mut v = self.describe.to_vec();
        v.resize(4096, 0);
        v
    }
}
pub(crate) fn shard_len(layout: Layout, len: u64, shard: usize) -> u64 {
    let stripe = layout.stripe_bytes();
    let unit = u64::from(layout.unit);
    let full = len / stripe * unit;
    let rest = len % stripe;
    let s = if shard < usize::from(layout.k) {
        shard as u64
    } else {
        0
    };
    full + rest.saturating_sub(s * unit).min(unit)
}
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) shard: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}
pub(crate) fn pieces(layout: Layout, range: ByteRange) -> impl Iterator<Item = Piece> {
    let unit = u64::from(layout.unit);
    let mut at = range.start;
    core::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let u = at / unit;
        let shard = (u % u64::from(layout.k)) as usize;
        let offset = u / u64::from(layout.k) * unit + at % unit;
        let len = (unit - at % unit).min(range.end - at);
        at += len;
        Some(Piece { shard, offset, len })
    })
}
