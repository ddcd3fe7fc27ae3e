//! Reed-Solomon codec over GF(2^8): Dewar's on-disk parity format.
