//! `cargo xtask flame`: a flame graph of the server under each step of the load driver.
//!
//! `perf` (Debian: linux-perf) samples the release binary's stacks while a step is measured, and only
//! then: the load driver starts and ends it, so what a step reads is put there without being looked
//! at. Beside each graph a table says how much each layer took.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
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

/// The arguments of the command.
#[derive(Args)]
pub(crate) struct Flame {
    /// Steps of dewar bench s3, `WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]`, with commas
    #[arg(long, default_value = STEPS)]
    steps: String,
    /// Samples a second on each core
    #[arg(long, default_value_t = 199)]
    frequency: u32,
    /// The folder for the graphs; default: flame/ in cargo's target directory
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
    let record = format!(
        "perf record --quiet --call-graph dwarf --freq {} --pid {} --output \"$SAMPLES\"",
        asked.frequency,
        demo.pid()
    );
    for step in asked.steps.split(',') {
        let samples = folder.join(format!("{}.perf", step.replace(':', "-")));
        let mut load = Command::new(&binary);
        load.args(["bench", "s3", "--ready-file"]);
        load.arg(demo.ready_file());
        load.args(["--steps", step, "--beside", &record]);
        run(load.env("SAMPLES", &samples))?;
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
