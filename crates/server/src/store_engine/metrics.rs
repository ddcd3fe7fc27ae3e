//! Figures of the store, read when they are asked for.

use std::sync::Arc;

use dewar_data::pool::Pool;
use dewar_journal::Journal;
use dewar_store::Store;
use dewar_store::engine::{Engine, LiveFolders};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::Metrics;

/// Shows the figures of these parts.
pub(super) fn register(metrics: &Metrics, engine: &Engine, folders: &Arc<LiveFolders>) {
    let figures = Figures {
        store: engine.store().clone(),
        journal: engine.journal().clone(),
        pool: Arc::clone(engine.pool()),
        folders: Arc::clone(folders),
    };
    metrics.register(|registry| registry.register_collector(Box::new(figures)));
}

struct Figures {
    store: Store,
    journal: Journal,
    pool: Arc<Pool>,
    folders: Arc<LiveFolders>,
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Figures")
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut gauge = |name: &str, help: &str, value: i64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)
        };
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let states = self.folders.states();
        let online = states
            .iter()
            .filter(|(_, state)| *state == "online")
            .count();
        gauge("disks", "Disks of the pool", count(states.len()))?;
        gauge("disks_online", "Disks that can be used now", count(online))?;
        gauge(
            "disks_writable",
            "Disks that can be written now",
            count(self.pool.writable().count()),
        )?;
        let journal = self.journal.status();
        gauge(
            "journal_files",
            "Journal files in use on each holder",
            count(journal.files),
        )?;
        gauge(
            "journal_margin",
            "Disks that may be lost without losing a journal record",
            i64::from(journal.margin),
        )?;
        gauge(
            "journal_unacknowledged_bytes",
            "Bytes appended and not yet durable",
            count(journal.unacked_bytes),
        )?;
        gauge(
            "segments_unsealed_bytes",
            "Bytes of small objects in memory",
            signed(self.store.segments().unsealed_bytes()),
        )?;
        let blobs = self.store.blob_counts();
        let mut counter = |name: &str, help: &str, value: u64| {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)
        };
        counter(
            "journal_records",
            "Journal records that became durable",
            journal.durable,
        )?;
        counter(
            "blobs_decoded_bytes",
            "Bytes reconstructed for readers",
            blobs.decoded_bytes,
        )?;
        counter("pages_bad", "Pages that did not verify", blobs.bad_pages)?;
        counter("pages_healed", "Bad pages put right", blobs.healed_pages)
    }
}
