//! Third-party copies of a running server.

use dewar_transfer::{TransferSnapshot, TransferState};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::time_text::rfc3339;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<TransferList>(),
    CommandEntry::of::<TransferCancel>(),
];

/// Lists the copies that run or wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferList {}

/// Ends a copy. Its client is told, and may ask for it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferCancel {
    /// Its number.
    pub id: u64,
}

/// A third-party copy. Nothing of it is secret: paths have no query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferInfo {
    /// Its number since the start of the server.
    pub id: u64,
    /// `active` or `waiting`.
    pub state: String,
    /// `http` or `root`.
    pub protocol: String,
    /// `pull` from the other server, or `push` to it.
    pub direction: String,
    /// The user who asked for it.
    pub user: String,
    /// The issuer of the user's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The client's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The path here.
    pub path: String,
    /// Host and port of the other server.
    pub remote_host: String,
    /// The path there.
    pub remote_path: String,
    /// Bytes of the file that have been copied.
    pub bytes: u64,
    /// The size of the file, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When the client asked for it, RFC 3339 in UTC.
    pub since: String,
    /// The job of FTS that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
}

impl AdminCommand for TransferList {
    const SPEC: CommandSpec =
        CommandSpec::reads("transfer.list", "admin:transfer-list").replies("transfers");
    type Reply = Vec<TransferInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<TransferInfo>> {
        Ok(admin.transfers.list().into_iter().map(info).collect())
    }
}

impl AdminCommand for TransferCancel {
    const SPEC: CommandSpec =
        CommandSpec::changes("transfer.cancel", "admin:transfer-cancel").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.id.to_string()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        match admin.transfers.cancel(self.id) {
            true => Ok(Done::Done),
            false => {
                let words = format!("no copy {} runs or waits", self.id);
                Err(AdminError::new(Failure::NotFound, words))
            }
        }
    }
}

fn info(copy: TransferSnapshot) -> TransferInfo {
    let description = copy.description;
    TransferInfo {
        id: copy.id,
        state: match copy.state {
            TransferState::Active => "active",
            TransferState::Waiting => "waiting",
        }
        .to_owned(),
        protocol: description.protocol.to_owned(),
        direction: description.direction.name().to_owned(),
        user: description.user,
        issuer: description.issuer,
        client: description.client.map(|address| address.to_string()),
        path: description.local_path,
        remote_host: description.remote_host,
        remote_path: description.remote_path,
        bytes: copy.bytes,
        size: copy.size,
        since: rfc3339(copy.since),
        job_id: description.client_info.job_id,
    }
}
