//! A bounded queue with threads of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;
use tracing::warn;

use super::health::Health;
use crate::{Clock, RealClock};

/// Stack of a thread that makes system calls and little else.
const STACK_BYTES: usize = 256 << 10;

pub(super) struct IoQueue {
    name: String,
    threads_max: usize,
    queue_max: usize,
    health: Arc<Health>,
    clock: RealClock,
    work: Mutex<Work>,
    arrival: Condvar,
}

#[derive(Default)]
struct Work {
    queue: VecDeque<Job>,
    running: BTreeMap<u64, Running>,
    next_id: u64,
    threads: usize,
    idle: usize,
    /// Threads that replace written-off ones.
    stand_ins: usize,
    stopped: bool,
}

struct Job {
    id: u64,
    run: Box<dyn FnOnce() + Send>,
}

struct Running {
    since: Duration,
    /// Whether its deadline passed, so that the disk counts as hung.
    stuck: bool,
    /// Whether the disk no longer waits for it.
    written_off: bool,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResult {
    /// The queue is full.
    Busy,
    /// The deadline passed.
    TimedOut,
    /// The operation panicked or no thread could be started.
    NoThread,
}

impl IoQueue {
    pub(super) fn new(
        name: String,
        threads_max: usize,
        queue_max: usize,
        health: Arc<Health>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name,
            threads_max,
            queue_max,
            health,
            clock: RealClock::new(),
            work: Mutex::default(),
            arrival: Condvar::new(),
        })
    }

    /// Runs a blocking operation on one of the threads.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        deadline: Duration,
        operation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let (done, mut result) = oneshot::channel();
        let id = self.push(Box::new(move || {
            // Who does not wait any more does not want it.
            let _ = done.send(operation());
        }))?;
        match tokio::time::timeout(deadline, &mut result).await {
            Ok(result) => result.map_err(|_| NoResult::NoThread),
            // It may have ended in between.
            Err(_) if self.give_up(id) => Err(NoResult::TimedOut),
            Err(_) => result.try_recv().map_err(|_| NoResult::NoThread),
        }
    }

    /// The same for who does not wait. Whether there was room.
    pub(super) fn spawn(self: &Arc<Self>, operation: impl FnOnce() + Send + 'static) -> bool {
        self.push(Box::new(operation)).is_ok()
    }

    /// Lets the threads end when the queue is empty.
    pub(super) fn stop(&self) {
        self.work.lock().stopped = true;
        self.arrival.notify_all();
    }

    /// Marks operations that run for longer than the deadline although nobody waits for them.
    /// Whether any of the lane's operations is stuck now.
    pub(super) fn find_stuck(&self, deadline: Duration) -> bool {
        let now = self.clock.elapsed();
        let mut work = self.work.lock();
        let mut any = false;
        for running in work.running.values_mut().filter(|r| !r.written_off) {
            if !running.stuck && now.saturating_sub(running.since) > deadline {
                running.stuck = true;
                self.health.stuck(1);
            }
            any |= running.stuck;
        }
        any
    }

    /// Stops waiting for stuck operations: other threads take over, as long as there are not too
    /// many lost ones.
    pub(super) fn write_off(&self) {
        let mut work = self.work.lock();
        let mut freed = 0;
        let mut allowed = self.threads_max.saturating_sub(work.stand_ins);
        for running in work.running.values_mut() {
            if running.stuck && !running.written_off && allowed > 0 {
                running.written_off = true;
                allowed -= 1;
                freed += 1;
            }
        }
        work.stand_ins += freed;
        drop(work);
        if freed > 0 {
            warn!(
                lane = self.name,
                threads = freed,
                "disk reads again, stuck reads written off"
            );
            self.health.unstuck(freed);
        }
    }

    fn push(self: &Arc<Self>, run: Box<dyn FnOnce() + Send>) -> Result<u64, NoResult> {
        let mut work = self.work.lock();
        if work.queue.len() >= self.queue_max || work.stopped {
            return Err(NoResult::Busy);
        }
        let id = work.next_id;
        work.next_id += 1;
        work.queue.push_back(Job { id, run });
        let wanted = work.queue.len() > work.idle;
        if wanted && work.threads < self.threads_max + work.stand_ins {
            let lane = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name(self.name.clone())
                .stack_size(STACK_BYTES)
                .spawn(move || lane.serve());
            match thread {
                Ok(_) => work.threads += 1,
                Err(error) if work.threads == 0 => {
                    warn!(lane = self.name, %error, "no thread for a disk");
                    work.queue.pop_back();
                    return Err(NoResult::NoThread);
                }
                // The others will come to it.
                Err(_) => {}
            }
        }
        drop(work);
        self.arrival.notify_one();
        Ok(id)
    }

    /// The deadline of an operation has passed. False if it has ended.
    fn give_up(&self, id: u64) -> bool {
        let mut work = self.work.lock();
        if let Some(running) = work.running.get_mut(&id) {
            if !running.stuck {
                running.stuck = true;
                self.health.stuck(1);
            }
            return true;
        }
        let waiting = work.queue.len();
        work.queue.retain(|job| job.id != id);
        work.queue.len() < waiting
    }

    /// The life of a thread.
    fn serve(&self) {
        let mut work = self.work.lock();
        loop {
            if let Some(job) = work.queue.pop_front() {
                let running = Running {
                    since: self.clock.elapsed(),
                    stuck: false,
                    written_off: false,
                };
                work.running.insert(job.id, running);
                drop(work);
                // A defect in one operation must not cost the disk a thread.
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job.run));
                work = self.work.lock();
                if self.ended(&mut work, job.id) {
                    return;
                }
                if outcome.is_err() {
                    warn!(lane = self.name, "a disk operation panicked");
                }
            } else if work.stopped {
                work.threads -= 1;
                return;
            } else {
                work.idle += 1;
                self.arrival.wait(&mut work);
                work.idle -= 1;
            }
        }
    }

    /// Whether the thread was replaced in the meantime and has to go.
    fn ended(&self, work: &mut Work, id: u64) -> bool {
        let Some(running) = work.running.remove(&id) else {
            return false;
        };
        if running.written_off {
            work.stand_ins -= 1;
            work.threads -= 1;
            return true;
        }
        if running.stuck {
            self.health.unstuck(1);
        }
        false
    }
}
