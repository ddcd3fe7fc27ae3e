//! `dewar issuer`, `dewar role` and `dewar session`.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dewar_admin::federation::{
    IssuerAdd, IssuerInfo, IssuerList, IssuerRemove, IssuerSet, RevokeRequest, RoleAdd, RoleInfo,
    RoleList, RoleRemove, TokenInfo, TokenTest,
};
use dewar_auth::Secret;
use zeroize::Zeroizing;

use super::admin_request::{CommonArgs, ask, done, show};
use super::columns::table_or;
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use super::identity::read_policy;
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
    let set =
        |UrlArgs { url, shared }, disabled| done(&shared, opener, IssuerSet { url, disabled });
    match command {
        IssuerCommand::Add(args) => {
            let request = IssuerAdd {
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
            let issuers = ask(&args.shared, opener, request)?;
            show(&*issuers, args.shared.json, issuers_text)
        }
        IssuerCommand::List(FederationListArgs { shared }) => {
            let issuers = ask(&shared, opener, IssuerList {})?;
            show(&*issuers, shared.json, issuers_text)
        }
        IssuerCommand::Remove(UrlArgs { url, shared }) => {
            done(&shared, opener, IssuerRemove { url })
        }
        IssuerCommand::Disable(args) => set(args, true),
        IssuerCommand::Enable(args) => set(args, false),
        IssuerCommand::Test(TestArgs { token, shared }) => {
            let token = read_token(token)?;
            let info = ask(&shared, opener, TokenTest { token })?;
            show(&info, shared.json, token_text)?;
            Ok(if info.taken { 0 } else { FAILED })
        }
    }
}

pub(super) fn role<O: OpenEngine>(command: RoleCommand, opener: &O) -> CommandResult {
    match command {
        RoleCommand::Add(args) => {
            let document = |file: &Option<PathBuf>| file.as_deref().map(read_policy).transpose();
            let request = RoleAdd {
                name: args.name,
                issuer: args.issuer,
                claims: pairs(&args.claim)?,
                trust: document(&args.trust)?,
                policy: document(&args.policy)?,
                max_session: args.max_session,
                description: args.description,
            };
            let roles = ask(&args.shared, opener, request)?;
            let none = || CommandError::new(FAILED, "the server names no role in its reply");
            let role = roles.first().ok_or_else(none)?;
            show(role, args.shared.json, |role| format!("{}\n", role.arn))
        }
        RoleCommand::List(RoleListArgs { tenant, shared }) => {
            let roles = ask(&shared, opener, RoleList { tenant })?;
            show(&*roles, shared.json, roles_text)
        }
        RoleCommand::Remove(RoleArgs { name, shared }) => {
            done(&shared, opener, RoleRemove { name })
        }
    }
}

pub(super) fn session<O: OpenEngine>(command: SessionCommand, opener: &O) -> CommandResult {
    let SessionCommand::Revoke(RevokeArgs { which, shared }) = command;
    let request = match (which.session, which.user, which.role, which.issuer) {
        (Some(key), ..) => RevokeRequest::Session(key),
        (None, Some(name), ..) => RevokeRequest::User(name),
        (None, None, Some(name), _) => RevokeRequest::Role(name),
        (None, None, None, url) => RevokeRequest::Issuer(url.unwrap_or_default()),
    };
    done(&shared, opener, request)
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
