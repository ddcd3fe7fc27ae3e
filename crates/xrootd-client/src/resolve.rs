//! From names to addresses: the seam at which a server says which ones its clients may lead it to.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::limits::ADDRESSES_MAX;

/// Gives the addresses of a server, in the order in which they shall be tried. It is asked for every
/// server that is about to be connected to, those of redirections included, and nothing but what it
/// gives is connected to.
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

/// The addresses of a server as the system knows them, at most [`ADDRESSES_MAX`].
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
