//! After the master key was replaced: everything that is encrypted with an older one is encrypted
//! anew.
//!
//! These are the secrets of access keys and the keys of encrypted content: of files, of their older
//! versions, and of uploads. A pass reads these tables in key order and rewrites each record that
//! needs it, if the record is unchanged since it was read. A pass can miss a record that moves
//! meanwhile (a rename, an overwrite). So passes repeat until one finds nothing. A key is given up
//! ([`Store::old_key_needed`]) only after a scan of one snapshot of the whole catalog shows that
//! nothing needs it.
//!
//! # Crashes
//! The key file has the new key and the old ones before the new one is first used. So a record is
//! readable before and after its rewrite, and a crash cannot make it unreadable. The catalog
//! records whether all is done; if it is not, the next start runs a pass again.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{MasterKeyId, MasterKeys};
use dewar_catalog::record::{EncryptionRecord, Entry, Record as _, UploadRecord, VersionRecord};
use dewar_catalog::tables::{self, Table};
use dewar_catalog::{RecordChange, keys};
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_iam::Accounts;
use dewar_kv::{ReadValue, Scan};
use dewar_types::{Error, ErrorKind, Result, Timestamp};
use minicbor::bytes::ByteArray;
use minicbor::{Decode, Encode};
use tokio::time::Instant;

use crate::{Inner, SharedStore, Store, encryption};

/// Records read in one scan; few in tests, so that they span pages.
const PAGE: usize = if cfg!(test) { 3 } else { 1000 };
/// The pass rests so many times as long as it worked.
const REST: u32 = 1;
/// Pause after a pass that missed something.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The tables with encrypted secrets, in the order of a pass: an upload becomes a file.
const TABLES: [Table; 4] = [
    tables::ACCESS_KEY,
    tables::UPLOAD,
    tables::ENTRY,
    tables::VERSION,
];

/// How far things are, as the catalog keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct RotationProgress {
    /// When keys were replaced, or seen to have been.
    #[n(0)]
    replaced: Vec<ReplacedKey>,
    /// Everything that a pass found is wrapped under this one.
    #[n(1)]
    clean: Option<ByteArray<8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct ReplacedKey {
    #[n(0)]
    id: ByteArray<8>,
    #[n(1)]
    at: Timestamp,
}

/// A master key, as administrators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterKeyInfo {
    /// Its id.
    pub id: MasterKeyId,
    /// When it was replaced; `None` for the one that wraps.
    pub replaced: Option<Timestamp>,
    /// Whether the last pass found nothing under this key that should be under another; true for
    /// the current key.
    pub done: bool,
}

/// Counts of records that are still encrypted with a replaced key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingRewraps {
    /// Access keys and shares.
    pub access_keys: u64,
    /// Versions of objects.
    pub versions: u64,
    /// Uploads in progress.
    pub uploads: u64,
}

fn record_key() -> Bytes {
    keys::work(b'm')
}

/// Whether a record has a wrapped secret.
enum WrappedSecret {
    /// Nothing of ours is wrapped in it.
    Nothing,
    /// It is wrapped under this key.
    Under(MasterKeyId),
}

/// The key that encrypts a record of one of [`TABLES`].
fn look(key: &[u8], value: &[u8]) -> Result<WrappedSecret> {
    let of = |record: Option<&EncryptionRecord>| {
        let id = record.and_then(encryption::wrapped_under);
        id.map_or(WrappedSecret::Nothing, WrappedSecret::Under)
    };
    Ok(match Table::of(key) {
        Some(tables::ACCESS_KEY) => WrappedSecret::Under(Accounts::wrapped_under(value)?),
        Some(tables::UPLOAD) => of(UploadRecord::from_value(key, value)?.encryption.as_ref()),
        Some(tables::ENTRY) => match Entry::from_value(key, value)? {
            Entry::File(file) => of(file.current.encryption.as_ref()),
            Entry::Dir(_) | Entry::Symlink(_) => WrappedSecret::Nothing,
        },
        _ => of(VersionRecord::from_value(key, value)?.encryption.as_ref()),
    })
}

impl Inner {
    /// The record with its secret wrapped under the current key.
    fn wrapped_anew(&self, key: &[u8], value: &[u8]) -> Result<Bytes> {
        let master = &*self.master;
        let anew = |record: &mut Option<EncryptionRecord>| match record {
            Some(record) => encryption::rewrap(record, master),
            None => Ok(()),
        };
        Ok(match Table::of(key) {
            Some(tables::ACCESS_KEY) => self.accounts.rewrapped(key, value)?,
            Some(tables::UPLOAD) => {
                let mut upload = UploadRecord::from_value(key, value)?;
                anew(&mut upload.encryption)?;
                upload.to_value()
            }
            Some(tables::ENTRY) => match Entry::from_value(key, value)? {
                Entry::File(mut file) => {
                    anew(&mut file.current.encryption)?;
                    file.to_value()
                }
                Entry::Dir(_) | Entry::Symlink(_) => Bytes::copy_from_slice(value),
            },
            _ => {
                let mut version = VersionRecord::from_value(key, value)?;
                anew(&mut version.encryption)?;
                version.to_value()
            }
        })
    }

    async fn rotation(&self) -> Result<(RotationProgress, ReadValue)> {
        let read = self.tree.kv().get(&record_key()).await?;
        let rotation = match &read.value {
            None => RotationProgress::default(),
            Some(value) => minicbor::decode(value).map_err(|error| {
                let what = "the record of master keys is damaged";
                Error::with_source(ErrorKind::Corrupt, what, error)
            })?,
        };
        Ok((rotation, read))
    }

    /// Records the replaced keys, and that everything is encrypted with `clean`, if it is set.
    async fn note_keys(&self, clean: Option<MasterKeyId>) -> Result<RotationProgress> {
        loop {
            let (before, read) = self.rotation().await?;
            let held = self.master.ids();
            let mut rotation = before.clone();
            rotation
                .replaced
                .retain(|old| held[1..].contains(&MasterKeyId(*old.id)));
            for id in &held[1..] {
                if rotation.replaced.iter().all(|old| *old.id != id.0) {
                    let at = self.env.clock.now();
                    let id = ByteArray::from(id.0);
                    rotation.replaced.push(ReplacedKey { id, at });
                }
            }
            rotation.clean = match clean {
                Some(id) => Some(ByteArray::from(id.0)),
                None => rotation.clean.filter(|id| **id == held[0].0),
            };
            if rotation == before {
                return Ok(rotation);
            }
            let value = minicbor::to_vec(&rotation).unwrap_or_default();
            let change = RecordChange {
                key: record_key(),
                read,
                value: value.into(),
            };
            if self.tree.catalog().replace(vec![change]).await? {
                return Ok(rotation);
            }
        }
    }

    /// Reads all tables once and encrypts anew every record under an older key. Returns their
    /// number, and whether all could be rewritten.
    async fn rewrap_pass(&self, gate: &PauseGate) -> Result<(u64, bool)> {
        let current = self.master.current();
        let (mut found, mut all) = (0, true);
        let mut worked = Instant::now();
        for table in TABLES {
            let range = table.keys();
            let mut from = range.from.clone();
            loop {
                let page = self.tree.kv().scan(scan(&from, &range)).await?;
                let mut changes = Vec::new();
                for (key, value) in &page.pairs {
                    let old = |id| id != current && self.master.holds(id);
                    // One that is not held any more (of a backup that is older) cannot be helped.
                    if matches!(look(key, value)?, WrappedSecret::Under(id) if old(id)) {
                        found += 1;
                        changes.push(RecordChange {
                            key: key.clone(),
                            read: ReadValue {
                                value: Some(value.clone()),
                                seq: page.seq,
                            },
                            value: self.wrapped_anew(key, value)?,
                        });
                    }
                }
                all &= self.tree.catalog().replace(changes).await?;
                let Some((last, _)) = page.pairs.last().filter(|_| page.more) else {
                    break;
                };
                from = keys::just_after(last);
                tokio::time::sleep(worked.elapsed() * REST).await;
                gate.pass().await;
                worked = Instant::now();
            }
        }
        Ok((found, all))
    }

    /// Passes until nothing is found.
    async fn rewrap(&self, gate: &PauseGate) -> Result<()> {
        let current = self.master.current();
        let rotation = self.note_keys(None).await?;
        let clean = rotation.clean.is_some_and(|id| *id == current.0);
        if clean || self.master.ids().len() == 1 {
            return Ok(());
        }
        let mut anew = 0;
        loop {
            let (found, all) = self.rewrap_pass(gate).await?;
            anew += found;
            if found == 0 && all {
                break;
            }
            if !all {
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
        if self.master.current() == current {
            self.note_keys(Some(current)).await?;
            tracing::info!(key = %current, records = anew, "everything is wrapped under the new master key");
        }
        Ok(())
    }
}

fn scan<'a>(from: &'a [u8], range: &'a keys::KeyRange) -> Scan<'a> {
    Scan {
        from,
        to: &range.to,
        limit: PAGE,
        reverse: false,
    }
}

/// Runs passes at the start and whenever the key was replaced.
pub(crate) struct RewrapWorker(pub(crate) SharedStore);

impl Worker for RewrapWorker {
    const NAME: &'static str = "key-rotation";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        self.0.rewrap(gate).await?;
        Ok(WorkOutcome::Idle)
    }

    async fn wait(&mut self) {
        self.0.rotated.notified().await;
    }
}

impl Store {
    /// The master keys that encrypt stored secrets.
    #[must_use]
    pub fn master_keys(&self) -> &MasterKeys {
        &self.inner.master
    }

    /// Must be called after the keys were changed. It records the time, forgets results about
    /// removed keys, and starts a pass that encrypts everything with the new key.
    ///
    /// # Errors
    /// Those of the catalog; the next start repeats it.
    pub async fn master_keys_changed(&self) -> Result<()> {
        self.inner.accounts.forget();
        let noted = self.inner.note_keys(None).await;
        self.inner.rotated.notify_one();
        noted.map(|_| ())
    }

    /// The master keys, with the one that encrypts first.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn master_key_infos(&self) -> Result<Vec<MasterKeyInfo>> {
        let held = self.inner.master.ids();
        let (rotation, _) = self.inner.rotation().await?;
        let clean = rotation.clean.is_some_and(|id| *id == held[0].0);
        let when: BTreeMap<[u8; 8], Timestamp> = rotation
            .replaced
            .iter()
            .map(|old| (*old.id, old.at))
            .collect();
        let infos = held.iter().enumerate().map(|(at, id)| MasterKeyInfo {
            id: *id,
            replaced: match at {
                0 => None,
                // Not noted yet: by the clock it was just replaced.
                _ => Some(
                    when.get(&id.0)
                        .copied()
                        .unwrap_or_else(|| self.inner.env.clock.now()),
                ),
            },
            done: at == 0 || clean,
        });
        Ok(infos.collect())
    }

    /// The number of records encrypted with `id`, counted on one snapshot of the whole catalog:
    /// seconds for some million objects. Call it some time after the key was replaced, so that
    /// commits in progress have ended.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn old_key_needed(&self, id: MasterKeyId) -> Result<PendingRewraps> {
        let snapshot = self.inner.tree.kv().snapshot();
        let mut still = PendingRewraps::default();
        for table in TABLES {
            let range = table.keys();
            let mut from = range.from.clone();
            loop {
                let page = snapshot.scan(scan(&from, &range)).await?;
                for (key, value) in &page.pairs {
                    if !matches!(look(key, value)?, WrappedSecret::Under(under) if under == id) {
                        continue;
                    }
                    match table {
                        tables::ACCESS_KEY => still.access_keys += 1,
                        tables::UPLOAD => still.uploads += 1,
                        _ => still.versions += 1,
                    }
                }
                let Some((last, _)) = page.pairs.last().filter(|_| page.more) else {
                    break;
                };
                from = keys::just_after(last);
            }
        }
        Ok(still)
    }
}
