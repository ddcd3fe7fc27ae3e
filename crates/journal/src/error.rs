//! Why a journal could not be opened.

use dewar_types::{DiskId, Error, ErrorKind};
use thiserror::Error as ThisError;

use crate::recovery_scan::QuorumShortage;
use crate::{EpochId, Seq};

/// Why a journal could not be opened or made.
#[derive(Debug, ThisError)]
pub enum OpenError {
    /// No disk has a journal; it must be made by a command.
    #[error("no disk holds a journal; is this a formatted pool, and are its disks mounted?")]
    NotFormatted,
    /// A disk has a journal already.
    #[error("disk {0} holds a journal already")]
    Formatted(DiskId),
    /// The opening rule (RECORDS.md section 5).
    #[error(
        "{found} of the {members} disks of the newest journal epoch {epoch} are there and {needed} \
         are needed; away are {}. Bring disks back: nothing is lost by waiting",
        listed(.away)
    )]
    TooFewMembers {
        /// Number of the newest epoch found.
        epoch: u64,
        /// Members that are there.
        found: usize,
        /// Members that must be there: all but m.
        needed: usize,
        /// Members in all.
        members: usize,
        /// The absent members.
        away: Vec<DiskId>,
    },
    /// Enough members to read everything, but too few to write: a pool of fewer than 2m+1 disks
    /// that lost some.
    #[error(
        "{} of the {} disks of the journal are there, and {}are needed to write it; away are {}. They have \
         all that was written. Bring disks back, or put new ones in the place of those that are gone",
        .0.able,
        .0.members.len(),
        needed(.0),
        listed(&.0.away)
    )]
    TooFewLeft(QuorumShortage),
    /// Too few disks to write to.
    #[error("{found} disks can be written and {needed} are needed for the journal")]
    TooFewWritable {
        /// Disks that can be written.
        found: usize,
        /// m+1.
        needed: usize,
    },
    /// Disks of lineages that were split by accepting a loss on both sides.
    #[error("the disks belong to journals that went separate ways: {0:?}; only one may be used")]
    SplitLineages(Vec<EpochId>),
    /// Acknowledged records are on none of the present disks.
    #[error(
        "the journal ends at record {end}, but records up to {acked} had been acknowledged; bring \
         back the disks that have them"
    )]
    Lost {
        /// The last record found.
        end: Seq,
        /// Lower bound of the acknowledged records.
        acked: Seq,
    },
    /// Any other error.
    #[error(transparent)]
    Other(#[from] Error),
}

/// How many must be there, and how many new ones are already.
fn needed(shortage: &QuorumShortage) -> String {
    match shortage.new {
        0 => format!("{} ", shortage.needed),
        new => format!("with {new} new ones that are there {} ", shortage.needed),
    }
}

/// Disks for people, as other messages name them.
pub(crate) fn listed(disks: &[DiskId]) -> String {
    let names: Vec<String> = disks.iter().map(DiskId::to_string).collect();
    names.join(", ")
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        let kind = match error {
            OpenError::Other(error) => return error,
            OpenError::NotFormatted => ErrorKind::NotFound,
            OpenError::Formatted(_) => ErrorKind::AlreadyExists,
            OpenError::TooFewMembers { .. }
            | OpenError::TooFewLeft(_)
            | OpenError::TooFewWritable { .. } => ErrorKind::Unavailable,
            OpenError::SplitLineages(_) | OpenError::Lost { .. } => ErrorKind::Corrupt,
        };
        Self::with_source(kind, error.to_string(), error)
    }
}
