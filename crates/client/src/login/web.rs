//! One request to a provider or a storage endpoint. It sends JSON or a form, and receives JSON or
//! text.

use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use dewar_sigv4::encode_strict;

use crate::http::{Connection, Deadline, Endpoint, Sink, Transport, Trust, tls_config};

/// For one request, from connecting to the end of its answer.
const LIMIT: Duration = Duration::from_secs(30);

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// An answer.
pub(super) struct WebResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// Sends requests, with the trusted certificates.
pub(super) struct Web {
    pub(super) trust: Trust,
}

/// An address, cut where its path begins.
fn split(url: &str) -> Result<(Endpoint, &str)> {
    let after = url.find("://").map_or(0, |at| at + 3);
    let path = url[after..].find('/').map_or(url.len(), |at| after + at);
    let endpoint: Endpoint = url[..path].parse()?;
    let path = if path == url.len() { "/" } else { &url[path..] };
    ensure!(
        path.bytes().all(|byte| byte.is_ascii_graphic()),
        "{url:?} is no address"
    );
    Ok((endpoint, path))
}

/// Secrets go over TLS, or stay on this machine.
fn check_wire(endpoint: &Endpoint) -> Result<()> {
    let local = endpoint.host() == "localhost"
        || endpoint
            .host()
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    ensure!(
        endpoint.is_https() || local,
        "{endpoint}: http is for this machine alone"
    );
    Ok(())
}

impl Web {
    pub(super) fn get(&self, url: &str) -> Result<WebResponse> {
        self.send("GET", url, &[], b"")
    }

    /// Posts a form.
    pub(super) fn post(&self, url: &str, fields: &[(&str, &str)]) -> Result<WebResponse> {
        self.post_as(url, fields, None)
    }

    /// Posts a form as the bearer of a token.
    pub(super) fn post_as(
        &self,
        url: &str,
        fields: &[(&str, &str)],
        token: Option<&str>,
    ) -> Result<WebResponse> {
        let form = form(fields);
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/x-www-form-urlencoded")];
        headers.extend(bearer.as_deref().map(|value| ("Authorization", value)));
        self.send("POST", url, &headers, form.as_bytes())
    }

    pub(super) fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<WebResponse> {
        let (endpoint, path) = split(url)?;
        check_wire(&endpoint)?;
        let tls = match endpoint.is_https() {
            true => Some(tls_config(&self.trust)?),
            false => None,
        };
        let addresses = endpoint
            .resolve()
            .with_context(|| format!("look up {endpoint}"))?;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: dewar/{}\r\nAccept: */*\r\n\
             Content-Length: {}\r\nConnection: close\r\n",
            endpoint.authority(),
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        for (name, value) in headers {
            ensure!(
                value.bytes().all(|byte| matches!(byte, b' '..=b'~')),
                "the value of {name} cannot be sent"
            );
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let deadline = Deadline::after(LIMIT);
        let mut connection = Connection::new(Arc::new(Transport {
            endpoint,
            addresses,
            tls,
        }));
        let mut found = Vec::new();
        let answer = connection.open(deadline).and_then(|()| {
            let mut slices = [IoSlice::new(head.as_bytes()), IoSlice::new(body)];
            connection.send(&mut slices, deadline)?;
            connection.finish_request(deadline)?;
            connection.receive(false, &mut Sink::Collect(&mut found), deadline)
        });
        let answer = answer.with_context(|| format!("ask {url}"))?;
        if (200..300).contains(&answer.status) {
            ensure!(
                found.len() <= ANSWER_BYTES_MAX,
                "{url} answers more than is wanted"
            );
        } else {
            found = answer.error_body;
        }
        Ok(WebResponse {
            status: answer.status,
            body: found,
        })
    }
}

impl WebResponse {
    /// The JSON of a success.
    pub(super) fn json(&self, of: &str) -> Result<serde_json::Value> {
        if self.status != 200 {
            bail!("{of} answered {}{}", self.status, self.words());
        }
        serde_json::from_slice(&self.body).with_context(|| format!("{of} answered no JSON"))
    }

    /// The error code of an OAuth refusal (RFC 6749 section 5.2).
    pub(super) fn error(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"].as_str().unwrap_or_default().to_owned()
    }

    /// The description of a refusal, for people.
    pub(super) fn words(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        match (text("error"), text("error_description")) {
            (Some(error), Some(more)) => format!(": {error}: {more}"),
            (Some(error), None) => format!(": {error}"),
            (None, _) => String::new(),
        }
    }
}

/// Fields as a form or a query has them.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        if !text.is_empty() {
            text.push('&');
        }
        encode_strict(&mut text, name.as_bytes());
        text.push('=');
        encode_strict(&mut text, value.as_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_go_over_open_wires() {
        let may = |url: &str| split(url).and_then(|(endpoint, _)| check_wire(&endpoint));
        assert!(may("https://idp.example.org/token").is_ok());
        assert!(may("http://127.0.0.1:8080/token").is_ok());
        assert!(may("http://[::1]:8080/token").is_ok());
        assert!(may("http://localhost/token").is_ok());
        assert!(may("http://idp.example.org/token").is_err());
        assert!(may("http://127.0.0.1.example.org/token").is_err());
        assert!(may("https://idp.example.org/a b").is_err());
        assert!(may("ftp://idp.example.org/").is_err());
    }

    #[test]
    fn fields_are_encoded() {
        let text = form(&[("a", "x y&z"), ("b", "1")]);
        assert_eq!(text, "a=x%20y%26z&b=1");
    }
}
