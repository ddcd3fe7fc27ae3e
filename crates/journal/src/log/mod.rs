//! The running log: one state under one lock, held for microseconds.
//!
//! # Order
//! A record gets its sequence number and its place when it is appended. Groups are laid out one
//! after the other and acknowledged in that order. A group is acknowledged when it and all before
//! it are durable on m+1 holders. An append starts a write if few writes are under way. Appends
//! that come meanwhile share the next write. There are no timers.
//!
//! Before it starts a write, the log yields to the scheduler, so that more appends join the write.
//! It waits until the thread has nothing else to do, or has polled its driver (tokio's yield, at
//! most some tens of polls). When the processors are the bottleneck, groups grow by that. When they
//! are idle, the yield costs almost nothing. When a write completes, and the queued and in-flight
//! bytes are at least those of that write, the next write starts at once. Disks and processors then
//! work at the same time.
//!
//! # Change of holders
//! While an epoch is being changed, nothing is acknowledged and no write is started. Records that
//! are not acknowledged by then are laid out again in the new epoch, with the same sequence
//! numbers. Writes of the old epoch that are still under way are void. No acknowledgement therefore
//! ever passes a hole.
//!
//! # Cancellation
//! Writes are tasks of their own: dropping a future that waits for one changes nothing.

mod admission;
mod append;
mod files;
mod group;
mod in_flight;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dewar_env::Env;
use dewar_types::{DiskId, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::buffer::BufferPool;
use crate::config::JournalConfig;
use crate::epoch::{Epoch, JournalMember, Span};
use crate::replica::ReplicaWriter;
use crate::{Seq, log_reader};

pub use admission::{LogReserve, Permit};
pub(crate) use files::FileInfo;
use group::Group;
use in_flight::InFlightGroup;

/// Bytes of a group that is not made for one large record.
const GROUP_BYTES: usize = 512 << 10;
/// Unused group buffers that are kept.
const BUFFERS_KEPT: usize = 8;

/// What all parts of a journal share.
pub(crate) struct SharedLog {
    pub(crate) env: Env,
    pub(crate) config: JournalConfig,
    pub(crate) runtime: Handle,
    buffers: Arc<BufferPool>,
    acked: AtomicU64,
    pub(crate) state: Mutex<LogState>,
    /// There may be room again.
    pub(crate) room: Notify,
    /// The keeper has something to look at.
    pub(crate) attention: Notify,
}

/// Whether records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogPhase {
    /// Recovered records are being written into an epoch that is not confirmed yet.
    Opening,
    Running,
    /// A new epoch is being started.
    Changing,
    /// Fewer than m+1 members can be written.
    Stalled {
        why: String,
    },
    /// Too many holders failed while it was opened, and no others are searched.
    Failed {
        why: String,
    },
    ReadOnly,
    Closed,
}

/// Everything under the lock.
pub(crate) struct LogState {
    pub(crate) phase: LogPhase,
    /// Since when no epoch could be started. Not in the phase, which every attempt changes.
    pub(crate) stalled_since: Option<Duration>,
    pub(crate) epoch: Epoch,
    /// The highest number of an epoch that was tried.
    pub(crate) epoch_seen: u64,
    pub(crate) members: Vec<Arc<JournalMember>>,
    /// Members that leave for good by the next epoch that can do without them.
    pub(crate) leaving: BTreeSet<DiskId>,
    /// Of these, the ones that an administrator declared lost ([`crate::epoch`]).
    pub(crate) lost: BTreeSet<DiskId>,
    /// Disks of lineages that were given up, as far as they were seen.
    pub(crate) given_up: BTreeSet<DiskId>,
    /// Removed disks that are taken back, blank, by the next epoch.
    pub(crate) returning: BTreeSet<DiskId>,
    pub(crate) lanes: Vec<Arc<ReplicaWriter>>,
    /// How many holders must have a record.
    pub(crate) quorum: usize,
    /// The last record that was encoded.
    last: Seq,
    next: Seq,
    prev: u32,
    /// Checksum of the last acknowledged record.
    acked_prev: u32,
    /// Start of the next group.
    file: u64,
    offset: u64,
    open: Option<Group>,
    sealed: VecDeque<Group>,
    flying: VecDeque<InFlightGroup>,
    flights: u64,
    /// Whether a task is about to start the waiting group.
    departing: bool,
    last_started: Duration,
    sync_time: Duration,
    pub(crate) files: VecDeque<FileInfo>,
    /// This file and those before it are to take no more records: one has a damaged copy.
    pub(crate) ending: Option<u64>,
    /// So many files may be in use for [`LogReserve::Last`].
    pub(crate) files_max: usize,
    /// The highest floor that a durable file header names.
    durable_floor: Seq,
    pub(crate) holds: BTreeMap<u64, (String, Seq)>,
    hold_ids: u64,
    floor: Seq,
    reserved: usize,
    unacked: usize,
    waiters: Vec<(Seq, oneshot::Sender<Result<(), Error>>)>,
    pub(crate) counters: Counters,
}

/// Counters of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records appended.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Groups written, each with one sync per holder.
    pub groups: u64,
    /// New epochs since opening.
    pub changes: u64,
    /// Records that were intact in one copy and damaged in another when the journal was opened.
    pub mended: u64,
    /// Files of holders whose damage was found while the journal ran.
    pub damaged: u64,
}

/// Where a journal begins to write.
pub(crate) struct WriteStart {
    pub(crate) epoch: Epoch,
    pub(crate) members: Vec<Arc<JournalMember>>,
    pub(crate) lanes: Vec<Arc<ReplicaWriter>>,
    pub(crate) phase: LogPhase,
}

impl SharedLog {
    /// A journal at the beginning of the last stretch of an epoch.
    pub(crate) fn new(env: Env, config: JournalConfig, beginning: WriteStart) -> Arc<Self> {
        let span = beginning.epoch.spans.last();
        let (file, first, prev) = span.map_or((0, 1, 0), |span| (span.file, span.first, span.prev));
        let state = LogState {
            phase: beginning.phase,
            stalled_since: None,
            floor: beginning.epoch.floor,
            durable_floor: 0,
            epoch: beginning.epoch,
            epoch_seen: 0,
            members: beginning.members,
            leaving: BTreeSet::new(),
            lost: BTreeSet::new(),
            given_up: BTreeSet::new(),
            returning: BTreeSet::new(),
            lanes: beginning.lanes,
            quorum: config.m + 1,
            last: first - 1,
            next: first,
            prev,
            acked_prev: prev,
            file,
            offset: 0,
            open: None,
            sealed: VecDeque::new(),
            flying: VecDeque::new(),
            flights: 0,
            departing: false,
            last_started: Duration::ZERO,
            sync_time: Duration::ZERO,
            files: VecDeque::new(),
            ending: None,
            files_max: config.files_max,
            holds: BTreeMap::new(),
            hold_ids: 0,
            reserved: 0,
            unacked: 0,
            waiters: Vec::new(),
            counters: Counters::default(),
        };
        Arc::new(Self {
            env,
            config,
            runtime: Handle::current(),
            buffers: BufferPool::new(GROUP_BYTES, BUFFERS_KEPT),
            acked: AtomicU64::new(first - 1),
            state: Mutex::new(state),
            room: Notify::new(),
            attention: Notify::new(),
        })
    }

    /// The last record that is durable, together with all before it.
    pub(crate) fn acked(&self) -> Seq {
        self.acked.load(Ordering::Acquire)
    }

    /// Waits until a record is durable.
    pub(crate) async fn durable(&self, seq: Seq) -> Result<(), Error> {
        if self.acked() >= seq {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if self.acked() >= seq {
                return Ok(());
            }
            if let LogPhase::Closed | LogPhase::ReadOnly | LogPhase::Failed { .. } = state.phase {
                return Err(state.refusal());
            }
            state.waiters.push((seq, sender));
        }
        match receiver.await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::new(
                ErrorKind::Unavailable,
                "the journal was dropped before the record was durable",
            )),
        }
    }

    /// Fails everyone who waits; what was appended may still become durable.
    pub(crate) fn fail_waiters(&self, state: &mut LogState) {
        let phase = state.phase.clone();
        self.fail_waiters_with(state, || state_refusal(&phase));
    }

    fn fail_waiters_with(&self, state: &mut LogState, why: impl Fn() -> Error) {
        for (_, waiter) in state.waiters.drain(..) {
            // Who no longer waits needs no answer.
            let _ = waiter.send(Err(why()));
        }
        self.room.notify_waiters();
    }

    /// Answers those who wait for a group that has been under way for too long because disks have
    /// no room for the file that it begins: nothing would ever wake them.
    pub(crate) fn fail_stuck(&self, now: Duration) {
        let mut state = self.state.lock();
        let stuck = state.phase == LogPhase::Running
            && !state.waiters.is_empty()
            && state.flying.front().is_some_and(|flight| {
                now.saturating_sub(flight.started()) >= self.config.stall_max
            });
        if stuck && let Some(message) = self.no_room(&state) {
            tracing::warn!(message, "records that were appended cannot be written now");
            self.fail_waiters_with(&mut state, || {
                Error::new(ErrorKind::NoSpace, message.clone())
            });
        }
    }
}

impl LogState {
    /// Whether a disk takes no part any more.
    pub(crate) fn is_removed(&self, id: DiskId) -> bool {
        let removed = self.epoch.removed.contains(&id) || self.given_up.contains(&id);
        removed && !self.returning.contains(&id)
    }

    /// The last appended record.
    pub(crate) fn last(&self) -> Seq {
        self.last
    }

    /// Why appends are refused now.
    pub(crate) fn refusal(&self) -> Error {
        state_refusal(&self.phase)
    }

    /// The log as of now: what an epoch record says about it.
    pub(crate) fn spans_ended_at(&self, end: Seq) -> Vec<Span> {
        let mut spans = self.epoch.spans.clone();
        if let Some(last) = spans.last_mut() {
            last.last = Some(end);
        }
        let floor = self.floor;
        spans.retain(|span| {
            span.last
                .is_none_or(|last| last > floor && last >= span.first)
        });
        spans
    }

    /// Checksum of the last acknowledged record.
    pub(crate) fn acked_checksum(&self) -> u32 {
        self.acked_prev
    }

    /// Files of the log, with the one that the next group begins.
    pub(crate) fn files_in_use(&self) -> usize {
        self.files.len() + usize::from(self.open.is_none() && self.offset == 0)
    }

    /// The file in which the next group begins.
    pub(crate) fn current_file(&self) -> u64 {
        self.file
    }

    /// No record up to this one is needed any more.
    pub(crate) fn floor(&self) -> Seq {
        self.floor
    }

    /// Bytes appended and not yet durable.
    pub(crate) fn unacked_bytes(&self) -> usize {
        self.unacked
    }
}

fn state_refusal(phase: &LogPhase) -> Error {
    let why = match phase {
        LogPhase::Stalled { why } | LogPhase::Failed { why } => why.as_str(),
        LogPhase::ReadOnly => "it is open for reading only",
        LogPhase::Closed => "it is closed",
        LogPhase::Opening | LogPhase::Running | LogPhase::Changing => "it is changing",
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("the journal cannot be written: {why}"),
    )
}

/// Reads files of the running log from the holders that have them.
impl log_reader::CopySource for SharedLog {
    fn copies(
        &self,
        _epoch: crate::EpochId,
        file: u64,
    ) -> dewar_env::BoxFuture<'_, Vec<crate::copies::FileCopy>> {
        let lanes = self.state.lock().lanes.clone();
        let copies = lanes
            .iter()
            .filter_map(|lane| {
                let slot = lane.existing(file)?;
                Some(crate::copies::FileCopy::new(
                    lane.id,
                    Arc::clone(&slot.file),
                ))
            })
            .collect();
        Box::pin(std::future::ready(copies))
    }
}
