//! The gate that a paused worker waits at.

use tokio::sync::watch;

/// Closed while the worker is paused; cheap to clone.
#[derive(Clone, Debug)]
pub struct PauseGate(watch::Receiver<bool>);

impl PauseGate {
    /// A gate that `paused` closes.
    pub(super) const fn new(paused: watch::Receiver<bool>) -> Self {
        Self(paused)
    }

    /// A gate that is never closed, for work outside a registry.
    #[must_use]
    pub fn open() -> Self {
        Self(watch::channel(false).1)
    }

    /// Whether the worker is paused.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the worker is not paused.
    pub async fn pass(&self) {
        if self.is_closed() {
            // An error means that nobody can pause or resume it any more.
            let _ = self.0.clone().wait_for(|paused| !paused).await;
        }
    }
}
