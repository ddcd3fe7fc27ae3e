//! The audit log: the user, address, credential, action and target of each decision, and its
//! reason.
//!
//! One JSON object per line ([`mod@line`]), in files in a folder of mode 0700. Each line has a
//! number and a digest over itself and the line before, so that changed or missing lines can be
//! detected ([`mod@read`]). There are two sets of files ([`set`]), so that data events never remove
//! records that matter for security. Each account has a rate limit ([`rate`]). Records go into a
//! bounded queue. A separate thread writes, syncs and rotates them ([`writer`]). The threads that
//! serve never wait for it.
//!
//! **When it cannot be written**, because the disk is full or too slow, the queue keeps 16 MiB of
//! records, and the write is retried each second. When the queue is full, `audit.unwritable`
//! decides. `alarm` continues, counts the missing records, and reports them in the server's log
//! and, as soon as possible, in the audit log itself. `refuse` refuses every action that must be
//! recorded.
//!
//! **After a crash** the last tenth of a second may be missing. An incomplete line is removed at
//! the next start, and the log records that.

mod file_set;
mod line;
mod rate;
mod read;
mod set;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use dewar_auth::{AuditEvent, AuditOutcome, AuditRecord, AuditSink, Origin};
use dewar_env::{Clock, Env};
use dewar_types::UserId;

pub use line::{Line, moment};
pub use rate::AuditRates;
pub use read::{ChainBreak, Filter, ReadError, VerifiedSet, read, verify};
pub use set::AuditSet;
pub use writer::{AuditCounters, OpenError};

use writer::Writer;

/// The action to take when nothing can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// Go on, and say so.
    Alarm,
    /// Refuse what would have to be recorded.
    Refuse,
}

/// How the log is kept.
#[derive(Clone, Debug)]
pub struct AuditConfig {
    /// The folder of its files.
    pub folder: PathBuf,
    /// Whether reading is recorded too.
    pub reads: bool,
    /// A file that has got this long is followed by another, in bytes.
    pub file_bytes: u64,
    /// Most files of each set; the oldest go. 0 keeps all.
    pub files_max: usize,
    /// Records of one account that are written one by one.
    pub rates: AuditRates,
    /// The action to take when nothing can be recorded.
    pub unwritable: Unwritable,
}

/// The log of this process.
pub struct AuditLog {
    clock: Arc<dyn Clock>,
    reads: bool,
    writer: Writer,
}

impl AuditLog {
    /// Opens the log and continues after its last complete line.
    ///
    /// # Errors
    /// The folder cannot be made, read or written.
    pub fn open(config: AuditConfig, env: &Env) -> Result<Self, OpenError> {
        let log = Self {
            clock: Arc::clone(&env.clock),
            reads: config.reads,
            writer: Writer::open(config, Arc::clone(&env.clock))?,
        };
        for (set, bytes) in log.writer.cut() {
            let record = AuditRecord {
                why: format!("{bytes} bytes of an unfinished line were cut off"),
                ..own("audit:mend")
            };
            log.writer.take(log.clock.now(), *set, record);
        }
        Ok(log)
    }

    /// Says in the log that a server begins or ends.
    pub fn note(&self, action: &'static str, why: String) {
        self.record(AuditRecord { why, ..own(action) });
    }

    /// Waits until all records taken so far are on the disk, for at most 2 seconds. Returns whether
    /// they are.
    #[must_use]
    pub fn flush(&self) -> bool {
        self.writer.flush()
    }

    /// The reason why the log cannot be written now; `None` if it can.
    #[must_use]
    pub fn failing(&self) -> Option<String> {
        self.writer.failing()
    }

    /// The counters since it was opened.
    #[must_use]
    pub fn counts(&self) -> AuditCounters {
        self.writer.counts()
    }
}

impl AuditSink for AuditLog {
    fn keeps_reads(&self) -> bool {
        self.reads
    }

    fn is_ready(&self) -> bool {
        self.writer.is_ready()
    }

    fn record(&self, record: AuditRecord) {
        let set = AuditSet::of(&record);
        self.writer.take(self.clock.now(), set, record);
    }
}

/// A record about the log itself.
fn own(action: &'static str) -> AuditRecord {
    AuditRecord {
        event: AuditEvent::Log,
        outcome: AuditOutcome::Allowed,
        who: "system".to_owned(),
        credential: None,
        origin: Origin {
            address: None,
            secure: true,
        },
        action: action.into(),
        target: String::new(),
        why: String::new(),
        request: None,
        by_nobody: false,
        account: UserId(0),
        federated: false,
        count: 1,
        names: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
