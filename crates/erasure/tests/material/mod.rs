//! Bytes made from a seed, the same on every machine: what the known answers were computed from.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

/// SplitMix64, so that a test file can name its data by a number.
#[derive(Clone)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.word().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// Data shard j of `seed` is the stream that starts at seed + j.
pub fn data(seed: u64, lengths: &[usize]) -> Vec<Vec<u8>> {
    let shard = |(j, &length): (usize, &usize)| Stream::new(seed + j as u64).bytes(length);
    lengths.iter().enumerate().map(shard).collect()
}

pub fn slices(shards: &[Vec<u8>]) -> Vec<&[u8]> {
    shards.iter().map(Vec::as_slice).collect()
}

pub fn slices_mut(shards: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    shards.iter_mut().map(Vec::as_mut_slice).collect()
}

pub fn longest(shards: &[Vec<u8>]) -> usize {
    shards.iter().map(Vec::len).max().unwrap_or(0)
}
