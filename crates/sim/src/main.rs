//! Runs seeds: `cargo xtask sim`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use dewar_sim::{Options, Report, simulate};
use parking_lot::Mutex;

/// A run that takes longer does not end. Most take some hundredths of a second.
const SEED_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(about = "The whole core on one thread from a seed, thousands of times")]
struct Cli {
    /// How many seeds
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs side by side [default: one per processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// Run only this seed and print what happens
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Also print the core's own log, as RUST_LOG says
    #[arg(long)]
    log: bool,
    /// Switch this safeguard off
    #[arg(long)]
    off: Option<String>,
    /// Print how often each rare branch was taken
    #[arg(long)]
    reached: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if cli.log {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .without_time()
            .init();
    }
    if let Some(seed) = cli.seed {
        let options = Options {
            shown: true,
            sabotage: cli.off.clone(),
        };
        let report = simulate(seed, &options);
        println!(
            "seed {seed}: {} operations, {} changes of disks, {} events, hash {:016x}",
            report.ops, report.disk_ops, report.events, report.hash
        );
        return match report.failure {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        };
    }
    many(cli)
}

#[derive(Default)]
struct Sum {
    ops: u64,
    disk_ops: u64,
    events: u64,
    reached: BTreeMap<&'static str, u64>,
    failed: Vec<(u64, Report)>,
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long it took, and threads, are outside of what is simulated"
)]
fn many(cli: &Cli) -> Result<()> {
    let options = Options {
        shown: false,
        sabotage: cli.off.clone(),
    };
    let jobs = match cli.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let start = Instant::now();
    let next = AtomicU64::new(cli.from);
    let end = cli.from.saturating_add(cli.seeds);
    let sum = Mutex::new(Sum::default());
    let running = Mutex::new(BTreeMap::new());
    let idle = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !idle.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                for (seed, since) in running.lock().iter() {
                    let since: &Instant = since;
                    if since.elapsed() > SEED_TIME_MAX {
                        println!("seed {seed} FAILED: it does not come to an end");
                        println!("    cargo xtask sim --seed {seed}");
                        std::process::exit(1);
                    }
                }
            }
        });
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end || sum.lock().failed.len() >= 20 {
                            return;
                        }
                        running.lock().insert(seed, Instant::now());
                        let report = simulate(seed, &options);
                        running.lock().remove(&seed);
                        let mut sum = sum.lock();
                        sum.ops += report.ops;
                        sum.disk_ops += report.disk_ops;
                        sum.events += report.events;
                        for (name, times) in &report.reached {
                            *sum.reached.entry(name).or_default() += times;
                        }
                        if let Some(failure) = &report.failure {
                            let short: String = failure.chars().take(600).collect();
                            println!("seed {seed} FAILED: {short}");
                            println!("    cargo xtask sim --seed {seed}");
                            sum.failed.push((seed, report));
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            // A panic here would be one of this program itself: the scope passes it on.
            let _ = worker.join();
        }
        idle.store(true, Ordering::Relaxed);
    });
    let sum = sum.into_inner();
    println!(
        "{} seeds in {:.1} s: {} operations of clients, {} changes of disks, {} events",
        cli.seeds,
        start.elapsed().as_secs_f64(),
        sum.ops,
        sum.disk_ops,
        sum.events
    );
    if cli.reached {
        for (name, times) in &sum.reached {
            println!("{times:>10}  {name}");
        }
    }
    if sum.failed.is_empty() {
        return Ok(());
    }
    bail!("{} seeds failed", sum.failed.len());
}
