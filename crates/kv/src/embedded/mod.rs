//! The embedded engine: journal, overlay, index (RECORDS.md section 5).
//!
//! A batch becomes one record of the replicated journal. The overlay in memory answers reads of
//! entries that are not in the index yet. The index is fed from the overlay in large sorted
//! batches. The index may be lost at any time, because the journal still has the records that it
//! lacks.
//!
//! # A commit
//! The index entries that preconditions need are read ahead, without a lock. Three steps follow
//! under one short lock:
//!
//! 1. The preconditions are checked against all appended records, durable or not.
//! 2. The record is appended to the journal, which gives the sequence number.
//! 3. The changes enter the overlay.
//!
//! Then the caller waits outside the lock until the journal reports the record as durable. Reads
//! use the overlay as of the last durable sequence number, so they show the change only from then
//! on.
//!
//! # Memtables
//! The memtable `active` takes changes. When it is large it becomes `frozen`, and is fed to the
//! index once all of it is durable. A snapshot holds the memtables and the index view with which it
//! began, so its content does not change.
//!
//! # Crashes and cancellation
//! Recovery opens the index and replays the records after it. A commit whose future is dropped
//! after the append still happens. If the future is dropped before the append, nothing happens.
//! Feeding the index is a task of its own, which retries after a failure. Until it succeeds,
//! commits slow down and finally wait, since the overlay is bounded
//! ([`EmbeddedConfig::overlay_bytes_max`]).

mod body;
mod flush;
mod memtable;
mod precondition;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_journal::{Journal, LogReserve, Permit, Recovery, RetentionPin};
use dewar_types::{Error, ErrorKind};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

pub use body::{decode as decode_batch, fuzz_batch};

use super::{Batch, CommitError, Kv, KvRead, Precondition, ReadValue, Scan, ScanPage, Seq};
use crate::index::{Index, IndexView};
use memtable::Memtable;
use precondition::IndexPrefetch;
use read::Memtables;

/// First byte of the keys under which change-log records are kept.
pub const CHANGE_LOG: u8 = b'L';

/// A memtable is frozen when it holds this part of the journal, in thousandths: two memtables and
/// the small objects must fit.
const JOURNAL_SHARE_MAX: usize = 200;

/// Settings and limits of the engine.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// A memtable of this many keys is fed to the index.
    pub layer_keys: usize,
    /// A memtable of about this many bytes is fed to the index.
    pub layer_bytes: usize,
    /// Bytes of journal records after which a memtable is fed to the index, so that the journal can
    /// free them. Small objects reach this limit long before their keys fill a memtable.
    pub layer_log_bytes: usize,
    /// Commits wait while both memtables together take about this many bytes.
    pub overlay_bytes_max: usize,
    /// Whether change-log records are kept in the index for [`Kv::changes`]. They are in the
    /// journal in any case. Keeping them costs one more key per batch, which is useless without a
    /// reader.
    pub keep_changes: bool,
}

impl EmbeddedConfig {
    fn is_large(&self, layer: &Memtable) -> bool {
        layer.len() > self.layer_keys
            || layer.bytes() > self.layer_bytes
            || layer.log_bytes() > self.layer_log_bytes
    }
}

impl Default for EmbeddedConfig {
    fn default() -> Self {
        Self {
            layer_keys: 100_000,
            layer_bytes: 48 << 20,
            layer_log_bytes: 64 << 20,
            overlay_bytes_max: 160 << 20,
            keep_changes: false,
        }
    }
}

/// The engine; cheap to clone, clones are the same one.
#[derive(Clone)]
pub struct EmbeddedKv {
    inner: Arc<Inner>,
}

struct Inner {
    journal: Journal,
    index: Arc<dyn Index>,
    hold: RetentionPin,
    config: EmbeddedConfig,
    state: RwLock<State>,
    /// Wakes waiting tasks: a memtable was fed, or there is one to feed.
    fed: Notify,
    wanted: Notify,
    /// The error of the last feeding of the index, if it failed.
    refused: Mutex<Option<(ErrorKind, String)>>,
    closing: watch::Sender<bool>,
}

struct State {
    active: Arc<RwLock<Memtable>>,
    frozen: Option<Arc<RwLock<Memtable>>>,
    view: Arc<dyn IndexView>,
    /// Sequence numbers of views in use. Entered under the read lock, so that no batch merges
    /// values away between the look-up and the entry.
    held: Mutex<BTreeMap<Seq, usize>>,
}

impl EmbeddedKv {
    /// Opens the engine on a journal and an index, and replays the records that the index lacks.
    /// Every batch in the journal, including those in the index already, is passed to `replayed`
    /// with its sequence number, in order. `replayed` may take the carry, which is dropped
    /// otherwise. Call it on a runtime, since the feeding task is started on it.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when records between the index and the journal are missing, or a
    /// record cannot be decoded; those of journal and index.
    pub async fn open(
        journal: Journal,
        mut recovery: Recovery,
        index: Arc<dyn Index>,
        config: EmbeddedConfig,
        mut replayed: impl FnMut(Seq, &mut Batch),
    ) -> Result<Self, Error> {
        let applied = index.applied();
        if recovery.floor() > applied {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "the journal begins after batch {}, the catalog index ends with {applied}: \
                     the disks with the newer index are away or damaged",
                    recovery.floor()
                ),
            ));
        }
        if recovery.end() < applied {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "the journal ends with batch {}, the catalog index holds {applied}: the disks \
                     with the newer journal are away or damaged",
                    recovery.end()
                ),
            ));
        }
        // What too few disks have of the index may be needed once more.
        let hold = journal.hold("index", index.kept().max(recovery.floor()));
        let mut layer = Memtable::default();
        let mut fed = applied;
        while let Some((seq, body)) = recovery.next().await? {
            // The journal's own mark of an accepted loss.
            if body.is_empty() {
                continue;
            }
            let mut batch = body::decode(&body)
                .map_err(|error| error.context(format!("journal record {seq}")))?;
            replayed(seq, &mut batch);
            batch.carry = None;
            if seq > fed {
                keep_changes(&config, seq, &mut batch);
                layer.apply(seq, batch, seq);
                layer.count_record(body.len());
            }
            if config.is_large(&layer) {
                let upto = layer.last();
                flush::apply(&*index, &*index.view(), &layer, upto).await?;
                layer = Memtable::default();
                fed = upto;
            }
        }
        hold.advance(index.kept());
        drop(recovery);
        let (closing, closed) = watch::channel(false);
        let inner = Arc::new(Inner {
            journal,
            hold,
            config,
            state: RwLock::new(State {
                active: Arc::new(RwLock::new(layer)),
                frozen: None,
                view: index.view(),
                held: Mutex::default(),
            }),
            index,
            fed: Notify::new(),
            wanted: Notify::new(),
            refused: Mutex::default(),
            closing,
        });
        // Nobody may be able to commit before some of it is fed.
        inner.freeze_if_large(&mut inner.state.write());
        tokio::spawn(flush::run(Arc::downgrade(&inner), closed));
        Ok(Self { inner })
    }

    /// The journal below.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// Feeds all durable changes to the index and closes the journal, so that the next opening has
    /// nothing to replay. Nothing can be committed afterwards.
    ///
    /// # Errors
    /// Those of index and journal. Acknowledged changes are safe in any case.
    pub async fn close(&self, patience: Duration) -> Result<(), Error> {
        let fed = tokio::time::timeout(patience, self.feed_all()).await;
        // Nobody listening means that the feeding task has ended already.
        let _ = self.inner.closing.send(true);
        self.inner.journal.close(patience).await?;
        fed.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Timeout,
                "the catalog index was not fed in time",
            ))
        })
    }

    /// Feeds everything that was committed so far to the index.
    ///
    /// # Errors
    /// Those of the index.
    pub async fn feed_all(&self) -> Result<(), Error> {
        self.inner.freeze_and_wait().await
    }

    async fn commit_batch(&self, batch: Batch) -> Result<Seq, CommitError> {
        let seq = match self.append_batch(batch).await {
            Ok(seq) => seq,
            Err(CommitError::Failed(error)) => return Err(error.unchanged().into()),
            Err(conflict) => return Err(conflict),
        };
        // What fails from here on may happen yet.
        self.inner.journal.durable(seq).await?;
        Ok(seq)
    }

    /// Puts a batch at the end of the log. An error means that it is not there.
    async fn append_batch(&self, mut batch: Batch) -> Result<Seq, CommitError> {
        batch.check()?;
        let inner = &*self.inner;
        inner.wait_for_room().await?;
        let pieces = body::encode(&batch);
        let len = pieces.iter().map(Bytes::len).sum();
        let room = match (batch.seals, batch.frees) {
            (true, _) => LogReserve::Last,
            (false, true) => LogReserve::Reserve,
            (false, false) => LogReserve::Ordinary,
        };
        let permit = match inner.journal.admit(len, room).await {
            Ok(permit) => permit,
            Err(error) => {
                // No commit comes to it then, and what is not fed may be what fills the journal.
                inner.freeze_if_large(&mut inner.state.write());
                return Err(error.into());
            }
        };
        batch.carry = None;
        let require = std::mem::take(&mut batch.require);
        let mut prepared = AdmittedBatch {
            batch,
            pieces,
            permit,
        };
        loop {
            let ahead = inner.read_ahead(&require).await?;
            match inner.append(&require, &ahead, prepared)? {
                AppendOutcome::Done(seq) => return Ok(seq),
                AppendOutcome::Collided { at, with } => {
                    dewar_env::coverage_mark("a commit collided");
                    // A retry must see what it collided with.
                    inner.journal.durable(with).await?;
                    return Err(CommitError::Conflict(at));
                }
                AppendOutcome::Moved(again) => {
                    dewar_env::coverage_mark("the index was fed under a commit");
                    prepared = again;
                }
            }
        }
    }
}

/// A batch with its room in the journal.
struct AdmittedBatch {
    batch: Batch,
    pieces: Vec<Bytes>,
    permit: Permit,
}

enum AppendOutcome {
    Done(Seq),
    /// A precondition does not hold, because of a batch.
    Collided {
        at: usize,
        with: Seq,
    },
    /// The index was fed since the entries were read ahead; read them again.
    Moved(AdmittedBatch),
}

impl Inner {
    /// The last sequence that reads show.
    fn visible(&self) -> Seq {
        if dewar_env::safeguard("only what is durable is shown") {
            self.journal.durable_seq()
        } else {
            self.journal.last_seq()
        }
    }

    /// The one short lock: judges, appends, and puts the changes into the overlay.
    fn append(
        &self,
        require: &[Precondition],
        ahead: &IndexPrefetch,
        prepared: AdmittedBatch,
    ) -> Result<AppendOutcome, Error> {
        let mut state = self.state.write();
        if !ahead.current(&state) {
            return Ok(AppendOutcome::Moved(prepared));
        }
        let mut active = state.active.write();
        if dewar_env::safeguard("preconditions of batches")
            && let Err((at, with)) =
                precondition::judge(require, &active, state.frozen.as_deref(), ahead)
        {
            return Ok(AppendOutcome::Collided { at, with });
        }
        let AdmittedBatch {
            mut batch,
            pieces,
            permit,
        } = prepared;
        let seq = self.journal.append(permit, &pieces)?;
        if !dewar_env::safeguard("the journal is kept for the index") {
            self.hold.advance(seq.saturating_sub(1));
        }
        keep_changes(&self.config, seq, &mut batch);
        active.apply(seq, batch, state.floor(self.journal.durable_seq()));
        active.count_record(pieces.iter().map(Bytes::len).sum());
        drop(active);
        self.freeze_if_large(&mut state);
        Ok(AppendOutcome::Done(seq))
    }

    /// Has the active layer fed when it is large or holds much of the journal.
    fn freeze_if_large(&self, state: &mut State) {
        if state.frozen.is_some() {
            return;
        }
        let large = {
            let active = state.active.read();
            let held = || self.journal.share_after(state.view.applied());
            self.config.is_large(&active) || (active.len() > 0 && held() > JOURNAL_SHARE_MAX)
        };
        if large {
            state.freeze();
            self.wanted.notify_one();
        }
    }
}

impl State {
    /// What all readers, now and later, can see.
    fn floor(&self, durable: Seq) -> Seq {
        let held = self.held.lock();
        held.keys()
            .next()
            .map_or(durable, |held| (*held).min(durable))
    }

    fn freeze(&mut self) {
        self.frozen = Some(std::mem::take(&mut self.active));
    }
}

impl KvRead for EmbeddedKv {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        // Looked up at once, so that what is in memory costs no second poll and no layer is kept.
        let inner = &*self.inner;
        let (at, known, view) = {
            let state = inner.state.read();
            // Read under the lock: the index never holds what is beyond it.
            let at = inner.visible().max(state.view.applied());
            let known = read::look(&state.active, state.frozen.as_deref(), key, at);
            if known.complete() {
                let value = known.over(None);
                return Box::pin(std::future::ready(Ok(ReadValue { value, seq: at })));
            }
            (at, known, Arc::clone(&state.view))
        };
        match view.get_now(key) {
            Some(below) => {
                let read = below.map(|below| ReadValue {
                    value: known.over(below),
                    seq: at,
                });
                Box::pin(std::future::ready(read))
            }
            None => Box::pin(async move {
                let below = view.get(key).await?;
                Ok(ReadValue {
                    value: known.over(below),
                    seq: at,
                })
            }),
        }
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        let snapshot = self.hold_moment();
        Box::pin(async move { snapshot.layers.scan(scan).await })
    }
}

impl Kv for EmbeddedKv {
    fn snapshot(&self) -> Arc<dyn KvRead> {
        Arc::new(self.hold_moment())
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<Seq, CommitError>> {
        Box::pin(self.commit_batch(batch))
    }

    fn last_sequence(&self) -> Seq {
        self.inner.journal.last_seq()
    }

    fn changes(&self, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>> {
        Box::pin(async move {
            if !self.inner.config.keep_changes {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "the change log is not kept",
                ));
            }
            self.changes_after(after, limit).await
        })
    }
}

impl EmbeddedKv {
    /// The last durable moment, held: nothing that can be seen at it is folded away.
    fn hold_moment(&self) -> Snapshot {
        let state = self.inner.state.read();
        let layers = self.inner.layers_of(&state);
        *state.held.lock().entry(layers.at).or_default() += 1;
        drop(state);
        Snapshot {
            inner: Arc::clone(&self.inner),
            layers,
        }
    }

    async fn changes_after(&self, after: Seq, limit: usize) -> Result<Vec<(Seq, Bytes)>, Error> {
        let snapshot = self.snapshot();
        let mut from = change_key(after + 1, 0);
        let mut found: Vec<(Seq, Bytes)> = Vec::new();
        let mut batches = 0;
        loop {
            let scan = Scan {
                from: &from,
                to: &[CHANGE_LOG + 1],
                limit: 256,
                reverse: false,
            };
            let page = snapshot.scan(scan).await?;
            for (key, value) in &page.pairs {
                let seq = key
                    .get(1..9)
                    .and_then(|seq| seq.try_into().ok())
                    .map(u64::from_be_bytes);
                let Some(seq) = seq else { continue };
                if found.last().is_none_or(|(last, _)| *last != seq) {
                    batches += 1;
                }
                if batches > limit {
                    return Ok(found);
                }
                found.push((seq, value.clone()));
            }
            match page.pairs.last().filter(|_| page.more) {
                Some((last, _)) => {
                    from = last.to_vec();
                    from.push(0);
                }
                None => return Ok(found),
            }
        }
    }
}

/// A view that stays; keeps its layers and tells the engine what may not be folded away.
struct Snapshot {
    inner: Arc<Inner>,
    layers: Memtables,
}

impl KvRead for Snapshot {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        Box::pin(self.layers.get(key))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        Box::pin(self.layers.scan(scan))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let state = self.inner.state.read();
        let mut held = state.held.lock();
        if let Some(count) = held.get_mut(&self.layers.at) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.layers.at);
            }
        }
    }
}

fn change_key(seq: Seq, number: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(11);
    key.push(CHANGE_LOG);
    key.extend_from_slice(&seq.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Turns change-log records into keys where they are kept.
fn keep_changes(config: &EmbeddedConfig, seq: Seq, batch: &mut Batch) {
    let log = std::mem::take(&mut batch.log);
    if config.keep_changes {
        let keyed = log
            .into_iter()
            .zip(0..)
            .map(|(record, number)| (Bytes::from(change_key(seq, number)), record));
        batch.puts.extend(keyed);
    }
}

impl std::fmt::Debug for EmbeddedKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedKv")
            .field("journal", &self.inner.journal)
            .finish_non_exhaustive()
    }
}
