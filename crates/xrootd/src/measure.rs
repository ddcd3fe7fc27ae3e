//! What is counted of a request.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use dewar_xrootd_proto::RequestCode;
use tokio::time::Instant;

use crate::door::Door;
use crate::error::Refusal;

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it was asked.
    Done,
    /// With an error that is for the client to mend.
    Refused,
    /// With an error that is not.
    Failed,
    /// That it shall come again later.
    Later,
    /// That another server shall be asked.
    Elsewhere,
}

/// Whoever counts what happens at a door.
pub trait Meter: Send + Sync {
    /// A request was answered, so long after its header came. Its name is the specification's.
    fn answered(&self, request: &'static str, outcome: Outcome, took: Duration);

    /// Bytes of files came.
    fn received(&self, bytes: u64);

    /// Bytes of files were sent.
    fn sent(&self, bytes: u64);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn answered(&self, _: &'static str, _: Outcome, _: Duration) {}

    fn received(&self, _: u64) {}

    fn sent(&self, _: u64) {}
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
    pub(crate) fn answered(&self, refusal: Option<&Refusal>) {
        self.end(match refusal {
            None => Outcome::Done,
            Some(Refusal {
                elsewhere: Some(_), ..
            }) => Outcome::Elsewhere,
            Some(Refusal { wait: Some(_), .. }) => Outcome::Later,
            Some(refusal) if refusal.is_ours() => Outcome::Failed,
            Some(_) => Outcome::Refused,
        });
    }

    /// It was answered.
    pub(crate) fn end(&self, outcome: Outcome) {
        if matches!(outcome, Outcome::Refused | Outcome::Failed) {
            self.door.counts.failed.fetch_add(1, Relaxed);
        }
        let took = self.begun.elapsed();
        let name = self.request.name();
        self.door.meter.answered(name, outcome, took);
    }
}
