//! MD5 of 8 streams in AVX2 registers, and the moves that the 8-lane form of AVX-512 shares.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::BLOCK;
use super::simd_lanes::{SimdLane, rows};
use super::steps::{early, md5_steps};

/// One step. As in the scalar form, the half of g that does not wait for the newest word is added beforehand.
macro_rules! step {
    ([$m:ident] f, $a:ident, $b:ident, $c:ident, $d:ident, $w:literal, $k:literal, $s:literal) => {
        let function = _mm256_xor_si256($d, _mm256_and_si256($b, _mm256_xor_si256($c, $d)));
        step!(@ $a, $b, word!($m, $w, $k), function, $s);
    };
    ([$m:ident] g, $a:ident, $b:ident, $c:ident, $d:ident, $w:literal, $k:literal, $s:literal) => {
        let word = _mm256_add_epi32(word!($m, $w, $k), _mm256_andnot_si256($d, $c));
        step!(@ $a, $b, word, _mm256_and_si256($b, $d), $s);
    };
    ([$m:ident] h, $a:ident, $b:ident, $c:ident, $d:ident, $w:literal, $k:literal, $s:literal) => {
        let function = _mm256_xor_si256($b, _mm256_xor_si256($c, $d));
        step!(@ $a, $b, word!($m, $w, $k), function, $s);
    };
    ([$m:ident] i, $a:ident, $b:ident, $c:ident, $d:ident, $w:literal, $k:literal, $s:literal) => {
        let not_d = _mm256_xor_si256($d, _mm256_set1_epi32(-1));
        let function = _mm256_xor_si256($c, _mm256_or_si256($b, not_d));
        step!(@ $a, $b, word!($m, $w, $k), function, $s);
    };
    (@ $a:ident, $b:ident, $word:expr, $function:expr, $s:literal) => {
        let mut sum = _mm256_add_epi32($a, $word);
        early!(ymm_reg, sum);
        let sum = _mm256_add_epi32(sum, $function);
        let turned = _mm256_or_si256(
            _mm256_slli_epi32::<$s>(sum),
            _mm256_srli_epi32::<{ 32 - $s }>(sum),
        );
        $a = _mm256_add_epi32(turned, $b);
    };
}

/// Message word and constant of a step.
macro_rules! word {
    ($m:ident, $w:literal, $k:literal) => {
        _mm256_add_epi32($m[$w], _mm256_set1_epi32($k as i32))
    };
}

/// Hashes `blocks` blocks of each of up to 8 lanes and moves the lanes on.
///
/// # Panics
/// If there are more than 8 lanes or one holds fewer blocks.
#[target_feature(enable = "avx2")]
pub(super) fn x8(lanes: &mut [SimdLane<'_>], blocks: usize) {
    let rows: [*const u8; 8] = rows(lanes, blocks);
    let [mut a, mut b, mut c, mut d] = load_states(lanes);
    for block in 0..blocks {
        // SAFETY: `rows` has checked that every row has `blocks` blocks.
        let m = unsafe { load_words(&rows, block) };
        let before = (a, b, c, d);
        md5_steps!(step[m], a, b, c, d);
        a = _mm256_add_epi32(a, before.0);
        b = _mm256_add_epi32(b, before.1);
        c = _mm256_add_epi32(c, before.2);
        d = _mm256_add_epi32(d, before.3);
    }
    store_states([a, b, c, d], lanes, blocks);
}

/// The four state words, each as a register of up to 8 lanes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_states(lanes: &[SimdLane<'_>]) -> [__m256i; 4] {
    let mut columns = [[0u32; 8]; 4];
    for (i, lane) in lanes.iter().enumerate() {
        for (column, word) in columns.iter_mut().zip(lane.state) {
            column[i] = word;
        }
    }
    // SAFETY: each column is 32 readable bytes; unaligned loads are asked for.
    columns.map(|column| unsafe { _mm256_loadu_si256(column.as_ptr().cast()) })
}

/// Puts the state words back and moves the lanes on by `blocks`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_states(state: [__m256i; 4], lanes: &mut [SimdLane<'_>], blocks: usize) {
    let columns = state.map(|vector| {
        let mut column = [0u32; 8];
        // SAFETY: the column is 32 writable bytes; an unaligned store is asked for.
        unsafe { _mm256_storeu_si256(column.as_mut_ptr().cast(), vector) };
        column
    });
    for (i, lane) in lanes.iter_mut().enumerate() {
        lane.advance(core::array::from_fn(|word| columns[word][i]), blocks);
    }
}

/// The sixteen words of block number `block` of eight rows, one register of eight lanes for each word.
///
/// # Safety
/// Every row must point to at least `block + 1` readable blocks.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_words(rows: &[*const u8; 8], block: usize) -> [__m256i; 16] {
    let mut m = [_mm256_setzero_si256(); 16];
    for half in 0..2 {
        let at = block * BLOCK + half * 32;
        // SAFETY: 32 bytes at `at` lie within the block that the caller vouches for.
        let r: [__m256i; 8] =
            core::array::from_fn(|i| unsafe { _mm256_loadu_si256(rows[i].add(at).cast()) });
        for quad in 0..2 {
            let interleave = |i: usize| {
                let (x, y) = (r[i], r[i + 1]);
                if quad == 0 {
                    _mm256_unpacklo_epi32(x, y)
                } else {
                    _mm256_unpackhi_epi32(x, y)
                }
            };
            let (r01, r23, r45, r67) = (interleave(0), interleave(2), interleave(4), interleave(6));
            let even_front = _mm256_unpacklo_epi64(r01, r23);
            let even_back = _mm256_unpacklo_epi64(r45, r67);
            let odd_front = _mm256_unpackhi_epi64(r01, r23);
            let odd_back = _mm256_unpackhi_epi64(r45, r67);
            let to = half * 8 + quad * 2;
            m[to] = _mm256_permute2x128_si256::<0x20>(even_front, even_back);
            m[to + 1] = _mm256_permute2x128_si256::<0x20>(odd_front, odd_back);
            m[to + 4] = _mm256_permute2x128_si256::<0x31>(even_front, even_back);
            m[to + 5] = _mm256_permute2x128_si256::<0x31>(odd_front, odd_back);
        }
    }
    m
}
