//! Catalog of the journal files on the disks, by their headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::{BoxFuture, Disk, DiskError};
use dewar_types::{DiskId, Error};

use crate::Seq;
use crate::copies::FileCopy;
use crate::epoch::{Epoch, EpochId, Span};
use crate::format::{BLOCK_BYTES, FileHeader};
use crate::log_reader::{CopySource, ReadStart};
use crate::replica::{FileSlot, JOURNAL_DIR, name_number, open_slot};

/// A journal file on a disk.
#[derive(Debug)]
pub(crate) struct InventoryEntry {
    pub(crate) disk: DiskId,
    pub(crate) slot: Arc<FileSlot>,
    pub(crate) bytes: u64,
    pub(crate) state: HeaderState,
}

/// What the first block of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// Never written.
    Blank,
    /// Torn or rotten. It may hold any file.
    Damaged,
    /// A header.
    Intact(FileHeader),
}

/// The journal files of all disks.
#[derive(Debug, Default)]
pub(crate) struct FileInventory {
    pub(crate) files: Vec<InventoryEntry>,
    /// Number for the next file's name, by disk.
    pub(crate) names: BTreeMap<DiskId, u64>,
    /// Disks that could not be listed or opened.
    pub(crate) failed: Vec<DiskId>,
    /// Disks some of whose files could not be read.
    pub(crate) partial: Vec<DiskId>,
}

impl FileInventory {
    /// Lists the files of these disks and reads their headers.
    ///
    /// # Errors
    /// Only if a file was written by a later version of Dewar; a disk that fails is noted.
    pub(crate) async fn read(disks: &[(DiskId, Arc<dyn Disk>)]) -> Result<Self, Error> {
        let listings = disks.iter().map(|(id, disk)| list(*id, &**disk));
        let mut catalog = Self::default();
        let listings = futures_util::future::join_all(listings).await;
        for ((id, _), listing) in disks.iter().zip(listings) {
            match listing {
                Ok(listing) => {
                    catalog.names.insert(*id, listing.name);
                    if listing.partial {
                        catalog.partial.push(*id);
                    }
                    for (slot, bytes, block) in listing.files {
                        let state = match FileHeader::decode(&block)? {
                            Some(header) => HeaderState::Intact(header),
                            None if block.iter().all(|byte| *byte == 0) => HeaderState::Blank,
                            None => HeaderState::Damaged,
                        };
                        catalog.files.push(InventoryEntry {
                            disk: *id,
                            slot,
                            bytes,
                            state,
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a disk's journal files cannot be read");
                    catalog.failed.push(*id);
                }
            }
        }
        Ok(catalog)
    }

    fn headers<'a>(&'a self, span: &'a Span) -> impl Iterator<Item = &'a FileHeader> {
        self.files.iter().filter_map(|file| match &file.state {
            HeaderState::Intact(header) if header.epoch == span.epoch => Some(header),
            _ => None,
        })
    }

    /// The highest floor that any file of the epoch's log names.
    pub(crate) fn floor(&self, epoch: &Epoch) -> Seq {
        let spans = epoch.spans.iter();
        let floors = spans.flat_map(|span| self.headers(span).map(|header| header.floor));
        floors.max().unwrap_or(0).max(epoch.floor)
    }

    /// The highest sequence that any file of the epoch's log says had been acknowledged.
    pub(crate) fn acked(&self, epoch: &Epoch) -> Seq {
        let spans = epoch.spans.iter();
        let marks = spans.flat_map(|span| self.headers(span).map(|header| header.acked));
        marks.max().unwrap_or(0).max(epoch.acked)
    }

    /// The latest file at whose beginning the chain still holds everything after `floor`, and the
    /// stretches from there on.
    pub(crate) fn start(&self, epoch: &Epoch, floor: Seq) -> (Vec<Span>, ReadStart) {
        for (index, span) in epoch.spans.iter().enumerate().rev() {
            let begins = self
                .headers(span)
                .filter(|header| header.first <= floor + 1)
                .filter(|header| span.last.is_none_or(|last| header.first <= last))
                .max_by_key(|header| header.file);
            if let Some(header) = begins {
                let start = ReadStart {
                    file: header.file,
                    first: header.first,
                    prev: header.prev,
                };
                return (epoch.spans[index..].to_vec(), start);
            }
            if span.first <= floor + 1 {
                // Its first file is gone or has no intact header on any disk.
                return (epoch.spans[index..].to_vec(), span_start(span));
            }
        }
        let start = span_start(&epoch.spans[0]);
        (epoch.spans.clone(), start)
    }

    /// Whether the file may hold a part of the epoch's log.
    pub(crate) fn belongs(&self, file: &InventoryEntry, epoch: &Epoch) -> bool {
        match &file.state {
            HeaderState::Blank => false,
            HeaderState::Damaged => true,
            HeaderState::Intact(header) => {
                epoch.spans.iter().any(|span| span.epoch == header.epoch)
            }
        }
    }
}

fn span_start(span: &Span) -> ReadStart {
    ReadStart {
        file: span.file,
        first: span.first,
        prev: span.prev,
    }
}

impl CopySource for FileInventory {
    fn copies(&self, epoch: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>> {
        let wanted = self.files.iter().filter(|found| match &found.state {
            HeaderState::Blank => false,
            HeaderState::Damaged => true,
            HeaderState::Intact(header) => header.epoch == epoch && header.file == file,
        });
        let copies = wanted
            .map(|found| FileCopy::new(found.disk, Arc::clone(&found.slot.file)))
            .collect();
        Box::pin(std::future::ready(copies))
    }
}

impl<S: CopySource + ?Sized> CopySource for Arc<S> {
    fn copies(&self, epoch: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>> {
        (**self).copies(epoch, file)
    }
}

struct Listing {
    files: Vec<(Arc<FileSlot>, u64, bytes::Bytes)>,
    name: u64,
    /// A file could not be read.
    partial: bool,
}

async fn list(id: DiskId, disk: &dyn Disk) -> Result<Listing, DiskError> {
    let mut listing = Listing {
        files: Vec::new(),
        name: 0,
        partial: false,
    };
    for entry in disk.list(JOURNAL_DIR).await? {
        let path = format!("{JOURNAL_DIR}/{}", entry.name);
        let Some(number) = name_number(&path) else {
            continue;
        };
        listing.name = listing.name.max(number + 1);
        // One unreadable file must not take the disk's other files with it.
        let read = async {
            let slot = open_slot(disk, path).await?;
            let bytes = slot.file.len().await?;
            let block = slot.file.read_at(0, BLOCK_BYTES as usize).await?;
            Ok::<_, DiskError>((slot, bytes, block))
        };
        match read.await {
            Ok(file) => listing.files.push(file),
            Err(error) => {
                tracing::warn!(%error, disk = %id, "a journal file cannot be read");
                listing.partial = true;
            }
        }
    }
    Ok(listing)
}
