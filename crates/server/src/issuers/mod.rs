//! Fetching the keys of token issuers.
//!
//! An issuer's metadata is fetched from both well-known addresses, and its keys from the address in
//! the metadata. Nothing is fetched from a host that the administrator did not name. Metadata and
//! keys must be on the issuer's own origin or on one that is listed with it. Redirects are not
//! followed. Plain `http` is allowed only to addresses of this machine, also when a name resolves
//! to another. Every answer has a limit on length and time.

mod fetch;

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::token::{Issuer, KEY_SET_BYTES_MAX, check_url, origin_of};
use dewar_env::BoxFuture;
use dewar_iam::FetchKeys;
use dewar_types::{Error, ErrorKind, Result};
use serde::Deserialize;

use fetch::{Body, Fetcher};

use crate::trust_store::TrustStore;

/// For all of it: metadata and keys.
const DEADLINE: Duration = Duration::from_secs(20);

/// Longest metadata in bytes.
const METADATA_BYTES_MAX: usize = 256 * 1024;

/// The fields of an issuer's metadata that are used (OpenID Connect Discovery 1.0 section 3, RFC
/// 8414).
#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Fetches keys over the network.
pub struct WebKeys {
    fetcher: Fetcher,
}

fn unfit(words: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, words)
}

impl WebKeys {
    /// Fetches from servers whose certificates `trusted` knows.
    pub(crate) fn new(trusted: Arc<TrustStore>) -> Self {
        let fetcher = Fetcher { trusted };
        Self { fetcher }
    }

    async fn keys(&self, issuer: &Issuer) -> Result<Vec<u8>> {
        let url = match &issuer.keys_url {
            Some(url) => url.clone(),
            None => self.metadata(issuer).await?.jwks_uri,
        };
        check_url(&url).map_err(|why| unfit(format!("issuer {}: jwks_uri {why}", issuer.url)))?;
        let origin = origin_of(&url);
        if origin != origin_of(&issuer.url) && !issuer.origins.contains(&origin) {
            return Err(unfit(format!(
                "issuer {}: its keys are said to be at {url}, which is neither on its own origin nor \
                 listed with it: --origin {origin} would allow that",
                issuer.url
            )));
        }
        let body = self.fetcher.get(&url, KEY_SET_BYTES_MAX).await?;
        match body {
            Body::Found(bytes) => Ok(bytes),
            Body::Other(status) => Err(unfit(format!("{url} answered {status}"))),
        }
    }

    async fn metadata(&self, issuer: &Issuer) -> Result<Metadata> {
        let mut said = Vec::new();
        for place in well_known(&issuer.url) {
            match self.fetcher.get(&place, METADATA_BYTES_MAX).await? {
                Body::Other(status) => said.push(format!("{place} answered {status}")),
                Body::Found(bytes) => {
                    let found: Metadata = serde_json::from_slice(&bytes).map_err(|_| {
                        unfit(format!("{place} is no metadata with issuer and jwks_uri"))
                    })?;
                    if found.issuer != issuer.url {
                        return Err(unfit(format!(
                            "{place} says that the issuer is {:?}: name it exactly so, or ask the \
                             issuer to set it right",
                            found.issuer
                        )));
                    }
                    return Ok(found);
                }
            }
        }
        Err(unfit(format!(
            "issuer {} publishes no metadata: {}",
            issuer.url,
            said.join("; ")
        )))
    }
}

impl FetchKeys for WebKeys {
    fn fetch<'a>(&'a self, issuer: &'a Issuer) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            match tokio::time::timeout(DEADLINE, self.keys(issuer)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::new(
                    ErrorKind::Timeout,
                    format!("issuer {} did not answer within 20 seconds", issuer.url),
                )),
            }
        })
    }
}

/// The possible addresses of an issuer's metadata. OpenID Connect appends to the path, RFC 8414
/// inserts its part before the path.
fn well_known(url: &str) -> Vec<String> {
    let bare = url.trim_end_matches('/');
    let origin_end = bare.find("://").map_or(0, |at| at + 3);
    let path_at = bare[origin_end..]
        .find('/')
        .map_or(bare.len(), |at| origin_end + at);
    let (origin, path) = bare.split_at(path_at);
    let mut places = vec![
        format!("{bare}/.well-known/openid-configuration"),
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}/.well-known/openid-configuration{path}"));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_both_places() {
        let places = well_known("https://idp.example.org/realms/lab/");
        assert_eq!(
            places,
            [
                "https://idp.example.org/realms/lab/.well-known/openid-configuration",
                "https://idp.example.org/.well-known/oauth-authorization-server/realms/lab",
                "https://idp.example.org/.well-known/openid-configuration/realms/lab",
            ]
        );
        let places = well_known("https://idp.example.org");
        assert_eq!(places.len(), 2);
        assert_eq!(
            places[1],
            "https://idp.example.org/.well-known/oauth-authorization-server"
        );
    }
}
