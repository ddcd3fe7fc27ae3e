//! Background work: workers that do one bounded step after the other.
//!
//! A [`Worker`] says what a step is and how to wait for work. The [`WorkerRegistry`] does
//! everything else: it runs the steps, retries failed ones with growing pauses, catches panics,
//! pauses and resumes workers, and reports on them.

mod gate;
mod registry;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dewar_types::Result;

pub use gate::PauseGate;
pub use registry::{WorkerRegistry, WorkerReport, WorkerState};

/// A piece of background work.
///
/// A step may be dropped at any `await`, because this is how the registry stops a worker. The next
/// start must find everything in order.
pub trait Worker: Send + 'static {
    /// The name in commands, logs and metrics: lower case, with hyphens.
    const NAME: &'static str;

    /// The pause between looks for work, unless the worker has its own [`Worker::wait`].
    const LOOK_EVERY: Duration = Duration::from_secs(2);

    /// The longest pause after a failed step. The first pause is one second, and each further
    /// failure in a row doubles it.
    const RETRY_MAX: Duration = Duration::from_secs(10);

    /// Does one step.
    ///
    /// A long step passes `gate` between its items, at points where it holds no lock, so that a
    /// pause takes effect soon.
    ///
    /// # Errors
    /// The reason why the step could not be done. The step is tried again. If only one of many
    /// items failed, the worker logs that itself and goes on.
    fn work(&mut self, gate: &PauseGate) -> impl Future<Output = Result<WorkOutcome>> + Send;

    /// Waits until there may be work again, after a step that found none.
    fn wait(&mut self) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(Self::LOOK_EVERY)
    }

    /// The state of the work, asked for after each step.
    fn status(&self) -> WorkerStatus {
        WorkerStatus::default()
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The step did something, and the next one follows at once.
    Progress,
    /// There was nothing to do, or nothing more. The worker waits before the next step.
    Idle,
}

impl WorkOutcome {
    /// [`WorkOutcome::Progress`] if something was done.
    #[must_use]
    pub const fn progress_if(done: bool) -> Self {
        match done {
            true => Self::Progress,
            false => Self::Idle,
        }
    }
}

/// The state of the work that only the worker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStatus {
    /// Items that wait for this worker, if it counts them.
    pub pending: Option<u64>,
}
