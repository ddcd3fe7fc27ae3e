//! The destination of the body of an answer.

use super::HttpError;

/// Bytes in several pieces: the body of a request, or the expected body of an answer.
pub trait Bytes {
    /// How many there are.
    fn len(&self) -> u64;

    /// The bytes from `offset` on, as far as they are contiguous: at least one while `offset` is
    /// below [`Bytes::len`], and never past the end.
    fn at(&self, offset: u64) -> &[u8];

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Bytes for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn at(&self, offset: u64) -> &[u8] {
        usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .unwrap_or_default()
    }
}

/// The use of the body of a successful answer. The body of an error is always kept.
pub enum Sink<'a> {
    /// Count the bytes, do not look at them.
    Discard,
    /// Append them here.
    Collect(&'a mut Vec<u8>),
    /// Compare them with these bytes, from an offset on.
    Compare(&'a dyn Bytes, u64),
}

impl std::fmt::Debug for Sink<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Discard => "Discard",
            Self::Collect(_) => "Collect",
            Self::Compare(..) => "Compare",
        })
    }
}

/// The longest body that is kept, larger than a listing of 1,000 keys of 1,024 bytes.
const COLLECT_BYTES_MAX: usize = 16 << 20;

impl Sink<'_> {
    /// Takes the next bytes of the body.
    pub(super) fn take(&mut self, mut received: &[u8]) -> Result<(), HttpError> {
        match self {
            Self::Discard => {}
            Self::Collect(kept) => {
                if kept.len() + received.len() > COLLECT_BYTES_MAX {
                    return Err(HttpError::TooLong {
                        limit_bytes: COLLECT_BYTES_MAX,
                    });
                }
                kept.extend_from_slice(received);
            }
            Self::Compare(expected, offset) => {
                while !received.is_empty() {
                    let piece = expected.at(*offset);
                    let len = piece.len().min(received.len());
                    if len == 0 {
                        return Err(HttpError::Content { offset: *offset });
                    }
                    let (now, rest) = received.split_at(len);
                    if now != &piece[..len] {
                        let at = now.iter().zip(piece).take_while(|(a, b)| a == b).count();
                        return Err(HttpError::Content {
                            offset: *offset + at as u64,
                        });
                    }
                    *offset += len as u64;
                    received = rest;
                }
            }
        }
        Ok(())
    }
}
