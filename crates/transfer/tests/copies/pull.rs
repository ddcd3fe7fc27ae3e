//! Pulls that succeed or fail at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dewar_store::api::WriteMode;
use dewar_transfer::{DigestOrigin, FailureCause, Pace, TransferProgress};
use parking_lot::Mutex;

use crate::fixture::{Fixture, forwarded, pull_of};
use crate::peer::{Peer, Step, answer, head, part, text};
use crate::{adler, content, digest_header, md5};

#[tokio::test]
async fn a_file_comes_with_its_digest_verified() {
    let fixture = Fixture::new().await;
    let bytes = content(3_000_000, 1);
    let (sent, tag) = (bytes.clone(), "ETag: \"v1\"\r\n");
    let peer = Peer::new(move |_, request| {
        let headers = format!("{tag}{}", digest_header(&sent));
        match request.method.as_str() {
            "HEAD" => head(sent.len(), &headers),
            _ => answer("200 OK", &headers, &sent),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/data/a%20b?x=1"));
    request.options.expected = vec![adler(&bytes), md5(&bytes)];
    let progress = Arc::new(TransferProgress::new());
    let outcome = fixture
        .pull_with(&request, WriteMode::Replace, &progress)
        .await;
    let outcome = outcome.expect("pulled");
    assert_eq!(fixture.file().await, Some(bytes.clone()));
    assert_eq!(
        (outcome.bytes, outcome.attempts, outcome.status),
        (3_000_000, 1, 200)
    );
    assert_eq!(outcome.remote, Some(peer.address));
    let written = outcome.written.expect("a version");
    assert_eq!(written.digests.md5(), Some(dewar_checksum::md5(&bytes)));
    let by: Vec<_> = outcome.digests.iter().map(|one| one.named_by).collect();
    assert_eq!(
        by,
        [
            DigestOrigin::Client,
            DigestOrigin::Client,
            DigestOrigin::Remote
        ]
    );
    assert!(outcome.digests.iter().all(|one| one.matches == Some(true)));
    assert_eq!(
        (progress.bytes(), progress.size()),
        (3_000_000, Some(3_000_000))
    );
    assert!(progress.first_byte().is_some());
    assert_eq!(peer.methods(), ["HEAD", "GET"]);
    for request in peer.seen() {
        assert_eq!(request.target, "/data/a%20b?x=1");
        assert_eq!(request.header("authorization"), Some("Bearer SECRET"));
        assert_eq!(request.header("want-digest"), Some("adler32"));
        assert_eq!(
            request.header("host"),
            Some(peer.address.to_string().as_str())
        );
        assert_eq!(request.header("range"), None);
    }
}

#[tokio::test]
async fn a_source_that_says_nothing_about_its_file_will_do() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => answer("405 Method Not Allowed", "", b""),
        _ => vec![text(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        )],
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!((outcome.bytes, outcome.digests.len()), (5, 0));
    assert_eq!(fixture.file().await.as_deref(), Some(&b"abcde"[..]));
}

#[tokio::test]
async fn a_body_that_nothing_ends_is_not_a_file() {
    let fixture = Fixture::new().await.retries(0);
    let close = "HTTP/1.1 200 OK\r\n\r\nabc";
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "HEAD" => vec![text("HTTP/1.1 200 OK\r\n\r\n")],
        _ => vec![text(close), Step::Close],
    });
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("no end");
    assert_eq!(failure.cause(), FailureCause::Protocol);
    assert_eq!(fixture.file().await, None);
    // With a digest, the end can be verified.
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "HEAD" => vec![text(format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            digest_header(b"abc")
        ))],
        _ => vec![text(close), Step::Close],
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(outcome.bytes, 3);
}

#[tokio::test]
async fn an_empty_file_is_a_file() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(0, &digest_header(b"")),
        _ => answer("200 OK", "", b""),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!((outcome.bytes, outcome.digests.len()), (0, 1));
    assert_eq!(fixture.file().await.as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn several_connections_bring_one_file() {
    let mut fixture = Fixture::new().await;
    fixture.config.streams_max = 3;
    let bytes = content((33 << 20) + 77, 2);
    let sent = bytes.clone();
    let peer = Peer::new(move |_, request| {
        let headers = format!("ETag: \"v1\"\r\n{}", digest_header(&sent));
        match request.method.as_str() {
            "HEAD" => head(sent.len(), &headers),
            _ => part(request, &sent, &headers),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 8;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.bytes, outcome.status), (bytes.len() as u64, 206));
    assert_eq!(fixture.file().await, Some(bytes));
    let gets = peer.seen().into_iter().filter(|one| one.method == "GET");
    let ranges: Vec<_> = gets
        .map(|get| {
            assert_eq!(get.header("if-match"), Some("\"v1\""));
            get.range().expect("a range")
        })
        .collect();
    assert!(ranges.len() >= 12, "{ranges:?}");
}

#[tokio::test]
async fn a_source_that_refuses_ranges_is_read_over_one_connection() {
    let fixture = Fixture::new().await;
    let bytes = content(33 << 20, 3);
    let sent = bytes.clone();
    let peer = Peer::new(move |_, request| {
        let headers = format!("ETag: \"v1\"\r\n{}", digest_header(&sent));
        match request.method.as_str() {
            "HEAD" => head(sent.len(), &headers),
            _ => answer("200 OK", &headers, &sent),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 2;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.status, outcome.attempts), (200, 1));
    assert_eq!(fixture.file().await, Some(bytes));
    assert_eq!(peer.seen().last().expect("a request").range(), None);
}

#[tokio::test]
async fn without_tag_or_digest_one_connection_must_do() {
    let fixture = Fixture::new().await;
    let bytes = content(33 << 20, 4);
    let sent = bytes.clone();
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "HEAD" => head(sent.len(), "ETag: W/\"weak\"\r\n"),
        _ => answer("200 OK", "", &sent),
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 4;
    fixture.pull(&request).await.expect("pulled");
    assert_eq!(peer.methods(), ["HEAD", "GET"]);
    assert_eq!(peer.seen()[1].range(), None);
}

#[tokio::test]
async fn content_with_another_digest_is_not_kept() {
    let fixture = Fixture::new().await.retries(1);
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(4, &digest_header(b"good")),
        _ => answer("200 OK", "", b"evil"),
    });
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("damaged");
    assert_eq!(failure.cause(), FailureCause::DigestOnWire);
    assert!(failure.text().contains("2 attempts"), "{failure}");
    assert!(
        !failure.text().contains("checksum do not match"),
        "{failure}"
    );
    assert_eq!(fixture.file().await, None);
    assert_eq!(peer.methods(), ["HEAD", "GET", "HEAD", "GET"]);
    // The digest that comes with the content counts as well.
    let peer = Peer::new(|_, _| answer("200 OK", "Repr-Digest: adler=:AAECAw==:\r\n", b"evil"));
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.no_head = true;
    let failure = fixture.pull(&request).await.expect_err("damaged");
    assert_eq!(failure.cause(), FailureCause::DigestOnWire);
    assert_eq!(peer.methods(), ["GET", "GET"]);
}

#[tokio::test]
async fn content_with_another_digest_than_the_client_named_fails_for_good() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(4, &digest_header(b"evil")),
        _ => answer("200 OK", "", b"evil"),
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    // The source itself says another one: nothing is fetched.
    request.options.expected = vec![adler(b"good")];
    let failure = fixture.pull(&request).await.expect_err("another file");
    assert_eq!(failure.cause(), FailureCause::DigestNamed);
    assert!(
        failure.text().starts_with("checksum do not match"),
        "{failure}"
    );
    assert_eq!(peer.methods(), ["HEAD"]);
    // Only the content shows it.
    request.options.expected = vec![md5(b"good")];
    let failure = fixture.pull(&request).await.expect_err("another file");
    assert_eq!(failure.cause(), FailureCause::DigestNamed);
    assert_eq!(fixture.file().await, None);
    assert_eq!(peer.methods(), ["HEAD", "HEAD", "GET"]);
}

#[tokio::test]
async fn statuses_have_the_words_that_fts_looks_for() {
    for (status, cause, words, attempts) in [
        ("404 Not Found", 404, "No such file or directory", 1),
        ("403 Forbidden", 403, "Permission denied", 1),
        ("401 Unauthorized", 401, "Permission denied", 1),
        ("500 Oops", 500, "refused", 2),
        ("503 Busy", 503, "refused", 2),
        ("418 Teapot", 418, "refused", 1),
    ] {
        let fixture = Fixture::new().await.retries(1);
        let plain = "Content-Type: text/plain\r\n";
        let peer = Peer::new(move |_, request| match request.method.as_str() {
            "HEAD" => head(3, ""),
            _ => answer(
                status,
                plain,
                b"No such file or directory\nBearer SECRET why",
            ),
        });
        let peer = peer.await;
        let failure = fixture.pull(&pull_of(&peer.url("/x?authz=SECRET"))).await;
        let failure = failure.expect_err(status);
        assert_eq!(failure.cause(), FailureCause::RemoteStatus(cause));
        let text = failure.text();
        assert!(text.contains(words) && text.contains("why"), "{text}");
        assert!(!text.contains("SECRET") && !text.contains('\n'), "{text}");
        let lasting = failure.cause().is_lasting();
        assert!(lasting || !text.contains("No such file"), "{text}");
        assert_eq!(lasting, (401..=404).contains(&cause), "{text}");
        let gets = peer
            .methods()
            .iter()
            .filter(|method| *method == "GET")
            .count();
        assert_eq!(gets, attempts, "{status}");
        assert_eq!(fixture.file().await, None);
    }
}

#[tokio::test]
async fn a_missing_file_is_known_by_head() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, _| vec![text("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n")]);
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("missing");
    assert_eq!(failure.cause(), FailureCause::RemoteStatus(404));
    assert_eq!(peer.methods(), ["HEAD"]);
}

#[tokio::test]
async fn an_answer_without_content_is_no_file() {
    for status in ["204 No Content", "202 Accepted", "206 Partial Content"] {
        let fixture = Fixture::new().await;
        let peer = Peer::new(move |_, request| match request.method.as_str() {
            "HEAD" => head(0, ""),
            _ => answer(status, "", b""),
        });
        let peer = peer.await;
        let failure = fixture
            .pull(&pull_of(&peer.url("/x")))
            .await
            .expect_err(status);
        assert!(
            matches!(failure.cause(), FailureCause::RemoteStatus(_)),
            "{failure}"
        );
        assert_eq!(fixture.file().await, None);
    }
}

#[tokio::test]
async fn a_presigned_source_gets_one_get_as_it_was_signed() {
    let fixture = Fixture::new().await.retries(0);
    let good = format!("ETag: \"{}\"\r\n", md5(b"abc").hex());
    let peer = Peer::new(move |number, _| match number {
        0 => answer("200 OK", &good, b"abc"),
        1 => answer("200 OK", &good, b"abd"),
        _ => answer("200 OK", "x-amz-checksum-crc32: AAAAAA==\r\n", b"abc"),
    });
    let peer = peer.await;
    let query = "/b/k?X-Amz-SignedHeaders=host&X-Amz-Signature=SECRET";
    let request = pull_of(&peer.url(query));
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!(outcome.digests.len(), 1);
    let seen = peer.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", query));
    for absent in ["authorization", "want-digest", "want-repr-digest", "range"] {
        assert_eq!(seen.header(absent), None, "{absent}");
    }
    for _ in 0..2 {
        let failure = fixture.pull(&request).await.expect_err("damaged");
        assert_eq!(failure.cause(), FailureCause::DigestOnWire);
        assert!(!failure.text().contains("SECRET"), "{failure}");
    }
    assert_eq!(peer.methods(), ["GET", "GET", "GET"]);
}

#[tokio::test]
async fn what_the_store_refuses_is_not_fetched() {
    let fixture = Fixture::new().await;
    fixture.put("file", &content(10, 5)).await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(3, ""),
        _ => answer("200 OK", "", b"abc"),
    });
    let peer = peer.await;
    let (request, progress) = (pull_of(&peer.url("/x")), Arc::new(TransferProgress::new()));
    let failure = fixture.pull_with(&request, WriteMode::New, &progress).await;
    let failure = failure.expect_err("it exists");
    assert_eq!(failure.cause(), FailureCause::LocalExists);
    assert!(failure.text().starts_with("File exists"), "{failure}");
    assert_eq!((progress.bytes(), progress.attempts()), (0, 1));
    assert_eq!(fixture.file().await, Some(content(10, 5)));
}

#[tokio::test]
async fn a_source_that_stalls_is_given_up() {
    let hang = |number: usize| match number {
        // Before the answer, before the first byte, after it.
        0 => vec![Step::Hang],
        1 => vec![
            text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
            Step::Hang,
        ],
        _ => vec![
            text("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
            Step::Hang,
        ],
    };
    let peer = Peer::new(move |number, _| hang(number)).await;
    let fixture = Fixture::new().await.hasty().retries(0);
    let mut request = pull_of(&peer.url("/x"));
    request.options.no_head = true;
    for _ in 0..3 {
        let failure = fixture.pull(&request).await.expect_err("it stalls");
        assert_eq!(failure.cause(), FailureCause::Stall);
        assert!(failure.text().contains("operation timeout"), "{failure}");
        assert_eq!(fixture.file().await, None);
    }
}

#[tokio::test]
async fn informational_answers_for_ever_are_no_answer() {
    let fixture = Fixture::new().await.hasty().retries(0);
    let peer = Peer::new(|_, _| vec![Step::Repeat("HTTP/1.1 102 Processing\r\n\r\n")]);
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("no answer");
    assert_eq!(failure.cause(), FailureCause::Stall);
}

#[tokio::test]
async fn a_source_that_drips_is_given_up() {
    let mut fixture = Fixture::new().await;
    fixture.config.pace = Pace {
        rate_min: 1 << 20,
        over: Duration::from_millis(300),
    };
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(1 << 30, ""),
        _ => vec![
            text("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n"),
            Step::Drip(Duration::from_millis(5)),
        ],
    });
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("too slow");
    assert_eq!(failure.cause(), FailureCause::Slow);
    assert!(failure.text().contains("operation timeout"), "{failure}");
    assert_eq!(fixture.file().await, None);
}

#[tokio::test]
async fn a_head_without_bounds_is_not_read() {
    let fixture = Fixture::new().await.retries(0);
    let many = (0..200).map(|number| format!("X-{number}: x\r\n"));
    let many: String = many.collect();
    let long = format!("X-Long: {}\r\n", "x".repeat(100 << 10));
    for headers in [many, long] {
        let peer = Peer::new(move |_, _| answer("200 OK", &headers, b"abc")).await;
        let failure = fixture.pull(&pull_of(&peer.url("/x"))).await;
        let failure = failure.expect_err("too long");
        assert_eq!(failure.cause(), FailureCause::Protocol, "{failure}");
    }
}

#[tokio::test]
async fn a_cancelled_pull_leaves_nothing() {
    let fixture = Fixture::new().await;
    let bytes = content(100_000, 6);
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "HEAD" => head(200_000, ""),
        _ => vec![
            text("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n"),
            Step::Send(bytes.to_vec()),
            Step::Hang,
        ],
    });
    let peer = peer.await;
    let progress = Arc::new(TransferProgress::new());
    let mut request = pull_of(&peer.url("/x"));
    request.headers = forwarded(&[]);
    let pull = fixture.pull_with(&request, WriteMode::Replace, &progress);
    let all_came = async {
        while progress.bytes() < 100_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        progress.remotes()
    };
    let remotes = tokio::select! {
        biased;
        outcome = pull => panic!("it is over: {outcome:?}"),
        remotes = all_came => remotes,
    };
    assert_eq!(remotes, [peer.address]);
    assert!(progress.remotes().is_empty());
    assert_eq!(fixture.file().await, None);
    assert_eq!(peer.seen()[1].header("authorization"), None);
}

#[tokio::test]
async fn a_source_that_computes_its_digest_for_ever_sends_the_file() {
    let fixture = Fixture::new().await.hasty().retries(0);
    let peer = Peer::new(|_, request| match request.header("want-digest") {
        Some(_) => vec![Step::Hang],
        None => answer("200 OK", "", b"abc"),
    });
    let peer = peer.await;
    let outcome = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!((outcome.bytes, outcome.attempts), (3, 1));
    assert_eq!(peer.methods(), ["HEAD", "GET"]);
}

#[tokio::test]
async fn a_redirect_that_holds_once_is_asked_for_again() {
    let fixture = Fixture::new().await;
    let bytes = content(33 << 20, 7);
    let sent = bytes.clone();
    let used: Mutex<BTreeSet<String>> = Mutex::default();
    let pool = Peer::new(move |_, request| {
        if !used.lock().insert(request.target.clone()) {
            return answer("404 Not Found", "", b"used");
        }
        part(request, &sent, "ETag: \"v1\"\r\n")
    });
    let pool = pool.await;
    let place = pool.url("/pool/");
    let size = bytes.len();
    let door = Peer::new(move |number, request| match request.method.as_str() {
        "HEAD" => head(size, "ETag: \"v1\"\r\n"),
        _ => answer("302 Found", &format!("Location: {place}{number}\r\n"), b""),
    });
    let door = door.await;
    let mut request = pull_of(&door.url("/x"));
    request.options.streams = 2;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.attempts, outcome.remote), (1, Some(pool.address)));
    assert_eq!(fixture.file().await, Some(bytes));
}

#[tokio::test]
async fn a_length_of_zero_in_head_is_not_believed() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "HEAD" => head(0, ""),
        _ => vec![text(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        )],
    });
    let peer = peer.await;
    let outcome = fixture.pull(&pull_of(&peer.url("/x"))).await;
    assert_eq!(outcome.expect("pulled").bytes, 3);
}

#[tokio::test]
async fn chunks_of_one_byte_make_whole_blocks() {
    let mut fixture = Fixture::new().await;
    fixture.config.streams_max = 2;
    // The last block is small, so that its many chunks take no time.
    let bytes = content((32 << 20) + 50_000, 30);
    let sent = bytes.clone();
    let peer = Peer::new(move |_, request| {
        let headers = format!("ETag: \"v1\"\r\n{}", digest_header(&sent));
        match (request.method.as_str(), request.range()) {
            ("HEAD", _) => head(sent.len(), &headers),
            (_, Some((first, Some(last)))) if last + 1 == sent.len() => {
                let size = sent.len();
                let mut answer = format!(
                    "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\
                     Content-Range: bytes {first}-{last}/{size}\r\n{headers}\r\n"
                )
                .into_bytes();
                for byte in &sent[first..] {
                    answer.extend_from_slice(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
                }
                answer.extend_from_slice(b"0\r\n\r\n");
                vec![Step::Send(answer)]
            }
            _ => part(request, &sent, &headers),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 2;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.bytes, outcome.status), (bytes.len() as u64, 206));
    assert_eq!(fixture.file().await, Some(bytes));
}

#[tokio::test]
async fn a_get_of_another_version_than_head_is_verified_too() {
    let (old, new) = (content(100_000, 31), content(100_000, 32));
    for good in [true, false] {
        let fixture = Fixture::new().await.retries(0);
        let (before, after) = (old.clone(), new.clone());
        let peer = Peer::new(move |number, request| match request.method.as_str() {
            "HEAD" if number == 0 => {
                let headers = format!("ETag: \"v1\"\r\n{}", digest_header(&before));
                head(before.len(), &headers)
            }
            "HEAD" => {
                let headers = format!("ETag: \"v2\"\r\n{}", digest_header(&after));
                head(after.len(), &headers)
            }
            _ => {
                let content = if good { &after } else { &before };
                answer("200 OK", "ETag: \"v2\"\r\n", content)
            }
        });
        let peer = peer.await;
        match fixture.pull(&pull_of(&peer.url("/x"))).await {
            Ok(outcome) => {
                assert!(good && outcome.digests[0].digest == adler(&new));
                assert_eq!(fixture.file().await, Some(new.clone()));
            }
            Err(failure) => {
                assert!(!good, "{failure}");
                assert_eq!(failure.cause(), FailureCause::DigestOnWire);
                assert_eq!(fixture.file().await, None);
            }
        }
        assert_eq!(peer.methods(), ["HEAD", "GET", "HEAD"]);
    }
}

#[tokio::test]
async fn a_source_with_another_tag_each_time_is_read_over_one_connection() {
    let fixture = Fixture::new().await;
    let bytes = content(33 << 20, 33);
    let sent = bytes.clone();
    let peer = Peer::new(move |number, request| {
        let headers = format!("ETag: \"v{number}\"\r\n{}", digest_header(&sent));
        match (request.method.as_str(), request.range()) {
            ("HEAD", _) => head(sent.len(), &headers),
            (_, Some(_)) => answer("412 Precondition Failed", "", b""),
            _ => answer("200 OK", &headers, &sent),
        }
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.streams = 2;
    let outcome = fixture.pull(&request).await.expect("pulled");
    assert_eq!((outcome.status, outcome.attempts), (200, 2));
    assert_eq!(fixture.file().await, Some(bytes));
}

#[tokio::test]
async fn what_the_other_side_was_told_in_confidence_is_in_no_text() {
    let fixture = Fixture::new().await.retries(0);
    // Neither has a form by which it is known as a secret.
    let peer = Peer::new(|_, request| {
        let token = request.header("authorization").unwrap_or_default();
        let target = &request.target;
        let token = token.trim_start_matches("Bearer ");
        let words = format!("bad credential <{token}> and {target}, path/plain-path-word is fine");
        answer("403 Forbidden", "", words.replace('?', " ").as_bytes())
    });
    let peer = peer.await;
    for target in [
        "/x?key=opaque-query-value&y=dmFsdWU%2FdmFsdWU%3D",
        "/x?opaque-query-value",
    ] {
        let mut request = pull_of(&peer.url(target));
        request.headers = forwarded(&[
            ("Authorization", "Bearer opaque-token-value"),
            ("X-Other", "another-token"),
        ]);
        request.options.no_head = true;
        let failure = fixture.pull(&request).await.expect_err("refused");
        let text = failure.text();
        for secret in ["opaque", "token", "dmFsdWU"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("bad credential <...>"), "{text}");
        assert!(text.contains("plain-path-word is fine"), "{text}");
    }
}
