//! One simulated machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::core::{Control, Core, Media, ProcessEnd, WorldShared};
use super::disk::SimDisk;
use super::fault::SimOp;
use super::inode::{Inode, MediumSpace};
use super::names::Names;
use crate::sim::{SimClock, SimRng};
use crate::{Clock as _, Disk, Env};

const DEADLINE_DEFAULT: Duration = Duration::from_secs(5);
const CAPACITY_DEFAULT: u64 = 1 << 40;

/// A machine with disks; see the module. Clones are the same machine.
#[derive(Clone)]
pub struct SimWorld {
    shared: Arc<WorldShared>,
    disks: Arc<Mutex<Vec<SimDisk>>>,
    clock: Arc<SimClock>,
    rng: Arc<SimRng>,
}

impl SimWorld {
    /// A machine without disks, with random numbers from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let rng = SimRng::new(seed);
        let shared = WorldShared::new(rng.fork());
        Self {
            shared: Arc::new(shared),
            disks: Arc::default(),
            clock: Arc::default(),
            rng: Arc::new(rng),
        }
    }

    /// A machine with `count` empty disks, labelled `disk0`, `disk1` and so on.
    #[must_use]
    pub fn with_disks(seed: u64, count: usize) -> Self {
        let world = Self::new(seed);
        for n in 0..count {
            world.add_disk(&format!("disk{n}"));
        }
        world
    }

    /// Adds an empty disk of 1 TiB with a deadline of 5 s.
    pub fn add_disk(&self, label: &str) -> SimDisk {
        let room = MediumSpace {
            capacity: AtomicU64::new(CAPACITY_DEFAULT),
            used: AtomicU64::new(0),
        };
        let media = Media {
            names: Names::default(),
            room: Arc::new(room),
        };
        self.attach(label, media, Control::new(DEADLINE_DEFAULT))
    }

    /// The disk that was added as number `n`, from 0.
    ///
    /// # Panics
    /// If there are not that many.
    #[must_use]
    pub fn disk(&self, n: usize) -> SimDisk {
        self.disks.lock()[n].clone()
    }

    /// All disks in the order in which they were added.
    #[must_use]
    pub fn disks(&self) -> Vec<SimDisk> {
        self.disks.lock().clone()
    }

    /// The same disks as trait objects.
    #[must_use]
    pub fn dyn_disks(&self) -> Vec<Arc<dyn Disk>> {
        let disks = self.disks.lock();
        disks
            .iter()
            .map(|d| Arc::new(d.clone()) as Arc<dyn Disk>)
            .collect()
    }

    /// The machine's clock and random numbers.
    #[must_use]
    pub fn env(&self) -> Env {
        Env {
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        }
    }

    /// The clock, to set it.
    #[must_use]
    pub fn clock(&self) -> &Arc<SimClock> {
        &self.clock
    }

    /// The same machine with a clock of its own that continues from now. It is for the next process
    /// if that runs on another runtime, whose time begins at zero. Call it on the old runtime.
    #[must_use]
    pub fn with_new_clock(self) -> Self {
        Self {
            clock: Arc::new(SimClock::new(self.clock.now())),
            ..self
        }
    }

    /// Number of operations so far that change a disk.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.shared.ops.load(Ordering::Relaxed)
    }

    /// Lets the power fail at the `ops`-th operation from now that changes a disk. That operation
    /// may or may not leave traces; it and everything after it fail with `Missing`.
    pub fn crash_after(&self, ops: u64) {
        let at = self.ops().saturating_add(ops);
        self.shared.fail_at.store(at, Ordering::Relaxed);
    }

    /// The same at the `ops`-th operation of one kind that changes a disk.
    pub fn crash_after_some(&self, kind: SimOp, ops: u64) {
        *self.shared.fail_in.lock() = Some((kind, ops));
    }

    /// Lets the power fail now.
    pub fn cut_power(&self) {
        self.shared.power_off();
    }

    /// Whether the power has failed.
    #[must_use]
    pub fn power_failed(&self) -> bool {
        !self.shared.powered()
    }

    /// Returns when the power fails. The code under test may then wait for its disks for ever, so
    /// tests race it against this.
    pub async fn wait_for_power_failure(&self) {
        let mut power = self.shared.power.subscribe();
        // The sender lives as long as `self`.
        let _ = power.wait_for(|on| !on).await;
    }

    /// Cuts the power and returns the machine after it is back, with random numbers from `seed`.
    /// Absent disks are still absent; hangs, poison and faults are gone; capacity and deadline
    /// stay.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.shared.end(ProcessEnd::Torn);
        self.restarted(seed, |media, rng| {
            let names = media.names.after_power_failure(rng);
            copied(&names, &media.room, |inode, room| {
                let content = inode.with(|content| content.after_power_failure(rng));
                Inode::new(content, room)
            })
        })
    }

    /// Kills the process and returns the machine as the next process finds it. Nothing that was
    /// written is lost, and nothing is more durable than before. Operations under way happen or do
    /// not happen.
    #[must_use]
    pub fn kill(&self, seed: u64) -> Self {
        self.shared.end(ProcessEnd::Whole);
        self.restarted(seed, |media, _| {
            copied(&media.names, &media.room, |inode, room| inode.copy(room))
        })
    }

    /// Exchanges the media of two disks. If one of them was used since the start, both are missing
    /// until they are exchanged again or the machine restarts.
    ///
    /// # Panics
    /// If there are not that many disks.
    pub fn swap(&self, a: usize, b: usize) {
        if a == b {
            return;
        }
        let (a, b) = (self.disk(a), self.disk(b));
        let used = |disk: &SimDisk| disk.core.control.lock().counters != Default::default();
        let displaced = used(&a) || used(&b);
        {
            let mut of_a = a.core.media.lock();
            let mut of_b = b.core.media.lock();
            std::mem::swap(&mut *of_a, &mut *of_b);
        }
        for disk in [&a, &b] {
            disk.core.control(|c| c.displaced ^= displaced);
        }
    }

    fn restarted(&self, seed: u64, survive: impl Fn(&Media, &SimRng) -> Media) -> Self {
        let next = Self {
            clock: Arc::clone(&self.clock),
            ..Self::new(seed)
        };
        for disk in self.disks() {
            let media = survive(&disk.core.media.lock(), &next.shared.rng);
            let (deadline, vanished) = {
                let control = disk.core.control.lock();
                (control.deadline, control.vanished)
            };
            let mut control = Control::new(deadline);
            control.vanished = vanished;
            next.attach(&disk.core.label, media, control);
        }
        next
    }

    fn attach(&self, label: &str, media: Media, control: Control) -> SimDisk {
        let core = Core::new(label.to_owned(), Arc::clone(&self.shared), media, control);
        let core = Arc::new(core);
        self.shared.cores.lock().push(Arc::downgrade(&core));
        let disk = SimDisk { core };
        self.disks.lock().push(disk.clone());
        disk
    }
}

/// A medium with every file replaced by a copy, each once however many names it has.
pub(super) fn copied(
    names: &Names,
    room: &MediumSpace,
    copy: impl Fn(&Inode, &Arc<MediumSpace>) -> Arc<Inode>,
) -> Media {
    let room = Arc::new(MediumSpace {
        capacity: AtomicU64::new(room.capacity.load(Ordering::Relaxed)),
        used: AtomicU64::new(0),
    });
    let mut done: BTreeMap<usize, Arc<Inode>> = BTreeMap::new();
    let names = names.map(|inode| {
        let key = Arc::as_ptr(inode).addr();
        let new = done.entry(key).or_insert_with(|| copy(inode, &room));
        Arc::clone(new)
    });
    Media { names, room }
}
