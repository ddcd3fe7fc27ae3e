//! Hosts that the administrator named for third-party copies. No other place than this file, `connect_rules` and
//! `own_addresses` decides where clients can make this server connect to.
//!
//! First the host name is checked against the list, then each of its addresses. The server connects
//! to the checked address itself, so a later change of the name has no effect. If the list is
//! general (`*`), only addresses of the public network are allowed. A loopback, private or
//! link-local address must be listed itself, by its network, or by the full name of its host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use dewar_auth::Network;
use dewar_xrootd_client::{Endpoint, Error, Resolver, Result, system};
use futures_util::future::BoxFuture;

/// For the name service.
const RESOLVE_TIME: Duration = Duration::from_secs(5);

/// The lowest port that a rule without a port admits: below are services of other kinds.
const PORT_MIN: u16 = 1024;

/// One rule: a host's name, `*.domain`, `*`, an address or a network; with `:port` for that port
/// alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowRule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    /// With the dot before it.
    Domain(String),
    Name(String),
    Network(Network),
}

impl AllowRule {
    /// Parses a rule; `None` if it is invalid.
    #[must_use]
    pub fn parse(rule: &str) -> Option<Self> {
        let rule = rule.trim().to_ascii_lowercase();
        let (host, port) = match rule.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                // A network's length may stand behind the bracket.
                let (length, port) = rest
                    .split_once(':')
                    .map_or((rest, None), |(l, p)| (l, Some(p)));
                (format!("{host}{length}"), port.map(str::to_owned))
            }
            None if rule.matches(':').count() > 1 => (rule, None),
            None => match rule.split_once(':') {
                Some((host, port)) => (host.to_owned(), Some(port.to_owned())),
                None => (rule, None),
            },
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
            None => None,
        };
        Some(Self {
            hosts: Hosts::parse(&host)?,
            port,
        })
    }

    fn admits_port(&self, port: u16) -> bool {
        match self.port {
            Some(only) => port == only,
            None => port >= PORT_MIN,
        }
    }

    /// Whether a connection to an address of this host, in lower case, may be made.
    pub(crate) fn admits(&self, host: &str, port: u16, address: IpAddr) -> bool {
        self.admits_port(port)
            && match &self.hosts {
                Hosts::Any => is_public(address),
                Hosts::Domain(domain) => host.ends_with(domain.as_str()) && is_public(address),
                Hosts::Name(name) => host == *name,
                Hosts::Network(network) => network.contains(address),
            }
    }

    /// Whether this rule is for this host alone.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        self.admits_port(port)
            && match &self.hosts {
                Hosts::Name(name) => host == *name,
                Hosts::Network(network) => host
                    .parse()
                    .is_ok_and(|address: IpAddr| network.contains(address)),
                Hosts::Any | Hosts::Domain(_) => false,
            }
    }

    /// Whether a name may be looked up at all for this rule.
    pub(crate) fn may_admit(&self, host: &str, port: u16) -> bool {
        self.admits_port(port)
            && match &self.hosts {
                Hosts::Any | Hosts::Network(_) => true,
                Hosts::Domain(domain) => host.ends_with(domain.as_str()),
                Hosts::Name(name) => host == *name,
            }
    }
}

impl Hosts {
    fn parse(host: &str) -> Option<Self> {
        if host == "*" {
            return Some(Self::Any);
        }
        if let Some(network) = Network::parse(host) {
            return Some(Self::Network(network));
        }
        let (domain, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return None;
        }
        Some(match domain {
            true => Self::Domain(format!(".{name}")),
            false => Self::Name(name.to_owned()),
        })
    }
}

/// The list of rules; if it is empty, no source is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList(pub Vec<AllowRule>);

impl AllowList {
    /// The addresses of a host that may be connected to.
    ///
    /// # Errors
    /// [`Error::NotAllowed`], [`Error::Resolve`].
    async fn judged(&self, place: &Endpoint) -> Result<Vec<SocketAddr>> {
        let refused = |why: String| Error::NotAllowed {
            host: place.to_string(),
            why,
        };
        if !self
            .0
            .iter()
            .any(|rule| rule.may_admit(&place.host, place.port))
        {
            return Err(refused("it is not among the configured sources".to_owned()));
        }
        let found = system(place, RESOLVE_TIME).await?;
        let admitted: Vec<SocketAddr> = found
            .iter()
            .filter(|address| {
                let ip = address.ip().to_canonical();
                self.0
                    .iter()
                    .any(|rule| rule.admits(&place.host, place.port, ip))
            })
            .copied()
            .collect();
        if admitted.is_empty() {
            // Where names lead inside is nobody's business outside.
            return Err(refused(
                "its address is not among the configured sources".to_owned(),
            ));
        }
        Ok(admitted)
    }
}

impl Resolver for AllowList {
    fn resolve<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<Vec<SocketAddr>>> {
        Box::pin(self.judged(place))
    }
}

/// Whether an address belongs to the public network, as far as its number tells.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224.., ..)
    );
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let embedded = |high: u16, low: u16| {
        is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    match (a, b) {
        // Nothing, itself, mapped and compatible ones.
        (0, _) if [b, c, d, e] == [0; 4] => matches!(f, 0xffff) && embedded(g, h),
        // Translated by the network.
        (0x64, 0xff9b) => [c, d, e, f] == [0; 4] && embedded(g, h),
        // Carried over the fourth kind.
        (0x2002, _) => embedded(b, c),
        (0x2001, 0 | 0xdb8) => false,
        // Only this eighth was ever given out.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(rules: &[&str]) -> AllowList {
        AllowList(
            rules
                .iter()
                .map(|rule| AllowRule::parse(rule).expect("a rule"))
                .collect(),
        )
    }

    fn judge(rules: &[&str], place: &str, address: &str) -> bool {
        let place = Endpoint::parse(place, false).expect("a place");
        let address = address.parse().expect("an address");
        sources(rules)
            .0
            .iter()
            .any(|rule| rule.admits(&place.host, place.port, address))
    }

    #[test]
    fn what_is_not_public_must_be_listed_as_itself() {
        let inside = [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "100::1",
        ];
        for address in inside {
            assert!(!judge(&["*"], "evil.example", address), "{address}");
            assert!(!judge(&["*.example"], "evil.example", address), "{address}");
            assert!(
                judge(&["evil.example"], "evil.example", address),
                "{address}"
            );
        }
        for address in [
            "8.8.8.8",
            "128.142.1.1",
            "2001:1458::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert!(judge(&["*"], "any.example", address), "{address}");
            assert!(
                !judge(&[], "any.example", address) && !judge(&["other"], "any.example", address)
            );
        }
        assert!(judge(&["127.0.0.0/8"], "localhost", "127.0.0.1"));
        assert!(!judge(&["127.0.0.0/8"], "localhost", "::1"));
        assert!(
            judge(&["10.0.0.0/8"], "x", "10.255.0.1") && !judge(&["10.0.0.0/8"], "x", "11.0.0.1")
        );
        assert!(judge(&["10.0.0.0/8"], "x", "::ffff:10.0.0.1"));
        assert!(judge(&["fd00::/8"], "x", "fd12::1") && !judge(&["fd00::/8"], "x", "fe80::1"));
    }

    #[test]
    fn ports_of_other_services_are_not_asked() {
        assert!(!judge(&["*"], "x:25", "8.8.8.8") && !judge(&["x"], "x:80", "8.8.8.8"));
        assert!(judge(&["*", "x:80"], "x:80", "8.8.8.8") && !judge(&["x:80"], "x:1094", "8.8.8.8"));
        assert!(judge(&["[fd00::/8]:1095"], "x:1095", "fd00::1"));
        assert!(judge(&["[fd00::]/8:1095"], "x:1095", "fd00::1"));
    }

    #[test]
    fn rules_are_read() {
        for good in [
            "*",
            "*.cern.ch",
            "se.cern.ch:1094",
            "10.0.0.0/8",
            "::1",
            "[::1]:1094",
            "*:1094",
        ] {
            assert!(AllowRule::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "a b",
            "*.",
            "10.0.0.0/33",
            "x/8",
            "x:0",
            "x:y",
            "a*b",
            "[::1",
        ] {
            assert!(AllowRule::parse(bad).is_none(), "{bad}");
        }
    }

    #[tokio::test]
    async fn names_are_judged_by_where_they_lead() {
        let place = Endpoint::parse("localhost:2000", false).expect("a place");
        for rules in [&["*"][..], &["*.example"], &["10.0.0.0/8"], &[]] {
            let outcome = sources(rules).resolve(&place).await;
            assert!(
                matches!(outcome, Err(Error::NotAllowed { .. })),
                "{rules:?}"
            );
        }
        let found = sources(&["127.0.0.0/8"])
            .resolve(&place)
            .await
            .expect("admitted");
        assert!(found.iter().all(|address| address.is_ipv4()));
        // A number is a name too.
        let place = Endpoint::parse("127.0.0.1:2000", false).expect("a place");
        assert!(sources(&["*"]).resolve(&place).await.is_err());
    }
}
