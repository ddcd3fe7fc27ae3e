//! Resolving of names, on threads of their own.
//!
//! The system's resolver blocks its thread, for half a minute if a name server is dead. Clients choose
//! the names, so their lookups must not use up the threads on which other work of the server blocks.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, timeout};

use crate::limits::{ADDRESSES_MAX, NAMES_MAX, RESOLVED_TIME, RESOLVER_WAIT_TIME, RESOLVERS_MAX};

/// Resolves names on at most [`RESOLVERS_MAX`] threads. Copies that ask for one name at the same time, or within
/// [`RESOLVED_TIME`], cause one lookup.
#[derive(Debug)]
pub(crate) struct NameResolver {
    threads: Arc<Semaphore>,
    names: Mutex<HashMap<String, Lookup>>,
}

/// The addresses of a name, or why there are none.
type Resolved = Result<Vec<IpAddr>, String>;

#[derive(Debug)]
struct Lookup {
    state: watch::Receiver<LookupState>,
}

#[derive(Clone, Debug)]
enum LookupState {
    /// All threads are busy.
    Waits,
    Runs,
    Ended(Instant, Resolved),
}

impl Default for NameResolver {
    fn default() -> Self {
        Self {
            threads: Arc::new(Semaphore::new(RESOLVERS_MAX)),
            names: Mutex::default(),
        }
    }
}

impl NameResolver {
    /// The addresses of a host; a number is its own address. `limit` is for the lookup itself.
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
        let mut state = self.look_up(host)?;
        let begun = state.wait_for(|state| !matches!(state, LookupState::Waits));
        let begun = timeout(RESOLVER_WAIT_TIME, begun).await;
        let busy = |_| "too many other names are looked up".to_owned();
        begun.map_err(busy)?.map_err(|error| error.to_string())?;
        let ended = state.wait_for(|state| matches!(state, LookupState::Ended(..)));
        let ended = timeout(limit, ended).await;
        let ended = ended.map_err(|_| format!("no answer within {} s", limit.as_secs()))?;
        let ended = ended.map_err(|error| error.to_string())?;
        let LookupState::Ended(_, found) = &*ended else {
            return Err("the lookup ended early".to_owned());
        };
        let found = found.clone()?;
        match found.is_empty() {
            true => Err("it has no address".to_owned()),
            false => Ok(found
                .into_iter()
                .map(|ip| SocketAddr::new(ip, port))
                .collect()),
        }
    }

    /// The lookup of a name: one that is known, or a new one.
    fn look_up(&self, host: &str) -> Result<watch::Receiver<LookupState>, String> {
        let mut names = self.names.lock();
        names.retain(|_, lookup| match &*lookup.state.borrow() {
            LookupState::Ended(when, _) => when.elapsed() < RESOLVED_TIME,
            _ => lookup.state.has_changed().is_ok(),
        });
        if let Some(lookup) = names.get(host) {
            return Ok(lookup.state.clone());
        }
        if names.len() >= NAMES_MAX {
            return Err("too many names are looked up".to_owned());
        }
        let (sender, state) = watch::channel(LookupState::Waits);
        let known = Lookup {
            state: state.clone(),
        };
        names.insert(host.to_owned(), known);
        let (threads, host) = (Arc::clone(&self.threads), host.to_owned());
        // It goes on if the copy that began it ends, because others may wait for it.
        tokio::spawn(async move {
            let found = resolve(threads, host, &sender).await;
            sender.send_replace(LookupState::Ended(Instant::now(), found));
        });
        Ok(state)
    }
}

async fn resolve(
    threads: Arc<Semaphore>,
    host: String,
    state: &watch::Sender<LookupState>,
) -> Resolved {
    let permit = threads.acquire_owned().await;
    let permit = permit.map_err(|error| error.to_string())?;
    state.send_replace(LookupState::Runs);
    let (send, receive) = oneshot::channel();
    let thread = std::thread::Builder::new().name("resolver".to_owned());
    let spawned = thread.spawn(move || {
        let found = (host.as_str(), 0).to_socket_addrs();
        let found = found.map(|found| found.take(ADDRESSES_MAX).map(|one| one.ip()).collect());
        // The thread counts until it ends, also if nobody waits for it any more.
        drop(permit);
        let _ = send.send(found);
    });
    spawned.map_err(|error| error.to_string())?;
    let found = receive.await.map_err(|error| error.to_string())?;
    found.map_err(|error| error.to_string())
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
        let held = Arc::clone(&resolver.threads);
        let held = held.acquire_many_owned(all).await.expect("open");
        let waited = resolver.addresses("localhost", 7, LIMIT).await;
        assert_eq!(waited, Err("too many other names are looked up".to_owned()));
        // Numbers need no thread.
        assert!(resolver.addresses("127.0.0.1", 7, LIMIT).await.is_ok());
        // The time in the queue is not that of the lookup, and one lookup is for all who ask.
        let ask = || resolver.addresses("localhost", 7, LIMIT);
        let free = async {
            tokio::time::sleep(LIMIT + Duration::from_secs(1)).await;
            // The system's resolver has its own time.
            tokio::time::resume();
            drop(held);
        };
        let (one, other, ()) = tokio::join!(ask(), ask(), free);
        assert!(one.is_ok() && one == other);
        assert_eq!(resolver.names.lock().len(), 1);
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_a_while() {
        let resolver = NameResolver::default();
        let first = resolver.addresses("localhost", 7, LIMIT).await;
        tokio::time::pause();
        let all = u32::try_from(RESOLVERS_MAX).expect("few");
        let _held = resolver.threads.acquire_many(all).await.expect("open");
        let again = resolver.addresses("localhost", 8, LIMIT).await;
        assert_eq!(first.expect("resolved").len(), again.expect("known").len());
        tokio::time::advance(RESOLVED_TIME).await;
        assert!(resolver.addresses("localhost", 7, LIMIT).await.is_err());
    }
}
