//! Bytes on a connection, with hyper between them and the door as in the server.

use std::convert::Infallible;

use dewar_auth::Origin;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::client::TestClient;
use crate::fixture::{fixture, talk};

/// A connection to the door.
fn connect(client: &TestClient) -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let door = client.door();
    let service = service_fn(move |request: Request<Incoming>| {
        let door = door.clone();
        async move {
            let request = request.map(|body| body.map_err(Into::into).boxed());
            let origin = Origin {
                address: None,
                secure: false,
            };
            Ok::<_, Infallible>(door.handle(request, origin).await)
        }
    });
    tokio::spawn(async move {
        let connection = hyper::server::conn::http1::Builder::new();
        // A connection that breaks off is what some of these tests are about.
        let _ended = connection
            .serve_connection(TokioIo::new(far), service)
            .await;
    });
    near
}

/// The head of a signed request as it goes over the wire.
fn head(request: &Request<Vec<u8>>) -> String {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
    }
    text + "\r\n"
}

/// Reads until an answer's head is whole.
async fn answer(stream: &mut DuplexStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let read = stream.read(&mut byte).await.expect("a connection");
        assert_eq!(read, 1, "closed after {:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

/// Reads the body that an answer's head announces.
async fn body(stream: &mut DuplexStream, head: &str) -> Vec<u8> {
    let lower = head.to_lowercase();
    let (_, rest) = lower.split_once("content-length: ").expect("a length");
    let length = rest.split("\r\n").next().expect("a line");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).await.expect("a body");
    body
}

#[test]
fn a_body_is_asked_for_only_when_it_is_wanted() {
    talk(async {
        let fixture = fixture().await;
        let body_text = [b'x'; 10_000];
        for (client, wanted) in [(&fixture.owner, true), (&fixture.stranger, false)] {
            let mut stream = connect(client);
            let call = client.put("/bucket/k").header("expect", "100-continue");
            let (request, _) = call.body(body_text).signed();
            stream
                .write_all(head(&request).as_bytes())
                .await
                .expect("sent");
            let first = answer(&mut stream).await;
            if wanted {
                assert!(first.starts_with("HTTP/1.1 100 "), "{first}");
                stream.write_all(&body_text).await.expect("sent");
                let last = answer(&mut stream).await;
                assert!(last.starts_with("HTTP/1.1 200 "), "{last}");
            } else {
                assert!(first.starts_with("HTTP/1.1 403 "), "{first}");
            }
        }
    });
}

#[test]
fn one_connection_serves_many_requests() {
    talk(async {
        let client = fixture().await.owner;
        client
            .put("/bucket/k")
            .body("twelve bytes")
            .send()
            .await
            .is(200);
        let mut stream = connect(&client);
        let (request, _) = client.head("/bucket/k").signed();
        stream
            .write_all(head(&request).as_bytes())
            .await
            .expect("sent");
        let first = answer(&mut stream).await;
        assert!(
            first.to_lowercase().contains("content-length: 12\r\n"),
            "{first}"
        );
        let (request, _) = client.head("/bucket/none").signed();
        stream
            .write_all(head(&request).as_bytes())
            .await
            .expect("sent");
        let second = answer(&mut stream).await;
        assert!(second.starts_with("HTTP/1.1 404 "), "{second}");

        // A refused body that the client sends all the same does not spoil the connection.
        let text = [b'y'; 100_000];
        let call = client.put("/none/k").body(text);
        let (request, _) = call.signed();
        stream
            .write_all(head(&request).as_bytes())
            .await
            .expect("sent");
        stream.write_all(&text).await.expect("sent");
        let third = answer(&mut stream).await;
        assert!(third.starts_with("HTTP/1.1 404 "), "{third}");
        let told = body(&mut stream, &third).await;
        assert!(String::from_utf8_lossy(&told).contains("NoSuchBucket"));

        let (request, _) = client.get("/bucket/k").signed();
        stream
            .write_all(head(&request).as_bytes())
            .await
            .expect("sent");
        let fourth = answer(&mut stream).await;
        assert_eq!(body(&mut stream, &fourth).await, b"twelve bytes");
    });
}

#[test]
fn an_upload_that_breaks_off_was_never_there() {
    talk(async {
        let client = fixture().await.owner;
        client.put("/bucket/k").body("old").send().await.is(200);
        for sent in [0, 1, 9_999] {
            let mut stream = connect(&client);
            let call = client.put("/bucket/k");
            let call = call.header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
            let (request, _) = call.body([b'z'; 10_000]).signed();
            stream
                .write_all(head(&request).as_bytes())
                .await
                .expect("sent");
            stream
                .write_all(&request.body()[..sent])
                .await
                .expect("sent");
            stream.shutdown().await.expect("closed");
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.expect("closed");
            let rest = String::from_utf8_lossy(&rest);
            assert!(!rest.starts_with("HTTP/1.1 200 "), "{rest}");
            assert_eq!(client.get("/bucket/k").send().await.is(200).body, "old");
        }
    });
}
