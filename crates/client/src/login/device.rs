//! The device flow (RFC 8628): a code that is entered in a browser anywhere.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::cache::Login;
use super::provider::Provider;
use super::web::Web;
use crate::clock;

/// Between two questions, where the provider does not say.
const INTERVAL_SECS: u64 = 5;
/// By how much "slow down" makes it longer (RFC 8628 section 3.5).
const SLOWER_SECS: u64 = 5;
/// Longest wait for a person.
const WAIT_SECS_MAX: u64 = 1800;

pub(super) fn login(
    web: &Web,
    provider: &Provider,
    client: &str,
    scope: &str,
    say: impl Fn(&str),
) -> Result<Login> {
    let endpoint = provider.device.as_deref().with_context(|| {
        format!(
            "{} does not offer the device flow: --browser",
            provider.issuer
        )
    })?;
    let response = web.post(endpoint, &[("client_id", client), ("scope", scope)])?;
    let body = response.json(endpoint)?;
    let text = |name: &str| body[name].as_str();
    let code = text("device_code").with_context(|| format!("{endpoint} gave no code"))?;
    let user = text("user_code").with_context(|| format!("{endpoint} gave no code"))?;
    let place = text("verification_uri").with_context(|| format!("{endpoint} names no place"))?;
    match text("verification_uri_complete") {
        Some(whole) => say(&format!(
            "Open {whole}\nor go to {place} and enter the code {user}\n"
        )),
        None => say(&format!("Open {place} and enter the code {user}\n")),
    }
    let mut interval = body["interval"]
        .as_u64()
        .unwrap_or(INTERVAL_SECS)
        .clamp(1, 60);
    let lives = body["expires_in"].as_u64().unwrap_or(WAIT_SECS_MAX);
    let give_up = clock::now() + Duration::from_secs(lives.min(WAIT_SECS_MAX));
    while clock::now() < give_up {
        std::thread::sleep(Duration::from_secs(interval));
        let response = web.post(
            &provider.token,
            &[
                ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
                ("client_id", client),
                ("device_code", code),
            ],
        )?;
        match response.error().as_str() {
            "authorization_pending" => {}
            "slow_down" => interval += SLOWER_SECS,
            "access_denied" => bail!("the login was declined"),
            "expired_token" => break,
            _ => return provider.login(client, &response),
        }
    }
    bail!("the code was not entered in time")
}
