//! The receiving half of a connection: heads, and the three ways a body can be framed.

use super::connection::Connection;
use super::stream::is_pause;
use super::{Deadline, ErrorPhase, HttpError, Sink};

/// The used fields of an answer's head, and the size of its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// Bytes of body received.
    pub body_bytes: u64,
    /// The Content-Length that was announced; the object's size in the answer to a HEAD.
    pub content_length: Option<u64>,
    /// The ETag, if there is one.
    pub etag: Option<String>,
    /// The body, if the status is not a success: the server's description of the error.
    pub error_body: Vec<u8>,
}

/// Headers an answer may have.
const HEADERS_MAX: usize = 64;
/// Body of an error that is kept.
const ERROR_BODY_BYTES_MAX: usize = 64 << 10;
/// Body bytes that are read in one call, if the body is used.
const READ_BYTES: usize = 256 << 10;

struct Head {
    answer: ResponseHead,
    framing: Framing,
    keep_alive: bool,
}

#[derive(Clone, Copy)]
enum Framing {
    None,
    Length(u64),
    Chunks,
    UntilClose,
}

impl Connection {
    /// Receives the answer to the request that was sent. With `is_head` it has no body, even if its
    /// headers announce one.
    ///
    /// # Errors
    /// If the answer breaks off, breaks the rules of HTTP, or does not fit the sink. The connection
    /// is closed then.
    pub fn receive(
        &mut self,
        is_head: bool,
        sink: &mut Sink<'_>,
        deadline: Deadline,
    ) -> Result<ResponseHead, HttpError> {
        let result = self.receive_or_fail(is_head, sink, deadline);
        if result.is_err() {
            self.close();
        }
        result
    }

    fn receive_or_fail(
        &mut self,
        is_head: bool,
        sink: &mut Sink<'_>,
        deadline: Deadline,
    ) -> Result<ResponseHead, HttpError> {
        let mut head = self.head(is_head, deadline)?;
        // An interim answer announces the real one.
        while (100..200).contains(&head.answer.status) {
            head = self.head(is_head, deadline)?;
        }
        let Head {
            mut answer,
            framing,
            keep_alive,
        } = head;
        if (200..300).contains(&answer.status) {
            answer.body_bytes = self.body(framing, sink, deadline)?;
        } else {
            let mut kept = Vec::new();
            answer.body_bytes = self.body(framing, &mut Sink::Collect(&mut kept), deadline)?;
            kept.truncate(ERROR_BODY_BYTES_MAX);
            answer.error_body = kept;
        }
        if !keep_alive {
            self.close();
        } else if !self.inbox.unread().is_empty() {
            return Err(HttpError::malformed("bytes after the end of the answer"));
        }
        self.note_answer();
        Ok(answer)
    }

    fn head(&mut self, is_head: bool, deadline: Deadline) -> Result<Head, HttpError> {
        loop {
            if let Some((head, len)) = parse_head(self.inbox.unread(), is_head)? {
                self.inbox.start += len;
                return Ok(head);
            }
            let during = match self.inbox.unread().is_empty() {
                true => ErrorPhase::Wait,
                false => ErrorPhase::Receive,
            };
            self.fill(during, deadline)?;
        }
    }

    /// Receives more bytes into the inbox, behind those not yet consumed.
    fn fill(&mut self, during: ErrorPhase, deadline: Deadline) -> Result<(), HttpError> {
        if self.inbox.start == self.inbox.end {
            (self.inbox.start, self.inbox.end) = (0, 0);
        } else if self.inbox.end == self.inbox.buffer.len() {
            self.inbox
                .buffer
                .copy_within(self.inbox.start..self.inbox.end, 0);
            self.inbox.end -= self.inbox.start;
            self.inbox.start = 0;
        }
        let stream = self.stream.as_mut().ok_or(HttpError::Closed { during })?;
        let room = &mut self.inbox.buffer[self.inbox.end..];
        if room.is_empty() {
            return Err(HttpError::malformed("head too long"));
        }
        loop {
            match stream.read(room) {
                Ok(0) => return Err(HttpError::Closed { during }),
                Ok(len) => {
                    self.inbox.end += len;
                    return Ok(());
                }
                Err(e) if is_pause(&e) => deadline.check(during)?,
                Err(source) => return Err(HttpError::Io { during, source }),
            }
        }
    }

    fn body(
        &mut self,
        framing: Framing,
        sink: &mut Sink<'_>,
        deadline: Deadline,
    ) -> Result<u64, HttpError> {
        match framing {
            Framing::None => Ok(0),
            Framing::Length(length) => {
                self.take(length, sink, deadline)?;
                Ok(length)
            }
            Framing::Chunks => self.chunks(sink, deadline),
            Framing::UntilClose => {
                let mut total = 0;
                loop {
                    let unread = self.inbox.unread();
                    total += unread.len() as u64;
                    sink.take(unread)?;
                    self.inbox.start = self.inbox.end;
                    match self.fill(ErrorPhase::Receive, deadline) {
                        Ok(()) => deadline.check(ErrorPhase::Receive)?,
                        Err(HttpError::Closed { .. }) => return Ok(total),
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }

    /// Takes exactly `length` bytes of body: those in the inbox, then those of the socket.
    fn take(
        &mut self,
        length: u64,
        sink: &mut Sink<'_>,
        deadline: Deadline,
    ) -> Result<(), HttpError> {
        let during = ErrorPhase::Receive;
        let unread = self.inbox.unread();
        let len = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(unread.len());
        sink.take(&unread[..len])?;
        self.inbox.start += len;
        let mut left = length - len as u64;
        while left > 0 {
            let stream = self.stream.as_mut().ok_or(HttpError::Closed { during })?;
            let discard = matches!(sink, Sink::Discard);
            let call_bytes = if discard {
                self.scratch.len()
            } else {
                READ_BYTES
            };
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(call_bytes);
            let room = &mut self.scratch[..len];
            let received = if discard {
                stream.discard(room)
            } else {
                stream.read(room)
            };
            match received {
                Ok(0) => return Err(HttpError::Closed { during }),
                Ok(len) => {
                    if !discard {
                        sink.take(&self.scratch[..len])?;
                    }
                    left -= len as u64;
                }
                Err(e) if is_pause(&e) => {}
                Err(source) => return Err(HttpError::Io { during, source }),
            }
            if left > 0 {
                deadline.check(during)?;
            }
        }
        Ok(())
    }

    fn chunks(&mut self, sink: &mut Sink<'_>, deadline: Deadline) -> Result<u64, HttpError> {
        let mut total = 0_u64;
        loop {
            let size = loop {
                match httparse::parse_chunk_size(self.inbox.unread()) {
                    Ok(httparse::Status::Complete((len, size))) => {
                        self.inbox.start += len;
                        break size;
                    }
                    Ok(httparse::Status::Partial) => self.fill(ErrorPhase::Receive, deadline)?,
                    Err(_) => return Err(HttpError::malformed("chunk size")),
                }
            };
            if size == 0 {
                // Trailers, if any, up to an empty line.
                while !self.line(deadline)?.is_empty() {}
                return Ok(total);
            }
            self.take(size, sink, deadline)?;
            total = total.saturating_add(size);
            if !self.line(deadline)?.is_empty() {
                return Err(HttpError::malformed("chunk longer than its size"));
            }
        }
    }

    /// The next line of a chunked body's framing, without its end.
    fn line(&mut self, deadline: Deadline) -> Result<Vec<u8>, HttpError> {
        loop {
            if let Some(at) = self.inbox.unread().iter().position(|byte| *byte == b'\n') {
                let line = self.inbox.unread()[..at].trim_ascii_end().to_vec();
                self.inbox.start += at + 1;
                return Ok(line);
            }
            self.fill(ErrorPhase::Receive, deadline)?;
        }
    }
}

/// Parses a head; `None` if it is not complete yet. Returns it with its length.
fn parse_head(bytes: &[u8], is_head: bool) -> Result<Option<(Head, usize)>, HttpError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(e) => return Err(HttpError::malformed(e.to_string())),
    };
    let status = parsed
        .code
        .ok_or_else(|| HttpError::malformed("no status"))?;
    let mut answer = ResponseHead {
        status,
        ..ResponseHead::default()
    };
    let mut keep_alive = parsed.version == Some(1);
    let mut chunked = false;
    for header in parsed.headers.iter() {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(value)
                .ok()
                .and_then(|text| text.parse().ok());
            let length = length.ok_or_else(|| HttpError::malformed("Content-Length"))?;
            if answer.content_length.is_some_and(|other| other != length) {
                return Err(HttpError::malformed("two Content-Lengths"));
            }
            answer.content_length = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case(b"chunked");
            if !chunked {
                return Err(HttpError::malformed("Transfer-Encoding other than chunked"));
            }
        } else if header.name.eq_ignore_ascii_case("connection") {
            if value.eq_ignore_ascii_case(b"close") {
                keep_alive = false;
            } else if value.eq_ignore_ascii_case(b"keep-alive") {
                keep_alive = true;
            }
        } else if header.name.eq_ignore_ascii_case("etag") {
            answer.etag = Some(String::from_utf8_lossy(value).into_owned());
        }
    }
    let framing = if is_head || status < 200 || status == 204 || status == 304 {
        Framing::None
    } else if chunked {
        Framing::Chunks
    } else if let Some(length) = answer.content_length {
        Framing::Length(length)
    } else {
        keep_alive = false;
        Framing::UntilClose
    };
    Ok(Some((
        Head {
            answer,
            framing,
            keep_alive,
        },
        len,
    )))
}
