//! Encoding and reconstruction over slices: checks, coefficients, and the cutting of slices of
//! unequal length into ranges of equal length for the kernels.
//!
//! A slice that is shorter than the longest of its stripe counts as the same bytes followed by
//! zeros, as the format defines for the last stripe of a blob. Zeros add nothing to a sum, so they
//! are never written or read: beyond the end of an input its column is left out.

mod kernel;
mod pointers;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use kernel::Kernel;

use core::array;

use crate::matrix::{Column, Columns, ShardSet, parity_columns, recovery_columns};
use crate::patterns::Patterns;
use crate::{DATA_SHARDS_MAX, Error, PARITY_SHARDS_MAX};

/// A k+m Reed-Solomon codec. Cheap to share between threads by reference. Make one per layout and
/// keep it, since it caches the coefficients of recent losses.
#[derive(Debug)]
pub struct Codec {
    k: usize,
    m: usize,
    kernel: Kernel,
    parity: Columns,
    patterns: Patterns,
}

impl Codec {
    /// A codec for k data and m parity shards on the fastest kernel this processor can run.
    ///
    /// # Errors
    /// [`Error::Layout`] unless k is 1 to 16 and m 0 to 4.
    pub fn new(k: usize, m: usize) -> Result<Self, Error> {
        Self::with_kernel(k, m, Kernel::fastest())
    }

    /// A codec on a kernel chosen by name, to test and to measure it. Every kernel computes the
    /// same bytes.
    ///
    /// # Errors
    /// [`Error::Layout`] unless k is 1 to 16 and m 0 to 4; [`Error::KernelUnsupported`] when this
    /// processor lacks the instructions.
    pub fn with_kernel(k: usize, m: usize, kernel: Kernel) -> Result<Self, Error> {
        if !(1..=DATA_SHARDS_MAX).contains(&k) || m > PARITY_SHARDS_MAX {
            return Err(Error::Layout { k, m });
        }
        if !kernel.is_supported() {
            return Err(Error::KernelUnsupported(kernel));
        }
        Ok(Self {
            k,
            m,
            kernel,
            parity: parity_columns(k, m),
            patterns: Patterns::default(),
        })
    }

    /// Data shards.
    #[must_use]
    pub fn data_shards(&self) -> usize {
        self.k
    }

    /// Parity shards.
    #[must_use]
    pub fn parity_shards(&self) -> usize {
        self.m
    }

    /// The kernel that does the work.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Computes the m parity slices of one stripe, or of any range of one: byte n of a parity slice
    /// depends only on byte n of the data slices.
    ///
    /// Data slices may differ in length; a shorter one counts as padded with zeros. Each parity
    /// slice is as long as the longest data slice. The earlier content of the parity slices does
    /// not matter.
    ///
    /// # Errors
    /// [`Error::DataCount`], [`Error::ParityCount`] or [`Error::ParityLength`] when the slices do
    /// not fit the layout; nothing has been written then.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), Error> {
        if data.len() != self.k {
            return Err(Error::DataCount {
                expected: self.k,
                got: data.len(),
            });
        }
        if parity.len() != self.m {
            return Err(Error::ParityCount {
                expected: self.m,
                got: parity.len(),
            });
        }
        let longest = longest(data);
        for (row, slice) in parity.iter().enumerate() {
            if slice.len() != longest {
                return Err(Error::ParityLength {
                    shard: self.k + row,
                    expected: longest,
                    got: slice.len(),
                });
            }
        }
        combine(self.kernel, &self.parity, data, parity);
        Ok(())
    }

    /// Computes missing shards, data or parity, from any k that are present.
    ///
    /// `present` names each slice by its shard index (0 to k-1 data, k to k+m-1 parity) in any
    /// order. The k lowest are used and more are ignored. All slices cover the same range of the
    /// stripe, from its first byte. A slice that ends early because its unit does counts as padded
    /// with zeros. An empty slice for a data unit that the last stripe does not have is a present
    /// shard. `out[n]` receives shard `wanted[n]` up to the length of `out[n]`. This is shorter
    /// than the longest slice if the missing unit itself ends early.
    ///
    /// # Errors
    /// [`Error::TooFewShards`] when fewer than k are present, and [`Error::ShardIndex`],
    /// [`Error::ShardTwice`], [`Error::OutputCount`] or [`Error::OutputLength`] when the arguments
    /// do not fit together; nothing has been written then.
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &[usize],
        out: &mut [&mut [u8]],
    ) -> Result<(), Error> {
        let (from, want) = self.sets(present, wanted)?;
        if wanted.len() != out.len() {
            return Err(Error::OutputCount {
                wanted: wanted.len(),
                outputs: out.len(),
            });
        }

        let mut inputs: [&[u8]; DATA_SHARDS_MAX] = [&[]; DATA_SHARDS_MAX];
        for &(shard, slice) in present.iter().filter(|(shard, _)| from.contains(*shard)) {
            inputs[from.rank(shard)] = slice;
        }
        let inputs = &inputs[..self.k];
        let longest = longest(inputs);
        for (&shard, slice) in wanted.iter().zip(out.iter()) {
            if slice.len() > longest {
                return Err(Error::OutputLength {
                    shard,
                    longest,
                    got: slice.len(),
                });
            }
        }

        let ascending = self
            .patterns
            .columns(from, want, || recovery_columns(self.k, from, want));
        // The pattern is kept with its outputs ascending; the caller may have another order.
        let mut columns = Columns::default();
        for (column, kept) in columns.iter_mut().zip(&ascending) {
            for (value, &shard) in column.iter_mut().zip(wanted) {
                *value = kept[want.rank(shard)];
            }
        }
        combine(self.kernel, &columns, inputs, out);
        Ok(())
    }

    /// The k present shards to compute from, and the set of wanted ones.
    fn sets(
        &self,
        present: &[(usize, &[u8])],
        wanted: &[usize],
    ) -> Result<(ShardSet, ShardSet), Error> {
        let shards = self.k + self.m;
        let mut named = ShardSet::EMPTY;
        let mut add = |shard: usize| {
            if shard >= shards {
                Err(Error::ShardIndex { shard, shards })
            } else if named.insert(shard) {
                Ok(())
            } else {
                Err(Error::ShardTwice { shard })
            }
        };
        let mut here = ShardSet::EMPTY;
        for &(shard, _) in present {
            add(shard)?;
            here.insert(shard);
        }
        let mut want = ShardSet::EMPTY;
        for &shard in wanted {
            add(shard)?;
            want.insert(shard);
        }
        if present.len() < self.k {
            return Err(Error::TooFewShards {
                needed: self.k,
                got: present.len(),
            });
        }
        let mut from = ShardSet::EMPTY;
        for shard in here.iter().take(self.k) {
            from.insert(shard);
        }
        Ok((from, want))
    }
}

fn longest(slices: &[&[u8]]) -> usize {
    slices.iter().map(|slice| slice.len()).max().unwrap_or(0)
}

/// Writes to each output the sum of its coefficient in each column times that column's input.
/// At most [`PARITY_SHARDS_MAX`] outputs, none longer than the longest input.
///
/// Lengths cut the slices into stretches in which every input and output is either wholly there
/// or wholly absent: one stretch in a full stripe, at most a few in the last.
fn combine(kernel: Kernel, columns: &Columns, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    let mut start = 0;
    loop {
        let lengths = inputs.iter().map(|slice| slice.len());
        let lengths = lengths.chain(outputs.iter().map(|slice| slice.len()));
        let Some(end) = lengths.filter(|&length| length > start).min() else {
            return;
        };

        let mut rows = [0; PARITY_SHARDS_MAX];
        let mut live_outputs: [&mut [u8]; PARITY_SHARDS_MAX] = array::from_fn(|_| &mut [][..]);
        let mut output_count = 0;
        for (row, slice) in outputs.iter_mut().enumerate() {
            if slice.len() >= end {
                rows[output_count] = row;
                live_outputs[output_count] = &mut slice[start..end];
                output_count += 1;
            }
        }

        let mut live_inputs: [&[u8]; DATA_SHARDS_MAX] = [&[]; DATA_SHARDS_MAX];
        let mut live_columns = [Column::default(); DATA_SHARDS_MAX];
        let mut input_count = 0;
        for (slice, column) in inputs.iter().zip(columns) {
            if slice.len() >= end {
                live_inputs[input_count] = &slice[start..end];
                live_columns[input_count] = rows.map(|row| column[row]);
                input_count += 1;
            }
        }

        kernel.combine(
            &live_columns[..input_count],
            &live_inputs[..input_count],
            &mut live_outputs[..output_count],
        );
        start = end;
    }
}
