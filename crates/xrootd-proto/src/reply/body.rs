//! Bodies of successful replies.

use bytes::{BufMut, Bytes, BytesMut};

use crate::cursor::{Cursor, text_of};
use crate::{DecodeError, FileHandle, SessionId};

/// The requests that must be signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningRules {
    /// Options of the rules.
    pub options: u8,
    /// Level, 0 for nothing at all.
    pub level: u8,
    /// Requests that differ from their level: index and need.
    pub exceptions: Vec<(u8, u8)>,
}

/// To `protocol`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolReply {
    /// The server's version.
    pub version: u32,
    /// Bits of [`crate::options::server`].
    pub flags: u32,
    /// The binding rules, if requested and different from the default.
    pub bind: Option<String>,
    /// Requests that must be signed, if this was asked for.
    pub signing: Option<SigningRules>,
}

impl ProtocolReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32(self.version);
        out.put_u32(self.flags);
        if let Some(bind) = &self.bind {
            let padded = (4 + bind.len() + 1).next_multiple_of(8);
            out.put_slice(b"B\0");
            out.put_u16(u16::try_from(padded - 4).unwrap_or(u16::MAX));
            out.put_slice(bind.as_bytes());
            out.put_bytes(0, padded - 4 - bind.len());
        }
        if let Some(signing) = &self.signing {
            out.put_slice(b"S\0");
            out.put_slice(&[0, signing.options, signing.level]);
            out.put_u8(u8::try_from(signing.exceptions.len()).unwrap_or(u8::MAX));
            for (index, need) in signing.exceptions.iter().take(usize::from(u8::MAX)) {
                out.put_slice(&[*index, *need]);
            }
        }
        out.freeze()
    }

    /// Reads it.
    ///
    /// # Errors
    /// It ends early.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes.clone(), "a reply to protocol");
        let mut reply = Self {
            version: cursor.u32()?,
            flags: cursor.u32()?,
            ..Self::default()
        };
        while !cursor.is_empty() {
            let tag = cursor.u8()?;
            cursor.u8()?;
            match tag {
                b'B' => {
                    let len = cursor.u16()?;
                    let text = cursor.take(usize::from(len))?;
                    reply.bind = Some(text_of(&text, "how to bind")?);
                }
                b'S' => {
                    cursor.u8()?;
                    let (options, level, count) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
                    let mut exceptions = Vec::with_capacity(usize::from(count));
                    for _ in 0..count {
                        exceptions.push((cursor.u8()?, cursor.u8()?));
                    }
                    reply.signing = Some(SigningRules {
                        options,
                        level,
                        exceptions,
                    });
                }
                _ => return Err(DecodeError::Invalid("a reply to protocol")),
            }
        }
        Ok(reply)
    }
}

/// To `login`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginReply {
    /// The session.
    pub session: SessionId,
    /// The accepted authentication protocols: `&P=ztn,0:4096:&P=…`; empty if none is needed.
    pub security: String,
}

impl LoginReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16 + self.security.len() + 1);
        out.put_slice(&self.session.0);
        if !self.security.is_empty() {
            out.put_slice(self.security.as_bytes());
            out.put_u8(0);
        }
        out.freeze()
    }

    /// Reads it.
    ///
    /// # Errors
    /// It ends early, or is no text.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, "a reply to login");
        Ok(Self {
            session: SessionId(cursor.array()?),
            security: text_of(&cursor.rest(), "how to prove oneself")?,
        })
    }
}

/// To `open`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReply {
    /// The file.
    pub handle: FileHandle,
    /// The `stat` reply, if it was requested.
    pub stat: Option<String>,
}

impl OpenReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_slice(&self.handle.0);
        if let Some(stat) = &self.stat {
            // Neither block size nor kind of compression: nobody compresses any more.
            out.put_u64(0);
            out.put_slice(stat.as_bytes());
            out.put_u8(0);
        }
        out.freeze()
    }

    /// Reads it.
    ///
    /// # Errors
    /// It ends early, or is no text.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, "a reply to open");
        let handle = FileHandle(cursor.array()?);
        if cursor.is_empty() {
            return Ok(Self { handle, stat: None });
        }
        cursor.u64()?;
        let stat = text_of(&cursor.rest(), "what stat says")?;
        Ok(Self {
            handle,
            stat: (!stat.is_empty()).then_some(stat),
        })
    }
}

/// To a query of `chkpoint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointSpace {
    /// Bytes that may change at most.
    pub max: u32,
    /// Bytes that have.
    pub used: u32,
}

impl CheckpointSpace {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8);
        out.put_u32(self.max);
        out.put_u32(self.used);
        out.freeze()
    }
}
