//! Membership: notices holders that fail, starts epochs without them, and brings in new ones.
//!
//! A failed holder leaves at once, by a new epoch on the remaining ones. A replacement then gets
//! files of its own in the background and joins by a further epoch. From then on it takes new
//! records, and the older files are copied to it. Until they are, [`crate::Status::margin`] does
//! not count it.
//!
//! # Crash cases
//! See [`crate::epoch`]: an epoch that was not confirmed is ignored. A confirmed one ends its
//! parent exactly where acknowledging had stopped.
//!
//! # Cancellation
//! The tasks of this module end when the journal is closed or dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_env::{Access, DiskErrorKind};
use dewar_types::{DiskId, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::backfill::fill;
use crate::epoch::{
    EPOCH_PATH, Epoch, EpochFile, EpochId, JournalMember, Publication, Span, able, lists, publish,
};
use crate::leftovers::{Leftovers, sweep};
use crate::log::{LogPhase, LogState, SharedLog};
use crate::replica::{ReplicaInventory, ReplicaWriter, SpareSlots};

/// How often the keeper looks without having been called.
const TICK: Duration = Duration::from_secs(1);
/// How long a disk that failed an operation is not asked to hold the journal again.
const REST: Duration = Duration::from_secs(30);
/// How often it is looked whether the files are still there.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Spare files made ahead, per holder.
const SPARES: usize = 1;
/// Spare files kept, per holder: the log shrinks and grows by a few files as its holds move.
pub(crate) const SPARES_KEPT: usize = 4;

/// The background tasks of a journal; they end with it.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    set: Mutex<JoinSet<()>>,
    /// The files are verified by one at a time.
    pub(crate) verifying: tokio::sync::Mutex<()>,
}

impl BackgroundTasks {
    pub(crate) fn spawn(
        &self,
        shared: &SharedLog,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut set = self.set.lock();
        while set.try_join_next().is_some() {}
        set.spawn_on(task, &shared.runtime);
    }

    /// Ends them all.
    pub(crate) fn abort(&self) {
        self.set.lock().abort_all();
    }

    /// Starts the tender of a holder, which keeps a spare file ready.
    pub(crate) fn tend(&self, shared: &Arc<SharedLog>, lane: &Arc<ReplicaWriter>) {
        self.spawn(shared, tend(Arc::clone(shared), Arc::clone(lane)));
    }

    /// Starts the keeper.
    pub(crate) fn keep(self: &Arc<Self>, shared: &Arc<SharedLog>) {
        let members = shared.state.lock().members.clone();
        for member in &members {
            self.watch(shared, member);
        }
        let keeper = MembershipManager {
            shared: Arc::clone(shared),
            tasks: Arc::downgrade(self),
            resting: BTreeMap::new(),
            candidate: Arc::default(),
            preparing: None,
            waiting: Vec::new(),
            looked: shared.env.clock.elapsed(),
            robbed: Arc::default(),
            leftovers: Arc::default(),
        };
        self.spawn(shared, keeper.run());
    }

    /// Calls the keeper whenever a member's disk changes its state.
    pub(crate) fn watch(&self, shared: &Arc<SharedLog>, member: &Arc<JournalMember>) {
        let mut state = member.disk.watch();
        let shared_by_task = Arc::clone(shared);
        self.spawn(shared, async move {
            while state.changed().await.is_ok() {
                shared_by_task.attention.notify_one();
            }
        });
    }
}

async fn tend(shared: Arc<SharedLog>, lane: Arc<ReplicaWriter>) {
    loop {
        let stock = {
            let state = shared.state.lock();
            let opening = state.phase == LogPhase::Opening;
            let may_grow = !opening && state.files.len() < state.files_max;
            SpareSlots {
                least: if may_grow { SPARES } else { 0 },
                most: if opening { usize::MAX } else { SPARES_KEPT },
                now: shared.env.clock.elapsed(),
            }
        };
        if !lane.tend(stock).await {
            shared.holder_failed();
            return;
        }
        shared.room.notify_waiters();
        // A full disk is asked again after a while, but only where a file is lacking: if none is, that
        // while may be long over.
        let now = shared.env.clock.elapsed();
        let full_until = lane.full_until();
        if full_until.is_some() {
            // Another disk may have room.
            shared.attention.notify_one();
        }
        match full_until.filter(|until| *until > now) {
            // Called, or because there may be room now: it makes no difference.
            Some(until) => {
                let _ = tokio::time::timeout(until - now, lane.attention.notified()).await;
            }
            None => lane.attention.notified().await,
        }
    }
}

/// The members and their states when their epoch files were last looked after.
type MemberStates = BTreeMap<DiskId, (Arc<JournalMember>, dewar_env::DiskState)>;

type Candidate = Arc<Mutex<Option<(DiskId, Result<ReplicaInventory, String>)>>>;

struct MembershipManager {
    shared: Arc<SharedLog>,
    tasks: Weak<BackgroundTasks>,
    /// Disks that failed, and when.
    resting: BTreeMap<DiskId, Duration>,
    /// A replacement whose files are ready.
    candidate: Candidate,
    preparing: Option<DiskId>,
    /// Replacements that are ready for the next epoch.
    waiting: Vec<HolderReplacement>,
    /// When it was looked last whether the files are still there.
    looked: Duration,
    /// Members whose epoch file was removed from outside.
    robbed: Arc<Mutex<BTreeSet<DiskId>>>,
    leftovers: Arc<Mutex<Leftovers>>,
}

#[derive(Clone)]
pub(crate) struct HolderReplacement {
    pub(crate) lane: Arc<ReplicaWriter>,
    /// Files of an earlier time as a holder; they go when the copies are complete.
    pub(crate) leftovers: Vec<String>,
}

impl MembershipManager {
    async fn run(mut self) {
        // When each member last came back, to bring its epoch file up to date.
        let mut seen = self.member_states();
        // The opening may have needed it, and the next one may come at once.
        self.make_ballast();
        loop {
            tokio::select! {
                biased;
                () = self.shared.attention.notified() => {}
                () = tokio::time::sleep(TICK) => self.make_ballast(),
            }
            if self.shared.state.lock().phase == LogPhase::Closed {
                return;
            }
            self.look_for_files();
            self.look().await;
            self.sweep_leftovers();
            self.write_floor().await;
            self.refresh(&mut seen).await;
        }
    }

    /// Has the members that lack it make what is given up where there is no room for an epoch.
    fn make_ballast(&self) {
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        let members = self.shared.state.lock().members.clone();
        for member in members.into_iter().filter(|member| member.lacks_ballast()) {
            tasks.spawn(&self.shared, async move { member.take_ballast().await });
        }
    }

    fn member_states(&self) -> MemberStates {
        let state = self.shared.state.lock();
        let members = state.members.iter();
        members
            .map(|member| {
                let known = (Arc::clone(member), member.disk.state());
                (member.id, known)
            })
            .collect()
    }

    /// Has it looked whether files were removed behind our back: each disk by itself, since it may hang.
    fn look_for_files(&mut self) {
        let now = self.shared.env.clock.elapsed();
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        if now.saturating_sub(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let (lanes, members) = {
            let state = self.shared.state.lock();
            if state.phase != LogPhase::Running {
                return;
            }
            (state.lanes.clone(), state.members.clone())
        };
        for lane in lanes.into_iter().filter(|lane| lane.failure().is_none()) {
            let shared = Arc::clone(&self.shared);
            tasks.spawn(&self.shared, async move {
                if lane.look_for_files().await {
                    shared.holder_failed();
                }
            });
        }
        for member in members {
            if !member.disk.state().writable() {
                continue;
            }
            let (shared, robbed) = (Arc::clone(&self.shared), Arc::clone(&self.robbed));
            tasks.spawn(&self.shared, async move {
                let found = member.disk.open(EPOCH_PATH, Access::Read).await;
                if matches!(found, Err(error) if error.kind() == DiskErrorKind::NotFound) {
                    robbed.lock().insert(member.id);
                    shared.attention.notify_one();
                }
            });
        }
    }

    /// Has disks emptied that hold the journal no more.
    fn sweep_leftovers(&self) {
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        let due = {
            let state = self.shared.state.lock();
            let holding = |id| {
                let waiting = self.waiting.iter().map(|new| &new.lane);
                let mut lanes = state.lanes.iter().chain(waiting);
                self.preparing == Some(id) || lanes.any(|lane| lane.id == id)
            };
            self.leftovers.lock().due(&state, holding)
        };
        for member in due {
            let (shared, all) = (Arc::clone(&self.shared), Arc::clone(&self.leftovers));
            tasks.spawn(&self.shared, sweep(shared, member, all));
        }
    }

    async fn look(&mut self) {
        let now = self.shared.env.clock.elapsed();
        self.shared.fail_stuck(now);
        let (lanes, due) = {
            let state = self.shared.state.lock();
            let stalled = matches!(state.phase, LogPhase::Stalled { .. } | LogPhase::Changing);
            let known = &state.epoch.members;
            let newcomers = state.members.iter().any(|m| !known.contains(&m.id));
            let departs = !departing(&state, &state.lanes).is_empty();
            let surplus = surplus(&state, &state.lanes).is_some();
            let ends = state.ending >= Some(state.current_file());
            let due = stalled || newcomers || departs || surplus || ends;
            (state.lanes.clone(), due)
        };
        let mut failed = false;
        for lane in &lanes {
            if let Some(why) = lane.failure() {
                if lane.tell() {
                    let disk = lane.disk.label();
                    tracing::warn!(disk, why, "a holder leaves the journal");
                }
                // Such a disk may hold again as soon as it can.
                if !lane.is_innocent() {
                    self.resting.entry(lane.id).or_insert(now);
                }
                failed = true;
            }
        }
        self.take_candidate(now);
        self.waiting.retain(|new| new.lane.failure().is_none());
        if failed || due || !self.waiting.is_empty() {
            self.change().await;
        }
        self.seek_replacement(now);
    }

    /// Notes the replacement that was being prepared.
    fn take_candidate(&mut self, now: Duration) {
        let Some((id, prepared)) = self.candidate.lock().take() else {
            return;
        };
        self.preparing = None;
        let state = self.shared.state.lock();
        let member = state.members.iter().find(|member| member.id == id);
        match (prepared, member) {
            (Ok(found), Some(member)) => {
                let disk = Arc::clone(&member.disk);
                let leftovers = found.leftovers.clone();
                let lane = ReplicaWriter::new(id, disk, self.shared.config.file_bytes, found);
                self.waiting.push(HolderReplacement { lane, leftovers });
            }
            (Err(why), _) => {
                tracing::warn!(disk = %id, why, "a disk cannot hold the journal");
                self.resting.insert(id, now);
            }
            (Ok(_), None) => {}
        }
    }

    /// Starts preparing a replacement where there are fewer holders than there should be.
    fn seek_replacement(&mut self, now: Duration) {
        if self.preparing.is_some() {
            return;
        }
        self.resting
            .retain(|_, since| now.saturating_sub(*since) < REST);
        let chosen = {
            let state = self.shared.state.lock();
            let living = state.lanes.iter().filter(|lane| lane.failure().is_none());
            let waiting = self.waiting.iter().map(|new| &new.lane);
            let holding: Vec<&Arc<ReplicaWriter>> = living.chain(waiting).collect();
            let lasting = holding.iter().filter(|lane| {
                !state.leaving.contains(&lane.id) && !lane.lacks_room(state.current_file())
            });
            if lasting.count() > state.quorum {
                return;
            }
            let leftovers = self.leftovers.lock();
            let free = state.members.iter().find(|member| {
                !holding.iter().any(|lane| lane.id == member.id)
                    && !state.leaving.contains(&member.id)
                    && !self.resting.contains_key(&member.id)
                    && !leftovers.is_busy(member.id)
                    && member.disk.state().writable()
            });
            free.map(Arc::clone)
        };
        let (Some(member), Some(tasks)) = (chosen, self.tasks.upgrade()) else {
            return;
        };
        self.preparing = Some(member.id);
        let (shared, candidate) = (Arc::clone(&self.shared), Arc::clone(&self.candidate));
        tasks.spawn(&self.shared, async move {
            let prepared = ReplicaWriter::prepare(&member.disk, shared.config.file_bytes).await;
            let prepared = prepared.map_err(|error| error.to_string());
            *candidate.lock() = Some((member.id, prepared));
            shared.attention.notify_one();
        });
    }

    /// Starts a new epoch on the holders that live and the one that joins.
    async fn change(&mut self) {
        let shared = Arc::clone(&self.shared);
        let plan = {
            let mut state = shared.state.lock();
            if matches!(state.phase, LogPhase::Closed | LogPhase::ReadOnly) {
                return;
            }
            match self.plan(&mut state) {
                Ok(plan) => plan,
                Err(why) => return self.stall(&mut state, why),
            }
        };
        match self.start_epoch(&plan).await {
            Ok(()) => self.install(plan),
            Err(error) => {
                // The epoch may be on some members, so the one before it is over in any case:
                // the next look tries a further one, which ends it at the same record.
                let mut state = shared.state.lock();
                state.epoch_seen = state.epoch_seen.max(plan.epoch.number);
                self.stall(&mut state, error.to_string());
            }
        }
    }

    /// The next epoch, or why there cannot be one.
    fn plan(&self, state: &mut LogState) -> Result<EpochPlan, String> {
        let shared = &self.shared;
        let mut lanes: Vec<_> = state
            .lanes
            .iter()
            .filter(|lane| lane.failure().is_none())
            .map(Arc::clone)
            .collect();
        let departing = departing(state, &lanes);
        lanes.retain(|lane| !departing.contains(&lane.id));
        lanes.extend(self.waiting.iter().map(|new| Arc::clone(&new.lane)));
        while let Some(surplus) = surplus(state, &lanes) {
            lanes.remove(surplus);
        }
        if lanes.len() < state.quorum {
            return Err(format!(
                "{} of {} needed holders can be written",
                lanes.len(),
                state.quorum
            ));
        }
        let first_file = state.current_file() + 1;
        state.phase = LogPhase::Changing;
        let end = shared.acked();
        let number = state.epoch.number.max(state.epoch_seen) + 1;
        let id = EpochId(shared.env.rng.u128());
        let mut spans = state.spans_ended_at(end);
        spans.push(Span {
            epoch: id,
            number,
            file: first_file,
            first: end + 1,
            prev: state.acked_checksum(),
            last: None,
        });
        let mut members = state.epoch.members.clone();
        for member in &state.members {
            if !members.contains(&member.id) {
                members.push(member.id);
            }
        }
        members.retain(|id| !departing.contains(id));
        let mut removed = state.epoch.removed.clone();
        removed.retain(|id| !state.returning.contains(id));
        removed.extend(&departing);
        let epoch = Epoch {
            id,
            number,
            parent: Some(state.epoch.id),
            parent_end: end,
            m: u32::try_from(shared.config.m).unwrap_or(u32::MAX),
            members,
            removed,
            holders: lanes.iter().map(|lane| lane.id).collect(),
            spans,
            floor: state.floor(),
            acked: end,
            ..state.epoch.clone()
        };
        Ok(EpochPlan {
            before: state.epoch.clone(),
            epoch,
            lanes,
            members: state.members.clone(),
            lost: state.lost.iter().copied().collect(),
        })
    }

    async fn start_epoch(&self, plan: &EpochPlan) -> Result<(), Error> {
        let proposal = EpochFile {
            confirmed: Some(plan.before.clone()),
            proposed: Some(plan.epoch.number),
        };
        let confirmation = EpochFile {
            confirmed: Some(plan.epoch.clone()),
            proposed: None,
        };
        let there = able(&plan.members);
        let lists = lists(&plan.before, &plan.epoch, &plan.lost, &there);
        for file in [proposal, confirmation] {
            let publication = Publication {
                content: file.encode(),
                lists: lists.clone(),
            };
            publish(&self.shared.runtime, &plan.members, &publication).await?;
        }
        Ok(())
    }

    fn install(&mut self, plan: EpochPlan) {
        let mut state = self.shared.state.lock();
        if state.phase == LogPhase::Closed {
            return;
        }
        tracing::info!(
            epoch = plan.epoch.number,
            holders = plan.lanes.len(),
            "the journal goes on in a new epoch"
        );
        dewar_env::coverage_mark("an epoch began while running");
        state.stalled_since = None;
        let new = std::mem::take(&mut self.waiting);
        if !new.is_empty() {
            dewar_env::coverage_mark("a holder was replaced");
        }
        let older = state.files_up_to(self.shared.acked());
        for replacement in &new {
            let lane = &replacement.lane;
            lane.set_missing(older.iter().map(|file| file.header.file).collect());
        }
        state.counters.changes += 1;
        for id in &plan.epoch.removed {
            state.lost.remove(id);
            if state.leaving.remove(id) {
                dewar_env::coverage_mark("a member left for good");
                tracing::info!(disk = %id, "a disk has left the journal for good");
            }
        }
        let back = |id: &DiskId| plan.epoch.members.contains(id);
        state.returning.retain(|id| !back(id));
        // One that is taken back may have come after the plan was made.
        let removed = &plan.epoch.removed;
        let gone = |id: &DiskId| removed.contains(id) && !state.returning.contains(id);
        let stay = state.members.iter().filter(|member| !gone(&member.id));
        state.members = stay.cloned().collect();
        let gone: Vec<Arc<ReplicaWriter>> = state.lanes.clone();
        let stays = |lane: &Arc<ReplicaWriter>| plan.lanes.iter().any(|new| Arc::ptr_eq(new, lane));
        let gone = gone.into_iter().filter(|lane| !stays(lane));
        // Ends their tenders; what they still write is void.
        let gone: Vec<_> = gone.collect();
        self.shared.enter(&mut state, plan.epoch, plan.lanes);
        drop(state);
        for lane in gone {
            lane.tell();
            lane.fail("another epoch began without it");
        }
        let Some(tasks) = self.tasks.upgrade() else {
            return;
        };
        for replacement in new {
            tasks.tend(&self.shared, &replacement.lane);
            let shared = Arc::clone(&self.shared);
            tasks.spawn(&self.shared, fill(shared, replacement, older.clone()));
        }
    }

    /// Those who wait are told when it has lasted for too long, and so is who comes later: at the
    /// end of the attempt that is under way then.
    fn stall(&self, state: &mut LogState, why: String) {
        let now = self.shared.env.clock.elapsed();
        if state.stalled_since.is_none() {
            tracing::error!(why, "the journal cannot be written");
        }
        let since = *state.stalled_since.get_or_insert(now);
        state.phase = LogPhase::Stalled { why };
        self.shared.room.notify_waiters();
        if now.saturating_sub(since) >= self.shared.config.stall_max {
            self.shared.fail_waiters(state);
        }
    }

    /// Frees files that only wait for a header with a higher floor, when the log runs out of files:
    /// otherwise nobody might be able to write such a header any more.
    async fn write_floor(&self) {
        let (members, mut epoch, floor) = {
            let state = self.shared.state.lock();
            if state.phase != LogPhase::Running || !self.shared.floor_is_urgent(&state) {
                return;
            }
            (state.members.clone(), state.epoch.clone(), state.floor())
        };
        epoch.floor = floor;
        epoch.acked = epoch.acked.max(floor);
        let lists = vec![(epoch.members.clone(), epoch.m as usize)];
        let file = EpochFile {
            confirmed: Some(epoch),
            proposed: None,
        };
        let publication = Publication {
            content: file.encode(),
            lists,
        };
        match publish(&self.shared.runtime, &members, &publication).await {
            Ok(()) => self.shared.floor_is_durable(floor),
            Err(error) => tracing::warn!(%error, "the journal's files cannot be freed"),
        }
    }

    /// Brings the epoch file of members that came back, or were attached, up to date.
    async fn refresh(&self, seen: &mut MemberStates) {
        let (members, epoch) = {
            let state = self.shared.state.lock();
            if state.phase != LogPhase::Running {
                return;
            }
            (state.members.clone(), state.epoch.clone())
        };
        let mut back = Vec::new();
        for member in members {
            let now = member.disk.state();
            // Its turn comes when no earlier write can follow.
            if now.writable() && !member.countable() {
                continue;
            }
            let before = seen.insert(member.id, (Arc::clone(&member), now));
            let same =
                before.is_some_and(|(known, state)| Arc::ptr_eq(&known, &member) && state == now);
            let robbed = self.robbed.lock().remove(&member.id);
            if now.writable() && (!same || robbed) {
                back.push(member);
            }
        }
        if back.is_empty() {
            return;
        }
        dewar_env::coverage_mark("a member came back to the journal");
        let file = EpochFile {
            confirmed: Some(epoch),
            proposed: None,
        };
        let publication = Publication {
            content: file.encode(),
            lists: Vec::new(),
        };
        if let Err(error) = publish(&self.shared.runtime, &back, &publication).await {
            tracing::warn!(%error, "a member that came back has an old epoch file");
        }
    }
}

struct EpochPlan {
    before: Epoch,
    epoch: Epoch,
    lanes: Vec<Arc<ReplicaWriter>>,
    members: Vec<Arc<JournalMember>>,
    /// Members that were declared lost.
    lost: Vec<DiskId>,
}

/// Members that may leave for good now: the log is complete on m+1 holders without them, and as many
/// members remain.
fn departing(state: &LogState, lanes: &[Arc<ReplicaWriter>]) -> Vec<DiskId> {
    let holds = |id: &DiskId| {
        let mut living = lanes.iter().filter(|lane| lane.failure().is_none());
        living.any(|lane| lane.id == *id)
    };
    let complete = lanes.iter().filter(|lane| {
        !state.leaving.contains(&lane.id) && lane.failure().is_none() && lane.missing_count() == 0
    });
    let enough = complete.count() >= state.quorum;
    let leaving = state.leaving.iter().filter(|id| enough || !holds(id));
    leaving.copied().collect()
}

/// A holder beyond the m+2 that should be: one without room for a further file before one with, and
/// only while m+1 complete ones remain.
fn surplus(state: &LogState, lanes: &[Arc<ReplicaWriter>]) -> Option<usize> {
    if lanes.len() <= state.quorum + 1 {
        return None;
    }
    let complete =
        |lane: &Arc<ReplicaWriter>| lane.failure().is_none() && lane.missing_count() == 0;
    let may_go = |n: usize| {
        let others = lanes.iter().enumerate().filter(|(other, _)| *other != n);
        others.filter(|(_, lane)| complete(lane)).count() >= state.quorum
    };
    let (short, roomy): (Vec<usize>, Vec<usize>) =
        (0..lanes.len()).partition(|n| lanes[*n].lacks_room(state.current_file()));
    let candidates = if short.is_empty() { roomy } else { short };
    candidates.into_iter().rev().find(|n| may_go(*n))
}

/// Ends a journal; see [`crate::Journal::close`].
pub(crate) async fn close(
    shared: &Arc<SharedLog>,
    tasks: &BackgroundTasks,
    patience: Duration,
) -> Result<(), Error> {
    let last = shared.state.lock().last();
    let durable = tokio::time::timeout(patience, shared.durable(last)).await;
    let (phase, epoch, members) = {
        let mut state = shared.state.lock();
        let phase = std::mem::replace(&mut state.phase, LogPhase::Closed);
        shared.fail_waiters(&mut state);
        let epoch = Epoch {
            floor: state.floor(),
            acked: shared.acked(),
            ..state.epoch.clone()
        };
        (phase, epoch, state.members.clone())
    };
    tasks.abort();
    // The floor spares the next opening what no hold needs; it is no loss if it is not written.
    if phase == LogPhase::Running {
        let lists = vec![(epoch.members.clone(), epoch.m as usize)];
        let file = EpochFile {
            confirmed: Some(epoch),
            proposed: None,
        };
        let publication = Publication {
            content: file.encode(),
            lists,
        };
        publish(&shared.runtime, &members, &publication).await?;
    }
    match durable {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!("the journal was closed before record {last} was durable"),
        )),
    }
}
