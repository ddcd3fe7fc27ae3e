//! A batch as the body of a journal record. See docs/formats/catalog-batch.md.
//!
//! Preconditions are not written, since a record is in the log only if they held.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use dewar_types::{BlobId, Error, ErrorKind};

use crate::batch::{BATCH_BYTES_MAX, Batch, InlineData};

const FORMAT: u8 = 1;

/// Most items of one kind in a batch; more cannot fit its bytes anyway.
const ITEMS_MAX: u64 = BATCH_BYTES_MAX as u64;

/// The body in pieces: everything but the carry's bytes, then those as they are.
pub(super) fn encode(batch: &Batch) -> Vec<Bytes> {
    let mut out = BytesMut::with_capacity(1024);
    out.put_u8(FORMAT);
    put_number(&mut out, batch.puts.len() as u64);
    for (key, value) in &batch.puts {
        put_bytes(&mut out, key);
        put_bytes(&mut out, value);
    }
    put_number(&mut out, batch.deletes.len() as u64);
    for key in &batch.deletes {
        put_bytes(&mut out, key);
    }
    put_number(&mut out, batch.adds.len() as u64);
    for (key, delta) in &batch.adds {
        put_bytes(&mut out, key);
        out.put_i64(*delta);
    }
    put_number(&mut out, batch.log.len() as u64);
    for record in &batch.log {
        put_bytes(&mut out, record);
    }
    let Some(carry) = &batch.carry else {
        out.put_u8(0);
        return vec![out.freeze()];
    };
    out.put_u8(1);
    out.put_u64(carry.segment.0);
    out.put_u32(carry.offset);
    put_number(&mut out, carry.len() as u64);
    let mut pieces = Vec::with_capacity(1 + carry.bytes.len());
    pieces.push(out.freeze());
    pieces.extend(carry.bytes.iter().cloned());
    pieces
}

/// Decodes a body. Keys and values are copies, so that they do not keep a carry in memory.
///
/// # Errors
/// [`ErrorKind::Corrupt`] for anything that [`encode`] did not write.
pub fn decode(body: &Bytes) -> Result<Batch, Error> {
    let mut at = Reader { left: body.clone() };
    let format = at.byte()?;
    if format != FORMAT {
        return Err(bad(format!("format {format} is not known to this release")));
    }
    let mut batch = Batch::default();
    for _ in 0..at.count()? {
        batch.puts.push((at.copied()?, at.copied()?));
    }
    for _ in 0..at.count()? {
        batch.deletes.push(at.copied()?);
    }
    for _ in 0..at.count()? {
        let key = at.copied()?;
        let delta = i64::from_be_bytes(at.array()?);
        batch.adds.push((key, delta));
    }
    for _ in 0..at.count()? {
        batch.log.push(at.copied()?);
    }
    match at.byte()? {
        0 => {}
        1 => {
            let segment = BlobId(u64::from_be_bytes(at.array()?));
            let offset = u32::from_be_bytes(at.array()?);
            let bytes = at.bytes()?;
            batch.carry = Some(InlineData {
                segment,
                offset,
                bytes: vec![bytes],
            });
        }
        other => return Err(bad(format!("a carry mark of {other}"))),
    }
    if !at.left.is_empty() {
        return Err(bad(format!("{} bytes follow its end", at.left.len())));
    }
    Ok(batch)
}

/// Fuzz target: nothing panics, and a decoded batch encodes to the same bytes.
pub fn fuzz_batch(bytes: &[u8]) {
    if let Ok(batch) = decode(&Bytes::copy_from_slice(bytes)) {
        let again: Vec<u8> = encode(&batch).concat();
        assert_eq!(decode(&again.into()).ok(), Some(batch));
    }
}

fn put_number(out: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        out.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    out.put_u8(number as u8);
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn bad(why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("catalog batch: {why}"))
}

struct Reader {
    left: Bytes,
}

impl Reader {
    fn byte(&mut self) -> Result<u8, Error> {
        if self.left.is_empty() {
            return Err(bad("it ends early"));
        }
        Ok(self.left.get_u8())
    }

    fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(bad("a number is too long"))
    }

    fn count(&mut self) -> Result<u64, Error> {
        let count = self.number()?;
        // Each item takes a byte at least, so a larger count is no count.
        if count > ITEMS_MAX.min(self.left.len() as u64) {
            return Err(bad(format!("{count} items cannot be in it")));
        }
        Ok(count)
    }

    fn bytes(&mut self) -> Result<Bytes, Error> {
        let len = self.number()?;
        match usize::try_from(len) {
            Ok(len) if len <= self.left.len() => Ok(self.left.split_to(len)),
            _ => Err(bad(format!(
                "{len} bytes are announced, {} left",
                self.left.len()
            ))),
        }
    }

    fn copied(&mut self) -> Result<Bytes, Error> {
        Ok(Bytes::copy_from_slice(&self.bytes()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        if self.left.len() < N {
            return Err(bad("it ends early"));
        }
        let mut array = [0; N];
        self.left.copy_to_slice(&mut array);
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), 0..max).prop_map(Bytes::from)
    }

    prop_compose! {
        fn batch()(
            puts in vec((bytes(20), bytes(200)), 0..5),
            deletes in vec(bytes(20), 0..5),
            adds in vec((bytes(20), any::<i64>()), 0..5),
            log in vec(bytes(200), 0..3),
            carry in proptest::option::of((any::<u64>(), any::<u32>(), bytes(5000))),
        ) -> Batch {
            Batch {
                puts, deletes, adds, log,
                carry: carry.map(|(segment, offset, bytes)| InlineData {
                    segment: BlobId(segment), offset, bytes: vec![bytes],
                }),
                ..Batch::default()
            }
        }
    }

    /// The sample with everything in it.
    fn full() -> Batch {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        Batch {
            puts: vec![
                (bytes("e\0\0\0\0\0\0\0\x01name"), bytes("value")),
                (bytes("empty"), Bytes::new()),
                (bytes("long"), vec![7; 300].into()),
            ],
            deletes: vec![bytes("gone"), bytes("gone too")],
            adds: vec![(bytes("cT"), 1), (bytes("ct"), -4096)],
            log: vec![bytes("a change"), Bytes::new()],
            carry: Some(InlineData {
                segment: BlobId::new(1, 0x0203_0405),
                offset: 0x0607_0809,
                bytes: vec![vec![9; 500].into()],
            }),
            ..Batch::default()
        }
    }

    fn small() -> Batch {
        let put = (Bytes::from_static(b"k"), Bytes::from_static(b"v"));
        Batch {
            puts: vec![put],
            ..Batch::default()
        }
    }

    /// Bodies of version 1 are read for ever (docs/formats/catalog-batch.md).
    #[test]
    fn version_1_is_read_and_still_written() {
        let samples: [(&[u8], Batch); 2] = [
            (include_bytes!("../../testdata/batch-v1/full.bin"), full()),
            (include_bytes!("../../testdata/batch-v1/small.bin"), small()),
        ];
        for (stored, batch) in samples {
            assert_eq!(decode(&Bytes::from_static(stored)).expect("reads"), batch);
            assert_eq!(encode(&batch).concat(), stored);
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(batch in batch()) {
            let body: Bytes = encode(&batch).concat().into();
            prop_assert_eq!(decode(&body).expect("valid"), batch);
        }

        #[test]
        fn never_panics(garbage in vec(any::<u8>(), 0..300)) {
            fuzz_batch(&garbage);
        }

        #[test]
        fn a_cut_body_is_refused(batch in batch(), cut in 0.0f64..1.0) {
            let body: Bytes = encode(&batch).concat().into();
            let cut = (cut * body.len() as f64) as usize;
            prop_assert!(decode(&body.slice(..cut)).is_err());
        }
    }
}
