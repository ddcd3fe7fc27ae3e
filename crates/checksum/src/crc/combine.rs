//! The CRC of a concatenation from the CRCs of its parts.
//!
//! All three CRCs here are reflected, start from all ones and invert at the end. For these, the CRC
//! of `a` followed by `b` is `crc(a) * x^(8 len(b)) + crc(b)` over GF(2) modulo the polynomial. A
//! polynomial is stored with the coefficient of the highest power in the lowest bit, as the CRC
//! itself is.

/// Defines the arithmetic of one width. `$reflected` is the polynomial without its highest term, lowest power in the highest bit.
macro_rules! combination {
    ($module:ident, $word:ty, $reflected:literal) => {
        pub(super) mod $module {
            const POLYNOMIAL: $word = $reflected;
            const ONE: $word = 1 << (<$word>::BITS - 1);

            /// x^(8 * 2^k) for each bit k of a length.
            const POWERS: [$word; 64] = {
                let mut powers = [0; 64];
                // x^8; then each is the square of the one before.
                let mut power: $word = ONE >> 8;
                let mut k = 0;
                while k < powers.len() {
                    powers[k] = power;
                    power = multiply(power, power);
                    k += 1;
                }
                powers
            };

            /// The product modulo the polynomial.
            const fn multiply(a: $word, mut b: $word) -> $word {
                let mut product = 0;
                let mut bit = ONE;
                while bit != 0 {
                    // A mask instead of a branch: the bits are as good as random.
                    product ^= b & ((a & bit != 0) as $word).wrapping_neg();
                    b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
                    bit >>= 1;
                }
                product
            }

            /// x^(8 * length).
            pub(crate) const fn power(length: u64) -> $word {
                let mut power = ONE;
                let mut k = 0;
                while k < 64 {
                    if length >> k & 1 == 1 {
                        power = if power == ONE {
                            POWERS[k]
                        } else {
                            multiply(power, POWERS[k])
                        };
                    }
                    k += 1;
                }
                power
            }

            /// The CRC of a concatenation, where `b` is that of the second part and `length` its number of bytes.
            pub(crate) const fn combine(a: $word, b: $word, length: u64) -> $word {
                multiply(a, power(length)) ^ b
            }

            /// The product with a power that is used again and again, four bits at a time.
            #[allow(dead_code, reason = "not every width has such a power")]
            pub(crate) struct Shift {
                nibbles: [[$word; 16]; <$word>::BITS as usize / 4],
            }

            #[allow(dead_code, reason = "not every width has such a power")]
            impl Shift {
                /// For parts of `length` bytes.
                pub(crate) const fn by(length: u64) -> Self {
                    let power = power(length);
                    let mut nibbles = [[0; 16]; <$word>::BITS as usize / 4];
                    let mut i = 0;
                    while i < nibbles.len() {
                        let mut value = 0;
                        while value < 16 {
                            nibbles[i][value] = multiply((value as $word) << (4 * i), power);
                            value += 1;
                        }
                        i += 1;
                    }
                    Self { nibbles }
                }

                /// The CRC of a concatenation whose second part has this length.
                pub(crate) fn combine(&self, a: $word, b: $word) -> $word {
                    let mut crc = b;
                    for (i, products) in self.nibbles.iter().enumerate() {
                        crc ^= products[(a >> (4 * i) & 15) as usize];
                    }
                    crc
                }
            }
        }
    };
}

combination!(crc32, u32, 0xedb8_8320);
combination!(crc32c, u32, 0x82f6_3b78);
combination!(crc64nvme, u64, 0x9a6c_9329_ac4b_c9b5);
