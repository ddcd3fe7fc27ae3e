//! The scanner: walks the buckets with rules and applies the actions that are due.
//!
//! It reads one bucket after the other, one page of versions after the other, and only under the
//! prefixes that rules name. So memory does not grow with the stored data, and a rule costs only
//! the objects that it covers. Between pages it sleeps at least three times as long as the page
//! took, so it uses at most a quarter of a core. Actions are done in batches. Each batch requires
//! the versions to be unchanged since they were judged, so a concurrent write is not undone.
//!
//! Moves to another pool have a rate limit of their own, the same as repair. They do not delay
//! expiration: a pass moves objects for at most the interval between passes, and leaves the rest to
//! the next pass, which then follows at once.
//!
//! # Crashes
//! The position of a pass is stored in the catalog every half minute, and a restart continues
//! there. Repeating an action is harmless: the second time nothing is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_catalog::record::VersionRecord;
use dewar_catalog::{Actor, Tenant, keys};
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_namespace::{
    Bucket, BucketQuery, DeleteTarget, ListedVersion, UploadQuery, VersionQuery,
};
use dewar_types::{
    BucketName, Error, ErrorKind, ObjectKey, Result, Timestamp, UserId, VersionId, VersionName,
};
use minicbor::{Decode, Encode};
use tokio::time::Instant;

use super::evaluation::{DueAction, EvaluatedVersion};
use super::rules::{Lifecycle, Rule};
use crate::copy::is_in_pool;
use crate::document::{DocumentKind, document_of};
use crate::{Inner, SharedStore};

/// Versions or uploads read in one scan; few in tests, so that keys span pages.
pub(super) const PAGE: usize = if cfg!(test) { 3 } else { 1000 };
/// Buckets read in one scan.
pub(super) const BUCKETS: usize = 1000;
/// How often progress is written down.
const NOTE_EVERY: Duration = Duration::from_secs(30);
/// Passes in a day.
const PASSES: u32 = 12;
/// The scanner rests so many times as long as it worked.
const REST: u32 = 3;

pub(super) const SYSTEM: Actor<'static> = Actor {
    user: UserId(0),
    principal: "system:lifecycle",
};

/// How far a pass is, as the catalog keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct PassProgress {
    /// The tenant.
    #[n(0)]
    tenant: String,
    /// The bucket.
    #[n(1)]
    bucket: String,
    /// The key that the pass had reached. It is read again.
    #[n(2)]
    key: String,
}

/// The versions of a key seen so far, across pages.
#[derive(Default)]
struct History {
    key: String,
    /// Older versions so far.
    older: u32,
    /// When the version before came.
    successor: Timestamp,
}

/// A version that is not judged yet.
struct PendingVersion {
    key: String,
    version: VersionRecord,
    older: Option<(u32, Timestamp)>,
}

impl PendingVersion {
    /// The action that is due. `last` says whether no older version of the key follows.
    fn evaluate(
        &self,
        rules: &Lifecycle,
        last: bool,
        now: Timestamp,
        day: Duration,
    ) -> Result<Option<Task>> {
        let seen = EvaluatedVersion {
            key: &self.key,
            version: &self.version,
            older: self.older,
            alone: last && self.older.is_none(),
        };
        let Some(due) = rules.due(&seen, now, day) else {
            return Ok(None);
        };
        Ok(Some(Task {
            key: ObjectKey::new(&self.key)?,
            version: self.version.clone(),
            current: self.older.is_none(),
            due,
        }))
    }
}

/// One version with its due action.
struct Task {
    key: ObjectKey,
    version: VersionRecord,
    current: bool,
    due: DueAction,
}

/// Makes a pass over all buckets, then waits for a part of a day.
pub(crate) struct LifecycleWorker {
    inner: SharedStore,
    pause: Duration,
    /// Whether the pass that an earlier process began was looked for.
    resumed: bool,
}

impl Worker for LifecycleWorker {
    const NAME: &'static str = "lifecycle";
    /// A pass reads many records, so a failing one is not repeated often.
    const RETRY_MAX: Duration = Duration::from_secs(600);

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let inner = &self.inner;
        let from = match core::mem::replace(&mut self.resumed, true) {
            false => inner.noted().await?,
            true => None,
        };
        let mut pace = PassPacer::new(self.pause, gate.clone());
        let uploads = inner.end_abandoned_uploads(&mut pace).await;
        inner.pass(from, &mut pace).await?;
        uploads?;
        Ok(WorkOutcome::progress_if(pace.left))
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.pause).await;
    }
}

impl LifecycleWorker {
    pub(crate) fn new(inner: SharedStore) -> Self {
        let pause = inner.lifecycle.day / PASSES;
        Self {
            inner,
            pause: pause.max(Duration::from_secs(1)),
            resumed: false,
        }
    }
}

impl Inner {
    fn progress_key() -> Bytes {
        keys::work(b'l')
    }

    async fn noted(&self) -> Result<Option<PassProgress>> {
        let value = self.tree.kv().get(&Self::progress_key()).await?.value;
        let read = value.map(|value| minicbor::decode(&value)).transpose();
        read.map_err(|error| {
            Error::with_source(ErrorKind::Corrupt, "lifecycle's progress is damaged", error)
        })
    }

    async fn note(&self, progress: Option<&PassProgress>) -> Result<()> {
        // Writing into a vector cannot fail.
        let value = progress.map(|progress| minicbor::to_vec(progress).unwrap_or_default().into());
        self.tree.catalog().set(Self::progress_key(), value).await
    }

    /// Scans all buckets once, from the position of an interrupted pass.
    async fn pass(
        self: &Arc<Self>,
        from: Option<PassProgress>,
        pace: &mut PassPacer,
    ) -> Result<()> {
        let mut from = from;
        let mut noted = from.is_some();
        let mut tenants = self.tree.catalog().tenants().await?;
        tenants.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        for tenant in tenants {
            let name = tenant.name.as_str();
            if from
                .as_ref()
                .is_some_and(|from| name < from.tenant.as_str())
            {
                continue;
            }
            let mut after: Option<BucketName> = None;
            loop {
                let query = BucketQuery {
                    owner: None,
                    prefix: "",
                    after: after.as_ref().map(BucketName::as_str),
                    max: BUCKETS,
                };
                let page = self.tree.buckets(&tenant, query).await?;
                for listed in &page.buckets {
                    let settings = listed.record.bucket.as_ref();
                    let mask = DocumentKind::Lifecycle.mask();
                    if settings.is_none_or(|settings| settings.documents & mask == 0) {
                        continue;
                    }
                    let here = from.take_if(|from| {
                        name == from.tenant && listed.name.as_str() <= from.bucket.as_str()
                    });
                    if let Some(past) = here {
                        if listed.name.as_str() < past.bucket.as_str() {
                            from = Some(past);
                            continue;
                        }
                        noted |= self
                            .bucket_pass(&tenant, &listed.name, past.key, pace)
                            .await?;
                        continue;
                    }
                    noted |= self
                        .bucket_pass(&tenant, &listed.name, String::new(), pace)
                        .await?;
                }
                match page.buckets.last() {
                    Some(last) if page.truncated => after = Some(last.name.clone()),
                    _ => break,
                }
            }
            from = None;
        }
        if noted {
            self.note(None).await?;
        }
        Ok(())
    }

    /// All of a bucket; says whether progress was noted.
    async fn bucket_pass(
        self: &Arc<Self>,
        tenant: &Tenant,
        name: &BucketName,
        from: String,
        pace: &mut PassPacer,
    ) -> Result<bool> {
        let Some(bucket) = self.tree.bucket(tenant, name).await? else {
            return Ok(false);
        };
        let Some(rules) = document_of::<Lifecycle>(&bucket)? else {
            return Ok(false);
        };
        let outcome = self.scan(&bucket, &rules, from, pace).await;
        let outcome = match outcome {
            Ok(noted) => self
                .abort_uploads(&bucket, &rules, pace)
                .await
                .map(|()| noted),
            Err(error) => Err(error),
        };
        match outcome {
            // It went, or was made anew: there is nothing to do in it.
            Err(error) if error.kind() == ErrorKind::NoSuchBucket => Ok(false),
            outcome => outcome,
        }
    }

    /// The versions that rules are about; says whether progress was noted.
    pub(super) async fn scan(
        self: &Arc<Self>,
        bucket: &Bucket,
        rules: &Lifecycle,
        from: String,
        pace: &mut PassPacer,
    ) -> Result<bool> {
        let mut noted = false;
        for prefix in rules.prefixes() {
            let begun = from.starts_with(prefix);
            if !begun && *prefix < *from {
                continue;
            }
            let from = if begun { from.clone() } else { String::new() };
            noted |= self.scan_under(bucket, rules, prefix, from, pace).await?;
        }
        Ok(noted)
    }

    /// The same for keys that begin with `prefix`.
    async fn scan_under(
        self: &Arc<Self>,
        bucket: &Bucket,
        rules: &Lifecycle,
        prefix: &str,
        from: String,
        pace: &mut PassPacer,
    ) -> Result<bool> {
        let day = self.lifecycle.day;
        let mut noted = false;
        let mut history = History::default();
        // What comes behind a version says whether it is the last of its key.
        let mut held: Option<PendingVersion> = None;
        // Just before the key, so that it is looked at as a whole.
        let mut marker: Option<(String, Option<VersionId>)> =
            (!from.is_empty()).then_some((from, Some(VersionId(u128::MAX))));
        loop {
            let query = VersionQuery {
                prefix,
                after: marker.as_ref().map(|(key, _)| key.as_str()),
                after_version: marker
                    .as_ref()
                    .and_then(|(_, version)| version.map(VersionName::Id)),
                max: PAGE,
                ..VersionQuery::default()
            };
            let page = self.tree.list_versions(bucket, query).await?;
            let now = self.env.clock.now();
            let mut tasks = Vec::new();
            for item in page.items {
                let ListedVersion::Version {
                    key,
                    current,
                    version,
                } = item
                else {
                    continue;
                };
                if let Some(held) = held.take() {
                    tasks.extend(held.evaluate(rules, held.key != key, now, day)?);
                }
                if history.key != key {
                    history = History {
                        key: key.clone(),
                        ..History::default()
                    };
                }
                let (newer, successor) = (history.older, history.successor);
                history.older += u32::from(!current);
                history.successor = version.modified;
                held = Some(PendingVersion {
                    key,
                    version: *version,
                    older: (!current).then_some((newer, successor)),
                });
            }
            if page.next.is_none()
                && let Some(held) = held.take()
            {
                tasks.extend(held.evaluate(rules, true, now, day)?);
            }
            self.carry_out(bucket, tasks, pace).await?;
            marker = page.next;
            if let Some((key, _)) = &marker
                && pace.note_due()
            {
                noted = true;
                self.note(Some(&PassProgress {
                    tenant: bucket.tenant.name.as_str().to_owned(),
                    bucket: bucket.name.to_string(),
                    key: key.clone(),
                }))
                .await?;
            }
            pace.rest().await;
            if marker.is_none() {
                return Ok(noted);
            }
        }
    }

    async fn carry_out(
        self: &Arc<Self>,
        bucket: &Bucket,
        tasks: Vec<Task>,
        pace: &mut PassPacer,
    ) -> Result<()> {
        let mut doomed = Vec::new();
        let mut moving = Vec::new();
        for task in tasks {
            match task.due {
                DueAction::Expire => {
                    // A live current version goes as the bucket has it, all else for good.
                    let hides = task.current && !task.version.flags.delete_marker();
                    doomed.push(DeleteTarget {
                        version: (!hides).then(|| task.version.name()),
                        only: Some(task.version.id),
                        ..DeleteTarget::key(task.key)
                    });
                }
                DueAction::Move(class) => {
                    let class = (class != super::STANDARD).then_some(class);
                    moving.push((task.key, task.version, class));
                }
            }
        }
        self.expire(bucket, &doomed).await?;
        let begun = Instant::now();
        self.move_all(bucket, moving, pace).await;
        pace.since += begun.elapsed();
        Ok(())
    }

    async fn expire(&self, bucket: &Bucket, doomed: &[DeleteTarget]) -> Result<()> {
        if doomed.is_empty() {
            return Ok(());
        }
        let done = self
            .tree
            .delete_many(&SYSTEM, bucket, doomed, false)
            .await?;
        let expired = done
            .iter()
            .filter(|done| done.as_ref().is_ok_and(|done| *done != Default::default()))
            .count();
        tracing::debug!(bucket = %bucket.name, expired, "expired");
        Ok(())
    }

    /// Moves versions to other storage classes, one after the other. A failed move is due again in
    /// the next pass.
    async fn move_all(
        self: &Arc<Self>,
        bucket: &Bucket,
        moving: Vec<(ObjectKey, VersionRecord, Option<String>)>,
        pace: &mut PassPacer,
    ) {
        let mut failed: Option<(u64, String, Error)> = None;
        for (key, version, class) in moving {
            let pool = self.number_of(self.pool_of_class(class.as_deref()));
            if !is_in_pool(&version.copies, pool) {
                if let Err(error) = self.layout_for_new_blob(pool) {
                    if pace.stuck.insert(pool) {
                        tracing::warn!(bucket = %bucket.name, pool, %error, "versions cannot be moved to their storage class; trying again");
                    }
                    continue;
                }
                if Instant::now() >= pace.moves_until {
                    pace.left = true;
                    continue;
                }
            }
            let moved = self.move_to_class(&SYSTEM, bucket, &key, &version, class);
            match moved.await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::debug!(bucket = %bucket.name, "a version went before it was moved")
                }
                Err(error) => match &mut failed {
                    Some((count, ..)) => *count += 1,
                    None => failed = Some((1, bucket.path(key.as_str()), error)),
                },
            }
        }
        if let Some((count, path, error)) = failed {
            tracing::warn!(count, path, %error, "versions were not moved to their storage class; trying again");
        }
    }

    async fn abort_uploads(
        &self,
        bucket: &Bucket,
        rules: &Lifecycle,
        pace: &mut PassPacer,
    ) -> Result<()> {
        let aborts = |rule: &Rule| rule.enabled && rule.abort_days.is_some();
        if !rules.rules.iter().any(aborts) {
            return Ok(());
        }
        let day = self.lifecycle.day;
        let mut marker: Option<(String, Option<dewar_types::UploadId>)> = None;
        loop {
            let query = UploadQuery {
                prefix: "",
                delimiter: None,
                after_key: marker.as_ref().map(|(key, _)| key.as_str()),
                after_upload: marker.as_ref().and_then(|(_, upload)| *upload),
                max: PAGE,
            };
            let page = self.tree.list_uploads(bucket, query).await?;
            let now = self.env.clock.now();
            for item in page.items {
                let dewar_namespace::ListedUpload::Upload { key, upload } = item else {
                    continue;
                };
                if !rules.aborts(&key, upload.initiated, now, day) {
                    continue;
                }
                let object = ObjectKey::new(&key)?;
                let aborted = self
                    .tree
                    .abort_upload(&SYSTEM, bucket, &object, upload.id)
                    .await;
                match aborted {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::NoSuchUpload => {}
                    Err(error) => return Err(error),
                }
            }
            pace.rest().await;
            match page.next {
                Some(next) => marker = Some(next),
                None => return Ok(()),
            }
        }
    }
}

/// Keeps the scanner to its share, in one pass.
pub(super) struct PassPacer {
    gate: PauseGate,
    since: Instant,
    noted: Instant,
    /// No move begins from then on.
    moves_until: Instant,
    /// Moves are due for which there was no time.
    left: bool,
    /// Pools that take nothing, by number.
    stuck: BTreeSet<u16>,
}

impl PassPacer {
    /// Of a pass that moves for so long at most.
    pub(super) fn new(moves: Duration, gate: PauseGate) -> Self {
        let now = Instant::now();
        Self {
            gate,
            since: now,
            noted: now,
            moves_until: now + moves,
            left: false,
            stuck: BTreeSet::new(),
        }
    }

    pub(super) async fn rest(&mut self) {
        tokio::time::sleep(self.since.elapsed() * REST).await;
        self.gate.pass().await;
        self.since = Instant::now();
    }

    fn note_due(&mut self) -> bool {
        let due = self.noted.elapsed() >= NOTE_EVERY;
        if due {
            self.noted = Instant::now();
        }
        due
    }
}
