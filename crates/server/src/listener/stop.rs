//! Stopping a group of tasks: with time to finish, then immediately.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Tasks only have to be dropped after the deadline. More time than this means a defect.
const CUT_TIME: Duration = Duration::from_secs(5);

/// Tasks that stop together. Clones are the same group.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    tasks: TaskTracker,
    drain: CancellationToken,
    cut: CancellationToken,
}

impl Stop {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs a task that [`Stop::drain`] waits for and, at its deadline, drops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        // Boxed: a future inside an async block takes its room twice, and idle connections are
        // many.
        let task = Box::pin(task);
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Returns when the group shall finish what runs and begin nothing new.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// The token behind [`Stop::draining`]; its future may be polled again after it has ended.
    pub(super) fn drain_token(&self) -> &CancellationToken {
        &self.drain
    }

    /// Whether it shall.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Asks every task to finish, waits for at most `deadline`, then drops the remaining ones.
    /// Returns the number of dropped tasks.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.drain.cancel();
        self.tasks.close();
        if tokio::time::timeout(deadline, self.tasks.wait())
            .await
            .is_ok()
        {
            return 0;
        }
        let left = self.tasks.len();
        self.cut.cancel();
        let _ = tokio::time::timeout(CUT_TIME, self.tasks.wait()).await;
        left
    }
}
