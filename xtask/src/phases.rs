//! Phases of a long run: commands with a name, some beside others, each measured.
//!
//! A phase is one or more commands that run one after the other. A foreground phase writes to the
//! terminal; a background phase runs at low priority and writes to a file, of which the end is
//! shown if it fails. The time of the processors is that of all processes that a phase started and
//! waited for, as the kernel counts it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::run::told;

/// Lines of a background phase that are shown when it failed.
const LINES_OF_FAILURE: usize = 400;
/// How much a background phase gives way to the foreground.
const BACKGROUND_NICENESS: &str = "15";

/// The result of a phase.
pub(crate) struct PhaseOutcome {
    pub(crate) name: &'static str,
    pub(crate) wall: Duration,
    /// Of all processors, user and system, with all children that were waited for.
    pub(crate) cpu: Duration,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// Runs commands in the foreground, until one fails.
pub(crate) fn foreground(name: &'static str, commands: Vec<Command>) -> PhaseOutcome {
    eprintln!("== {name}");
    let outcome = measure(name, commands, |_| Ok(()));
    eprintln!("{}", line(&outcome));
    outcome
}

/// A phase that runs in parallel with others.
pub(crate) struct Background {
    log: PathBuf,
    thread: JoinHandle<PhaseOutcome>,
}

/// Starts commands in the background; their output goes to `NAME.log` in `folder`.
pub(crate) fn background(
    name: &'static str,
    commands: Vec<Command>,
    folder: &Path,
) -> Result<Background> {
    let log = folder.join(format!("{}.log", name.replace(' ', "-")));
    let file = File::create(&log).with_context(|| format!("make {}", log.display()))?;
    eprintln!("== {name}: in the background, {}", log.display());
    let thread = std::thread::spawn(move || {
        let commands = commands.into_iter().map(give_way).collect();
        measure(name, commands, |command| {
            let (out, err) = (file.try_clone()?, file.try_clone()?);
            command.stdin(Stdio::null()).stdout(out).stderr(err);
            Ok(())
        })
    });
    Ok(Background { log, thread })
}

impl Background {
    /// Waits for its end, and shows the end of its output if it failed.
    pub(crate) fn join(self) -> Result<PhaseOutcome> {
        let Ok(outcome) = self.thread.join() else {
            bail!("a phase panicked, see {}", self.log.display());
        };
        eprintln!("{}", line(&outcome));
        if outcome.failure.is_some() {
            let text = std::fs::read(&self.log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<_> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(LINES_OF_FAILURE)..] {
                eprintln!("  | {line}");
            }
        }
        Ok(outcome)
    }
}

/// The outcome of a phase in one line.
fn line(outcome: &PhaseOutcome) -> String {
    let verdict = outcome.failure.as_deref().unwrap_or("ok");
    format!(
        "== {}: {verdict} ({:.1} min, {:.1} min of CPU)",
        outcome.name,
        minutes(outcome.wall),
        minutes(outcome.cpu)
    )
}

/// A duration in minutes.
pub(crate) fn minutes(duration: Duration) -> f64 {
    duration.as_secs_f64() / 60.0
}

/// The same command at low priority.
fn give_way(command: Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", BACKGROUND_NICENESS])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice
}

#[allow(
    clippy::disallowed_methods,
    reason = "the time that builds and tests take is real"
)]
fn measure(
    name: &'static str,
    commands: Vec<Command>,
    prepare: impl Fn(&mut Command) -> Result<()>,
) -> PhaseOutcome {
    let begin = Instant::now();
    let mut cpu = Duration::ZERO;
    let mut failure = None;
    for mut command in commands {
        let shown = told(&command);
        eprintln!("+ {shown}");
        let run = prepare(&mut command)
            .and_then(|()| command.spawn().with_context(|| format!("run {shown}")))
            .and_then(|child| wait(child, &mut cpu));
        match run {
            Ok(None) => {}
            Ok(Some(status)) => failure = Some(format!("{shown}: {status}")),
            Err(error) => failure = Some(format!("{error:#}")),
        }
        if failure.is_some() {
            break;
        }
    }
    PhaseOutcome {
        name,
        wall: begin.elapsed(),
        cpu,
        failure,
    }
}

/// Waits for a process, adds the CPU time of it and its children, and returns its status if it
/// failed.
fn wait(mut child: Child, cpu: &mut Duration) -> Result<Option<String>> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.context("a process without a number")?;
    // It stays a zombie until it is waited for, and so its times can be read.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(error) = waitid(WaitId::Pid(pid), options) {
        if error != rustix::io::Errno::INTR {
            return Err(error).context("wait for a process");
        }
    }
    *cpu += cpu_time(child.id()).unwrap_or_default();
    let status = child.wait().context("wait for a process")?;
    Ok((!status.success()).then(|| status.to_string()))
}

/// User and system time of a process and of its children that it waited for (proc(5), fields 14 to
/// 17 of `stat`).
fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; fields are counted behind it, from the third.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let a_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks * 1000 / a_second.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_with_its_first_failure_and_counts_the_time_of_children() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let fine = foreground("busy", vec![shell(&format!("sh -c '{busy}'; true"))]);
        assert!(fine.failure.is_none());
        assert!(
            fine.cpu > Duration::ZERO,
            "the shell below the shell counts"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let commands = vec![shell("echo begun; exit 3"), shell("touch never")];
        let failed = background("fails", commands, folder.path()).expect("it starts");
        let failed = failed.join().expect("it ends");
        assert!(failed.failure.is_some_and(|why| why.contains('3')));
        let log = std::fs::read_to_string(folder.path().join("fails.log")).expect("a log");
        assert_eq!(log, "begun\n");
        assert!(!Path::new("never").exists());
    }
}
