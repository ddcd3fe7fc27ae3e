//! One run: a machine, its processes one after the other, and the end of each of them.
//!
//! Each process lives in a runtime of its own with a paused clock. To kill the process, that
//! runtime is dropped with all operations under way. The machine stays. Its disks keep the synced
//! data after a power failure, or all written data after the death of the process alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dewar_auth::{Caller, MasterKeys};
use dewar_disks::pool::DewarId;
use dewar_disks::upkeep::Ledger;
use dewar_engine::{
    BackgroundWork, DiskObserver, Engine, Folder, FolderContent, Folders, LiveFolders,
};
use dewar_env::disk::sim::{SimDisk, SimOp, SimWorld};
use dewar_env::sim::SimRng;
use dewar_env::sim::fail_points::{self, FailPoints};
use dewar_env::{BoxFuture, Disk, DiskState};
use dewar_store::LedgerDepth;
use dewar_types::{DiskId, Error, ErrorKind, GroupId, UserId};
use tokio::task::JoinSet;

use crate::bench::{Bench, Process};
use crate::plan::{Focus, Mix, Plan, Weather, pick, shuffle};
use crate::{actor, check, disaster};

/// How long everything may take to come to rest.
const REST: Duration = Duration::from_secs(90);

/// How often repair may find something more to do when nothing fails any more.
const REPAIRS_MAX: u32 = 6;

/// How long a process may live: clients, rest and checks together take minutes.
const LIFE_MAX: Duration = Duration::from_secs(3600);

/// The options of a run besides its seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print every event.
    pub shown: bool,
    /// The safeguard that is off.
    pub sabotage: Option<String>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Description of the failure, if any.
    pub failure: Option<String>,
    /// The hash of everything that happened.
    pub hash: u64,
    /// Events in it.
    pub events: u64,
    /// Operations of clients.
    pub ops: u64,
    /// Changes of disks.
    pub disk_ops: u64,
    /// How often each rare branch was taken.
    pub reached: BTreeMap<&'static str, u64>,
    /// Number of calls of each safeguard.
    pub safeguards: BTreeMap<&'static str, u64>,
}

struct SimRun {
    rng: SimRng,
    bench: Arc<Bench>,
    world: SimWorld,
    shelf: disaster::DiskRack,
    dewar: DewarId,
    master: Arc<MasterKeys>,
    formatted: bool,
    /// Disks were in trouble at the opening of this process.
    fog: bool,
    disk_ops: u64,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Crash,
    Kill,
    /// Closed in order.
    Closed,
}

/// Ends the process between any two steps of its tasks.
async fn kill(world: SimWorld, rng: SimRng) {
    let wait = match rng.below(3) {
        0 => 0,
        1 => rng.below(2_000_000_000),
        _ => rng.below(20_000_000_000),
    };
    if wait > 0 {
        tokio::time::sleep(Duration::from_nanos(wait)).await;
    }
    // Where disks take no time, an opening is hundreds of turns within one moment.
    let turns = if wait > 0 { 40 } else { 3000 };
    for _ in 0..rng.below(turns) {
        tokio::task::yield_now().await;
    }
    world.cut_power();
}

/// Opens disks of the machine anew.
struct SimDiskObserver(SimWorld);

impl DiskObserver for SimDiskObserver {
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder> {
        let (label, opened) = reopened(self.0.disk(folder));
        Box::pin(Folder::look_again(label, opened))
    }
}

fn reopened(disk: SimDisk) -> (String, Result<Arc<dyn Disk>, Error>) {
    let label = disk.label().to_owned();
    let opened: Result<Arc<dyn Disk>, Error> = match disk.state() {
        DiskState::Online { .. } => Ok(Arc::new(disk)),
        state => Err(Error::new(ErrorKind::Unavailable, format!("{state:?}"))),
    };
    (label, opened)
}

/// Runs a seed from begin to end on this thread.
#[must_use]
pub fn simulate(seed: u64, options: &Options) -> Report {
    let rng = SimRng::new(seed);
    let plan = Plan::new(&rng);
    let pauses = plan.pauses;
    let former = FailPoints::new(rng.next(), options.sabotage.as_deref(), pauses).install();
    let world = SimWorld::with_disks(rng.next(), plan.disks);
    let bench = Bench::new(plan, options.shown);
    bench.trace.note(format_args!("{:?}", bench.plan));
    let mut run = SimRun {
        shelf: disaster::DiskRack::default(),
        dewar: DewarId(u128::from(rng.next())),
        master: Arc::new(MasterKeys::generate(&rng.fork())),
        bench: Arc::new(bench),
        formatted: false,
        fog: false,
        disk_ops: 0,
        rng,
        world,
    };
    let panicked = crate::panic::watch(|| run.all());
    let bench = run.bench;
    let mut failure = bench.failure();
    if let Some(panic) = panicked {
        failure.get_or_insert(panic);
    }
    let (hash, events) = bench.trace.sum();
    let points = fail_points::take();
    if let Some(former) = former {
        former.install();
    }
    let (mut reached, safeguards) = points
        .map(|points| (points.reached, points.safeguards))
        .unwrap_or_default();
    reached.extend(bench.seen.lock().iter());
    Report {
        failure,
        hash,
        events,
        ops: bench.ops.load(Ordering::Relaxed),
        disk_ops: run.disk_ops,
        reached,
        safeguards,
    }
}

impl SimRun {
    fn all(&mut self) {
        let processes = self.bench.plan.processes;
        for number in 0..=processes {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .expect("a runtime without sources of events");
            let last = number == processes;
            runtime.block_on(async {
                self.bench.trace.restart();
                let end = self.process(last).await;
                self.bench.trace.note(format_args!("the end: {end:?}"));
                *self.bench.journal.lock() = None;
                self.disk_ops += self.world.ops();
                let seed = self.rng.next();
                // While the old process still hangs together: nothing it does counts any more.
                self.world = match end {
                    End::Crash => self.world.crash(seed),
                    End::Kill | End::Closed => self.world.kill(seed),
                }
                .with_new_clock();
                self.bench.trace.stop();
            });
            drop(runtime);
            if self.bench.failure().is_some() {
                return;
            }
            if !self.formatted {
                continue;
            }
            self.shelf.between(&self.bench, &self.world, &self.rng);
        }
    }

    /// One process from start to end.
    async fn process(&mut self, last: bool) -> End {
        for disk in self.world.disks() {
            disk.set_latency(self.bench.plan.latency);
            disk.set_deadline(self.bench.plan.deadline);
        }
        let kills = self.rng.coin();
        let end = match (self.bench.plan.focus, self.formatted) {
            // What a killed process left is there, and a power failure takes it back.
            (Focus::Birth, formatted) if formatted => End::Crash,
            (Focus::Birth, _) => End::Kill,
            _ if kills => End::Kill,
            _ => End::Crash,
        };
        if !last {
            self.set_trap(end);
        }
        let world = self.world.clone();
        tokio::select! {
            biased;
            () = world.wait_for_power_failure() => end,
            closed = tokio::time::timeout(LIFE_MAX, self.live(last)) => match closed {
                Ok(true) => End::Closed,
                Ok(false) => end,
                Err(_) => {
                    let doing = *self.bench.doing.lock();
                    let journal = self.bench.journal.lock().take();
                    let journal = journal.map(|journal| journal.status());
                    self.bench
                        .fail(format!("{doing} goes on for ever; journal: {journal:?}"));
                    end
                }
            },
        }
    }

    /// Lets the process come to a sudden end, perhaps.
    fn set_trap(&self, end: End) {
        let (world, rng) = (&self.world, &self.rng);
        if self.bench.plan.focus == Focus::Openings && self.formatted && rng.below(4) > 0 {
            let disks = self.bench.plan.disks as u64;
            return match end {
                // Some have the new epoch, and for none it is durable.
                End::Kill => world.crash_after_some(
                    if rng.coin() {
                        SimOp::Rename
                    } else {
                        SimOp::SyncDir
                    },
                    1 + rng.below(4 * disks),
                ),
                // The new files are being filled.
                _ => world.crash_after_some(SimOp::WriteDurable, 1 + rng.below(30)),
            };
        }
        if self.bench.plan.focus == Focus::Birth && !self.formatted && rng.coin() {
            // The first folders that are synced are those of identities.
            return world
                .crash_after_some(SimOp::SyncDir, 1 + rng.below(self.bench.plan.disks as u64));
        }
        // The power may fail while the store is still being opened.
        let (early, draws) = match self.formatted {
            true => (150, 8),
            // More often than not before the pool is made.
            false => (60, 4),
        };
        let draw = match (self.bench.plan.focus, self.formatted) {
            (Focus::Birth, _) => [0, 2, 3, 6][pick(rng, 4)],
            (Focus::Groups, true) => 4,
            // Their ends come with their disasters.
            (Focus::Few | Focus::Epochs, true) => 7,
            _ => rng.below(draws),
        };
        match draw {
            0 => world.crash_after(1 + rng.below(early)),
            1 if !self.formatted => world.crash_after(1 + rng.below(early)),
            1 | 2 => world.crash_after(1 + rng.below(1500)),
            // What several disks are writing at once is the log.
            4 | 5 => world.crash_after_some(SimOp::WriteDurable, 1 + rng.below(300)),
            3 => {
                tokio::spawn(kill(world.clone(), rng.fork()));
            }
            _ => {}
        }
    }

    /// Whether it was closed in order.
    async fn live(&mut self, last: bool) -> bool {
        *self.bench.doing.lock() = "opening";
        let Some(engine) = self.open(last).await else {
            return false;
        };
        *self.bench.journal.lock() = Some(engine.journal().clone());
        let ids = self.ids().await;
        let Some(process) = self.enter(&engine, &ids).await else {
            return false;
        };
        if last && self.bench.plan.focus == Focus::Old {
            *self.bench.doing.lock() = "a look at the ledger";
            if !self.believe(&process).await {
                return false;
            }
        }
        let rng = self.rng.fork();
        *self.bench.doing.lock() = "the first look";
        let look = self.bench.plan.focus.is_damage() || self.rng.coin();
        if !self.fog && look && !check::everything(&process, &rng).await {
            return false;
        }
        if last {
            *self.bench.doing.lock() = "the last look";
            self.finish(&process, &engine, &ids).await;
            return false;
        }
        *self.bench.doing.lock() = "the clients' work";
        if !self.work(&process).await {
            return false;
        }
        *self.bench.doing.lock() = "the look after work";
        if !self.lack_one(&process).await {
            return false;
        }
        self.rest().await;
        if !check::everything(&process, &rng).await {
            return false;
        }
        if self.rng.coin() {
            return false;
        }
        *self.bench.doing.lock() = "closing";
        match engine.close(Duration::from_secs(30)).await {
            Ok(()) => {}
            Err(error) => {
                if !process.excuses(false) {
                    self.bench
                        .fail(format!("it could not be closed: {error:?}"));
                }
            }
        }
        true
    }

    async fn open(&mut self, last: bool) -> Option<Engine> {
        let env = self.world.env();
        let config = self.bench.plan.engine.clone();
        if !self.formatted {
            let folders = self.folders().await;
            if let Err(error) = Engine::format(&env, &config, self.dewar, &folders).await {
                self.bench.trace.note(format_args!("formatting: {error}"));
                if !self.world.power_failed() {
                    self.bench.fail(format!("formatting failed: {error:?}"));
                }
                return None;
            }
            self.formatted = true;
        }
        let m = usize::from(config.layout.m);
        let foggy = self.bench.plan.weather == Weather::Fog && !last;
        self.fog = foggy
            && match self.bench.plan.focus {
                Focus::Full | Focus::Flaps => false,
                Focus::Few => !self.bench.well.lock().is_empty(),
                Focus::Epochs => true,
                Focus::Openings => self.rng.coin(),
                _ => self.rng.below(4) > 0,
            };
        let away = match self.fog {
            true => disaster::befog(&self.bench, &self.world, &self.rng),
            false => 0,
        };
        let folders = self.folders().await;
        if !self.all_known(&folders) {
            return None;
        }
        let master = Arc::clone(&self.master);
        let opened = Engine::open(
            &env,
            &config,
            self.dewar,
            &folders,
            master,
            BackgroundWork::On,
        )
        .await;
        let error = match opened {
            Ok(engine) => {
                self.bench.trace.note(format_args!("opened"));
                // Who was removed is no member any more.
                let removed = self.bench.seen.lock().contains_key(actor::REMOVED);
                if away > m && !removed {
                    self.bench.fail(format!(
                        "it opened although {away} disks were away, of which {m} may be"
                    ));
                }
                let outlook = Arc::new(SimDiskObserver(self.world.clone()));
                let folders = LiveFolders::new(folders, &engine);
                engine.keep_looking(folders, outlook).await;
                return Some(engine);
            }
            Err(error) => error,
        };
        self.bench.trace.note(format_args!("opening: {error}"));
        if self.world.power_failed() || self.bench.plan.weather == Weather::Doom {
            return None;
        }
        if self.fog {
            self.bench.saw("an opening in fog was refused");
            return None;
        }
        let when = if last { "at the end" } else { "" };
        self.bench
            .fail(format!("it could not be opened {when}: {error:?}"));
        None
    }

    /// Whether disks that never forgot anything have their identities.
    fn all_known(&self, folders: &Folders) -> bool {
        for (number, folder) in folders.all.iter().enumerate() {
            let blank = matches!(folder.content, FolderContent::Blank { .. });
            if blank && !self.bench.plan.victims.contains(&number) && !self.world.power_failed() {
                self.bench
                    .fail(format!("disk {number} has lost its identity"));
                return false;
            }
        }
        true
    }

    async fn folders(&self) -> Folders {
        let mut all = Vec::new();
        for disk in self.world.disks() {
            let (label, opened) = reopened(disk);
            all.push(Folder::look(label, opened).await);
        }
        Folders { all }
    }

    async fn ids(&self) -> BTreeMap<usize, DiskId> {
        let folders = self.folders().await;
        let id = |(number, folder): (usize, &Folder)| match &folder.content {
            FolderContent::Disk { identity, .. } => Some((number, identity.disk)),
            FolderContent::Blank { .. } | FolderContent::Absent(_) => None,
        };
        folders.all.iter().enumerate().filter_map(id).collect()
    }

    /// The one user and bucket, made where they are not there yet.
    async fn enter(&self, engine: &Engine, ids: &BTreeMap<usize, DiskId>) -> Option<Arc<Process>> {
        let store = engine.store().clone();
        let entered = async {
            let accounts = store.accounts();
            let user = match accounts.user("ann").await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    accounts.add_user(UserId(10), "ann").await?
                }
                user => user?,
            };
            let caller = Caller::for_user(user);
            let process = Process {
                bench: Arc::clone(&self.bench),
                world: self.world.clone(),
                store: store.clone(),
                membership: Arc::clone(engine.membership()),
                caller,
                ids: ids.clone(),
                troubled: AtomicBool::new(self.bench.plan.weather != Weather::Calm),
            };
            let made = store
                .create_bucket(&process.caller, &process.bucket())
                .await;
            match made {
                Err(error) if error.kind() != ErrorKind::AlreadyOwned => Err(error),
                Err(_) => Ok(process),
                Ok(_) => {
                    process.own("", Some(GroupId(7))).await?;
                    Ok(process)
                }
            }
        };
        match entered.await {
            Ok(process) => Some(Arc::new(process)),
            Err(error) => {
                self.bench.trace.note(format_args!("entering: {error}"));
                let doomed = self.bench.plan.weather == Weather::Doom || self.fog;
                if !self.world.power_failed() && !doomed {
                    self.bench.fail(format!("entering failed: {error:?}"));
                }
                None
            }
        }
    }

    /// Clients and disasters side by side. Whether all clients came to their end.
    async fn work(&self, process: &Arc<Process>) -> bool {
        let plan = &self.bench.plan;
        let mut clients = JoinSet::new();
        for _ in 0..plan.clients {
            let client = actor::client(Arc::clone(process), self.rng.fork(), plan.steps);
            clients.spawn(client);
        }
        let mut others = JoinSet::new();
        others.spawn(disaster::strike(Arc::clone(process), self.rng.fork()));
        if self.rng.coin() {
            others.spawn(disaster::turn_clocks(Arc::clone(process), self.rng.fork()));
        }
        if plan.mix == Mix::Few {
            others.spawn(actor::watch(Arc::clone(process), self.rng.fork()));
        }
        let admin = actor::administrate(Arc::clone(process), self.rng.fork());
        if plan.admin {
            others.spawn(admin);
        }
        // Some processes die by the clock, at no particular operation.
        let until = match self.rng.below(4) {
            0 => Duration::from_nanos(self.rng.below(20_000_000_000)),
            _ => Duration::MAX,
        };
        let worked = tokio::time::timeout(until, async {
            while clients.join_next().await.is_some() {}
        })
        .await;
        others.shutdown().await;
        worked.is_ok() && self.bench.failure().is_none()
    }

    /// Ends all trouble and waits until nothing is under way.
    async fn rest(&self) {
        for disk in self.world.disks() {
            disaster::calm(&self.bench, &disk);
        }
        // A disk whose sync failed stays as it is until the restart.
        tokio::time::sleep(REST).await;
    }

    /// Right after work in fog, before anything was repaired: what was acknowledged while disks
    /// failed survives the loss of one.
    async fn lack_one(&self, process: &Process) -> bool {
        // What was away at the opening joins only after a while.
        if self.bench.plan.weather != Weather::Fog || self.fog {
            return true;
        }
        let lacking = self.world.disk(pick(&self.rng, self.bench.plan.disks));
        for disk in self.world.disks() {
            disaster::calm(&self.bench, &disk);
        }
        lacking.vanish();
        if let Err(error) = actor::readable(process).await
            && !process.world.power_failed()
        {
            let disk = lacking.label();
            self.bench
                .fail(format!("it cannot be read without {disk} alone: {error:?}"));
            return false;
        }
        !process.world.power_failed()
    }

    /// Whether there are too few disks that can be written, and are not to be emptied, for all shards
    /// of a blob.
    fn cannot_be_whole(&self, process: &Process) -> bool {
        let stay = process.ids.iter();
        let stay = stay.filter(|(_, id)| process.store.disks().decision(**id).is_none());
        let disks = stay.map(|(number, _)| self.world.disk(*number));
        let online = disks.filter(|disk| matches!(disk.state(), DiskState::Online { .. }));
        online.count() < self.bench.plan.engine.layout.shards()
    }

    /// What repair and the ledger say holds: as many disks as they say can be lost are lost, for a
    /// while. Whether it held.
    async fn lose_some(&self, process: &Process) -> bool {
        let plan = &self.bench.plan;
        let progress = AtomicU64::new(0);
        let deep = LedgerDepth {
            objects: true,
            read: true,
        };
        let mut rounds = 0;
        let ledger = loop {
            let ledger = match process.store.ledger(deep, &progress).await {
                Ok(ledger) => ledger,
                Err(error) => {
                    self.bench
                        .fail(format!("the ledger cannot be counted: {error:?}"));
                    return false;
                }
            };
            rounds += 1;
            if ledger.found_bad == 0 {
                break ledger;
            }
            if rounds == REPAIRS_MAX {
                if self.cannot_be_whole(process) {
                    return true;
                }
                self.bench.fail(format!("it is not repaired: {ledger:?}"));
                return false;
            }
            tokio::time::sleep(REST).await;
        };
        self.bench
            .trace
            .note(format_args!("the ledger: {:?}", ledger.lines));
        let worst = ledger.lines.keys().copied().min().unwrap_or(ledger.full);
        if worst < ledger.full && plan.victims.is_empty() {
            self.bench
                .fail(format!("nothing is wrong, and yet {:?}", ledger.lines));
            return false;
        }
        let mut order: Vec<usize> = (0..plan.disks).collect();
        shuffle(&self.rng, &mut order);
        if !self.reads_without(process, order, worst, &ledger).await {
            return false;
        }
        tokio::time::sleep(REST).await;
        true
    }

    /// Believes the ledger before anything was read: as many disks go as it says can go, of those
    /// that never misbehaved first. Whether all could be read.
    async fn believe(&self, process: &Process) -> bool {
        let plan = &self.bench.plan;
        let counted = AtomicU64::new(0);
        let ledger = match process.store.ledger(LedgerDepth::default(), &counted).await {
            Ok(ledger) => ledger,
            Err(error) => {
                self.bench
                    .fail(format!("the ledger cannot be counted: {error:?}"));
                return false;
            }
        };
        let worst = ledger.lines.keys().copied().min().unwrap_or(ledger.full);
        let worst = worst.min(ledger.catalog);
        self.bench
            .trace
            .note(format_args!("the ledger at the opening: {worst}"));
        let mut order: Vec<usize> = (0..plan.disks).collect();
        shuffle(&self.rng, &mut order);
        order.sort_by_key(|number| plan.victims.contains(number));
        self.reads_without(process, order, worst, &ledger).await
    }

    /// Whether all can be read while the first `count` disks of `order` are away, as a ledger says.
    async fn reads_without(
        &self,
        process: &Process,
        mut order: Vec<usize>,
        count: i32,
        ledger: &Ledger,
    ) -> bool {
        order.truncate(usize::try_from(count).unwrap_or(0));
        for &number in &order {
            self.world.disk(number).vanish();
        }
        let read = actor::readable(process).await;
        for &number in &order {
            self.world.disk(number).come_back();
        }
        if let Err(error) = read {
            self.bench.fail(format!(
                "it cannot be read without disks {order:?}; the ledger says {:?}: {error:?}",
                ledger.lines
            ));
            return false;
        }
        true
    }

    /// The last process: no trouble, everything is looked at, and nothing may be left over.
    async fn finish(&self, process: &Process, engine: &Engine, ids: &BTreeMap<usize, DiskId>) {
        self.rest().await;
        // Upkeep begins where a look by the clock finds something, and sweeps twice.
        tokio::time::sleep(REST).await;
        if !check::everything(process, &self.rng).await || self.bench.failure().is_some() {
            return;
        }
        if self.bench.plan.weather == Weather::Doom {
            return;
        }
        for again in [false, true] {
            let found = engine.journal().verify().await;
            if again && !matches!(found, Ok(0)) {
                self.bench
                    .fail(format!("the journal was mended, and yet: {found:?}"));
                return;
            }
        }
        if !self.lose_some(process).await {
            return;
        }
        let looked = async {
            check::files(process, engine, ids, false).await?;
            check::empty(process).await?;
            // The clock may have been set back since something was queued to be freed.
            process.world.clock().jump(3000 * 86_400_000_000_000);
            tokio::time::sleep(REST * 2).await;
            check::files(process, engine, ids, true).await
        };
        if let Err(error) = looked.await {
            self.bench.fail(format!("the last look failed: {error:?}"));
        }
    }
}
