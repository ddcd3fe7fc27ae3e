//! Settings and limits of the journal.

use std::time::Duration;

use dewar_types::{DiskId, Error, ErrorKind};

use crate::format::{BLOCK_BYTES, framed_bytes};

/// Settings and limits of a journal. [`JournalConfig::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// How many disks may be lost: the largest m of any local pool.
    pub m: usize,
    /// Bytes of one file; a multiple of 4096, at least 64 KiB. The largest record must fit.
    pub file_bytes: u64,
    /// Maximum number of files in use per holder; at least [`JournalConfig::FILES_LEAST`]. Two of
    /// them are reserved from [`crate::LogReserve::Ordinary`], one of these for
    /// [`crate::LogReserve::Last`].
    pub files_max: usize,
    /// Bytes that may wait for their acknowledgement; further appends wait in `admit`.
    pub unacked_bytes_max: usize,
    /// Groups under way at once if syncs are slow.
    pub groups_in_flight_max: usize,
    /// Time after which a further group is started while one is under way.
    pub group_spacing: Duration,
    /// Bytes by which a holder may lag before it is dropped.
    pub lag_bytes_max: usize,
    /// Time by which a holder may lag before it is dropped.
    pub lag_max: Duration,
    /// Time that an append waits for disks to come back, or for space in a full journal, before it
    /// fails.
    pub stall_max: Duration,
    /// Members that an administrator declares permanently lost. They leave with the epoch that the
    /// opening begins. That epoch then needs to be written to fewer of the other members, and the
    /// opening rule counts the lost ones as absent. Disks that are no members any more are ignored.
    pub lost: Vec<DiskId>,
    /// Open although more than m members of the newest epoch are absent, in a new lineage
    /// (`dewar serve --accept-loss`). Acknowledged records may be lost by it.
    pub accept_loss: bool,
    /// Only read: no epoch is started and appends fail.
    pub read_only: bool,
}

impl JournalConfig {
    /// The fewest files that a journal can do with.
    pub const FILES_LEAST: usize = 6;

    /// Defaults for pools that survive the loss of `m` disks.
    #[must_use]
    pub fn new(m: usize) -> Self {
        Self {
            m,
            file_bytes: 32 << 20,
            files_max: 32,
            unacked_bytes_max: 32 << 20,
            groups_in_flight_max: 4,
            group_spacing: Duration::from_millis(1),
            lag_bytes_max: 64 << 20,
            lag_max: Duration::from_secs(2),
            stall_max: Duration::from_secs(10),
            lost: Vec::new(),
            accept_loss: false,
            read_only: false,
        }
    }

    /// The longest record body in bytes that fits a file.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        let room = self.file_bytes - BLOCK_BYTES;
        usize::try_from(room).unwrap_or(usize::MAX) - framed_bytes(0)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = if self.file_bytes < 64 << 10 || !self.file_bytes.is_multiple_of(BLOCK_BYTES) {
            "file_bytes must be a multiple of 4096 and at least 65536"
        } else if self.file_bytes > 1 << 30 {
            "file_bytes must be at most 1 GiB"
        } else if self.files_max < Self::FILES_LEAST {
            "files_max must be at least 6"
        } else if self.groups_in_flight_max == 0 {
            "groups_in_flight_max must not be 0"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("journal: {wrong}"),
        ))
    }
}
