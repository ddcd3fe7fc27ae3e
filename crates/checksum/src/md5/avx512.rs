//! MD5 in AVX-512 registers: 16 streams in one, 8 in half of one.
//!
//! Bitwise functions of three inputs are one instruction here, and so is a rotation. With 8 lanes
//! the dependency chain of the steps is the bottleneck, as for a single stream. With 16 lanes the
//! number of operations is. A single stream gains nothing here, since a vector rotation takes two
//! cycles and an integer one takes one.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::BLOCK;
use super::simd_lanes::{SimdLane, rows};
use super::steps::{early, md5_steps};

/// Truth tables of the four auxiliary functions, for operands in the order b, c, d.
const F: i32 = 0xca;
const G: i32 = 0xe4;
const H: i32 = 0x96;
const I: i32 = 0x39;

/// One step; the context names the message words, the kind of register and the intrinsics of its width.
macro_rules! step {
    ([$($x:ident)*] f, $a:ident, $($rest:tt)*) => { step!(@ F, [$($x)*] $a, $($rest)*) };
    ([$($x:ident)*] g, $a:ident, $($rest:tt)*) => { step!(@ G, [$($x)*] $a, $($rest)*) };
    ([$($x:ident)*] h, $a:ident, $($rest:tt)*) => { step!(@ H, [$($x)*] $a, $($rest)*) };
    ([$($x:ident)*] i, $a:ident, $($rest:tt)*) => { step!(@ I, [$($x)*] $a, $($rest)*) };
    (@ $table:ident, [$words:ident $register:ident $set1:ident $add:ident $rol:ident $ternary:ident]
     $a:ident, $b:ident, $c:ident, $d:ident, $m:literal, $k:literal, $s:literal) => {
        let mut sum = $add($a, $add($words[$m], $set1($k as i32)));
        early!($register, sum);
        $a = $add($rol::<$s>($add(sum, $ternary::<$table>($b, $c, $d))), $b);
    };
}

/// Hashes `blocks` blocks of each of up to 16 lanes and moves the lanes on.
///
/// # Panics
/// If there are more than 16 lanes or one holds fewer blocks.
#[target_feature(enable = "avx512f")]
pub(super) fn x16(lanes: &mut [SimdLane<'_>], blocks: usize) {
    let rows: [*const u8; 16] = rows(lanes, blocks);
    let mut columns = [[0u32; 16]; 4];
    for (i, lane) in lanes.iter().enumerate() {
        for (column, word) in columns.iter_mut().zip(lane.state) {
            column[i] = word;
        }
    }
    // SAFETY: each column is 64 readable bytes; unaligned loads are asked for.
    let load = |c: &[u32; 16]| unsafe { _mm512_loadu_si512(c.as_ptr().cast()) };
    let mut a = load(&columns[0]);
    let mut b = load(&columns[1]);
    let mut c = load(&columns[2]);
    let mut d = load(&columns[3]);

    for block in 0..blocks {
        // SAFETY: `rows` has checked that every row has `blocks` blocks.
        let m = transpose16(core::array::from_fn(|i| unsafe {
            _mm512_loadu_si512(rows[i].add(block * BLOCK).cast())
        }));
        let before = (a, b, c, d);
        md5_steps!(step [m zmm_reg _mm512_set1_epi32 _mm512_add_epi32 _mm512_rol_epi32 _mm512_ternarylogic_epi32], a, b, c, d);
        a = _mm512_add_epi32(a, before.0);
        b = _mm512_add_epi32(b, before.1);
        c = _mm512_add_epi32(c, before.2);
        d = _mm512_add_epi32(d, before.3);
    }

    for (column, vector) in columns.iter_mut().zip([a, b, c, d]) {
        // SAFETY: each column is 64 writable bytes; unaligned stores are asked for.
        unsafe { _mm512_storeu_si512(column.as_mut_ptr().cast(), vector) };
    }
    for (i, lane) in lanes.iter_mut().enumerate() {
        lane.advance(core::array::from_fn(|word| columns[word][i]), blocks);
    }
}

/// Turns 16 rows of 16 words into 16 columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose16(r: [__m512i; 16]) -> [__m512i; 16] {
    // Words 4L + j of the four rows of group g, for each 128-bit quarter L.
    let mut q = [_mm512_setzero_si512(); 16];
    for g in 0..4 {
        let r = &r[4 * g..4 * g + 4];
        let low01 = _mm512_unpacklo_epi32(r[0], r[1]);
        let high01 = _mm512_unpackhi_epi32(r[0], r[1]);
        let low23 = _mm512_unpacklo_epi32(r[2], r[3]);
        let high23 = _mm512_unpackhi_epi32(r[2], r[3]);
        q[4 * g] = _mm512_unpacklo_epi64(low01, low23);
        q[4 * g + 1] = _mm512_unpackhi_epi64(low01, low23);
        q[4 * g + 2] = _mm512_unpacklo_epi64(high01, high23);
        q[4 * g + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
    let mut m = [_mm512_setzero_si512(); 16];
    for j in 0..4 {
        let front01 = _mm512_shuffle_i32x4::<0x44>(q[j], q[4 + j]);
        let front23 = _mm512_shuffle_i32x4::<0x44>(q[8 + j], q[12 + j]);
        let back01 = _mm512_shuffle_i32x4::<0xee>(q[j], q[4 + j]);
        let back23 = _mm512_shuffle_i32x4::<0xee>(q[8 + j], q[12 + j]);
        m[j] = _mm512_shuffle_i32x4::<0x88>(front01, front23);
        m[4 + j] = _mm512_shuffle_i32x4::<0xdd>(front01, front23);
        m[8 + j] = _mm512_shuffle_i32x4::<0x88>(back01, back23);
        m[12 + j] = _mm512_shuffle_i32x4::<0xdd>(back01, back23);
    }
    m
}

/// Hashes `blocks` blocks of each of up to 8 lanes and moves the lanes on.
///
/// # Panics
/// If there are more than 8 lanes or one holds fewer blocks.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
pub(super) fn x8(lanes: &mut [SimdLane<'_>], blocks: usize) {
    let rows: [*const u8; 8] = rows(lanes, blocks);
    let [mut a, mut b, mut c, mut d] = super::avx2::load_states(lanes);
    for block in 0..blocks {
        // SAFETY: `rows` has checked that every row has `blocks` blocks.
        let m = unsafe { super::avx2::load_words(&rows, block) };
        let before = (a, b, c, d);
        md5_steps!(step [m ymm_reg _mm256_set1_epi32 _mm256_add_epi32 _mm256_rol_epi32 _mm256_ternarylogic_epi32], a, b, c, d);
        a = _mm256_add_epi32(a, before.0);
        b = _mm256_add_epi32(b, before.1);
        c = _mm256_add_epi32(c, before.2);
        d = _mm256_add_epi32(d, before.3);
    }
    super::avx2::store_states([a, b, c, d], lanes, blocks);
}
