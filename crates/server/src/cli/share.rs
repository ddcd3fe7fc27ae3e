//! `dewar share`.

use clap::{Args, Subcommand};

use super::accounts::{Shared, ask, strange};
use super::columns::{print, print_json, table};
use super::exit::{CommandError, CommandResult, USAGE};
use crate::admin::{Reply, Request, ShareInfo, ShareRequest};
use crate::engine::OpenEngine;

const DAY_SECONDS: u64 = 24 * 3600;

/// What to share, or what to do about shares.
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

/// What can be done about shares.
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
    /// How long anybody with the address may have it, 7 days at most
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=7))]
    days: u64,
    /// Let something be put there, which must be new, instead
    #[arg(long)]
    upload: bool,
    /// As whom: the address never may more than this user [default: the bucket's owner]
    #[arg(long, value_name = "[TENANT:]NAME")]
    user: Option<String>,
    /// Where the S3 door is for those who get the address [default: as this server listens]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    #[command(flatten)]
    shared: Shared,
}

/// All shares.
#[derive(Debug, Args)]
pub(super) struct ShareListArgs {
    #[command(flatten)]
    shared: Shared,
}

/// One share.
#[derive(Debug, Args)]
pub(super) struct ShareRevokeArgs {
    /// What `share` and `share list` call it
    id: String,
    #[command(flatten)]
    shared: Shared,
}

pub(super) fn share<O: OpenEngine>(args: ShareArgs, opener: &O) -> CommandResult {
    let (shared, request) = match args.command {
        Some(ShareCommand::List(ShareListArgs { shared })) => (shared, ShareRequest::List {}),
        Some(ShareCommand::Revoke(ShareRevokeArgs { id, shared })) => {
            (shared, ShareRequest::Revoke { id })
        }
        None => {
            let new = args.new;
            let Some(path) = new.path else {
                let words = "share what? `dewar share /BUCKET/KEY`, or `dewar share list`";
                return Err(CommandError::new(USAGE, words));
            };
            let request = ShareRequest::Add {
                path,
                user: new.user,
                upload: new.upload,
                seconds: new.days * DAY_SECONDS,
                endpoint: new.endpoint,
            };
            (new.shared, request)
        }
    };
    match ask(&shared, opener, Request::Share(request))? {
        Reply::Done if shared.json => print_json(&serde_json::json!({})),
        Reply::Done => Ok(()),
        Reply::Shares(shares) if shared.json => print_json(&shares),
        Reply::Shares(shares) => print(&text(&shares)),
        _ => Err(strange()),
    }
    .map(|()| 0)
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
    table(&["share", "path", "may", "as", "until", "state"], &rows)
}
