//! The process as a whole: limits of the kernel, signals, and the exit.

use std::path::Path;

use dewar_env::Env;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, ConfigError};
use crate::engine::{OpenEngine, Purpose, ServedStore};
use crate::log::Logging;
use crate::ready::ReadyFile;
use crate::serve::{DemoCredentials, Running, StartError, start_for};

/// Prepares a serving process: raises the limit of descriptors to the kernel's maximum.
pub fn prepare() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

/// The number of connections that each door may have open, at most what it asks for. Clients get half
/// of the descriptors that the kernel allows this process. A door that asks for less than its equal
/// share leaves the rest to the others. The other half is for the disks. Without it they could not be
/// read or written if clients used all.
pub(crate) fn connections_within(asked: &[usize]) -> Vec<usize> {
    match getrlimit(Resource::Nofile).current {
        None => asked.to_vec(),
        Some(descriptors) => {
            let total = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
            shares(asked, total)
        }
    }
}

fn shares(asked: &[usize], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..asked.len()).collect();
    order.sort_by_key(|door| asked[*door]);
    let (mut left, mut allowed) = (total, vec![0; asked.len()]);
    for (done, door) in order.into_iter().enumerate() {
        let share = left / (asked.len() - done);
        allowed[door] = asked[door].min(share.max(1));
        left = left.saturating_sub(allowed[door]);
    }
    allowed
}

/// Excludes memory from core files, also from those of other tools, because it contains secrets.
/// This applies as well to a command that opens the store without a server. The stacks of threads
/// are memory too.
///
/// # Errors
/// When the kernel refuses it.
pub fn keep_memory_out_of_core_files() -> std::io::Result<()> {
    std::fs::write("/proc/self/coredump_filter", "0")
}

/// The signals that this process answers to.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

enum ProcessSignal {
    Stop,
    Reload,
}

impl Signals {
    /// Installs the signal handlers. Must be called inside a runtime.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn heard(&mut self) -> ProcessSignal {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => ProcessSignal::Stop,
            _ = self.interrupt.recv() => ProcessSignal::Stop,
            _ = self.hangup.recv() => ProcessSignal::Reload,
        }
    }

    async fn stop(&mut self) {
        while !matches!(self.heard().await, ProcessSignal::Stop) {}
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything finished or was cut at its deadline.
    Clean,
    /// A second signal ended the process immediately.
    Forced,
}

/// The arguments of [`run`].
pub struct ProcessPlan<'a, F, G> {
    /// The configuration to start with.
    pub config: Config,
    /// Reads it again, on SIGHUP.
    pub reload: F,
    /// The file to write once every endpoint accepts connections.
    pub ready_file: Option<&'a Path>,
    /// The work between opening and being ready.
    pub prepare: G,
    /// The handle of the installed logs.
    pub logging: &'a Logging,
    /// The purpose: serving, with or without acceptance of a loss.
    pub purpose: Purpose,
}

/// Starts a server, reports that, and serves until a signal.
///
/// # Errors
/// The server did not start.
pub async fn run<O, F, G>(
    plan: ProcessPlan<'_, F, G>,
    opener: &O,
    env: &Env,
    mut signals: Signals,
) -> Result<End, StartError>
where
    O: OpenEngine,
    F: Fn() -> Result<Config, ConfigError>,
    G: AsyncFnOnce(&Running<O::Engine>) -> Result<Option<DemoCredentials>, StartError>,
{
    if let Some(path) = plan.ready_file {
        ReadyFile::prepare(path)?;
    }
    let started = async {
        let running = start_for(plan.config, opener, env, plan.purpose).await?;
        let result = match (plan.prepare)(&running).await {
            Ok(shown) => match plan.ready_file {
                Some(path) => running
                    .write_ready_file(path, shown.as_ref())
                    .map_err(StartError::from),
                None => Ok(()),
            },
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => Ok(running),
            Err(error) => {
                running.stop().await;
                Err(error)
            }
        }
    };
    // A start may take long (recovery), and a signal meanwhile is no reason to wait for its end:
    // dropping it is as safe as a crash.
    let running = tokio::select! {
        biased;
        () = signals.stop() => return Ok(End::Forced),
        running = started => running?,
    };
    tracing::info!(
        pid = std::process::id(),
        s3 = running.endpoints().of("s3").join(" "),
        "serving"
    );
    serve(running, plan.reload, plan.logging, signals).await
}

async fn serve<E: ServedStore>(
    running: Running<E>,
    reload: impl Fn() -> Result<Config, ConfigError>,
    logging: &Logging,
    mut signals: Signals,
) -> Result<End, StartError> {
    while let ProcessSignal::Reload = signals.heard().await {
        running.reload(reload(), logging);
    }
    tracing::info!("stopping; a second signal ends it at once");
    let end = tokio::select! {
        biased;
        () = running.stop() => End::Clean,
        () = signals.stop() => End::Forced,
    };
    tracing::info!(forced = end == End::Forced, "stopped");
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_that_need_little_leave_the_rest_to_the_others() {
        assert_eq!(shares(&[4096, 1536, 4096], 10_000), [4096, 1536, 4096]);
        assert_eq!(shares(&[4096, 1536, 4096], 8000), [3232, 1536, 3232]);
        assert_eq!(shares(&[4096, 1536, 4096], 300), [100, 100, 100]);
        assert_eq!(shares(&[4096, 0, 4096], 300), [150, 0, 150]);
        assert_eq!(shares(&[5, 5], 1), [1, 1]);
    }
}
