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

mod listeners;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use dewar_admin::status::{DoorStatus, Doors, HealthIssue};
use dewar_engine::host::private_file::FileError;
use dewar_env::Env;
use dewar_http_front::RequestIds;
use thiserror::Error;

use crate::admin_socket::{self, AdminSocket, SocketError};
use crate::config::check::{Finding, Severity, findings};
use crate::config::{Config, ConfigError, Reload};
use crate::demo::DemoError;
use crate::engine::{OpenEngine, Purpose, ServedStore};
use crate::listener::{
    BoxError, DoorMetrics, FrontContext, Fronts, ListenError, Listener, ListenerAddress,
    ListenerContext, ListenerSpec, Slots, Stop,
};
use crate::lock::{LockError, StateLock};
use crate::log::Logging;
use crate::metrics::{Metrics, MetricsEndpoint, Readiness};
use crate::process::connections_within;
use crate::ready::{Ready, ReadyDoor, ReadyFile};
use crate::store_engine::known_folders::with_added;
use crate::tls::{Tls, TlsError};

use listeners::metrics_listener;
pub use listeners::{s3_listener, webdav_listener, xrootd_listener};

/// Most bytes of the read buffers of all connections of a listener together.
const READ_BYTES_TOTAL: usize = 128 << 20;

/// Time before the end of `graceful_stop_timeout` at which long requests are ended, so that their clients hear
/// of it.
const LAST_WORDS_TIME: Duration = Duration::from_secs(2);

/// For the last scrape that may be under way.
const METRICS_STOP_TIME: Duration = Duration::from_secs(1);

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration contradicts itself or the machine.
    #[error("{}", lines(.0))]
    Configuration(Vec<Finding>),
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
    /// Each address of each door, such as `http://127.0.0.1:9000`.
    pub doors: Vec<DoorStatus>,
    /// The admin socket.
    pub admin: PathBuf,
}

impl Endpoints {
    /// The addresses of a door.
    #[must_use]
    pub fn of(&self, name: &str) -> Vec<&str> {
        let doors = self.doors.iter().filter(|door| door.name == name);
        doors.map(|door| door.endpoint.as_str()).collect()
    }

    /// The first address of a door whose URL has this scheme.
    #[must_use]
    pub fn with_scheme(&self, name: &str, scheme: &str) -> Option<&str> {
        let has = |url: &&str| {
            url.split_once("://")
                .is_some_and(|(found, _)| found == scheme)
        };
        self.of(name).into_iter().find(has)
    }

    /// The first address of a door; empty for a door without one.
    #[must_use]
    pub fn first(&self, name: &str) -> &str {
        self.of(name).first().copied().unwrap_or_default()
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
    /// The listeners with fronts, as [`ServedStore::listeners`] lists them.
    listeners: Vec<Arc<ListenerContext>>,
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
        return Err(StartError::Configuration(errors));
    }
    let lock = StateLock::take(&config.server.state_dir)?;
    warn_of_few_descriptors::<O::Engine>(&config);
    let mut doors = Vec::new();
    for spec in possible_listeners::<O::Engine>(&config) {
        doors.push(BoundListener::bind(spec).await?);
    }
    let metrics_door = metrics_listener(&config, |endpoint: &MetricsEndpoint, _| {
        Fronts::Http(vec![("/".into(), Arc::new(endpoint.clone()))])
    });
    let metrics_door = BoundListener::bind(metrics_door).await?;
    let all_doors = doors.iter().flat_map(BoundListener::status);
    let endpoints = Endpoints {
        doors: all_doors.chain(metrics_door.status()).collect(),
        admin: config.admin_socket(),
    };
    let addresses = doors.iter().flat_map(BoundListener::addresses);
    let addresses: Vec<_> = addresses.chain(metrics_door.addresses()).collect();

    let metrics = Metrics::new();
    let shared = SharedContext {
        ids: Arc::new(RequestIds::new(&*env.rng)),
        metrics: metrics.register(DoorMetrics::register),
        addresses,
        listeners: doors
            .iter()
            .flat_map(BoundListener::listener_addresses)
            .collect(),
    };
    let listeners: Vec<_> = doors.iter().map(|door| door.context(&shared)).collect();

    let stage = Arc::new(AtomicU8::new(STARTING));
    let opened: Arc<Mutex<Option<Arc<O::Engine>>>> = Arc::default();
    let metrics_stop = Stop::new();
    let endpoint = {
        let (stage, opened) = (Arc::clone(&stage), Arc::clone(&opened));
        MetricsEndpoint::new(metrics.clone(), move || readiness(&stage, &opened))
    };
    let metrics_context = metrics_door.context(&shared);
    let front = metrics_door.fronts(&endpoint, &metrics_context, &shared);
    metrics_door.serve(&metrics_context, front, &metrics_stop);

    let engine = opener.open(&all, purpose, &metrics).await;
    let engine = Arc::new(engine.map_err(StartError::Engine)?);
    let stop = Stop::new();
    let socket = match AdminSocket::bind(&endpoints.admin) {
        Ok(socket) => socket,
        Err(error) => {
            engine.close().await;
            return Err(error.into());
        }
    };
    let served = doors.into_iter().zip(&listeners);
    let served = served.filter(|(door, _)| !door.sockets.is_empty());
    let served: Vec<_> = served
        .map(|(door, context)| {
            let fronts = door.fronts(&engine, context, &shared);
            (door, context, fronts)
        })
        .collect();
    let told = Doors {
        list: endpoints.doors.clone(),
        troubles: troubles(&listeners, served.iter().map(|(.., fronts)| fronts), env),
    };
    admin_socket::serve(socket, engine.admin(told), &stop);
    for (door, context, fronts) in served {
        door.serve(context, fronts, &stop);
    }
    watch_certificates(&listeners, &shared.metrics, env, &stop);
    *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&engine));
    stage.store(SERVING, Relaxed);
    Ok(Running {
        engine,
        config: Mutex::new(config),
        endpoints,
        listeners,
        stage,
        doors: stop,
        metrics: metrics_stop,
        ready: Mutex::new(None),
        _lock: lock,
    })
}

/// The common part of all listeners of a server.
struct SharedContext {
    ids: Arc<RequestIds>,
    metrics: DoorMetrics,
    addresses: Vec<SocketAddr>,
    /// Of the listeners with fronts.
    listeners: Vec<ListenerAddress>,
}

/// A listener whose sockets are bound, and whose certificate is open.
struct BoundListener<E> {
    spec: ListenerSpec<E>,
    sockets: Vec<Listener>,
    tls: Option<Arc<Tls>>,
}

impl<E> BoundListener<E> {
    async fn bind(spec: ListenerSpec<E>) -> Result<Self, StartError> {
        let mut sockets = Vec::with_capacity(spec.listen.len() + spec.plain_listen.len());
        for address in &spec.listen {
            sockets.push(Listener::bind(*address).await?);
        }
        for address in &spec.plain_listen {
            sockets.push(Listener::bind(*address).await?.without_tls());
        }
        let tls = match &spec.tls {
            Some((certificate, key)) => Some(Arc::new(Tls::open(certificate, key)?)),
            None => None,
        };
        Ok(Self { spec, sockets, tls })
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(Listener::address)
    }

    /// The addresses with the scheme of their URLs.
    fn listener_addresses(&self) -> impl Iterator<Item = ListenerAddress> {
        let [clear, secure] = self.spec.schemes;
        self.sockets.iter().map(move |socket| {
            let tls = self.tls.is_some() && !socket.is_plain();
            ListenerAddress {
                name: self.spec.name,
                scheme: if tls { secure } else { clear },
                address: socket.address(),
            }
        })
    }

    /// The addresses as URLs.
    fn status(&self) -> impl Iterator<Item = DoorStatus> {
        self.listener_addresses().map(|listener| DoorStatus {
            name: listener.name.to_owned(),
            endpoint: url(listener.scheme, listener.address),
        })
    }

    /// The state that the sockets share.
    fn context(&self, shared: &SharedContext) -> Arc<ListenerContext> {
        Arc::new(ListenerContext {
            name: self.spec.name,
            limits: ArcSwap::from_pointee(self.spec.limits.clone()),
            tls: self.tls.clone(),
            ids: Arc::clone(&shared.ids),
            metrics: shared.metrics.of(self.spec.name),
            read_bytes_max: self.spec.read_bytes_max,
            read_bytes_total: READ_BYTES_TOTAL,
            slots: Slots::default(),
        })
    }

    fn fronts(&self, store: &E, context: &ListenerContext, shared: &SharedContext) -> Fronts {
        let context = FrontContext {
            tls: self.tls.clone(),
            metrics: context.metrics.clone(),
            addresses: shared.addresses.clone(),
            listeners: shared.listeners.clone(),
        };
        (self.spec.fronts)(store, context)
    }

    fn serve(self, context: &Arc<ListenerContext>, fronts: Fronts, stop: &Stop) {
        for socket in self.sockets {
            socket.serve(Arc::clone(context), fronts.clone(), stop);
        }
    }
}

/// The problems of certificates, and of services that the fronts depend on.
fn troubles<'a>(
    listeners: &[Arc<ListenerContext>],
    fronts: impl Iterator<Item = &'a Fronts>,
    env: &Env,
) -> Arc<dyn Fn() -> Vec<HealthIssue> + Send + Sync> {
    let with_tls = listeners.iter().filter_map(|listener| listener.tls.clone());
    let certificates: Vec<_> = with_tls.collect();
    let fronts: Vec<_> = fronts.cloned().collect();
    let clock = Arc::clone(&env.clock);
    Arc::new(move || {
        let now = clock.now();
        let renewals = certificates.iter().filter_map(|tls| tls.trouble());
        renewals
            .chain(
                certificates
                    .iter()
                    .filter_map(|tls| tls.expiry_trouble(now)),
            )
            .chain(fronts.iter().flat_map(Fronts::troubles))
            .collect()
    })
}

/// Has renewed certificates taken up, and their ends watched, until the doors close.
fn watch_certificates(
    listeners: &[Arc<ListenerContext>],
    metrics: &DoorMetrics,
    env: &Env,
    stop: &Stop,
) {
    for listener in listeners {
        let Some(tls) = listener.tls.clone() else {
            continue;
        };
        let expiry = metrics.certificate_expiry(listener.name);
        let clock = Arc::clone(&env.clock);
        let looked = move |tls: &Tls| {
            tls.warn_of_expiry(clock.now());
            if let Some(facts) = tls.facts() {
                expiry.set(facts.expires);
            }
        };
        let stopping = stop.clone();
        stop.spawn(async move {
            tokio::select! {
                biased;
                () = stopping.draining() => {}
                () = tls.watch(looked) => {}
            }
        });
    }
}

/// The listeners of a configuration, with at most the connections that the kernel allows. A listener
/// without an address needs none.
fn possible_listeners<E: ServedStore>(config: &Config) -> Vec<ListenerSpec<E>> {
    let mut specs = E::listeners(config);
    let asked = specs.iter().map(|spec| match spec.has_addresses() {
        true => spec.limits.connections_max,
        false => 0,
    });
    let allowed = connections_within(&asked.collect::<Vec<_>>());
    for (spec, allowed) in specs.iter_mut().zip(allowed) {
        let connections_max = &mut spec.limits.connections_max;
        *connections_max = allowed.max(1).min(*connections_max);
    }
    specs
}

/// Logs a warning when the kernel allows fewer connections than the configuration.
fn warn_of_few_descriptors<E: ServedStore>(config: &Config) {
    let configured = E::listeners(config).into_iter();
    for (spec, possible) in configured.zip(possible_listeners::<E>(config)) {
        let (asked, allowed) = (spec.limits.connections_max, possible.limits.connections_max);
        if allowed < asked && spec.has_addresses() {
            let key = format!("{}.connections_max", spec.name);
            tracing::warn!(
                key,
                asked,
                allowed,
                "fewer connections than configured: the limit of open files is low (ulimit -Hn, LimitNOFILE of systemd)"
            );
        }
    }
}

/// A URL that works on this machine: an unspecified address becomes loopback.
fn url(scheme: &str, mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("{scheme}://{address}")
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
    /// A macaroon for all that the user may do, valid for a day.
    pub token: dewar_auth::Secret,
    /// The folder with the certificate authority of the WebDAV door.
    pub authorities: PathBuf,
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
        let mut doors: Vec<(String, ReadyDoor)> = Vec::new();
        for DoorStatus { name, endpoint } in &self.endpoints.doors {
            // The first address of each door.
            if doors.last().is_some_and(|(last, _)| last == name) {
                continue;
            }
            let mut door = ReadyDoor {
                endpoint: endpoint.clone(),
                ..ReadyDoor::default()
            };
            if name == "webdav" {
                let with = |scheme| self.endpoints.with_scheme(name, scheme).map(str::to_owned);
                door.tls_endpoint = with("https");
                door.endpoint = with("http").unwrap_or(door.endpoint);
                door.ca_dir = shown.map(|shown| shown.authorities.clone());
                door.token = shown.map(|shown| shown.token.reveal().to_owned());
            }
            if name == "s3" {
                door.region = Some(region.clone());
                door.access_key = shown.map(|shown| shown.access_key.clone());
                door.secret_key = shown.map(|shown| shown.secret_key.reveal().to_owned());
                door.bucket = shown.map(|shown| shown.bucket.clone());
            }
            doors.push((name.clone(), door));
        }
        let ready = Ready {
            pid: std::process::id(),
            doors,
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
        let listeners = self.listeners.iter();
        for tls in listeners.filter_map(|listener| listener.tls.as_ref()) {
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
        config.webdav.connections_max = newer.webdav.connections_max;
        config.webdav.header_timeout = newer.webdav.header_timeout;
        config.webdav.idle_timeout = newer.webdav.idle_timeout;
        config.webdav.body_timeout = newer.webdav.body_timeout;
        config.webdav.header_bytes_max = newer.webdav.header_bytes_max;
        config.transfer.active_max = newer.transfer.active_max;
        config.transfer.waiting_max = newer.transfer.waiting_max;
        config.transfer.wait_max = newer.transfer.wait_max;
        self.engine.take_up(&config);
        let specs = possible_listeners::<E>(&config).into_iter();
        for (spec, listener) in specs.zip(&self.listeners) {
            listener.limits.store(Arc::new(spec.limits));
        }
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
        let cut = {
            let mut drained = pin!(self.doors.drain(deadline));
            tokio::select! {
                biased;
                cut = &mut drained => cut,
                () = tokio::time::sleep(deadline.saturating_sub(LAST_WORDS_TIME)) => {
                    self.engine.end_long_requests();
                    drained.await
                }
            }
        };
        if cut > 0 {
            tracing::warn!(connections = cut, "cut at the end of graceful_stop_timeout");
        }
        self.engine.close().await;
        self.metrics.drain(METRICS_STOP_TIME).await;
    }
}

#[cfg(test)]
mod tests;
