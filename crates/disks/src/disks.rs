//! The content of the disks as a whole.

use std::sync::Arc;

use dewar_catalog::{Catalog, keys};
use dewar_env::Env;
use dewar_types::{Error, ErrorKind, Result};

use crate::blob::BlobStore;
use crate::blob_table::{BlobTable, JournalPin};
use crate::pace::Pace;
use crate::rebuild_marker::RebuildMarker;
use crate::segment::{SegmentLimits, SegmentTable, Segments};
use crate::upkeep::{Upkeep, UpkeepConfig};

/// The parts of [`Disks`].
pub struct DiskParts {
    /// Clock and randomness.
    pub env: Env,
    /// The catalog.
    pub catalog: Catalog,
    /// Large content.
    pub blobs: Arc<BlobStore>,
    /// The journal, which keeps small content until it is in sealed segments.
    pub journal: Arc<dyn JournalPin>,
    /// The bounds of segments.
    pub segments: SegmentLimits,
    /// How disks are scrubbed and blobs repaired.
    pub upkeep: UpkeepConfig,
}

/// The content of the disks with its records, and the upkeep of both.
pub struct Disks {
    pub(crate) env: Env,
    pub(crate) catalog: Catalog,
    pub(crate) blobs: Arc<BlobStore>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) table: Arc<BlobTable>,
    pub(crate) upkeep: Upkeep,
}

pub(crate) type SharedDisks = Arc<Disks>;

impl Disks {
    /// Puts the parts together. [`Disks::load_decisions`] reads earlier decisions.
    #[must_use]
    pub fn new(parts: DiskParts) -> Arc<Self> {
        let catalog = parts.catalog;
        let table = BlobTable::new(parts.env.clone(), catalog.clone(), parts.journal);
        let table = Arc::new(table);
        let seam = Arc::clone(&table) as Arc<dyn SegmentTable>;
        Arc::new(Self {
            segments: Segments::with_limits(Arc::clone(&parts.blobs), seam, parts.segments),
            env: parts.env,
            catalog,
            blobs: parts.blobs,
            table,
            upkeep: Upkeep::new(parts.upkeep),
        })
    }

    /// Large content.
    #[must_use]
    pub const fn blobs(&self) -> &Arc<BlobStore> {
        &self.blobs
    }

    /// Small content.
    #[must_use]
    pub const fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// The records of both in the catalog.
    #[must_use]
    pub const fn table(&self) -> &Arc<BlobTable> {
        &self.table
    }

    /// A client asked for something. Upkeep is slower while clients are served.
    pub fn note_demand(&self) {
        self.upkeep.note_demand();
    }

    /// The pace of repair, which copies of content between pools keep to as well.
    #[must_use]
    pub const fn repair_pace(&self) -> &Pace {
        &self.upkeep.repair_pace
    }

    /// The record of the source of the catalog, until salvage is complete or given up.
    ///
    /// # Errors
    /// Those of the catalog; [`ErrorKind::Corrupt`] for a record of a newer release.
    pub async fn rebuilt(&self) -> Result<Option<RebuildMarker>> {
        let Some(value) = self.catalog.kv().get(&keys::rebuilt()).await?.value else {
            return Ok(None);
        };
        let known = RebuildMarker::from_bytes(&value).ok_or_else(|| {
            let message = "what the catalog was rebuilt of is written by a newer release";
            Error::new(ErrorKind::Corrupt, message)
        })?;
        Ok(Some(known))
    }

    /// Decides that blobs without a name in the catalog are leftovers. The sweep removes them from
    /// the next start on.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn settle_rebuilt(&self) -> Result<()> {
        self.catalog.set(keys::rebuilt(), None).await
    }
}
