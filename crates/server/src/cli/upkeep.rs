//! `dewar scrub` and `dewar fsck`.

use std::time::Duration;

use clap::Args;
use dewar_admin::amount;
use dewar_admin::catalog::{SETTLE, UNSETTLED};
use dewar_admin::disks::{DiskInfo, DiskList};
use dewar_admin::upkeep::{
    AtRiskInfo, DangerInfo, FsckInfo, FsckMore, FsckStart, FsckStatus, LedgerLineInfo, ScrubInfo,
    ScrubList, ScrubStart,
};
use serde_json::Value;
use tokio::time::Instant;

use super::admin_request::CommonArgs;
use super::columns::{print, print_json, table};
use super::disks::{CATALOG_LOST_ADVICE, ledger_text, left, named};
use super::exit::{CommandError, CommandResult, FAILED};
use super::run::block_on;
use super::server_target::{AdminAccess, reach, running};
use crate::engine::OpenEngine;

/// Interval of requests for the state of running work.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Number of such requests between two progress messages.
const TELL_EVERY: u32 = 20;

/// The disks to scrub.
#[derive(Debug, Args)]
pub struct ScrubArgs {
    /// Only this disk: its number, its folder, its id, or the first digits of it
    disk: Option<String>,
    /// Start the scrub, and do not wait for its end
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// How deep to look.
#[derive(Debug, Args)]
pub struct FsckArgs {
    /// Read every shard of every object from the disks first
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    shared: CommonArgs,
}

/// Starts a scrub and shows its progress until it is over. Exit code 1 when damage was found, or a
/// disk could not be read. With `--no-wait` the scrub continues alone.
pub(super) fn scrub(args: ScrubArgs) -> CommandResult {
    let (disk, json) = (args.disk.map(named), args.shared.json);
    let (before, after, seconds) = block_on(async {
        // Only a server that runs has the time.
        let mut client = running(&args.shared.target).await?;
        let before = client.ask(&ScrubList {}).await?;
        client.ask(&ScrubStart { disk }).await?;
        let began = Instant::now();
        let mut now = client.ask(&ScrubList {}).await?;
        // One that a command or the calendar had begun goes on, on all disks.
        now.retain(|scrub| is_meant(scrub, &before));
        let meant: Vec<String> = now.iter().map(|scrub| scrub.id.clone()).collect();
        let mut asked = 0_u32;
        while !args.no_wait && now.iter().any(is_under_way) {
            asked += 1;
            if asked.is_multiple_of(TELL_EVERY) {
                for progress in now.iter().filter_map(|scrub| scrub.progress.as_ref()) {
                    eprintln!("{}", progress.line());
                }
            }
            tokio::time::sleep(ASK_EVERY).await;
            now = client.ask(&ScrubList {}).await?;
            now.retain(|scrub| meant.contains(&scrub.id));
        }
        Ok((before, now, began.elapsed().as_secs()))
    })?;
    let bad: u64 = after.iter().map(|scrub| found(scrub, &before)).sum();
    if json {
        print_json(&after)?;
    } else {
        print(&scrub_text(&before, &after, seconds))?;
    }
    let unread = after.iter().any(|scrub| !scrub.readable);
    Ok(if bad > 0 || unread { FAILED } else { 0 })
}

/// Whether a scrub is due, under way, or was over before it could be asked for again.
fn is_meant(scrub: &ScrubInfo, before: &[ScrubInfo]) -> bool {
    let was = before.iter().find(|was| was.id == scrub.id);
    scrub.began.is_some() || was.is_none_or(|was| was.ended != scrub.ended)
}

fn is_under_way(scrub: &ScrubInfo) -> bool {
    scrub.began.is_some() && scrub.readable
}

/// Shards found bad since the command began.
fn found(scrub: &ScrubInfo, before: &[ScrubInfo]) -> u64 {
    let was = before.iter().find(|was| was.id == scrub.id);
    scrub.bad.saturating_sub(was.map_or(0, |was| was.bad))
}

fn scrub_text(before: &[ScrubInfo], after: &[ScrubInfo], seconds: u64) -> String {
    let mut text = String::new();
    for scrub in after {
        let path = &scrub.path;
        text.push_str(&match (&scrub.began, scrub.readable) {
            (_, false) => {
                format!("{path}: not read, the disk is away; it is read when it is back\n")
            }
            (Some(began), true) => {
                format!("{path}: under way since {began}; `dewar disk list` shows how far it is\n")
            }
            (None, true) => format!(
                "{path}: {} shards with {} read in {seconds} s, {} of them found bad\n",
                scrub.shards,
                amount(scrub.bytes),
                found(scrub, before)
            ),
        });
    }
    if after.is_empty() {
        text.push_str("there is no disk to be read\n");
    }
    text
}

/// Exit code 1 when something is not as safe as it should be.
pub(super) fn fsck<O: OpenEngine>(args: &FsckArgs, opener: &O) -> CommandResult {
    let json = args.shared.json;
    block_on(reach(
        &args.shared.target,
        opener,
        async |reached: &mut AdminAccess| {
            // A person wants to know which disks it was.
            let by_disk = args.deep && !json;
            let before = match by_disk {
                true => reached.ask(DiskList {}).await?,
                false => Vec::new(),
            };
            let found = check(reached, args.deep).await?;
            if let Some(error) = &found.error {
                return Err(CommandError::new(FAILED, error));
            }
            print_report(reached, &found, json).await?;
            if by_disk {
                let after = reached.ask(DiskList {}).await?;
                print(&disks_text(&before, &after))?;
            }
            Ok(if is_sound(&found) { 0 } else { FAILED })
        },
    ))
}

/// The disks on which something was found, and those that were not read.
fn disks_text(before: &[DiskInfo], after: &[DiskInfo]) -> String {
    let mut text = String::new();
    for disk in after.iter().filter(|disk| disk.state != "removed") {
        let id = disk.id.as_deref().unwrap_or_default();
        let path = disk.path.as_deref().unwrap_or(id);
        let was = before
            .iter()
            .find(|was| was.id == disk.id && was.path == disk.path);
        let found = disk
            .rot_found
            .saturating_sub(was.map_or(0, |was| was.rot_found));
        if found + disk.bad_shards > 0 {
            text.push_str(&format!(
                "{path}: {found} shards found rotten, {} bad or gone now\n",
                disk.bad_shards
            ));
        }
        if matches!(
            &*disk.state,
            "missing" | "blank" | "hung" | "foreign" | "copy"
        ) {
            text.push_str(&format!("{path}: not read, it is {}\n", disk.state));
        }
    }
    text
}

async fn check(reached: &mut AdminAccess, deep: bool) -> Result<FsckInfo, CommandError> {
    reached.ask(FsckStart { deep }).await?;
    let mut asked = 0_u32;
    loop {
        let fsck = reached.ask(FsckStatus {}).await?;
        if !fsck.running {
            return Ok(fsck);
        }
        asked += 1;
        if let Some(progress) = fsck
            .progress
            .filter(|_| deep && asked.is_multiple_of(TELL_EVERY))
        {
            eprintln!("{}", progress.line());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn is_sound(found: &FsckInfo) -> bool {
    found.ledger.as_ref().is_some_and(|ledger| {
        let whole = |line: &LedgerLineInfo| line.lacking == 0;
        ledger.lines.iter().all(whole)
            && ledger.at_risk.is_empty()
            && ledger.catalog >= ledger.full
            && ledger.found_bad == 0
            && ledger.unread.is_none()
            && !ledger.unsettled
    })
}

/// Prints the findings, and all objects at risk, page by page.
async fn print_report(
    reached: &mut AdminAccess,
    found: &FsckInfo,
    json: bool,
) -> Result<(), CommandError> {
    let more = found.ledger.as_ref().is_some_and(|ledger| ledger.more);
    match (json, more) {
        (true, false) => return print_json(found),
        (true, true) => print(&json_head(found)?)?,
        (false, _) => print(&fsck_text(found))?,
    }
    let mut page = 0;
    let mut goes_on = more;
    while goes_on {
        let AtRiskInfo { at_risk, more } = reached.ask(FsckMore { page }).await?;
        let mut text = String::new();
        for danger in &at_risk {
            text.push_str(&match json {
                true => format!(",{}", json_text(danger)?),
                false => row(danger),
            });
        }
        print(&text)?;
        (page, goes_on) = (page + 1, more);
    }
    if json && more {
        print("]}}\n")?;
    }
    Ok(())
}

fn json_text(value: &impl serde::Serialize) -> Result<String, CommandError> {
    serde_json::to_string(value).map_err(|error| CommandError::new(FAILED, error))
}

/// The reply as far as the end of the objects that it names, in the place of the last of its fields.
fn json_head(found: &FsckInfo) -> Result<String, CommandError> {
    let text = |value: &Value| -> Result<String, CommandError> {
        let mut text = json_text(value)?;
        // Without the brace at the end.
        text.pop();
        Ok(text)
    };
    let mut whole = serde_json::to_value(found).map_err(|e| CommandError::new(FAILED, e))?;
    let mut ledger = whole["ledger"].take();
    let named = ledger["at_risk"].take();
    for (value, field) in [(&mut whole, "ledger"), (&mut ledger, "at_risk")] {
        if let Value::Object(fields) = value {
            fields.remove(field);
        }
    }
    // All are named, here.
    ledger["more"] = Value::Bool(false);
    let mut named = json_text(&named)?;
    named.pop();
    Ok(format!(
        "{},\"ledger\":{},\"at_risk\":{named}",
        text(&whole)?,
        text(&ledger)?
    ))
}

fn row(danger: &DangerInfo) -> String {
    let cells = vec![left(danger.failures_left), danger.path.clone()];
    let text = table(&HEAD, &[cells]);
    // Under the head that was printed with the first ones.
    text.split_once('\n')
        .map_or_else(String::new, |(_, row)| row.to_owned())
}

const HEAD: [&str; 2] = ["FAILURES LEFT", "OBJECT"];

pub(super) fn fsck_text(fsck: &FsckInfo) -> String {
    let Some(ledger) = &fsck.ledger else {
        return "no check was made\n".to_owned();
    };
    let mut text = ledger_text(ledger);
    if ledger.unsettled {
        text.push_str(&format!("{UNSETTLED}: {SETTLE}\n"));
    }
    if ledger.catalog_lost > 0 {
        text.push_str(&format!("{CATALOG_LOST_ADVICE}\n"));
    }
    if fsck.blobs_read > 0 || ledger.found_bad > 0 {
        text.push_str(&format!(
            "{} blobs read, {} bad shards or pieces of the catalog index found\n",
            fsck.blobs_read, ledger.found_bad
        ));
    }
    if !ledger.at_risk.is_empty() {
        text.push_str("\nat risk, the worst first:\n");
        let rows: Vec<_> = ledger
            .at_risk
            .iter()
            .map(|danger| vec![left(danger.failures_left), danger.path.clone()])
            .collect();
        text.push_str(&table(&HEAD, &rows));
    }
    text
}
