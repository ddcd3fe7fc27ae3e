//! The threads that do the work of copies.
//!
//! Copies run on a runtime of their own with half of the cores, so that requests of clients always
//! have the other half. Its threads ask disks in the class of transfers ([`IoClass::Transfer`]), which
//! leaves clients half of each disk.

use std::io;

use dewar_env::IoClass;
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime for copies. Dropped, its tasks end at their next await.
pub struct TransferRuntime(Option<Runtime>);

impl TransferRuntime {
    /// A runtime with half of the cores of this machine, and at least one thread.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads((cores / 2).max(1))
            .thread_name("transfer")
            .on_thread_start(|| IoClass::Transfer.set_for_thread())
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Starts tasks on it.
    pub(crate) fn handle(&self) -> Handle {
        let runtime = self.0.as_ref();
        runtime
            .expect("the runtime is taken only when this is dropped")
            .handle()
            .clone()
    }
}

impl Drop for TransferRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting is not allowed where this may be dropped: in a task.
            runtime.shutdown_background();
        }
    }
}
