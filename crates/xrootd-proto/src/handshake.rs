//! The first bytes of a connection.

use crate::VERSION;

/// The first bytes that a client sends. They are constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake;

impl Handshake {
    /// Its length in bytes.
    pub const LEN: usize = 20;

    /// Its bytes: the numbers 0, 0, 0, 4 and 2012.
    pub const BYTES: [u8; Self::LEN] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc,
    ];

    /// Whether `bytes`, the first of a connection and perhaps incomplete, may be the beginning of a
    /// handshake.
    #[must_use]
    pub fn can_begin_with(bytes: &[u8]) -> bool {
        let len = bytes.len().min(Self::LEN);
        bytes[..len] == Self::BYTES[..len]
    }
}

/// A server's answer to the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeReply {
    /// The server's version of the protocol.
    pub version: u32,
    /// Whether it has files itself, instead of redirecting clients.
    pub data_server: bool,
}

impl Default for HandshakeReply {
    fn default() -> Self {
        Self {
            version: VERSION,
            data_server: true,
        }
    }
}

impl HandshakeReply {
    /// Its length in bytes, the header included.
    pub const LEN: usize = 16;

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[7] = 8;
        out[8..12].copy_from_slice(&self.version.to_be_bytes());
        out[15] = u8::from(self.data_server);
        out
    }

    /// Decodes a handshake; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        if bytes[..8] != [0, 0, 0, 0, 0, 0, 0, 8] {
            return None;
        }
        let number = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Some(Self {
            version: number(8),
            data_server: number(12) == 1,
        })
    }
}
