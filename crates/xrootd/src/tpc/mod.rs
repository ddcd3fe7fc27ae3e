//! Third-party copies: a client that moves no data itself lets one server fetch from another.
//!
//! ```text
//! client --open tpc.key tpc.src--> destination      sync: armed
//! client --open tpc.key tpc.dst--> source           the key waits for the destination
//! client --sync------------------> destination --open tpc.key tpc.org--> source
//! ```
//!
//! - As **source** ([`keys`]): the client's `open` leaves a key for the host that it names. A
//!   destination that connects from that host with the key, the path and the client's name reads
//!   that one file, with the client's rights and none of its own. A key is valid once and for a
//!   short time. It ends with the file that the client holds open.
//! - As **destination** ([`copy`]): the file is an ordinary open file, whose bytes come from the
//!   source instead of the client. It is not visible before the client's `close`.
//! - Without a key, with **delegation**: the client's own token is sent to the source.
//!
//! The administrator configures the servers that this server may connect to ([`AllowList`]).

pub(crate) mod copy;
pub(crate) mod keys;
pub(crate) mod opaque_params;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::measure::Meter;
pub(crate) use dewar_auth::fair_share;
use dewar_env::Env;
use dewar_transfer::{
    AllowList, OwnAddresses, Pace, QueueLimits, RemoteAllowList, TransferRegistry, Trust,
};
use dewar_xrootd_client::Resolver;

/// How third-party copies are done.
#[derive(Clone)]
pub struct TpcConfig {
    /// Sources from which files may be fetched; if empty, this server is no destination.
    pub sources: AllowList,
    /// Maximum number of copies at the same time; further ones must wait. A user gets at most as
    /// many as are left free.
    pub copies_max: usize,
    /// The slowest that a source may be.
    pub pace: Pace,
    /// Trusted certificates.
    pub trust: Option<Arc<dyn Trust>>,
    /// The addresses on which this process listens. A copy with the client's token does not come from them.
    pub listeners: Vec<SocketAddr>,
    /// The registry in whose queue copies wait; `None` for a registry of this door alone.
    pub registry: Option<Arc<TransferRegistry>>,
}

impl Default for TpcConfig {
    fn default() -> Self {
        Self {
            sources: AllowList::default(),
            copies_max: 16,
            pace: Pace::default(),
            trust: None,
            listeners: Vec::new(),
            registry: None,
        }
    }
}

impl std::fmt::Debug for TpcConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TpcConfig({:?}, {})", self.sources, self.copies_max)
    }
}

/// What the copies of a door share.
pub(crate) struct Tpc {
    pub(crate) keys: Arc<keys::Keys>,
    pub(crate) running: Arc<fair_share::FairShares>,
    pace: Pace,
    sources: Arc<AllowList>,
    others: Arc<RemoteAllowList>,
    trust: Option<Arc<dyn Trust>>,
    pub(crate) registry: Arc<TransferRegistry>,
    pub(crate) meter: Arc<dyn Meter>,
}

impl Tpc {
    pub(crate) fn new(config: &TpcConfig, env: &Env, meter: Arc<dyn Meter>) -> Self {
        let own = || TransferRegistry::new(env.clone(), QueueLimits::default(), None, None);
        let sources = Arc::new(config.sources.clone());
        Self {
            keys: Arc::new(keys::Keys::default()),
            running: fair_share::FairShares::new(config.copies_max),
            pace: config.pace,
            others: Arc::new(RemoteAllowList {
                sources: Arc::clone(&sources),
                own: OwnAddresses::new(&config.listeners),
            }),
            sources,
            trust: config.trust.clone(),
            registry: config.registry.clone().unwrap_or_else(own),
            meter,
        }
    }

    /// What decides about the servers to which a copy may connect.
    pub(crate) fn resolver(&self, fetch: &opaque_params::FetchParams) -> Arc<dyn Resolver> {
        match fetch.key {
            Some(_) => Arc::clone(&self.sources) as _,
            None => Arc::clone(&self.others) as _,
        }
    }
}
