//! `cargo xtask flame`: a flame graph of the server under each step of the load driver.
//!
//! `perf` (Debian: linux-perf) samples the release binary's stacks while a step runs, and only
//! then: what a step reads is put there before, without being looked at. Beside each graph a table says how much
//! each layer took.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::Folder;
use inferno::flamegraph;

use crate::demo::Demo;
use crate::layers;
use crate::run::{cargo, run};
use crate::workspace::Workspace;

/// Away from the ports of `cargo xtask bench` and those that people use by hand.
const PORT_BASE: u16 = 19100;
/// The rows of docs/performance.md, each long enough for thousands of samples.
const STEPS: &str = "put:4k:16:20000,get:4k:16:60000:6000,head:4k:16:60000:6000,list:4k:4:1000:6000,delete:4k:16:20000,put:1m:8:1500,\
                     get:1m:8:4000:400,put:10mb:8:200,get:10mb:8:600:60,range:10mb:16:30000:60,multipart:100mb:4:16";

/// What is asked for.
#[derive(Args)]
pub(crate) struct Flame {
    /// Steps of dewar bench s3, WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS], with commas
    #[arg(long, default_value = STEPS)]
    steps: String,
    /// Samples a second on each core
    #[arg(long, default_value_t = 199)]
    frequency: u32,
    /// Where the graphs go; default: flame/ in cargo's target directory
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Builds the release binary and makes one SVG and one file of folded stacks for each step.
pub(crate) fn flame(workspace: &Workspace, asked: &Flame) -> Result<()> {
    let found = Command::new("perf")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "perf is needed: install linux-perf, and allow it with sysctl kernel.perf_event_paranoid=1 unless you are root"
    );
    run(&mut cargo(
        workspace,
        ["build", "--release", "--package", "dewar"],
    ))?;
    let folder = asked
        .output
        .clone()
        .unwrap_or_else(|| workspace.target.join("flame"));
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let binary = workspace.binary("release");
    let demo = Demo::start(
        &binary,
        &workspace.target.join("flame-demo"),
        PORT_BASE,
        &[],
    )?;
    for (place, step) in asked.steps.split(',').enumerate() {
        let prefix = format!("flame-{place}/");
        let load = |step: &str| {
            let mut load = vec![
                "bench".to_owned(),
                "s3".to_owned(),
                "--ready-file".to_owned(),
            ];
            load.push(demo.ready_file().display().to_string());
            load.extend(["--steps", step, "--prefix", &prefix, "--keep"].map(ToOwned::to_owned));
            load
        };
        if let Some(first) = preparation(step)? {
            run(Command::new(&binary).args(load(&first)))?;
        }
        let samples = folder.join(format!("{}.perf", step.replace(':', "-")));
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--call-graph", "dwarf", "--freq"]);
        perf.arg(asked.frequency.to_string());
        perf.args(["--pid", &demo.pid().to_string(), "--output"]);
        run(perf.arg(&samples).arg("--").arg(&binary).args(load(step)))?;
        let graph = draw(&samples, step)?;
        let folded = samples.with_extension("folded");
        let folded = std::fs::read_to_string(&folded)
            .with_context(|| format!("read {}", folded.display()))?;
        print!("{}", layers::table(&folded));
        std::fs::remove_file(&samples).with_context(|| format!("remove {}", samples.display()))?;
        println!("{}", graph.display());
    }
    Ok(())
}

/// The step that puts there what `step` will find, so that this is not in its graph.
fn preparation(step: &str) -> Result<Option<String>> {
    let words: Vec<&str> = step.split(':').collect();
    let [workload, size, concurrency, requests, objects @ ..] = &words[..] else {
        bail!("{step}: a step is WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]");
    };
    let objects = objects.first().unwrap_or(requests);
    Ok(match *workload {
        "put" | "multipart" => None,
        // Reads fill up what is missing; one request is enough to make them do it.
        "get" | "range" | "head" | "list" => Some(format!("{workload}:{size}:1:1:{objects}")),
        _ => Some(format!("put:{size}:{concurrency}:{requests}")),
    })
}

/// Folds the stacks of `samples` and draws them.
fn draw(samples: &Path, step: &str) -> Result<PathBuf> {
    let mut script = Command::new("perf")
        .args(["script", "--no-inline", "--input"])
        .arg(samples)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("run perf script")?;
    let printed = script.stdout.take().context("perf script prints")?;
    let folded = samples.with_extension("folded");
    let graph = samples.with_extension("svg");
    let file = File::create(&folded).with_context(|| format!("make {}", folded.display()))?;
    Folder::default()
        .collapse(BufReader::new(printed), BufWriter::new(file))
        .context("fold the stacks")?;
    let status = script.wait().context("wait for perf script")?;
    ensure!(status.success(), "perf script: {status}");
    let mut options = flamegraph::Options::default();
    options.title = format!("dewar, {step}");
    options.count_name = "samples".to_owned();
    let stacks = File::open(&folded).with_context(|| format!("open {}", folded.display()))?;
    let file = File::create(&graph).with_context(|| format!("make {}", graph.display()))?;
    flamegraph::from_reader(&mut options, BufReader::new(stacks), BufWriter::new(file))
        .with_context(|| format!("{step}: no sample was taken; is the step long enough?"))?;
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_reads_is_there_before() {
        let first = |step| preparation(step).unwrap();
        assert_eq!(first("put:4k:16:100"), None);
        assert_eq!(
            first("get:1m:8:4000:400").as_deref(),
            Some("get:1m:1:1:400")
        );
        assert_eq!(first("delete:4k:16:500").as_deref(), Some("put:4k:16:500"));
        assert!(preparation("get:1m").is_err());
    }
}
