//! Ids that are never given twice (RECORDS.md section 2).
//!
//! Numbers come from ranges that are reserved durably before the first of them is used. An opening
//! begins a new range, so the unused rest of an earlier range is never used. Version ids also carry
//! a hybrid logical clock, whose bound is reserved in the same way. A run begins above every clock
//! value that an earlier run may have given, even when the wall clock was set back in between.
//!
//! Cancellation: a caller that is dropped during a reservation may lose the range, but never shares
//! it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::Env;
use dewar_kv::{Batch, CommitError, Kv, Precondition};
use dewar_types::{BlobId, EntryId, Error, ErrorKind, UploadId, VersionId, Zone};
use parking_lot::Mutex;

use crate::keys;
use crate::record::number;

/// Numbers reserved at a time.
const RANGE: u64 = 1 << 16;
/// Numbers below are set aside (the default tenant's root is 1).
const FIRST: u64 = 1024;
/// How far ahead the clock is reserved. After a crash the clock may begin this far ahead of the
/// wall clock; it serves to order versions, not to tell the time.
const CLOCK_LEASE: Duration = Duration::from_secs(60);
/// Collisions with other gateways of the zone before giving up.
const ATTEMPTS: usize = 64;

const END: u64 = 1 << 48;

/// Numbers left out when a loss was accepted: more than were given by what is lost.
const GAP: u64 = 1 << 40;

/// Kinds of keys beside those of [`IdKind`]: the journal's lineage for which the gap was left, and the
/// ranges of blobs that a loss may have made nameless.
const LINEAGE: u8 = b'l';
const LOST: u8 = b'x';

/// Key of the lineage of the journal that a catalog belongs to, in 16 bytes, big-endian
/// ([`Ids::begin_lineage`]).
#[must_use]
pub fn lineage_key() -> Bytes {
    keys::ids(LINEAGE)
}

/// The use of a range of numbers; the value is part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdKind {
    /// Entries: files, directories, tenants' roots.
    Entry = b'e' as isize,
    /// Blobs and segments.
    Blob = b'b' as isize,
    /// Versions, uploads and changes.
    Version = b'v' as isize,
    /// The hybrid logical clock's bound, in nanoseconds since the epoch.
    Clock = b'h' as isize,
}

impl IdKind {
    fn key(self) -> Bytes {
        keys::ids(self as u8)
    }
}

#[derive(Clone, Copy, Default)]
struct Range {
    next: u64,
    end: u64,
}

impl Range {
    fn take(&mut self) -> Option<u64> {
        (self.next < self.end).then(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

#[derive(Default)]
struct State {
    entry: Range,
    blob: Range,
    version: Range,
    /// Last clock value given.
    clock: u64,
    /// Clock values below are reserved; 0 until the first reservation of this run.
    clock_bound: u64,
}

/// Mints ids for one zone.
pub struct Ids {
    kv: Arc<dyn Kv>,
    env: Env,
    zone: Zone,
    state: Mutex<State>,
    /// Held while reserving, so that many callers reserve once.
    reserving: tokio::sync::Mutex<()>,
}

impl Ids {
    /// Mints for `zone`, reserving in `kv`.
    #[must_use]
    pub fn new(kv: Arc<dyn Kv>, env: Env, zone: Zone) -> Self {
        Self {
            kv,
            env,
            zone,
            state: Mutex::default(),
            reserving: tokio::sync::Mutex::default(),
        }
    }

    /// An id for a file, directory or tenant.
    ///
    /// # Errors
    /// When a range cannot be reserved.
    pub async fn entry(&self) -> Result<EntryId, Error> {
        let number = self.number(IdKind::Entry, |s| &mut s.entry).await?;
        Ok(EntryId::new(self.zone, number))
    }

    /// An id for a blob or segment.
    ///
    /// # Errors
    /// When a range cannot be reserved.
    pub async fn blob(&self) -> Result<BlobId, Error> {
        let number = self.number(IdKind::Blob, |s| &mut s.blob).await?;
        Ok(BlobId::new(self.zone, number))
    }

    /// Lower bound of the ids of all blobs that get their id from now on. Nothing is given or
    /// reserved.
    #[must_use]
    pub fn next_blob(&self) -> BlobId {
        BlobId::new(self.zone, self.state.lock().blob.next)
    }

    /// An id for a version or change, above all that this zone gave before.
    ///
    /// # Errors
    /// When a range cannot be reserved.
    pub async fn version(&self) -> Result<VersionId, Error> {
        loop {
            {
                let mut state = self.state.lock();
                let clock = self.env.clock.now().0.max(state.clock + 1);
                if clock < state.clock_bound
                    && let Some(number) = state.version.take()
                {
                    state.clock = clock;
                    return Ok(VersionId::new(clock, self.zone, number));
                }
            }
            self.reserve_clock().await?;
            self.fill(IdKind::Version, |s| &mut s.version).await?;
        }
    }

    /// An id for a version or change, also above `floor`. Another zone or gateway may have given
    /// `floor` with a clock that is ahead.
    ///
    /// # Errors
    /// When a range cannot be reserved.
    pub async fn version_above(&self, floor: VersionId) -> Result<VersionId, Error> {
        {
            let mut state = self.state.lock();
            state.clock = state.clock.max(floor.clock());
        }
        self.version().await
    }

    /// An id for a multipart upload; sorts by age as versions do.
    ///
    /// # Errors
    /// When a range cannot be reserved.
    pub async fn upload(&self) -> Result<UploadId, Error> {
        Ok(UploadId(self.version().await?.0))
    }

    /// The zone that it mints for.
    #[must_use]
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// The first number (for [`IdKind::Clock`]: clock value) that is not reserved.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn reserved(&self, kind: IdKind) -> Result<u64, Error> {
        let key = kind.key();
        match self.kv.get(&key).await?.value {
            None => Ok(0),
            Some(value) => number(&key, &value),
        }
    }

    /// Ensures that no number (for [`IdKind::Clock`]: clock value) below `floor` is given from now
    /// on. Used after a restore or rebuild that found ids above the reserved ones.
    ///
    /// # Errors
    /// When it cannot be made durable.
    pub async fn raise(&self, kind: IdKind, floor: u64) -> Result<(), Error> {
        let _alone = self.reserving.lock().await;
        self.advance(kind, |stored| stored.max(floor)).await?;
        let mut state = self.state.lock();
        match kind {
            IdKind::Entry => state.entry = Range::default(),
            IdKind::Blob => state.blob = Range::default(),
            IdKind::Version => state.version = Range::default(),
            IdKind::Clock => state.clock_bound = 0,
        }
        Ok(())
    }

    /// Records the lineage of the journal that the catalog is in. Returns whether a loss was
    /// handled. A loss was accepted when the lineage differs from the one before, or when `lost`
    /// says so of the first. From then on, ids are given above every number that is reserved or
    /// `found` in blobs. A gap is left for ids that are absent or lost. Call it before any id is
    /// given.
    ///
    /// # Errors
    /// When the record cannot be made durable; the next opening then repeats it.
    pub async fn begin_lineage<F>(
        &self,
        lineage: u128,
        lost: bool,
        found: impl FnOnce() -> F,
    ) -> Result<bool, Error>
    where
        F: Future<Output = Result<u64, Error>>,
    {
        let key = keys::ids(LINEAGE);
        let read = self.kv.get(&key).await?;
        let now = lineage.to_be_bytes();
        let before = read.value.as_deref();
        if before == Some(&now[..]) {
            return Ok(false);
        }
        let accepted = before.is_some() || lost;
        let mut puts = vec![(key.clone(), Bytes::copy_from_slice(&now))];
        if accepted {
            let found = found().await?.saturating_add(1);
            for kind in [IdKind::Entry, IdKind::Version] {
                self.advance(kind, |stored| stored.max(FIRST) + GAP).await?;
            }
            let above = |stored: u64| stored.max(FIRST).max(found) + GAP;
            let (blobs, next) = self.advance(IdKind::Blob, above).await?;
            let wall = self.env.clock.now().0;
            let lease = u64::try_from(CLOCK_LEASE.as_nanos()).unwrap_or(u64::MAX);
            let ahead = |stored: u64| stored.max(wall).saturating_add(lease);
            self.advance(IdKind::Clock, ahead).await?;
            // What was given of the last range need not be in what was found of the catalog.
            let mut ranges = self.lost_ranges().await?;
            ranges.push((blobs.saturating_sub(RANGE), next));
            puts.push((keys::ids(LOST), encode_ranges(&ranges)));
        }
        let batch = Batch {
            require: vec![Precondition::same(key, &read)],
            puts,
            frees: true,
            ..Batch::default()
        };
        match self.kv.commit(batch).await {
            Ok(_) => Ok(accepted),
            Err(CommitError::Conflict(_)) => {
                let doing = "noting the journal's lineage";
                Err(Error::new(ErrorKind::Conflict, doing))
            }
            Err(CommitError::Failed(error)) => Err(error.context("noting the journal's lineage")),
        }
    }

    /// Ranges of blob numbers, each from its first up to but without its last, whose records a loss
    /// may have removed. A blob with such a number and without a name may be all that is left of an
    /// object.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn lost_ranges(&self) -> Result<Vec<(u64, u64)>, Error> {
        let key = keys::ids(LOST);
        match self.kv.get(&key).await?.value {
            None => Ok(Vec::new()),
            Some(value) if value.len().is_multiple_of(16) => Ok(value
                .chunks_exact(16)
                .filter_map(|pair| {
                    let (from, to) = pair.split_at(8);
                    Some((number(&key, from).ok()?, number(&key, to).ok()?))
                })
                .collect()),
            Some(_) => Err(Error::new(
                ErrorKind::Corrupt,
                format!("catalog key {} does not hold ranges", key.escape_ascii()),
            )),
        }
    }

    async fn number(
        &self,
        kind: IdKind,
        range: impl Fn(&mut State) -> &mut Range,
    ) -> Result<u64, Error> {
        loop {
            if let Some(number) = range(&mut self.state.lock()).take() {
                return Ok(number);
            }
            self.fill(kind, &range).await?;
        }
    }

    async fn fill(
        &self,
        kind: IdKind,
        range: impl Fn(&mut State) -> &mut Range,
    ) -> Result<(), Error> {
        let _alone = self.reserving.lock().await;
        {
            let mut state = self.state.lock();
            let range = range(&mut state);
            if range.next < range.end {
                return Ok(());
            }
        }
        let (before, end) = self
            .advance(kind, |stored| stored.max(FIRST) + RANGE)
            .await?;
        if end > END {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("zone {} has no {kind:?} numbers left", self.zone),
            ));
        }
        *range(&mut self.state.lock()) = Range {
            next: before.max(FIRST),
            end,
        };
        Ok(())
    }

    async fn reserve_clock(&self) -> Result<(), Error> {
        let _alone = self.reserving.lock().await;
        let (clock, bound) = {
            let state = self.state.lock();
            (state.clock, state.clock_bound)
        };
        let now = self.env.clock.now().0;
        if now.max(clock + 1) < bound {
            return Ok(());
        }
        let lease = u64::try_from(CLOCK_LEASE.as_nanos()).unwrap_or(u64::MAX);
        // Only the first reservation of a run must begin above the stored bound: several gateways
        // of one zone would otherwise push each other ahead for ever.
        let first = bound == 0;
        let (before, bound) = self
            .advance(IdKind::Clock, |stored| {
                let start = now.max(clock).max(if first { stored } else { 0 });
                stored.max(start.saturating_add(lease))
            })
            .await?;
        let mut state = self.state.lock();
        if first {
            state.clock = state.clock.max(before);
        }
        state.clock_bound = bound;
        Ok(())
    }

    /// Replaces the stored number by what `next` makes of it; gives both.
    async fn advance(&self, kind: IdKind, next: impl Fn(u64) -> u64) -> Result<(u64, u64), Error> {
        let key = kind.key();
        for _ in 0..ATTEMPTS {
            let read = self.kv.get(&key).await?;
            let stored = match &read.value {
                None => 0,
                Some(value) => number(&key, value)?,
            };
            let new = next(stored);
            if new == stored {
                return Ok((stored, new));
            }
            let batch = Batch {
                require: vec![Precondition::same(key.clone(), &read)],
                puts: vec![(key.clone(), Bytes::copy_from_slice(&new.to_be_bytes()))],
                // Opening and compacting need ids, and are what empties a full journal.
                frees: true,
                ..Batch::default()
            };
            if !dewar_env::safeguard("ids are reserved before they are used") {
                return Ok((stored, new));
            }
            match self.kv.commit(batch).await {
                Ok(_) => return Ok((stored, new)),
                Err(CommitError::Conflict(_)) => {}
                // Numbers may have been skipped, which nobody sees: what needed one did not begin.
                Err(CommitError::Failed(error)) => {
                    let doing = format!("reserving {kind:?} ids");
                    return Err(error.context(doing).unchanged());
                }
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!("{kind:?} ids are being reserved by too many others"),
        ))
    }
}

fn encode_ranges(ranges: &[(u64, u64)]) -> Bytes {
    let numbers = ranges.iter().flat_map(|(from, to)| [*from, *to]);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_be_bytes).collect();
    bytes.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use dewar_env::{Clock, RealRng};
    use dewar_kv::MemoryKv;
    use dewar_types::Timestamp;

    use super::*;

    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::Relaxed))
        }
        fn elapsed(&self) -> Duration {
            Duration::from_nanos(self.0.load(Ordering::Relaxed))
        }
    }

    fn env(clock: &Arc<SetClock>) -> Env {
        Env {
            clock: Arc::clone(clock) as Arc<dyn Clock>,
            rng: Arc::new(RealRng),
        }
    }

    #[tokio::test]
    async fn ids_differ_over_crashes_and_clocks_set_back() {
        let kv = MemoryKv::new();
        let clock = Arc::new(SetClock(AtomicU64::new(1_000_000_000_000)));
        let mut entries = BTreeSet::new();
        let mut blobs = BTreeSet::new();
        let mut last = VersionId(0);
        for run in 0..20 {
            let ids = Ids::new(Arc::new(kv.clone()), env(&clock), 3);
            for _ in 0..100 {
                assert!(entries.insert(ids.entry().await.unwrap()));
                assert!(blobs.insert(ids.blob().await.unwrap()));
                let version = ids.version().await.unwrap();
                assert!(version > last, "run {run}: {version} is not above {last}");
                last = version;
            }
            // Dropped without a goodbye; the wall clock jumps back and forth.
            let jump = if run % 2 == 0 {
                900_000_000_000
            } else {
                1_000_500_000_000
            };
            clock.0.store(jump, Ordering::Relaxed);
        }
        assert!(entries.iter().all(|id| id.zone() == 3));
    }

    #[tokio::test]
    async fn versions_stay_in_order_across_leases_and_ranges() {
        let clock = Arc::new(SetClock(AtomicU64::new(5)));
        let ids = Ids::new(Arc::new(MemoryKv::new()), env(&clock), 0);
        let mut last = VersionId(0);
        for step in 0..RANGE + 10 {
            if step % 1000 == 0 {
                clock
                    .0
                    .fetch_add(CLOCK_LEASE.as_nanos() as u64, Ordering::Relaxed);
            }
            let version = ids.version().await.unwrap();
            assert!(version > last);
            last = version;
        }
    }

    #[tokio::test]
    async fn raising_skips_what_was_found() {
        let kv = MemoryKv::new();
        let clock = Arc::new(SetClock(AtomicU64::new(5)));
        let ids = Ids::new(Arc::new(kv.clone()), env(&clock), 0);
        ids.version().await.unwrap();
        ids.raise(IdKind::Entry, 10_000_000).await.unwrap();
        ids.raise(IdKind::Clock, 1 << 62).await.unwrap();
        assert!(ids.entry().await.unwrap().counter() >= 10_000_000);
        assert!(ids.version().await.unwrap().clock() >= 1 << 62);
        let again = Ids::new(Arc::new(kv), env(&clock), 0);
        assert!(again.entry().await.unwrap().counter() > 10_000_000);
    }

    #[tokio::test]
    async fn an_accepted_loss_leaves_a_gap_once() {
        let kv = MemoryKv::new();
        let clock = Arc::new(SetClock(AtomicU64::new(1 << 50)));
        let open = || Ids::new(Arc::new(kv.clone()), env(&clock), 0);
        let none = || async { panic!("nobody asks for it") };
        let ids = open();
        assert!(!ids.begin_lineage(7, false, none).await.unwrap());
        let (entry, blob) = (ids.entry().await.unwrap(), ids.blob().await.unwrap());
        let version = ids.version().await.unwrap();
        assert!(!open().begin_lineage(7, false, none).await.unwrap());
        assert_eq!(open().lost_ranges().await.unwrap(), []);
        // The lost part went on with blobs, one of which was found.
        let found = blob.counter() + 500_000;
        let ids = open();
        let lost = ids.begin_lineage(8, true, || async { Ok(found) }).await;
        assert!(lost.unwrap());
        assert!(!open().begin_lineage(8, true, none).await.unwrap());
        let after = ids.blob().await.unwrap();
        assert!(after.counter() > found + (1 << 39));
        assert!(ids.entry().await.unwrap().counter() > entry.counter() + (1 << 39));
        assert!(ids.version().await.unwrap() > version);
        let ranges = ids.lost_ranges().await.unwrap();
        let within = |number: u64| {
            ranges
                .iter()
                .any(|(from, to)| (*from..*to).contains(&number))
        };
        assert!(
            within(blob.counter()) && within(found) && !within(after.counter()),
            "{ranges:?}"
        );
        // Once more.
        let ids = open();
        assert!(
            ids.begin_lineage(9, true, || async { Ok(0) })
                .await
                .unwrap()
        );
        assert_eq!(ids.lost_ranges().await.unwrap().len(), 2);
        assert!(ids.blob().await.unwrap().counter() > after.counter() + (1 << 39));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_crowd_gets_different_ids() {
        let kv = MemoryKv::new();
        let clock = Arc::new(SetClock(AtomicU64::new(5)));
        // Two gateways of one zone, many tasks each.
        let gateways: Vec<_> = (0..2)
            .map(|_| Arc::new(Ids::new(Arc::new(kv.clone()), env(&clock), 0)))
            .collect();
        let tasks: Vec<_> = (0..32)
            .map(|n| {
                let ids = Arc::clone(&gateways[n % 2]);
                tokio::spawn(async move {
                    let mut got = Vec::new();
                    for _ in 0..5000 {
                        got.push((ids.entry().await.unwrap(), ids.version().await.unwrap()));
                    }
                    got
                })
            })
            .collect();
        let (mut entries, mut versions) = (BTreeSet::new(), BTreeSet::new());
        for task in tasks {
            for (entry, version) in task.await.unwrap() {
                assert!(entries.insert(entry));
                assert!(versions.insert(version));
            }
        }
    }
}
