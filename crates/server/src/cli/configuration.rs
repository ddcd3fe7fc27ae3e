//! `dewar config check|default|explain`.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use super::columns::{print, print_json};
use super::exit::{CommandError, CommandResult, USAGE};
use crate::config::check::{Severity, findings};
use crate::config::{Config, ConfigError, explain, find, nearest_key};

/// What can be asked about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong or unwise about a configuration; changes nothing
    Check {
        /// The file, read together with the DEWAR_ variables of this environment
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a configuration with every key, commented out, at its default
    Default,
    /// Explain one key, or all
    Explain {
        /// Like s3.listen
        key: Option<String>,
        /// Print the reference page of the manual
        #[arg(long, conflicts_with = "key")]
        markdown: bool,
    },
}

#[derive(Serialize)]
struct Checked {
    ok: bool,
    errors: Vec<String>,
    warnings: Vec<String>,
}

pub(super) fn run(command: ConfigCommand) -> CommandResult {
    match command {
        ConfigCommand::Check { file, json } => {
            let checked = check(Config::load(Some(&file), std::env::vars_os()));
            if json {
                print_json(&checked)?;
            } else {
                let mut text = String::new();
                for error in &checked.errors {
                    text.push_str(&format!("error: {error}\n"));
                }
                for warning in &checked.warnings {
                    text.push_str(&format!("warning: {warning}\n"));
                }
                if checked.ok {
                    text.push_str(&format!("{}: ok\n", file.display()));
                }
                print(&text)?;
            }
            Ok(if checked.ok { 0 } else { USAGE })
        }
        ConfigCommand::Default => print(&explain::default_toml()).map(|()| 0),
        ConfigCommand::Explain {
            key: None,
            markdown,
        } => {
            let text = if markdown {
                explain::markdown()
            } else {
                explain::everything()
            };
            print(&text).map(|()| 0)
        }
        ConfigCommand::Explain { key: Some(key), .. } => match find(&key) {
            Some(key) => print(&explain::key(key)).map(|()| 0),
            None => {
                let meant = nearest_key(&key);
                let message = format!("no such key: {key}; did you mean {meant}?");
                Err(CommandError::new(USAGE, message))
            }
        },
    }
}

fn check(loaded: Result<Config, ConfigError>) -> Checked {
    let mut checked = Checked {
        ok: true,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    match loaded {
        Ok(config) => {
            for finding in findings(&config) {
                let text = format!("{}: {}", finding.key, finding.message);
                match finding.severity {
                    Severity::Error => checked.errors.push(text),
                    Severity::Warning => checked.warnings.push(text),
                }
            }
        }
        Err(ConfigError::Problems(problems)) => {
            checked.errors = problems.iter().map(ToString::to_string).collect();
        }
        Err(other) => checked.errors.push(other.to_string()),
    }
    checked.ok = checked.errors.is_empty();
    checked
}
