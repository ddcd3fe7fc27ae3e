//! The life of one operation of a simulated disk: admitted, delayed, perhaps stuck, applied.
//!
//! An operation takes effect at one moment, when its delay is over. If its future is dropped before
//! that, chance decides whether the effect happens. An operation that is stuck in a hung disk takes
//! effect when the disk goes on, long after its caller got [`DiskErrorKind::TimedOut`]. Operations
//! that are under way when the power fails or the process is killed were perhaps begun: see
//! [`WorldShared::end`].

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::fault::{OpStage, SimCounters, SimFaults, SimLatency, SimOp};
use super::inode::{Inode, MediumSpace};
use super::names::Names;
use crate::sim::SimRng;
use crate::{DiskError, DiskErrorKind, DiskState};

/// What the disks of one world share.
pub(super) struct WorldShared {
    pub(super) rng: SimRng,
    /// Operations so far that change a medium.
    pub(super) ops: AtomicU64,
    /// The operation at which the power fails.
    pub(super) fail_at: AtomicU64,
    /// The same for operations of one kind: which, and how many more there are.
    pub(super) fail_in: Mutex<Option<(SimOp, u64)>>,
    /// Whether there is power.
    pub(super) power: watch::Sender<bool>,
    pub(super) cores: Mutex<Vec<Weak<Core>>>,
    /// Changes under way, in the order of their beginning.
    flights: Mutex<BTreeMap<u64, Arc<dyn MutatingOp>>>,
    flights_begun: AtomicU64,
    /// Those that were under way when the power failed.
    halted: Mutex<Vec<CompletionHook>>,
}

/// What of an operation happens after all.
type CompletionHook = Box<dyn FnOnce(OpStage) + Send>;

/// How processes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessEnd {
    /// By power failure: operations under way are torn.
    Torn,
    /// The operating system survives: it completes its operations.
    Whole,
}

impl WorldShared {
    pub(super) fn new(rng: SimRng) -> Self {
        Self {
            rng,
            ops: AtomicU64::new(0),
            fail_at: AtomicU64::new(u64::MAX),
            fail_in: Mutex::default(),
            power: watch::Sender::new(true),
            cores: Mutex::default(),
            flights: Mutex::default(),
            flights_begun: AtomicU64::new(0),
            halted: Mutex::default(),
        }
    }

    pub(super) fn powered(&self) -> bool {
        *self.power.borrow()
    }

    /// Counts a change. Whether the power fails at it.
    fn fails_at(&self, op: SimOp) -> bool {
        let n = self.ops.fetch_add(1, Ordering::Relaxed) + 1;
        let mut fail_in = self.fail_in.lock();
        if let Some((kind, left)) = &mut *fail_in
            && *kind == op
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                *fail_in = None;
                return true;
            }
        }
        n == self.fail_at.load(Ordering::Relaxed)
    }

    /// From now on nothing happens any more, but to what was under way.
    pub(super) fn power_off(&self) {
        if !self.power.send_replace(false) {
            return;
        }
        let flights = std::mem::take(&mut *self.flights.lock());
        let halted = flights.values().filter_map(|flight| flight.halt());
        self.halted.lock().extend(halted);
        let cores = self.cores.lock().clone();
        for core in cores.iter().filter_map(Weak::upgrade) {
            core.control(|_| ());
        }
    }

    /// Lets chance decide which of the operations that were under way had been begun.
    pub(super) fn end(&self, ending: ProcessEnd) {
        self.power_off();
        for halted in std::mem::take(&mut *self.halted.lock()) {
            if self.rng.coin() {
                halted(match ending {
                    ProcessEnd::Torn => OpStage::Cut,
                    ProcessEnd::Whole => OpStage::Whole,
                });
            }
        }
    }
}

type DeferredOp = Box<dyn FnOnce(&Core) + Send>;

pub(super) struct Core {
    pub(super) label: String,
    pub(super) shared: Arc<WorldShared>,
    pub(super) media: Mutex<Media>,
    pub(super) control: Mutex<Control>,
    state: watch::Sender<DiskState>,
    /// One replacement at a time: they share the temporary name.
    pub(super) replacing: tokio::sync::Mutex<()>,
}

/// What survives a restart.
pub(super) struct Media {
    pub(super) names: Names,
    pub(super) room: Arc<MediumSpace>,
}

pub(super) struct Control {
    pub(super) deadline: Duration,
    pub(super) latency: SimLatency,
    pub(super) faults: SimFaults,
    /// Millionths of immediate reads that the page cache answers.
    pub(super) cached: u32,
    pub(super) vanished: bool,
    pub(super) displaced: bool,
    pub(super) hanging: bool,
    pub(super) read_only: bool,
    pub(super) poisoned: bool,
    pub(super) fail_next: Vec<(SimOp, DiskErrorKind)>,
    pub(super) fail_always: Vec<(SimOp, DiskErrorKind)>,
    pub(super) next_write: Option<OpStage>,
    pub(super) counters: SimCounters,
    /// Operations past their deadline that have not ended: slow ones.
    overdue: u32,
    /// The same for those that end with the hang.
    stuck: u32,
    returns: u32,
    /// How often it was pulled out: what was open before is dead.
    pub(super) pulls: u32,
    deferred: Vec<DeferredOp>,
}

impl Control {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            latency: SimLatency::default(),
            faults: SimFaults::default(),
            cached: 750_000,
            vanished: false,
            displaced: false,
            hanging: false,
            read_only: false,
            poisoned: false,
            fail_next: Vec::new(),
            fail_always: Vec::new(),
            next_write: None,
            counters: SimCounters::default(),
            overdue: 0,
            stuck: 0,
            returns: 0,
            pulls: 0,
            deferred: Vec::new(),
        }
    }

    fn state(&self, powered: bool) -> DiskState {
        if !powered || self.vanished || self.displaced {
            DiskState::Missing
        } else if self.overdue > 0 || self.stuck > 0 {
            DiskState::Hung
        } else if self.poisoned {
            DiskState::Poisoned
        } else if self.read_only {
            DiskState::ReadOnly {
                returns: self.returns,
            }
        } else {
            DiskState::Online {
                returns: self.returns,
            }
        }
    }

    /// An error that a test asked for.
    fn injected(&mut self, op: SimOp) -> Option<DiskErrorKind> {
        if let Some(n) = self.fail_next.iter().position(|(o, _)| *o == op) {
            return Some(self.fail_next.remove(n).1);
        }
        let always = self.fail_always.iter().find(|(o, _)| *o == op);
        always.map(|(_, kind)| *kind)
    }
}

/// An operation: what it is called, what kind it is, and on which path.
#[derive(Clone, Debug)]
pub(super) struct SimCall {
    pub(super) name: &'static str,
    pub(super) op: SimOp,
    pub(super) path: String,
}

impl Core {
    pub(super) fn new(
        label: String,
        shared: Arc<WorldShared>,
        media: Media,
        control: Control,
    ) -> Self {
        let state = watch::Sender::new(control.state(shared.powered()));
        Self {
            label,
            shared,
            media: Mutex::new(media),
            control: Mutex::new(control),
            state,
            replacing: tokio::sync::Mutex::new(()),
        }
    }

    pub(super) fn state(&self) -> DiskState {
        *self.state.borrow()
    }

    /// How often it was pulled out so far.
    pub(super) fn pulls(&self) -> u32 {
        self.control.lock().pulls
    }

    pub(super) fn watch(&self) -> watch::Receiver<DiskState> {
        self.state.subscribe()
    }

    /// Changes what the disk does, and its state if that follows. Coming back counts.
    pub(super) fn control<T>(&self, f: impl FnOnce(&mut Control) -> T) -> T {
        let powered = self.shared.powered();
        let mut control = self.control.lock();
        let before = control.state(powered);
        let out = f(&mut control);
        let away = |s| matches!(s, DiskState::Missing | DiskState::Hung);
        if away(before) && !away(control.state(powered)) {
            control.returns += 1;
        }
        let after = control.state(powered);
        // Under the lock, so that states are published in the order in which they came.
        self.state.send_if_modified(|state| {
            let changed = *state != after;
            *state = after;
            changed
        });
        out
    }

    pub(super) fn error(&self, kind: DiskErrorKind, call: &SimCall) -> DiskError {
        DiskError::new(kind, call.name, self.label.as_str(), call.path.as_str())
    }

    /// Carries out an operation.
    pub(super) async fn perform<T, F>(
        self: &Arc<Self>,
        call: SimCall,
        effect: F,
    ) -> super::Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Self, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    {
        self.admit(call.op)
            .map_err(|kind| self.error(kind, &call))?;
        let (latency, deadline) = {
            let control = self.control.lock();
            let latency = control.latency.of(call.op, &self.shared.rng);
            (latency, control.deadline)
        };
        let op = call.op;
        let flight = InFlightOp::begin(self, op, effect);
        // Two operations under way may end in either order.
        for _ in 0..self.shared.rng.below(3) {
            tokio::task::yield_now().await;
        }
        let slow = latency > deadline;
        if !slow && !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let hanging = self.control.lock().hanging;
        let Some(effect) = flight.take() else {
            // The power failed meanwhile.
            return Err(self.error(DiskErrorKind::Missing, &call));
        };
        let result = if hanging {
            self.hang(op, effect, deadline).await
        } else if slow {
            self.crawl(op, effect, deadline, latency).await
        } else {
            self.apply(op, effect)
        };
        tracing::trace!(disk = %self.label, op = call.name, path = %call.path, failed = ?result.as_ref().err());
        result.map_err(|kind| self.error(kind, &call))
    }

    fn admit(&self, op: SimOp) -> Result<(), DiskErrorKind> {
        let control = self.control.lock();
        match control.state(self.shared.powered()) {
            DiskState::Missing => Err(DiskErrorKind::Missing),
            DiskState::Hung => Err(DiskErrorKind::TimedOut),
            DiskState::Poisoned if op.mutates() => Err(DiskErrorKind::Poisoned),
            DiskState::ReadOnly { .. } if op.mutates() => Err(DiskErrorKind::Refused),
            _ => Ok(()),
        }
    }

    /// Waits until the disk goes on, or for the deadline.
    async fn hang<T, F>(
        self: &Arc<Self>,
        op: SimOp,
        effect: F,
        deadline: Duration,
    ) -> Result<T, DiskErrorKind>
    where
        T: Send + 'static,
        F: FnOnce(&Self, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        self.control.lock().deferred.push(Box::new(move |core| {
            // Nobody waits any more where the deadline has passed: the effect counts.
            let _ = done.send(core.apply(op, effect));
        }));
        match tokio::time::timeout(deadline, result).await {
            Ok(result) => result.unwrap_or(Err(DiskErrorKind::Missing)),
            Err(_) => {
                self.control(|c| c.stuck += u32::from(c.hanging));
                Err(DiskErrorKind::TimedOut)
            }
        }
    }

    /// Takes longer than the deadline.
    async fn crawl<T, F>(
        self: &Arc<Self>,
        op: SimOp,
        effect: F,
        deadline: Duration,
        latency: Duration,
    ) -> Result<T, DiskErrorKind>
    where
        T: Send + 'static,
        F: FnOnce(&Self, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    {
        let overdue = Arc::new(AtomicBool::new(false));
        let (core, late) = (Arc::clone(self), Arc::clone(&overdue));
        tokio::spawn(async move {
            tokio::time::sleep(latency).await;
            // The result has no one left to go to; only the effect counts.
            let _ = core.apply(op, effect);
            if late.load(Ordering::Relaxed) {
                core.control(|c| c.overdue = c.overdue.saturating_sub(1));
            }
        });
        tokio::time::sleep(deadline).await;
        overdue.store(true, Ordering::Relaxed);
        self.control(|c| c.overdue += 1);
        Err(DiskErrorKind::TimedOut)
    }

    /// Ends a hang: what was stuck happens now, in order.
    pub(super) fn resume(&self) {
        let deferred = self.control(|c| {
            c.hanging = false;
            std::mem::take(&mut c.deferred)
        });
        for operation in deferred {
            operation(self);
        }
        self.control(|c| c.stuck = 0);
    }

    /// The effect, or what a fault makes of it.
    fn apply<T, F>(&self, op: SimOp, effect: F) -> Result<T, DiskErrorKind>
    where
        F: FnOnce(&Self, OpStage) -> Result<T, DiskErrorKind>,
    {
        let rng = &self.shared.rng;
        let (missing, injected, faults, next_write) = {
            let mut control = self.control.lock();
            let state = control.state(self.shared.powered());
            let missing = state == DiskState::Missing;
            let writes = matches!(op, SimOp::Write | SimOp::WriteDurable);
            let next_write = if writes && !missing {
                control.next_write.take()
            } else {
                None
            };
            if !missing {
                control.counters.count(op);
            }
            let injected = if missing { None } else { control.injected(op) };
            (missing, injected, control.faults, next_write)
        };
        if missing {
            return Err(DiskErrorKind::Missing);
        }
        if op.mutates() && self.shared.fails_at(op) {
            if rng.coin() {
                // It fails anyway: only what it left behind counts.
                let _ = effect(self, OpStage::Cut);
            }
            self.shared.power_off();
            return Err(DiskErrorKind::Missing);
        }
        let struck = match (injected, next_write) {
            (Some(kind), _) => Err(kind),
            (None, Some(stage)) => Ok(stage),
            (None, None) => faults.strike(op, rng),
        };
        match struck {
            Ok(stage) => effect(self, stage),
            Err(kind) => {
                if matches!(op, SimOp::Write | SimOp::WriteDurable) && rng.coin() {
                    let _ = effect(self, OpStage::Cut);
                }
                if op == SimOp::Sync || op.syncs() && kind == DiskErrorKind::Io {
                    self.control(|c| c.poisoned = true);
                }
                Err(kind)
            }
        }
    }

    /// Where a write goes that goes astray: to another place of the same file, or to the same place
    /// of another one, more often than not of the same folder.
    pub(super) fn astray(&self, inode: &Arc<Inode>, path: &str) -> MisdirectedWrite {
        let rng = &self.shared.rng;
        if rng.coin() {
            let media = self.media.lock();
            let near = if rng.below(4) == 0 {
                ""
            } else {
                path.split_once('/').map_or(path, |(top, _)| top)
            };
            let others: Vec<_> = media
                .names
                .files()
                .filter(|(path, other)| path.starts_with(near) && !Arc::ptr_eq(other, inode))
                .map(|(_, other)| other)
                .collect();
            let n = rng.below(others.len() as u64);
            if let Some(other) = usize::try_from(n).ok().and_then(|n| others.get(n)) {
                return MisdirectedWrite {
                    target: Arc::clone(other),
                    by: 0,
                };
            }
        }
        let pages = inode.with(|content| content.len() / super::content::PAGE);
        MisdirectedWrite {
            target: Arc::clone(inode),
            by: (1 + rng.below(pages)) * super::content::PAGE,
        }
    }
}

/// Where a misdirected write goes.
pub(super) struct MisdirectedWrite {
    target: Arc<Inode>,
    /// Bytes by which it is shifted, wrapping at the file's end.
    by: u64,
}

impl MisdirectedWrite {
    /// Puts data where it does not belong, as far as there is a file.
    pub(super) fn write(&self, offset: u64, data: &[u8]) {
        self.target.with(|content| {
            let pages = (content.len() / super::content::PAGE).max(1);
            let at = match self.by {
                0 => offset,
                by => (offset + by) % (pages * super::content::PAGE),
            };
            let room = usize::try_from(content.len().saturating_sub(at)).unwrap_or(usize::MAX);
            let data = &data[..data.len().min(room)];
            if !data.is_empty() && (self.by == 0 || at != offset) {
                content.write(at, data);
                content.settle_range(at, data.len() as u64);
            }
        });
    }
}

/// An operation that was begun; dropped before its end, chance decides whether it happens.
struct InFlightOp<'a, F, T>
where
    F: FnOnce(&Core, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    T: 'static,
{
    core: &'a Arc<Core>,
    op: SimOp,
    id: u64,
    held: Arc<HeldOp<F, T>>,
}

struct HeldOp<F, T> {
    core: Weak<Core>,
    effect: Mutex<Option<F>>,
    gives: PhantomData<fn() -> T>,
}

/// A change under way.
trait MutatingOp: Send + Sync {
    /// Takes the effect from the future that waits for it.
    fn halt(&self) -> Option<CompletionHook>;
}

impl<F, T> MutatingOp for HeldOp<F, T>
where
    F: FnOnce(&Core, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    T: 'static,
{
    fn halt(&self) -> Option<CompletionHook> {
        let effect = self.effect.lock().take()?;
        let core = Weak::clone(&self.core);
        Some(Box::new(move |stage| {
            if let Some(core) = core.upgrade() {
                // Nobody is left to be told.
                let _ = effect(&core, stage);
            }
        }))
    }
}

impl<'a, F, T> InFlightOp<'a, F, T>
where
    F: FnOnce(&Core, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    T: 'static,
{
    fn begin(core: &'a Arc<Core>, op: SimOp, effect: F) -> Self {
        let held = Arc::new(HeldOp {
            core: Arc::downgrade(core),
            effect: Mutex::new(Some(effect)),
            gives: PhantomData,
        });
        let id = core.shared.flights_begun.fetch_add(1, Ordering::Relaxed);
        if op.mutates() {
            let begun: Arc<dyn MutatingOp> = Arc::clone(&held) as _;
            core.shared.flights.lock().insert(id, begun);
        }
        Self { core, op, id, held }
    }

    /// The effect, unless the power failed.
    fn take(&self) -> Option<F> {
        self.core.shared.flights.lock().remove(&self.id);
        self.held.effect.lock().take()
    }
}

impl<F, T> Drop for InFlightOp<'_, F, T>
where
    F: FnOnce(&Core, OpStage) -> Result<T, DiskErrorKind> + Send + 'static,
    T: 'static,
{
    fn drop(&mut self) {
        if let Some(effect) = self.take()
            && self.core.shared.powered()
            && self.core.shared.rng.coin()
        {
            // Its caller has gone.
            let _ = self.core.apply(self.op, effect);
        }
    }
}
