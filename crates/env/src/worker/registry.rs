//! Runs workers and reports on them.

use std::any::Any;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use dewar_types::{Error, ErrorKind, Result, Timestamp};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{PauseGate, WorkOutcome, Worker};
use crate::Env;

/// The pause after the first of several failures in a row.
const RETRY_MIN: Duration = Duration::from_secs(1);

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It does a step.
    Running,
    /// It waits for work.
    Idle,
    /// An administrator paused it. A running step ends at its next item.
    Paused,
    /// Its last step failed, and it pauses before it tries again.
    Failed,
}

impl WorkerState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Running, Self::Idle, Self::Paused, Self::Failed];

    /// The word for it in commands and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }
}

/// A worker, as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    /// Its name.
    pub name: &'static str,
    /// The state of the worker.
    pub state: WorkerState,
    /// Steps that it has completed since the start.
    pub steps: u64,
    /// Steps that failed since the start, panics included.
    pub errors: u64,
    /// The time and the text of the last failure.
    pub last_error: Option<(Timestamp, String)>,
    /// Items that waited for it after its last step, if it counts them.
    pub pending: Option<u64>,
}

/// The workers of a store, in the order of their start.
#[derive(Debug)]
pub struct WorkerRegistry {
    env: Env,
    workers: Vec<RunningWorker>,
}

#[derive(Debug)]
struct RunningWorker {
    record: Arc<Mutex<WorkerRecord>>,
    paused: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The part of a report that the worker's own task keeps.
#[derive(Debug)]
struct WorkerRecord {
    report: WorkerReport,
    failures_in_a_row: u32,
}

impl WorkerRegistry {
    /// A registry without workers.
    #[must_use]
    pub const fn new(env: Env) -> Self {
        Self {
            env,
            workers: Vec::new(),
        }
    }

    /// Starts the worker that `make` returns. After a panic `make` is called again, because the
    /// fields of a worker that panicked may be half changed.
    pub fn start<W: Worker>(&mut self, make: impl FnMut() -> W + Send + 'static) {
        let record = Arc::new(Mutex::new(WorkerRecord::new(W::NAME)));
        let (paused, gate) = watch::channel(false);
        let (stop, mut stopped) = watch::channel(false);
        let life = supervise(
            self.env.clone(),
            Arc::clone(&record),
            PauseGate::new(gate),
            make,
        );
        let task = tokio::spawn(async move {
            tokio::select! {
                biased;
                // An error means that the registry is gone, which is a stop too.
                _ = stopped.wait_for(|stop| *stop) => {}
                never = life => match never {},
            }
        });
        self.workers.push(RunningWorker {
            record,
            paused,
            stop,
            task: Mutex::new(Some(task)),
        });
    }

    /// Stops all workers, one after the other, and waits until they have ended. A running step is
    /// dropped.
    pub async fn stop(&self) {
        for worker in &self.workers {
            // Without a receiver the worker has already ended.
            let _ = worker.stop.send(true);
            let task = worker.task.lock().take();
            if let Some(task) = task
                && let Err(error) = task.await
            {
                tracing::error!(%error, "a worker did not end well");
            }
        }
    }

    /// The state of each worker.
    #[must_use]
    pub fn reports(&self) -> Vec<WorkerReport> {
        self.workers.iter().map(RunningWorker::report).collect()
    }

    /// Pauses a worker. It ends the item that it works on and then does nothing until it is
    /// resumed. A pause is not stored: after a restart the worker runs again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no worker of this name.
    pub fn pause(&self, name: &str) -> Result<WorkerReport> {
        self.set_paused(name, true)
    }

    /// Resumes a paused worker.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no worker of this name.
    pub fn resume(&self, name: &str) -> Result<WorkerReport> {
        self.set_paused(name, false)
    }

    fn set_paused(&self, name: &str, paused: bool) -> Result<WorkerReport> {
        let mut workers = self.workers.iter();
        let named = |worker: &&RunningWorker| worker.record.lock().report.name == name;
        let worker = workers.find(named).ok_or_else(|| {
            let message = format!("there is no worker {name}: `dewar worker list` names them");
            Error::new(ErrorKind::NotFound, message)
        })?;
        worker.paused.send_replace(paused);
        Ok(worker.report())
    }
}

impl RunningWorker {
    fn report(&self) -> WorkerReport {
        let mut report = self.record.lock().report.clone();
        if *self.paused.borrow() {
            report.state = WorkerState::Paused;
        }
        report
    }
}

impl WorkerRecord {
    const fn new(name: &'static str) -> Self {
        Self {
            report: WorkerReport {
                name,
                state: WorkerState::Idle,
                steps: 0,
                errors: 0,
                last_error: None,
                pending: None,
            },
            failures_in_a_row: 0,
        }
    }

    /// Notes a failure, and returns the pause before the next attempt.
    fn fail(&mut self, at: Timestamp, message: String, longest: Duration) -> Duration {
        let doubled = RETRY_MIN * (1 << self.failures_in_a_row.min(16));
        self.failures_in_a_row += 1;
        self.report.state = WorkerState::Failed;
        self.report.errors += 1;
        self.report.last_error = Some((at, message));
        doubled.min(longest)
    }
}

/// Runs a worker, and makes it anew whenever it panics.
async fn supervise<W: Worker>(
    env: Env,
    record: Arc<Mutex<WorkerRecord>>,
    gate: PauseGate,
    mut make: impl FnMut() -> W + Send,
) -> Infallible {
    loop {
        let life = async { run(&env, &record, &gate, make()).await };
        // What a panic may have left half changed is dropped with the worker.
        let Err(panic) = AssertUnwindSafe(life).catch_unwind().await;
        let message = panic_message(&*panic);
        tracing::error!(
            worker = W::NAME,
            panic = message,
            "a worker panicked; it is started again"
        );
        let message = format!("panicked: {message}");
        let pause = record.lock().fail(env.clock.now(), message, W::RETRY_MAX);
        tokio::time::sleep(pause).await;
    }
}

async fn run<W: Worker>(
    env: &Env,
    record: &Mutex<WorkerRecord>,
    gate: &PauseGate,
    mut worker: W,
) -> Infallible {
    loop {
        gate.pass().await;
        record.lock().report.state = WorkerState::Running;
        match worker.work(gate).await {
            Ok(outcome) => {
                {
                    let mut record = record.lock();
                    record.failures_in_a_row = 0;
                    record.report.steps += 1;
                    record.report.pending = worker.status().pending;
                    if outcome == WorkOutcome::Idle {
                        record.report.state = WorkerState::Idle;
                    }
                }
                if outcome == WorkOutcome::Idle {
                    worker.wait().await;
                }
            }
            Err(error) => {
                tracing::warn!(worker = W::NAME, %error, "a worker failed; it tries again");
                let message = error.to_string();
                let pause = record.lock().fail(env.clock.now(), message, W::RETRY_MAX);
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The text that a panic was raised with.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&'static str>().copied());
    text.unwrap_or("without a message")
}
