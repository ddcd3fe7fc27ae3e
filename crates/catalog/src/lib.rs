//! The tables of the catalog: which keys exist, and what is stored under them.
//!
//! - [`tables`] is the registry of tables, [`keys`] builds and parses their keys, and [`record`]
//!   defines the values.
//! - [`Ids`] mints ids that are never given twice.
//! - A [`Catalog`] adds the operations that do not depend on the tree of names: tenants, usage and
//!   quotas as they are stored, the records of blobs, and the queue of blobs to be freed. It also
//!   changes single records on which nothing else depends.
//!
//! The crate knows no path, no policy and no disk. docs/formats/catalog.md describes the format.

mod free_queue;
mod ids;
mod key_range;
pub mod keys;
mod quota;
pub mod record;
mod record_change;
pub mod tables;
mod tenants;

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::Env;
use dewar_kv::Kv;
use dewar_types::{TenantId, TenantName, Zone};
use parking_lot::RwLock;

pub use free_queue::UnreferencedBlob;
pub use ids::{IdKind, Ids, lineage_key};
pub use quota::{Quota, SetQuota, Usage};
pub use record_change::RecordChange;
pub use tenants::{Actor, Tenant};

/// An opened catalog. It is cheap to clone, and clones share everything.
#[derive(Clone)]
pub struct Catalog {
    kv: Arc<dyn Kv>,
    env: Env,
    ids: Arc<Ids>,
    /// Tenants that were looked up. A tenant is never removed or changed.
    tenants: Arc<RwLock<BTreeMap<TenantName, TenantId>>>,
}

impl Catalog {
    /// The catalog in `kv`, with ids for `zone`.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, env: Env, zone: Zone) -> Self {
        let ids = Arc::new(Ids::new(Arc::clone(&kv), env.clone(), zone));
        Self {
            kv,
            env,
            ids,
            tenants: Arc::default(),
        }
    }

    /// The engine below.
    #[must_use]
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// The clock and the random numbers of the process.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The source of ids.
    #[must_use]
    pub fn ids(&self) -> &Arc<Ids> {
        &self.ids
    }
}
