//! Pushes.

use std::sync::Arc;

use dewar_checksum::DigestSet;
use dewar_transfer::{DigestOrigin, FailureCause, Pace, TransferProgress};

use crate::fixture::{Fixture, push_to};
use crate::peer::{Peer, SeenRequest, Step, answer, head, text};
use crate::{adler, content, digest_header, md5};

const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// Reads the body after `100 Continue`, and answers.
fn take(status: &str, headers: &str) -> Vec<Step> {
    let mut steps = vec![text(CONTINUE), Step::ReadBody];
    steps.extend(answer(status, headers, b""));
    steps
}

fn missing() -> Vec<Step> {
    vec![text("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")]
}

fn puts(peer: &Peer) -> Vec<SeenRequest> {
    let seen = peer.seen().into_iter();
    seen.filter(|one| one.method == "PUT").collect()
}

#[tokio::test]
async fn a_file_arrives_and_is_verified() {
    let fixture = Fixture::new().await;
    let bytes = content(3_000_000, 1);
    fixture.put("file", &bytes).await;
    let sent = bytes.clone();
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "PUT" => take("201 Created", ""),
        _ => head(sent.len(), &digest_header(&sent)),
    });
    let peer = peer.await;
    let outcome = fixture.push(&push_to(&peer.url("/data/x?q=1"))).await;
    let outcome = outcome.expect("pushed");
    assert_eq!(
        (outcome.bytes, outcome.status, outcome.attempts),
        (3_000_000, 201, 1)
    );
    assert!(outcome.written.is_none() && outcome.remote == Some(peer.address));
    let verdict = outcome.digests[0];
    assert_eq!(
        (verdict.digest, verdict.matches),
        (adler(&bytes), Some(true))
    );
    assert_eq!(verdict.named_by, DigestOrigin::Remote);
    assert_eq!(peer.methods(), ["PUT", "HEAD"]);
    let put = &peer.seen()[0];
    assert!(put.whole && put.body == bytes);
    assert_eq!(put.target, "/data/x?q=1");
    assert_eq!(put.header("expect"), Some("100-continue"));
    assert_eq!(put.header("content-length"), Some("3000000"));
    assert_eq!(put.header("transfer-encoding"), None);
    assert_eq!(put.header("authorization"), Some("Bearer SECRET"));
    let digest = digest_header(&bytes);
    let digest = digest.trim().strip_prefix("Digest: ");
    assert_eq!(put.header("digest"), digest);
    assert!(
        put.header("repr-digest")
            .is_some_and(|one| one.starts_with("adler=:"))
    );
    assert_eq!(put.header("if-none-match"), None);
    assert_eq!(put.header("want-digest"), Some("adler32"));
}

#[tokio::test]
async fn an_empty_file_arrives() {
    let fixture = Fixture::new().await;
    fixture.put("file", &content(0, 1)).await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "PUT" => answer("204 No Content", "", b""),
        _ => head(0, &digest_header(b"")),
    });
    let peer = peer.await;
    fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect("pushed");
    let put = &peer.seen()[0];
    assert_eq!(
        (put.header("content-length"), put.header("expect")),
        (Some("0"), None)
    );
}

#[tokio::test]
async fn a_redirect_is_followed_before_the_data() {
    let fixture = Fixture::new().await;
    let bytes = content(2_000_000, 2);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let pool = Peer::new(move |_, _| take("201 Created", &digest)).await;
    let location = format!("Location: {}\r\n", pool.url("/pool/x"));
    let door = Peer::new(move |_, _| answer("307 Temporary Redirect", &location, b"")).await;
    let outcome = fixture.push(&push_to(&door.url("/x"))).await;
    assert_eq!(outcome.expect("pushed").remote, Some(pool.address));
    let put = &pool.seen()[0];
    assert!(put.whole && put.body == bytes && put.target == "/pool/x");
    assert_eq!(door.methods(), ["PUT"]);
    // The digest in the answer to the PUT is enough.
    assert_eq!(pool.methods(), ["PUT"]);
}

#[tokio::test]
async fn a_server_that_never_says_continue_gets_the_data() {
    let mut fixture = Fixture::new().await;
    fixture.config.times.expect = std::time::Duration::from_millis(50);
    let bytes = content(100_000, 3);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |_, _| {
        let mut steps = vec![Step::ReadBody];
        steps.extend(answer("201 Created", &digest, b""));
        steps
    });
    let peer = peer.await;
    fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect("pushed");
    assert_eq!(peer.seen()[0].body, bytes);
}

#[tokio::test]
async fn a_refusal_needs_no_data() {
    for (status, cause, words) in [
        ("403 Forbidden", 403, "Permission denied"),
        ("404 Not Found", 404, "No such file or directory"),
        ("507 Insufficient Storage", 507, "No space left"),
    ] {
        let fixture = Fixture::new().await;
        fixture.put("file", &content(5_000_000, 4)).await;
        let peer = Peer::new(move |_, _| answer(status, "", b"why")).await;
        let failure = fixture.push(&push_to(&peer.url("/x"))).await;
        let failure = failure.expect_err(status);
        assert_eq!(failure.cause(), FailureCause::RemoteStatus(cause));
        assert!(failure.text().contains(words), "{failure}");
        assert_eq!(peer.methods(), ["PUT"]);
    }
}

#[tokio::test]
async fn success_before_the_data_or_only_promised_is_none() {
    let fixture = Fixture::new().await.retries(0);
    fixture.put("file", &content(5_000_000, 5)).await;
    let early = Peer::new(|_, _| answer("201 Created", "", b"")).await;
    let failure = fixture
        .push(&push_to(&early.url("/x")))
        .await
        .expect_err("too early");
    assert_eq!(failure.cause(), FailureCause::Protocol);
    let promised = Peer::new(|_, _| take("202 Accepted", "")).await;
    let failure = fixture.push(&push_to(&promised.url("/x"))).await;
    let failure = failure.expect_err("only accepted");
    assert_eq!(failure.cause(), FailureCause::RemoteStatus(202));
    assert_eq!(promised.methods(), ["PUT"]);
}

#[tokio::test]
async fn no_answer_or_informational_ones_for_ever_are_no_success() {
    let fixture = Fixture::new().await.hasty().retries(0);
    fixture.put("file", &content(100_000, 6)).await;
    for endless in [true, false] {
        let peer = Peer::new(move |_, _| {
            let last = match endless {
                true => Step::Repeat("HTTP/1.1 102 Processing\r\n\r\n"),
                false => Step::Hang,
            };
            vec![text(CONTINUE), Step::ReadBody, last]
        });
        let peer = peer.await;
        let failure = fixture.push(&push_to(&peer.url("/x"))).await;
        let failure = failure.expect_err("no answer");
        assert_eq!(failure.cause(), FailureCause::Stall);
        assert!(peer.seen()[0].whole);
    }
}

#[tokio::test]
async fn a_server_that_takes_no_data_is_given_up() {
    let fixture = Fixture::new().await.hasty().retries(0);
    fixture.put("file", &content(30 << 20, 7)).await;
    let peer = Peer::new(|_, _| vec![text(CONTINUE), Step::ReadSome(1_000_000), Step::Hang]);
    let peer = peer.await;
    let failure = fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect_err("it stalls");
    assert_eq!(failure.cause(), FailureCause::Stall);
    assert!(failure.text().contains("operation timeout"), "{failure}");
}

#[tokio::test]
async fn a_broken_push_begins_again_from_zero() {
    let fixture = Fixture::new().await;
    let bytes = content(4_000_000, 8);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |number, _| match number {
        0 => vec![text(CONTINUE), Step::ReadSome(1_000_000), Step::Close],
        1 => answer("503 Busy", "Retry-After: 0\r\n", b""),
        _ => take("201 Created", &digest),
    });
    let peer = peer.await;
    let outcome = fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect("pushed");
    assert_eq!(outcome.attempts, 3);
    assert!(peer.seen()[2].body == bytes);
}

#[tokio::test]
async fn what_arrived_otherwise_is_a_failure() {
    // In the answer to the PUT, by HEAD, by its length, and what a verifying server says.
    for (put, look, cause) in [
        ("201 Created", None, FailureCause::DigestOnWire),
        (
            "201 Created",
            Some((100_000, "Digest: adler32=00000001\r\n")),
            FailureCause::DigestOnWire,
        ),
        ("201 Created", Some((99_999, "")), FailureCause::Length),
        (
            "412 Precondition Failed",
            Some((0, "")),
            FailureCause::DigestOnWire,
        ),
    ] {
        let fixture = Fixture::new().await.retries(0);
        fixture.put("file", &content(100_000, 9)).await;
        let peer = Peer::new(move |_, request| match (request.method.as_str(), look) {
            ("PUT", None) => take(put, "Digest: adler32=00000001\r\n"),
            ("PUT", Some(_)) => take(put, ""),
            (_, look) => look.map_or_else(missing, |(size, headers)| head(size, headers)),
        });
        let peer = peer.await;
        let failure = fixture.push(&push_to(&peer.url("/x"))).await;
        let failure = failure.expect_err("another content");
        assert_eq!(failure.cause(), cause, "{failure}");
        assert!(
            !failure.text().contains("checksum do not match"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_afterwards_was_not_copied() {
    let fixture = Fixture::new().await.retries(0);
    fixture.put("file", &content(1000, 10)).await;
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "PUT" => take("201 Created", ""),
        _ => missing(),
    });
    let peer = peer.await;
    let failure = fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect_err("missing");
    assert!(!failure.cause().is_lasting(), "{failure}");
    // One that may not be asked is believed.
    let peer = Peer::new(|_, request| match request.method.as_str() {
        "PUT" => take("201 Created", ""),
        _ => vec![text("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")],
    });
    let peer = peer.await;
    let outcome = fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect("pushed");
    assert!(outcome.digests.is_empty());
}

#[tokio::test]
async fn an_existing_file_is_not_overwritten_unless_it_may_be() {
    let fixture = Fixture::new().await;
    fixture.put("file", &content(1000, 11)).await;
    let peer = Peer::new(|_, _| head(7, "")).await;
    let mut request = push_to(&peer.url("/x"));
    request.options.overwrite = false;
    let failure = fixture.push(&request).await.expect_err("it exists");
    assert_eq!(failure.cause(), FailureCause::RemoteExists);
    assert!(failure.text().starts_with("File exists"), "{failure}");
    assert_eq!(peer.methods(), ["HEAD"]);
    // It appears between the two requests.
    let peer = Peer::new(|number, request| match request.method.as_str() {
        "PUT" => answer("412 Precondition Failed", "", b""),
        _ if number == 0 => missing(),
        _ => head(7, ""),
    });
    let peer = peer.await;
    let mut request = push_to(&peer.url("/x"));
    request.options.overwrite = false;
    let failure = fixture.push(&request).await.expect_err("it exists");
    assert_eq!(failure.cause(), FailureCause::RemoteExists);
    assert_eq!(puts(&peer)[0].header("if-none-match"), Some("*"));
}

#[tokio::test]
async fn a_lost_answer_is_found_out_and_nothing_is_sent_twice() {
    let fixture = Fixture::new().await;
    let bytes = content(1000, 12);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |number, _| match number {
        0 => missing(),
        1 => vec![text(CONTINUE), Step::ReadBody, Step::Close],
        _ => head(1000, &digest),
    });
    let peer = peer.await;
    let mut request = push_to(&peer.url("/x"));
    request.options.overwrite = false;
    let outcome = fixture.push(&request).await.expect("it arrived");
    assert_eq!(outcome.attempts, 2);
    assert_eq!(peer.methods(), ["HEAD", "PUT", "HEAD"]);
}

#[tokio::test]
async fn a_presigned_target_gets_one_put_as_it_was_signed() {
    let fixture = Fixture::new().await.retries(0);
    let bytes = content(2_500_000, 13);
    fixture.put("file", &bytes).await;
    for (etag, good) in [(md5(&bytes), true), (md5(b"other"), false)] {
        let etag = format!("ETag: \"{}\"\r\n", etag.hex());
        let peer = Peer::new(move |_, _| {
            let mut steps = vec![Step::ReadBody];
            steps.extend(answer("200 OK", &etag, b""));
            steps
        });
        let peer = peer.await;
        let target = peer.url("/b/k?X-Amz-Signature=SECRET");
        match fixture.push(&push_to(&target)).await {
            Ok(outcome) => {
                assert!(good && outcome.digests[0].digest == md5(&bytes));
            }
            Err(failure) => {
                assert!(
                    !good && failure.cause() == FailureCause::DigestOnWire,
                    "{failure}"
                );
                assert!(!failure.text().contains("SECRET"), "{failure}");
            }
        }
        assert_eq!(peer.methods(), ["PUT"]);
        let put = peer.seen().remove(0);
        assert!(put.body == bytes && put.header("content-length") == Some("2500000"));
        for absent in [
            "authorization",
            "expect",
            "digest",
            "repr-digest",
            "want-digest",
        ] {
            assert_eq!(put.header(absent), None, "{absent}");
        }
    }
}

#[tokio::test]
async fn a_file_with_another_digest_than_the_client_named_does_not_arrive() {
    let fixture = Fixture::new().await;
    let bytes = content(2_500_000, 14);
    fixture.put("file", &bytes).await;
    let peer = Peer::new(|_, _| take("201 Created", "")).await;
    let mut request = push_to(&peer.url("/x"));
    // A digest that is known: nothing is sent.
    request.options.expected = vec![adler(b"other")];
    let failure = fixture.push(&request).await.expect_err("another file");
    assert_eq!(failure.cause(), FailureCause::DigestNamed);
    assert!(peer.seen().is_empty());
    // One that is computed on the way: the last piece is not sent.
    request.options.expected = vec![md5(b"other")];
    let failure = fixture.push(&request).await.expect_err("another file");
    assert_eq!(failure.cause(), FailureCause::DigestNamed);
    while !peer.seen().iter().any(|put| !put.body.is_empty()) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(puts(&peer).iter().all(|put| !put.whole));
    // The right one is fine.
    request.options.expected = vec![md5(&bytes)];
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |_, _| take("201 Created", &digest)).await;
    request.target = crate::fixture::url(&peer.url("/x"));
    let outcome = fixture.push(&request).await.expect("pushed");
    let by_client = outcome
        .digests
        .iter()
        .find(|one| one.named_by == DigestOrigin::Client);
    assert_eq!(by_client.expect("a verdict").matches, Some(true));
}

#[tokio::test]
async fn a_target_that_computes_its_digest_for_ever_is_asked_for_the_length() {
    let fixture = Fixture::new().await.hasty().retries(0);
    fixture.put("file", &content(1000, 15)).await;
    for (size, whole) in [(1000, true), (999, false)] {
        let peer = Peer::new(move |_, request| match request.method.as_str() {
            "PUT" => take("201 Created", ""),
            _ if request.header("want-digest").is_some() => vec![Step::Hang],
            _ => head(size, ""),
        });
        let peer = peer.await;
        let outcome = fixture.push(&push_to(&peer.url("/x"))).await;
        assert_eq!(outcome.is_ok(), whole, "{outcome:?}");
        assert_eq!(peer.methods(), ["PUT", "HEAD", "HEAD"]);
    }
}

#[tokio::test]
async fn a_server_that_refuses_expectations_gets_the_data_without() {
    let fixture = Fixture::new().await.retries(0);
    let bytes = content(100_000, 16);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |_, request| match request.header("expect") {
        Some(_) => answer("417 Expectation Failed", "", b""),
        None => {
            let mut steps = vec![Step::ReadBody];
            steps.extend(answer("201 Created", &digest, b""));
            steps
        }
    });
    let peer = peer.await;
    fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect("pushed");
    assert!(peer.seen()[1].body == bytes);
}

#[tokio::test]
async fn a_token_that_may_only_create_can_push() {
    let fixture = Fixture::new().await;
    let bytes = content(1000, 17);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |_, request| match request.method.as_str() {
        "PUT" => take("201 Created", &digest),
        _ => vec![text("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")],
    });
    let peer = peer.await;
    let mut request = push_to(&peer.url("/x"));
    request.options.overwrite = false;
    fixture.push(&request).await.expect("pushed");
    assert_eq!(puts(&peer)[0].header("if-none-match"), Some("*"));
}

#[tokio::test]
async fn a_server_that_takes_data_slowly_is_given_up() {
    let mut fixture = Fixture::new().await;
    fixture.config.pace = Pace {
        rate_min: 1 << 40,
        over: std::time::Duration::from_millis(300),
    };
    fixture.put("file", &content(30 << 20, 18)).await;
    let peer = Peer::new(|_, _| vec![text(CONTINUE), Step::ReadSome(1_000_000), Step::Hang]);
    let peer = peer.await;
    let failure = fixture
        .push(&push_to(&peer.url("/x")))
        .await
        .expect_err("too slow");
    assert_eq!(failure.cause(), FailureCause::Slow);
}

#[tokio::test]
async fn a_refused_condition_is_told_from_a_refused_digest() {
    let bytes = content(100_000, 19);
    // What HEAD finds after the 412, and whether data was sent before it.
    for (there, sends, cause) in [
        // Nothing: so the target refused the digest of what came.
        (None, true, Some(FailureCause::DigestOnWire)),
        (Some(0), true, Some(FailureCause::RemoteExists)),
        // The same file: an answer was lost on its way.
        (Some(19), true, None),
        // Somebody else's.
        (Some(19), false, Some(FailureCause::RemoteExists)),
    ] {
        let fixture = Fixture::new().await.retries(0);
        fixture.put("file", &bytes).await;
        let peer = Peer::new(move |number, request| match request.method.as_str() {
            "PUT" if sends => take("412 Precondition Failed", ""),
            "PUT" => answer("412 Precondition Failed", "", b""),
            _ if number == 0 => missing(),
            _ => there.map_or_else(missing, |seed| {
                let there = content(100_000, seed);
                head(there.len(), &digest_header(&there))
            }),
        });
        let peer = peer.await;
        let mut request = push_to(&peer.url("/x"));
        request.options.overwrite = false;
        let pushed = fixture.push(&request).await;
        let found = pushed.err().map(|failure| failure.cause());
        assert_eq!(found, cause, "{there:?} {sends}");
        assert_eq!(peer.methods(), ["HEAD", "PUT", "HEAD"]);
    }
}

#[tokio::test]
async fn a_file_without_a_known_digest_is_verified() {
    for (good, cause) in [(true, None), (false, Some(FailureCause::DigestOnWire))] {
        let fixture = Fixture::new().await.retries(0);
        let bytes = content(2_000_000, 20);
        fixture.put("file", &bytes).await;
        let mut file = fixture.open("file").await;
        file.info.digests = DigestSet::ABSENT;
        let digest = match good {
            true => digest_header(&bytes),
            false => digest_header(b"other"),
        };
        let peer = Peer::new(move |_, request| match request.method.as_str() {
            "PUT" => take("201 Created", ""),
            _ => head(2_000_000, &digest),
        });
        let peer = peer.await;
        let progress = Arc::new(TransferProgress::new());
        let request = push_to(&peer.url("/x"));
        let pushed = fixture.client().push(&request, &file, &progress).await;
        match pushed {
            Ok(outcome) => assert_eq!((outcome.digests[0].matches, cause), (Some(true), None)),
            Err(failure) => assert_eq!(Some(failure.cause()), cause),
        }
        assert!(puts(&peer)[0].whole);
    }
}

#[tokio::test]
async fn a_verification_that_fails_sends_nothing_again() {
    let fixture = Fixture::new().await;
    let bytes = content(100_000, 21);
    fixture.put("file", &bytes).await;
    let digest = digest_header(&bytes);
    let peer = Peer::new(move |number, request| match request.method.as_str() {
        "PUT" => take("201 Created", ""),
        _ if number < 4 => vec![text(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
        )],
        _ => head(100_000, &digest),
    });
    let peer = peer.await;
    let outcome = fixture.push(&push_to(&peer.url("/x"))).await;
    let outcome = outcome.expect("pushed");
    assert_eq!((outcome.attempts, outcome.status), (2, 201));
    assert_eq!(peer.methods(), ["PUT", "HEAD", "HEAD", "HEAD", "HEAD"]);
}
