//! Why the disk in a folder is not used, in words for an administrator.

use dewar_disks::pool::DewarId;
use dewar_types::{Error, ErrorKind};

/// Why a folder with a disk in it is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskRefusal {
    /// It was removed from this pool, or was away when a loss was accepted.
    Removed,
    /// It belongs to another deployment.
    OtherDewar(DewarId),
    /// It belongs to a pool of this deployment that is not configured.
    OtherPool(u16),
    /// Another folder, which is in use, says that it is the same disk.
    Copy(String),
}

impl DiskRefusal {
    /// One word for it, as lists of disks have it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::OtherDewar(_) | Self::OtherPool(_) => "foreign",
            Self::Copy(_) => "copy",
        }
    }

    /// A sentence about the folder `label` of the deployment `dewar`.
    #[must_use]
    pub fn sentence(&self, label: &str, dewar: DewarId) -> String {
        match self {
            Self::Removed => format!(
                "{label} is a disk that was removed from this pool: what is on it is not used. \
                 `dewar disk readmit {label}` takes it back with its shards; emptied, the folder can be \
                 added as a new disk"
            ),
            Self::OtherDewar(other) => {
                format!("{label} is a disk of another Dewar ({other}); this one is {dewar}")
            }
            Self::OtherPool(number) => {
                format!("{label} is a disk of pool {number} of this Dewar, which is not configured")
            }
            Self::Copy(other) => format!(
                "{label} says it is the same disk as {other}, which is in use: is one a copy of the \
                 other, or the same folder under another name?"
            ),
        }
    }

    pub(super) fn error(&self, label: &str, dewar: DewarId) -> Error {
        let sentence = self.sentence(label, dewar);
        match self {
            Self::Copy(_) => Error::new(ErrorKind::AlreadyExists, sentence),
            Self::OtherDewar(_) | Self::OtherPool(_) => {
                let message = format!("{sentence}. Only a blank folder becomes a disk here");
                Error::new(ErrorKind::InvalidArgument, message)
            }
            Self::Removed => Error::new(ErrorKind::InvalidArgument, sentence),
        }
    }
}
