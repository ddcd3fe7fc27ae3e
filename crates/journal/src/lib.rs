//! The replicated, group-committed log below catalog and blobs (RECORDS.md section 5).
//!
//! # Purpose
//! A record is a catalog batch, and the bytes of a small object. It is durable when m+1 disks have
//! it, so losing any m disks loses none. Many writers share one sync per disk.
//!
//! # Protocol
//! - [`Journal::admit`] reserves space, [`Journal::append`] gives a sequence number and a place in
//!   the log, [`Journal::durable`] waits for m+1 disks. The order of calls to `append` is the order
//!   of the log, and records become durable in that order.
//! - A [`RetentionPin`] protects the records that a user still needs; files below all pins are
//!   reused.
//! - [`epoch`] decides which disks take part; [`open`] makes a log of the files on them;
//!   [`membership`] reacts when a disk fails meanwhile. docs/formats/journal.md describes the
//!   bytes.
//!
//! # Crash cases
//! After a crash, the chain of intact records of the newest epoch is the log. It holds all
//! acknowledged records. Other records are there completely or not at all, and never after a gap.
//!
//! # Cancellation
//! Dropping any future of this crate is harmless; an appended record may become durable anyway.

mod backfill;
mod buffer;
mod checksum;
mod config;
mod copies;
mod epoch;
mod error;
mod file_inventory;
mod format;
mod fuzz;
mod leftovers;
mod log;
mod log_reader;
mod membership;
mod open;
mod recovery;
mod recovery_scan;
mod replica;
mod retention_pin;
mod status;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{Disk, DiskErrorKind, Env};
use dewar_types::{DiskId, Error, ErrorKind};

pub use config::JournalConfig;
pub use epoch::EpochId;
pub use error::OpenError;
pub use fuzz::{fuzz_epoch, fuzz_journal_file};
pub use log::{Counters, LogReserve, Permit};
pub use open::AcceptedLoss;
pub use recovery::Recovery;
pub use recovery_scan::QuorumShortage;
pub use retention_pin::RetentionPin;
pub use status::{JournalState, Status};

use log::SharedLog;
use membership::BackgroundTasks;

/// The place of a record in the log; the first is 1.
pub type Seq = u64;

/// An open journal; clones are the same one. When the last one is dropped, work under way still
/// finishes, but nothing new is begun: see [`Journal::close`].
#[derive(Clone)]
pub struct Journal {
    shared: Arc<SharedLog>,
    tasks: Arc<BackgroundTasks>,
}

impl Journal {
    fn new(shared: Arc<SharedLog>, tasks: Arc<BackgroundTasks>) -> Self {
        Self { shared, tasks }
    }

    /// Makes an empty journal on all of these disks. Only a command to format does this.
    ///
    /// # Errors
    /// [`OpenError::Formatted`] if one of them has a journal; an error if not all can be written.
    pub async fn create(
        env: &Env,
        disks: &[(DiskId, Arc<dyn Disk>)],
        config: &JournalConfig,
    ) -> Result<(), OpenError> {
        open::create(env, disks, config).await
    }

    /// Makes an empty journal that begins after record `floor` on all of these disks. Earlier
    /// journals on them are given up, and their absent disks are never merged. Only a command that
    /// makes a catalog from another source does this. Take a `floor` from [`Journal::beyond`].
    /// Otherwise records on absent disks may have numbers that are given again.
    ///
    /// # Errors
    /// If too few of them can be written.
    pub async fn found(
        env: &Env,
        disks: &[(DiskId, Arc<dyn Disk>)],
        config: &JournalConfig,
        floor: Seq,
    ) -> Result<(), OpenError> {
        open::found(env, disks, config, floor).await
    }

    /// A sequence number above every record of any journal on these disks, with a gap for records
    /// on absent disks.
    ///
    /// # Errors
    /// If a file was written by a later version of Dewar.
    pub async fn beyond(disks: &[(DiskId, Arc<dyn Disk>)], known: Seq) -> Result<Seq, Error> {
        let mark = recovery_scan::high_mark(disks).await?;
        Ok(mark.max(known) + open::GAP)
    }

    /// Opens the journal on these disks, which are all present ones: members of its newest epoch
    /// and new ones. Must be called on a tokio runtime, which runs the journal's tasks.
    ///
    /// # Errors
    /// See [`OpenError`]; then nothing has changed except the number of the next epoch.
    pub async fn open(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: JournalConfig,
    ) -> Result<(Self, Recovery), OpenError> {
        open::open(env, disks, config).await
    }

    /// The loss that an opening would have to accept; `None` when the journal opens without loss.
    /// Changes nothing.
    ///
    /// # Errors
    /// See [`OpenError`]: errors that also prevent an opening with a loss.
    pub async fn loss(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: JournalConfig,
    ) -> Result<Option<AcceptedLoss>, OpenError> {
        open::loss(env, disks, config).await
    }

    /// The shortage that prevents writing to this journal, unless members are declared lost
    /// ([`JournalConfig::lost`]); `None` when enough members are present. Changes nothing.
    ///
    /// # Errors
    /// See [`OpenError`]: errors that also prevent an opening with members declared lost.
    pub async fn shortage(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: JournalConfig,
    ) -> Result<Option<QuorumShortage>, OpenError> {
        open::shortage(env, disks, config).await
    }

    /// Waits until there is space for a record with a body of up to `bytes`.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::TooLarge`] if it can never fit,
    /// [`dewar_types::ErrorKind::Unavailable`] while too few disks can be written.
    pub async fn admit(&self, bytes: usize, room: LogReserve) -> Result<Permit, Error> {
        self.shared.admit(bytes, room).await
    }

    /// Appends a record, given in pieces, to the log. Cheap and synchronous.
    ///
    /// # Errors
    /// If it is longer than was admitted or the journal is closed; nothing was appended then.
    pub fn append(&self, permit: Permit, body: &[Bytes]) -> Result<Seq, Error> {
        self.shared.append(permit, body)
    }

    /// Returns when the record and all before it are durable on m+1 disks.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unavailable`] if too many disks stayed absent for
    /// [`JournalConfig::stall_max`]; the record may still become durable later.
    pub async fn durable(&self, seq: Seq) -> Result<(), Error> {
        self.shared.durable(seq).await
    }

    /// The last durable record.
    #[must_use]
    pub fn durable_seq(&self) -> Seq {
        self.shared.acked()
    }

    /// The last appended record.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.shared.state.lock().last()
    }

    /// Keeps the records after `seq` until the hold is advanced or released.
    #[must_use]
    pub fn hold(&self, name: &str, seq: Seq) -> RetentionPin {
        RetentionPin::new(Arc::clone(&self.shared), name, seq)
    }

    /// The part of the log that a hold after `seq` keeps, in thousandths of the space for ordinary
    /// records. If the disks have no space for more files, it is in thousandths of the existing
    /// files. A hold of a large part keeps others from writing. The bytes of the records alone are
    /// not enough to compute it, since each group takes whole blocks.
    #[must_use]
    pub fn share_after(&self, seq: Seq) -> usize {
        self.shared.share_after(seq)
    }

    /// Reads all acknowledged records from all holders and repairs damaged files. Returns the
    /// number of damaged copies of files. Call it once a day, since the last verification at an
    /// opening may be long ago.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when a file could not be repaired: the log names it and the cause.
    pub async fn verify(&self) -> Result<u64, Error> {
        let found = verify::verify(&self.shared, &self.tasks.verifying).await;
        match found.left {
            0 => Ok(found.bad),
            left => {
                let message = format!("{left} journal files are damaged and could not be mended");
                Err(Error::new(ErrorKind::Corrupt, message))
            }
        }
    }

    /// The status of the journal.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Refuses a disk that was removed, or belongs to a lineage that was given up.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for such a disk.
    pub async fn check(&self, id: DiskId, disk: &dyn Disk) -> Result<(), Error> {
        let lineage = self.shared.state.lock().epoch.lineage;
        if recovery_scan::is_given_up(disk, lineage).await {
            let mut state = self.shared.state.lock();
            // A member was there when the loss was accepted. Whoever asks is told from now on.
            if !state.epoch.members.contains(&id) {
                state.given_up.insert(id);
            }
        }
        if self.shared.state.lock().is_removed(id) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("disk {id} was removed from the journal"),
            ));
        }
        Ok(())
    }

    /// Adds a disk that was not present when the journal was opened. It is either a returned
    /// member, or a new disk, which becomes a member by a new epoch.
    ///
    /// # Errors
    /// As [`Journal::check`].
    pub async fn attach(&self, id: DiskId, disk: Arc<dyn Disk>) -> Result<(), Error> {
        self.check(id, &*disk).await?;
        let member = {
            let mut state = self.shared.state.lock();
            let known = state.members.iter().find(|known| known.id == id);
            let member = match known {
                Some(known) => known.succeed(disk),
                None => epoch::JournalMember::new(id, disk),
            };
            state.members.retain(|known| known.id != id);
            state.members.push(Arc::clone(&member));
            member
        };
        self.tasks.watch(&self.shared, &member);
        self.shared.attention.notify_one();
        Ok(())
    }

    /// Makes a removed disk a member again, as a new one. It joins by a new epoch, which does not
    /// list it as removed any more. No file of a journal may be on the disk, so that old copies
    /// never count.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it has an epoch file, [`ErrorKind::Unavailable`] when
    /// this cannot be determined.
    pub async fn readmit(&self, id: DiskId, disk: Arc<dyn Disk>) -> Result<(), Error> {
        match disk.read_file(epoch::EPOCH_PATH).await {
            Err(error) if error.kind() == DiskErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                let message = format!("disk {id} still has a word of the journal that it left");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        {
            let mut state = self.shared.state.lock();
            state.given_up.remove(&id);
            if state.epoch.removed.contains(&id) {
                state.returning.insert(id);
            }
        }
        dewar_env::coverage_mark("a removed disk was taken back by the journal");
        self.attach(id, disk).await
    }

    /// Whether a disk was readmitted but is no member yet.
    #[must_use]
    pub fn is_returning(&self, id: DiskId) -> bool {
        self.shared.state.lock().returning.contains(&id)
    }

    /// Removes a disk permanently. It leaves by a new epoch as soon as the log is complete on m+1
    /// others, so that later losses are counted from zero. Returns when that epoch is in force. A
    /// removed disk takes part again only after [`Journal::readmit`]. Call it again after a
    /// restart.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when fewer than m+1 members would remain;
    /// [`ErrorKind::Unavailable`] when it did not happen within `patience`; the removal continues
    /// nevertheless.
    pub async fn remove(&self, id: DiskId, patience: Duration) -> Result<(), Error> {
        let removed = |state: &log::LogState| state.epoch.removed.contains(&id);
        {
            let mut state = self.shared.state.lock();
            if removed(&state) {
                return Ok(());
            }
            let stay = |other: &&DiskId| **other != id && !state.leaving.contains(other);
            let remain = state.epoch.members.iter().filter(stay).count();
            if remain < state.quorum {
                let message = format!(
                    "{remain} disks would remain for the journal and {} are needed: add a disk first",
                    state.quorum
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            state.leaving.insert(id);
        }
        self.shared.attention.notify_one();
        let left = async {
            loop {
                let changed = self.shared.room.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if removed(&self.shared.state.lock()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(patience, left).await.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "disk {id} has not left the journal yet: the log is being copied elsewhere"
                ),
            )
        })
    }

    /// Declares an absent member permanently lost, in the case that no epoch can begin otherwise
    /// because too few members are left to write its record to. The member leaves with the next
    /// epoch, as with [`Journal::remove`], and that epoch needs fewer of the others ([`epoch`]).
    /// Returns whether this was the case. If enough members are left, nothing happens. Call it
    /// again after a restart.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a disk that can be read.
    pub fn declare_lost(&self, id: DiskId) -> Result<bool, Error> {
        {
            let mut state = self.shared.state.lock();
            let able = epoch::able(&state.members);
            let left = epoch::count(&state.epoch.members, &able);
            if left > state.epoch.m as usize || !state.epoch.members.contains(&id) {
                return Ok(false);
            }
            let here = |member: &Arc<epoch::JournalMember>| {
                member.id == id && member.disk.state().readable()
            };
            if state.members.iter().any(here) {
                let message = format!("disk {id} is there and cannot be declared lost");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            state.leaving.insert(id);
            state.lost.insert(id);
        }
        dewar_env::coverage_mark("a member was declared lost");
        tracing::warn!(disk = %id, "the journal goes on without a disk that was declared lost");
        self.shared.attention.notify_one();
        Ok(true)
    }

    /// Waits until a disk that was brought in is a member.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when it is no member within `patience`; the joining continues
    /// nevertheless.
    pub async fn joined(&self, id: DiskId, patience: Duration) -> Result<(), Error> {
        let joined = async {
            loop {
                let changed = self.shared.room.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.shared.state.lock().epoch.members.contains(&id) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(patience, joined).await.map_err(|_| {
            let why = match self.status().state {
                JournalState::Stalled(why) => why,
                _ => "too few disks answer".to_owned(),
            };
            Error::new(
                ErrorKind::Unavailable,
                format!("disk {id} is no member of the journal yet: {why}"),
            )
        })
    }

    /// Ends the journal cleanly: waits up to `patience` for appended records, records the positions
    /// of holds, and refuses everything from then on.
    ///
    /// # Errors
    /// If an appended record did not become durable in time.
    pub async fn close(&self, patience: Duration) -> Result<(), Error> {
        membership::close(&self.shared, &self.tasks, patience).await
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("durable", &self.durable_seq())
            .finish_non_exhaustive()
    }
}
