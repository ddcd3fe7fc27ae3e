//! Groups under way: started, landed on a holder, acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::group::{SealedGroup, bodies};
use super::{LogPhase, LogState, SharedLog};
use crate::Seq;
use crate::epoch::Epoch;
use crate::replica::ReplicaWriter;

/// A group that is being written.
#[derive(Debug)]
pub(super) struct InFlightGroup {
    id: u64,
    group: SealedGroup,
    landed: usize,
    started: Duration,
}

/// A group and where it is to be written.
struct GroupDispatch {
    id: u64,
    group: SealedGroup,
    lanes: Vec<Arc<ReplicaWriter>>,
}

impl InFlightGroup {
    /// When its writes began.
    pub(super) fn started(&self) -> Duration {
        self.started
    }
}

impl SharedLog {
    /// Starts writing what waits a little late ([`super`], order), if a write may start now.
    pub(super) fn start_soon(self: &Arc<Self>, state: &mut LogState) {
        if !state.departing && self.may_start(state, self.env.clock.elapsed()) {
            state.departing = true;
            self.runtime.spawn(depart(Arc::clone(self)));
        }
    }

    /// Starts writing what waits, as far as writes may be started now.
    pub(super) fn start_writes(self: &Arc<Self>, state: &mut LogState) {
        while let Some(departure) = self.start_write(state) {
            self.runtime.spawn(fly(Arc::clone(self), departure));
        }
    }

    /// Takes the next group to be written, if a write may be started now.
    fn start_write(&self, state: &mut LogState) -> Option<GroupDispatch> {
        let now = self.env.clock.elapsed();
        if !self.may_start(state, now) {
            return None;
        }
        if state.sealed.is_empty()
            && let Some(group) = state.open.take()
        {
            self.seal(state, group);
        }
        let group = state.sealed.pop_front()?.freeze();
        state.flights += 1;
        state.counters.groups += 1;
        state.last_started = now;
        let id = state.flights;
        for lane in &state.lanes {
            lane.begin(id, group.last, group.bytes.len(), now);
        }
        self.drop_laggards(state, now);
        state.flying.push_back(InFlightGroup {
            id,
            group: group.clone(),
            landed: 0,
            started: now,
        });
        Some(GroupDispatch {
            id,
            group,
            lanes: state.lanes.clone(),
        })
    }

    /// One write at a time, and further ones where a sync is so slow that waiting costs more.
    fn may_start(&self, state: &LogState, now: Duration) -> bool {
        if !matches!(state.phase, LogPhase::Running | LogPhase::Opening) {
            return false;
        }
        let flying = state.flying.len();
        if flying == 0 {
            return true;
        }
        let max = self.config.groups_in_flight_max;
        let share = state.sync_time / u32::try_from(max).unwrap_or(u32::MAX);
        let spacing = self.config.group_spacing.max(share);
        flying < max && now.saturating_sub(state.last_started) >= spacing
    }

    /// Ends lanes that hold back nothing but memory: the quorum is far ahead of them.
    fn drop_laggards(&self, state: &LogState, now: Duration) {
        let acked = self.acked();
        for lane in &state.lanes {
            let (bytes, time) = lane.lag(acked, now);
            if bytes > self.config.lag_bytes_max || time > self.config.lag_max {
                lane.fail(&format!(
                    "{} lags behind by {bytes} bytes and {} ms",
                    lane.disk.label(),
                    time.as_millis()
                ));
                self.attention.notify_one();
            }
        }
    }

    /// A holder has a group durably.
    fn landed(self: &Arc<Self>, id: u64) {
        let mut state = self.state.lock();
        if !matches!(state.phase, LogPhase::Running | LogPhase::Opening) {
            // The end of this epoch is being fixed: what lands now is written again.
            return;
        }
        let Some(flight) = state.flying.iter_mut().find(|flight| flight.id == id) else {
            return;
        };
        flight.landed += 1;
        let quorum = match dewar_env::safeguard("m+1 copies before an acknowledgement") {
            true => state.quorum,
            false => 1,
        };
        let before = self.acked();
        let mut acked = None;
        while state
            .flying
            .front()
            .is_some_and(|front| front.landed >= quorum)
        {
            let Some(flight) = state.flying.pop_front() else {
                break;
            };
            let now = self.env.clock.elapsed();
            let took = now.saturating_sub(flight.started);
            state.sync_time = (state.sync_time * 7 + took) / 8;
            state.unacked -= flight.group.framed;
            state.acked_prev = flight.group.last_crc;
            if let Some(floor) = flight.group.header_floor {
                state.durable_floor = state.durable_floor.max(floor);
            }
            acked = Some(flight.group.last);
        }
        if let Some(acked) = acked {
            self.acknowledge(&mut state, acked);
            if state.last.saturating_sub(acked) >= acked - before {
                self.start_writes(&mut state);
            } else {
                self.start_soon(&mut state);
            }
        }
    }

    fn acknowledge(&self, state: &mut LogState, acked: Seq) {
        self.acked.store(acked, Ordering::Release);
        for (_, waiter) in state.waiters.extract_if(.., |(seq, _)| *seq <= acked) {
            // Who no longer waits needs no answer.
            let _ = waiter.send(Ok(()));
        }
        self.free_files(state);
        self.room.notify_waiters();
    }

    /// A holder could not take a group, or has no file for one.
    pub(crate) fn holder_failed(&self) {
        self.attention.notify_one();
        self.room.notify_waiters();
        let mut state = self.state.lock();
        if state.phase == LogPhase::Opening {
            let alive = state.lanes.iter().filter(|lane| lane.failure().is_none());
            if alive.count() < state.quorum {
                state.phase = LogPhase::Failed {
                    why: "too many holders failed while it was opened".into(),
                };
                self.fail_waiters(&mut state);
            }
        }
    }

    /// Enters a new epoch on these holders: lays out anew what was not acknowledged in the old
    /// one, and goes on.
    pub(crate) fn enter(
        self: &Arc<Self>,
        state: &mut LogState,
        epoch: Epoch,
        lanes: Vec<Arc<ReplicaWriter>>,
    ) {
        if let Some(group) = state.open.take() {
            self.seal(state, group);
        }
        let mut groups: Vec<SealedGroup> = Vec::new();
        groups.extend(state.flying.drain(..).map(|flight| flight.group));
        groups.extend(state.sealed.drain(..).map(super::Group::freeze));

        let end = self.acked();
        self.truncate_files(state, end);
        if let Some(span) = epoch.spans.last() {
            state.file = span.file;
            state.last = span.first - 1;
            state.next = span.first;
            state.prev = span.prev;
            // Files of epochs in which nothing was written have been left out.
            for lane in &lanes {
                lane.begin_at(span.file);
            }
        }
        state.epoch = epoch;
        state.lanes = lanes;
        state.offset = 0;
        state.phase = LogPhase::Running;
        for group in &groups {
            for (header, body) in bodies(group) {
                debug_assert!(header.jump || header.seq == state.next);
                state.next = header.seq;
                self.encode(state, body.len(), &[body]);
            }
        }
        self.keep_last(state);
        self.start_writes(state);
        self.room.notify_waiters();
    }
}

/// Starts what waits once this thread has nothing else to do, or has looked at its driver.
async fn depart(shared: Arc<SharedLog>) {
    tokio::task::yield_now().await;
    let first = {
        let mut state = shared.state.lock();
        state.departing = false;
        let first = shared.start_write(&mut state);
        shared.start_writes(&mut state);
        first
    };
    if let Some(first) = first {
        fly(shared, first).await;
    }
}

/// Writes a group to all holders.
async fn fly(shared: Arc<SharedLog>, departure: GroupDispatch) {
    let GroupDispatch { id, group, lanes } = departure;
    let mut writes: FuturesUnordered<_> = lanes
        .iter()
        .map(|lane| lane.write(id, group.file, group.offset, group.bytes.clone()))
        .collect();
    while let Some(written) = writes.next().await {
        match written {
            Ok(()) => shared.landed(id),
            Err(error) => {
                tracing::warn!(%error, "a journal holder failed");
                shared.holder_failed();
            }
        }
    }
}
