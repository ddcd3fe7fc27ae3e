//! Where transfers connect, what they follow, and to whom they show what.

use std::sync::Arc;
use std::time::Duration;

use dewar_env::BoxFuture;
use dewar_transfer::{AllowList, FailureCause, Trust};
use rustls::ClientConfig;

use crate::fixture::{Fixture, pull_of};
use crate::peer::{Peer, Step, answer};

/// Trusts one certificate.
struct TrustsOne(Arc<ClientConfig>);

impl Trust for TrustsOne {
    fn client(&self) -> BoxFuture<'_, Option<Arc<ClientConfig>>> {
        Box::pin(async { Some(Arc::clone(&self.0)) })
    }
}

fn redirect(to: &str) -> String {
    format!("Location: {to}\r\n")
}

#[tokio::test]
async fn nobody_is_asked_whom_the_rules_do_not_admit() {
    let peer = Peer::new(|_, _| answer("200 OK", "", b"abc")).await;
    let mut fixture = Fixture::new().await;
    fixture.config.rules.allow = AllowList::default();
    for url in [peer.url("/x"), peer.url_by_name("/x")] {
        let failure = fixture.pull(&pull_of(&url)).await.expect_err("refused");
        assert_eq!(failure.cause(), FailureCause::NotAllowed);
        assert!(failure.text().starts_with("Permission denied"), "{failure}");
    }
    // This server itself, whatever is allowed.
    let fixture = Fixture::new().await.own(peer.address);
    for url in [peer.url("/x"), peer.url_by_name("/x")] {
        let failure = fixture.pull(&pull_of(&url)).await.expect_err("refused");
        assert_eq!(failure.cause(), FailureCause::NotAllowed);
    }
    assert!(peer.seen().is_empty());
}

#[tokio::test]
async fn redirects_are_judged_too() {
    let inside = Peer::new(|_, _| answer("200 OK", "", b"secret")).await;
    let location = redirect(&inside.url("/x"));
    let door = Peer::new(move |_, _| answer("302 Found", &location, b"")).await;
    let fixture = Fixture::new().await.own(inside.address);
    let failure = fixture
        .pull(&pull_of(&door.url("/x")))
        .await
        .expect_err("refused");
    assert_eq!(failure.cause(), FailureCause::NotAllowed);
    assert!(inside.seen().is_empty() && fixture.file().await.is_none());
}

#[tokio::test]
async fn loops_end() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(|_, _| answer("307 Temporary Redirect", &redirect("/x?secret"), b""));
    let peer = peer.await;
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("a loop");
    assert_eq!(failure.cause(), FailureCause::Redirect);
    assert_eq!(peer.seen().len(), 6);
    for headers in ["", "Location: ftp://h/x\r\n", "Location: https://a@h/\r\n"] {
        let peer = Peer::new(move |_, _| answer("302 Found", headers, b"")).await;
        let failure = fixture.pull(&pull_of(&peer.url("/x"))).await;
        let failure = failure.expect_err("nowhere");
        assert_eq!(failure.cause(), FailureCause::Redirect, "{failure}");
    }
}

/// The listing of a directory is not the content of a file.
#[tokio::test]
async fn a_directory_is_not_copied() {
    let fixture = Fixture::new().await;
    let peer = Peer::new(
        |_, asked| match asked.method == "GET" && asked.target == "/d" {
            true => answer("301 Moved Permanently", &redirect("/d/"), b""),
            false => answer("200 OK", "Content-Type: text/html\r\n", b"<html>"),
        },
    );
    let peer = peer.await;
    let failure = fixture.pull(&pull_of(&peer.url("/d"))).await;
    let failure = failure.expect_err("a directory");
    assert!(
        failure.text().contains("No such file or directory"),
        "{failure}"
    );
    assert!(fixture.file().await.is_none());
}

#[tokio::test]
async fn the_token_goes_to_the_named_host_and_to_trusted_ones() {
    for (trust, shown) in [
        (None, false),
        (Some("other.example"), false),
        (Some("*.localhost"), false),
        (Some("LOCALHOST"), true),
    ] {
        let pool = Peer::new(|_, _| answer("200 OK", "", b"abc")).await;
        let location = redirect(&pool.url_by_name("/pool"));
        let door = Peer::new(move |_, _| answer("302 Found", &location, b"moved")).await;
        let mut fixture = Fixture::new().await;
        fixture.config.redirect_trust = trust.into_iter().map(str::to_owned).collect();
        fixture
            .pull(&pull_of(&door.url("/x")))
            .await
            .expect("pulled");
        assert_eq!(pool.methods(), ["HEAD", "GET"]);
        for request in pool.seen() {
            let token = request.header("authorization");
            assert_eq!(token.is_some(), shown, "{trust:?}");
        }
        assert!(
            door.seen()
                .iter()
                .all(|one| one.header("authorization").is_some())
        );
    }
    // Another port of the same host.
    let pool = Peer::new(|_, _| answer("200 OK", "", b"abc")).await;
    let location = redirect(&pool.url("/pool"));
    let door = Peer::new(move |_, _| answer("302 Found", &location, b"")).await;
    let fixture = Fixture::new().await;
    fixture
        .pull(&pull_of(&door.url("/x")))
        .await
        .expect("pulled");
    assert!(pool.seen()[0].header("authorization").is_some());
}

#[tokio::test]
async fn https_verifies_the_name_and_is_never_left() {
    let plain = Peer::new(|_, _| answer("200 OK", "", b"plain")).await;
    let location = redirect(&plain.url("/x"));
    let script = move |_: usize, request: &crate::peer::SeenRequest| match request.target.as_str() {
        "/down" => answer("302 Found", &location, b""),
        _ => answer("200 OK", "", b"abc"),
    };
    let (peer, trusted) = Peer::secure(script, &["127.0.0.1"]).await;
    let mut fixture = Fixture::new().await;
    // Nobody is trusted.
    let failure = fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect_err("no trust");
    assert_eq!(failure.cause(), FailureCause::Tls);
    fixture.config.trust = Some(Arc::new(TrustsOne(trusted)));
    fixture
        .pull(&pull_of(&peer.url("/x")))
        .await
        .expect("pulled");
    assert_eq!(fixture.file().await.as_deref(), Some(&b"abc"[..]));
    // The certificate is for the number alone.
    let failure = fixture.pull(&pull_of(&peer.url_by_name("/x"))).await;
    assert_eq!(
        failure.expect_err("another name").cause(),
        FailureCause::Tls
    );
    let failure = fixture.pull(&pull_of(&peer.url("/down"))).await;
    let failure = failure.expect_err("downgrade");
    assert_eq!(failure.cause(), FailureCause::Redirect);
    assert!(plain.seen().is_empty());
    // Another authority's certificate.
    let (other, _) = Peer::secure(|_, _| answer("200 OK", "", b"x"), &["127.0.0.1"]).await;
    let failure = fixture.pull(&pull_of(&other.url("/x"))).await;
    assert_eq!(failure.expect_err("not trusted").cause(), FailureCause::Tls);
}

#[tokio::test]
async fn nobody_there_is_a_passing_failure() {
    let fixture = Fixture::new().await.retries(1);
    let peer = Peer::new(|_, _| Vec::new()).await;
    let url = peer.url("/x");
    drop(peer);
    tokio::task::yield_now().await;
    let failure = fixture.pull(&pull_of(&url)).await.expect_err("nobody");
    assert_eq!(failure.cause(), FailureCause::Connect);
    assert!(failure.text().contains("2 attempts"), "{failure}");
}

#[tokio::test]
async fn deadlines_do_not_add_up_over_redirects() {
    let mut fixture = Fixture::new().await.hasty().retries(0);
    fixture.config.times.resolve = Duration::from_millis(100);
    fixture.config.times.connect = Duration::from_millis(100);
    let peer = Peer::new(|number, _| {
        let mut steps = vec![Step::Wait(Duration::from_millis(300))];
        let location = format!("Location: /{number}\r\n");
        steps.extend(answer("302 Found", &location, b""));
        steps
    });
    let peer = peer.await;
    let mut request = pull_of(&peer.url("/x"));
    request.options.no_head = true;
    let failure = fixture.pull(&request).await.expect_err("too late");
    assert_eq!(failure.cause(), FailureCause::Stall, "{failure}");
    assert!(peer.seen().len() <= 3, "{:?}", peer.seen());
}
