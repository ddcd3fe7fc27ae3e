//! Spaces: directories with a quota that administrators give a name.

use dewar_types::{GroupId, TenantId};
use minicbor::{Decode, Encode};

/// The name of a space. Its limits are in the mark of its directory ([`super::SpaceMark`]).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SpaceRecord {
    /// The name, which no other space of the tenant has.
    #[n(0)]
    pub name: String,
    /// The tenant of its bucket.
    #[n(1)]
    pub tenant: TenantId,
    /// The name of the bucket. A bucket keeps its name, and is not removed while a space is in it.
    #[n(2)]
    pub bucket: String,
    /// The path of the directory below the bucket. It follows renames.
    #[n(3)]
    pub path: String,
    /// The group that owns new content in the directory.
    #[n(4)]
    pub group: Option<GroupId>,
    /// The virtual organisations that the space is for.
    #[n(5)]
    pub vos: Vec<String>,
}
