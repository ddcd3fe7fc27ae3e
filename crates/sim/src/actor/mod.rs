//! Clients: each draws one operation after the other, and says to the model what it asked for and
//! what it was told.

mod listing;
mod multipart;
mod objects;
mod rename;

use std::sync::Arc;
use std::time::Duration;

use dewar_env::sim::SimRng;

use crate::bench::Process;

pub(crate) use objects::observe;

/// Works through `steps` operations, until something is wrong.
pub(crate) async fn client(process: Arc<Process>, rng: SimRng, steps: u64) {
    for _ in 0..steps {
        if process.bench.failure().is_some() || process.world.power_failed() {
            return;
        }
        step(&process, &rng).await;
        if rng.below(6) == 0 {
            // Long enough for the workers' turns now and then.
            let pause = Duration::from_millis(rng.below(if rng.below(4) == 0 { 8000 } else { 50 }));
            tokio::time::sleep(pause).await;
        }
    }
}

async fn step(process: &Process, rng: &SimRng) {
    let draw = rng.below(100);
    if draw < 3 {
        let _alone = process.bench.tree.write().await;
        return rename::directory(process, rng).await;
    }
    let _shared = process.bench.tree.read().await;
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
