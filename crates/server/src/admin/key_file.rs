//! The master key file, as the admin socket speaks of it.

use serde::{Deserialize, Serialize};

/// What is asked about the master key file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeyFileRequest {
    /// The keys in it.
    List {},
    /// Make a new key, which wraps from now on, and have everything wrapped under it.
    Rotate {},
    /// Take a key that was replaced out of the file.
    Retire {
        /// Its id.
        id: String,
        /// Although sessions under it may not have ended: they end.
        end_sessions: bool,
    },
    /// The file, encrypted.
    Export {
        /// Each of them alone can open it: public keys as age-keygen prints them.
        recipients: Vec<String>,
    },
}

/// A master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterKeyInfo {
    /// Its id, in 16 hexadecimal digits.
    pub id: String,
    /// `current`, `wraps still` while something is wrapped under it, `replaced` when nothing was found
    /// any more.
    pub state: String,
    /// When it was replaced, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    /// From when on it can be retired: sessions that were made under it have ended then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_end: Option<String>,
}

/// What is said about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyFileReply {
    /// The keys in it now.
    Keys(Vec<MasterKeyInfo>),
    /// The encrypted file, as lines of ASCII.
    Exported(String),
}
