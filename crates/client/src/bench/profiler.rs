//! A command that runs during the measurement, such as a profiler or a tracer.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

/// The time that the command has to write its results.
const END_TIME: Duration = Duration::from_secs(60);
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The running command. It is terminated by a call, or when this is dropped.
pub(super) struct Profiler {
    command: String,
    child: Child,
    end_time: Duration,
}

impl Profiler {
    /// Starts `command` by `sh`.
    ///
    /// # Errors
    /// There is no `sh`, or no process can be started.
    pub(super) fn start(command: &str) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", command])
            // What the shell starts is stopped with it.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {command}"))?;
        Ok(Self {
            command: command.to_owned(),
            child,
            end_time: END_TIME,
        })
    }

    /// Terminates the command (SIGTERM) and waits until it has ended.
    ///
    /// # Errors
    /// The command failed before, so its results are missing; or it does not end.
    pub(super) fn stop(mut self) -> Result<()> {
        let command = self.command.clone();
        if let Some(status) = self.child.try_wait().context(command.clone())? {
            ensure!(status.success(), "{command}: {status}");
            return Ok(());
        }
        self.signal(Signal::TERM);
        let mut waited = Duration::ZERO;
        // How it ends when it is told to is its own affair.
        while self.child.try_wait().context(command.clone())?.is_none() {
            if waited >= self.end_time {
                bail!(
                    "{command} did not end {} s after SIGTERM",
                    self.end_time.as_secs()
                );
            }
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        Ok(())
    }

    /// To all of it, if it is not gone yet.
    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has begun when the file is there.
    fn begun(command: &str) -> (Profiler, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let up = folder.path().join("up");
        let command = format!("cd {}; {command}", folder.path().display());
        let beside = Profiler::start(&command).expect("started");
        while !up.exists() {
            std::thread::sleep(LOOK_EVERY);
        }
        (beside, folder)
    }

    #[test]
    fn it_is_stopped_and_waited_for() {
        let (beside, folder) = begun(
            "trap 'echo stopped > told; exit 3' TERM; echo > up; while :; do sleep 0.01; done",
        );
        beside.stop().expect("stopped");
        let told = std::fs::read_to_string(folder.path().join("told"));
        assert_eq!(told.expect("told"), "stopped\n");
    }

    #[test]
    fn what_the_shell_started_is_stopped_with_it() {
        let (beside, _folder) = begun("echo > up; sleep 1000; true");
        beside.stop().expect("stopped");
    }

    #[test]
    fn what_does_not_end_is_told_of_and_killed() {
        let (mut beside, _folder) = begun("trap '' TERM; echo > up; sleep 1000; true");
        beside.end_time = Duration::ZERO;
        let error = beside.stop().expect_err("it ignores that");
        assert!(error.to_string().contains("did not end"), "{error}");
    }

    #[test]
    fn a_command_that_fails_is_told_of() {
        let mut beside = Profiler::start("exit 7").expect("started");
        beside.child.wait().expect("ended");
        let error = beside.stop().expect_err("failed");
        assert!(error.to_string().contains("exit 7"), "{error}");
        let mut beside = Profiler::start("true").expect("started");
        beside.child.wait().expect("ended");
        beside.stop().expect("it was done early");
    }
}
