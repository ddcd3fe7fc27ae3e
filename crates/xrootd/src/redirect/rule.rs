//! Configuration of other servers.

use std::net::IpAddr;

use dewar_auth::Network;
use dewar_xrootd_client::Endpoint;

/// When clients are sent to other servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectMode {
    /// When this server stops, instead of telling clients to come back.
    #[default]
    Stopping,
    /// Also while another server has clearly less load, or is nearer to the client.
    Balanced,
    /// Always: this server has no files, and authenticates no client.
    Always,
}

impl RedirectMode {
    /// As the configuration writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "stopping" => Self::Stopping,
            "balanced" => Self::Balanced,
            "always" => Self::Always,
            _ => return None,
        })
    }
}

/// Another server, and the clients that are near to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTarget {
    pub(crate) place: Endpoint,
    pub(crate) near: Option<Network>,
}

impl RedirectTarget {
    /// Parses `HOST[:PORT]`, or `HOST[:PORT]=NETWORK` for a server near to the clients of a
    /// network.
    #[must_use]
    pub fn parse(rule: &str) -> Option<Self> {
        let (place, near) = match rule.split_once('=') {
            Some((place, network)) => (place, Some(Network::parse(network.trim())?)),
            None => (rule, None),
        };
        let place = place.trim();
        // Users belong to clients.
        let place = Endpoint::parse(place, false)
            .ok()
            .filter(|_| !place.contains('@'))?;
        Some(Self { place, near })
    }

    pub(crate) fn is_near(&self, client: IpAddr) -> bool {
        self.near.is_some_and(|network| network.contains(client))
    }
}

/// The targets of redirection, and the cases in which clients are redirected.
#[derive(Clone, Debug, Default)]
pub struct Redirect {
    /// When.
    pub when: RedirectMode,
    /// Servers with the same files, for reading.
    pub reads: Vec<RedirectTarget>,
    /// Servers for requests that write or change names.
    pub writes: Vec<RedirectTarget>,
}

impl Redirect {
    /// Whether this server has no files of its own.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.when == RedirectMode::Always
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let near = RedirectTarget::parse("GW1.example.org:1095 = 10.2.0.0/16").expect("a rule");
        assert_eq!(near.place.to_string(), "gw1.example.org:1095");
        assert!(near.is_near("::ffff:10.2.3.4".parse().expect("an address")));
        assert!(!near.is_near("10.3.3.4".parse().expect("an address")));
        let plain = RedirectTarget::parse("[::1]").expect("a rule");
        assert_eq!(plain.place.to_string(), "[::1]:1094");
        assert!(!plain.is_near("::1".parse().expect("an address")));
        for bad in [
            "",
            "a b",
            "a:0",
            "a=",
            "a=b",
            "=10.0.0.0/8",
            "ann@a",
            "root://a",
        ] {
            assert_eq!(RedirectTarget::parse(bad), None, "{bad}");
        }
        assert_eq!(RedirectMode::parse("always"), Some(RedirectMode::Always));
        assert_eq!(RedirectMode::parse("Always"), None);
    }
}
