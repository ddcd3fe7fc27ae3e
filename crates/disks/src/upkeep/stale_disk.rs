//! Detection of old copies: whether a disk still has the content that it had when it was last seen.
//!
//! Somebody may put an earlier state of a disk back: a file system restored from a snapshot, an
//! image, a copy of the folder. Identity and anchor are right then, and later writes are missing.
//! So each disk keeps a *token*, a random number in a file beside its shards, and the catalog keeps
//! the same number. The token changes when a process first sees the disk, and each minute in which
//! shards were written. When a disk joins, the two numbers are compared. If they differ the disk is
//! *in doubt*: a shard on it counts only after it was read and found good. A pass of the scrub that
//! does so begins at once, at the rate of repair. Bad and missing shards are recorded, and
//! repaired.
//!
//! Shards written after the last change of the token are not covered by it. If the numbers agree,
//! these shards are looked up by name.
//!
//! # Crash cases
//! The file is changed first, and includes the former token. After a crash before the change of the
//! catalog, the former token in the file equals the one in the catalog, so the two agree. A commit
//! with an unknown result is tried again with the same token. The doubt is in the catalog before
//! the token of a disk in doubt is changed.
//!
//! Tokens belong to the journal's lineage. A catalog that was rebuilt or restored, or that has
//! accepted a loss, has none, and accepts each disk as it is. So does a catalog of an earlier
//! version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::pool::Member;
use bytes::Bytes;
use dewar_catalog::{keys, lineage_key};
use dewar_env::{Disk, DiskErrorKind, DiskState};
use dewar_kv::{Batch, CommitError};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result, Timestamp};
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use tokio::time::Instant;

use super::presence::{DOUBTED, FOLDER};
use super::scrub::ScrubProgress;
use crate::disks::Disks;

/// The kind of `D` record that holds a [`CatalogToken`].
pub(super) const TOKEN: u8 = b't';

/// The kind of `D` record that holds a [`StaleDisk`].
pub(super) const DOUBT: u8 = b'o';

/// The file with a disk's token.
const PATH: &str = "blobs/token";

/// Interval at which the token of a disk changes while shards are written. A change costs two syncs
/// of the disk and a record in the journal. Repairs within this interval cannot be detected as
/// missing in an old copy.
const CHANGE_EVERY: Duration = Duration::from_secs(60);

/// Pause after a change that failed.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A token that could not be read so often counts as another.
const UNREAD_MAX: u32 = 10;

type Token = ByteArray<16>;

/// The file on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct TokenFile {
    /// The token now.
    #[n(0)]
    now: Token,
    /// The token in the catalog when this one was written.
    #[n(1)]
    before: Option<Token>,
}

/// The catalog's record of a disk's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct CatalogToken {
    /// The lineage of the journal in which it was written.
    #[n(0)]
    lineage: Token,
    #[n(1)]
    token: Token,
    /// Blobs from here on were written after it.
    #[n(2)]
    below: BlobId,
}

/// That a disk was found to be an old copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct StaleDisk {
    /// When.
    #[n(0)]
    pub(super) since: Timestamp,
    /// Blobs from here on were written later, and passes that go beyond began later.
    #[n(1)]
    pub(super) below: BlobId,
}

/// The blobs of a disk in doubt that do not count yet, by ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnverifiedBlobs {
    pub(super) doubt: StaleDisk,
    pub(super) next: BlobId,
}

impl UnverifiedBlobs {
    pub(super) fn holds(&self, blob: BlobId) -> bool {
        (self.next..self.doubt.below).contains(&blob)
    }
}

/// The state of the tokens in this process.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    looked: BTreeMap<DiskId, TokenCheck>,
    /// Written to a disk, and perhaps to the catalog.
    proposed: BTreeMap<DiskId, Token>,
    unread: BTreeMap<DiskId, u32>,
}

/// A disk whose token was compared.
#[derive(Debug)]
struct TokenCheck {
    disk: Arc<dyn Disk>,
    returns: u32,
    tried: Option<Instant>,
    changed: Option<TokenChange>,
}

#[derive(Debug)]
struct TokenChange {
    at: Instant,
    /// A position that advances with every write.
    written: (BlobId, u64),
}

impl StaleDisk {
    /// The blobs of the disk that a pass has not verified.
    pub(super) fn left_by(self, progress: &ScrubProgress) -> UnverifiedBlobs {
        let next = match progress.began.is_some() && progress.below > self.below {
            true => progress.next,
            false => BlobId(0),
        };
        UnverifiedBlobs { doubt: self, next }
    }
}

fn corrupt(disk: DiskId, error: minicbor::decode::Error) -> Error {
    let what = format!("what is known of the token of disk {disk}");
    Error::with_source(ErrorKind::Corrupt, what, error)
}

pub(super) fn decode_doubt(disk: DiskId, value: &[u8]) -> Result<StaleDisk> {
    minicbor::decode(value).map_err(|error| corrupt(disk, error))
}

impl Disks {
    /// Whether the token of a disk was compared since it is there.
    pub(super) fn token_compared(&self, member: &Member, returns: u32) -> bool {
        let tokens = self.upkeep.tokens.lock();
        let looked = tokens.looked.get(&member.id);
        looked
            .is_some_and(|known| known.returns == returns && Arc::ptr_eq(&known.disk, &member.disk))
    }

    /// Disks that can be read and whose token has not been compared.
    pub(super) fn not_compared(&self) -> BTreeSet<DiskId> {
        let members = self.blobs.pool().members();
        let open = members.filter(|member| {
            let returns = member.disk.state().returns();
            returns.is_some_and(|returns| !self.token_compared(member, returns))
        });
        open.map(|member| member.id).collect()
    }

    /// Disks whose token this process has changed. An earlier copy of such a disk lacks later
    /// writes and can be detected.
    pub(super) fn settled(&self) -> BTreeSet<DiskId> {
        let tokens = self.upkeep.tokens.lock();
        let settled = |looked: &TokenCheck| looked.changed.is_some();
        let looked = tokens.looked.iter().filter(|(_, known)| settled(known));
        looked.map(|(disk, _)| *disk).collect()
    }

    /// The unverified blobs on disks in doubt.
    pub(super) fn unverified_blobs(&self) -> BTreeMap<DiskId, UnverifiedBlobs> {
        self.upkeep.unverified.lock().clone()
    }

    /// Compares a disk's token, once each time the disk appears.
    ///
    /// # Errors
    /// When the result is not known yet; it is tried again.
    pub(super) async fn look_at_token(&self, member: &Member) -> Result<()> {
        let Some(returns) = member.disk.state().returns() else {
            return Ok(());
        };
        let _one = self.upkeep.comparing.lock().await;
        if self.token_compared(member, returns) {
            return Ok(());
        }
        self.compare(member, returns).await?;
        let looked = TokenCheck {
            disk: Arc::clone(&member.disk),
            returns,
            tried: None,
            changed: None,
        };
        let mut tokens = self.upkeep.tokens.lock();
        tokens.unread.remove(&member.id);
        tokens.looked.insert(member.id, looked);
        Ok(())
    }

    async fn compare(&self, member: &Member, returns: u32) -> Result<()> {
        // Before the file: what is changed in between agrees.
        let Some(kept) = self.kept(member.id).await?.1 else {
            return Ok(());
        };
        let disk = &*member.disk;
        let agrees = match disk.read_file(PATH).await {
            Ok(bytes) => minicbor::decode::<TokenFile>(&bytes)
                .is_ok_and(|found| found.now == kept.token || found.before == Some(kept.token)),
            Err(error) if error.kind() == DiskErrorKind::NotFound => {
                // It went with the folder: what is left is looked for by name.
                let top = disk.list("").await?;
                let folder = top.iter().any(|entry| entry.is_dir && entry.name == FOLDER);
                !folder || self.lost_shard_dirs().contains(&member.id) || is_doubted(disk).await?
            }
            // What went away meanwhile says nothing.
            Err(error) if disk.state().returns() != Some(returns) => return Err(error.into()),
            Err(error) => {
                let mut tokens = self.upkeep.tokens.lock();
                let unread = tokens.unread.entry(member.id).or_default();
                *unread += 1;
                if *unread < UNREAD_MAX {
                    return Err(error.into());
                }
                false
            }
        };
        if agrees || !dewar_env::safeguard("tokens of disks") {
            let lost = self.note_absent(member, kept.below).await?;
            if lost > 0 {
                let disk = disk.label();
                tracing::warn!(
                    disk,
                    lost,
                    "what was written last to a disk is not there; it is written again"
                );
            }
            return Ok(());
        }
        self.doubt(member).await
    }

    /// Records that a disk is in doubt.
    async fn doubt(&self, member: &Member) -> Result<()> {
        let doubt = StaleDisk {
            since: self.env.clock.now(),
            below: self.catalog.ids().blob().await?,
        };
        // Writing into a vector cannot fail.
        let value = minicbor::to_vec(doubt).unwrap_or_default();
        let batch = Batch {
            puts: vec![(keys::disk(member.id, DOUBT), Bytes::from(value))],
            frees: true,
            ..Batch::default()
        };
        self.commit_token(batch).await?;
        let next = BlobId(0);
        let unverified = UnverifiedBlobs { doubt, next };
        self.upkeep.unverified.lock().insert(member.id, unverified);
        let disk = member.disk.label();
        tracing::warn!(
            disk,
            "a disk is not as it was left: an old copy of it was put back, or its token is damaged. \
             What is on it counts again as it is read and found good"
        );
        dewar_env::coverage_mark("a disk was found to be an old copy");
        self.upkeep.wake();
        Ok(())
    }

    /// A pass of the scrub verified a disk up to a blob.
    pub(super) fn verified(&self, disk: DiskId, pass_below: BlobId, next: BlobId) {
        if let Some(unverified) = self.upkeep.unverified.lock().get_mut(&disk)
            && pass_below > unverified.doubt.below
        {
            unverified.next = next;
        }
    }

    /// Ends a doubt: a pass that began after `doubt` has checked everything on the disk.
    pub(super) async fn end_doubt(&self, disk: DiskId, doubt: StaleDisk) -> Result<()> {
        let _one = self.upkeep.comparing.lock().await;
        let same = |at: Option<&UnverifiedBlobs>| at.is_some_and(|at| at.doubt == doubt);
        if !same(self.upkeep.unverified.lock().get(&disk)) {
            return Ok(());
        }
        let batch = Batch {
            deletes: vec![keys::disk(disk, DOUBT)],
            frees: true,
            ..Batch::default()
        };
        self.commit_token(batch).await?;
        self.upkeep.unverified.lock().remove(&disk);
        let folder = self.folder_of(disk);
        tracing::info!(folder, %disk, "all that is on a disk that was in doubt has been read");
        dewar_env::coverage_mark("a doubt was settled");
        self.upkeep.wake();
        Ok(())
    }

    /// Whether the token of a disk is to be changed now.
    pub(super) fn token_is_due(&self, member: &Member) -> bool {
        let DiskState::Online { returns } = member.disk.state() else {
            return false;
        };
        if !self.token_compared(member, returns) || self.lost_shard_dirs().contains(&member.id) {
            return false;
        }
        let written = self.written();
        let mut tokens = self.upkeep.tokens.lock();
        let Some(looked) = tokens.looked.get_mut(&member.id) else {
            return false;
        };
        let long_ago = |at: Option<Instant>, pause| at.is_none_or(|at| at.elapsed() >= pause);
        let due = match &looked.changed {
            None => true,
            Some(changed) => changed.written != written && long_ago(Some(changed.at), CHANGE_EVERY),
        };
        let due = due && long_ago(looked.tried, RETRY_AFTER);
        if due {
            looked.tried = Some(Instant::now());
        }
        due
    }

    /// A value that changes with every write to disks.
    fn written(&self) -> (BlobId, u64) {
        let repaired = self.upkeep.repair.lock().repaired;
        (self.catalog.ids().next_blob(), repaired)
    }

    /// Gives a disk another token.
    ///
    /// # Errors
    /// Those of the disk and of the catalog; the former token stays valid.
    pub(super) async fn change_token(&self, member: &Member) -> Result<()> {
        let DiskState::Online { returns } = member.disk.state() else {
            return Ok(());
        };
        let written = self.written();
        // What is sealed later has an id from before.
        let below = match self.segments.first_unsealed() {
            Some(unsealed) => unsealed.min(written.0),
            None => written.0,
        };
        let (lineage, kept) = self.kept(member.id).await?;
        let fresh = Token::from(self.env.rng.u128().to_be_bytes());
        let now = {
            let mut tokens = self.upkeep.tokens.lock();
            *tokens.proposed.entry(member.id).or_insert(fresh)
        };
        let file = TokenFile {
            now,
            before: kept.map(|kept| kept.token),
        };
        // Writing into a vector cannot fail.
        let file = minicbor::to_vec(file).unwrap_or_default();
        member.disk.replace_file(PATH, Bytes::from(file)).await?;
        dewar_env::pause("a token was written").await;
        let kept = CatalogToken {
            lineage,
            token: now,
            below,
        };
        let value = minicbor::to_vec(kept).unwrap_or_default();
        let batch = Batch {
            puts: vec![(keys::disk(member.id, TOKEN), Bytes::from(value))],
            frees: true,
            ..Batch::default()
        };
        self.commit_token(batch).await?;
        let mut tokens = self.upkeep.tokens.lock();
        tokens.proposed.remove(&member.id);
        let first = match tokens.looked.get_mut(&member.id) {
            Some(looked) if looked.returns == returns => {
                let at = Instant::now();
                looked
                    .changed
                    .replace(TokenChange { at, written })
                    .is_none()
            }
            _ => false,
        };
        drop(tokens);
        if first {
            // Repair waits for it.
            self.upkeep.wake();
        }
        Ok(())
    }

    /// The lineage of the journal, and the record of a disk's token in it.
    async fn kept(&self, disk: DiskId) -> Result<(Token, Option<CatalogToken>)> {
        let kv = self.catalog.kv();
        let lineage = kv.get(&lineage_key()).await?.value.unwrap_or_default();
        let lineage = <[u8; 16]>::try_from(&lineage[..]).unwrap_or_default();
        let lineage = Token::from(lineage);
        let Some(value) = kv.get(&keys::disk(disk, TOKEN)).await?.value else {
            return Ok((lineage, None));
        };
        let kept: CatalogToken = minicbor::decode(&value).map_err(|error| corrupt(disk, error))?;
        Ok((lineage, Some(kept).filter(|kept| kept.lineage == lineage)))
    }

    async fn commit_token(&self, batch: Batch) -> Result<()> {
        let doing = "noting the token of a disk";
        match self.catalog.kv().commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(_)) => Err(Error::new(ErrorKind::Conflict, doing)),
            Err(CommitError::Failed(error)) => Err(error.context(doing)),
        }
    }
}

/// Whether the folder of shards of a disk was lost before, and has not been searched yet.
async fn is_doubted(disk: &dyn Disk) -> Result<bool> {
    match disk.open(DOUBTED, dewar_env::Access::Read).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Disks {
    /// Disks that were replaced by an earlier state of themselves and have not been read since.
    #[must_use]
    pub fn unverified(&self) -> BTreeSet<DiskId> {
        let gone = &self.upkeep.decisions.lock().removed;
        let unverified = self.upkeep.unverified.lock();
        let doubted = unverified.keys().filter(|disk| !gone.contains(disk));
        doubted.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are a format: docs/formats/segment.md and disk.md.
    #[test]
    fn tokens_are_kept_as_they_are_drawn() {
        let token = |n: u8| Token::from([n; 16]);
        let bytes = |parts: &[&[u8]]| parts.concat();
        let file = TokenFile {
            now: token(1),
            before: Some(token(2)),
        };
        let drawn = bytes(&[&[0xa2, 0x00, 0x50], &[1; 16], &[0x01, 0x50], &[2; 16]]);
        assert_eq!(minicbor::to_vec(file).expect("encodes"), drawn);
        assert_eq!(
            minicbor::decode::<TokenFile>(&drawn).expect("decodes"),
            file
        );
        let kept = CatalogToken {
            lineage: token(3),
            token: token(4),
            below: BlobId(9),
        };
        let drawn = bytes(&[
            &[0xa3, 0x00, 0x50],
            &[3; 16],
            &[0x01, 0x50],
            &[4; 16],
            &[0x02, 0x09],
        ]);
        assert_eq!(minicbor::to_vec(kept).expect("encodes"), drawn);
        assert_eq!(
            minicbor::decode::<CatalogToken>(&drawn).expect("decodes"),
            kept
        );
        let doubt = StaleDisk {
            since: Timestamp(5),
            below: BlobId(6),
        };
        let drawn = [0xa2, 0x00, 0x05, 0x01, 0x06];
        assert_eq!(minicbor::to_vec(doubt).expect("encodes"), drawn);
        assert_eq!(decode_doubt(DiskId(1), &drawn).expect("decodes"), doubt);
    }

    #[test]
    fn what_was_read_since_counts_and_what_was_read_before_does_not() {
        let doubt = StaleDisk {
            since: Timestamp(5),
            below: BlobId(40),
        };
        let pass = |below: u64, next: u64| ScrubProgress {
            began: Some(Timestamp(9)),
            next: BlobId(next),
            below: BlobId(below),
            ..ScrubProgress::default()
        };
        let before = doubt.left_by(&pass(40, 30));
        assert!(before.holds(BlobId(0)) && before.holds(BlobId(39)));
        let since = doubt.left_by(&pass(41, 30));
        assert!(!since.holds(BlobId(29)) && since.holds(BlobId(30)));
        assert!(!since.holds(BlobId(40)), "written since");
    }
}
