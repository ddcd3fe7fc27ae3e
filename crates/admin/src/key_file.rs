//! The master key file.

use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::Result;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<KeyFileList>(),
    CommandEntry::of::<KeyFileRotate>(),
    CommandEntry::of::<KeyFileRetire>(),
    CommandEntry::of::<KeyFileExport>(),
];

/// Lists the keys in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFileList {}

/// Makes a new current key, and encrypts all secrets with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFileRotate {}

/// Takes a key that was replaced out of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFileRetire {
    /// Its id.
    pub id: String,
    /// Whether sessions under the key that have not ended are ended.
    pub end_sessions: bool,
}

/// Exports the file, encrypted, as lines of ASCII.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFileExport {
    /// Public keys as age-keygen prints them. Each recipient alone can open the copy.
    pub recipients: Vec<String>,
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

impl AdminCommand for KeyFileList {
    const SPEC: CommandSpec =
        CommandSpec::reads("key_file.list", "admin:key-file-list").replies("key_file.keys");
    type Reply = Vec<MasterKeyInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<MasterKeyInfo>> {
        admin.key_file.list().await
    }
}

impl AdminCommand for KeyFileRotate {
    const SPEC: CommandSpec =
        CommandSpec::changes("key_file.rotate", "admin:key-file-rotate").replies("key_file.keys");
    type Reply = Vec<MasterKeyInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<MasterKeyInfo>> {
        admin.key_file.rotate().await?;
        admin.key_file.list().await
    }
}

impl AdminCommand for KeyFileRetire {
    const SPEC: CommandSpec =
        CommandSpec::changes("key_file.retire", "admin:key-file-retire").replies("key_file.keys");
    type Reply = Vec<MasterKeyInfo>;

    fn target(&self) -> String {
        self.id.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<MasterKeyInfo>> {
        admin.key_file.retire(&self.id, self.end_sessions).await?;
        admin.key_file.list().await
    }
}

impl AdminCommand for KeyFileExport {
    const SPEC: CommandSpec = CommandSpec::changes("key_file.export", "admin:key-file-export")
        .replies("key_file.exported");
    type Reply = String;

    fn target(&self) -> String {
        self.recipients.join(" ")
    }

    async fn run(self, admin: &AdminContext) -> Result<String> {
        admin.key_file.export(&self.recipients)
    }
}
