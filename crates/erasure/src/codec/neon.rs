//! Kernel for aarch64: a constant times a byte is the sum of two look-ups, one for each half of
//! the byte, and `TBL` looks up 16 bytes at once.
#![allow(unsafe_code)]

use core::arch::aarch64::*;

use super::pointers::with_pointers;
use super::scalar;
use crate::DATA_SHARDS_MAX;
use crate::field::NIBBLES;
use crate::matrix::Column;

/// Computes all outputs, 16 bytes to the vector, the tail byte by byte.
///
/// # Safety
/// The processor has NEON; all inputs and outputs have one length; there are as many columns as
/// inputs, at most 16, and at most 4 outputs.
#[target_feature(enable = "neon")]
pub(super) unsafe fn combine(columns: &[Column], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let length = outputs.first().map_or(0, |output| output.len());
    let done = with_pointers!(
        outputs,
        // SAFETY: what is asked for here is what the caller has promised.
        |pointers| unsafe { sums(pointers, length, columns, inputs) },
        0
    );
    scalar::combine(columns, inputs, outputs, done);
}

/// Vectors of each output in flight: 4 outputs x 4 vectors leave room for both halves of the
/// input and the two tables in 32 registers.
const WIDE: usize = 4;
const BYTES: usize = 16;

/// Computes whole groups of vectors and says how many bytes that were.
///
/// # Safety
/// As [`combine`]; each output is valid for writes of `length` bytes.
#[target_feature(enable = "neon")]
unsafe fn sums<const N: usize>(
    outputs: [*mut u8; N],
    length: usize,
    columns: &[Column],
    inputs: &[&[u8]],
) -> usize {
    // Copied side by side: looked up among all 256 they would lie on 64 cache lines.
    let mut tables = [[[0u8; 32]; N]; DATA_SHARDS_MAX];
    for (entry, column) in tables.iter_mut().zip(columns) {
        for (table, &coefficient) in entry.iter_mut().zip(column) {
            *table = NIBBLES[coefficient as usize];
        }
    }
    let low_half = vdupq_n_u8(0x0f);
    let mut at = 0;
    while length - at >= WIDE * BYTES {
        let mut sums = [[vdupq_n_u8(0); WIDE]; N];
        for (input, tables) in inputs.iter().zip(&tables) {
            let mut low = [vdupq_n_u8(0); WIDE];
            let mut high = [vdupq_n_u8(0); WIDE];
            for (v, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
                // SAFETY: at + WIDE vectors <= length, the length of every input.
                let bytes = unsafe { vld1q_u8(input.as_ptr().add(at + v * BYTES)) };
                *low = vandq_u8(bytes, low_half);
                *high = vshrq_n_u8::<4>(bytes);
            }
            for (sums, table) in sums.iter_mut().zip(tables) {
                // SAFETY: a table has two halves of 16 bytes.
                let (of_low, of_high) =
                    unsafe { (vld1q_u8(table.as_ptr()), vld1q_u8(table.as_ptr().add(16))) };
                for (v, sum) in sums.iter_mut().enumerate() {
                    let product =
                        veorq_u8(vqtbl1q_u8(of_low, low[v]), vqtbl1q_u8(of_high, high[v]));
                    *sum = veorq_u8(*sum, product);
                }
            }
        }
        for (&output, sums) in outputs.iter().zip(&sums) {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: at + WIDE vectors <= length, for which every output is valid.
                unsafe { vst1q_u8(output.add(at + v * BYTES), sum) };
            }
        }
        at += WIDE * BYTES;
    }
    at
}
