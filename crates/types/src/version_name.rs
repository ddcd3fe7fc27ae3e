//! The name by which clients refer to a version of an object.

use core::fmt;
use core::str::FromStr;

use crate::{IdError, VersionId};

/// A version by its name. Versions that were written while their bucket kept no versions have the
/// name `null`. There is at most one of them for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionName {
    /// The version without a name of its own.
    Null,
    /// A version that was written while the bucket kept versions.
    Id(VersionId),
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Id(id) => id.fmt(f),
        }
    }
}

impl FromStr for VersionName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "null" => Ok(Self::Null),
            _ => text.parse().map(Self::Id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in [VersionName::Null, VersionName::Id(VersionId(7 << 70))] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for bad in ["", "Null", "1", "+0000000000000000000000000000001"] {
            assert!(bad.parse::<VersionName>().is_err(), "{bad}");
        }
    }
}
