//! Pulls that break and begin again.

use std::sync::Arc;

use dewar_store::api::WriteMode;
use dewar_transfer::{FailureCause, TransferProgress};

use crate::fixture::{Fixture, pull_of};
use crate::peer::{Peer, Step, answer, head, part, text};
use crate::{content, digest_header};

/// An answer that ends, or stalls, after some of its body.
fn cut(content: &[u8], sent: usize, headers: &str, last: Step) -> Vec<Step> {
    let len = content.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n{headers}\r\n");
    let bytes = [head.as_bytes(), &content[..sent]].concat();
    vec![Step::Send(bytes), last]
}

#[tokio::test]
async fn a_cut_at_the_end_is_resumed_by_the_tag() {
    let fixture = Fixture::new().await;
    let bytes = content(1_000_000, 1);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| match number {
        0 => head(sent.len(), "ETag: \"v1\"\r\n"),
        1 => cut(&sent, 990_000, "ETag: \"v1\"\r\n", Step::Close),
        _ => part(request, &sent, "ETag: \"v1\"\r\n"),
    });
    let peer = peer.await;
    let progress = Arc::new(TransferProgress::new());
    let request = pull_of(&peer.url("/x"));
    let outcome = fixture
        .pull_with(&request, WriteMode::Replace, &progress)
        .await;
    let outcome = outcome.expect("pulled");
    assert_eq!((outcome.attempts, outcome.status), (2, 206));
    assert_eq!(fixture.file().await, Some(bytes));
    let rest = peer.seen().pop().expect("a request");
    assert_eq!(rest.range(), Some((990_000, None)));
    assert_eq!(rest.header("if-range"), Some("\"v1\""));
    // Nothing came twice.
    assert_eq!((progress.moved(), progress.bytes()), (1_000_000, 1_000_000));
    assert_eq!(peer.methods(), ["HEAD", "GET", "GET"]);
}

#[tokio::test]
async fn a_stall_in_the_middle_is_resumed() {
    let fixture = Fixture::new().await.hasty();
    let bytes = content(200_000, 2);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| match number {
        0 => head(sent.len(), "ETag: \"v1\"\r\n"),
        1 => cut(&sent, 100_000, "ETag: \"v1\"\r\n", Step::Hang),
        _ => part(request, &sent, "ETag: \"v1\"\r\n"),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(outcome.attempts, 2);
    assert_eq!(fixture.file().await, Some(bytes));
    assert_eq!(peer.seen()[2].range(), Some((100_000, None)));
}

#[tokio::test]
async fn an_equal_digest_resumes_too() {
    let fixture = Fixture::new().await;
    let bytes = content(200_000, 3);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| {
        let digest = digest_header(&sent);
        match number {
            0 | 2 => head(sent.len(), &digest),
            1 => cut(&sent, 150_000, "", Step::Close),
            _ => part(request, &sent, ""),
        }
    });
    let peer = peer.await;
    fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(fixture.file().await, Some(bytes));
    assert_eq!(peer.methods(), ["HEAD", "GET", "HEAD", "GET"]);
    assert_eq!(peer.seen()[3].range(), Some((150_000, None)));
}

#[tokio::test]
async fn another_digest_begins_from_zero() {
    let fixture = Fixture::new().await;
    let (old, new) = (content(200_000, 4), content(200_000, 5));
    let (before, after) = (old.clone(), new.clone());
    let peer = Peer::new(move |number, _| match number {
        0 => head(before.len(), &digest_header(&before)),
        1 => cut(&before, 150_000, "", Step::Close),
        2 => head(after.len(), &digest_header(&after)),
        _ => answer("200 OK", "", &after),
    });
    let peer = peer.await;
    fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(fixture.file().await, Some(new));
    assert_eq!(peer.seen()[3].range(), None);
}

#[tokio::test]
async fn without_tag_or_digest_it_begins_from_zero() {
    let fixture = Fixture::new().await;
    let bytes = content(200_000, 6);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| match request.method.as_str() {
        "HEAD" => head(sent.len(), "ETag: W/\"v1\"\r\n"),
        _ if number < 4 => cut(&sent, 150_000, "ETag: W/\"v1\"\r\n", Step::Close),
        _ => answer("200 OK", "", &sent),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(outcome.attempts, 3);
    assert_eq!(fixture.file().await, Some(bytes));
    assert!(peer.seen().iter().all(|request| request.range().is_none()));
}

#[tokio::test]
async fn versions_never_mix() {
    let fixture = Fixture::new().await;
    let (old, new) = (content(200_000, 7), content(210_000, 8));
    let (before, after) = (old.clone(), new.clone());
    let peer = Peer::new(move |number, _| match number {
        0 => head(before.len(), "ETag: \"v1\"\r\n"),
        1 => cut(&before, 150_000, "ETag: \"v1\"\r\n", Step::Close),
        // What `If-Range` means: the tag is another one, so everything comes.
        _ => answer("200 OK", "ETag: \"v2\"\r\n", &after),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(outcome.bytes, 210_000);
    assert_eq!(fixture.file().await, Some(new));
    assert_eq!(peer.seen()[2].header("if-range"), Some("\"v1\""));
}

#[tokio::test]
async fn a_wrong_rest_is_not_taken() {
    // A range of another version, another range, another size, and none at all.
    for wrong in [
        "Content-Range: bytes 150000-199999/200000\r\nETag: \"v2\"\r\n",
        "Content-Range: bytes 140000-199999/200000\r\n",
        "Content-Range: bytes 150000-199999/300000\r\n",
        "",
    ] {
        let fixture = Fixture::new().await;
        let bytes = content(200_000, 9);
        let sent = bytes.clone();
        let peer = Peer::new(move |number, _| match number {
            0 => head(sent.len(), "ETag: \"v1\"\r\n"),
            1 => cut(&sent, 150_000, "ETag: \"v1\"\r\n", Step::Close),
            2 => answer("206 Partial Content", wrong, &[0; 50_000]),
            3 => head(sent.len(), "ETag: \"v3\"\r\n"),
            _ => answer("200 OK", "ETag: \"v3\"\r\n", &sent),
        });
        let peer = peer.await;
        let outcome = fixture
            .pull(&pull_of(&peer.url("/x")))
            .await
            .expect("pulled");
        assert_eq!(outcome.attempts, 3, "{wrong}");
        assert_eq!(fixture.file().await, Some(bytes), "{wrong}");
        assert_eq!(peer.seen()[4].range(), None);
    }
}

#[tokio::test]
async fn a_file_that_always_breaks_is_given_up() {
    let fixture = Fixture::new().await;
    let bytes = content(100_000, 10);
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "HEAD" => head(bytes.len(), ""),
        _ => cut(&bytes, 99_000, "", Step::Close),
    });
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("cut");
    assert_eq!(failure.cause(), FailureCause::Truncated);
    assert!(failure.text().contains("4 attempts"), "{failure}");
    assert!(
        failure.text().contains("end-of-file was reached"),
        "{failure}"
    );
    assert_eq!(fixture.file().await, None);
}

#[tokio::test]
async fn a_busy_source_is_asked_again() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|number, request| match (number, request.method.as_str()) {
        (0, _) => answer("503 Service Unavailable", "Retry-After: 0\r\n", b""),
        (_, "HEAD") => head(3, ""),
        (2, _) => vec![Step::Close],
        _ => answer("200 OK", "", b"abc"),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    // The connection of the HEAD was closed in answer to the GET, which is asked again at once.
    assert_eq!(outcome.attempts, 2);
    assert_eq!(peer.methods(), ["HEAD", "HEAD", "GET", "GET"]);
}

#[tokio::test]
async fn several_connections_resume_behind_what_came() {
    let fixture = Fixture::new().await;
    let bytes = content(33 << 20, 11);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| {
        let headers = "ETag: \"v1\"\r\n";
        match request.method.as_str() {
            "HEAD" => head(sent.len(), headers),
            _ if number == 4 => {
                let (first, last) = request.range().expect("a range");
                let (last, size) = (last.expect("an end"), sent.len());
                let range = format!("Content-Range: bytes {first}-{last}/{size}");
                let len = last + 1 - first;
                let head = format!(
                    "HTTP/1.1 206 Partial\r\nContent-Length: {len}\r\n{range}\r\n{headers}\r\n"
                );
                vec![text(head), text("some bytes"), Step::Close]
            }
            _ => part(request, &sent, headers),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 2;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.attempts, outcome.status), (2, 206));
    assert_eq!(fixture.file().await, Some(bytes));
    // The first block is not asked for again.
    let firsts = peer.seen().into_iter().filter_map(|one| one.range());
    assert_eq!(firsts.filter(|(first, _)| *first == 0).count(), 1);
}

#[tokio::test]
async fn without_its_tag_a_rest_is_not_taken() {
    let fixture = Fixture::new().await;
    let bytes = content(200_000, 20);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| match number {
        0 => head(sent.len(), "ETag: \"v1\"\r\n"),
        1 => cut(&sent, 100_000, "ETag: \"v1\"\r\n", Step::Close),
        // Perhaps of another version.
        2 => part(request, &sent, ""),
        3 => head(sent.len(), "ETag: \"v1\"\r\n"),
        _ => answer("200 OK", "ETag: \"v1\"\r\n", &sent),
    });
    let peer = peer.await;
    let pulled = fixture.pull(&pull_of(&peer.url("/x"))).await;
    assert_eq!(pulled.expect("pulled").attempts, 3);
    assert_eq!(fixture.file().await, Some(bytes));
    assert_eq!(peer.methods(), ["HEAD", "GET", "GET", "HEAD", "GET"]);
}
