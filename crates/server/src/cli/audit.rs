//! `dewar audit`: searching the audit log. Its files are read as they are, so it makes no difference
//! whether a server runs.

use std::collections::VecDeque;

use clap::Args;
use dewar_audit::{Filter, Line, VerifiedSet, moment, read, verify};
use dewar_env::Env;
use dewar_types::Timestamp;
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::audit_actions;
use super::columns::{print, print_json, printable, table_or};
use super::exit::{CommandError, CommandResult, FAILED, NOT_FOUND, USAGE};
use super::server_target::ServerTarget;
use crate::config::parse_duration;

/// The default number of lines.
const LAST: usize = 1000;

/// The lines to look for.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The caller: [TENANT:]NAME, SUBJECT@ISSUER, anonymous, or uid N on the admin socket
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// The credential: an access key, a session, or a token as the log names it
    #[arg(long, value_name = "ID")]
    credential: Option<String>,
    /// The target: this path, and everything below it
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// The action, as PutObject or admin:key-add
    #[arg(long, value_name = "ACTION")]
    verb: Option<String>,
    /// The kind of event
    #[arg(long, value_parser = ["access", "login", "session", "admin", "log"])]
    event: Option<String>,
    /// The outcome
    #[arg(long, value_parser = ["allowed", "refused", "failed"])]
    outcome: Option<String>,
    /// The earliest time: RFC 3339, or an age, as 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<String>,
    /// The latest time
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<String>,
    /// Show at most this many, the latest ones; 0 shows all
    #[arg(long, value_name = "NUMBER", default_value_t = LAST)]
    last: usize,
    /// Check instead whether a line was changed or removed
    #[arg(long, conflicts_with_all = ["who", "credential", "path", "verb", "event", "outcome", "since",
        "until"])]
    verify: bool,
    /// List instead the actions of administrators that the log can record
    #[arg(long, conflicts_with_all = ["who", "credential", "path", "verb", "event", "outcome", "since",
        "until", "verify"])]
    actions: bool,
    /// With --actions: print the reference page
    #[arg(long, requires = "actions")]
    markdown: bool,
    #[command(flatten)]
    target: ServerTarget,
    /// Print the lines as they are, one JSON object each
    #[arg(long)]
    json: bool,
}

/// A time as the log's lines have it.
fn time(text: &str) -> Result<String, String> {
    if let Some(ago) = parse_duration(text) {
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        let now = Env::real().clock.now();
        return Ok(moment(Timestamp(now.0.saturating_sub(ago))));
    }
    let parsed = OffsetDateTime::parse(text, &Rfc3339).ok();
    let nanos = parsed.and_then(|time| u64::try_from(time.unix_timestamp_nanos()).ok());
    let wrong = "a time, as 2026-11-22T12:00:00Z, or how long ago, as 2h";
    Ok(moment(Timestamp(nanos.ok_or(wrong)?)))
}

pub(super) fn audit(args: &AuditArgs) -> CommandResult {
    if args.actions {
        return audit_actions::list(args.json, args.markdown);
    }
    let config = args.target.load()?;
    let folder = config.audit_folder();
    if !folder.is_dir() {
        let message = format!("there is no audit log in {}", folder.display());
        return Err(CommandError::new(NOT_FOUND, message));
    }
    let failed = |error| CommandError::new(FAILED, error);
    if args.verify {
        return verified(verify(&folder).map_err(failed)?, args.json);
    }
    let filter = Filter {
        who: args.who.clone(),
        credential: args.credential.clone(),
        path: args.path.clone(),
        action: args.verb.clone(),
        event: args.event.clone(),
        outcome: args.outcome.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
    };
    if filter.path.as_ref().is_some_and(|path| path.is_empty()) {
        return Err(CommandError::new(USAGE, "--path needs a path"));
    }
    let mut found: VecDeque<(Line, String)> = VecDeque::new();
    let mut trouble = Ok(());
    read(&folder, &filter, |line, text| {
        if args.last == 0 {
            if trouble.is_ok() {
                trouble = shown(&line, text, args.json);
            }
            return;
        }
        if found.len() == args.last {
            found.pop_front();
        }
        found.push_back((line, text.to_owned()));
    })
    .map_err(failed)?;
    trouble?;
    if args.json || args.last == 0 {
        for (line, text) in &found {
            shown(line, text, args.json)?;
        }
        return Ok(0);
    }
    let head = [
        "TIME", "WHO", "BY", "FROM", "ACTION", "COUNT", "TARGET", "OUTCOME", "WHY",
    ];
    let rows: Vec<_> = found.into_iter().map(|(line, _)| row(line)).collect();
    print(&table_or(&head, &rows, "no records")).map(|()| 0)
}

fn row(line: Line) -> Vec<String> {
    let some = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    vec![
        line.time,
        line.who,
        some(line.credential),
        some(line.from),
        line.action,
        line.count.unwrap_or(1).to_string(),
        some(Some(line.target).filter(|text| !text.is_empty())),
        line.outcome,
        line.why,
    ]
}

fn shown(line: &Line, text: &str, json: bool) -> Result<(), CommandError> {
    match json {
        true => print(&format!("{text}\n")),
        false => {
            let cells: Vec<_> = row(line.clone())
                .iter()
                .map(|cell| printable(cell))
                .collect();
            print(&format!("{}\n", cells.join("  ")))
        }
    }
}

#[derive(Serialize)]
struct Verification {
    sound: bool,
    sets: Vec<SetVerification>,
    broken: Vec<String>,
}

#[derive(Serialize)]
struct SetVerification {
    set: &'static str,
    first: u64,
    last: u64,
    chain: String,
}

fn verified(sets: Vec<VerifiedSet>, json: bool) -> CommandResult {
    let broken: Vec<String> = sets
        .iter()
        .flat_map(|set| &set.broken)
        .map(|at| {
            let file = at.file.display();
            format!("{file}: record {}: {}", at.behind, at.what)
        })
        .collect();
    let sound = broken.is_empty();
    if json {
        let sets = sets.into_iter().map(|set| SetVerification {
            set: set.set.as_str(),
            first: set.first,
            last: set.last,
            chain: set.chain,
        });
        print_json(&Verification {
            sound,
            sets: sets.collect(),
            broken,
        })?;
    } else {
        for line in &broken {
            print(&format!("{line}\n"))?;
        }
        for set in &sets {
            let word = if set.broken.is_empty() {
                "sound"
            } else {
                "broken"
            };
            let (name, first, last, chain) = (set.set.as_str(), set.first, set.last, &set.chain);
            let text = match last {
                0 => format!("{name}: no records\n"),
                _ => format!("{name}: {word}, records {first} to {last}, chain {chain}\n"),
            };
            print(&text)?;
        }
    }
    Ok(if sound { 0 } else { FAILED })
}
