//! The command line of the server's side. The binary mounts [`Command`] beside the client's.
//!
//! Results go to standard output, as aligned tables or with `--json` as JSON; everything else goes
//! to standard error. Exit codes are in [`exit`].

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "[TENANT:] is how help shows what may be left out"
)]

mod accounts;
mod admin_request;
mod audit;
mod audit_actions;
mod authdb;
mod buckets;
mod catalog;
mod columns;
mod configuration;
mod disks;
pub mod exit;
mod federation;
mod identity;
mod journal_bench;
mod key_file;
mod locks;
mod quota;
mod run;
mod server_target;
mod share;
mod space;
mod status;
mod transfer;
mod upkeep;
mod uploads;
mod usage;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::engine::{LossCode, OpenEngine};

pub(crate) use run::confirm_loss;

pub use accounts::{KeyCommand, UserCommand};
pub use audit::AuditArgs;
pub use authdb::ImportAuthdbArgs;
pub use buckets::BucketCommand;
pub use catalog::{BackupArgs, CatalogCommand, RestoreArgs};
pub use configuration::ConfigCommand;
pub use disks::DiskCommand;
pub use federation::{IssuerCommand, RoleCommand, SessionCommand};
pub use identity::{GroupCommand, PolicyCommand};
pub use journal_bench::JournalBenchArgs;
pub use key_file::KeyFileCommand;
pub use locks::LockCommand;
pub use quota::QuotaCommand;
pub use server_target::ServerTarget;
pub use share::{LoginShare, ShareArgs};
pub use space::SpaceCommand;
pub use transfer::TransferCommand;
pub use upkeep::{FsckArgs, ScrubArgs};
pub use usage::UsageArgs;
pub use worker::WorkerCommand;

/// The commands of the server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve, in the foreground, until Ctrl-C or SIGTERM
    Serve(ServeArgs),
    /// Show everything on this machine: six disks as 4+2, a user, a key and a bucket
    Demo(DemoArgs),
    /// Check, print or explain the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Add, list, remove, disable or enable users
    #[command(subcommand)]
    User(UserCommand),
    /// Add, list, remove, disable or enable access keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// List, replace, retire or export the master key, which encrypts every stored secret
    #[command(subcommand)]
    KeyFile(KeyFileCommand),
    /// Put, list or remove policies of users and groups, or explain a decision
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Make, list or remove groups, and change their members
    #[command(subcommand)]
    Group(GroupCommand),
    /// Add, list or remove issuers of login tokens, or test a token
    #[command(subcommand)]
    Issuer(IssuerCommand),
    /// Make, list or remove roles, which logins and users assume for some hours
    #[command(subcommand)]
    Role(RoleCommand),
    /// End sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// List, show, create or remove buckets
    #[command(subcommand)]
    Bucket(BucketCommand),
    /// Show how much users, buckets and pools hold
    Usage(UsageArgs),
    /// Limit the data of buckets, directories, users, groups and tenants
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// List the locks of WebDAV clients, or end some of them
    #[command(subcommand)]
    Lock(LockCommand),
    /// Name directories with a quota, for an experiment and its storage report
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Create an address with which anybody may download or upload an object for some days
    Share(Box<ShareArgs>),
    /// Search the audit log
    Audit(AuditArgs),
    /// Show the state of a running server: problems, their severity, and what to do
    Status(StatusArgs),
    /// List, add, replace, drain or remove disks
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Read all data on the disks, to find damaged shards
    Scrub(ScrubArgs),
    /// Count how much data survives how many disk failures, and name every object at risk
    Fsck(FsckArgs),
    /// List, pause or resume the background work of a running server
    #[command(subcommand)]
    Worker(WorkerCommand),
    /// List or cancel the third-party copies of a running server
    #[command(subcommand)]
    Transfer(TransferCommand),
    /// Back up the catalog: the names, owners and locations of all objects
    Backup(BackupArgs),
    /// Restore a lost catalog from a backup; no server may run
    Restore(RestoreArgs),
    /// Rebuild the catalog; no server may run
    #[command(subcommand)]
    Catalog(CatalogCommand),
}

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration; without it /etc/dewar/dewar.toml if that exists
    #[arg(long, value_name = "FILE", env = "DEWAR_CONFIG")]
    pub config: Option<PathBuf>,
    /// Write this JSON file, mode 0600, once every listener accepts
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Start although too many disks are lost for good. Prints the possible loss, and a code for
    /// exactly that loss; continues only if the code is given here, or typed at a terminal
    #[arg(long, value_name = "CODE", num_args = 0..=1, require_equals = true)]
    pub accept_loss: Option<Option<LossCode>>,
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The folder of the demo [default: $XDG_DATA_HOME/dewar-demo or ~/.local/share/dewar-demo]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The S3 door's port, the metrics endpoint, the XRootD door and the WebDAV door without and with
    /// TLS take the next four; 0 takes free ones [default: 9000, or as it was set up]
    #[arg(long, value_name = "N")]
    pub port_base: Option<u16>,
    /// Write this JSON file, mode 0600, once every listener accepts
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// For monitoring: exit with 1 when redundancy is reduced or a problem needs an administrator,
    /// and with 2 when one more failure could lose data, data cannot be read or written, or no
    /// server answers
    #[arg(long)]
    check: bool,
}

/// Carries `dewar bench journal` out.
#[must_use]
pub fn bench_journal(args: &JournalBenchArgs) -> ExitCode {
    exit::code_of(journal_bench::run(args))
}

/// Carries a command out.
pub fn run<O: OpenEngine>(command: Command, opener: &O) -> ExitCode {
    if let Err(error) = crate::process::keep_memory_out_of_core_files() {
        eprintln!("warning: core files may hold secrets: {error}");
    }
    let result = match command {
        Command::Serve(args) => run::serve(args, opener),
        Command::Demo(args) => run::demo(args, opener),
        Command::Config(command) => configuration::run(command),
        Command::User(command) => accounts::user(command, opener),
        Command::Key(command) => accounts::key(command, opener),
        Command::KeyFile(command) => key_file::key_file(command, opener),
        Command::Policy(command) => identity::policy(command, opener),
        Command::Group(command) => identity::group(command, opener),
        Command::Issuer(command) => federation::issuer(command, opener),
        Command::Role(command) => federation::role(command, opener),
        Command::Session(command) => federation::session(command, opener),
        Command::Bucket(command) => buckets::bucket(command, opener),
        Command::Usage(args) => usage::usage(args, opener),
        Command::Worker(command) => worker::worker(command),
        Command::Transfer(command) => transfer::transfer(command),
        Command::Quota(command) => quota::quota(command, opener),
        Command::Lock(command) => locks::lock(command, opener),
        Command::Space(command) => space::space(command, opener),
        Command::Share(args) => share::share(*args, opener),
        Command::Audit(args) => audit::audit(&args),
        Command::Status(args) => status::run(&args.target, args.json, args.check),
        Command::Disk(command) => disks::disk(command, opener),
        Command::Scrub(args) => upkeep::scrub(args),
        Command::Fsck(args) => upkeep::fsck(&args, opener),
        Command::Backup(args) => catalog::backup(&args, opener),
        Command::Restore(args) => catalog::restore(args, opener),
        Command::Catalog(command) => catalog::catalog(command, opener),
    };
    exit::code_of(result)
}

#[cfg(test)]
mod tests;
