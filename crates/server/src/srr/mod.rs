//! The storage report: Storage Resource Reporting of WLCG, version 4.2.
//!
//! The report is built from counters, never by a walk: the room of the pools, the usage of all tenants,
//! and one counter of each space. It is kept for some seconds and published whole.

mod document;
mod endpoints;
mod front;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_disks::pool::Pool;
use dewar_env::Env;
use dewar_store::Store;
use dewar_store::space::{PUBLIC_SPACE, SpaceReport};
use dewar_store::usage::UsableSpace;
use dewar_types::{Error, ErrorKind, Result};
use tokio::sync::Mutex;

use crate::listener::ListenerAddress;
use document::{ALL, Capacities, Capacity, Document, Service, Share};
use endpoints::{endpoints, service_name};

pub use front::{ReportReaders, SrrFront};

/// Path of the report on each listener for HTTP.
pub const SRR_PATH: &str = "/.well-known/srr";

/// Longest age of a report that is sent again.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// Longest time for building a report. The catalog answers at once, unless its disks are in trouble.
const BUILD_TIME_MAX: Duration = Duration::from_secs(10);

/// Builds storage reports.
pub struct StorageReport {
    store: Store,
    pool: Arc<Pool>,
    env: Env,
    listeners: Vec<ListenerAddress>,
    public_urls: Vec<String>,
    /// The last one, and when it was built.
    last: Mutex<Option<(Duration, Bytes)>>,
}

impl StorageReport {
    /// Reports about a store that is served at these addresses.
    #[must_use]
    pub fn new(
        store: Store,
        pool: Arc<Pool>,
        env: Env,
        listeners: Vec<ListenerAddress>,
        public_urls: Vec<String>,
    ) -> Self {
        Self {
            store,
            pool,
            env,
            listeners,
            public_urls,
            last: Mutex::default(),
        }
    }

    /// The report as JSON, at most some seconds old.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when the catalog does not answer; its other errors.
    pub async fn json(&self) -> Result<Bytes> {
        let built = tokio::time::timeout(BUILD_TIME_MAX, self.recent()).await;
        built.unwrap_or_else(|_| {
            let message = "the catalog did not answer in time";
            Err(Error::new(ErrorKind::Timeout, message))
        })
    }

    async fn recent(&self) -> Result<Bytes> {
        // Others who ask wait for the same report.
        let mut last = self.last.lock().await;
        let now = self.env.clock.elapsed();
        if let Some((built, report)) = &*last
            && now.saturating_sub(*built) < KEPT_FOR
        {
            return Ok(report.clone());
        }
        let document = self.build().await?;
        let json = serde_json::to_vec(&document).map_err(|error| {
            Error::with_source(ErrorKind::Internal, "the storage report is no JSON", error)
        })?;
        let report = Bytes::from(json);
        *last = Some((now, report.clone()));
        Ok(report)
    }

    async fn build(&self) -> Result<Document> {
        let spaces = self.store.spaces().await?;
        let whole = self.store.whole_usage().await?.bytes;
        let mut online = UsableSpace::default();
        for (number, _) in self.pool.layouts() {
            let pool = self.store.usable_space_in(number);
            online.total = online.total.saturating_add(pool.total);
            online.free = online.free.saturating_add(pool.free);
        }
        let takes_files = self.store.layout_for_new_blob(self.store.usual_pool());
        let now = self.env.clock.now().secs();
        let state = match takes_files {
            Ok(_) => "open",
            Err(_) => "draining",
        };
        let mut shares = vec![public_share(&spaces, online, whole)];
        shares.extend(spaces.iter().map(share_of));
        for share in &mut shares {
            share.timestamp = now;
            share.servingstate = state;
        }
        Ok(Document {
            storageservice: Service {
                name: service_name(&self.public_urls),
                implementation: "dewar",
                implementationversion: env!("CARGO_PKG_VERSION"),
                qualitylevel: "production",
                latestupdate: now,
                storagecapacity: Capacities {
                    online: Capacity {
                        totalsize: online.total,
                        usedsize: online.used(),
                    },
                },
                storageendpoints: endpoints(&self.listeners, &self.public_urls),
                storageshares: shares,
            },
        })
    }
}

/// A share that is for all endpoints. Time and state are those of the whole report.
fn share(name: &str, path: &str, totalsize: u64, usedsize: u64, vos: &[String]) -> Share {
    Share {
        name: name.to_owned(),
        timestamp: 0,
        totalsize,
        usedsize,
        vos: vos.to_vec(),
        path: vec![path.to_owned()],
        assignedendpoints: vec![ALL],
        accesslatency: "online",
        retentionpolicy: "replica",
        servingstate: "open",
    }
}

fn share_of(space: &SpaceReport) -> Share {
    let name = match space.tenant.is_default() {
        true => space.name.clone(),
        false => format!("{}:{}", space.tenant, space.name),
    };
    let total = space.quota.max_bytes.unwrap_or(0);
    share(&name, &space.path, total, space.usage.bytes, &space.vos)
}

/// The share of what is in no space: what the quotas of the spaces leave of the disks, and no more than is
/// free. A space in another one is part of it.
fn public_share(spaces: &[SpaceReport], online: UsableSpace, whole: u64) -> Share {
    let (mut quotas, mut used) = (0u64, 0u64);
    for space in spaces.iter().filter(|space| !space.inner) {
        quotas = quotas.saturating_add(space.quota.max_bytes.unwrap_or(0));
        used = used.saturating_add(space.usage.bytes);
    }
    let used = whole.saturating_sub(used);
    // Other programs may have filled a part of the disks.
    let total = used.saturating_add(online.free);
    let total = total.min(online.total.saturating_sub(quotas)).max(used);
    share(PUBLIC_SPACE, "/", total, used, &[])
}

#[cfg(test)]
mod tests {
    use dewar_store::quota::{Quota, Usage};
    use dewar_types::TenantName;

    use super::*;

    fn space(name: &str, quota: u64, bytes: u64, inner: bool) -> SpaceReport {
        SpaceReport {
            name: name.to_owned(),
            tenant: TenantName::default(),
            path: format!("/atlas/{name}"),
            group: None,
            vos: vec!["atlas".to_owned()],
            quota: Quota {
                max_bytes: Some(quota),
                ..Quota::default()
            },
            usage: Usage { objects: 1, bytes },
            inner,
        }
    }

    #[test]
    fn the_public_share_is_what_the_spaces_leave() {
        let online = UsableSpace {
            total: 1000,
            free: 900,
        };
        let spaces = [
            space("outer", 300, 40, false),
            space("inner", 100, 30, true),
            space("other", 200, 5, false),
        ];
        let public = public_share(&spaces, online, 100);
        assert_eq!((public.totalsize, public.usedsize), (500, 55));
        let full = UsableSpace {
            total: 1000,
            free: 20,
        };
        let public = public_share(&spaces, full, 100);
        assert_eq!((public.totalsize, public.usedsize), (75, 55));
        // Quotas may promise more than there is.
        let large = [space("large", u64::MAX, 40, false)];
        let public = public_share(&large, online, 100);
        assert_eq!((public.totalsize, public.usedsize), (60, 60));
    }

    #[test]
    fn sizes_are_exact_numbers() {
        let share = share_of(&space("large", u64::MAX - 1, (1 << 53) + 1, false));
        let json = serde_json::to_string(&share).expect("JSON");
        assert!(
            json.contains("\"totalsize\":18446744073709551614"),
            "{json}"
        );
        assert!(json.contains("\"usedsize\":9007199254740993"), "{json}");
        assert!(json.contains("\"vos\":[\"atlas\"]"), "{json}");
    }
}
