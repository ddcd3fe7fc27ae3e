//! The entry that a name refers to, as a `stat` reply.

use dewar_checksum::{Algorithm, Digest, DigestSet};
use dewar_store::file::{Node, NodeAttributes};
use dewar_types::Timestamp;
use dewar_xrootd_proto::reply::{StatExtension, StatFlags, StatText};

use crate::session::Writer;

/// The checksums that clients know, by the names that they have there. What is `crc32` there is
/// the one of POSIX `cksum`; `zcrc32` is the one of zip.
pub(super) const CHECKSUMS: [(&str, Algorithm); 8] = [
    ("adler32", Algorithm::Adler32),
    ("crc32c", Algorithm::Crc32c),
    ("md5", Algorithm::Md5),
    ("crc32", Algorithm::PosixCksum),
    ("zcrc32", Algorithm::Crc32),
    ("crc64nvme", Algorithm::Crc64Nvme),
    ("sha1", Algorithm::Sha1),
    ("sha256", Algorithm::Sha256),
];

/// What `stat` says of it.
pub(super) fn stat_text(node: &Node) -> String {
    let attributes = node.attributes();
    let (flags, size, modified) = match node {
        Node::Directory(_) => (
            StatFlags::XSET
                .with(StatFlags::DIRECTORY)
                .with(StatFlags::READABLE)
                .with(StatFlags::WRITABLE),
            4096,
            attributes.modified,
        ),
        Node::File(_, info) => (file_flags(), info.size, info.modified),
    };
    text(attributes, flags, size, modified)
}

pub(super) fn file_flags() -> StatFlags {
    StatFlags::READABLE.with(StatFlags::WRITABLE)
}

/// The bit of modes that says that a file is not there before it is closed.
const PENDING: u32 = 0o1000;

/// What `stat` says of a file that is being written.
pub(super) fn pending_text(writer: &Writer, now: Timestamp) -> String {
    let flags = file_flags().with(StatFlags::POSC_PENDING);
    let now = seconds(now);
    let stat = StatText {
        id: 0,
        size: writer.size(),
        flags,
        mtime: now,
        more: Some(StatExtension {
            ctime: now,
            atime: now,
            mode: writer.permissions & 0o777 | PENDING,
            owner: writer.owner.account.0.to_string(),
            group: "*".to_owned(),
        }),
    };
    stat.to_string()
}

pub(super) fn text(
    attributes: &NodeAttributes,
    flags: StatFlags,
    size: u64,
    modified: Timestamp,
) -> String {
    let stat = StatText {
        id: attributes.id.0,
        size,
        flags,
        mtime: seconds(modified),
        more: Some(StatExtension {
            ctime: seconds(attributes.changed),
            // When something was read is not kept.
            atime: seconds(modified),
            mode: attributes.mode & 0o7777,
            owner: attributes.owner.0.to_string(),
            group: "*".to_owned(),
        }),
    };
    stat.to_string()
}

fn seconds(time: Timestamp) -> i64 {
    i64::try_from(time.secs()).unwrap_or(i64::MAX)
}

/// The checksum of a name, in whatever case that is written.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    let found = CHECKSUMS
        .iter()
        .find(|(its, _)| its.eq_ignore_ascii_case(name));
    found.map(|(_, algorithm)| *algorithm)
}

/// A checksum as `name value`, of those that are known. The name is as it was asked for: clients
/// compare it.
pub(super) fn checksum(digests: &DigestSet, name: &str) -> Option<String> {
    let digest = digests.get(algorithm(name)?)?;
    Some(format!("{name} {}", value(&digest)))
}

/// A checksum's value as clients of the reference implementation write it. They print `zcrc32` as it
/// stands in the memory of their machines, the least significant byte first.
pub(super) fn value(digest: &Digest) -> String {
    match digest.algorithm() {
        Algorithm::Crc32 => {
            let bytes = digest.as_bytes().iter().rev();
            bytes.map(|byte| format!("{byte:02x}")).collect()
        }
        _ => digest.hex(),
    }
}
