//! `dewar policy import-authdb`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use dewar_admin::identity::{HolderName, PolicyPut};
use dewar_auth::{AUTHDB_BYTES_MAX, Authdb, AuthdbHolder};
use serde::Serialize;

use super::admin_request::{CommonArgs, ask, show};
use super::exit::{CommandError, CommandResult, FAILED, USAGE};
use crate::engine::OpenEngine;

/// A database to take over.
#[derive(Debug, Args)]
pub struct ImportAuthdbArgs {
    /// The authorization database of an XRootD server
    file: PathBuf,
    /// Put the policies of users and groups, named authdb, authdb-2 …; without this they are only
    /// shown. Policies of buckets are only shown in any case, because their owners set them
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

#[derive(Serialize)]
struct ImportReport {
    lines: Vec<LineReport>,
    policies: Vec<PolicyReport>,
}

#[derive(Serialize)]
struct LineReport {
    line: usize,
    text: String,
    exact: bool,
    told: Vec<String>,
}

#[derive(Serialize)]
struct PolicyReport {
    holder: String,
    name: String,
    policy: serde_json::Value,
    /// Whether it was put; why not, where it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<String>,
}

pub(super) fn import<O: OpenEngine>(args: &ImportAuthdbArgs, opener: &O) -> CommandResult {
    let shown = args.file.display();
    let mut text = String::new();
    let limit = AUTHDB_BYTES_MAX as u64 + 1;
    File::open(&args.file)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(|error| CommandError::new(FAILED, format!("cannot read {shown}: {error}")))?;
    if text.len() > AUTHDB_BYTES_MAX {
        let words = format!("{shown} is longer than {AUTHDB_BYTES_MAX} bytes");
        return Err(CommandError::new(USAGE, words));
    }
    let database = Authdb::parse(&text);
    let mut failed = false;
    let mut policies = Vec::new();
    let mut numbers: BTreeMap<AuthdbHolder, usize> = BTreeMap::new();
    for (holder, policy) in database.policies() {
        let number = numbers.entry(holder.clone()).or_default();
        *number += 1;
        let name = match *number {
            1 => "authdb".to_owned(),
            number => format!("authdb-{number}"),
        };
        let (of, whose) = match holder {
            AuthdbHolder::User(user) => (format!("user {user}"), Some(HolderName::User(user))),
            AuthdbHolder::Group(group) => {
                (format!("group {group}"), Some(HolderName::Group(group)))
            }
            AuthdbHolder::Bucket(bucket) => (format!("bucket {bucket}"), None),
        };
        let mut put = None;
        if let Some(holder) = whose.filter(|_| args.apply) {
            let request = PolicyPut {
                holder,
                policy: name.clone(),
                text: policy.clone(),
            };
            put = Some(match ask(&args.shared, opener, request) {
                Ok(_) => "done".to_owned(),
                Err(error) => {
                    failed = true;
                    error.message.to_string()
                }
            });
        }
        policies.push(PolicyReport {
            holder: of,
            name,
            policy: serde_json::from_str(&policy).unwrap_or_default(),
            put,
        });
    }
    let lines = database.lines.into_iter().map(|line| LineReport {
        line: line.line,
        text: line.text,
        exact: line.exact,
        told: line.told,
    });
    let told = ImportReport {
        lines: lines.collect(),
        policies,
    };
    show(&told, args.shared.json, text_of)?;
    Ok(if failed { FAILED } else { 0 })
}

fn text_of(told: &ImportReport) -> String {
    let mut text = String::new();
    for line in &told.lines {
        let mark = if line.exact { ' ' } else { '!' };
        text.push_str(&format!("{mark} line {}: {}\n", line.line, line.text));
        for words in &line.told {
            text.push_str(&format!("      {words}\n"));
        }
    }
    for policy in &told.policies {
        text.push_str(&format!("\npolicy {} of {}", policy.name, policy.holder));
        if let Some(put) = &policy.put {
            text.push_str(&format!(": {put}"));
        }
        text.push_str(&format!("\n{:#}\n", policy.policy));
    }
    text
}
