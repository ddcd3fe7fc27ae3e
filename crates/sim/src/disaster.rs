//! What goes wrong with disks, while a process runs and between two processes.
//!
//! [`Weather`] says what is allowed to whom. Survivable faults are dealt out by a budget: in a
//! storm the same m disks (or fewer) are struck again and again, whatever is done to them; in fog
//! every disk, but none forgets what it synced.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dewar_env::disk::sim::{SimDisk, SimFaults, SimImage, SimLatency, SimOp, SimWorld};
use dewar_env::sim::SimRng;
use dewar_env::{Disk as _, DiskErrorKind, DiskState};

use crate::bench::{Bench, Process};
use crate::plan::{Weather, pick};

/// What is done to a disk before it is left alone again.
const FOLDERS: [&str; 5] = ["blobs/", "journal/", "index/", "dewar-disk", ""];

/// Strikes until the process ends.
pub(crate) async fn strike(process: Arc<Process>, rng: SimRng) {
    let plan = &process.bench.plan;
    if plan.weather == Weather::Calm {
        return;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(rng.below(4000))).await;
        let number = match plan.weather {
            Weather::Storm | Weather::Doom => plan.victims[pick(&rng, plan.victims.len())],
            Weather::Calm | Weather::Fog => pick(&rng, plan.disks),
        };
        process.troubled.store(true, Ordering::Relaxed);
        let disk = process.world.disk(number);
        let lasts = Duration::from_millis(rng.below(8000));
        let what = match plan.weather {
            Weather::Storm | Weather::Doom if rng.coin() => ruin(&disk, &rng),
            _ => disturb(&process.bench, &disk, &rng, lasts).await,
        };
        process
            .bench
            .trace
            .note(format_args!("disk {number}: {what}"));
        process.bench.saw(what);
    }
}

/// Trouble that passes and destroys nothing.
async fn disturb(bench: &Bench, disk: &SimDisk, rng: &SimRng, lasts: Duration) -> &'static str {
    let errors = |read, write| SimFaults {
        read_error: read,
        write_error: write,
        ..SimFaults::default()
    };
    let what = match rng.below(8) {
        0 | 1 => {
            disk.hang();
            "it hung"
        }
        2 | 3 => {
            disk.vanish();
            "it was away"
        }
        4 => {
            disk.set_capacity(0);
            "it was full"
        }
        5 => {
            disk.set_faults(errors(200_000, 0));
            "reads failed"
        }
        6 => {
            disk.set_faults(errors(0, 200_000));
            "writes failed"
        }
        _ => {
            let slow = Duration::from_millis(300);
            disk.set_latency(SimLatency {
                read: (slow, slow * 2),
                write: (slow, slow * 2),
                sync: (slow, slow * 2),
            });
            "it was slow"
        }
    };
    bench.trace.note(format_args!("{}: {what}", label(disk)));
    tokio::time::sleep(lasts).await;
    calm(bench, disk);
    what
}

/// Ends what passes; damage stays.
pub(crate) fn calm(bench: &Bench, disk: &SimDisk) {
    disk.resume();
    disk.come_back();
    disk.heal();
    disk.set_capacity(1 << 40);
    disk.set_latency(bench.plan.latency);
}

/// Damage that stays.
fn ruin(disk: &SimDisk, rng: &SimRng) -> &'static str {
    let folder = FOLDERS[pick(rng, FOLDERS.len())];
    match rng.below(10) {
        0 | 1 => {
            disk.rot(folder, 1 + pick(rng, 20));
            "bits flipped"
        }
        2 => {
            disk.lose_next_write();
            "a write was lost"
        }
        3 => {
            disk.misdirect_next_write();
            "a write went astray"
        }
        4 => {
            let paths = disk.paths();
            if let Some(path) = paths.get(pick(rng, paths.len())) {
                disk.lose_file(path);
            }
            "a file was lost"
        }
        5 => {
            let paths = disk.paths();
            if let Some(path) = paths.get(pick(rng, paths.len())) {
                disk.spoil(path, rng.below(100_000), 1 + rng.below(50_000));
            }
            "pages went bad"
        }
        6 => {
            disk.fail_next(SimOp::Sync, DiskErrorKind::Io);
            "a sync failed"
        }
        7 => {
            disk.set_read_only(true);
            "it was read-only"
        }
        8 => {
            disk.pull();
            "it was pulled out"
        }
        _ => {
            disk.set_faults(SimFaults {
                lost_write: 50_000,
                misdirected_write: 20_000,
                flip_on_write: 50_000,
                flip_on_read: 50_000,
                sync_error: 1000,
                ..SimFaults::default()
            });
            "it lied"
        }
    }
}

/// What happens to disks while no process runs.
#[derive(Default)]
pub(crate) struct Shelf {
    /// Old content of the victims.
    images: Vec<(usize, SimImage)>,
}

impl Shelf {
    /// Keeps what is on the victims now, and does something to the disks.
    pub(crate) fn between(&mut self, bench: &Bench, world: &SimWorld, rng: &SimRng) {
        let plan = &bench.plan;
        for number in 0..plan.disks {
            let disk = world.disk(number);
            // Capacity survives a restart; whatever filled the disk is gone.
            disk.set_capacity(1 << 40);
            disk.set_latency(plan.latency);
            disk.set_deadline(plan.deadline);
            if !matches!(disk.state(), DiskState::Online { .. }) && rng.coin() {
                disk.come_back();
            }
            if plan.weather != Weather::Storm && plan.weather != Weather::Doom {
                disk.come_back();
            }
        }
        for &number in &plan.victims {
            let disk = world.disk(number);
            let image = disk.image();
            let what = match rng.below(6) {
                0 => {
                    let old: Vec<_> = self.images.iter().filter(|i| i.0 == number).collect();
                    let Some((_, image)) = old.get(pick(rng, old.len())) else {
                        continue;
                    };
                    disk.restore(image);
                    "it came back old"
                }
                1 => {
                    disk.vanish();
                    "it is away"
                }
                2 => {
                    disk.restore(&SimWorld::with_disks(0, 1).disk(0).image());
                    "it is blank"
                }
                3 => ruin(&disk, rng),
                _ => "nothing",
            };
            self.images.push((number, image));
            bench
                .trace
                .note(format_args!("disk {number}, meanwhile: {what}"));
            bench.saw(what);
        }
        if rng.below(4) == 0 {
            let (a, b) = (pick(rng, plan.disks), pick(rng, plan.disks));
            // Budgets go by number: victims may change places only among themselves.
            if plan.victims.contains(&a) == plan.victims.contains(&b) {
                world.swap(a, b);
                bench.saw("two disks changed places");
                bench
                    .trace
                    .note(format_args!("disks {a} and {b} changed places"));
            }
        }
        if rng.below(4) == 0 {
            let by = i64::try_from(rng.below(200_000_000_000_000)).unwrap_or(0);
            world.clock().jump(by - 100_000_000_000_000);
            bench.saw("the clock jumped");
        }
    }
}

fn label(disk: &SimDisk) -> &str {
    disk.label()
}
