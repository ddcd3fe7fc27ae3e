//! The endpoints of a storage report: the addresses of the listeners, as clients know them.

use std::net::SocketAddr;

use http::Uri;

use super::document::{ALL, StorageEndpoint};
use crate::listener::ListenerAddress;

/// A configured address of this service.
struct PublicUrl<'a> {
    text: &'a str,
    scheme: String,
    host: String,
    port: u16,
}

impl<'a> PublicUrl<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?.to_owned();
        let port = uri.port_u16().unwrap_or(match scheme.as_str() {
            "https" => 443,
            _ => 80,
        });
        Some(Self {
            text,
            host: uri.host()?.to_owned(),
            scheme,
            port,
        })
    }

    fn is_of(&self, listener: &ListenerAddress) -> bool {
        self.scheme == listener.scheme && self.port == listener.address.port()
    }

    fn url(&self) -> String {
        format!("{}/", self.text.trim_end_matches('/'))
    }
}

/// The name of the service: the host of its first public address, or of this machine.
pub(super) fn service_name(public_urls: &[String]) -> String {
    let mut urls = public_urls.iter().filter_map(|text| PublicUrl::parse(text));
    match urls.next() {
        Some(url) => url.host,
        None => machine_name(),
    }
}

fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    match name.as_deref().map(str::trim) {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "localhost".to_owned(),
    }
}

/// One endpoint for each address of the listeners. A listener for HTTP has the public addresses with its
/// port. Those with the port of no listener lead to a proxy and count as WebDAV. Other addresses have the
/// host of the first public address, except those of this machine alone.
pub(super) fn endpoints(
    listeners: &[ListenerAddress],
    public_urls: &[String],
) -> Vec<StorageEndpoint> {
    let urls = public_urls.iter().filter_map(|text| PublicUrl::parse(text));
    let urls: Vec<PublicUrl<'_>> = urls.collect();
    let unclaimed = urls
        .iter()
        .filter(|url| !listeners.iter().any(|listener| url.is_of(listener)));
    let unclaimed: Vec<&PublicUrl<'_>> = unclaimed.collect();
    let mut endpoints = Vec::<StorageEndpoint>::new();
    for listener in listeners {
        let Some(kind) = interface(listener) else {
            continue;
        };
        let claimed = urls.iter().filter(|url| url.is_of(listener));
        let mut own: Vec<(&'static str, String)> = claimed.map(|url| (kind, url.url())).collect();
        if listener.name == "webdav" {
            own.extend(unclaimed.iter().map(|url| {
                let kind = if url.scheme == "https" {
                    "https"
                } else {
                    "http"
                };
                (kind, url.url())
            }));
        }
        if own.is_empty() {
            own.push((kind, own_url(listener, urls.first())));
        }
        for (interfacetype, endpointurl) in own {
            if endpoints
                .iter()
                .any(|known| known.endpointurl == endpointurl)
            {
                continue;
            }
            let same = endpoints
                .iter()
                .filter(|known| known.interfacetype == interfacetype);
            let name = match same.count() {
                0 => interfacetype.to_owned(),
                before => format!("{interfacetype}-{}", before + 1),
            };
            endpoints.push(StorageEndpoint {
                name,
                endpointurl,
                interfacetype,
                qualitylevel: "production",
                assignedshares: vec![ALL],
            });
        }
    }
    endpoints
}

/// The protocol of a listener for data.
fn interface(listener: &ListenerAddress) -> Option<&'static str> {
    match listener.name {
        "s3" => Some("s3"),
        "webdav" | "xrootd" => Some(listener.scheme),
        _ => None,
    }
}

fn own_url(listener: &ListenerAddress, public: Option<&PublicUrl<'_>>) -> String {
    let (scheme, address) = (listener.scheme, listener.address);
    let port = address.port();
    match public {
        _ if address.ip().is_loopback() => url(scheme, address),
        Some(public) => format!("{scheme}://{}:{port}/", public.host),
        None if address.ip().is_unspecified() => format!("{scheme}://{}:{port}/", machine_name()),
        None => url(scheme, address),
    }
}

fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &'static str, scheme: &'static str, address: &str) -> ListenerAddress {
        ListenerAddress {
            name,
            scheme,
            address: address.parse().expect("an address"),
        }
    }

    fn urls(listeners: &[ListenerAddress], public: &[&str]) -> Vec<(String, String)> {
        let public: Vec<String> = public.iter().map(|url| (*url).to_owned()).collect();
        let found = endpoints(listeners, &public).into_iter();
        found.map(|found| (found.name, found.endpointurl)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        owned.collect()
    }

    #[test]
    fn addresses_are_shown_as_clients_know_them() {
        let all = [
            listener("s3", "https", "[::]:9000"),
            listener("webdav", "https", "[::]:443"),
            listener("xrootd", "roots", "192.0.2.7:1094"),
            listener("metrics", "http", "127.0.0.1:9001"),
        ];
        let public = ["https://se.example.org", "https://se.example.org:9000/"];
        assert_eq!(
            urls(&all, &public),
            pairs(&[
                ("s3", "https://se.example.org:9000/"),
                ("https", "https://se.example.org/"),
                ("roots", "roots://se.example.org:1094/"),
            ])
        );
        // Behind a proxy, on another port.
        assert_eq!(
            urls(&all[..2], &["https://proxy.example.org:8443"]),
            pairs(&[
                ("s3", "https://proxy.example.org:9000/"),
                ("https", "https://proxy.example.org:8443/"),
            ])
        );
        let bare = [
            listener("webdav", "http", "127.0.0.1:8080"),
            listener("webdav", "http", "[2001:db8::1]:8080"),
        ];
        assert_eq!(
            urls(&bare, &[]),
            pairs(&[
                ("http", "http://127.0.0.1:8080/"),
                ("http-2", "http://[2001:db8::1]:8080/"),
            ])
        );
    }
}
