//! Resolving of names, on threads of their own.
//!
//! The system's resolver blocks its thread, for half a minute if a name server is dead. Clients choose
//! the names, so their lookups must not use up the threads on which other work of the server blocks.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use crate::limits::{ADDRESSES_MAX, RESOLVERS_MAX};

/// Resolves names on at most [`RESOLVERS_MAX`] threads.
#[derive(Debug)]
pub(crate) struct NameResolver {
    threads: Arc<Semaphore>,
}

impl Default for NameResolver {
    fn default() -> Self {
        Self {
            threads: Arc::new(Semaphore::new(RESOLVERS_MAX)),
        }
    }
}

impl NameResolver {
    /// The addresses of a host; a number is its own address.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        port: u16,
        limit: Duration,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let asked = timeout(limit, self.look_up(host.to_owned(), port)).await;
        let found = asked.map_err(|_| format!("no answer within {} s", limit.as_secs()))??;
        match found.is_empty() {
            true => Err("it has no address".to_owned()),
            false => Ok(found),
        }
    }

    async fn look_up(&self, host: String, port: u16) -> Result<Vec<SocketAddr>, String> {
        let permit = Arc::clone(&self.threads).acquire_owned().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let (send, receive) = oneshot::channel();
        let thread = std::thread::Builder::new().name("resolver".to_owned());
        let spawned = thread.spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs();
            let found = found.map(|found| found.take(ADDRESSES_MAX).collect());
            // The thread counts until it ends, also if nobody waits for it any more.
            drop(permit);
            let _ = send.send(found);
        });
        spawned.map_err(|error| error.to_string())?;
        let found = receive.await.map_err(|error| error.to_string())?;
        found.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn names_and_numbers_have_addresses() {
        let resolver = NameResolver::default();
        let found = resolver.addresses("localhost", 7, LIMIT).await;
        let found = found.expect("resolved");
        assert!(
            found
                .iter()
                .all(|one| one.ip().is_loopback() && one.port() == 7)
        );
        let number = resolver.addresses("::1", 7, LIMIT).await.expect("a number");
        assert_eq!(number, ["[::1]:7".parse().expect("valid")]);
        assert!(resolver.addresses("no such name", 7, LIMIT).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_wait_for_a_thread_and_not_for_ever() {
        let resolver = NameResolver::default();
        let all = u32::try_from(RESOLVERS_MAX).expect("few");
        let held = resolver.threads.acquire_many(all).await.expect("open");
        let waited = resolver.addresses("localhost", 7, LIMIT).await;
        assert_eq!(waited, Err("no answer within 30 s".to_owned()));
        // Numbers need no thread.
        assert!(resolver.addresses("127.0.0.1", 7, LIMIT).await.is_ok());
        drop(held);
    }
}
