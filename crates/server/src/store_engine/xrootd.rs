//! The XRootD door as a front of this process.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dewar_admin::status::HealthIssue;
use dewar_auth::{AcceptedConnection, Caller, CredentialStore as _, Origin};
use dewar_env::{BoxFuture, Env};
use dewar_store::Store;
use dewar_transfer::TransferRegistry;
use dewar_types::{Result, UserId};
use dewar_xrootd::{
    AllowList, AllowRule, Callers, CopyEnd, Door, DoorConfig, DoorLimits, Meter, Pace, Peer, Proof,
    Redirect, RedirectMode, RedirectTarget, RequestCode, RequestOutcome, SssKey, TlsStream,
    TlsUpgrade, TpcConfig, Translation,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::transfers::SystemTrust;
use crate::config::Xrootd;
use crate::keytab::Keytab;
use crate::listener::{
    CopyMetrics, FrontContext, ListenerMetrics, RequestLabels, SocketFront, VerbLabels,
};
use crate::socket_owner;
use crate::tls::Tls;
use crate::trust_store::TrustStore;

struct XrootdFront {
    door: Arc<Door>,
    keytab: Option<Arc<Keytab>>,
}

/// The door's name in metrics.
const DOOR: &str = "xrootd";

/// The XRootD front as configured. Its third-party copies wait in the queue of `transfers`. They do not
/// come from an address of this server with a client's token.
pub(super) fn front(
    store: Store,
    env: Env,
    config: &Xrootd,
    trusted: &Arc<TrustStore>,
    context: FrontContext,
    transfers: Arc<TransferRegistry>,
) -> Arc<dyn SocketFront> {
    let number = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let rules = config.paths.iter();
    let door = DoorConfig {
        site: config.site.clone(),
        translations: rules.filter_map(|rule| Translation::parse(rule)).collect(),
        limits: DoorLimits {
            files_max: number(u64::from(config.files_max)),
            writers_max: number(u64::from(config.writers_max)),
            idle_timeout: config.idle_timeout,
            stall_timeout: config.stall_timeout,
            resume_time: config.resume_time,
            buffer_bytes: number(config.buffers.0),
        },
        tpc: TpcConfig {
            sources: AllowList(
                config
                    .tpc_sources
                    .iter()
                    .filter_map(|rule| AllowRule::parse(rule))
                    .collect(),
            ),
            copies_max: number(u64::from(config.tpc_copies_max)),
            pace: Pace {
                rate_min: config.tpc_rate_min.0,
                over: config.tpc_rate_time,
            },
            trust: Some(Arc::new(SystemTrust(Arc::clone(trusted)))),
            listeners: context.addresses,
            registry: Some(transfers),
        },
        redirect: Redirect {
            when: RedirectMode::parse(&config.redirect).unwrap_or_default(),
            reads: elsewhere(&config.redirect_to),
            writes: elsewhere(&config.redirect_writes_to),
        },
    };
    let keytab = config.sss_keytab_file.clone().map(Keytab::new);
    let keytab = keytab.map(Arc::new);
    let callers = Arc::new(StoreCallers {
        store: store.clone(),
        local_user: Some(config.local_user.clone()).filter(|name| !name.is_empty()),
        trust_names: config.trust_names,
        keytab: keytab.clone(),
    });
    let tls = context
        .tls
        .map(|tls| Arc::new(Upgrade(tls)) as Arc<dyn TlsUpgrade>);
    Arc::new(XrootdFront {
        door: Arc::new(Door::new(
            store,
            env,
            door,
            callers,
            tls,
            Arc::new(Metered::new(context.metrics)),
        )),
        keytab,
    })
}

fn elsewhere(rules: &[String]) -> Vec<RedirectTarget> {
    let rules = rules.iter();
    rules
        .filter_map(|rule| RedirectTarget::parse(rule))
        .collect()
}

impl SocketFront for XrootdFront {
    fn serve(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        slot: Arc<dyn AcceptedConnection>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let door = Arc::clone(&self.door);
        Box::pin(async move { door.serve(socket, peer, slot, stop).await })
    }

    fn refuse(&self, socket: TcpStream) -> BoxFuture<'static, ()> {
        let door = Arc::clone(&self.door);
        Box::pin(async move { door.refuse(socket).await })
    }

    fn lingers(&self) -> Duration {
        self.door.lingers()
    }

    fn troubles(&self) -> Vec<HealthIssue> {
        let keytab = self.keytab.as_ref();
        let unreadable = keytab.and_then(|keytab| keytab.read().err());
        let keytab = unreadable.map(|error| HealthIssue {
            what: format!("services cannot log in over root://: {error}"),
            advice: "mend the file, and it is used at once".to_owned(),
        });
        let silent = self
            .door
            .silent_peers()
            .into_iter()
            .map(|place| HealthIssue {
                what: format!("clients are not sent to {place}, which does not answer"),
                advice: "start the server there, or take it out of xrootd.redirect_to and \
                     xrootd.redirect_writes_to"
                    .to_owned(),
            });
        keytab.into_iter().chain(silent).collect()
    }
}

/// The door's counters.
struct Metered {
    listener: ListenerMetrics,
    /// Counters of each request, looked up once: by its place among all and by outcome.
    requests: Vec<RequestCount>,
    copies: CopyMetrics,
}

/// The counters of one request.
#[derive(Default)]
struct RequestCount {
    outcomes: [OnceLock<Counter>; STATUS.len()],
    seconds: OnceLock<Histogram>,
}

/// The labels of outcomes, in the order of [`RequestOutcome`].
const STATUS: [&str; 5] = ["ok", "error", "failed", "wait", "redirect"];

impl Metered {
    fn new(listener: ListenerMetrics) -> Self {
        let requests = RequestCode::ALL.iter();
        Self {
            requests: requests.map(|_| RequestCount::default()).collect(),
            copies: listener.copies.of(DOOR, &CopyEnd::ALL.map(CopyEnd::name)),
            listener,
        }
    }
}

impl Meter for Metered {
    fn answered(&self, request: RequestCode, outcome: RequestOutcome, took: Duration) {
        let (door, verb) = (DOOR, request.name());
        let place = RequestCode::ALL.iter().position(|code| *code == request);
        let Some(counted) = place.and_then(|place| self.requests.get(place)) else {
            return;
        };
        let (outcome, status) = (outcome as usize, STATUS[outcome as usize]);
        let count = counted.outcomes[outcome].get_or_init(|| {
            let labels = RequestLabels { door, verb, status };
            self.listener.requests.get_or_create(&labels).clone()
        });
        count.inc();
        let seconds = counted.seconds.get_or_init(|| {
            let labels = VerbLabels { door, verb };
            self.listener.seconds.get_or_create(&labels).clone()
        });
        seconds.observe(took.as_secs_f64());
    }

    fn received(&self, bytes: u64) {
        self.listener.received.inc_by(bytes);
    }

    fn sent(&self, bytes: u64) {
        self.listener.sent.inc_by(bytes);
    }

    fn copy_began(&self) {
        self.copies.started.inc();
        self.copies.running.inc();
    }

    fn copied(&self, bytes: u64) {
        self.copies.bytes.inc_by(bytes);
    }

    fn copy_ended(&self, end: CopyEnd) {
        let place = CopyEnd::ALL.iter().position(|each| *each == end);
        if let Some(count) = place.and_then(|place| self.copies.ended.get(place)) {
            count.inc();
        }
        self.copies.running.dec();
    }

    fn key_shown(&self, good: bool) {
        match good {
            true => self.copies.keys_good.inc(),
            false => self.copies.keys_bad.inc(),
        };
    }
}

struct Upgrade(Arc<Tls>);

impl TlsUpgrade for Upgrade {
    fn upgrade(&self, socket: TcpStream) -> BoxFuture<'_, std::io::Result<Box<dyn TlsStream>>> {
        Box::pin(async move {
            let stream = self.0.accept(socket).await?;
            Ok(Box::new(stream) as Box<dyn TlsStream>)
        })
    }
}

/// The users of clients: Dewar's own users by the configuration, and users that issuers vouch for.
struct StoreCallers {
    store: Store,
    local_user: Option<String>,
    trust_names: bool,
    keytab: Option<Arc<Keytab>>,
}

impl Callers for StoreCallers {
    fn of_connection<'a>(&'a self, peer: &'a Peer) -> BoxFuture<'a, Result<Option<UserId>>> {
        Box::pin(async move {
            let Some(name) = &self.local_user else {
                return Ok(None);
            };
            if !socket_owner::is_ours(peer.client, peer.server).await {
                return Ok(None);
            }
            self.by_name(name).await.map(Some)
        })
    }

    /// From the first issuer on.
    fn takes_tokens(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match self.store.accounts().issuers().await {
                Ok(issuers) => !issuers.is_empty(),
                Err(error) => {
                    tracing::warn!(%error, "issuers of tokens cannot be looked up");
                    false
                }
            }
        })
    }

    fn trusts_names(&self, _: &Peer) -> bool {
        self.trust_names
    }

    fn service_keys(&self) -> BoxFuture<'_, Arc<Vec<SssKey>>> {
        Box::pin(async move {
            // One look at a file of the configuration, which is no disk of the pool.
            let keytab = self.keytab.as_ref();
            keytab.map(|keytab| keytab.keys()).unwrap_or_default()
        })
    }

    fn by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<UserId>> {
        Box::pin(async move { Ok(self.store.accounts().user(name).await?.id) })
    }

    fn logged_in(&self, caller: &Caller, way: &str) {
        self.store
            .authorizer()
            .record_login(caller, way, String::new());
    }

    fn turned_away(&self, peer: &Peer, way: &str, why: &str) {
        self.store
            .authorizer()
            .record_refused_login(peer.origin(), way, None, why);
    }

    fn caller<'a>(&'a self, proof: &'a Proof, origin: Origin) -> BoxFuture<'a, Result<Caller>> {
        Box::pin(async move {
            match proof {
                Proof::User(id) => self.store.accounts().admitted(*id, origin).await,
                Proof::Token(token) => self.store.accounts().bearer(token.reveal(), origin).await,
            }
        })
    }
}
