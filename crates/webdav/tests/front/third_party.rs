//! Third-party copies over HTTP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dewar_transfer::{QueueLimits, TransferState};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{
    Fixture, TestRequest, TestResponse, fixture, fixture_with_copies, talk, talk_to_peers,
};

/// Heads and bodies of requests.
type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Another server with one file, which remembers what it was asked.
struct Peer {
    port: u16,
    asked: Requests,
}

/// What the peer does with a GET.
#[derive(Clone, Copy)]
enum PeerFile {
    /// It has these bytes.
    Content(&'static [u8]),
    /// It sends a part and then nothing.
    Hangs,
}

impl Peer {
    async fn start(file: PeerFile) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, file, Arc::clone(&heard)));
            }
        });
        Self { port, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self, method: &str) -> Vec<(String, Vec<u8>)> {
        let asked = self.asked.lock().expect("not poisoned");
        let of = asked.iter().filter(|(head, _)| head.starts_with(method));
        of.cloned().collect()
    }
}

/// Answers one request and closes.
async fn answer(mut socket: TcpStream, file: PeerFile, heard: Requests) {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |text| text.trim().parse().expect("a number"));
    if head.contains("expect: 100-continue") {
        let go_on = socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        go_on.expect("the client is there");
    }
    while bytes.len() < end + length {
        if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let method = String::from_utf8_lossy(&bytes[..end]);
    let method = method.split(' ').next().expect("a method").to_owned();
    let body = bytes[end..].to_vec();
    heard
        .lock()
        .expect("not poisoned")
        .push((format!("{method} {head}"), body));
    let content: &[u8] = match file {
        PeerFile::Content(content) => content,
        PeerFile::Hangs => b"part",
    };
    let size = match file {
        PeerFile::Content(content) => content.len(),
        PeerFile::Hangs => 1 << 20,
    };
    let head = match method.as_str() {
        "GET" | "HEAD" => format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\ncontent-type: text/x-peer\r\n\
             connection: close\r\n\r\n"
        ),
        _ => "HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
    };
    // The client may have gone.
    let _ = socket.write_all(head.as_bytes()).await;
    if method == "GET" {
        let _ = socket.write_all(content).await;
        if matches!(file, PeerFile::Hangs) {
            let _ = socket.read(&mut [0; 16]).await;
        }
    }
}

fn limits() -> QueueLimits {
    QueueLimits::default()
}

fn pull<'a>(dewar: &'a Fixture, path: &str, source: &str) -> TestRequest<'a> {
    let request = dewar.owner("COPY", path).header("source", source);
    request.header("credential", "none")
}

fn push<'a>(dewar: &'a Fixture, path: &str, target: &str) -> TestRequest<'a> {
    dewar.owner("COPY", path).header("destination", target)
}

/// The last line of an answer that began before the copy was over.
fn last_line(answer: TestResponse) -> String {
    let answer = answer.is(202);
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    let text = answer.text();
    assert!(text.ends_with('\n') && !text.contains('\r'), "{text}");
    text.lines().last().expect("a line").to_owned()
}

#[test]
fn what_clients_must_read_is_a_status() {
    talk(async {
        let dewar = fixture_with_copies(limits()).await;
        dewar.put("/bucket/file", b"x").await.is(201);
        let elsewhere = "https://elsewhere.example/x";
        let both = pull(&dewar, "/bucket/new", elsewhere).header("destination", elsewhere);
        both.send().await.is(400);
        dewar.owner("COPY", "/bucket/file").send().await.is(400);
        for (name, value) in [
            ("credential", "gridsite"),
            ("x-number-of-streams", "many"),
            ("overwrite", "maybe"),
            ("transferheaderhost", "other"),
            ("transferheaderrange", "bytes=0-1"),
            ("copy-header", "no colon"),
            ("digest", "adler32=1"),
        ] {
            let request = dewar
                .owner("COPY", "/bucket/new")
                .header("source", elsewhere);
            request.header(name, value).send().await.is(400);
        }
        for url in [
            "ftp://h/x",
            "https://ann:secret@h/x",
            "https://h:0/x",
            "https://h/x#y",
            "https://h/x/",
        ] {
            pull(&dewar, "/bucket/new", url).send().await.is(400);
            push(&dewar, "/bucket/file", url).send().await.is(400);
        }
        let anonymous = dewar
            .request("COPY", "/bucket/new")
            .header("source", elsewhere);
        anonymous.send().await.is(401);
        let stranger = |method, path| {
            let request = dewar.request(method, path);
            request.basic("KEY-stranger", "secret of stranger")
        };
        let refused = stranger("COPY", "/bucket/new").header("source", elsewhere);
        let refused = refused.send().await.is(403);
        assert!(refused.text().contains("Permission denied"));
        let refused = stranger("COPY", "/bucket/file").header("destination", elsewhere);
        refused.send().await.is(403);
        let absent = push(&dewar, "/bucket/absent", elsewhere)
            .send()
            .await
            .is(404);
        assert!(absent.text().contains("No such file or directory"));
        pull(&dewar, "/absent/new", elsewhere).send().await.is(404);
        push(&dewar, "/bucket", elsewhere).send().await.is(400);
        let moved = dewar
            .owner("MOVE", "/bucket/file")
            .header("destination", elsewhere);
        moved.send().await.is(502);
        let registry = dewar.registry.as_ref().expect("copies");
        assert!(registry.list().is_empty());
        // A front without copies says so.
        let without = fixture().await;
        pull(&without, "/bucket/new", elsewhere)
            .send()
            .await
            .is(501);
    });
}

#[test]
fn everything_else_is_a_last_line() {
    talk(async {
        let dewar = fixture_with_copies(limits()).await;
        dewar.put("/bucket/file", b"x").await.is(201);
        let elsewhere = "https://elsewhere.example/x";
        let kept = pull(&dewar, "/bucket/file", elsewhere).header("overwrite", "F");
        let line = last_line(kept.send().await);
        assert!(line.starts_with("failure: File exists"), "{line}");
        let line = last_line(pull(&dewar, "/bucket", elsewhere).send().await);
        assert!(line.starts_with("failure: "), "{line}");
        let lockinfo = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                        <D:locktype><D:write/></D:locktype></D:lockinfo>";
        let lock = dewar
            .owner("LOCK", "/bucket/file")
            .body(lockinfo.as_bytes());
        lock.send().await.is(200);
        let line = last_line(pull(&dewar, "/bucket/file", elsewhere).send().await);
        assert!(
            line.contains("locked") && !line.contains("Permission"),
            "{line}"
        );
        assert_eq!(&dewar.get("/bucket/file").await.is(200).body[..], b"x");
    });
}

#[test]
fn a_source_or_destination_of_this_service_is_local() {
    talk(async {
        let dewar = fixture_with_copies(limits()).await;
        dewar.put("/bucket/file", b"content").await.is(201);
        let local = |path, source| dewar.owner("COPY", path).header("source", source);
        let here = "http://localhost:8080/bucket/file";
        local("/bucket/a", here).send().await.is(201);
        local("/bucket/a", here).send().await.is(204);
        local("/bucket/b", "/bucket/file").send().await.is(201);
        push(&dewar, "/bucket/file", "http://LOCALHOST:8080/bucket/c")
            .send()
            .await
            .is(201);
        for name in ["a", "b", "c"] {
            let copy = dewar.get(&format!("/bucket/{name}")).await.is(200);
            assert_eq!(&copy.body[..], b"content");
        }
        local("/bucket/a", "/bucket/absent").send().await.is(404);
    });
}

#[test]
fn a_pull_makes_a_file_and_its_directories() {
    talk_to_peers(async {
        let dewar = fixture_with_copies(limits()).await;
        let peer = Peer::start(PeerFile::Content(b"far content")).await;
        let request = pull(&dewar, "/bucket/new/dir/file", &peer.url("/a%20b%2Bc?q=1"));
        let request = request
            .header("transferheaderauthorization", "Bearer far-token")
            .header("digest", "adler32=18f2045a");
        let adler = format!("{:08x}", dewar_checksum::adler32(b"far content"));
        let answer = request.send().await;
        // The client named another digest: that lasts, and nothing is there.
        let line = last_line(answer);
        assert!(line.contains("checksum do not match"), "{line}");
        dewar.get("/bucket/new/dir/file").await.is(404);
        let request = pull(&dewar, "/bucket/new/dir/file", &peer.url("/a%20b%2Bc?q=1"));
        let request = request
            .header("transferheaderauthorization", "Bearer far-token")
            .header("digest", &format!("adler32={adler}"));
        let answer = request.send().await;
        assert_eq!(last_line(answer), "success: Created");
        let got = dewar.get("/bucket/new/dir/file").await.is(200);
        assert_eq!(&got.body[..], b"far content");
        assert_eq!(got.header("content-type"), Some("text/x-peer"));
        let (head, _) = peer.asked("GET").pop().expect("a GET");
        assert!(head.contains("get /a%20b%2bc?q=1 "), "{head}");
        assert!(head.contains("authorization: bearer far-token"), "{head}");
        assert!(!head.contains("basic"), "{head}");
    });
}

#[test]
fn a_push_sends_the_file() {
    talk_to_peers(async {
        let dewar = fixture_with_copies(limits()).await;
        dewar.put("/bucket/file", b"near content").await.is(201);
        let peer = Peer::start(PeerFile::Content(b"near content")).await;
        let request = push(&dewar, "/bucket/file", &peer.url("/new"));
        let request = request
            .header("copy-flags", "NoHead")
            .header("copy-header", "Authorization: Bearer far-token");
        assert_eq!(last_line(request.send().await), "success: Created");
        let (head, body) = peer.asked("PUT").pop().expect("a PUT");
        assert_eq!(body, b"near content");
        assert!(head.contains("authorization: bearer far-token"), "{head}");
        assert!(peer.asked("HEAD").is_empty());
    });
}

#[test]
fn nothing_connects_to_where_no_rule_leads() {
    talk_to_peers(async {
        let dewar = fixture_with_copies(limits()).await;
        for url in [
            "http://127.0.0.2:9999/x",
            "http://127.0.0.1:22/x",
            "http://[::1]:9999/x",
        ] {
            let line = last_line(pull(&dewar, "/bucket/new", url).send().await);
            assert!(line.starts_with("failure: Permission denied"), "{line}");
        }
    });
}

#[test]
fn a_client_that_leaves_ends_its_copy() {
    talk_to_peers(async {
        let dewar = fixture_with_copies(limits()).await;
        let registry = Arc::clone(dewar.registry.as_ref().expect("copies"));
        let peer = Peer::start(PeerFile::Hangs).await;
        let request = pull(&dewar, "/bucket/new", &peer.url("/x"));
        let answer = request.header("copy-flags", "NoHead").open().await;
        assert_eq!(answer.status(), 202);
        let mut frames = answer.into_body().into_data_stream();
        let first = frames.next().await.expect("a marker").expect("no error");
        assert!(first.starts_with(b"Perf Marker\n"));
        until(|| registry.list().iter().any(|copy| copy.bytes > 0)).await;
        let list = registry.list();
        assert_eq!((list.len(), list[0].state), (1, TransferState::Active));
        assert_eq!(list[0].size, Some(1 << 20));
        assert_eq!(list[0].description.local_path, "/bucket/new");
        drop(frames);
        until(|| registry.list().is_empty()).await;
        dewar.get("/bucket/new").await.is(404);
    });
}

#[test]
fn copies_beyond_the_limit_wait_and_then_fail_as_a_passing_error() {
    talk_to_peers(async {
        let limits = QueueLimits {
            active_max: 1,
            waiting_max: 2,
            wait_max: Duration::from_secs(1),
        };
        let dewar = fixture_with_copies(limits).await;
        let registry = Arc::clone(dewar.registry.as_ref().expect("copies"));
        let peer = Peer::start(PeerFile::Hangs).await;
        let ask = |name: &str| {
            let request = pull(&dewar, &format!("/bucket/{name}"), &peer.url("/x"));
            request.header("copy-flags", "NoHead")
        };
        let first = ask("first").open().await;
        until(|| registry.figures().active == 1).await;
        let second = ask("second").send();
        let third = async {
            until(|| registry.figures().waiting == 1).await;
            ask("third").send().await
        };
        let (second, third) = tokio::join!(second, third);
        let text = second.text();
        assert!(text.contains("Stripe Bytes Transferred: 0\n"), "{text}");
        let line = last_line(second);
        assert!(line.starts_with("failure: operation timeout"), "{line}");
        // One user may wait with as many copies as are free for others.
        let line = last_line(third);
        assert!(line.starts_with("failure: The server is busy"), "{line}");
        // An administrator ends the first.
        let id = registry.list()[0].id;
        assert!(registry.cancel(id));
        let (head, body) = first.into_parts();
        assert_eq!(head.status, 202);
        let all = body.collect().await.expect("no error").to_bytes();
        let text = String::from_utf8_lossy(&all);
        assert!(
            text.ends_with("failure: The copy was cancelled\n"),
            "{text}"
        );
    });
}

/// Waits for what happens within seconds.
async fn until(happens: impl Fn() -> bool) {
    for _ in 0..500 {
        if happens() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not happen");
}

#[test]
fn a_client_of_third_party_copies_reads_a_last_line_of_a_local_copy() {
    talk(async {
        let dewar = fixture_with_copies(limits()).await;
        dewar.put("/bucket/file", b"content").await.is(201);
        let here = "http://localhost:8080/bucket/file";
        for (at, (name, value)) in [
            ("x-number-of-streams", "1"),
            ("secure-redirection", "1"),
            ("credential", "none"),
            ("transferheaderauthorization", "Bearer x"),
        ]
        .into_iter()
        .enumerate()
        {
            let target = format!("/bucket/copy{at}");
            let asked = || {
                let request = dewar.owner("COPY", &target).header("source", here);
                request.header(name, value)
            };
            assert_eq!(last_line(asked().send().await), "success: Created");
            assert_eq!(&dewar.get(&target).await.is(200).body[..], b"content");
            // It replaces the file, unless it must not.
            assert_eq!(last_line(asked().send().await), "success: Created");
            let kept = asked().header("overwrite", "F").send().await;
            let line = last_line(kept);
            assert!(line.starts_with("failure: File exists"), "{line}");
        }
        let absent = dewar.owner("COPY", "/bucket/absent");
        let absent = absent.header("destination", "http://localhost:8080/bucket/x");
        let absent = absent.header("credential", "none").send().await.is(404);
        assert!(absent.text().contains("No such file or directory"));
        let stranger = dewar.request("COPY", "/bucket/new").header("source", here);
        let stranger = stranger.basic("KEY-stranger", "secret of stranger");
        let stranger = stranger.header("credential", "none");
        stranger.send().await.is(403);
        let nowhere = dewar.owner("COPY", "/bucket/no/dir/x");
        let nowhere = nowhere.header("source", here).header("credential", "none");
        let line = last_line(nowhere.send().await);
        assert!(line.contains("No such file or directory"), "{line}");
    });
}

#[test]
fn a_scitag_has_three_names() {
    talk_to_peers(async {
        let dewar = fixture_with_copies(limits()).await;
        let registry = Arc::clone(dewar.registry.as_ref().expect("copies"));
        let peer = Peer::start(PeerFile::Hangs).await;
        let tag_of = async |path: &str, headers: &[(&str, &str)]| {
            let mut request = pull(&dewar, path, &peer.url("/x"));
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let answer = request.open().await;
            let tag = registry.list()[0].description.scitag;
            drop(answer);
            until(|| registry.list().is_empty()).await;
            tag
        };
        let path = "/bucket/new?scitag.flow=131";
        let [own, forwarded] = [("scitag", "129"), ("transferheaderscitag", "130")];
        assert_eq!(tag_of(path, &[own, forwarded]).await, Some(129));
        assert_eq!(tag_of(path, &[forwarded]).await, Some(130));
        assert_eq!(tag_of(path, &[]).await, Some(131));
        assert_eq!(tag_of("/bucket/new?scitag.flow=64", &[]).await, None);
    });
}
