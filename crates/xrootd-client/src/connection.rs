//! A session with one server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dewar_xrootd_proto::options::dirlist as list_bits;
use dewar_xrootd_proto::reply::{DIRLIST_STAT_HEAD, StatText};
use dewar_xrootd_proto::request::{HandleOrPath, Stat};
use dewar_xrootd_proto::{FileHandle, QueryKind, Reply, Request, SessionId, StreamId};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::DropGuard;

use crate::connect::{HandshakeResult, begin, bind};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::limits::{EVENTS_MAX, SMALL_BYTES_MAX, WAIT_MAX};
use crate::options::{Identity, Options};
use crate::resolve::Resolver;
use crate::wire::{Event, Part, WireState, receive, send};

/// A session with one server; clones are the same one, and it ends with the last of them. Requests
/// run side by side.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<WireState>,
    queue: mpsc::Sender<Vec<Bytes>>,
    permits: Arc<Semaphore>,
    options: Options,
    place: Endpoint,
    secure: bool,
    local: bool,
    pages: bool,
    flags: u32,
    session: SessionId,
    /// Address of the server; its other connections use the same.
    address: SocketAddr,
    /// Numbers of further connections that are bound to the session.
    bound: Mutex<Vec<u8>>,
    /// Counter that selects the next connection.
    turn: AtomicUsize,
    _end: DropGuard,
}

/// Takes the id of a request back that was never sent.
struct UnsentRequest<'s> {
    shared: &'s WireState,
    stream: StreamId,
    sent: bool,
}

impl Drop for UnsentRequest<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.shared.unregister(self.stream);
        }
    }
}

impl Connection {
    /// Resolves, connects, encrypts if both sides can, and logs in.
    ///
    /// # Errors
    /// The error of the failed step; [`Error::Timeout`] after [`Options::connect_time`].
    pub async fn open(
        place: &Endpoint,
        resolver: &dyn Resolver,
        tls: Option<&Arc<ClientConfig>>,
        identity: &Identity,
        options: Options,
    ) -> Result<Self> {
        let limit = options.connect_time;
        let work = async {
            let addresses = resolver.resolve(place).await?;
            begin(place, &addresses, tls, identity, limit).await
        };
        let begun = timeout(limit, work).await.map_err(|_| Error::Timeout {
            what: "connecting",
            limit,
        })??;
        Ok(Self::start(begun, place.clone(), options))
    }

    pub(crate) fn start(begun: HandshakeResult, place: Endpoint, options: Options) -> Self {
        let shared = WireState::new();
        let (secure, local) = (begun.secure, begun.local);
        let (pages, flags) = (begun.has_pages(), begun.flags);
        let (session, address) = (begun.session, begun.address);
        let (reader, writer) = tokio::io::split(begun.stream);
        let (queue, requests) = mpsc::channel(options.requests_max.max(1));
        let stall = options.stall_time;
        tokio::spawn(send(writer, requests, stall, Arc::clone(&shared)));
        tokio::spawn(receive(reader, stall, Arc::clone(&shared)));
        Self {
            inner: Arc::new(Inner {
                queue,
                permits: Arc::new(Semaphore::new(options.requests_max.max(1))),
                options,
                place,
                secure,
                local,
                pages,
                flags,
                session,
                address,
                bound: Mutex::default(),
                turn: AtomicUsize::new(0),
                _end: shared.cut.clone().drop_guard(),
                shared,
            }),
        }
    }

    /// Binds another connection to the session, to the same address. From then on, data that files
    /// read comes on all of them in turn. When one ends, the session ends.
    ///
    /// # Errors
    /// As [`Connection::open`], or the server refuses further connections; the session continues
    /// without it.
    pub async fn bind(&self, tls: Option<&Arc<ClientConfig>>) -> Result<()> {
        let inner = &self.inner;
        let limit = inner.options.connect_time;
        let tls = tls.filter(|_| inner.secure);
        let binding = bind(&inner.place, inner.address, tls, inner.session, limit);
        let bound = timeout(limit, binding).await;
        let (stream, number) = bound.map_err(|_| Error::Timeout {
            what: "binding a connection",
            limit,
        })??;
        let shared = Arc::clone(&inner.shared);
        tokio::spawn(receive(stream, inner.options.stall_time, shared));
        inner.bound.lock().push(number);
        Ok(())
    }

    /// On which of the session's connections the next answer shall come.
    pub(crate) fn next_path(&self) -> u8 {
        let bound = self.inner.bound.lock();
        let turn = self.inner.turn.fetch_add(1, Relaxed) % (bound.len() + 1);
        turn.checked_sub(1).map_or(0, |at| bound[at])
    }

    /// The server.
    #[must_use]
    pub fn place(&self) -> &Endpoint {
        &self.inner.place
    }

    /// Whether it is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.inner.secure
    }

    /// Whether no third party can read the traffic: it is encrypted, or stays on this machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.inner.secure || self.inner.local
    }

    /// Whether the server has page reads and writes.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        self.inner.pages
    }

    /// The capabilities of the server: bits of [`dewar_xrootd_proto::options::server`].
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.inner.flags
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.inner.shared.is_over()
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        self.inner.shared.cut.cancelled().await;
    }

    /// Requested bytes that came, on all connections of the session. Includes bytes of incomplete
    /// replies.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.inner.shared.received()
    }

    /// Asks, and asks again where the server wants that. The reply may have `room` bytes.
    ///
    /// # Errors
    /// [`Error::Server`], [`Error::Redirect`]; what ended the connection.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        data: &[Bytes],
        room: usize,
    ) -> Result<Vec<Part>> {
        let limit = self.inner.options.wait_time;
        let until = Instant::now() + limit;
        loop {
            match self.ask_once(request, data, room, until).await? {
                (Reply::Ok(_), parts) => return Ok(parts),
                (Reply::Error { code, message }, _) => return Err(Error::Server { code, message }),
                (Reply::Redirect { port, host }, _) => return Err(Error::Redirect { host, port }),
                (Reply::Wait { seconds, .. }, _) => {
                    let pause = Duration::from_secs(u64::from(seconds)).min(WAIT_MAX);
                    let again = Instant::now() + pause.max(Duration::from_millis(100));
                    if again >= until {
                        let what = "what the server asked to wait for";
                        return Err(Error::Timeout { what, limit });
                    }
                    tokio::time::sleep_until(again).await;
                }
                _ => return Err(Error::Protocol("a reply that answers nothing".to_owned())),
            }
        }
    }

    async fn ask_once(
        &self,
        request: &Request,
        data: &[Bytes],
        room: usize,
        last: Instant,
    ) -> Result<(Reply, Vec<Part>)> {
        let inner = &self.inner;
        let shared = &*inner.shared;
        let what = request.code().name();
        // Requests that were given up have their places until they are answered, which may be never.
        let permit = Arc::clone(&inner.permits).acquire_owned();
        let permit = self.in_time(what, last, permit).await?;
        let permit = permit.map_err(|_| shared.why())?;
        let (events, mut told) = mpsc::channel(EVENTS_MAX);
        let stream = shared.register(request.code(), room, events, permit)?;
        let mut unsent = UnsentRequest {
            shared,
            stream,
            sent: false,
        };
        let mut head = BytesMut::new();
        request.encode(stream, &mut head);
        let mut pieces = Vec::with_capacity(data.len() + 1);
        pieces.push(head.freeze());
        pieces.extend(data.iter().filter(|piece| !piece.is_empty()).cloned());
        // A place in the queue is kept first, so that a request is sent or not, and nothing between.
        let place = self.in_time(what, last, inner.queue.reserve()).await?;
        let place = place.map_err(|_| shared.why())?;
        place.send(pieces);
        unsent.sent = true;
        let patience = inner.options.request_time;
        let mut until = (Instant::now() + patience).min(last);
        loop {
            match timeout_at(until, told.recv()).await {
                Ok(Some(Event::End(reply, parts))) => return Ok((reply, parts)),
                Ok(Some(Event::Later(seconds))) => {
                    let more = Duration::from_secs(u64::from(seconds)).max(patience);
                    until = (Instant::now() + more).min(last);
                }
                Ok(None) => return Err(shared.why()),
                Err(_) => {
                    let now = Instant::now();
                    // What else comes may have to come first.
                    until = (shared.heard() + patience).min(last);
                    if until > now {
                        continue;
                    }
                    // Who does not answer this will not answer others.
                    shared.end(format!("no answer to {what}"));
                    let limit = match now < last {
                        true => patience,
                        false => inner.options.wait_time,
                    };
                    return Err(Error::Timeout { what, limit });
                }
            }
        }
    }

    /// Waits for what comes before a request is sent.
    ///
    /// # Errors
    /// [`Error::Timeout`] at `last`; a server that is silent by then loses the connection.
    async fn in_time<T>(
        &self,
        what: &'static str,
        last: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let (shared, options) = (&self.inner.shared, &self.inner.options);
        match timeout_at(last, work).await {
            Ok(outcome) => Ok(outcome),
            Err(_) => {
                if shared.heard() + options.request_time <= Instant::now() {
                    shared.end(format!("no answer to what was asked before {what}"));
                }
                let limit = options.wait_time;
                Err(Error::Timeout { what, limit })
            }
        }
    }

    /// The bytes of a small reply.
    pub(crate) async fn small(&self, request: &Request) -> Result<Bytes> {
        self.whole(request, SMALL_BYTES_MAX).await
    }

    async fn whole(&self, request: &Request, room: usize) -> Result<Bytes> {
        Ok(join(self.ask(request, &[], room).await?))
    }

    /// A small reply as text, without what ends it.
    async fn text(&self, request: &Request, room: usize) -> Result<String> {
        let bytes = self.whole(request, room).await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::Protocol("a reply that is no text".to_owned()))?;
        Ok(text.trim_end_matches(['\0', '\n']).to_owned())
    }

    /// The `stat` reply for a path.
    ///
    /// # Errors
    /// As for every request: [`Error::Server`], [`Error::Redirect`]; the error that ended the
    /// connection.
    pub async fn stat(&self, path: &str) -> Result<StatText> {
        let request = Request::Stat(Stat {
            options: 0,
            wants: 0,
            target: HandleOrPath::Path(path.to_owned()),
        });
        Ok(StatText::parse(
            &self.text(&request, SMALL_BYTES_MAX).await?,
        )?)
    }

    /// The names in a directory with the `stat` reply of each; the reply may have `room` bytes.
    ///
    /// # Errors
    /// As for every request; the server sends anything but pairs of lines.
    pub async fn dirlist(&self, path: &str, room: usize) -> Result<Vec<(String, StatText)>> {
        let request = Request::Dirlist {
            options: list_bits::STAT,
            path: path.to_owned(),
        };
        let text = self.text(&request, room).await?;
        let bad = || Error::Protocol("a listing that is none".to_owned());
        let head = DIRLIST_STAT_HEAD.trim_end();
        let rest = text.strip_prefix(head).ok_or_else(bad)?;
        let mut lines = rest.lines().filter(|line| !line.is_empty());
        let mut found = Vec::new();
        while let Some(name) = lines.next() {
            let stat = StatText::parse(lines.next().ok_or_else(bad)?)?;
            found.push((name.to_owned(), stat));
        }
        Ok(found)
    }

    /// The checksum of a path, as algorithm and value.
    ///
    /// # Errors
    /// As for every request, [`Error::Server`] if there is none.
    pub async fn checksum(&self, path: &str) -> Result<(String, String)> {
        let request = Request::Query {
            kind: QueryKind::Checksum.number(),
            handle: FileHandle::default(),
            argument: Bytes::copy_from_slice(path.as_bytes()),
        };
        let text = self.text(&request, SMALL_BYTES_MAX).await?;
        match text.split_once(' ') {
            Some((name, value)) => Ok((name.to_owned(), value.trim().to_ascii_lowercase())),
            None => Err(Error::Protocol("a checksum that is none".to_owned())),
        }
    }

    /// The values of configuration keys, a line each.
    ///
    /// # Errors
    /// As for every request.
    pub async fn config(&self, keys: &str) -> Result<String> {
        let request = Request::Query {
            kind: QueryKind::Config.number(),
            handle: FileHandle::default(),
            argument: Bytes::copy_from_slice(keys.as_bytes()),
        };
        self.text(&request, SMALL_BYTES_MAX).await
    }

    /// The statistics of the server, as a line of XML.
    ///
    /// # Errors
    /// As for every request.
    pub async fn statistics(&self) -> Result<String> {
        let request = Request::Query {
            kind: QueryKind::Stats.number(),
            handle: FileHandle::default(),
            argument: Bytes::from_static(b"a"),
        };
        self.text(&request, SMALL_BYTES_MAX).await
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As for every request.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let path = path.to_owned();
        self.small(&Request::Rm { path }).await.map(drop)
    }
}

/// The bytes of a reply's parts, one behind the other.
pub(crate) fn join(mut parts: Vec<Part>) -> Bytes {
    if parts.len() == 1 {
        return parts.swap_remove(0).bytes;
    }
    let mut whole = BytesMut::with_capacity(parts.iter().map(|part| part.bytes.len()).sum());
    for part in parts {
        whole.extend_from_slice(&part.bytes);
    }
    whole.freeze()
}
