//! `dewar transfer`.

use clap::{Args, Subcommand};
use dewar_admin::transfers::{TransferCancel, TransferInfo, TransferList};
use dewar_admin::{AdminCommand, amount};

use super::admin_request::{CommonArgs, show};
use super::columns::table_or;
use super::exit::{CommandError, CommandResult};
use super::run::block_on;
use super::server_target::running;

/// The subcommands about third-party copies.
#[derive(Debug, Subcommand)]
pub enum TransferCommand {
    /// List the copies that run or wait for their turn
    List(TransferListArgs),
    /// End a copy; its client is told, and may ask for it again
    Cancel(TransferCancelArgs),
}

/// All copies.
#[derive(Debug, Args)]
pub struct TransferListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// A copy.
#[derive(Debug, Args)]
pub struct TransferCancelArgs {
    /// Its number, as `dewar transfer list` shows it
    id: u64,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn transfer(command: TransferCommand) -> CommandResult {
    match command {
        TransferCommand::List(TransferListArgs { shared }) => {
            let copies = ask(&shared, &TransferList {})?;
            show(&*copies, shared.json, text)
        }
        TransferCommand::Cancel(TransferCancelArgs { id, shared }) => {
            let done = ask(&shared, &TransferCancel { id })?;
            show(&done, shared.json, |_| format!("copy {id} is cancelled\n"))
        }
    }
}

/// Asks the running server: without one, there are no copies.
fn ask<C: AdminCommand>(shared: &CommonArgs, command: &C) -> Result<C::Reply, CommandError> {
    block_on(async {
        let mut client = running(&shared.target).await?;
        Ok(client.ask(command).await?)
    })
}

fn text(copies: &[TransferInfo]) -> String {
    let head = [
        "ID",
        "STATE",
        "DIRECTION",
        "USER",
        "PATH",
        "REMOTE",
        "BYTES",
        "SIZE",
        "SINCE",
    ];
    let rows = copies.iter().map(|copy| {
        vec![
            copy.id.to_string(),
            copy.state.clone(),
            copy.direction.clone(),
            copy.user.clone(),
            copy.path.clone(),
            format!(
                "{}://{}{}",
                copy.protocol, copy.remote_host, copy.remote_path
            ),
            amount(copy.bytes),
            copy.size.map_or("-".into(), amount),
            copy.since.clone(),
        ]
    });
    table_or(&head, &rows.collect::<Vec<_>>(), "no copies run or wait")
}
