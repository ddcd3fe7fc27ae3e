//! Networks: addresses that begin alike.

use std::net::{IpAddr, Ipv6Addr};

/// An address and how many of its upper bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Parses `address/bits`, or an address, which is a network of one. `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether it is at most a /8, or a /32 of IPv6. A policy with larger networks is public.
    #[must_use]
    pub fn is_narrow(self) -> bool {
        self.bits >= if self.address.is_ipv4() { 8 } else { 32 }
    }

    /// Whether an address is in it. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        let bits = self.bits;
        // The upper `bits` of both, in one number.
        let same = |a: u128, b: u128, width: u8| {
            bits == 0 || (a ^ b).checked_shr(u32::from(width - bits)) == Some(0)
        };
        match (address.to_canonical(), self.address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// The network that counts as one client: an IPv4 address, or 64 bits of IPv6, because a host can
/// choose its own address within them. Loopback stays as it is.
#[must_use]
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into()
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_networks_it_begins_with() {
        let holds = |network: &str, address: &str| {
            let network = Network::parse(network).expect("a network");
            network.contains(address.parse().expect("an address"))
        };
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"),
            ("10.0.0.1/32", "10.0.0.1", "10.0.0.0"),
            ("0.0.0.0/0", "255.0.0.1", "::1"),
            ("::/0", "ffff::1", "1.2.3.4"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
        ] {
            assert!(holds(network, inside), "{network} {inside}");
            assert!(!holds(network, outside), "{network} {outside}");
        }
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "a/8",
        ] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
