//! What belongs to the process as a whole: limits of the kernel, signals, and the end.

use std::path::Path;

use dewar_env::Env;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{Config, ConfigError};
use crate::engine::{OpenEngine, Purpose, ServedStore};
use crate::log::Logging;
use crate::ready::ReadyFile;
use crate::serve::{DemoCredentials, Running, StartError, start_for};

/// Prepares a process that serves: as many descriptors as the kernel allows.
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

/// Doors whose clients may be many: S3 and XRootD.
const BUSY_DOORS: u64 = 2;

/// How many of the `asked` connections a door may have open. Clients get half of the descriptors
/// that the kernel allows this process, each door its share; the other half is for the disks, which
/// could not be read or written if clients had all.
pub(crate) fn connections_within(asked: u32) -> usize {
    let asked = usize::try_from(asked).unwrap_or(usize::MAX);
    let Some(descriptors) = getrlimit(Resource::Nofile).current else {
        return asked;
    };
    let share = usize::try_from(descriptors / 2 / BUSY_DOORS).unwrap_or(usize::MAX);
    asked.min(share.max(1))
}

/// Keeps memory out of core files, whoever writes them: it holds secrets, that of a command which
/// opens the store without a server too. The stacks of threads are memory as well.
///
/// # Errors
/// When the kernel does not let it.
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
    /// Takes them over from their defaults. Must be called inside a runtime.
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
    /// A second signal ended it at once.
    Forced,
}

/// What [`run`] needs to know.
pub struct ProcessPlan<'a, F, G> {
    /// The configuration to start with.
    pub config: Config,
    /// Reads it again, on SIGHUP.
    pub reload: F,
    /// Where to say that everything accepts.
    pub ready_file: Option<&'a Path>,
    /// What follows between opening and being ready.
    pub prepare: G,
    /// The handle of the installed logs.
    pub logging: &'a Logging,
    /// To serve, as ever or although something may be lost by it.
    pub purpose: Purpose,
}

/// Starts a server, says so, and serves until a signal.
///
/// # Errors
/// It did not start.
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
        s3 = running.endpoints().s3.join(" "),
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
