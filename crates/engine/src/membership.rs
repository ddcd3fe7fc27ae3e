//! Membership of disks in the pool: disks are added, replaced and removed while the pool is open.
//!
//! # Adding
//! A blank folder gets an identity in one durable step. Then the disk joins: the pool, so that
//! blobs are written to it; the journal, as a member by a new epoch; the index. After a crash
//! before the identity exists, nothing is left. After a crash later, the folder is a disk of this
//! pool that joins when it is found.
//!
//! # Replacing
//! The identity of the new disk names the disk to be replaced, so this one durable step records the
//! whole intention. A running store or the next opening that finds such a disk continues. One batch
//! of the catalog notes that the identity was acted on and decides that the old disk is to be
//! emptied ([`Decision::Replace`]). Repair moves the old disk's shards. When nothing is on it any
//! more, or it has been away for too long, it is removed.
//!
//! The journal cannot be written if the pool has fewer than 2m+1 disks and m are gone. If the old
//! disk is one of those, the command also declares it lost. The journal then continues with the new
//! disk, and everything else follows (`succession` does so while nothing is open).
//!
//! # Removing
//! The decision in the catalog comes first. Then the disk leaves the journal, by an epoch that
//! names it as removed, and then the index and the pool. [`Membership::settle`] completes the steps
//! after a crash in between. Journal and index are copied elsewhere before blobs are: repair waits
//! for that. A removed disk that appears again is recognised by the epoch, and is left alone.
//!
//! # Taking back
//! The blobs of a removed disk are as valid as before. Its journal and index belong to a past from
//! which the others have moved on. So one batch of the catalog takes the decision back and notes
//! that the disk must be searched (`upkeep/readmit.rs`). Journal and index are then erased from
//! it, its epoch file last. Then it joins as a blank member, by an epoch that no longer names it as
//! removed. If this is interrupted after the batch, it continues when the disk is found the next
//! time. If it is interrupted before, nothing has happened.
//!
//! # Cancellation
//! Dropping a future leaves a state that a crash could have left. [`Membership::settle`] continues
//! from there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dewar_disks::pool::{
    DewarId, FolderProbe, Identity, Member, Pool, check_blank, format, inspect,
};
use dewar_disks::upkeep::Decision;
use dewar_env::{Disk, DiskState, Env};
use dewar_journal::{Journal, JournalState};
use dewar_kv::index::sorted_runs::RunIndex;
use dewar_store::Store;
use dewar_types::{DiskId, Error, ErrorKind, Layout, Result};
use futures_util::FutureExt;
use futures_util::future::select_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::disk_refusal::DiskRefusal;
use super::prepare::{check_room, settle_identity, wipe};

/// How long a change of the journal's members is waited for.
const EPOCH_PATIENCE: Duration = Duration::from_secs(15);

/// How long the copies of the journal on other disks are waited for.
const COPY_PATIENCE: Duration = Duration::from_secs(15);

/// Interval of checks while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A removal that would lose something is tried again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Time after which failed copies of the index are tried again, if no disk changes before.
const INDEX_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Whether journal or index are being moved, which goes before repairs.
#[derive(Debug, Default)]
pub(super) struct PendingMoves {
    /// Removals under way.
    leaving: AtomicUsize,
    /// The index has fewer copies than it should and could.
    index_behind: AtomicBool,
}

impl PendingMoves {
    pub(super) fn any(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) > 0 || self.index_behind.load(Ordering::Relaxed)
    }
}

/// Counts a removal as long as it is under way.
struct RemovalGuard<'a>(&'a PendingMoves);

impl<'a> RemovalGuard<'a> {
    fn begin(moves: &'a PendingMoves) -> Self {
        moves.leaving.fetch_add(1, Ordering::Relaxed);
        Self(moves)
    }
}

impl Drop for RemovalGuard<'_> {
    fn drop(&mut self) {
        self.0.leaving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The disks of an open pool; see the module.
pub struct Membership {
    env: Env,
    dewar: DewarId,
    pool: Arc<Pool>,
    journal: Journal,
    index: Arc<RunIndex>,
    store: Store,
    /// Bytes of one journal file.
    file_bytes: u64,
    /// One change at a time: the index is given whole lists.
    turn: tokio::sync::Mutex<()>,
    /// New disks and whose places they take, as their identities say.
    replacing: Mutex<BTreeMap<DiskId, DiskId>>,
    moves: Arc<PendingMoves>,
    /// Removals that would have lost something, and when they were tried.
    refused: Mutex<BTreeMap<DiskId, Instant>>,
    /// The time when copies of the index failed, and the disks that could be written then.
    index_failed: Mutex<Option<(Instant, BTreeSet<DiskId>)>>,
}

/// The parts of a membership.
pub(super) struct MembershipDeps {
    pub(super) env: Env,
    pub(super) pool: Arc<Pool>,
    pub(super) journal: Journal,
    pub(super) index: Arc<RunIndex>,
    pub(super) store: Store,
    pub(super) file_bytes: u64,
    pub(super) moves: Arc<PendingMoves>,
    pub(super) replacing: BTreeMap<DiskId, DiskId>,
}

/// The state of a folder that is to become a disk.
enum CandidateFolder {
    /// It is blank, and will be of the pool of this number.
    Blank(u16),
    /// It was formatted for this pool and is no member yet.
    Formatted(Identity),
    /// It is a disk of this pool and in use.
    Member(DiskId),
}

impl Membership {
    pub(super) fn new(parts: MembershipDeps) -> Arc<Self> {
        Arc::new(Self {
            dewar: parts.pool.dewar(),
            env: parts.env,
            pool: parts.pool,
            journal: parts.journal,
            index: parts.index,
            store: parts.store,
            file_bytes: parts.file_bytes,
            turn: tokio::sync::Mutex::default(),
            replacing: Mutex::new(parts.replacing),
            moves: parts.moves,
            refused: Mutex::default(),
            index_failed: Mutex::default(),
        })
    }

    /// Disks that were removed and are not used, unless they are taken back.
    #[must_use]
    pub fn removed(&self) -> BTreeSet<DiskId> {
        let mut removed = self.store.disks().removed();
        removed.extend(self.journal.status().removed);
        removed.retain(|id| !self.store.disks().is_returning(*id));
        removed
    }

    /// Disks of the pool that were found in no folder since the start.
    #[must_use]
    pub fn unfound(&self) -> Vec<DiskId> {
        let members = self.journal.status().members.into_iter();
        let unfound = members.filter(|id| self.pool.member(*id).is_none());
        unfound.collect()
    }

    /// Further disks that the journal needs so that it can be written after as many failures as the
    /// layout survives (docs/durability.md).
    #[must_use]
    pub fn short_of(&self) -> usize {
        let wanted = 2 * self.pool.tolerance() + 1;
        wanted.saturating_sub(self.journal.status().members.len())
    }

    /// The reason why a disk with this identity in the folder `label` is not used; `None` if it can
    /// be.
    #[must_use]
    pub fn refusal(&self, label: &str, identity: &Identity) -> Option<DiskRefusal> {
        if identity.dewar != self.dewar {
            return Some(DiskRefusal::OtherDewar(identity.dewar));
        }
        if self.pool.layout_of(identity.pool).is_none() {
            return Some(DiskRefusal::OtherPool(identity.pool));
        }
        if self.removed().contains(&identity.disk) {
            return Some(DiskRefusal::Removed);
        }
        let known = self.pool.member(identity.disk)?.disk;
        let elsewhere = known.label() != label && known.state() != DiskState::Missing;
        elsewhere.then(|| DiskRefusal::Copy(known.label().to_owned()))
    }

    /// Checks whether a folder could become a disk of `pool`, or replace the disk `replaces` in its
    /// pool if one is named. Changes nothing.
    ///
    /// # Errors
    /// As [`Membership::add_to`].
    pub async fn examine(
        &self,
        disk: &dyn Disk,
        replaces: Option<DiskId>,
        pool: Option<u16>,
    ) -> Result<()> {
        self.newcomer(disk, replaces, pool).await.map(|_| ())
    }

    /// Makes a blank folder a disk of the main pool, or of that of `replaces`; see
    /// [`Membership::add_to`].
    ///
    /// # Errors
    /// As [`Membership::add_to`].
    pub async fn add(&self, disk: &Arc<dyn Disk>, replaces: Option<DiskId>) -> Result<DiskId> {
        self.add_to(None, disk, replaces).await
    }

    /// Makes a blank folder a disk of a pool, which takes new data at once. With `replaces` it
    /// replaces that disk, in the same pool: the old disk's content is moved or rebuilt, and then
    /// the old disk is removed. A repeated call continues an earlier one. The main pool is used if
    /// no pool is named and either nothing is replaced or nothing is known about the content of the
    /// old disk.
    ///
    /// # Errors
    /// - [`ErrorKind::AlreadyExists`] for a folder that is not blank or in use.
    /// - [`ErrorKind::InvalidArgument`] for a disk of another deployment or of another pool than is
    ///   named, for a removed disk, and for a pool that is not configured.
    /// - [`ErrorKind::NoSpace`] for a folder that is too small.
    /// - [`ErrorKind::NotFound`] when the disk to be replaced is unknown.
    /// - [`ErrorKind::Unavailable`] when the folder cannot be written or too few disks answer.
    pub async fn add_to(
        &self,
        pool: Option<u16>,
        disk: &Arc<dyn Disk>,
        replaces: Option<DiskId>,
    ) -> Result<DiskId> {
        let id = self.bring_in(disk, replaces, pool).await?;
        // A dead one need not be waited for: it leaves the journal now, so that losses count afresh.
        if let Some(old) = replaces.filter(|old| self.is_dead(*old))
            && self.store.disks().decision(old) == Some(Decision::Replace)
            && let Err(error) = self.remove(old).await
        {
            tracing::info!(disk = %old, %error, "a dead disk that is replaced is not removed yet");
        }
        Ok(id)
    }

    /// Whether a disk cannot be read: it is absent, or no longer belongs to the pool.
    #[must_use]
    pub fn is_dead(&self, id: DiskId) -> bool {
        let member = self.pool.member(id);
        member.is_none_or(|member| !member.disk.state().readable())
    }

    async fn bring_in(
        &self,
        disk: &Arc<dyn Disk>,
        replaces: Option<DiskId>,
        pool: Option<u16>,
    ) -> Result<DiskId> {
        let _turn = self.turn.lock().await;
        let id = match self.newcomer(&**disk, replaces, pool).await? {
            CandidateFolder::Blank(pool) => {
                let dewar = self.dewar;
                let identity = format(&self.env, &**disk, dewar, pool, replaces).await?;
                self.take_in(disk, &identity).await?;
                identity.disk
            }
            CandidateFolder::Formatted(identity) => {
                self.take_in(disk, &identity).await?;
                identity.disk
            }
            CandidateFolder::Member(id) => id,
        };
        if let Some(old) = replaces.filter(|old| self.is_dead(*old))
            && self.journal.declare_lost(old)?
        {
            // Nothing can be noted before.
            self.journal.joined(id, EPOCH_PATIENCE).await?;
        }
        if let Some(old) = replaces {
            self.store.disks().replace(old, id).await?;
            self.replacing.lock().remove(&id);
            // It was taken back, and is wanted again.
            if matches!(
                self.store.disks().decision(old),
                None | Some(Decision::Drain)
            ) {
                let again = Some(Decision::Replace);
                self.store.decide_about(old, again, true).await?;
            }
        }
        self.journal.joined(id, EPOCH_PATIENCE).await?;
        self.store.refresh_space().await;
        Ok(id)
    }

    async fn newcomer(
        &self,
        disk: &dyn Disk,
        replaces: Option<DiskId>,
        wanted: Option<u16>,
    ) -> Result<CandidateFolder> {
        let label = disk.label();
        let mut known = None;
        if let Some(old) = replaces {
            self.check_replaced(old).await?;
            known = self.store.disks().pool_of_disk(old).await?;
        }
        if let (Some(wanted), Some(known), Some(old)) = (wanted, known, replaces)
            && wanted != known
        {
            let message = format!("disk {old} is of pool {known}, not of pool {wanted}");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let pool = known.or(wanted);
        if let Some(number) = pool
            && self.pool.layout_of(number).is_none()
        {
            let message = format!("pool {number} is not in the configuration");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        match inspect(disk).await? {
            FolderProbe::Absent(error) => Err(error),
            FolderProbe::Blank => {
                check_room(disk, self.file_bytes).await?;
                // Formatting asks again.
                check_blank(disk).await?;
                Ok(CandidateFolder::Blank(pool.unwrap_or(self.pool.number())))
            }
            FolderProbe::Disk(identity) => {
                if let Some(refusal) = self.refusal(label, &identity) {
                    return Err(refusal.error(label, self.dewar));
                }
                let id = identity.disk;
                if let Some(pool) = pool.filter(|pool| *pool != identity.pool) {
                    let message = format!(
                        "{label} is a disk of pool {} and cannot become one of pool {pool}",
                        identity.pool
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                let member = self.pool.member(id).is_some();
                let wanted = replaces.is_some_and(|old| identity.replaces == Some(old) || member);
                if replaces == Some(id) {
                    let message = format!("{label} is the disk that is to be replaced itself");
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                if let Some(old) = replaces
                    && member
                    && identity.replaces != Some(old)
                {
                    self.check_spare(old, id)?;
                }
                match (member, wanted) {
                    (true, true) => Ok(CandidateFolder::Member(id)),
                    (true, false) => Err(Error::new(
                        ErrorKind::AlreadyExists,
                        format!("{id} is a disk of this pool already"),
                    )),
                    (false, _) => Ok(CandidateFolder::Formatted(identity)),
                }
            }
        }
    }

    /// Refuses a disk that is in use as a replacement for another if no disk is spare. The other
    /// disk's data would then be rewritten in a narrower layout.
    fn check_spare(&self, old: DiskId, id: DiskId) -> Result<()> {
        let pool = self.pool.member(id).map(|member| member.pool);
        let pool = pool.unwrap_or(self.pool.number());
        let (now, then) = self.store.disks().layouts_without(pool, old);
        let width = |layout: Option<Layout>| layout.map_or(0, |layout| layout.k);
        if width(then) >= width(now) {
            return Ok(());
        }
        let message = format!(
            "{id} is a disk of this pool already, and without {old} none is spare to take what is on it: \
             name a new folder"
        );
        Err(Error::new(ErrorKind::AlreadyExists, message))
    }

    async fn check_replaced(&self, old: DiskId) -> Result<()> {
        if self.pool.member(old).is_some()
            || self.journal.status().members.contains(&old)
            || self.removed().contains(&old)
        {
            return Ok(());
        }
        let lines = self.store.disks().disk_lines().await?;
        if lines.iter().any(|line| line.disk == old) {
            return Ok(());
        }
        let message = format!("no folder and no record knows a disk {old}");
        Err(Error::new(ErrorKind::NotFound, message))
    }

    /// Lets a disk join that was found in a folder.
    pub(super) async fn join(&self, disk: &Arc<dyn Disk>, identity: &Identity) -> Result<()> {
        if let Some(refusal) = self.refusal(disk.label(), identity) {
            return Err(refusal.error(disk.label(), self.dewar));
        }
        let _turn = self.turn.lock().await;
        // By command it may have joined meanwhile.
        if self.uses(disk.label(), identity) {
            return Ok(());
        }
        self.take_in(disk, identity).await
    }

    /// Whether the disk in the folder `label` is in use.
    pub(super) fn uses(&self, label: &str, identity: &Identity) -> bool {
        let member = self.pool.member(identity.disk);
        member.is_some_and(|member| {
            member.disk.label() == label && member.disk.state() != DiskState::Missing
        })
    }

    /// Takes a removed disk back. Its shards are used at once where the pool lacks them. Journal
    /// and index begin anew on it. A repeated call continues an earlier one.
    ///
    /// # Errors
    /// - [`ErrorKind::InvalidArgument`] for a disk of another deployment or pool, and for one that
    ///   was never removed.
    /// - [`ErrorKind::AlreadyExists`] when it is in use, here or in another folder.
    /// - [`ErrorKind::NotFound`] for a folder without a disk.
    /// - [`ErrorKind::Unavailable`] when it cannot be read and written or too few disks answer.
    pub async fn readmit(&self, disk: &Arc<dyn Disk>) -> Result<DiskId> {
        let _turn = self.turn.lock().await;
        let label = disk.label();
        let identity = match inspect(&**disk).await? {
            FolderProbe::Disk(identity) => identity,
            FolderProbe::Absent(error) => return Err(error),
            FolderProbe::Blank => {
                let message = format!(
                    "{label} holds no disk: is it mounted? To make it a new disk: `dewar disk add {label}`"
                );
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        };
        let id = identity.disk;
        match self.refusal(label, &identity) {
            None | Some(DiskRefusal::Removed) => {}
            Some(other) => return Err(other.error(label, self.dewar)),
        }
        if self.removed().contains(&id) {
            if !disk.state().writable() {
                let message = format!(
                    "{label} cannot be written: copy it to another device as a whole (`cp -a`), and take                      the copy back"
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            // A removal that was decided and not carried out yet ends first.
            if !self.journal.status().removed.contains(&id) {
                self.leave(id).await?;
            }
            self.store.disks().take_back(id).await?;
        } else if !self.store.disks().is_returning(id) {
            let (kind, message) = match self.pool.member(id) {
                Some(_) => (
                    ErrorKind::AlreadyExists,
                    "is in use: nothing is to be taken back",
                ),
                None => (
                    ErrorKind::InvalidArgument,
                    "was never removed from this pool",
                ),
            };
            return Err(Error::new(kind, format!("{label} {message}")));
        }
        if !self.uses(label, &identity) {
            self.take_in(disk, &identity).await?;
        }
        self.journal.joined(id, EPOCH_PATIENCE).await?;
        self.store.refresh_space().await;
        Ok(id)
    }

    /// Adds a disk that was removed before, without its journal and index.
    async fn take_in_again(&self, disk: &Arc<dyn Disk>, identity: &Identity) -> Result<()> {
        let id = identity.disk;
        if self.journal.is_returning(id) {
            // It is blank, and may have an epoch file by now that counts.
            self.journal.attach(id, Arc::clone(disk)).await?;
        } else {
            wipe(&**disk).await?;
            settle_identity(&**disk, identity).await?;
            self.journal.readmit(id, Arc::clone(disk)).await?;
        }
        // What is in use and looked through is no removed disk any more, also after a crash.
        self.journal.joined(id, EPOCH_PATIENCE).await?;
        let disk_now = Arc::clone(disk);
        let pool = identity.pool;
        let disk_now = Member {
            id,
            disk: disk_now,
            pool,
        };
        self.pool.join(disk_now)?;
        tracing::info!(disk = disk.label(), id = %identity.disk, "a removed disk is taken back");
        self.tell_index().await;
        Ok(())
    }

    async fn take_in(&self, disk: &Arc<dyn Disk>, identity: &Identity) -> Result<()> {
        let removed = || self.journal.status().removed.contains(&identity.disk);
        if self.store.disks().is_returning(identity.disk) && removed() {
            return self.take_in_again(disk, identity).await;
        }
        settle_identity(&**disk, identity).await?;
        // The state that the folder is known by may be older than the look.
        self.journal.check(identity.disk, &**disk).await?;
        self.pool.join(Member {
            id: identity.disk,
            disk: Arc::clone(disk),
            pool: identity.pool,
        })?;
        if let Some(old) = identity.replaces {
            self.replacing.lock().insert(identity.disk, old);
        }
        self.journal.attach(identity.disk, Arc::clone(disk)).await?;
        tracing::info!(disk = disk.label(), id = %identity.disk, "a disk joins");
        dewar_env::coverage_mark("a disk joined while running");
        self.tell_index().await;
        Ok(())
    }

    /// Removes a disk for good. Its data is rebuilt, and it is never used again. A repeated call
    /// continues an earlier one.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when data would be lost, with its description, or too few disks
    /// would remain; [`ErrorKind::NotFound`] for an unknown disk; [`ErrorKind::Unavailable`] when
    /// too few disks answer now: the decision is recorded then, and the removal continues by
    /// itself.
    pub async fn remove(&self, id: DiskId) -> Result<()> {
        let _turn = self.turn.lock().await;
        let members = self.journal.status().members;
        let stays = |other: &&DiskId| {
            **other != id && self.store.disks().decision(**other) != Some(Decision::Remove)
        };
        let remain = members.iter().filter(stays).count();
        let writable = self.pool.writable().filter(|member| stays(&&member.id));
        let (writable, needed) = (writable.count(), self.pool.tolerance() + 1);
        let known =
            members.contains(&id) && self.store.disks().decision(id) != Some(Decision::Remove);
        if known && (remain < needed || writable < needed) {
            let layouts = self.pool.layouts().map(|(_, layout)| layout);
            let widest = layouts.max_by_key(|layout| layout.m);
            let message = format!(
                "without disk {id} {remain} disks would remain, of which {writable} can be written; a \
                 pool of {} needs {needed}: add a disk first",
                widest.unwrap_or(self.pool.layout())
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if known {
            self.check_pool_without(id).await?;
        }
        let _leaving = RemovalGuard::begin(&self.moves);
        let was = members.contains(&id) || self.removed().contains(&id);
        let decision = Some(Decision::Remove);
        self.store.decide_about(id, decision, was).await?;
        self.leave(id).await
    }

    /// Refuses to remove a disk from a pool that could not be written to without it.
    async fn check_pool_without(&self, id: DiskId) -> Result<()> {
        let several = self.pool.layouts().count() > 1;
        let Some(pool) = (match several {
            true => self.store.disks().pool_of_disk(id).await?,
            false => None,
        }) else {
            return Ok(());
        };
        let Some(layout) = self.pool.layout_of(pool) else {
            return Ok(());
        };
        let stays = |member: &Member| {
            member.id != id
                && member.pool == pool
                && self.store.disks().decision(member.id) != Some(Decision::Remove)
        };
        let (left, needed) = (
            self.pool.writable().filter(stays).count(),
            usize::from(layout.m) + 1,
        );
        if left >= needed {
            return Ok(());
        }
        let message = format!(
            "without disk {id} {left} disks of its pool would remain that can be written; one of {layout} \
             needs {needed}: add a disk to it first"
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Lets a disk go that is decided to be removed.
    async fn leave(&self, id: DiskId) -> Result<()> {
        let _leaving = RemovalGuard::begin(&self.moves);
        self.journal.remove(id, EPOCH_PATIENCE).await?;
        let was_there = self.pool.member(id);
        self.pool.leave(id);
        self.tell_index().await;
        let began = Instant::now();
        while self.journal_moves() && began.elapsed() < COPY_PATIENCE {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if let Some(member) = was_there {
            tracing::info!(disk = member.disk.label(), %id, "a disk was removed");
        }
        Ok(())
    }

    /// Whether the journal is being copied to the disks that should have it.
    fn journal_moves(&self) -> bool {
        let status = self.journal.status();
        let wanted = self.pool.tolerance() + 2;
        let could = self.pool.writable().count().min(wanted);
        status.state == JournalState::Changing
            || status.files_to_copy > 0
            || (status.state == JournalState::Running && status.holders.len() < could)
    }

    /// Continues changes that a crash interrupted, and removes disks that were replaced and are
    /// empty. Called every few seconds while the store is open.
    ///
    /// # Errors
    /// The first failed step; it is tried again.
    pub async fn settle(&self) -> Result<()> {
        let replacing: Vec<_> = self.replacing.lock().clone().into_iter().collect();
        for (new, old) in replacing {
            // Whoever gives the command does the same.
            let _turn = self.turn.lock().await;
            self.store.disks().replace(old, new).await?;
            self.replacing.lock().remove(&new);
        }
        self.settle_lost().await?;
        let removed = self.journal.status().removed;
        for id in self.store.disks().removed() {
            if !removed.contains(&id) || self.pool.member(id).is_some() {
                let _turn = self.turn.lock().await;
                self.leave(id).await?;
            }
        }
        self.refused
            .lock()
            .retain(|_, since| since.elapsed() < RETRY_AFTER);
        for id in self.removable().await? {
            if self.refused.lock().contains_key(&id) {
                continue;
            }
            match self.remove(id).await {
                Ok(()) => {
                    tracing::info!(disk = %id, "a disk has been replaced and can be taken away")
                }
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    tracing::info!(disk = %id, %error, "a disk that is replaced cannot be removed yet");
                    self.refused.lock().insert(id, Instant::now());
                }
                Err(error) => return Err(error),
            }
        }
        self.settle_index().await;
        Ok(())
    }

    /// Replaced disks without a shard that the catalog names. There are none while it is not settled
    /// whether other blobs exist: a catalog that was restored knows only a part of what is on a disk.
    async fn removable(&self) -> Result<Vec<DiskId>> {
        let disks = self.store.disks();
        let removable = disks.removable();
        match removable.is_empty() || disks.rebuilt().await?.is_none() {
            true => Ok(removable),
            false => Ok(Vec::new()),
        }
    }

    /// Removes disks that were given up with a loss from the catalog too. Nothing is expected on
    /// them any more. Their data is rebuilt and gets layouts without them.
    async fn settle_lost(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        let known = self.store.disks().removed();
        for id in self.journal.status().removed {
            if !known.contains(&id) && !self.store.disks().is_returning(id) {
                tracing::info!(disk = %id, "a disk that was given up with a loss counts as removed");
                self.store.disks().note_removed(id).await?;
            }
        }
        Ok(())
    }

    /// Replaces an index copy on an absent disk immediately, as the journal does. Until then the
    /// catalog survives one failure less.
    async fn settle_index(&self) {
        // What somebody removed is no copy.
        self.index.look().await;
        let writable: BTreeSet<DiskId> = self.pool.writable().map(|member| member.id).collect();
        let holders = self.index.holders();
        let sound = holders.iter().filter(|id| writable.contains(id));
        let sound = sound.count().min(self.index.copies());
        let behind = sound < self.index.copies_wanted().min(writable.len());
        self.moves.index_behind.store(behind, Ordering::Relaxed);
        if !behind {
            *self.index_failed.lock() = None;
            return;
        }
        let in_vain = |(at, disks): &(Instant, BTreeSet<DiskId>)| {
            at.elapsed() < INDEX_RETRY_AFTER && *disks == writable
        };
        if self.index_failed.lock().as_ref().is_some_and(in_vain) {
            return;
        }
        let _turn = self.turn.lock().await;
        let told = self.tell_index().await;
        *self.index_failed.lock() = (!told).then(|| (Instant::now(), writable));
        self.moves.index_behind.store(!told, Ordering::Relaxed);
    }

    /// Reads all copies of the index and of the journal's complete files, and mends damaged copies
    /// from good ones. Returns the number of damaged pieces of the index and files of the journal.
    ///
    /// # Errors
    /// When a piece is damaged in every copy, or a copy of the index cannot be read. All other
    /// pieces were read and are mended.
    pub async fn verify_catalog(&self) -> Result<u64> {
        let pieces = self.index.verify().await;
        let files = self.journal.verify().await?;
        Ok(pieces? + files)
    }

    /// Looks again for pieces of the index that no disk had right.
    pub(super) async fn retry_lost(&self) {
        self.index.retry_lost().await;
    }

    /// Returns when the state of a disk has changed since it was called.
    pub(super) fn disks_changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let watched = self.pool.members().map(|member| {
            let mut state = member.disk.watch();
            // An error means that the disk is gone, which is a change.
            async move { drop(state.changed().await) }.boxed()
        });
        let watched: Vec<_> = watched.collect();
        async move {
            match watched.is_empty() {
                true => std::future::pending().await,
                false => drop(select_all(watched).await),
            }
        }
    }

    /// Passes the present disks to the index, with those that stay first. Returns whether it has
    /// all its copies.
    async fn tell_index(&self) -> bool {
        let leaves = |member: &Member| self.store.disks().decision(member.id).is_some();
        let (leave, mut all): (Vec<Member>, Vec<Member>) = self.pool.members().partition(leaves);
        all.extend(leave);
        // One that is to leave holds what it holds until it has left: its copies may be the only ones.
        let left = self.journal.status().removed;
        all.retain(|member| !left.contains(&member.id));
        let all = all.into_iter().map(|member| (member.id, member.disk));
        match self.index.set_disks(all.collect()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "the catalog index has fewer copies than it should");
                false
            }
        }
    }
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").finish_non_exhaustive()
    }
}
