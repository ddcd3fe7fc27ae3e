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
use dewar_checksum::{AlgorithmSet, DigestSet, StreamDigests};
use dewar_disks::format::ShardKind;
use dewar_disks::segment::encode_slot;
use dewar_namespace::{Bucket, DataChanges, Relocation};
use dewar_types::{BlobId, Error, ErrorKind, ObjectKey, PoolId, Result};

use crate::content_reader::ContentReader;
use crate::content_writer::{StagedContent, blob_extra};
use crate::copy::is_in_pool;
use crate::{Inner, SharedStore};
use dewar_disks::salvage_header::{PartOf, SalvageHeader, SalvageOrigin};

/// Blobs and slots with moved content, before anything names them.
#[derive(Default)]
struct WrittenCopy {
    held: Vec<StagedContent>,
    extents: Vec<Extent>,
}

/// A blob or slot of an encrypted content.
type ContentLocation = (BlobId, Option<u32>);

impl Inner {
    /// Gives a version another storage class, and moves its bytes if the class has another pool.
    /// Returns `false` when the version was deleted, or moved, meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`] or [`ErrorKind::Unavailable`] when that pool accepts no data now,
    /// [`ErrorKind::Corrupt`] when the bytes do not match the version. The version stays at its old
    /// place, unless the result of the commit is unknown.
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
            let change = |attributes: &mut dewar_namespace::VersionAttributes,
                          around: dewar_namespace::ChangeContext| {
                if around.id == version.id {
                    attributes.storage_class.clone_from(&class);
                }
                Ok(())
            };
            let changed = self.tree.change_version(actor, bucket, key, name, change);
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
        let was = &found.file.current;
        if was.id != version.id {
            return Ok(false);
        }
        let origin = SalvageOrigin {
            owner: was.owner.unwrap_or(found.file.attributes.owner).0,
            path: bucket.path(key.as_str()),
            part: None,
            headers: was.headers.clone(),
            metadata: was.metadata.clone(),
            pool,
        };
        let extents = self.extents(&found.file).await?;
        let blobs = extents.iter().map(|extent| extent.blob);
        let pinned = self.table.readers().pin(blobs);
        // The hold works from here on; what went before it shows as another version or another place.
        let now = self
            .tree
            .lookup_version(bucket, key, Some(was.name()))
            .await?;
        let same = |now: &VersionRecord| now.id == was.id && now.copies == was.copies;
        if !now.is_some_and(|now| same(&now.file.current)) {
            return Ok(false);
        }
        let mut written = WrittenCopy::default();
        let clear = extents.iter().all(|extent| extent.salt.is_none());
        let outcome = match clear {
            true => {
                let into = &mut written;
                self.write_clear(number, was, origin, &extents, into).await
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
        crate::put::run_to_completion(async move {
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
        pool: u16,
        was: &VersionRecord,
        origin: SalvageOrigin,
        extents: &[Extent],
        written: &mut WrittenCopy,
    ) -> Result<()> {
        let mut pieces = ContentReader::new(self, None, extents.to_vec().into(), None);
        let mut digests = StreamDigests::new(AlgorithmSet::EMPTY, &self.lanes);
        let small = was.size <= u64::from(self.small_bytes_max);
        let mut kept: Vec<Bytes> = Vec::new();
        let mut writer = match small {
            true => None,
            false => {
                let id = self.tree.ids().blob().await?;
                Some(self.blobs.create_in(pool, id, ShardKind::Object)?)
            }
        };
        let mut size = 0;
        while let Some(bytes) = pieces.next().await {
            let bytes = bytes?;
            size += bytes.len() as u64;
            self.disks.repair_pace().take(2 * bytes.len() as u64).await;
            match &mut writer {
                None => kept.push(bytes.clone()),
                Some(writer) => writer.write(bytes.clone()).await?,
            }
            digests.update(bytes).await;
        }
        let digests = digests.finish().await;
        let mut known = was.digests.iter();
        let told = known.all(|known| digests.verify(&known) != Some(false));
        if size != was.size || !told {
            let message = format!("{}: what was read is not what was written", origin.path);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        // What else is known of it is worth more to salvage than what was computed now.
        let known = match was.digests == DigestSet::ABSENT {
            true => digests,
            false => was.digests,
        };
        let description = origin
            .describe(was.id, size)
            .told(known, None, None, None)
            .into_bytes();
        match writer {
            Some(writer) => {
                let record = writer.seal(&description).await?;
                written.extents.push(Extent::large(record.id, 0, size));
                written.held.push(StagedContent::Large { record });
            }
            None if size == 0 => {}
            None => {
                let (held, place) = self.hold_small(pool, &description, &kept).await?;
                let StagedContent::Small { slot, .. } = &held else {
                    return Ok(());
                };
                written.extents.push(Extent::small(slot.segment(), place));
                written.held.push(held);
            }
        }
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
                    let description = origin.describe(was.id, size).told(
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
        let mut pieces = ContentReader::new(self, None, vec![whole].into(), None);
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
                StagedContent::Large { record } => extra.puts.extend(blob_extra(record).puts),
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
