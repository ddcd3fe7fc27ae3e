//! Locks that WebDAV clients hold.

use dewar_store::file::{HeldLock, LockToken};
use dewar_types::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::Result;
use crate::names::target_named;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<LockList>(),
    CommandEntry::of::<LockBreak>(),
];

/// A lock of a WebDAV client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockInfo {
    /// `urn:uuid:...`; the holder sends it with changes.
    pub token: String,
    /// The file or directory when it was locked: `/BUCKET/KEY` or `/@TENANT/BUCKET/KEY`.
    pub path: String,
    /// The account that holds it.
    pub principal: String,
    /// Whether others may have shared locks beside it.
    pub shared: bool,
    /// Whether it also covers what is in the directory.
    pub deep: bool,
    /// Seconds until it ends by itself.
    pub seconds: u64,
}

/// Lists the locks that have not ended, by path.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockList {
    /// Only those of this path and below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Ends locks before their time. Replies with those that were ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockBreak {
    /// The token of one lock, or a path: all locks of this name, not of those below it.
    pub target: String,
}

impl AdminCommand for LockList {
    const SPEC: CommandSpec = CommandSpec::reads("lock.list", "admin:lock-list").replies("locks");
    type Reply = Vec<LockInfo>;

    fn target(&self) -> String {
        self.path.clone().unwrap_or_default()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<LockInfo>> {
        let path = self.path.as_deref().map(canonical).transpose()?;
        let below = path.as_ref().map(|path| format!("{path}/"));
        let held = admin.store.held_locks().await?.into_iter();
        let shown = held.filter(|lock| match (&path, &below) {
            (Some(path), Some(below)) => lock.path == *path || lock.path.starts_with(below),
            _ => true,
        });
        Ok(shown.map(info).collect())
    }
}

impl AdminCommand for LockBreak {
    const SPEC: CommandSpec =
        CommandSpec::changes("lock.break", "admin:lock-break").replies("locks");
    type Reply = Vec<LockInfo>;

    fn target(&self) -> String {
        self.target.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<LockInfo>> {
        let token = LockToken::parse(&self.target);
        let path = match token {
            Some(_) => String::new(),
            None => canonical(&self.target)?,
        };
        let held = admin.store.held_locks().await?.into_iter();
        let broken: Vec<HeldLock> = held
            .filter(|lock| match token {
                Some(token) => lock.token == token,
                None => lock.path == path,
            })
            .collect();
        if broken.is_empty() {
            let message = format!("there is no lock {}", self.target);
            return Err(Error::new(ErrorKind::NotFound, message).into());
        }
        admin.store.break_locks(&broken).await?;
        Ok(broken.into_iter().map(info).collect())
    }
}

/// A path as [`HeldLock::path`] has it.
fn canonical(path: &str) -> Result<String> {
    Ok(target_named(path)?.to_string())
}

fn info(lock: HeldLock) -> LockInfo {
    LockInfo {
        token: lock.token.to_string(),
        path: lock.path,
        principal: lock.principal,
        shared: lock.shared,
        deep: lock.deep,
        seconds: lock.remaining.as_secs(),
    }
}
