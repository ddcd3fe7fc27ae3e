//! The instructions of the codec, chosen at run time, once per codec.
//!
//! A kernel computes `outputs[r] = sum of columns[c][r] * inputs[c]` over slices of one common
//! length. It walks all inputs side by side, a few vectors at a time, with the sums of all outputs
//! in registers: each input byte is loaded once and each output byte stored once, whatever the
//! length.
#![allow(unsafe_code)]

use core::fmt;

use super::scalar;
#[cfg(target_arch = "x86_64")]
use super::{avx2, gfni};
use crate::PARITY_SHARDS_MAX;
use crate::matrix::Column;

/// An implementation of the codec's inner loop. All of them compute the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// x86-64 with GFNI and AVX-512 (F, BW): bit matrices on 64 bytes at a time.
    Gfni512,
    /// x86-64 with GFNI and AVX2: bit matrices on 32 bytes at a time.
    Gfni256,
    /// x86-64 with AVX2: byte shuffles on 32 bytes at a time.
    Avx2,
    /// aarch64 with NEON: byte shuffles on 16 bytes at a time.
    Neon,
    /// Any processor: table look-ups byte by byte. The reference for the others.
    Scalar,
}

impl Kernel {
    /// All kernels, the fastest first.
    pub const ALL: [Self; 5] = [
        Self::Gfni512,
        Self::Gfni256,
        Self::Avx2,
        Self::Neon,
        Self::Scalar,
    ];

    /// The fastest kernel this processor can run.
    #[must_use]
    pub fn fastest() -> Self {
        Self::supported().next().unwrap_or(Self::Scalar)
    }

    /// The kernels this processor can run, the fastest first.
    pub fn supported() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_supported())
    }

    /// Whether this processor can run the kernel.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => {
                is_x86_feature_detected!("gfni")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Gfni256 => is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Scalar => true,
            #[allow(
                unreachable_patterns,
                reason = "which arms exist depends on the target"
            )]
            _ => false,
        }
    }

    /// A short name for logs and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gfni512 => "gfni-avx512",
            Self::Gfni256 => "gfni-avx2",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Scalar => "scalar",
        }
    }

    /// Computes all outputs, at most [`PARITY_SHARDS_MAX`], from slices of one common length.
    ///
    /// The kernel must be supported: [`super::Codec`] never holds another.
    pub(super) fn combine(self, columns: &[Column], inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        // The kernels read and write through pointers, so this is what their safety rests on:
        // checked in release builds too, once per stretch.
        assert_eq!(columns.len(), inputs.len(), "a column for each input");
        assert!(outputs.len() <= PARITY_SHARDS_MAX, "too many outputs");
        let Some(length) = outputs.first().map(|output| output.len()) else {
            return;
        };
        assert!(
            inputs.iter().all(|input| input.len() == length),
            "inputs of unequal length"
        );
        assert!(
            outputs.iter().all(|output| output.len() == length),
            "outputs of unequal length"
        );
        debug_assert!(self.is_supported(), "{self} cannot run here");

        match self {
            // SAFETY (all three): lengths are checked above; the features are there because
            // `Codec::with_kernel`, the only way to give a codec its kernel, asked `is_supported`.
            #[cfg(target_arch = "x86_64")]
            Self::Gfni512 => unsafe { gfni::combine_512(columns, inputs, outputs) },
            #[cfg(target_arch = "x86_64")]
            Self::Gfni256 => unsafe { gfni::combine_256(columns, inputs, outputs) },
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2::combine(columns, inputs, outputs) },
            // SAFETY: as above; NEON is part of every aarch64 target, and asked for all the same.
            #[cfg(target_arch = "aarch64")]
            Self::Neon => unsafe { super::neon::combine(columns, inputs, outputs) },
            _ => scalar::combine(columns, inputs, outputs, 0),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
