//! Quotas, as the admin socket speaks of them.

use serde::{Deserialize, Serialize};

/// The limits of a quota. A limit that is not given does not apply. Soft limits are reported and
/// refuse nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaLimits {
    /// Most bytes of all versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Most objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_objects: Option<u64>,
    /// Bytes from which on it is said that there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_bytes: Option<u64>,
    /// Objects from which on it is said that there are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_objects: Option<u64>,
}

/// How full something is that is limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaInfo {
    /// `/BUCKET`, `/BUCKET/DIR`, `/@TENANT/BUCKET`, `user:NAME`, `group:NAME` or
    /// `tenant:NAME`.
    pub target: String,
    /// Its limits.
    pub limits: QuotaLimits,
    /// Bytes of all versions in it.
    pub bytes: u64,
    /// Objects in it.
    pub objects: u64,
    /// `ok`, `soft` above a soft limit, `full` if no further byte or object fits.
    pub state: String,
}

/// A request about quotas.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QuotaRequest {
    /// All that are set.
    List {},
    /// One.
    Show {
        /// Of what.
        target: String,
    },
    /// Set all limits of something; none takes them away.
    Set {
        /// Of what.
        target: String,
        /// Its limits from now on.
        limits: QuotaLimits,
    },
}
