//! Runs seeds: `cargo xtask sim`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use dewar_sim::sabotage::{RARE, SAFEGUARDS, SEEDS_MAX};
use dewar_sim::{Options, Report, simulate};
use parking_lot::Mutex;

/// A run that takes longer does not end. Most take some hundredths of a second.
const SEED_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs that fail before the rest is spared.
const FAILURES_MAX: usize = 20;

/// What is printed of a failure.
const FAILURE_CHARS_MAX: usize = 600;

/// So many seeds must take every rare branch.
const RARE_SEEDS: u64 = 1000;

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
    /// Switch every safeguard off in turn, and find out whether that is noticed
    #[arg(long, conflicts_with_all = ["seed", "off"])]
    sabotage: bool,
    /// Only try the seed that is known to notice, and fail if it does not any more
    #[arg(long, requires = "sabotage", conflicts_with = "retake")]
    known: bool,
    /// Run all seeds with each and count those that notice
    #[arg(long, requires = "sabotage")]
    retake: bool,
    /// Print how often each rare branch was taken
    #[arg(long)]
    reached: bool,
}

fn main() -> ExitCode {
    match begin(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn begin(cli: &Cli) -> Result<()> {
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
    if cli.sabotage && cli.retake {
        return retake(cli);
    }
    if cli.sabotage {
        return sabotage(cli);
    }
    many(cli)
}

/// Whether each safeguard is missed within so many seeds, and by which.
fn sabotage(cli: &Cli) -> Result<()> {
    let mut unnoticed = 0;
    println!("| without | noticed by seed |");
    println!("|---|---:|");
    for safeguard in SAFEGUARDS {
        let search = Batch {
            off: Some(safeguard.name),
            from: cli.from,
            seeds: SEEDS_MAX,
            failures_max: 1,
            quiet: true,
        };
        let known = Batch {
            from: safeguard.known,
            seeds: 1,
            ..search
        };
        if !run(cli, &known)?.failed.is_empty() {
            println!("| {} | {}, as known |", safeguard.name, known.from);
            continue;
        }
        if cli.known {
            unnoticed += 1;
            println!(
                "| {} | **no more by seed {}**: look for another with --sabotage |",
                safeguard.name, known.from
            );
            continue;
        }
        let sum = run(cli, &search)?;
        match sum.failed.keys().next() {
            Some(seed) => println!("| {} | {seed} |", safeguard.name),
            None => {
                unnoticed += 1;
                let asked = sum.safeguards.get(safeguard.name).copied().unwrap_or(0);
                println!(
                    "| {} | **none of {SEEDS_MAX}** (asked for {asked} times) |",
                    safeguard.name
                );
            }
        }
    }
    if unnoticed > 0 {
        bail!("{unnoticed} safeguards are not missed by the seeds that were tried");
    }
    Ok(())
}

/// Which seeds miss each safeguard: the first, and how many of all.
fn retake(cli: &Cli) -> Result<()> {
    println!(
        "| without | noticed first by seed | by so many of {} |",
        cli.seeds
    );
    println!("|---|---:|---:|");
    for safeguard in SAFEGUARDS {
        let all = Batch {
            off: Some(safeguard.name),
            from: cli.from,
            seeds: cli.seeds,
            failures_max: usize::MAX,
            quiet: true,
        };
        let sum = run(cli, &all)?;
        let first = sum.failed.keys().next();
        let first = first.map_or("none".to_owned(), u64::to_string);
        println!("| {} | {first} | {} |", safeguard.name, sum.failed.len());
    }
    Ok(())
}

#[derive(Default)]
struct BatchTotals {
    ops: u64,
    disk_ops: u64,
    events: u64,
    reached: BTreeMap<&'static str, u64>,
    safeguards: BTreeMap<&'static str, u64>,
    failed: BTreeMap<u64, String>,
}

#[allow(
    clippy::disallowed_methods,
    reason = "how long it took is outside of what is simulated"
)]
fn many(cli: &Cli) -> Result<()> {
    let start = Instant::now();
    let plan = Batch {
        off: cli.off.as_deref(),
        from: cli.from,
        seeds: cli.seeds,
        failures_max: FAILURES_MAX,
        quiet: false,
    };
    let sum = run(cli, &plan)?;
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
    if !sum.failed.is_empty() {
        bail!("{} seeds failed", sum.failed.len());
    }
    let missed: Vec<_> = RARE
        .iter()
        .filter(|name| !sum.reached.contains_key(**name))
        .collect();
    if cli.seeds >= RARE_SEEDS && !missed.is_empty() {
        bail!("no seed came to where {missed:?}");
    }
    let unasked = SAFEGUARDS.iter().map(|safeguard| safeguard.name);
    let unasked: Vec<_> = unasked
        .filter(|name| !sum.safeguards.contains_key(name))
        .collect();
    if cli.seeds >= RARE_SEEDS && !unasked.is_empty() {
        bail!("no seed came to these safeguards: {unasked:?}");
    }
    Ok(())
}

/// Seeds to run.
#[derive(Clone, Copy)]
struct Batch<'a> {
    /// The safeguard that is off.
    off: Option<&'a str>,
    from: u64,
    seeds: u64,
    /// So many failures end it.
    failures_max: usize,
    /// Failures are expected and not printed.
    quiet: bool,
}

/// Tells a failure at once, with the command that brings it about again.
fn tell(seed: u64, off: Option<&str>, failure: &str) {
    println!("seed {seed} FAILED: {failure}");
    match off {
        Some(off) => println!("    cargo xtask sim --seed {seed} --off {off:?}"),
        None => println!("    cargo xtask sim --seed {seed}"),
    }
}

/// What the threads of a batch share.
struct BatchShared {
    options: Options,
    off: Option<String>,
    end: u64,
    failures_max: usize,
    quiet: bool,
    next: AtomicU64,
    sum: Mutex<BatchTotals>,
    running: Mutex<BTreeMap<u64, Instant>>,
    busy: AtomicUsize,
}

impl BatchShared {
    /// A thread that takes one seed after the other.
    #[allow(
        clippy::disallowed_methods,
        reason = "threads and real time are outside of what is simulated"
    )]
    fn hire(self: &Arc<Self>) {
        let crew = Arc::clone(self);
        std::thread::spawn(move || {
            loop {
                let seed = crew.next.fetch_add(1, Ordering::Relaxed);
                if seed >= crew.end || crew.sum.lock().failed.len() >= crew.failures_max {
                    crew.busy.fetch_sub(1, Ordering::Relaxed);
                    return;
                }
                crew.running.lock().insert(seed, Instant::now());
                let report = simulate(seed, &crew.options);
                if crew.running.lock().remove(&seed).is_none() {
                    // It was given up, and another thread goes on.
                    return;
                }
                let mut sum = crew.sum.lock();
                sum.add(seed, report);
                if let Some(failure) = sum.failed.get(&seed).filter(|_| !crew.quiet) {
                    tell(seed, crew.off.as_deref(), failure);
                }
            }
        });
    }

    /// Gives up seeds that do not end.
    #[allow(
        clippy::disallowed_methods,
        reason = "real time is outside of what is simulated"
    )]
    fn give_up(self: &Arc<Self>) {
        let endless = |since: &Instant| since.elapsed() > SEED_TIME_MAX;
        let mut running = self.running.lock();
        let stuck = running.extract_if(.., |_, since| endless(since));
        let stuck: Vec<u64> = stuck.map(|(seed, _)| seed).collect();
        drop(running);
        for seed in stuck {
            let failure = "it does not come to an end";
            if !self.quiet {
                tell(seed, self.off.as_deref(), failure);
                std::process::exit(1);
            }
            // That is how the absence is noticed; its thread is left behind.
            self.sum.lock().failed.insert(seed, failure.to_owned());
            self.hire();
        }
    }
}

/// Runs seeds side by side.
#[allow(
    clippy::disallowed_methods,
    reason = "threads and real time are outside of what is simulated"
)]
fn run(cli: &Cli, batch: &Batch<'_>) -> Result<BatchTotals> {
    let jobs = match cli.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let off = batch.off.map(str::to_owned);
    let crew = Arc::new(BatchShared {
        options: Options {
            shown: false,
            sabotage: off.clone(),
        },
        off,
        end: batch.from.saturating_add(batch.seeds),
        failures_max: batch.failures_max,
        quiet: batch.quiet,
        next: AtomicU64::new(batch.from),
        sum: Mutex::default(),
        running: Mutex::default(),
        busy: AtomicUsize::new(jobs),
    });
    for _ in 0..jobs {
        crew.hire();
    }
    while crew.busy.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(2));
        crew.give_up();
    }
    let sum = std::mem::take(&mut *crew.sum.lock());
    Ok(sum)
}

impl BatchTotals {
    fn add(&mut self, seed: u64, report: Report) {
        self.ops += report.ops;
        self.disk_ops += report.disk_ops;
        self.events += report.events;
        for (name, times) in &report.reached {
            *self.reached.entry(name).or_default() += times;
        }
        for (name, times) in &report.safeguards {
            *self.safeguards.entry(name).or_default() += times;
        }
        if let Some(failure) = report.failure {
            self.failed
                .insert(seed, failure.chars().take(FAILURE_CHARS_MAX).collect());
        }
    }
}
