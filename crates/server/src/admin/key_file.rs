//! The master key file, as the admin socket speaks of it.

use serde::{Deserialize, Serialize};

/// A request about the master key file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyFileRequest {
    /// The keys in it.
    List {},
    /// Make a new current key, and encrypt all secrets with it.
    Rotate {},
    /// Take a key that was replaced out of the file.
    Retire {
        /// Its id.
        id: String,
        /// Whether sessions under the key that have not ended are ended.
        end_sessions: bool,
    },
    /// The file, encrypted.
    Export {
        /// Public keys as age-keygen prints them. Each recipient alone can open the copy.
        recipients: Vec<String>,
    },
}

/// A master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterKeyInfo {
    /// Its id, in 16 hexadecimal digits.
    pub id: String,
    /// `current`, `wraps still` while something is encrypted with it, `replaced` when nothing was
    /// found any more.
    pub state: String,
    /// When it was replaced, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// The time from which it can be retired: sessions that were made with it have ended then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_end: Option<String>,
}

/// The reply to such a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFileReply {
    /// The keys in it now.
    Keys(Vec<MasterKeyInfo>),
    /// The encrypted file, as lines of ASCII.
    Exported(String),
}
