//! Kernels for x86-64 with GFNI: multiplication by a constant is one `GF2P8AFFINEQB`, a product of
//! an 8x8 bit matrix with every byte of a vector. The instruction that multiplies in GF(2^8) itself
//! (`GF2P8MULB`) cannot be used, because its polynomial is another one, 0x11b.
//!
//! Both kernels keep the sums of all outputs for a few vectors in registers and walk all inputs
//! side by side. Coefficients come as broadcast loads from a table on the stack. Loops are used
//! although iterator adapters would be shorter. Closures passed to functions that were compiled
//! without the vector features may not be inlined.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::pointers::with_pointers;
use super::scalar;
use crate::DATA_SHARDS_MAX;
use crate::field::AFFINE;
use crate::matrix::Column;

/// The bit matrices of N outputs for each input.
fn matrices<const N: usize>(columns: &[Column]) -> [[i64; N]; DATA_SHARDS_MAX] {
    let mut table = [[0; N]; DATA_SHARDS_MAX];
    for (entry, column) in table.iter_mut().zip(columns) {
        for (matrix, &coefficient) in entry.iter_mut().zip(column) {
            *matrix = AFFINE[coefficient as usize] as i64;
        }
    }
    table
}

/// Computes all outputs, 64 bytes to the vector, the tail under a mask.
///
/// # Safety
/// The processor has GFNI, AVX-512F and AVX-512BW; all inputs and outputs have one length; there
/// are as many columns as inputs, at most 16, and at most 4 outputs.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
pub(super) unsafe fn combine_512(columns: &[Column], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let length = outputs.first().map_or(0, |output| output.len());
    with_pointers!(
        outputs,
        // SAFETY: what is asked for here is what the caller has promised.
        |pointers| unsafe { sums_512(pointers, length, columns, inputs) },
        ()
    );
}

/// Vectors of each output in flight: 4 outputs x 4 vectors leave room for 4 vectors of input and
/// the coefficient in 32 registers.
const WIDE_512: usize = 4;
const BYTES_512: usize = 64;

/// # Safety
/// As [`combine_512`]; each output is valid for writes of `length` bytes.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn sums_512<const N: usize>(
    outputs: [*mut u8; N],
    length: usize,
    columns: &[Column],
    inputs: &[&[u8]],
) {
    let matrices = matrices::<N>(columns);
    let mut at = 0;
    while length - at >= WIDE_512 * BYTES_512 {
        let mut sums = [[_mm512_setzero_si512(); WIDE_512]; N];
        for (input, matrices) in inputs.iter().zip(&matrices) {
            let mut bytes = [_mm512_setzero_si512(); WIDE_512];
            for (v, bytes) in bytes.iter_mut().enumerate() {
                // SAFETY: at + WIDE_512 vectors <= length, the length of every input.
                let from = unsafe { input.as_ptr().add(at + v * BYTES_512) };
                // SAFETY: as above.
                *bytes = unsafe { _mm512_loadu_si512(from.cast()) };
            }
            for (sums, &matrix) in sums.iter_mut().zip(matrices) {
                let matrix = _mm512_set1_epi64(matrix);
                for (sum, &bytes) in sums.iter_mut().zip(&bytes) {
                    let product = _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrix);
                    *sum = _mm512_xor_si512(*sum, product);
                }
            }
        }
        for (&output, sums) in outputs.iter().zip(&sums) {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: at + WIDE_512 vectors <= length, for which every output is valid.
                unsafe { _mm512_storeu_si512(output.add(at + v * BYTES_512).cast(), sum) };
            }
        }
        at += WIDE_512 * BYTES_512;
    }
    while at < length {
        let here = (length - at).min(BYTES_512);
        let mask = u64::MAX >> (BYTES_512 - here);
        let mut sums = [_mm512_setzero_si512(); N];
        for (input, matrices) in inputs.iter().zip(&matrices) {
            // SAFETY: the mask leaves out all that is beyond `length`; such lanes are not touched.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, input.as_ptr().add(at).cast()) };
            for (sum, &matrix) in sums.iter_mut().zip(matrices) {
                let product = _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(matrix));
                *sum = _mm512_xor_si512(*sum, product);
            }
        }
        for (&output, &sum) in outputs.iter().zip(&sums) {
            // SAFETY: as for the load.
            unsafe { _mm512_mask_storeu_epi8(output.add(at).cast(), mask, sum) };
        }
        at += here;
    }
}

/// Computes all outputs, 32 bytes to the vector, the tail byte by byte.
///
/// # Safety
/// The processor has GFNI and AVX2; all inputs and outputs have one length; there are as many
/// columns as inputs, at most 16, and at most 4 outputs.
#[target_feature(enable = "gfni,avx2")]
pub(super) unsafe fn combine_256(columns: &[Column], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let length = outputs.first().map_or(0, |output| output.len());
    let done = with_pointers!(
        outputs,
        // SAFETY: what is asked for here is what the caller has promised.
        |pointers| unsafe { sums_256(pointers, length, columns, inputs) },
        0
    );
    scalar::combine(columns, inputs, outputs, done);
}

/// Vectors of each output in flight: 4 outputs x 2 vectors leave room for 2 vectors of input and
/// the coefficient in 16 registers.
const WIDE_256: usize = 2;
const BYTES_256: usize = 32;

/// Computes whole groups of vectors and says how many bytes that were.
///
/// # Safety
/// As [`combine_256`]; each output is valid for writes of `length` bytes.
#[target_feature(enable = "gfni,avx2")]
unsafe fn sums_256<const N: usize>(
    outputs: [*mut u8; N],
    length: usize,
    columns: &[Column],
    inputs: &[&[u8]],
) -> usize {
    let matrices = matrices::<N>(columns);
    let mut at = 0;
    while length - at >= WIDE_256 * BYTES_256 {
        let mut sums = [[_mm256_setzero_si256(); WIDE_256]; N];
        for (input, matrices) in inputs.iter().zip(&matrices) {
            let mut bytes = [_mm256_setzero_si256(); WIDE_256];
            for (v, bytes) in bytes.iter_mut().enumerate() {
                // SAFETY: at + WIDE_256 vectors <= length, the length of every input.
                let from = unsafe { input.as_ptr().add(at + v * BYTES_256) };
                // SAFETY: as above.
                *bytes = unsafe { _mm256_loadu_si256(from.cast()) };
            }
            for (sums, &matrix) in sums.iter_mut().zip(matrices) {
                let matrix = _mm256_set1_epi64x(matrix);
                for (sum, &bytes) in sums.iter_mut().zip(&bytes) {
                    let product = _mm256_gf2p8affine_epi64_epi8::<0>(bytes, matrix);
                    *sum = _mm256_xor_si256(*sum, product);
                }
            }
        }
        for (&output, sums) in outputs.iter().zip(&sums) {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: at + WIDE_256 vectors <= length, for which every output is valid.
                unsafe { _mm256_storeu_si256(output.add(at + v * BYTES_256).cast(), sum) };
            }
        }
        at += WIDE_256 * BYTES_256;
    }
    at
}
