use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dewar_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    PauseGate, WorkOutcome, Worker, WorkerRegistry, WorkerReport, WorkerState, WorkerStatus,
};
use crate::Env;

enum Step {
    Progress,
    Idle,
    Fail,
    Panic,
    /// Works on items, a second each, without an end.
    Items,
}

/// The steps that the worker has yet to do, and the times of those that it has begun.
#[derive(Default)]
struct Script {
    steps: Mutex<VecDeque<Step>>,
    began: Mutex<Vec<Duration>>,
    items: AtomicU64,
    made: AtomicU64,
}

struct ScriptedWorker {
    script: Arc<Script>,
    start: Instant,
}

impl Worker for ScriptedWorker {
    const NAME: &'static str = "scripted";
    const LOOK_EVERY: Duration = Duration::from_secs(100);

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        self.script.began.lock().push(self.start.elapsed());
        let step = self.script.steps.lock().pop_front();
        match step.unwrap_or(Step::Idle) {
            Step::Progress => Ok(WorkOutcome::Progress),
            Step::Idle => Ok(WorkOutcome::Idle),
            Step::Fail => Err(Error::new(ErrorKind::Unavailable, "no disk")),
            Step::Panic => panic!("a defect"),
            Step::Items => loop {
                gate.pass().await;
                sleep(Duration::from_secs(1)).await;
                self.script.items.fetch_add(1, Ordering::Relaxed);
            },
        }
    }

    fn status(&self) -> WorkerStatus {
        let pending = self.script.steps.lock().len() as u64;
        WorkerStatus {
            pending: Some(pending),
        }
    }
}

fn start(steps: impl IntoIterator<Item = Step>) -> (WorkerRegistry, Arc<Script>) {
    let script = Arc::new(Script::default());
    script.steps.lock().extend(steps);
    let mut registry = WorkerRegistry::new(Env::real());
    let start = Instant::now();
    registry.start({
        let script = Arc::clone(&script);
        move || {
            script.made.fetch_add(1, Ordering::Relaxed);
            let script = Arc::clone(&script);
            ScriptedWorker { script, start }
        }
    });
    (registry, script)
}

fn report(registry: &WorkerRegistry) -> WorkerReport {
    registry.reports().remove(0)
}

fn began(script: &Script) -> Vec<u64> {
    script.began.lock().iter().map(Duration::as_secs).collect()
}

#[tokio::test(start_paused = true)]
async fn a_step_follows_progress_at_once_and_an_idle_one_after_a_wait() {
    let (registry, script) = start([Step::Progress, Step::Progress, Step::Idle, Step::Progress]);
    sleep(Duration::from_secs(150)).await;
    assert_eq!(began(&script), [0, 0, 0, 100, 100]);
    let report = report(&registry);
    assert_eq!((report.state, report.steps), (WorkerState::Idle, 5));
    assert_eq!((report.pending, report.errors), (Some(0), 0));
}

#[tokio::test(start_paused = true)]
async fn the_pause_grows_with_failures_and_a_good_step_ends_it() {
    let fails = (0..6).map(|_| Step::Fail);
    let (registry, script) = start(fails.chain([Step::Progress, Step::Fail]));
    sleep(Duration::from_millis(500)).await;
    let failed = report(&registry);
    assert_eq!((failed.state, failed.errors), (WorkerState::Failed, 1));
    assert_eq!(failed.last_error.expect("noted").1, "no disk");
    sleep(Duration::from_secs(60)).await;
    // 1, 2, 4, 8, and then 10 seconds; after the good step 1 again.
    assert_eq!(began(&script), [0, 1, 3, 7, 15, 25, 35, 35, 36]);
    let report = report(&registry);
    assert_eq!((report.state, report.errors), (WorkerState::Idle, 7));
    assert_eq!(script.made.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_is_made_anew() {
    let (registry, script) = start([Step::Panic, Step::Panic, Step::Progress]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(began(&script), [0, 1, 3, 3]);
    assert_eq!(script.made.load(Ordering::Relaxed), 3);
    let report = report(&registry);
    assert_eq!((report.state, report.errors), (WorkerState::Idle, 2));
    let (_, message) = report.last_error.expect("noted");
    assert_eq!(message, "panicked: a defect");
    registry.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_takes_effect_at_the_next_item_and_lasts_until_it_is_resumed() {
    let (registry, script) = start([Step::Items]);
    let items = || script.items.load(Ordering::Relaxed);
    sleep(Duration::from_millis(4500)).await;
    assert_eq!(report(&registry).state, WorkerState::Running);
    let paused = registry.pause("scripted").expect("there");
    assert_eq!(paused.state, WorkerState::Paused);
    sleep(Duration::from_secs(50)).await;
    assert_eq!(
        items(),
        5,
        "the item under way was done, and no further one"
    );
    let resumed = registry.resume("scripted").expect("there");
    assert_eq!(resumed.state, WorkerState::Running);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(items(), 7);
    let unknown = registry.pause("script").expect_err("another name");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_running_waiting_failing_and_paused_workers() {
    for step in [Step::Items, Step::Idle, Step::Fail, Step::Panic] {
        let (registry, script) = start([step]);
        sleep(Duration::from_millis(500)).await;
        registry.stop().await;
        assert_eq!(Arc::strong_count(&script), 1, "the worker is dropped");
    }
    let (registry, script) = start([Step::Items]);
    registry.pause("scripted").expect("there");
    sleep(Duration::from_secs(5)).await;
    registry.stop().await;
    assert_eq!(Arc::strong_count(&script), 1);
    assert_eq!(script.items.load(Ordering::Relaxed), 0);
}
