//! Metrics of one server: a separate registry, so that several servers can run in one process, and
//! the endpoint that shows it.

mod endpoint;
mod process;

use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use endpoint::{MetricsEndpoint, Readiness};

/// All metrics. Clones share one registry: parts of the server register their families while the
/// endpoint already shows the others.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry with the metrics of the process itself.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process));
        let metrics = Self {
            registry: Arc::new(RwLock::new(registry)),
        };
        metrics.register(|dewar| {
            let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
            dewar.register("build", "Version of the program", build);
        });
        metrics
    }

    /// Registers families; their names get the prefix `dewar_`.
    pub fn register<T>(&self, families: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        families(registry.sub_registry_with_prefix("dewar"))
    }

    /// All of it in the OpenMetrics text format.
    ///
    /// # Errors
    /// A collector failed.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}
