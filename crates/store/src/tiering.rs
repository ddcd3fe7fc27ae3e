//! Moving a version to another storage class.
//!
//! If the class has another pool, the bytes move there. They are read, verified like any read and
//! compared with the version's digests, and written to new blobs. When those are durable, one batch
//! puts them in the place of the old ones. The old blobs are freed when nobody reads them any more.
//! Id, times, ETag and everything else stay.
//!
//! Unencrypted content becomes one blob, or one slot if it is small. Encrypted content is moved as
//! it is stored, because the key is not available: blob by blob, so that every piece keeps its
//! position in its stream.
//!
//! # Crashes
//! New blobs that are not named yet are found by the sweep of the next start. The version is still
//! at its old place, and the move is due again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::Actor;
use dewar_catalog::record::{ContentCopy, Extent, Slot as SlotPlace, VersionRecord};
use dewar_checksum::{AlgorithmSet, Digest, DigestSet};
use dewar_disks::BlobTable;
use dewar_disks::format::ShardKind;
use dewar_disks::segment::encode_slot;
use dewar_namespace::{Bucket, ChangeContext, DataChanges, Relocation, VersionAttributes};
use dewar_types::{BlobId, Error, ErrorKind, ObjectKey, PoolId, Result};

use crate::api::ExpectedContent;
use crate::content_log::{ContentLog, StagedContent};
use crate::copy::is_in_pool;
use crate::extent_reader::ExtentReader;
use crate::{Inner, SharedStore, Store};
use dewar_disks::salvage_header::{PartOf, SalvageHeader, SalvageOrigin};

/// Blobs and slots with moved content, before anything names them.
#[derive(Default)]
struct WrittenCopy {
    held: Vec<StagedContent>,
    extents: Vec<Extent>,
}

/// A blob or slot of an encrypted content.
type ContentLocation = (BlobId, Option<u32>);

impl Store {
    /// Gives a version another storage class, and moves its bytes if the class has another pool.
    /// Returns `false` when the version was deleted, or moved, meanwhile. No right is asked for: the
    /// owner of the store decides.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] or [`ErrorKind::Unavailable`] when that pool accepts no data now,
    /// [`ErrorKind::Corrupt`] when the bytes do not match the version. The version stays at its old
    /// place, unless the result of the commit is unknown.
    pub async fn move_to_class(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        version: &VersionRecord,
        class: Option<String>,
    ) -> Result<bool> {
        let inner = &self.inner;
        inner
            .move_to_class(actor, bucket, key, version, class)
            .await
    }
}

impl Inner {
    /// See [`Store::move_to_class`].
    pub(crate) async fn move_to_class(
        self: &Arc<Self>,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        version: &VersionRecord,
        class: Option<String>,
    ) -> Result<bool> {
        let pool = self.pool_of_class(class.as_deref());
        let number = self.number_of(pool);
        if is_in_pool(&version.copies, number) {
            let name = Some(version.name());
            let change = |attributes: &mut VersionAttributes, around: ChangeContext| {
                if around.id == version.id {
                    attributes.storage_class.clone_from(&class);
                }
                Ok(())
            };
            let changed = self
                .tree
                .change_version(actor, (bucket, key).into(), name, change);
            return match changed.await {
                Ok(now) => Ok(now.id == version.id),
                Err(error) if went(&error) => Ok(false),
                Err(error) => Err(error),
            };
        }
        let Some(found) = self
            .tree
            .lookup_version(bucket, key, Some(version.name()))
            .await?
        else {
            return Ok(false);
        };
        let was = &found.current;
        if was.id != version.id {
            return Ok(false);
        }
        let origin = SalvageOrigin {
            owner: was.owner.unwrap_or(found.attributes.owner).0,
            path: bucket.path(key.as_str()),
            part: None,
            pool,
        };
        let extents = self.extents(&found).await?;
        let blobs = extents.iter().map(|extent| extent.blob);
        let pinned = self.table.readers().pin(blobs);
        // The hold works from here on; what went before it shows as another version or another place.
        let now = self
            .tree
            .lookup_version(bucket, key, Some(was.name()))
            .await?;
        let same = |now: &VersionRecord| now.id == was.id && now.copies == was.copies;
        if !now.is_some_and(|now| same(&now.current)) {
            return Ok(false);
        }
        let mut written = WrittenCopy::default();
        let clear = extents.iter().all(|extent| extent.salt.is_none());
        let outcome = match clear {
            true => {
                let into = &mut written;
                self.write_clear(was, origin, &extents, into).await
            }
            false => {
                let into = &mut written;
                self.write_sealed(number, was, &origin, &extents, into)
                    .await
            }
        };
        drop(pinned);
        if let Err(error) = outcome {
            written.give_up(self).await;
            return Err(error);
        }
        let moved = Relocation {
            storage_class: class,
            copies: vec![ContentCopy {
                pool: PoolId(number.into()),
                extents: written.extents.clone(),
                ..ContentCopy::default()
            }],
            extra: written.extra(),
        };
        let (shared, was, principal) = (
            SharedStore::clone(self),
            was.clone(),
            actor.principal.to_owned(),
        );
        let (user, bucket, key) = (actor.user, bucket.clone(), key.clone());
        crate::write::run_to_completion(async move {
            let actor = Actor {
                user,
                principal: &principal,
            };
            let outcome = shared
                .tree
                .move_content(&actor, &bucket, &key, &was, &moved)
                .await;
            if matches!(outcome, Ok(true)) {
                dewar_env::coverage_mark("a version was moved to another pool");
            }
            written.settle(&shared, &outcome).await;
            outcome
        })
        .await
    }

    /// Content in clear, as one piece.
    async fn write_clear(
        self: &Arc<Self>,
        was: &VersionRecord,
        origin: SalvageOrigin,
        extents: &[Extent],
        written: &mut WrittenCopy,
    ) -> Result<()> {
        let mut pieces = ExtentReader::new(self, None, extents.to_vec().into(), None);
        let digests: Vec<Digest> = was.digests.iter().collect();
        let wanted = digests.iter().map(Digest::algorithm);
        let wanted = wanted.fold(AlgorithmSet::EMPTY, AlgorithmSet::with);
        let path = origin.path.clone();
        let mut log = ContentLog::new(self, wanted, Some(was.size), origin, None)
            .await?
            .of_version(was.id);
        while let Some(bytes) = pieces.next().await {
            let bytes = bytes?;
            self.disks.repair_pace().take(2 * bytes.len() as u64).await;
            log.write(bytes).await?;
        }
        let expect = ExpectedContent {
            size: Some(was.size),
            digests,
        };
        let attributes = VersionAttributes::from(was);
        let finished = log.finish(&expect, &attributes, |_| Ok((None, None))).await;
        let received = finished.map_err(|error| match error.kind() {
            ErrorKind::IncompleteBody | ErrorKind::ChecksumMismatch => {
                let message = format!("{path}: what was read is not what was written");
                Error::new(ErrorKind::Corrupt, message)
            }
            _ => error,
        })?;
        let extents = received.copies.into_iter().flat_map(|copy| copy.extents);
        written.extents.extend(extents);
        written.held.push(received.held);
        Ok(())
    }

    /// Encrypted content, as it is stored.
    async fn write_sealed(
        self: &Arc<Self>,
        pool: u16,
        was: &VersionRecord,
        origin: &SalvageOrigin,
        extents: &[Extent],
        written: &mut WrittenCopy,
    ) -> Result<()> {
        let place = |extent: &Extent| (extent.blob, extent.slot.map(|slot| slot.offset));
        let mut places: BTreeMap<ContentLocation, Extent> = BTreeMap::new();
        let attributes = VersionAttributes::from(was);
        let alone = extents
            .iter()
            .all(|extent| place(extent) == place(&extents[0]));
        let upload = match was.upload {
            Some(upload) => upload,
            None => self.tree.ids().upload().await?,
        };
        for extent in extents {
            let known = places.get(&place(extent)).copied();
            let to = match known {
                Some(to) => to,
                None => {
                    let number = u16::try_from(places.len() + 1).unwrap_or(u16::MAX);
                    let mut origin = origin.clone();
                    origin.part = (!alone).then_some(PartOf { upload, number });
                    let size = if alone { was.size } else { extent.len };
                    let description = origin
                        .describe(
                            was.id,
                            size,
                            attributes.headers.clone(),
                            attributes.metadata.clone(),
                        )
                        .told(
                            DigestSet::ABSENT,
                            extent.salt,
                            was.encryption.clone(),
                            Some(was.etag.clone()),
                        );
                    self.copy_stored(pool, alone, extent, description, written)
                        .await?
                }
            };
            places.insert(place(extent), to);
            written.extents.push(Extent {
                blob: to.blob,
                slot: to.slot,
                ..*extent
            });
        }
        Ok(())
    }

    /// Copies the stored bytes of the blob or slot of a piece. Only content that is `alone` in its
    /// batch becomes a slot. Returns the new place of the whole.
    async fn copy_stored(
        self: &Arc<Self>,
        pool: u16,
        alone: bool,
        piece: &Extent,
        description: SalvageHeader,
        written: &mut WrittenCopy,
    ) -> Result<Extent> {
        let description = description.into_bytes();
        let stored = |len: u64| Extent {
            offset: 0,
            len,
            salt: None,
            ..*piece
        };
        let whole = match piece.slot {
            Some(slot) => stored(u64::from(slot.len.saturating_sub(slot.header))),
            None => stored(self.table.record(piece.blob).await?.len),
        };
        let mut pieces = ExtentReader::new(self, None, vec![whole].into(), None);
        if piece.slot.is_some() && alone {
            let mut kept = Vec::new();
            while let Some(bytes) = pieces.next().await {
                kept.push(bytes?);
            }
            let (held, place) = self.hold_small(pool, &description, &kept).await?;
            let segment = match &held {
                StagedContent::Small { slot, .. } => slot.segment(),
                StagedContent::Nothing | StagedContent::Large { .. } => piece.blob,
            };
            written.held.push(held);
            return Ok(Extent::small(segment, place));
        }
        let id = self.tree.ids().blob().await?;
        let mut writer = self.blobs.create_in(pool, id, ShardKind::Object)?;
        while let Some(bytes) = pieces.next().await {
            let bytes = bytes?;
            self.disks.repair_pace().take(2 * bytes.len() as u64).await;
            writer.write(bytes).await?;
        }
        let record = writer.seal(&description).await?;
        let (id, len) = (record.id, record.len);
        written.held.push(StagedContent::Large { record });
        Ok(Extent::large(id, 0, len))
    }

    async fn hold_small(
        self: &Arc<Self>,
        pool: u16,
        description: &[u8],
        kept: &[Bytes],
    ) -> Result<(StagedContent, SlotPlace)> {
        self.room_for_small(pool)?;
        let (bytes, header) = encode_slot(description, kept);
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut slot = self.segments.reserve_in(pool, len).await?;
        slot.fill(bytes.clone());
        let place = SlotPlace {
            offset: slot.offset(),
            header,
            len,
        };
        Ok((StagedContent::Small { slot, bytes }, place))
    }
}

/// Whether a version is not there any more.
fn went(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::NoSuchVersion
            | ErrorKind::DeleteMarker
            | ErrorKind::NoSuchBucket
    )
}

impl WrittenCopy {
    fn extra(&self) -> DataChanges {
        let mut extra = DataChanges::default();
        for held in &self.held {
            match held {
                StagedContent::Large { record } => {
                    extra.puts.extend(BlobTable::first_entries(record));
                }
                small => extra.carry = small.extra().carry,
            }
        }
        extra
    }

    /// Takes the bytes back: nothing will name them.
    async fn give_up(self, shared: &SharedStore) {
        for held in self.held {
            held.give_up(shared).await;
        }
    }

    /// The batch happened, or not.
    async fn settle(self, shared: &SharedStore, outcome: &Result<bool>) {
        if matches!(outcome, Ok(false)) {
            return self.give_up(shared).await;
        }
        for held in self.held {
            held.settle(shared, outcome).await;
        }
    }
}
