//! MD5 (RFC 1321), for one stream and for many streams at once.
//!
//! S3's ETags need MD5. Each of its steps depends on the step before, so a single stream costs
//! about a second per gigabyte on any machine. But registers are wide, and one step on 16
//! independent streams costs as much as one on a single stream. [`Md5`] is a single stream;
//! [`Md5Lanes`] batches the streams of a server; [`md5_many`] hashes bytes that are in memory
//! already.
//!
//! MD5 gives no protection against attackers. It is here because the protocols require it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod gather;
mod scalar;
mod simd_lanes;
mod steps;
#[cfg(test)]
mod tests;

pub use gather::{LaneUse, Md5Lanes, Md5Stream};

use simd_lanes::{Instructions, SimdLane, WIDEST};

/// Bytes that one run of the compression function takes.
pub(crate) const BLOCK: usize = 64;

/// The state before the first block.
const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// MD5 of `data`, at once.
#[must_use]
pub fn md5(data: &[u8]) -> [u8; 16] {
    let mut hasher = Md5::new();
    hasher.update(data);
    hasher.finish()
}

/// MD5 of each of `inputs`, in their order; many are hashed at once in the registers of this machine.
#[must_use]
pub fn md5_many(inputs: &[&[u8]]) -> Vec<[u8; 16]> {
    many(Instructions::detect(), inputs)
}

fn many(instructions: Instructions, inputs: &[&[u8]]) -> Vec<[u8; 16]> {
    let mut digests = vec![[0; 16]; inputs.len()];
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    // Neighbours of like length keep the lanes busy to the end.
    order.sort_by_key(|&i| inputs[i].len());
    for group in order.chunks(WIDEST) {
        let mut lanes: Vec<SimdLane<'_>> = group
            .iter()
            .map(|&owner| SimdLane {
                owner,
                state: INITIAL,
                data: whole_blocks(inputs[owner]).0,
            })
            .collect();
        instructions.hash_while(1, &mut lanes);
        for lane in lanes {
            let input = inputs[lane.owner];
            let (blocks, rest) = whole_blocks(input);
            let mut hasher = Md5 {
                state: lane.state,
                carry: [0; BLOCK],
                carried: 0,
                length: blocks.len() as u64,
            };
            hasher.update(rest);
            digests[lane.owner] = hasher.finish();
        }
    }
    digests
}

/// Splits off what does not fill a block.
fn whole_blocks(data: &[u8]) -> (&[u8], &[u8]) {
    data.split_at(data.len() - data.len() % BLOCK)
}

/// MD5 of one stream, hashed on the calling thread.
#[derive(Clone, Debug)]
pub struct Md5 {
    state: [u32; 4],
    /// The first `carried` bytes wait for their block to fill.
    carry: [u8; BLOCK],
    carried: usize,
    /// Bytes taken in so far, those in `carry` included.
    length: u64,
}

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

impl Md5 {
    /// A stream without bytes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: INITIAL,
            carry: [0; BLOCK],
            carried: 0,
            length: 0,
        }
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        let data = &data[self.fill_carry(data)..];
        let (blocks, rest) = whole_blocks(data);
        self.compress(blocks);
        self.keep(rest);
    }

    /// The digest of all bytes taken in.
    #[must_use]
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let mut padding = [0u8; 2 * BLOCK];
        padding[..self.carried].copy_from_slice(&self.carry[..self.carried]);
        padding[self.carried] = 0x80;
        let end = if self.carried < BLOCK - 8 {
            BLOCK
        } else {
            2 * BLOCK
        };
        padding[end - 8..end].copy_from_slice(&bits.to_le_bytes());
        scalar::compress(&mut self.state, &padding[..end]);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    /// Completes the block that waits, if one does, and hashes it once full; says how many bytes of `data` that took.
    /// Afterwards either nothing is carried or `data` is used up.
    fn fill_carry(&mut self, data: &[u8]) -> usize {
        if self.carried == 0 {
            return 0;
        }
        let taken = data.len().min(BLOCK - self.carried);
        self.keep(&data[..taken]);
        if self.carried == BLOCK {
            scalar::compress(&mut self.state, &self.carry);
            self.carried = 0;
        }
        taken
    }

    /// Hashes whole blocks here and now. Nothing may be carried.
    fn compress(&mut self, blocks: &[u8]) {
        if !blocks.is_empty() {
            debug_assert_eq!(self.carried, 0, "a block before these is not full");
            scalar::compress(&mut self.state, blocks);
            self.length += blocks.len() as u64;
        }
    }

    /// Takes the state after `length` more bytes, whole blocks, hashed elsewhere from this state on.
    fn resume(&mut self, state: [u32; 4], length: usize) {
        self.state = state;
        self.length += length as u64;
    }

    /// Keeps bytes until their block is full; they must fit.
    fn keep(&mut self, rest: &[u8]) {
        self.carry[self.carried..self.carried + rest.len()].copy_from_slice(rest);
        self.carried += rest.len();
        self.length += rest.len() as u64;
    }
}
