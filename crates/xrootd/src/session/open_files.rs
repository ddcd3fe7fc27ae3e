//! Memory of open files: bounded for an account, and for all of them together.
//!
//! A file that is written keeps small content, or a window of large content, until its close. A
//! file that is read keeps the places of its pieces. Both hold a lease for that memory from their
//! open on. An account whose leases are as large as the free memory gets no further lease. A single
//! account therefore gets half of the memory, and an account that comes late still gets some.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use dewar_store::ContentReader;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::tpc::fair_share::ShareOwner;

/// How many files an account may write, and how much memory open files may hold.
pub(crate) struct OpenFiles {
    writers_max: usize,
    bytes_max: usize,
    leases: Mutex<Leases>,
    released: Notify,
}

#[derive(Default)]
struct Leases {
    bytes: usize,
    by: BTreeMap<ShareOwner, AccountLeases>,
}

/// Those of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccountLeases {
    files: usize,
    writers: usize,
    bytes: usize,
}

/// Why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The account writes as many files as it may.
    Writers(usize),
    /// The account holds as much memory as is free.
    Memory,
}

/// The memory of an open file, until this is dropped.
pub(crate) struct FileLease {
    files: Arc<OpenFiles>,
    of: ShareOwner,
    writes: bool,
    bytes: usize,
}

impl OpenFiles {
    /// At most `writers_max` files that one account writes, and `bytes_max` bytes in all.
    pub(crate) fn new(writers_max: usize, bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            writers_max,
            bytes_max,
            leases: Mutex::default(),
            released: Notify::new(),
        })
    }

    /// A lease for a file that is going to be written, of so many bytes of memory.
    ///
    /// # Errors
    /// The account has too many, or too little memory is free.
    pub(crate) fn writer(
        self: &Arc<Self>,
        of: &ShareOwner,
        bytes: usize,
    ) -> Result<FileLease, Shortage> {
        self.lease(of, true, bytes)
    }

    /// The same for a file that is read.
    ///
    /// # Errors
    /// Too little memory is free.
    pub(crate) fn reader(
        self: &Arc<Self>,
        of: &ShareOwner,
        bytes: usize,
    ) -> Result<FileLease, Shortage> {
        self.lease(of, false, bytes)
    }

    fn lease(
        self: &Arc<Self>,
        of: &ShareOwner,
        writes: bool,
        bytes: usize,
    ) -> Result<FileLease, Shortage> {
        let mut leases = self.leases.lock();
        let mut own = leases.by.get(of).copied().unwrap_or_default();
        if writes && own.writers >= self.writers_max {
            return Err(Shortage::Writers(own.writers));
        }
        if !self.fits(&leases, own, bytes) {
            return Err(Shortage::Memory);
        }
        own.files += 1;
        own.writers += usize::from(writes);
        own.bytes += bytes;
        leases.bytes += bytes;
        leases.by.insert(of.clone(), own);
        Ok(FileLease {
            files: Arc::clone(self),
            of: of.clone(),
            writes,
            bytes,
        })
    }

    /// Whether an account may hold so many bytes more. One that holds nothing gets what is free.
    fn fits(&self, leases: &Leases, own: AccountLeases, more: usize) -> bool {
        let free = self.bytes_max.saturating_sub(leases.bytes);
        more <= free && (own.bytes == 0 || own.bytes + more <= free - more)
    }

    /// Bytes that leases are held for.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.leases.lock().bytes
    }
}

impl FileLease {
    /// Makes it a lease of at least so many bytes; waits for memory to become free, up to `patience`.
    ///
    /// # Errors
    /// None did.
    pub(crate) async fn grow(&mut self, bytes: usize, patience: Duration) -> Result<(), Shortage> {
        if self.grow_now(bytes) {
            return Ok(());
        }
        let files = Arc::clone(&self.files);
        let grown = async {
            loop {
                let mut released = std::pin::pin!(files.released.notified());
                // Before the look: what is released from here on is not missed.
                released.as_mut().enable();
                if self.grow_now(bytes) {
                    return;
                }
                released.await;
            }
        };
        timeout(patience, grown).await.map_err(|_| Shortage::Memory)
    }

    fn grow_now(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return true;
        };
        let mut leases = self.files.leases.lock();
        let own = leases.by.get(&self.of).copied().unwrap_or_default();
        if !self.files.fits(&leases, own, more) {
            return false;
        }
        leases.bytes += more;
        if let Some(own) = leases.by.get_mut(&self.of) {
            own.bytes += more;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        let mut leases = self.files.leases.lock();
        leases.bytes -= self.bytes;
        if let Some(own) = leases.by.get_mut(&self.of) {
            own.files -= 1;
            own.writers -= usize::from(self.writes);
            own.bytes -= self.bytes;
            if own.files == 0 {
                leases.by.remove(&self.of);
            }
        }
        drop(leases);
        self.files.released.notify_waiters();
    }
}

/// A file that is read, with the lease of its memory.
pub(crate) struct LeasedFile {
    file: ContentReader,
    _lease: FileLease,
}

impl LeasedFile {
    pub(crate) fn new(file: ContentReader, lease: FileLease) -> Self {
        Self {
            file,
            _lease: lease,
        }
    }
}

impl Deref for LeasedFile {
    type Target = ContentReader;

    fn deref(&self) -> &ContentReader {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_so_many_writers_and_no_more_than_is_free() {
        let files = OpenFiles::new(3, 1000);
        let (ann, bob) = (ShareOwner::named("ann"), ShareOwner::named("bob"));
        let lease = |of, bytes| files.writer(of, bytes);
        let mut anns: Vec<_> = (0..3).map(|_| lease(&ann, 100).expect("free")).collect();
        assert_eq!(lease(&ann, 1).err(), Some(Shortage::Writers(3)));
        assert!(files.reader(&ann, 100).is_ok(), "reading is not counted");
        anns.pop();
        assert_eq!(lease(&ann, 700).err(), Some(Shortage::Memory));
        anns.push(lease(&ann, 300).expect("free"));
        assert_eq!(files.bytes(), 500);
        // Who has nothing gets all that is left, and not more.
        assert_eq!(lease(&bob, 501).err(), Some(Shortage::Memory));
        let bobs = lease(&bob, 500).expect("free");
        assert_eq!(lease(&ann, 0).err(), Some(Shortage::Writers(3)));
        drop((anns, bobs));
        assert_eq!(files.bytes(), 0);
        assert!(files.leases.lock().by.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_waits_to_grow() {
        let files = OpenFiles::new(9, 1000);
        let (ann, bob) = (ShareOwner::named("ann"), ShareOwner::named("bob"));
        let mut growing = files.writer(&ann, 100).expect("free");
        let held = files.writer(&bob, 800).expect("free");
        let patience = Duration::from_secs(10);
        assert_eq!(growing.grow(300, patience).await, Err(Shortage::Memory));
        let grown = growing.grow(300, patience);
        let released = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        assert_eq!(tokio::join!(grown, released).0, Ok(()));
        assert_eq!(files.bytes(), 300);
        // It never shrinks.
        growing.grow(5, patience).await.expect("is larger");
        assert_eq!(files.bytes(), 300);
    }
}
