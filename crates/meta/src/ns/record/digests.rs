//! Stand-in until the checksum crate's set is merged.
use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// Digests by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct DigestSet(#[n(0)] pub BTreeMap<u8, ByteVec>);
