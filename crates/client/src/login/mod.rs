//! `dewar login`, `token`, `aws-credentials`, `whoami`, `logout`: a person's login at a provider,
//! and credentials for other tools made from it.
//!
//! A login uses the device flow or the browser flow and is renewed with its refresh token. The
//! storage side never asks for a password and never sees the refresh token. It gets the access
//! token, or exchanges it for a session of a role. Logins are stored in one file of mode 0600
//! ([`cache`]).

mod aws;
mod browser;
mod cache;
mod device;
mod provider;
pub mod share;
mod web;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::http::Trust;
use cache::{Login, LoginCache, write_token};
use provider::{Provider, refreshed};
use web::Web;

/// The default scopes: the identity and a refresh token.
const SCOPE: &str = "openid";

/// The subcommands about logins.
#[derive(Debug, Subcommand)]
pub enum LoginCommand {
    /// Log in at a provider of logins, and keep the tokens for other commands and tools
    Login(LoginArgs),
    /// Print an access token of the login, renewed if necessary
    Token(TokenArgs),
    /// Print credentials of a role as JSON, for the AWS tools' credential_process
    AwsCredentials(AwsArgs),
    /// Say who is logged in where
    Whoami(WhoamiArgs),
    /// Forget a login, and have the provider forget it
    Logout(LogoutArgs),
}

/// A login to begin.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The provider's address, as its tokens have it in iss [default: that of the last login]
    issuer: Option<String>,
    /// The client id of this program at the provider [default: that of the last login there, else
    /// dewar]
    #[arg(long, value_name = "ID", env = "DEWAR_CLIENT_ID")]
    client_id: Option<String>,
    /// The scopes to ask for, separated by spaces
    #[arg(long, value_name = "SCOPES", default_value = SCOPE)]
    scope: String,
    /// Show a code to enter in a browser anywhere; the default if there is no display
    #[arg(long, conflicts_with = "browser")]
    device: bool,
    /// Log in with a browser on this machine
    #[arg(long)]
    browser: bool,
    /// Only print the address
    #[arg(long)]
    no_open: bool,
    /// Log in anew although there is a login that can be renewed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The login to use.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The provider [default: that of the last login]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
}

/// A role to become.
#[derive(Debug, Args)]
pub struct AwsArgs {
    /// The role's ARN
    #[arg(long, value_name = "ARN", env = "AWS_ROLE_ARN")]
    role: String,
    /// The storage endpoint, as `https://HOST:PORT`
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    endpoint: String,
    /// The session's name
    #[arg(long, value_name = "NAME", default_value = "dewar")]
    session_name: String,
    /// The session's duration, 900 to 43200 seconds [default: an hour]
    #[arg(long, value_name = "SECONDS")]
    duration: Option<u32>,
    #[command(flatten)]
    login: TokenArgs,
}

/// The login to show.
#[derive(Debug, Args)]
pub struct WhoamiArgs {
    /// Also ask this storage endpoint for its name of the user
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    endpoint: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    login: TokenArgs,
}

/// The logins to remove.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// The provider [default: that of the last login]
    issuer: Option<String>,
    /// All logins
    #[arg(long, conflicts_with = "issuer")]
    all: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

/// The certificates to trust.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Trust the certificate authorities in this PEM file, not those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl TrustArgs {
    fn web(&self) -> Web {
        let trust = self.ca.clone().map_or(Trust::System, Trust::File);
        Web { trust }
    }
}

/// Runs a command.
///
/// # Errors
/// The reason of the failure, as a text for people.
pub fn run(command: LoginCommand) -> Result<()> {
    match command {
        LoginCommand::Login(args) => login(args),
        LoginCommand::Token(args) => {
            let login = current(&args)?;
            println!("{}", login.access);
            Ok(())
        }
        LoginCommand::AwsCredentials(args) => aws_credentials(&args),
        LoginCommand::Whoami(args) => whoami(&args),
        LoginCommand::Logout(args) => logout(&args),
    }
}

fn say(text: &str) {
    eprint!("{text}");
}

fn login(args: LoginArgs) -> Result<()> {
    let web = args.trust.web();
    let last = LoginCache::open()?.read()?;
    let known = last.of(args.issuer.as_deref()).cloned();
    let named = args.issuer.clone();
    let issuer = named.or_else(|| known.as_ref().map(|login| login.issuer.clone()));
    let issuer =
        issuer.context("log in where? `dewar login https://idp.example.org/realms/lab`")?;
    let client = args.client_id.clone();
    let client = client.or_else(|| known.as_ref().map(|login| login.client.clone()));
    let client = client.unwrap_or_else(|| "dewar".to_owned());
    let renewable = known.filter(|login| !args.force && login.client == client);
    let renewed = renewable.and_then(|login| refreshed(&web, &login).ok());
    let login = match renewed {
        Some(login) => login,
        None => {
            // No lock while a person looks for a browser.
            let provider = Provider::discover(&web, &issuer)?;
            let display = ["DISPLAY", "WAYLAND_DISPLAY"]
                .iter()
                .any(|name| std::env::var_os(name).is_some());
            let browser = args.browser || (!args.device && (display || provider.device.is_none()));
            match browser {
                true => browser::login(&web, &provider, &client, &args.scope, !args.no_open, say)?,
                false => device::login(&web, &provider, &client, &args.scope, say)?,
            }
        }
    };
    keep(&LoginCache::open()?, &login)?;
    let claims = claims(&login.access);
    let who = claims["preferred_username"].as_str();
    let who = who.or(claims["sub"].as_str()).unwrap_or("somebody");
    say(&format!("Logged in at {} as {who}\n", login.issuer));
    Ok(())
}

/// Writes a login down for this program and for others.
fn keep(cache: &LoginCache, login: &Login) -> Result<()> {
    let mut logins = cache.read()?;
    logins.put(login.clone());
    cache.write(&logins)?;
    write_token(login)?;
    Ok(())
}

/// The login, renewed if its access token is about to end.
fn current(args: &TokenArgs) -> Result<Login> {
    let cache = LoginCache::open()?;
    let logins = cache.read()?;
    let login = logins.of(args.issuer.as_deref());
    let login = login.context("there is no login: run `dewar login`")?;
    if login.is_fresh() {
        return Ok(login.clone());
    }
    let newer = refreshed(&args.trust.web(), login)?;
    keep(&cache, &newer)?;
    Ok(newer)
}

fn aws_credentials(args: &AwsArgs) -> Result<()> {
    let login = current(&args.login)?;
    let given = aws::assume(
        &args.login.trust.web(),
        &args.endpoint,
        &args.role,
        &args.session_name,
        args.duration,
        &login.access,
    )?;
    println!("{}", serde_json::to_string(&given).context("write JSON")?);
    Ok(())
}

#[derive(Serialize)]
struct WhoamiReport {
    issuer: String,
    subject: Option<String>,
    name: Option<String>,
    groups: Vec<String>,
    /// Seconds that the access token is still good for.
    seconds_left: u64,
    renewable: bool,
    token_file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arn: Option<String>,
}

fn whoami(args: &WhoamiArgs) -> Result<()> {
    let login = current(&args.login)?;
    let claims = claims(&login.access);
    let text = |name: &str| claims[name].as_str().map(str::to_owned);
    let groups = claims["groups"]
        .as_array()
        .or(claims["wlcg.groups"].as_array());
    let groups = groups.into_iter().flatten();
    let endpoint = args.endpoint.as_deref();
    let arn = endpoint
        .map(|endpoint| aws::identity(&args.login.trust.web(), endpoint, &login.access))
        .transpose()?;
    let who = WhoamiReport {
        subject: text("sub"),
        name: text("preferred_username").or_else(|| text("name")),
        groups: groups
            .filter_map(|group| group.as_str().map(str::to_owned))
            .collect(),
        seconds_left: login.expires.saturating_sub(crate::clock::unix_s()),
        renewable: login.refresh.is_some(),
        token_file: cache::token_file().display().to_string(),
        arn,
        issuer: login.issuer,
    };
    if args.json {
        println!("{}", serde_json::to_string(&who).context("write JSON")?);
        return Ok(());
    }
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    println!("issuer      {}", who.issuer);
    println!("subject     {}", or(&who.subject));
    println!("name        {}", or(&who.name));
    println!("groups      {}", who.groups.join(" "));
    println!(
        "token       good for {} s{}",
        who.seconds_left,
        if who.renewable { ", renewable" } else { "" }
    );
    println!("token file  {}", who.token_file);
    if let Some(arn) = &who.arn {
        println!("is here     {arn}");
    }
    Ok(())
}

fn logout(args: &LogoutArgs) -> Result<()> {
    let cache = LoginCache::open()?;
    let mut logins = cache.read()?;
    let gone: Vec<Login> = match args.all {
        true => logins.logins.clone(),
        false => logins
            .of(args.issuer.as_deref())
            .cloned()
            .into_iter()
            .collect(),
    };
    if gone.is_empty() {
        say("There is no login for this server\n");
        return Ok(());
    }
    let of = |login: &Login| gone.iter().any(|other| other.issuer == login.issuer);
    logins.logins.retain(|login| !of(login));
    cache.write(&logins)?;
    let web = args.trust.web();
    for login in &gone {
        cache::remove_token(login)?;
        // What the provider forgets is its own matter; here nothing is left either way.
        if let Err(error) = revoke(&web, login) {
            say(&format!(
                "{} could not be told, and its tokens go on until they end: {error:#}\n",
                login.issuer
            ));
        }
    }
    Ok(())
}

/// Has the provider revoke the tokens (RFC 7009).
fn revoke(web: &Web, login: &Login) -> Result<()> {
    let endpoint = login.revocation_endpoint.as_deref();
    let endpoint = endpoint.context("it has no endpoint for that")?;
    let refresh = login
        .refresh
        .as_deref()
        .map(|token| (token, "refresh_token"));
    for (token, kind) in refresh
        .into_iter()
        .chain([(login.access.as_str(), "access_token")])
    {
        let fields = [
            ("client_id", login.client.as_str()),
            ("token", token),
            ("token_type_hint", kind),
        ];
        let response = web.post(endpoint, &fields)?;
        anyhow::ensure!(
            response.status == 200,
            "it answered {}{}",
            response.status,
            response.words()
        );
    }
    Ok(())
}

/// The claims of a token, not verified: only to show them to the token's owner.
fn claims(token: &str) -> serde_json::Value {
    let payload = token.split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}
