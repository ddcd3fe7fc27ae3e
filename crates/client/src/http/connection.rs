//! The sending side of a connection. The receiving side is in [`super::receive`].

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ClientConfig;

use super::stream::{HttpStream, is_pause};
use super::{Bytes, Deadline, Endpoint, ErrorPhase, HttpError};

/// The transport to a server: its endpoint, resolved once, and its TLS configuration.
#[derive(Clone, Debug)]
pub struct Transport {
    /// The server.
    pub endpoint: Endpoint,
    /// Its addresses, tried in order.
    pub addresses: Vec<SocketAddr>,
    /// Present if and only if the endpoint is https.
    pub tls: Option<Arc<ClientConfig>>,
}

/// One keep-alive connection, opened when first needed and again after it ended.
pub struct Connection {
    transport: Arc<Transport>,
    pub(super) stream: Option<HttpStream>,
    pub(super) inbox: Inbox,
    /// Buffer for dropped bytes. It is never touched on plain sockets, so it uses no memory there.
    pub(super) scratch: Vec<u8>,
    answered: u64,
    opened: u64,
}

/// Bytes received and not yet consumed.
pub(super) struct Inbox {
    pub(super) buffer: Vec<u8>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Room for a head of up to this size; a larger one is refused.
const INBOX_BYTES: usize = 16 << 10;
/// Bytes dropped by one call.
const SCRATCH_BYTES: usize = 1 << 20;
/// Bytes of one vectored write: enough to amortise the call, and small enough to stay in the cache
/// until the kernel copies them.
const WRITE_BYTES: usize = 1 << 20;
const WRITE_SLICES: usize = 16;

impl Inbox {
    pub(super) fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("endpoint", &self.transport.endpoint)
            .field("open", &self.stream.is_some())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection that is not open yet.
    #[must_use]
    pub fn new(transport: Arc<Transport>) -> Self {
        Self {
            transport,
            stream: None,
            inbox: Inbox {
                buffer: vec![0; INBOX_BYTES],
                start: 0,
                end: 0,
            },
            scratch: vec![0; SCRATCH_BYTES],
            answered: 0,
            opened: 0,
        }
    }

    /// Opens the connection if it is not open.
    ///
    /// # Errors
    /// Those of connecting and of the TLS handshake.
    pub fn open(&mut self, deadline: Deadline) -> Result<(), HttpError> {
        if self.stream.is_none() {
            let Transport {
                endpoint,
                addresses,
                tls,
            } = &*self.transport;
            self.stream = Some(HttpStream::connect(
                endpoint,
                addresses,
                tls.as_ref(),
                deadline,
            )?);
            (self.inbox.start, self.inbox.end) = (0, 0);
            self.answered = 0;
            self.opened += 1;
        }
        Ok(())
    }

    /// Ends the connection; the next request opens another.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// How often it was opened.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Whether the open connection has served a request before.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.stream.is_some() && self.answered > 0
    }

    pub(super) fn note_answer(&mut self) {
        self.answered += 1;
    }

    /// Sends all of `slices`.
    ///
    /// # Errors
    /// If the connection is closed or not open, or the deadline passes.
    pub fn send(
        &mut self,
        mut slices: &mut [IoSlice<'_>],
        deadline: Deadline,
    ) -> Result<(), HttpError> {
        let during = ErrorPhase::Send;
        let stream = self.stream.as_mut().ok_or(HttpError::Closed { during })?;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match stream.write_vectored(slices) {
                Ok(0) => return Err(HttpError::Closed { during }),
                Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
                Err(e) if is_pause(&e) => {}
                Err(source) => return Err(HttpError::Io { during, source }),
            }
            if !slices.is_empty() {
                deadline.check(during)?;
            }
        }
        Ok(())
    }

    /// Sends `head` and the bytes `from..to` of `body`, the first of them together.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_bytes(
        &mut self,
        head: &[u8],
        body: &(impl Bytes + ?Sized),
        range: std::ops::Range<u64>,
        deadline: Deadline,
    ) -> Result<(), HttpError> {
        let mut offset = range.start;
        let mut head = Some(head);
        while offset < range.end || head.is_some() {
            let mut slices = [IoSlice::new(&[]); WRITE_SLICES];
            let (mut count, mut bytes) = (0, 0);
            if let Some(head) = head.take() {
                slices[0] = IoSlice::new(head);
                count = 1;
            }
            while count < WRITE_SLICES && bytes < WRITE_BYTES && offset < range.end {
                let piece = body.at(offset);
                let left = usize::try_from(range.end - offset).unwrap_or(usize::MAX);
                let piece = &piece[..piece.len().min(left).min(WRITE_BYTES - bytes)];
                assert!(!piece.is_empty(), "a body is as long as it says");
                slices[count] = IoSlice::new(piece);
                count += 1;
                bytes += piece.len();
                offset += piece.len() as u64;
            }
            self.send(&mut slices[..count], deadline)?;
        }
        Ok(())
    }

    /// Marks the end of the request: sends data that TLS still buffers.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn finish_request(&mut self, deadline: Deadline) -> Result<(), HttpError> {
        let during = ErrorPhase::Send;
        let stream = self.stream.as_mut().ok_or(HttpError::Closed { during })?;
        loop {
            match stream.flush() {
                Ok(()) => return Ok(()),
                Err(e) if is_pause(&e) => deadline.check(during)?,
                Err(source) => return Err(HttpError::Io { during, source }),
            }
        }
    }
}
