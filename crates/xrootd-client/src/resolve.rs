//! Name resolution: the seam at which a server restricts the addresses to which clients may lead
//! it.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::limits::ADDRESSES_MAX;

/// Returns the addresses of a server, in the order in which they are tried. It is called before
/// every connection, also after redirections, and only its addresses are used.
pub trait Resolver: Send + Sync {
    /// # Errors
    /// [`Error::Resolve`], [`Error::NotAllowed`].
    fn resolve<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<Vec<SocketAddr>>>;
}

/// Asks the system and lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<Vec<SocketAddr>>> {
        Box::pin(system(place, Duration::from_secs(10)))
    }
}

/// The addresses of a server from the system's resolver, at most [`ADDRESSES_MAX`].
///
/// # Errors
/// [`Error::Resolve`], also after `limit`.
pub async fn system(place: &Endpoint, limit: Duration) -> Result<Vec<SocketAddr>> {
    let failed = |why: String| Error::Resolve {
        host: place.host.clone(),
        why,
    };
    let asked = tokio::net::lookup_host((place.host.as_str(), place.port));
    let found = tokio::time::timeout(limit, asked)
        .await
        .map_err(|_| failed(format!("no answer within {} s", limit.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    let found: Vec<_> = found.take(ADDRESSES_MAX).collect();
    if found.is_empty() {
        return Err(failed("it has no address".to_owned()));
    }
    Ok(found)
}
