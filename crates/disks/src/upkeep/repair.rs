//! Repair: blobs that survive the fewest further failures come first.
//!
//! The queue is read whenever an entry was added, all records when disks or decisions changed. Each
//! pass over the records takes only blobs with the lowest margin that was seen. So memory does not
//! grow with the amount of work, and a restart continues from the records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::blob::{BlobRecord, CheckOutcome, Damage, KnownBadShards, RebuildTarget};
use crate::format::ShardSet;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerStatus};
use dewar_env::{DiskState, InterruptionMark};
use dewar_types::{BlobId, ByteRange, DiskId, Error, ErrorKind, Result, Timestamp};
use tokio::time::Instant;

use super::ReplacedFiles;
use super::blob_index::Encoding;
use super::redundancy::Redundancy;
use crate::disks::{Disks, SharedDisks};
use crate::limits::FREE_GRACE;

/// Interval of reads of the queue without a notification.
const PASS_EVERY: Duration = Duration::from_secs(30);

/// Pause of a blob after its first failed repair. It doubles with every further failure.
const FAILED_REST: Duration = Duration::from_secs(2);

/// The same at most.
const FAILED_REST_MAX: Duration = Duration::from_secs(300);

/// Blobs whose failures are remembered, about 3 MiB. Others are tried again in each pass.
const FAILED_MAX: usize = 1 << 16;

/// How long blobs wait for the copies of journal and index.
const CATALOG_FIRST_MAX: Duration = Duration::from_secs(20);

/// Queue entries read together, of which the most endangered are repaired first.
const QUEUE_STEP: usize = 1024;

/// Records read in one scan.
const PAGE: usize = 512;

/// Replaced encodings that wait for their readers.
const LEFTOVERS_MAX: usize = 100_000;

/// The status of repair, and its work since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairStatus {
    /// Encodings put right.
    pub repaired: u64,
    /// Encodings rewritten in another layout.
    pub laid_out: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Repairs that failed; they are tried again.
    pub failed: u64,
    /// Encodings that the last pass over all records found in need of repair, and repairable.
    pub waiting: u64,
    /// Further encodings whose repair failed and is tried again: first after seconds, later after
    /// minutes, and immediately when a disk changes its state.
    pub resting: u64,
    /// When that look was.
    pub looked: Option<Timestamp>,
}

/// Blobs whose repair failed: left alone for a while, longer every time.
#[derive(Debug, Default)]
struct FailedRepairs(BTreeMap<BlobId, RepairBackoff>);

#[derive(Clone, Copy, Debug)]
struct RepairBackoff {
    until: Instant,
    pause: Duration,
}

impl FailedRepairs {
    fn rests(&self, blob: BlobId) -> bool {
        let rest = self.0.get(&blob);
        rest.is_some_and(|rest| rest.until > Instant::now())
    }

    /// Whether it is remembered.
    fn note(&mut self, blob: BlobId) -> bool {
        let before = self.0.get(&blob).map(|rest| rest.pause * 2);
        if before.is_none() && self.0.len() >= FAILED_MAX {
            return false;
        }
        let pause = before.unwrap_or(FAILED_REST).min(FAILED_REST_MAX);
        let until = Instant::now() + pause;
        self.0.insert(blob, RepairBackoff { until, pause });
        true
    }

    fn forget(&mut self, blob: BlobId) {
        self.0.remove(&blob);
    }

    /// Those that have rested.
    fn due(&self) -> Vec<BlobId> {
        let now = Instant::now();
        let due = self.0.iter().filter(|(_, rest)| rest.until <= now);
        due.map(|(blob, _)| *blob).collect()
    }

    /// How long until the first of them has.
    fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let first = self.0.values().map(|rest| rest.until).min();
        first.map(|first| first.saturating_duration_since(now))
    }
}

/// Interval of log messages about finished repairs.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The last logged counts. A line for each blob would be millions of lines when a disk is rebuilt.
#[derive(Debug, Default)]
pub(super) struct RepairLog {
    upto: RepairStatus,
    at: Option<Instant>,
}

impl RepairLog {
    /// Logs a summary of the work since the last one, immediately at first and then once a minute.
    fn tell(&mut self, now: RepairStatus) {
        let lately = self.at.is_some_and(|at| at.elapsed() < TELL_EVERY);
        let since = |now: u64, upto: u64| now.saturating_sub(upto);
        let repaired = since(now.repaired, self.upto.repaired);
        let laid_out = since(now.laid_out, self.upto.laid_out);
        if lately || repaired + laid_out == 0 {
            return;
        }
        let (bytes, waiting) = (since(now.bytes, self.upto.bytes), now.waiting);
        tracing::info!(repaired, laid_out, bytes, waiting, "blobs were repaired");
        *self = Self {
            upto: now,
            at: Some(Instant::now()),
        };
    }
}

/// The findings of a pass over all records.
#[derive(Debug, Default)]
struct RepairScan {
    /// Actionable encodings by margin.
    waiting: BTreeMap<i32, u64>,
}

/// Repairs blobs.
pub(crate) struct RepairWorker {
    disks: SharedDisks,
    failed: FailedRepairs,
    /// The state of the disks in the last pass.
    looked_for: Option<Vec<(DiskId, DiskState, bool)>>,
    /// When the next pass is due, unless disks change or something is queued.
    next: Instant,
}

impl Worker for RepairWorker {
    const NAME: &'static str = "repair";
    const LOOK_EVERY: Duration = Duration::from_secs(1);

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let disks = &self.disks;
        disks.tell_repaired();
        disks.remove_leftovers().await;
        let states = disks.disk_states();
        if self.looked_for.as_ref() != Some(&states) {
            self.looked_for = Some(states);
            // What could not be had may be had now.
            self.failed = FailedRepairs::default();
            disks.upkeep.survey_due.store(true, Ordering::Relaxed);
            self.next = Instant::now();
        }
        if Instant::now() < self.next {
            return Ok(WorkOutcome::Idle);
        }
        let repaired = disks.repair_pass(&mut self.failed, gate).await? > 0;
        if !repaired {
            let due = self.failed.next_due().unwrap_or(PASS_EVERY);
            self.next = Instant::now() + due.min(PASS_EVERY);
        }
        Ok(WorkOutcome::progress_if(repaired))
    }

    /// Disks change without a cue.
    async fn wait(&mut self) {
        let pause = self.next.saturating_duration_since(Instant::now());
        let cue = self.disks.upkeep.cue.notified();
        if tokio::time::timeout(pause.min(Self::LOOK_EVERY), cue)
            .await
            .is_ok()
        {
            self.next = Instant::now();
        }
    }

    fn status(&self) -> WorkerStatus {
        let status = *self.disks.upkeep.repair.lock();
        WorkerStatus {
            pending: Some(status.waiting + status.resting),
        }
    }
}

impl RepairWorker {
    pub(crate) fn new(disks: SharedDisks) -> Self {
        Self {
            disks,
            failed: FailedRepairs::default(),
            looked_for: None,
            next: Instant::now(),
        }
    }
}

impl Disks {
    fn tell_repaired(&self) {
        let now = *self.upkeep.repair.lock();
        self.upkeep.told.lock().tell(now);
    }

    /// The state that decides whether all records must be read again. It includes the number of
    /// returns of each disk, because shards written during a short absence are missing and must be
    /// found too.
    fn disk_states(&self) -> Vec<(DiskId, DiskState, bool)> {
        let disks = self.view();
        self.blobs
            .pool()
            .members()
            .map(|member| {
                let state = member.disk.state();
                (member.id, state, disks.is_out(member.id))
            })
            .collect()
    }

    /// One pass; how many encodings it put right.
    async fn repair_pass(&self, failed: &mut FailedRepairs, gate: &PauseGate) -> Result<u64> {
        for blob in self.table.newly_decided().await? {
            self.segments.moved(blob);
        }
        let mut queued = 0;
        for blob in failed.due() {
            gate.pass().await;
            match self.table.encoding(blob).await? {
                Some(encoding) if self.try_repair(&encoding, failed).await => queued += 1,
                // It is another by now, or good: all are looked at.
                Some(_) if !failed.0.contains_key(&blob) => {
                    self.upkeep.survey_due.store(true, Ordering::Relaxed);
                }
                Some(_) => {}
                None => failed.forget(blob),
            }
        }
        queued += self.repair_queued(failed, gate).await?;
        self.upkeep.repair.lock().resting = failed.0.len() as u64;
        if queued > 0 {
            return Ok(queued);
        }
        if !self.upkeep.survey_due.swap(false, Ordering::Relaxed) {
            return Ok(0);
        }
        self.wait_for_catalog().await;
        let survey = self.survey(failed).await;
        if survey.is_err() {
            self.upkeep.survey_due.store(true, Ordering::Relaxed);
        }
        let survey = survey?;
        {
            let mut status = self.upkeep.repair.lock();
            status.waiting = survey.waiting.values().sum();
            status.looked = Some(self.env.clock.now());
        }
        let Some((&worst, _)) = survey.waiting.first_key_value() else {
            return Ok(0);
        };
        // There may be more, less urgent, when this is done.
        self.upkeep.survey_due.store(true, Ordering::Relaxed);
        let done = self.repair_all(worst, failed, gate).await;
        self.upkeep.repair.lock().resting = failed.0.len() as u64;
        done
    }

    /// Journal and index take precedence. While they are being copied to other disks, blobs wait,
    /// but only for a limited time, because there may be no disk to copy them to.
    async fn wait_for_catalog(&self) {
        let began = Instant::now();
        while self.table.catalog_moves() && began.elapsed() < CATALOG_FIRST_MAX {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Repairs queued blobs, the most endangered first.
    async fn repair_queued(&self, failed: &mut FailedRepairs, gate: &PauseGate) -> Result<u64> {
        let mut done = 0;
        let mut from = BlobId(0);
        loop {
            let (queued, next) = self.table.findings(from, QUEUE_STEP).await?;
            let disks = self.view();
            let mut work: Vec<(i32, Encoding)> = Vec::new();
            for (blob, findings) in &queued {
                if failed.rests(*blob) {
                    continue;
                }
                match self.table.encoding(*blob).await? {
                    Some(encoding) => {
                        let standing = disks.standing(&encoding.record, findings);
                        let nothing = standing.good.len() == encoding.record.layout.shards();
                        if standing.is_actionable() || nothing {
                            work.push((standing.margin, encoding));
                        }
                    }
                    None => self.table.unqueue(*blob).await?,
                }
            }
            work.sort_by_key(|(margin, encoding)| (*margin, encoding.record.id));
            for (_, encoding) in work {
                gate.pass().await;
                done += u64::from(self.try_repair(&encoding, failed).await);
            }
            match next {
                Some(next) => from = next,
                None => return Ok(done),
            }
        }
    }

    async fn survey(&self, failed: &FailedRepairs) -> Result<RepairScan> {
        let mut survey = RepairScan::default();
        let disks = self.view();
        let mut emptied = self.upkeep.decisions.lock().draining.clone();
        self.for_each_encoding(|encoding, findings| {
            for disk in &encoding.record.disks {
                self.note_unknown(*disk);
                emptied.remove(disk);
            }
            let standing = disks.standing(&encoding.record, findings);
            if standing.is_actionable() && !failed.rests(encoding.record.id) {
                *survey.waiting.entry(standing.margin).or_default() += 1;
            }
        })
        .await?;
        // What was decided meanwhile has another look coming.
        let draining = self.upkeep.decisions.lock().draining.clone();
        emptied.retain(|disk| draining.contains(disk));
        *self.upkeep.emptied.lock() = emptied;
        Ok(survey)
    }

    /// Repairs all encodings with the margin `worst`, until more urgent work comes up.
    async fn repair_all(
        &self,
        worst: i32,
        failed: &mut FailedRepairs,
        gate: &PauseGate,
    ) -> Result<u64> {
        let mut done = 0;
        let mut from = BlobId(0);
        let states = self.disk_states();
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            let findings = self.findings_of(&page.encodings).await?;
            for encoding in &page.encodings {
                let none = KnownBadShards::default();
                let known = findings.get(&encoding.record.id).unwrap_or(&none);
                let standing = self.view().standing(&encoding.record, known);
                if standing.is_actionable()
                    && standing.margin <= worst
                    && !failed.rests(encoding.record.id)
                {
                    gate.pass().await;
                    done += u64::from(self.try_repair(encoding, failed).await);
                    if states != self.disk_states() {
                        return Ok(done);
                    }
                }
            }
            self.remove_leftovers().await;
            match page.next {
                Some(next) => from = next,
                None => return Ok(done),
            }
        }
    }

    /// Whether the encoding was put right.
    async fn try_repair(&self, encoding: &Encoding, failed: &mut FailedRepairs) -> bool {
        let blob = encoding.record.id;
        match self.repair_one(blob).await {
            Ok(done) => {
                failed.forget(blob);
                self.tell_repaired();
                done
            }
            // Somebody changed it meanwhile: the next look sees what it is now.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                tracing::debug!(%blob, %error, "repair was overtaken");
                failed.forget(blob);
                false
            }
            Err(error) => {
                let remembered = failed.note(blob);
                match error.kind() {
                    // They would be told in each pass.
                    _ if !remembered => tracing::debug!(%blob, %error, "could not be repaired"),
                    // Disks went away meanwhile, which is told elsewhere.
                    ErrorKind::Unavailable => {
                        tracing::info!(%blob, %error, "could not be repaired now");
                    }
                    _ => tracing::warn!(%blob, %error, "could not be repaired; trying again later"),
                }
                self.upkeep.repair.lock().failed += 1;
                false
            }
        }
    }

    async fn repair_one(&self, blob: BlobId) -> Result<bool> {
        let Some(_working) = self.upkeep.begin(blob) else {
            return Ok(false);
        };
        // A repair whose record may come yet has files under the names that the next one would use.
        if !self.table.is_decided(blob) {
            return Ok(false);
        }
        let Some(encoding) = self.table.encoding(blob).await? else {
            return Ok(false);
        };
        let findings = self.table.finding(blob).await?;
        let known = findings.clone().unwrap_or_default();
        let disks = self.view();
        let standing = disks.standing(&encoding.record, &known);
        if standing.anew && standing.moves.is_empty() {
            return self
                .encode_anew(&encoding, findings.as_ref())
                .await
                .map(|()| true);
        }
        let (targets, sound) = self.targets(&encoding, &standing).await?;
        // What was found bad and could not be looked at, or not be written, stays on the queue.
        let mended = targets.iter().map(|target| target.shard);
        let left = mended
            .chain(sound.iter())
            .fold(known, KnownBadShards::without);
        if targets.is_empty() {
            // What was found bad is good by now, or nothing was: off the queue with it.
            let struck = findings.is_some() && (!sound.is_empty() || left.bad().is_empty());
            if struck {
                self.table
                    .replaced(&encoding, &encoding.record, findings.as_ref(), left)
                    .await?;
            }
            return Ok(struck);
        }
        let record = Arc::new(encoding.record.clone());
        let underway = InterruptionMark::new("a repair was cut short");
        let rebuilt = self
            .blobs
            .rebuild(&record, &targets, &self.upkeep.repair_pace)
            .await;
        underway.done();
        let moved: Vec<usize> = targets
            .iter()
            .filter(|target| target.disk != record.disks[target.shard])
            .map(|target| target.shard)
            .collect();
        let (now, rebuilt) = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                self.leave_behind(moved_to(&record, &targets), moved);
                return Err(error);
            }
        };
        if let Err(error) = self
            .table
            .replaced(&encoding, &now, findings.as_ref(), left)
            .await
        {
            // An engine's failure leaves it open which of the two is named.
            if error.kind() == ErrorKind::Conflict {
                self.leave_behind(now, moved);
            }
            return Err(error);
        }
        dewar_env::coverage_mark(match now.disks == record.disks {
            true => "a shard was written again in its place",
            false => "a shard moved to another disk",
        });
        self.segments.moved(blob);
        self.leave_behind(encoding.record, moved);
        let mut status = self.upkeep.repair.lock();
        status.repaired += 1;
        status.bytes += rebuilt.written;
        drop(status);
        tracing::debug!(%blob, shards = targets.len(), bytes = rebuilt.written, "repaired");
        Ok(true)
    }

    /// The shards to write: those that were found bad and still are, and those that move. Also
    /// returns shards that were found bad and are good now.
    async fn targets(
        &self,
        encoding: &Encoding,
        standing: &Redundancy,
    ) -> Result<(Vec<RebuildTarget>, ShardSet)> {
        let record = &encoding.record;
        let mut targets = Vec::new();
        let mut sound = ShardSet::EMPTY;
        for shard in standing.bad.iter() {
            let checked = self
                .blobs
                .check(record, shard, &self.upkeep.repair_pace)
                .await?;
            match checked {
                CheckOutcome::Good => sound = sound.with(shard),
                CheckOutcome::Unreachable => {
                    dewar_env::coverage_mark("a bad shard could not be looked at")
                }
                CheckOutcome::Damaged(damage) => targets.push(RebuildTarget {
                    shard,
                    disk: record.disks[shard],
                    damage,
                }),
            }
        }
        for (shard, disk) in &standing.moves {
            targets.push(RebuildTarget {
                shard: *shard,
                disk: *disk,
                damage: Damage::default(),
            });
        }
        Ok((targets, sound))
    }

    /// Encodes a blob in the layout and on the disks of today.
    async fn encode_anew(
        &self,
        encoding: &Encoding,
        findings: Option<&KnownBadShards>,
    ) -> Result<()> {
        let record = &encoding.record;
        let header = self.blobs.header(record).await?;
        self.blobs.discard_newer(record).await;
        let mut writer = self.blobs.encode_anew(record, header.kind)?;
        // Disks that count as takers may be resting after an error. To write the same again would gain
        // nothing, and be done over and over.
        if writer.layout() == record.layout {
            let message = format!(
                "blob {}: no layout but {} can be had now",
                record.id, record.layout
            );
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let mut stream = self
            .blobs
            .open(Arc::new(record.clone()))?
            .stream(ByteRange::whole(record.len));
        while let Some(part) = stream.next().await {
            let part = part?;
            self.upkeep.repair_pace.take(2 * part.len() as u64).await;
            writer.write(part).await?;
        }
        let now = writer.seal(&header.owner).await?;
        let left = KnownBadShards::default();
        if let Err(error) = self.table.replaced(encoding, &now, findings, left).await {
            // An engine's failure leaves it open which of the two is named.
            if error.kind() == ErrorKind::Conflict {
                self.blobs.take_back(&now).await;
            }
            return Err(error);
        }
        dewar_env::coverage_mark(match now.layout.k > record.layout.k {
            true => "a narrowed blob was laid out again",
            false => "a blob was laid out for fewer disks",
        });
        self.segments.moved(record.id);
        self.leave_behind(record.clone(), (0..record.disks.len()).collect());
        let mut status = self.upkeep.repair.lock();
        status.laid_out += 1;
        status.bytes += now.len;
        drop(status);
        tracing::debug!(blob = %now.id, from = %record.layout, to = %now.layout, "laid out anew");
        Ok(())
    }

    /// Deletes shards that nothing names any more, once they can have no readers and their disk is
    /// present.
    pub(crate) fn leave_behind(&self, record: BlobRecord, shards: Vec<usize>) {
        if shards.is_empty() {
            return;
        }
        let mut leftovers = self.upkeep.leftovers.lock();
        // Beyond, the sweep of the next start finds them.
        if leftovers.len() < LEFTOVERS_MAX {
            leftovers.push(ReplacedFiles {
                record,
                shards,
                since: Instant::now(),
            });
        }
    }

    /// Removes the unnamed files of a leftover, and returns the shards that could not be removed. A
    /// shard may have moved back meanwhile. Its file is then in use.
    async fn remove_leftover(&self, left: &ReplacedFiles) -> Vec<usize> {
        let record = &left.record;
        // Held until the files are gone, so that no repair makes them again meanwhile.
        let Some(_claimed) = self.upkeep.begin(record.id) else {
            return left.shards.clone();
        };
        // It may be where a repair whose record may come yet has written anew.
        if !self.table.is_decided(record.id) {
            dewar_env::coverage_mark("a leftover waited for what is open");
            return left.shards.clone();
        }
        let Ok(named) = self.table.encoding(record.id).await else {
            return left.shards.clone();
        };
        let is_named = |shard: &usize| {
            named.as_ref().is_some_and(|named| {
                named.record.generation == record.generation
                    && named.record.disks.get(*shard) == record.disks.get(*shard)
            })
        };
        let mut unnamed = left.shards.clone();
        unnamed.retain(|shard| !is_named(shard));
        if unnamed.len() < left.shards.len() {
            dewar_env::coverage_mark("a leftover was named again");
        }
        self.blobs.remove_shards(record, &unnamed).await
    }

    async fn remove_leftovers(&self) {
        let now = Instant::now();
        let due: Vec<ReplacedFiles> = {
            let mut leftovers = self.upkeep.leftovers.lock();
            let pool = self.blobs.pool();
            let ripe = |left: &ReplacedFiles| {
                let here = |shard: &usize| {
                    let member = pool.member(left.record.disks[*shard]);
                    member.is_none_or(|member| member.disk.state().writable())
                };
                now - left.since >= FREE_GRACE
                    && left.shards.iter().any(here)
                    && !self.table.readers().holds(left.record.id)
            };
            let (due, rest) = leftovers.drain(..).partition(ripe);
            *leftovers = rest;
            due
        };
        for left in due {
            let still = self.remove_leftover(&left).await;
            self.leave_behind(left.record, still);
        }
    }
}

impl Disks {
    /// The status of repair.
    #[must_use]
    pub fn repair_status(&self) -> RepairStatus {
        *self.upkeep.repair.lock()
    }
}

/// A record of the places at which a repair was to write.
fn moved_to(record: &BlobRecord, targets: &[RebuildTarget]) -> BlobRecord {
    let mut moved = record.clone();
    for target in targets {
        moved.disks[target.shard] = target.disk;
    }
    moved
}
