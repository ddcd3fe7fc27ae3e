//! Batching of the MD5 streams of a server, so that their bytes are hashed side by side on the
//! lanes of one register.
//!
//! # How streams are batched
//!
//! There is no thread for it: the streams do each other's work (flat combining). The bytes of a
//! stream are kept until somebody must wait for their digest. That is at the end of the stream, or
//! while it holds [`LAZY_MAX`] or more. Then the following happens:
//!
//! 1. The owner of the stream lets the runtime poll other tasks for a moment. Other streams may
//!    come to the same point meanwhile.
//! 2. It takes up to 16 streams: first those that somebody waits for, then any that hold bytes.
//! 3. It hashes all of them at once.
//!
//! A stream that ends is therefore hashed together with streams that are still being received, and
//! most bytes of those are hashed before their digest is needed. While one combiner runs, others
//! that wait collect and become the next batch. A second batch starts beside it only when it is
//! full, so that several cores work if there is enough work. A stream that is the only one open
//! hashes at once.
//!
//! Nothing depends on time or on the number of threads: on one seeded thread the order of events is
//! the order of the polls.
//!
//! # Limits
//!
//! A batch hashes at most about [`BATCH_MAX`] bytes of each stream, which takes less than a
//! millisecond of one core between two awaits. Bytes that wait are shared with the caller's buffer,
//! not copied. Each stream may hold [`LAZY_MAX`], in [`CHUNKS_MAX`] chunks. With many streams, it
//! may hold its share of [`LAZY_TOTAL`]. A stream that holds more, from a time with fewer streams,
//! keeps it until its next bytes come. Small chunks are hashed at once.
//!
//! # Cancellation
//!
//! A batch is hashed within one poll and cannot be interrupted. When a stream is dropped, its bytes
//! are dropped with it. A call that is dropped in the middle loses nothing: its bytes belong to the
//! stream from the first poll on. At the end of a batch *every* waiting owner is woken. One of them
//! leads the next batch, even if others are dropped before they are polled.

#[cfg(test)]
mod tests;

use core::fmt;
use core::future::poll_fn;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Poll, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::simd_lanes::{Instructions, SimdLane, WIDEST};
use super::{BLOCK, Md5, whole_blocks};

/// The most bytes of one stream that a batch hashes.
const BATCH_MAX: usize = 256 << 10;

/// Fewer bytes than this at a stretch are hashed by themselves: they cost less than a lane does.
const RUN_MIN: usize = 2 << 10;

/// Fewer bytes than this are not worth another meeting, nor a lane beside those that somebody waits for.
const REST_MIN: usize = 8 << 10;

/// How many bytes a stream may hold before its owner has to wait for them.
const LAZY_MAX: usize = 1 << 20;

/// How many bytes all streams may hold so, divided among those that are open.
const LAZY_TOTAL: usize = 16 << 20;

/// In how many chunks a stream may hold them: each pins a buffer of its own.
const CHUNKS_MAX: usize = 256;

/// How often an owner lets others run before taking what is there: once for tasks that are ready, once more for those that
/// the first made ready.
const PATIENCE: usize = 2;

/// The batches of MD5 streams; cheap to clone, one per server.
#[derive(Clone)]
pub struct Md5Lanes {
    shared: Arc<Shared>,
}

struct Shared {
    instructions: Instructions,
    /// [`LAZY_MAX`], but in tests.
    lazy_max: usize,
    /// Streams that exist: as many can be expected at most.
    open: AtomicUsize,
    queue: Mutex<Queue>,
}

/// Names a stream; never given twice.
type Ticket = u64;

#[derive(Default)]
struct Queue {
    next: Ticket,
    /// Every stream that is open.
    streams: BTreeMap<Ticket, Entry>,
    /// Streams whose owner waits and that no batch has taken, oldest first.
    waiting: VecDeque<Ticket>,
    /// Other streams with enough bytes for a lane that no batch has taken, oldest first.
    spare: VecDeque<Ticket>,
    /// Batches being hashed now.
    combiners: usize,
    /// Streams in these batches.
    taken: usize,
    /// Batches of several streams so far, and the streams in them.
    batches: u64,
    batched: u64,
}

#[derive(Default)]
struct Entry {
    /// `None` while a batch has it.
    hasher: Option<Md5>,
    /// Received bytes that are not hashed, without those that a batch has taken.
    pending: VecDeque<Bytes>,
    /// Its unhashed bytes, including those that a batch has taken.
    held: usize,
    /// Whether the owner waits until fewer bytes are held.
    awaited: bool,
    waker: Option<Waker>,
}

/// Counters of the batches, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneUse {
    /// Times that several streams were hashed together.
    pub batches: u64,
    /// Streams hashed in the batches; divided by `batches`, the mean number of busy lanes.
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
    /// Batching with the best instructions of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::with_instructions(Instructions::detect())
    }

    pub(super) fn with_instructions(instructions: Instructions) -> Self {
        Self::with_patience(instructions, LAZY_MAX)
    }

    fn with_patience(instructions: Instructions, lazy_max: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                instructions,
                lazy_max,
                open: AtomicUsize::new(0),
                queue: Mutex::new(Queue::default()),
            }),
        }
    }

    /// Opens a stream: one per upload, dropped with it.
    #[must_use]
    pub fn stream(&self) -> Md5Stream {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.shared.queue();
        let ticket = queue.next;
        queue.next += 1;
        let entry = Entry {
            hasher: Some(Md5::new()),
            ..Entry::default()
        };
        queue.streams.insert(ticket, entry);
        Md5Stream {
            shared: Arc::clone(&self.shared),
            ticket,
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

    /// Bytes that streams hold.
    #[cfg(test)]
    fn held(&self) -> usize {
        let queue = self.shared.queue();
        queue.streams.values().map(|entry| entry.held).sum()
    }

    /// No stream is open and no batch runs.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let queue = self.shared.queue();
        queue.streams.is_empty()
            && queue.waiting.is_empty()
            && queue.spare.is_empty()
            && queue.combiners == 0
            && queue.taken == 0
            && self.shared.open.load(Ordering::Relaxed) == 0
    }
}

/// MD5 of the bytes of one upload, hashed together with those of others.
pub struct Md5Stream {
    shared: Arc<Shared>,
    ticket: Ticket,
}

impl Drop for Md5Stream {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        let mut queue = self.shared.queue();
        queue.withdraw(self.ticket);
        queue.streams.remove(&self.ticket);
    }
}

impl fmt::Debug for Md5Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Md5Stream").finish_non_exhaustive()
    }
}

impl Md5Stream {
    /// Takes the next bytes, of any number; chunks of 64 KiB to 1 MiB use the lanes best. They are
    /// kept, unless there are too many of them, and hashed together with other streams.
    ///
    /// Cancellation-safe: `chunk` belongs to the stream from the first poll on. Bytes that a
    /// dropped call left unhashed are hashed by a later one.
    pub async fn update(&mut self, chunk: Bytes) {
        let kept = self.shared.queue().take_in(self.ticket, chunk);
        let keep = match kept.chunks > CHUNKS_MAX {
            true => 0,
            false => self.shared.keep(),
        };
        if kept.bytes > keep {
            self.hash_beyond(keep).await;
        }
    }

    /// The digest of all bytes taken in.
    pub async fn finish(self) -> [u8; 16] {
        self.hash_beyond(0).await;
        let hasher = self.shared.queue().hasher(self.ticket);
        hasher.finish()
    }

    /// Waits until no more than so many bytes are held.
    async fn hash_beyond(&self, keep: usize) {
        let claim = Claim::new(&self.shared, self.ticket, keep);
        loop {
            for _ in 0..PATIENCE {
                if claim.is_ripe() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let mut slept = false;
            match poll_fn(|context| claim.turn(&mut slept, context.waker())).await {
                OwnerStep::Done => return,
                OwnerStep::Again => {}
                OwnerStep::Lead(batch) => {
                    batch.run();
                    if claim.waits() {
                        // Between the pieces of what is long the other tasks of this thread have their turn.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }
}

/// What an owner has to do next.
enum OwnerStep<'a> {
    Done,
    /// A batch has ended and too many bytes are still held.
    Again,
    Lead(Batch<'a>),
}

impl Shared {
    /// A panic while the lock was held cannot leave the queue half changed: nothing that can panic happens under it.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes a stream may hold: none for which there will be no company.
    fn keep(&self) -> usize {
        match self.open.load(Ordering::Relaxed) {
            0 | 1 => 0,
            open => self.lazy_max.min(LAZY_TOTAL / open),
        }
    }
}

impl Entry {
    /// Whether bytes are held, none of them by a batch.
    fn waits(&self) -> bool {
        self.hasher.is_some() && self.held > 0
    }
}

/// What a stream holds.
#[derive(Default)]
struct StreamState {
    bytes: usize,
    chunks: usize,
}

impl Queue {
    fn entry(&mut self, ticket: Ticket) -> &mut Entry {
        let entry = self.streams.get_mut(&ticket);
        entry.expect("a stream is there until it is dropped")
    }

    /// Takes the next bytes of a stream; says what it holds now.
    fn take_in(&mut self, ticket: Ticket, chunk: Bytes) -> StreamState {
        let entry = self.entry(ticket);
        if chunk.len() < RUN_MIN
            && entry.held == 0
            && let Some(hasher) = &mut entry.hasher
        {
            hasher.update(&chunk);
            return StreamState::default();
        }
        let was_worth_a_lane = entry.held >= REST_MIN;
        entry.held += chunk.len();
        entry.pending.push_back(chunk);
        let (held, chunks) = (entry.held, entry.pending.len());
        if entry.hasher.is_some() && !was_worth_a_lane && held >= REST_MIN {
            self.spare.push_back(ticket);
        }
        StreamState {
            bytes: held,
            chunks,
        }
    }

    /// Takes a stream out of what is to be hashed.
    fn withdraw(&mut self, ticket: Ticket) {
        self.waiting.retain(|&other| other != ticket);
        self.spare.retain(|&other| other != ticket);
    }

    /// Streams that a batch could take.
    fn ready(&self) -> usize {
        self.waiting.len() + self.spare.len()
    }

    fn hasher(&mut self, ticket: Ticket) -> Md5 {
        let hasher = &self.entry(ticket).hasher;
        hasher.clone().expect("no batch has it: nothing is held")
    }
}

/// An owner who waits; dropped, nobody does.
struct Claim<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    /// Until the stream holds no more than this.
    keep: usize,
}

impl<'a> Claim<'a> {
    fn new(shared: &'a Shared, ticket: Ticket, keep: usize) -> Self {
        let mut queue = shared.queue();
        let entry = queue.entry(ticket);
        entry.awaited = true;
        if entry.waits() {
            queue.withdraw(ticket);
            queue.waiting.push_back(ticket);
        }
        Self {
            shared,
            ticket,
            keep,
        }
    }

    /// Waiting longer gains nothing: a batch has the stream, or it is done; no further one is to be expected, or none would fit.
    fn is_ripe(&self) -> bool {
        let open = self.shared.open.load(Ordering::Relaxed);
        let mut queue = self.shared.queue();
        !self.waits_in(&mut queue) || queue.ready() >= WIDEST || queue.ready() + queue.taken >= open
    }

    /// Whether somebody has to lead.
    fn waits(&self) -> bool {
        self.waits_in(&mut self.shared.queue())
    }

    fn waits_in(&self, queue: &mut Queue) -> bool {
        let entry = queue.entry(self.ticket);
        entry.waits() && entry.held > self.keep
    }

    /// Decides about the next turn, or leaves `waker` to be called at the end of a batch.
    fn turn(&self, slept: &mut bool, waker: &Waker) -> Poll<OwnerStep<'a>> {
        let mut queue = self.shared.queue();
        let may_lead = queue.combiners == 0 || queue.ready() >= WIDEST;
        let entry = queue.entry(self.ticket);
        if entry.held <= self.keep {
            return Poll::Ready(OwnerStep::Done);
        }
        if core::mem::replace(slept, true) {
            return Poll::Ready(OwnerStep::Again);
        }
        if may_lead && entry.hasher.is_some() {
            return Poll::Ready(OwnerStep::Lead(Batch::take(self.shared, &mut queue)));
        }
        entry.waker = Some(waker.clone());
        Poll::Pending
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        let entry = queue.entry(self.ticket);
        entry.awaited = false;
        entry.waker = None;
        if entry.waits() {
            let worth_a_lane = entry.held >= REST_MIN;
            queue.withdraw(self.ticket);
            if worth_a_lane {
                queue.spare.push_back(self.ticket);
            }
        }
    }
}

/// Streams that a combiner has taken and owes their owners.
struct Batch<'a> {
    shared: &'a Shared,
    jobs: Vec<PendingDigest>,
}

struct PendingDigest {
    ticket: Ticket,
    hasher: Md5,
    /// Bytes that are still to be hashed.
    pending: VecDeque<Bytes>,
    /// Bytes hashed in this batch.
    hashed: usize,
    awaited: bool,
}

impl PendingDigest {
    /// The stretch of whole blocks that comes next, if a lane is worth it; what is shorter is hashed or kept on the way.
    fn next_run(&mut self) -> Option<usize> {
        while self.hashed < BATCH_MAX
            && let Some(chunk) = self.pending.front_mut()
        {
            let filled = self.hasher.fill_carry(chunk);
            drop(chunk.split_to(filled));
            let (blocks, rest) = whole_blocks(chunk);
            if blocks.len() >= RUN_MIN {
                let left = (BATCH_MAX - self.hashed).next_multiple_of(BLOCK);
                return Some(blocks.len().min(left));
            }
            self.hasher.compress(blocks);
            self.hasher.keep(rest);
            self.hashed += chunk.len();
            self.pending.pop_front();
        }
        None
    }

    /// Takes the state that a lane came to, `length` bytes further.
    fn advance(&mut self, state: [u32; 4], length: usize) {
        if length == 0 {
            return;
        }
        self.hasher.resume(state, length);
        self.hashed += length;
        if let Some(chunk) = self.pending.front_mut() {
            drop(chunk.split_to(length));
            if chunk.len() < BLOCK {
                self.hasher.keep(chunk);
                self.pending.pop_front();
            }
        }
    }

    /// Whether what is left is worth another meeting.
    fn is_long(&self) -> bool {
        let mut left = 0;
        self.pending.iter().any(|chunk| {
            left += chunk.len();
            left >= REST_MIN
        })
    }
}

impl<'a> Batch<'a> {
    /// Takes the oldest streams that somebody waits for, and others beside them, as many as there are lanes.
    fn take(shared: &'a Shared, queue: &mut Queue) -> Self {
        let mut jobs = Vec::with_capacity(WIDEST.min(queue.ready()));
        while jobs.len() < WIDEST
            && let Some(ticket) = queue
                .waiting
                .pop_front()
                .or_else(|| queue.spare.pop_front())
        {
            if let Some(entry) = queue.streams.get_mut(&ticket)
                && let Some(hasher) = entry.hasher.take()
            {
                jobs.push(PendingDigest {
                    ticket,
                    hasher,
                    pending: core::mem::take(&mut entry.pending),
                    hashed: 0,
                    awaited: entry.awaited,
                });
            }
        }
        queue.combiners += 1;
        queue.taken += jobs.len();
        if jobs.len() > 1 {
            queue.batches += 1;
            queue.batched += jobs.len() as u64;
        }
        Self { shared, jobs }
    }

    /// Hashes until one of the long streams that somebody waits for is done or has had its share, or half of the lanes have run dry; then
    /// the others meet again, with what came meanwhile. Only short rests are finished with the lanes that remain. The owners hear of it
    /// when the batch is dropped.
    fn run(mut self) {
        let is_waited_for = |job: &PendingDigest| job.awaited && !job.pending.is_empty();
        let goes_on = |job: &PendingDigest| job.is_long() && job.hashed < BATCH_MAX;
        let long: Vec<bool> = self
            .jobs
            .iter()
            .map(|job| job.awaited && job.is_long())
            .collect();
        let any_is_long = long.contains(&true);
        let mut fullest = 0;
        while let Some(lanes) = self.round(|_| true) {
            fullest = fullest.max(lanes);
            let mut of_long = self.jobs.iter().zip(&long).filter(|(_, long)| **long);
            let enough = match any_is_long {
                true => !of_long.all(|(job, _)| goes_on(job)),
                false => !self.jobs.iter().any(is_waited_for),
            };
            if enough || lanes < fullest / 2 {
                break;
            }
        }
        while self.round(|job| job.awaited && !job.is_long()).is_some() {}
    }

    /// Hashes a stretch of each stream that `takes_part`, until the first of them ends; says how many there were, if any.
    fn round(&mut self, takes_part: impl Fn(&PendingDigest) -> bool) -> Option<usize> {
        let mut lengths = [0; WIDEST];
        for (job, length) in self.jobs.iter_mut().zip(&mut lengths) {
            if takes_part(job) {
                *length = job.next_run().unwrap_or(0);
            }
        }
        let mut lanes: Vec<SimdLane<'_>> = Vec::with_capacity(self.jobs.len());
        for (owner, (job, &length)) in self.jobs.iter().zip(&lengths).enumerate() {
            if let Some(chunk) = job.pending.front().filter(|_| length > 0) {
                lanes.push(SimdLane {
                    owner,
                    state: job.hasher.state,
                    data: &chunk[..length],
                });
            }
        }
        if lanes.is_empty() {
            return None;
        }
        let count = lanes.len();
        self.shared.instructions.hash_while(lanes.len(), &mut lanes);
        let left: Vec<(usize, [u32; 4], usize)> = lanes
            .iter()
            .map(|lane| (lane.owner, lane.state, lane.data.len()))
            .collect();
        for (owner, state, left) in left {
            self.jobs[owner].advance(state, lengths[owner] - left);
        }
        Some(count)
    }
}

impl Drop for Batch<'_> {
    /// Hands the streams back, also where a kernel panicked, and wakes everyone who may go on: owners of this batch, and others who
    /// wait, the first of whom to be polled leads the next one.
    fn drop(&mut self) {
        let mut wakers = Vec::with_capacity(WIDEST);
        {
            let mut queue = self.shared.queue();
            let queue = &mut *queue;
            queue.combiners -= 1;
            queue.taken -= self.jobs.len();
            // The first shall be the first again.
            for mut owed in self.jobs.drain(..).rev() {
                let Some(entry) = queue.streams.get_mut(&owed.ticket) else {
                    continue;
                };
                owed.pending.append(&mut entry.pending);
                entry.pending = owed.pending;
                entry.hasher = Some(owed.hasher);
                let held = entry.pending.iter().map(Bytes::len).sum();
                entry.held = held;
                if entry.awaited {
                    wakers.extend(entry.waker.take());
                    if held > 0 {
                        queue.waiting.push_front(owed.ticket);
                    }
                } else if held >= REST_MIN {
                    queue.spare.push_front(owed.ticket);
                }
            }
            for ticket in &queue.waiting {
                let entry = queue.streams.get_mut(ticket);
                wakers.extend(entry.and_then(|entry| entry.waker.take()));
            }
        }
        for waker in wakers {
            waker.wake();
        }
    }
}

const _: () = assert!(BATCH_MAX.is_multiple_of(BLOCK) && RUN_MIN >= BLOCK && REST_MIN >= RUN_MIN);
