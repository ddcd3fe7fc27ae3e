//! A connection, as the listener that accepted it counts it.

/// An accepted connection. Until its client has authenticated, it counts against the connections that
/// one address may hold, and is closed sooner when few are left for others.
pub trait AcceptedConnection: Send + Sync {
    /// The client has authenticated: with a signed request, or a login with a credential. Further calls
    /// change nothing.
    fn authenticated(&self);

    /// Whether few connections are left, so that clients that have not authenticated shall not stay long.
    fn is_crowded(&self) -> bool;
}

/// A connection that nobody counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct UncountedConnection;

impl AcceptedConnection for UncountedConnection {
    fn authenticated(&self) {}

    fn is_crowded(&self) -> bool {
        false
    }
}
