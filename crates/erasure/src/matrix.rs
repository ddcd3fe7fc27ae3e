//! The coefficients: the Cauchy parity matrix, and rows that compute missing shards from the
//! remaining ones.
//!
//! The matrix is part of the disk format (`docs/formats/erasure.md`). With x = {k..k+m} and y =
//! {0..k} disjoint, coefficient (x, y) = 1/(x + y) is a Cauchy matrix (+ is XOR in this field), so
//! every square part of it can be inverted, and any k shards of k+m are enough.

use crate::field::{inverse, multiply};
use crate::{DATA_SHARDS_MAX, PARITY_SHARDS_MAX, SHARDS_MAX};

/// The coefficients with which one input enters each of up to four outputs.
pub(crate) type Column = [u8; PARITY_SHARDS_MAX];

/// One column for each of up to sixteen inputs.
pub(crate) type Columns = [Column; DATA_SHARDS_MAX];

/// A set of shard indices, bit i for shard i.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardSet(pub(crate) u32);

impl ShardSet {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn contains(self, shard: usize) -> bool {
        self.0 >> shard & 1 != 0
    }

    /// Adds `shard`; says whether it was new.
    pub(crate) fn insert(&mut self, shard: usize) -> bool {
        let new = !self.contains(shard);
        self.0 |= 1 << shard;
        new
    }

    /// The members, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..SHARDS_MAX).filter(move |&shard| self.contains(shard))
    }

    /// How many members are smaller than `shard`.
    pub(crate) const fn rank(self, shard: usize) -> usize {
        (self.0 & ((1 << shard) - 1)).count_ones() as usize
    }
}

/// The coefficient of data shard `data` in shard `row` (k <= row < k+m).
pub(crate) fn coefficient(row: usize, data: usize) -> u8 {
    inverse((row ^ data) as u8)
}

/// The columns that compute all m parity shards from the k data shards.
pub(crate) fn parity_columns(k: usize, m: usize) -> Columns {
    let mut columns = Columns::default();
    for (data, column) in columns.iter_mut().enumerate().take(k) {
        for (row, value) in column.iter_mut().enumerate().take(m) {
            *value = coefficient(k + row, data);
        }
    }
    columns
}

/// The columns that compute the `wanted` shards, ascending, from the k shards in `from`, ascending.
/// The sets are disjoint, `from` has k members and `wanted` at most m.
pub(crate) fn recovery_columns(k: usize, from: ShardSet, wanted: ShardSet) -> Columns {
    debug_assert_eq!(from.0.count_ones() as usize, k);
    debug_assert_eq!(from.0 & wanted.0, 0);

    // As many parity shards are used as data shards are missing: e of each, e <= m.
    let mut missing = [0; PARITY_SHARDS_MAX];
    let mut parity = [0; PARITY_SHARDS_MAX];
    let mut e = 0;
    for data in (0..k).filter(|&data| !from.contains(data)) {
        missing[e] = data;
        e += 1;
    }
    for (slot, row) in parity.iter_mut().zip(from.iter().filter(|&s| s >= k)) {
        *slot = row;
    }

    // parity[a] + sum over data that are left = sum over b of square[a][b] * missing[b].
    let mut square = Square::default();
    for (a, line) in square.iter_mut().enumerate().take(e) {
        for (b, value) in line.iter_mut().enumerate().take(e) {
            *value = coefficient(parity[a], missing[b]);
        }
    }
    let solved = invert(square, e);

    // lost[b][input] computes the b-th missing data shard.
    let mut lost = [[0; DATA_SHARDS_MAX]; PARITY_SHARDS_MAX];
    for (b, line) in lost.iter_mut().enumerate().take(e) {
        for (input, shard) in from.iter().enumerate() {
            line[input] = match parity[..e].iter().position(|&row| row == shard) {
                Some(a) => solved[b][a],
                None => (0..e).fold(0, |sum, a| {
                    sum ^ multiply(solved[b][a], coefficient(parity[a], shard))
                }),
            };
        }
    }

    let mut columns = Columns::default();
    for (output, shard) in wanted.iter().enumerate() {
        for (input, source) in from.iter().enumerate() {
            columns[input][output] = if shard < k {
                lost[missing[..e]
                    .iter()
                    .position(|&s| s == shard)
                    .expect("wanted is not in from")][input]
            } else {
                let own = if source < k {
                    coefficient(shard, source)
                } else {
                    0
                };
                (0..e).fold(own, |sum, b| {
                    sum ^ multiply(coefficient(shard, missing[b]), lost[b][input])
                })
            };
        }
    }
    columns
}

type Square = [[u8; PARITY_SHARDS_MAX]; PARITY_SHARDS_MAX];

/// The inverse of the upper left `e` by `e` part of a Cauchy matrix (Gauss-Jordan).
fn invert(mut square: Square, e: usize) -> Square {
    let mut result = Square::default();
    for (a, line) in result.iter_mut().enumerate() {
        line[a] = 1;
    }
    for step in 0..e {
        let pivot = (step..e)
            .find(|&a| square[a][step] != 0)
            .expect("every square part of a Cauchy matrix can be inverted");
        square.swap(step, pivot);
        result.swap(step, pivot);
        let scale = inverse(square[step][step]);
        for b in 0..e {
            square[step][b] = multiply(square[step][b], scale);
            result[step][b] = multiply(result[step][b], scale);
        }
        for a in (0..e).filter(|&a| a != step) {
            let factor = square[a][step];
            for b in 0..e {
                square[a][b] ^= multiply(factor, square[step][b]);
                result[a][b] ^= multiply(factor, result[step][b]);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_those_of_the_format() {
        // Written out in docs/formats/erasure.md.
        let row = |k: usize, i: usize| (0..k).map(|j| coefficient(i, j)).collect::<Vec<_>>();
        assert_eq!(row(1, 1), [0x01]);
        assert_eq!(row(4, 4), [0x47, 0xa7, 0x7a, 0xba]);
        assert_eq!(row(4, 5), [0xa7, 0x47, 0xba, 0x7a]);
    }

    /// Every set of survivors of every layout gives rows that reproduce the unit vectors and
    /// parity rows of what was lost: the algebra, without any data.
    #[test]
    fn recovery_rows_reproduce_the_lost_rows() {
        for k in 1..=DATA_SHARDS_MAX {
            for m in 0..=PARITY_SHARDS_MAX {
                let row = |shard: usize, j: usize| match shard {
                    s if s < k => u8::from(s == j),
                    s => coefficient(s, j),
                };
                for lost in (0..1u32 << (k + m)).filter(|l| l.count_ones() as usize == m) {
                    let from = ShardSet(((1 << (k + m)) - 1) & !lost);
                    let columns = recovery_columns(k, from, ShardSet(lost));
                    for (output, shard) in ShardSet(lost).iter().enumerate() {
                        for j in 0..k {
                            let sum = from.iter().enumerate().fold(0, |sum, (input, source)| {
                                sum ^ multiply(columns[input][output], row(source, j))
                            });
                            assert_eq!(sum, row(shard, j), "{k}+{m} lost {lost:b} shard {shard}");
                        }
                    }
                }
            }
        }
    }
}
