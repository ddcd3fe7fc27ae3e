//! Reed-Solomon codec over GF(2^8): Dewar's on-disk parity format.
//!
//! What parity is, bit by bit, stands in `docs/formats/erasure.md` and never changes: bytes that
//! any version of Dewar wrote are decoded by every later one. In short: field polynomial 0x11d,
//! systematic, parity row i (k <= i < k+m) has the coefficient inverse(i XOR j) for data shard j,
//! which is the matrix of ISA-L's `gf_gen_cauchy1_matrix`.
//!
//! The order of work is: [`Codec`] checks what it was given and chooses coefficients
//! (`matrix`), cuts slices of unequal length into stretches where they are equal, and hands each
//! stretch to the [`Kernel`] that was found fastest for this processor. A kernel reads every input
//! once and keeps up to four outputs in registers, so data streams through at the speed of the
//! cache or memory it comes from; no intermediate buffer exists, and nothing is allocated.
//!
//! Nothing here blocks, allocates per call or can be cancelled half way: all calls are plain
//! functions over slices. A call that returns an error has written no output byte.

mod codec;
mod error;
mod field;
mod matrix;
mod patterns;

pub use codec::{Codec, Kernel};
pub use error::Error;

/// The most data shards a codec has.
pub const DATA_SHARDS_MAX: usize = 16;
/// The most parity shards a codec has.
pub const PARITY_SHARDS_MAX: usize = 4;
/// The most shards in all.
pub const SHARDS_MAX: usize = DATA_SHARDS_MAX + PARITY_SHARDS_MAX;
