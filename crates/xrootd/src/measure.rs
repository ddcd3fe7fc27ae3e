//! The measurements of a request.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use dewar_xrootd_proto::RequestCode;
use tokio::time::Instant;

use crate::door::Door;
use crate::error::ErrorReply;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Completed successfully.
    Done,
    /// With an error that is for the client to mend.
    Refused,
    /// With an error that is not.
    Failed,
    /// That it shall come again later.
    Later,
    /// Redirected to another server.
    Elsewhere,
}

/// How a third-party copy to this server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// The file is there.
    Done,
    /// Cancelled by the client, or by the end of its connection.
    Cancelled,
    /// The source, or a server that it named, is not allowed.
    Forbidden,
    /// The source could not be reached, was lost on the way, or was too slow.
    Unreachable,
    /// The source said no.
    Refused,
    /// The received bytes do not match the announced size or the source's checksum.
    Wrong,
    /// The received bytes could not be stored.
    Unstored,
}

impl CopyEnd {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Cancelled,
        Self::Forbidden,
        Self::Unreachable,
        Self::Refused,
        Self::Wrong,
        Self::Unstored,
    ];

    /// As metrics call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Forbidden => "forbidden",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Wrong => "wrong",
            Self::Unstored => "unstored",
        }
    }
}

/// A counter of the events at a door.
pub trait Meter: Send + Sync {
    /// Reports an answered request, and the time since its header came.
    fn answered(&self, request: RequestCode, outcome: RequestOutcome, took: Duration);

    /// Bytes of files came.
    fn received(&self, bytes: u64);

    /// Bytes of files were sent.
    fn sent(&self, bytes: u64);

    /// This server began to fetch a file from another one.
    fn copy_began(&self);

    /// Bytes of such a file came.
    fn copied(&self, bytes: u64);

    /// Such a file is there, or never will be.
    fn copy_ended(&self, end: CopyEnd);

    /// Reports a server with a key to a file of this one, and whether the key was valid.
    fn key_shown(&self, good: bool);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn answered(&self, _: RequestCode, _: RequestOutcome, _: Duration) {}

    fn received(&self, _: u64) {}

    fn sent(&self, _: u64) {}

    fn copy_began(&self) {}

    fn copied(&self, _: u64) {}

    fn copy_ended(&self, _: CopyEnd) {}

    fn key_shown(&self, _: bool) {}
}

/// A request from its header to its answer.
#[derive(Clone)]
pub(crate) struct Measure {
    door: Arc<Door>,
    request: RequestCode,
    begun: Instant,
}

impl Measure {
    /// Of a request whose header came just now.
    pub(crate) fn begin(door: &Arc<Door>, request: RequestCode) -> Self {
        Self {
            door: Arc::clone(door),
            request,
            begun: Instant::now(),
        }
    }

    /// It was answered, with a refusal or without.
    pub(crate) fn answered(&self, refusal: Option<&ErrorReply>) {
        self.end(match refusal {
            None => RequestOutcome::Done,
            Some(ErrorReply {
                elsewhere: Some(_), ..
            }) => RequestOutcome::Elsewhere,
            Some(ErrorReply { wait: Some(_), .. }) => RequestOutcome::Later,
            Some(ErrorReply { ours: true, .. }) => RequestOutcome::Failed,
            Some(_) => RequestOutcome::Refused,
        });
    }

    /// It was answered.
    pub(crate) fn end(&self, outcome: RequestOutcome) {
        if matches!(outcome, RequestOutcome::Refused | RequestOutcome::Failed) {
            self.door.counts.failed.fetch_add(1, Relaxed);
        }
        let took = self.begun.elapsed();
        self.door.meter.answered(self.request, outcome, took);
    }
}
