//! The description of a listener.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Fronts, Limits, ListenerMetrics};
use crate::tls::Tls;

/// A listener: addresses that share limits, a certificate and fronts. `E` is the open store on which
/// the fronts are made.
pub struct ListenerSpec<E> {
    /// The name of the door in logs and metrics, and of its section in the configuration.
    pub name: &'static str,
    /// The schemes of its URLs, without and with TLS.
    pub schemes: [&'static str; 2],
    /// The addresses.
    pub listen: Vec<SocketAddr>,
    /// Further addresses, without TLS even if there is a certificate.
    pub plain_listen: Vec<SocketAddr>,
    /// The files with the certificate and its key.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The limits of its connections, as configured.
    pub limits: Limits,
    /// The largest read from a socket while a body streams.
    pub read_bytes_max: usize,
    /// Makes the fronts.
    pub fronts: fn(&E, FrontContext) -> Fronts,
}

impl<E> ListenerSpec<E> {
    /// Whether the configuration has an address for it.
    #[must_use]
    pub fn has_addresses(&self) -> bool {
        !self.listen.is_empty() || !self.plain_listen.is_empty()
    }
}

/// The parts of the server that the fronts of a listener may need.
pub struct FrontContext {
    /// The certificate of the listener.
    pub tls: Option<Arc<Tls>>,
    /// The metrics of the listener.
    pub metrics: ListenerMetrics,
    /// All addresses on which the server listens.
    pub addresses: Vec<SocketAddr>,
}
