//! The bytes of a simulated file: the bytes that reads show, and those that a power failure may
//! leave.
//!
//! Pages of 4 KiB, shared until written. A page written since the last sync keeps its earlier
//! versions, the durable one first. At a power failure it falls back to any of them, or its sectors
//! of 512 bytes to different ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::sim::SimRng;

pub(super) const PAGE: u64 = 4096;
const PAGE_LEN: usize = 4096;
const SECTOR: usize = 512;

/// Versions of one page remembered between two syncs, the durable one included.
const VERSIONS_MAX: usize = 4;

type SharedPage = Arc<[u8; PAGE_LEN]>;

static ZEROS: [u8; PAGE_LEN] = [0; PAGE_LEN];

#[derive(Clone, Debug, Default)]
pub(super) struct FileContent {
    len: u64,
    durable_len: u64,
    /// Pages as reads show them; absent ones are zero.
    live: BTreeMap<u64, SharedPage>,
    /// Earlier versions of pages that are not durable yet.
    dirty: BTreeMap<u64, Vec<Option<SharedPage>>>,
    /// Pages that cannot be read until they are written again.
    bad: BTreeSet<u64>,
}

impl FileContent {
    /// Durable zeros.
    pub(super) fn zeroed(len: u64) -> Self {
        Self {
            len,
            durable_len: len,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes occupied on the medium.
    pub(super) fn allocated(&self) -> u64 {
        self.len.next_multiple_of(PAGE)
    }

    /// Whether something would be lost at a power failure.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.len != self.durable_len
    }

    /// Up to `len` bytes; `None` if a bad page is among them.
    pub(super) fn read(&self, offset: u64, len: usize) -> Option<Bytes> {
        let end = self.len.min(offset.saturating_add(len as u64));
        if offset >= end {
            return Some(Bytes::new());
        }
        let mut out = BytesMut::with_capacity(cut(end - offset));
        let mut at = offset;
        while at < end {
            let (page, within) = (at / PAGE, cut(at % PAGE));
            if self.bad.contains(&page) {
                return None;
            }
            let take = (PAGE_LEN - within).min(cut(end - at));
            let bytes = self.live.get(&page).map_or(&ZEROS, |p| &**p);
            out.extend_from_slice(&bytes[within..within + take]);
            at += take as u64;
        }
        Some(out.freeze())
    }

    /// Changes what reads show; durable after [`Self::settle`] or [`Self::settle_range`].
    pub(super) fn write(&mut self, offset: u64, mut data: &[u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let (number, within) = (at / PAGE, cut(at % PAGE));
            let take = (PAGE_LEN - within).min(data.len());
            let old = self.live.get(&number).cloned();
            let versions = self.dirty.entry(number).or_default();
            if versions.len() == VERSIONS_MAX {
                versions.remove(1);
            }
            versions.push(old.clone());
            let mut page = old.unwrap_or_else(|| Arc::new(ZEROS));
            Arc::make_mut(&mut page)[within..within + take].copy_from_slice(&data[..take]);
            self.live.insert(number, page);
            self.bad.remove(&number);
            data = &data[take..];
            at += take as u64;
        }
        self.len = self.len.max(at);
    }

    /// Everything written so far is durable.
    pub(super) fn settle(&mut self) {
        self.dirty.clear();
        self.durable_len = self.len;
    }

    /// The pages of a range are durable, and the length that reaches its end.
    pub(super) fn settle_range(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let end = offset + len;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            self.dirty.remove(&page);
        }
        self.durable_len = self.durable_len.max(end.min(self.len));
    }

    /// What a power failure leaves.
    pub(super) fn after_power_failure(&self, rng: &SimRng) -> Self {
        let len = match rng.below(3) {
            0 => self.durable_len,
            1 => self.len,
            _ => self.durable_len + rng.below(self.len - self.durable_len + 1),
        };
        let mut live = self.live.clone();
        for (&number, versions) in &self.dirty {
            match survivor(versions, self.live.get(&number), rng) {
                Some(page) => live.insert(number, page),
                None => live.remove(&number),
            };
        }
        live.split_off(&len.div_ceil(PAGE));
        if let Some(page) = live.get_mut(&(len / PAGE)) {
            Arc::make_mut(page)[cut(len % PAGE)..].fill(0);
        }
        Self {
            len,
            durable_len: len,
            live,
            dirty: BTreeMap::new(),
            bad: self.bad.clone(),
        }
    }

    /// Inverts a bit on the medium, in every version that may still come back.
    pub(super) fn flip(&mut self, offset: u64, bit: u32) {
        let (number, within) = (offset / PAGE, cut(offset % PAGE));
        let page = self.live.entry(number).or_insert_with(|| Arc::new(ZEROS));
        Arc::make_mut(page)[within] ^= 1 << (bit % 8);
        for page in self.dirty.get_mut(&number).into_iter().flatten() {
            let page = page.get_or_insert_with(|| Arc::new(ZEROS));
            Arc::make_mut(page)[within] ^= 1 << (bit % 8);
        }
    }

    /// The pages that were ever written, by number.
    pub(super) fn written(&self) -> Vec<u64> {
        self.live.keys().copied().collect()
    }

    /// Makes the pages of a range unreadable until they are written again.
    pub(super) fn spoil(&mut self, offset: u64, len: u64) {
        self.bad
            .extend(offset / PAGE..(offset + len).div_ceil(PAGE));
    }
}

/// One page after a power failure: any version whole, or sectors of several.
fn survivor(
    versions: &[Option<SharedPage>],
    live: Option<&SharedPage>,
    rng: &SimRng,
) -> Option<SharedPage> {
    let pick = |rng: &SimRng| -> Option<SharedPage> {
        let n = cut(rng.below(versions.len() as u64 + 1));
        versions.get(n).cloned().unwrap_or_else(|| live.cloned())
    };
    match rng.below(6) {
        0 => versions[0].clone(),
        1 => live.cloned(),
        2 => pick(rng),
        _ => {
            let mut torn = ZEROS;
            for sector in torn.chunks_mut(SECTOR).enumerate() {
                let (n, bytes) = sector;
                let from = pick(rng);
                let from = from.as_deref().unwrap_or(&ZEROS);
                bytes.copy_from_slice(&from[n * SECTOR..(n + 1) * SECTOR]);
            }
            // Few disks promise even whole sectors: now and then one is cut in the middle.
            if rng.below(8) == 0 {
                let n = cut(rng.below((PAGE_LEN / SECTOR) as u64));
                let middle = n * SECTOR + cut(rng.below(SECTOR as u64));
                let from = pick(rng);
                let from = from.as_deref().unwrap_or(&ZEROS);
                torn[middle..(n + 1) * SECTOR].copy_from_slice(&from[middle..(n + 1) * SECTOR]);
            }
            Some(Arc::new(torn))
        }
    }
}

/// Numbers bounded by a page, a buffer or a vector.
fn cut(n: u64) -> usize {
    usize::try_from(n).expect("a length in memory fits usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_across_pages() {
        let mut content = FileContent::default();
        content.write(4090, b"hello world");
        assert_eq!(content.len(), 4101);
        assert_eq!(content.read(4090, 100).unwrap(), "hello world");
        assert_eq!(content.read(4085, 6).unwrap(), &b"\0\0\0\0\0h"[..]);
        assert_eq!(content.read(4101, 1).unwrap(), "");
        content.spoil(5000, 1);
        assert!(content.read(0, 5000).is_none());
        content.write(4096, &[1; 4096]);
        assert!(content.read(0, 5000).is_some());
    }

    #[test]
    fn keeps_what_is_settled_and_may_lose_the_rest() {
        let mut content = FileContent::default();
        content.write(0, &[1; 8192]);
        content.settle();
        content.write(4096, &[2; 8192]);
        let (mut lost, mut kept, mut torn, mut cut_short) = (0, 0, 0, 0);
        for seed in 0..200 {
            let after = content.after_power_failure(&SimRng::new(seed));
            assert_eq!(after.read(0, 4096).unwrap(), vec![1; 4096]);
            assert!(!after.is_dirty() && after.len() >= 8192);
            let page = after.read(4096, 4096).unwrap();
            let twos = page.iter().filter(|b| **b == 2).count();
            assert_eq!(page.iter().filter(|b| **b == 1).count(), 4096 - twos);
            match twos {
                0 => lost += 1,
                4096 => kept += 1,
                _ => torn += 1,
            }
            cut_short += u32::from(after.len() < 12288);
        }
        assert!(lost > 20 && kept > 20 && torn > 20 && cut_short > 20);
        content.settle_range(4096, 8192);
        let after = content.after_power_failure(&SimRng::new(1));
        assert_eq!(after.read(4096, 9000).unwrap(), vec![2; 8192]);
    }
}
