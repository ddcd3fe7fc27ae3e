//! The results of a `fattr`.

use bytes::{BufMut, Bytes, BytesMut};

use crate::DecodeError;
use crate::cursor::{Cursor, wire_length};
use crate::limits::ATTRIBUTE_VALUE_BYTES_MAX;

/// The result for one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeOutcome {
    /// Its name.
    pub name: String,
    /// 0, or the number of an [`crate::ErrorCode`].
    pub error: u16,
    /// Its value, if values were requested.
    pub value: Bytes,
}

/// To `fattr`, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeReply {
    /// One for each attribute.
    pub outcomes: Vec<AttributeOutcome>,
}

impl AttributeReply {
    /// Its bytes as the reply to a `set`, `delete` or, with `values`, a `get`.
    #[must_use]
    pub fn encode(&self, values: bool) -> Bytes {
        let mut out = BytesMut::new();
        let count = |len: usize| u8::try_from(len).unwrap_or(u8::MAX);
        let failed = self.outcomes.iter().filter(|outcome| outcome.error != 0);
        out.put_u8(count(failed.count()));
        out.put_u8(count(self.outcomes.len()));
        for outcome in &self.outcomes {
            out.put_u16(outcome.error);
            out.put_slice(outcome.name.as_bytes());
            out.put_u8(0);
        }
        if values {
            for outcome in &self.outcomes {
                out.put_slice(&wire_length(outcome.value.len()));
                out.put_slice(&outcome.value);
            }
        }
        out.freeze()
    }

    /// Reads it.
    ///
    /// # Errors
    /// It ends early.
    pub fn decode(bytes: Bytes, values: bool) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, "attributes");
        cursor.u8()?;
        let count = cursor.u8()?;
        let mut outcomes = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let error = cursor.u16()?;
            outcomes.push(AttributeOutcome {
                error,
                name: cursor.text_to_nul()?,
                value: Bytes::new(),
            });
        }
        if values {
            for outcome in &mut outcomes {
                outcome.value = value(&mut cursor)?;
            }
        }
        Ok(Self { outcomes })
    }

    /// Its bytes as the reply to a `list`.
    #[must_use]
    pub fn encode_list(&self, values: bool) -> Bytes {
        let mut out = BytesMut::new();
        for outcome in &self.outcomes {
            out.put_slice(outcome.name.as_bytes());
            out.put_u8(0);
            if values {
                out.put_slice(&wire_length(outcome.value.len()));
                out.put_slice(&outcome.value);
            }
        }
        out.freeze()
    }

    /// Reads the reply to a `list`.
    ///
    /// # Errors
    /// It ends early.
    pub fn decode_list(bytes: Bytes, values: bool) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, "attributes");
        let mut outcomes = Vec::new();
        while !cursor.is_empty() {
            let name = cursor.text_to_nul()?;
            let value = if values {
                value(&mut cursor)?
            } else {
                Bytes::new()
            };
            outcomes.push(AttributeOutcome {
                name,
                error: 0,
                value,
            });
        }
        Ok(Self { outcomes })
    }
}

fn value(cursor: &mut Cursor) -> Result<Bytes, DecodeError> {
    let len = cursor.length()? as usize;
    if len > ATTRIBUTE_VALUE_BYTES_MAX {
        return Err(DecodeError::TooLong {
            what: "an attribute's value",
            len,
            max: ATTRIBUTE_VALUE_BYTES_MAX,
        });
    }
    cursor.take(len)
}
