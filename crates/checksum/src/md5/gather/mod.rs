//! Where the MD5 streams of a server meet, so that their bytes are hashed side by side on the lanes of one register.
//!
//! # How they meet
//!
//! There is no thread for it: the streams do each other's work (flat combining). A stream that has bytes to hash puts a job into
//! a shared queue and lets the runtime poll other tasks for a moment, in which others may put in theirs. Then, if its job still
//! waits, it takes up to 16 jobs, hashes them all on the spot and wakes their owners; if its job was taken meanwhile, it awaits the
//! result. While one combiner runs, later jobs pile up behind it and become the next batch; only a batch that is full already
//! starts beside it, so that several cores help where there is work for them. A stream for which nobody could put in a job, since
//! it is the only one open, hashes at once without any of this.
//!
//! Nothing depends on time or on the number of threads: on one seeded thread the order of events is the order of the polls.
//!
//! # Bounds
//!
//! A job is at most [`JOB_MAX`] long and a batch at most 16 jobs: under a millisecond of one core between two awaits. The queue
//! holds at most one job per stream, and a job's bytes are shared with the caller's buffer, not copied.
//!
//! # Cancellation
//!
//! A batch is hashed within one poll and cannot be interrupted. A job whose owner is gone is withdrawn if it still waits and its
//! result dropped if it was taken. At the end of a batch *every* owner of a waiting job is woken, so that one of them leads next
//! even if others are dropped before they are polled. [`Md5Stream::update`] keeps what it has not hashed in the stream: dropped in
//! the middle and called again, it goes on where it stopped.

#[cfg(test)]
mod tests;

use core::fmt;
use core::future::poll_fn;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::lanes::{Instructions, Lane, WIDEST};
use super::{BLOCK, Md5, whole_blocks};

/// The most bytes that one job holds.
const JOB_MAX: usize = 256 << 10;

/// Fewer bytes than this are hashed at once: they cost less than meeting others does.
const JOB_MIN: usize = 2 << 10;

/// Fewer bytes than this of a job are not worth another meeting.
const REST_MIN: usize = 8 << 10;

/// How often a stream lets others run before it takes what is there: once for tasks that are ready, once more for those that
/// the first made ready.
const PATIENCE: usize = 2;

/// Where MD5 streams meet; cheap to clone, one per server.
#[derive(Clone)]
pub struct Md5Lanes {
    shared: Arc<Shared>,
}

struct Shared {
    instructions: Instructions,
    /// Streams that exist: as many jobs can be expected at most.
    open: AtomicUsize,
    queue: Mutex<Queue>,
}

/// Names a job; never given twice.
type Ticket = u64;

#[derive(Default)]
struct Queue {
    next: Ticket,
    /// Every job whose owner still wants it.
    jobs: BTreeMap<Ticket, Job>,
    /// Those that nobody has taken yet, oldest first.
    waiting: VecDeque<Ticket>,
    /// Batches being hashed now.
    combiners: usize,
    /// Jobs in these batches.
    taken: usize,
    /// Batches and jobs so far.
    batches: u64,
    batched: u64,
}

struct Job {
    stage: Stage,
    waker: Option<Waker>,
}

impl Job {
    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }
}

enum Stage {
    Waiting {
        state: [u32; 4],
        data: Bytes,
    },
    Taken,
    Done([u32; 4]),
    /// The combiner did not come to its end: the owner has to hash alone.
    Abandoned,
}

/// What batches have done so far, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneUse {
    /// Times that a stream hashed for itself and others.
    pub batches: u64,
    /// Jobs hashed in these; divided by `batches`, the mean number of busy lanes.
    pub jobs: u64,
}

impl Default for Md5Lanes {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Md5Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Md5Lanes")
            .field("instructions", &self.shared.instructions)
            .field("open", &self.shared.open.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Md5Lanes {
    /// A meeting place that uses the best instructions of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::with_instructions(Instructions::detect())
    }

    pub(super) fn with_instructions(instructions: Instructions) -> Self {
        Self {
            shared: Arc::new(Shared {
                instructions,
                open: AtomicUsize::new(0),
                queue: Mutex::new(Queue::default()),
            }),
        }
    }

    /// Opens a stream: one per upload, dropped with it.
    #[must_use]
    pub fn stream(&self) -> Md5Stream {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        Md5Stream {
            shared: Arc::clone(&self.shared),
            hasher: Md5::new(),
            pending: VecDeque::new(),
        }
    }

    /// How full the lanes have been.
    #[must_use]
    pub fn lane_use(&self) -> LaneUse {
        let queue = self.shared.queue();
        LaneUse {
            batches: queue.batches,
            jobs: queue.batched,
        }
    }

    /// No job is in the queue and no batch runs.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.queue();
        queue.jobs.is_empty()
            && queue.waiting.is_empty()
            && queue.combiners == 0
            && queue.taken == 0
            && self.shared.open.load(Ordering::Relaxed) == 0
    }
}

/// MD5 of the bytes of one upload, hashed together with those of others.
pub struct Md5Stream {
    shared: Arc<Shared>,
    hasher: Md5,
    /// Taken from the caller, not yet hashed; empty between calls unless one was dropped in the middle.
    pending: VecDeque<Bytes>,
}

impl Drop for Md5Stream {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Md5Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Md5Stream").finish_non_exhaustive()
    }
}

impl Md5Stream {
    /// Takes in the next bytes, of any number; chunks of 64 KiB to 1 MiB make the best of the lanes.
    ///
    /// Cancellation-safe: `chunk` belongs to the stream from the first poll on, and what a dropped call left unhashed is hashed
    /// by the next one.
    pub async fn update(&mut self, chunk: Bytes) {
        self.pending.push_back(chunk);
        self.hash_pending().await;
    }

    /// The digest of all bytes taken in.
    pub async fn finish(mut self) -> [u8; 16] {
        self.hash_pending().await;
        self.hasher.clone().finish()
    }

    /// Hashes what is pending; a chunk shrinks only by what the hasher's state contains.
    async fn hash_pending(&mut self) {
        while let Some(chunk) = self.pending.front_mut() {
            let filled = self.hasher.fill_carry(chunk);
            drop(chunk.split_to(filled));
            let (blocks, rest) = whole_blocks(chunk);
            if blocks.is_empty() {
                self.hasher.keep(rest);
                self.pending.pop_front();
                continue;
            }
            let length = blocks.len().min(JOB_MAX);
            if length < JOB_MIN {
                self.hasher.compress(&chunk[..length]);
            } else {
                let data = chunk.slice(..length);
                let state = hash_with_others(&self.shared, self.hasher.state, data).await;
                self.hasher.resume(state, length);
            }
            if let Some(chunk) = self.pending.front_mut() {
                drop(chunk.split_to(length));
            }
        }
    }
}

/// The state after `data`, whole blocks, has been hashed from `state` on.
async fn hash_with_others(shared: &Arc<Shared>, state: [u32; 4], data: Bytes) -> [u32; 4] {
    if shared.open.load(Ordering::Relaxed) <= 1 {
        // Between the pieces of a long chunk the other tasks of this thread have their turn all the same.
        let state = shared.alone(state, &data);
        if data.len() == JOB_MAX {
            tokio::task::yield_now().await;
        }
        return state;
    }
    let claim = Claim::new(shared, state, data.clone());
    loop {
        for _ in 0..PATIENCE {
            if claim.is_ripe() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut slept = false;
        let turn = poll_fn(|context| claim.turn(&mut slept, context.waker())).await;
        match turn {
            Turn::Done(state) => return state,
            Turn::Abandoned => return shared.alone(state, &data),
            Turn::Again => {}
            Turn::Lead(batch) => batch.run(),
        }
    }
}

/// What an owner has to do next.
enum Turn<'a> {
    Done([u32; 4]),
    Abandoned,
    /// A batch has ended and the job still waits, or waits again.
    Again,
    Lead(Batch<'a>),
}

impl Shared {
    /// A panic while the lock was held cannot leave the queue half changed: nothing that can panic happens under it.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self, mut state: [u32; 4], data: &[u8]) -> [u32; 4] {
        super::scalar::compress(&mut state, data);
        state
    }
}

/// An owner's hold on its job: dropping it withdraws the job.
struct Claim<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl<'a> Claim<'a> {
    fn new(shared: &'a Shared, state: [u32; 4], data: Bytes) -> Self {
        let mut queue = shared.queue();
        let ticket = queue.next;
        queue.next += 1;
        queue.waiting.push_back(ticket);
        let job = Job {
            stage: Stage::Waiting { state, data },
            waker: None,
        };
        queue.jobs.insert(ticket, job);
        Self { shared, ticket }
    }

    /// Waiting longer gains nothing: the job has been taken, no further one is to be expected, or none would fit.
    fn is_ripe(&self) -> bool {
        let open = self.shared.open.load(Ordering::Relaxed);
        let queue = self.shared.queue();
        let waits = queue.jobs.get(&self.ticket).is_some_and(Job::is_waiting);
        !waits || queue.waiting.len() >= WIDEST || queue.waiting.len() + queue.taken >= open
    }

    /// Decides about the next turn, or leaves `waker` to be called at the end of a batch.
    fn turn(&self, slept: &mut bool, waker: &Waker) -> Poll<Turn<'a>> {
        let mut queue = self.shared.queue();
        let may_lead = queue.combiners == 0 || queue.waiting.len() >= WIDEST;
        let job = queue
            .jobs
            .get_mut(&self.ticket)
            .expect("a job stays until its claim is dropped");
        match job.stage {
            Stage::Done(state) => Poll::Ready(Turn::Done(state)),
            Stage::Abandoned => Poll::Ready(Turn::Abandoned),
            Stage::Waiting { .. } if *slept => Poll::Ready(Turn::Again),
            Stage::Waiting { .. } if may_lead => {
                Poll::Ready(Turn::Lead(Batch::take(self.shared, &mut queue)))
            }
            Stage::Waiting { .. } | Stage::Taken => {
                job.waker = Some(waker.clone());
                *slept = true;
                Poll::Pending
            }
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        let job = queue.jobs.remove(&self.ticket);
        if job.is_some_and(|job| job.is_waiting()) {
            queue.waiting.retain(|&ticket| ticket != self.ticket);
        }
    }
}

/// Jobs that a combiner has taken and owes their owners.
struct Batch<'a> {
    shared: &'a Shared,
    jobs: Vec<Owed>,
}

struct Owed {
    ticket: Ticket,
    state: [u32; 4],
    /// What is still to be hashed.
    data: Bytes,
    /// Whether `state` and `data` are what a kernel has left.
    worked: bool,
}

impl<'a> Batch<'a> {
    /// Takes the oldest waiting jobs, as many as there are lanes.
    fn take(shared: &'a Shared, queue: &mut Queue) -> Self {
        let mut jobs = Vec::with_capacity(WIDEST.min(queue.waiting.len()));
        while jobs.len() < WIDEST
            && let Some(ticket) = queue.waiting.pop_front()
        {
            if let Some(job) = queue.jobs.get_mut(&ticket)
                && let Stage::Waiting { state, data } =
                    core::mem::replace(&mut job.stage, Stage::Taken)
            {
                jobs.push(Owed {
                    ticket,
                    state,
                    data,
                    worked: false,
                });
            }
        }
        queue.combiners += 1;
        queue.taken += jobs.len();
        queue.batches += 1;
        queue.batched += jobs.len() as u64;
        Self { shared, jobs }
    }

    /// Hashes the jobs until the first of the long ones ends. What is left of the others then goes back into the queue, to share
    /// the lanes with what others bring meanwhile; only short rests are finished with the lanes that remain. (Finishing all
    /// costs up to a quarter more where chunks are of uneven length.) The owners hear of it when the batch is dropped.
    fn run(mut self) {
        let mut lanes: Vec<Lane<'_>> = self
            .jobs
            .iter()
            .enumerate()
            .map(|(owner, job)| Lane {
                owner,
                state: job.state,
                data: &job.data,
            })
            .collect();
        let instructions = self.shared.instructions;
        let is_long = |lane: &&Lane<'_>| lane.data.len() >= REST_MIN;
        let long = lanes.iter().filter(is_long).count();
        instructions.hash_while(long.max(1), &mut lanes);
        // The longest are first now.
        let long = lanes.iter().take_while(is_long).count();
        instructions.hash_while(1, &mut lanes[long..]);
        let left: Vec<(usize, [u32; 4], usize)> = lanes
            .iter()
            .map(|lane| (lane.owner, lane.state, lane.data.len()))
            .collect();
        for (owner, state, left) in left {
            let owed = &mut self.jobs[owner];
            owed.state = state;
            owed.data = owed.data.split_off(owed.data.len() - left);
            owed.worked = true;
        }
    }
}

impl Drop for Batch<'_> {
    /// Hands the results out, also where a kernel panicked, and wakes everyone who may go on: owners of this batch, and owners of
    /// waiting jobs, the first of whom to be polled leads the next one.
    fn drop(&mut self) {
        let mut wakers = Vec::with_capacity(WIDEST);
        {
            let mut queue = self.shared.queue();
            let Queue {
                jobs,
                waiting,
                combiners,
                taken,
                ..
            } = &mut *queue;
            *combiners -= 1;
            *taken -= self.jobs.len();
            for owed in self.jobs.drain(..) {
                let Some(job) = jobs.get_mut(&owed.ticket) else {
                    continue;
                };
                job.stage = if !owed.worked {
                    Stage::Abandoned
                } else if owed.data.is_empty() {
                    Stage::Done(owed.state)
                } else {
                    waiting.push_front(owed.ticket);
                    Stage::Waiting {
                        state: owed.state,
                        data: owed.data,
                    }
                };
                wakers.extend(job.waker.take());
            }
            for ticket in waiting.iter() {
                wakers.extend(jobs.get_mut(ticket).and_then(|job| job.waker.take()));
            }
        }
        for waker in wakers {
            waker.wake();
        }
    }
}

const _: () = assert!(JOB_MAX.is_multiple_of(BLOCK) && JOB_MIN >= BLOCK && REST_MIN >= BLOCK);
