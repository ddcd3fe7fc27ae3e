//! Clients: each draws one operation after the other, and reports its requests and answers to the
//! model.

mod admin;
mod listing;
mod multipart;
mod objects;
mod rename;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use dewar_env::sim::SimRng;

use crate::bench::Process;
use crate::plan::{Focus, Mix};

pub(crate) use admin::{REMOVED, administrate};
pub(crate) use objects::{observe, readable};

/// Works through `steps` operations, until something is wrong.
pub(crate) async fn client(process: Arc<Process>, rng: SimRng, steps: u64) {
    for _ in 0..steps {
        if process.bench.failure().is_some() || process.world.power_failed() {
            return;
        }
        step(&process, &rng).await;
        if process.bench.plan.mix != Mix::Small && rng.below(6) == 0 {
            // Long enough for the workers' turns now and then.
            let pause = Duration::from_millis(rng.below(if rng.below(4) == 0 { 8000 } else { 50 }));
            tokio::time::sleep(pause).await;
        }
    }
}

/// Reads again and again what is being written: as soon as it is shown it must stay.
pub(crate) async fn watch(process: Arc<Process>, rng: SimRng) {
    /// Reads in one process.
    const READS_MAX: usize = 300;
    let mut reads = 0;
    while reads < READS_MAX && !process.world.power_failed() {
        let open = process.bench.model.lock().open();
        match open.get(crate::plan::pick(&rng, open.len())) {
            Some(key) => {
                reads += 1;
                let _shared = process.bench.tree.read().await;
                observe(&process, key, None, || Duration::ZERO).await;
            }
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        let (least, _) = process.bench.plan.latency.sync;
        match least.is_zero() {
            true => tokio::task::yield_now().await,
            false => tokio::time::sleep(least).await,
        }
    }
}

async fn step(process: &Process, rng: &SimRng) {
    let draw = match process.bench.plan.mix {
        Mix::All => rng.below(100),
        // Nearly all of them puts, and no directory is renamed meanwhile.
        Mix::Small => 5 + rng.below(38),
        Mix::Few => 20 + rng.below(75),
    };
    if draw < 3 {
        let _alone = process.bench.tree.write().await;
        return match draw {
            0 => tree::move_directory(process, rng).await,
            _ => rename::directory(process, rng).await,
        };
    }
    let _shared = process.bench.tree.read().await;
    let draw = match process.bench.plan.focus {
        // Reading, and what takes away what is read.
        Focus::Readers => [30, 50, 50, 50, 50, 70, 90, 90][crate::plan::pick(rng, 8)],
        Focus::Upkeep => [30, 30, 50, 70, 70, 82, 90, draw][crate::plan::pick(rng, 8)],
        _ => draw,
    };
    match draw {
        0..38 => objects::put(process, rng).await,
        38..60 => objects::get(process, rng).await,
        60..66 => objects::head(process, rng).await,
        66..76 => objects::delete(process, rng).await,
        76..80 => objects::delete_many(process, rng).await,
        80..85 => objects::copy(process, rng).await,
        85..89 => rename::object(process, rng).await,
        89..94 => multipart::upload(process, rng).await,
        _ => listing::page(process, rng).await,
    }
}
