//! An open file of a simulated disk.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Result;
use super::core::{Core, SimCall};
use super::fault::{OpStage, SimOp, syncs};
use super::inode::Inode;
use crate::disk::DIRECT_BYTES;
use crate::{Access, BoxFuture, DiskErrorKind, DiskFile};

pub(super) struct SimFile {
    pub(super) core: Arc<Core>,
    pub(super) inode: Arc<Inode>,
    pub(super) access: Access,
    pub(super) path: String,
    /// How often the disk had been pulled out when it was opened.
    pub(super) pulls: u32,
}

/// How lasting a write is when it returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteDurability {
    Cached,
    Durable,
}

impl SimFile {
    /// Fails when the disk was pulled out since it was opened: it leads nowhere then, though the disk
    /// may be back.
    fn check_alive(&self, call: &SimCall) -> Result<()> {
        match self.core.pulls() == self.pulls || !self.core.state().readable() {
            true => Ok(()),
            false => Err(self.core.error(DiskErrorKind::Io, call)),
        }
    }

    pub(super) async fn read_all(&self, len_max: u64) -> Result<Bytes> {
        let len = self.inode.with(|content| content.len());
        let call = self.call("read", SimOp::Read);
        match usize::try_from(len) {
            Ok(bytes) if len <= len_max => {
                let mut read = self.read(vec![(0, bytes)]).await?;
                Ok(read.pop().unwrap_or_default())
            }
            _ => Err(self.core.error(DiskErrorKind::Invalid, &call)),
        }
    }

    pub(super) async fn write(
        &self,
        pieces: Vec<(u64, Vec<Bytes>)>,
        how: WriteDurability,
    ) -> Result<()> {
        let op = match how {
            WriteDurability::Cached => SimOp::Write,
            WriteDurability::Durable => SimOp::WriteDurable,
        };
        let call = self.call("write", op);
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|(offset, buffers)| (offset, joined(&buffers)))
            .collect();
        let sizes = pieces.iter().map(|(offset, data)| (*offset, data.len()));
        if self.access == Access::Read || !self.fits(sizes) {
            return Err(self.core.error(DiskErrorKind::Invalid, &call));
        }
        self.check_alive(&call)?;
        let inode = Arc::clone(&self.inode);
        let path = self.path.clone();
        let effect = move |core: &Core, stage| {
            let lasting = how == WriteDurability::Durable && syncs(SimOp::WriteDurable, &path);
            let kept = if lasting {
                how
            } else {
                WriteDurability::Cached
            };
            carry_out(core, (&inode, &path), &pieces, kept, stage)?;
            match how {
                WriteDurability::Durable => check_place(core, &path, &inode),
                WriteDurability::Cached => Ok(()),
            }
        };
        self.core.perform(call, effect).await
    }

    async fn read(&self, pieces: Vec<(u64, usize)>) -> Result<Vec<Bytes>> {
        let call = self.call("read", SimOp::Read);
        if !self.fits(pieces.iter().copied()) {
            return Err(self.core.error(DiskErrorKind::Invalid, &call));
        }
        self.check_alive(&call)?;
        let inode = Arc::clone(&self.inode);
        let effect = move |core: &Core, stage: OpStage| {
            let mut read = Vec::with_capacity(pieces.len());
            for (offset, len) in pieces {
                let bytes = inode.with(|content| content.read(offset, len));
                read.push(bytes.ok_or(DiskErrorKind::Io)?);
            }
            let bytes = read.iter().map(|b| b.len() as u64).sum::<u64>();
            core.control.lock().counters.bytes_read += bytes;
            if stage == OpStage::Flipped
                && let Some(first) = read.first_mut()
            {
                let mut wrong = BytesMut::from(&first[..]);
                flip_any(&mut wrong, core);
                *first = wrong.freeze();
            }
            Ok(read)
        };
        self.core.perform(call, effect).await
    }

    /// Direct access comes in whole blocks. Reads may ask for more than there is.
    fn fits(&self, pieces: impl IntoIterator<Item = (u64, usize)>) -> bool {
        let direct = self.access == Access::Direct;
        pieces.into_iter().all(|(offset, len)| {
            let aligned =
                offset.is_multiple_of(DIRECT_BYTES) && (len as u64).is_multiple_of(DIRECT_BYTES);
            (aligned || !direct) && offset.checked_add(len as u64).is_some()
        })
    }

    fn call(&self, name: &'static str, op: SimOp) -> SimCall {
        SimCall {
            name,
            op,
            path: self.path.clone(),
        }
    }
}

impl DiskFile for SimFile {
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>> {
        let dead = self.core.pulls() != self.pulls;
        if self.access == Access::Direct || dead || !self.core.state().readable() {
            return None;
        }
        {
            let control = self.core.control.lock();
            if control.hanging || !self.core.shared.rng.chance(control.cached) {
                return None;
            }
        }
        let bytes = self.inode.with(|content| content.read(offset, len))?;
        let mut control = self.core.control.lock();
        control.counters.reads_now += 1;
        control.counters.bytes_read += bytes.len() as u64;
        Some(Ok(bytes))
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let mut read = self.read(vec![(offset, len)]).await?;
            Ok(read.pop().unwrap_or_default())
        })
    }

    fn read_pieces(&self, pieces: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(self.read(pieces))
    }

    fn write_at(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(vec![(offset, buffers)], WriteDurability::Cached))
    }

    fn write_pieces(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(pieces, WriteDurability::Cached))
    }

    fn write_durable(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(vec![(offset, buffers)], WriteDurability::Durable))
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        let inode = Arc::clone(&self.inode);
        let path = self.path.clone();
        let effect = move |core: &Core, stage| {
            if stage != OpStage::Cut && syncs(SimOp::Sync, &path) {
                inode.with(super::content::FileContent::settle);
            }
            check_place(core, &path, &inode)
        };
        Box::pin(async move {
            let call = self.call("sync", SimOp::Sync);
            self.check_alive(&call)?;
            self.core.perform(call, effect).await
        })
    }

    /// Takes no time and meets no faults: it is asked all the while, and changes nothing.
    fn is_in_place(&self) -> BoxFuture<'_, Result<bool>> {
        let call = self.call("look for", SimOp::Read);
        let found = match self.core.state() {
            state if !state.readable() => Err(self.core.error(DiskErrorKind::Missing, &call)),
            _ => Ok(check_place(&self.core, &self.path, &self.inode).is_ok()),
        };
        Box::pin(std::future::ready(found))
    }

    fn len(&self) -> BoxFuture<'_, Result<u64>> {
        let inode = Arc::clone(&self.inode);
        let effect = move |_: &Core, _| Ok(inode.with(|content| content.len()));
        Box::pin(async move {
            let call = self.call("ask the length of", SimOp::Read);
            self.check_alive(&call)?;
            self.core.perform(call, effect).await
        })
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({}/{})", self.core.label, self.path)
    }
}

/// Fails if the name does not lead to the file any more.
fn check_place(core: &Core, path: &str, inode: &Arc<Inode>) -> Result<(), DiskErrorKind> {
    let media = core.media.lock();
    match media.names.file(path) {
        Some(found) if Arc::ptr_eq(found, inode) => Ok(()),
        _ => Err(DiskErrorKind::NotFound),
    }
}

fn carry_out(
    core: &Core,
    (inode, path): (&Arc<Inode>, &str),
    pieces: &[(u64, Bytes)],
    how: WriteDurability,
    stage: OpStage,
) -> Result<(), DiskErrorKind> {
    let astray = (stage == OpStage::Misdirected).then(|| core.astray(inode, path));
    for (offset, data) in pieces {
        match stage {
            OpStage::Lost => continue,
            OpStage::Misdirected => {
                if let Some(astray) = &astray {
                    astray.write(*offset, data);
                }
                continue;
            }
            OpStage::Flipped => {
                let mut wrong = BytesMut::from(&data[..]);
                flip_any(&mut wrong, core);
                inode.write(*offset, &wrong)?;
            }
            OpStage::Whole | OpStage::Cut => inode.write(*offset, data)?,
        }
        if how == WriteDurability::Durable && stage != OpStage::Cut {
            inode.with(|content| content.settle_range(*offset, data.len() as u64));
        }
    }
    let bytes = pieces
        .iter()
        .map(|(_, data)| data.len() as u64)
        .sum::<u64>();
    core.control.lock().counters.bytes_written += bytes;
    Ok(())
}

fn flip_any(bytes: &mut BytesMut, core: &Core) {
    let rng = &core.shared.rng;
    let n = usize::try_from(rng.below(bytes.len() as u64)).unwrap_or(0);
    if let Some(byte) = bytes.get_mut(n) {
        *byte ^= 1 << rng.below(8);
    }
}

fn joined(buffers: &[Bytes]) -> Bytes {
    match buffers {
        [one] => one.clone(),
        many => many.concat().into(),
    }
}
