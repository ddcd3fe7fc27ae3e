//! A file whose bytes this server fetches itself.
//!
//! The first `sync` arms the copy. The second one starts it and is answered when it is over; `stat`
//! of the handle shows the progress. `close` publishes the file if all bytes came. If the handle
//! ends before (by a close, the connection's end, or a cancel), the copy ends too, and the file is
//! never visible.

use std::sync::Arc;
use std::time::Duration;

use dewar_checksum::{Algorithm, Digest, adler32, adler32_combine};
use dewar_store::file::ChecksummedBytes;
use dewar_transfer::{
    DigestOrigin, DigestVerdict, FailureCause, QueueShare, Transfer, TransferDescription,
    TransferFailure, TransferOutcome, TransferProgress,
};
use dewar_transfer::{Pace, PaceMonitor};
use dewar_xrootd_client::{BearerToken, Client, Error, File, Identity, Options};
use dewar_xrootd_proto::ErrorCode;
use dewar_xrootd_proto::options::open as bits;
use dewar_xrootd_proto::request::Open;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::Tpc;
use super::fair_share::{ShareOwner, SharePermit};
use super::opaque_params::FetchParams;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::COPY_LATER;
use crate::measure::{CopyEnd, Meter};
use crate::session::Writer;

/// Bytes of one request to the source, and how many of them are under way: what a copy holds at
/// most is twice their product.
const CHUNK_BYTES: u32 = 1 << 20;
const CHUNKS_AHEAD: usize = 8;

/// How long the source may take to say its checksum after everything came. One that takes longer
/// computes it by reading the file again; every page was verified on its way all the same.
const CHECKSUM_TIME: Duration = Duration::from_secs(60);

/// How long the source may take to open the file, with all servers that it sends to and all the time
/// that it asks to wait.
const OPEN_TIME: Duration = Duration::from_secs(600);

/// How long the source may take for one reply in all, however little is asked of its speed.
const REPLY_TIME: Duration = Duration::from_secs(24 * 3600);

/// How far a copy is.
#[derive(Clone, Debug)]
enum State {
    Open,
    Armed,
    Running,
    Over(VerbResult<()>),
}

/// A file that is fetched.
pub(crate) struct Copy {
    pub(crate) writer: Arc<Writer>,
    fetch: FetchParams,
    /// The client as it names itself: `user.pid@host`.
    origin: String,
    owner: CopyOwner,
    token: Option<BearerToken>,
    state: Mutex<State>,
    over: watch::Sender<Option<VerbResult<()>>>,
    cut: CancellationToken,
    _end: DropGuard,
    /// Set from the start of the copy until its end is counted.
    counted: Mutex<Option<CopyCount>>,
}

/// On whose behalf a file is fetched.
pub(crate) struct CopyOwner {
    /// Whose share of the copies of this door it takes.
    pub(crate) sharer: ShareOwner,
    /// The same in the queue of all copies.
    pub(crate) share: QueueShare,
    /// For administrators.
    pub(crate) description: TransferDescription,
}

/// A copy in the metrics. Dropped, it was cancelled.
struct CopyCount {
    meter: Arc<dyn Meter>,
    end: CopyEnd,
    /// The copy in the registry, which learns its end when it is published.
    fetched: Option<(Transfer, TransferOutcome)>,
}

impl CopyCount {
    fn begin(meter: &Arc<dyn Meter>) -> Self {
        meter.copy_began();
        Self {
            meter: Arc::clone(meter),
            end: CopyEnd::Cancelled,
            fetched: None,
        }
    }
}

impl Drop for CopyCount {
    fn drop(&mut self) {
        self.meter.copy_ended(self.end);
    }
}

/// Why a copy failed: for the client, and for the metrics.
type CopyFailure = (CopyEnd, ErrorReply);

/// What to say to a `sync`.
pub(crate) enum SyncReply {
    /// This, at once.
    Now,
    /// The result, which comes later.
    Later(watch::Receiver<Option<VerbResult<()>>>),
}

impl Copy {
    pub(crate) fn new(
        writer: Arc<Writer>,
        fetch: FetchParams,
        (origin, owner): (String, CopyOwner),
        token: Option<BearerToken>,
    ) -> Arc<Self> {
        let cut = CancellationToken::new();
        Arc::new(Self {
            writer,
            fetch,
            origin,
            owner,
            token,
            state: Mutex::new(State::Open),
            over: watch::channel(None).0,
            _end: cut.clone().drop_guard(),
            cut,
            counted: Mutex::default(),
        })
    }

    /// A `sync`.
    ///
    /// # Errors
    /// What went wrong with the copy; with a wait, where too many copies run.
    pub(crate) fn sync(self: &Arc<Self>, tpc: &Arc<Tpc>) -> VerbResult<SyncReply> {
        let mut state = self.state.lock();
        match &*state {
            State::Open => {
                *state = State::Armed;
                Ok(SyncReply::Now)
            }
            State::Armed => {
                let Some(place) = tpc.running.take(&self.owner.sharer) else {
                    let message = "Too many third-party copies are running";
                    return Err(ErrorReply::later(COPY_LATER, message));
                };
                let (share, description) = (&self.owner.share, &self.owner.description);
                let entered = tpc.registry.enter(share, description.clone());
                let transfer = entered.map_err(|_| {
                    let message = "Too many third-party copies wait";
                    ErrorReply::later(COPY_LATER, message)
                })?;
                *state = State::Running;
                drop(state);
                self.start(Arc::clone(tpc), place, transfer);
                Ok(SyncReply::Later(self.over.subscribe()))
            }
            State::Running => Ok(SyncReply::Later(self.over.subscribe())),
            State::Over(outcome) => outcome.clone().map(|()| SyncReply::Now),
        }
    }

    /// Runs the copy in a task that does not keep this alive, so that it ends with the handle.
    fn start(self: &Arc<Self>, tpc: Arc<Tpc>, place: SharePermit, mut transfer: Transfer) {
        *self.counted.lock() = Some(CopyCount::begin(&tpc.meter));
        let job = Job {
            tpc,
            fetch: self.fetch.clone(),
            origin: self.origin.clone(),
            token: self.token.clone(),
            writer: Arc::clone(&self.writer),
        };
        let (cut, copy) = (self.cut.clone(), Arc::downgrade(self));
        let runtime = job.tpc.registry.runtime();
        let work = async move {
            let (from, path) = (job.fetch.place.to_string(), job.writer.path.clone());
            let outcome = tokio::select! {
                biased;
                () = cut.cancelled() => Err((CopyEnd::Cancelled, cancelled(&path))),
                outcome = job.run_in_turn(&mut transfer) => outcome,
            };
            // Who hears of the end may begin the next one.
            drop(place);
            transfer.leave_queue();
            match &outcome {
                Ok(_) => tracing::debug!(%from, %path, "a third-party copy has come"),
                Err((_, refusal)) => {
                    let why = without_queries(&refusal.message);
                    tracing::info!(%from, %path, why, "a third-party copy failed")
                }
            }
            let fetched = match &outcome {
                Ok(fetched) => Some((transfer, fetched.clone())),
                Err((end, refusal)) => {
                    transfer.end(Err(&failure(*end, refusal)));
                    None
                }
            };
            if let Some(copy) = copy.upgrade() {
                if let Err((end, _)) = &outcome {
                    copy.ended(*end, None);
                }
                if let Some(counted) = &mut *copy.counted.lock() {
                    counted.fetched = fetched;
                }
                let outcome = outcome.map(drop).map_err(|(_, refusal)| refusal);
                *copy.state.lock() = State::Over(outcome.clone());
                copy.over.send_replace(Some(outcome));
            }
        };
        runtime.spawn(work.in_current_span());
    }

    /// Counts the end; `refusal` is the reason why what came was not published.
    fn ended(&self, end: CopyEnd, refusal: Option<&ErrorReply>) {
        let Some(mut counted) = self.counted.lock().take() else {
            return;
        };
        counted.end = end;
        if let Some((transfer, outcome)) = counted.fetched.take() {
            match refusal {
                None => transfer.end(Ok(&outcome)),
                Some(refusal) => transfer.end(Err(&failure(end, refusal))),
            }
        }
    }

    /// Ends it.
    pub(crate) fn cancel(&self) {
        self.cut.cancel();
        let mut state = self.state.lock();
        if matches!(*state, State::Open | State::Armed) {
            *state = State::Over(Err(cancelled(&self.writer.path)));
        }
    }

    /// Makes the file what came.
    ///
    /// # Errors
    /// Not all of it did.
    pub(crate) async fn commit(&self) -> VerbResult<()> {
        let state = self.state.lock().clone();
        match state {
            State::Over(Ok(())) => {
                let made = self.writer.commit(self.writer.announced).await;
                match &made {
                    Ok(_) => self.ended(CopyEnd::Done, None),
                    Err(refusal) => self.ended(CopyEnd::Unstored, Some(refusal)),
                }
                made.map(|_| ())
            }
            State::Over(Err(refusal)) => Err(refusal),
            State::Open | State::Armed | State::Running => {
                self.cancel();
                Err(cancelled(&self.writer.path))
            }
        }
    }
}

fn cancelled(path: &str) -> ErrorReply {
    let message = format!("Unable to copy {path}; the copy was cancelled");
    ErrorReply::new(ErrorCode::Cancelled, message)
}

/// The failure that the registry records.
fn failure(end: CopyEnd, refusal: &ErrorReply) -> TransferFailure {
    let cause = match end {
        CopyEnd::Done | CopyEnd::Cancelled => FailureCause::Cancelled,
        CopyEnd::Forbidden => FailureCause::NotAllowed,
        CopyEnd::Unreachable => FailureCause::Connect,
        CopyEnd::Refused => FailureCause::Protocol,
        CopyEnd::Wrong => FailureCause::DigestOnWire,
        CopyEnd::Unstored => FailureCause::LocalStorage,
    };
    TransferFailure::new(cause, without_queries(&refusal.message))
}

struct Job {
    tpc: Arc<Tpc>,
    fetch: FetchParams,
    origin: String,
    token: Option<BearerToken>,
    writer: Arc<Writer>,
}

impl Job {
    /// Waits for its turn among all copies of this server, and fetches the file.
    async fn run_in_turn(&self, transfer: &mut Transfer) -> Result<TransferOutcome, CopyFailure> {
        let ended = |failure: TransferFailure| {
            let end = match failure.cause() {
                FailureCause::Cancelled | FailureCause::Shutdown => CopyEnd::Cancelled,
                _ => CopyEnd::Unreachable,
            };
            let message = format!("Unable to copy {}; {}", self.writer.path, failure.text());
            (end, ErrorReply::new(ErrorCode::Cancelled, message))
        };
        let progress = transfer.start().await.map_err(ended)?;
        tokio::select! {
            biased;
            failure = transfer.cancelled() => Err(ended(failure)),
            outcome = self.run(&progress) => outcome,
        }
    }

    async fn run(&self, progress: &TransferProgress) -> Result<TransferOutcome, CopyFailure> {
        progress.count_attempt();
        let opening = async {
            let file = self.open().await?;
            let size = match file.opened() {
                Some(stat) => stat.size,
                None => file.stat().await?.size,
            };
            Ok::<_, Error>((file, size))
        };
        let opened = timeout(OPEN_TIME, opening).await.unwrap_or_else(|_| {
            Err(Error::Timeout {
                what: "opening the source",
                limit: OPEN_TIME,
            })
        });
        let (file, size) = opened.map_err(|error| self.refusal(&error))?;
        if let Some(announced) = self.writer.announced.filter(|announced| *announced != size) {
            let why = format!("the source has {size} bytes and {announced} were announced");
            return Err((CopyEnd::Wrong, self.refused(ErrorCode::FsError, &why)));
        }
        progress.set_size(size);
        let sum = self.fetch_all(&file, size, progress).await?;
        let digests = self.compare(&file, sum).await?;
        // Everything is here; that the source hears of it changes nothing.
        let _ = timeout(CHECKSUM_TIME, file.close()).await;
        Ok(TransferOutcome {
            bytes: size,
            written: None,
            digests: digests.into_iter().collect(),
            attempts: 1,
            status: 0,
            remote: None,
        })
    }

    async fn open(&self) -> Result<File, Error> {
        let tls = match &self.tpc.trust {
            Some(trust) => trust.client().await,
            None => None,
        };
        let client = Client {
            resolver: self.tpc.resolver(&self.fetch),
            tls,
            identity: Identity {
                token: self.token.clone(),
                program: "dewar-tpc".to_owned(),
                third_party: true,
                // Not the client's name, which it may say of itself and others may believe of us.
                ..Identity::default()
            },
            options: options(self.tpc.pace),
        };
        let mut path = self.fetch.path.clone();
        if let Some(key) = &self.fetch.key {
            let mark = if path.contains('?') { '&' } else { '?' };
            path = format!("{path}{mark}tpc.key={key}&tpc.org={}", self.origin);
        }
        let open = Open {
            options: bits::READ | bits::RETSTAT | bits::ASYNC,
            path,
            ..Open::default()
        };
        let file = client.open(&self.fetch.place, &open).await?;
        for _ in 1..self.fetch.streams {
            // A source that wants no more connections sends everything on one.
            if let Err(error) = file.connection().bind(client.tls.as_ref()).await {
                tracing::debug!(%error, path = self.writer.path, "a copy has fewer streams");
                break;
            }
        }
        Ok(file)
    }

    /// Fetches everything and writes it, in order; its Adler-32.
    async fn fetch_all(
        &self,
        file: &File,
        size: u64,
        progress: &TransferProgress,
    ) -> Result<u32, CopyFailure> {
        let mut ahead = FuturesOrdered::new();
        let received = || file.connection().received();
        let mut watch = PaceMonitor::new(self.tpc.pace, received());
        let (mut asked, mut at, mut sum) = (0, 0, 1);
        while at < size {
            while asked < size && ahead.len() < CHUNKS_AHEAD {
                let len = u64::from(CHUNK_BYTES).min(size - asked) as u32;
                ahead.push_back(chunk(file, asked, len));
                asked += u64::from(len);
            }
            let waited = watch.wait(ahead.next(), received).await.map_err(|slow| {
                let refusal = self.refused(ErrorCode::FsError, &slow.to_string());
                (CopyEnd::Unreachable, refusal)
            });
            let Some(chunk) = waited? else {
                break;
            };
            for pages in chunk.map_err(|error| self.refusal(&error))? {
                let bytes = pages.bytes();
                let len = bytes.len() as u64;
                sum = adler32_combine(sum, adler32(bytes), len);
                let put = self.writer.put(at, pages).await;
                put.map_err(|refusal| (CopyEnd::Unstored, refusal))?;
                self.tpc.meter.copied(len);
                at += len;
                progress.count(len, at);
            }
        }
        Ok(sum)
    }

    /// Compares what came with what the source says, where it says anything.
    async fn compare(&self, file: &File, came: u32) -> Result<Option<DigestVerdict>, CopyFailure> {
        // A redirection may have led to another path, at a server that must not see this one's token.
        let path = match file.path().starts_with(&self.fetch.path) {
            true => &self.fetch.path,
            false => file.path(),
        };
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}cks.type=adler32");
        let told = match timeout(CHECKSUM_TIME, file.connection().checksum(&path)).await {
            Ok(Ok((name, value))) if name == "adler32" => value,
            outcome => {
                tracing::debug!(
                    path = self.writer.path,
                    ?outcome,
                    "no checksum from the source"
                );
                return Ok(None);
            }
        };
        if u32::from_str_radix(&told, 16) == Ok(came) {
            let digest = Digest::new(Algorithm::Adler32, &came.to_be_bytes());
            return Ok(digest.ok().map(|digest| DigestVerdict {
                digest,
                named_by: DigestOrigin::Remote,
                matches: Some(true),
            }));
        }
        let why = format!("what came has adler32 {came:08x} and the source says {told}");
        Err((CopyEnd::Wrong, self.refused(ErrorCode::ChkSumErr, &why)))
    }

    fn refusal(&self, error: &Error) -> CopyFailure {
        let (end, code) = match error {
            Error::NotAllowed { .. } => (CopyEnd::Forbidden, ErrorCode::NotAuthorized),
            Error::Server { .. } | Error::Login { .. } => (CopyEnd::Refused, ErrorCode::FsError),
            Error::Data(_) => (CopyEnd::Wrong, ErrorCode::FsError),
            _ => (CopyEnd::Unreachable, ErrorCode::FsError),
        };
        (end, self.refused(code, &error.to_string()))
    }

    fn refused(&self, code: ErrorCode, why: &str) -> ErrorReply {
        let (path, from) = (&self.writer.path, &self.fetch.place);
        ErrorReply::new(code, format!("Unable to copy {path} from {from}; {why}"))
    }
}

/// How the source is waited for. Its speed is judged by the pace alone: the other deadlines are for one that
/// says nothing at all.
fn options(pace: Pace) -> Options {
    let usual = Options::default();
    Options {
        request_time: pace.over.max(usual.request_time),
        stall_time: pace.over.max(usual.stall_time),
        wait_time: REPLY_TIME,
        requests_max: CHUNKS_AHEAD + 1,
        ..usual
    }
}

/// Words with what hangs on paths cut off: a source may say a path as it was asked for, with its token.
fn without_queries(words: &str) -> String {
    let cut = |word: &str| match word.split_once('?') {
        Some((path, _)) => format!("{path}?..."),
        None => word.to_owned(),
    };
    words.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// Bytes of the source, all of them or none, with the checksums of pages that came with them.
pub(crate) async fn chunk(
    file: &File,
    offset: u64,
    len: u32,
) -> Result<Vec<ChecksummedBytes>, Error> {
    let parts: Vec<ChecksummedBytes> = match file.connection().has_pages() {
        true => {
            let pages = file.read_summed_pages(offset, len).await?.into_iter();
            pages
                .map(|pages| ChecksummedBytes::new(pages.offset, pages.bytes, pages.crcs))
                .collect()
        }
        false => {
            let parts = file.read(offset, len).await?.into_iter();
            parts.map(ChecksummedBytes::from).collect()
        }
    };
    match parts.iter().map(|part| part.bytes().len()).sum::<usize>() == len as usize {
        true => Ok(parts),
        false => Err(Error::Data("the source became shorter".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_copy_before_its_pace_is_judged() {
        for (over, silent) in [(1, 60), (300, 300), (3600, 3600)] {
            let over = Duration::from_secs(over);
            let options = options(Pace { rate_min: 0, over });
            assert_eq!(options.request_time.as_secs(), silent);
            assert_eq!(options.stall_time.as_secs(), silent);
            assert!(options.wait_time > options.request_time);
        }
    }

    #[test]
    fn what_a_source_says_is_told_without_tokens() {
        let words = "Unable to copy /b/x from h:1; [3011] no such file: /x?authz=Bearer%20SECRET&tpc.key=k; gone";
        let told = without_queries(words);
        assert_eq!(
            told,
            "Unable to copy /b/x from h:1; [3011] no such file: /x?... gone"
        );
    }
}
