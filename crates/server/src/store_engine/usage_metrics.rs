//! Metrics of usage: what the largest buckets and accounts hold, and the pools.
//!
//! Counting reads the records of all buckets and blobs, so it is not done for every scrape. A scrape
//! with figures older than [`COUNT_EVERY`] shows the old ones and starts a count in the background.

use std::cmp::Reverse;
use std::fmt::{Debug, Formatter, Result};
use std::sync::Arc;
use std::time::Duration;

use dewar_admin::DiskChanges;
use dewar_admin::bucket_path;
use dewar_store::Store;
use dewar_store::quota::Usage;
use dewar_store::usage::PoolUsage;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::metrics::{MetricsWriter, signed};

/// Longest age of the figures at a scrape before they are counted again.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// Buckets, and accounts, that have series of their own. Each series costs memory in Prometheus for
/// as long as it keeps data, and users can create buckets without limit. `dewar usage --json` has
/// all of them.
const SERIES_MAX: usize = 100;

/// Counts usage, and shows it.
pub(super) struct UsageMetrics {
    store: Store,
    changes: DiskChanges,
    counted: Arc<Mutex<CountedUsage>>,
    runtime: Handle,
}

/// The usage that was counted last.
#[derive(Default)]
struct CountedUsage {
    /// When counting began.
    at: Option<Instant>,
    figures: Option<UsageFigures>,
}

#[derive(Clone, Default)]
struct UsageFigures {
    buckets: LargestUsage,
    accounts: LargestUsage,
    pools: Vec<(u16, PoolUsage)>,
}

/// The largest of many by bytes, and what the others hold together.
#[derive(Clone, Default)]
struct LargestUsage {
    named: Vec<(String, Usage)>,
    /// How many have no series.
    others: usize,
    others_usage: Usage,
}

impl LargestUsage {
    fn of(mut all: Vec<(String, Usage)>) -> Self {
        all.sort_by_key(|(name, usage)| (Reverse(usage.bytes), name.clone()));
        let rest = all.split_off(all.len().min(SERIES_MAX));
        let mut others_usage = Usage::default();
        rest.iter().for_each(|(_, usage)| others_usage += *usage);
        Self {
            named: all,
            others: rest.len(),
            others_usage,
        }
    }
}

impl UsageMetrics {
    pub(super) fn new(store: &Store, changes: &DiskChanges) -> Self {
        Self {
            store: store.clone(),
            changes: changes.clone(),
            counted: Arc::default(),
            runtime: Handle::current(),
        }
    }

    /// The figures that were counted last. It starts a new count if they are old.
    fn figures(&self) -> Option<UsageFigures> {
        let mut counted = self.counted.lock();
        let now = Instant::now();
        if counted.at.is_none_or(|at| at + COUNT_EVERY <= now) {
            counted.at = Some(now);
            let (store, into) = (self.store.clone(), Arc::clone(&self.counted));
            self.runtime.spawn(async move {
                match count(&store).await {
                    Ok(figures) => into.lock().figures = Some(figures),
                    Err(error) => tracing::warn!(%error, "the usage could not be counted"),
                }
            });
        }
        counted.figures.clone()
    }
}

async fn count(store: &Store) -> dewar_types::Result<UsageFigures> {
    let buckets = store.bucket_reports().await?.into_iter();
    let buckets = buckets.map(|report| {
        let name = bucket_path(&report.bucket.tenant, &report.bucket.name);
        (name, report.usage)
    });
    let buckets = LargestUsage::of(buckets.collect());
    let mut accounts = Vec::new();
    for (id, usage) in store.account_usage().await? {
        let name = store.account_called(id).await?;
        accounts.push((name.unwrap_or_else(|| id.to_string()), usage));
    }
    Ok(UsageFigures {
        buckets,
        accounts: LargestUsage::of(accounts),
        pools: store.pool_usage().await?.into_iter().collect(),
    })
}

impl Debug for UsageMetrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("UsageMetrics")
    }
}

impl Collector for UsageMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result {
        let mut page = MetricsWriter(encoder);
        let Some(figures) = self.figures() else {
            return Ok(());
        };
        let pool = |number: &u16| [("pool", self.changes.pool_name(*number))];
        page.gauges(
            "pools_content",
            "Content of the blobs in a pool, without parity",
            Some(&Unit::Bytes),
            figures
                .pools
                .iter()
                .map(|(number, held)| (pool(number), signed(held.bytes))),
        )?;
        page.gauges(
            "pools_stored",
            "Bytes of the shards of the blobs in a pool, parity included",
            Some(&Unit::Bytes),
            figures
                .pools
                .iter()
                .map(|(number, held)| (pool(number), signed(held.stored_bytes))),
        )?;
        largest(&mut page, "bucket", &figures.buckets)?;
        largest(&mut page, "user", &figures.accounts)
    }
}

/// The series of one kind: `bucket_usage_bytes`, `bucket_usage_objects` and those of the others.
fn largest(page: &mut MetricsWriter<'_>, kind: &'static str, usage: &LargestUsage) -> Result {
    let label = |name: &String| [(kind, name.clone())];
    let named = usage.named.iter();
    page.gauges(
        &format!("{kind}_usage"),
        "Bytes of all versions and open uploads of the hundred largest",
        Some(&Unit::Bytes),
        named
            .clone()
            .map(|(name, held)| (label(name), signed(held.bytes))),
    )?;
    page.gauges(
        &format!("{kind}_objects"),
        "Versions of objects, delete markers and open uploads of the hundred with most bytes",
        None,
        named.map(|(name, held)| (label(name), signed(held.objects))),
    )?;
    page.gauge(
        &format!("{kind}s_without_series"),
        "How many are not among the hundred with most bytes",
        signed(usage.others),
    )?;
    page.gauge(
        &format!("{kind}s_without_series_bytes"),
        "Bytes of those",
        signed(usage.others_usage.bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_share_one_series() {
        let bytes = |bytes| Usage { objects: 1, bytes };
        let all = (0..150).map(|n| (format!("/b{n}"), bytes(n))).collect();
        let usage = LargestUsage::of(all);
        assert_eq!(usage.named.len(), SERIES_MAX);
        assert_eq!(usage.named[0], ("/b149".to_owned(), bytes(149)));
        assert_eq!(usage.others, 50);
        assert_eq!(usage.others_usage.bytes, (0..50).sum::<u64>());
        let few = LargestUsage::of(vec![("/b".to_owned(), bytes(1))]);
        assert_eq!((few.named.len(), few.others), (1, 0));
    }
}
