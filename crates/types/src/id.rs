//! Identifiers. None is ever given twice (RECORDS.md section 2).

use core::fmt;
use core::str::FromStr;

use minicbor::{Decode, Encode};
use thiserror::Error;

/// A deployment's number inside a realm; the upper 16 bits of every id it mints.
pub type Zone = u16;

/// A text that is not an id.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("not a valid {what}: {text:?}")]
pub struct IdError {
    what: &'static str,
    text: String,
}

const COUNTER_BITS: u32 = 48;

macro_rules! id64 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl $name {
            /// Joins a zone and a 48-bit counter; higher counter bits are cut off.
            #[must_use]
            pub const fn new(zone: Zone, counter: u64) -> Self {
                Self((zone as u64) << COUNTER_BITS | (counter & ((1 << COUNTER_BITS) - 1)))
            }

            /// The zone that minted this id.
            #[must_use]
            pub const fn zone(self) -> Zone {
                (self.0 >> COUNTER_BITS) as Zone
            }

            /// The counter within the zone.
            #[must_use]
            pub const fn counter(self) -> u64 {
                self.0 & ((1 << COUNTER_BITS) - 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:016x})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                u64::from_str_radix(text, 16)
                    .ok()
                    .filter(|_| text.len() == 16 && !text.starts_with('+'))
                    .map(Self)
                    .ok_or_else(|| IdError { what: stringify!($name), text: text.to_owned() })
            }
        }
    };
}

macro_rules! id128 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:032x})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                u128::from_str_radix(text, 16)
                    .ok()
                    .filter(|_| text.len() == 32 && !text.starts_with('+'))
                    .map(Self)
                    .ok_or_else(|| IdError { what: stringify!($name), text: text.to_owned() })
            }
        }

        // CBOR has no 128-bit integer: a byte string of 16, big-endian, keeps the order.
        impl<C> Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.bytes(&self.0.to_be_bytes())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(
                d: &mut minicbor::Decoder<'b>,
                _: &mut C,
            ) -> Result<Self, minicbor::decode::Error> {
                let bytes: [u8; 16] = d.bytes()?.try_into().map_err(|_| {
                    minicbor::decode::Error::message(concat!(
                        stringify!($name),
                        " is not 16 bytes"
                    ))
                })?;
                Ok(Self(u128::from_be_bytes(bytes)))
            }
        }
    };
}

id64!(
    /// A file, directory or symlink of the namespace.
    EntryId
);
id64!(
    /// An immutable blob, or a segment of small objects (a segment is a blob too).
    BlobId
);
id64!(
    /// A local user.
    UserId
);
id64!(
    /// A local group of users; 0 is none.
    GroupId
);
id64!(
    /// A tenant: the number of its root directory (RECORDS.md section 1).
    TenantId
);

/// A pool's number in the catalog; its name and disks are in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct PoolId(#[n(0)] pub u32);
id128!(
    /// One immutable content of an object: 64 bits hybrid logical clock, 16 bits zone, 48 bits
    /// counter, so that versions sort by age and ties by zone (RECORDS.md section 2).
    VersionId
);
id128!(
    /// A multipart upload in progress; minted like a [`VersionId`], so uploads sort by age.
    UploadId
);
id128!(
    /// A disk folder: random, written into its identity file when it is formatted.
    DiskId
);

impl VersionId {
    /// Joins the three parts; see the type.
    #[must_use]
    pub const fn new(clock: u64, zone: Zone, counter: u64) -> Self {
        Self((clock as u128) << 64 | BlobId::new(zone, counter).0 as u128)
    }

    /// The hybrid logical clock: nanoseconds since the epoch, never going back in one zone.
    #[must_use]
    pub const fn clock(self) -> u64 {
        (self.0 >> 64) as u64
    }
}
