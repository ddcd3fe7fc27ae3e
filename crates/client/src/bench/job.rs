//! Runs one job against one target: a thread for each connection, one request at a time on each.
//!
//! Protocol: the workers open their connections and wait at a gate. When all are ready, the
//! coordinator reads the CPU counters and the clock and opens the gate. Workers draw numbered
//! tickets from one counter until the limit is reached. The number decides the object, the range
//! and the verb, so that every target gets the same load. Meanwhile the coordinator only reads the
//! counter to draw its progress.
//!
//! Errors are counted and the work continues. After `errors_max` errors the job is given up.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::objects::{Change, ObjectSet};
use super::plan::{Limit, Mix, Workload};
use super::process::Usage;
use super::tally::Tally;
use super::target::BenchTarget;
use super::worker::Worker;
use crate::clock;

/// The description of a job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) workload: Workload,
    pub(super) concurrency: u32,
    pub(super) limit: Limit,
    pub(super) part_bytes: u64,
    pub(super) range_bytes: u64,
    pub(super) page_keys: u32,
    pub(super) mix: Mix,
    pub(super) verify: bool,
    pub(super) errors_max: u64,
    /// Time to wait for deferred work of the server, before its CPU is read.
    pub(super) settle: Duration,
}

/// The result of a job.
#[derive(Debug)]
pub(super) struct StepOutcome {
    pub(super) elapsed: Duration,
    pub(super) tally: Tally,
    pub(super) change: Change,
    pub(super) client_cpu: Duration,
    /// Counters of the server's processes before and after, if they are known and still exist.
    pub(super) server: Option<(Usage, Usage)>,
    /// Why there are no counters although processes were named.
    pub(super) server_lost: Option<String>,
}

/// The state that the workers of a job share.
pub(super) struct JobContext<'a> {
    pub(super) job: &'a Job,
    pub(super) set: &'a ObjectSet,
    tickets: AtomicU64,
    failures: AtomicU64,
    stop: AtomicBool,
}

/// Memory of a worker's stack: it keeps its buffers on the heap.
const STACK_BYTES: usize = 512 << 10;
/// How often progress is drawn.
const TICK: Duration = Duration::from_millis(100);

/// The gate at which workers wait for each other.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    waiting: usize,
    /// Whether to work or to go home, once it is decided.
    go: Option<bool>,
}

impl Gate {
    /// Waits until the gate opens; `false` means that there will be no work.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            if let Some(go) = state.go {
                return go;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for_waiting(&self, workers: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting < workers {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&self, go: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).go = Some(go);
        self.changed.notify_all();
    }
}

impl JobContext<'_> {
    /// The next ticket; `None` when there is none left. `end` is the end of a job with a time
    /// limit.
    pub(super) fn ticket(&self, end: Option<Instant>) -> Option<u64> {
        if self.stop.load(Ordering::Relaxed) || end.is_some_and(|end| clock::now() >= end) {
            return None;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        match self.job.limit {
            Limit::Requests(requests) if ticket >= requests => None,
            _ => Some(ticket),
        }
    }

    /// Counts a failure.
    pub(super) fn fail(&self) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= self.job.errors_max {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs `job` with the objects of `set`. `progress` is called with the number of started requests.
///
/// # Errors
/// If threads cannot be started or the server's processes do not exist at the start.
pub(super) fn run_job(
    target: &BenchTarget,
    job: &Job,
    set: &ObjectSet,
    mut progress: impl FnMut(u64),
) -> Result<StepOutcome> {
    let workers = job.concurrency as usize;
    let shared = JobContext {
        job,
        set,
        tickets: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let gate = Gate::default();
    let (finished, hear) = mpsc::channel();
    let known = !target.processes.pids.is_empty();
    if known {
        target.processes.usage().context("the server's processes")?;
    }
    std::thread::scope(|scope| {
        for index in 0..workers {
            let (shared, gate, finished) = (&shared, &gate, finished.clone());
            let run = move || {
                let mut worker = Worker::new(shared, target.client(index));
                worker.open();
                if gate.wait() {
                    // The coordinator listens until all of these have ended.
                    let _ = finished.send(worker.run());
                }
            };
            let thread = std::thread::Builder::new().name(format!("bench-{index}"));
            if let Err(error) = thread.stack_size(STACK_BYTES).spawn_scoped(scope, run) {
                gate.open(false);
                return Err(error).with_context(|| format!("start thread {index} of {workers}"));
            }
        }
        drop(finished);
        gate.wait_for_waiting(workers);
        let before = known.then(|| target.processes.usage()).transpose();
        let client_before = clock::process_cpu();
        let start = clock::now();
        gate.open(true);
        let mut tally = Tally::default();
        let mut change = Change::default();
        let mut end = start;
        loop {
            match hear.recv_timeout(TICK) {
                Ok(report) => {
                    tally.merge(&report.tally);
                    change.merge(report.change);
                    end = end.max(report.finished);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress(shared.tickets.load(Ordering::Relaxed));
        }
        let client_cpu = clock::process_cpu().saturating_sub(client_before);
        let (mut server, mut server_lost) = (None, None);
        if known {
            std::thread::sleep(job.settle);
            match before.and_then(|before| Ok(before.zip(Some(target.processes.usage()?)))) {
                Ok(counters) => server = counters,
                Err(error) => server_lost = Some(format!("{error:#}")),
            }
        }
        let elapsed = end.duration_since(start);
        Ok(StepOutcome {
            elapsed,
            tally,
            change,
            client_cpu,
            server,
            server_lost,
        })
    })
}
