//! `dewar disk`, `dewar scrub` and `dewar fsck`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dewar_admin::amount;
use dewar_admin::disks::{
    DiskAction, DiskAdd, DiskAdded, DiskDecide, DiskDecided, DiskInfo, DiskReadmit, DiskReadmitted,
    DiskRemove, DiskRemoved,
};
use dewar_admin::upkeep::LedgerInfo;

use super::admin_request::{CommonArgs, one, show};
use super::columns::table;
use super::exit::{CommandError, CommandResult, USAGE};
use super::run::block_on;
use super::server_target::{list_disks, replace_lost};
use crate::engine::OpenEngine;

/// The subcommands about disks.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// List the disks and their content
    List(DiskListArgs),
    /// Make a blank folder a disk of the pool; it takes new data at once
    Add(AddArgs),
    /// Replace a disk, working or failed, by a new one: its data is moved or rebuilt, and then it
    /// is removed. Safe to interrupt: the work continues by itself, or give the same command again
    Replace(ReplaceArgs),
    /// Move all data off a disk that can be read; it gets no new data
    Drain(DrainArgs),
    /// Cancel a decision to drain or replace a disk
    Keep(DiskArgs),
    /// Remove a disk that is lost or taken away, and rebuild its data; refused if data would be
    /// lost
    Remove(DiskArgs),
    /// Take a removed disk back: its shards are used where the pool lacks them, and leftovers are
    /// deleted. Safe to interrupt: the work continues by itself, or give the same command again
    Readmit(ReadmitArgs),
}

/// No more than how to show it.
#[derive(Debug, Args)]
pub struct DiskListArgs {
    #[command(flatten)]
    shared: CommonArgs,
}

/// One disk.
#[derive(Debug, Args)]
pub struct DiskArgs {
    /// The disk's number, its folder, its id, or the first digits of it
    disk: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A disk to be emptied.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The disk's number, its folder, its id, or the first digits of it
    disk: String,
    /// Without a spare disk, rewrite all data in a narrower layout, which needs more space
    #[arg(long)]
    narrower: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A disk that was removed.
#[derive(Debug, Args)]
pub struct ReadmitArgs {
    /// The disk's folder; if the server knows the folder, also the disk's number, its id, or the
    /// first digits of it
    disk: String,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A new disk.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// A blank folder, best on a device of its own
    folder: PathBuf,
    /// The pool of the new disk; without it the one that the configuration names for the folder, or
    /// the main one
    #[arg(long)]
    pool: Option<String>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// A new disk for an old one.
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    /// The old disk's number, its folder, its id, or the first digits of it
    old: String,
    /// A blank folder, best on a device of its own; it may be where the old disk was
    folder: PathBuf,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn disk<O: OpenEngine>(command: DiskCommand, opener: &O) -> CommandResult {
    let decide = |shared: &CommonArgs, disk: String, action, narrower| {
        let request = DiskDecide {
            disk: named(disk),
            action,
            narrower,
        };
        one(shared, opener, request, decided_text)
    };
    match command {
        DiskCommand::List(DiskListArgs { shared }) => list(&shared, opener),
        DiskCommand::Add(args) => {
            let request = DiskAdd {
                folder: absolute(&args.folder)?,
                replaces: None,
                pool: args.pool,
            };
            one(&args.shared, opener, request, added_text)
        }
        DiskCommand::Replace(args) => {
            let folder = absolute(&args.folder)?;
            let old = named(args.old);
            block_on(replace_lost(&args.shared.target, opener, &old, &folder))?;
            let request = DiskAdd {
                folder,
                replaces: Some(old),
                pool: None,
            };
            one(&args.shared, opener, request, added_text)
        }
        DiskCommand::Drain(args) => {
            decide(&args.shared, args.disk, DiskAction::Drain, args.narrower)
        }
        DiskCommand::Keep(args) => decide(&args.shared, args.disk, DiskAction::Keep, false),
        DiskCommand::Remove(DiskArgs { disk, shared }) => {
            let disk = named(disk);
            one(&shared, opener, DiskRemove { disk }, removed_text)
        }
        DiskCommand::Readmit(ReadmitArgs { disk, shared }) => {
            let disk = named(disk);
            one(&shared, opener, DiskReadmit { disk }, readmitted_text)
        }
    }
}

/// Lists the disks, also those of a store that does not open.
fn list<O: OpenEngine>(shared: &CommonArgs, opener: &O) -> CommandResult {
    let (disks, why) = block_on(list_disks(&shared.target, opener))?;
    show(&*disks, shared.json, text)?;
    match why {
        Some(why) => Err(CommandError::new(
            why.code,
            format!(
                "the store does not open, so this is only what the folders say: {}",
                why.message
            ),
        )),
        None => Ok(0),
    }
}

/// A path from the root, without a slash at the end.
pub(super) fn absolute(folder: &Path) -> Result<String, CommandError> {
    let path = std::path::absolute(folder).map_err(|error| {
        let message = format!("{}: {error}", folder.display());
        CommandError::new(USAGE, message)
    })?;
    let path: PathBuf = path.components().collect();
    Ok(path.to_string_lossy().into_owned())
}

/// A folder as the server knows it, if it is one as seen from here.
pub(super) fn named(disk: String) -> String {
    // One that is gone is a path all the same.
    match std::path::absolute(&disk) {
        Ok(path) if path.is_dir() || disk.contains('/') => path.to_string_lossy().into_owned(),
        _ => disk,
    }
}

fn text(disks: &[DiskInfo]) -> String {
    let or_dash = |text: Option<&String>| text.map_or("-", String::as_str).to_owned();
    let pools: BTreeSet<&String> = disks.iter().filter_map(|disk| disk.pool.as_ref()).collect();
    let several = pools.len() > 1;
    let rows: Vec<_> = disks
        .iter()
        .map(|disk| {
            let scrub = match &disk.scrub_began {
                Some(began) => format!("since {began}, {}", amount(disk.scrub_bytes)),
                None => or_dash(disk.scrubbed.as_ref()),
            };
            let id = disk.id.as_deref().unwrap_or("-");
            let mut row = vec![
                disk.number
                    .map_or("-".to_owned(), |number| number.to_string()),
                or_dash(disk.path.as_ref()),
                id.get(..8).unwrap_or(id).to_owned(),
                disk.state.clone(),
                disk.shards.to_string(),
                amount(disk.bytes),
                disk.bad_shards.to_string(),
                disk.rot_found.to_string(),
                disk.available_bytes.map_or("-".to_owned(), amount),
                scrub,
            ];
            if several {
                row.insert(2, or_dash(disk.pool.as_ref()));
            }
            row
        })
        .collect();
    let mut head = vec![
        "NUMBER",
        "DISK",
        "ID",
        "STATE",
        "SHARDS",
        "DATA",
        "BAD SHARDS",
        "ROT FOUND",
        "FREE",
        "SCRUBBED",
    ];
    if several {
        head.insert(2, "POOL");
    }
    let mut text = table(&head, &rows);
    for advice in disks.iter().filter_map(|disk| disk.advice.as_ref()) {
        text.push_str(&format!("! {advice}\n"));
    }
    text
}

fn name(number: Option<u32>, id: &str) -> String {
    match number {
        Some(number) => format!("disk {number}"),
        None => format!("disk {}", id.get(..8).unwrap_or(id)),
    }
}

fn removed_text(removed: &DiskRemoved) -> String {
    let path = removed.path.as_deref();
    let Some(id) = &removed.id else {
        return format!("{} is forgotten\n", path.unwrap_or("the folder"));
    };
    let mut text = format!(
        "{} was removed: {} shards ({}) that were placed on it are rebuilt on other disks; `dewar \
         status` shows how far that is\n",
        name(removed.number, id),
        removed.shards,
        amount(removed.bytes)
    );
    text.push_str(
        "the disk is out of the journal for good; the pool can again lose as many disks as its layout says\n",
    );
    if removed.short_of > 0 {
        let plural = if removed.short_of == 1 { "" } else { "s" };
        text.push_str(&format!(
            "! but after so many losses nothing can be written, and no start succeeds, before one of them \
             is back or replaced: add {} more disk{plural} (`dewar disk add FOLDER`)\n",
            removed.short_of
        ));
    }
    if let Some(ledger) = &removed.ledger {
        text.push_str("what is there without it:\n");
        text.push_str(&ledger_text(ledger));
    }
    text.push_str(&match (removed.left_behind, path) {
        (true, Some(path)) => format!(
            "its files are left in {path}. Do not empty it before `dewar status` says that all is whole: \
             `dewar disk readmit {path}` takes the disk back with its shards\n"
        ),
        _ => "should it turn up again: `dewar disk readmit FOLDER` takes it back with its shards\n"
            .to_owned(),
    });
    text
}

fn readmitted_text(back: &DiskReadmitted) -> String {
    let mut text = format!(
        "{} is {} again and takes new data\n",
        back.path,
        name(back.number, &back.id)
    );
    text.push_str(&match &back.held {
        Some(held) => format!(
            "it has {} shards, of which the pool lacks {} ({}); {} blobs that cannot be read have some \
             of them. Each is verified before it counts, and what belongs to nothing any more is removed; \
             it is `returning` in `dewar disk list` as long as that lasts\n",
            held.shards,
            held.lacking,
            amount(held.lacking_bytes),
            held.unreadable
        ),
        None => "it is being taken back already\n".to_owned(),
    });
    if !back.in_configuration {
        text.push_str(&remembered(&back.path));
    }
    for warning in &back.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

fn remembered(path: &str) -> String {
    format!(
        "this server remembers the folder; name it in pool.disks too, for those who read the \
         configuration: \"{path}\"\n"
    )
}

fn added_text(added: &DiskAdded) -> String {
    let path = &added.path;
    let mut text = format!(
        "{path} is {} now and takes new data\n",
        name(added.number, &added.id)
    );
    if let Some(old) = &added.replaces {
        let old = name(added.replaces_number, old);
        text.push_str(&match added.removed {
            true => format!("{old} was removed: what it held is being rebuilt, and it can be taken away\n"),
            false => format!(
                "{old} is being emptied; `dewar disk list` shows how far that is. When it is removed it \
                 can be taken away\n"
            ),
        });
    }
    if !added.in_configuration {
        text.push_str(&remembered(path));
    }
    for warning in &added.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

fn decided_text(decided: &DiskDecided) -> String {
    let DiskDecided { path, shards, .. } = decided;
    let name = decided
        .number
        .map_or_else(|| path.clone(), |number| number.to_string());
    let what = format!("{shards} shards with {}", amount(decided.bytes));
    match decided.action {
        DiskAction::Drain => {
            let anew = match &decided.narrower {
                Some(layout) => format!(" All blobs on it are written anew as {layout}."),
                None => String::new(),
            };
            format!(
                "{path} takes nothing new from now on, and is being emptied: {what} are to move.{anew}\n\
                 `dewar status` says how much is left. When nothing is: `dewar disk remove {name}`; until \
                 then `dewar disk keep {name}` takes it back\n"
            )
        }
        DiskAction::Keep => {
            format!("{path} is kept, and takes data again; what has moved stays where it is\n")
        }
    }
}

pub(super) fn ledger_text(ledger: &LedgerInfo) -> String {
    let counted = ledger.lines.iter().any(|line| line.objects.is_some());
    let rows: Vec<_> = ledger
        .lines
        .iter()
        .map(|line| {
            let mut row = vec![
                left(line.failures_left),
                line.blobs.to_string(),
                amount(line.bytes),
            ];
            if counted {
                row.push(line.objects.unwrap_or(0).to_string());
            }
            row.push(match &line.proven {
                _ if line.failures_left < 0 => "-".to_owned(),
                Some(proven) => proven.clone(),
                None if line.blobs == 0 => "-".to_owned(),
                None => "never".to_owned(),
            });
            row
        })
        .collect();
    let mut head = vec!["FAILURES LEFT", "BLOBS", "DATA"];
    if counted {
        head.push("OBJECTS");
    }
    head.push("PROVEN SINCE");
    let mut text = table(&head, &rows);
    text.push_str(
        "(each line: the blobs that survive so many more disk failures; all were read and verified since)\n",
    );
    let journal_only = amount(ledger.journal_only_bytes);
    text.push_str(&match ledger.catalog {
        left if left < 0 => format!(
            "catalog: NOT WHOLE, {} pieces of its index are damaged on every disk; {journal_only} of small \
             objects are in its journal only\n",
            ledger.catalog_lost
        ),
        left => format!(
            "catalog: {left} failures left, with {journal_only} of small objects that only its journal \
             holds yet\n"
        ),
    });
    if let Some(unread) = &ledger.unread {
        text.push_str(&format!("not everything could be looked at: {unread}\n"));
    }
    if ledger.freeing_blobs > 0 {
        text.push_str(&format!(
            "deleted, to be removed: {} blobs with {}\n",
            ledger.freeing_blobs,
            amount(ledger.freeing_bytes)
        ));
    }
    text
}

/// The advice when pieces of the catalog index are damaged on every disk.
pub(super) const CATALOG_LOST_ADVICE: &str = "do not restart it: it goes on with what is in memory, and may \
     not start again. When it can be stopped for a while, `dewar catalog rebuild --dry-run` says what can be \
     had, and `dewar catalog rebuild` or, with a backup, `dewar restore FOLDER --salvage` makes it whole";

pub(super) fn left(failures: i32) -> String {
    match failures {
        failures if failures < 0 => "unreadable".to_owned(),
        failures => failures.to_string(),
    }
}
