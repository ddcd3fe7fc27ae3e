//! `dewar share`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dewar_admin::Done;
use dewar_admin::share::{ShareAdd, ShareInfo, ShareList, ShareRevoke};

use super::admin_request::{CommonArgs, ask, show};
use super::columns::table_or;
use super::exit::{CommandError, CommandResult, USAGE};
use crate::engine::OpenEngine;

const DAY_SECONDS: u64 = 24 * 3600;

/// An object to share, or a subcommand about shares.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_precedence_over_arg = true
)]
pub struct ShareArgs {
    #[command(subcommand)]
    command: Option<ShareCommand>,
    #[command(flatten)]
    new: NewShareArgs,
}

/// The subcommands about shares.
#[derive(Debug, Subcommand)]
pub(super) enum ShareCommand {
    /// List shares, with those that ended within a month
    List(ShareListArgs),
    /// End a share at once
    Revoke(ShareRevokeArgs),
}

/// A share to make.
#[derive(Debug, Args)]
pub(super) struct NewShareArgs {
    /// The object: /BUCKET/KEY
    path: Option<String>,
    /// Validity of the address in days, 7 at most
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=7))]
    days: u64,
    /// Allow an upload instead; the object must not exist yet
    #[arg(long)]
    upload: bool,
    /// The user whose rights the address has [default: the bucket's owner]
    #[arg(long, value_name = "[TENANT:]NAME")]
    user: Option<String>,
    /// The S3 address for the recipients [default: as this server listens]
    #[arg(long, value_name = "URL", env = "AWS_ENDPOINT_URL")]
    endpoint: Option<String>,
    /// Share what your login (`dewar login`) may read or write, without the administrator's socket: prints a
    /// command with a macaroon, good for a day at most
    #[arg(long, conflicts_with = "user")]
    login: bool,
    /// With --login: trust the certificate authorities in this PEM file, not those of the system
    #[arg(long, value_name = "FILE", requires = "login")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A share that a login makes at an S3 door.
#[derive(Debug)]
pub struct LoginShare {
    /// The S3 door.
    pub endpoint: String,
    /// The object: `/BUCKET/KEY`.
    pub path: String,
    /// How long it lasts, in seconds; a macaroon lasts a day at most.
    pub seconds: u64,
    /// Whether it is for putting the object, not for getting it.
    pub upload: bool,
    /// Authorities to believe, if not those of the system.
    pub ca: Option<PathBuf>,
}

impl ShareArgs {
    /// Whether a login shares, and not the administrator.
    #[must_use]
    pub fn is_by_login(&self) -> bool {
        self.command.is_none() && self.new.login
    }

    /// The share to create by a login.
    ///
    /// # Errors
    /// The missing argument, as a text for people.
    pub fn by_login(&self) -> Result<LoginShare, String> {
        let new = &self.new;
        let path = new
            .path
            .clone()
            .ok_or("share what? `dewar share --login /BUCKET/KEY`")?;
        let target = &new.shared.target;
        let endpoint = match &new.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                let config = target.load().map_err(|error| error.message)?;
                let address = config.s3.listen.first();
                let address = address.ok_or("at which server? --endpoint https://HOST:PORT")?;
                let scheme = match config.s3.tls_certificate_file {
                    Some(_) => "https",
                    None => "http",
                };
                format!("{scheme}://{address}")
            }
        };
        Ok(LoginShare {
            endpoint,
            path,
            seconds: new.days.min(1) * DAY_SECONDS,
            upload: new.upload,
            ca: new.ca.clone(),
        })
    }
}

/// All shares.
#[derive(Debug, Args)]
pub(super) struct ShareListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// One share.
#[derive(Debug, Args)]
pub(super) struct ShareRevokeArgs {
    /// The share's id, as `share` and `share list` show it
    id: String,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn share<O: OpenEngine>(args: ShareArgs, opener: &O) -> CommandResult {
    match args.command {
        Some(ShareCommand::List(ShareListArgs { shared })) => {
            let shares = ask(&shared, opener, ShareList {})?;
            show(&*shares, shared.json, text)
        }
        Some(ShareCommand::Revoke(ShareRevokeArgs { id, shared })) => {
            let Done::Done = ask(&shared, opener, ShareRevoke { id })?;
            show(&serde_json::json!({}), shared.json, |_| String::new())
        }
        None => {
            let new = args.new;
            let Some(path) = new.path else {
                let words = "share what? `dewar share /BUCKET/KEY`, or `dewar share list`";
                return Err(CommandError::new(USAGE, words));
            };
            let request = ShareAdd {
                path,
                user: new.user,
                upload: new.upload,
                seconds: new.days * DAY_SECONDS,
                endpoint: new.endpoint,
            };
            let shares = ask(&new.shared, opener, request)?;
            show(&*shares, new.shared.json, text)
        }
    }
}

fn text(shares: &[ShareInfo]) -> String {
    if let [share] = shares
        && let Some(url) = &share.url
    {
        let how = if share.upload {
            "PUT, until"
        } else {
            "GET, until"
        };
        return format!("{url}\n{how} {}, as share {}\n", share.expires, share.id);
    }
    let rows: Vec<_> = shares
        .iter()
        .map(|share| {
            vec![
                share.id.clone(),
                share.path.clone(),
                if share.upload { "put" } else { "get" }.to_owned(),
                share.user.clone(),
                share.expires.clone(),
                if share.over { "over" } else { "open" }.to_owned(),
            ]
        })
        .collect();
    let head = ["SHARE", "PATH", "METHOD", "USER", "EXPIRES", "STATE"];
    table_or(&head, &rows, "no shares")
}
