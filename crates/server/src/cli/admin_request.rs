//! The part that all admin commands share: the server that is meant, the request, and the output.

use clap::Args;
use dewar_admin::accounts::ListPage;
use dewar_admin::{AdminCommand, Done};
use serde::Serialize;

use super::columns::{print, print_json};
use super::exit::{CommandError, CommandResult};
use super::run::block_on;
use super::server_target::{AdminAccess, ServerTarget, reach};
use crate::engine::OpenEngine;

/// The arguments of every admin command.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) target: ServerTarget,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Sends a request, and returns the reply.
pub(super) fn ask<O: OpenEngine, C: AdminCommand>(
    shared: &CommonArgs,
    opener: &O,
    command: C,
) -> Result<C::Reply, CommandError> {
    block_on(reach(
        &shared.target,
        opener,
        async |reached: &mut AdminAccess| reached.ask(command).await,
    ))
}

/// All items of a list that comes in pages.
pub(super) fn all_pages<O: OpenEngine, C: AdminCommand<Reply = ListPage<T>>, T>(
    shared: &CommonArgs,
    opener: &O,
    page: impl Fn(Option<String>) -> C,
) -> Result<Vec<T>, CommandError> {
    block_on(reach(
        &shared.target,
        opener,
        async |reached: &mut AdminAccess| {
            let mut all = Vec::new();
            let mut after = None;
            loop {
                let ListPage { items, next } = reached.ask(page(after)).await?;
                all.extend(items);
                if next.is_none() {
                    return Ok(all);
                }
                after = next;
            }
        },
    ))
}

/// Sends a request, and prints the reply as `text` words it, or as JSON.
pub(super) fn one<O: OpenEngine, C: AdminCommand>(
    shared: &CommonArgs,
    opener: &O,
    command: C,
    text: impl FnOnce(&C::Reply) -> String,
) -> CommandResult {
    show(&ask(shared, opener, command)?, shared.json, text)
}

/// Sends a request whose reply has nothing to report.
pub(super) fn done<O: OpenEngine, C: AdminCommand<Reply = Done>>(
    shared: &CommonArgs,
    opener: &O,
    command: C,
) -> CommandResult {
    let Done::Done = ask(shared, opener, command)?;
    show(&serde_json::json!({}), shared.json, |_| "done\n".to_owned())
}

/// Sends a request that removes something, and prints what was removed.
pub(super) fn remove<O: OpenEngine, C: AdminCommand<Reply = Done>>(
    shared: &CommonArgs,
    opener: &O,
    command: C,
    (what, name): (&str, &str),
) -> CommandResult {
    let Done::Done = ask(shared, opener, command)?;
    let removed = serde_json::json!({ "removed": name });
    show(&removed, shared.json, |_| {
        format!("{what} {name} removed\n")
    })
}

/// Prints a reply as `text` words it, or as JSON.
pub(super) fn show<T: Serialize + ?Sized>(
    reply: &T,
    json: bool,
    text: impl FnOnce(&T) -> String,
) -> CommandResult {
    match json {
        true => print_json(reply),
        false => print(&text(reply)),
    }
    .map(|()| 0)
}
