//! The admin API: the commands of an administrator, in one table ([`COMMANDS`]).
//!
//! The file of a group of commands holds the requests, the replies, the records in the audit log
//! and the handlers. A request reaches its handler in two ways:
//!
//! - **With a running server:** HTTP/1.1 with JSON over a unix socket of mode 0600. The peer must
//!   be root or the user who runs the server ([`server`], [`client`]).
//! - **Without one:** the command opens the store itself and calls [`AdminApi`] directly.
//!
//! The lock in the state folder ([`crate::lock`]) ensures that only one of the two happens.

pub mod accounts;
mod audit_dispatch;
pub mod buckets;
pub mod catalog;
mod client;
mod command;
mod context;
pub mod disks;
mod envelope;
mod error;
pub mod federation;
pub mod identity;
pub mod key_file;
mod names;
pub mod progress;
pub mod quota;
pub(crate) mod secret_text;
mod server;
pub mod share;
mod socket;
pub mod status;
pub(crate) mod time_text;
pub mod upkeep;
pub mod usage;
pub mod workers;

pub use audit_dispatch::carry_out;
pub(crate) use audit_dispatch::done_here;
pub use client::{AdminClient, ClientError};
pub use command::{AdminCommand, AdminRequest, CommandEntry, CommandSpec, Done, Effect};
pub(crate) use context::read_reply;
pub use context::{AdminApi, AdminContext};
pub(crate) use error::Result;
pub use error::{AdminError, Failure};
pub(crate) use names::bucket_path;
pub use server::serve;
pub use socket::{AdminSocket, SocketError};

/// All commands, by the files that hold them.
pub const COMMANDS: &[&[CommandEntry]] = &[
    accounts::COMMANDS,
    buckets::COMMANDS,
    catalog::COMMANDS,
    disks::COMMANDS,
    federation::COMMANDS,
    identity::COMMANDS,
    key_file::COMMANDS,
    quota::COMMANDS,
    share::COMMANDS,
    status::COMMANDS,
    upkeep::COMMANDS,
    usage::COMMANDS,
    workers::COMMANDS,
];

/// Reads a request of any command.
fn parse(json: &[u8]) -> serde_json::Result<Box<dyn AdminRequest>> {
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
pub(crate) mod tests;
#[cfg(test)]
mod wire_tests;
