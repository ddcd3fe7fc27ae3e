//! The choice of the server that a client is sent to: a function of the known facts.

use std::net::IpAddr;

use super::exclusions::ExcludedHosts;
use super::peers::{PeerServer, PeerStatus};
use super::rule::RedirectTarget;

/// Another server is less busy by so many sessions at least, and has not half as many.
const FEWER_LEAST: u64 = 8;

/// Why there is no server to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoServer {
    /// None is configured for this.
    NotConfigured,
    /// None is there at the moment.
    NoneThere,
    /// The client was at all that are there, and none has the file.
    Missing,
    /// The client tried all servers that are present.
    AllTried,
}

/// What a client wants, and what it had.
pub(super) struct SelectionRequest<'a> {
    pub(super) client: IpAddr,
    pub(super) tried: &'a ExcludedHosts<'a>,
    /// Servers that were tried once may be tried again.
    pub(super) again: bool,
    /// Who sends it away, where it could stay: how many sessions are open here. Only a server that is
    /// clearly better is chosen then.
    pub(super) here: Option<u64>,
}

/// The best server for a client. `rules` and `peers` belong together.
pub(super) fn choose<'p>(
    candidates: &[(&RedirectTarget, &'p PeerServer, PeerStatus)],
    request: &SelectionRequest<'_>,
) -> Result<&'p PeerServer, NoServer> {
    if candidates.is_empty() {
        return Err(NoServer::NotConfigured);
    }
    let there = candidates.iter().filter(|(_, _, known)| known.there);
    let there: Vec<_> = there.collect();
    if there.is_empty() {
        return Err(NoServer::NoneThere);
    }
    let times_max = usize::from(request.again);
    let mut open: Vec<_> = there
        .into_iter()
        .filter(|(_, peer, known)| request.tried.times(|host| peer.is(host, known)) <= times_max)
        .map(|(rule, peer, known)| (rule.is_near(request.client), *peer, known))
        .collect();
    if open.is_empty() {
        return Err(match request.tried.only_missing() {
            true => NoServer::Missing,
            false => NoServer::AllTried,
        });
    }
    if let Some(here) = request.here {
        let lighter = |known: &PeerStatus| {
            let theirs = known.sessions.map(|sessions| sessions + known.sent_since);
            theirs.is_some_and(|theirs| theirs + FEWER_LEAST <= here && theirs < here / 2)
        };
        open.retain(|(near, _, known)| *near || lighter(known));
    }
    // Numbers of different kinds do not compare: where one server does not tell, turns are taken.
    let all_tell = open.iter().all(|(_, _, known)| known.sessions.is_some());
    let load = |known: &PeerStatus| match known.sessions {
        Some(sessions) if all_tell => sessions + known.sent_since,
        _ => 0,
    };
    let best = open
        .into_iter()
        .min_by_key(|(near, _, known)| (!near, load(known), known.sent));
    best.map(|(_, peer, _)| peer).ok_or(NoServer::NoneThere)
}

#[cfg(test)]
mod tests {
    use dewar_xrootd_proto::Cgi;

    use super::*;

    fn known(there: bool, sessions: Option<u64>, sent: u64) -> PeerStatus {
        PeerStatus {
            asked: true,
            there,
            sessions,
            sent_since: 0,
            sent,
            addresses: Vec::new(),
        }
    }

    /// Which of three servers is chosen; the third is near to 10.0.0.0/8.
    fn chosen(
        known: [PeerStatus; 3],
        client: &str,
        cgi: &str,
        again: bool,
        here: Option<u64>,
    ) -> String {
        let rules =
            ["a", "b", "c=10.0.0.0/8"].map(|rule| RedirectTarget::parse(rule).expect("a rule"));
        let peers: Vec<_> = rules
            .iter()
            .map(|rule| PeerServer::of(&rule.place))
            .collect();
        let candidates: Vec<_> = rules
            .iter()
            .zip(&peers)
            .zip(known)
            .map(|((rule, peer), known)| (rule, peer, known))
            .collect();
        let request = SelectionRequest {
            client: client.parse().expect("an address"),
            tried: &ExcludedHosts::of(Cgi(cgi)),
            again,
            here,
        };
        match choose(&candidates, &request) {
            Ok(peer) => peer.place.host.clone(),
            Err(refused) => format!("{refused:?}"),
        }
    }

    const FAR: &str = "192.0.2.1";

    #[test]
    fn the_nearest_is_taken_then_the_least_loaded_then_turns() {
        let some = |a, b, c| [known(true, a, 5), known(true, b, 4), known(true, c, 6)];
        assert_eq!(
            chosen(some(Some(3), Some(2), Some(9)), FAR, "", false, None),
            "b"
        );
        assert_eq!(
            chosen(some(Some(3), Some(2), Some(9)), "10.1.1.1", "", false, None),
            "c"
        );
        assert_eq!(
            chosen(some(Some(1), None, Some(9)), FAR, "", false, None),
            "b"
        );
        let mut busy = some(Some(3), Some(2), Some(9));
        busy[1].sent_since = 2;
        assert_eq!(chosen(busy, FAR, "", false, None), "a");
    }

    #[test]
    fn who_was_tried_or_is_away_is_not_taken() {
        let all = || [0; 3].map(|_| known(true, Some(0), 0));
        let with = |cgi: &str, again| chosen(all(), FAR, cgi, again, None);
        assert_eq!(with("tried=a", false), "b");
        assert_eq!(with("tried=a,B:1094", false), "c");
        assert_eq!(with("tried=a,b,c", false), "AllTried");
        assert_eq!(with("tried=a,b,c&triedrc=enoent,srverr", false), "AllTried");
        assert_eq!(with("tried=a,b,c&triedrc=enoent,enoent", false), "Missing");
        assert_eq!(with("tried=a,b,c,a", true), "b");
        assert_eq!(with("tried=a,b,c,c,a,b", true), "AllTried");
        let mut away = all();
        away[0].there = false;
        assert_eq!(chosen(away.clone(), FAR, "tried=b", false, None), "c");
        away[1].addresses = vec!["192.0.2.9".parse().expect("an address")];
        away[2].there = false;
        assert_eq!(
            chosen(away.clone(), FAR, "tried=192.0.2.9", false, None),
            "AllTried"
        );
        away[1].there = false;
        assert_eq!(chosen(away, FAR, "", false, None), "NoneThere");
    }

    #[test]
    fn who_has_the_file_sends_clients_away_only_to_what_is_clearly_better() {
        let all = |a, b| [known(true, a, 0), known(true, b, 0), known(false, None, 0)];
        let with = |a, b, here| chosen(all(a, b), FAR, "", false, Some(here));
        assert_eq!(with(Some(9), Some(10), 20), "a");
        assert_eq!(with(Some(10), Some(10), 20), "NoneThere");
        assert_eq!(with(Some(0), Some(10), 7), "NoneThere");
        assert_eq!(with(None, None, 1000), "NoneThere");
        let near = [0; 3].map(|_| known(true, Some(50), 0));
        assert_eq!(chosen(near, "10.0.0.1", "", false, Some(1)), "c");
    }
}
