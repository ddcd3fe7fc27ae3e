//! `dewar worker`.

use clap::{Args, Subcommand};
use dewar_admin::AdminCommand;
use dewar_admin::workers::{WorkerInfo, WorkerList, WorkerPause, WorkerResume};

use super::admin_request::{CommonArgs, show};
use super::columns::table;
use super::exit::{CommandError, CommandResult};
use super::run::block_on;
use super::server_target::running;

/// The subcommands about background work.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List the workers, with their states and their last errors
    List(WorkerListArgs),
    /// Pause a worker until it is resumed, or until the server restarts
    Pause(WorkerArgs),
    /// Resume a paused worker
    Resume(WorkerArgs),
}

/// All workers.
#[derive(Debug, Args)]
pub struct WorkerListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// A worker.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Its name, as `dewar worker list` shows it
    worker: String,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn worker(command: WorkerCommand) -> CommandResult {
    match command {
        WorkerCommand::List(WorkerListArgs { shared }) => {
            let workers = ask(&shared, &WorkerList {})?;
            show(&*workers, shared.json, text)
        }
        WorkerCommand::Pause(WorkerArgs { worker, shared }) => {
            let paused = ask(&shared, &WorkerPause { worker })?;
            show(&paused, shared.json, |worker| {
                let name = &worker.name;
                format!(
                    "{name} is paused until `dewar worker resume {name}`, or until the server restarts\n"
                )
            })
        }
        WorkerCommand::Resume(WorkerArgs { worker, shared }) => {
            let resumed = ask(&shared, &WorkerResume { worker })?;
            show(&resumed, shared.json, |worker| {
                format!("{} is {}\n", worker.name, worker.state)
            })
        }
    }
}

/// Asks the running server: without one, there is no background work.
fn ask<C: AdminCommand>(shared: &CommonArgs, command: &C) -> Result<C::Reply, CommandError> {
    block_on(async {
        let mut client = running(&shared.target).await?;
        Ok(client.ask(command).await?)
    })
}

fn text(workers: &[WorkerInfo]) -> String {
    let head = [
        "WORKER",
        "STATE",
        "STEPS",
        "PENDING",
        "ERRORS",
        "LAST ERROR",
    ];
    let rows = workers.iter().map(|worker| {
        let pending = worker.pending.map(|pending| pending.to_string());
        let last = worker.last_error_at.iter().chain(&worker.last_error);
        let last: Vec<&str> = last.map(String::as_str).collect();
        vec![
            worker.name.clone(),
            worker.state.clone(),
            worker.steps.to_string(),
            pending.unwrap_or_else(|| "-".into()),
            worker.errors.to_string(),
            if last.is_empty() {
                "-".into()
            } else {
                last.join(" ")
            },
        ]
    });
    table(&head, &rows.collect::<Vec<_>>())
}
