//! Answers as servers give them, good and bad, from a scripted listener.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use super::*;

/// Answers each request (a head without body) on one connection with the next of `answers`, in
/// pieces of `piece` bytes.
fn scripted(answers: Vec<Vec<u8>>, piece: usize) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        for answer in answers {
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if socket.read(&mut byte).unwrap() == 0 {
                    return;
                }
                seen.push(byte[0]);
            }
            for piece in answer.chunks(piece) {
                if socket.write_all(piece).is_err() {
                    return;
                }
            }
        }
    });
    let endpoint = format!("http://{address}").parse().unwrap();
    Connection::new(Arc::new(Transport {
        endpoint,
        addresses: vec![address],
        tls: None,
    }))
}

fn ask(connection: &mut Connection, sink: &mut Sink<'_>) -> Result<ResponseHead, HttpError> {
    let deadline = Deadline::after(Duration::from_secs(5));
    connection.open(deadline)?;
    connection.send(
        &mut [std::io::IoSlice::new(b"GET / HTTP/1.1\r\n\r\n")],
        deadline,
    )?;
    connection.finish_request(deadline)?;
    connection.receive(false, sink, deadline)
}

fn collected(answer: &[u8], piece: usize) -> Result<(ResponseHead, Vec<u8>), HttpError> {
    let mut body = Vec::new();
    let mut connection = scripted(vec![answer.to_vec()], piece);
    let answer = ask(&mut connection, &mut Sink::Collect(&mut body))?;
    Ok((answer, body))
}

#[test]
fn all_framings_in_all_pieces() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3;x=y\r\nabc\r\n0010\r\n0123456789abcdef\r\n0\r\nTrailer: t\r\n\r\n";
    let length = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nETag: \"e\"\r\n\
                   Content-Length: 19\r\n\r\nabc0123456789abcdef";
    let until_close = b"HTTP/1.0 200 OK\r\n\r\nabc0123456789abcdef";
    for piece in [1, 7, 1_000] {
        for answer in [&chunked[..], length, until_close] {
            let (answer, body) = collected(answer, piece).unwrap();
            assert_eq!((answer.status, answer.body_bytes), (200, 19));
            assert_eq!(body, b"abc0123456789abcdef");
        }
    }
    assert_eq!(
        collected(length, 5).unwrap().0.etag.as_deref(),
        Some("\"e\"")
    );
}

#[test]
fn large_bodies_are_dropped_to_the_byte() {
    for size in [0_usize, 1, 20_000, 3_000_000] {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + size, b'x');
        let second = b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy".to_vec();
        let mut connection = scripted(vec![answer, second], 100_000);
        assert_eq!(
            ask(&mut connection, &mut Sink::Discard).unwrap().body_bytes,
            size as u64
        );
        assert!(connection.is_reused());
        // Nothing of the first answer is left in front of the second.
        let second = ask(&mut connection, &mut Sink::Discard).unwrap();
        assert_eq!((second.status, &second.error_body[..]), (503, &b"busy"[..]));
        assert_eq!(connection.opened(), 1);
    }
}

#[test]
fn comparing_tells_the_first_wrong_byte() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef".to_vec();
    let compare = |expected: &'static [u8; 9], offset| {
        let body = Whole(expected);
        let mut connection = scripted(vec![answer.clone()], 50);
        ask(&mut connection, &mut Sink::Compare(&body, offset))
    };
    assert_eq!(compare(b"xyzabcdef", 3).unwrap().body_bytes, 6);
    assert!(matches!(
        compare(b"xyzabcxef", 3),
        Err(HttpError::Content { offset: 6 })
    ));
    assert!(matches!(
        compare(b"xxxxabcde", 4),
        Err(HttpError::Content { offset: 9 })
    ));
}

/// Bytes that come in pieces of two.
struct Whole(&'static [u8; 9]);

impl Bytes for Whole {
    fn len(&self) -> u64 {
        9
    }

    fn at(&self, offset: u64) -> &[u8] {
        let rest = self
            .0
            .get(usize::try_from(offset).unwrap()..)
            .unwrap_or_default();
        &rest[..rest.len().min(2)]
    }
}

#[test]
fn what_is_not_http_is_refused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
    ] {
        let error = collected(answer.as_bytes(), 1_000).unwrap_err();
        assert!(
            matches!(error, HttpError::Malformed { .. }),
            "{answer:?}: {error}"
        );
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(40_000));
    assert!(matches!(
        collected(endless.as_bytes(), 1_000),
        Err(HttpError::Malformed { .. })
    ));
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
    let error = collected(cut, 1_000).unwrap_err();
    assert!(
        matches!(
            error,
            HttpError::Closed {
                during: ErrorPhase::Receive
            }
        ),
        "{error}"
    );
    assert!(!error.is_unanswered());
    assert!(collected(b"", 1).unwrap_err().is_unanswered());
}

#[test]
fn a_trickle_meets_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            .unwrap();
        while socket.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let endpoint = format!("http://{address}").parse().unwrap();
    let transport = Transport {
        endpoint,
        addresses: vec![address],
        tls: None,
    };
    let mut connection = Connection::new(Arc::new(transport));
    let deadline = Deadline::after(Duration::from_millis(300));
    connection.open(deadline).unwrap();
    let error = connection
        .receive(false, &mut Sink::Discard, deadline)
        .unwrap_err();
    assert!(
        matches!(
            error,
            HttpError::Deadline {
                during: ErrorPhase::Receive,
                ..
            }
        ),
        "{error}"
    );
    assert!(deadline.left().is_zero());
}

#[test]
fn endpoints_are_read() {
    for (text, shown, authority) in [
        (
            "http://127.0.0.1:9000",
            "http://127.0.0.1:9000",
            "127.0.0.1:9000",
        ),
        (
            "https://s3.example.org/",
            "https://s3.example.org",
            "s3.example.org",
        ),
        (
            "http://s3.example.org:80",
            "http://s3.example.org",
            "s3.example.org",
        ),
        ("http://[::1]:9000", "http://[::1]:9000", "[::1]:9000"),
        ("https://h:80", "https://h:80", "h:80"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(
            (endpoint.to_string().as_str(), endpoint.authority().as_str()),
            (shown, authority)
        );
    }
    for text in [
        "",
        "127.0.0.1:9000",
        "ftp://h",
        "http://",
        "http://h:x",
        "http://h/p",
        "http://a@h",
        "http://[::1",
    ] {
        assert!(text.parse::<Endpoint>().is_err(), "{text}");
    }
}
