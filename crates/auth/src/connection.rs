//! A connection, as the listener that accepted it counts it.

use crate::fair_share::ShareOwner;

/// An accepted connection. Until its client has authenticated, it counts against the limit of its
/// address, and it is closed sooner when few connections are left for others. After that it counts
/// against the share of its client.
pub trait AcceptedConnection: Send + Sync {
    /// Reports that the client has authenticated: with a signed request, or a login. The connection
    /// counts for this client from now on, and for the last one if it carries requests of several.
    ///
    /// Returns `false` if the client already has as many connections as are free for others. The
    /// connection then counts as before. The caller refuses the request or the login, and the
    /// connection is closed.
    #[must_use]
    fn authenticated(&self, client: &ShareOwner) -> bool;

    /// Whether few connections are left, so that clients without authentication must not stay long.
    fn is_crowded(&self) -> bool;
}

/// A connection without a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct UncountedConnection;

impl AcceptedConnection for UncountedConnection {
    fn authenticated(&self, _: &ShareOwner) -> bool {
        true
    }

    fn is_crowded(&self) -> bool {
        false
    }
}
