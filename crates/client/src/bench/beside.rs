//! A command that runs beside what is measured: a profiler, a tracer.

use std::process::{Child, Command};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// It runs until it is told to stop.
pub(super) struct Beside {
    command: String,
    child: Child,
}

impl Beside {
    /// Starts `command` by `sh`.
    ///
    /// # Errors
    /// There is no `sh`, or no process to be had.
    pub(super) fn start(command: &str) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", command])
            .spawn()
            .with_context(|| format!("start {command}"))?;
        Ok(Self {
            command: command.to_owned(),
            child,
        })
    }

    /// Interrupts it as Ctrl-C does and waits for what it still has to do.
    ///
    /// # Errors
    /// It failed by itself meanwhile, so what it was to find out is not there.
    pub(super) fn stop(mut self) -> Result<()> {
        let ended = self.child.try_wait().context(self.command.clone())?;
        if let Some(status) = ended {
            ensure!(status.success(), "{}: {status}", self.command);
            return Ok(());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{}: no process", self.command))?;
        // It is not waited for yet, so the number is still its own.
        kill_process(pid, Signal::INT).with_context(|| format!("interrupt {}", self.command))?;
        // How it ends when it is interrupted is its own affair.
        self.child.wait().context(self.command)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_interrupted_and_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (up, told) = (folder.path().join("up"), folder.path().join("told"));
        let command = format!(
            "trap 'echo stopped > {}; exit 3' INT; echo > {}; while :; do sleep 0.01; done",
            told.display(),
            up.display()
        );
        let beside = Beside::start(&command).expect("started");
        while !up.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        beside.stop().expect("stopped");
        assert_eq!(std::fs::read_to_string(told).expect("told"), "stopped\n");
    }

    #[test]
    fn a_command_that_fails_is_told_of() {
        let mut beside = Beside::start("exit 7").expect("started");
        beside.child.wait().expect("ended");
        let error = beside.stop().expect_err("failed");
        assert!(error.to_string().contains("exit 7"), "{error}");
        let mut beside = Beside::start("true").expect("started");
        beside.child.wait().expect("ended");
        beside.stop().expect("it was done early");
    }
}
