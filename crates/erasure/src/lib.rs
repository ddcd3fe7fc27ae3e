//! Reed-Solomon codec over GF(2^8): Dewar's on-disk parity format.
//!
//! `docs/formats/erasure.md` defines the parity bit by bit. It never changes: bytes that any
//! version of Dewar wrote are decoded by every later one. In short: field polynomial 0x11d,
//! systematic, parity row i (k <= i < k+m) has the coefficient inverse(i XOR j) for data shard j.
//! This is the matrix of ISA-L's `gf_gen_cauchy1_matrix`.
//!
//! The order of work is as follows. [`Codec`] checks its input and chooses coefficients (`matrix`).
//! It cuts slices of unequal length into ranges of equal length, and passes each range to the
//! [`Kernel`] that is fastest on this processor. A kernel reads every input once and keeps up to
//! four outputs in registers. Data therefore streams at the speed of the cache or memory that it
//! comes from, without an intermediate buffer and without allocation.
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
