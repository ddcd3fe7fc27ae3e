//! Map from the bytes of a file that is being written to their place in logs and in the old version.

use std::collections::BTreeMap;

use dewar_types::ByteRange;

/// Where a run of bytes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentOrigin {
    /// The version that is being changed.
    Base,
    /// What was written: the number of the log.
    Log(usize),
}

/// A run of bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedExtent {
    pub(super) len: u64,
    pub(super) origin: ExtentOrigin,
    /// First byte in what it comes from.
    pub(super) offset: u64,
}

/// Memory of a run in the map, about.
pub(super) const RUN_MEMORY_BYTES: usize = 96;

/// Runs that do not overlap; between them are holes, which read as zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMap {
    runs: BTreeMap<u64, MappedExtent>,
}

impl ExtentMap {
    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.runs.len() * RUN_MEMORY_BYTES
    }

    /// How many runs there are.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Puts a run at `at`, over what was there.
    pub(super) fn put(&mut self, at: u64, run: MappedExtent) {
        if run.len == 0 {
            return;
        }
        self.clear(ByteRange {
            start: at,
            end: at + run.len,
        });
        if let Some((begin, before)) = self.runs.range_mut(..at).next_back()
            && begin + before.len == at
            && before.origin == run.origin
            && before.offset + before.len == run.offset
        {
            before.len += run.len;
            return;
        }
        self.runs.insert(at, run);
    }

    /// Takes out what lies in a range.
    pub(super) fn clear(&mut self, range: ByteRange) {
        if let Some((begin, run)) = self.runs.range(..range.start).next_back() {
            let (begin, run) = (*begin, *run);
            let end = begin + run.len;
            if end > range.start {
                let front = MappedExtent {
                    len: range.start - begin,
                    ..run
                };
                self.runs.insert(begin, front);
                if end > range.end {
                    self.runs.insert(range.end, tail(begin, run, range.end));
                }
            }
        }
        while let Some((begin, run)) = self.runs.range(range.start..range.end).next() {
            let (begin, run) = (*begin, *run);
            self.runs.remove(&begin);
            if begin + run.len > range.end {
                self.runs.insert(range.end, tail(begin, run, range.end));
            }
        }
    }

    /// What a range consists of, in order: runs, and holes as `None` with their length.
    pub(super) fn pieces(&self, range: ByteRange) -> Vec<(u64, Option<MappedExtent>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        let from = self.runs.range(..=range.start).next_back();
        let from = from.map_or(range.start, |(begin, _)| *begin);
        for (begin, run) in self.runs.range(from..range.end) {
            let start = (*begin).max(range.start);
            let end = (begin + run.len).min(range.end);
            if start >= end {
                continue;
            }
            if at < start {
                pieces.push((start - at, None));
            }
            let part = MappedExtent {
                len: end - start,
                offset: run.offset + (start - begin),
                ..*run
            };
            pieces.push((part.len, Some(part)));
            at = end;
        }
        if at < range.end {
            pieces.push((range.end - at, None));
        }
        pieces
    }
}

/// What of a run lies behind `from`.
fn tail(begin: u64, run: MappedExtent, from: u64) -> MappedExtent {
    MappedExtent {
        len: begin + run.len - from,
        offset: run.offset + (from - begin),
        ..run
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a byte for byte model.
        #[test]
        fn as_if_every_byte_was_kept(
            steps in proptest::collection::vec((0u64..200, 0u64..60, 0u8..4), 1..40),
            from in 0u64..260, len in 0u64..260,
        ) {
            let mut map = ExtentMap::default();
            let mut model: Vec<Option<(ExtentOrigin, u64)>> = vec![None; 600];
            let mut log = 0;
            for (at, len, kind) in steps {
                let range = ByteRange { start: at, end: at + len };
                let (origin, offset) = match kind {
                    0 => {
                        map.clear(range);
                        model[at as usize..(at + len) as usize].fill(None);
                        continue;
                    }
                    1 => (ExtentOrigin::Base, at),
                    _ => (ExtentOrigin::Log(0), log),
                };
                map.put(at, MappedExtent { len, origin, offset });
                if kind > 1 { log += len; }
                for i in 0..len {
                    model[(at + i) as usize] = Some((origin, offset + i));
                }
            }
            let mut got = Vec::new();
            for (len, run) in map.pieces(ByteRange { start: from, end: from + len }) {
                for i in 0..len {
                    got.push(run.map(|run| (run.origin, run.offset + i)));
                }
            }
            prop_assert_eq!(&got[..], &model[from as usize..(from + len) as usize]);
        }

        /// Bytes that come in order are one run, however they were cut.
        #[test]
        fn neighbours_join(lens in proptest::collection::vec(1u64..50, 1..30)) {
            let mut map = ExtentMap::default();
            let mut at = 0;
            for len in lens {
                map.put(at, MappedExtent { len, origin: ExtentOrigin::Log(0), offset: at });
                at += len;
            }
            prop_assert_eq!(map.len(), 1);
        }
    }
}
