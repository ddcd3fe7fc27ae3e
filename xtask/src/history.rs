//! `cargo xtask history`: the cost of a commit, as lines of `benches/history.csv`.
//!
//! Machines differ and are never idle. So each figure of the server is stored together with the CPU
//! that the load driver used for the same operations. The driver's code changes rarely and serves
//! as the reference.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::demo::Demo;
use crate::run::{cargo, output, run};
use crate::workspace::Workspace;

const PORT_BASE: u16 = 19200;
/// A member of `server_cpu` in the load driver's output, and the steps that are stored under it.
const STEPS: [(&str, &[&str]); 3] = [
    (
        "s_per_1000_ops",
        &[
            "put:4k:16:6000",
            "get:4k:16:20000:6000",
            "range:10mb:16:8000:40",
        ],
    ),
    (
        "s_per_gb",
        &[
            "put:1m:8:400",
            "get:1m:8:1500:400",
            "put:10mb:8:60",
            "get:10mb:8:200:40",
        ],
    ),
    ("s_per_100000_keys", &["list:4k:4:600:6000"]),
];
const REPEATS: usize = 3;
const HEAD: &str = "date,commit,cpu,step,unit,server_median,server_min,server_max,client_median\n";

/// Builds the release binary, measures it and appends a line for each step.
pub(crate) fn history(workspace: &Workspace) -> Result<()> {
    run(&mut cargo(
        workspace,
        ["build", "--release", "--package", "dewar"],
    ))?;
    let binary = workspace.binary("release");
    let folder = workspace.target.join("history-demo");
    let demo = Demo::start(&binary, &folder, PORT_BASE, &[])?;
    let git = |args: &[&str]| output(Command::new("git").args(args).current_dir(&workspace.root));
    let mut commit = git(&["rev-parse", "--short=10", "HEAD"])?.trim().to_owned();
    if !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
        commit.push('+');
    }
    let date = output(Command::new("date").args(["--utc", "+%F"]))?;
    let mut lines = String::new();
    for (unit, steps) in STEPS {
        for step in steps {
            let written = folder.join("step.json");
            let mut load = Command::new(&binary);
            load.args([
                "bench",
                "s3",
                "--settle",
                "1",
                "--repeat",
                &REPEATS.to_string(),
            ]);
            load.args(["--steps", step, "--ready-file"])
                .arg(demo.ready_file());
            run(load.arg("--json").arg(&written))?;
            let found = std::fs::read_to_string(&written)
                .with_context(|| format!("read {}", written.display()))?;
            let found: Value = serde_json::from_str(&found).context("what dewar bench wrote")?;
            let cpu = found["host"]["cpu_model"].as_str().unwrap_or("unknown");
            let server = figures(&found, "server_cpu", unit)?;
            let client = figures(&found, "client_cpu", unit)?;
            writeln!(
                lines,
                "{},{commit},{},{step},{unit},{:.4},{:.4},{:.4},{:.4}",
                date.trim(),
                cpu.replace(',', " "),
                server[server.len() / 2],
                server[0],
                server[server.len() - 1],
                client[client.len() / 2],
            )?;
        }
    }
    append(&workspace.root.join("benches/history.csv"), &lines)?;
    print!("{HEAD}{lines}");
    Ok(())
}

/// One figure of all repeats, the lowest first; at least one.
fn figures(found: &Value, whose: &str, unit: &str) -> Result<Vec<f64>> {
    let runs = found["runs"].as_array().context("no runs")?;
    let mut figures = Vec::with_capacity(runs.len());
    for run in runs {
        ensure!(run["errors"] == 0, "requests failed: {run}");
        let figure = run[whose][unit].as_f64();
        figures.push(figure.with_context(|| format!("no {whose}.{unit} in {run}"))?);
    }
    ensure!(!figures.is_empty(), "no runs");
    figures.sort_by(f64::total_cmp);
    Ok(figures)
}

fn append(path: &Path, lines: &str) -> Result<()> {
    let found = match std::fs::read_to_string(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HEAD.to_owned(),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    std::fs::write(path, found + lines).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_from_every_repeat_and_none_from_failures() {
        let run = |s: f64, errors: u64| serde_json::json!({"errors": errors, "server_cpu": {"s_per_gb": s}});
        let found = serde_json::json!({"runs": [run(3.0, 0), run(1.0, 0), run(2.0, 0)]});
        assert_eq!(
            figures(&found, "server_cpu", "s_per_gb").unwrap(),
            [1.0, 2.0, 3.0]
        );
        assert!(figures(&found, "server_cpu", "s_per_1000_ops").is_err());
        let failed = serde_json::json!({"runs": [run(3.0, 1)]});
        assert!(figures(&failed, "server_cpu", "s_per_gb").is_err());
    }

    #[test]
    fn the_file_begins_with_its_head() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.csv");
        append(&path, "a\n").unwrap();
        append(&path, "b\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("{HEAD}a\nb\n")
        );
    }
}
