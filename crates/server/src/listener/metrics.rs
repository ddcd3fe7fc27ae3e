//! What is counted about connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counters of one door.
#[derive(Clone, Debug, Default)]
pub struct ListenerMetrics {
    /// Connections that are open.
    pub open: Gauge,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that were refused because too many were open.
    pub refused: Counter,
    /// Failures to accept at all.
    pub accept_errors: Counter,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: Counter,
    /// Connections closed because a head, a body or an answer made no progress.
    pub timed_out: Counter,
    /// Large read buffers that were taken from idle connections.
    pub buffers_released: Counter,
}

impl ListenerMetrics {
    /// Counters in `registry`, labelled with the door's name.
    pub fn register(registry: &mut Registry, door: &'static str) -> Self {
        let metrics = Self::default();
        let all = registry.sub_registry_with_label(("door".into(), door.into()));
        all.register(
            "connections_open",
            "Connections that are open",
            metrics.open.clone(),
        );
        all.register(
            "connections_accepted",
            "Connections that were accepted",
            metrics.accepted.clone(),
        );
        all.register(
            "connections_refused",
            "Connections refused because connections_max were open",
            metrics.refused.clone(),
        );
        all.register(
            "accept_errors",
            "Failures to accept connections, for want of descriptors or memory",
            metrics.accept_errors.clone(),
        );
        all.register(
            "tls_handshakes_failed",
            "TLS handshakes that failed or took longer than header_timeout",
            metrics.handshakes_failed.clone(),
        );
        all.register(
            "connections_timed_out",
            "Connections closed because a head, a body or an answer made no progress",
            metrics.timed_out.clone(),
        );
        all.register(
            "read_buffers_released",
            "Large read buffers that were taken from idle connections",
            metrics.buffers_released.clone(),
        );
        metrics
    }
}
