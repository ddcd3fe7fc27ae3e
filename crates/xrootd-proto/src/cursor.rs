//! Reading big-endian numbers and text out of bytes.

use bytes::{Buf as _, Bytes};

use crate::DecodeError;

/// What is left of a message.
pub(crate) struct Cursor {
    rest: Bytes,
    what: &'static str,
}

impl Cursor {
    pub(crate) fn new(rest: Bytes, what: &'static str) -> Self {
        Self { rest, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if self.rest.len() < len {
            return Err(DecodeError::Short(self.what));
        }
        Ok(self.rest.split_to(len))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        if self.rest.len() < N {
            return Err(DecodeError::Short(self.what));
        }
        self.rest.copy_to_slice(&mut out);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length that is sent as a signed number.
    pub(crate) fn length(&mut self) -> Result<u32, DecodeError> {
        let length = self.array().map(i32::from_be_bytes)?;
        u32::try_from(length).map_err(|_| DecodeError::NegativeLength(length))
    }

    /// Text up to a NUL, which is taken too.
    pub(crate) fn text_to_nul(&mut self) -> Result<String, DecodeError> {
        let end = self.rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or(DecodeError::Short(self.what))?;
        let text = self.rest.split_to(end);
        self.rest.advance(1);
        text_of(&text, self.what)
    }

    pub(crate) fn rest(self) -> Bytes {
        self.rest
    }
}

/// Text of UTF-8 that ends at a NUL or with the bytes.
pub(crate) fn text_of(bytes: &[u8], what: &'static str) -> Result<String, DecodeError> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let bytes = &bytes[..end.unwrap_or(bytes.len())];
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(DecodeError::NotText(what)),
    }
}

/// A length as it goes over the wire; what is longer than a signed number can say was never allowed.
pub(crate) fn wire_length(len: usize) -> [u8; 4] {
    i32::try_from(len).unwrap_or(i32::MAX).to_be_bytes()
}
