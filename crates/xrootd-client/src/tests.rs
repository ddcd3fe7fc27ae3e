//! A server that says what a test wants it to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dewar_xrootd_proto::page::{crc32c, wrap_pages};
use dewar_xrootd_proto::reply::{LoginReply, OpenReply, ProtocolReply, ResponseType};
use dewar_xrootd_proto::request::Open;
use dewar_xrootd_proto::{
    FileHandle, Handshake, HandshakeReply, PageStatus, Reply, Request, RequestCode, RequestHeader,
    SessionId, Status, StreamId, VERSION_PAGES,
};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};

use crate::connect::HandshakeResult;
use crate::{Client, Connection, Endpoint, Error, File, Options, Resolver, Result};

/// One client as the server sees it.
struct Peer<S = TcpStream> {
    socket: S,
}

impl Peer {
    async fn accept(listener: &TcpListener) -> Self {
        let (socket, _) = listener.accept().await.expect("a client");
        let mut peer = Self { socket };
        let mut hello = [0; Handshake::LEN];
        peer.socket.read_exact(&mut hello).await.expect("a hello");
        assert_eq!(hello, Handshake::BYTES);
        let reply = HandshakeReply::default().encode();
        peer.socket.write_all(&reply).await.expect("sent");
        let (stream, request) = peer.next().await;
        assert!(matches!(request, Request::Protocol(_)));
        let reply = ProtocolReply {
            version: VERSION_PAGES,
            flags: 0x0030_0001,
            ..ProtocolReply::default()
        };
        peer.say(stream, &Reply::Ok(reply.encode())).await;
        let (stream, request) = peer.next().await;
        assert!(matches!(request, Request::Login(_)));
        let reply = LoginReply {
            session: SessionId([7; 16]),
            security: String::new(),
        };
        peer.say(stream, &Reply::Ok(reply.encode())).await;
        peer
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    async fn next(&mut self) -> (StreamId, Request) {
        let mut header = [0; RequestHeader::LEN];
        self.socket
            .read_exact(&mut header)
            .await
            .expect("a request");
        let header = RequestHeader::decode(&header).expect("a request");
        let mut arguments = vec![0; header.arguments_len().expect("known")];
        self.socket
            .read_exact(&mut arguments)
            .await
            .expect("arguments");
        let request = Request::decode(&header, arguments.into()).expect("a request");
        (header.stream, request)
    }

    async fn say(&mut self, stream: StreamId, reply: &Reply) {
        let mut wire = BytesMut::new();
        reply.encode(stream, &mut wire);
        self.socket.write_all(&wire).await.expect("sent");
    }

    /// Answers an `open`.
    async fn opens(&mut self) {
        let (stream, request) = self.next().await;
        assert!(matches!(request, Request::Open(_)), "{request:?}");
        let reply = OpenReply {
            handle: FileHandle::new(1),
            stat: Some("0 9000 48 1".to_owned()),
        };
        self.say(stream, &Reply::Ok(reply.encode())).await;
    }
}

fn options() -> Options {
    Options {
        connect_time: Duration::from_secs(5),
        request_time: Duration::from_millis(400),
        wait_time: Duration::from_secs(5),
        stall_time: Duration::from_millis(400),
        requests_max: 4,
        redirects_max: 4,
    }
}

fn client() -> Client {
    Client {
        options: options(),
        ..Client::default()
    }
}

async fn place() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let place = Endpoint {
        host: "127.0.0.1".to_owned(),
        port,
        secure: false,
    };
    (listener, place)
}

async fn pair() -> (Peer, Connection) {
    let (listener, place) = place().await;
    let client = client();
    let (peer, connection) = tokio::join!(Peer::accept(&listener), client.connect(&place));
    (peer, connection.expect("connected"))
}

async fn opened() -> (Peer, Arc<File>) {
    let (mut peer, connection) = pair().await;
    let open = Open {
        path: "/x".to_owned(),
        ..Open::default()
    };
    let ((), file) = tokio::join!(peer.opens(), File::open(&connection, &open));
    (peer, Arc::new(file.expect("opened")))
}

/// A session that has begun, in memory, so that time can be what a test wants it to be.
async fn in_memory(options: Options) -> (Peer<DuplexStream>, File) {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let begun = HandshakeResult {
        stream: Box::new(ours),
        secure: false,
        local: true,
        flags: 0,
        version: VERSION_PAGES,
        session: SessionId([7; 16]),
        address: SocketAddr::from(([127, 0, 0, 1], 1094)),
    };
    let place = Endpoint::parse("localhost", false).expect("a place");
    let connection = Connection::start(begun, place, options);
    let mut peer = Peer { socket: theirs };
    let open = Open {
        path: "/x".to_owned(),
        ..Open::default()
    };
    let ((), file) = tokio::join!(peer.opens(), File::open(&connection, &open));
    (peer, file.expect("opened"))
}

/// The beginning of a reply with `len` bytes.
fn head(stream: StreamId, status: u16, len: u32) -> Vec<u8> {
    [&stream.0[..], &status.to_be_bytes(), &len.to_be_bytes()].concat()
}

const OK_SO_FAR: u16 = 4000;

fn pages(stream: StreamId, offset: u64, data: &[u8], last: bool) -> Vec<u8> {
    let data = Bytes::copy_from_slice(data);
    let body = wrap_pages(offset, &[data], |_, page| crc32c(page)).concat();
    let status = PageStatus {
        request: RequestCode::Pgread,
        progress: match last {
            true => ResponseType::Final,
            false => ResponseType::Partial,
        },
        offset,
        data_len: body.len() as u32,
    };
    let mut wire = BytesMut::new();
    status.encode(stream, &mut wire);
    wire.extend_from_slice(&body);
    wire.to_vec()
}

#[tokio::test]
async fn replies_come_in_any_order_and_in_parts() {
    let (mut peer, file) = opened().await;
    assert_eq!(file.opened().expect("told").size, 9000);
    let asking = async { tokio::join!(file.read(0, 10), file.read_pages(4090, 10), file.stat()) };
    let answering = async {
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(peer.next().await);
        }
        asked.swap(0, 1);
        for (stream, request) in asked {
            match request {
                Request::Read(_) => {
                    let part = |text| Reply::OkSoFar(Bytes::from_static(text));
                    peer.say(stream, &part(b"01234")).await;
                    peer.say(stream, &Reply::Ok(Bytes::from_static(b"567")))
                        .await;
                }
                Request::Pgread(_) => {
                    let mut wire = pages(stream, 4090, b"abcdef", false);
                    wire.extend(pages(stream, 4096, b"gh", true));
                    peer.socket.write_all(&wire).await.expect("sent");
                }
                _ => {
                    // It is told later, past a message that nobody asked for.
                    peer.say(stream, &Reply::WaitResp { seconds: 3 }).await;
                    peer.say(stream, &Reply::Message(Bytes::from_static(b"hello")))
                        .await;
                    tokio::time::sleep(Duration::from_millis(600)).await;
                    let late = Reply::Later {
                        stream,
                        status: Status::Ok,
                        body: Bytes::from_static(b"1 77 48 1\0"),
                    };
                    peer.say(stream, &late).await;
                }
            }
        }
    };
    let ((read, paged, stat), ()) = tokio::join!(asking, answering);
    assert_eq!(read.expect("read").concat(), b"01234567");
    assert_eq!(paged.expect("read").concat(), b"abcdefgh");
    assert_eq!(stat.expect("told").size, 77);
}

#[tokio::test]
async fn more_than_was_asked_for_ends_the_connection() {
    for bad in ["long", "unasked", "nonsense", "header"] {
        let (mut peer, file) = opened().await;
        let asking = file.read(0, 10);
        let answering = async {
            let (stream, _) = peer.next().await;
            match bad {
                "long" => peer.say(stream, &Reply::Ok(Bytes::from(vec![0; 11]))).await,
                "unasked" => peer.say(StreamId([9, 9]), &Reply::Ok(Bytes::new())).await,
                // The length says 2 GiB.
                "header" => {
                    let mut wire = stream.0.to_vec();
                    wire.extend([0, 0, 0x7f, 0xff, 0xff, 0xff]);
                    peer.socket.write_all(&wire).await.expect("sent");
                }
                _ => peer.socket.write_all(&[0xff; 64]).await.expect("sent"),
            }
        };
        let (read, ()) = tokio::join!(asking, answering);
        assert!(matches!(read, Err(Error::Closed(_))), "{bad}: {read:?}");
        assert!(file.connection().is_over());
        assert!(matches!(file.stat().await, Err(Error::Closed(_))));
    }
}

#[tokio::test]
async fn a_damaged_page_is_never_handed_on() {
    let (mut peer, file) = opened().await;
    let asking = file.read_pages(0, 5000);
    let answering = async {
        let (stream, _) = peer.next().await;
        let mut wire = pages(stream, 0, &[5; 5000], true);
        let last = wire.len() - 1;
        wire[last] ^= 1;
        peer.socket.write_all(&wire).await.expect("sent");
    };
    let (read, ()) = tokio::join!(asking, answering);
    assert!(matches!(read, Err(Error::Protocol(_))), "{read:?}");
}

#[tokio::test]
async fn silence_ends_the_connection_in_time() {
    let (mut peer, file) = opened().await;
    let (read, _) = tokio::join!(file.read(0, 10), peer.next());
    assert!(matches!(read, Err(Error::Timeout { .. })), "{read:?}");
    // Half an answer is no answer.
    let (mut peer, file) = opened().await;
    let answering = async {
        let (stream, _) = peer.next().await;
        let mut wire = stream.0.to_vec();
        wire.extend([0, 0, 0, 0, 0, 10, 1, 2]);
        peer.socket.write_all(&wire).await.expect("sent");
    };
    let (read, ()) = tokio::join!(file.read(0, 10), answering);
    assert!(read.is_err(), "{read:?}");
    // And who never says a word is not waited for either.
    let (listener, place) = place().await;
    let client = Client {
        options: Options {
            connect_time: Duration::from_millis(300),
            ..options()
        },
        ..Client::default()
    };
    let outcome = client.connect(&place).await;
    assert!(matches!(outcome, Err(Error::Timeout { .. })));
    drop(listener);
}

#[tokio::test]
async fn an_id_is_not_used_again_before_its_reply() {
    let (mut peer, file) = opened().await;
    // As many as may be under way are given up by who asked.
    let mut given_up = Vec::new();
    for _ in 0..options().requests_max {
        let asking = tokio::time::timeout(Duration::from_millis(30), file.read(0, 4));
        let (outcome, (stream, _)) = tokio::join!(asking, peer.next());
        assert!(outcome.is_err());
        given_up.push(stream);
    }
    let asking = tokio::time::timeout(Duration::from_millis(100), file.read(0, 4));
    assert!(asking.await.is_err(), "no more fit in");
    // One is answered late, and makes room for another.
    let late = given_up[0];
    peer.say(late, &Reply::Ok(Bytes::from_static(b"late")))
        .await;
    let answering = async {
        let (stream, _) = peer.next().await;
        assert!(!given_up[1..].contains(&stream));
        peer.say(stream, &Reply::Ok(Bytes::from_static(b"next")))
            .await;
    };
    let (read, ()) = tokio::join!(file.read(0, 4), answering);
    assert_eq!(read.expect("read").concat(), b"next");
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_is_waited_for_and_a_silent_one_is_not() {
    const LEN: u32 = 1 << 20;
    let begun = Instant::now();
    let (mut peer, file) = in_memory(Options::default()).await;
    let before = file.connection().received();
    let asking = join_all((0..8).map(|number| file.read(number * u64::from(LEN), LEN)));
    let answering = async {
        let mut asked = Vec::new();
        for _ in 0..8 {
            asked.push(peer.next().await.0);
        }
        // 100 KiB a second: the last one has to wait for the others.
        for stream in asked {
            let wire = [head(stream, 0, LEN), vec![5; LEN as usize]].concat();
            for piece in wire.chunks(10 << 10) {
                sleep(Duration::from_millis(100)).await;
                peer.socket.write_all(piece).await.expect("sent");
            }
        }
    };
    let (read, ()) = tokio::join!(asking, answering);
    for read in read {
        assert_eq!(read.expect("read").concat().len(), LEN as usize);
    }
    assert!(begun.elapsed() > Options::default().request_time);
    assert_eq!(
        file.connection().received() - before,
        8 * u64::from(LEN),
        "and nothing but data is counted"
    );
    // Half of a reply counts too, and what was the last word is known.
    let begun = Instant::now();
    let asking = join_all((0..2).map(|number| file.read(number * u64::from(LEN), LEN)));
    let answering = async {
        let (first, _) = peer.next().await;
        peer.next().await;
        sleep(Duration::from_secs(50)).await;
        let wire = [head(first, OK_SO_FAR, 1000), vec![5; 1000]].concat();
        peer.socket.write_all(&wire).await.expect("sent");
    };
    let (read, ()) = tokio::join!(asking, answering);
    for read in read {
        assert!(read.is_err(), "{read:?}");
    }
    assert_eq!(begun.elapsed().as_secs(), 110);
    assert_eq!(
        file.connection().received() - before,
        8 * u64::from(LEN) + 1000
    );
    assert!(file.connection().is_over());
}

#[tokio::test(start_paused = true)]
async fn who_answers_nothing_is_not_asked_for_ever() {
    let (mut peer, file) = in_memory(options()).await;
    for _ in 0..options().requests_max {
        let asking = tokio::time::timeout(Duration::from_millis(10), file.read(0, 4));
        let (given_up, _) = tokio::join!(asking, peer.next());
        assert!(given_up.is_err());
    }
    // Nobody waits for those any more, but their places are taken.
    let begun = Instant::now();
    let outcome = tokio::time::timeout(Duration::from_secs(3600), file.read(0, 4)).await;
    let outcome = outcome.expect("a deadline");
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
    assert_eq!(begun.elapsed(), options().wait_time);
    assert!(file.connection().is_over());
}

#[tokio::test]
async fn a_reply_may_not_come_in_crumbs() {
    let (mut peer, file) = opened().await;
    let asking = file.read(0, 8000);
    let answering = async {
        let (stream, _) = peer.next().await;
        let crumb = [head(stream, OK_SO_FAR, 1), vec![5]].concat();
        let mut wire = crumb.repeat(100);
        wire.extend([head(stream, 0, 1), vec![5]].concat());
        peer.socket.write_all(&wire).await.expect("sent");
    };
    let (read, ()) = tokio::join!(asking, answering);
    assert!(matches!(read, Err(Error::Closed(_))), "{read:?}");
    // Twenty of them are none.
    let (mut peer, file) = opened().await;
    let asking = file.read(0, 8000);
    let answering = async {
        let (stream, _) = peer.next().await;
        for _ in 0..20 {
            let crumb = [head(stream, OK_SO_FAR, 1), vec![5]].concat();
            peer.socket.write_all(&crumb).await.expect("sent");
            sleep(Duration::from_millis(2)).await;
        }
        let last = [head(stream, 0, 1), vec![6]].concat();
        peer.socket.write_all(&last).await.expect("sent");
    };
    let (read, ()) = tokio::join!(asking, answering);
    let read = read.expect("read");
    assert_eq!(read.len(), 21);
    // What was read ahead is not kept for the sake of one byte.
    assert!(read.iter().all(Bytes::is_unique));
}

#[tokio::test]
async fn told_to_wait_again_and_again_it_still_hears_the_end() {
    for (times, heard) in [(7, true), (8, false)] {
        let (mut peer, file) = opened().await;
        let mut asking = Box::pin(file.read(0, 4));
        assert!(asking.as_mut().now_or_never().is_none());
        let (stream, _) = peer.next().await;
        // It has other things to do than to take note of all that.
        let mut wire = BytesMut::new();
        for _ in 0..times {
            Reply::WaitResp { seconds: 1 }.encode(stream, &mut wire);
        }
        Reply::Ok(Bytes::from_static(b"here")).encode(stream, &mut wire);
        peer.socket.write_all(&wire).await.expect("sent");
        sleep(Duration::from_millis(100)).await;
        let read = asking.await;
        assert_eq!(read.is_ok(), heard, "{times}: {read:?}");
        assert_eq!(file.connection().is_over(), !heard);
    }
}

/// Says that a name has these addresses.
struct Fixed(Vec<SocketAddr>);

impl Resolver for Fixed {
    fn resolve<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, Result<Vec<SocketAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[tokio::test]
async fn an_address_at_which_nobody_answers_hides_no_other() {
    // Who comes when the queue is full hears nothing.
    let dead = TcpSocket::new_v4().expect("a socket");
    dead.bind(SocketAddr::from(([127, 0, 0, 1], 0)))
        .expect("bound");
    let dead = dead.listen(1).expect("listening");
    let nobody = dead.local_addr().expect("bound");
    let mut queue = Vec::new();
    let wait = Duration::from_millis(200);
    while let Ok(next) = tokio::time::timeout(wait, TcpStream::connect(nobody)).await {
        queue.push(next.expect("in the queue"));
    }
    let (listener, place) = place().await;
    let alive = listener.local_addr().expect("bound");
    let client = Client {
        resolver: Arc::new(Fixed(vec![nobody, alive])),
        options: Options {
            connect_time: Duration::from_secs(2),
            ..options()
        },
        ..Client::default()
    };
    let both = async { tokio::join!(client.connect(&place), Peer::accept(&listener)) };
    let (connected, _peer) = tokio::time::timeout(Duration::from_secs(4), both)
        .await
        .expect("the other address is asked");
    connected.expect("connected");
}

#[tokio::test]
async fn who_is_sent_around_in_circles_stops() {
    let (listener, place) = place().await;
    let port = i32::from(place.port);
    let open = Open {
        path: "/x".to_owned(),
        ..Open::default()
    };
    let client = client();
    // The same place and path again.
    let sending = async {
        let mut peer = Peer::accept(&listener).await;
        let (stream, _) = peer.next().await;
        let host = "127.0.0.1".to_owned();
        peer.say(stream, &Reply::Redirect { port, host }).await;
    };
    let (outcome, ()) = tokio::join!(client.open(&place, &open), sending);
    assert!(
        matches!(outcome, Err(Error::Redirects(_))),
        "{:?}",
        outcome.err()
    );
    // Another path each time: the number counts.
    let sending = async {
        for number in 0..options().redirects_max {
            let mut peer = Peer::accept(&listener).await;
            let (stream, _) = peer.next().await;
            let host = format!("127.0.0.1?n={number}");
            peer.say(stream, &Reply::Redirect { port, host }).await;
        }
    };
    let (outcome, ()) = tokio::join!(client.open(&place, &open), sending);
    assert!(
        matches!(outcome, Err(Error::Redirects(_))),
        "{:?}",
        outcome.err()
    );
    // One that leads somewhere.
    let sending = async {
        let mut peer = Peer::accept(&listener).await;
        let (stream, _) = peer.next().await;
        let host = "127.0.0.1?tried=a".to_owned();
        peer.say(stream, &Reply::Redirect { port, host }).await;
        Peer::accept(&listener).await.opens().await;
    };
    let (outcome, ()) = tokio::join!(client.open(&place, &open), sending);
    assert_eq!(
        outcome.map(|file| file.path().to_owned()).expect("opened"),
        "/x?tried=a"
    );
}

#[tokio::test]
async fn who_is_told_to_wait_asks_again_but_not_for_ever() {
    let (mut peer, file) = opened().await;
    let answering = async {
        let (stream, first) = peer.next().await;
        let message = "busy".to_owned();
        peer.say(
            stream,
            &Reply::Wait {
                seconds: 1,
                message,
            },
        )
        .await;
        let (stream, second) = peer.next().await;
        assert_eq!(first, second);
        peer.say(stream, &Reply::Ok(Bytes::from_static(b"1 5 48 1")))
            .await;
        let (stream, _) = peer.next().await;
        let message = "very busy".to_owned();
        peer.say(
            stream,
            &Reply::Wait {
                seconds: 3600,
                message,
            },
        )
        .await;
    };
    let asking = async { (file.stat().await, file.stat().await) };
    let ((stat, never), ()) = tokio::join!(asking, answering);
    assert_eq!(stat.expect("told").size, 5);
    assert!(matches!(never, Err(Error::Timeout { .. })), "{never:?}");
}
