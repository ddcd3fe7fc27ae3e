//! COPY and MOVE.

use dewar_store::api::BucketRef;
use dewar_store::quota::{Quota, QuotaTarget};
use dewar_types::{BucketName, ObjectKey, TenantName};

use crate::fixture::{Fixture, TestResponse, fixture, talk};

const HERE: &str = "http://localhost:8080";

async fn send(
    dewar: &Fixture,
    method: &str,
    from: &str,
    to: &str,
    overwrite: &str,
) -> TestResponse {
    let to = if to.starts_with('/') {
        format!("{HERE}{to}")
    } else {
        to.to_owned()
    };
    let request = dewar.owner(method, from).header("destination", &to);
    request.header("overwrite", overwrite).send().await
}

#[test]
fn files_are_copied_and_moved() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/a", b"content").await.is(201);
        send(&dewar, "COPY", "/bucket/a", "/bucket/b%20c", "F")
            .await
            .is(201);
        send(&dewar, "COPY", "/bucket/a", "/bucket/b%20c", "F")
            .await
            .is(412);
        send(&dewar, "COPY", "/bucket/a", "/bucket/b%20c", "T")
            .await
            .is(204);
        assert_eq!(
            &dewar.get("/bucket/b%20c").await.is(200).body[..],
            b"content"
        );
        send(&dewar, "MOVE", "/bucket/a", "/bucket/b%20c", "F")
            .await
            .is(412);
        send(&dewar, "MOVE", "/bucket/a", "/bucket/b%20c", "T")
            .await
            .is(204);
        dewar.get("/bucket/a").await.is(404);
        send(&dewar, "MOVE", "/bucket/b%20c", "/bucket/d", "F")
            .await
            .is(201);
        assert_eq!(&dewar.get("/bucket/d").await.is(200).body[..], b"content");
        for method in ["COPY", "MOVE"] {
            send(&dewar, method, "/bucket/absent", "/bucket/x", "T")
                .await
                .is(404);
            send(&dewar, method, "/bucket/d", "/bucket/absent/x", "T")
                .await
                .is(409);
            send(&dewar, method, "/bucket/d", "/absent/x", "T")
                .await
                .is(409);
            send(&dewar, method, "/bucket/d", "/bucket/d", "T")
                .await
                .is(403);
            send(&dewar, method, "/bucket/d", "/other", "T")
                .await
                .is(403);
            send(&dewar, method, "/bucket/d", "/bucket/x", "maybe")
                .await
                .is(400);
            dewar.owner(method, "/bucket/d").send().await.is(400);
        }
        send(
            &dewar,
            "MOVE",
            "/bucket/d",
            "http://elsewhere/bucket/d",
            "T",
        )
        .await
        .is(502);
        send(
            &dewar,
            "COPY",
            "/bucket/d",
            "http://elsewhere/bucket/d",
            "T",
        )
        .await
        .is(501);
    });
}

#[test]
fn directories_are_copied_moved_and_replaced() {
    talk(async {
        let dewar = fixture().await;
        for name in ["a", "sub/b"] {
            dewar
                .put(&format!("/bucket/dir/{name}"), name.as_bytes())
                .await
                .is(201);
        }
        dewar
            .owner("MKCOL", "/bucket/dir/empty")
            .send()
            .await
            .is(201);
        send(&dewar, "COPY", "/bucket/dir/", "/bucket/copy/", "F")
            .await
            .is(201);
        assert_eq!(
            &dewar.get("/bucket/copy/sub/b").await.is(200).body[..],
            b"sub/b"
        );
        dewar
            .owner("HEAD", "/bucket/copy/empty")
            .send()
            .await
            .is(200);
        send(&dewar, "COPY", "/bucket/dir", "/bucket/copy", "F")
            .await
            .is(412);
        // What the target had, and the source has not, goes.
        dewar.put("/bucket/copy/other", b"x").await.is(201);
        send(&dewar, "COPY", "/bucket/dir", "/bucket/copy", "T")
            .await
            .is(204);
        dewar.get("/bucket/copy/other").await.is(404);
        send(&dewar, "MOVE", "/bucket/copy", "/bucket/dir", "T")
            .await
            .is(204);
        dewar.owner("HEAD", "/bucket/copy").send().await.is(404);
        assert_eq!(&dewar.get("/bucket/dir/a").await.is(200).body[..], b"a");
        let shallow = dewar
            .owner("COPY", "/bucket/dir")
            .header("destination", "/bucket/shallow");
        shallow.header("depth", "0").send().await.is(201);
        dewar.owner("HEAD", "/bucket/shallow").send().await.is(200);
        dewar.get("/bucket/shallow/a").await.is(404);
        send(&dewar, "COPY", "/bucket/dir", "/bucket/dir/in", "T")
            .await
            .is(403);
        send(&dewar, "MOVE", "/bucket/dir", "/bucket/dir/in", "T")
            .await
            .is(403);
        send(&dewar, "MOVE", "/bucket/dir/sub", "/bucket/dir", "T")
            .await
            .is(403);
        // A file and a directory replace each other.
        dewar.put("/bucket/file", b"f").await.is(201);
        send(&dewar, "COPY", "/bucket/file", "/bucket/shallow", "T")
            .await
            .is(204);
        assert_eq!(&dewar.get("/bucket/shallow").await.is(200).body[..], b"f");
        send(&dewar, "MOVE", "/bucket/dir", "/bucket/file", "T")
            .await
            .is(204);
        assert_eq!(&dewar.get("/bucket/file/a").await.is(200).body[..], b"a");
        // Nothing that was replaced is left under another name.
        let listing = dewar.owner("PROPFIND", "/bucket").header("depth", "1");
        let hrefs = listing.send().await.is(207).hrefs();
        let expected = ["/bucket/", "/bucket/file/", "/bucket/shallow"];
        assert_eq!(hrefs, expected);
    });
}

#[test]
fn a_move_to_another_bucket_copies_and_removes() {
    talk(async {
        let dewar = fixture().await;
        dewar.owner("MKCOL", "/second").send().await.is(201);
        dewar.put("/bucket/dir/a", b"1").await.is(201);
        dewar.put("/bucket/file", b"2").await.is(201);
        send(&dewar, "MOVE", "/bucket/dir", "/second/dir", "F")
            .await
            .is(201);
        send(&dewar, "MOVE", "/bucket/file", "/second/file", "F")
            .await
            .is(201);
        assert_eq!(&dewar.get("/second/dir/a").await.is(200).body[..], b"1");
        assert_eq!(&dewar.get("/second/file").await.is(200).body[..], b"2");
        dewar.owner("HEAD", "/bucket/dir").send().await.is(404);
        dewar.get("/bucket/file").await.is(404);
    });
}

/// A path may name the tenant of the caller, and means the same then.
#[test]
fn a_name_is_not_moved_to_itself_by_its_other_path() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/a", b"1").await.is(201);
        for method in ["COPY", "MOVE"] {
            for (from, to) in [
                ("/bucket/dir/a", "/@/bucket/dir/a"),
                ("/@/bucket/dir/a", "/bucket/dir/a"),
                ("/bucket/dir", "/@/bucket/dir"),
                ("/bucket/dir", "/@/bucket/dir/in"),
                ("/bucket/dir/a", "/@/bucket/dir"),
            ] {
                send(&dewar, method, from, to, "T").await.is(403);
                assert_eq!(&dewar.get("/bucket/dir/a").await.is(200).body[..], b"1");
            }
        }
        send(&dewar, "MOVE", "/bucket/dir", "/@/bucket/other", "T")
            .await
            .is(201);
        assert_eq!(&dewar.get("/@/bucket/other/a").await.is(200).body[..], b"1");
    });
}

/// The rights on both names count.
#[test]
fn strangers_copy_and_move_nothing() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/a", b"content").await.is(201);
        for method in ["COPY", "MOVE"] {
            let request = dewar.request(method, "/bucket/a");
            let request = request.basic("KEY-stranger", "secret of stranger");
            request
                .header("destination", "/bucket/b")
                .send()
                .await
                .is(403);
        }
        dewar.get("/bucket/b").await.is(404);
    });
}

#[test]
fn a_move_replaces_a_directory_in_one_step() {
    talk(async {
        let dewar = fixture().await;
        for name in ["old/a", "old/deep/b", "new/c"] {
            dewar.put(&format!("/bucket/{name}"), b"1").await.is(201);
        }
        send(&dewar, "MOVE", "/bucket/new", "/bucket/old", "F")
            .await
            .is(412);
        send(&dewar, "MOVE", "/bucket/new", "/bucket/old", "T")
            .await
            .is(204);
        dewar.get("/bucket/old/c").await.is(200);
        dewar.get("/bucket/old/a").await.is(404);
        // A file takes the place of a directory, and a directory that of a file.
        dewar.put("/bucket/file", b"2").await.is(201);
        send(&dewar, "MOVE", "/bucket/file", "/bucket/old", "T")
            .await
            .is(204);
        assert_eq!(&dewar.get("/bucket/old").await.is(200).body[..], b"2");
        dewar.put("/bucket/dir/x", b"3").await.is(201);
        send(&dewar, "MOVE", "/bucket/dir", "/bucket/old", "T")
            .await
            .is(204);
        assert_eq!(&dewar.get("/bucket/old/x").await.is(200).body[..], b"3");
        let listed = dewar.owner("PROPFIND", "/bucket").header("depth", "1");
        assert_eq!(
            listed.send().await.is(207).hrefs(),
            ["/bucket/", "/bucket/old/"]
        );
    });
}

/// The first try moved `a` and was interrupted: `a` is at the target only.
#[test]
fn a_move_to_another_bucket_can_be_repeated() {
    talk(async {
        let dewar = fixture().await;
        dewar.owner("MKCOL", "/other").send().await.is(201);
        dewar.put("/other/dir/a", b"moved").await.is(201);
        dewar.put("/bucket/dir/b", b"left").await.is(201);
        dewar.put("/bucket/dir/deep/c", b"left too").await.is(201);
        send(&dewar, "MOVE", "/bucket/dir", "/other/dir", "T")
            .await
            .is(204);
        dewar.get("/bucket/dir/b").await.is(404);
        for (name, content) in [("a", "moved"), ("b", "left"), ("deep/c", "left too")] {
            let got = dewar.get(&format!("/other/dir/{name}")).await.is(200);
            assert_eq!(got.text(), content, "{name}");
        }
    });
}

#[test]
fn a_copy_keeps_the_time_and_the_text_for_an_archive() {
    talk(async {
        let dewar = fixture().await;
        let archive = "eyJmaWxlIjoxfQ==";
        let put = dewar
            .owner("PUT", "/bucket/file")
            .header("x-oc-mtime", "1000000000")
            .header("archivemetadata", archive)
            .body(b"1");
        let answer = put.send().await.is(201);
        assert_eq!(answer.header("x-oc-mtime"), Some("accepted"));
        send(&dewar, "COPY", "/bucket/file", "/bucket/copy", "T")
            .await
            .is(201);
        send(&dewar, "MOVE", "/bucket/file", "/bucket/moved", "T")
            .await
            .is(201);
        for path in ["/bucket/copy", "/bucket/moved"] {
            let head = dewar.owner("HEAD", path).send().await.is(200);
            assert_eq!(head.header("archivemetadata"), Some(archive), "{path}");
            let found = dewar.owner("PROPFIND", path).header("depth", "0");
            let text = found.send().await.is(207).text();
            for part in [
                "<D:getlastmodified>Sun, 09 Sep 2001 01:46:40 GMT</D:getlastmodified>",
                "<dw:archivemetadata>eyJmaWxlIjoxfQ==</dw:archivemetadata>",
            ] {
                assert!(text.contains(part), "{path}: {text}");
            }
        }
        let other = dewar
            .owner("COPY", "/bucket/copy")
            .header("destination", "/bucket/other");
        other.header("archivemetadata", "e30=").send().await.is(201);
        let head = dewar.owner("HEAD", "/bucket/other").send().await.is(200);
        assert_eq!(head.header("archivemetadata"), Some("e30="));
        // New content has neither.
        dewar.put("/bucket/copy", b"2").await.is(200);
        let head = dewar.owner("HEAD", "/bucket/copy").send().await.is(200);
        assert_eq!(head.header("archivemetadata"), None);
        for (name, value) in [("x-oc-mtime", "soon"), ("archivemetadata", "{}")] {
            let put = dewar.owner("PUT", "/bucket/file").header(name, value);
            put.body(b"1").send().await.is(400);
        }
        dewar.get("/bucket/file").await.is(404);
    });
}

#[test]
fn a_directory_moves_to_another_quota_by_copies() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/limited/x", b"1").await.is(201);
        for name in ["a", "sub/b"] {
            dewar
                .put(&format!("/bucket/dir/{name}"), b"2")
                .await
                .is(201);
        }
        let bucket = BucketRef::own(BucketName::new("bucket").expect("a name"));
        let target = QuotaTarget::Directory(
            BucketRef {
                tenant: Some(TenantName::default()),
                ..bucket
            },
            ObjectKey::new("limited").expect("a key"),
        );
        let quota = Quota {
            max_bytes: Some(1000),
            ..Quota::default()
        };
        dewar.store.set_quota(&target, quota).await.expect("set");
        send(&dewar, "MOVE", "/bucket/dir", "/bucket/limited/dir", "F")
            .await
            .is(201);
        dewar.get("/bucket/limited/dir/sub/b").await.is(200);
        dewar.owner("HEAD", "/bucket/dir").send().await.is(404);
        let report = dewar.store.quota(&target).await.expect("counted");
        assert_eq!(report.usage.bytes, 3);
        // What contains a quota is not replaced in one step.
        dewar.put("/bucket/file", b"3").await.is(201);
        let refused = send(&dewar, "MOVE", "/bucket/file", "/bucket/limited", "T").await;
        let words = refused.is(403).text();
        assert!(words.contains("quota"), "{words}");
        dewar.get("/bucket/limited/x").await.is(200);
    });
}
