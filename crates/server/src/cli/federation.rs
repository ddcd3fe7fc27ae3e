//! `dewar issuer`, `dewar role` and `dewar session`.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dewar_auth::Secret;
use zeroize::Zeroizing;

use super::accounts::{CommonArgs, ask, strange};
use super::columns::{print, print_json, table_or};
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use super::identity::read_policy;
use crate::admin::{
    FederationReply, FederationRequest, IssuerAdd, IssuerInfo, Reply, Request, RevokeRequest,
    RoleAdd, RoleInfo, TokenInfo,
};
use crate::engine::OpenEngine;

/// Longest token that is read, in bytes.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// The subcommands about issuers.
#[derive(Debug, Subcommand)]
pub enum IssuerCommand {
    /// Add an issuer of login tokens; its keys are fetched at once
    Add(Box<IssuerAddArgs>),
    /// List issuers and the state of their keys
    List(FederationListArgs),
    /// Remove an issuer; sessions that came from its tokens end
    Remove(UrlArgs),
    /// Switch an issuer off; sessions that came from its tokens end
    Disable(UrlArgs),
    /// Switch an issuer on again
    Enable(UrlArgs),
    /// Show the user and the rights that a token gets here, or why it is refused
    Test(TestArgs),
}

/// An issuer to add.
#[derive(Debug, Args)]
pub struct IssuerAddArgs {
    /// The issuer's address, exactly as its tokens have it in iss
    url: String,
    /// The audience that its tokens must have (aud); may be given more than once
    #[arg(long, value_name = "AUD", required = true)]
    audience: Vec<String>,
    /// The address of its keys, if its metadata does not name it
    #[arg(long, value_name = "URL")]
    jwks_url: Option<String>,
    /// Another origin, https://HOST[:PORT], that metadata and keys may be at
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// The tenant of its users [default: the default tenant]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The path that its capabilities (storage.read:/...) are relative to: /BUCKET or
    /// /BUCKET/DIRECTORY; without it they give no rights
    #[arg(long, value_name = "PATH")]
    base: Option<String>,
    /// Map tokens whose CLAIM is or contains VALUE to this local user
    #[arg(long, value_name = "CLAIM=VALUE=NAME")]
    user: Vec<String>,
    /// Map tokens whose CLAIM is or contains VALUE to this local group
    #[arg(long, value_name = "CLAIM=VALUE=NAME")]
    group: Vec<String>,
    /// Add it even if it does not answer now
    #[arg(long)]
    unreached: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// All of something.
#[derive(Debug, Args)]
pub struct FederationListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// One issuer.
#[derive(Debug, Args)]
pub struct UrlArgs {
    /// Its address
    url: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A token.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The token; - reads it from standard input, where nobody else sees it
    token: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The subcommands about roles.
#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// Make a role and print its ARN
    Add(Box<RoleAddArgs>),
    /// List the roles of a tenant
    List(RoleListArgs),
    /// Remove a role with its policies; its sessions end
    Remove(RoleArgs),
}

/// A role to make.
#[derive(Debug, Args)]
pub struct RoleAddArgs {
    /// The role: [TENANT:]NAME, or [TENANT:]ROOT/NAME for one of ROOT's account
    name: String,
    /// The issuer whose users may assume the role
    #[arg(long, value_name = "URL", requires = "claim")]
    issuer: Option<String>,
    /// A claim that tokens must have: CLAIM is or contains VALUE. If a claim is given more than
    /// once, one of its values is enough; different claims must all match
    #[arg(long, value_name = "CLAIM=VALUE", requires = "issuer")]
    claim: Vec<String>,
    /// A trust policy instead, in IAM's JSON
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "issuer",
        required_unless_present = "issuer"
    )]
    trust: Option<PathBuf>,
    /// The role's policy, in IAM's JSON
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Longest session, 900 to 43200 seconds [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    max_session: Option<u32>,
    /// A description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The roles of a tenant.
#[derive(Debug, Args)]
pub struct RoleListArgs {
    /// The tenant [default: the default tenant]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// One role.
#[derive(Debug, Args)]
pub struct RoleArgs {
    /// The role: [TENANT:]NAME
    name: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The subcommands about sessions.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// End sessions that were created up to now, and those made from them
    Revoke(RevokeArgs),
}

/// The sessions to end.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    #[command(flatten)]
    which: SessionSelector,
    #[command(flatten)]
    shared: CommonArgs,
}

/// One of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct SessionSelector {
    /// One session, by its access key
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// All sessions of a user: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// All sessions of a role: [TENANT:]NAME
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// All sessions that came from an issuer's tokens
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
}

/// `CLAIM=VALUE=NAME`: the value may hold `=` itself.
fn rules(texts: &[String]) -> Result<Vec<(String, String, String)>, CommandError> {
    let one = |text: &String| {
        let (claim, rest) = text.split_once('=')?;
        let (value, name) = rest.rsplit_once('=')?;
        let full = !claim.is_empty() && !value.is_empty() && !name.is_empty();
        full.then(|| (claim.to_owned(), value.to_owned(), name.to_owned()))
    };
    let wrong =
        |text: &String| CommandError::new(USAGE, format!("{text:?} is not CLAIM=VALUE=NAME"));
    texts
        .iter()
        .map(|text| one(text).ok_or_else(|| wrong(text)))
        .collect()
}

fn pairs(texts: &[String]) -> Result<Vec<(String, String)>, CommandError> {
    let wrong = |text: &String| CommandError::new(USAGE, format!("{text:?} is not CLAIM=VALUE"));
    let one = |text: &String| {
        let (claim, value) = text.split_once('=').ok_or_else(|| wrong(text))?;
        Ok((claim.to_owned(), value.to_owned()))
    };
    texts.iter().map(one).collect()
}

/// A token from the command line, or from standard input.
fn read_token(text: String) -> Result<Secret, CommandError> {
    let mut token = Zeroizing::new(text);
    if *token == "-" {
        token.clear();
        std::io::stdin()
            .take(TOKEN_BYTES_MAX)
            .read_to_string(&mut token)
            .map_err(|error| CommandError::new(FAILED, format!("cannot read a token: {error}")))?;
    }
    Ok(Secret::new(token.trim().to_owned()))
}

pub(super) fn issuer<O: OpenEngine>(command: IssuerCommand, opener: &O) -> CommandResult {
    let (shared, request) = match command {
        IssuerCommand::Add(args) => {
            let wish = IssuerAdd {
                url: args.url,
                audiences: args.audience,
                keys_url: args.jwks_url,
                origins: args.origin,
                tenant: args.tenant,
                base: args.base,
                users: rules(&args.user)?,
                groups: rules(&args.group)?,
                unreached: args.unreached,
            };
            (args.shared, FederationRequest::IssuerAdd(wish))
        }
        IssuerCommand::List(args) => (args.shared, FederationRequest::IssuerList {}),
        IssuerCommand::Remove(UrlArgs { url, shared }) => {
            (shared, FederationRequest::IssuerRemove { url })
        }
        IssuerCommand::Disable(UrlArgs { url, shared }) => {
            let disabled = true;
            (shared, FederationRequest::IssuerSet { url, disabled })
        }
        IssuerCommand::Enable(UrlArgs { url, shared }) => {
            let disabled = false;
            (shared, FederationRequest::IssuerSet { url, disabled })
        }
        IssuerCommand::Test(TestArgs { token, shared }) => {
            let token = read_token(token)?;
            (shared, FederationRequest::TokenTest { token })
        }
    };
    answer(&shared, opener, request)
}

pub(super) fn role<O: OpenEngine>(command: RoleCommand, opener: &O) -> CommandResult {
    let (shared, request) = match command {
        RoleCommand::Add(args) => {
            let document = |file: &Option<PathBuf>| file.as_deref().map(read_policy).transpose();
            let wish = RoleAdd {
                name: args.name,
                issuer: args.issuer,
                claims: pairs(&args.claim)?,
                trust: document(&args.trust)?,
                policy: document(&args.policy)?,
                max_session: args.max_session,
                description: args.description,
            };
            let request = FederationRequest::RoleAdd(wish);
            return match federation(&args.shared, opener, request)? {
                FederationReply::Roles(roles) => {
                    let role = roles.first().ok_or_else(strange)?;
                    match args.shared.json {
                        true => print_json(role),
                        false => print(&format!("{}\n", role.arn)),
                    }
                    .map(|()| 0)
                }
                _ => Err(strange()),
            };
        }
        RoleCommand::List(args) => {
            let tenant = args.tenant;
            (args.shared, FederationRequest::RoleList { tenant })
        }
        RoleCommand::Remove(RoleArgs { name, shared }) => {
            (shared, FederationRequest::RoleRemove { name })
        }
    };
    answer(&shared, opener, request)
}

pub(super) fn session<O: OpenEngine>(command: SessionCommand, opener: &O) -> CommandResult {
    let SessionCommand::Revoke(RevokeArgs { which, shared }) = command;
    let wish = match (which.session, which.user, which.role, which.issuer) {
        (Some(key), ..) => RevokeRequest::Session(key),
        (None, Some(name), ..) => RevokeRequest::User(name),
        (None, None, Some(name), _) => RevokeRequest::Role(name),
        (None, None, None, url) => RevokeRequest::Issuer(url.unwrap_or_default()),
    };
    answer(&shared, opener, FederationRequest::Revoke(wish))
}

fn federation<O: OpenEngine>(
    shared: &CommonArgs,
    opener: &O,
    request: FederationRequest,
) -> Result<FederationReply, CommandError> {
    match ask(shared, opener, Request::Federation(request))? {
        Reply::Federation(reply) => Ok(reply),
        _ => Err(strange()),
    }
}

fn answer<O: OpenEngine>(
    shared: &CommonArgs,
    opener: &O,
    request: FederationRequest,
) -> CommandResult {
    let reply = federation(shared, opener, request)?;
    let taken = !matches!(&reply, FederationReply::Token(info) if !info.taken);
    if shared.json {
        match &reply {
            FederationReply::Done => print_json(&serde_json::json!({})),
            FederationReply::Issuers(issuers) => print_json(issuers),
            FederationReply::Token(token) => print_json(token),
            FederationReply::Roles(roles) => print_json(roles),
        }?;
    } else {
        print(&match &reply {
            FederationReply::Done => "done\n".to_owned(),
            FederationReply::Issuers(issuers) => issuers_text(issuers),
            FederationReply::Token(token) => token_text(token),
            FederationReply::Roles(roles) => roles_text(roles),
        })?;
    }
    Ok(if taken { 0 } else { FAILED })
}

fn issuers_text(issuers: &[IssuerInfo]) -> String {
    let rows: Vec<_> = issuers
        .iter()
        .map(|issuer| {
            let state = match (issuer.disabled, &issuer.failed) {
                (true, _) => "disabled".to_owned(),
                (false, Some(failed)) => format!("{} keys; {failed}", issuer.keys),
                (false, None) => format!("{} keys", issuer.keys),
            };
            vec![
                issuer.url.clone(),
                state,
                issuer.audiences.join(", "),
                issuer.base.clone().unwrap_or_default(),
                issuer.rules.join("; "),
            ]
        })
        .collect();
    let head = ["ISSUER", "STATE", "AUDIENCES", "BASE", "RULES"];
    table_or(&head, &rows, "no issuers")
}

fn roles_text(roles: &[RoleInfo]) -> String {
    let rows: Vec<_> = roles
        .iter()
        .map(|role| vec![role.arn.clone(), format!("{} s", role.max_session)])
        .collect();
    table_or(&["ROLE", "LONGEST SESSION"], &rows, "no roles")
}

fn token_text(token: &TokenInfo) -> String {
    let mut text = match (&token.why, token.taken) {
        (Some(why), _) => format!("refused: {why}\n"),
        (None, _) => "taken\n".to_owned(),
    };
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<13} {value}\n"));
    if let (Some(issuer), Some(subject)) = (&token.issuer, &token.subject) {
        line("issuer", issuer);
        line("subject", subject);
    }
    if let Some(user) = &token.user {
        let what = if token.local {
            "a user here"
        } else {
            "no user here"
        };
        line("becomes", &format!("{user} ({what})"));
    }
    for group in &token.groups {
        line("group", group);
    }
    match (&token.capabilities, &token.base) {
        (Some(scope), Some(base)) => {
            line("scopes", scope);
            line(
                "",
                &format!("within {base}; groups do not count beside scopes"),
            );
        }
        (Some(scope), None) => {
            line("scopes", scope);
            line(
                "",
                "the issuer has no base, so they give nothing by themselves",
            );
        }
        (None, _) if token.taken => line("scopes", "none for storage: groups decide"),
        (None, _) => {}
    }
    for role in &token.roles {
        line("may become", role);
    }
    for (name, values) in &token.claims {
        line("claim", &format!("{name} = {}", values.join(", ")));
    }
    text
}
