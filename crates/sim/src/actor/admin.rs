//! An administrator: decides about disks, has them scrubbed, and reads status reports.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dewar_disks::upkeep::Decision;
use dewar_env::Disk;
use dewar_env::sim::SimRng;
use dewar_store::LedgerDepth;
use dewar_types::{DiskId, Error, ErrorKind};

use crate::bench::Process;
use crate::plan::{Weather, pick};

/// What is counted when a disk is declared lost.
pub(crate) const REMOVED: &str = "a disk was removed";

/// Works until it is dropped.
pub(crate) async fn administrate(process: Arc<Process>, rng: SimRng) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.below(5000))).await;
        if process.bench.failure().is_some() || process.world.power_failed() {
            return;
        }
        process.bench.ops.fetch_add(1, Ordering::Relaxed);
        let (what, result) = act(&process, &rng).await;
        let told = match &result {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        process
            .bench
            .trace
            .note(format_args!("administrator: {what}: {told}"));
        if let Err(error) = result
            && !refused(&error)
            && !process.excuses(false)
        {
            process
                .bench
                .fail(format!("an administrator could not {what}: {error:?}"));
        }
    }
}

fn refused(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::InvalidArgument
    )
}

async fn act(process: &Process, rng: &SimRng) -> (String, Result<(), Error>) {
    let store = &process.store;
    let lines = match store.disks().disk_lines().await {
        Ok(lines) => lines,
        Err(error) => return ("list disks".to_owned(), Err(error)),
    };
    let progress = AtomicU64::new(0);
    match rng.below(6) {
        0 => {
            let depth = LedgerDepth {
                objects: rng.coin(),
                read: rng.coin(),
            };
            let ledger = store.ledger(depth, &progress).await;
            ("count the ledger".to_owned(), ledger.map(|_| ()))
        }
        1 if !lines.is_empty() => {
            let disk = lines[pick(rng, lines.len())].disk;
            (
                format!("have {disk} scrubbed"),
                store.disks().scrub_now(disk).await,
            )
        }
        _ if lines.is_empty() => ("list disks".to_owned(), Ok(())),
        _ => {
            let decided: BTreeSet<DiskId> = lines
                .iter()
                .filter(|line| line.decision.is_some())
                .map(|line| line.disk)
                .collect();
            let line = &lines[pick(rng, lines.len())];
            if line.decision == Some(Decision::Remove) {
                let what = format!("take {} back", line.disk);
                return (what, take_back(process, line.disk).await);
            }
            let decision = match (line.decision, rng.below(4)) {
                (Some(_), 0..3) => None,
                (None, 0..3) if may_leave(process, &decided, line.disk) => Some(Decision::Drain),
                _ if may_go(process, &decided, line.disk) => Some(Decision::Remove),
                _ => return ("list disks".to_owned(), Ok(())),
            };
            let what = format!("decide {decision:?} about {}", line.disk);
            let result = store.decide(line.disk, decision).await;
            if result.is_ok() {
                process.bench.saw(match decision {
                    Some(Decision::Drain | Decision::Replace) => "a disk was to be emptied",
                    Some(Decision::Remove) => REMOVED,
                    None => "a decision about a disk was taken back",
                });
            }
            (what, result)
        }
    }
}

/// Takes a removed disk back, if it is in its folder.
async fn take_back(process: &Process, id: DiskId) -> Result<(), Error> {
    let number = process.ids.iter().find(|(_, known)| **known == id);
    let Some((number, _)) = number else {
        return Ok(());
    };
    let disk = process.world.disk(*number);
    if !disk.state().writable() {
        return Ok(());
    }
    let disk: Arc<dyn Disk> = Arc::new(disk);
    process.membership.readmit(&disk).await?;
    process.bench.saw("a removed disk was taken back");
    Ok(())
}

/// Whether so many disks take blobs without this one that everything can go on, whatever befalls
/// the victims.
fn may_leave(process: &Process, decided: &BTreeSet<DiskId>, disk: DiskId) -> bool {
    let plan = &process.bench.plan;
    let m = usize::from(plan.engine.layout.m);
    let mut out = decided.clone();
    out.insert(disk);
    out.extend(plan.victims.iter().filter_map(|n| process.ids.get(n)));
    plan.disks > out.len() + m
}

/// Whether it may be declared lost: what is written is then to survive without it and whatever
/// the weather does besides.
fn may_go(process: &Process, decided: &BTreeSet<DiskId>, disk: DiskId) -> bool {
    let plan = &process.bench.plan;
    match plan.weather {
        Weather::Calm | Weather::Doom => may_leave(process, decided, disk),
        // What a decision makes of a disk that can still be read is nobody's business but its own.
        Weather::Storm | Weather::Fog => {
            let of_victim = |n: &usize| process.ids.get(n) == Some(&disk);
            plan.victims.iter().any(of_victim) && may_leave(process, decided, disk)
        }
    }
}
