//! The HTTP client of third-party copies: its settings, and what all copies share.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dewar_env::{BoxFuture, Env};
use dewar_store::ContentWriter;
use dewar_store::api::{ExpectedContent, ObjectInfo};
use dewar_types::Result;
use rustls::ClientConfig;

use crate::block_memory::BlockMemory;
use crate::connect_rules::ConnectRules;
use crate::name_resolver::NameResolver;
use crate::pace::Pace;
use crate::request::SourceDescription;

/// Trust in certificates when this server is the client.
pub trait Trust: Send + Sync {
    /// The TLS configuration of such connections; `None` if nothing is trusted. Then `root://` connections
    /// have no encryption, and `https` connections fail.
    fn client(&self) -> BoxFuture<'_, Option<Arc<ClientConfig>>>;
}

/// Deadlines of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferTimes {
    /// For resolving a name.
    pub resolve: Duration,
    /// For connecting, TLS included, all addresses of a host together.
    pub connect: Duration,
    /// From a request to the head of its answer, and from there to the first byte.
    pub first_byte: Duration,
    /// Without a byte of progress after the first.
    pub stall: Duration,
    /// For `100 Continue` before the data of a PUT is sent without it.
    pub expect: Duration,
    /// For the answer to a HEAD, and for the answer to a PUT whose body was sent. The other side may have to
    /// compute a checksum first.
    pub checksum: Duration,
    /// The first pause before another attempt. Each further pause is three times as long.
    pub retry_pause: Duration,
}

impl Default for TransferTimes {
    fn default() -> Self {
        Self {
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(30),
            first_byte: Duration::from_secs(120),
            stall: Duration::from_secs(60),
            expect: Duration::from_secs(3),
            checksum: Duration::from_secs(300),
            retry_pause: Duration::from_secs(2),
        }
    }
}

/// Settings of all transfers.
#[derive(Clone)]
pub struct TransferConfig {
    /// The rules for connections.
    pub rules: ConnectRules,
    /// Hosts that get the forwarded headers after a redirect from another host: names, or `*.domain`.
    pub redirect_trust: Vec<String>,
    /// Deadlines.
    pub times: TransferTimes,
    /// The slowest that the other side may be, on average.
    pub pace: Pace,
    /// Further attempts after the first failed.
    pub retries: u32,
    /// Maximum connections of one pull.
    pub streams_max: u8,
    /// Trusted certificates.
    pub trust: Option<Arc<dyn Trust>>,
    /// Collectors of fireflies beside the other side.
    pub firefly_collectors: Vec<SocketAddr>,
}

impl Default for TransferConfig {
    fn default() -> Self {
        Self {
            rules: ConnectRules::default(),
            redirect_trust: Vec::new(),
            times: TransferTimes::default(),
            pace: Pace::default(),
            retries: 3,
            streams_max: 4,
            trust: None,
            firefly_collectors: Vec::new(),
        }
    }
}

impl fmt::Debug for TransferConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransferConfig")
            .field("rules", &self.rules)
            .field("redirect_trust", &self.redirect_trust)
            .field("times", &self.times)
            .finish_non_exhaustive()
    }
}

/// The local file that a pull writes.
pub trait PullTarget: Send + Sync {
    /// Opens the writer, as soon as the source's size and digests are known. Quota and space for that size
    /// are reserved before data flows. `want` are the digests that the writer must compute.
    ///
    /// It is called again, after the earlier writer was dropped, if a pull begins again from zero.
    fn begin<'a>(
        &'a self,
        source: &'a SourceDescription,
        want: dewar_checksum::AlgorithmSet,
    ) -> BoxFuture<'a, Result<ContentWriter>>;

    /// Commits a writer whose content is complete. The front may check locks first.
    fn commit<'a>(
        &'a self,
        writer: ContentWriter,
        expected: ExpectedContent,
    ) -> BoxFuture<'a, Result<ObjectInfo>> {
        Box::pin(writer.commit(expected))
    }
}

/// The client of all transfers of a process. [`TransferClient::pull`] and [`TransferClient::push`] do one transfer
/// each. A transfer ends when its future is dropped. A push may leave a part at the other side.
pub struct TransferClient {
    pub(crate) config: TransferConfig,
    pub(crate) env: Env,
    pub(crate) resolver: NameResolver,
    pub(crate) blocks: BlockMemory,
}

impl TransferClient {
    /// A client with these settings.
    #[must_use]
    pub fn new(config: TransferConfig, env: Env) -> Self {
        Self {
            config,
            env,
            resolver: NameResolver::default(),
            blocks: BlockMemory::default(),
        }
    }
}

impl fmt::Debug for TransferClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferClient({:?})", self.config)
    }
}
