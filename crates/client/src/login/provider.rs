//! The metadata of a provider (OpenID Connect Discovery 1.0, RFC 8414), and its token endpoint.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::cache::Login;
use super::web::{Web, WebResponse};
use crate::clock;

/// A provider's endpoints.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) issuer: String,
    pub(super) token: String,
    pub(super) authorization: Option<String>,
    pub(super) device: Option<String>,
    pub(super) revocation: Option<String>,
}

/// Both possible addresses of metadata: with the well-known part behind the issuer's path, and
/// before it.
fn well_known(issuer: &str) -> Vec<String> {
    let bare = issuer.trim_end_matches('/');
    let mut places = vec![format!("{bare}/.well-known/openid-configuration")];
    let after = bare.find("://").map_or(0, |at| at + 3);
    let path = bare[after..].find('/').map(|at| after + at);
    let (origin, path) = bare.split_at(path.unwrap_or(bare.len()));
    places.push(format!(
        "{origin}/.well-known/oauth-authorization-server{path}"
    ));
    places
}

impl Provider {
    /// Fetches a provider's metadata, which must name exactly this provider.
    pub(super) fn discover(web: &Web, issuer: &str) -> Result<Self> {
        let mut said = Vec::new();
        for place in well_known(issuer) {
            let response = web.get(&place)?;
            if response.status != 200 {
                said.push(format!("{place} answered {}", response.status));
                continue;
            }
            return Self::parse(issuer, &response.json(&place)?);
        }
        bail!("{issuer} is no provider: {}", said.join(", "))
    }

    fn parse(issuer: &str, metadata: &Value) -> Result<Self> {
        let text = |name: &str| metadata[name].as_str().map(str::to_owned);
        let named = text("issuer").unwrap_or_default();
        ensure!(
            named == issuer,
            "{issuer} says of itself that it is {named:?}: log in with that address"
        );
        Ok(Self {
            issuer: named,
            token: text("token_endpoint")
                .with_context(|| format!("{issuer} names no token endpoint"))?,
            authorization: text("authorization_endpoint"),
            device: text("device_authorization_endpoint"),
            revocation: text("revocation_endpoint"),
        })
    }

    /// A login out of what the token endpoint gave.
    pub(super) fn login(&self, client: &str, response: &WebResponse) -> Result<Login> {
        let body = response.json(&self.token)?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let lives = body["expires_in"].as_u64().unwrap_or(300);
        Ok(Login {
            issuer: self.issuer.clone(),
            client: client.to_owned(),
            access: text("access_token")
                .with_context(|| format!("{} gave no access token", self.token))?,
            refresh: text("refresh_token"),
            expires: clock::unix_s().saturating_add(lives),
            token_endpoint: self.token.clone(),
            revocation_endpoint: self.revocation.clone(),
        })
    }
}

/// Exchanges a refresh token for a new access token. Providers may also return a new refresh token.
/// The old one may be invalid from then on.
pub(super) fn refreshed(web: &Web, login: &Login) -> Result<Login> {
    let refresh = login.refresh.as_deref();
    let refresh = refresh.context("the login has ended, and cannot be renewed: `dewar login`")?;
    let response = web.post(
        &login.token_endpoint,
        &[
            ("grant_type", "refresh_token"),
            ("client_id", &login.client),
            ("refresh_token", refresh),
        ],
    )?;
    ensure!(
        response.status == 200,
        "the login cannot be renewed{}: `dewar login`",
        response.words()
    );
    let provider = Provider {
        issuer: login.issuer.clone(),
        token: login.token_endpoint.clone(),
        authorization: None,
        device: None,
        revocation: login.revocation_endpoint.clone(),
    };
    let mut newer = provider.login(&login.client, &response)?;
    newer.refresh = newer.refresh.or_else(|| login.refresh.clone());
    Ok(newer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_both_places() {
        assert_eq!(
            well_known("https://idp.example.org/realms/hep"),
            [
                "https://idp.example.org/realms/hep/.well-known/openid-configuration",
                "https://idp.example.org/.well-known/oauth-authorization-server/realms/hep",
            ]
        );
    }

    #[test]
    fn metadata_about_another_issuer_is_refused() {
        let metadata = serde_json::json!({
            "issuer": "https://evil.example.org", "token_endpoint": "https://evil.example.org/t"});
        assert!(Provider::parse("https://idp.example.org", &metadata).is_err());
        assert!(Provider::parse("https://evil.example.org", &metadata).is_ok());
    }
}
