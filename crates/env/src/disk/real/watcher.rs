//! Periodic check whether the folder is still the same, and whether threads are stuck.
//!
//! The thread with the timer never accesses the device. The check of the folder runs in a queue of
//! its own, so a stuck check is noticed like any other stuck operation.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::{info, warn};

use super::Inner;
use crate::DiskState;

/// Every so many looks a file is made and removed: a file system that the kernel has shut off says
/// nothing of it otherwise until somebody writes.
const LOOKS_PER_PROBE: u32 = 10;

/// How far the looks are.
#[derive(Default)]
struct WatchState {
    /// One is under way.
    looking: AtomicBool,
    count: AtomicU32,
}

/// Runs until the disk is dropped.
pub(super) fn start(inner: &Arc<Inner>, every: Duration) {
    let watched = Arc::downgrade(inner);
    let looks = Arc::new(WatchState::default());
    let thread = std::thread::Builder::new()
        .name("disk watch".to_owned())
        .stack_size(256 << 10)
        .spawn(move || {
            loop {
                std::thread::sleep(every);
                let Some(inner) = Weak::upgrade(&watched) else {
                    return;
                };
                tick(&inner, &looks);
            }
        });
    if let Err(error) = thread {
        // Without it an exchanged folder would go unnoticed.
        warn!(disk = inner.label, %error, "no thread to watch a disk");
        inner.health.set_missing(true);
    }
}

fn tick(inner: &Arc<Inner>, looks: &Arc<WatchState>) {
    let [reads, others @ ..] = inner.lanes.all();
    let reads_stuck = reads.find_stuck(inner.deadline);
    let mut others_stuck = false;
    for lane in others {
        others_stuck |= lane.find_stuck(inner.deadline);
    }
    if looks.looking.swap(true, Ordering::AcqRel) {
        return;
    }
    let probe = reads_stuck && !others_stuck;
    let (disk, done) = (Arc::clone(inner), Arc::clone(looks));
    let queued = inner.lanes.checks.spawn(move || {
        let count = done.count.fetch_add(1, Ordering::Relaxed);
        look(&disk, count % LOOKS_PER_PROBE == LOOKS_PER_PROBE - 1);
        if probe && disk.health.state() == DiskState::Hung && disk.folder.probe() {
            disk.lanes.reads.write_off();
        }
        done.looking.store(false, Ordering::Release);
    });
    if !queued {
        looks.looking.store(false, Ordering::Release);
    }
}

fn look(inner: &Inner, probe: bool) {
    let missing = inner.health.is_missing();
    match (inner.folder.is_itself(), missing) {
        (false, false) => {
            warn!(disk = inner.label, "the disk's folder is gone or another");
            inner.health.set_missing(true);
        }
        (true, true) => match inner.folder.reopen() {
            Ok(()) => {
                look_at_rights(inner, false);
                info!(disk = inner.label, "the disk's folder is back");
                inner.health.set_missing(false);
            }
            Err(error) => warn!(disk = inner.label, %error, "the disk's folder does not open"),
        },
        (true, false) => look_at_rights(inner, probe),
        (false, true) => {}
    }
}

/// Whether it can be written, as far as that can be seen without doing it, and with `probe` by doing it.
fn look_at_rights(inner: &Inner, probe: bool) {
    let is_off = || probe && !inner.health.is_read_only() && inner.folder.is_shut_off();
    if inner.folder.refuses_writes() || is_off() {
        inner.note_read_only();
    } else if inner.health.is_read_only() && inner.folder.takes_files() {
        inner.health.set_read_only(false);
        info!(disk = inner.label, "the disk can be written again");
    }
}
