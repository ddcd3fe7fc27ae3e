//! `dewar lock`.

use clap::{Args, Subcommand};
use dewar_admin::locks::{LockBreak, LockInfo, LockList};

use super::admin_request::{CommonArgs, one};
use super::columns::table_or;
use super::exit::CommandResult;
use crate::engine::OpenEngine;

/// The subcommands about locks of WebDAV clients.
#[derive(Debug, Subcommand)]
pub enum LockCommand {
    /// List the locks that WebDAV clients hold
    List(LockListArgs),
    /// End locks before their time
    Break(LockBreakArgs),
}

/// Some or all locks.
#[derive(Debug, Args)]
pub struct LockListArgs {
    /// Only locks of this path and below it: /BUCKET, /BUCKET/PATH or /@TENANT/BUCKET/PATH
    path: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The locks that end.
#[derive(Debug, Args)]
pub struct LockBreakArgs {
    /// The token of a lock (urn:uuid:...), or the path of a file or directory, all of whose own locks end
    #[arg(value_name = "TOKEN or PATH")]
    target: String,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn lock<O: OpenEngine>(command: LockCommand, opener: &O) -> CommandResult {
    match command {
        LockCommand::List(LockListArgs { path, shared }) => {
            one(&shared, opener, LockList { path }, |locks| text(locks))
        }
        LockCommand::Break(LockBreakArgs { target, shared }) => {
            one(&shared, opener, LockBreak { target }, |locks| text(locks))
        }
    }
}

fn text(locks: &[LockInfo]) -> String {
    let head = ["PATH", "HOLDER", "KIND", "DEPTH", "SECONDS", "TOKEN"];
    let rows = locks.iter().map(|lock| {
        vec![
            lock.path.clone(),
            lock.principal.clone(),
            if lock.shared { "shared" } else { "exclusive" }.to_owned(),
            if lock.deep { "infinity" } else { "0" }.to_owned(),
            lock.seconds.to_string(),
            lock.token.clone(),
        ]
    });
    table_or(&head, &rows.collect::<Vec<_>>(), "no locks")
}
