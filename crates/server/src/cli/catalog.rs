//! `dewar backup`, `dewar restore` and `dewar catalog`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use dewar_admin::amount;
use dewar_admin::catalog::{
    BackupInfo, BackupStart, BackupStatus, BackupTakenInfo, BlobsInfo, CatalogInfo, RebuildRequest,
    RestoreRequest,
};
use dewar_admin::progress::{Progress, ProgressUnit};
use dewar_env::WorkProgress;

use super::admin_request::{CommonArgs, show};
use super::disks::absolute;
use super::exit::{CommandError, CommandResult, FAILED};
use super::run::block_on;
use super::server_target::{AdminAccess, offline, reach};
use crate::engine::OpenEngine;
use crate::serve::StartError;

/// Interval of requests for the state of a running backup.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Number of such requests between two progress messages.
const TELL_EVERY: u32 = 50;

/// The destination of a backup.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The folder of backups, which must exist and be empty or have backups of this server; best on
    /// another machine
    target: PathBuf,
    /// The number of backups to keep
    #[arg(long, value_name = "N", default_value_t = 48)]
    keep: u32,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The backup to restore.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The folder of backups
    source: PathBuf,
    /// The backup to restore; without it the newest
    #[arg(long, value_name = "NAME")]
    backup: Option<String>,
    /// Read and check the backup, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Put objects back that are newer than the backup
    #[arg(long)]
    salvage: bool,
    /// Restore although a rebuild would lose nothing
    #[arg(long)]
    force: bool,
    /// Write every finding to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    shared: CommonArgs,
}

/// The subcommands about the catalog as a whole.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Rebuild the catalog from the data on the disks, and continue an interrupted salvage
    Rebuild(RebuildArgs),
}

/// How it is rebuilt.
#[derive(Debug, Args)]
pub struct RebuildArgs {
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Accept an incomplete catalog if no complete one can be rebuilt, and restore objects from
    /// their descriptions on the disks
    #[arg(long)]
    accept_loss: bool,
    /// Give up data that a restored or rebuilt catalog does not name: it is deleted from the next
    /// start on
    #[arg(long, conflicts_with_all = ["dry_run", "accept_loss"])]
    discard_unnamed: bool,
    /// Write every finding to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    shared: CommonArgs,
}

pub(super) fn backup<O: OpenEngine>(args: &BackupArgs, opener: &O) -> CommandResult {
    let target = std::path::absolute(&args.target)
        .map_err(|error| CommandError::new(FAILED, error))?
        .to_string_lossy()
        .into_owned();
    let work = async |reached: &mut AdminAccess| {
        let keep = args.keep;
        reached.ask(BackupStart { target, keep }).await?;
        let mut asked = 0_u32;
        loop {
            let backup = reached.ask(BackupStatus {}).await?;
            if !backup.running {
                return Ok(backup);
            }
            asked += 1;
            if let Some(progress) = backup.progress.filter(|_| asked.is_multiple_of(TELL_EVERY)) {
                eprintln!("{}", progress.line());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    let BackupInfo { taken, error, .. } = block_on(reach(&args.shared.target, opener, work))?;
    let Some(taken) = taken else {
        let error = error.unwrap_or_else(|| "the backup was not taken".to_owned());
        return Err(CommandError::new(FAILED, error));
    };
    show(&taken, args.shared.json, taken_text)
}

fn taken_text(taken: &BackupTakenInfo) -> String {
    let mut text = format!(
        "{}: the catalog up to batch {}, {} in {} files; {} in {} files copied\n",
        taken.name,
        taken.upto,
        amount(taken.bytes),
        taken.runs,
        amount(taken.copied_bytes),
        taken.copied_runs
    );
    if taken.unsealed_bytes > 0 {
        text.push_str(&format!(
            "{} of small objects are in the journal only: they are named by the backup, and are lost \
             with the journal\n",
            amount(taken.unsealed_bytes)
        ));
    }
    if taken.removed > 0 {
        text.push_str(&format!("{} older backups removed\n", taken.removed));
    }
    text.push_str("Keep a copy of the master key file in another place: without it no access key can be read, and with it anybody \
         can read them\n");
    text
}

pub(super) fn restore<O: OpenEngine>(args: RestoreArgs, opener: &O) -> CommandResult {
    let wish = RestoreRequest {
        // However it is typed the next time, it is the same.
        source: absolute(&args.source)?.into(),
        backup: args.backup,
        dry_run: args.dry_run,
        force: args.force,
        salvage: args.salvage,
        report: report_file(args.report)?,
        progress: Arc::default(),
    };
    let info = block_on(async {
        let (config, _lock) = offline(&args.shared.target).await?;
        let progress = Arc::clone(&wish.progress);
        let restored = with_progress("restore", &progress, opener.restore(&config, wish)).await;
        restored.map_err(|error| CommandError::from(StartError::Engine(error)))
    })?;
    print_report(&info, args.shared.json)
}

pub(super) fn catalog<O: OpenEngine>(command: CatalogCommand, opener: &O) -> CommandResult {
    let CatalogCommand::Rebuild(args) = command;
    let wish = RebuildRequest {
        dry_run: args.dry_run,
        accept_loss: args.accept_loss,
        discard_unnamed: args.discard_unnamed,
        report: report_file(args.report)?,
        progress: Arc::default(),
    };
    let info = block_on(async {
        let (config, _lock) = offline(&args.shared.target).await?;
        let progress = Arc::clone(&wish.progress);
        let rebuilt = with_progress("rebuild", &progress, opener.rebuild(&config, wish)).await;
        rebuilt.map_err(|error| CommandError::from(StartError::Engine(error)))
    })?;
    print_report(&info, args.shared.json)
}

/// Does long work, and prints now and then how many blobs were inspected.
async fn with_progress<T>(what: &str, counts: &WorkProgress, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(ASK_EVERY * TELL_EVERY) => {}
        }
        let progress = Progress {
            what: what.to_owned(),
            done: counts.done(),
            unit: ProgressUnit::Blobs,
            errors: counts.errors(),
            ..Progress::default()
        };
        eprintln!("{}", progress.line());
    }
}

/// The report file as an absolute path, so that a continued attempt finds it from any folder.
fn report_file(named: Option<PathBuf>) -> Result<Option<PathBuf>, CommandError> {
    named.map(|file| Ok(absolute(&file)?.into())).transpose()
}

/// Exit code 1 when something was lost, or may have been. Facts that cannot be known are listed.
fn print_report(info: &CatalogInfo, json: bool) -> CommandResult {
    show(info, json, text)?;
    let lost = info.blobs.as_ref().is_some_and(|blobs| {
        blobs.gone + blobs.too_few_shards + blobs.nameless + blobs.unreadable + blobs.unread > 0
    });
    Ok(if lost || !info.unknown.is_empty() {
        FAILED
    } else {
        0
    })
}

fn text(info: &CatalogInfo) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<13} {value}\n"));
    let upto = info.upto.map(|upto| format!(", up to batch {upto}"));
    let exact = match info.made_of.as_str() {
        "exact" => "exact",
        "blobs" => "what the blobs say of themselves",
        other => other,
    };
    line("catalog", &format!("{exact}{}", upto.unwrap_or_default()));
    match &info.ended_before {
        Some(at) => line(
            "attempt",
            &format!(
                "one that was begun {at} had ended, and nothing was done now: this is what came of it then"
            ),
        ),
        None if info.gone_on => line(
            "attempt",
            "it goes on with an earlier one: this is what came of all of it",
        ),
        None => {}
    }
    if let Some(upto) = info.here_upto.filter(|_| info.dry_run) {
        line(
            "here",
            &format!(
                "the catalog on the disks is whole, up to batch {upto}: no backup is needed, and to restore \
                 one would ask for --force"
            ),
        );
    }
    if let (Some(backup), Some(taken)) = (&info.backup, &info.backup_taken) {
        line("backup", &format!("{backup}, taken {taken}"));
        match (info.followed_upto, &info.exact_until) {
            (Some(upto), None) => line(
                "beyond it",
                &format!(
                    "the journal goes on to batch {upto}, and is whole: nothing that was acknowledged is \
                     lost"
                ),
            ),
            (Some(upto), Some(until)) => line(
                "beyond it",
                &format!(
                    "what is there of the journal goes on to batch {upto}: the catalog is exact up to \
                     {until}"
                ),
            ),
            (None, until) => line(
                "beyond it",
                &format!(
                    "no journal goes on from it: the catalog is exact up to {}",
                    until.as_deref().unwrap_or(taken)
                ),
            ),
        }
    }
    if !info.journal.is_empty() {
        line("journal", &info.journal);
        line("index", &info.index);
    }
    if info.mended > 0 {
        line("mended", &format!("{} pieces of the index", info.mended));
    }
    if let Some(blobs) = &info.blobs {
        blobs_text(blobs, put_back(info), &mut line);
        if info.dry_run {
            line(
                "",
                "at least: objects that would be joined from parts, and small ones that only a journal has, are \
                 not counted by a look",
            );
        }
    }
    if let Some(report) = &info.report {
        line("report", &report.display().to_string());
    }
    for unknown in &info.unknown {
        line("not known", unknown);
    }
    if info.dry_run {
        line("changed", "nothing: this was a look");
    } else if !info.settled {
        line(
            "left to do",
            "what the catalog does not name is kept on the disks: `dewar catalog rebuild` puts it back, \
             with --discard-unnamed it is given up",
        );
    }
    text
}

/// The text about objects that the catalog did not know.
fn put_back(info: &CatalogInfo) -> &'static str {
    match (info.placed, info.dry_run) {
        (true, false) => "put back",
        (_, true) => "to put back",
        (false, false) => "not put back",
    }
}

fn blobs_text(blobs: &BlobsInfo, put_back: &str, line: &mut impl FnMut(&str, &str)) {
    line(
        "blobs",
        &format!(
            "{} looked at, {} named by the catalog, {} left over",
            blobs.looked_at, blobs.named, blobs.leftover
        ),
    );
    let mut some = |name: &str, count: u64, what: &str| {
        if count > 0 {
            line(name, &format!("{count} {what}"));
        }
    };
    some(
        put_back,
        blobs.objects,
        &format!("objects with {}", amount(blobs.bytes)),
    );
    some("", blobs.joined, "of them joined from parts");
    some(
        "kept",
        blobs.kept,
        &format!("older contents with {}", amount(blobs.kept_bytes)),
    );
    some(
        "uploads",
        blobs.open_uploads,
        "stay open: parts are lacking",
    );
    some("users", blobs.users, "of whom only the number is known");
    some("buckets", blobs.buckets, "made");
    some(
        "moved",
        blobs.moved,
        "blobs that are elsewhere than was known",
    );
    some(
        "degraded",
        blobs.degraded,
        "blobs that lack shards: repair mends them",
    );
    some(
        "gone",
        blobs.gone,
        "blobs that are named and cannot be read: `dewar fsck` names the objects",
    );
    some(
        "lost",
        blobs.too_few_shards,
        "blobs of which too few shards are there",
    );
    some(
        "nameless",
        blobs.nameless,
        "contents that do not say whose they are",
    );
    some("unreadable", blobs.unreadable, "stretches of segments");
    some(
        "not read",
        blobs.unread,
        "disks or folders: repeat this when they are there",
    );
}
