//! Third-party copies: a client that moves nothing itself lets one server fetch from another.
//!
//! ```text
//! client --open tpc.key tpc.src--> destination      sync: armed
//! client --open tpc.key tpc.dst--> source           the key waits for the destination
//! client --sync------------------> destination --open tpc.key tpc.org--> source
//! ```
//!
//! - As **source** ([`keys`]): the client's `open` leaves a key for the host that it names. Who comes
//!   from there with the key, the path and the client's name reads that one file, with the client's
//!   rights and none of its own. A key is good once and for a short time, and ends with the file that
//!   the client holds open.
//! - As **destination** ([`copy`]): the file is one that is being written, and what is written comes
//!   from the source instead of the client. Nothing of it is seen before the client's `close`.
//! - Without a key, with **delegation**: the client's own token is shown to the source.
//!
//! Where the server may be made to connect to is the administrator's to say ([`allow_list`]).

pub(crate) mod allow_list;
pub(crate) mod copy;
pub(crate) mod keys;
pub(crate) mod opaque_params;
mod own_addresses;
mod pace;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::measure::Meter;
use dewar_env::BoxFuture;
pub(crate) use dewar_store::fair_share;
use dewar_xrootd_client::{Resolver, TlsConfig};

pub use allow_list::{AllowList, AllowRule};
pub use pace::Pace;

/// Whose certificates are believed when this server is the client.
pub trait Trust: Send + Sync {
    /// The configuration of such connections; `None` where nobody is trusted, which leaves those
    /// without encryption.
    fn client(&self) -> BoxFuture<'_, Option<Arc<TlsConfig>>>;
}

/// How third-party copies are done.
#[derive(Clone)]
pub struct TpcConfig {
    /// From where files may be fetched; with none this server is no destination.
    pub sources: AllowList,
    /// Copies that run at the same time; further ones are told to wait. Nobody gets more of them than
    /// are left free.
    pub copies_max: usize,
    /// The slowest that a source may be.
    pub pace: Pace,
    /// Whom to believe.
    pub trust: Option<Arc<dyn Trust>>,
    /// The addresses on which this process listens. A copy with the client's token does not come from them.
    pub listeners: Vec<SocketAddr>,
}

impl Default for TpcConfig {
    fn default() -> Self {
        Self {
            sources: AllowList::default(),
            copies_max: 16,
            pace: Pace::default(),
            trust: None,
            listeners: Vec::new(),
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
    others: Arc<own_addresses::RemoteAllowList>,
    trust: Option<Arc<dyn Trust>>,
    pub(crate) meter: Arc<dyn Meter>,
}

impl Tpc {
    pub(crate) fn new(config: &TpcConfig, meter: Arc<dyn Meter>) -> Self {
        let sources = Arc::new(config.sources.clone());
        Self {
            keys: Arc::new(keys::Keys::default()),
            running: fair_share::FairShares::new(config.copies_max),
            pace: config.pace,
            others: Arc::new(own_addresses::RemoteAllowList {
                sources: Arc::clone(&sources),
                listeners: config.listeners.as_slice().into(),
            }),
            sources,
            trust: config.trust.clone(),
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
