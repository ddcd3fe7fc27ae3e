//! `dewar status`: one screen that says what is wrong, how bad it is, and what to type.

use super::columns::{amount, table};
use super::exit::CommandResult;
use super::run::block_on;
use super::target::{Target, running};
use super::{accounts, disks};
use crate::admin::{Request, Status};

pub(super) fn run(target: &Target, json: bool) -> CommandResult {
    let reply = block_on(async {
        let mut client = running(target).await?;
        Ok(client.ask(&Request::Status {}).await?)
    })?;
    accounts::show(&reply, json)
}

/// Something that an administrator should know, and what to do about it.
struct Finding {
    what: String,
    advice: String,
}

pub(super) fn text(status: &Status) -> String {
    let pool = &status.pool;
    let findings = findings(status);
    let mut text = format!(
        "dewar {}, process {}, up {}, zone {}\n\n",
        status.version,
        status.pid,
        span(status.uptime_seconds),
        status.zone
    );
    if findings.is_empty() {
        text.push_str("all is well\n\n");
    }
    for finding in &findings {
        text.push_str(&format!("! {}\n  {}\n", finding.what, finding.advice));
    }
    if !findings.is_empty() {
        text.push('\n');
    }
    let writes = if pool.writable { "yes" } else { "no" };
    text.push_str(&format!(
        "pool {} {}: writes {writes}\n",
        pool.name, pool.layout
    ));
    let rows: Vec<_> = pool
        .disks
        .iter()
        .map(|disk| vec![disk.path.clone(), disk.state.clone()])
        .collect();
    text.push_str(&table(&["DISK", "STATE"], &rows));
    text.push('\n');
    text.push_str(&disks::ledger_text(&status.ledger));
    let repair = &status.repair;
    if repair.repaired + repair.laid_out + repair.waiting + repair.failed > 0 {
        text.push_str(&format!(
            "repair: {} waiting; since the start {} repaired, {} laid out anew, {} written, {} \
             failed and tried again\n",
            repair.waiting,
            repair.repaired,
            repair.laid_out,
            amount(repair.bytes),
            repair.failed
        ));
    }
    for note in &pool.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    let doors: Vec<_> = status
        .doors
        .iter()
        .map(|door| vec![door.name.clone(), door.endpoint.clone()])
        .collect();
    text.push('\n');
    text.push_str(&table(&["DOOR", "ENDPOINT"], &doors));
    text
}

/// The worst first.
fn findings(status: &Status) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ledger = &status.ledger;
    for line in &ledger.lines {
        let (blobs, bytes) = (line.blobs, amount(line.bytes));
        let what = match line.failures_left {
            left if left >= ledger.full => continue,
            left if left < 0 => format!("{bytes} in {blobs} blobs CANNOT BE READ now"),
            0 => format!("{bytes} in {blobs} blobs would be lost with one more disk"),
            left => format!(
                "{bytes} in {blobs} blobs survive {left} more failures instead of {}",
                ledger.full
            ),
        };
        let advice = match line.failures_left {
            left if left < 0 => "bring the missing disks back; `dewar fsck` names the objects",
            _ => "repair does what it can by itself; `dewar fsck` names the objects",
        };
        findings.push(Finding {
            what,
            advice: advice.to_owned(),
        });
    }
    if !status.pool.writable {
        findings.push(Finding {
            what: "writes are refused".to_owned(),
            advice: "see the notes below for the reason".to_owned(),
        });
    }
    if ledger.catalog < ledger.full {
        findings.push(Finding {
            what: format!(
                "the catalog survives {} more failures instead of {}",
                ledger.catalog.max(0),
                ledger.full
            ),
            advice: "it is copied to other disks by itself, where there are any".to_owned(),
        });
    }
    for disk in &status.pool.disks {
        let (path, detail) = (disk.path.as_str(), disk.detail.as_deref());
        if let Some((what, advice)) = about(&disk.state, path, disk.number, detail) {
            findings.push(Finding { what, advice });
        }
    }
    findings
}

/// What is the matter with a disk, and what to do.
pub(crate) fn advice(
    state: &str,
    path: Option<&str>,
    number: Option<u32>,
    detail: Option<&str>,
) -> Option<String> {
    // A removed disk that is nowhere, or whose folder another one has, needs nothing.
    if state == "removed" && path.is_none() {
        return None;
    }
    let (what, advice) = about(state, path.unwrap_or("in no known folder"), number, detail)?;
    Some(format!("{what}: {advice}"))
}

fn about(
    state: &str,
    path: &str,
    number: Option<u32>,
    detail: Option<&str>,
) -> Option<(String, String)> {
    let name = number.map_or_else(|| path.to_owned(), |number| number.to_string());
    let told = detail.map_or(String::new(), |detail| format!(" ({detail})"));
    let (what, advice) = match state {
        "online" | "draining" => return None,
        "missing" => (
            format!("disk {path} is missing{told}"),
            format!(
                "mount it again, and it is used at once; if it is lost: `dewar disk replace {name} \
                 NEW-FOLDER`, or without a new disk `dewar disk remove {name}`"
            ),
        ),
        "blank" => (
            format!("{path} is blank"),
            format!(
                "an unmounted disk: mount it; if it is a new one: `dewar disk add {path}`, or for a disk \
                 that is lost `dewar disk replace {name} {path}`"
            ),
        ),
        "hung" => (
            format!("disk {path} does not answer"),
            format!(
                "look at the kernel's log; if it stays so pull it: `dewar disk replace {name} NEW-FOLDER`"
            ),
        ),
        "read-only" => (
            format!("disk {path} is read-only: it is read, and nothing new is written to it{told}"),
            "look at the mount, the kernel's log and who owns the folder; it is used again by itself \
             when it can be written"
                .to_owned(),
        ),
        "failed" => (
            format!("a sync failed on disk {path}: it takes no writes until a restart"),
            format!(
                "look at the kernel's log; `dewar disk replace {name} NEW-FOLDER` empties it while it \
                 reads"
            ),
        ),
        "replacing" => (
            format!("disk {path} is being replaced"),
            "it can be taken away when it is removed: see SHARDS in `dewar disk list`".to_owned(),
        ),
        "removed" => (
            format!("disk {path} was removed from the pool and is not used{told}"),
            format!(
                "`dewar disk readmit {path}` takes it back with its shards; if nothing on it is needed, \
                 take it away, and out of pool.disks. Emptied, the folder can be added as a new disk"
            ),
        ),
        "returning" => (
            format!("disk {path} was taken back, and its shards are looked through"),
            "it is in use already; nothing is to be done".to_owned(),
        ),
        "foreign" => (
            detail.map_or_else(|| format!("{path} is a disk of another Dewar"), str::to_owned),
            "it is not used: mount the right disk, or take the folder out of pool.disks".to_owned(),
        ),
        "copy" => (
            detail.map_or_else(|| format!("{path} is a copy of another disk"), str::to_owned),
            "it is not used: unmount it, or take the folder out of pool.disks".to_owned(),
        ),
        other => (format!("disk {path} is {other}"), "see `dewar disk list`".to_owned()),
    };
    Some((what, advice))
}

/// Seconds for people.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
