//! A bounded queue with threads of its own.
//!
//! Operations of third-party copies ([`IoClass::Transfer`]) leave half of the threads and half of the
//! queue to others. They use more only while nobody else waits.

use std::cell::Cell;
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

/// On whose behalf a thread asks a disk for something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoClass {
    /// Requests of clients, and everything that is no transfer.
    #[default]
    Client,
    /// Third-party copies.
    Transfer,
}

thread_local! {
    static CLASS: Cell<IoClass> = const { Cell::new(IoClass::Client) };
}

impl IoClass {
    /// Sets the class of everything that the calling thread asks disks for from now on. A runtime
    /// whose threads all call this has a class for all of its tasks.
    pub fn set_for_thread(self) {
        CLASS.set(self);
    }
}

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
    clients: VecDeque<Job>,
    transfers: VecDeque<Job>,
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
    class: IoClass,
    run: Box<dyn FnOnce() + Send>,
}

struct Running {
    class: IoClass,
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

impl Work {
    fn queue(&mut self, class: IoClass) -> &mut VecDeque<Job> {
        match class {
            IoClass::Client => &mut self.clients,
            IoClass::Transfer => &mut self.transfers,
        }
    }

    fn waiting(&self) -> usize {
        self.clients.len() + self.transfers.len()
    }

    /// The next operation: the oldest one, but none of a transfer that would take more than half of
    /// the threads from clients that wait.
    fn next(&mut self, threads_max: usize) -> Option<Job> {
        let (Some(client), Some(transfer)) = (self.clients.front(), self.transfers.front()) else {
            let next = self.clients.pop_front();
            return next.or_else(|| self.transfers.pop_front());
        };
        let transfers = self.running.values();
        let transfers = transfers.filter(|running| running.class == IoClass::Transfer);
        let has_share = transfers.count() < threads_max / 2;
        match has_share && transfer.id < client.id {
            true => self.transfers.pop_front(),
            false => self.clients.pop_front(),
        }
    }
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
        let class = CLASS.get();
        let mut work = self.work.lock();
        let is_full = match class {
            IoClass::Client => work.waiting() >= self.queue_max,
            IoClass::Transfer => work.transfers.len() >= (self.queue_max / 2).max(1),
        };
        if is_full || work.stopped {
            return Err(NoResult::Busy);
        }
        let id = work.next_id;
        work.next_id += 1;
        work.queue(class).push_back(Job { id, class, run });
        let wanted = work.waiting() > work.idle;
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
                    work.queue(class).pop_back();
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
        let waiting = work.waiting();
        work.clients.retain(|job| job.id != id);
        work.transfers.retain(|job| job.id != id);
        work.waiting() < waiting
    }

    /// The life of a thread.
    fn serve(&self) {
        let mut work = self.work.lock();
        loop {
            if let Some(job) = work.next(self.threads_max) {
                let running = Running {
                    class: job.class,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(threads: usize, queue_max: usize) -> Arc<IoQueue> {
        let health = Arc::new(Health::default());
        IoQueue::new("test".to_owned(), threads, queue_max, health)
    }

    /// Operations that run until they are told to end, and say their names when they begin.
    struct Gate {
        queue: Arc<IoQueue>,
        began: std::sync::mpsc::Sender<(IoClass, std::sync::mpsc::Sender<()>)>,
    }

    impl Gate {
        fn ask(&self, class: IoClass) -> bool {
            class.set_for_thread();
            let began = self.began.clone();
            let asked = self.queue.spawn(move || {
                let (end, wait) = std::sync::mpsc::channel();
                began.send((class, end)).expect("the test runs");
                // It ends when the test drops its end.
                let _ = wait.recv();
            });
            IoClass::Client.set_for_thread();
            asked
        }
    }

    #[test]
    fn transfers_leave_half_of_the_threads_to_clients_that_wait() {
        let (began, begin) = std::sync::mpsc::channel();
        let queue = queue(4, 100);
        let gate = Gate { queue, began };
        for _ in 0..20 {
            assert!(gate.ask(IoClass::Transfer));
        }
        // Nobody else is there, so transfers have all threads.
        let mut running: Vec<_> = (0..4).map(|_| begin.recv().expect("it began")).collect();
        for _ in 0..10 {
            assert!(gate.ask(IoClass::Client));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let oldest = running.remove(0);
            drop(oldest.1);
            let next = begin.recv().expect("the next began");
            order.push(next.0);
            running.push(next);
        }
        use IoClass::{Client, Transfer};
        // The first two ends leave three and two transfers, so clients are next. Then both alternate
        // by the share: a transfer begins only where fewer than two run.
        assert_eq!(order[..3], [Client, Client, Transfer]);
        let transfers = running.iter().filter(|(class, _)| *class == Transfer);
        assert_eq!(transfers.count(), 2);
        gate.queue.stop();
    }

    #[test]
    fn transfers_leave_half_of_the_queue_to_clients() {
        let (began, begin) = std::sync::mpsc::channel();
        let queue = queue(1, 8);
        let gate = Gate { queue, began };
        assert!(gate.ask(IoClass::Transfer));
        let first = begin.recv().expect("it began");
        let waiting = (0..8).filter(|_| gate.ask(IoClass::Transfer)).count();
        assert_eq!(waiting, 4);
        let clients = (0..8).filter(|_| gate.ask(IoClass::Client)).count();
        assert_eq!(clients, 4);
        drop(first);
        gate.queue.stop();
    }
}
