//! A connection's two directions: one task sends requests, another one parses replies and passes
//! them to the callers.
//!
//! A request is a slot under its stream id. The slot limits the bytes of the reply, so that nothing
//! is read from the socket that was not requested. The id is reused only after the last frame of
//! its reply, even if nobody waits for the reply any more. Any violation of the protocol ends the
//! connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use dewar_xrootd_proto::reply::ResponseType;
use dewar_xrootd_proto::{PageStatus, Reply, RequestCode, ResponseHeader, Status, StreamId};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::limits::{FRAME_BYTES_MIN, FRAMES_SPARE, SMALL_BYTES_MAX, TEXT_BYTES_MAX};

/// What is read ahead for headers. Whatever came along is copied out, so that no part of a reply, however
/// small, keeps all of it.
const BUFFER_BYTES: usize = 32 << 10;

/// Bytes taken for a body before any of it is there.
const BODY_BYTES_FIRST: usize = 1 << 20;

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Of pages: the head that came before them.
    pub(crate) pages: Option<PageStatus>,
    pub(crate) bytes: Bytes,
}

/// What is told to whoever asked.
#[derive(Debug)]
pub(crate) enum Event {
    /// The reply comes within so many seconds.
    Later(u32),
    /// The complete reply with its parts, or the error in its place.
    End(Reply, Vec<Part>),
}

struct Slot {
    code: RequestCode,
    events: mpsc::Sender<Event>,
    parts: Vec<Part>,
    /// Bytes that may still come.
    room: usize,
    /// Frames that may still come.
    frames: usize,
    _permit: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Slots {
    by_id: BTreeMap<u16, Slot>,
    last: u16,
    /// Why the connection ended.
    ended: Option<String>,
}

/// What both tasks and all who ask share.
pub(crate) struct WireState {
    slots: Mutex<Slots>,
    /// When anything came last.
    heard: Mutex<Instant>,
    /// Requested bytes that came.
    received: AtomicU64,
    pub(crate) cut: CancellationToken,
}

impl WireState {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            received: AtomicU64::new(0),
            cut: CancellationToken::new(),
        })
    }

    /// Ends the connection; the first reason counts.
    pub(crate) fn end(&self, why: String) {
        let waiting = {
            let mut slots = self.slots.lock();
            slots.ended.get_or_insert(why);
            std::mem::take(&mut slots.by_id)
        };
        self.cut.cancel();
        drop(waiting);
    }

    pub(crate) fn why(&self) -> Error {
        let ended = self.slots.lock().ended.clone();
        Error::Closed(ended.unwrap_or_else(|| "it is over".to_owned()))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.slots.lock().ended.is_some()
    }

    /// When the server said anything last.
    pub(crate) fn heard(&self) -> Instant {
        *self.heard.lock()
    }

    /// Bytes that came and were asked for, those of replies that are not whole included.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    fn came(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Takes a stream id for a request whose reply may have `room` bytes.
    pub(crate) fn register(
        &self,
        code: RequestCode,
        room: usize,
        events: mpsc::Sender<Event>,
        permit: OwnedSemaphorePermit,
    ) -> Result<StreamId> {
        let mut slots = self.slots.lock();
        if slots.ended.is_some() {
            drop(slots);
            return Err(self.why());
        }
        // There are far more ids than permits.
        loop {
            slots.last = slots.last.wrapping_add(1).max(1);
            let id = slots.last;
            if let std::collections::btree_map::Entry::Vacant(free) = slots.by_id.entry(id) {
                free.insert(Slot {
                    code,
                    events,
                    parts: Vec::new(),
                    room,
                    frames: room / FRAME_BYTES_MIN + FRAMES_SPARE,
                    _permit: permit,
                });
                return Ok(StreamId(id.to_be_bytes()));
            }
        }
    }

    /// Gives an id back whose request was never sent.
    pub(crate) fn unregister(&self, stream: StreamId) {
        self.slots
            .lock()
            .by_id
            .remove(&u16::from_be_bytes(stream.0));
    }

    /// Bytes that a reply of that id may still have.
    fn room(&self, stream: StreamId) -> Result<usize> {
        let slots = self.slots.lock();
        let slot = slots.by_id.get(&u16::from_be_bytes(stream.0));
        slot.map(|slot| slot.room).ok_or_else(|| unasked(stream))
    }

    /// Takes a part in; with `last` the reply is whole.
    fn part(&self, stream: StreamId, part: Part, last: bool) -> Result<()> {
        let mut slots = self.slots.lock();
        let id = u16::from_be_bytes(stream.0);
        let slot = slots.by_id.get_mut(&id).ok_or_else(|| unasked(stream))?;
        let expected = part.pages.is_none_or(|pages| pages.request == slot.code);
        if !expected || part.bytes.len() > slot.room || slot.frames == 0 {
            return Err(Error::Protocol("more than was asked for".to_owned()));
        }
        slot.room -= part.bytes.len();
        slot.frames -= 1;
        // For nobody it need not be kept.
        if !slot.events.is_closed() && (!part.bytes.is_empty() || last) {
            slot.parts.push(part);
        }
        if last && let Some(slot) = slots.by_id.remove(&id) {
            let _ = slot
                .events
                .try_send(Event::End(Reply::Ok(Bytes::new()), slot.parts));
        }
        Ok(())
    }

    /// Ends a reply that is no data.
    fn finish(&self, stream: StreamId, reply: Reply) -> Result<()> {
        let id = u16::from_be_bytes(stream.0);
        let slot = self.slots.lock().by_id.remove(&id);
        let slot = slot.ok_or_else(|| unasked(stream))?;
        let _ = slot.events.try_send(Event::End(reply, Vec::new()));
        Ok(())
    }

    fn later(&self, stream: StreamId, seconds: u32) -> Result<()> {
        let slots = self.slots.lock();
        let slot = slots.by_id.get(&u16::from_be_bytes(stream.0));
        let slot = slot.ok_or_else(|| unasked(stream))?;
        if slot.events.is_closed() {
            return Ok(());
        }
        // The last place is the end's.
        if slot.events.capacity() <= 1 {
            let why = "told to wait again and again".to_owned();
            return Err(Error::Protocol(why));
        }
        let _ = slot.events.try_send(Event::Later(seconds));
        Ok(())
    }
}

fn unasked(stream: StreamId) -> Error {
    let id = u16::from_be_bytes(stream.0);
    Error::Protocol(format!("a reply to request {id:04x}, which was not sent"))
}

/// Sends what is queued until the connection ends.
pub(crate) async fn send(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<Bytes>>,
    stall: Duration,
    shared: Arc<WireState>,
) {
    let work = async {
        loop {
            let Some(first) = queue.recv().await else {
                return Ok(());
            };
            let mut pieces = Some(first);
            while let Some(request) = pieces {
                for mut piece in request {
                    while piece.has_remaining() {
                        timeout(stall, writer.write_buf(&mut piece))
                            .await
                            .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
                    }
                }
                pieces = queue.try_recv().ok();
            }
            timeout(stall, writer.flush())
                .await
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        }
    };
    let outcome: std::io::Result<()> = tokio::select! {
        biased;
        () = shared.cut.cancelled() => Ok(()),
        outcome = work => outcome,
    };
    if let Err(error) = outcome {
        shared.end(format!("a request could not be sent: {error}"));
    }
}

/// Takes replies until the connection ends.
pub(crate) async fn receive(
    reader: impl AsyncRead + Unpin,
    stall: Duration,
    shared: Arc<WireState>,
) {
    let mut intake = Intake {
        reader,
        buffer: BytesMut::new(),
        stall,
        shared: &shared,
    };
    let outcome = tokio::select! {
        biased;
        () = shared.cut.cancelled() => return,
        outcome = intake.replies() => outcome,
    };
    if let Err(error) = outcome {
        let why = match error {
            Error::Closed(why) => why,
            error => error.to_string(),
        };
        shared.end(why);
    }
}

struct Intake<'s, R> {
    reader: R,
    buffer: BytesMut,
    stall: Duration,
    shared: &'s WireState,
}

fn lost(error: &std::io::Error) -> Error {
    Error::Closed(error.to_string())
}

impl<R: AsyncRead + Unpin> Intake<'_, R> {
    async fn replies(&mut self) -> Result<()> {
        let shared = self.shared;
        loop {
            let header = self.header().await?;
            let header = ResponseHeader::decode(&header)?;
            match header.status {
                Status::Ok | Status::OkSoFar => {
                    let room = shared.room(header.stream)?;
                    let bytes = self.body(header.len as usize, room, true).await?;
                    let part = Part { pages: None, bytes };
                    shared.part(header.stream, part, header.status == Status::Ok)?;
                }
                Status::Status => self.pages(&header).await?,
                Status::Attn => {
                    let body = self.small(&header, SMALL_BYTES_MAX).await?;
                    self.unasked(Reply::decode(&header, body)?)?;
                }
                Status::WaitResp => {
                    let body = self.small(&header, TEXT_BYTES_MAX).await?;
                    if let Reply::WaitResp { seconds } = Reply::decode(&header, body)? {
                        shared.later(header.stream, seconds)?;
                    }
                }
                Status::Error | Status::Redirect | Status::Wait | Status::AuthMore => {
                    let body = self.small(&header, TEXT_BYTES_MAX).await?;
                    let reply = readable(&header, body)?;
                    shared.finish(header.stream, reply)?;
                }
            }
        }
    }

    async fn pages(&mut self, header: &ResponseHeader) -> Result<()> {
        let shared = self.shared;
        let body = self.small(header, TEXT_BYTES_MAX).await?;
        let Reply::Status(status) = Reply::decode(header, body)? else {
            return Err(Error::Protocol("pages that are none".to_owned()));
        };
        let room = shared.room(header.stream)?;
        let alive = status.progress == ResponseType::Alive;
        let bytes = self.body(status.data_len as usize, room, !alive).await?;
        if alive {
            return Ok(());
        }
        let part = Part {
            pages: Some(status),
            bytes,
        };
        shared.part(header.stream, part, status.progress == ResponseType::Final)
    }

    /// What was not asked for, or was to come later.
    fn unasked(&self, reply: Reply) -> Result<()> {
        let shared = self.shared;
        let Reply::Later {
            stream,
            status,
            body,
        } = reply
        else {
            return Ok(());
        };
        let header = ResponseHeader {
            stream,
            status,
            len: u32::try_from(body.len()).unwrap_or(u32::MAX),
        };
        match status {
            Status::Ok => {
                shared.came(body.len());
                let part = Part {
                    pages: None,
                    bytes: body,
                };
                shared.part(stream, part, true)
            }
            Status::Error | Status::Redirect | Status::Wait => {
                shared.finish(stream, readable(&header, body)?)
            }
            _ => Err(Error::Protocol("a late reply that is none".to_owned())),
        }
    }

    async fn header(&mut self) -> Result<[u8; ResponseHeader::LEN]> {
        if self.buffer.is_empty() {
            // Between replies there is no hurry: who waits for one has a deadline.
            self.buffer.reserve(BUFFER_BYTES);
            let read = self.reader.read_buf(&mut self.buffer).await;
            self.heard(read)?;
        }
        while self.buffer.len() < ResponseHeader::LEN {
            self.buffer.reserve(BUFFER_BYTES - ResponseHeader::LEN);
            let read = timeout(self.stall, self.reader.read_buf(&mut self.buffer));
            let read = read.await.map_err(|_| self.stalled())?;
            self.heard(read)?;
        }
        let mut header = [0; ResponseHeader::LEN];
        self.buffer.copy_to_slice(&mut header);
        Ok(header)
    }

    fn stalled(&self) -> Error {
        Error::Closed(format!("nothing came for {} s", self.stall.as_secs()))
    }

    /// Takes note that something came; what was read of the end is an error.
    fn heard(&self, read: std::io::Result<usize>) -> Result<usize> {
        match read.map_err(|error| lost(&error))? {
            0 => Err(Error::Closed("the server closed it".to_owned())),
            read => {
                *self.shared.heard.lock() = Instant::now();
                Ok(read)
            }
        }
    }

    /// The body of what is no data.
    async fn small(&mut self, header: &ResponseHeader, max: usize) -> Result<Bytes> {
        self.body(header.len as usize, max, false).await
    }

    /// The next `len` bytes, counted where they are `data` that was asked for.
    async fn body(&mut self, len: usize, max: usize, data: bool) -> Result<Bytes> {
        if len > max {
            let why = format!("{len} bytes where at most {max} are expected");
            return Err(Error::Protocol(why));
        }
        let shared = self.shared;
        let count = |bytes| {
            if data {
                shared.came(bytes);
            }
        };
        if self.buffer.len() >= len {
            let body = Bytes::copy_from_slice(&self.buffer[..len]);
            self.buffer.advance(len);
            count(len);
            return Ok(body);
        }
        let mut body = BytesMut::with_capacity(len.min(BODY_BYTES_FIRST));
        body.extend_from_slice(&self.buffer);
        self.buffer.clear();
        count(body.len());
        while body.len() < len {
            let left = len - body.len();
            if body.capacity() == body.len() {
                body.reserve(left.min(body.len().max(BODY_BYTES_FIRST)));
            }
            let mut reader = (&mut self.reader).take(left as u64);
            let read = timeout(self.stall, reader.read_buf(&mut body)).await;
            let read = read.map_err(|_| self.stalled())?;
            count(self.heard(read)?);
        }
        Ok(body.freeze())
    }
}

/// A reply whose words may be no text: then they are read as far as they are.
fn readable(header: &ResponseHeader, body: Bytes) -> Result<Reply> {
    match Reply::decode(header, body.clone()) {
        Err(dewar_xrootd_proto::DecodeError::NotText(_)) if header.status == Status::Error => {
            let (code, words) = body.split_at_checked(4).unwrap_or((&[], &[]));
            let code = <[u8; 4]>::try_from(code).map_or(0, u32::from_be_bytes);
            let message = String::from_utf8_lossy(words).into_owned();
            Ok(Reply::Error { code, message })
        }
        decoded => Ok(decoded?),
    }
}
