//! Reading a connection, with a deadline for everything.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout};

use dewar_xrootd_proto::RequestHeader;

use super::ConnectionEnd;
use crate::door::DoorLimits;

/// What is read ahead for headers and arguments.
const BUFFER_BYTES: usize = 32 << 10;

/// The reading half of a connection.
pub(crate) struct RequestReader<R> {
    reader: R,
    buffer: BytesMut,
    idle: Duration,
    stall: Duration,
    /// For a connection that has not logged in.
    login_until: Instant,
}

impl<R: AsyncRead + Unpin> RequestReader<R> {
    /// `unread` was read before and is first; the login is to end at `login_until`.
    pub(crate) fn new(
        reader: R,
        unread: BytesMut,
        limits: DoorLimits,
        login_until: Instant,
    ) -> Self {
        Self {
            reader,
            buffer: unread,
            idle: limits.idle_timeout,
            stall: limits.stall_timeout,
            login_until,
        }
    }

    /// How long the connection may be idle from now on.
    pub(crate) fn set_idle(&mut self, idle: Duration) {
        self.idle = self.idle.min(idle);
    }

    /// The header of a next request; the connection may be idle before.
    pub(crate) async fn header(&mut self) -> Result<[u8; RequestHeader::LEN], ConnectionEnd> {
        if self.buffer.is_empty() {
            self.buffer.reserve(BUFFER_BYTES);
            match timeout(self.idle, self.reader.read_buf(&mut self.buffer)).await {
                Err(_) => return Err(ConnectionEnd::Idle),
                Ok(Ok(0)) => return Err(ConnectionEnd::Closed),
                Ok(read) => read?,
            };
        }
        self.fill(RequestHeader::LEN).await?;
        let mut header = [0; RequestHeader::LEN];
        self.buffer.copy_to_slice(&mut header);
        Ok(header)
    }

    /// When a connection must have logged in.
    pub(crate) fn login_until(&self) -> Instant {
        self.login_until
    }

    /// Waits until so many bytes are in the buffer.
    async fn fill(&mut self, len: usize) -> Result<(), ConnectionEnd> {
        while self.buffer.len() < len {
            self.buffer
                .reserve((len - self.buffer.len()).max(BUFFER_BYTES));
            match timeout(self.stall, self.reader.read_buf(&mut self.buffer)).await {
                Err(_) => return Err(ConnectionEnd::Stalled),
                Ok(Ok(0)) => return Err(ConnectionEnd::Closed),
                Ok(read) => read?,
            };
        }
        Ok(())
    }

    /// So many bytes.
    pub(crate) async fn exact(&mut self, len: usize) -> Result<Bytes, ConnectionEnd> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        self.fill(len).await?;
        Ok(self.buffer.split_to(len).freeze())
    }

    /// So many bytes of data, read into a buffer of their own.
    pub(crate) async fn data(&mut self, len: usize) -> Result<BytesMut, ConnectionEnd> {
        let mut data = BytesMut::with_capacity(len);
        let ready = self.buffer.len().min(len);
        data.extend_from_slice(&self.buffer.split_to(ready));
        while data.len() < len {
            let left = (len - data.len()) as u64;
            let mut reader = (&mut self.reader).take(left);
            match timeout(self.stall, reader.read_buf(&mut data)).await {
                Err(_) => return Err(ConnectionEnd::Stalled),
                Ok(Ok(0)) => return Err(ConnectionEnd::Closed),
                Ok(read) => read?,
            };
        }
        Ok(data)
    }

    /// Throws bytes away.
    pub(crate) async fn skip(&mut self, mut len: usize) -> Result<(), ConnectionEnd> {
        while len > 0 {
            let take = len.min(BUFFER_BYTES);
            self.fill(take).await?;
            self.buffer.advance(take);
            len -= take;
        }
        Ok(())
    }
}
