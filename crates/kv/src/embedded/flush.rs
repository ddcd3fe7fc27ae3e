//! Feeding the index: a frozen layer becomes one sorted batch.

use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_types::{Error, ErrorKind};
use tokio::sync::watch;

use super::Inner;
use super::memtable::Memtable;
use crate::Seq;
use crate::index::{Index, IndexView};

/// Pause after a feeding that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long a commit waits while the overlay is too large.
pub(super) const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);

/// Keys turned into entries before the thread is given to others for a moment.
const YIELD_EVERY: usize = 1024;

/// The feeding task: ends when the engine is closed or gone.
pub(super) async fn run(inner: Weak<Inner>, mut closed: watch::Receiver<bool>) {
    loop {
        let Some(engine) = inner.upgrade() else {
            return;
        };
        let wanted = async {
            engine.wanted.notified().await;
        };
        tokio::select! {
            biased;
            // An error means that the engine is gone.
            _ = closed.wait_for(|closed| *closed) => return,
            () = wanted => {}
            // Looked at now and then, so that a dropped engine does not live on in this task.
            () = tokio::time::sleep(RETRY_AFTER) => {
                // Copies of the index that an opening lacked may be there now.
                engine.hold.advance(engine.index.kept());
                continue;
            }
        }
        while let Err(error) = engine.feed_frozen().await {
            tracing::warn!(%error, "the catalog index could not be fed; trying again");
            *engine.refused.lock() = Some((error.kind(), error.to_string()));
            tokio::time::sleep(RETRY_AFTER).await;
            if *closed.borrow() {
                return;
            }
        }
    }
}

impl Inner {
    /// Feeds the frozen layer, if there is one.
    async fn feed_frozen(&self) -> Result<(), Error> {
        let Some(frozen) = self.state.read().frozen.clone() else {
            return Ok(());
        };
        let (upto, view) = (frozen.read().last(), Arc::clone(&self.state.read().view));
        // The index must not hold what could still be lost.
        self.journal.durable(upto).await?;
        let newest = frozen.read().newest();
        let entries = entries(&*view, &newest).await?;
        self.index.apply(entries, upto).await?;
        {
            let mut state = self.state.write();
            state.view = self.index.view();
            state.frozen = None;
            // Commits that wait for room in the journal do not get to say so.
            self.freeze_if_large(&mut state);
        }
        *self.refused.lock() = None;
        self.hold.advance(self.index.kept());
        self.fed.notify_waiters();
        Ok(())
    }

    /// Waits while the overlay is too large.
    ///
    /// # Errors
    /// `NoSpace` when it stays so for [`ROOM_WAIT_MAX`] because disks have no room for the index, `Busy`
    /// when for another reason.
    pub(super) async fn wait_for_room(&self) -> Result<(), Error> {
        let waited = tokio::time::timeout(ROOM_WAIT_MAX, self.room()).await;
        if waited.is_ok() {
            return Ok(());
        }
        dewar_env::coverage_mark("a commit waited for the index in vain");
        let (kind, why) = match self.refused.lock().clone() {
            Some((ErrorKind::NoSpace, why)) => (ErrorKind::NoSpace, why),
            Some((_, why)) => (ErrorKind::Busy(ROOM_WAIT_MAX), why),
            None => (ErrorKind::Busy(ROOM_WAIT_MAX), "it is slow".to_owned()),
        };
        let message = format!("the catalog index does not take what was committed: {why}");
        Err(Error::new(kind, message))
    }

    async fn room(&self) {
        loop {
            let fed = self.fed.notified();
            tokio::pin!(fed);
            // Registered before the look, so that a feeding in between is not missed.
            fed.as_mut().enable();
            {
                let state = self.state.read();
                let Some(frozen) = &state.frozen else { return };
                let bytes = frozen.read().bytes() + state.active.read().bytes();
                if bytes < self.config.overlay_bytes_max {
                    return;
                }
            }
            fed.await;
        }
    }

    /// Has everything committed so far fed.
    pub(super) async fn freeze_and_wait(&self) -> Result<(), Error> {
        let target = {
            let state = self.state.read();
            let frozen = state.frozen.as_ref().map_or(0, |layer| layer.read().last());
            state.active.read().last().max(frozen)
        };
        loop {
            let fed = self.fed.notified();
            tokio::pin!(fed);
            fed.as_mut().enable();
            {
                let mut state = self.state.write();
                if state.view.applied() >= target {
                    return Ok(());
                }
                if state.frozen.is_none() {
                    state.freeze();
                }
            }
            self.wanted.notify_one();
            fed.await;
        }
    }
}

/// Feeds a layer that nobody else sees, at recovery.
pub(super) async fn apply(
    index: &dyn Index,
    view: &dyn IndexView,
    layer: &Memtable,
    upto: Seq,
) -> Result<(), Error> {
    let entries = entries(view, &layer.newest()).await?;
    index.apply(entries, upto).await
}

/// The newest value of each key; sums are completed from the index.
async fn entries(
    view: &dyn IndexView,
    newest: &[(bytes::Bytes, super::memtable::MemtableLookup)],
) -> Result<Vec<crate::index::Entry>, Error> {
    let mut entries = Vec::with_capacity(newest.len());
    for (number, (key, known)) in newest.iter().enumerate() {
        let below = if known.complete() {
            None
        } else {
            view.get(key).await?
        };
        entries.push((key.clone(), known.clone().over(below)));
        if number % YIELD_EVERY == YIELD_EVERY - 1 {
            tokio::task::yield_now().await;
        }
    }
    Ok(entries)
}
