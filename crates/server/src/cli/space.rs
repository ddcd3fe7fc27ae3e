//! `dewar space`.

use clap::{Args, Subcommand};
use dewar_admin::amount;
use dewar_admin::space::{SpaceAdd, SpaceInfo, SpaceList, SpaceRemove};

use super::admin_request::{CommonArgs, one, remove};
use super::columns::table_or;
use super::exit::CommandResult;
use super::quota::size;
use crate::engine::OpenEngine;

/// The subcommands about spaces.
#[derive(Debug, Subcommand)]
pub enum SpaceCommand {
    /// Make a directory a space: a name, a quota, an owner group and VOs
    Add(SpaceAddArgs),
    /// List all spaces and their usage
    List(SpaceListArgs),
    /// Remove a space; its directory stays, with its files, its quota and its group
    Remove(SpaceRemoveArgs),
}

/// A space to add.
#[derive(Debug, Args)]
pub struct SpaceAddArgs {
    /// The name, as in ATLASDATADISK: letters, digits, dashes, underscores and dots
    name: String,
    /// The directory, /BUCKET/DIRECTORY or /@TENANT/BUCKET/DIRECTORY; it is made if it does not exist
    path: String,
    /// Most bytes, as 500TB or 2PiB: all versions, parts of open uploads, and metadata beyond 2 KiB each
    #[arg(long, value_name = "SIZE", value_parser = size)]
    quota: u64,
    /// The group, [TENANT:]NAME, that owns new data in it
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// A virtual organisation that the space is for, as the storage report shows it; may be repeated
    #[arg(long, value_name = "VO")]
    vo: Vec<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// All spaces.
#[derive(Debug, Args)]
pub struct SpaceListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// A space to remove.
#[derive(Debug, Args)]
pub struct SpaceRemoveArgs {
    /// [TENANT:]NAME
    name: String,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn space<O: OpenEngine>(command: SpaceCommand, opener: &O) -> CommandResult {
    match command {
        SpaceCommand::Add(args) => {
            let request = SpaceAdd {
                name: args.name,
                path: args.path,
                max_bytes: args.quota,
                group: args.group,
                vos: args.vo,
            };
            one(&args.shared, opener, request, |space| {
                text(std::slice::from_ref(space))
            })
        }
        SpaceCommand::List(SpaceListArgs { shared }) => {
            one(&shared, opener, SpaceList {}, |spaces| text(spaces))
        }
        SpaceCommand::Remove(SpaceRemoveArgs { name, shared }) => {
            let request = SpaceRemove { name: name.clone() };
            remove(&shared, opener, request, ("space", &name))
        }
    }
}

fn text(spaces: &[SpaceInfo]) -> String {
    let head = [
        "NAME", "PATH", "BYTES", "QUOTA", "OBJECTS", "GROUP", "VOS", "STATE",
    ];
    let rows = spaces.iter().map(|space| {
        let vos = match space.vos.is_empty() {
            true => "-".to_owned(),
            false => space.vos.join(", "),
        };
        vec![
            space.name.clone(),
            space.path.clone(),
            amount(space.bytes),
            space.limits.max_bytes.map_or("-".to_owned(), amount),
            space.objects.to_string(),
            space.group.clone().unwrap_or_else(|| "-".to_owned()),
            vos,
            space.state.clone(),
        ]
    });
    table_or(&head, &rows.collect::<Vec<_>>(), "no spaces")
}
