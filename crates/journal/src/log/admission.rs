//! Back-pressure: an append needs a permit, and permits are bounded by memory and by files.

use std::sync::Arc;

use dewar_types::{Error, ErrorKind};

use super::{LogPhase, LogState, SharedLog};
use crate::Seq;
use crate::format::{BLOCK_BYTES, framed_bytes};

/// Files kept from [`LogReserve::Ordinary`].
const RESERVE_FILES: usize = 2;

/// Files of those that are kept from [`LogReserve::Reserve`] too.
const LAST_FILES: usize = 1;

/// The part of the log that a record may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReserve {
    /// Waits while the log is nearly full.
    Ordinary,
    /// May use one more file: for records that finally lead to others being freed.
    Reserve,
    /// May also use the last file: for the few records that let the log itself be freed. Other
    /// records must not use it, or the log would stay full for ever.
    Last,
}

/// The right to append a record of up to this many bytes. Dropping it releases the space.
pub struct Permit {
    shared: Arc<SharedLog>,
    bytes: usize,
}

impl Permit {
    /// Takes the reservation out of the permit.
    pub(super) fn spend(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }

    /// The longest body it allows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Permit({})", self.bytes)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.shared.state.lock().reserved -= self.bytes;
            self.shared.room.notify_waiters();
        }
    }
}

impl LogState {
    /// Whether too many holders have no room for a further file, and older ones are in use.
    pub(crate) fn is_cramped(&self) -> bool {
        let current = self.current_file();
        let roomy = self.lanes.iter().filter(|lane| !lane.lacks_room(current));
        self.files.len() > 1 && roomy.count() < self.quorum
    }
}

impl SharedLog {
    /// Waits for room for a record with a body of `body` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if it fits no file, [`ErrorKind::Unavailable`] if the journal
    /// cannot be written at present, [`ErrorKind::Busy`] if there was no room for as long as the
    /// configuration lets records wait: what empties the journal may itself wait for those who
    /// wait here. Only [`LogReserve::Last`] waits without end.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        body: usize,
        room: LogReserve,
    ) -> Result<Permit, Error> {
        if body > self.config.record_bytes_max() {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a journal record of {body} bytes; at most {} fit",
                    self.config.record_bytes_max()
                ),
            ));
        }
        let bytes = framed_bytes(body);
        if let Some(permit) = self.try_admit(bytes, room)? {
            return Ok(permit);
        }
        let admitted = self.admitted(bytes, room);
        if room == LogReserve::Last {
            return admitted.await;
        }
        let patience = self.config.stall_max;
        match tokio::time::timeout(patience, admitted).await {
            Ok(admitted) => admitted,
            Err(_) => {
                let state = self.state.lock();
                if state.stalled_since.is_some() {
                    return Err(state.refusal());
                }
                drop(state);
                dewar_env::coverage_mark("a record found no room in the journal");
                Err(Error::new(
                    ErrorKind::Busy(patience),
                    format!(
                        "the journal has been full for {} ms: what is in it cannot be put in its \
                         place",
                        patience.as_millis()
                    ),
                ))
            }
        }
    }

    async fn admitted(self: &Arc<Self>, bytes: usize, room: LogReserve) -> Result<Permit, Error> {
        loop {
            let freed = self.room.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(permit) = self.try_admit(bytes, room)? {
                return Ok(permit);
            }
            freed.await;
        }
    }

    fn try_admit(
        self: &Arc<Self>,
        bytes: usize,
        room: LogReserve,
    ) -> Result<Option<Permit>, Error> {
        let mut state = self.state.lock();
        let now = self.env.clock.elapsed();
        let stalled = state
            .stalled_since
            .map(|since| now.saturating_sub(since) >= self.config.stall_max);
        match (&state.phase, stalled) {
            (LogPhase::Running | LogPhase::Changing | LogPhase::Opening, None) => {}
            // Holders are looked for: not every loss of a disk is to be felt.
            (LogPhase::Stalled { .. } | LogPhase::Changing, Some(false)) => return Ok(None),
            _ => return Err(state.refusal()),
        }
        let waiting = state.unacked + state.reserved;
        let memory = waiting == 0 || waiting + bytes <= self.config.unacked_bytes_max;
        let stuck = |state: &LogState| match self.no_room(state) {
            Some(message) => Err(Error::new(ErrorKind::NoSpace, message)),
            None => Ok(None),
        };
        if !memory {
            // Nothing becomes free where what was appended has no file to go to.
            return match self.files_ahead(&state) {
                Some(_) => Ok(None),
                None => stuck(&state),
            };
        }
        if !self.has_files(&state, bytes, room) {
            return stuck(&state);
        }
        state.reserved += bytes;
        Ok(Some(Permit {
            shared: Arc::clone(self),
            bytes,
        }))
    }

    /// Why no further file can be begun, if too many disks have no room for one.
    pub(super) fn no_room(&self, state: &LogState) -> Option<String> {
        let short: Vec<_> = state.lanes.iter().filter_map(|l| l.shortage()).collect();
        (state.lanes.len() - short.len() < state.quorum).then(|| {
            format!(
                "no room for a further journal file of {} bytes on {}; {} disks need one",
                self.config.file_bytes,
                short.join(", "),
                state.quorum
            )
        })
    }

    /// So many files may be in use before ordinary records have to wait.
    pub(super) fn ordinary_files_max(&self) -> usize {
        self.config.files_max - RESERVE_FILES
    }

    /// The log was written anew: what leads to files being freed gets room however full it is, or it
    /// would stay so for ever.
    pub(crate) fn keep_reserve(&self, state: &mut LogState) {
        let needed = state.files_in_use() + RESERVE_FILES;
        state.files_max = self.config.files_max.max(needed);
    }

    /// A new epoch has begun a file, however full the log was: the last one is kept nevertheless.
    pub(super) fn keep_last(&self, state: &mut LogState) {
        state.files_max = state.files_max.max(state.files_in_use() + LAST_FILES);
    }

    /// Files were freed: what was granted beyond the configuration is taken back.
    pub(super) fn shrink_reserve(&self, state: &mut LogState) {
        let needed = state.files_in_use() + RESERVE_FILES;
        state.files_max = state.files_max.min(needed).max(self.config.files_max);
    }

    /// See [`crate::Journal::share_after`].
    pub(crate) fn share_after(&self, seq: Seq) -> usize {
        let state = self.state.lock();
        let behind = state.files.iter().rev();
        let files = behind.take_while(|file| file.last > seq).count();
        // There may be as many as there are, if the disks have no room for more.
        let most = match state.is_cramped() {
            true => state.files.len() - 1,
            false => self.ordinary_files_max(),
        };
        files.saturating_sub(1) * 1000 / most
    }

    /// Whether the files that exist hold this much more.
    fn has_files(&self, state: &LogState, bytes: usize, room: LogReserve) -> bool {
        let wanted = (state.reserved + bytes) as u64;
        let position = state
            .open
            .as_ref()
            .map_or(state.offset, |group| group.end());
        let here = self.config.file_bytes.saturating_sub(position);
        // The file that was begun last may not be there yet, nor room for it.
        let Some(ahead) = self.files_ahead(state) else {
            return false;
        };
        let last = state.files_max;
        let reserve = dewar_env::safeguard("room for what empties the journal");
        // So many files there may be: to write into the one that was begun, and to begin another.
        let (here_max, ahead_max) = match room {
            LogReserve::Last if reserve => (last, last),
            LogReserve::Reserve if reserve => (last - LAST_FILES, last - LAST_FILES),
            _ => (last - RESERVE_FILES, self.ordinary_files_max()),
        };
        let in_use = state.files_in_use();
        let fits = wanted <= here;
        let full = match fits {
            true => in_use > here_max,
            false => in_use >= ahead_max,
        };
        if full && state.phase != LogPhase::Opening {
            dewar_env::coverage_mark("the journal was full");
            return false;
        }
        if fits {
            return true;
        }
        // A file's tail may be lost to a record that does not fit it.
        let enough = wanted <= ahead * (self.config.file_bytes - BLOCK_BYTES);
        if !enough {
            // While the journal is opened no spare file is made ahead.
            state.lanes.iter().for_each(|lane| lane.call());
        }
        enough
    }

    /// How many further files a quorum of holders has ready; `None` if not even the one that is
    /// written to, for which they are called then.
    fn files_ahead(&self, state: &LogState) -> Option<u64> {
        let mut horizons: Vec<u64> = state.lanes.iter().map(|lane| lane.horizon()).collect();
        horizons.sort_unstable_by(|a, b| b.cmp(a));
        let horizon = *horizons.get(state.quorum - 1)?;
        if horizon <= state.file {
            state.lanes.iter().for_each(|lane| lane.call());
            return None;
        }
        Some(horizon - state.file - 1)
    }
}
