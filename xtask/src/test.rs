//! `cargo xtask test`: everything that is tested, in phases, of which some run beside others.
//!
//! Two cores are kept busy: clients are installed while the compiler runs, and clippy, simulation,
//! sabotage and fuzzers run at low priority beside the end-to-end tests that may have company.
//! Tests that need a quiet machine come last, alone. docs/testing.md has what each phase takes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::phases::{Background, PhaseOutcome, background, foreground, minutes};
use crate::run::cargo;
use crate::tidy;
use crate::workspace::Workspace;

/// Tests that are listed as the slowest.
const SLOWEST: usize = 20;
/// Seeds of the simulation: as many as reach every rare branch, with some to spare.
const SEEDS: &str = "2000";
const SEEDS_FULL: &str = "12000";
const FUZZ_SECONDS: &str = "1";
const FUZZ_SECONDS_FULL: &str = "30";

/// The arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// Leave out the end-to-end tests
    #[arg(long)]
    skip_e2e: bool,
    /// Check format, tidy and clippy too, as CI does
    #[arg(long)]
    lint: bool,
    /// The long forms: more cycles and seeds, and the end-to-end tests against the release binary
    #[arg(long)]
    full: bool,
    /// Fail if all phases together take more minutes of CPU than this file says
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// Arguments for cargo test
    #[arg(last = true)]
    args: Vec<OsString>,
}

/// Runs all phases, and reports what each took.
pub(crate) fn test(workspace: &Workspace, asked: &Test) -> Result<()> {
    let run = Run {
        workspace,
        asked,
        folder: workspace.target.join("test-logs"),
    };
    std::fs::create_dir_all(&run.folder)
        .with_context(|| format!("make {}", run.folder.display()))?;
    let durations = run.durations();
    if durations.exists() {
        std::fs::remove_file(&durations).context("forget the durations of the run before")?;
    }
    let outcomes = run.phases()?;
    report(&outcomes, &durations);
    if let Some(file) = &asked.budget {
        check_budget(&workspace.root.join(file), &outcomes)?;
    }
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some(format!("{}: {}", outcome.name, outcome.failure.as_ref()?)))
        .collect();
    ensure!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
    Ok(())
}

struct Run<'a> {
    workspace: &'a Workspace,
    asked: &'a Test,
    /// For the output of what runs in the background.
    folder: PathBuf,
}

impl Run<'_> {
    fn phases(&self) -> Result<Vec<PhaseOutcome>> {
        let mut outcomes = Vec::new();
        if self.asked.lint {
            // What fails within a second comes first.
            outcomes.push(foreground(
                "format",
                vec![self.cargo(["fmt", "--all", "--check"])],
            ));
            tidy::tidy(self.workspace)?;
            if outcomes.iter().any(|outcome| outcome.failure.is_some()) {
                return Ok(outcomes);
            }
        }
        let install = if self.asked.skip_e2e {
            None
        } else {
            let install = Command::new(self.workspace.root.join("tests/e2e/install"));
            Some(background("install clients", vec![install], &self.folder)?)
        };
        let compile = self.cargo([
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-run",
        ]);
        outcomes.push(foreground("compile", vec![compile]));
        if outcomes.iter().any(|outcome| outcome.failure.is_some()) {
            outcomes.extend(install.map(Background::join).transpose()?);
            return Ok(outcomes);
        }
        let mut unit = self.cargo(["test", "--workspace", "--lib", "--bins", "--tests"]);
        unit.arg("--no-fail-fast").args(&self.asked.args);
        outcomes.push(foreground("unit tests", vec![unit]));
        let beside = self.beside()?;
        if let Some(install) = install {
            let installed = install.join()?;
            let is_ready = installed.failure.is_none();
            outcomes.push(installed);
            if is_ready {
                if self.asked.full {
                    outcomes.push(foreground(
                        "compile release",
                        vec![self.cargo(["build", "--release", "--bin", "dewar"])],
                    ));
                }
                outcomes.push(foreground("end-to-end", vec![self.e2e("parallel")]));
                outcomes.extend(join_all(beside)?);
                outcomes.push(foreground("end-to-end alone", vec![self.e2e("alone")]));
                return Ok(outcomes);
            }
        }
        outcomes.extend(join_all(beside)?);
        Ok(outcomes)
    }

    /// The processes that run during the end-to-end tests.
    fn beside(&self) -> Result<Vec<Background>> {
        let built = self.workspace.target.join("debug");
        let (seeds, seconds) = if self.asked.full {
            (SEEDS_FULL, FUZZ_SECONDS_FULL)
        } else {
            (SEEDS, FUZZ_SECONDS)
        };
        let one_job = ["--jobs", "1"];
        let sim = |args: &[&str]| self.command(&built.join("dewar-sim"), args);
        let mut simulation = sim(&["--seeds", seeds]);
        simulation.args(one_job);
        let mut sabotage = sim(&["--sabotage"]);
        if !self.asked.full {
            sabotage.arg("--known");
        }
        sabotage.args(one_job);
        let mut fuzz = self.command(&built.join("dewar-fuzz"), &["--seconds", seconds]);
        fuzz.arg("--artifacts")
            .arg(self.workspace.target.join("fuzz-artifacts"));
        let mut beside = Vec::new();
        if self.asked.lint {
            let clippy = [
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ];
            beside.push(background(
                "clippy",
                vec![self.cargo(clippy)],
                &self.folder,
            )?);
        }
        let rest = vec![simulation, sabotage, fuzz];
        beside.push(background("simulation and fuzz", rest, &self.folder)?);
        Ok(beside)
    }

    fn cargo<const N: usize>(&self, args: [&str; N]) -> Command {
        cargo(self.workspace, args)
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.workspace.root);
        command
    }

    /// One pass of the end-to-end tests.
    fn e2e(&self, pass: &str) -> Command {
        let mut command = self.command(&self.workspace.root.join("tests/e2e/run"), &[]);
        let profile = if self.asked.full {
            command.arg("--full");
            "release"
        } else {
            "debug"
        };
        command
            .env("DEWAR_TEST_BIN", self.workspace.binary(profile))
            .env("DEWAR_TEST_PASS", pass)
            .env("DEWAR_TEST_DURATIONS", self.durations());
        command
    }

    fn durations(&self) -> PathBuf {
        self.folder.join("durations")
    }
}

fn join_all(phases: Vec<Background>) -> Result<Vec<PhaseOutcome>> {
    phases.into_iter().map(Background::join).collect()
}

/// Prints what each phase took, and the slowest tests.
fn report(outcomes: &[PhaseOutcome], durations: &Path) {
    println!("{:<24} {:>8} {:>8}  result", "phase", "wall/min", "CPU/min");
    for outcome in outcomes {
        println!(
            "{:<24} {:>8.1} {:>8.1}  {}",
            outcome.name,
            minutes(outcome.wall),
            minutes(outcome.cpu),
            if outcome.failure.is_none() {
                "ok"
            } else {
                "FAILED"
            }
        );
    }
    println!("{:<24} {:>8} {:>8.1}", "all", "", cpu_minutes(outcomes));
    let text = std::fs::read_to_string(durations).unwrap_or_default();
    let slowest = slowest(&text);
    if !slowest.is_empty() {
        println!("slowest end-to-end tests, with what they set up:");
    }
    for (seconds, test) in slowest {
        println!("{seconds:>8.1} s  {test}");
    }
}

/// The slowest tests of lines `SECONDS STEP OUTCOME TEST`, with all steps of each.
fn slowest(text: &str) -> Vec<(f64, String)> {
    let mut sums = std::collections::BTreeMap::<&str, f64>::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let seconds = words.next().and_then(|word| word.parse::<f64>().ok());
        if let (Some(seconds), Some(test)) = (seconds, words.nth(2)) {
            *sums.entry(test).or_default() += seconds;
        }
    }
    let mut sums: Vec<_> = sums
        .into_iter()
        .map(|(test, sum)| (sum, test.to_owned()))
        .collect();
    sums.sort_by(|a, b| b.0.total_cmp(&a.0));
    sums.truncate(SLOWEST);
    sums
}

fn cpu_minutes(outcomes: &[PhaseOutcome]) -> f64 {
    outcomes.iter().map(|outcome| minutes(outcome.cpu)).sum()
}

/// Compares the used time with the number of minutes in a file, whose other lines are comments.
fn check_budget(file: &Path, outcomes: &[PhaseOutcome]) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let budget = text
        .lines()
        .find(|line| !line.starts_with('#') && !line.trim().is_empty())
        .and_then(|line| line.trim().parse::<f64>().ok());
    let budget = budget.with_context(|| format!("{}: no number of minutes", file.display()))?;
    let used = cpu_minutes(outcomes);
    println!("{used:.1} of {budget:.0} minutes of CPU");
    if used > budget {
        bail!(
            "all phases took {used:.1} minutes of CPU, and {} allows {budget:.0}",
            file.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn steps_of_a_test_are_added_and_the_slowest_comes_first() {
        let text = "1.50 setup passed a.py::one\n0.50 call passed a.py::one\n3.00 call failed b.py::two[x y]\n";
        let slowest = slowest(text);
        assert_eq!(slowest[0], (3.0, "b.py::two[x y]".to_owned()));
        assert_eq!(slowest[1], (2.0, "a.py::one".to_owned()));
    }

    #[test]
    fn more_than_the_budget_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("budget");
        let used = |minutes: u64| PhaseOutcome {
            name: "x",
            wall: Duration::ZERO,
            cpu: Duration::from_secs(60 * minutes),
            failure: None,
        };
        std::fs::write(&file, "# minutes of CPU\n45\n").expect("written");
        check_budget(&file, &[used(40), used(5)]).expect("as much as is allowed");
        check_budget(&file, &[used(40), used(6)]).expect_err("more than is allowed");
        std::fs::write(&file, "# nothing\n").expect("written");
        check_budget(&file, &[]).expect_err("no number");
    }
}
