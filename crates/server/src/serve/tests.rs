use async_trait::async_trait;
use dewar_admin::accounts::{KeyList, UserAdd};
use dewar_admin::status::Doors;
use dewar_admin::{AdminApi, AdminError};
use dewar_auth::Secret;
use dewar_env::BoxFuture;
use dewar_http_front::{AnswerBody, Arrival, HttpFront, WireBody, full_answer};
use http::{Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::admin_socket::AdminClient;
use crate::admin_socket::tests::Memory;
use crate::config::{Log, LogFormat, LogLevel};

/// Answers "hello", after a while for `/slow`.
struct Hello;

impl HttpFront for Hello {
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        _: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>> {
        let slow = request.uri().path() == "/slow";
        Box::pin(async move {
            if slow {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            full_answer("hello".into())
        })
    }
}

/// Keeps users in memory and remembers what was done to it.
#[derive(Default)]
struct FakeEngine {
    admin: Arc<Memory>,
    doors: Mutex<Vec<DoorStatus>>,
    events: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl ServedStore for FakeEngine {
    fn listeners(config: &Config) -> Vec<ListenerSpec<Self>> {
        let hello = |_: &Self, _| Fronts::Http(vec![("/", Arc::new(Hello) as _)]);
        vec![
            s3_listener(config, hello),
            webdav_listener(config, hello),
            xrootd_listener(config, hello),
        ]
    }

    fn admin(&self, doors: Doors) -> Arc<dyn AdminApi> {
        if !doors.list.is_empty() {
            *self.doors.lock().expect("not poisoned") = doors.list;
        }
        Arc::clone(&self.admin) as Arc<dyn AdminApi>
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    async fn ensure_bucket(&self, owner: &str, bucket: &str) -> Result<(), AdminError> {
        self.events
            .lock()
            .expect("lock")
            .push(format!("bucket {owner}/{bucket}"));
        Ok(())
    }

    async fn macaroon(&self, user: &str) -> Result<Secret, AdminError> {
        Ok(Secret::new(format!("macaroon of {user}")))
    }

    async fn close(&self) {
        self.events.lock().expect("lock").push("closed".to_owned());
    }
}

#[derive(Default)]
struct Opener {
    admin: Arc<Memory>,
    events: Arc<Mutex<Vec<String>>>,
    fail: bool,
    slow: bool,
}

impl OpenEngine for Opener {
    type Engine = FakeEngine;

    async fn open(
        &self,
        _: &Config,
        purpose: Purpose,
        _: &Metrics,
    ) -> Result<FakeEngine, BoxError> {
        assert_eq!(purpose, Purpose::Serve);
        if self.fail {
            return Err("disk3 is on fire".into());
        }
        if self.slow {
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        Ok(FakeEngine {
            doors: Mutex::default(),
            admin: Arc::clone(&self.admin),
            events: Arc::clone(&self.events),
        })
    }
}

fn config(dir: &Path) -> Config {
    let mut config = Config::default();
    config.server.state_dir = dir.join("state");
    for disk in ["d1", "d2", "d3"] {
        std::fs::create_dir_all(dir.join(disk)).expect("create");
        config.pool.disks.push(dir.join(disk));
    }
    let any = || vec!["127.0.0.1:0".parse().expect("address")];
    config.s3.listen = any();
    config.metrics.listen = any();
    config
}

fn logging() -> Logging {
    crate::log::install(&Log {
        access: false,
        format: LogFormat::Human,
        level: LogLevel(tracing::Level::ERROR),
    })
}

async fn get(endpoint: &str, path: &str) -> String {
    let address = endpoint.strip_prefix("http://").expect("a URL");
    let mut socket = TcpStream::connect(address).await.expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("reads");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn serves_says_so_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("folder");
    let opener = Opener::default();
    let running = start(config(dir.path()), &opener, &Env::real())
        .await
        .expect("starts");
    let endpoints = running.endpoints().clone();
    let ready = dir.path().join("ready.json");
    running.write_ready_file(&ready, None).expect("writes");

    let text = std::fs::read_to_string(&ready).expect("reads");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["pid"], std::process::id());
    assert_eq!(json["s3"]["endpoint"], endpoints.first("s3"));
    assert_eq!(json["metrics"]["endpoint"], endpoints.first("metrics"));
    assert!(json["s3"].get("secret_key").is_none());

    assert!(get(endpoints.first("s3"), "/").await.ends_with("hello"));
    assert!(
        get(endpoints.first("metrics"), "/ready")
            .await
            .ends_with("ready\n")
    );
    let metrics = get(endpoints.first("metrics"), "/metrics").await;
    assert!(
        metrics.contains("dewar_connections_accepted_total{door=\"s3\"} 1"),
        "{metrics}"
    );
    let mut client = AdminClient::connect(&endpoints.admin)
        .await
        .expect("connects")
        .expect("there");
    let add = UserAdd {
        name: "alice".to_owned(),
        ..UserAdd::default()
    };
    client.ask(&add).await.expect("added");

    // A second server on the same state folder is refused, whatever its ports.
    let second = start(config(dir.path()), &opener, &Env::real())
        .await
        .err()
        .expect("refused");
    assert!(second.to_string().contains("in use by process"), "{second}");

    running.stop().await;
    assert!(!ready.exists() && !endpoints.admin.exists());
    assert_eq!(*opener.events.lock().expect("lock"), ["closed"]);
    let again = start(config(dir.path()), &opener, &Env::real())
        .await
        .expect("starts again");
    again.stop().await;
}

#[tokio::test]
async fn is_live_but_not_ready_while_it_opens_and_early_clients_wait() {
    let dir = tempfile::tempdir().expect("folder");
    let mut config = config(dir.path());
    // Ports must be known before the start returns.
    let free = |()| {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        socket.local_addr().expect("address")
    };
    let (s3, metrics) = (free(()), free(()));
    config.s3.listen = vec![s3];
    config.metrics.listen = vec![metrics];
    let starting = tokio::spawn(async move {
        let opener = Opener {
            slow: true,
            ..Opener::default()
        };
        start(config, &opener, &Env::real()).await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let metrics = format!("http://{metrics}");
    assert!(get(&metrics, "/live").await.starts_with("HTTP/1.1 200 "));
    let ready = get(&metrics, "/ready").await;
    assert!(
        ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("starting\n"),
        "{ready}"
    );
    assert!(get(&format!("http://{s3}"), "/").await.ends_with("hello"));
    let running = starting.await.expect("joins").expect("starts");
    assert!(get(&metrics, "/ready").await.starts_with("HTTP/1.1 200 "));
    running.stop().await;
}

#[tokio::test]
async fn a_failed_start_says_why_and_holds_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let failing = Opener {
        fail: true,
        ..Opener::default()
    };
    let error = start(config(dir.path()), &failing, &Env::real())
        .await
        .err()
        .expect("fails");
    assert_eq!(error.to_string(), "disk3 is on fire");
    let mut wrong = config(dir.path());
    wrong.pool.disks.clear();
    let error = start(wrong, &failing, &Env::real())
        .await
        .err()
        .expect("fails");
    assert!(
        error.to_string().contains("error: pool.disks: no disks"),
        "{error}"
    );
    let running = start(config(dir.path()), &Opener::default(), &Env::real()).await;
    running.expect("nothing was left locked").stop().await;
}

#[tokio::test]
async fn a_stop_lets_a_running_request_finish_before_the_store_closes() {
    let dir = tempfile::tempdir().expect("folder");
    let opener = Opener::default();
    let running = start(config(dir.path()), &opener, &Env::real())
        .await
        .expect("starts");
    let endpoint = running.endpoints().first("s3").to_owned();
    let events = Arc::clone(&opener.events);
    let asked = tokio::spawn(async move {
        let answer = get(&endpoint, "/slow").await;
        events.lock().expect("lock").push("answered".to_owned());
        answer
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.stop().await;
    assert!(asked.await.expect("joins").ends_with("hello"));
    let events = opener.events.lock().expect("lock").clone();
    assert!(events.contains(&"closed".to_owned()), "{events:?}");
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn a_reload_takes_up_what_is_live_and_nothing_else() {
    let dir = tempfile::tempdir().expect("folder");
    let running = start(config(dir.path()), &Opener::default(), &Env::real())
        .await
        .expect("starts");
    let mut newer = running.config();
    newer.s3.connections_max = 1;
    newer.s3.region = "eu".to_owned();
    newer.server.graceful_stop_timeout = Duration::from_secs(1);
    running.reload(Ok(newer), &logging());
    let now = running.config();
    assert_eq!(now.s3.connections_max, 1);
    assert_eq!(now.server.graceful_stop_timeout, Duration::from_secs(1));
    assert_eq!(now.s3.region, "us-east-1", "needs a restart");
    assert_eq!(running.listeners[0].limits.load().connections_max, 1);

    let broken = Config::parse("[s3]\nconnections_max = 0", Path::new("x"));
    running.reload(broken, &logging());
    assert_eq!(running.config(), now);
    running.stop().await;
}

/// Every key that the table calls live is really taken up: the table and the code cannot drift.
#[tokio::test]
async fn every_live_key_is_taken_up() {
    let dir = tempfile::tempdir().expect("folder");
    let running = start(config(dir.path()), &Opener::default(), &Env::real())
        .await
        .expect("starts");
    let mut newer = running.config();
    newer.log.level = LogLevel(tracing::Level::ERROR);
    newer.log.access = true;
    newer.server.graceful_stop_timeout = Duration::from_secs(2);
    newer.server.unauthenticated_share = 4;
    newer.server.shared_addresses = vec!["10.0.0.0/8".to_owned()];
    newer.s3.connections_max = 7;
    newer.s3.header_timeout = Duration::from_secs(3);
    newer.s3.idle_timeout = Duration::from_secs(4);
    newer.s3.body_timeout = Duration::from_secs(5);
    newer.s3.header_bytes_max = crate::config::ByteSize(8192);
    newer.webdav.connections_max = 8;
    newer.webdav.header_timeout = Duration::from_secs(6);
    newer.webdav.idle_timeout = Duration::from_secs(7);
    newer.webdav.body_timeout = Duration::from_secs(8);
    newer.webdav.header_bytes_max = crate::config::ByteSize(9000);
    newer.transfer.active_max = 9;
    newer.transfer.waiting_max = 10;
    newer.transfer.wait_max = Duration::from_secs(9);
    let before = running.config();
    let live: Vec<String> = crate::config::all()
        .filter(|key| key.reload == Reload::Live)
        .map(crate::config::Key::path)
        .collect();
    let mut changed: Vec<String> = before
        .changed(&newer)
        .into_iter()
        .map(crate::config::Key::path)
        .collect();
    changed.sort();
    let mut sorted = live.clone();
    sorted.sort();
    assert_eq!(changed, sorted, "this test changes every live key");
    running.reload(Ok(newer.clone()), &logging());
    assert!(running.config().changed(&newer).is_empty());
    let specs = possible_listeners::<FakeEngine>(&newer).into_iter();
    for (spec, listener) in specs.zip(&running.listeners) {
        assert_eq!(*listener.limits.load_full(), spec.limits, "{}", spec.name);
    }
    assert_eq!(running.listeners[1].limits.load().shared_addresses.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn administrators_are_told_the_ports_that_the_system_chose() {
    let dir = tempfile::tempdir().expect("folder");
    let demo = crate::demo::Demo::prepare(dir.path(), Some(0), &dewar_env::RealRng);
    let demo = demo.expect("prepares");
    let running = start(demo.config.clone(), &Opener::default(), &Env::real())
        .await
        .expect("starts");
    let doors = running.engine().doors.lock().expect("not poisoned").clone();
    let told = |name: &str| -> Vec<String> {
        let of_name = doors.iter().filter(|door| door.name == name);
        of_name.map(|door| door.endpoint.clone()).collect()
    };
    let endpoints = running.endpoints();
    assert_eq!(told("s3"), endpoints.of("s3"));
    assert_eq!(told("metrics"), endpoints.of("metrics"));
    assert!(!doors.is_empty() && !doors.iter().any(|door| door.endpoint.ends_with(":0")));
    running.stop().await;
}

#[tokio::test]
async fn a_demo_is_filled_once_and_found_again() {
    let dir = tempfile::tempdir().expect("folder");
    let opener = Opener::default();
    for _ in 0..2 {
        let demo = crate::demo::Demo::prepare(dir.path(), Some(0), &dewar_env::RealRng);
        let demo = demo.expect("prepares");
        let running = start(demo.config.clone(), &opener, &Env::real())
            .await
            .expect("starts");
        let shown = demo.fill(&running).await.expect("fills");
        let ready = dir.path().join("ready.json");
        running
            .write_ready_file(&ready, Some(&shown))
            .expect("writes");
        let text = std::fs::read_to_string(&ready).expect("reads");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["s3"]["access_key"], shown.access_key.as_str());
        assert_eq!(json["s3"]["secret_key"], shown.secret_key.reveal());
        assert_eq!(json["s3"]["bucket"], "demo");
        let webdav = &json["webdav"];
        assert_eq!(webdav["token"], "macaroon of demo");
        let folder = dir.path().join("certificates");
        assert_eq!(webdav["ca_dir"], folder.display().to_string());
        // One address with TLS and one without, of the same front.
        let (plain, tls) = (&webdav["endpoint"], &webdav["tls_endpoint"]);
        let (plain, tls) = (plain.as_str().expect("text"), tls.as_str().expect("text"));
        assert!(get(plain, "/").await.ends_with("hello"));
        let clear = get(&tls.replacen("https", "http", 1), "/").await;
        assert!(!clear.contains("hello"), "{clear}");
        let doors = running.endpoints().of("webdav");
        assert_eq!(doors, [tls, plain]);
        let keys = running
            .engine()
            .admin(Doors::default())
            .ask(KeyList {
                user: Some("demo".to_owned()),
                after: None,
            })
            .await
            .expect("keys");
        assert_eq!(keys.items.len(), 1);
        assert_eq!(keys.items[0].access_key, shown.access_key);
        running.stop().await;
    }
}
