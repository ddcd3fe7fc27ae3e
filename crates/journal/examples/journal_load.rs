//! Records per second and CPU per record of the bare journal on real folders.
//!
//! `cargo run --release -p dewar-journal --example journal_load -- DISK... [--seconds N]`: the
//! folders must exist and be empty; m is 2, or one less than there are folders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{Disk, Env, RealDisk, RealDiskConfig};
use dewar_journal::{Journal, JournalConfig, Room};
use dewar_types::DiskId;
use rustix::time::{ClockId, clock_gettime};

/// A PUT of 4 KiB: the object, its slot's header and its names.
const BODY_BYTES: usize = 4396;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut folders: Vec<String> = std::env::args().skip(1).collect();
    let mut seconds = 3;
    if let Some(at) = folders.iter().position(|arg| arg == "--seconds") {
        seconds = folders.get(at + 1).ok_or("how many seconds?")?.parse()?;
        folders.drain(at..at + 2);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(run(folders, Duration::from_secs(seconds)))
}

async fn run(folders: Vec<String>, time: Duration) -> Result<(), Failure> {
    let env = Env::real();
    let mut disks: Vec<(DiskId, Arc<dyn Disk>)> = Vec::new();
    for (n, folder) in folders.into_iter().enumerate() {
        let disk = RealDisk::open(folder, RealDiskConfig::default()).await?;
        disks.push((DiskId(n as u128), Arc::new(disk)));
    }
    let config = JournalConfig::new(disks.len().saturating_sub(1).min(2));
    Journal::create(&env, &disks, &config).await?;
    let (journal, recovery) = Journal::open(env.clone(), disks, config).await?;
    let hold = journal.hold("load", 0);
    drop(recovery);
    println!("writers  records/s  p50 ms  p99 ms  CPU us  records/sync");
    for writers in [1, 4, 16, 64] {
        let stop = Arc::new(AtomicBool::new(false));
        let before = journal.status().counters;
        let cpu = cpu();
        let start = env.clock.elapsed();
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let load = load(journal.clone(), env.clone(), Arc::clone(&stop));
                tokio::spawn(load)
            })
            .collect();
        while env.clock.elapsed() - start < time {
            tokio::time::sleep(Duration::from_millis(50)).await;
            hold.advance(journal.durable_seq());
        }
        stop.store(true, Ordering::Relaxed);
        let mut took = Vec::new();
        for task in tasks {
            took.extend(task.await??);
        }
        let elapsed = (env.clock.elapsed() - start).as_secs_f64();
        let cpu = (self::cpu() - cpu).as_secs_f64();
        let after = journal.status().counters;
        took.sort_unstable();
        let part = |p: usize| took[took.len() * p / 100].as_secs_f64() * 1e3;
        println!(
            "{writers:7}  {:9.0}  {:6.2}  {:6.2}  {:6.1}  {:12.1}",
            took.len() as f64 / elapsed,
            part(50),
            part(99),
            cpu * 1e6 / took.len() as f64,
            (after.records - before.records) as f64 / (after.groups - before.groups) as f64,
        );
    }
    journal.close(Duration::from_secs(10)).await?;
    Ok(())
}

async fn load(
    journal: Journal,
    env: Env,
    stop: Arc<AtomicBool>,
) -> Result<Vec<Duration>, dewar_types::Error> {
    let body = Bytes::from(vec![0x5a; BODY_BYTES]);
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = env.clock.elapsed();
        let permit = journal.admit(body.len(), Room::Ordinary).await?;
        let seq = journal.append(permit, std::slice::from_ref(&body))?;
        journal.durable(seq).await?;
        took.push(env.clock.elapsed() - start);
    }
    Ok(took)
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
