//! The ranges of one file over several connections, in order.
//!
//! Each connection asks for one block after the other. A block is handed on when it is whole.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use http::header::IF_MATCH;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;

use crate::answer_head::{ContentRange, content_range, strong_etag};
use crate::block_memory::block_bytes;
use crate::client::TransferClient;
use crate::exchange::{RemoteAnswer, RemoteSession, broken, in_time};
use crate::failure::{FailureCause, TransferFailure};
use crate::progress::TransferProgress;
use crate::request::{PullRequest, SourceDescription};
use crate::request_headers::{add_range, header_value};

/// One block of the file.
pub(crate) struct FileBlock {
    /// Its bytes in one buffer, however small the pieces were in which they came.
    pub(crate) bytes: Bytes,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// A block, or `None` if the source answers no ranges.
type BlockResult = Result<Option<FileBlock>, TransferFailure>;

/// The blocks of a file from some byte on.
pub(crate) struct RangedSource<'a> {
    request: &'a PullRequest,
    client: &'a TransferClient,
    progress: &'a Arc<TransferProgress>,
    etag: Option<String>,
    /// Nothing but the tag shows that all blocks are of one version.
    tag_only: bool,
    size: u64,
    /// The first byte that was not asked for.
    asked: u64,
    block_bytes: u64,
    streams: usize,
    /// Connections without a request.
    idle: Arc<Mutex<Vec<RemoteSession<'a>>>>,
    ahead: FuturesOrdered<BoxFuture<'a, BlockResult>>,
}

impl<'a> RangedSource<'a> {
    pub(crate) fn new(
        request: &'a PullRequest,
        client: &'a TransferClient,
        progress: &'a Arc<TransferProgress>,
        streams: usize,
        source: &SourceDescription,
    ) -> Self {
        let streams = streams.max(1);
        Self {
            request,
            client,
            progress,
            etag: source.etag.clone(),
            tag_only: source.digests.is_empty(),
            size: source.size.unwrap_or(0),
            asked: 0,
            block_bytes: block_bytes(streams),
            streams,
            idle: Arc::default(),
            ahead: FuturesOrdered::new(),
        }
    }

    /// Begins at this byte.
    pub(crate) fn start_at(&mut self, byte: u64) {
        self.asked = byte;
    }

    /// The next block; `None` at the end of the file.
    pub(crate) async fn next(&mut self) -> Option<BlockResult> {
        while self.ahead.len() < self.streams && self.asked < self.size {
            let first = self.asked;
            let last = (first + self.block_bytes).min(self.size) - 1;
            self.asked = last + 1;
            self.ahead.push_back(self.block(first, last));
        }
        self.ahead.next().await
    }

    fn block(&self, first: u64, last: u64) -> BoxFuture<'a, BlockResult> {
        let (client, request, progress) = (self.client, self.request, self.progress);
        let session = self.idle.lock().pop().unwrap_or_else(|| {
            RemoteSession::new(client, &request.source, &request.headers, progress)
        });
        let block = BlockRequest {
            first,
            last,
            size: self.size,
            etag: self.etag.clone(),
            tag_only: self.tag_only,
        };
        let idle = Arc::clone(&self.idle);
        Box::pin(async move {
            let (block, session) = block.fetch(session).await?;
            idle.lock().push(session);
            Ok(block)
        })
    }
}

struct BlockRequest {
    first: u64,
    last: u64,
    size: u64,
    etag: Option<String>,
    tag_only: bool,
}

impl BlockRequest {
    async fn fetch<'a>(
        self,
        mut session: RemoteSession<'a>,
    ) -> Result<(Option<FileBlock>, RemoteSession<'a>), TransferFailure> {
        let mut own = HeaderMap::new();
        add_range(&mut own, &format!("bytes={}-{}", self.first, self.last))?;
        if let Some(tag) = &self.etag {
            own.insert(IF_MATCH, header_value(tag)?);
        }
        let times = session.client.config.times;
        let answer = session.ask(&Method::GET, &own, times.first_byte).await?;
        match answer.status {
            StatusCode::PARTIAL_CONTENT => self.check(&answer)?,
            StatusCode::OK => return Ok((None, session)),
            StatusCode::PRECONDITION_FAILED | StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(changed(&answer, "it changed"));
            }
            _ => return Err(session.refused(&Method::GET, answer).await),
        }
        let RemoteAnswer { mut body, url, .. } = answer;
        let mut missing = self.last - self.first + 1;
        // A source may send chunks of one byte. Kept as they come, they would take many times the memory.
        let mut content = BytesMut::with_capacity(usize::try_from(missing).unwrap_or_default());
        let mut limit = times.first_byte;
        while missing > 0 {
            let next = in_time(limit, &url, "nothing came", body.next()).await?;
            let Some(bytes) = next.transpose().map_err(|error| broken(&error, &url))? else {
                let detail = format!("{url}: {missing} bytes of a range are missing");
                return Err(TransferFailure::new(FailureCause::Truncated, detail));
            };
            limit = times.stall;
            let len = bytes.len() as u64;
            let Some(left) = missing.checked_sub(len) else {
                let detail = format!("{url}: more bytes came than were asked for");
                return Err(TransferFailure::new(FailureCause::Length, detail));
            };
            missing = left;
            session.progress.count(len, 0);
            content.extend_from_slice(&bytes);
        }
        let block = FileBlock {
            bytes: content.freeze(),
            local: body.connection.local,
            remote: body.connection.remote,
        };
        // The end of the body frees the connection.
        match in_time(times.stall, &url, "no end came", body.next()).await? {
            None => session.settle(body, url),
            Some(_) => drop(body),
        }
        Ok((Some(block), session))
    }

    /// Whether a 206 is this range of the same file.
    fn check(&self, answer: &RemoteAnswer) -> Result<(), TransferFailure> {
        let expected = ContentRange {
            first: self.first,
            last: self.last,
            size: Some(self.size),
        };
        let range = content_range(&answer.headers).map(|range| ContentRange {
            size: range.size.or(Some(self.size)),
            ..range
        });
        if range != Some(expected) {
            return Err(changed(answer, "another range than the one asked for came"));
        }
        let tag = strong_etag(&answer.headers);
        let same = match tag {
            Some(_) => self.etag.is_none() || tag == self.etag,
            None => self.etag.is_none() || !self.tag_only,
        };
        match same {
            true => Ok(()),
            false => Err(changed(answer, "it has another entity tag, or none")),
        }
    }
}

fn changed(answer: &RemoteAnswer, why: &str) -> TransferFailure {
    let detail = format!("{}: {why}", answer.url);
    TransferFailure::new(FailureCause::SourceChanged, detail)
}
