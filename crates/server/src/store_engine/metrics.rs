//! Metrics of the store, read at each scrape.
//!
//! The ledger is computed from all records, so it is not computed for every scrape. A scrape with a
//! ledger older than [`LEDGER_EVERY`] shows the old one and starts a computation in the background.

use std::fmt::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dewar_admin::{DiskChanges, PoolFigures};
use dewar_audit::AuditLog;
use dewar_disks::pool::Pool;
use dewar_disks::upkeep::Ledger;
use dewar_engine::Engine;
use dewar_env::worker::{WorkerRegistry, WorkerState};
use dewar_journal::Journal;
use dewar_store::LedgerDepth;
use dewar_store::Store;
use dewar_transfer::TransferRegistry;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::transfers::TransferMetrics;
use super::usage_metrics::UsageMetrics;
use crate::metrics::Metrics;

/// Longest age of the ledger at a scrape before it is computed again.
const LEDGER_EVERY: Duration = Duration::from_secs(60);

/// Shows the figures of these parts.
pub(super) fn register(
    metrics: &Metrics,
    engine: &Engine,
    changes: &DiskChanges,
    audit: &Arc<AuditLog>,
    transfers: &Arc<TransferRegistry>,
) {
    let figures = Figures {
        store: engine.store().clone(),
        journal: engine.journal().clone(),
        pool: Arc::clone(engine.pool()),
        changes: changes.clone(),
        audit: Arc::clone(audit),
        workers: Arc::clone(engine.workers()),
        ledger: Arc::default(),
        runtime: Handle::current(),
    };
    let usage = UsageMetrics::new(engine.store(), changes);
    let transfers = TransferMetrics(Arc::clone(transfers));
    metrics.register(|registry| {
        registry.register_collector(Box::new(figures));
        registry.register_collector(Box::new(transfers));
        registry.register_collector(Box::new(usage));
    });
}

struct Figures {
    store: Store,
    journal: Journal,
    pool: Arc<Pool>,
    changes: DiskChanges,
    audit: Arc<AuditLog>,
    workers: Arc<WorkerRegistry>,
    ledger: Arc<Mutex<CountedLedger>>,
    runtime: Handle,
}

/// The ledger that was counted last.
#[derive(Default)]
struct CountedLedger {
    ledger: Option<Ledger>,
    /// When counting it began.
    at: Option<Instant>,
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> Result {
        f.write_str("Figures")
    }
}

/// Writes single figures and families of them.
pub(super) struct MetricsWriter<'a>(pub(super) DescriptorEncoder<'a>);

impl MetricsWriter<'_> {
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: i64) -> Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    pub(super) fn counter_f64(&mut self, name: &str, help: &str, value: f64) -> Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> Result {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    /// A gauge for each of `values`, distinguished by labels.
    pub(super) fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = ([(&'static str, String); N], i64)>,
    ) -> Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    pub(super) fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'static str, String); N], u64)>,
    ) -> Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

pub(super) fn signed(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn each_pool(page: &mut MetricsWriter<'_>, pools: &[PoolFigures]) -> Result {
    let each = |value: fn(&PoolFigures) -> i64| {
        let labelled = pools.iter();
        labelled.map(move |pool| ([("pool", pool.name.clone())], value(pool)))
    };
    page.gauges(
        "pools_writable",
        "1 when a pool would take a new object, 0 when too few of its disks live or have room",
        None,
        each(|pool| i64::from(pool.writable)),
    )?;
    page.gauges(
        "pools_tolerance",
        "Disks that the layout of a pool can lose, when none is away",
        None,
        each(|pool| i64::from(pool.layout.m)),
    )?;
    page.gauges(
        "pools_margin",
        "Disks of a pool that may still be lost of what was written on all of them; negative: too many are away",
        None,
        each(|pool| pool.margin),
    )?;
    page.gauges(
        "pools_total",
        "Size of the file systems of the disks of a pool",
        Some(&Unit::Bytes),
        each(|pool| signed(pool.total_bytes)),
    )?;
    page.gauges(
        "pools_available",
        "Room on the disks of a pool, as last seen: parity takes its share of it",
        Some(&Unit::Bytes),
        each(|pool| signed(pool.available_bytes)),
    )
}

impl Figures {
    fn disks(&self, page: &mut MetricsWriter<'_>) -> Result {
        let found = self.changes.states();
        let states = self.changes.told_states();
        let online = found.iter().filter(|(_, state)| *state == "online");
        let online = online.count();
        page.gauge("disks", "Disks of the pool", signed(states.len()))?;
        page.gauge("disks_online", "Disks that can be used now", signed(online))?;
        page.gauge(
            "disks_writable",
            "Disks that can be written now",
            signed(self.pool.writable().count()),
        )?;
        let pools = self.changes.pools(&self.pool, &self.journal);
        page.gauge(
            "pool_writable",
            "1 when the main pool would take a new object, 0 when too few disks live or have room",
            i64::from(pools.first().is_some_and(|main| main.writable)),
        )?;
        let tolerance = signed(self.pool.tolerance());
        page.gauge(
            "pool_tolerance",
            "Disks that the layout, the widest of all pools, can lose, when none is away",
            tolerance,
        )?;
        let away = self.changes.absent_disks(&self.pool, &self.journal);
        let away: i64 = away.values().sum();
        page.gauge(
            "pool_margin",
            "Disks that may still be lost of what was written on all; negative: too many are away",
            tolerance - away,
        )?;
        each_pool(page, &pools)?;
        let all = [
            "online",
            "draining",
            "replacing",
            "returning",
            "read-only",
            "missing",
            "hung",
            "failed",
            "blank",
            "removed",
            "foreign",
            "copy",
        ];
        page.gauges(
            "disk_state",
            "1 for the state that a disk is in, 0 for the others",
            None,
            states.iter().flat_map(|(path, state)| {
                all.iter().map(move |each| {
                    let labels = [("disk", path.clone()), ("state", (*each).to_owned())];
                    (labels, i64::from(state == each))
                })
            }),
        )?;
        let unverified = self.store.disks().unverified();
        let members = self.pool.members().map(|member| {
            let labels = [("disk", member.disk.label().to_owned())];
            (labels, i64::from(unverified.contains(&member.id)))
        });
        page.gauges(
            "disk_in_doubt",
            "1 while a disk that was put back as it was at an earlier time is being read",
            None,
            members,
        )?;
        let room = self.store.space();
        let spaces: Vec<_> = self
            .pool
            .members()
            .filter_map(|member| Some((member.disk.label().to_owned(), *room.get(&member.id)?)))
            .collect();
        page.gauges(
            "disk_total",
            "Size of a disk's file system",
            Some(&Unit::Bytes),
            spaces
                .iter()
                .map(|(path, space)| ([("disk", path.clone())], signed(space.total))),
        )?;
        page.gauges(
            "disk_available",
            "Room on a disk's file system, as last seen",
            Some(&Unit::Bytes),
            spaces
                .iter()
                .map(|(path, space)| ([("disk", path.clone())], signed(space.available))),
        )
    }

    fn audit(&self, page: &mut MetricsWriter<'_>) -> Result {
        let counts = self.audit.counts();
        let of = |outcome: &str, count| ([("outcome", outcome.to_owned())], count);
        page.counters(
            "audit_records",
            "Records of the audit log: written, lost since it could not be, only counted (beyond the rate of their account)",
            [
                of("written", counts.written),
                of("lost", counts.lost),
                of("counted", counts.summed),
            ],
        )?;
        page.gauge(
            "audit_failing",
            "1 while the audit log cannot be written",
            i64::from(self.audit.failing().is_some()),
        )
    }

    fn journal(&self, page: &mut MetricsWriter<'_>) -> Result {
        let journal = self.journal.status();
        page.gauge(
            "journal_files",
            "Journal files in use on each holder",
            signed(journal.files),
        )?;
        page.counter(
            "journal_files_damaged",
            "Copies of journal files that were found damaged while the server ran",
            journal.counters.damaged,
        )?;
        page.gauge(
            "journal_margin",
            "Disks that may be lost without losing a journal record",
            i64::from(journal.margin),
        )?;
        page.gauge(
            "catalog_margin",
            "Disks that may be lost without losing the catalog: the lower one of journal and index",
            i64::from(self.store.disks().catalog_margin()),
        )?;
        page.gauge(
            "journal_unacknowledged_bytes",
            "Bytes appended and not yet durable",
            signed(journal.unacked_bytes),
        )?;
        page.counter(
            "journal_records",
            "Journal records that became durable",
            journal.durable,
        )?;
        page.gauge(
            "segments_unsealed_bytes",
            "Bytes of small objects in memory",
            signed(self.store.segments().unsealed_bytes()),
        )
    }

    fn blobs(&self, page: &mut MetricsWriter<'_>) -> Result {
        let blobs = self.store.blob_counts();
        page.counter(
            "decoded_reads",
            "Reads of a shard that went around it, because its disk was away, slow or wrong",
            blobs.decoded_reads,
        )?;
        page.counter(
            "blobs_decoded_bytes",
            "Bytes reconstructed for readers",
            blobs.decoded_bytes,
        )?;
        page.counter("pages_bad", "Pages that did not verify", blobs.bad_pages)?;
        page.counter("pages_healed", "Bad pages put right", blobs.healed_pages)
    }

    fn upkeep(&self, page: &mut MetricsWriter<'_>) -> Result {
        let repair = self.store.disks().repair_status();
        page.gauge(
            "repair_waiting_blobs",
            "Blobs found in need of repair by the last look at all, and repairable",
            signed(repair.waiting),
        )?;
        page.counter("repair_blobs", "Blobs put right", repair.repaired)?;
        page.counter(
            "repair_new_layout_blobs",
            "Blobs encoded anew for the disks that live",
            repair.laid_out,
        )?;
        page.counter(
            "repair_written_bytes",
            "Bytes written by repair",
            repair.bytes,
        )?;
        page.counter(
            "repair_failures",
            "Repairs that failed and are tried again",
            repair.failed,
        )?;
        let scrubs: Vec<_> = self
            .store
            .disks()
            .scrub_status()
            .into_iter()
            .filter_map(|(id, status)| {
                let member = self.pool.member(id)?;
                Some((member.disk.label().to_owned(), status))
            })
            .collect();
        page.counters(
            "scrub_bad_shards",
            "Shards that the scrub found bad",
            scrubs
                .iter()
                .map(|(disk, status)| ([("disk", disk.clone())], status.bad)),
        )?;
        let rot = self.store.disks().rot_since_start();
        page.counters(
            "disk_rot_found",
            "Shards that scrub or a deep check found bad",
            self.pool.members().map(|member| {
                let found = rot.get(&member.id).copied().unwrap_or(0);
                ([("disk", member.disk.label().to_owned())], found)
            }),
        )?;
        page.gauges(
            "scrub_pass",
            "Bytes read in the pass under way, or in the last one",
            Some(&Unit::Bytes),
            scrubs
                .iter()
                .map(|(disk, status)| ([("disk", disk.clone())], signed(status.bytes))),
        )?;
        page.gauges(
            "scrub_last_pass_time",
            "Unix time when the last complete pass ended",
            Some(&Unit::Seconds),
            scrubs.iter().filter_map(|(disk, status)| {
                let (_, ended) = status.last?;
                Some(([("disk", disk.clone())], signed(ended.0 / 1_000_000_000)))
            }),
        )
    }

    fn workers(&self, page: &mut MetricsWriter<'_>) -> Result {
        let reports = self.workers.reports();
        page.gauges(
            "worker_state",
            "1 for the state that a background worker is in, 0 for the others",
            None,
            reports.iter().flat_map(|report| {
                WorkerState::ALL.map(|each| {
                    let labels = [
                        ("worker", report.name.to_owned()),
                        ("state", each.name().to_owned()),
                    ];
                    (labels, i64::from(report.state == each))
                })
            }),
        )?;
        page.counters(
            "worker_errors",
            "Steps of a background worker that failed; they are tried again",
            reports
                .iter()
                .map(|report| ([("worker", report.name.to_owned())], report.errors)),
        )
    }

    fn ledger(&self, page: &mut MetricsWriter<'_>) -> Result {
        let mut counted = self.ledger.lock();
        let now = Instant::now();
        if counted.at.is_none_or(|at| at + LEDGER_EVERY <= now) {
            counted.at = Some(now);
            let (store, into) = (self.store.clone(), Arc::clone(&self.ledger));
            self.runtime.spawn(async move {
                let depth = LedgerDepth::default();
                match store.ledger(depth, &AtomicU64::new(0)).await {
                    Ok(ledger) => into.lock().ledger = Some(ledger),
                    Err(error) => tracing::warn!(%error, "the ledger could not be counted"),
                }
            });
        }
        let Some(ledger) = counted.ledger.clone() else {
            return Ok(());
        };
        drop(counted);
        let line = |left: &i32| [("failures_left", left.to_string())];
        page.gauges(
            "ledger_blobs",
            "Blobs by the failures that they survive; negative: they cannot be read now",
            None,
            ledger
                .lines
                .iter()
                .map(|(left, counted)| (line(left), signed(counted.blobs))),
        )?;
        page.gauges(
            "ledger_lacking_blobs",
            "Those of them that survive fewer failures than the layouts of their pools",
            None,
            ledger
                .lines
                .iter()
                .map(|(left, counted)| (line(left), signed(counted.lacking))),
        )?;
        page.gauges(
            "ledger",
            "Content by the failures that it survives",
            Some(&Unit::Bytes),
            ledger
                .lines
                .iter()
                .map(|(left, counted)| (line(left), signed(counted.bytes))),
        )?;
        page.gauges(
            "ledger_time",
            "Unix time when the ledger was counted",
            Some(&Unit::Seconds),
            [([], signed(ledger.counted.0 / 1_000_000_000))],
        )
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::result::Result<(), Error> {
        let mut page = MetricsWriter(encoder);
        self.disks(&mut page)?;
        self.journal(&mut page)?;
        self.audit(&mut page)?;
        self.blobs(&mut page)?;
        self.upkeep(&mut page)?;
        self.workers(&mut page)?;
        self.ledger(&mut page)
    }
}
