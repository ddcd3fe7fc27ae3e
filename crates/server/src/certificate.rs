//! The facts in a certificate: the names that it covers, and when it ends.

use std::net::IpAddr;

use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// The names and the end of a certificate chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// DNS names of the server's own certificate, in lower case; the first label may be `*`.
    pub names: Vec<String>,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// When the first certificate of the chain ends, in seconds since 1970.
    pub expires: i64,
}

impl CertificateFacts {
    /// Reads a chain, the server's own certificate first. `None` if a certificate is malformed, or
    /// there is none.
    #[must_use]
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let mut facts = Self {
            names: Vec::new(),
            addresses: Vec::new(),
            expires: i64::MAX,
        };
        for (depth, der) in chain.iter().enumerate() {
            let (_, certificate) = parse_x509_certificate(der).ok()?;
            let ends = certificate.validity().not_after.timestamp();
            facts.expires = facts.expires.min(ends);
            if depth > 0 {
                continue;
            }
            let names = certificate.subject_alternative_name().ok()?;
            for name in names.iter().flat_map(|names| &names.value.general_names) {
                match name {
                    GeneralName::DNSName(name) => facts.names.push(name.to_ascii_lowercase()),
                    GeneralName::IPAddress(bytes) => facts.addresses.extend(address(bytes)),
                    _ => {}
                }
            }
        }
        (!chain.is_empty()).then_some(facts)
    }

    /// Whether clients accept the certificate for a host: a name, or an address in URL form. As clients
    /// do, this looks at the alternative names only, and `*` stands for one label.
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(domain) => host
                .split_once('.')
                .is_some_and(|(label, rest)| !label.is_empty() && rest == domain),
            None => *name == host,
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::generate_simple_self_signed;

    use super::*;

    #[test]
    fn a_certificate_covers_its_alternative_names() {
        let names = [
            "SE.example.org",
            "*.s3.example.org",
            "192.0.2.7",
            "2001:db8::1",
        ];
        let made = generate_simple_self_signed(names.map(str::to_owned)).expect("a certificate");
        let chain = [made.cert.der().clone()];
        let facts = CertificateFacts::of(&chain).expect("well formed");
        for host in [
            "se.example.org",
            "Se.Example.org.",
            "bucket.s3.example.org",
            "192.0.2.7",
            "[2001:db8::1]",
        ] {
            assert!(facts.covers(host), "{host}");
        }
        for host in [
            "example.org",
            "other.example.org",
            "s3.example.org",
            ".s3.example.org",
            "a.b.s3.example.org",
            "192.0.2.8",
        ] {
            assert!(!facts.covers(host), "{host}");
        }
        assert_eq!(CertificateFacts::of(&[]), None);
        let cut = [CertificateDer::from(chain[0][..40].to_vec())];
        assert_eq!(CertificateFacts::of(&cut), None);
    }
}
