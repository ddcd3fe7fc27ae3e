//! `dewar status`: one screen with the problems, their severity, and the commands to type.

use std::iter;

use dewar_admin::catalog::{SETTLE, UNSETTLED};
use dewar_admin::progress::Progress;
use dewar_admin::status::{DiskStatus, HealthIssue, PoolInfo, Status, StatusRequest};
use dewar_admin::upkeep::{LedgerInfo, LedgerLineInfo};
use dewar_admin::{ID_DIGITS, amount, disk_issue};

use super::admin_request::show;
use super::columns::table;
use super::exit::{CommandError, CommandResult};
use super::run::block_on;
use super::server_target::{ServerTarget, running};
use super::{disks, uploads};

/// With `check`: redundancy or service is reduced.
const DEGRADED: u8 = 1;
/// With `check`: something can be lost or is not served.
const CRITICAL: u8 = 2;

pub(super) fn run(target: &ServerTarget, json: bool, check: bool) -> CommandResult {
    let status = block_on(async {
        let mut client = running(target).await?;
        Ok(client.ask(&StatusRequest {}).await?)
    });
    let status = match status {
        Err(error) if check => return Err(CommandError::new(CRITICAL, error.message)),
        status => status?,
    };
    show(&status, json, text)?;
    Ok(if check { severity(&status) } else { 0 })
}

/// The exit code that monitoring plugins have for it.
fn severity(status: &Status) -> u8 {
    let ledger = &status.ledger;
    // A layout that survives no failure says so every day.
    let at_risk = |line: &LedgerLineInfo| line.lacking > 0 && line.failures_left <= 0;
    if ledger.lines.iter().any(at_risk)
        || (ledger.catalog < ledger.full && ledger.catalog <= 0)
        || !status.pool.main.writable
        || status.pool.further.iter().any(|pool| !pool.writable)
    {
        return CRITICAL;
    }
    match findings(status).is_empty() {
        true => 0,
        false => DEGRADED,
    }
}

fn text(status: &Status) -> String {
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
    for one in iter::once(&pool.main).chain(&pool.further) {
        text.push_str(&about_pool(one, survives(one, status)));
    }
    let several = !pool.further.is_empty();
    let row = |disk: &DiskStatus| {
        let mut row = vec![disk.path.clone(), disk.state.clone()];
        if several {
            row.insert(1, disk.pool.clone());
        }
        row
    };
    let rows: Vec<_> = pool.disks.iter().map(row).collect();
    let head: &[&str] = match several {
        true => &["DISK", "POOL", "STATE"],
        false => &["DISK", "STATE"],
    };
    text.push_str(&table(head, &rows));
    text.push('\n');
    text.push_str(&disks::ledger_text(&status.ledger));
    let repair = &status.repair;
    if repair.repaired + repair.laid_out + repair.waiting + repair.failed > 0 {
        text.push_str(&format!(
            "repair: {} blobs wait, {} of them for another try\n\
             repair since the start: {} blobs repaired, {} moved to another layout, {} written, {} tries \
             failed\n",
            repair.waiting,
            repair.resting,
            repair.repaired,
            repair.laid_out,
            amount(repair.bytes),
            repair.failed
        ));
    }
    if !status.work.is_empty() {
        text.push('\n');
        text.push_str(&work_text(&status.work));
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
    if status.copies > 0 {
        text.push_str(&format!(
            "third-party copies: {} under way\n",
            status.copies
        ));
    }
    text.push_str(&uploads::text(&status.uploads));
    text
}

fn work_text(work: &[Progress]) -> String {
    let rows: Vec<_> = work
        .iter()
        .map(|progress| {
            let started = progress.started.clone();
            vec![
                progress.what.clone(),
                progress.share(),
                progress.errors.to_string(),
                started.unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    table(&["WORK", "DONE", "ERRORS", "SINCE"], &rows)
}

/// The number of further disk failures that a pool survives: the layout's number minus its missing
/// disks. If there is only one pool, its most endangered blob and the catalog are taken into
/// account as well.
fn survives(pool: &PoolInfo, status: &Status) -> u32 {
    if !status.pool.further.is_empty() {
        return pool.margin;
    }
    let ledger = &status.ledger;
    let lines = ledger.lines.iter().filter(|line| line.lacking > 0);
    let worst = lines.map(|line| line.failures_left).min();
    let catalog = (ledger.catalog < ledger.full).then_some(ledger.catalog);
    let least = worst.into_iter().chain(catalog).min();
    let least = least.map_or(u32::MAX, |left| u32::try_from(left).unwrap_or(0));
    pool.margin.min(least)
}

/// A line about a pool; its room counts parity, and folders on one device each.
fn about_pool(pool: &PoolInfo, survives: u32) -> String {
    format!(
        "pool {} {}: {}, survives {} more disk failures, {} of {} free on its disks (parity takes its share)\n",
        pool.name,
        pool.layout,
        if pool.writable {
            "takes writes"
        } else {
            "refuses writes"
        },
        survives,
        amount(pool.available_bytes),
        amount(pool.total_bytes)
    )
}

/// The lines, with all unreadable data as one line.
fn told_as_one(lines: &[LedgerLineInfo]) -> Vec<LedgerLineInfo> {
    let mut told: Vec<LedgerLineInfo> = Vec::new();
    for line in lines {
        match told.last_mut() {
            Some(last) if last.failures_left < 0 && line.failures_left < 0 => {
                last.blobs += line.blobs;
                last.bytes += line.bytes;
                last.lacking += line.lacking;
            }
            _ => told.push(line.clone()),
        }
    }
    told
}

/// The worst first.
fn findings(status: &Status) -> Vec<HealthIssue> {
    let mut findings = Vec::new();
    let ledger = &status.ledger;
    // Whether disks are to blame that may come back.
    let away = |disk: &&DiskStatus| {
        matches!(
            &*disk.state,
            "missing" | "hung" | "blank" | "foreign" | "copy"
        )
    };
    let away = status.pool.disks.iter().any(|disk| away(&disk));
    for line in &told_as_one(&ledger.lines) {
        let (blobs, bytes) = (line.blobs, amount(line.bytes));
        let what = match line.failures_left {
            _ if line.lacking == 0 => continue,
            left if line.lacking < line.blobs => format!(
                "{} of {blobs} blobs that survive {left} more failures should survive more",
                line.lacking
            ),
            left if left < 0 && away => format!("{bytes} in {blobs} blobs CANNOT BE READ now"),
            left if left < 0 => format!(
                "{bytes} in {blobs} blobs lack more shards than the layout survives, and no disk of the \
                 pool is missing: some of that CANNOT BE READ"
            ),
            0 => format!("{bytes} in {blobs} blobs would be lost with one more disk"),
            left if !status.pool.further.is_empty() => format!(
                "{bytes} in {blobs} blobs survive {left} more failures, fewer than the layouts of their \
                 pools"
            ),
            left => format!(
                "{bytes} in {blobs} blobs survive {left} more failures instead of {}",
                ledger.full
            ),
        };
        let advice = match line.failures_left {
            left if left < 0 && away => {
                "bring the missing disks back; `dewar fsck` names the objects"
            }
            left if left < 0 => {
                "they are damaged, or on disks that were removed: of those that `dewar disk list` calls \
                 removed keep every one, put its folder back, and `dewar disk readmit` it. What can be \
                 decoded page by page is mended by itself; `dewar fsck` names the objects: read them, and \
                 put those that fail here again from elsewhere"
            }
            _ if away => {
                "bring the missing disks back; what they held is rebuilt on others, where there are any, \
                 after upkeep.rebuild_after. `dewar fsck` names the objects"
            }
            _ => "repair does what it can by itself; `dewar fsck` names the objects",
        };
        findings.push(HealthIssue {
            what,
            advice: advice.to_owned(),
        });
    }
    if !status.pool.main.writable {
        findings.push(HealthIssue {
            what: "writes are refused".to_owned(),
            advice: "see the notes below for the reason".to_owned(),
        });
    }
    for further in status.pool.further.iter().filter(|pool| !pool.writable) {
        findings.push(HealthIssue {
            what: format!("writes into the pool {} are refused", further.name),
            advice: "see the notes below for the reason".to_owned(),
        });
    }
    findings.extend(about_catalog(ledger));
    for disk in &status.pool.disks {
        let (path, detail) = (disk.path.as_str(), disk.detail.as_deref());
        let emptied = being_emptied(disk);
        let name = match (disk.number, &disk.id) {
            (Some(number), _) => number.to_string(),
            (None, Some(id)) => id.get(..ID_DIGITS).unwrap_or(id).to_owned(),
            (None, None) => path.to_owned(),
        };
        findings.extend(emptied.or_else(|| disk_issue(&disk.state, path, &name, detail)));
    }
    findings.extend(status.troubles.iter().cloned());
    let repair = &status.repair;
    if repair.resting > 0 {
        findings.push(HealthIssue {
            what: format!("the repair of {} blobs failed", repair.resting),
            advice: "it is tried again by itself, after minutes at most and at once when a disk returns; \
                     the log says why it failed"
                .to_owned(),
        });
    }
    findings
}

/// The problems of the catalog.
fn about_catalog(ledger: &LedgerInfo) -> Vec<HealthIssue> {
    let mut findings = Vec::new();
    if ledger.catalog_lost > 0 {
        findings.push(HealthIssue {
            what: format!(
                "{} pieces of the catalog index are damaged on every disk: what they name CANNOT BE FOUND, \
                 but for what is in memory",
                ledger.catalog_lost
            ),
            advice: disks::CATALOG_LOST_ADVICE.to_owned(),
        });
    } else if ledger.catalog < ledger.full {
        findings.push(HealthIssue {
            what: format!(
                "the catalog survives {} instead of {}",
                more_failures(ledger.catalog.max(0)),
                ledger.full
            ),
            advice: "it is copied to other disks by itself, where there are any".to_owned(),
        });
    }
    if ledger.unsettled {
        findings.push(HealthIssue {
            what: UNSETTLED.to_owned(),
            advice: format!(
                "they are kept, and are in no figure here. No disk is emptied before that is settled: {}",
                SETTLE
            ),
        });
    }
    findings
}

/// How far the emptying of a disk is, if it is under way.
fn being_emptied(disk: &DiskStatus) -> Option<HealthIssue> {
    let (DiskStatus { path, .. }, left) = (disk, disk.shards_left?);
    let name = disk
        .number
        .map_or_else(|| path.clone(), |number| number.to_string());
    let still = format!(
        "{left} shards with {} are left",
        amount(disk.bytes_left.unwrap_or(0))
    );
    let (what, advice) = match (&*disk.state, left) {
        ("draining", 0) => (
            format!("disk {path} is drained: nothing is left on it"),
            format!("`dewar disk remove {name}`, then take it away; or `dewar disk keep {name}`"),
        ),
        ("draining", _) => (
            format!("disk {path} is being drained: {still}"),
            format!("it goes on by itself; `dewar disk keep {name}` takes it back"),
        ),
        ("replacing", _) => (
            format!("disk {path} is being replaced: {still}"),
            "it goes on by itself; take the disk away when it is called removed".to_owned(),
        ),
        _ => return None,
    };
    Some(HealthIssue { what, advice })
}

/// A number of failures for people.
fn more_failures(failures: i32) -> String {
    match failures {
        1 => "1 more failure".to_owned(),
        failures => format!("{failures} more failures"),
    }
}

/// Seconds for people.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dewar_admin::status::PoolStatus;
    use dewar_admin::upkeep::RepairInfo;

    fn disk(number: u32, state: &str) -> DiskStatus {
        DiskStatus {
            number: Some(number),
            path: format!("/data/d{number}"),
            pool: "main".to_owned(),
            state: state.to_owned(),
            detail: None,
            shards_left: None,
            bytes_left: None,
            id: None,
        }
    }

    fn well() -> Status {
        Status {
            version: "0".to_owned(),
            pid: 1,
            uptime_seconds: 1,
            zone: 1,
            pool: PoolStatus {
                main: PoolInfo {
                    name: "main".to_owned(),
                    layout: "4+2".to_owned(),
                    margin: 2,
                    writable: true,
                    total_bytes: 6_000_000_000,
                    available_bytes: 5_100_000_000,
                },
                further: Vec::new(),
                disks: (1..=6).map(|number| disk(number, "online")).collect(),
                notes: Vec::new(),
            },
            ledger: LedgerInfo {
                full: 2,
                catalog: 2,
                ..LedgerInfo::default()
            },
            repair: RepairInfo::default(),
            doors: Vec::new(),
            troubles: Vec::new(),
            copies: 0,
            uploads: Default::default(),
            work: Vec::new(),
        }
    }

    fn unreadable(status: &mut Status) {
        status.ledger.lines = vec![LedgerLineInfo {
            failures_left: -1,
            blobs: 3,
            lacking: 3,
            bytes: 1 << 20,
            ..LedgerLineInfo::default()
        }];
    }

    #[test]
    fn what_a_pool_survives_is_what_its_worst_blob_survives() {
        let survives = |status: &Status| {
            let text = text(status);
            let (_, rest) = text.split_once("survives ").expect("said");
            rest.split(' ').next().unwrap_or_default().to_owned()
        };
        assert_eq!(survives(&well()), "2");
        let mut status = well();
        unreadable(&mut status);
        status.ledger.lines[0].failures_left = 0;
        let text = super::text(&status);
        assert!(text.contains("would be lost with one more disk"), "{text}");
        assert!(text.contains("survives 0 more disk failures"), "{text}");
        let mut status = well();
        status.pool.main.margin = 1;
        assert_eq!(survives(&status), "1");
    }

    #[test]
    fn all_is_well_only_where_nothing_is_under_way() {
        assert!(text(&well()).contains("all is well"));
        let mut status = well();
        status.pool.disks[2] = DiskStatus {
            shards_left: Some(7),
            bytes_left: Some(3_000_000),
            ..disk(3, "draining")
        };
        let told = text(&status);
        assert!(!told.contains("all is well"), "{told}");
        assert!(
            told.contains("/data/d3 is being drained: 7 shards with 3.0 MB"),
            "{told}"
        );
        status.pool.disks[2].shards_left = Some(0);
        assert!(text(&status).contains("`dewar disk remove 3`"));
        let mut status = well();
        status.ledger.catalog = 1;
        assert!(text(&status).contains("the catalog survives 1 more failure instead of 2"));
        let mut status = well();
        status.copies = 2;
        let told = text(&status);
        assert!(told.contains("third-party copies: 2 under way"), "{told}");
        let mut status = well();
        (status.repair.waiting, status.repair.resting) = (5, 5);
        let told = text(&status);
        assert!(told.contains("! the repair of 5 blobs failed"), "{told}");
        assert!(
            told.contains("5 blobs wait, 5 of them for another try"),
            "{told}"
        );
    }

    #[test]
    fn each_pool_is_held_against_its_own_layout() {
        let mut status = well();
        status.pool.further = vec![PoolInfo {
            name: "scratch".to_owned(),
            layout: "1+0".to_owned(),
            margin: 0,
            writable: true,
            total_bytes: 2_000_000_000,
            available_bytes: 500_000_000,
        }];
        let told = text(&status);
        let lines = [
            "pool main 4+2: takes writes, survives 2 more disk failures, 5.1 GB of 6.0 GB free on its disks \
             (parity takes its share)\n",
            "pool scratch 1+0: takes writes, survives 0 more disk failures, 500 MB of 2.0 GB free on its disks \
             (parity takes its share)\n",
        ];
        assert!(told.contains(&lines.concat()), "{told}");
        assert!(told.contains("POOL"), "{told}");
        assert!(!text(&well()).contains("POOL"));
        let line = |failures_left, lacking| LedgerLineInfo {
            failures_left,
            blobs: 5,
            lacking,
            ..LedgerLineInfo::default()
        };
        status.ledger.lines = vec![line(0, 0), line(2, 0)];
        assert_eq!(severity(&status), 0, "{}", text(&status));
        status.ledger.lines[0] = line(1, 2);
        assert_eq!(severity(&status), DEGRADED);
        assert!(text(&status).contains("2 of 5 blobs that survive 1 more failures"));
        status.ledger.lines[0] = line(0, 2);
        assert_eq!(severity(&status), CRITICAL);
        status.ledger.lines.clear();
        status.pool.further[0].writable = false;
        assert_eq!(severity(&status), CRITICAL);
        let told = text(&status);
        assert!(told.contains("the pool scratch are refused"), "{told}");
    }

    #[test]
    fn rot_is_not_told_as_missing_disks() {
        let mut status = well();
        unreadable(&mut status);
        let worse = LedgerLineInfo {
            failures_left: -2,
            ..status.ledger.lines[0].clone()
        };
        status.ledger.lines.insert(0, worse);
        let told = text(&status);
        assert_eq!(told.matches("CANNOT BE READ").count(), 1, "{told}");
        assert!(told.contains("in 6 blobs lack more shards"), "{told}");
        assert!(told.contains("no disk of the pool is missing"), "{told}");
        assert!(!told.contains("bring the missing disks back"), "{told}");
        status.pool.disks[0] = disk(1, "missing");
        assert!(text(&status).contains("bring the missing disks back"));
    }

    #[test]
    fn what_no_disk_has_of_the_catalog_is_critical_and_names_the_next_step() {
        let mut status = well();
        (status.ledger.catalog, status.ledger.catalog_lost) = (-1, 3);
        assert_eq!(severity(&status), CRITICAL);
        let told = text(&status);
        assert!(
            told.contains("! 3 pieces of the catalog index are damaged on every disk"),
            "{told}"
        );
        for words in [
            "do not restart",
            "`dewar catalog rebuild`",
            "catalog: NOT WHOLE",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(
            !told.contains("all is well") && !told.contains("failures left,"),
            "{told}"
        );
    }

    #[test]
    fn a_catalog_that_may_not_name_everything_is_not_well() {
        let mut status = well();
        status.ledger.unsettled = true;
        assert_eq!(severity(&status), DEGRADED);
        let told = text(&status);
        for words in [
            "does not name",
            "`dewar catalog rebuild`",
            "--discard-unnamed",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }

    #[test]
    fn blank_and_missing_folders_are_told_apart() {
        let missing = DiskStatus {
            detail: Some("there is no such folder".to_owned()),
            ..disk(1, "missing")
        };
        let mut status = well();
        status.pool.disks[0] = missing;
        status.pool.disks[1] = DiskStatus {
            detail: Some("the folder is there and empty".to_owned()),
            ..disk(2, "blank")
        };
        let told = text(&status);
        assert!(
            told.contains("d1 is missing (there is no such folder)"),
            "{told}"
        );
        assert!(
            told.contains("d2 is blank (the folder is there and empty"),
            "{told}"
        );
        assert!(told.contains("`dewar disk replace 2 /data/d2`"), "{told}");
    }
}
