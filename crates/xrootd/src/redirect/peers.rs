//! The other servers, watched.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dewar_xrootd_client::{
    Client, Endpoint, Error, Identity, Options, Resolver as _, SystemResolver,
};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::exclusions::ExcludedHosts;
use super::rule::{Redirect, RedirectTarget};
use super::selection::{NoServer, SelectionRequest, choose};

/// How often each is asked how it is, and how soon again one is that was not there.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long each step of asking may take.
const LOOK_TIME: Duration = Duration::from_secs(3);

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerStatus {
    /// It was asked at least once.
    pub(super) asked: bool,
    pub(super) there: bool,
    /// Connections that are open there, where it tells.
    pub(super) sessions: Option<u64>,
    /// Clients that were sent there since it told.
    pub(super) sent_since: u64,
    /// Clients that were sent there.
    pub(super) sent: u64,
    pub(super) addresses: Vec<IpAddr>,
}

/// A server.
pub(super) struct PeerServer {
    pub(super) place: Endpoint,
    known: Mutex<PeerStatus>,
}

impl PeerServer {
    pub(super) fn of(place: &Endpoint) -> Self {
        Self {
            place: place.clone(),
            known: Mutex::default(),
        }
    }

    /// Whether that is its name, or one of its addresses.
    pub(super) fn is(&self, host: &str, known: &PeerStatus) -> bool {
        self.place.host.eq_ignore_ascii_case(host)
            || host.parse().is_ok_and(|address: IpAddr| {
                let address = address.to_canonical();
                known.addresses.contains(&address)
                    || self
                        .place
                        .host
                        .parse()
                        .is_ok_and(|its: IpAddr| its == address)
            })
    }

    fn record(&self, there: bool, sessions: Option<u64>) {
        let mut known = self.known.lock();
        if known.there != there {
            let server = &self.place;
            match there {
                true => tracing::info!(%server, "clients can be sent there"),
                false => tracing::info!(%server, "clients cannot be sent there any more"),
            }
        }
        known.asked = true;
        known.there = there;
        known.sessions = sessions;
        known.sent_since = 0;
    }

    /// Watches it for ever.
    async fn watch(&self, client: &Client) {
        loop {
            self.probe(client).await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Watches it until it is not there, or once where it lets nobody in.
    async fn probe(&self, client: &Client) {
        if let Ok(found) = SystemResolver.resolve(&self.place).await {
            let found = found.iter().map(|address| address.ip().to_canonical());
            self.known.lock().addresses = found.collect();
        }
        let connection = match client.connect(&self.place).await {
            Ok(connection) => connection,
            // Who says that is there.
            Err(Error::Login { .. } | Error::Tls { .. } | Error::Server { .. }) => {
                return self.record(true, None);
            }
            Err(error) => {
                tracing::trace!(server = %self.place, %error, "not there");
                return self.record(false, None);
            }
        };
        loop {
            match connection.statistics().await {
                Ok(text) => self.record(true, sessions_in(&text)),
                Err(Error::Server { .. } | Error::Protocol(_)) => self.record(true, None),
                Err(_) => break,
            }
            // It ends when the server begins to stop, which must be known at once.
            let ended = tokio::time::timeout(LOOK_EVERY, connection.ended()).await;
            if ended.is_ok() {
                break;
            }
        }
        self.record(false, None);
    }
}

/// Connections that are open, as the statistics of a server have them.
fn sessions_in(text: &str) -> Option<u64> {
    let (_, links) = text.split_once("<stats id=\"link\">")?;
    let (_, number) = links.split_once("<num>")?;
    number.split('<').next()?.trim().parse().ok()
}

/// All other servers. They are watched as long as this lives.
pub(crate) struct Peers {
    rules: Redirect,
    all: BTreeMap<Endpoint, Arc<PeerServer>>,
    _watched: DropGuard,
}

/// Where a client is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RedirectAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Peers {
    /// Begins to watch them; must be called in a runtime.
    pub(crate) fn watch(rules: Redirect) -> Self {
        let stop = CancellationToken::new();
        let client = Client {
            identity: Identity {
                // Nothing is asked for that needs more than a hello.
                third_party: true,
                ..Identity::default()
            },
            options: Options {
                connect_time: LOOK_TIME,
                request_time: LOOK_TIME,
                wait_time: LOOK_TIME,
                stall_time: LOOK_TIME,
                ..Options::default()
            },
            ..Client::default()
        };
        let mut all = BTreeMap::new();
        for rule in rules.reads.iter().chain(&rules.writes) {
            let entry = all.entry(rule.place.clone());
            entry.or_insert_with(|| {
                let peer = Arc::new(PeerServer::of(&rule.place));
                let (watched, client, stop) = (Arc::clone(&peer), client.clone(), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => {}
                        () = watched.watch(&client) => {}
                    }
                });
                peer
            });
        }
        Self {
            rules,
            all,
            _watched: stop.drop_guard(),
        }
    }

    /// Those that do not answer.
    pub(crate) fn silent(&self) -> Vec<String> {
        let silent = |peer: &&Arc<PeerServer>| {
            let known = peer.known.lock();
            known.asked && !known.there
        };
        let all = self.all.values().filter(silent);
        all.map(|peer| peer.place.to_string()).collect()
    }

    pub(crate) fn rules(&self) -> &Redirect {
        &self.rules
    }

    /// Where a client shall go that was told to go, and must go on to.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn redirect(
        &self,
        writes: bool,
        client: IpAddr,
        tried: &ExcludedHosts<'_>,
    ) -> Result<RedirectAddress, NoServer> {
        let mut request = SelectionRequest {
            client,
            tried,
            again: false,
            here: None,
        };
        match self.choose(writes, &request) {
            Err(NoServer::AllTried) => {
                // Until all were asked anew: who was not there for the client is known to be away
                // by then, or is back.
                tokio::time::sleep(LOOK_EVERY + LOOK_EVERY / 2).await;
                request.again = true;
                self.choose(writes, &request)
            }
            outcome => outcome,
        }
    }

    /// Where a client had better go that could stay here, where so many sessions are open.
    pub(crate) fn better(
        &self,
        writes: bool,
        client: IpAddr,
        here: u64,
    ) -> Option<RedirectAddress> {
        let request = SelectionRequest {
            client,
            tried: &ExcludedHosts::default(),
            again: false,
            here: Some(here),
        };
        self.choose(writes, &request).ok()
    }

    fn choose(
        &self,
        writes: bool,
        request: &SelectionRequest<'_>,
    ) -> Result<RedirectAddress, NoServer> {
        let rules: &[RedirectTarget] = match writes {
            true => &self.rules.writes,
            false => &self.rules.reads,
        };
        let candidates: Vec<_> = rules
            .iter()
            .filter_map(|rule| {
                let peer = &**self.all.get(&rule.place)?;
                Some((rule, peer, peer.known.lock().clone()))
            })
            .collect();
        let peer = choose(&candidates, request)?;
        let mut known = peer.known.lock();
        known.sent += 1;
        known.sent_since += 1;
        Ok(RedirectAddress {
            host: match peer.place.host.contains(':') {
                true => format!("[{}]", peer.place.host),
                false => peer.place.host.clone(),
            },
            port: peer.place.port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_busy_servers_are_is_found_in_what_they_count() {
        let text = "<statistics tod=\"1\"><stats id=\"info\"><num>7</num></stats>\
                    <stats id=\"link\"><num>12</num><maxn>13</maxn></stats></statistics>";
        assert_eq!(sessions_in(text), Some(12));
        assert_eq!(sessions_in("<stats id=\"link\"><in>3</in></stats>"), None);
        assert_eq!(sessions_in(""), None);
    }
}
