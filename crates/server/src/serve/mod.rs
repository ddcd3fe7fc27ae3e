//! One serving process, from its configuration to its last connection.
//!
//! **Starting:** the stale ready file is removed, the lock taken and the sockets bound. A port that
//! is in use causes an error before a disk is touched. Clients that come early wait in the kernel.
//! Then follow the metrics endpoint (live, not ready), the store, the admin socket, the doors, and
//! last the ready file.
//!
//! **Stopping:** the server is not ready any more and the ready file is removed. Doors and admin
//! socket are drained within `graceful_stop_timeout`. The store is closed, and last the metrics
//! endpoint. A second signal ends the process immediately. This is as safe as a crash: everything
//! acknowledged is durable.
//!
//! **Reloading** (SIGHUP): the keys marked as live, and certificates. A configuration with mistakes
//! changes nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use dewar_env::Env;
use thiserror::Error;

use crate::admin::status::DoorStatus;
use crate::admin::{self, AdminSocket, SocketError};
use crate::config::check::{Finding, Severity, findings};
use crate::config::{Config, ConfigError, Reload};
use crate::demo::DemoError;
use crate::engine::{Doors, OpenEngine, Purpose, ServedStore};
use crate::health::HealthIssue;
use crate::listener::{
    BoxError, DoorMetrics, Limits, ListenError, Listener, ListenerContext, RequestIds, Slots,
    SocketFront, Stop,
};
use crate::lock::{LockError, StateLock};
use crate::log::Logging;
use crate::metrics::{Metrics, MetricsEndpoint, Readiness};
use crate::process::connections_within;
use crate::ready::{FileError, Ready, ReadyEndpoint, ReadyFile, ReadyS3};
use crate::store_engine::pool_state_file::with_added;
use crate::tls::{Tls, TlsError};

/// Largest read from a socket while an S3 body streams (PERFORMANCE figures: half the CPU of
/// 64 KiB reads).
const S3_READ_BYTES: usize = 1 << 20;

/// Most bytes of the read buffers of all S3 connections together.
const S3_READ_BYTES_TOTAL: usize = 128 << 20;

/// Requests of a metrics scraper are small.
const METRICS_READ_BYTES: usize = 16 * 1024;

const METRICS_LIMITS: Limits = Limits {
    connections_max: 64,
    // Nobody authenticates there.
    unauthenticated_share: 1,
    shared_addresses: Vec::new(),
    header_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(120),
    body_timeout: Duration::from_secs(30),
    header_bytes_max: 16 * 1024,
};

/// For the last scrape that may be under way.
const METRICS_STOP_TIME: Duration = Duration::from_secs(1);

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration contradicts itself or the machine.
    #[error("{}", lines(.0))]
    KnownBadShards(Vec<Finding>),
    /// Another process uses the state folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The ready file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be opened.
    #[error("{0}")]
    Engine(BoxError),
    /// The demo cannot be set up.
    #[error(transparent)]
    Demo(#[from] DemoError),
}

fn lines(findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    lines.join("\n")
}

/// The addresses of a running server.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The S3 door on each of its addresses, `http://127.0.0.1:9000`.
    pub s3: Vec<String>,
    /// The XRootD door on each of its addresses, `root://127.0.0.1:1094`.
    pub xrootd: Vec<String>,
    /// The metrics endpoint on each of its addresses.
    pub metrics: Vec<String>,
    /// The admin socket.
    pub admin: PathBuf,
}

impl Endpoints {
    /// The doors, for administrators.
    fn doors(&self) -> Vec<DoorStatus> {
        let all = [
            ("s3", &self.s3),
            ("xrootd", &self.xrootd),
            ("metrics", &self.metrics),
        ];
        let doors = all.into_iter().flat_map(|(name, endpoints)| {
            endpoints.iter().map(move |endpoint| DoorStatus {
                name: name.to_owned(),
                endpoint: endpoint.clone(),
            })
        });
        doors.collect()
    }
}

const STARTING: u8 = 0;
const SERVING: u8 = 1;
const STOPPING: u8 = 2;

/// A server that serves.
pub struct Running<E: ServedStore> {
    engine: Arc<E>,
    config: Mutex<Config>,
    endpoints: Endpoints,
    s3: Arc<ListenerContext>,
    xrootd: Arc<ListenerContext>,
    stage: Arc<AtomicU8>,
    doors: Stop,
    metrics: Stop,
    ready: Mutex<Option<ReadyFile>>,
    /// The last to go.
    _lock: StateLock,
}

/// Starts a server. `config` is as loaded. The caller logs the warnings of [`findings`].
///
/// # Errors
/// The reason why the server cannot start. Nothing runs then, and no disk was newly formatted.
pub async fn start<O: OpenEngine>(
    config: Config,
    opener: &O,
    env: &Env,
) -> Result<Running<O::Engine>, StartError> {
    start_for(config, opener, env, Purpose::Serve).await
}

/// The same; a loss is accepted if `purpose` says so.
///
/// # Errors
/// As [`start`].
pub async fn start_for<O: OpenEngine>(
    config: Config,
    opener: &O,
    env: &Env,
    purpose: Purpose,
) -> Result<Running<O::Engine>, StartError> {
    // What the configuration names is what a pool begins with.
    let all = with_added(&config);
    let mut errors = findings(&all);
    errors.retain(|finding| finding.severity == Severity::Error);
    if !errors.is_empty() {
        return Err(StartError::KnownBadShards(errors));
    }
    let lock = StateLock::take(&config.server.state_dir)?;
    let s3_listeners = bind(&config.s3.listen).await?;
    let xrootd_listeners = bind(&config.xrootd.listen).await?;
    let metrics_listeners = bind(&config.metrics.listen).await?;
    let s3_files = (&config.s3.tls_certificate_file, &config.s3.tls_key_file);
    let tls = open_tls(s3_files)?;
    let xrootd = &config.xrootd;
    let xrootd_tls = open_tls((&xrootd.tls_certificate_file, &xrootd.tls_key_file))?;
    let scheme = |tls: &Option<_>, clear, secure| if tls.is_some() { secure } else { clear };
    let endpoints = Endpoints {
        s3: urls(&s3_listeners, scheme(&tls, "http", "https")),
        xrootd: urls(&xrootd_listeners, scheme(&xrootd_tls, "root", "roots")),
        metrics: urls(&metrics_listeners, "http"),
        admin: config.admin_socket(),
    };

    let listeners = addresses([&s3_listeners, &xrootd_listeners, &metrics_listeners]);

    let metrics = Metrics::new();
    let ids = Arc::new(RequestIds::new(&*env.rng));
    let doors_metrics = metrics.register(DoorMetrics::register);
    let door = |name, limits, tls, read_bytes_max| {
        Arc::new(ListenerContext {
            name,
            limits: ArcSwap::from_pointee(limits),
            tls,
            ids: Arc::clone(&ids),
            metrics: doors_metrics.of(name),
            read_bytes_max,
            read_bytes_total: S3_READ_BYTES_TOTAL,
            slots: Slots::default(),
        })
    };
    tell_few_descriptors(&config);
    let s3 = door("s3", s3_limits(&config), tls, S3_READ_BYTES);
    let xrootd = door(
        "xrootd",
        xrootd_limits(&config),
        xrootd_tls.clone(),
        METRICS_READ_BYTES,
    );
    let metrics_door = door("metrics", METRICS_LIMITS, None, METRICS_READ_BYTES);

    let stage = Arc::new(AtomicU8::new(STARTING));
    let opened: Arc<Mutex<Option<Arc<O::Engine>>>> = Arc::default();
    let metrics_stop = Stop::new();
    let endpoint = {
        let (stage, opened) = (Arc::clone(&stage), Arc::clone(&opened));
        MetricsEndpoint::new(metrics.clone(), move || readiness(&stage, &opened))
    };
    for listener in metrics_listeners {
        listener.serve(Arc::clone(&metrics_door), endpoint.clone(), &metrics_stop);
    }

    let engine = opener.open(&all, purpose, &metrics).await;
    let engine = Arc::new(engine.map_err(StartError::Engine)?);
    let doors = Stop::new();
    let socket = match AdminSocket::bind(&endpoints.admin) {
        Ok(socket) => socket,
        Err(error) => {
            engine.close().await;
            return Err(error.into());
        }
    };
    let front = match xrootd_listeners.is_empty() {
        true => None,
        false => engine.xrootd(xrootd_tls, xrootd.metrics.clone(), listeners),
    };
    let told = Doors {
        list: endpoints.doors(),
        troubles: troubles([&s3, &xrootd], front.clone()),
    };
    admin::serve(socket, engine.admin(told), &doors);
    for listener in s3_listeners {
        listener.serve(Arc::clone(&s3), engine.s3(), &doors);
    }
    if let Some(front) = front {
        for listener in xrootd_listeners {
            listener.serve_sockets(Arc::clone(&xrootd), Arc::clone(&front), &doors);
        }
    }
    watch_certificates([&s3, &xrootd], &doors);
    *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&engine));
    stage.store(SERVING, Relaxed);
    Ok(Running {
        engine,
        config: Mutex::new(config),
        endpoints,
        s3,
        xrootd,
        stage,
        doors,
        metrics: metrics_stop,
        ready: Mutex::new(None),
        _lock: lock,
    })
}

/// The problems of certificates, and of services that the XRootD door depends on.
fn troubles(
    doors: [&Arc<ListenerContext>; 2],
    front: Option<Arc<dyn SocketFront>>,
) -> Arc<dyn Fn() -> Vec<HealthIssue> + Send + Sync> {
    let with_tls = doors.into_iter().filter_map(|door| door.tls.clone());
    let certificates: Vec<_> = with_tls.collect();
    Arc::new(move || {
        let renewals = certificates.iter().filter_map(|tls| tls.trouble());
        let fronts = front.iter().flat_map(|front| front.troubles());
        renewals.chain(fronts).collect()
    })
}

/// Has renewed certificates taken up until the doors close.
fn watch_certificates(doors: [&Arc<ListenerContext>; 2], stop: &Stop) {
    for tls in doors.into_iter().filter_map(|door| door.tls.clone()) {
        let stopping = stop.clone();
        stop.spawn(async move {
            tokio::select! {
                biased;
                () = stopping.draining() => {}
                () = tls.watch() => {}
            }
        });
    }
}

async fn bind(addresses: &[SocketAddr]) -> Result<Vec<Listener>, ListenError> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        listeners.push(Listener::bind(*address).await?);
    }
    Ok(listeners)
}

fn addresses(listeners: [&Vec<Listener>; 3]) -> Vec<SocketAddr> {
    let all = listeners.into_iter().flatten();
    all.map(Listener::address).collect()
}

fn open_tls(files: (&Option<PathBuf>, &Option<PathBuf>)) -> Result<Option<Arc<Tls>>, TlsError> {
    let (Some(certificate), Some(key)) = files else {
        return Ok(None);
    };
    Tls::open(certificate, key).map(Arc::new).map(Some)
}

/// Logs a warning when the kernel allows fewer connections than the configuration.
fn tell_few_descriptors(config: &Config) {
    let asked = [
        ("s3.connections_max", config.s3.connections_max),
        ("xrootd.connections_max", config.xrootd.connections_max),
    ];
    for (key, asked) in asked {
        let allowed = connections_within(asked);
        if allowed < usize::try_from(asked).unwrap_or(usize::MAX) {
            tracing::warn!(
                key,
                asked,
                allowed,
                "fewer connections than configured: the limit of open files is low (ulimit -Hn, LimitNOFILE of systemd)"
            );
        }
    }
}

fn s3_limits(config: &Config) -> Limits {
    let s3 = &config.s3;
    Limits {
        connections_max: connections_within(s3.connections_max),
        unauthenticated_share: unauthenticated_share(config),
        shared_addresses: config.shared_addresses(),
        header_timeout: s3.header_timeout,
        idle_timeout: s3.idle_timeout,
        body_timeout: s3.body_timeout,
        header_bytes_max: usize::try_from(s3.header_bytes_max.0).unwrap_or(usize::MAX),
    }
}

fn xrootd_limits(config: &Config) -> Limits {
    let xrootd = &config.xrootd;
    Limits {
        connections_max: connections_within(xrootd.connections_max),
        unauthenticated_share: unauthenticated_share(config),
        shared_addresses: config.shared_addresses(),
        idle_timeout: xrootd.idle_timeout,
        body_timeout: xrootd.stall_timeout,
        // The door has its own for these.
        ..METRICS_LIMITS
    }
}

fn unauthenticated_share(config: &Config) -> usize {
    usize::try_from(config.server.unauthenticated_share).unwrap_or(usize::MAX)
}

/// URLs that work on this machine: an unspecified address becomes loopback.
fn urls(listeners: &[Listener], scheme: &str) -> Vec<String> {
    let url = |listener: &Listener| {
        let mut address = listener.address();
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("{scheme}://{address}")
    };
    listeners.iter().map(url).collect()
}

fn readiness<E: ServedStore>(stage: &AtomicU8, opened: &Mutex<Option<Arc<E>>>) -> Readiness {
    match stage.load(Relaxed) {
        STARTING => Readiness::NotReady("starting".to_owned()),
        STOPPING => Readiness::NotReady("stopping".to_owned()),
        _ => {
            let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
            match &*opened {
                Some(engine) => engine.readiness(),
                None => Readiness::NotReady("starting".to_owned()),
            }
        }
    }
}

/// A demo's credentials, for the ready file.
#[derive(Clone, Debug)]
pub struct DemoCredentials {
    /// The access key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: dewar_auth::Secret,
    /// A bucket that exists.
    pub bucket: String,
}

impl<E: ServedStore> Running<E> {
    /// The addresses of the server.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// The open store.
    #[must_use]
    pub fn engine(&self) -> &Arc<E> {
        &self.engine
    }

    /// Writes the ready file. It is removed when the server stops.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_ready_file(
        &self,
        path: &Path,
        shown: Option<&DemoCredentials>,
    ) -> Result<(), FileError> {
        let region = self.config().s3.region;
        let s3 = self.endpoints.s3.first().map(|endpoint| ReadyS3 {
            endpoint: endpoint.clone(),
            region,
            access_key: shown.map(|shown| shown.access_key.clone()),
            secret_key: shown.map(|shown| shown.secret_key.reveal().to_owned()),
            bucket: shown.map(|shown| shown.bucket.clone()),
        });
        let metrics = self.endpoints.metrics.first();
        let ready = Ready {
            pid: std::process::id(),
            s3,
            xrootd: self.endpoints.xrootd.first().map(|endpoint| ReadyEndpoint {
                endpoint: endpoint.clone(),
            }),
            metrics: metrics.map(|endpoint| ReadyEndpoint {
                endpoint: endpoint.clone(),
            }),
        };
        let file = ReadyFile::write(path, &ready)?;
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }

    /// The configuration as it is in force.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Applies a newly read configuration as far as that is possible without a restart, and checks
    /// the certificates. A configuration with mistakes changes nothing else.
    pub fn reload(&self, newer: Result<Config, ConfigError>, logging: &Logging) {
        for tls in [&self.s3, &self.xrootd]
            .into_iter()
            .filter_map(|door| door.tls.as_ref())
        {
            tls.reload_and_log();
        }
        let newer = match newer {
            Ok(newer) => newer,
            Err(error) => {
                tracing::error!(%error, "configuration not reloaded; the old one stays in force");
                return;
            }
        };
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        for key in config.changed(&newer) {
            match key.reload {
                Reload::Live => tracing::info!(key = key.path(), "changed"),
                Reload::Restart => {
                    tracing::warn!(key = key.path(), "changes at the next start only");
                }
            }
        }
        // Field by field: what is not live must stay as it was started.
        logging.set(newer.log.level, newer.log.access);
        config.log.level = newer.log.level;
        config.log.access = newer.log.access;
        config.server.graceful_stop_timeout = newer.server.graceful_stop_timeout;
        config.server.unauthenticated_share = newer.server.unauthenticated_share;
        config.server.shared_addresses = newer.server.shared_addresses;
        config.s3.connections_max = newer.s3.connections_max;
        config.s3.header_timeout = newer.s3.header_timeout;
        config.s3.idle_timeout = newer.s3.idle_timeout;
        config.s3.body_timeout = newer.s3.body_timeout;
        config.s3.header_bytes_max = newer.s3.header_bytes_max;
        self.s3.limits.store(Arc::new(s3_limits(&config)));
        self.xrootd.limits.store(Arc::new(xrootd_limits(&config)));
    }

    /// Finishes running requests, refuses new ones, and closes the store.
    pub async fn stop(self) {
        self.stage.store(STOPPING, Relaxed);
        drop(
            self.ready
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let deadline = self.config().server.graceful_stop_timeout;
        let cut = self.doors.drain(deadline).await;
        if cut > 0 {
            tracing::warn!(connections = cut, "cut at the end of graceful_stop_timeout");
        }
        self.engine.close().await;
        self.metrics.drain(METRICS_STOP_TIME).await;
    }
}

#[cfg(test)]
mod tests;
