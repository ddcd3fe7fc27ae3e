//! `dewar key-file`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dewar_admin::key_file::{
    KeyFileExport, KeyFileList, KeyFileRetire, KeyFileRotate, MasterKeyInfo,
};
use dewar_engine::host::private_file::create_private_file;

use super::admin_request::{CommonArgs, ask, show};
use super::columns::table;
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use crate::engine::OpenEngine;

/// The subcommands about the master key.
#[derive(Debug, Subcommand)]
pub enum KeyFileCommand {
    /// List the keys in the file, and the number of secrets that need them
    List(KeyFileListArgs),
    /// Make a new master key while the server runs, and encrypt all secrets with it
    Rotate(KeyFileListArgs),
    /// Take a key that was replaced out of the file, when nothing needs it any more
    Retire(RetireArgs),
    /// Write a copy of the file, encrypted to several people, for safekeeping
    Export(ExportArgs),
}

/// Nothing more is needed.
#[derive(Debug, Args)]
pub struct KeyFileListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// One key.
#[derive(Debug, Args)]
pub struct RetireArgs {
    /// Its id, as `dewar key-file list` shows it
    id: String,
    /// Retire the key even if sessions and macaroons made with it have not ended: they end now.
    /// Without this option a key can be retired a day after it was replaced
    #[arg(long)]
    end_sessions: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// For whom.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A public key as age-keygen prints it (age1…); repeat it for several people: each of them alone
    /// opens the copy, with `age --decrypt --identity THEIRS`
    #[arg(long, value_name = "AGE1…")]
    recipient: Vec<String>,
    /// A file with such keys, one a line; # begins a comment
    #[arg(long, value_name = "FILE")]
    recipients_file: Vec<PathBuf>,
    /// The file to write, which must not exist; without it standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn key_file<O: OpenEngine>(command: KeyFileCommand, opener: &O) -> CommandResult {
    let (shared, keys) = match command {
        KeyFileCommand::List(KeyFileListArgs { shared }) => {
            let keys = ask(&shared, opener, KeyFileList {})?;
            (shared, keys)
        }
        KeyFileCommand::Rotate(KeyFileListArgs { shared }) => {
            let keys = ask(&shared, opener, KeyFileRotate {})?;
            (shared, keys)
        }
        KeyFileCommand::Retire(args) => {
            let (id, end_sessions) = (args.id, args.end_sessions);
            let keys = ask(&args.shared, opener, KeyFileRetire { id, end_sessions })?;
            (args.shared, keys)
        }
        KeyFileCommand::Export(args) => return export(args, opener),
    };
    show(&*keys, shared.json, text)
}

fn export<O: OpenEngine>(args: ExportArgs, opener: &O) -> CommandResult {
    let (shared, mut recipients) = (args.shared, args.recipient);
    for path in &args.recipients_file {
        recipients.extend(recipients_of(path)?);
    }
    if recipients.is_empty() {
        let words = "for whom? --recipient AGE1… or --recipients-file FILE";
        return Err(CommandError::new(USAGE, words));
    }
    let file = ask(&shared, opener, KeyFileExport { recipients })?;
    let Some(path) = args.output else {
        let shown = serde_json::json!({ "file": file });
        return show(&shown, shared.json, |_| file);
    };
    create_private_file(&path, file.as_bytes()).map_err(|error| {
        CommandError::new(FAILED, format!("cannot write {}: {error}", path.display()))
    })?;
    show(&serde_json::json!({ "output": path }), shared.json, |_| {
        String::new()
    })
}

fn recipients_of(path: &Path) -> Result<Vec<String>, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::new(USAGE, format!("cannot read {}: {error}", path.display()))
    })?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

fn text(keys: &[MasterKeyInfo]) -> String {
    let rows = keys.iter().map(|key| {
        let or_dash = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".into());
        vec![
            key.id.clone(),
            key.state.clone(),
            or_dash(&key.replaced),
            or_dash(&key.sessions_end),
        ]
    });
    let head = ["KEY", "STATE", "REPLACED", "SESSIONS END"];
    table(&head, &rows.collect::<Vec<_>>())
}
