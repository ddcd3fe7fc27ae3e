//! Choice of the kernel for a set of streams: one lane per stream, as many at once as the machine's
//! registers take.

use super::{BLOCK, scalar};

/// The most streams that any kernel hashes at once.
pub(super) const WIDEST: usize = 16;

/// A stream's state and the bytes, whole blocks, that it still has to take in.
pub(super) struct SimdLane<'a> {
    /// Whose lane it is; lanes get reordered.
    pub(super) owner: usize,
    pub(super) state: [u32; 4],
    pub(super) data: &'a [u8],
}

impl SimdLane<'_> {
    /// Takes the state that a kernel has computed from the next `blocks` blocks.
    pub(super) fn advance(&mut self, state: [u32; 4], blocks: usize) {
        self.state = state;
        self.data = &self.data[blocks * BLOCK..];
    }

    /// Hashes what is left without the help of lanes.
    pub(super) fn finish_alone(&mut self) {
        scalar::compress(&mut self.state, self.data);
        self.data = &[];
    }
}

/// Where the next `blocks` blocks of every lane begin. Positions without a lane repeat the first one: reading it again is
/// harmless, and what they compute is dropped.
///
/// # Panics
/// If there is no lane, more than `N`, or one that holds fewer blocks: the kernels rely on it for the safety of their loads.
pub(super) fn rows<const N: usize>(lanes: &[SimdLane<'_>], blocks: usize) -> [*const u8; N] {
    assert!(
        !lanes.is_empty() && lanes.len() <= N,
        "lanes fit the kernel"
    );
    assert!(
        lanes.iter().all(|lane| lane.data.len() / BLOCK >= blocks),
        "every lane holds the blocks to be hashed"
    );
    core::array::from_fn(|i| lanes.get(i).unwrap_or(&lanes[0]).data.as_ptr())
}

/// A set of instructions that a kernel is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// The kernel of every machine; one stream after the other.
    Plain,
    /// 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 16 or 8 lanes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The best that this machine has.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if Self::Avx512.available() {
                return Self::Avx512;
            }
            if Self::Avx2.available() {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// Whether this machine has them. The answer is remembered by the standard library; asking is one load.
    pub(super) fn available(self) -> bool {
        match self {
            Self::Plain => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }

    /// Fewer busy lanes than this are hashed one after the other. Measured: two lanes of a vector kernel take little longer
    /// than one stream in integer registers, one lane takes longer.
    fn fewest_together(self) -> usize {
        match self {
            Self::Plain => usize::MAX,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::Avx512 => 2,
        }
    }

    /// `blocks` blocks of each lane, 2 to 16 lanes.
    #[allow(unsafe_code)]
    fn together(self, lanes: &mut [SimdLane<'_>], blocks: usize) {
        assert!(self.available(), "instructions of this machine");
        match self {
            Self::Plain => {
                for lane in lanes {
                    let mut state = lane.state;
                    scalar::compress(&mut state, &lane.data[..blocks * BLOCK]);
                    lane.advance(state, blocks);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                for lanes in lanes.chunks_mut(8) {
                    // SAFETY: the instructions are there, as just checked.
                    unsafe { super::avx2::x8(lanes, blocks) };
                }
            }
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the instructions are there, as just checked.
            Self::Avx512 if lanes.len() <= 8 => unsafe { super::avx512::x8(lanes, blocks) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Avx512 => unsafe { super::avx512::x16(lanes, blocks) },
        }
    }

    /// Hashes what up to 16 lanes hold, of whatever lengths, until fewer than `fewest` (at least 1) still hold something.
    /// Reorders the lanes.
    ///
    /// Lanes fall out as they end; the rest go on in the kernel that suits their number.
    pub(super) fn hash_while(self, fewest: usize, lanes: &mut [SimdLane<'_>]) {
        assert!(lanes.len() <= WIDEST, "at most {WIDEST} lanes");
        lanes.sort_by_key(|lane| core::cmp::Reverse(lane.data.len()));
        let mut busy = lanes.len();
        loop {
            while busy > 0 && lanes[busy - 1].data.is_empty() {
                busy -= 1;
            }
            if busy < fewest.max(self.fewest_together()) {
                break;
            }
            let blocks = lanes[busy - 1].data.len() / BLOCK;
            self.together(&mut lanes[..busy], blocks);
        }
        if busy >= fewest {
            lanes[..busy].iter_mut().for_each(SimdLane::finish_alone);
        }
    }
}
