//! Incoming content: digests are computed while it passes, small content is kept in memory, large
//! content is written to the disks.

use bytes::Bytes;
use dewar_catalog::record::{ContentCopy, ETag, EncryptionRecord, Extent, Slot as SlotPlace};
use dewar_checksum::{AlgorithmSet, DigestSet, StreamDigests};
use dewar_disks::BlobTable;
use dewar_disks::blob::{BlobRecord, BlobWriter, ChecksummedBytes};
use dewar_disks::format::ShardKind;
use dewar_disks::segment::{Slot, encode_slot};
use dewar_kv::InlineData;
use dewar_namespace::{DataChanges, VersionAttributes};
use dewar_types::{BlobId, Error, ErrorKind, Layout, PoolId, Result, VersionId};

use crate::api::{DigestMismatch, ExpectedContent};
use crate::encryption::{DataKey, Sealer};
use crate::{Inner, SharedStore};
use dewar_disks::salvage_header::{PartOf, SalvageOrigin};

/// Pieces of small content that are kept as received. More pieces are merged, because each costs
/// memory beside its bytes.
const SMALL_PARTS_MAX: usize = 64;

/// Approximate memory of each piece, without its bytes.
const PART_MEMORY_BYTES: usize = 128;

/// The same of as many as there may be.
pub(crate) const SMALL_PARTS_MEMORY_BYTES: usize = (SMALL_PARTS_MAX + 1) * PART_MEMORY_BYTES;

/// Content being received. Dropped, it leaves nothing.
pub(crate) struct ContentLog {
    shared: SharedStore,
    version: VersionId,
    digests: StreamDigests,
    size: u64,
    sealer: Option<Sealer>,
    stage: ContentBuffer,
    origin: SalvageOrigin,
}

enum ContentBuffer {
    Small(Vec<Bytes>),
    Large(Box<BlobWriter>),
}

/// Complete content: durable if large, or to be written with its batch if small.
pub(crate) struct ReceivedContent {
    pub(crate) size: u64,
    pub(crate) digests: DigestSet,
    pub(crate) copies: Vec<ContentCopy>,
    pub(crate) held: StagedContent,
}

/// Content that has no name yet.
pub(crate) enum StagedContent {
    Nothing,
    Small { slot: Slot, bytes: Bytes },
    Large { record: BlobRecord },
}

impl ContentLog {
    /// Content from `origin` (for salvage only). `size` is the client's value, if it has one. The
    /// content is encrypted with `key`, if there is one.
    pub(crate) async fn new(
        shared: &SharedStore,
        want: AlgorithmSet,
        size: Option<u64>,
        origin: SalvageOrigin,
        key: Option<&DataKey>,
    ) -> Result<Self> {
        let large = size.is_some_and(|size| size > u64::from(shared.small_bytes_max));
        let stage = if large {
            let id = shared.tree.ids().blob().await?;
            let pool = shared.number_of(origin.pool);
            let writer = shared.blobs.create_in(pool, id, ShardKind::Object)?;
            ContentBuffer::Large(Box::new(writer))
        } else {
            shared.room_for_small(shared.number_of(origin.pool))?;
            ContentBuffer::Small(Vec::new())
        };
        Ok(Self {
            version: shared.tree.ids().version().await?,
            digests: StreamDigests::new(want, &shared.lanes),
            size: 0,
            sealer: key.map(|key| Sealer::new(key, shared.env.rng.u64())),
            stage,
            origin,
            shared: SharedStore::clone(shared),
        })
    }

    /// The same as content of a version that exists already.
    pub(crate) fn of_version(self, version: VersionId) -> Self {
        Self { version, ..self }
    }

    /// The bytes received so far, as long as they are all in memory and unchanged.
    pub(crate) fn in_memory(&self) -> Option<&[Bytes]> {
        match &self.stage {
            ContentBuffer::Small(parts) if self.sealer.is_none() => Some(parts),
            ContentBuffer::Small(_) | ContentBuffer::Large(_) => None,
        }
    }

    /// Bytes of memory that it holds while nothing waits for a disk.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.stage {
            ContentBuffer::Small(parts) => {
                let bytes: usize = parts.iter().map(Bytes::len).sum();
                bytes + parts.len() * PART_MEMORY_BYTES
            }
            ContentBuffer::Large(writer) => writer.memory_bytes(),
        }
    }

    /// Marks this content as a part, so that salvage does not restore it as an object.
    pub(crate) fn is_part(&mut self, part: PartOf) {
        self.origin.part = Some(part);
    }

    /// The version that the content will be.
    pub(crate) fn version(&self) -> VersionId {
        self.version
    }

    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.write_paged(ChecksummedBytes::from(bytes)).await
    }

    /// The same for bytes whose pages came with checksums.
    pub(crate) async fn write_paged(&mut self, paged: ChecksummedBytes) -> Result<()> {
        self.size += paged.bytes().len() as u64;
        if self.size > crate::limits::OBJECT_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{}: more than {} bytes",
                    self.origin.path,
                    crate::limits::OBJECT_BYTES_MAX
                ),
            ));
        }
        match &mut self.sealer {
            None => self.store(&paged).await?,
            Some(sealer) => {
                for chunk in sealer.push(paged.bytes().clone())? {
                    self.store(&ChecksummedBytes::from(chunk)).await?;
                }
            }
        }
        match paged.crc32c() {
            Some(crc) => {
                let bytes = paged.into_bytes();
                self.digests.update_with_crc32c(bytes, crc).await;
            }
            None => self.digests.update(paged.into_bytes()).await,
        }
        Ok(())
    }

    /// Takes bytes as they are stored.
    async fn store(&mut self, paged: &ChecksummedBytes) -> Result<()> {
        match &mut self.stage {
            ContentBuffer::Small(parts) if self.size <= u64::from(self.shared.small_bytes_max) => {
                if parts.len() >= SMALL_PARTS_MAX {
                    *parts = vec![parts.concat().into()];
                }
                parts.push(paged.bytes().clone());
            }
            ContentBuffer::Small(parts) => {
                let parts = core::mem::take(parts);
                let id = self.shared.tree.ids().blob().await?;
                let pool = self.shared.number_of(self.origin.pool);
                let mut writer = self.shared.blobs.create_in(pool, id, ShardKind::Object)?;
                for part in parts {
                    writer.write(part).await?;
                }
                writer.write_paged(paged).await?;
                self.stage = ContentBuffer::Large(Box::new(writer));
            }
            ContentBuffer::Large(writer) => writer.write_paged(paged).await?,
        }
        Ok(())
    }

    /// Ends the content and compares it with the client's length and digests. `attributes` are
    /// described with it, for salvage. `encrypted` returns the stored form of encrypted content,
    /// given the digests of the clear bytes.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`], [`ErrorKind::ChecksumMismatch`]; those of the disks.
    pub(crate) async fn finish(
        mut self,
        expect: &ExpectedContent,
        attributes: &VersionAttributes,
        encrypted: impl FnOnce(&DigestSet) -> Result<(Option<EncryptionRecord>, Option<ETag>)>,
    ) -> Result<ReceivedContent> {
        if let Some(size) = expect.size
            && size != self.size
        {
            let message = format!("{}: {} of {size} bytes came", self.origin.path, self.size);
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        if let Some(last) = self
            .sealer
            .as_mut()
            .and_then(|sealer| sealer.finish().transpose())
        {
            self.store(&ChecksummedBytes::from(last?)).await?;
        }
        let pool = self.shared.number_of(self.origin.pool);
        // Before the MD5, which needs company.
        let turn = match &self.stage {
            ContentBuffer::Small(_) => {
                // Other small ones that are here by now hash along.
                tokio::task::yield_now().await;
                None
            }
            ContentBuffer::Large(writer) => Some(self.shared.blobs.sync_turn(pool, writer).await),
        };
        let salt = self.sealer.as_ref().map(Sealer::salt);
        let digests = self.digests.finish().await;
        for expected in &expect.digests {
            if digests.verify(expected) != Some(true) {
                let path = &self.origin.path;
                return Err(DigestMismatch::error(expected, &digests, path));
            }
        }
        let (encryption, etag) = match salt {
            Some(_) => encrypted(&digests)?,
            None => (None, None),
        };
        let description = self
            .origin
            .describe(
                self.version,
                self.size,
                attributes.headers.clone(),
                attributes.metadata.clone(),
            )
            .told(digests, salt, encryption, etag);
        let description = description.into_bytes();
        let (extent, held) = match self.stage {
            ContentBuffer::Small(_) if self.size == 0 => (None, StagedContent::Nothing),
            ContentBuffer::Small(parts) => {
                let (bytes, header) = encode_slot(&description, &parts);
                let len = bytes.len() as u32;
                let mut slot = self.shared.segments.reserve_in(pool, len).await?;
                slot.fill(bytes.clone());
                let place = SlotPlace {
                    offset: slot.offset(),
                    header,
                    len,
                };
                (
                    Some(Extent::small(slot.segment(), place)),
                    StagedContent::Small { slot, bytes },
                )
            }
            ContentBuffer::Large(writer) => {
                let record = writer.seal(&description).await?;
                drop(turn);
                (
                    Some(Extent::large(record.id, 0, self.size)),
                    StagedContent::Large { record },
                )
            }
        };
        let extent = extent.map(|extent| match salt {
            Some(salt) => extent.encrypted(salt, self.size),
            None => extent,
        });
        let copies = vec![ContentCopy {
            pool: PoolId(pool.into()),
            extents: extent.into_iter().collect(),
            ..ContentCopy::default()
        }];
        Ok(ReceivedContent {
            size: self.size,
            digests,
            copies,
            held,
        })
    }
}

impl Inner {
    /// Checks for free space for small objects. They wait in the journal to be sealed, which needs
    /// space on the disks like any blob. Without space they would fill the journal, which deletes
    /// need. A further pool with too few online disks is refused too, because the objects would be
    /// sealed in another pool.
    pub(crate) fn room_for_small(&self, pool: u16) -> Result<()> {
        let disks = self.blobs.pool();
        if self.blobs.placement().is_full(disks, pool) {
            let message = "the disks are full but for their reserve";
            return Err(Error::new(ErrorKind::NoSpace, message));
        }
        if pool != disks.number() {
            self.layout_for_new_blob(pool)?;
        }
        Ok(())
    }

    /// Whether a pool takes new blobs, and in which layout.
    pub(crate) fn layout_for_new_blob(&self, pool: u16) -> Result<Layout> {
        let (blobs, kind) = (&self.blobs, ShardKind::Object);
        let chosen = blobs
            .placement()
            .choose(blobs.pool(), pool, BlobId(0), kind);
        chosen.map(|(layout, _)| layout)
    }

    /// The number of a pool, where `None` is the main one.
    pub(crate) fn number_of(&self, pool: Option<u16>) -> u16 {
        pool.unwrap_or(self.blobs.pool().number())
    }

    /// The pool of a storage class, `None` if it is the main one.
    pub(crate) fn pool_of_class(&self, class: Option<&str>) -> Option<u16> {
        let main = self.blobs.pool().number();
        let pool = self.lifecycle.pool_of(class);
        pool.filter(|pool| *pool != main)
    }
}

impl StagedContent {
    /// The entries that the batch with the name must contain.
    pub(crate) fn extra(&self) -> DataChanges {
        match self {
            Self::Nothing => DataChanges::default(),
            Self::Small { slot, bytes } => DataChanges {
                carry: Some(InlineData {
                    segment: slot.segment(),
                    offset: slot.offset(),
                    bytes: vec![bytes.clone()],
                }),
                ..DataChanges::default()
            },
            Self::Large { record } => DataChanges {
                puts: BlobTable::first_entries(record),
                ..DataChanges::default()
            },
        }
    }

    /// Whether any of these extents lies in it.
    pub(crate) fn is_in(&self, extents: &[Extent]) -> bool {
        match self {
            Self::Nothing => true,
            Self::Small { slot, .. } => extents.iter().any(|extent| {
                let place = extent.slot.map(|place| place.offset);
                extent.blob == slot.segment() && place == Some(slot.offset())
            }),
            Self::Large { record } => extents.iter().any(|extent| extent.blob == record.id),
        }
    }

    /// Takes the bytes back: no name will lead to them.
    pub(crate) async fn give_up(self, shared: &SharedStore) {
        match self {
            Self::Nothing => {}
            Self::Small { slot, .. } => slot.abandon(),
            Self::Large { record } => {
                shared.blobs.take_back(&record).await;
            }
        }
    }

    /// Called when the name was given, or not: keeps the slot, or frees the bytes. If the result is
    /// unknown, the bytes stay, because a name may lead to them.
    pub(crate) async fn settle<T>(self, shared: &SharedStore, outcome: &Result<T>) {
        // What an engine or a disk says leaves it open; every other refusal comes before the commit.
        let refused = |error: &Error| {
            error.left_unchanged()
                || !matches!(
                    error.kind(),
                    ErrorKind::Unavailable
                        | ErrorKind::Busy(_)
                        | ErrorKind::Timeout
                        | ErrorKind::NoSpace
                        | ErrorKind::Corrupt
                        | ErrorKind::Internal
                )
        };
        match (self, outcome) {
            (Self::Small { slot, .. }, Ok(_)) => slot.settle(),
            (Self::Small { slot, .. }, Err(error)) if refused(error) => slot.abandon(),
            (Self::Large { record }, Err(error)) if refused(error) => {
                shared.blobs.take_back(&record).await;
            }
            _ => {}
        }
    }
}
