//! Uploads whose connection broke, kept until their clients go on with them or the time for that is over.
//!
//! A client that loses the connection to a file which it writes opens the file anew by itself and sends again what
//! was not acknowledged. What was acknowledged stands in the file's writer, so the client gets that very one back:
//! who is the same user of this server, opens the same path and says to be the same process on the same host.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_types::UserId;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Claimed, Writer};
use crate::limits::{INTERRUPTED_MAX, INTERRUPTED_OF_USER_MAX};

/// Whose an upload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) path: String,
    pub(crate) owner: UserId,
    pub(crate) client: Claimed,
}

struct Upload {
    whose: Whose,
    writer: Arc<Writer>,
    until: Instant,
}

/// See the module.
pub(crate) struct Interrupted {
    keep: Duration,
    /// The oldest first.
    uploads: Mutex<VecDeque<Upload>>,
    own: Weak<Self>,
}

impl Interrupted {
    /// Keeps each for so long; none with zero.
    pub(crate) fn new(keep: Duration) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            keep,
            uploads: Mutex::default(),
            own: Weak::clone(own),
        })
    }

    /// Keeps an upload. Where there are too many, of its user or in all, the oldest is given up.
    pub(crate) fn leave(&self, whose: Whose, writer: Arc<Writer>) {
        if self.keep.is_zero() {
            return;
        }
        let mut uploads = self.uploads.lock();
        let of_user = |upload: &Upload| upload.whose.owner == whose.owner;
        if uploads.iter().filter(|upload| of_user(upload)).count() >= INTERRUPTED_OF_USER_MAX {
            let oldest = uploads.iter().position(of_user);
            oldest.map(|oldest| uploads.remove(oldest));
        }
        if uploads.len() >= INTERRUPTED_MAX {
            uploads.pop_front();
        }
        if uploads.is_empty() {
            tokio::spawn(give_up_in_time(Weak::clone(&self.own), self.keep));
        }
        uploads.push_back(Upload {
            whose,
            writer,
            until: Instant::now() + self.keep,
        });
    }

    /// The one that is there of this client; of several nobody knows which is meant.
    pub(crate) fn find(&self, whose: &Whose) -> Option<Arc<Writer>> {
        let uploads = self.uploads.lock();
        let mut own = uploads.iter().filter(|upload| upload.whose == *whose);
        match (own.next(), own.next()) {
            (Some(upload), None) => Some(Arc::clone(&upload.writer)),
            _ => None,
        }
    }

    /// Takes one; false if it is not there any more.
    pub(crate) fn take(&self, writer: &Arc<Writer>) -> bool {
        let mut uploads = self.uploads.lock();
        let before = uploads.len();
        uploads.retain(|upload| !Arc::ptr_eq(&upload.writer, writer));
        uploads.len() < before
    }

    /// Whether there are none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.uploads.lock().is_empty()
    }

    /// Gives up those whose time is over, and says when the next one's is.
    fn give_up(&self) -> Option<Instant> {
        let mut uploads = self.uploads.lock();
        let now = Instant::now();
        while uploads.front().is_some_and(|oldest| oldest.until <= now) {
            uploads.pop_front();
        }
        uploads.front().map(|oldest| oldest.until)
    }
}

/// Runs as long as there are any.
async fn give_up_in_time(interrupted: Weak<Interrupted>, keep: Duration) {
    let mut until = Instant::now() + keep;
    loop {
        tokio::time::sleep_until(until).await;
        match interrupted.upgrade().and_then(|them| them.give_up()) {
            Some(next) => until = next,
            None => return,
        }
    }
}
