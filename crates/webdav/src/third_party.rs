//! The parts that the front needs for copies from and to other servers.

use std::sync::Arc;

use dewar_transfer::{TransferClient, TransferRegistry};

/// The client for third-party copies, and the registry that lets them wait, lists them and ends them.
/// A front without it answers them with 501.
#[derive(Clone)]
pub struct ThirdPartyCopies {
    /// Does the copies.
    pub client: Arc<TransferClient>,
    /// Has all copies of the process.
    pub registry: Arc<TransferRegistry>,
}
