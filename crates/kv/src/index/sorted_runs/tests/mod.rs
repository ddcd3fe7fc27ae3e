//! The index on simulated disks.

mod bootstrap;
mod crash;
mod faults;
mod model;
mod sample;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_env::sim::SimRng;
use dewar_types::{DiskId, Result};

use super::*;
use crate::index::{Entry, Index, IndexView};
use crate::{Scan, Seq};

const LINEAGE: u128 = 42;

/// What the index should hold.
type Model = BTreeMap<Bytes, Bytes>;

type Disks = Vec<(DiskId, Arc<dyn Disk>)>;

fn disks(world: &SimWorld) -> Disks {
    let ids = (1..).map(DiskId);
    ids.zip(world.dyn_disks()).collect()
}

fn config(copies: usize) -> RunConfig {
    RunConfig {
        // Small, so that evicting is part of every test.
        cache_bytes: 1 << 20,
        pinned_bytes: 1 << 20,
        ..RunConfig::new(copies, LINEAGE)
    }
}

async fn create(world: &SimWorld, copies: usize) -> Result<RunIndex> {
    RunIndex::create(world.env(), disks(world), config(copies), 0).await
}

async fn open(world: &SimWorld, copies: usize) -> Result<RunIndex> {
    RunIndex::open(world.env(), disks(world), config(copies)).await
}

fn put(model: &mut Model, entries: &[Entry]) {
    for (key, value) in entries {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn key(n: u64) -> Bytes {
    format!("e/{:02}/file-{:05}", n % 7, n).into()
}

/// A batch of about `count` random changes, a fifth of them deletions.
fn batch(rng: &SimRng, count: u64, keys: u64) -> Vec<Entry> {
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let value = match rng.below(5) {
            0 => None,
            _ => Some(vec![rng.below(256) as u8; rng.below(700) as usize].into()),
        };
        entries.insert(key(rng.below(keys)), value);
    }
    entries.into_iter().collect()
}

async fn everything(view: &dyn IndexView, reverse: bool) -> Vec<(Bytes, Bytes)> {
    let scan = Scan {
        from: b"",
        to: b"",
        limit: usize::MAX,
        reverse,
    };
    let page = view.scan(scan).await.unwrap();
    assert!(!page.more);
    page.pairs
}

/// That a view shows exactly the model.
async fn check(view: &dyn IndexView, model: &Model) {
    let own = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
    assert!(everything(view, false).await == model.iter().map(own).collect::<Vec<_>>());
    assert!(everything(view, true).await == model.iter().rev().map(own).collect::<Vec<_>>());
    for (key, value) in model {
        assert_eq!(view.get(key).await.unwrap().as_ref(), Some(value));
    }
}

/// Applies `batches` random batches; the states after each, from the empty one on.
async fn fill(index: &RunIndex, rng: &SimRng, batches: Seq) -> Model {
    let mut model = Model::new();
    for _ in 0..batches {
        let entries = batch(rng, 60, 300);
        put(&mut model, &entries);
        let upto = index.applied() + 1;
        index.apply(entries, upto).await.unwrap();
    }
    model
}
