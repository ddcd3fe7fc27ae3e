//! `fattr`: extended attributes.

use bytes::{BufMut, Bytes, BytesMut};

use crate::DecodeError;
use crate::FileHandle;
use crate::cursor::{Cursor, wire_length};
use crate::limits;

use super::HandleOrPath;

/// The operation on attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FattrAction {
    /// Remove these.
    Delete(Vec<String>),
    /// Return the values of these attributes.
    Get(Vec<String>),
    /// Return the names of all, with [`crate::options::fattr::VALUES`] their values too.
    List,
    /// Set these.
    Set(Vec<(String, Bytes)>),
}

/// `fattr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fattr {
    /// Bits of [`crate::options::fattr`].
    pub options: u8,
    /// File or path of the attributes.
    pub target: HandleOrPath,
    /// Operation on the attributes.
    pub action: FattrAction,
}

impl FattrAction {
    /// Its number and how many attributes it names.
    pub(super) fn numbers(&self) -> (u8, u8) {
        let (number, count) = match self {
            Self::Delete(names) => (0, names.len()),
            Self::Get(names) => (1, names.len()),
            Self::List => (2, 0),
            Self::Set(pairs) => (3, pairs.len()),
        };
        (number, count as u8)
    }
}

impl Fattr {
    pub(super) fn decode(body: &[u8; 16], arguments: Bytes) -> Result<Self, DecodeError> {
        let (number, count, options) = (body[4], usize::from(body[5]), body[6]);
        let mut cursor = Cursor::new(arguments, "attributes");
        let path = if cursor.is_empty() {
            String::new()
        } else {
            cursor.text_to_nul()?
        };
        let target = if path.is_empty() {
            HandleOrPath::Handle(FileHandle([body[0], body[1], body[2], body[3]]))
        } else {
            HandleOrPath::Path(path)
        };
        if count > limits::ATTRIBUTES_MAX {
            return Err(DecodeError::TooLong {
                what: "a list of attributes",
                len: count,
                max: limits::ATTRIBUTES_MAX,
            });
        }
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            cursor.u16()?;
            let name = cursor.text_to_nul()?;
            let len = name.len();
            if len > limits::ATTRIBUTE_NAME_BYTES_MAX {
                return Err(DecodeError::TooLong {
                    what: "an attribute's name",
                    len,
                    max: limits::ATTRIBUTE_NAME_BYTES_MAX,
                });
            }
            if name.is_empty() {
                return Err(DecodeError::Missing("an attribute's name"));
            }
            names.push(name);
        }
        let action = match number {
            0 => FattrAction::Delete(names),
            1 => FattrAction::Get(names),
            2 => FattrAction::List,
            3 => FattrAction::Set(values(names, &mut cursor)?),
            _ => return Err(DecodeError::Invalid("what to do with attributes")),
        };
        if !matches!(action, FattrAction::List) && count == 0 {
            return Err(DecodeError::Missing("an attribute's name"));
        }
        Ok(Self {
            options,
            target,
            action,
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        if let HandleOrPath::Path(path) = &self.target {
            out.put_slice(path.as_bytes());
        }
        out.put_u8(0);
        let mut name = |name: &str| {
            out.put_u16(0);
            out.put_slice(name.as_bytes());
            out.put_u8(0);
        };
        match &self.action {
            FattrAction::Delete(names) | FattrAction::Get(names) => {
                names.iter().for_each(|its| name(its));
            }
            FattrAction::List => {}
            FattrAction::Set(pairs) => {
                pairs.iter().for_each(|(its, _)| name(its));
                for (_, value) in pairs {
                    out.put_slice(&wire_length(value.len()));
                    out.put_slice(value);
                }
            }
        }
    }
}

fn values(names: Vec<String>, cursor: &mut Cursor) -> Result<Vec<(String, Bytes)>, DecodeError> {
    let mut pairs = Vec::with_capacity(names.len());
    for name in names {
        let len = cursor.length()? as usize;
        if len > limits::ATTRIBUTE_VALUE_BYTES_MAX {
            return Err(DecodeError::TooLong {
                what: "an attribute's value",
                len,
                max: limits::ATTRIBUTE_VALUE_BYTES_MAX,
            });
        }
        pairs.push((name, cursor.take(len)?));
    }
    Ok(pairs)
}
