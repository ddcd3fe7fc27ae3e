//! Encrypted content: chunks of 64 KiB, each encrypted separately, so that a range can be decrypted
//! without the rest. The format is in `docs/formats/encryption.md`.
//!
//! The nonce of a chunk is the stream's salt and the chunk's number. The salt distinguishes streams
//! under the same key, and the number distinguishes chunks of a stream. Salts are random, and a key
//! has at most 10,000 streams (the parts of one upload). So two salts are equal once in 10^11
//! uploads of 10,000 parts.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use bytes::{Bytes, BytesMut};
use dewar_types::{ByteRange, Error, ErrorKind, Result};

use super::DataKey;

/// Clear bytes of a chunk; the last one of a stream may have fewer.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;
/// Bytes by which a sealed chunk is longer.
pub(crate) const TAG_BYTES: u64 = 16;
const SEALED_BYTES: u64 = CHUNK_BYTES + TAG_BYTES;

/// Bytes of a stream of `clear` clear ones as it is stored.
pub(crate) const fn sealed_len(clear: u64) -> u64 {
    clear + clear.div_ceil(CHUNK_BYTES) * TAG_BYTES
}

fn nonce(salt: u64, chunk: u32) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&salt.to_be_bytes());
    nonce[8..].copy_from_slice(&chunk.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Seals a stream as it comes.
pub(crate) struct Sealer {
    key: LessSafeKey,
    salt: u64,
    chunk: u32,
    pending: BytesMut,
}

impl Sealer {
    /// A stream with a salt that no other under this key has.
    pub(crate) fn new(key: &DataKey, salt: u64) -> Self {
        Self {
            key: key.cipher(),
            salt,
            chunk: 0,
            pending: BytesMut::new(),
        }
    }

    /// The stream's salt.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// Takes clear bytes; gives the chunks that are full now.
    pub(crate) fn push(&mut self, mut clear: Bytes) -> Result<Vec<Bytes>> {
        let mut sealed = Vec::new();
        while !clear.is_empty() {
            self.pending
                .reserve(SEALED_BYTES as usize - self.pending.len());
            let room = CHUNK_BYTES as usize - self.pending.len();
            let part = clear.split_to(room.min(clear.len()));
            self.pending.extend_from_slice(&part);
            if self.pending.len() as u64 == CHUNK_BYTES {
                sealed.push(self.seal()?);
            }
        }
        Ok(sealed)
    }

    /// The last chunk, if the stream did not end with a full one.
    pub(crate) fn finish(&mut self) -> Result<Option<Bytes>> {
        match self.pending.is_empty() {
            true => Ok(None),
            false => self.seal().map(Some),
        }
    }

    fn seal(&mut self) -> Result<Bytes> {
        let mut chunk = self.pending.split();
        let nonce = nonce(self.salt, self.chunk);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut chunk)
            .map_err(|_| Error::new(ErrorKind::Internal, "a chunk could not be sealed"))?;
        chunk.extend_from_slice(tag.as_ref());
        self.chunk = self.chunk.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, "more chunks than one stream may have")
        })?;
        Ok(chunk.freeze())
    }
}

/// Opens the chunks of a stream that hold a range of clear bytes.
pub(crate) struct Opener {
    key: LessSafeKey,
    salt: u64,
    chunk: u32,
    /// Clear bytes of the first chunk that lie before the range.
    skip: usize,
    /// Clear bytes of the range that are still to come.
    left: u64,
    /// Stored bytes of the chunks that are still to come.
    sealed_left: u64,
    pending: BytesMut,
}

impl Opener {
    /// A decoder for `range` of the clear bytes of a stream of `stored` bytes, and the range of
    /// stored bytes to pass to it.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when the stream is too short for the range.
    pub(crate) fn new(
        key: &DataKey,
        salt: u64,
        range: ByteRange,
        stored: u64,
    ) -> Result<(Self, ByteRange)> {
        let short = || Error::new(ErrorKind::Corrupt, "encrypted content is too short");
        let clear_len = stored
            .checked_sub(stored.div_ceil(SEALED_BYTES) * TAG_BYTES)
            .filter(|clear| range.end <= *clear && range.start <= range.end)
            .ok_or_else(short)?;
        debug_assert_eq!(sealed_len(clear_len), stored);
        let chunk = range.start / CHUNK_BYTES;
        let sealed = ByteRange {
            start: chunk * SEALED_BYTES,
            end: (range.end.div_ceil(CHUNK_BYTES) * SEALED_BYTES).min(stored),
        };
        let opener = Self {
            key: key.cipher(),
            salt,
            chunk: u32::try_from(chunk).map_err(|_| short())?,
            skip: (range.start % CHUNK_BYTES) as usize,
            left: range.len(),
            sealed_left: sealed.len(),
            pending: BytesMut::new(),
        };
        Ok((opener, sealed))
    }

    /// Whether the whole range has been given out.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Takes stored bytes and returns the clear bytes of complete chunks, if there are any.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a chunk that was changed, moved, or encrypted with another key.
    pub(crate) fn push(&mut self, stored: &[u8]) -> Result<Bytes> {
        self.pending.extend_from_slice(stored);
        let mut out = BytesMut::new();
        loop {
            let whole = self.sealed_left.min(SEALED_BYTES) as usize;
            if whole == 0 || self.pending.len() < whole {
                return Ok(out.freeze());
            }
            let mut chunk = self.pending.split_to(whole);
            let clear = self
                .key
                .open_in_place(nonce(self.salt, self.chunk), Aad::empty(), &mut chunk)
                .map_err(|_| {
                    let message = "encrypted content was changed on the disks";
                    Error::new(ErrorKind::Corrupt, message)
                })?;
            let from = self.skip.min(clear.len());
            let to = clear.len().min(from.saturating_add(self.left as usize));
            self.left -= (to - from) as u64;
            self.skip = 0;
            let len = clear.len();
            self.chunk += 1;
            self.sealed_left -= whole as u64;
            if out.is_empty() {
                chunk.truncate(len);
                let mut cut = chunk.split_off(from);
                cut.truncate(to - from);
                out = cut;
            } else {
                out.extend_from_slice(&chunk[from..to]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> DataKey {
        DataKey::for_tests([byte; 32])
    }

    fn clear(len: usize) -> Bytes {
        (0..len).map(|n| (n * 31 % 251) as u8).collect()
    }

    fn sealed(key: &DataKey, salt: u64, clear: &Bytes, piece: usize) -> Vec<u8> {
        let mut sealer = Sealer::new(key, salt);
        let mut out = Vec::new();
        for part in clear.chunks(piece) {
            for chunk in sealer.push(clear.slice_ref(part)).expect("sealed") {
                out.extend_from_slice(&chunk);
            }
        }
        if let Some(last) = sealer.finish().expect("sealed") {
            out.extend_from_slice(&last);
        }
        out
    }

    fn opened(
        key: &DataKey,
        salt: u64,
        stored: &[u8],
        range: ByteRange,
        piece: usize,
    ) -> Result<Vec<u8>> {
        let (mut opener, sealed) = Opener::new(key, salt, range, stored.len() as u64)?;
        let mut out = Vec::new();
        for part in stored[sealed.start as usize..sealed.end as usize].chunks(piece) {
            out.extend_from_slice(&opener.push(part)?);
        }
        assert!(opener.is_done());
        Ok(out)
    }

    proptest! {
        #[test]
        fn every_range_opens_to_what_was_sealed(
            len in 1usize..200_000,
            from in 0usize..200_000,
            to in 0usize..200_000,
            push in 1usize..100_000,
            pull in 1usize..100_000,
        ) {
            let clear = clear(len);
            let stored = sealed(&key(1), 7, &clear, push);
            prop_assert_eq!(stored.len() as u64, sealed_len(len as u64));
            let (from, to) = (from.min(to).min(len), from.max(to).min(len));
            let range = ByteRange { start: from as u64, end: to as u64 };
            if from < to {
                let got = opened(&key(1), 7, &stored, range, pull).expect("opens");
                prop_assert_eq!(&got[..], &clear[from..to]);
            }
        }
    }

    #[test]
    fn what_was_changed_moved_or_sealed_otherwise_does_not_open() {
        let clear = clear(200_000);
        let stored = sealed(&key(1), 7, &clear, 50_000);
        let whole = ByteRange::whole(200_000);
        assert!(opened(&key(1), 7, &stored, whole, 4096).is_ok());
        for (key, salt) in [(key(2), 7), (key(1), 8)] {
            let error =
                opened(&key, salt, &stored, whole, 4096).expect_err("another key or stream");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let mut changed = stored.clone();
        changed[70_000] ^= 1;
        assert!(opened(&key(1), 7, &changed, whole, 4096).is_err());
        let mut swapped = stored.clone();
        let (first, rest) = swapped.split_at_mut(SEALED_BYTES as usize);
        first.swap_with_slice(&mut rest[..SEALED_BYTES as usize]);
        assert!(opened(&key(1), 7, &swapped, whole, 4096).is_err());
        let error = opened(&key(1), 7, &stored[..100_000], whole, 4096).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn the_format_stays() {
        let stored = sealed(&key(3), 0x0102_0304_0506_0708, &clear(100), 100);
        let hex: String = stored.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            include_str!("../../testdata/encryption-v1/chunk.hex").trim()
        );
    }
}
