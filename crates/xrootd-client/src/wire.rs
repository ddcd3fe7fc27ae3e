//! A connection's two directions: one task sends requests, one takes replies apart and hands them
//! to whoever asked.
//!
//! A request is a slot under its stream id. The slot says how many bytes its reply may have, so that
//! nothing is taken from the socket that was not asked for; its id is used again only after the last
//! frame of its reply, also when nobody waits for it any more. Whatever breaks the protocol ends the
//! connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use dewar_xrootd_proto::reply::Progress;
use dewar_xrootd_proto::{PageStatus, Reply, RequestCode, ResponseHeader, Status, StreamId};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::limits::{FRAMES_MAX, SMALL_BYTES_MAX, TEXT_BYTES_MAX};

/// What is read ahead for headers.
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
    /// It is there whole: its parts, or what came in their place.
    End(Reply, Vec<Part>),
}

struct Slot {
    code: RequestCode,
    events: mpsc::Sender<Event>,
    parts: Vec<Part>,
    /// Bytes that may still come.
    room: usize,
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
pub(crate) struct Shared {
    slots: Mutex<Slots>,
    pub(crate) cut: CancellationToken,
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::default(),
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
        if !expected || part.bytes.len() > slot.room || slot.parts.len() >= FRAMES_MAX {
            return Err(Error::Protocol("more than was asked for".to_owned()));
        }
        slot.room -= part.bytes.len();
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
        match slot.events.try_send(Event::Later(seconds)) {
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Error::Protocol("told to wait again and again".to_owned()))
            }
            _ => Ok(()),
        }
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
    shared: Arc<Shared>,
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
pub(crate) async fn receive(reader: impl AsyncRead + Unpin, stall: Duration, shared: Arc<Shared>) {
    let mut intake = Intake {
        reader,
        buffer: BytesMut::new(),
        stall,
    };
    let outcome = tokio::select! {
        biased;
        () = shared.cut.cancelled() => return,
        outcome = intake.replies(&shared) => outcome,
    };
    if let Err(error) = outcome {
        let why = match error {
            Error::Closed(why) => why,
            error => error.to_string(),
        };
        shared.end(why);
    }
}

struct Intake<R> {
    reader: R,
    buffer: BytesMut,
    stall: Duration,
}

fn lost(error: &std::io::Error) -> Error {
    Error::Closed(error.to_string())
}

impl<R: AsyncRead + Unpin> Intake<R> {
    async fn replies(&mut self, shared: &Shared) -> Result<()> {
        loop {
            let header = self.header().await?;
            let header = ResponseHeader::decode(&header)?;
            match header.status {
                Status::Ok | Status::OkSoFar => {
                    let room = shared.room(header.stream)?;
                    let bytes = self.body(header.len as usize, room).await?;
                    let part = Part { pages: None, bytes };
                    shared.part(header.stream, part, header.status == Status::Ok)?;
                }
                Status::Status => self.pages(&header, shared).await?,
                Status::Attn => {
                    let body = self.body(header.len as usize, SMALL_BYTES_MAX).await?;
                    self.unasked(Reply::decode(&header, body)?, shared)?;
                }
                Status::WaitResp => {
                    let body = self.body(header.len as usize, TEXT_BYTES_MAX).await?;
                    if let Reply::WaitResp { seconds } = Reply::decode(&header, body)? {
                        shared.later(header.stream, seconds)?;
                    }
                }
                Status::Error | Status::Redirect | Status::Wait | Status::AuthMore => {
                    let body = self.body(header.len as usize, TEXT_BYTES_MAX).await?;
                    let reply = readable(&header, body)?;
                    shared.finish(header.stream, reply)?;
                }
            }
        }
    }

    async fn pages(&mut self, header: &ResponseHeader, shared: &Shared) -> Result<()> {
        let body = self.body(header.len as usize, TEXT_BYTES_MAX).await?;
        let Reply::Status(status) = Reply::decode(header, body)? else {
            return Err(Error::Protocol("pages that are none".to_owned()));
        };
        let room = shared.room(header.stream)?;
        let bytes = self.body(status.data_len as usize, room).await?;
        if status.progress == Progress::Alive {
            return Ok(());
        }
        let part = Part {
            pages: Some(status),
            bytes,
        };
        shared.part(header.stream, part, status.progress == Progress::Final)
    }

    /// What was not asked for, or was to come later.
    fn unasked(&self, reply: Reply, shared: &Shared) -> Result<()> {
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
            Status::Ok => shared.part(
                stream,
                Part {
                    pages: None,
                    bytes: body,
                },
                true,
            ),
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
            if read.map_err(|error| lost(&error))? == 0 {
                return Err(Error::Closed("the server closed it".to_owned()));
            }
        }
        while self.buffer.len() < ResponseHeader::LEN {
            self.buffer.reserve(BUFFER_BYTES);
            let read = timeout(self.stall, self.reader.read_buf(&mut self.buffer));
            let read = read.await.map_err(|_| self.stalled())?;
            if read.map_err(|error| lost(&error))? == 0 {
                return Err(Error::Closed("the server closed it".to_owned()));
            }
        }
        let mut header = [0; ResponseHeader::LEN];
        self.buffer.copy_to_slice(&mut header);
        Ok(header)
    }

    fn stalled(&self) -> Error {
        Error::Closed(format!("nothing came for {} s", self.stall.as_secs()))
    }

    async fn body(&mut self, len: usize, max: usize) -> Result<Bytes> {
        if len > max {
            let why = format!("{len} bytes where at most {max} are expected");
            return Err(Error::Protocol(why));
        }
        if self.buffer.len() >= len {
            return Ok(self.buffer.split_to(len).freeze());
        }
        let mut body = BytesMut::with_capacity(len.min(BODY_BYTES_FIRST));
        body.extend_from_slice(&self.buffer.split());
        while body.len() < len {
            let left = len - body.len();
            if body.capacity() == body.len() {
                body.reserve(left.min(body.len().max(BODY_BYTES_FIRST)));
            }
            let mut reader = (&mut self.reader).take(left as u64);
            let read = timeout(self.stall, reader.read_buf(&mut body)).await;
            let read = read.map_err(|_| self.stalled())?;
            if read.map_err(|error| lost(&error))? == 0 {
                return Err(Error::Closed("the server closed it".to_owned()));
            }
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
