//! Writing a run: sorted entries become pieces, and pieces go to all copies as they fill up.

use std::sync::Arc;

use bytes::Bytes;
use dewar_checksum::Crc32c;
use dewar_env::{BoxFuture, CreateOptions, Disk, DiskError, DiskErrorKind, DiskFile};
use dewar_types::{DiskId, Error, ErrorKind, Result};
use futures_util::future::join_all;

use super::format::{
    BLOCK_BYTES, BlockBuilder, Directory, DirectoryBuilder, Footer, KEY_BYTES_MAX,
    PartitionBuilder, Piece, RunMeta, VALUE_BYTES_MAX, checksum, header, key_hash, separator,
};
use super::gc::{self, GcTasks};
use super::sorted_run::{FOLDER, RunCopy, path_of};

/// A disk by its id.
#[derive(Clone, Debug)]
pub(super) struct IndexDisk {
    pub(super) id: DiskId,
    pub(super) disk: Arc<dyn Disk>,
}

/// Turns entries into the bytes of a run.
pub(super) struct RunBuilder {
    run: u64,
    /// Bytes that were not taken yet, and the number of bytes before them.
    out: Vec<u8>,
    taken: u64,
    crc: Crc32c,
    block: BlockBuilder,
    /// Separator key of the block that is being filled.
    separator: Vec<u8>,
    partition: PartitionBuilder,
    directory: DirectoryBuilder,
    last_key: Vec<u8>,
    entries: u64,
    deletions: u64,
}

impl RunBuilder {
    pub(super) fn new(run: u64) -> Self {
        Self {
            run,
            out: header(run).to_vec(),
            taken: 0,
            crc: Crc32c::new(),
            block: BlockBuilder::default(),
            separator: Vec::new(),
            partition: PartitionBuilder::default(),
            directory: DirectoryBuilder::default(),
            last_key: Vec::new(),
            entries: 0,
            deletions: 0,
        }
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Appends an entry above all before.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        debug_assert!(self.is_empty() || self.last_key.as_slice() < key);
        if !self.block.is_empty() && self.block.size_with(key, value) > BLOCK_BYTES {
            self.end_block();
        }
        if self.block.is_empty() {
            self.separator.clear();
            let start = if self.is_empty() {
                key
            } else {
                separator(&self.last_key, key)
            };
            self.separator.extend_from_slice(start);
        }
        self.block.add(key, value);
        self.partition.add_key(key_hash(key));
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        self.deletions += u64::from(value.is_none());
    }

    /// Bytes that can be taken.
    pub(super) fn ready(&self) -> usize {
        self.out.len()
    }

    /// The bytes so far that were not taken.
    pub(super) fn take(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.out);
        self.taken += bytes.len() as u64;
        self.crc.update(&bytes);
        bytes.into()
    }

    /// Ends the run: its last bytes, what the manifest says of it, and its directory. There must
    /// be an entry.
    pub(super) fn finish(mut self, level: u32) -> Result<(Bytes, RunMeta, Directory)> {
        self.end_block();
        self.end_partition();
        let start = self.out.len();
        let bytes = self.directory.finish(&self.last_key);
        self.out.extend_from_slice(&bytes);
        let place = self.seal(start);
        let directory = Bytes::copy_from_slice(&self.out[start..]);
        let directory = Directory::parse(directory, place.offset).map_err(|why| {
            let path = path_of(self.run);
            Error::new(ErrorKind::Internal, format!("{path}: {why}"))
        })?;
        let footer = Footer {
            run: self.run,
            entries: self.entries,
            deletions: self.deletions,
            directory: place,
        };
        self.out.extend_from_slice(&footer.encode());
        let last = self.take();
        let meta = RunMeta {
            id: self.run,
            len: self.taken,
            entries: self.entries,
            deletions: self.deletions,
            crc: self.crc.value(),
            level,
        };
        Ok((last, meta, directory))
    }

    fn end_block(&mut self) {
        let start = self.out.len();
        self.block.finish(&mut self.out);
        let piece = self.seal(start);
        self.partition.add_block(&self.separator, piece);
        if self.partition.is_full() {
            self.end_partition();
        }
    }

    fn end_partition(&mut self) {
        if self.partition.is_empty() {
            return;
        }
        let first = self.partition.first().to_vec();
        let start = self.out.len();
        self.partition.finish(&mut self.out);
        let piece = self.seal(start);
        self.directory.add(&first, piece);
    }

    /// Puts the checksum behind the piece that begins at `start` of what is ready.
    fn seal(&mut self, start: usize) -> Piece {
        let offset = self.taken + start as u64;
        let crc = checksum(self.run, offset, &self.out[start..]);
        self.out.extend_from_slice(&crc.to_le_bytes());
        let len = u32::try_from(self.out.len() - start);
        Piece {
            offset,
            len: len.expect("pieces are far below 4 GiB"),
        }
    }
}

/// Refuses what does not fit the format.
pub(super) fn check_entry(key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let value_len = value.map_or(0, <[u8]>::len);
    if key.len() > KEY_BYTES_MAX || value_len > VALUE_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the catalog index takes no key of {} bytes with a value of {value_len}",
                key.len()
            ),
        ));
    }
    Ok(())
}

/// Writes the same bytes to several disks. A disk that fails is left out.
pub(super) struct CopyWriter {
    run: u64,
    targets: Vec<CopyTarget>,
    written: u64,
    last_error: Option<DiskError>,
    chores: GcTasks,
}

struct CopyTarget {
    member: IndexDisk,
    file: Option<Arc<dyn DiskFile>>,
}

impl CopyWriter {
    /// Makes the files.
    pub(super) async fn create(run: u64, members: &[IndexDisk], chores: &GcTasks) -> Self {
        let created = members.iter().map(|m| make_file(run, Arc::clone(&m.disk)));
        let created = join_all(created.collect::<Vec<_>>()).await;
        let mut writer = Self {
            run,
            targets: Vec::new(),
            written: 0,
            last_error: None,
            chores: chores.clone(),
        };
        for (member, file) in members.iter().zip(created) {
            let file = writer.note(file);
            let member = member.clone();
            writer.targets.push(CopyTarget { member, file });
        }
        writer
    }

    /// Appends to all files.
    ///
    /// # Errors
    /// When no disk is left.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let at = self.written;
        self.written += bytes.len() as u64;
        self.on_all(|file| {
            let buffers = vec![bytes.clone()];
            Box::pin(async move { file.write_at(at, buffers).await })
        })
        .await
    }

    /// Makes the files and their names durable. The copies that are whole.
    ///
    /// # Errors
    /// When there is none.
    pub(super) async fn finish(mut self) -> Result<Vec<RunCopy>> {
        self.on_all(|file| Box::pin(async move { file.sync().await }))
            .await?;
        let path = path_of(self.run);
        let mut copies = Vec::new();
        for target in std::mem::take(&mut self.targets) {
            let CopyTarget { member, file } = target;
            if file.is_none() {
                self.remove_from(&member).await;
                continue;
            }
            let synced = async {
                member.disk.sync_dir(FOLDER).await?;
                RunCopy::open(member.id, &member.disk, &path).await
            };
            let opened = synced.await;
            match self.note(opened) {
                Some(copy) => copies.push(copy),
                None => self.remove_from(&member).await,
            }
        }
        if copies.is_empty() {
            return Err(self.failure());
        }
        Ok(copies)
    }

    /// Removes what was written.
    pub(super) async fn abandon(self) {
        for target in &self.targets {
            self.remove_from(&target.member).await;
        }
    }

    /// Removes what was written to a disk, later if it does not allow it now.
    async fn remove_from(&self, member: &IndexDisk) {
        if !gc::remove(&*member.disk, &path_of(self.run)).await {
            self.chores.sweep(member.id, &member.disk);
        }
    }

    async fn on_all<F>(&mut self, operation: F) -> Result<()>
    where
        F: Fn(Arc<dyn DiskFile>) -> BoxFuture<'static, Result<(), DiskError>>,
    {
        let mut numbers = Vec::new();
        let mut running = Vec::new();
        for (n, target) in self.targets.iter().enumerate() {
            if let Some(file) = &target.file {
                numbers.push(n);
                running.push(operation(Arc::clone(file)));
            }
        }
        let results = join_all(running).await;
        for (n, result) in numbers.into_iter().zip(results) {
            let Err(error) = result else { continue };
            self.targets[n].file = None;
            self.warn(error);
        }
        if self.targets.iter().all(|target| target.file.is_none()) {
            return Err(self.failure());
        }
        Ok(())
    }

    fn note<T>(&mut self, result: Result<T, DiskError>) -> Option<T> {
        result.map_err(|error| self.warn(error)).ok()
    }

    fn warn(&mut self, error: DiskError) {
        tracing::warn!(%error, "a disk takes no copy of the catalog index");
        self.last_error = Some(error);
    }

    fn failure(&mut self) -> Error {
        let what = "write a run of the catalog index";
        match self.last_error.take() {
            Some(error) => Error::from(error).context(what),
            None => Error::new(ErrorKind::Unavailable, format!("{what}: no disk takes it")),
        }
    }
}

async fn make_file(run: u64, disk: Arc<dyn Disk>) -> Result<Arc<dyn DiskFile>, DiskError> {
    let path = path_of(run);
    match disk.create(&path, CreateOptions::default()).await {
        // What an earlier attempt left under this name is in the way.
        Err(error) if error.kind() == DiskErrorKind::Exists => {
            gc::remove(&*disk, &path).await;
            disk.create(&path, CreateOptions::default()).await
        }
        created => created,
    }
}
