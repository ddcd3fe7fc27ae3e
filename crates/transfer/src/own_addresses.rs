//! Addresses on which this process itself listens.
//!
//! A copy that a client asks for must not come from this server. The server would connect from its own
//! address, and policies that trust this address would trust the client that started the copy. An
//! XRootD copy with a key is allowed, since the client that left the key is judged by its own address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use dewar_xrootd_client::{Endpoint, Error, Resolver, Result};
use futures_util::future::BoxFuture;

use crate::allow_list::AllowList;

/// The addresses and ports on which this process listens.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses(Arc<[SocketAddr]>);

impl OwnAddresses {
    /// Those of these listeners. An unspecified address stands for all addresses of this machine.
    #[must_use]
    pub fn new(listeners: &[SocketAddr]) -> Self {
        Self(listeners.into())
    }

    /// Whether a connection to this address would reach this process.
    pub(crate) fn contain(&self, address: SocketAddr) -> bool {
        let forms = [Some(address.ip()), embedded(address.ip())];
        let mut forms = forms.into_iter().flatten();
        forms.any(|ip| self.contain_form(ip.to_canonical(), address.port()))
    }

    fn contain_form(&self, ip: IpAddr, port: u16) -> bool {
        self.0.iter().any(|listener| {
            let own = listener.ip().to_canonical();
            listener.port() == port
                && (own == ip || (own.is_unspecified() || ip.is_unspecified()) && is_local(ip))
        })
    }
}

/// The configured sources of XRootD copies, without this process itself.
pub struct RemoteAllowList {
    /// The configured sources.
    pub sources: Arc<AllowList>,
    /// This process.
    pub own: OwnAddresses,
}

impl RemoteAllowList {
    async fn judged(&self, place: &Endpoint) -> Result<Vec<SocketAddr>> {
        let found = self.sources.resolve(place).await?;
        match found.iter().any(|address| self.own.contain(*address)) {
            true => Err(Error::NotAllowed {
                host: place.to_string(),
                why: "it is this server itself, which a copy with a token must not come from"
                    .to_owned(),
            }),
            false => Ok(found),
        }
    }
}

impl Resolver for RemoteAllowList {
    fn resolve<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<Vec<SocketAddr>>> {
        Box::pin(self.judged(place))
    }
}

/// Whether an address belongs to this machine: the kernel would connect to it from itself. Nothing is sent.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The port of `discard`; any would do.
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|from| from.ip() == ip)
}

/// The IPv4 address that an IPv6 address leads to: IPv4-mapped and IPv4-compatible (RFC 4291), NAT64
/// (RFC 6052), 6to4 (RFC 3056), and the client of Teredo (RFC 4380).
pub(crate) fn embedded(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(ip) = address else {
        return None;
    };
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let found = match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] if ip > Ipv6Addr::LOCALHOST => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        [0x2001, 0, .., high, low] => v4(!high, !low),
        _ => return None,
    };
    Some(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allow_list::AllowRule;

    fn others(listeners: &[&str]) -> RemoteAllowList {
        let listeners: Vec<SocketAddr> = listeners
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        RemoteAllowList {
            sources: Arc::new(AllowList(vec![
                AllowRule::parse("127.0.0.0/8").expect("a rule"),
            ])),
            own: OwnAddresses::new(&listeners),
        }
    }

    #[test]
    fn a_listener_is_known_by_each_of_its_addresses() {
        let here = |listener: &str, address: &str| {
            others(&[listener])
                .own
                .contain(address.parse().expect("an address"))
        };
        for listener in ["127.0.0.1:1094", "0.0.0.0:1094", "[::]:1094"] {
            assert!(here(listener, "127.0.0.1:1094"), "{listener}");
            assert!(here(listener, "[::ffff:127.0.0.1]:1094"), "{listener}");
            // Through NAT64 and 6to4.
            assert!(here(listener, "[64:ff9b::7f00:1]:1094"), "{listener}");
            assert!(here(listener, "[2002:7f00:1::]:1094"), "{listener}");
            assert!(!here(listener, "127.0.0.1:1095"), "{listener}");
            assert!(!here(listener, "192.0.2.1:1094"), "{listener}");
        }
        assert!(here("127.0.0.1:1094", "0.0.0.0:1094"));
        assert!(here("0.0.0.0:1094", "127.0.1.1:1094") && here("[::]:1094", "[::1]:1094"));
        assert!(!here("127.0.0.1:1094", "127.0.0.2:1094"));
        // It is known by each of its other addresses, too.
        let probe = UdpSocket::bind("0.0.0.0:0").expect("bound");
        if probe.connect("198.51.100.1:9").is_ok() {
            let ip = probe.local_addr().expect("bound").ip();
            assert!(here("0.0.0.0:1094", &format!("{ip}:1094")));
        }
    }

    #[tokio::test]
    async fn a_copy_with_a_token_does_not_come_from_here() {
        let others = others(&["127.0.0.1:1094"]);
        let judged = async |place: &str| {
            let place = Endpoint::parse(place, false).expect("a place");
            others.resolve(&place).await
        };
        let refused = judged("127.0.0.1:1094").await;
        assert!(
            matches!(refused, Err(Error::NotAllowed { .. })),
            "{refused:?}"
        );
        judged("127.0.0.1:1095").await.expect("another server");
    }
}
