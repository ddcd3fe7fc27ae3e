//! Epochs: the disks that take part in the journal, and the records that count.
//!
//! Every opening for writing and every change of disks starts a new epoch (RECORDS.md section 5).
//! Its record is the file `journal/epoch` on every member. It is written twice. First it is written
//! as a *proposal*, which must be durable on more than m members of the old and of the new list.
//! When the journal records before it are durable too, it is written as *confirmed*, by the same
//! rule. Only then is it used.
//!
//! # Why this is enough
//! An opening reads all but m members of the newest confirmed epoch that it finds. It therefore
//! reads at least one confirmed copy of any epoch that was ever used. It also reads at least one
//! proposal of any epoch that was ever confirmed anywhere. A new number is above every number seen,
//! proposals included. No two confirmed epochs therefore share a number, and the highest confirmed
//! one is the one that was used last. A proposal that was not confirmed names nothing that was
//! acknowledged and is ignored.
//!
//! # Declared lost
//! Consider a pool of fewer than 2m+1 members that has lost m of them. The opening rule holds, so
//! it has all acknowledged records. But the record of a new epoch can be written to at most m
//! members, which is too few. An administrator can declare l disks permanently lost. The record
//! must then reach more than m-l of the other members, and all of those that can be written
//! ([`lists`]). An opening without those l disks reads all but m of the old list, and so reads a
//! disk with the record.
//!
//! The lost disks may return after all. They are at most m, so they cannot begin an epoch of their
//! own. Together with any of the other members they learn that they were removed. All but m members
//! must be present as ever, and disks that were declared lost do not count as present.
//!
//! # Crash cases
//! A crash during the proposal, or while records are made durable for it: the old epoch is still
//! the highest confirmed one and its files are untouched. A crash during the confirmation: either
//! of the two is opened. The new epoch holds everything that the old one had acknowledged, and
//! nothing else was acknowledged.

mod publish;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use dewar_types::{DiskId, Error, ErrorKind};
use minicbor::{Decode, Encode};

use crate::{Seq, checksum};

pub(crate) use publish::{JournalMember, Publication, publish};

/// The path of the epoch record on every member.
pub(crate) const EPOCH_PATH: &str = "journal/epoch";
const MAGIC: [u8; 8] = *b"DEWAREPO";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 20;

/// The random identity of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochId(pub u128);

impl fmt::Display for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for EpochId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochId({self})")
    }
}

impl<C> Encode<C> for EpochId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(&self.0.to_be_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for EpochId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        let bytes: [u8; 16] = d
            .bytes()?
            .try_into()
            .map_err(|_| minicbor::decode::Error::message("an epoch id has 16 bytes"))?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

/// A stretch of the log that one epoch wrote.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Span {
    #[n(0)]
    pub(crate) epoch: EpochId,
    /// The epoch's number.
    #[n(1)]
    pub(crate) number: u64,
    /// Its first file.
    #[n(2)]
    pub(crate) file: u64,
    /// Sequence of its first record.
    #[n(3)]
    pub(crate) first: Seq,
    /// Checksum of the record before.
    #[n(4)]
    pub(crate) prev: u32,
    /// Where it ends; what it wrote beyond is void. `None` for the epoch itself.
    #[n(5)]
    pub(crate) last: Option<Seq>,
}

/// The content of the file `journal/epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct EpochFile {
    /// The newest confirmed epoch that this disk knows of.
    #[n(0)]
    pub(crate) confirmed: Option<Epoch>,
    /// Number of the epoch that was being started.
    #[n(1)]
    pub(crate) proposed: Option<u64>,
}

/// An epoch.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Epoch {
    /// Disks of another lineage are never merged; the id is that of the lineage's first epoch.
    #[n(0)]
    pub(crate) lineage: EpochId,
    /// Lineages this one was split off from, by `--accept-loss`.
    #[n(1)]
    pub(crate) former: Vec<EpochId>,
    #[n(2)]
    pub(crate) id: EpochId,
    #[n(3)]
    pub(crate) number: u64,
    /// The epoch before and the sequence where it ends.
    #[n(4)]
    pub(crate) parent: Option<EpochId>,
    #[n(5)]
    pub(crate) parent_end: Seq,
    /// How many members may be away.
    #[n(6)]
    pub(crate) m: u32,
    #[n(7)]
    pub(crate) members: Vec<DiskId>,
    /// The members that hold the journal.
    #[n(8)]
    pub(crate) holders: Vec<DiskId>,
    /// The log, oldest first; the last one is this epoch's own.
    #[n(9)]
    pub(crate) spans: Vec<Span>,
    /// No record up to this one is needed any more.
    #[n(10)]
    pub(crate) floor: Seq,
    /// Records up to this one were durable when this was written.
    #[n(11)]
    pub(crate) acked: Seq,
    /// Disks that were removed, or away when a loss was accepted: they take no part, unless a later
    /// epoch has them as members again, which they join blank.
    #[cbor(n(12), skip_if = "Vec::is_empty")]
    pub(crate) removed: Vec<DiskId>,
}

impl EpochFile {
    /// The highest number in it.
    pub(crate) fn number(&self) -> u64 {
        let confirmed = self.confirmed.as_ref().map_or(0, |epoch| epoch.number);
        confirmed.max(self.proposed.unwrap_or(0))
    }

    /// The file's bytes.
    pub(crate) fn encode(&self) -> Bytes {
        let cbor = minicbor::to_vec(self).expect("writing to memory cannot fail");
        Self::framed(&cbor)
    }

    fn framed(cbor: &[u8]) -> Bytes {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + cbor.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&checksum::crc32c(&[cbor]).to_le_bytes());
        // The longest possible list of disks and spans is far below 4 GiB.
        bytes.extend_from_slice(&(cbor.len() as u32).to_le_bytes());
        bytes.extend_from_slice(cbor);
        bytes.into()
    }

    /// The same content with a head that fits it, for the fuzz target.
    pub(crate) fn sealed(bytes: &[u8]) -> Option<Bytes> {
        Some(Self::framed(bytes.get(HEAD_BYTES..)?))
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it does not verify, [`ErrorKind::Unsupported`] if it is of a
    /// later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("epoch file: {what}"));
        let Some((head, cbor)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(corrupt("too short"));
        };
        if head[..8] != MAGIC {
            return Err(corrupt("no epoch file"));
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("epoch file of version {version}; this Dewar reads version {VERSION}"),
            ));
        }
        let crc = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let len = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
        let sound =
            checksum::crc32c(&[cbor]) == crc || !dewar_env::safeguard("checksums of epoch files");
        if cbor.len() != len as usize || !sound {
            return Err(corrupt("checksum or length is wrong"));
        }
        let file: Self =
            minicbor::decode(cbor).map_err(|error| corrupt(&format!("not readable: {error}")))?;
        if let Some(epoch) = &file.confirmed
            && epoch.spans.last().is_none_or(|span| span.epoch != epoch.id)
        {
            return Err(corrupt("the last stretch is not the epoch's own"));
        }
        Ok(file)
    }
}

/// The members that a record can be written to now.
pub(crate) fn able(members: &[std::sync::Arc<JournalMember>]) -> Vec<DiskId> {
    let able = members.iter().filter(|member| member.countable());
    able.map(|member| member.id).collect()
}

/// How many of `list` are in `there`.
pub(crate) fn count(list: &[DiskId], there: &[DiskId]) -> usize {
    list.iter().filter(|id| there.contains(id)).count()
}

/// The lists that a new epoch must reach, each with a number that must be exceeded: the members of the
/// one before, and its own. Of the old ones so many of `there`, who can be written, as the module says;
/// `lost` were declared so.
pub(crate) fn lists(
    before: &Epoch,
    epoch: &Epoch,
    lost: &[DiskId],
    there: &[DiskId],
) -> Vec<(Vec<DiskId>, usize)> {
    let m = before.m as usize;
    let new = (epoch.members.clone(), epoch.m as usize);
    let gone = |id: &DiskId| lost.contains(id) && !there.contains(id);
    let (gone, stay): (Vec<DiskId>, Vec<DiskId>) =
        before.members.iter().copied().partition(|id| gone(id));
    let able = stay.iter().filter(|id| there.contains(id));
    let able: Vec<DiskId> = able.copied().collect();
    let all_but_m = before.members.len().saturating_sub(m);
    if able.len() > m || able.len() < all_but_m || gone.is_empty() {
        return vec![(before.members.clone(), m), new];
    }
    let all_but_one = able.len().saturating_sub(1);
    vec![(stay, m - gone.len()), (able, all_but_one), new]
}
