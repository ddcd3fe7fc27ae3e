//! The document of a storage report: the parts of SRR 4.2 that Dewar fills in.
//!
//! All numbers are bytes or seconds, as whole JSON numbers of up to 64 bits.

use serde::Serialize;

/// All shares, or all endpoints.
pub(super) const ALL: &str = "all";

#[derive(Serialize)]
pub(super) struct Document {
    pub(super) storageservice: Service,
}

#[derive(Serialize)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) implementation: &'static str,
    pub(super) implementationversion: &'static str,
    pub(super) qualitylevel: &'static str,
    /// Seconds since 1970.
    pub(super) latestupdate: u64,
    pub(super) storagecapacity: Capacities,
    pub(super) storageendpoints: Vec<StorageEndpoint>,
    pub(super) storageshares: Vec<Share>,
}

#[derive(Serialize)]
pub(super) struct Capacities {
    pub(super) online: Capacity,
}

/// Bytes of content, without parity.
#[derive(Serialize)]
pub(super) struct Capacity {
    pub(super) totalsize: u64,
    pub(super) usedsize: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct StorageEndpoint {
    pub(super) name: String,
    pub(super) endpointurl: String,
    pub(super) interfacetype: &'static str,
    pub(super) qualitylevel: &'static str,
    pub(super) assignedshares: Vec<&'static str>,
}

#[derive(Serialize)]
pub(super) struct Share {
    pub(super) name: String,
    /// Seconds since 1970.
    pub(super) timestamp: u64,
    pub(super) totalsize: u64,
    pub(super) usedsize: u64,
    pub(super) vos: Vec<String>,
    pub(super) path: Vec<String>,
    pub(super) assignedendpoints: Vec<&'static str>,
    pub(super) accesslatency: &'static str,
    pub(super) retentionpolicy: &'static str,
    pub(super) servingstate: &'static str,
}
