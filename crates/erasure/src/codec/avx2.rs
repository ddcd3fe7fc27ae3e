//! Kernel for x86-64 with AVX2 but no GFNI: a constant times a byte is the sum of two look-ups,
//! one for each half of the byte, and `VPSHUFB` looks up 32 bytes at once.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::pointers::with_pointers;
use super::scalar;
use crate::DATA_SHARDS_MAX;
use crate::field::NIBBLES;
use crate::matrix::Column;

/// Computes all outputs, 32 bytes to the vector, the tail byte by byte.
///
/// # Safety
/// The processor has AVX2; all inputs and outputs have one length; there are as many columns as
/// inputs, at most 16, and at most 4 outputs.
#[target_feature(enable = "avx2")]
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

/// Vectors of each output in flight: 4 outputs x 2 vectors leave room for both halves of the
/// input and the two tables in 16 registers.
const WIDE: usize = 2;
const BYTES: usize = 32;

/// Computes whole groups of vectors and says how many bytes that were.
///
/// # Safety
/// As [`combine`]; each output is valid for writes of `length` bytes.
#[target_feature(enable = "avx2")]
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
    let low_half = _mm256_set1_epi8(0x0f);
    let mut at = 0;
    while length - at >= WIDE * BYTES {
        let mut sums = [[_mm256_setzero_si256(); WIDE]; N];
        for (input, tables) in inputs.iter().zip(&tables) {
            let mut low = [_mm256_setzero_si256(); WIDE];
            let mut high = [_mm256_setzero_si256(); WIDE];
            for (v, (low, high)) in low.iter_mut().zip(&mut high).enumerate() {
                // SAFETY: at + WIDE vectors <= length, the length of every input.
                let from = unsafe { input.as_ptr().add(at + v * BYTES) };
                // SAFETY: as above.
                let bytes = unsafe { _mm256_loadu_si256(from.cast()) };
                *low = _mm256_and_si256(bytes, low_half);
                *high = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), low_half);
            }
            for (sums, table) in sums.iter_mut().zip(tables) {
                // SAFETY: a table has two halves of 16 bytes.
                let (of_low, of_high) = unsafe {
                    (
                        _mm_loadu_si128(table.as_ptr().cast()),
                        _mm_loadu_si128(table.as_ptr().add(16).cast()),
                    )
                };
                let of_low = _mm256_broadcastsi128_si256(of_low);
                let of_high = _mm256_broadcastsi128_si256(of_high);
                for (v, sum) in sums.iter_mut().enumerate() {
                    let product = _mm256_xor_si256(
                        _mm256_shuffle_epi8(of_low, low[v]),
                        _mm256_shuffle_epi8(of_high, high[v]),
                    );
                    *sum = _mm256_xor_si256(*sum, product);
                }
            }
        }
        for (&output, sums) in outputs.iter().zip(&sums) {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: at + WIDE vectors <= length, for which every output is valid.
                unsafe { _mm256_storeu_si256(output.add(at + v * BYTES).cast(), sum) };
            }
        }
        at += WIDE * BYTES;
    }
    at
}
