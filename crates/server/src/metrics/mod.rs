//! Metrics of one server: a registry of its own, so that several servers can live in one process,
//! and the endpoint that shows it.

mod endpoint;
mod process;

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use endpoint::{Endpoint, Readiness};

/// Everything that is counted, before it is shown. Constructors get [`Metrics::dewar`] and
/// register their families there.
pub struct Metrics {
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry with what the process itself tells.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let mut metrics = Self { registry };
        metrics.dewar().register(
            "build",
            "Version of the program",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        metrics
    }

    /// Where names get the prefix `dewar_`.
    pub fn dewar(&mut self) -> &mut Registry {
        self.registry.sub_registry_with_prefix("dewar")
    }

    /// The finished registry, for the [`Endpoint`].
    #[must_use]
    pub fn into_registry(self) -> Registry {
        self.registry
    }
}
