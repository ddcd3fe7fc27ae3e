//! Arithmetic in GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), and the tables of
//! constants for the kernels. All tables are made at compile time.
//!
//! A byte is the polynomial whose coefficient of x^i is bit i (bit 0 the least significant).

/// The field polynomial without its leading term.
const POLYNOMIAL: u8 = 0x1d;

/// a times b, bit by bit: the definition all else is made from.
pub(crate) const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut power = a;
    let mut left = b;
    while left != 0 {
        if left & 1 != 0 {
            product ^= power;
        }
        let carry = power & 0x80 != 0;
        power <<= 1;
        if carry {
            power ^= POLYNOMIAL;
        }
        left >>= 1;
    }
    product
}

/// The inverse of each element; 0, which has none, maps to 0.
static INVERSES: [u8; 256] = inverses();

const fn inverses() -> [u8; 256] {
    // a^254 = a^-1, as a^255 = 1 for every a but 0.
    let mut table = [0; 256];
    let mut a = 1;
    while a < 256 {
        let mut power = a as u8;
        let mut result = 1;
        let mut exponent = 254;
        while exponent != 0 {
            if exponent & 1 != 0 {
                result = multiply(result, power);
            }
            power = multiply(power, power);
            exponent >>= 1;
        }
        table[a] = result;
        a += 1;
    }
    table
}

/// The inverse of `a`. `a` is not 0: the coefficients of a Cauchy matrix never ask for that.
pub(crate) fn inverse(a: u8) -> u8 {
    debug_assert_ne!(a, 0, "0 has no inverse");
    INVERSES[a as usize]
}

/// For each constant c, c times 0..=15 and then c times 0x00, 0x10, .., 0xf0: two 16-byte tables
/// for byte shuffles, since c*x = c*(x & 0x0f) + c*(x & 0xf0).
pub(crate) static NIBBLES: [[u8; 32]; 256] = nibbles();

const fn nibbles() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        let mut n = 0;
        while n < 16 {
            table[c][n] = multiply(c as u8, n as u8);
            table[c][16 + n] = multiply(c as u8, (n << 4) as u8);
            n += 1;
        }
        c += 1;
    }
    table
}

/// For each constant c the 8x8 bit matrix of "multiply by c" in the order of GF2P8AFFINEQB: byte
/// 7-i of the little-endian word is the row that makes result bit i; bit j of a row takes input
/// bit j.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) static AFFINE: [u64; 256] = affine();

#[cfg(any(target_arch = "x86_64", test))]
const fn affine() -> [u64; 256] {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        let mut j = 0;
        while j < 8 {
            let column = multiply(c as u8, 1 << j);
            let mut i = 0;
            while i < 8 {
                if column >> i & 1 != 0 {
                    table[c] |= 1 << ((7 - i) * 8 + j);
                }
                i += 1;
            }
            j += 1;
        }
        c += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_field_of_0x11d() {
        // x * x^7 = x^8 = x^4 + x^3 + x^2 + 1, and 2 generates all 255 elements but 0.
        assert_eq!(multiply(2, 0x80), 0x1d);
        let mut seen = [false; 256];
        let mut power = 1;
        for _ in 0..255 {
            assert!(!seen[power as usize]);
            seen[power as usize] = true;
            power = multiply(power, 2);
        }
        assert_eq!(power, 1);
        assert!(!seen[0]);
    }

    #[test]
    fn inverses_invert() {
        assert_eq!(INVERSES[0], 0);
        for a in 1..=255 {
            assert_eq!(multiply(a, inverse(a)), 1, "{a}");
        }
    }

    #[test]
    fn nibble_tables_multiply() {
        for c in 0..=255u8 {
            let table = &NIBBLES[c as usize];
            for x in 0..=255u8 {
                let sum = table[x as usize & 15] ^ table[16 + (x >> 4) as usize];
                assert_eq!(sum, multiply(c, x), "{c} times {x}");
            }
        }
    }

    #[test]
    fn bit_matrices_multiply() {
        for c in 0..=255u8 {
            let rows = AFFINE[c as usize].to_le_bytes();
            for x in 0..=255u8 {
                let bit = |i: usize| ((rows[7 - i] & x).count_ones() as u8 & 1) << i;
                let product = (0..8).map(bit).fold(0, |sum, bit| sum | bit);
                assert_eq!(product, multiply(c, x), "{c} times {x}");
            }
        }
    }
}
