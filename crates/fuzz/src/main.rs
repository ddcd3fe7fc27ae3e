//! Fuzzes every parser of Dewar with random input: `cargo xtask fuzz`.
//!
//! Each parser's crate has a `pub fn fuzz_*(&[u8])` that must not panic, hang or grow without limit
//! for any input. It also asserts properties of the result, for example that decoded data is the
//! same after it was encoded and decoded again. [`targets`] lists these functions. Tidy reports
//! those that are not listed.
//!
//! This runner needs no nightly compiler and no instrumented build. It mutates samples, blindly but
//! fast, in the profile that tests use, with overflow checks and assertions on. An input that fails
//! is reduced, written below `--artifacts`, and can be replayed.

mod mutate;
mod runner;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use runner::{Failure, FuzzPlan};
use targets::TARGETS;

#[derive(Parser)]
#[command(about = "Throws garbage at every parser of Dewar's own")]
struct Cli {
    /// Seconds for each target
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Number the choices follow from [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// The folder for inputs that fail
    #[arg(long, default_value = "target/fuzz-artifacts")]
    artifacts: PathBuf,
    /// Run one target on this file only
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Targets [default: all]
    targets: Vec<String>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    for name in &cli.targets {
        if !TARGETS.iter().any(|target| target.name == *name) {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            bail!("no target {name}; there are {}", names.join(", "));
        }
    }
    let chosen = |name: &str| cli.targets.is_empty() || cli.targets.iter().any(|it| it == name);
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|target| chosen(target.name))
        .collect();
    if let Some(path) = &cli.replay {
        let [target] = &chosen[..] else {
            bail!("--replay needs the name of one target")
        };
        let input = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        (target.run)(&input);
        println!("{}: {} bytes pass", target.name, input.len());
        return Ok(());
    }
    let seed = cli.seed.unwrap_or_else(runner::fresh_seed);
    println!("seed {seed}");
    let mut failed = 0;
    for target in chosen {
        let limit = Duration::try_from_secs_f64(cli.seconds).context("--seconds")?;
        let plan = FuzzPlan {
            seed,
            limit,
            artifacts: &cli.artifacts,
        };
        let samples = targets::samples(target)?;
        match runner::run(target.name, target.run, &samples, &plan)? {
            Ok(count) => println!("{}: {count} inputs pass", target.name),
            Err(Failure { path, len }) => {
                failed += 1;
                println!("{}: FAILED on {len} bytes; again with", target.name);
                println!(
                    "    cargo xtask fuzz {} --replay {}",
                    target.name,
                    path.display()
                );
            }
        }
    }
    if failed > 0 {
        bail!("{failed} targets failed")
    } else {
        Ok(())
    }
}
