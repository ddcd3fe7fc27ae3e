//! Shares, as the admin socket speaks of them.

use serde::{Deserialize, Serialize};

/// A share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareInfo {
    /// Its access key, by which it is revoked.
    pub id: String,
    /// The owner: `[TENANT:]NAME`.
    pub user: String,
    /// Of what: `/bucket/key`.
    pub path: String,
    /// Whether something may be put there, not fetched.
    pub upload: bool,
    /// When it was made, RFC 3339 in UTC.
    pub created: String,
    /// When it ends, RFC 3339 in UTC.
    pub expires: String,
    /// Whether it has ended.
    pub over: bool,
    /// The address, shown only once. It is a secret: everybody who has it can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A request about shares.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ShareRequest {
    /// Share an object, or a name for one.
    Add {
        /// `/bucket/key`.
        path: String,
        /// As whom: `[TENANT:]NAME`; the bucket's owner if absent.
        user: Option<String>,
        /// Whether something may be put there, not fetched.
        upload: bool,
        /// How long it lasts.
        seconds: u64,
        /// The address of the S3 server for recipients; its listening address if absent.
        endpoint: Option<String>,
    },
    /// List shares.
    List {},
    /// End a share.
    Revoke {
        /// Its access key.
        id: String,
    },
}
