//! Files whose connection broke. They are kept until their clients continue or the time limit is
//! over.
//!
//! A client that loses the connection to an open file opens it again without notice to its user. It
//! sends again the bytes that were not acknowledged, or continues to read. Acknowledged bytes are
//! in the file's writer, so the client gets the same writer back. A reader gets back the version
//! that it was reading, even if the name has another one by now. The client must be the same user
//! of this server or the same person of an issuer, with the same credential, from the same address.
//! It must open the same path, and claim to be the same process on the same host.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_auth::{Bounds, Caller, User};
use dewar_types::{UserId, VersionId};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ClientInfo, LeasedFile, Writer};
use crate::limits::{
    INTERRUPTED_MAX, INTERRUPTED_OF_USER_MAX, INTERRUPTED_READS_MAX, INTERRUPTED_READS_OF_USER_MAX,
    INTERRUPTED_READS_TIME,
};

/// Who opened a file. All logins of an issuer may have one account, and all users of an account do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOwner {
    /// The account, whose the file is.
    pub(crate) account: UserId,
    /// The user.
    user: Option<String>,
    /// The person for whom an issuer vouches, also if the issuer maps several of them to one user.
    person: Option<String>,
    /// The key, session or macaroon. Bearer tokens of issuers are not told apart: clients renew them
    /// while they write.
    credential: Option<Arc<str>>,
}

impl FileOwner {
    /// Whose share of what is kept for the account a file takes, whatever the credential.
    fn holder(&self) -> (Option<&str>, Option<&str>) {
        (self.user.as_deref(), self.person.as_deref())
    }

    pub(crate) fn of(caller: &Caller) -> Self {
        let credential = caller.credential().cloned();
        let person = caller.bounds().filter(|bounds| bounds.provider.is_some());
        Self {
            account: caller.account(),
            user: caller.user().map(User::unique_id),
            person: person.map(Bounds::vouched_for),
            credential: credential.filter(|name| !name.starts_with("token:")),
        }
    }
}

/// Whose an open file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFileKey {
    pub(crate) path: String,
    pub(crate) owner: FileOwner,
    pub(crate) client: ClientInfo,
    pub(crate) address: IpAddr,
}

/// A version that was being read, and the open file as long as that is kept.
pub(crate) type InterruptedRead = (VersionId, Option<Arc<LeasedFile>>);

struct Upload {
    whose: ClientFileKey,
    writer: Arc<Writer>,
    since: Instant,
}

struct Read {
    whose: ClientFileKey,
    /// Keeps the version that the client read readable.
    file: Option<Arc<LeasedFile>>,
    version: VersionId,
    since: Instant,
}

/// The oldest first.
#[derive(Default)]
struct RetainedFiles {
    uploads: VecDeque<Upload>,
    reads: VecDeque<Read>,
    /// Whether a task removes expired entries.
    swept: bool,
}

/// See the module.
pub(crate) struct InterruptedFiles {
    keep: Duration,
    kept: Mutex<RetainedFiles>,
    own: Weak<Self>,
}

impl InterruptedFiles {
    /// Keeps open files for so long; none with zero.
    pub(crate) fn new(keep: Duration) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            keep,
            kept: Mutex::default(),
            own: Weak::clone(own),
        })
    }

    /// Keeps an upload. Where there are too many in all, the oldest is given up. Where its account has too many,
    /// the oldest is given up of whoever has most of them in the account.
    pub(crate) fn leave(&self, whose: ClientFileKey, writer: Arc<Writer>) {
        if self.keep.is_zero() {
            return;
        }
        let mut kept = self.kept.lock();
        make_room(
            &mut kept.uploads,
            (INTERRUPTED_MAX, INTERRUPTED_OF_USER_MAX),
            &whose.owner,
            |upload| &upload.whose.owner,
        );
        kept.uploads.push_back(Upload {
            whose,
            writer,
            since: Instant::now(),
        });
        self.sweep(&mut kept);
    }

    /// Keeps what is being read, and remembers for longer which version it was. Of too many, as of uploads, the
    /// oldest are forgotten.
    pub(crate) fn leave_read(&self, whose: ClientFileKey, file: Arc<LeasedFile>) {
        let mut kept = self.kept.lock();
        make_room(
            &mut kept.reads,
            (INTERRUPTED_READS_MAX, INTERRUPTED_READS_OF_USER_MAX),
            &whose.owner,
            |read| &read.whose.owner,
        );
        kept.reads.push_back(Read {
            whose,
            version: file.info.version,
            file: (!self.keep.is_zero()).then_some(file),
            since: Instant::now(),
        });
        self.sweep(&mut kept);
    }

    /// The upload that is there of this client; of several nobody knows which is meant.
    pub(crate) fn find(&self, whose: &ClientFileKey) -> Option<Arc<Writer>> {
        let kept = self.kept.lock();
        let mut own = kept.uploads.iter().filter(|upload| upload.whose == *whose);
        match (own.next(), own.next()) {
            (Some(upload), None) => Some(Arc::clone(&upload.writer)),
            _ => None,
        }
    }

    /// Takes an upload; false if it is not there any more.
    pub(crate) fn take(&self, writer: &Arc<Writer>) -> bool {
        let mut kept = self.kept.lock();
        let before = kept.uploads.len();
        kept.uploads
            .retain(|upload| !Arc::ptr_eq(&upload.writer, writer));
        kept.uploads.len() < before
    }

    /// Gives up what a client began before it began anew.
    pub(crate) fn give_up_uploads(&self, whose: &ClientFileKey) {
        let mut kept = self.kept.lock();
        kept.uploads.retain(|upload| upload.whose != *whose);
    }

    /// What this client was reading.
    pub(crate) fn reads(&self, whose: &ClientFileKey) -> Vec<InterruptedRead> {
        let kept = self.kept.lock();
        let own = kept.reads.iter().filter(|read| read.whose == *whose);
        own.map(|read| (read.version, read.file.clone())).collect()
    }

    /// One file of a client is not asked about any more. False if nothing is known of it.
    pub(crate) fn forget_read(&self, whose: &ClientFileKey, version: VersionId) -> bool {
        let mut kept = self.kept.lock();
        let is_it = |read: &Read| read.whose == *whose && read.version == version;
        let known = kept.reads.iter().position(is_it);
        known.and_then(|known| kept.reads.remove(known)).is_some()
    }

    /// Whether there are no uploads.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.lock().uploads.is_empty()
    }

    /// Sees to it that somebody gives up what gets too old.
    fn sweep(&self, kept: &mut RetainedFiles) {
        if !std::mem::replace(&mut kept.swept, true) {
            tokio::spawn(give_up_in_time(Weak::clone(&self.own), self.keep));
        }
    }

    /// Gives up what is too old, and says when to look again: at the latest when what is left from now on is too
    /// old; `None` if there is nothing, and nobody comes again.
    fn give_up(&self) -> Option<Instant> {
        let mut kept = self.kept.lock();
        let (now, keep) = (Instant::now(), self.keep);
        let old = |since: Instant, time: Duration| since + time <= now;
        while kept
            .uploads
            .front()
            .is_some_and(|upload| old(upload.since, keep))
        {
            kept.uploads.pop_front();
        }
        while kept
            .reads
            .front()
            .is_some_and(|read| old(read.since, INTERRUPTED_READS_TIME))
        {
            kept.reads.pop_front();
        }
        let mut open = kept.reads.iter_mut().filter(|read| read.file.is_some());
        let mut next = open.find_map(|read| {
            if old(read.since, keep) {
                read.file = None;
                return None;
            }
            Some(read.since + keep)
        });
        let oldest = kept.uploads.front().map(|upload| upload.since + keep);
        let known = kept.reads.front();
        let known = known.map(|read| read.since + INTERRUPTED_READS_TIME);
        for other in [oldest, known].into_iter().flatten() {
            next = Some(next.map_or(other, |next| next.min(other)));
        }
        kept.swept = next.is_some();
        match keep.is_zero() {
            true => next,
            false => next.map(|next| next.min(now + keep)),
        }
    }
}

/// Makes room for one more of an account, so that there are at most as many in all and of the account. The oldest
/// of all goes, or in the account the oldest of the user or person who has most, the new one counted.
fn make_room<T>(
    kept: &mut VecDeque<T>,
    (all, own): (usize, usize),
    new: &FileOwner,
    owner: impl Fn(&T) -> &FileOwner,
) {
    let of_account = |one: &&T| owner(one).account == new.account;
    if kept.iter().filter(of_account).count() >= own {
        let mut counts = BTreeMap::from([(new.holder(), 1_usize)]);
        for one in kept.iter().filter(of_account) {
            *counts.entry(owner(one).holder()).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let oldest = most.and_then(|(most, _)| {
            let is_of = |one: &T| of_account(&one) && owner(one).holder() == most;
            kept.iter().position(is_of)
        });
        if let Some(oldest) = oldest {
            kept.remove(oldest);
        }
    }
    if kept.len() >= all {
        kept.pop_front();
    }
}

/// Runs as long as there is anything.
async fn give_up_in_time(interrupted: Weak<InterruptedFiles>, keep: Duration) {
    let mut until = Instant::now() + keep;
    loop {
        tokio::time::sleep_until(until).await;
        match interrupted.upgrade().and_then(|them| them.give_up()) {
            Some(next) => until = next,
            None => return,
        }
    }
}
