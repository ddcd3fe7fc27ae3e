use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicBool;
use core::task::Context;
use core::time::Duration;
use std::task::Wake;

use ::md5::Digest;
use proptest::prelude::*;

use super::*;

fn reference(data: &[u8]) -> [u8; 16] {
    ::md5::Md5::digest(data).into()
}

/// Bytes that differ between streams and places.
fn body(stream: usize, length: usize) -> Bytes {
    (0..length)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 ^ (stream * 37) as u8)
        .collect::<Vec<u8>>()
        .into()
}

fn all_instructions() -> Vec<Instructions> {
    let mut all = vec![Instructions::Plain];
    #[cfg(target_arch = "x86_64")]
    all.extend([Instructions::Avx2, Instructions::Avx512]);
    all.retain(|instructions| instructions.available());
    all
}

async fn upload(mut stream: Md5Stream, mut rest: Bytes, chunk: usize) -> [u8; 16] {
    while !rest.is_empty() {
        let chunk = rest.split_to(chunk.min(rest.len()));
        stream.update(chunk).await;
    }
    stream.finish().await
}

async fn many_uploads(lanes: &Md5Lanes, count: usize) {
    let mut tasks = Vec::new();
    for i in 0..count {
        let body = body(i, (i * 37_337) % 900_001);
        let chunk = [100, 4096, 65_536, 70_001, 262_144, 1 << 20][i % 6];
        let task = tokio::spawn(upload(lanes.stream(), body.clone(), chunk));
        tasks.push((body, task));
    }
    for (body, task) in tasks {
        let digest = tokio::time::timeout(Duration::from_secs(30), task)
            .await
            .expect("not wedged")
            .expect("no panic");
        assert_eq!(digest, reference(&body));
    }
    assert!(lanes.is_idle());
}

#[tokio::test]
async fn many_streams_on_one_thread() {
    for instructions in all_instructions() {
        many_uploads(&Md5Lanes::with_instructions(instructions), 50).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_streams_on_many_threads() {
    for instructions in all_instructions() {
        many_uploads(&Md5Lanes::with_instructions(instructions), 50).await;
    }
}

#[tokio::test]
async fn equal_streams_fill_the_lanes() {
    let lanes = Md5Lanes::new();
    let tasks: Vec<_> = (0..16)
        .map(|i| tokio::spawn(upload(lanes.stream(), body(i, 1 << 20), 256 << 10)))
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(
        lanes.lane_use(),
        LaneUse {
            batches: 4,
            jobs: 64
        }
    );
}

#[tokio::test]
async fn a_lone_stream_waits_for_nobody() {
    let lanes = Md5Lanes::new();
    let body = body(1, 3_000_000);
    assert_eq!(
        upload(lanes.stream(), body.clone(), 1 << 20).await,
        reference(&body)
    );
    assert_eq!(lanes.lane_use(), LaneUse::default());
}

/// What nobody waits for any more stays with its stream, as company for others, and goes with it.
#[test]
fn a_dropped_update_leaves_its_bytes_to_the_stream() {
    let lanes = Md5Lanes::with_patience(Instructions::detect(), 1);
    let _other = lanes.stream();
    let mut stream = lanes.stream();
    {
        let mut update = Box::pin(stream.update(body(0, 10_000)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(update.as_mut().poll(&mut context).is_pending());
        assert_eq!(lanes.shared.queue().waiting.len(), 1);
    }
    {
        let queue = lanes.shared.queue();
        assert_eq!((queue.waiting.len(), queue.spare.len()), (0, 1));
    }
    assert_eq!(lanes.held(), 10_000);
    drop(stream);
    assert_eq!(lanes.held(), 0);
    assert!(lanes.shared.queue().spare.is_empty());
}

/// A combiner that never came to its end gives the streams back as they were.
#[test]
fn a_batch_that_ends_early_loses_nothing() {
    let lanes = Md5Lanes::with_patience(Instructions::detect(), 1);
    let _other = lanes.stream();
    let mut stream = lanes.stream();
    let body = body(0, 10_000);
    let mut update = Box::pin(stream.update(body.clone()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(update.as_mut().poll(&mut context).is_pending());
    let batch = Batch::take(&lanes.shared, &mut lanes.shared.queue());
    assert_eq!(batch.jobs.len(), 1);
    assert!(update.as_mut().poll(&mut context).is_pending());
    drop(batch);
    while update.as_mut().poll(&mut context).is_pending() {}
    drop(update);
    assert_eq!(poll_to_end(stream.finish()), reference(&body));
}

fn poll_to_end<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// What is being received is company for what ends: its bytes are hashed before anybody waits for them.
#[tokio::test]
async fn a_stream_that_ends_takes_others_along() {
    let lanes = Md5Lanes::new();
    let mut received: Vec<Md5Stream> = (0..5).map(|_| lanes.stream()).collect();
    for (i, stream) in received.iter_mut().enumerate() {
        stream.update(body(i, 200_000)).await;
    }
    assert_eq!(lanes.lane_use(), LaneUse::default());
    assert_eq!(lanes.held(), 1_000_000);
    let digest = upload(lanes.stream(), body(9, 200_000), 65_536).await;
    assert_eq!(digest, reference(&body(9, 200_000)));
    assert_eq!(
        lanes.lane_use(),
        LaneUse {
            batches: 1,
            jobs: 6
        }
    );
    assert!(lanes.held() < 5 * REST_MIN);
    for (i, stream) in received.into_iter().enumerate() {
        assert_eq!(stream.finish().await, reference(&body(i, 200_000)));
    }
    assert!(lanes.is_idle());
}

/// A short stream that ends does not wait for what is long beside it.
#[tokio::test]
async fn a_short_stream_is_not_held_up() {
    let lanes = Md5Lanes::new();
    let (mut long, short) = (lanes.stream(), lanes.stream());
    long.update(body(0, 500_000)).await;
    let digest = upload(short, body(1, 4_096), 4_096).await;
    assert_eq!(digest, reference(&body(1, 4_096)));
    let held = lanes.held();
    assert!(held > 490_000, "{held} bytes are left");
}

/// Crumbs do not pile up, each with a buffer of its own.
#[tokio::test]
async fn crumbs_are_not_kept() {
    let lanes = Md5Lanes::new();
    let (mut stream, _other) = (lanes.stream(), lanes.stream());
    let body = body(3, 300_000);
    let (first, rest) = (body.slice(..100_000), body.slice(100_000..));
    for crumb in first.chunks(7) {
        stream.update(first.slice_ref(crumb)).await;
        assert_eq!(lanes.held(), 0);
    }
    stream.update(rest.slice(..50_000)).await;
    for crumb in rest[50_000..].chunks(9) {
        stream.update(rest.slice_ref(crumb)).await;
        let queue = lanes.shared.queue();
        let most = queue
            .streams
            .values()
            .map(|entry| entry.pending.len())
            .max();
        assert!(most <= Some(CHUNKS_MAX));
    }
    assert_eq!(stream.finish().await, reference(&body));
}

/// Nobody holds without end what is not hashed.
#[tokio::test]
async fn what_is_held_is_bounded() {
    let lanes = Md5Lanes::new();
    let mut streams: Vec<Md5Stream> = (0..100).map(|_| lanes.stream()).collect();
    for round in 0..4 {
        for stream in &mut streams {
            stream.update(body(round, 300_000)).await;
            assert!(lanes.held() <= LAZY_TOTAL);
        }
    }
}

/// Whether a future has been woken since it was polled: the test's executor polls no other.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Call = Pin<Box<dyn Future<Output = Step>>>;

/// What a call of an upload comes to.
enum Step {
    Fed(Md5Stream),
    Ended([u8; 16]),
}

/// An upload of the test's executor.
struct Actor {
    body: Bytes,
    /// What has not been handed to the stream.
    rest: Bytes,
    chunks: Vec<usize>,
    stream: Option<Md5Stream>,
    call: Option<Call>,
    digest: Option<[u8; 16]>,
    woken: Arc<Woken>,
}

impl Actor {
    /// Starts the next call if none runs.
    fn start(&mut self) {
        let Some(mut stream) = self.stream.take() else {
            return;
        };
        self.woken.0.store(true, Ordering::SeqCst);
        if self.rest.is_empty() {
            self.call = Some(Box::pin(async move { Step::Ended(stream.finish().await) }));
            return;
        }
        let length = self.chunks.pop().unwrap_or(20_000).min(self.rest.len());
        let chunk = self.rest.split_to(length);
        self.call = Some(Box::pin(async move {
            stream.update(chunk).await;
            Step::Fed(stream)
        }));
    }

    /// Polls if woken; says whether it did.
    fn poll(&mut self) -> bool {
        self.start();
        let Some(call) = &mut self.call else {
            return false;
        };
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return false;
        }
        let waker = Arc::clone(&self.woken).into();
        if let Poll::Ready(step) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.call = None;
            match step {
                Step::Fed(stream) => self.stream = Some(stream),
                Step::Ended(digest) => self.digest = Some(digest),
            }
        }
        true
    }
}

#[derive(Clone, Debug)]
enum Event {
    Poll(prop::sample::Index),
    /// The upload goes away in the middle.
    Abort(prop::sample::Index),
    /// Another thread begins a batch,
    Take,
    /// and ends it, or panics over it.
    Run,
    Panic,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        60 => any::<prop::sample::Index>().prop_map(Event::Poll),
        1 => any::<prop::sample::Index>().prop_map(Event::Abort),
        6 => Just(Event::Take),
        5 => Just(Event::Run),
        1 => Just(Event::Panic),
    ];
    proptest::collection::vec(event, 0..500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Any order of polls, with streams that vanish and batches that run elsewhere or fail: no wake-up is lost, nothing is left
    /// behind, every digest is right.
    #[test]
    fn no_schedule_wedges_or_corrupts(
        uploads in proptest::collection::vec(
            (0usize..200_000, proptest::collection::vec(1usize..20_000, 0..40)),
            2..24,
        ),
        lazy_max in prop_oneof![Just(1), 1usize..50_000, Just(LAZY_MAX)],
        events in events(),
    ) {
        let lanes = Md5Lanes::with_patience(Instructions::detect(), lazy_max);
        let mut actors: Vec<Option<Actor>> = uploads
            .into_iter()
            .enumerate()
            .map(|(i, (length, chunks))| {
                let body = body(i, length);
                Some(Actor {
                    rest: body.clone(),
                    body,
                    chunks,
                    stream: Some(lanes.stream()),
                    call: None,
                    digest: None,
                    woken: Arc::new(Woken(AtomicBool::new(true))),
                })
            })
            .collect();
        let mut elsewhere: VecDeque<Batch<'_>> = VecDeque::new();
        for event in events {
            match event {
                Event::Poll(index) => {
                    if let Some(actor) = index.get_mut(&mut actors) {
                        actor.poll();
                    }
                }
                Event::Abort(index) => *index.get_mut(&mut actors) = None,
                Event::Take => {
                    let mut queue = lanes.shared.queue();
                    if queue.ready() > 0 {
                        elsewhere.push_back(Batch::take(&lanes.shared, &mut queue));
                    }
                }
                Event::Run => {
                    if let Some(batch) = elsewhere.pop_front() {
                        batch.run();
                    }
                }
                Event::Panic => drop(elsewhere.pop_front()),
            }
        }
        // Everyone comes to rest before each of the batches that still run elsewhere ends.
        loop {
            while actors.iter_mut().flatten().fold(false, |any, actor| actor.poll() | any) {}
            let Some(batch) = elsewhere.pop_front() else {
                break;
            };
            batch.run();
        }
        for actor in actors.drain(..).flatten() {
            prop_assert!(actor.call.is_none(), "a stream waits and nobody will wake it");
            prop_assert_eq!(actor.digest, Some(reference(&actor.body)));
        }
        prop_assert!(lanes.is_idle());
    }

    /// An update dropped after any number of polls is completed by the next call.
    #[test]
    fn a_dropped_update_is_completed_by_the_next(
        lengths in proptest::collection::vec((0usize..600_000, 0usize..6), 0..8),
        lazy_max in prop_oneof![Just(1), Just(LAZY_MAX)],
    ) {
        let lanes = Md5Lanes::with_patience(Instructions::detect(), lazy_max);
        let _other = lanes.stream();
        let mut stream = lanes.stream();
        let mut whole = Vec::new();
        for (i, (length, polls)) in lengths.into_iter().enumerate() {
            let chunk = body(i, length);
            let mut update = Box::pin(stream.update(chunk.clone()));
            let mut context = Context::from_waker(Waker::noop());
            let mut taken = false;
            for _ in 0..polls {
                taken = true;
                if update.as_mut().poll(&mut context).is_ready() {
                    break;
                }
            }
            if taken {
                whole.extend_from_slice(&chunk);
            }
        }
        prop_assert_eq!(poll_to_end(stream.finish()), reference(&whole));
    }
}
