//! `dewar key-file`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::accounts::{CommonArgs, ask, strange};
use super::columns::{print, print_json, table};
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use crate::admin::{KeyFileReply, KeyFileRequest, MasterKeyInfo, Reply, Request};
use crate::engine::OpenEngine;
use crate::ready::create_private_file;

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
    let (shared, request, output) = match command {
        KeyFileCommand::List(args) => (args.shared, KeyFileRequest::List {}, None),
        KeyFileCommand::Rotate(args) => (args.shared, KeyFileRequest::Rotate {}, None),
        KeyFileCommand::Retire(args) => {
            let RetireArgs {
                id,
                end_sessions,
                shared,
            } = args;
            (shared, KeyFileRequest::Retire { id, end_sessions }, None)
        }
        KeyFileCommand::Export(args) => {
            let mut recipients = args.recipient;
            for path in &args.recipients_file {
                recipients.extend(recipients_of(path)?);
            }
            if recipients.is_empty() {
                let words = "for whom? --recipient AGE1… or --recipients-file FILE";
                return Err(CommandError::new(USAGE, words));
            }
            let request = KeyFileRequest::Export { recipients };
            (args.shared, request, args.output)
        }
    };
    let Reply::KeyFile(reply) = ask(&shared, opener, Request::KeyFile(request))? else {
        return Err(strange());
    };
    match (reply, output) {
        (KeyFileReply::Keys(keys), _) if shared.json => print_json(&keys),
        (KeyFileReply::Keys(keys), _) => print(&text(&keys)),
        (KeyFileReply::Exported(file), Some(path)) => {
            create_private_file(&path, file.as_bytes()).map_err(|error| {
                CommandError::new(FAILED, format!("cannot write {}: {error}", path.display()))
            })?;
            match shared.json {
                true => print_json(&serde_json::json!({ "output": path })),
                false => Ok(()),
            }
        }
        (KeyFileReply::Exported(file), None) if shared.json => {
            print_json(&serde_json::json!({ "file": file }))
        }
        (KeyFileReply::Exported(file), None) => print(&file),
    }
    .map(|()| 0)
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
