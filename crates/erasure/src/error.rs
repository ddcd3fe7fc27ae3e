//! Errors of the codec. Every case is a mistake of the caller or a loss of too many shards; none
//! depends on the bytes.

use thiserror::Error;

use crate::{DATA_SHARDS_MAX, Kernel, PARITY_SHARDS_MAX};

/// The reason why a codec refuses a call.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// k or m outside the limits of the format.
    #[error("{k}+{m} is no layout: k is 1 to {DATA_SHARDS_MAX}, m 0 to {PARITY_SHARDS_MAX}")]
    Layout {
        /// Requested data shards.
        k: usize,
        /// Requested parity shards.
        m: usize,
    },
    /// The processor lacks the instructions of the kernel that was requested by name.
    #[error("this processor cannot run the {0} kernel")]
    KernelUnsupported(Kernel),
    /// Not exactly k data slices.
    #[error("{got} data slices given, the layout has {expected}")]
    DataCount {
        /// k.
        expected: usize,
        /// Slices given.
        got: usize,
    },
    /// Not exactly m parity slices.
    #[error("{got} parity slices given, the layout has {expected}")]
    ParityCount {
        /// m.
        expected: usize,
        /// Slices given.
        got: usize,
    },
    /// A parity slice is not as long as the longest data slice.
    #[error(
        "shard {shard} is a parity slice of {got} bytes, the longest data slice has {expected}"
    )]
    ParityLength {
        /// Index of the parity shard, k to k+m-1.
        shard: usize,
        /// Length of the longest data slice.
        expected: usize,
        /// Length of the parity slice.
        got: usize,
    },
    /// A shard index of k+m or more.
    #[error("shard {shard} named, the layout has {shards}")]
    ShardIndex {
        /// The index.
        shard: usize,
        /// k+m.
        shards: usize,
    },
    /// A shard is twice among the present or the wanted ones, or in both.
    #[error("shard {shard} is named twice")]
    ShardTwice {
        /// The index.
        shard: usize,
    },
    /// Fewer than k shards are left.
    #[error("{got} shards are present, {needed} are needed")]
    TooFewShards {
        /// k.
        needed: usize,
        /// Shards given.
        got: usize,
    },
    /// Not one output slice for each wanted shard.
    #[error("{outputs} output slices given for {wanted} wanted shards")]
    OutputCount {
        /// Shards wanted.
        wanted: usize,
        /// Output slices given.
        outputs: usize,
    },
    /// An output is longer than every shard from which it would be computed, so its end could only
    /// be padding. The caller passed a wrong length.
    #[error("{got} bytes wanted of shard {shard}, the longest present slice has {longest}")]
    OutputLength {
        /// The wanted shard.
        shard: usize,
        /// Length of the longest slice used.
        longest: usize,
        /// Length of the output.
        got: usize,
    },
}
