//! Time in these tests is tokio's and stands still: it passes only in [`pass`] and [`to_end`], and only
//! when the server has nothing left to do. Other processes on busy processors change no outcome.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use bytes::Bytes;
use dewar_auth::AcceptedConnection;
use dewar_auth::fair_share::ShareOwner;
use dewar_env::{BoxFuture, RealRng};
use dewar_http_front::{AnswerBody, Arrival, WireBody, full_answer};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, sleep, timeout};

use super::*;

pub(super) const LIMITS: Limits = Limits {
    connections_max: 100,
    unauthenticated_share: 1,
    shared_addresses: Vec::new(),
    header_timeout: Duration::from_millis(200),
    idle_timeout: Duration::from_millis(500),
    body_timeout: Duration::from_millis(300),
    header_bytes_max: 8 * 1024,
};

/// Ends what should have ended long ago.
const PATIENCE: Duration = Duration::from_secs(10);

/// Real time after which a test that waits without end is given up.
const TEST_TIME: Duration = Duration::from_secs(60);

/// Time passes in steps of this.
const STEP: Duration = Duration::from_millis(10);

/// Stops tokio's clock until it is dropped. A paused clock of tokio moves by itself whenever nothing
/// but a socket is waited for, unless a blocking task runs. That task ends with this, or after
/// [`TEST_TIME`]: then the clock moves and every timeout of a test fails it.
struct StoppedClock {
    _stopped: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl StoppedClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "only a task of tokio's blocking pool stops its clock"
    )]
    fn new() -> Self {
        let (stopped, ended) = mpsc::channel();
        let task = tokio::task::spawn_blocking(move || {
            let _ = ended.recv_timeout(TEST_TIME);
        });
        Self {
            _stopped: stopped,
            task,
        }
    }

    /// Waits for a state that comes without any time.
    async fn until(&self, state: impl Fn() -> bool) {
        while !state() {
            assert!(!self.task.is_finished(), "the state never came");
            settle().await;
        }
    }
}

/// Lets the server do all that it can do now, and gives the kernel a moment to deliver.
async fn settle() {
    for _ in 0..8 {
        for _ in 0..8 {
            yield_now().await;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Lets time pass; the server does what is due at each step.
async fn pass(time: Duration) {
    let end = Instant::now() + time;
    settle().await;
    while Instant::now() < end {
        advance(STEP.min(end - Instant::now())).await;
        settle().await;
    }
}

struct Running {
    address: SocketAddr,
    door: Arc<ListenerContext>,
    stop: Stop,
    /// Requests that reached the service.
    begun: Arc<AtomicUsize>,
    clock: StoppedClock,
}

/// What the test service answers: `/slow` after 400 ms, `/early` without reading, `/large` with
/// 64 MiB, `/of/NAME` whether the connection may count for that client, anything else with what was
/// sent and how it came. `/busy` takes ten seconds for each piece of a body.
async fn answer(request: Request<WireBody>, arrival: Arrival) -> Response<AnswerBody> {
    let body = match request.uri().path() {
        "/slow" => {
            sleep(Duration::from_millis(400)).await;
            Bytes::from_static(b"slow")
        }
        "/early" => Bytes::from_static(b"early"),
        "/busy" => {
            let (mut body, mut taken) = (request.into_body(), 0);
            while let Some(Ok(_)) = body.frame().await {
                sleep(Duration::from_secs(10)).await;
                taken += 1;
            }
            Bytes::from(format!("{taken} pieces"))
        }
        path if path.starts_with("/of/") => {
            let connection = request.extensions().get::<Arc<dyn AcceptedConnection>>();
            let connection = connection.expect("a connection");
            match connection.authenticated(&ShareOwner::named(&path[4..])) {
                true => Bytes::from_static(b"counted"),
                false => Bytes::from_static(b"refused"),
            }
        }
        "/large" => Bytes::from(vec![0; 64 << 20]),
        _ => match request.into_body().collect().await {
            Ok(body) => {
                let body = body.to_bytes();
                let sum: u64 = body.iter().map(|&byte| u64::from(byte)).sum();
                let tls = arrival.tls.map(|version| format!(" {version}"));
                let tls = tls.unwrap_or_default();
                Bytes::from(format!(
                    "{} {sum} {}{tls}",
                    body.len(),
                    arrival.origin().secure
                ))
            }
            Err(error) => Bytes::from(format!("broken: {error}")),
        },
    };
    let mut response = full_answer(body);
    let id = arrival.id.to_string().parse().expect("header");
    response.headers_mut().insert("x-request-id", id);
    response
}

/// Counts the requests that it answers.
struct TestFront(Arc<AtomicUsize>);

impl HttpFront for TestFront {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        self.0.fetch_add(1, Relaxed);
        Box::pin(answer(request, arrival))
    }
}

pub(super) fn door(limits: Limits, tls: Option<Arc<Tls>>) -> Arc<ListenerContext> {
    Arc::new(ListenerContext {
        name: "test",
        limits: ArcSwap::from_pointee(limits),
        tls,
        ids: Arc::new(RequestIds::new(&RealRng)),
        metrics: DoorMetrics::register(&mut Registry::default()).of("test"),
        read_bytes_max: 1 << 20,
        read_bytes_total: 256 << 20,
        slots: Slots::default(),
    })
}

async fn start(limits: Limits, tls: Option<Arc<Tls>>) -> Running {
    let door = door(limits, tls);
    let stop = Stop::new();
    let address = "127.0.0.1:0".parse().expect("address");
    let listener = Listener::bind(address).await.expect("binds");
    let address = listener.address();
    let begun = Arc::new(AtomicUsize::new(0));
    let front = Arc::new(TestFront(Arc::clone(&begun)));
    let fronts = Fronts::Http(vec![("/".into(), front as _)]);
    listener.serve(Arc::clone(&door), fronts, &stop);
    Running {
        address,
        door,
        stop,
        begun,
        clock: StoppedClock::new(),
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }

    /// Waits until the service has seen so many requests.
    async fn has_begun(&self, requests: usize) {
        let begun = || self.begun.load(Relaxed) == requests;
        self.clock.until(begun).await;
    }
}

async fn send(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).await.expect("sends");
}

/// Everything until the server closes, and how much time must pass before that.
async fn to_end(socket: &mut TcpStream) -> (String, Duration) {
    let start = Instant::now();
    let mut all = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut all));
    let read = tokio::select! {
        biased;
        read = read => read,
        () = pass(PATIENCE * 2) => unreachable!("the timeout comes before"),
    };
    // A reset is an end too.
    let _ = read.expect("the server closes");
    (String::from_utf8_lossy(&all).into_owned(), start.elapsed())
}

/// One answer with a short body that came with its head.
async fn one_answer(socket: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = timeout(PATIENCE, socket.read(&mut buffer)).await;
        let read = read.expect("an answer").expect("no error");
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&all);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("length").parse().expect("number");
            if body.len() >= length {
                return text.into_owned();
            }
        }
    }
}

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn answers_many_requests_of_one_connection_each_with_its_id() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..5 {
        send(&mut socket, GET).await;
        let answer = one_answer(&mut socket).await;
        assert!(answer.ends_with("0 0 false"), "{answer}");
        let id = answer.lines().find(|line| line.starts_with("x-request-id"));
        ids.insert(id.expect("id").to_owned());
    }
    assert_eq!(ids.len(), 5);
    assert_eq!(running.door.metrics.accepted.get(), 1);
    drop(socket);
    assert_eq!(running.stop.drain(PATIENCE).await, 0);
    assert_eq!(running.door.metrics.open.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn refuses_beyond_the_limit_and_serves_again_when_there_is_room() {
    let limits = Limits {
        connections_max: 2,
        ..LIMITS
    };
    let running = start(limits, None).await;
    let mut first = running.connect().await;
    let mut second = running.connect().await;
    for socket in [&mut first, &mut second] {
        send(socket, GET).await;
        one_answer(socket).await;
    }
    let (answer, _) = to_end(&mut running.connect().await).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(running.door.metrics.refused.get(), 1);
    drop(first);
    let closed = || running.door.metrics.open.get() < 2;
    running.clock.until(closed).await;
    let mut third = running.connect().await;
    send(&mut third, GET).await;
    one_answer(&mut third).await;

    running.door.limits.store(Arc::new(LIMITS));
    let mut fourth = running.connect().await;
    send(&mut fourth, GET).await;
    one_answer(&mut fourth).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_in_drops_is_cut_at_its_deadline() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    send(&mut socket, GET).await;
    one_answer(&mut socket).await;
    // Idle for a while first: the deadline counts from the first byte.
    pass(Duration::from_millis(250)).await;
    let (mut reader, mut writer) = socket.split();
    let start = Instant::now();
    let drops = async {
        // The request must not become complete.
        for byte in &GET.as_bytes()[..GET.len() - 4] {
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
            pass(Duration::from_millis(40)).await;
        }
    };
    let mut all = Vec::new();
    let read = async {
        let read = timeout(PATIENCE, reader.read_to_end(&mut all)).await;
        let _ = read.expect("the server closes");
        start.elapsed()
    };
    let ((), ended) = tokio::join!(drops, read);
    assert!(ended >= LIMITS.header_timeout, "{ended:?}");
    assert!(ended < LIMITS.header_timeout * 3, "{ended:?}");
    assert_eq!(running.door.metrics.timed_out.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_without_being_counted_as_stuck() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    send(&mut socket, GET).await;
    one_answer(&mut socket).await;
    let (rest, after) = to_end(&mut socket).await;
    assert_eq!(rest, "");
    assert!(after >= LIMITS.idle_timeout, "{after:?}");
    assert!(after < LIMITS.idle_timeout * 2, "{after:?}");
    assert_eq!(running.door.metrics.timed_out.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_is_answered_and_cut_and_a_slow_one_is_not() {
    let running = start(LIMITS, None).await;
    let mut stalled = running.connect().await;
    send(
        &mut stalled,
        "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345",
    )
    .await;
    let (answer, after) = to_end(&mut stalled).await;
    assert!(answer.ends_with("broken: timed out"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(after >= LIMITS.body_timeout, "{after:?}");
    assert!(after < LIMITS.body_timeout * 3, "{after:?}");
    assert_eq!(running.door.metrics.timed_out.get(), 1);

    let mut slow = running.connect().await;
    send(
        &mut slow,
        "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\n",
    )
    .await;
    for _ in 0..8 {
        pass(Duration::from_millis(100)).await;
        send(&mut slow, "\x01").await;
    }
    assert!(one_answer(&mut slow).await.ends_with("8 8 false"));
    // And the same connection goes on.
    send(
        &mut slow,
        "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n",
    )
    .await;
    pass(Duration::from_millis(100)).await;
    send(&mut slow, "\x01").await;
    assert!(one_answer(&mut slow).await.ends_with("1 1 false"));
}

#[tokio::test(start_paused = true)]
async fn a_body_in_drops_is_given_up() {
    let running = start(LIMITS, None).await;
    let drop_time = LIMITS.body_timeout / 2;
    // A little more and a little less than 1 KiB/s.
    for (drop, lives) in [(160, true), (140, false)] {
        let mut socket = running.connect().await;
        let start = Instant::now();
        let head = "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 160000\r\n\r\n";
        send(&mut socket, head).await;
        for _ in 0..1000 {
            if running.door.metrics.timed_out.get() > 0 {
                break;
            }
            socket.write_all(&vec![0; drop]).await.expect("sends");
            settle().await;
            advance(drop_time).await;
            settle().await;
        }
        let answer = one_answer(&mut socket).await;
        if lives {
            assert!(answer.ends_with("160000 0 false"), "{answer}");
            assert!(start.elapsed() > Duration::from_secs(140));
        } else {
            assert!(answer.ends_with("broken: timed out"), "{answer}");
            let after = start.elapsed().as_secs();
            assert!((60..62).contains(&after), "{after}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_blames_no_body() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    send(
        &mut socket,
        "PUT /busy HTTP/1.1\r\nhost: x\r\ncontent-length: 12\r\n\r\n",
    )
    .await;
    for _ in 0..12 {
        // It comes while the server is busy with the last one.
        send(&mut socket, "\x01").await;
        settle().await;
        advance(Duration::from_secs(5)).await;
        settle().await;
        advance(Duration::from_secs(5)).await;
    }
    pass(Duration::from_secs(1)).await;
    let answer = one_answer(&mut socket).await;
    assert!(answer.ends_with("12 pieces"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn work_of_the_server_is_not_the_clients_delay() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    // 400 ms of work is longer than every timeout but the idle one.
    send(&mut socket, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    running.has_begun(1).await;
    pass(Duration::from_millis(450)).await;
    assert!(one_answer(&mut socket).await.ends_with("slow"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_cut() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    send(&mut socket, "GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await;
    running.has_begun(1).await;
    let start = Instant::now();
    while running.door.metrics.open.get() > 0 {
        assert!(start.elapsed() < PATIENCE, "still open");
        pass(STEP).await;
    }
    assert!(start.elapsed() >= LIMITS.body_timeout);
    assert_eq!(running.door.metrics.timed_out.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_arrives_although_the_client_is_still_sending() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    // More than the kernel's buffers on both sides hold.
    let length = 24 << 20;
    let head = format!("PUT /early HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    send(&mut socket, &head).await;
    // As clients do: send everything, look at the answer only then.
    for _ in 0..length / 65_536 {
        socket.write_all(&[0; 65_536]).await.expect("no reset");
    }
    let (answer, _) = to_end(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("early"), "{answer}");
}

/// The buffer that a large body made grow is given back, and what stood in it is not lost.
/// A client that waits for `100 Continue` and gets its answer at once never sends the body. Unless it
/// is told that the connection ends, it sends its next request on it, whose first bytes would be
/// taken for the body.
#[tokio::test(start_paused = true)]
async fn an_answer_before_the_body_announces_the_end_of_its_connection() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    let head =
        "PUT /early HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n";
    // The next request is there already when the answer leaves: the worst moment.
    send(&mut socket, &format!("{head}{GET}")).await;
    let (answer, _) = to_end(&mut socket).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("early"), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");

    // Nothing is announced where the body was read, or where there was none.
    let mut socket = running.connect().await;
    send(
        &mut socket,
        "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n\x02",
    )
    .await;
    let answer = one_answer(&mut socket).await;
    assert!(!answer.contains("connection: close"), "{answer}");
    send(&mut socket, "GET /early HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = one_answer(&mut socket).await;
    assert!(!answer.contains("connection: close"), "{answer}");
}

/// Old SDKs announce empty bodies too, wait for `100 Continue`, and remember on their connection that
/// it did not come: they read the answers to all that they send on it later as if it were this one.
#[tokio::test(start_paused = true)]
async fn an_answer_to_an_announced_body_that_is_empty_ends_its_connection() {
    let running = start(LIMITS, None).await;
    for path in ["/", "/early"] {
        let mut socket = running.connect().await;
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nexpect: 100-continue\r\n\r\n"
        );
        send(&mut socket, &head).await;
        let (answer, after) = to_end(&mut socket).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(after < LIMITS.idle_timeout, "{after:?}");
    }
    // A body that does come is asked for, and its connection goes on.
    let mut socket = running.connect().await;
    let head = "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n";
    send(&mut socket, head).await;
    let mut asked = [0; 25];
    let read = timeout(PATIENCE, socket.read_exact(&mut asked)).await;
    read.expect("an answer").expect("no error");
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    send(&mut socket, "\x02").await;
    let answer = one_answer(&mut socket).await;
    assert!(!answer.contains("connection: close"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_keeps_no_large_buffer() {
    let limits = Limits {
        idle_timeout: Duration::from_secs(60),
        header_timeout: Duration::from_secs(60),
        body_timeout: Duration::from_secs(60),
        ..LIMITS
    };
    let running = start(limits, None).await;
    let mut socket = running.connect().await;
    let length = 8 << 20;
    for rest in ["", "GET / HT", ""] {
        let before = running.door.metrics.buffers_released.get();
        let head = format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        send(&mut socket, &head).await;
        let mut body = vec![0; length];
        // The beginning of the next request comes with the end of this body.
        body.extend_from_slice(rest.as_bytes());
        socket.write_all(&body).await.expect("sends");
        assert!(
            one_answer(&mut socket)
                .await
                .ends_with(&format!("{length} 0 false"))
        );
        let start = Instant::now();
        while running.door.metrics.buffers_released.get() == before {
            assert!(start.elapsed() < PATIENCE, "never given back");
            pass(STEP).await;
        }
        assert!(
            start.elapsed() > Duration::from_millis(300),
            "busy clients keep theirs"
        );
        send(&mut socket, GET.strip_prefix(rest).expect("its beginning")).await;
        assert!(one_answer(&mut socket).await.ends_with("0 0 false"));
    }
    assert_eq!(running.door.metrics.accepted.get(), 1);
    assert_eq!(running.stop.drain(PATIENCE).await, 0);
}

#[test]
fn many_connections_share_the_memory_for_buffers() {
    let door = |open| {
        let door = door(LIMITS, None);
        door.slots.open.store(open, Relaxed);
        door
    };
    assert_eq!(door(0).read_bytes(), 1 << 20);
    assert_eq!(door(256).read_bytes(), 1 << 20);
    assert_eq!(door(1024).read_bytes(), 256 << 10);
    assert_eq!(door(1_000_000).read_bytes(), READ_BYTES_MIN);
}

#[tokio::test(start_paused = true)]
async fn a_huge_head_is_answered_431_and_garbage_400() {
    let running = start(LIMITS, None).await;
    let mut socket = running.connect().await;
    let head = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx-y: {}\r\n\r\n",
        "z".repeat(20_000)
    );
    send(&mut socket, &head).await;
    let (answer, _) = to_end(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let mut socket = running.connect().await;
    send(&mut socket, "\x16\x03\x01 garbage\r\n\r\n").await;
    let (answer, _) = to_end(&mut socket).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_runs_and_refuses_what_is_new() {
    let running = start(LIMITS, None).await;
    let mut idle = running.connect().await;
    send(&mut idle, GET).await;
    one_answer(&mut idle).await;
    let mut busy = running.connect().await;
    send(&mut busy, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    running.has_begun(2).await;

    let stop = running.stop.clone();
    let drained = tokio::spawn(async move { stop.drain(PATIENCE).await });
    let (rest, after) = to_end(&mut idle).await;
    assert_eq!(rest, "");
    assert!(
        after < Duration::from_millis(200),
        "an idle connection ends at once: {after:?}"
    );
    assert!(
        TcpStream::connect(running.address).await.is_err(),
        "nobody listens"
    );
    let (answer, _) = to_end(&mut busy).await;
    assert!(answer.ends_with("slow"), "{answer}");
    assert_eq!(drained.await.expect("joins"), 0);
}

/// Says hello, and goodbye when it is told to stop; lingers.
struct Lingering;

impl SocketFront for Lingering {
    fn serve(
        &self,
        mut socket: TcpStream,
        _: SocketAddr,
        _: Arc<dyn AcceptedConnection>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _ = socket.write_all(b"hello").await;
            stop.cancelled().await;
            let _ = socket.write_all(b" goodbye").await;
        })
    }

    fn refuse(&self, mut socket: TcpStream) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let _ = socket.write_all(b"later").await;
        })
    }

    fn lingers(&self) -> Duration {
        Duration::from_millis(400)
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_a_front_lingers_is_served_until_its_end() {
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    let listener = listener.expect("binds");
    let (address, stop) = (listener.address(), Stop::new());
    let fronts = Fronts::Socket(Arc::new(Lingering));
    listener.serve(door(LIMITS, None), fronts, &stop);
    let _clock = StoppedClock::new();
    let mut early = TcpStream::connect(address).await.expect("connects");
    let mut greeting = [0; 5];
    let read = timeout(PATIENCE, early.read_exact(&mut greeting)).await;
    read.expect("a greeting").expect("no error");
    assert_eq!(&greeting, b"hello");
    let drain = stop.clone();
    let drained = tokio::spawn(async move { drain.drain(PATIENCE).await });
    let (said, after) = to_end(&mut early).await;
    assert_eq!(said, " goodbye");
    assert!(after < Duration::from_millis(300), "{after:?}");
    let mut late = TcpStream::connect(address).await.expect("connects");
    let (said, after) = to_end(&mut late).await;
    assert_eq!(said, "hello goodbye");
    assert!(after > Duration::from_millis(100), "{after:?}");
    assert_eq!(drained.await.expect("joins"), 0);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens");
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_at_its_deadline() {
    let running = start(LIMITS, None).await;
    let mut busy = running.connect().await;
    send(&mut busy, "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    running.has_begun(1).await;
    let start = Instant::now();
    let drain = async {
        let cut = running.stop.drain(Duration::from_millis(100)).await;
        (cut, start.elapsed())
    };
    let ((cut, after), ()) = tokio::join!(drain, pass(Duration::from_millis(300)));
    assert_eq!(cut, 1);
    assert!(after < Duration::from_millis(300), "{after:?}");
    let (answer, _) = to_end(&mut busy).await;
    assert_eq!(answer, "");
}

#[tokio::test(start_paused = true)]
async fn a_taken_port_is_named() {
    let running = start(LIMITS, None).await;
    let error = Listener::bind(running.address).await.err().expect("taken");
    let said = error.to_string();
    assert!(said.contains(&running.address.to_string()), "{said}");
    assert!(said.contains("another port"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn speaks_tls_and_survives_clients_that_do_not() {
    let dir = tempfile::tempdir().expect("folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("certificate");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("write");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("write");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, private).expect("chmod");
    let tls = Arc::new(Tls::open(&cert, &key).expect("opens"));
    let running = start(LIMITS, Some(tls)).await;

    let mut plain = running.connect().await;
    send(&mut plain, GET).await;
    to_end(&mut plain).await;
    let mut silent = running.connect().await;
    let (_, after) = to_end(&mut silent).await;
    assert!(after >= LIMITS.header_timeout, "{after:?}");
    assert_eq!(running.door.metrics.handshakes_failed.get(), 2);

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = rustls_pki_types::ServerName::try_from("localhost").expect("name");
    let mut stream = connector
        .connect(name, running.connect().await)
        .await
        .expect("handshake");
    let request =
        "PUT / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\n\x01\x02\x03";
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .await
        .expect("a clean end");
    assert!(answer.ends_with("3 6 true 1.3"), "{answer}");

    // Where there is no room it is said over TLS too.
    running.door.limits.store(Arc::new(Limits {
        connections_max: 0,
        ..LIMITS
    }));
    let name = rustls_pki_types::ServerName::try_from("localhost").expect("name");
    let mut stream = connector
        .connect(name, running.connect().await)
        .await
        .expect("handshake");
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer).await;
    read.expect("a clean end");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn one_address_leaves_room_until_its_clients_authenticate() {
    let limits = Limits {
        connections_max: 40,
        unauthenticated_share: 16,
        idle_timeout: PATIENCE,
        ..LIMITS
    };
    let running = start(limits, None).await;
    // Loopback is shared by many, so it is half of them.
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut socket = running.connect().await;
        send(&mut socket, GET).await;
        one_answer(&mut socket).await;
        held.push(socket);
    }
    let (answer, _) = to_end(&mut running.connect().await).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after"), "{answer}");
    assert_eq!(running.door.metrics.refused.get(), 1);
    assert!(is_counted(&mut held[0], "ann").await.ends_with("counted"));
    let mut more = running.connect().await;
    send(&mut more, GET).await;
    one_answer(&mut more).await;
}

/// What the service says of a connection that is to count for a client.
async fn is_counted(socket: &mut TcpStream, client: &str) -> String {
    send(
        socket,
        &format!("GET /of/{client} HTTP/1.1\r\nhost: x\r\n\r\n"),
    )
    .await;
    one_answer(socket).await
}

#[tokio::test(start_paused = true)]
async fn a_client_beyond_its_share_is_refused_and_others_are_served() {
    let limits = Limits {
        connections_max: 4,
        idle_timeout: PATIENCE,
        ..LIMITS
    };
    let running = start(limits, None).await;
    let [mut first, mut second] = [running.connect().await, running.connect().await];
    for socket in [&mut first, &mut second] {
        assert!(is_counted(socket, "ann").await.ends_with("counted"));
    }
    let mut third = running.connect().await;
    send(&mut third, "GET /of/ann HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let (answer, after) = to_end(&mut third).await;
    assert!(answer.ends_with("refused"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(after < PATIENCE, "{after:?}");
    assert_eq!(running.door.metrics.refused.get(), 1);
    // The same connection serves another client, as those of proxies do.
    assert!(is_counted(&mut second, "bob").await.ends_with("counted"));
    let mut third = running.connect().await;
    assert!(is_counted(&mut third, "ann").await.ends_with("counted"));
}

#[tokio::test(start_paused = true)]
async fn who_has_not_authenticated_idles_for_less_while_it_is_crowded() {
    let limits = Limits {
        connections_max: 16,
        idle_timeout: PATIENCE,
        ..LIMITS
    };
    let running = start(limits, None).await;
    let mut known = running.connect().await;
    is_counted(&mut known, "ann").await;
    let mut guest = running.connect().await;
    send(&mut guest, GET).await;
    one_answer(&mut guest).await;
    pass(LIMITS.header_timeout * 2).await;
    // Nobody needs the room yet.
    send(&mut guest, GET).await;
    one_answer(&mut guest).await;
    // Others must not leave before the guest is looked at, so they authenticate.
    let mut others = Vec::new();
    for number in 0..13 {
        let mut other = running.connect().await;
        is_counted(&mut other, &number.to_string()).await;
        others.push(other);
    }
    let (rest, after) = to_end(&mut guest).await;
    assert_eq!(rest, "");
    assert!(after < PATIENCE, "{after:?}");
    send(&mut known, GET).await;
    one_answer(&mut known).await;
}
