//! One run: a machine, the processes on it one after the other, and how each of them ends.
//!
//! Each process lives in a runtime of its own with a paused clock; that runtime is dropped with
//! whatever is under way in it, as a process is killed. The machine stays: its disks keep what was
//! synced after a power failure, or all that was written after the death of the process alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dewar_auth::{Caller, MasterKeys};
use dewar_data::pool::DewarId;
use dewar_env::disk::sim::SimWorld;
use dewar_env::sim::SimRng;
use dewar_env::sim::points::{self, Points};
use dewar_env::{Disk, DiskState};
use dewar_store::engine::{Content, Engine, Folder, Folders, Work};
use dewar_types::{DiskId, Error, ErrorKind, UserId};
use tokio::task::JoinSet;

use crate::bench::{Bench, Process};
use crate::plan::{Plan, Weather};
use crate::{actor, check, disaster};

/// How long everything may take to come to rest.
const REST: Duration = Duration::from_secs(90);

/// How long a process may live: clients, rest and checks together take minutes.
const LIFE_MAX: Duration = Duration::from_secs(3600);

/// What a run is told beside its seed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Print every event.
    pub shown: bool,
    /// The safeguard that is off.
    pub sabotage: Option<String>,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was wrong, if anything.
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
    /// How often each safeguard was asked for.
    pub safeguards: BTreeMap<&'static str, u64>,
}

struct Run {
    rng: SimRng,
    bench: Arc<Bench>,
    world: SimWorld,
    shelf: disaster::Shelf,
    dewar: DewarId,
    master: Arc<MasterKeys>,
    formatted: bool,
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

/// Runs a seed from begin to end on this thread.
#[must_use]
pub fn simulate(seed: u64, options: &Options) -> Report {
    let rng = SimRng::new(seed);
    let plan = Plan::new(&rng);
    let pauses = plan.pauses;
    let former = Points::new(rng.next(), options.sabotage.as_deref(), pauses).install();
    let world = SimWorld::with_disks(rng.next(), plan.disks);
    let bench = Bench::new(plan, options.shown);
    bench.trace.note(format_args!("{:?}", bench.plan));
    let mut run = Run {
        shelf: disaster::Shelf::default(),
        dewar: DewarId(u128::from(rng.next())),
        master: Arc::new(MasterKeys::generate(&rng.fork())),
        bench: Arc::new(bench),
        formatted: false,
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
    let points = points::take();
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

impl Run {
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
        let end = if self.rng.coin() {
            End::Crash
        } else {
            End::Kill
        };
        if !last {
            // The power may fail while the store is still being opened.
            match self.rng.below(4) {
                0 => self.world.crash_after(1 + self.rng.below(150)),
                1 | 2 => self.world.crash_after(1 + self.rng.below(1500)),
                _ => {}
            }
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

    /// Whether it was closed in order.
    async fn live(&mut self, last: bool) -> bool {
        *self.bench.doing.lock() = "opening";
        let Some(engine) = self.open(last).await else {
            return false;
        };
        *self.bench.journal.lock() = Some(engine.journal().clone());
        let Some(process) = self.enter(&engine).await else {
            return false;
        };
        let rng = self.rng.fork();
        *self.bench.doing.lock() = "the first look";
        if self.rng.coin() && !check::everything(&process, &rng).await {
            return false;
        }
        let ids = self.ids().await;
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
        self.rest(&process).await;
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
        let tries = if self.bench.plan.weather == Weather::Fog {
            3
        } else {
            1
        };
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
        for _ in 0..tries {
            let folders = self.folders().await;
            let master = Arc::clone(&self.master);
            let opened = Engine::open(&env, &config, self.dewar, &folders, master, Work::On).await;
            let error = match opened {
                Ok(engine) => {
                    self.bench.trace.note(format_args!("opened"));
                    return Some(engine);
                }
                Err(error) => error,
            };
            self.bench.trace.note(format_args!("opening: {error}"));
            if self.world.power_failed() {
                return None;
            }
            if self.bench.plan.weather != Weather::Doom {
                let when = if last { "at the end" } else { "" };
                self.bench
                    .fail(format!("it could not be opened {when}: {error:?}"));
                return None;
            }
        }
        None
    }

    async fn folders(&self) -> Folders {
        let mut all = Vec::new();
        for disk in self.world.disks() {
            let label = disk.label().to_owned();
            let opened: Result<Arc<dyn Disk>, Error> = match disk.state() {
                DiskState::Online { .. } => Ok(Arc::new(disk)),
                state => Err(Error::new(ErrorKind::Unavailable, format!("{state:?}"))),
            };
            all.push(Folder::look(label, opened).await);
        }
        Folders { all }
    }

    async fn ids(&self) -> BTreeMap<usize, DiskId> {
        let folders = self.folders().await;
        let id = |(number, folder): (usize, &Folder)| match &folder.content {
            Content::Disk { identity, .. } => Some((number, identity.disk)),
            Content::Blank { .. } | Content::Absent(_) => None,
        };
        folders.all.iter().enumerate().filter_map(id).collect()
    }

    /// The one user and bucket, made where they are not there yet.
    async fn enter(&self, engine: &Engine) -> Option<Arc<Process>> {
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
                caller,
                troubled: AtomicBool::new(self.bench.plan.weather != Weather::Calm),
            };
            let made = store
                .create_bucket(&process.caller, &process.bucket())
                .await;
            match made {
                Err(error) if error.kind() != ErrorKind::AlreadyOwned => Err(error),
                _ => Ok(process),
            }
        };
        match entered.await {
            Ok(process) => Some(Arc::new(process)),
            Err(error) => {
                self.bench.trace.note(format_args!("entering: {error}"));
                let doomed = self.bench.plan.weather == Weather::Doom;
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
        let storm = tokio::spawn(disaster::strike(Arc::clone(process), self.rng.fork()));
        // Some processes die by the clock, at no particular operation.
        let until = match self.rng.below(4) {
            0 => Duration::from_nanos(self.rng.below(20_000_000_000)),
            _ => Duration::MAX,
        };
        let worked = tokio::time::timeout(until, async {
            while clients.join_next().await.is_some() {}
        })
        .await;
        storm.abort();
        worked.is_ok() && self.bench.failure().is_none()
    }

    /// Ends all trouble and waits until nothing is under way.
    async fn rest(&self, process: &Process) {
        for disk in self.world.disks() {
            disaster::calm(&self.bench, &disk);
        }
        tokio::time::sleep(REST).await;
        // A disk whose sync failed stays as it is until the restart.
        let _ = process;
    }

    /// The last process: no trouble, everything is looked at, and nothing may be left over.
    async fn finish(&self, process: &Process, engine: &Engine, ids: &BTreeMap<usize, DiskId>) {
        self.rest(process).await;
        // Upkeep begins where a look by the clock finds something, and sweeps twice.
        tokio::time::sleep(REST).await;
        if !check::everything(process, &self.rng).await || self.bench.failure().is_some() {
            return;
        }
        if self.bench.plan.weather == Weather::Doom {
            return;
        }
        let looked = async {
            check::files(process, engine, ids, false).await?;
            check::empty(process).await?;
            // The clock may have been set back since something was queued to be freed.
            process.world.clock().jump(3 * 86_400_000_000_000);
            tokio::time::sleep(REST * 2).await;
            check::files(process, engine, ids, true).await
        };
        if let Err(error) = looked.await {
            self.bench.fail(format!("the last look failed: {error:?}"));
        }
    }
}
