//! Faults of the disks, while a process runs and between two processes.
//!
//! [`Weather`] says which faults which disks may have. Survivable faults are limited by a budget.
//! In a storm, the same m disks (or fewer) fail again and again, with any kind of fault. In fog,
//! every disk fails, but none loses synced data.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dewar_env::disk::sim::{SimDisk, SimFaults, SimImage, SimLatency, SimOp, SimWorld};
use dewar_env::sim::SimRng;
use dewar_env::{Disk as _, DiskErrorKind, DiskState};

use crate::bench::{Bench, Process};
use crate::damage;
use crate::plan::{Focus, Weather, pick, shuffle};

/// What is done to a disk before it is left alone again.
const FOLDERS: [&str; 6] = [
    "blobs/",
    "journal/",
    "journal/epoch",
    "index/",
    "dewar-disk",
    "",
];

/// Strikes until the process ends.
pub(crate) async fn strike(process: Arc<Process>, rng: SimRng) {
    let plan = &process.bench.plan;
    if plan.weather == Weather::Calm || dwell(&process, &rng).await {
        return;
    }
    loop {
        let pause = if plan.focus == Focus::Upkeep {
            800
        } else {
            4000
        };
        tokio::time::sleep(Duration::from_millis(rng.below(pause))).await;
        let number = match plan.weather {
            Weather::Storm | Weather::Doom => plan.victims[pick(&rng, plan.victims.len())],
            Weather::Calm | Weather::Fog => pick(&rng, plan.disks),
        };
        process.troubled.store(true, Ordering::Relaxed);
        let disk = process.world.disk(number);
        let lasts = Duration::from_millis(rng.below(8000));
        let what = match plan.weather {
            Weather::Storm | Weather::Doom if plan.focus != Focus::Old && rng.coin() => {
                ruin(&disk, plan.focus, &rng)
            }
            _ => disturb(&process.bench, &disk, &rng, lasts).await,
        };
        process
            .bench
            .trace
            .note(format_args!("disk {number}: {what}"));
        process.bench.saw(what);
    }
}

/// How long all disks go away again and again. An epoch of the journal begins with several syncs in a
/// row, so as long as this lasts chance decides whether anything ever becomes durable.
const FLAPS_TIME: Duration = Duration::from_secs(900);

/// The moments that some seeds dwell on. Whether it is one of these.
async fn dwell(process: &Process, rng: &SimRng) -> bool {
    let (bench, world) = (&process.bench, &process.world);
    let plan = &bench.plan;
    let m = usize::from(plan.engine.layout.m);
    let mut order: Vec<usize> = (0..plan.disks).collect();
    shuffle(rng, &mut order);
    let millis = Duration::from_millis;
    match plan.focus {
        Focus::Few => {
            // Now and then long enough for the journal to go on without them.
            tokio::time::sleep(millis(rng.below(2000))).await;
            process.troubled.store(true, Ordering::Relaxed);
            for number in order.drain(m..) {
                world.disk(number).hang();
            }
            bench
                .trace
                .note(format_args!("all disks hang but {order:?}"));
            bench.saw("few disks answered");
            *bench.well.lock() = order;
            tokio::time::sleep(millis(rng.below(1500))).await;
            world.cut_power();
        }
        Focus::Epochs => {
            tokio::time::sleep(millis(rng.below(3000))).await;
            world.cut_power();
        }
        Focus::Full => {
            process.troubled.store(true, Ordering::Relaxed);
            for number in order.drain(..m) {
                let disk = world.disk(number);
                disk.fail_always(SimOp::Write, DiskErrorKind::Io);
                bench
                    .trace
                    .note(format_args!("disk {number} takes no shards"));
            }
            bench.saw("disks took no shards");
        }
        Focus::Flaps => {
            let calm = tokio::time::Instant::now() + FLAPS_TIME;
            while tokio::time::Instant::now() < calm {
                tokio::time::sleep(millis(rng.below(1500))).await;
                process.troubled.store(true, Ordering::Relaxed);
                for disk in world.disks() {
                    disk.vanish();
                    disk.come_back();
                }
                bench.trace.note(format_args!("all disks were away"));
                bench.saw("all disks were away for a moment");
            }
        }
        _ => return false,
    }
    true
}

/// Trouble that passes and destroys nothing.
async fn disturb(bench: &Bench, disk: &SimDisk, rng: &SimRng, lasts: Duration) -> &'static str {
    let errors = |read, write| SimFaults {
        read_error: read,
        write_error: write,
        ..SimFaults::default()
    };
    let what = match rng.below(9) {
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
        7 => {
            disk.fail_always(SimOp::Rename, DiskErrorKind::Io);
            "names could not be changed"
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
fn ruin(disk: &SimDisk, focus: Focus, rng: &SimRng) -> &'static str {
    if rng.below(4) > 0
        && let Some(what) = damage::dwell(disk, focus, rng)
    {
        return what;
    }
    let folder = FOLDERS[pick(rng, FOLDERS.len())];
    match rng.below(12) {
        0 | 1 => {
            disk.rot(folder, 1 + pick(rng, 20));
            "bits flipped"
        }
        9 | 10 => {
            exchange(disk, folder, rng);
            "files changed places"
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

/// Some files of a folder get each other's content.
fn exchange(disk: &SimDisk, folder: &str, rng: &SimRng) {
    let mut paths = disk.paths();
    paths.retain(|path| path.starts_with(folder));
    shuffle(rng, &mut paths);
    paths.truncate(2 * (1 + pick(rng, 8)));
    for pair in paths.chunks_exact(2) {
        disk.exchange(&pair[0], &pair[1]);
    }
}

/// Sets the clock now and then, by up to days in both directions.
pub(crate) async fn turn_clocks(process: Arc<Process>, rng: SimRng) {
    loop {
        tokio::time::sleep(Duration::from_millis(rng.below(20_000))).await;
        turn_clock(&process.bench, &process.world, &rng);
    }
}

fn turn_clock(bench: &Bench, world: &SimWorld, rng: &SimRng) {
    const HOUR: u64 = 3_600_000_000_000;
    let far = [HOUR / 60, 28 * HOUR, 24 * 20 * HOUR][pick(rng, 3)];
    let by = i64::try_from(rng.below(2 * far)).unwrap_or(0);
    let by = by - i64::try_from(far).unwrap_or(0);
    world.clock().jump(by);
    bench.saw("the clock jumped");
    bench
        .trace
        .note(format_args!("the clock jumped by {} s", by / 1_000_000_000));
}

/// Fog at an opening: how many disks are away, others perhaps slow or not to be written. Those that
/// were not in trouble when it was so last, [`Bench::well`], become those that are not now.
pub(crate) fn befog(bench: &Bench, world: &SimWorld, rng: &SimRng) -> usize {
    let plan = &bench.plan;
    let m = usize::from(plan.engine.layout.m);
    let mut well = bench.well.lock();
    let mut order: Vec<usize> = (0..plan.disks).collect();
    shuffle(rng, &mut order);
    let draw = match plan.focus {
        Focus::Few => 0,
        Focus::Epochs => rng.below(3),
        Focus::Openings => 3,
        _ => rng.below(5),
    };
    let away = match draw {
        // Who alone knows what happened last is away now.
        0 if !well.is_empty() && well.len() <= m => {
            order.sort_by_key(|number| !well.contains(number));
            well.len()
        }
        // Enough are there to go on with, but not enough to know how.
        1 if plan.disks > 2 * m + 1 => plan.disks - m - 1,
        2 if plan.focus != Focus::Epochs => pick(rng, plan.disks + 1),
        3 => pick(rng, m + 1),
        _ => 0,
    };
    for number in order.drain(..away) {
        world.disk(number).vanish();
        bench.trace.note(format_args!("disk {number} is away"));
    }
    well.clear();
    let rule = plan.focus == Focus::Epochs && draw == 1;
    if rule || matches!(plan.focus, Focus::Few | Focus::Openings) {
        bench.saw("an opening in fog");
        return away;
    }
    let spared = match rng.below(3) {
        _ if plan.focus == Focus::Epochs => m,
        0 => order.len(),
        1 => pick(rng, order.len() + 1),
        _ => 1 + pick(rng, m),
    };
    well.extend(order.drain(..spared.min(order.len())));
    let names_only = plan.focus == Focus::Epochs || rng.coin();
    for number in order {
        let disk = world.disk(number);
        let what = match rng.below(4) {
            0 | 1 if names_only => {
                disk.fail_always(SimOp::Rename, DiskErrorKind::Io);
                "names cannot be changed"
            }
            0 => {
                disk.set_faults(SimFaults {
                    write_error: 200_000,
                    ..SimFaults::default()
                });
                "writes fail"
            }
            1 => {
                let slow = Duration::from_millis(300);
                disk.set_latency(SimLatency {
                    read: (slow, slow * 2),
                    write: (slow, slow * 2),
                    sync: (slow, slow * 2),
                });
                "it is slow"
            }
            _ => {
                disk.fail_always(SimOp::Rename, DiskErrorKind::Io);
                "names cannot be changed"
            }
        };
        bench.trace.note(format_args!("disk {number}: {what}"));
    }
    bench.saw("an opening in fog");
    away
}

/// What happens to disks while no process runs.
#[derive(Default)]
pub(crate) struct DiskRack {
    /// Old content of the victims.
    images: Vec<(usize, SimImage)>,
}

impl DiskRack {
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
            let damaged = match rng.below(4) {
                0 => None,
                _ => damage::dwell(&disk, plan.focus, rng),
            };
            let draw = match (plan.focus, rng.below(6)) {
                (Focus::Old, 0..4) => 0,
                (Focus::Old, _) => 5,
                (_, draw) => draw,
            };
            let what = match draw {
                _ if damaged.is_some() => damaged.unwrap_or_default(),
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
                3 | 4 => ruin(&disk, plan.focus, rng),
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
                // Old content goes with its disk, or two would say that they are the same.
                for (number, _) in &mut self.images {
                    *number = match *number {
                        number if number == a => b,
                        number if number == b => a,
                        number => number,
                    };
                }
                bench.saw("two disks changed places");
                bench
                    .trace
                    .note(format_args!("disks {a} and {b} changed places"));
            }
        }
        if rng.below(4) == 0 {
            turn_clock(bench, world, rng);
        }
    }
}

fn label(disk: &SimDisk) -> &str {
    disk.label()
}
