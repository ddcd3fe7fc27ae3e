//! Metrics of connections and requests.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper ends of the buckets of request times, in seconds.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DoorLabel {
    door: &'static str,
}

/// A request's door, verb and outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The door's name.
    pub door: &'static str,
    /// The verb, in the protocol's words. If the front does not name it, the method.
    pub verb: &'static str,
    /// `2xx` and so on; over root:// `ok`, `error` (the client's), `failed` (the server's) or
    /// `wait`. `none` when the client left before there was an answer.
    pub status: &'static str,
}

/// A request's door and verb.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VerbLabels {
    /// The door's name.
    pub door: &'static str,
    /// As in [`RequestLabels`].
    pub verb: &'static str,
}

/// A door, and how something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    door: &'static str,
    outcome: &'static str,
}

/// The metric families of all doors. A door is a label, because a name may be registered only once.
#[derive(Clone, Debug)]
pub struct DoorMetrics {
    open: Family<DoorLabel, Gauge>,
    accepted: Family<DoorLabel, Counter>,
    refused: Family<DoorLabel, Counter>,
    accept_errors: Family<DoorLabel, Counter>,
    handshakes_failed: Family<DoorLabel, Counter>,
    certificate_expiry: Family<DoorLabel, Gauge>,
    timed_out: Family<DoorLabel, Counter>,
    buffers_released: Family<DoorLabel, Counter>,
    requests: Family<RequestLabels, Counter>,
    seconds: Seconds,
    received: Family<DoorLabel, Counter>,
    sent: Family<DoorLabel, Counter>,
    copies: CopyFamilies,
}

/// Those of third-party copies, for doors that do them.
#[derive(Clone, Debug, Default)]
pub struct CopyFamilies {
    running: Family<DoorLabel, Gauge>,
    started: Family<DoorLabel, Counter>,
    ended: Family<EndLabels, Counter>,
    bytes: Family<DoorLabel, Counter>,
    keys: Family<EndLabels, Counter>,
}

/// Third-party copies of one door.
#[derive(Clone, Debug)]
pub struct CopyMetrics {
    /// Files that are being fetched.
    pub running: Gauge,
    /// Files that were begun to be fetched.
    pub started: Counter,
    /// How they ended, in the order in which the outcomes were named.
    pub ended: Vec<Counter>,
    /// Bytes that were fetched.
    pub bytes: Counter,
    /// Keys that were good, when other servers came with them to fetch.
    pub keys_good: Counter,
    /// And those that were not.
    pub keys_bad: Counter,
}

impl CopyFamilies {
    /// The counters of a door whose copies end in one of `outcomes`.
    #[must_use]
    pub fn of(&self, door: &'static str, outcomes: &[&'static str]) -> CopyMetrics {
        let label = DoorLabel { door };
        let end = |family: &Family<EndLabels, Counter>, outcome| {
            let labels = EndLabels { door, outcome };
            family.get_or_create(&labels).clone()
        };
        let ended = outcomes.iter().map(|outcome| end(&self.ended, outcome));
        CopyMetrics {
            running: self.running.get_or_create(&label).clone(),
            started: self.started.get_or_create(&label).clone(),
            ended: ended.collect(),
            bytes: self.bytes.get_or_create(&label).clone(),
            keys_good: end(&self.keys, "good"),
            keys_bad: end(&self.keys, "refused"),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "copies_running",
            "Third-party copies to this server that are under way",
            self.running.clone(),
        );
        registry.register(
            "copies_started",
            "Third-party copies to this server that began",
            self.started.clone(),
        );
        registry.register(
            "copies_ended",
            "Third-party copies to this server by how they ended",
            self.ended.clone(),
        );
        registry.register(
            "copied_bytes",
            "Bytes fetched from other servers by third-party copies",
            self.bytes.clone(),
        );
        registry.register(
            "copy_keys",
            "Keys with which other servers came to fetch a file of this one",
            self.keys.clone(),
        );
    }
}

type Seconds = Family<VerbLabels, Histogram, fn() -> Histogram>;

/// Counters of one door.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    /// Connections that are open.
    pub open: Gauge,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that were refused because too many were open, of all clients, of their address or
    /// of their account.
    pub refused: Counter,
    /// Failures to accept at all.
    pub accept_errors: Counter,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: Counter,
    /// Connections closed because a head, a body or an answer made no progress.
    pub timed_out: Counter,
    /// Large read buffers that were taken from idle connections.
    pub buffers_released: Counter,
    /// Requests, of this and all other doors.
    pub requests: Family<RequestLabels, Counter>,
    /// How long they took until the last byte of the answer was taken.
    pub seconds: Seconds,
    /// Bytes of requests' bodies.
    pub received: Counter,
    /// Bytes of answers' bodies.
    pub sent: Counter,
    /// Third-party copies, of this and all other doors.
    pub copies: CopyFamilies,
}

impl DoorMetrics {
    /// Families in `registry`; call it once.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            open: Family::default(),
            accepted: Family::default(),
            refused: Family::default(),
            accept_errors: Family::default(),
            handshakes_failed: Family::default(),
            certificate_expiry: Family::default(),
            timed_out: Family::default(),
            buffers_released: Family::default(),
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            received: Family::default(),
            sent: Family::default(),
            copies: CopyFamilies::default(),
        };
        metrics.copies.register(registry);
        let open = metrics.open.clone();
        registry.register("connections_open", "Connections that are open", open);
        registry.register_with_unit(
            "tls_certificate_expiry_time",
            "When the TLS certificate of a door ends, since 1970",
            Unit::Seconds,
            metrics.certificate_expiry.clone(),
        );
        let mut counter = |name: &str, help: &str, family: &Family<DoorLabel, Counter>| {
            registry.register(name, help, family.clone());
        };
        counter(
            "connections_accepted",
            "Connections that were accepted",
            &metrics.accepted,
        );
        counter(
            "connections_refused",
            "Connections refused because too many were open, of all clients, their address or account",
            &metrics.refused,
        );
        counter(
            "accept_errors",
            "Failures to accept connections, for want of descriptors or memory",
            &metrics.accept_errors,
        );
        counter(
            "tls_handshakes_failed",
            "TLS handshakes that failed or took longer than header_timeout",
            &metrics.handshakes_failed,
        );
        counter(
            "connections_timed_out",
            "Connections closed because a head, a body or an answer made no progress",
            &metrics.timed_out,
        );
        counter(
            "read_buffers_released",
            "Large read buffers that were taken from idle connections",
            &metrics.buffers_released,
        );
        counter(
            "received_bytes",
            "Bytes of requests' bodies",
            &metrics.received,
        );
        counter("sent_bytes", "Bytes of answers' bodies", &metrics.sent);
        registry.register(
            "requests",
            "Requests by verb and class of status; none: the client left before an answer",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "From a request's head to the last byte of its answer",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        metrics
    }

    /// When the certificate of the door called `door` ends, in seconds since 1970. Only doors with TLS
    /// have it.
    #[must_use]
    pub fn certificate_expiry(&self, door: &'static str) -> Gauge {
        let label = DoorLabel { door };
        self.certificate_expiry.get_or_create(&label).clone()
    }

    /// The counters of the door called `door`.
    #[must_use]
    pub fn of(&self, door: &'static str) -> ListenerMetrics {
        let label = DoorLabel { door };
        let counter = |family: &Family<DoorLabel, Counter>| family.get_or_create(&label).clone();
        ListenerMetrics {
            open: self.open.get_or_create(&label).clone(),
            accepted: counter(&self.accepted),
            refused: counter(&self.refused),
            accept_errors: counter(&self.accept_errors),
            handshakes_failed: counter(&self.handshakes_failed),
            timed_out: counter(&self.timed_out),
            buffers_released: counter(&self.buffers_released),
            requests: self.requests.clone(),
            seconds: self.seconds.clone(),
            received: counter(&self.received),
            sent: counter(&self.sent),
            copies: self.copies.clone(),
        }
    }
}
