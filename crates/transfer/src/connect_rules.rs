//! The rules for connections of HTTP copies.
//!
//! Hosts of the public network are allowed on the usual ports of storage. The list of the administrator
//! adds others, such as hosts of the site's own networks. Every address is judged when the connection
//! is made, after its name was resolved, and again after each redirect. An address that
//! embeds an IPv4 address is judged by that one too.

use std::net::SocketAddr;

use crate::allow_list::{AllowList, is_public};
use crate::own_addresses::{OwnAddresses, embedded, is_local};

/// Ports of hosts that no rule names.
pub const PORTS: [u16; 4] = [443, 1094, 2880, 8443];

/// The rules for connections to the other side of a copy.
#[derive(Clone, Debug)]
pub struct ConnectRules {
    /// Hosts and networks that are allowed beside the public ones; a rule without a port allows port
    /// 1024 and above.
    pub allow: AllowList,
    /// Whether hosts of the public network that no rule names are allowed.
    pub public: bool,
    /// The ports of such hosts.
    pub ports: Vec<u16>,
    /// The addresses on which this process listens. No rule allows them.
    pub own: OwnAddresses,
    /// The names by which clients know this service, in lower case, such as the hosts of its public URLs. A
    /// rule must name such a host itself.
    pub own_hosts: Vec<String>,
}

impl Default for ConnectRules {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            public: true,
            ports: PORTS.to_vec(),
            own: OwnAddresses::default(),
            own_hosts: Vec::new(),
        }
    }
}

/// Why a connection is not allowed. The words do not say where a name leads, which is nobody's
/// business outside.
pub(crate) type Refusal = &'static str;

impl ConnectRules {
    /// Judges a host before its name is resolved: a name at a port that no rule admits is not looked up.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn judge_host(&self, host: &str, port: u16) -> Result<(), Refusal> {
        let mut rules = self.allow.0.iter();
        // It may lead to a balancer before this server, whose address is not one of this machine.
        if self.own_hosts.iter().any(|own| own == host) && !rules.any(|rule| rule.names(host, port))
        {
            return Err("it is this server itself");
        }
        let listed = self.public && self.ports.contains(&port);
        match listed || self.allow.0.iter().any(|rule| rule.may_admit(host, port)) {
            true => Ok(()),
            false => Err("the host or the port is not among those allowed"),
        }
    }

    /// The addresses of a host that may be connected to.
    ///
    /// # Errors
    /// Why none may.
    pub(crate) fn judge_addresses(
        &self,
        host: &str,
        found: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, Refusal> {
        // A name that leads here is refused as a whole: its other addresses may lead here tomorrow.
        if found.iter().any(|address| self.own.contain(*address)) {
            return Err("it is this server itself");
        }
        let admitted = |address: &&SocketAddr| self.admits(host, **address);
        let admitted: Vec<SocketAddr> = found.iter().filter(admitted).copied().collect();
        match admitted.is_empty() {
            true => Err("the address or the port is not among those allowed"),
            false => Ok(admitted),
        }
    }

    fn admits(&self, host: &str, address: SocketAddr) -> bool {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        let forms = [Some(ip), embedded(ip)];
        // Other services of this machine listen on its public address, too.
        let is_here = || forms.into_iter().flatten().any(is_local);
        let listed = self.public && self.ports.contains(&port) && is_public(ip);
        // A rule for an IPv4 network also admits what is translated to it.
        listed && !is_here()
            || forms.into_iter().flatten().any(|ip| {
                let mut rules = self.allow.0.iter();
                rules.any(|rule| rule.admits(host, port, ip))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allow_list::AllowRule;

    fn rules(allow: &[&str], own: &[&str]) -> ConnectRules {
        let rules = allow
            .iter()
            .map(|rule| AllowRule::parse(rule).expect("a rule"));
        let own: Vec<SocketAddr> = own
            .iter()
            .map(|text| text.parse().expect("valid"))
            .collect();
        ConnectRules {
            allow: AllowList(rules.collect()),
            own: OwnAddresses::new(&own),
            ..ConnectRules::default()
        }
    }

    fn judge(rules: &ConnectRules, address: &str) -> bool {
        let address: SocketAddr = address.parse().expect("an address");
        rules.judge_host("host.example", address.port()).is_ok()
            && rules.judge_addresses("host.example", &[address]).is_ok()
    }

    /// Addresses that no client may reach without a rule for them.
    const INSIDE: [&str; 30] = [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:102:304::80ff:fffe]",
        "[2001:db8::1]",
        "[fd00::1]",
        "[fe80::1]",
        "[ff02::1]",
    ];

    #[test]
    fn only_the_public_network_is_open_by_itself() {
        let open = rules(&[], &[]);
        for ip in INSIDE {
            assert!(!judge(&open, &format!("{ip}:443")), "{ip}");
            let named = rules(&["host.example"], &[]);
            assert!(judge(&named, &format!("{ip}:1094")), "{ip}");
            // Rules for many hosts do not open networks of the site.
            for many in ["*", "*.example"] {
                assert!(!judge(&rules(&[many], &[]), &format!("{ip}:1094")), "{ip}");
            }
        }
        let closed = ConnectRules {
            public: false,
            ..rules(&[], &[])
        };
        for ip in [
            "8.8.8.8",
            "128.142.1.1",
            "[2001:1458::1]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::808:808]",
            "[2002:808:808::]",
        ] {
            assert!(judge(&open, &format!("{ip}:443")), "{ip}");
            assert!(!judge(&closed, &format!("{ip}:443")), "{ip}");
        }
    }

    #[test]
    fn ports_are_listed() {
        let open = rules(&["*.example:9000"], &[]);
        for port in PORTS {
            assert!(judge(&open, &format!("8.8.8.8:{port}")), "{port}");
        }
        for port in [22, 25, 80, 6379, 8080, 9001] {
            assert!(!judge(&open, &format!("8.8.8.8:{port}")), "{port}");
        }
        assert!(judge(&open, "8.8.8.8:9000"));
    }

    #[test]
    fn a_network_is_named_in_any_form() {
        let site = rules(&["10.0.0.0/8", "fd00::/8"], &[]);
        for inside in [
            "10.9.8.7:1094",
            "[::ffff:10.9.8.7]:1094",
            "[64:ff9b::a09:807]:1094",
            "[2002:a09:807::1]:1094",
            "[fd12::1]:8443",
        ] {
            assert!(judge(&site, inside), "{inside}");
        }
        for outside in ["11.0.0.1:80", "127.0.0.1:1094", "[fe80::1]:1094"] {
            assert!(!judge(&site, outside), "{outside}");
        }
    }

    #[test]
    fn other_services_of_this_machine_need_a_rule() {
        // It may have no address of the public network: then its own names remain.
        let probe = std::net::UdpSocket::bind("0.0.0.0:0").expect("bound");
        if probe.connect("198.51.100.1:9").is_ok() {
            let ip = probe.local_addr().expect("bound").ip();
            let here = format!("{ip}:1094");
            assert!(!judge(&rules(&[], &["0.0.0.0:8443"]), &here));
            let named = rules(&[&ip.to_string()], &["0.0.0.0:8443"]);
            assert!(judge(&named, &here));
            assert!(!judge(&named, &format!("{ip}:8443")));
        }
        for (allow, admitted) in [
            (&[][..], false),
            (&["*"], false),
            (&["*.example"], false),
            (&["10.0.0.0/8"], false),
            (&["host.example"], true),
        ] {
            let rules = ConnectRules {
                own_hosts: vec!["host.example".to_owned()],
                ..rules(allow, &[])
            };
            assert_eq!(judge(&rules, "8.8.8.8:1094"), admitted, "{allow:?}");
            assert!(rules.judge_host("other.example", 1094).is_ok());
        }
    }

    #[test]
    fn no_rule_opens_this_server() {
        let allow = ["127.0.0.0/8", "::1", "host.example", "*"];
        for listener in ["127.0.0.1:8443", "0.0.0.0:8443", "[::]:8443"] {
            let rules = rules(&allow, &[listener]);
            for own in [
                "127.0.0.1:8443",
                "[::ffff:127.0.0.1]:8443",
                "[64:ff9b::7f00:1]:8443",
                "[2002:7f00:1::]:8443",
                "[2001:0:102:304::80ff:fffe]:8443",
                "[::127.0.0.1]:8443",
            ] {
                assert!(!judge(&rules, own), "{listener} {own}");
            }
            assert!(judge(&rules, "127.0.0.1:8444"), "{listener}");
            // One address of a name is enough.
            let name: Vec<SocketAddr> = ["8.8.8.8:8443", "127.0.0.1:8443"]
                .map(|text| text.parse().expect("valid"))
                .into();
            assert!(rules.judge_addresses("host.example", &name).is_err());
        }
    }
}
