//! Looks once in a while whether the folder is still itself, and whether threads are stuck.
//!
//! The thread that looks at the clock never touches the device: the look at the folder runs in a
//! lane of its own, and if it gets stuck that shows as any other stuck operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::{info, warn};

use super::Inner;
use crate::DiskState;

/// Runs until the disk is dropped.
pub(super) fn start(inner: &Arc<Inner>, every: Duration) {
    let watched = Arc::downgrade(inner);
    let looking = Arc::new(AtomicBool::new(false));
    let thread = std::thread::Builder::new()
        .name("disk watch".to_owned())
        .stack_size(256 << 10)
        .spawn(move || {
            loop {
                std::thread::sleep(every);
                let Some(inner) = Weak::upgrade(&watched) else {
                    return;
                };
                tick(&inner, &looking);
            }
        });
    if let Err(error) = thread {
        // Without it an exchanged folder would go unnoticed.
        warn!(disk = inner.label, %error, "no thread to watch a disk");
        inner.health.set_missing(true);
    }
}

fn tick(inner: &Arc<Inner>, looking: &Arc<AtomicBool>) {
    let [reads, others @ ..] = inner.lanes.all();
    let reads_stuck = reads.find_stuck(inner.deadline);
    let mut others_stuck = false;
    for lane in others {
        others_stuck |= lane.find_stuck(inner.deadline);
    }
    if looking.swap(true, Ordering::AcqRel) {
        return;
    }
    let probe = reads_stuck && !others_stuck;
    let (disk, done) = (Arc::clone(inner), Arc::clone(looking));
    let queued = inner.lanes.checks.spawn(move || {
        look(&disk);
        if probe && disk.health.state() == DiskState::Hung && disk.folder.probe() {
            disk.lanes.reads.write_off();
        }
        done.store(false, Ordering::Release);
    });
    if !queued {
        looking.store(false, Ordering::Release);
    }
}

fn look(inner: &Inner) {
    let missing = inner.health.is_missing();
    match (inner.folder.is_itself(), missing) {
        (false, false) => {
            warn!(disk = inner.label, "the disk's folder is gone or another");
            inner.health.set_missing(true);
        }
        (true, true) => match inner.folder.reopen() {
            Ok(()) => {
                look_at_rights(inner);
                info!(disk = inner.label, "the disk's folder is back");
                inner.health.set_missing(false);
            }
            Err(error) => warn!(disk = inner.label, %error, "the disk's folder does not open"),
        },
        (true, false) => look_at_rights(inner),
        (false, true) => {}
    }
}

/// Whether it can be written, as far as that can be seen without doing it.
fn look_at_rights(inner: &Inner) {
    let refuses = inner.folder.refuses_writes();
    if refuses {
        inner.note_read_only();
    } else if inner.health.is_read_only() && inner.folder.takes_files() {
        inner.health.set_read_only(false);
        info!(disk = inner.label, "the disk can be written again");
    }
}
