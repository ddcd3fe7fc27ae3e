//! Files whose connection broke, in one table. An entry is parked when the connection breaks, claimed
//! when its client continues over another connection, and expires after `xrootd.resume_time`.
//!
//! A client that loses the connection to an open file opens it again without notice to its user. It
//! sends again the bytes that were not acknowledged, or continues to read. Acknowledged bytes are
//! in the file's writer, so the client gets the same writer back. A reader gets back the version
//! that it was reading, even if the name has another one by now. The client must be the same user
//! of this server or the same person of an issuer, with the same credential, from the same address.
//! It must open the same path, and claim to be the same process on the same host.
//!
//! The table remembers the version of a file that was read for longer than it keeps this version
//! readable. A client that comes back later is then refused, instead of mixing two versions.

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

/// Longest time between two searches for expired entries.
const EXPIRY_INTERVAL_MAX: Duration = Duration::from_secs(30);

/// The user that opened a file. All logins of an issuer may share one account, and all users of an
/// account do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOwner {
    /// The account of the file.
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
    /// The user or person whose share of its account an entry takes, whatever the credential.
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

/// The client, path and owner of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFileKey {
    pub(crate) path: String,
    pub(crate) owner: FileOwner,
    pub(crate) client: ClientInfo,
    pub(crate) address: IpAddr,
}

/// A version that was being read, and the open file until that expires.
pub(crate) type InterruptedRead = (VersionId, Option<Arc<LeasedFile>>);

/// An open file without a connection.
pub(crate) enum InterruptedFile {
    /// An upload, with its acknowledged bytes.
    Upload(Arc<Writer>),
    /// A file that was being read.
    Read(InterruptedRead),
}

impl InterruptedFile {
    fn is_upload(&self) -> bool {
        matches!(self, Self::Upload(_))
    }

    /// The largest numbers of such files in all and of one account.
    fn limits(&self) -> (usize, usize) {
        match self {
            Self::Upload(_) => (INTERRUPTED_MAX, INTERRUPTED_OF_USER_MAX),
            Self::Read(_) => (INTERRUPTED_READS_MAX, INTERRUPTED_READS_OF_USER_MAX),
        }
    }
}

struct Entry {
    key: ClientFileKey,
    file: InterruptedFile,
    since: Instant,
}

#[derive(Default)]
struct Table {
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// Whether a task removes expired entries.
    has_sweeper: bool,
}

/// See the module.
pub(crate) struct InterruptedFiles {
    keep: Duration,
    table: Mutex<Table>,
    own: Weak<Self>,
}

impl InterruptedFiles {
    /// Keeps open files for `keep`. With zero it keeps none, and only remembers the versions that were read.
    pub(crate) fn new(keep: Duration) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            keep,
            table: Mutex::default(),
            own: Weak::clone(own),
        })
    }

    /// Keeps a file for its client. If there are too many in all, the oldest is dropped. If its account has too
    /// many, the oldest of the user or person with most of them is dropped.
    pub(crate) fn park(&self, key: ClientFileKey, mut file: InterruptedFile) {
        if self.keep.is_zero() {
            match &mut file {
                InterruptedFile::Upload(_) => return,
                InterruptedFile::Read((_, file)) => *file = None,
            }
        }
        let mut table = self.table.lock();
        table.make_room(&key.owner, &file);
        let since = Instant::now();
        table.entries.push_back(Entry { key, file, since });
        if !std::mem::replace(&mut table.has_sweeper, true) {
            tokio::spawn(sweep(Weak::clone(&self.own)));
        }
    }

    /// The upload of this client; none if it has several of this path.
    pub(crate) fn upload(&self, key: &ClientFileKey) -> Option<Arc<Writer>> {
        let mut table = self.table.lock();
        table.expire(self.keep);
        let mut own = table.entries.iter().filter_map(|entry| match &entry.file {
            InterruptedFile::Upload(writer) if entry.key == *key => Some(writer),
            _ => None,
        });
        match (own.next(), own.next()) {
            (Some(writer), None) => Some(Arc::clone(writer)),
            _ => None,
        }
    }

    /// Takes an upload out of the table; false if it is not there any more.
    pub(crate) fn claim(&self, claimed: &Arc<Writer>) -> bool {
        let is_it = |entry: &Entry| matches!(&entry.file, InterruptedFile::Upload(writer) if Arc::ptr_eq(writer, claimed));
        self.table.lock().remove(is_it)
    }

    /// Drops what a client uploaded to a path before it began the upload again.
    pub(crate) fn drop_uploads(&self, key: &ClientFileKey) {
        let mut table = self.table.lock();
        table
            .entries
            .retain(|entry| !entry.file.is_upload() || entry.key != *key);
    }

    /// The versions that this client was reading.
    pub(crate) fn reads(&self, key: &ClientFileKey) -> Vec<InterruptedRead> {
        let mut table = self.table.lock();
        table.expire(self.keep);
        let own = table.entries.iter().filter_map(|entry| match &entry.file {
            InterruptedFile::Read(read) if entry.key == *key => Some(read.clone()),
            _ => None,
        });
        own.collect()
    }

    /// Removes one entry of a client that reads this version. False if there is none.
    pub(crate) fn forget_read(&self, key: &ClientFileKey, version: VersionId) -> bool {
        let is_it = |entry: &Entry| matches!(&entry.file, InterruptedFile::Read((its, _)) if *its == version && entry.key == *key);
        self.table.lock().remove(is_it)
    }

    /// Removes expired entries. Returns the time until the next sweep; `None` if the table is empty.
    fn sweep_once(&self) -> Option<Duration> {
        let mut table = self.table.lock();
        table.expire(self.keep);
        table.has_sweeper = !table.entries.is_empty();
        let interval = match self.keep.is_zero() {
            true => EXPIRY_INTERVAL_MAX,
            false => self.keep.min(EXPIRY_INTERVAL_MAX),
        };
        table.has_sweeper.then_some(interval)
    }

    /// Whether there are no uploads.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let mut table = self.table.lock();
        table.expire(self.keep);
        !table.entries.iter().any(|entry| entry.file.is_upload())
    }
}

impl Table {
    /// Removes the oldest entry that matches; false if there is none.
    fn remove(&mut self, matches: impl Fn(&Entry) -> bool) -> bool {
        let index = self.entries.iter().position(matches);
        index.and_then(|index| self.entries.remove(index)).is_some()
    }

    /// Drops uploads and open files older than `keep`, and forgets versions after their time.
    fn expire(&mut self, keep: Duration) {
        let now = Instant::now();
        self.entries.retain_mut(|entry| match &mut entry.file {
            InterruptedFile::Upload(_) => entry.since + keep > now,
            InterruptedFile::Read((_, file)) => {
                if entry.since + keep <= now {
                    *file = None;
                }
                entry.since + INTERRUPTED_READS_TIME > now
            }
        });
    }

    /// Removes what [`InterruptedFiles::park`] says to make room for one more file.
    fn make_room(&mut self, owner: &FileOwner, new: &InterruptedFile) {
        let (all, of_account) = new.limits();
        let same = |entry: &&Entry| entry.file.is_upload() == new.is_upload();
        let mut counts = BTreeMap::from([(owner.holder(), 1_usize)]);
        let (mut count, mut own) = (0, 0);
        for entry in self.entries.iter().filter(same) {
            count += 1;
            if entry.key.owner.account == owner.account {
                own += 1;
                *counts.entry(entry.key.owner.holder()).or_default() += 1;
            }
        }
        if own >= of_account {
            let most = counts.iter().max_by_key(|(_, count)| **count);
            let most = most
                .map(|((user, person), _)| (user.map(str::to_owned), person.map(str::to_owned)));
            let is_of_most = |entry: &Entry| {
                let (user, person) = entry.key.owner.holder();
                same(&entry)
                    && entry.key.owner.account == owner.account
                    && most.as_ref().is_some_and(|most| {
                        (most.0.as_deref(), most.1.as_deref()) == (user, person)
                    })
            };
            self.remove(is_of_most);
        } else if count >= all {
            self.remove(|entry| same(&entry));
        }
    }
}

/// Removes expired entries as long as there are any.
async fn sweep(interrupted: Weak<InterruptedFiles>) {
    while let Some(interval) = interrupted.upgrade().and_then(|files| files.sweep_once()) {
        tokio::time::sleep(interval).await;
    }
}
