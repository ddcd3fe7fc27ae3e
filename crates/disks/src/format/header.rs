//! The first page of a shard file. It identifies the shard, and has enough facts about the object
//! to salvage it when every catalog is gone.
//!
//! A header is written when the blob is sealed, when length and digests are known. A writer may
//! also write an unsealed one when it makes the file. If the power fails in the middle of the
//! second write, the page may fail its checksum. The blob was not acknowledged yet, so nothing
//! acknowledged is lost. Reading does not need headers, since the catalog's record has the
//! geometry, and slots bind pages to their position. Salvage and `fsck` need them.
//!
//! Every byte of the page is either a field, the owner description, or zero, and the last four are
//! the CRC-32C of all before. A reader of this version refuses any other version, checksum kind,
//! page size or flag, and any nonzero padding.

use core::ops::Range;

use dewar_checksum::crc32c;
use dewar_types::{BlobId, DiskId, Layout, PAGE_BYTES, Timestamp};
use thiserror::Error;

use super::{
    BLOB_BYTES_MAX, FORMAT_VERSION, Geometry, HEADER_BYTES, OWNER_BYTES_MAX, PageKey, SLOT_BYTES,
    layout_flaw,
};

const MAGIC: [u8; 8] = *b"DEWARSHD";

/// Where the fields stand; numbers are little-endian.
mod at {
    pub(super) const VERSION: usize = 8;
    pub(super) const CHECKSUM_KIND: usize = 10;
    pub(super) const SLOT_BYTES: usize = 11;
    pub(super) const PAGE_BYTES: usize = 12;
    pub(super) const BLOB: usize = 16;
    pub(super) const GENERATION: usize = 24;
    pub(super) const SHARD: usize = 28;
    pub(super) const DATA_SHARDS: usize = 29;
    pub(super) const PARITY_SHARDS: usize = 30;
    pub(super) const KIND: usize = 31;
    pub(super) const UNIT: usize = 32;
    pub(super) const FLAGS: usize = 36;
    pub(super) const BLOB_LEN: usize = 40;
    pub(super) const CREATED: usize = 48;
    pub(super) const ZEROS: core::ops::Range<usize> = 56..64;
    pub(super) const CLUSTER: usize = 64;
    pub(super) const POOL: usize = 80;
    pub(super) const DISK: usize = 96;
    pub(super) const OWNER_LEN: usize = 112;
    pub(super) const MORE_ZEROS: core::ops::Range<usize> = 114..128;
    pub(super) const OWNER: usize = 128;
    pub(super) const CRC: usize = super::HEADER_BYTES - 4;
}

/// Set once the blob is complete and the header final.
const FLAG_SEALED: u32 = 1;

/// A blob whose length is not known yet.
const LEN_UNKNOWN: u64 = u64::MAX;

/// How pages are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// CRC-32C of the stored bytes XOR a hash of the page's position ([`super::PageKey`]).
    Crc32cMixed,
}

impl ChecksumKind {
    const fn code(self) -> u8 {
        match self {
            Self::Crc32cMixed => 1,
        }
    }
}

/// The kind of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKind {
    /// The content of one object, or of a part of one.
    Object,
    /// A segment of small objects, each with a header of its own.
    Segment,
}

impl ShardKind {
    const fn code(self) -> u8 {
        match self {
            Self::Object => 1,
            Self::Segment => 2,
        }
    }
}

/// The header of a shard file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHeader {
    /// How the pages are protected.
    pub checksum: ChecksumKind,
    /// Kind of the blob.
    pub kind: ShardKind,
    /// Whether the blob is complete: its length is known and the owner description final.
    pub sealed: bool,
    /// The blob.
    pub blob: BlobId,
    /// Generation of the encoding.
    pub generation: u32,
    /// Number of the shard, 0 to k+m-1.
    pub shard: u8,
    /// How the blob is cut.
    pub layout: Layout,
    /// Length of the blob in bytes, once it is known.
    pub blob_len: Option<u64>,
    /// When the blob was begun.
    pub created: Timestamp,
    /// The Dewar that wrote it.
    pub cluster: u128,
    /// The pool it was written for.
    pub pool: u128,
    /// The disk for which it was written. On another disk it is a manual copy.
    pub disk: DiskId,
    /// Facts about the object for salvage (path, owner, version, digests), up to
    /// [`OWNER_BYTES_MAX`] bytes that this crate does not interpret.
    pub owner: Vec<u8>,
}

/// Why bytes are not a header, or a header cannot be written.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer bytes than a header.
    #[error("{got} bytes are too few for a shard header of {HEADER_BYTES}")]
    Short {
        /// Bytes given.
        got: usize,
    },
    /// All zeros: the header was never written.
    #[error("the shard header was never written")]
    Empty,
    /// Not a shard file.
    #[error("not a shard file: it begins with {0:02x?}")]
    Magic([u8; 8]),
    /// Written by another version of the format.
    #[error("shard format version {0}; this program reads {FORMAT_VERSION}")]
    Version(u16),
    /// Torn, damaged or half written.
    #[error("the shard header fails its checksum: {found:08x} for {expected:08x}")]
    Checksum {
        /// The CRC-32C in the header.
        expected: u32,
        /// The CRC-32C of its bytes.
        found: u32,
    },
    /// A field with a value that this version does not have.
    #[error("shard header field {field} has the unknown value {value}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A layout outside the format.
    #[error("shard header has layout {layout} with units of {} bytes: {flaw}", layout.unit)]
    Layout {
        /// The layout.
        layout: Layout,
        /// The violated rule.
        flaw: &'static str,
    },
    /// Nonzero bytes outside the fields of this version.
    #[error("shard header has data at byte {at}, where version {FORMAT_VERSION} has none")]
    Unknown {
        /// The first such byte.
        at: usize,
    },
}

impl ShardHeader {
    /// The page key of this shard.
    #[must_use]
    pub const fn page_key(&self) -> PageKey {
        PageKey::new(self.blob, self.generation, self.shard)
    }

    /// The geometry of the blob, when its length is known.
    #[must_use]
    pub fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.layout, self.blob_len?).ok()
    }

    /// Encodes the page for the disk.
    ///
    /// # Errors
    /// [`HeaderError::Field`] or [`HeaderError::Layout`] when a field is outside the format: a
    /// shard index of k+m or more, a length over [`BLOB_BYTES_MAX`], a sealed header without
    /// length, an owner description over [`OWNER_BYTES_MAX`].
    pub fn encode(&self) -> Result<[u8; HEADER_BYTES], HeaderError> {
        self.check()?;
        let mut page = [0; HEADER_BYTES];
        let flags = if self.sealed { FLAG_SEALED } else { 0 };
        put(&mut page, 0, MAGIC);
        put(&mut page, at::VERSION, FORMAT_VERSION.to_le_bytes());
        put(&mut page, at::CHECKSUM_KIND, [self.checksum.code()]);
        put(&mut page, at::SLOT_BYTES, [SLOT_BYTES as u8]);
        put(&mut page, at::PAGE_BYTES, (PAGE_BYTES as u32).to_le_bytes());
        put(&mut page, at::BLOB, self.blob.0.to_le_bytes());
        put(&mut page, at::GENERATION, self.generation.to_le_bytes());
        put(&mut page, at::SHARD, [self.shard]);
        put(&mut page, at::DATA_SHARDS, [self.layout.k]);
        put(&mut page, at::PARITY_SHARDS, [self.layout.m]);
        put(&mut page, at::KIND, [self.kind.code()]);
        put(&mut page, at::UNIT, self.layout.unit.to_le_bytes());
        put(&mut page, at::FLAGS, flags.to_le_bytes());
        put(
            &mut page,
            at::BLOB_LEN,
            self.blob_len.unwrap_or(LEN_UNKNOWN).to_le_bytes(),
        );
        put(&mut page, at::CREATED, self.created.0.to_le_bytes());
        put(&mut page, at::CLUSTER, self.cluster.to_le_bytes());
        put(&mut page, at::POOL, self.pool.to_le_bytes());
        put(&mut page, at::DISK, self.disk.0.to_le_bytes());
        put(
            &mut page,
            at::OWNER_LEN,
            (self.owner.len() as u16).to_le_bytes(),
        );
        page[at::OWNER..at::OWNER + self.owner.len()].copy_from_slice(&self.owner);
        let crc = crc32c(&page[..at::CRC]);
        put(&mut page, at::CRC, crc.to_le_bytes());
        Ok(page)
    }

    /// Decodes the header in the first [`HEADER_BYTES`] of `bytes`, which may be any bytes.
    ///
    /// # Errors
    /// [`HeaderError`] for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let page: &[u8; HEADER_BYTES] = bytes
            .first_chunk()
            .ok_or(HeaderError::Short { got: bytes.len() })?;
        let magic: [u8; 8] = get(page, 0);
        if magic != MAGIC {
            return Err(match page.iter().all(|&byte| byte == 0) {
                true => HeaderError::Empty,
                false => HeaderError::Magic(magic),
            });
        }
        // Before the checksum: another version may keep it elsewhere.
        let version = u16::from_le_bytes(get(page, at::VERSION));
        if version != FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        let expected = u32::from_le_bytes(get(page, at::CRC));
        let found = crc32c(&page[..at::CRC]);
        if found != expected {
            return Err(HeaderError::Checksum { expected, found });
        }
        Self::fields(page)
    }

    /// The fields of a page whose checksum is good. The checksum is no proof that Dewar wrote it.
    fn fields(page: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let checksum = match page[at::CHECKSUM_KIND] {
            1 => ChecksumKind::Crc32cMixed,
            other => return Err(unknown("checksum kind", other)),
        };
        if usize::from(page[at::SLOT_BYTES]) != SLOT_BYTES {
            return Err(unknown("slot size", page[at::SLOT_BYTES]));
        }
        let page_bytes = u32::from_le_bytes(get(page, at::PAGE_BYTES));
        if page_bytes as usize != PAGE_BYTES {
            return Err(unknown("page size", page_bytes));
        }
        let kind = match page[at::KIND] {
            1 => ShardKind::Object,
            2 => ShardKind::Segment,
            other => return Err(unknown("kind", other)),
        };
        let flags = u32::from_le_bytes(get(page, at::FLAGS));
        if flags & !FLAG_SEALED != 0 {
            return Err(unknown("flags", flags));
        }
        let blob_len = u64::from_le_bytes(get(page, at::BLOB_LEN));
        let owner_len = usize::from(u16::from_le_bytes(get(page, at::OWNER_LEN)));
        if owner_len > OWNER_BYTES_MAX {
            return Err(unknown("owner length", owner_len as u64));
        }
        let owner_end = at::OWNER + owner_len;
        zeros(page, at::ZEROS)?;
        zeros(page, at::MORE_ZEROS)?;
        zeros(page, owner_end..at::CRC)?;
        let header = Self {
            checksum,
            kind,
            sealed: flags & FLAG_SEALED != 0,
            blob: BlobId(u64::from_le_bytes(get(page, at::BLOB))),
            generation: u32::from_le_bytes(get(page, at::GENERATION)),
            shard: page[at::SHARD],
            layout: Layout {
                k: page[at::DATA_SHARDS],
                m: page[at::PARITY_SHARDS],
                unit: u32::from_le_bytes(get(page, at::UNIT)),
            },
            blob_len: Some(blob_len).filter(|&len| len != LEN_UNKNOWN),
            created: Timestamp(u64::from_le_bytes(get(page, at::CREATED))),
            cluster: u128::from_le_bytes(get(page, at::CLUSTER)),
            pool: u128::from_le_bytes(get(page, at::POOL)),
            disk: DiskId(u128::from_le_bytes(get(page, at::DISK))),
            owner: page[at::OWNER..owner_end].to_vec(),
        };
        header.check()?;
        Ok(header)
    }

    /// What holds for every header, written or read.
    fn check(&self) -> Result<(), HeaderError> {
        if let Some(flaw) = layout_flaw(self.layout) {
            return Err(HeaderError::Layout {
                layout: self.layout,
                flaw,
            });
        }
        if usize::from(self.shard) >= self.layout.shards() {
            return Err(unknown("shard", self.shard));
        }
        match self.blob_len {
            Some(len) if len > BLOB_BYTES_MAX => return Err(unknown("blob length", len)),
            None if self.sealed => return Err(unknown("blob length", LEN_UNKNOWN)),
            _ => {}
        }
        if self.owner.len() > OWNER_BYTES_MAX {
            return Err(unknown("owner length", self.owner.len() as u64));
        }
        Ok(())
    }
}

fn put<const N: usize>(page: &mut [u8; HEADER_BYTES], at: usize, bytes: [u8; N]) {
    page[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(page: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

fn unknown(field: &'static str, value: impl Into<u64>) -> HeaderError {
    HeaderError::Field {
        field,
        value: value.into(),
    }
}

fn zeros(page: &[u8; HEADER_BYTES], range: Range<usize>) -> Result<(), HeaderError> {
    match page[range.clone()].iter().position(|&byte| byte != 0) {
        Some(offset) => Err(HeaderError::Unknown {
            at: range.start + offset,
        }),
        None => Ok(()),
    }
}

/// Fuzz target: any bytes are refused with an error, or are a header that encodes to the same bytes
/// again. The bytes are tried unchanged, and with correct magic, version and checksum, so that the
/// later checks are reached.
///
/// # Panics
/// When that does not hold.
pub fn fuzz_shard_header(bytes: &[u8]) {
    let check = |bytes: &[u8]| {
        if let Ok(header) = ShardHeader::decode(bytes) {
            let again = header.encode().expect("what was decoded can be encoded");
            assert!(bytes.starts_with(&again), "another encoding of {header:?}");
        }
    };
    check(bytes);
    let mut page = [0; HEADER_BYTES];
    let taken = bytes.len().min(HEADER_BYTES);
    page[..taken].copy_from_slice(&bytes[..taken]);
    put(&mut page, 0, MAGIC);
    put(&mut page, at::VERSION, FORMAT_VERSION.to_le_bytes());
    let crc = crc32c(&page[..at::CRC]);
    put(&mut page, at::CRC, crc.to_le_bytes());
    check(&page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> ShardHeader {
        ShardHeader {
            checksum: ChecksumKind::Crc32cMixed,
            kind: ShardKind::Object,
            sealed: true,
            blob: BlobId(0x0001_0000_0000_002a),
            generation: 7,
            shard: 5,
            layout: Layout::new(4, 2).expect("4+2"),
            blob_len: Some(1_000_000),
            created: Timestamp(1_800_000_000_123_456_789),
            cluster: 0x11,
            pool: 0x22,
            disk: DiskId(0x33),
            owner: b"/atlas/data/x.root".to_vec(),
        }
    }

    /// The page with other bytes at `at` and its checksum made good.
    fn forged(at: usize, bytes: &[u8]) -> [u8; HEADER_BYTES] {
        let mut page = header().encode().expect("a good header");
        page[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c(&page[..at::CRC]);
        put(&mut page, at::CRC, crc.to_le_bytes());
        page
    }

    #[test]
    fn garbage_is_refused_by_kind() {
        let decode = |bytes: &[u8]| ShardHeader::decode(bytes).expect_err("garbage");
        let good = header().encode().expect("a good header");
        assert_eq!(ShardHeader::decode(&good), Ok(header()));
        assert_eq!(decode(&[]), HeaderError::Short { got: 0 });
        assert_eq!(decode(&good[..4095]), HeaderError::Short { got: 4095 });
        assert_eq!(decode(&[0; 4096]), HeaderError::Empty);
        assert_eq!(decode(&[7; 5000]), HeaderError::Magic([7; 8]));
        assert_eq!(
            decode(&forged(at::VERSION, &[2, 0])),
            HeaderError::Version(2)
        );
        let field = |at, bytes: &[u8]| match decode(&forged(at, bytes)) {
            HeaderError::Field { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(field(at::CHECKSUM_KIND, &[2]), "checksum kind");
        assert_eq!(field(at::SLOT_BYTES, &[16]), "slot size");
        assert_eq!(field(at::PAGE_BYTES, &[0, 0, 1, 0]), "page size");
        assert_eq!(field(at::KIND, &[0]), "kind");
        assert_eq!(field(at::SHARD, &[6]), "shard");
        assert_eq!(field(at::FLAGS, &[3, 0, 0, 0]), "flags");
        assert_eq!(field(at::BLOB_LEN, &[0xff; 8]), "blob length");
        assert_eq!(
            field(at::BLOB_LEN, &[1, 0, 0, 0, 0, 0, 0, 1]),
            "blob length"
        );
        assert_eq!(field(at::OWNER_LEN, &[1, 12]), "owner length");
        for (at, bytes) in [
            (at::DATA_SHARDS, &[0][..]),
            (at::DATA_SHARDS, &[17]),
            (at::PARITY_SHARDS, &[5]),
            (at::UNIT, &[0, 0, 0, 0]),
            (at::UNIT, &[1, 16, 0, 0]),
            (at::UNIT, &[0, 16, 64, 0]),
        ] {
            let error = decode(&forged(at, bytes));
            assert!(matches!(error, HeaderError::Layout { .. }), "{error}");
        }
        for at in [56, 63, 114, 127, at::OWNER + 18, at::CRC - 1] {
            assert_eq!(decode(&forged(at, &[1])), HeaderError::Unknown { at });
        }
    }

    #[test]
    fn every_flipped_bit_shows() {
        let mut page = header().encode().expect("a good header");
        for bit in 0..HEADER_BYTES * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(ShardHeader::decode(&page).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_written() {
        let refused = |change: fn(&mut ShardHeader)| {
            let mut header = header();
            change(&mut header);
            header.encode().expect_err("outside the format");
        };
        refused(|h| h.shard = 6);
        refused(|h| h.layout.k = 0);
        refused(|h| h.layout.unit = 4095);
        refused(|h| h.blob_len = None);
        refused(|h| h.blob_len = Some(BLOB_BYTES_MAX + 1));
        refused(|h| h.owner = vec![0; OWNER_BYTES_MAX + 1]);
        let mut open = header();
        (open.sealed, open.blob_len) = (false, None);
        open.owner = vec![0xff; OWNER_BYTES_MAX];
        let page = open.encode().expect("a header in the making");
        assert_eq!(ShardHeader::decode(&page), Ok(open));
    }

    prop_compose! {
        fn any_header()(
            segment: bool, sealed: bool, blob: u64, generation: u32, k in 1u8..=16, m in 0u8..=4,
            shard: proptest::sample::Index, unit in 1u32..=1024, created: u64,
            len in proptest::option::of(0..=BLOB_BYTES_MAX),
            ids: [u128; 3], owner in proptest::collection::vec(any::<u8>(), 0..=OWNER_BYTES_MAX),
        ) -> ShardHeader {
            let layout = Layout { k, m, unit: unit * 4096 };
            ShardHeader {
                checksum: ChecksumKind::Crc32cMixed,
                kind: if segment { ShardKind::Segment } else { ShardKind::Object },
                sealed: sealed && len.is_some(),
                blob: BlobId(blob),
                generation,
                shard: shard.index(layout.shards()) as u8,
                layout,
                blob_len: len,
                created: Timestamp(created),
                cluster: ids[0],
                pool: ids[1],
                disk: DiskId(ids[2]),
                owner,
            }
        }
    }

    proptest! {
        #[test]
        fn decodes_what_it_encodes(header in any_header()) {
            let page = header.encode().expect("in the format");
            prop_assert_eq!(ShardHeader::decode(&page), Ok(header));
        }

        /// Some bytes of a good header changed, mostly in its fields.
        #[test]
        fn damaged_headers_do_not_panic(
            header in any_header(),
            changes in proptest::collection::vec((0usize..140, any::<u8>()), 1..6),
            cut in 0usize..=HEADER_BYTES,
        ) {
            let mut page = header.encode().expect("in the format");
            for (at, byte) in changes {
                page[at] = byte;
            }
            fuzz_shard_header(&page);
            fuzz_shard_header(&page[..cut]);
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_shard_header(&bytes);
        }
    }
}
