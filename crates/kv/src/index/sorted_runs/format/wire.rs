//! Numbers: little-endian at fixed positions, and variable ones (7 bits a byte, low bits first).

use super::Malformed;

/// A `u32` at a place; 0 behind the end, which callers have ruled out.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|b| b.first_chunk());
    word.map_or(0, |b| u32::from_le_bytes(*b))
}

/// A `u64` at a place; 0 behind the end, which callers have ruled out.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(|b| b.first_chunk());
    word.map_or(0, |b| u64::from_le_bytes(*b))
}

/// A number that was read and fits memory.
pub(super) fn size(n: u32) -> usize {
    n as usize
}

/// A length that the limits keep far below 4 GiB.
pub(super) fn short(n: usize) -> u32 {
    u32::try_from(n).expect("pieces are far below 4 GiB")
}

/// Appends a variable number.
pub(super) fn put_var(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Reads a variable number and moves on.
#[inline]
pub(super) fn take_var(bytes: &[u8], at: &mut usize) -> Result<u32, Malformed> {
    let first = *bytes.get(*at).ok_or(CUT)?;
    *at += 1;
    if first < 0x80 {
        return Ok(u32::from(first));
    }
    let mut n = u32::from(first & 0x7f);
    for shift in [7, 14, 21, 28] {
        let byte = *bytes.get(*at).ok_or(CUT)?;
        *at += 1;
        if shift == 28 && byte > 0x0f {
            return Err(Malformed("a number has more than 32 bits"));
        }
        n |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err(Malformed("a number has more than 32 bits"))
}

const CUT: Malformed = Malformed("it ends within an entry");
