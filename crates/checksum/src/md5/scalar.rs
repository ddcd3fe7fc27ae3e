//! MD5 of one stream in plain integer registers, for every machine.
#![allow(unsafe_code)]

use super::BLOCK;
use super::steps::{early, md5_steps};

/// Runs the compression function over `blocks`, a whole number of blocks.
pub(super) fn compress(state: &mut [u32; 4], blocks: &[u8]) {
    debug_assert!(blocks.len().is_multiple_of(BLOCK));
    let [mut a, mut b, mut c, mut d] = *state;
    for block in blocks.as_chunks::<BLOCK>().0 {
        let (words, _) = block.as_chunks::<4>();
        let m: [u32; 16] = core::array::from_fn(|i| u32::from_le_bytes(words[i]));
        let before = [a, b, c, d];

        // g is written as a sum of two disjoint halves: the half that does not wait for the newest word is added beforehand,
        // which takes one operation off the chain that bounds the speed of a lone stream.
        macro_rules! step {
            ([] f, $a:ident, $b:ident, $c:ident, $d:ident, $m:literal, $k:literal, $s:literal) => {
                step!(@ $a, $b, $a.wrapping_add($k).wrapping_add(m[$m]), $d ^ ($b & ($c ^ $d)), $s);
            };
            ([] g, $a:ident, $b:ident, $c:ident, $d:ident, $m:literal, $k:literal, $s:literal) => {
                step!(
                    @ $a, $b,
                    $a.wrapping_add($k).wrapping_add(m[$m]).wrapping_add($c & !$d),
                    $b & $d, $s
                )
            };
            ([] h, $a:ident, $b:ident, $c:ident, $d:ident, $m:literal, $k:literal, $s:literal) => {
                step!(@ $a, $b, $a.wrapping_add($k).wrapping_add(m[$m]), $b ^ ($c ^ $d), $s)
            };
            ([] i, $a:ident, $b:ident, $c:ident, $d:ident, $m:literal, $k:literal, $s:literal) => {
                step!(@ $a, $b, $a.wrapping_add($k).wrapping_add(m[$m]), $c ^ ($b | !$d), $s)
            };
            (@ $a:ident, $b:ident, $sum:expr, $function:expr, $s:literal) => {
                #[allow(unused_mut)]
                let mut sum: u32 = $sum;
                early!(reg, sum);
                $a = sum.wrapping_add($function).rotate_left($s).wrapping_add($b);
            };
        }
        md5_steps!(step [], a, b, c, d);

        a = a.wrapping_add(before[0]);
        b = b.wrapping_add(before[1]);
        c = c.wrapping_add(before[2]);
        d = d.wrapping_add(before[3]);
    }
    *state = [a, b, c, d];
}
