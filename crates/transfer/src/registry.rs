//! All copies of a process, of every protocol: those that run, those that wait, and figures about those
//! that ended.
//!
//! A front describes a copy ([`TransferDescription`]), gets a [`Transfer`], and runs the work with it.
//! The registry lets it wait for its turn, shows it to administrators, ends it when one of them asks,
//! and writes its record.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use dewar_auth::{Caller, UserKind};
use dewar_env::Env;
use dewar_types::Timestamp;
use parking_lot::Mutex;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::client_info::ClientInfo;
use crate::failure::{FailureCause, TransferFailure};
use crate::progress::{SEEN_MAX, TransferProgress};
use crate::queue::{QueueFull, QueueLimits, QueuePlace, QueueShare, TransferQueue};
use crate::record::TransferRecord;
use crate::record_log::RecordLog;
use crate::request::{DigestVerdict, Direction, TransferOutcome};
use crate::runtime::TransferRuntime;

/// The cause in records and metrics of a copy that is complete.
const SUCCESS: &str = "success";

/// A copy, as a client asks for it.
#[derive(Clone, Debug)]
pub struct TransferDescription {
    /// The protocol to the other side: `http` or `root`.
    pub protocol: &'static str,
    /// The direction.
    pub direction: Direction,
    /// The user, as in the audit log.
    pub user: String,
    /// The issuer of the user's token.
    pub issuer: Option<String>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The id of the client's request.
    pub request: Option<String>,
    /// The path here.
    pub local_path: String,
    /// Host and port of the other side.
    pub remote_host: String,
    /// The path there, without a query.
    pub remote_path: String,
    /// The ids of FTS.
    pub client_info: ClientInfo,
    /// The SciTag of the flow.
    pub scitag: Option<u16>,
}

impl TransferDescription {
    /// A copy by a caller; the rest is to be filled in.
    #[must_use]
    pub fn of(caller: &Caller, protocol: &'static str, direction: Direction) -> Self {
        let issuer = caller.user().and_then(|user| match &user.kind {
            UserKind::Federated { provider, .. } => Some(provider.to_string()),
            UserKind::Local | UserKind::Role { .. } => None,
        });
        let issuer_of_bounds = || caller.bounds()?.provider.as_deref().map(str::to_owned);
        Self {
            protocol,
            direction,
            user: caller.to_string(),
            issuer: issuer.or_else(issuer_of_bounds),
            client: caller.origin().address,
            request: caller.facts().and_then(dewar_auth::Facts::request_id),
            local_path: String::new(),
            remote_host: String::new(),
            remote_path: String::new(),
            client_info: ClientInfo::default(),
            scitag: None,
        }
    }
}

/// The state of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Active,
}

/// A copy, as administrators see it.
#[derive(Clone, Debug)]
pub struct TransferSnapshot {
    /// Its number.
    pub id: u64,
    /// As a client asked for it.
    pub description: TransferDescription,
    /// Its state.
    pub state: TransferState,
    /// When the client asked for it.
    pub since: Timestamp,
    /// Bytes of the file that have been copied.
    pub bytes: u64,
    /// The size of the file, if it is known.
    pub size: Option<u64>,
}

/// Figures about all copies since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferFigures {
    /// Copies that run.
    pub active: usize,
    /// Copies that wait.
    pub waiting: usize,
    /// Copies that ended, by protocol, direction and cause.
    pub ended: BTreeMap<(&'static str, Direction, &'static str), u64>,
    /// Bytes that moved, by protocol and direction; those of running copies included.
    pub bytes: BTreeMap<(&'static str, Direction), u64>,
    /// Copies whose wait is over, and their waits together.
    pub waits: (u64, Duration),
    /// Copies that were refused because too many waited.
    pub refused: u64,
    /// Records that could not be written.
    pub records_lost: u64,
}

/// The registry. Share it between fronts, the administrator's commands and metrics.
pub struct TransferRegistry {
    queue: Arc<TransferQueue>,
    env: Env,
    copies: Mutex<Copies>,
    records: Option<RecordLog>,
    runtime: Option<TransferRuntime>,
    /// The server ends.
    ending: AtomicBool,
}

#[derive(Default)]
struct Copies {
    last_id: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
    ended: BTreeMap<(&'static str, Direction, &'static str), u64>,
    bytes: BTreeMap<(&'static str, Direction), u64>,
    waits: (u64, Duration),
    refused: u64,
}

struct Entry {
    id: u64,
    description: TransferDescription,
    since: Timestamp,
    /// By the clock that never jumps.
    came: Duration,
    cancel: CancellationToken,
    run: Mutex<RunState>,
}

#[derive(Default)]
struct RunState {
    waited: Duration,
    /// Set when it begins to run.
    progress: Option<Arc<TransferProgress>>,
    /// Bytes of disk space that it will need in all.
    reserved: u64,
}

impl TransferRegistry {
    /// An empty registry. Copies run on `runtime`, or on that of their front without one.
    #[must_use]
    pub fn new(
        env: Env,
        limits: QueueLimits,
        records: Option<RecordLog>,
        runtime: Option<TransferRuntime>,
    ) -> Arc<Self> {
        Arc::new(Self {
            queue: TransferQueue::new(limits),
            env,
            copies: Mutex::default(),
            records,
            runtime,
            ending: AtomicBool::new(false),
        })
    }

    /// Sets other limits of the queue.
    pub fn set_limits(&self, limits: QueueLimits) {
        self.queue.set_limits(limits);
    }

    /// The runtime for the work of copies.
    ///
    /// # Panics
    /// Outside of a runtime, if the registry has none.
    #[must_use]
    pub fn runtime(&self) -> Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle(),
            None => Handle::current(),
        }
    }

    /// Takes a copy in. It waits in the queue from now on.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn enter(
        self: &Arc<Self>,
        share: &QueueShare,
        description: TransferDescription,
    ) -> Result<Transfer, QueueFull> {
        let place = self.queue.enter(share);
        let place = place.inspect_err(|_| self.copies.lock().refused += 1)?;
        let (since, came) = (self.env.clock.now(), self.env.clock.elapsed());
        let mut copies = self.copies.lock();
        copies.last_id += 1;
        let entry = Arc::new(Entry {
            id: copies.last_id,
            description,
            since,
            came,
            cancel: CancellationToken::new(),
            run: Mutex::default(),
        });
        if self.ending.load(Relaxed) {
            entry.cancel.cancel();
        }
        copies.entries.insert(entry.id, Arc::clone(&entry));
        Ok(Transfer {
            registry: Arc::clone(self),
            entry,
            place: Some(place),
            has_ended: false,
        })
    }

    /// All copies that run or wait, in the order in which they came.
    #[must_use]
    pub fn list(&self) -> Vec<TransferSnapshot> {
        let entries: Vec<Arc<Entry>> = self.copies.lock().entries.values().cloned().collect();
        let snapshot = |entry: &Arc<Entry>| {
            let run = entry.run.lock();
            let progress = run.progress.as_ref();
            TransferSnapshot {
                id: entry.id,
                description: entry.description.clone(),
                state: match progress {
                    Some(_) => TransferState::Active,
                    None => TransferState::Waiting,
                },
                since: entry.since,
                bytes: progress.map_or(0, |progress| progress.bytes()),
                size: progress.and_then(|progress| progress.size()),
            }
        };
        entries.iter().map(snapshot).collect()
    }

    /// Ends a copy. Its client is told. Returns whether there was one of this number.
    pub fn cancel(&self, id: u64) -> bool {
        let copies = self.copies.lock();
        let entry = copies.entries.get(&id);
        entry.inspect(|entry| entry.cancel.cancel()).is_some()
    }

    /// Ends all copies, because the server ends. Their clients are told.
    pub fn end_all(&self) {
        self.ending.store(true, Relaxed);
        for entry in self.copies.lock().entries.values() {
            entry.cancel.cancel();
        }
    }

    /// The failure of a copy that was ended.
    fn cancelled(&self) -> TransferFailure {
        match self.ending.load(Relaxed) {
            true => TransferFailure::new(FailureCause::Shutdown, ""),
            false => TransferFailure::cancelled(),
        }
    }

    /// The figures of this moment.
    #[must_use]
    pub fn figures(&self) -> TransferFigures {
        let (active, waiting) = self.queue.counts();
        let copies = self.copies.lock();
        let mut bytes = copies.bytes.clone();
        for entry in copies.entries.values() {
            if let Some(progress) = &entry.run.lock().progress {
                *bytes.entry(entry.description.kind()).or_default() += progress.moved();
            }
        }
        TransferFigures {
            active,
            waiting,
            ended: copies.ended.clone(),
            bytes,
            waits: copies.waits,
            refused: copies.refused,
            records_lost: self.records.as_ref().map_or(0, RecordLog::lost),
        }
    }

    /// Waits for at most two seconds until the records of copies that ended are written.
    pub fn flush(&self) -> bool {
        self.records.as_ref().is_none_or(RecordLog::flush)
    }

    /// Takes a copy out, counts it, and writes its record.
    fn end(&self, entry: &Entry, result: Result<&TransferOutcome, &TransferFailure>) {
        let now = self.env.clock.elapsed();
        let run = entry.run.lock();
        let progress = run.progress.clone();
        let waited = match &progress {
            Some(_) => run.waited,
            None => now.saturating_sub(entry.came),
        };
        drop(run);
        let seen = progress.iter().flat_map(|progress| progress.seen());
        let mut addresses: BTreeSet<SocketAddr> = seen.collect();
        addresses.extend(result.ok().and_then(|outcome| outcome.remote));
        let cause = match result {
            Ok(_) => SUCCESS,
            Err(failure) => failure.cause().name(),
        };
        let description = &entry.description;
        let moved = progress.as_ref().map_or(0, |progress| progress.moved());
        let mut copies = self.copies.lock();
        copies.entries.remove(&entry.id);
        let (protocol, direction) = description.kind();
        *copies
            .ended
            .entry((protocol, direction, cause))
            .or_default() += 1;
        *copies.bytes.entry(description.kind()).or_default() += moved;
        copies.waits.0 += 1;
        copies.waits.1 += waited;
        drop(copies);
        let Some(records) = &self.records else {
            return;
        };
        let digests: &[DigestVerdict] = result.map_or(&[], |outcome| &outcome.digests);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        records.append(&TransferRecord {
            time: rfc3339(self.env.clock.now()),
            id: entry.id,
            request: description.request.clone(),
            protocol,
            direction: direction.name(),
            cause,
            failure: result.err().map(|failure| failure.text().to_owned()),
            user: description.user.clone(),
            issuer: description.issuer.clone(),
            client: description.client,
            local_path: description.local_path.clone(),
            remote_host: description.remote_host.clone(),
            remote_path: description.remote_path.clone(),
            remote_addresses: addresses
                .iter()
                .take(SEEN_MAX)
                .map(ToString::to_string)
                .collect(),
            bytes: match (result, &progress) {
                (Ok(outcome), _) => outcome.bytes,
                (Err(_), progress) => progress.as_ref().map_or(0, |progress| progress.bytes()),
            },
            moved,
            size: progress.as_ref().and_then(|progress| progress.size()),
            attempts: progress.as_ref().map_or(0, |progress| progress.attempts()),
            status: match result {
                Ok(outcome) => Some(outcome.status).filter(|status| *status > 0),
                Err(failure) => failure.cause().status(),
            },
            waited_ms: millis(waited),
            first_byte_ms: progress
                .as_ref()
                .and_then(|progress| progress.first_byte())
                .map(millis),
            duration_ms: progress
                .as_ref()
                .map_or(0, |progress| millis(progress.elapsed())),
            client_info: description.client_info.clone(),
            scitag: description.scitag,
            digests: digests.iter().map(Into::into).collect(),
        });
    }
}

impl TransferDescription {
    fn kind(&self) -> (&'static str, Direction) {
        (self.protocol, self.direction)
    }
}

/// A copy that the registry has. Dropped before its end, it was cancelled.
pub struct Transfer {
    registry: Arc<TransferRegistry>,
    entry: Arc<Entry>,
    /// Until the next copy may have it.
    place: Option<QueuePlace>,
    has_ended: bool,
}

/// A look at a copy, for the markers of its client.
#[derive(Clone)]
pub struct TransferView {
    registry: Arc<TransferRegistry>,
    entry: Arc<Entry>,
}

impl TransferView {
    /// The progress, once it runs.
    #[must_use]
    pub fn progress(&self) -> Option<Arc<TransferProgress>> {
        self.entry.run.lock().progress.clone()
    }

    /// Reserves disk space for a file of `bytes` bytes, of which `free` are free on the disks. Bytes that
    /// other copies reserved and did not write yet are not free. The end of the copy gives it back.
    ///
    /// Returns whether there is so much.
    #[must_use]
    pub fn reserve(&self, bytes: u64, free: u64) -> bool {
        let copies = self.registry.copies.lock();
        let others = copies.entries.values().filter(|it| it.id != self.entry.id);
        let missing = others.map(|other| {
            let run = other.run.lock();
            let written = run.progress.as_ref();
            let written = written.map_or(0, |progress| progress.written());
            run.reserved.saturating_sub(written)
        });
        let fits = missing.fold(bytes, u64::saturating_add) <= free;
        if fits {
            self.entry.run.lock().reserved = bytes;
        }
        fits
    }
}

impl Transfer {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.entry.id
    }

    /// A look at it.
    #[must_use]
    pub fn view(&self) -> TransferView {
        TransferView {
            registry: Arc::clone(&self.registry),
            entry: Arc::clone(&self.entry),
        }
    }

    /// Waits for its turn, then does the work with a new progress, and ends.
    ///
    /// # Errors
    /// Those of [`Transfer::start`] and of the work; [`crate::FailureCause::Cancelled`].
    pub async fn run<F>(
        mut self,
        work: impl FnOnce(Arc<TransferProgress>) -> F,
    ) -> Result<TransferOutcome, TransferFailure>
    where
        F: Future<Output = Result<TransferOutcome, TransferFailure>>,
    {
        let result = match self.start().await {
            Ok(progress) => tokio::select! {
                biased;
                failure = self.cancelled() => Err(failure),
                result = work(progress) => result,
            },
            Err(failure) => Err(failure),
        };
        self.end(result.as_ref());
        result
    }

    /// Waits for its turn. The progress begins with it.
    ///
    /// # Errors
    /// [`crate::FailureCause::QueueTimeout`], [`crate::FailureCause::Cancelled`].
    pub async fn start(&mut self) -> Result<Arc<TransferProgress>, TransferFailure> {
        let cancel = self.entry.cancel.clone();
        if let Some(place) = &mut self.place {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(self.registry.cancelled()),
                turn = place.admitted() => {
                    turn.map_err(|waited| TransferFailure::queue_timeout(waited.0))?;
                }
            }
        }
        let progress = Arc::new(TransferProgress::new());
        let mut run = self.entry.run.lock();
        let now = self.registry.env.clock.elapsed();
        run.waited = now.saturating_sub(self.entry.came);
        run.progress = Some(Arc::clone(&progress));
        Ok(progress)
    }

    /// Returns when an administrator ends the copy, or the server ends: with the failure that this is.
    pub async fn cancelled(&self) -> TransferFailure {
        self.entry.cancel.cancelled().await;
        self.registry.cancelled()
    }

    /// Gives its place to the next copy, before its end is known.
    pub fn leave_queue(&mut self) {
        self.place = None;
    }

    /// Ends it: counts it, and writes its record.
    pub fn end(mut self, result: Result<&TransferOutcome, &TransferFailure>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<&TransferOutcome, &TransferFailure>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.place = None;
            self.registry.end(&self.entry, result);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let failure = self.registry.cancelled();
        self.finish(Err(&failure));
    }
}

/// A time as RFC 3339 in UTC, to the millisecond. Empty for a time that the format cannot say.
fn rfc3339(time: Timestamp) -> String {
    let millis = i128::from(time.millis()) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(millis)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use dewar_checksum::{Algorithm, Digest};
    use dewar_env::disk::sim::SimWorld;

    use super::*;
    use crate::record_log::RecordConfig;
    use crate::request::DigestOrigin;

    fn share() -> QueueShare {
        QueueShare {
            share: "atlas".into(),
            user: "ann".into(),
        }
    }

    fn description() -> TransferDescription {
        let caller = Caller::system();
        TransferDescription {
            local_path: "/data/file".to_owned(),
            remote_host: "h:443".to_owned(),
            remote_path: "/far".to_owned(),
            client_info: ClientInfo::parse("job-id=j;file-id=7;retry=1"),
            scitag: Some(66),
            ..TransferDescription::of(&caller, "http", Direction::Pull)
        }
    }

    fn outcome(bytes: u64) -> TransferOutcome {
        TransferOutcome {
            bytes,
            written: None,
            digests: vec![DigestVerdict {
                digest: Digest::new(Algorithm::Adler32, &[0, 0, 0, 1]).expect("four bytes"),
                named_by: DigestOrigin::Remote,
                matches: Some(true),
            }],
            attempts: 1,
            status: 200,
            remote: Some(([192, 0, 2, 1], 443).into()),
        }
    }

    fn registry(active_max: usize, records: Option<RecordLog>) -> Arc<TransferRegistry> {
        let limits = QueueLimits {
            active_max,
            ..QueueLimits::default()
        };
        TransferRegistry::new(SimWorld::with_disks(1, 1).env(), limits, records, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_is_listed_while_it_waits_and_runs() {
        let registry = registry(1, None);
        let enter = || registry.enter(&share(), description()).expect("room");
        let (first, second) = (enter(), enter());
        let states = || {
            let list = registry.list().into_iter();
            list.map(|copy| (copy.id, copy.state, copy.bytes))
                .collect::<Vec<_>>()
        };
        use TransferState::{Active, Waiting};
        assert_eq!(states(), [(1, Waiting, 0), (2, Waiting, 0)]);
        let shown = states;
        let done = first.run(async |progress| {
            progress.count_attempt();
            progress.count(10, 10);
            assert_eq!(shown(), [(1, Active, 10), (2, Waiting, 0)]);
            assert_eq!(registry.figures().bytes[&("http", Direction::Pull)], 10);
            Ok(outcome(10))
        });
        assert_eq!(done.await.expect("it is complete").bytes, 10);
        assert_eq!(states(), [(2, Waiting, 0)]);
        drop(second);
        let figures = registry.figures();
        let ended = |cause| figures.ended[&("http", Direction::Pull, cause)];
        assert_eq!((ended("success"), ended("cancelled")), (1, 1));
        assert_eq!(
            (figures.active, figures.waiting, figures.waits.0),
            (0, 0, 2)
        );
        assert_eq!(figures.bytes[&("http", Direction::Pull)], 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_administrator_ends_what_waits_and_what_runs() {
        let registry = registry(1, None);
        let enter = || registry.enter(&share(), description()).expect("room");
        let (first, second) = (enter(), enter());
        let (one, two) = (first.id(), second.id());
        let first = first.run(async |_| std::future::pending().await);
        let second = second.run(async |_| std::future::pending().await);
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(registry.cancel(two) && registry.cancel(one) && !registry.cancel(7));
        };
        let (first, second, ()) = tokio::join!(first, second, cancel);
        for result in [first, second] {
            let failure = result.expect_err("it was cancelled");
            assert_eq!(failure.cause(), FailureCause::Cancelled);
        }
        assert!(registry.list().is_empty() && !registry.cancel(one));
    }

    #[tokio::test(start_paused = true)]
    async fn copies_end_with_the_server() {
        let registry = registry(1, None);
        let enter = || registry.enter(&share(), description()).expect("room");
        let first = enter().run(async |_| std::future::pending().await);
        let second = enter().run(async |_| std::future::pending().await);
        let end = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            registry.end_all();
        };
        let (first, second, ()) = tokio::join!(first, second, end);
        let late = enter().run(async |_| std::future::pending().await).await;
        for result in [first, second, late] {
            let failure = result.expect_err("the server ends");
            assert_eq!(failure.cause(), FailureCause::Shutdown);
        }
        assert!(registry.list().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_waited_too_long_fails_as_a_passing_error() {
        let registry = registry(1, None);
        let enter = || registry.enter(&share(), description()).expect("room");
        let _first = enter();
        let second = enter().run(async |_| panic!("it has no turn"));
        let failure = second.await.expect_err("the first holds the place");
        assert_eq!(failure.cause(), FailureCause::QueueTimeout);
        assert!(failure.text().contains("operation timeout"), "{failure}");
    }

    #[tokio::test]
    async fn space_is_reserved_until_a_copy_ends() {
        let registry = registry(4, None);
        let enter = || registry.enter(&share(), description()).expect("room");
        let (first, second) = (enter(), enter());
        let (one, two) = (first.view(), second.view());
        assert!(one.reserve(60, 100));
        assert!(!two.reserve(60, 100) && two.reserve(40, 100));
        // The same copy begins again.
        assert!(one.reserve(60, 100));
        let run = first.run(async |progress| {
            progress.count(50, 50);
            // What it wrote is not free any more.
            assert!(two.reserve(40, 50) && !two.reserve(41, 50));
            // It begins again from zero: it will need all of it.
            progress.count(1, 1);
            assert!(!two.reserve(42, 100) && two.reserve(41, 100));
            Ok(outcome(60))
        });
        run.await.expect("it is complete");
        assert!(two.reserve(50, 50));
        drop(second);
    }

    #[tokio::test]
    async fn a_record_says_what_happened() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = RecordConfig {
            folder: folder.path().to_owned(),
            file_bytes: 1 << 20,
            files_max: 2,
        };
        let log = RecordLog::open(config).expect("a log");
        let registry = registry(2, Some(log));
        let enter = || registry.enter(&share(), description()).expect("room");
        let done = enter().run(async |progress| {
            progress.count_attempt();
            progress.count(10, 10);
            Ok(outcome(10))
        });
        done.await.expect("it is complete");
        let failed = enter().run(async |_| {
            let cause = FailureCause::RemoteStatus(403);
            Err(TransferFailure::new(cause, "https://h/far?authz=SECRET"))
        });
        failed.await.expect_err("it failed");
        assert!(registry.flush());
        let file = folder.path().join("transfers-0000000000000001.jsonl");
        let text = std::fs::read_to_string(file).expect("records");
        assert!(!text.contains("SECRET"), "{text}");
        let records: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let field = |record: usize, name: &str| records[record][name].clone();
        assert_eq!(field(0, "cause"), "success");
        assert_eq!(field(0, "job_id"), "j");
        assert_eq!(field(0, "scitag"), 66);
        assert_eq!(field(0, "bytes"), 10);
        assert_eq!(field(0, "remote_addresses")[0], "192.0.2.1:443");
        assert_eq!(field(0, "digests")[0]["value"], "00000001");
        assert_eq!(field(1, "cause"), "remote-status");
        assert_eq!(field(1, "status"), 403);
        assert_eq!(field(1, "moved"), 0);
    }
}
