//! The reference kernel, for processors without a better one and for the tails of the others:
//! two table look-ups per byte and coefficient.

use crate::field::NIBBLES;
use crate::matrix::Column;

/// Bytes summed up before they are stored: small enough to stay in the first-level cache beside
/// the tables.
const BLOCK_BYTES: usize = 1024;

/// Computes the bytes of all outputs from position `start` on.
pub(super) fn combine(
    columns: &[Column],
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    start: usize,
) {
    for (row, output) in outputs.iter_mut().enumerate() {
        let mut at = start;
        for block in output[start..].chunks_mut(BLOCK_BYTES) {
            block.fill(0);
            for (column, input) in columns.iter().zip(inputs) {
                let products = &NIBBLES[column[row] as usize];
                for (sum, &byte) in block.iter_mut().zip(&input[at..]) {
                    *sum ^= products[byte as usize & 15] ^ products[16 + (byte >> 4) as usize];
                }
            }
            at += block.len();
        }
    }
}
