//! The admin API: the commands of an administrator, in one table ([`COMMANDS`]).
//!
//! The file of a group of commands holds the requests, the replies, the records in the audit log
//! and the handlers. A request reaches its handler in two ways:
//!
//! - **With a running server:** as JSON, over a socket of the server.
//! - **Without one:** the command opens the store itself and calls [`AdminApi`] directly.
//!
//! Both ways call [`carry_out`], which records the request in the audit log. The handlers work on an
//! [`AdminContext`]: an open store, with [`DiskChanges`], [`UpkeepAdmin`], [`BackupAdmin`] and
//! [`KeyFileAdmin`].

pub mod accounts;
mod amount;
mod audit_dispatch;
mod backup_admin;
pub mod buckets;
pub mod catalog;
mod command;
mod context;
mod disk_advice;
mod disk_changes;
pub mod disks;
mod envelope;
mod error;
pub mod federation;
pub mod identity;
pub mod key_file;
mod key_file_admin;
pub mod locks;
mod names;
mod pool_figures;
pub mod progress;
pub mod quota;
pub mod secret_text;
pub mod share;
pub mod space;
pub mod status;
mod time_text;
pub mod transfers;
pub mod upkeep;
mod upkeep_admin;
pub mod usage;
pub mod workers;

pub use amount::amount;
pub use audit_dispatch::{carry_out, done_here, turned_away};
pub use backup_admin::{BackupAdmin, backup_folder};
pub use command::{AdminCommand, AdminRequest, CommandEntry, CommandSpec, Done, Effect};
pub use context::{AdminApi, AdminContext, read_reply};
pub use disk_advice::{ID_DIGITS, disk_issue};
pub use disk_changes::{DiskChanges, DiskConfig, ID_DIGITS_MIN};
pub use error::{AdminError, Failure, Result};
pub use key_file_admin::KeyFileAdmin;
pub use names::bucket_path;
pub use pool_figures::PoolFigures;
pub use time_text::rfc3339;
pub use upkeep_admin::UpkeepAdmin;

/// All commands, by the files that hold them.
pub const COMMANDS: &[&[CommandEntry]] = &[
    accounts::COMMANDS,
    buckets::COMMANDS,
    catalog::COMMANDS,
    disks::COMMANDS,
    federation::COMMANDS,
    identity::COMMANDS,
    key_file::COMMANDS,
    locks::COMMANDS,
    quota::COMMANDS,
    share::COMMANDS,
    space::COMMANDS,
    status::COMMANDS,
    transfers::COMMANDS,
    upkeep::COMMANDS,
    usage::COMMANDS,
    workers::COMMANDS,
];

/// Reads a request of any command.
///
/// # Errors
/// The JSON is malformed, or names no command.
pub fn parse_request(json: &[u8]) -> serde_json::Result<Box<dyn AdminRequest>> {
    let command = |name: &str| {
        let mut commands = COMMANDS.iter().flat_map(|group| group.iter());
        commands.find(|command| command.spec.name == name)
    };
    let name = envelope::name_in(json, &|name| command(name).is_some())?;
    command(&name)
        .expect("the name was found in the table")
        .parse(json)
}

#[cfg(test)]
mod wire_tests;
