//! LOCK, UNLOCK and the `If` header.

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::fixture::{Fixture, TestRequest, TestResponse, fixture, talk};

fn lockinfo(scope: &str) -> String {
    format!(
        "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:{scope}/></D:lockscope>\
         <D:locktype><D:write/></D:locktype><D:owner><D:href>mailto:ann</D:href></D:owner></D:lockinfo>"
    )
}

async fn lock(dewar: &Fixture, path: &str, scope: &str, depth: &str) -> TestResponse {
    let request = dewar.owner("LOCK", path).header("depth", depth);
    request.body(lockinfo(scope).as_bytes()).send().await
}

/// The token of a lock that was granted.
fn token(answer: &TestResponse) -> String {
    let token = answer.header("lock-token").expect("a token");
    token.trim_matches(['<', '>']).to_owned()
}

fn with<'a>(request: TestRequest<'a>, token: &str) -> TestRequest<'a> {
    request.header("if", &format!("(<{token}>)"))
}

#[test]
fn an_exclusive_lock_keeps_changes_away_until_it_is_given_back() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"1").await.is(201);
        let granted = lock(&dewar, "/bucket/file", "exclusive", "0").await.is(200);
        let text = granted.text();
        for part in [
            "<D:exclusive/>",
            "<D:depth>0</D:depth>",
            "mailto:ann",
            "<D:timeout>Second-600<",
            "<D:href>/bucket/file</D:href>",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let token = token(&granted);
        for scope in ["exclusive", "shared"] {
            let refused = lock(&dewar, "/bucket/file", scope, "0").await.is(423);
            assert!(refused.text().contains("no-conflicting-lock"));
        }
        let change = "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><x/></D:prop></D:set></D:propertyupdate>";
        let changes = || {
            [
                dewar.owner("PUT", "/bucket/file").body(b"2"),
                dewar
                    .owner("PROPPATCH", "/bucket/file")
                    .body(change.as_bytes()),
                dewar
                    .owner("MOVE", "/bucket/file")
                    .header("destination", "/bucket/other"),
                dewar.owner("DELETE", "/bucket/file"),
            ]
        };
        for request in changes() {
            let refused = request.send().await.is(423);
            let root =
                "<D:lock-token-submitted><D:href>/bucket/file</D:href></D:lock-token-submitted>";
            assert!(refused.text().contains(root), "{}", refused.text());
        }
        // Reading and copying need no token, and the copy is not locked.
        let copy = dewar
            .owner("COPY", "/bucket/file")
            .header("destination", "/bucket/copy");
        copy.send().await.is(201);
        dewar.put("/bucket/copy", b"3").await.is(200);
        assert_eq!(&dewar.get("/bucket/file").await.is(200).body[..], b"1");
        with(dewar.owner("PUT", "/bucket/file").body(b"2"), &token)
            .send()
            .await
            .is(200);
        // The wrong token is no condition that holds, and none that is submitted.
        let other = "urn:uuid:00000000-0000-4000-8000-000000000000";
        with(dewar.owner("PUT", "/bucket/file").body(b"3"), other)
            .send()
            .await
            .is(412);
        let either = dewar
            .owner("PUT", "/bucket/file")
            .header("if", &format!("(<{other}>) (Not <DAV:no-lock>)"));
        either.body(b"3").send().await.is(423);
        let unlock = |path, token: &str| {
            dewar
                .owner("UNLOCK", path)
                .header("lock-token", &format!("<{token}>"))
                .send()
        };
        unlock("/bucket/file", other).await.is(409);
        unlock("/bucket/copy", &token).await.is(409);
        unlock("/bucket/file", &token).await.is(204);
        dewar.put("/bucket/file", b"4").await.is(200);
        unlock("/bucket/file", &token).await.is(409);
    });
}

#[test]
fn shared_locks_are_beside_each_other() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"1").await.is(201);
        let first = token(&lock(&dewar, "/bucket/file", "shared", "0").await.is(200));
        let second = token(&lock(&dewar, "/bucket/file", "shared", "0").await.is(200));
        assert_ne!(first, second);
        lock(&dewar, "/bucket/file", "exclusive", "0").await.is(423);
        dewar.put("/bucket/file", b"2").await.is(423);
        // One of them is enough.
        with(dewar.owner("PUT", "/bucket/file").body(b"2"), &second)
            .send()
            .await
            .is(200);
        let body = "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:lockdiscovery/><D:supportedlock/></D:prop></D:propfind>";
        let found = dewar
            .owner("PROPFIND", "/bucket/file")
            .header("depth", "0")
            .body(body.as_bytes());
        let text = found.send().await.is(207).text();
        assert!(text.contains(&first) && text.contains(&second), "{text}");
        assert!(text.contains("<D:lockentry>"), "{text}");
    });
}

#[test]
fn a_lock_on_a_directory_covers_what_is_in_it() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/sub/file", b"1").await.is(201);
        let granted = lock(&dewar, "/bucket/dir", "exclusive", "infinity")
            .await
            .is(200);
        let deep = token(&granted);
        lock(&dewar, "/bucket/dir/sub/file", "exclusive", "0")
            .await
            .is(423);
        dewar.put("/bucket/dir/sub/file", b"2").await.is(423);
        dewar.put("/bucket/dir/new", b"2").await.is(423);
        dewar
            .owner("MKCOL", "/bucket/dir/made")
            .send()
            .await
            .is(423);
        let copy = dewar
            .owner("COPY", "/bucket/dir/sub")
            .header("destination", "/bucket/dir/copy");
        copy.send().await.is(423);
        let put = dewar.owner("PUT", "/bucket/dir/sub/file").body(b"2");
        let tagged = put.header(
            "if",
            &format!("<http://localhost:8080/bucket/dir> (<{deep}>)"),
        );
        tagged.send().await.is(200);
        // It is extended by way of what it covers.
        let extend = dewar
            .owner("LOCK", "/bucket/dir/sub/file")
            .header("timeout", "Second-100");
        let extended = with(extend, &deep).send().await.is(200).text();
        assert!(
            extended.contains("Second-100") && extended.contains("<D:href>/bucket/dir</D:href>"),
            "{extended}"
        );
        with(dewar.owner("DELETE", "/bucket/dir"), &deep)
            .send()
            .await
            .is(204);
        // The lock went with the directory.
        dewar.put("/bucket/dir/new", b"2").await.is(201);

        // A flat lock covers the names in the directory, and not the files.
        let flat = token(&lock(&dewar, "/bucket/dir", "exclusive", "0").await.is(200));
        dewar.put("/bucket/dir/new", b"3").await.is(200);
        dewar.put("/bucket/dir/newer", b"3").await.is(423);
        dewar
            .owner("DELETE", "/bucket/dir/new")
            .send()
            .await
            .is(423);
        with(dewar.owner("PUT", "/bucket/dir/newer").body(b"3"), &flat)
            .send()
            .await
            .is(412);
        let put = dewar.owner("PUT", "/bucket/dir/newer").body(b"3");
        put.header("if", &format!("</bucket/dir> (<{flat}>)"))
            .send()
            .await
            .is(201);
        // A lock in a directory keeps the directory where it is.
        let above = dewar
            .owner("MOVE", "/bucket/dir")
            .header("destination", "/bucket/moved");
        above.send().await.is(423);
        lock(&dewar, "/bucket", "exclusive", "0").await.is(403);
    });
}

#[test]
fn a_lock_on_a_new_name_makes_an_empty_file() {
    talk(async {
        let dewar = fixture().await;
        let granted = lock(&dewar, "/bucket/new", "exclusive", "infinity")
            .await
            .is(201);
        assert_eq!(dewar.get("/bucket/new").await.is(200).body.len(), 0);
        dewar.put("/bucket/new", b"1").await.is(423);
        with(
            dewar.owner("PUT", "/bucket/new").body(b"1"),
            &token(&granted),
        )
        .send()
        .await
        .is(200);
        lock(&dewar, "/bucket/absent/new", "exclusive", "0")
            .await
            .is(409);
        dewar.owner("HEAD", "/bucket/absent").send().await.is(404);
        for wrong in ["", "<D:lockinfo xmlns:D=\"DAV:\"/>", "<x/>"] {
            let request = dewar.owner("LOCK", "/bucket/other").body(wrong.as_bytes());
            request.send().await.is(400);
        }
        dewar.get("/bucket/other").await.is(404);
    });
}

#[test]
fn locks_are_for_those_who_may_write() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"1").await.is(201);
        let body = lockinfo("exclusive");
        let stranger = |method| {
            let request = dewar.request(method, "/bucket/file");
            request.basic("KEY-stranger", "secret of stranger")
        };
        stranger("LOCK").body(body.as_bytes()).send().await.is(403);
        dewar
            .request("LOCK", "/bucket/file")
            .body(body.as_bytes())
            .send()
            .await
            .is(401);
        let granted = lock(&dewar, "/bucket/file", "exclusive", "0").await.is(200);
        let held = format!("<{}>", token(&granted));
        stranger("UNLOCK")
            .header("lock-token", &held)
            .send()
            .await
            .is(403);
        // A stranger does not learn of the lock.
        stranger("PUT").body(b"2").send().await.is(403);
    });
}

#[test]
fn conditions_join_tokens_and_entity_tags() {
    talk(async {
        let dewar = fixture().await;
        let made = dewar.put("/bucket/file", b"1").await.is(201);
        let etag = made.header("etag").expect("an ETag").to_owned();
        let put = |text: &str| {
            dewar
                .owner("PUT", "/bucket/file")
                .header("if", text)
                .body(b"1")
                .send()
        };
        put("([\"other\"])").await.is(412);
        put(&format!("(Not [{etag}])")).await.is(412);
        let made = put(&format!("([\"other\"]) ([{etag}])")).await.is(200);
        let etag = made.header("etag").expect("an ETag").to_owned();
        let held = token(&lock(&dewar, "/bucket/file", "exclusive", "0").await.is(200));
        put(&format!("(<{held}> [\"other\"])")).await.is(412);
        put(&format!("(<{held}> [{etag}])")).await.is(200);
        put("(<broken").await.is(400);
        dewar
            .owner("GET", "/bucket/file")
            .header("if", "(<DAV:no-lock>)")
            .send()
            .await
            .is(412);
    });
}

#[test]
fn a_lock_that_was_taken_while_the_body_came_keeps_it_out() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"1").await.is(201);
        let (locked, wait) = tokio::sync::oneshot::channel::<()>();
        let body = stream::once(async move {
            wait.await.expect("the lock is taken");
            Ok(Frame::data(Bytes::from_static(b"2")))
        });
        let put = dewar
            .owner("PUT", "/bucket/file")
            .header("content-length", "1")
            .wire(BodyExt::boxed(StreamBody::new(body)));
        let take = async {
            lock(&dewar, "/bucket/file", "exclusive", "0").await.is(200);
            locked.send(()).expect("the body is awaited");
        };
        let (written, ()) = tokio::join!(put.send(), take);
        written.is(423);
        assert_eq!(&dewar.get("/bucket/file").await.is(200).body[..], b"1");
    });
}
