//! A pull: reads a file from another server, verifies it while it flows, and commits it.
//!
//! An attempt that fails leaves the bytes that came in the writer. The next attempt asks for the rest, if a
//! strong entity tag or a digest shows that the file is still the same one. Otherwise it begins from zero with
//! a new writer. So the bytes of two versions never mix, and a digest that the source names is compared with
//! the whole content in any case.

use std::sync::Arc;
use std::time::Duration;

use dewar_checksum::{AlgorithmSet, Digest};
use dewar_store::ContentWriter;
use dewar_store::api::{DigestMismatch, ExpectedContent};
use http::header::IF_RANGE;
use http::{HeaderMap, Method, StatusCode};

use crate::answer_head::{BodyFraming, body_framing, content_range, description};
use crate::client::{PullTarget, TransferClient};
use crate::exchange::{RemoteAnswer, RemoteBody, RemoteSession, broken, in_time};
use crate::failure::{FailureCause, TransferFailure};
use crate::firefly::FlowMarker;
use crate::limits::STREAMS_BYTES_MIN;
use crate::pace::PaceMonitor;
use crate::progress::TransferProgress;
use crate::ranged_pull::RangedSource;
use crate::request::{
    DigestOrigin, DigestVerdict, Direction, PullRequest, SourceDescription, TransferOutcome,
};
use crate::request_headers::{add_range, header_value, want_digest};
use crate::url::TransferUrl;

impl TransferClient {
    /// Copies a file from another server to here. It returns when the file is durable and visible, or nothing of
    /// it is left. If the future is dropped before the commit, nothing is left. During the commit, the file may
    /// become visible.
    ///
    /// # Errors
    /// [`TransferFailure`]: of the last attempt.
    pub async fn pull(
        &self,
        request: &PullRequest,
        target: &dyn PullTarget,
        progress: &Arc<TransferProgress>,
    ) -> Result<TransferOutcome, TransferFailure> {
        let (url, headers) = (&request.source, &request.headers);
        let mut pull = Pull {
            client: self,
            request,
            target,
            session: RemoteSession::new(self, url, headers, progress),
            described: SourceDescription::default(),
            file: None,
            ranges_refused: false,
            head_stalled: false,
            flow: FlowMarker::new(self, Direction::Pull, request.options.scitag, progress),
        };
        pull.run().await
    }

    /// Waits before the next attempt: for as long as the other side asked, or longer each time.
    pub(crate) async fn pause(&self, attempt: u32, asked: Option<Duration>) {
        let factor = 3_u32.saturating_pow(attempt.saturating_sub(1).min(5));
        let own = self.config.times.retry_pause.saturating_mul(factor);
        tokio::time::sleep(own.max(asked.unwrap_or_default())).await;
    }
}

/// One pull with all its attempts.
pub(crate) struct Pull<'a> {
    pub(crate) client: &'a TransferClient,
    pub(crate) request: &'a PullRequest,
    target: &'a dyn PullTarget,
    pub(crate) session: RemoteSession<'a>,
    /// The file as the last HEAD described it.
    described: SourceDescription,
    file: Option<PartialFile>,
    /// The source does not answer ranges, so one connection must do.
    ranges_refused: bool,
    /// The source did not answer HEAD in time. It may compute a checksum, so it is not asked for one again.
    head_stalled: bool,
    flow: FlowMarker,
}

/// A file that has come in part.
struct PartialFile {
    writer: ContentWriter,
    written: u64,
    /// The version that the bytes are of.
    source: SourceDescription,
}

impl Pull<'_> {
    async fn run(&mut self) -> Result<TransferOutcome, TransferFailure> {
        let client = self.client;
        loop {
            let attempt = self.session.progress.count_attempt();
            match self.attempt().await {
                Ok(mut outcome) => {
                    outcome.attempts = attempt;
                    return Ok(outcome);
                }
                Err(failure)
                    if failure.cause().is_retried() && attempt <= client.config.retries =>
                {
                    tracing::debug!(url = %self.request.source, %failure, attempt, "a pull begins again");
                    client.pause(attempt, self.session.pause.take()).await;
                }
                Err(failure) => return Err(failure.after(attempt)),
            }
        }
    }

    async fn attempt(&mut self) -> Result<TransferOutcome, TransferFailure> {
        // Without a tag, only a digest says whether what came is part of the same file.
        let tagged = self
            .file
            .as_ref()
            .is_some_and(|file| file.source.etag.is_some());
        if self.asks_head() && !tagged {
            self.describe_in_time().await?;
            let described = &self.described;
            let resumes = |file: &PartialFile| is_same_version(&file.source, described);
            self.file = self.file.take().filter(resumes);
        }
        let streams = self.streams();
        let memory = match streams {
            1 => None,
            streams => self.client.blocks.take(streams),
        };
        let status = match memory {
            None => self.fetch_stream().await?,
            Some(_held) => match self.fetch_ranges(streams).await? {
                true => StatusCode::PARTIAL_CONTENT,
                false => self.fetch_stream().await?,
            },
        };
        self.commit(status).await
    }

    fn asks_head(&self) -> bool {
        !self.request.options.no_head && !self.request.source.is_presigned() && !self.head_stalled
    }

    /// The same as [`Pull::describe`], except that a source which does not answer in time is not asked again.
    async fn describe_in_time(&mut self) -> Result<(), TransferFailure> {
        match self.describe().await {
            Err(failure) if failure.cause() == FailureCause::Stall => {
                tracing::debug!(url = %self.request.source, %failure, "a pull goes without HEAD");
                self.head_stalled = true;
                self.described = SourceDescription::default();
                Ok(())
            }
            described => described,
        }
    }

    /// Asks for size, entity tag and digest. A source that does not answer HEAD may answer GET.
    async fn describe(&mut self) -> Result<(), TransferFailure> {
        let mut own = HeaderMap::new();
        want_digest(&mut own);
        let limit = self.client.config.times.checksum;
        let answer = self.session.ask(&Method::HEAD, &own, limit).await?;
        match answer.status.as_u16() {
            200 | 202..=204 => {
                let described = description(&answer.headers, false);
                let ranges = answer.headers.get("accept-ranges");
                self.ranges_refused |= ranges.is_some_and(|ranges| ranges == "none");
                self.check_named(&described)?;
                self.described = described;
                self.session.keep_head(answer);
                Ok(())
            }
            400 | 405 | 406 | 501 => {
                self.described = SourceDescription::default();
                Ok(())
            }
            _ => Err(self.session.refused(&Method::HEAD, answer).await),
        }
    }

    /// A source whose file has another digest than the client named need not send it.
    fn check_named(&self, source: &SourceDescription) -> Result<(), TransferFailure> {
        for named in &self.request.options.expected {
            let mut digests = source.digests.iter();
            let other = digests.find(|digest| digest.algorithm() == named.algorithm());
            if let Some(other) = other.filter(|other| *other != named) {
                let detail = format!("{named} was named, and the source says {other}");
                return Err(TransferFailure::new(FailureCause::DigestNamed, detail));
            }
        }
        Ok(())
    }

    /// Over how many connections the file comes.
    fn streams(&self) -> usize {
        let asked = self
            .request
            .options
            .streams
            .min(self.client.config.streams_max);
        let known = match &self.file {
            Some(file) => &file.source,
            None => &self.described,
        };
        let pinned = known.etag.is_some() || !known.digests.is_empty();
        let large = known.size.is_some_and(|size| size >= STREAMS_BYTES_MIN);
        match pinned && large && !self.ranges_refused {
            true => usize::from(asked.max(1)),
            false => 1,
        }
    }

    /// Fetches the file, or the rest of it, by one GET.
    async fn fetch_stream(&mut self) -> Result<StatusCode, TransferFailure> {
        let answer = self.ask_for_rest().await?;
        let status = answer.status;
        let limits = self.client.config.times;
        let monitor = PaceMonitor::new(self.client.config.pace, self.session.progress.moved());
        let mut source = StreamSource {
            url: answer.url,
            body: answer.body,
            first_byte: limits.first_byte,
            stall: limits.stall,
            begun: false,
            monitor,
        };
        let connection = &source.body.connection;
        self.flow.begin(connection.local, connection.remote);
        let file = file_of(&mut self.file)?;
        let progress = self.session.progress;
        while let Some(bytes) = source.next(progress).await? {
            let len = bytes.len() as u64;
            if file
                .source
                .size
                .is_some_and(|size| file.written + len > size)
            {
                let detail = format!("{}: more bytes came than it said", self.request.source);
                return Err(TransferFailure::new(FailureCause::Length, detail));
            }
            file.write(bytes, progress).await?;
        }
        if let Some(size) = file.source.size.filter(|size| *size != file.written) {
            let (url, written) = (&self.request.source, file.written);
            let detail = format!("{url}: {written} of {size} bytes came");
            return Err(TransferFailure::new(FailureCause::Truncated, detail));
        }
        Ok(status)
    }

    /// Asks for what is missing, and makes sure that there is a writer for it.
    async fn ask_for_rest(&mut self) -> Result<RemoteAnswer, TransferFailure> {
        let of_s3 = self.request.source.is_presigned();
        let mut own = HeaderMap::new();
        if !of_s3 && !self.head_stalled {
            want_digest(&mut own);
        }
        let from = match &self.file {
            Some(file) if file.can_resume() => {
                add_range(&mut own, &format!("bytes={}-", file.written))?;
                if let Some(tag) = &file.source.etag {
                    own.insert(IF_RANGE, header_value(tag)?);
                }
                file.written
            }
            _ => {
                self.file = None;
                0
            }
        };
        let limit = self.client.config.times.first_byte;
        let answer = self.session.ask(&Method::GET, &own, limit).await?;
        match answer.status {
            StatusCode::PARTIAL_CONTENT if from > 0 => {
                let file = file_of(&mut self.file)?;
                if let Err(failure) = file.check_rest(&answer, of_s3) {
                    self.file = None;
                    return Err(failure);
                }
            }
            StatusCode::OK => {
                // All of it comes: it is another version, or the source knows no ranges.
                self.file = None;
                self.describe_again(&answer.headers, of_s3).await?;
                let source = self.source_of(&answer, of_s3)?;
                self.check_named(&source)?;
                self.begin(source).await?;
            }
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED if from > 0 => {
                self.file = None;
                let detail = format!("{}: {}", answer.url, answer.status);
                return Err(TransferFailure::new(FailureCause::SourceChanged, detail));
            }
            _ => return Err(self.session.refused(&Method::GET, answer).await),
        }
        Ok(answer)
    }

    /// Asks for HEAD once more if it is of another version than an answer to GET that has no digest. Without that,
    /// nothing would be compared with what comes.
    async fn describe_again(
        &mut self,
        headers: &HeaderMap,
        of_s3: bool,
    ) -> Result<(), TransferFailure> {
        let source = description(headers, of_s3);
        let lost = source.digests.is_empty()
            && !self.described.digests.is_empty()
            && !is_compatible(&source, &self.described);
        match lost && self.asks_head() {
            true => self.describe_in_time().await,
            false => Ok(()),
        }
    }

    /// The file of an answer to GET, with what HEAD said of the same version.
    fn source_of(
        &self,
        answer: &RemoteAnswer,
        of_s3: bool,
    ) -> Result<SourceDescription, TransferFailure> {
        let mut source = description(&answer.headers, of_s3);
        let described = &self.described;
        if is_compatible(&source, described) {
            // Some servers answer HEAD with a length of zero.
            source.size = source.size.or(described.size.filter(|size| *size > 0));
            source.etag = source.etag.or_else(|| described.etag.clone());
            for digest in &described.digests {
                if !source.digests.contains(digest) {
                    source.digests.push(*digest);
                }
            }
        }
        let unsure = body_framing(&answer.headers) == BodyFraming::UntilClose;
        if unsure && source.size.is_none() && source.digests.is_empty() {
            let detail = format!("{}: nothing shows where the file ends", answer.url);
            return Err(TransferFailure::new(FailureCause::Protocol, detail));
        }
        Ok(source)
    }

    /// Opens a writer for a file from its first byte on.
    async fn begin(&mut self, source: SourceDescription) -> Result<(), TransferFailure> {
        if let Some(size) = source.size {
            self.session.progress.set_size(size);
        }
        let digests = source.digests.iter().chain(&self.request.options.expected);
        let algorithms = digests.map(Digest::algorithm);
        let want = algorithms.fold(AlgorithmSet::EMPTY, AlgorithmSet::with);
        let writer = self.target.begin(&source, want).await;
        let writer = writer.map_err(|error| TransferFailure::of_store(&error))?;
        self.file = Some(PartialFile {
            writer,
            written: 0,
            source,
        });
        Ok(())
    }

    /// Fetches the file, or the rest of it, in ranges over several connections. Returns `false`, and keeps no
    /// byte, if the source answers no ranges.
    async fn fetch_ranges(&mut self, streams: usize) -> Result<bool, TransferFailure> {
        if self.file.is_none() {
            self.begin(self.described.clone()).await?;
        }
        let (client, progress) = (self.client, self.session.progress);
        let file = file_of(&mut self.file)?;
        let mut source = RangedSource::new(self.request, client, progress, streams, &file.source);
        source.start_at(file.written);
        let mut monitor = PaceMonitor::new(client.config.pace, progress.moved());
        let outcome = loop {
            let waited = monitor.wait(source.next(), || progress.moved()).await;
            let block = match waited {
                Ok(Some(Ok(block))) => block,
                Ok(None) => break Ok(true),
                Ok(Some(Err(failure))) => break Err(failure),
                Err(slow) => break Err(TransferFailure::new(FailureCause::Slow, slow)),
            };
            let Some(block) = block else {
                break Ok(false);
            };
            self.flow.begin(block.local, block.remote);
            file.write_counted(block.bytes, progress).await?;
        };
        drop(source);
        let changed = |failure: &TransferFailure| failure.cause() == FailureCause::SourceChanged;
        if matches!(&outcome, Ok(false)) || outcome.as_ref().is_err_and(changed) {
            self.file = None;
            // Some servers give each answer another entity tag: one answer has one.
            self.ranges_refused = true;
        }
        outcome
    }

    async fn commit(&mut self, status: StatusCode) -> Result<TransferOutcome, TransferFailure> {
        let missing = || TransferFailure::new(FailureCause::LocalStorage, "no writer");
        let file = self.file.take().ok_or_else(missing)?;
        let named = &self.request.options.expected;
        let (source, size) = (file.source, file.written);
        // Those of the source first: content that was damaged on its way has neither digest.
        let mut digests = source.digests.clone();
        digests.extend(named.iter().filter(|one| !source.digests.contains(one)));
        let expected = ExpectedContent {
            size: Some(size),
            digests,
        };
        let committed = self.target.commit(file.writer, expected).await;
        let written = committed.map_err(|error| {
            let mismatch = std::error::Error::source(&error);
            let mismatch = mismatch.and_then(|source| source.downcast_ref::<DigestMismatch>());
            match mismatch {
                Some(DigestMismatch { expected, computed }) => {
                    let of_source = source.digests.contains(expected);
                    let (cause, by) = match of_source {
                        true => (FailureCause::DigestOnWire, "the source"),
                        false => (FailureCause::DigestNamed, "the client"),
                    };
                    let came = computed.map_or("another".to_owned(), |came| came.to_string());
                    let detail = format!("{by} said {expected}, and what came has {came}");
                    TransferFailure::new(cause, detail)
                }
                None => TransferFailure::of_store(&error),
            }
        })?;
        let verdict = |named_by| {
            move |digest: &Digest| DigestVerdict {
                digest: *digest,
                named_by,
                matches: Some(true),
            }
        };
        let of_source = source.digests.iter().map(verdict(DigestOrigin::Remote));
        let of_client = named.iter().map(verdict(DigestOrigin::Client));
        Ok(TransferOutcome {
            bytes: size,
            written: Some(written),
            digests: of_client.chain(of_source).collect(),
            attempts: 1,
            status: status.as_u16(),
            remote: self.flow.remote(),
        })
    }
}

impl PartialFile {
    async fn write(
        &mut self,
        bytes: bytes::Bytes,
        progress: &TransferProgress,
    ) -> Result<(), TransferFailure> {
        let len = bytes.len() as u64;
        self.put(bytes).await?;
        progress.count(len, self.written);
        Ok(())
    }

    /// Writes bytes that were counted when they came.
    async fn write_counted(
        &mut self,
        bytes: bytes::Bytes,
        progress: &TransferProgress,
    ) -> Result<(), TransferFailure> {
        self.put(bytes).await?;
        progress.count(0, self.written);
        Ok(())
    }

    async fn put(&mut self, bytes: bytes::Bytes) -> Result<(), TransferFailure> {
        let len = bytes.len() as u64;
        let written = self.writer.write(bytes).await;
        written.map_err(|error| TransferFailure::of_store(&error))?;
        self.written += len;
        Ok(())
    }

    /// Whether the rest may be asked for.
    fn can_resume(&self) -> bool {
        self.written > 0 && (self.source.etag.is_some() || !self.source.digests.is_empty())
    }

    /// Whether a 206 is the rest of this file.
    fn check_rest(&self, answer: &RemoteAnswer, of_s3: bool) -> Result<(), TransferFailure> {
        let changed = |why: &str| {
            let detail = format!("{}: {why}", answer.url);
            Err(TransferFailure::new(FailureCause::SourceChanged, detail))
        };
        let Some(range) = content_range(&answer.headers) else {
            return changed("206 without a valid Content-Range");
        };
        let sizes = self.source.size.zip(range.size);
        if range.first != self.written || sizes.is_some_and(|(own, its)| own != its) {
            return changed("another range than the one asked for came");
        }
        let mut part = description(&answer.headers, of_s3);
        let tag_only = self.source.etag.is_some() && self.source.digests.is_empty();
        if tag_only && part.etag.is_none() {
            return changed("it has no entity tag any more");
        }
        // The length of a part is not that of the file.
        part.size = None;
        match is_compatible(&part, &self.source) {
            true => Ok(()),
            false => changed("it has another entity tag or digest"),
        }
    }
}

fn file_of(file: &mut Option<PartialFile>) -> Result<&mut PartialFile, TransferFailure> {
    let missing = || TransferFailure::new(FailureCause::LocalStorage, "no writer");
    file.as_mut().ok_or_else(missing)
}

/// Whether two descriptions do not contradict each other.
fn is_compatible(one: &SourceDescription, other: &SourceDescription) -> bool {
    let sizes = one.size.zip(other.size);
    let tags = one.etag.as_ref().zip(other.etag.as_ref());
    let same_digest = |digest: &Digest| {
        let mut others = other.digests.iter();
        others.all(|its| its.algorithm() != digest.algorithm() || its == digest)
    };
    sizes.is_none_or(|(a, b)| a == b)
        && tags.is_none_or(|(a, b)| a == b)
        && one.digests.iter().all(same_digest)
}

/// Whether two descriptions are certainly of the same content.
fn is_same_version(one: &SourceDescription, other: &SourceDescription) -> bool {
    let tags = one.etag.is_some() && one.etag == other.etag;
    let mut digests = one.digests.iter();
    let shared = tags || digests.any(|digest| other.digests.contains(digest));
    shared && is_compatible(one, other)
}

/// The body of a GET under its deadlines.
struct StreamSource {
    url: TransferUrl,
    body: RemoteBody,
    first_byte: Duration,
    stall: Duration,
    begun: bool,
    monitor: PaceMonitor,
}

impl StreamSource {
    async fn next(
        &mut self,
        progress: &TransferProgress,
    ) -> Result<Option<bytes::Bytes>, TransferFailure> {
        let limit = if self.begun {
            self.stall
        } else {
            self.first_byte
        };
        let next = in_time(limit, &self.url, "nothing came", self.body.next());
        let waited = self.monitor.wait(next, || progress.moved()).await;
        let next = waited.map_err(|slow| {
            TransferFailure::new(FailureCause::Slow, format_args!("{}: {slow}", self.url))
        })??;
        self.begun = true;
        next.transpose().map_err(|error| broken(&error, &self.url))
    }
}
