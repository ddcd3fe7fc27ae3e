//! The journal on simulated disks.

mod basics;
mod crash;
mod holders;
mod leaving;
mod loss;
mod restarts;
mod sabotage;
mod sample;
mod small;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_types::DiskId;

use crate::{Journal, JournalConfig, LogReserve, OpenError, Recovery, Seq};

/// Small files, so that tests cross them often.
fn config(m: usize) -> JournalConfig {
    JournalConfig {
        file_bytes: 64 << 10,
        files_max: 64,
        unacked_bytes_max: 256 << 10,
        stall_max: Duration::from_secs(3),
        ..JournalConfig::new(m)
    }
}

fn disks(world: &SimWorld) -> Vec<(DiskId, Arc<dyn Disk>)> {
    let disks = world.dyn_disks().into_iter().enumerate();
    disks.map(|(n, disk)| (DiskId(n as u128), disk)).collect()
}

async fn formatted(seed: u64, count: usize, m: usize) -> SimWorld {
    let world = SimWorld::with_disks(seed, count);
    Journal::create(&world.env(), &disks(&world), &config(m))
        .await
        .expect("a new journal");
    world
}

async fn open(world: &SimWorld, m: usize) -> Result<(Journal, Recovery), OpenError> {
    Journal::open(world.env(), sabotage::wrapped(disks(world)), config(m)).await
}

async fn append(journal: &Journal, body: impl Into<Bytes>) -> Seq {
    let body = body.into();
    let permit = journal
        .admit(body.len(), LogReserve::Ordinary)
        .await
        .expect("room");
    journal
        .append(permit, &[body])
        .expect("the journal is open")
}

async fn write(journal: &Journal, body: impl Into<Bytes>) -> Seq {
    let seq = append(journal, body).await;
    journal.durable(seq).await.expect("durable");
    seq
}

async fn all(mut recovery: Recovery) -> BTreeMap<Seq, Bytes> {
    let mut records = BTreeMap::new();
    while let Some((seq, body)) = recovery.next().await.expect("readable") {
        records.insert(seq, body);
    }
    records
}

/// A body that only this number has; its length follows from the number too.
fn body(n: u64) -> Bytes {
    let len = 8 + (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
    let mut body = n.to_le_bytes().to_vec();
    body.resize(len, (n % 251) as u8);
    body.into()
}
