//! The state that clients, disasters and checks share within one run.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use dewar_auth::Caller;
use dewar_catalog::Actor;
use dewar_engine::Membership;
use dewar_env::disk::sim::SimWorld;
use dewar_env::sim::SimRng;
use dewar_journal::Journal;
use dewar_store::Store;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_types::{BucketName, DiskId, Error, ErrorKind, GroupId, ObjectKey, TenantName, UserId};
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::content::ObjectContent;
use crate::model::{Model, Pending};
use crate::plan::{Focus, Mix, Plan, Weather};
use crate::trace::Trace;

/// The one bucket.
pub(crate) const BUCKET: &str = "bucket";

/// What lives as long as the run.
pub(crate) struct Bench {
    pub(crate) plan: Plan,
    pub(crate) model: Mutex<Model>,
    pub(crate) trace: Trace,
    /// The first thing that was wrong.
    failure: Mutex<Option<String>>,
    /// The journal of the process, for a failure to show.
    pub(crate) journal: Mutex<Option<Journal>>,
    /// What the process is at, for a failure to say.
    pub(crate) doing: Mutex<&'static str>,
    /// Operations of clients so far.
    pub(crate) ops: AtomicU64,
    numbers: AtomicU64,
    /// Names of the directories now; renames change them.
    pub(crate) dirs: Mutex<Vec<String>>,
    /// Whoever renames a directory has the tree for itself; otherwise keys could be asked for under
    /// a name that moves.
    pub(crate) tree: RwLock<()>,
    /// Disks that were not in trouble when the others last were.
    pub(crate) well: Mutex<Vec<usize>>,
    /// Rare events of the simulation itself.
    pub(crate) seen: Mutex<BTreeMap<&'static str, u64>>,
}

/// What lives as long as one process.
pub(crate) struct Process {
    pub(crate) bench: Arc<Bench>,
    pub(crate) world: SimWorld,
    pub(crate) store: Store,
    pub(crate) membership: Arc<Membership>,
    pub(crate) caller: Caller,
    /// The disks' ids when it was opened, by number.
    pub(crate) ids: BTreeMap<usize, DiskId>,
    /// Disks may be in trouble now, or were since the last quiet moment.
    pub(crate) troubled: AtomicBool,
}

/// What became of an operation.
pub(crate) enum OpOutcome<T> {
    Done(T),
    /// It is not allowed, and left nothing.
    Refused(Error),
    /// It failed and left nothing.
    Undone(Error),
    /// The result is unknown.
    Open(Option<Error>),
}

impl Bench {
    pub(crate) fn new(plan: Plan, shown: bool) -> Self {
        let model = match plan.weather {
            Weather::Doom => Model::of_doom(),
            _ => Model::default(),
        };
        Self {
            plan,
            model: Mutex::new(model),
            trace: Trace::new(shown),
            failure: Mutex::default(),
            journal: Mutex::default(),
            doing: Mutex::default(),
            ops: AtomicU64::new(0),
            numbers: AtomicU64::new(0),
            dirs: Mutex::new(vec!["d0".to_owned(), "d1".to_owned()]),
            tree: RwLock::default(),
            well: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Something is wrong: the run ends.
    pub(crate) fn fail(&self, what: String) {
        self.trace.note(format_args!("WRONG: {what}"));
        self.failure.lock().get_or_insert(what);
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Whether the journal has made durable all that it was given. Otherwise what reads do not show
    /// now may be there after the next opening.
    pub(crate) fn all_decided(&self) -> bool {
        let journal = self.journal.lock().clone();
        let status = journal.map(|journal| journal.status());
        status.is_none_or(|status| status.last == status.durable)
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn saw(&self, what: &'static str) {
        *self.seen.lock().entry(what).or_default() += 1;
    }

    /// A length around every bound there is.
    pub(crate) fn content(&self, rng: &SimRng) -> ObjectContent {
        let small = u64::from(self.plan.engine.small_bytes_max);
        let stripe = self.plan.engine.layout.stripe_bytes();
        let draw = match (self.plan.focus, self.plan.mix) {
            (_, Mix::Small) => 19,
            (Focus::Flaps | Focus::Readers | Focus::Full | Focus::Upkeep, _) => 1 + rng.below(6),
            _ => rng.below(20),
        };
        let len = match draw {
            0 => 0,
            1 => small + rng.below(3) - 1,
            2 => stripe * (1 + rng.below(3)) + rng.below(3) - 1,
            3 => 4096 * rng.below(20) + rng.below(3),
            4..6 => small + rng.below(60_000),
            // Several windows of the writer.
            6 if rng.below(6) == 0 => (1 << 20) + rng.below(1 << 20),
            _ => 1 + rng.below(small),
        };
        ObjectContent::new(self.number(), len)
    }

    pub(crate) fn key(&self, rng: &SimRng) -> String {
        let dirs = self.dirs.lock();
        let dir = &dirs[crate::plan::pick(rng, dirs.len())];
        let n = rng.below(self.plan.names);
        match rng.below(8) {
            // Beside the directories, and deeper.
            0 => format!("k{n}"),
            1 => format!("{dir}/sub/k{n}"),
            2 => format!("{dir}/k{n}/below"),
            _ => format!("{dir}/k{n}"),
        }
    }
}

impl Process {
    /// Whether an error may be told to a client now.
    pub(crate) fn excuses(&self, reads: bool) -> bool {
        if self.world.power_failed() {
            return true;
        }
        match self.bench.plan.weather {
            Weather::Calm => false,
            Weather::Storm => !reads && self.troubled.load(Ordering::Relaxed),
            Weather::Fog => self.troubled.load(Ordering::Relaxed),
            Weather::Doom => true,
        }
    }

    /// Gives the bucket (an empty name) or a directory a group, which is charged from then on. The audit
    /// counts what groups have.
    pub(crate) async fn own(&self, dir: &str, group: Option<GroupId>) -> Result<(), Error> {
        let tree = self.store.tree();
        let tenant = tree.catalog().tenant(&TenantName::default()).await?;
        let Some(tenant) = tenant else {
            return Ok(());
        };
        let Some(bucket) = tree.bucket(&tenant, &self.bucket().name).await? else {
            return Ok(());
        };
        let actor = Actor {
            user: UserId(10),
            principal: "ann",
        };
        let path = match dir {
            "" => None,
            dir => Some(ObjectKey::new(dir)?),
        };
        tree.set_group(&actor, &bucket, path.as_ref(), group).await
    }

    /// Carries an operation out; a client that loses patience leaves in the middle of it.
    pub(crate) async fn ask<T>(
        &self,
        rng: &SimRng,
        work: impl Future<Output = Result<T, Error>>,
    ) -> OpOutcome<T> {
        self.bench.ops.fetch_add(1, Ordering::Relaxed);
        let mut polls = match rng.below(12) {
            0 => 1 + rng.below(40),
            _ => u64::MAX,
        };
        let mut work = pin!(work);
        let result = std::future::poll_fn(|cx| {
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(result));
            }
            polls -= 1;
            if polls == 0 {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await;
        match result {
            None => {
                self.bench.saw("a client left in the middle");
                OpOutcome::Open(None)
            }
            Some(Ok(value)) => OpOutcome::Done(value),
            Some(Err(error)) if is_refusal(&error) => OpOutcome::Refused(error),
            Some(Err(error)) => {
                // Journals are so small here, and disks so fast, that they can be full before anybody
                // has looked.
                let full = matches!(error.kind(), ErrorKind::Busy(_)) && error.left_unchanged();
                if !full && !self.excuses(false) {
                    self.bench.fail(format!("an operation failed: {error:?}"));
                }
                match error.left_unchanged() {
                    true => OpOutcome::Undone(error),
                    false => OpOutcome::Open(Some(error)),
                }
            }
        }
    }

    /// Tells the model what became of writes that happen together.
    pub(crate) fn conclude<T>(&self, what: &str, writes: &[Pending], outcome: &OpOutcome<T>) {
        let mut model = self.bench.model.lock();
        let told = match outcome {
            OpOutcome::Done(_) => {
                writes.iter().for_each(|write| model.done(write));
                "done".to_owned()
            }
            OpOutcome::Refused(error) | OpOutcome::Undone(error) => {
                if writes.iter().any(|write| model.was_seen(write)) {
                    self.bench.fail(format!(
                        "{what}: refused, and yet it had been read: {error}"
                    ));
                }
                writes.iter().for_each(|write| model.failed(write));
                format!("refused: {error}")
            }
            OpOutcome::Open(Some(error)) => format!("open: {error}"),
            OpOutcome::Open(None) => "left".to_owned(),
        };
        drop(model);
        self.bench.trace.note(format_args!("{what}: {told}"));
    }

    pub(crate) fn object(&self, key: &str) -> ObjectRef {
        ObjectRef {
            bucket: self.bucket(),
            key: object_key(key),
        }
    }

    pub(crate) fn bucket(&self) -> BucketRef {
        BucketRef::own(BucketName::new(BUCKET).expect("a name by the rules"))
    }
}

pub(crate) fn object_key(key: &str) -> ObjectKey {
    ObjectKey::new(key).expect("a key by the rules")
}

/// Whether nothing has happened.
fn is_refusal(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Unavailable
            | ErrorKind::Busy(_)
            | ErrorKind::Timeout
            | ErrorKind::NoSpace
            | ErrorKind::Corrupt
            | ErrorKind::Internal
    )
}
