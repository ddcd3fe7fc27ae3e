//! `dewar config check|default|explain`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;

use super::columns::{print, print_json};
use super::exit::{CommandError, CommandResult, USAGE};
use super::server_target::{config_file, load};
use crate::config::check::{Severity, findings};
use crate::config::{Config, ConfigError, Problem, SECTIONS, all, explain, find, nearest_key};

/// The subcommands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration for errors and risks; changes nothing
    Check {
        /// The file, read together with the DEWAR_ variables of this environment; without one, that
        /// of --config, else /etc/dewar/dewar.toml
        file: Option<PathBuf>,
        /// The same
        #[arg(long, value_name = "FILE", env = "DEWAR_CONFIG")]
        config: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a configuration with every key, commented out, at its default
    Default,
    /// Explain one key, one table, or all
    Explain {
        /// Like s3.listen, or s3
        key: Option<String>,
        /// Print the reference page of the manual
        #[arg(long, conflicts_with = "key")]
        markdown: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "markdown")]
        json: bool,
    },
}

#[derive(Serialize)]
struct CheckReport {
    ok: bool,
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl CheckReport {
    /// Adds the errors and risks of a configuration, except for keys that are malformed themselves.
    fn add(&mut self, config: &Config, problems: &[Problem]) {
        let is_wrong = |key: &str| {
            let section = key.split_once('.').map_or(key, |(section, _)| section);
            problems.iter().any(|problem| {
                problem.message.contains(key)
                    || problem.message.contains("not TOML")
                    || problem.message.contains(&format!("[{section}]"))
            })
        };
        for finding in findings(config) {
            if is_wrong(finding.key) {
                continue;
            }
            let text = format!("{}: {}", finding.key, finding.message);
            match finding.severity {
                Severity::Error => self.errors.push(text),
                Severity::Warning => self.warnings.push(text),
            }
        }
    }
}

pub(super) fn run(command: ConfigCommand) -> CommandResult {
    match command {
        ConfigCommand::Check { file, config, json } => {
            let named = file.or(config);
            let checked = check(load(named.as_deref()), named.as_deref());
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
                    let read = config_file(named.as_deref());
                    let read =
                        read.map_or("the environment".into(), |file| file.display().to_string());
                    text.push_str(&format!("{read}: ok\n"));
                }
                print(&text)?;
            }
            Ok(if checked.ok { 0 } else { USAGE })
        }
        ConfigCommand::Default => print(&explain::default_toml()).map(|()| 0),
        ConfigCommand::Explain { markdown: true, .. } => print(&explain::markdown()).map(|()| 0),
        ConfigCommand::Explain { key, json, .. } => explained(key.as_deref(), json),
    }
}

fn explained(name: Option<&str>, json: bool) -> CommandResult {
    let Some(name) = name else {
        return if json {
            print_json(&all().map(explain::json).collect::<Vec<_>>()).map(|()| 0)
        } else {
            print(&explain::everything()).map(|()| 0)
        };
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let section = SECTIONS.iter().find(|section| section.name == bare);
    match (find(name), section) {
        (Some(key), _) if json => print_json(&explain::json(key)),
        (Some(key), _) => print(&explain::key(key)),
        (None, Some(section)) if json => {
            print_json(&section.keys.iter().map(explain::json).collect::<Vec<_>>())
        }
        (None, Some(section)) => print(&explain::section(section)),
        (None, None) => {
            let meant = match nearest_key(name) {
                Some(near) => format!("did you mean {near}?"),
                None => "`dewar config explain` without a name tells all".to_owned(),
            };
            let message = format!("no such key or table: {name}; {meant}");
            Err(CommandError::new(USAGE, message))
        }
    }
    .map(|()| 0)
}

fn check(loaded: Result<Config, ConfigError>, named: Option<&Path>) -> CheckReport {
    let mut checked = CheckReport {
        ok: true,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    match loaded {
        Ok(config) => checked.add(&config, &[]),
        Err(ConfigError::Problems(problems)) => {
            checked.errors = problems.iter().map(ToString::to_string).collect();
            // What is right can be checked all the same.
            let file = config_file(named);
            if let Ok((config, problems)) =
                Config::load_with_problems(file.as_deref(), std::env::vars_os())
            {
                checked.add(&config, &problems);
            }
        }
        Err(other) => checked.errors.push(other.to_string()),
    }
    checked.ok = checked.errors.is_empty();
    checked
}
