//! A push: writes a file of this store to another server, and makes sure that it arrived.
//!
//! The body waits for `100 Continue`, so a server that redirects or refuses gets no data. Each attempt reads
//! the same version anew. After the PUT, the digest and the length that the other side has are compared.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_checksum::{Algorithm, AlgorithmSet, Digest, DigestSet, Md5Lanes, StreamDigests};
use dewar_http_front::{DigestFields, answered_digests, digest_fields};
use dewar_store::ContentReader;
use dewar_types::ByteRange;
use http::header::{CONTENT_LENGTH, EXPECT, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::answer_head::{content_length, s3_digests};
use crate::client::TransferClient;
use crate::exchange::{RemoteAnswer, RemoteSession, head_of, in_time};
use crate::failure::{FailureCause, TransferFailure};
use crate::firefly::FlowMarker;
use crate::limits::{PIECES_AHEAD, PRESIGNED_BYTES_MAX, REDIRECTS_MAX, VERIFY_ATTEMPTS_MAX};
use crate::outgoing_body::OutgoingBody;
use crate::pace::{PaceMonitor, SlowSource};
use crate::progress::TransferProgress;
use crate::request::{DigestOrigin, DigestVerdict, Direction, PushRequest, TransferOutcome};
use crate::request_headers::want_digest;
use crate::url::TransferUrl;

impl TransferClient {
    /// Copies a file from here to another server. `file` must be of [`dewar_store::Store::open_file`], because
    /// each attempt reads it from its first byte.
    ///
    /// # Errors
    /// [`TransferFailure`]: of the last attempt. The other side may then have a part of the file, if it
    /// shows files before they are complete.
    pub async fn push(
        &self,
        request: &PushRequest,
        file: &ContentReader,
        progress: &Arc<TransferProgress>,
    ) -> Result<TransferOutcome, TransferFailure> {
        let (url, headers) = (&request.target, &request.headers);
        let mut push = Push {
            client: self,
            request,
            file,
            session: RemoteSession::new(self, url, headers, progress),
            digests: file.info.digests,
            sent: false,
            arrived: None,
            expects: true,
            flow: FlowMarker::new(self, Direction::Push, request.options.scitag, progress),
        };
        progress.set_size(file.info.size);
        push.run().await
    }
}

/// One push with all its attempts.
struct Push<'a> {
    client: &'a TransferClient,
    request: &'a PushRequest,
    file: &'a ContentReader,
    session: RemoteSession<'a>,
    /// Digests of the file, as far as they are known.
    digests: DigestSet,
    /// Data was sent, so the target may be our own.
    sent: bool,
    /// The answer to a PUT that took the whole file, until the verification shows that it is not there.
    arrived: Option<StatusCode>,
    /// The target knows `Expect`, as far as is known.
    expects: bool,
    flow: FlowMarker,
}

impl Push<'_> {
    async fn run(&mut self) -> Result<TransferOutcome, TransferFailure> {
        self.check_before()?;
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
                    tracing::debug!(url = %self.request.target, %failure, attempt, "a push begins again");
                    client.pause(attempt, self.session.pause.take()).await;
                }
                Err(failure) => return Err(failure.after(attempt)),
            }
        }
    }

    /// Fails what cannot succeed before anything is sent.
    fn check_before(&self) -> Result<(), TransferFailure> {
        for named in &self.request.options.expected {
            self.check_named(named)?;
        }
        let size = self.file.info.size;
        if self.request.target.is_presigned() && size > PRESIGNED_BYTES_MAX {
            let detail = format!("{size} bytes, and one PUT carries at most {PRESIGNED_BYTES_MAX}");
            return Err(TransferFailure::new(FailureCause::TooLarge, detail));
        }
        Ok(())
    }

    fn check_named(&self, named: &Digest) -> Result<(), TransferFailure> {
        match self.digests.verify(named) {
            Some(false) => {
                let own = self.digests.get(named.algorithm());
                let own = own.map_or(String::new(), |own| own.to_string());
                let detail = format!("{named} was named, and the file has {own}");
                Err(TransferFailure::new(FailureCause::DigestNamed, detail))
            }
            _ => Ok(()),
        }
    }

    /// Digests that are compared and not known yet.
    fn missing_digests(&self) -> AlgorithmSet {
        let named = self.request.options.expected.iter().map(Digest::algorithm);
        // Adler-32 is what most targets answer.
        let of_target = match self.request.target.is_presigned() {
            true => Algorithm::Md5,
            false => Algorithm::Adler32,
        };
        let all = named.chain([of_target]);
        all.filter(|algorithm| self.digests.get(*algorithm).is_none())
            .fold(AlgorithmSet::EMPTY, AlgorithmSet::with)
    }

    fn has_head(&self) -> bool {
        !self.request.options.no_head && !self.request.target.is_presigned()
    }

    async fn attempt(&mut self) -> Result<TransferOutcome, TransferFailure> {
        let (status, answered) = match self.arrived {
            // Only its verification failed.
            Some(status) => (status, Vec::new()),
            None => {
                if !self.request.options.overwrite
                    && self.has_head()
                    && let Some(done) = self.look_before().await?
                {
                    return Ok(done);
                }
                let answer = self.put().await?;
                let status = answer.status;
                if !matches!(status.as_u16(), 200 | 201 | 204) {
                    let failure = self.session.refused(&Method::PUT, answer).await;
                    return match status == StatusCode::PRECONDITION_FAILED {
                        true => self.precondition_failed(failure).await,
                        false => Err(failure),
                    };
                }
                let mut answered = answered_digests(&answer.headers);
                if self.request.target.is_presigned() {
                    answered.extend(s3_digests(&answer.headers));
                }
                (status, answered)
            }
        };
        let mut verdicts = self.compare(&answered)?;
        let compared = verdicts.iter().any(|verdict| verdict.matches == Some(true));
        if !compared && self.has_head() {
            let looked = self.look_after().await;
            // What arrived otherwise, or not at all, is sent again.
            let missed = looked.as_ref().err().map(TransferFailure::cause);
            self.arrived = match missed {
                Some(
                    FailureCause::Length | FailureCause::DigestOnWire | FailureCause::Protocol,
                ) => None,
                _ => Some(status),
            };
            verdicts = looked?;
        }
        let named = self.request.options.expected.iter();
        verdicts.extend(named.map(|digest| DigestVerdict {
            digest: *digest,
            named_by: DigestOrigin::Client,
            matches: self.digests.verify(digest),
        }));
        Ok(self.outcome(verdicts, status))
    }

    /// The meaning of a 412: the target exists, or it refuses the digest of what came.
    async fn precondition_failed(
        &mut self,
        failure: TransferFailure,
    ) -> Result<TransferOutcome, TransferFailure> {
        if self.request.options.overwrite {
            return Err(TransferFailure::new(FailureCause::DigestOnWire, failure));
        }
        let exists = || TransferFailure::new(FailureCause::RemoteExists, &self.request.target);
        if !self.has_head() {
            return Err(exists());
        }
        let answer = self.head(true).await?;
        match answer.status.as_u16() {
            // An earlier attempt, whose answer was lost, may have written it.
            200 | 202..=204 if self.sent => match self.is_this_file(&answer) {
                Some(verdicts) => Ok(self.outcome(verdicts, answer.status)),
                None => Err(exists()),
            },
            404 | 410 => Err(TransferFailure::new(FailureCause::DigestOnWire, failure)),
            _ => Err(exists()),
        }
    }

    /// The digests that show that the target is the file that was sent, if they do.
    fn is_this_file(&self, answer: &RemoteAnswer) -> Option<Vec<DigestVerdict>> {
        let same_size = content_length(&answer.headers) == Some(self.file.info.size);
        let verdicts = self.compare(&answered_digests(&answer.headers)).ok()?;
        let same = verdicts.iter().any(|verdict| verdict.matches == Some(true));
        (same && same_size).then_some(verdicts)
    }

    fn outcome(&self, digests: Vec<DigestVerdict>, status: StatusCode) -> TransferOutcome {
        TransferOutcome {
            bytes: self.file.info.size,
            written: None,
            digests,
            attempts: 1,
            status: status.as_u16(),
            remote: self.flow.remote(),
        }
    }

    /// Asks whether the target exists, which must not be overwritten. After an attempt whose answer was lost, it
    /// may be this file: then the copy is complete.
    async fn look_before(&mut self) -> Result<Option<TransferOutcome>, TransferFailure> {
        let answer = self.head(true).await?;
        match answer.status.as_u16() {
            200 | 202..=204 if self.sent => {
                let same_size = content_length(&answer.headers) == Some(self.file.info.size);
                let verdicts = self.compare(&answered_digests(&answer.headers))?;
                let same = verdicts.iter().any(|verdict| verdict.matches == Some(true));
                match same && same_size {
                    true => Ok(Some(self.outcome(verdicts, answer.status))),
                    false => {
                        let detail = format!("{} is there in part", self.request.target);
                        Err(TransferFailure::new(FailureCause::Length, detail))
                    }
                }
            }
            200 | 202..=204 => {
                let detail = &self.request.target;
                Err(TransferFailure::new(FailureCause::RemoteExists, detail))
            }
            // It is missing, or HEAD does not say: then the condition of the PUT decides.
            401 | 403 | 404 | 405 | 410 | 501 => {
                self.session.keep_head(answer);
                Ok(None)
            }
            _ => Err(self.session.refused(&Method::HEAD, answer).await),
        }
    }

    async fn head(&mut self, with_digest: bool) -> Result<RemoteAnswer, TransferFailure> {
        let mut own = HeaderMap::new();
        if with_digest {
            want_digest(&mut own);
        }
        let limit = self.client.config.times.checksum;
        self.session.ask(&Method::HEAD, &own, limit).await
    }

    /// Compares what the other side has with what was sent, by HEAD.
    async fn look_after(&mut self) -> Result<Vec<DigestVerdict>, TransferFailure> {
        let mut attempt = 1;
        // A target that must read the file for its digest may be too slow. Then the length must do.
        let mut with_digest = true;
        let answer = loop {
            let failure = match self.head(with_digest).await {
                Ok(answer) => match answer.status.as_u16() {
                    200 | 202..=204 => break answer,
                    // It cannot be asked, or this token may not ask.
                    401 | 403 | 405 | 501 => return Ok(Vec::new()),
                    404 | 410 => {
                        let detail = format!("{} is not there after its PUT", answer.url);
                        TransferFailure::new(FailureCause::Protocol, detail)
                    }
                    _ => self.session.refused(&Method::HEAD, answer).await,
                },
                Err(failure) => failure,
            };
            if attempt >= VERIFY_ATTEMPTS_MAX || !failure.cause().is_retried() {
                return Err(failure);
            }
            with_digest &= failure.cause() != FailureCause::Stall;
            self.client.pause(attempt, self.session.pause.take()).await;
            attempt += 1;
        };
        let size = self.file.info.size;
        if let Some(other) = content_length(&answer.headers).filter(|other| *other != size) {
            let detail = format!("{} has {other} bytes instead of {size}", answer.url);
            return Err(TransferFailure::new(FailureCause::Length, detail));
        }
        self.compare(&answered_digests(&answer.headers))
    }

    /// Compares digests of the other side with those of the file.
    fn compare(&self, answered: &[Digest]) -> Result<Vec<DigestVerdict>, TransferFailure> {
        let verdict = |digest: &Digest| DigestVerdict {
            digest: *digest,
            named_by: DigestOrigin::Remote,
            matches: self.digests.verify(digest),
        };
        let verdicts: Vec<_> = answered.iter().map(verdict).collect();
        let other = verdicts.iter().find(|one| one.matches == Some(false));
        if let Some(DigestVerdict { digest, .. }) = other {
            let own = self.digests.get(digest.algorithm());
            let own = own.map_or(String::new(), |own| own.to_string());
            let url = &self.request.target;
            let detail = format!("{url} has {digest}, and {own} was sent");
            return Err(TransferFailure::new(FailureCause::DigestOnWire, detail));
        }
        Ok(verdicts)
    }

    /// Sends the file, over redirects.
    async fn put(&mut self) -> Result<RemoteAnswer, TransferFailure> {
        let mut own = self.own_headers();
        let mut url = self.request.target.clone();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.put_once(&url, &own).await?;
            if answer.status == StatusCode::EXPECTATION_FAILED && self.expects {
                self.expects = false;
                own.remove(EXPECT);
                continue;
            }
            match self.session.redirect(&answer)? {
                Some(_) if answer.status == StatusCode::SEE_OTHER => {
                    let detail = format!("303 from {} in answer to PUT", answer.url);
                    return Err(TransferFailure::new(FailureCause::Redirect, detail));
                }
                Some(next) => url = next,
                None => return Ok(answer),
            }
        }
        Err(self.session.too_many_redirects())
    }

    fn own_headers(&self) -> HeaderMap {
        let size = self.file.info.size;
        let mut own = HeaderMap::new();
        own.insert(CONTENT_LENGTH, HeaderValue::from(size));
        if self.request.target.is_presigned() {
            // The signature may not cover more.
            return own;
        }
        if size > 0 && self.expects {
            own.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        // A server that answers with its digest at once is not asked again.
        want_digest(&mut own);
        if !self.request.options.overwrite {
            own.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(adler32) = self.digests.get(Algorithm::Adler32) {
            digest_fields(&mut own, &adler32, DigestFields::Rfc3230);
            digest_fields(&mut own, &adler32, DigestFields::Rfc9530);
        }
        own
    }

    async fn put_once(
        &mut self,
        url: &TransferUrl,
        own: &HeaderMap,
    ) -> Result<RemoteAnswer, TransferFailure> {
        let (times, progress) = (self.client.config.times, self.session.progress);
        let mut connection = self.client.connect(url, progress).await?;
        self.flow.begin(connection.local, connection.remote);
        let (pieces, receiver) = mpsc::channel(PIECES_AHEAD);
        let body = OutgoingBody::file(receiver, self.file.info.size, progress);
        let mut request = self.session.request(url, &Method::PUT, own, body)?;
        let waits = request.headers().contains_key(EXPECT);
        let go = Arc::new(Notify::new());
        let said = Arc::clone(&go);
        hyper::ext::on_informational(&mut request, move |answer| {
            if answer.status() == StatusCode::CONTINUE {
                said.notify_one();
            }
        });
        let missing = self.missing_digests();
        let source = FileSource {
            file: self.file,
            pieces,
            url,
            progress,
            first_byte: times.first_byte,
            stall: times.stall,
            monitor: PaceMonitor::new(self.client.config.pace, progress.moved()),
            named: &self.request.options.expected,
            digests: (!missing.is_empty()).then(|| StreamDigests::new(missing, &Md5Lanes::new())),
        };
        let sent = &mut self.sent;
        let sending = async {
            if waits {
                // A server that does not know the expectation says nothing.
                let _ = timeout(times.expect, go.notified()).await;
            }
            *sent = true;
            source.send().await
        };
        let answering = connection.sender.send_request(request);
        let exchange = async {
            tokio::pin!(answering);
            tokio::pin!(sending);
            let computed = tokio::select! {
                biased;
                // It need not hear the file to refuse it.
                answer = &mut answering => return Ok((answer, None)),
                computed = &mut sending => computed?,
            };
            let what = "no answer to the PUT came";
            let answer = in_time(times.checksum, url, what, answering).await?;
            Ok::<_, TransferFailure>((answer, Some(computed)))
        };
        let (answer, computed) = connection.driver.drive(exchange).await?;
        let answer = head_of(answer, connection, url)?;
        match computed {
            Some(computed) => self.digests = self.digests.union(&computed),
            None if answer.status.is_success() && self.file.info.size > 0 => {
                let detail = format!("{url}: {} before the file was sent", answer.status);
                return Err(TransferFailure::new(FailureCause::Protocol, detail));
            }
            None => {}
        }
        Ok(answer)
    }
}

/// The file on its way to the connection.
struct FileSource<'a> {
    file: &'a ContentReader,
    pieces: mpsc::Sender<Bytes>,
    url: &'a TransferUrl,
    progress: &'a Arc<TransferProgress>,
    first_byte: Duration,
    stall: Duration,
    monitor: PaceMonitor,
    named: &'a [Digest],
    /// Digests that are compared before the last piece is sent.
    digests: Option<StreamDigests>,
}

impl FileSource<'_> {
    /// Sends all pieces; the digests that were computed.
    async fn send(mut self) -> Result<DigestSet, TransferFailure> {
        let local = |error: dewar_types::Error| TransferFailure::of_store(&error);
        let mut reader = self.file.read(ByteRange::whole(self.file.info.size));
        let mut held = None;
        while let Some(piece) = reader.next().await {
            let piece = piece.map_err(local)?;
            match &mut self.digests {
                None => self.pass_on(piece).await?,
                Some(digests) => {
                    digests.update(piece.clone()).await;
                    if let Some(before) = held.replace(piece) {
                        self.pass_on(before).await?;
                    }
                }
            }
        }
        let computed = match self.digests.take() {
            Some(digests) => digests.finish().await,
            None => DigestSet::ABSENT,
        };
        let mut named = self.named.iter();
        if let Some(named) = named.find(|named| computed.verify(named) == Some(false)) {
            let own = computed.get(named.algorithm());
            let own = own.map_or(String::new(), |own| own.to_string());
            let detail = format!("{named} was named, and the file has {own}");
            return Err(TransferFailure::new(FailureCause::DigestNamed, detail));
        }
        if let Some(last) = held {
            self.pass_on(last).await?;
        }
        Ok(computed)
    }

    async fn pass_on(&mut self, piece: Bytes) -> Result<(), TransferFailure> {
        let begun = self.progress.first_byte().is_some();
        let limit = if begun { self.stall } else { self.first_byte };
        let (url, progress) = (self.url, self.progress);
        let sending = in_time(limit, url, "it took nothing", self.pieces.send(piece));
        let waited = self.monitor.wait(sending, || progress.moved()).await;
        let slow = |_: SlowSource| {
            let detail = format!("{url}: it took less than the configured minimum");
            TransferFailure::new(FailureCause::Slow, detail)
        };
        let passed = waited.map_err(slow)??;
        match passed {
            Ok(()) => Ok(()),
            // The connection is over; its answer or its error is about to come.
            Err(_) => std::future::pending().await,
        }
    }
}
