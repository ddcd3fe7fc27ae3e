//! A connection, as the listener that accepted it counts it.

/// An accepted connection. Until its client has authenticated, it counts against the limit of its
/// address. It is also closed sooner when few connections are left for others.
pub trait AcceptedConnection: Send + Sync {
    /// Reports that the client has authenticated: with a signed request, or a login. Further calls
    /// have no effect.
    fn authenticated(&self);

    /// Whether few connections are left, so that clients without authentication must not stay long.
    fn is_crowded(&self) -> bool;
}

/// A connection without a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct UncountedConnection;

impl AcceptedConnection for UncountedConnection {
    fn authenticated(&self) {}

    fn is_crowded(&self) -> bool {
        false
    }
}
