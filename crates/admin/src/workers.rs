//! The background work of a running server.

use dewar_env::worker::WorkerReport;
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::Result;
use crate::time_text::rfc3339;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<WorkerList>(),
    CommandEntry::of::<WorkerPause>(),
    CommandEntry::of::<WorkerResume>(),
];

/// Lists the workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerList {}

/// Pauses a worker until it is resumed, or until the server restarts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerPause {
    /// Its name.
    pub worker: String,
}

/// Resumes a paused worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerResume {
    /// Its name.
    pub worker: String,
}

/// A worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Its name.
    pub name: String,
    /// `running`, `idle`, `paused`, or `failed` while it waits after a failed step.
    pub state: String,
    /// Steps that it has completed since the start of the server.
    pub steps: u64,
    /// Steps that failed since the start of the server.
    pub errors: u64,
    /// The last failure.
    pub last_error: Option<String>,
    /// The time of the last failure, RFC 3339 in UTC.
    pub last_error_at: Option<String>,
    /// Items that waited for it after its last step, if it counts them.
    pub pending: Option<u64>,
}

impl AdminCommand for WorkerList {
    const SPEC: CommandSpec =
        CommandSpec::reads("worker.list", "admin:worker-list").replies("workers");
    type Reply = Vec<WorkerInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<WorkerInfo>> {
        Ok(admin.workers.reports().into_iter().map(info).collect())
    }
}

impl AdminCommand for WorkerPause {
    const SPEC: CommandSpec =
        CommandSpec::changes("worker.pause", "admin:worker-pause").replies("worker");
    type Reply = WorkerInfo;

    fn target(&self) -> String {
        self.worker.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<WorkerInfo> {
        Ok(info(admin.workers.pause(&self.worker)?))
    }
}

impl AdminCommand for WorkerResume {
    const SPEC: CommandSpec =
        CommandSpec::changes("worker.resume", "admin:worker-resume").replies("worker");
    type Reply = WorkerInfo;

    fn target(&self) -> String {
        self.worker.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<WorkerInfo> {
        Ok(info(admin.workers.resume(&self.worker)?))
    }
}

fn info(report: WorkerReport) -> WorkerInfo {
    let (at, last_error) = report.last_error.unzip();
    WorkerInfo {
        name: report.name.to_owned(),
        state: report.state.name().to_owned(),
        steps: report.steps,
        errors: report.errors,
        last_error,
        last_error_at: at.map(rfc3339),
        pending: report.pending,
    }
}
