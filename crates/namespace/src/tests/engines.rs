//! The engines that the model runs on.

use std::sync::Arc;

use dewar_env::disk::sim::SimWorld;
use dewar_journal::{Journal, JournalConfig};
use dewar_kv::embedded::{EmbeddedConfig, EmbeddedKv};
use dewar_kv::index::{Index, MemoryIndex};
use dewar_kv::{Kv, MemoryKv};
use dewar_types::DiskId;

use super::*;

/// An engine that can be opened again.
pub(super) enum TestEngine {
    /// Memory: opened again, it is as it was.
    Memory(MemoryKv),
    /// Journal and overlay on simulated disks: opened again after a power failure.
    Embedded {
        world: SimWorld,
        index: Arc<dyn Index>,
        kv: Option<EmbeddedKv>,
        failures: u64,
    },
}

fn journal() -> JournalConfig {
    JournalConfig {
        file_bytes: 2 << 20,
        files_max: 8,
        ..JournalConfig::new(1)
    }
}

fn disks(world: &SimWorld) -> Vec<(DiskId, Arc<dyn dewar_env::Disk>)> {
    world
        .dyn_disks()
        .into_iter()
        .zip(1..)
        .map(|(disk, id)| (DiskId(id), disk))
        .collect()
}

impl TestEngine {
    pub(super) fn memory() -> Self {
        Self::Memory(MemoryKv::new())
    }

    pub(super) async fn embedded() -> Self {
        let world = SimWorld::with_disks(1, 3);
        Journal::create(&world.env(), &disks(&world), &journal())
            .await
            .expect("new disks");
        Self::Embedded {
            world,
            index: Arc::new(MemoryIndex::new()),
            kv: None,
            failures: 0,
        }
    }

    /// Opens a tree; the power fails before if one was open.
    pub(super) async fn open(&mut self) -> Tree {
        let (kv, env): (Arc<dyn Kv>, _) = match self {
            Self::Memory(kv) => (Arc::new(kv.clone()), Env::real()),
            Self::Embedded {
                world,
                index,
                kv,
                failures,
            } => {
                if kv.take().is_some() {
                    *failures += 1;
                    *world = world.crash(*failures);
                }
                let (log, recovery) = Journal::open(world.env(), disks(world), journal())
                    .await
                    .expect("all disks are there");
                // Small layers, so that the index is fed all the time.
                let config = EmbeddedConfig {
                    layer_keys: 50,
                    keep_changes: true,
                    ..EmbeddedConfig::default()
                };
                let opened = EmbeddedKv::open(log, recovery, Arc::clone(index), config, |_, _| {})
                    .await
                    .expect("what was written can be read");
                *kv = Some(opened.clone());
                (Arc::new(opened), world.env())
            }
        };
        Tree::open(kv, env, 0).await.expect("opens")
    }
}
