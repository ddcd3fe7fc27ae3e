//! The state that all connections of this door share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_env::Env;
use dewar_store::Store;
use dewar_types::{Timestamp, VersionId};
use dewar_xrootd_proto::{RequestCode, SessionId};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::callers::Callers;
use crate::connection::TlsUpgrade;
use crate::limits::{LINGER_TIME, WATCHED_TIME};
use crate::measure::Meter;
use crate::path::Translation;
use crate::redirect::{Peers, Redirect};
use crate::session::{
    ClientFileKey, InterruptedFiles, InterruptedRead, OpenFiles, Session, Writer,
};
use crate::sss::ReplayCache;
use crate::tpc::{Tpc, TpcConfig};

/// The configuration of a door.
#[derive(Clone, Debug, Default)]
pub struct DoorConfig {
    /// The site's name for clients that query it.
    pub site: String,
    /// Beginnings of paths that mean others.
    pub translations: Vec<Translation>,
    /// Its limits.
    pub limits: DoorLimits,
    /// Copies between this server and others.
    pub tpc: TpcConfig,
    /// Other servers with the same files.
    pub redirect: Redirect,
}

/// Limits on the resources and times of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorLimits {
    /// Files that a session may have open.
    pub files_max: usize,
    /// Maximum number of files that an account may write at once; further ones wait.
    pub writers_max: usize,
    /// For a connection without a request.
    pub idle_timeout: Duration,
    /// Maximum wait for the next bytes of a request, and for the socket to take more of an answer.
    pub stall_timeout: Duration,
    /// Maximum time until a client resumes an upload whose connection broke. Zero gives the upload
    /// up at once.
    pub resume_time: Duration,
    /// Maximum bytes that all connections together may hold, once for input and once for output. At
    /// the limit, each connection continues with little memory. Open files may hold the same
    /// amount; at that limit, further files wait.
    pub buffer_bytes: usize,
}

impl Default for DoorLimits {
    fn default() -> Self {
        Self {
            files_max: 4096,
            writers_max: 256,
            idle_timeout: Duration::from_secs(3600),
            stall_timeout: Duration::from_secs(60),
            resume_time: Duration::from_secs(300),
            buffer_bytes: 256 << 20,
        }
    }
}

/// What room is counted in, in bytes.
pub(crate) const ROOM_UNIT: usize = 4096;

/// How often each request came, and how many bytes went through.
#[derive(Debug)]
pub struct RequestCounters {
    requests: [AtomicU64; RequestCode::ALL.len()],
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Bytes of files that were sent.
    pub sent: AtomicU64,
    /// Bytes of files that came.
    pub received: AtomicU64,
}

impl Default for RequestCounters {
    fn default() -> Self {
        Self {
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            failed: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }
}

impl RequestCounters {
    pub(crate) fn request(&self, code: RequestCode) {
        if let Some(count) = self.requests.get(usize::from(code.number() - 3000)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Number of requests of each kind.
    pub fn requests(&self) -> impl Iterator<Item = (RequestCode, u64)> {
        let counts = self.requests.iter().map(|count| count.load(Relaxed));
        RequestCode::ALL.iter().copied().zip(counts)
    }
}

/// Whether somebody watches this server: who does asks for statistics again and again.
#[derive(Debug, Default)]
pub(crate) struct MonitorActivity(AtomicU64);

impl MonitorActivity {
    /// Somebody looked, at a time in seconds.
    pub(crate) fn touch(&self, now: u64) {
        self.0.store(now, Relaxed);
    }

    fn is_watched(&self, now: u64) -> bool {
        now.saturating_sub(self.0.load(Relaxed)) <= WATCHED_TIME.as_secs()
    }
}

/// The XRootD door.
pub struct Door {
    pub(crate) store: Store,
    pub(crate) env: Env,
    pub(crate) config: DoorConfig,
    pub(crate) callers: Arc<dyn Callers>,
    pub(crate) tls: Option<Arc<dyn TlsUpgrade>>,
    pub(crate) room_in: Arc<Semaphore>,
    pub(crate) room_out: Arc<Semaphore>,
    pub(crate) open_files: Arc<OpenFiles>,
    pub(crate) counts: RequestCounters,
    pub(crate) meter: Arc<dyn Meter>,
    pub(crate) sss_seen: Mutex<ReplayCache>,
    pub(crate) tpc: Arc<Tpc>,
    pub(crate) peers: Peers,
    pub(crate) watched: MonitorActivity,
    pub(crate) interrupted: Arc<InterruptedFiles>,
    /// Since when it serves.
    pub(crate) since: Timestamp,
    sessions: Mutex<BTreeMap<[u8; 16], Weak<Session>>>,
}

impl Door {
    /// A door to a store. With `tls`, connections of clients that support it are encrypted. Must be
    /// called in a runtime, since it watches other servers.
    #[must_use]
    pub fn new(
        store: Store,
        env: Env,
        config: DoorConfig,
        callers: Arc<dyn Callers>,
        tls: Option<Arc<dyn TlsUpgrade>>,
        meter: Arc<dyn Meter>,
    ) -> Self {
        let since = env.clock.now();
        let room = || Arc::new(Semaphore::new(config.limits.buffer_bytes / ROOM_UNIT));
        Self {
            room_in: room(),
            room_out: room(),
            open_files: OpenFiles::new(config.limits.writers_max, config.limits.buffer_bytes),
            store,
            env: env.clone(),
            callers,
            tls,
            counts: RequestCounters::default(),
            sss_seen: Mutex::default(),
            tpc: Arc::new(Tpc::new(&config.tpc, &env, Arc::clone(&meter))),
            meter,
            peers: Peers::watch(config.redirect.clone()),
            watched: MonitorActivity::default(),
            interrupted: InterruptedFiles::new(config.limits.resume_time),
            since,
            sessions: Mutex::default(),
            config,
        }
    }

    /// The counters since the start.
    #[must_use]
    pub fn counts(&self) -> &RequestCounters {
        &self.counts
    }

    /// Sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Time for which new connections are still accepted after this server was asked to stop. It
    /// lets redirectors notice the stop, if there are any.
    #[must_use]
    pub fn lingers(&self) -> Duration {
        match self.watched.is_watched(self.env.clock.now().secs()) {
            true => LINGER_TIME,
            false => Duration::ZERO,
        }
    }

    /// The redirection targets that do not answer.
    #[must_use]
    pub fn silent_peers(&self) -> Vec<String> {
        self.peers.silent()
    }

    /// Bytes of files came.
    pub(crate) fn received(&self, bytes: usize) {
        self.counts.received.fetch_add(bytes as u64, Relaxed);
        self.meter.received(bytes as u64);
    }

    /// Bytes of files were sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.counts.sent.fetch_add(bytes as u64, Relaxed);
        self.meter.sent(bytes as u64);
    }

    pub(crate) fn register(&self, session: &Arc<Session>) {
        let id = session.id().0;
        self.sessions.lock().insert(id, Arc::downgrade(session));
    }

    pub(crate) fn forget(&self, id: SessionId) {
        self.sessions.lock().remove(&id.0);
    }

    /// The upload of a client that says that its connection broke, whether or not this server has noticed.
    /// Nothing becomes of it yet.
    pub(crate) fn upload_of(&self, whose: &ClientFileKey, now: &Session) -> Option<Arc<Writer>> {
        let others = self.others(whose, now);
        let open = others.iter().find_map(|session| session.upload(whose));
        open.or_else(|| self.interrupted.upload(whose))
    }

    /// The same when it rests: the session in which it was open is over. It still has to be taken.
    pub(crate) async fn upload_at_rest(
        &self,
        whose: &ClientFileKey,
        now: &Session,
    ) -> Option<Arc<Writer>> {
        let others = self.others(whose, now);
        for session in others
            .iter()
            .filter(|session| session.upload(whose).is_some())
        {
            session.park_files(&self.interrupted);
            session.end();
        }
        let writer = self.interrupted.upload(whose)?;
        writer.rests().await.then_some(writer)
    }

    /// What a client was reading that says that its connection broke.
    pub(crate) fn interrupted_reads(
        &self,
        whose: &ClientFileKey,
        now: &Session,
    ) -> Vec<InterruptedRead> {
        let mut found: Vec<_> = self
            .others(whose, now)
            .iter()
            .flat_map(|session| session.reads(whose))
            .map(|reader| (reader.file.info.version, Some(Arc::clone(&reader.file))))
            .collect();
        found.extend(self.interrupted.reads(whose));
        found
    }

    /// A client reads a version on, or was told to read it anew: one of its files is not asked about once more.
    pub(crate) fn forget_read(&self, whose: &ClientFileKey, version: VersionId, now: &Session) {
        if self.interrupted.forget_read(whose, version) {
            return;
        }
        let others = self.others(whose, now);
        let mut open = others.iter().flat_map(|session| session.reads(whose));
        if let Some(reader) = open.find(|reader| reader.file.info.version == version) {
            reader.went_on.store(true, Relaxed);
        }
    }

    /// A client writes a file anew: what it began before is not meant any more, also when this breaks in turn.
    pub(crate) fn writes_anew(&self, whose: &ClientFileKey, now: &Session) {
        self.interrupted.drop_uploads(whose);
        let others = self.others(whose, now);
        others.iter().for_each(|session| session.give_up(whose));
    }

    /// The other sessions of a client.
    fn others(&self, whose: &ClientFileKey, now: &Session) -> Vec<Arc<Session>> {
        let is_other =
            |session: &Session| session.id() != now.id() && *session.claimed() == whose.client;
        let sessions = self.sessions.lock();
        let all = sessions.values().filter_map(Weak::upgrade);
        all.filter(|session| is_other(session)).collect()
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.sessions.lock().get(&id.0)?.upgrade()
    }
}
