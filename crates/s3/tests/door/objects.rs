//! Objects: put, get, head, delete, copy, rename.

use crate::fixture::{fixture, talk};

/// More than a stripe, not a multiple of anything.
fn large() -> Vec<u8> {
    (0..700_001_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

#[test]
fn what_goes_in_comes_out() {
    talk(async {
        let client = fixture().await.owner;
        for (key, body) in [
            ("small", b"hello".to_vec()),
            ("empty", Vec::new()),
            ("large", large()),
            ("d/i/r/%C3%BC%20%2B%25", b"named".to_vec()),
            ("a//b", b"empty segment".to_vec()),
            ("d/i/r/", Vec::new()),
        ] {
            let path = format!("/bucket/{key}");
            let put = client
                .put(&path)
                .header("content-type", "application/x-root")
                .header("x-amz-meta-run", "42 ü")
                .header("cache-control", "no-store")
                .header("expires", "whenever")
                .body(&body)
                .send()
                .await
                .is(200);
            let etag = put.header("etag").expect("an ETag").to_owned();
            assert_eq!(put.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
            let crc = put
                .header("x-amz-checksum-crc64nvme")
                .expect("kept")
                .to_owned();
            let get = client
                .get(&path)
                .header("x-amz-checksum-mode", "ENABLED")
                .send()
                .await;
            let get = get.is(200);
            assert_eq!(get.body, body, "{key}");
            let head = client
                .head(&path)
                .header("x-amz-checksum-mode", "ENABLED")
                .send()
                .await;
            let head = head.is(200);
            assert!(head.body.is_empty());
            for reply in [&get, &head] {
                assert_eq!(reply.header("etag"), Some(&*etag));
                assert_eq!(reply.header("content-type"), Some("application/x-root"));
                assert_eq!(reply.header("cache-control"), Some("no-store"));
                assert_eq!(reply.header("expires"), Some("whenever"));
                assert_eq!(
                    reply.headers["x-amz-meta-run"].as_bytes(),
                    "42 ü".as_bytes()
                );
                assert_eq!(
                    reply.header("content-length"),
                    Some(&*body.len().to_string())
                );
                assert_eq!(reply.header("accept-ranges"), Some("bytes"));
                assert_eq!(reply.header("x-amz-checksum-crc64nvme"), Some(&*crc));
            }
            let plain = client.get(&path).send().await.is(200);
            assert_eq!(plain.header("x-amz-checksum-crc64nvme"), None);
            client.delete(&path).send().await.is(204);
            client.delete(&path).send().await.is(204);
            client
                .get(&path)
                .send()
                .await
                .refused_with(404, "NoSuchKey");
            assert!(client.head(&path).send().await.is(404).body.is_empty());
        }
    });
}

#[test]
fn an_etag_is_the_md5() {
    talk(async {
        let client = fixture().await.owner;
        let put = client.put("/bucket/k").body("hello").send().await.is(200);
        assert_eq!(
            put.header("etag"),
            Some("\"5d41402abc4b2a76b9719d911017c592\"")
        );
    });
}

#[test]
fn ranges_are_what_was_asked_for() {
    talk(async {
        let client = fixture().await.owner;
        let body = large();
        client.put("/bucket/k").body(&body).send().await.is(200);
        let size = body.len();
        for (range, from, to) in [
            ("bytes=0-0", 0, 1),
            ("bytes=100000-265000", 100_000, 265_001),
            ("bytes=699990-", 699_990, size),
            ("bytes=-5", size - 5, size),
            ("bytes=699999-99999999", 699_999, size),
        ] {
            let reply = client
                .get("/bucket/k")
                .header("range", range)
                .send()
                .await
                .is(206);
            assert_eq!(reply.body, body[from..to], "{range}");
            let shown = format!("bytes {from}-{}/{size}", to - 1);
            assert_eq!(reply.header("content-range"), Some(&*shown));
            let checked = client
                .get("/bucket/k")
                .header("range", range)
                .header("x-amz-checksum-mode", "ENABLED")
                .send()
                .await
                .is(206);
            assert_eq!(
                checked.header("x-amz-checksum-crc64nvme"),
                None,
                "of the whole only"
            );
            let head = client
                .head("/bucket/k")
                .header("range", range)
                .send()
                .await
                .is(206);
            assert_eq!(
                head.header("content-length"),
                Some(&*(to - from).to_string())
            );
        }
        let beyond = client
            .get("/bucket/k")
            .header("range", "bytes=700001-")
            .send()
            .await;
        let beyond = beyond.refused_with(416, "InvalidRange");
        assert_eq!(beyond.header("content-range"), Some("bytes */700001"));
        for ignored in ["bytes=5-1", "bytes=0-1,5-6", "lines=1-2"] {
            let reply = client
                .get("/bucket/k")
                .header("range", ignored)
                .send()
                .await
                .is(200);
            assert_eq!(reply.body.len(), size);
        }
        let part = client.get("/bucket/k?partNumber=1").send().await.is(206);
        assert_eq!(part.body.len(), size);
        client
            .get("/bucket/k?partNumber=2")
            .send()
            .await
            .refused_with(400, "InvalidPart");
        client
            .get("/bucket/k?partNumber=0")
            .send()
            .await
            .refused_with(400, "InvalidArgument");
    });
}

#[test]
fn a_range_of_what_the_client_does_not_hold_is_the_whole() {
    talk(async {
        let client = fixture().await.owner;
        let body = large();
        client.put("/bucket/k").body("older").send().await.is(200);
        let old = client.head("/bucket/k").send().await.is(200);
        client.put("/bucket/k").body(&body).send().await.is(200);
        let new = client.head("/bucket/k").send().await.is(200);
        let etag = new.header("etag").expect("an ETag");
        let modified = new.header("last-modified").expect("a date");
        let ask = |method, range: &str, held: &str| {
            let call = client.call(method, "/bucket/k").header("range", range);
            call.header("if-range", held)
        };
        for held in [etag, modified] {
            let get = ask("GET", "bytes=5-9", held).send().await.is(206);
            assert_eq!(get.body, body[5..10], "{held}");
            assert_eq!(get.header("content-range"), Some("bytes 5-9/700001"));
            ask("HEAD", "bytes=5-9", held).send().await.is(206);
            let beyond = ask("GET", "bytes=800000-", held).send().await;
            beyond.refused_with(416, "InvalidRange");
        }
        let old_etag = old.header("etag").expect("an ETag");
        let weak = format!("W/{etag}");
        for held in [
            old_etag,
            &weak,
            "*",
            "\"",
            "yesterday",
            // Neither older nor newer than what is there will do.
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 2094 08:49:37 GMT",
        ] {
            // A range that lies beyond the object does not count either.
            for range in ["bytes=5-9", "bytes=800000-"] {
                let get = ask("GET", range, held).send().await.is(200);
                assert_eq!(get.body, body, "{held}");
                assert_eq!(get.header("content-range"), None);
                let head = ask("HEAD", range, held).send().await.is(200);
                assert_eq!(head.header("content-length"), Some("700001"));
            }
        }
        // Without a range it means nothing.
        let plain = client.get("/bucket/k").header("if-range", old_etag);
        plain.send().await.is(200);
    });
}

#[test]
fn answers_can_be_given_other_headers() {
    talk(async {
        let client = fixture().await.owner;
        client.put("/bucket/k").body("x").send().await.is(200);
        let target = "/bucket/k?response-content-type=text%2Fcsv&\
                      response-content-disposition=attachment%3B%20filename%3D%22a.csv%22";
        let reply = client.get(target).send().await.is(200);
        assert_eq!(reply.header("content-type"), Some("text/csv"));
        let disposition = reply.header("content-disposition");
        assert_eq!(disposition, Some("attachment; filename=\"a.csv\""));
        let broken = client
            .get("/bucket/k?response-content-type=a%0D%0Ab")
            .send()
            .await;
        broken.refused_with(400, "InvalidArgument");
    });
}

#[test]
fn conditions_on_writes_hold() {
    talk(async {
        let client = fixture().await.owner;
        let k = "/bucket/k";
        client
            .put(k)
            .header("if-match", "\"x\"")
            .body("a")
            .send()
            .await
            .refused_with(404, "NoSuchKey");
        let put = client
            .put(k)
            .header("if-none-match", "*")
            .body("a")
            .send()
            .await
            .is(200);
        let etag = put.header("etag").expect("an ETag").to_owned();
        let again = client
            .put(k)
            .header("if-none-match", "*")
            .body("b")
            .send()
            .await;
        again.refused_with(412, "PreconditionFailed");
        let other = client
            .put(k)
            .header("if-match", "\"x\"")
            .body("b")
            .send()
            .await;
        other.refused_with(412, "PreconditionFailed");
        let same = client.put(k).header("if-none-match", &etag).body("b");
        let same = same.send().await;
        same.refused_with(412, "PreconditionFailed");
        let two = |name, list: &str| client.put(k).header(name, list).body("b");
        let list = format!("\"x\", {etag}");
        let listed = two("if-none-match", &list).send().await;
        listed.refused_with(412, "PreconditionFailed");
        let unlisted = two("if-match", "\"x\",\"y\"").send().await;
        unlisted.refused_with(412, "PreconditionFailed");
        client
            .put(k)
            .header("if-match", &etag)
            .body("c")
            .send()
            .await
            .is(200);
        let gone = client.delete(k).header("if-match", &etag).send().await;
        gone.refused_with(412, "PreconditionFailed");
        let size = |size| client.delete(k).header("x-amz-if-match-size", size);
        size("9")
            .send()
            .await
            .refused_with(412, "PreconditionFailed");
        size("1").send().await.is(204);
    });
}

#[test]
fn conditions_on_reads_hold() {
    talk(async {
        let client = fixture().await.owner;
        let k = "/bucket/k";
        let put = client.put(k).header("cache-control", "max-age=5").body("a");
        let put = put.header("expires", "tomorrow").send().await.is(200);
        let etag = put.header("etag").expect("an ETag").to_owned();
        client.get(k).header("if-match", &etag).send().await.is(200);
        let miss = client.get(k).header("if-match", "\"x\"").send().await;
        miss.refused_with(412, "PreconditionFailed");
        let same = client
            .get(k)
            .header("if-none-match", &etag)
            .send()
            .await
            .is(304);
        assert!(same.body.is_empty());
        assert_eq!(same.header("etag"), Some(&*etag));
        assert!(same.header("last-modified").is_some());
        assert_eq!(same.header("cache-control"), Some("max-age=5"));
        assert_eq!(same.header("expires"), Some("tomorrow"));
        client
            .head(k)
            .header("if-none-match", &format!("\"y\", {etag}"))
            .send()
            .await
            .is(304);
        let date = client
            .head(k)
            .send()
            .await
            .header("last-modified")
            .expect("a date")
            .to_owned();
        client
            .get(k)
            .header("if-modified-since", &date)
            .send()
            .await
            .is(304);
        // Forms that no client should send any more, and every server has to read.
        for old in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            let changed = client
                .get(k)
                .header("if-unmodified-since", old)
                .send()
                .await;
            changed.refused_with(412, "PreconditionFailed");
        }
        client
            .get(k)
            .header("if-unmodified-since", &date)
            .send()
            .await
            .is(200);
        let old = "Sat, 01 Jan 2000 00:00:00 GMT";
        client
            .get(k)
            .header("if-unmodified-since", old)
            .send()
            .await
            .is(412);
        client
            .get(k)
            .header("if-modified-since", old)
            .send()
            .await
            .is(200);
    });
}

#[test]
fn copies_share_or_replace_attributes() {
    talk(async {
        let client = fixture().await.owner;
        let body = large();
        let put = client
            .put("/bucket/source%20one")
            .header("content-type", "text/plain")
            .header("x-amz-meta-a", "1")
            .body(&body)
            .send()
            .await
            .is(200);
        let etag = put.header("etag").expect("an ETag").to_owned();
        let copy = |target: &str| {
            client
                .put(target)
                .header("x-amz-copy-source", "/bucket/source%20one")
        };
        let reply = copy("/bucket/kept").send().await.is(200);
        assert_eq!(
            reply
                .element("ETag")
                .expect("an ETag")
                .replace("&quot;", "\""),
            etag
        );
        let kept = client.get("/bucket/kept").send().await.is(200);
        assert_eq!(kept.body, body);
        assert_eq!(kept.header("x-amz-meta-a"), Some("1"));
        let replace = copy("/bucket/changed")
            .header("x-amz-metadata-directive", "REPLACE")
            .header("x-amz-meta-b", "2")
            .header("content-type", "text/csv");
        replace.send().await.is(200);
        let changed = client.head("/bucket/changed").send().await.is(200);
        assert_eq!(changed.header("x-amz-meta-a"), None);
        assert_eq!(changed.header("x-amz-meta-b"), Some("2"));
        assert_eq!(changed.header("content-type"), Some("text/csv"));
        let sha = copy("/bucket/hashed").header("x-amz-checksum-algorithm", "SHA256");
        let sha = sha.send().await.is(200);
        assert!(sha.element("ChecksumSHA256").is_some());

        copy("/bucket/source%20one")
            .send()
            .await
            .refused_with(400, "InvalidRequest");
        let itself = copy("/bucket/source%20one").header("x-amz-metadata-directive", "REPLACE");
        itself.send().await.is(200);
        let stale = copy("/bucket/x").header("x-amz-copy-source-if-match", "\"no\"");
        stale.send().await.refused_with(412, "PreconditionFailed");
        let same = copy("/bucket/x").header("x-amz-copy-source-if-none-match", &etag);
        same.send().await.refused_with(412, "PreconditionFailed");
        let none = client
            .put("/bucket/x")
            .header("x-amz-copy-source", "bucket/none");
        none.send().await.refused_with(404, "NoSuchKey");
        let broken = client
            .put("/bucket/x")
            .header("x-amz-copy-source", "bucket");
        broken.send().await.refused_with(400, "InvalidArgument");
    });
}

#[test]
fn renames_move_names_only() {
    talk(async {
        let client = fixture().await.owner;
        client.put("/bucket/dir/a").body("1").send().await.is(200);
        client.put("/bucket/dir/b").body("2").send().await.is(200);
        let rename = |to: &str, from: &str| {
            let target = format!("/bucket/{to}?renameObject");
            client.put(&target).header("x-amz-rename-source", from)
        };
        rename("dir/c", "/bucket/dir/a").send().await.is(200);
        client
            .get("/bucket/dir/a")
            .send()
            .await
            .refused_with(404, "NoSuchKey");
        assert_eq!(client.get("/bucket/dir/c").send().await.is(200).body, "1");
        let taken = rename("dir/b", "dir/c").header("if-none-match", "*");
        taken.send().await.refused_with(412, "PreconditionFailed");
        rename("moved/", "dir/").send().await.is(200);
        assert_eq!(client.get("/bucket/moved/b").send().await.is(200).body, "2");
        rename("x", "none")
            .send()
            .await
            .refused_with(404, "NoSuchKey");
        client
            .put("/bucket/x?renameObject")
            .send()
            .await
            .refused_with(400, "InvalidRequest");
    });
}

#[test]
fn renames_are_judged_by_all_their_conditions() {
    talk(async {
        let client = fixture().await.owner;
        const PAST: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const FUTURE: &str = "Sun, 06 Nov 2094 08:49:37 GMT";
        let put = |key: &'static str, body: &'static str| {
            client.put(&format!("/bucket/{key}")).body(body).send()
        };
        let etag = put("a", "1").await.is(200);
        let etag = etag.header("etag").expect("an ETag").to_owned();
        put("there", "2").await.is(200);
        let rename = |to: &str, headers: &[(&str, &str)]| {
            let call = client.put(&format!("/bucket/{to}?renameObject"));
            let call = call.header("x-amz-rename-source", "a");
            let pairs = headers.iter();
            pairs.fold(call, |call, (name, value)| call.header(name, value))
        };
        let source = |name: &str| format!("x-amz-rename-source-if-{name}");
        for (name, value) in [
            (&*source("match"), "\"other\""),
            (&*source("none-match"), &*etag),
            (&*source("none-match"), "*"),
            (&*source("modified-since"), FUTURE),
            (&*source("unmodified-since"), PAST),
            ("if-match", "\"other\""),
            ("if-none-match", "*"),
            ("if-modified-since", FUTURE),
            ("if-unmodified-since", PAST),
        ] {
            let refused = rename("there", &[(name, value)]).send().await;
            refused.refused_with(412, "PreconditionFailed");
        }
        // Of a target that must be there and is not.
        for (name, value) in [
            ("if-match", "*"),
            ("if-modified-since", PAST),
            ("if-unmodified-since", FUTURE),
        ] {
            let refused = rename("free", &[(name, value)]).send().await;
            refused.refused_with(404, "NoSuchKey");
        }
        for name in [&source("modified-since"), "if-unmodified-since"] {
            let refused = rename("there", &[(name, "yesterday")]).send().await;
            refused.refused_with(400, "InvalidArgument");
        }
        assert_eq!(client.get("/bucket/a").send().await.is(200).body, "1");
        assert_eq!(client.get("/bucket/there").send().await.is(200).body, "2");
        let all = [
            (&*source("match"), &*etag),
            // An ETag takes the place of a date.
            (&*source("unmodified-since"), PAST),
            (&*source("modified-since"), PAST),
            ("if-none-match", "\"other\""),
            ("if-modified-since", FUTURE),
            ("if-unmodified-since", FUTURE),
        ];
        rename("there", &all).send().await.is(200);
        assert_eq!(client.get("/bucket/there").send().await.is(200).body, "1");
        // A directory has nothing that could be judged, but may ask for a free name.
        put("d/x", "3").await.is(200);
        let directory = |name: &str, value: &str| {
            let call = client.put("/bucket/e/?renameObject");
            call.header("x-amz-rename-source", "d/").header(name, value)
        };
        for (name, value) in [(&*source("modified-since"), PAST), ("if-match", "*")] {
            let refused = directory(name, value).send().await;
            refused.refused_with(412, "PreconditionFailed");
        }
        directory("if-none-match", "*").send().await.is(200);
        assert_eq!(client.get("/bucket/e/x").send().await.is(200).body, "3");
    });
}

#[test]
fn many_are_deleted_at_once() {
    talk(async {
        let client = fixture().await.owner;
        for key in ["a", "b", "c%26d"] {
            client
                .put(&format!("/bucket/{key}"))
                .body("x")
                .send()
                .await
                .is(200);
        }
        let xml = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>a</Key>\
                   </Object><Object><Key>c&amp;d</Key></Object><Object><Key>none</Key></Object>\
                   <Object><Key>b</Key><ETag>\"wrong\"</ETag></Object><Object><Key>b</Key>\
                   <VersionId>v1</VersionId></Object></Delete>";
        let reply = client.post("/bucket?delete").body(xml).send().await.is(200);
        let deleted: Vec<_> = reply.elements("Deleted");
        assert_eq!(deleted.len(), 3, "{}", reply.text());
        assert_eq!(reply.elements("Error").len(), 2);
        let codes = reply.elements("Code");
        assert!(
            codes.contains(&"PreconditionFailed".to_owned()),
            "{codes:?}"
        );
        assert!(codes.contains(&"NoSuchVersion".to_owned()), "{codes:?}");
        client.head("/bucket/b").send().await.is(200);
        client.head("/bucket/a").send().await.is(404);
        let quiet = "<Delete><Object><Key>b</Key></Object><Quiet>true</Quiet></Delete>";
        let reply = client
            .post("/bucket?delete")
            .body(quiet)
            .send()
            .await
            .is(200);
        assert!(reply.elements("Deleted").is_empty());
        client.head("/bucket/b").send().await.is(404);

        let call = |body: &str| client.post("/bucket?delete").body(body);
        call("<Delete></Delete>")
            .send()
            .await
            .refused_with(400, "MalformedXML");
        call("<Delete><Object>")
            .send()
            .await
            .refused_with(400, "MalformedXML");
        call("").send().await.refused_with(400, "MalformedXML");
        let unsigned = call(quiet).header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        unsigned.send().await.refused_with(400, "InvalidRequest");
        let wrong = call(quiet).header("x-amz-checksum-crc32", "AAAAAA==");
        wrong.send().await.refused_with(400, "BadDigest");
        let many: String = (0..1001)
            .map(|n| format!("<Object><Key>{n}</Key></Object>"))
            .collect();
        call(&format!("<Delete>{many}</Delete>"))
            .send()
            .await
            .refused_with(400, "MalformedXML");
    });
}

#[test]
fn a_presigned_url_is_enough() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        client
            .put("/bucket/k")
            .without("content-length")
            .presigned(60)
            .body("via URL")
            .send_unsigned()
            .await
            .is(200);
        let reply = client
            .get("/bucket/k")
            .presigned(60)
            .send_unsigned()
            .await
            .is(200);
        assert_eq!(reply.body, "via URL");
        let other = client.get("/bucket/k").presigned(60);
        let other = other.header("x-amz-acl", "private").send_unsigned().await;
        other.refused_with(403, "AccessDenied");
        let stranger = fixture
            .stranger
            .get("/bucket/k")
            .presigned(60)
            .send_unsigned()
            .await;
        stranger.refused_with(403, "AccessDenied");
        // Some signers put x-amz- headers into the query string.
        let target = "/bucket/k?x-amz-meta-a=1";
        client
            .put(target)
            .without("content-length")
            .presigned(60)
            .body("again")
            .send_unsigned()
            .await
            .is(200);
        assert_eq!(
            client.head("/bucket/k").send().await.header("x-amz-meta-a"),
            Some("1")
        );
    });
}

#[test]
fn what_cannot_be_read_is_said_and_never_cut_short() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        client.put("/bucket/k").body(large()).send().await.is(200);
        fixture.lose_disks(2);
        assert!(client.get("/bucket/k").send().await.is(200).body == large());
        fixture.lose_disks(3);
        let reply = client.get("/bucket/k").send().await;
        let reply = reply.refused_with(503, "ServiceUnavailable");
        assert!(reply.header("retry-after").is_some());
        fixture.lose_disks(4);
        let put = client.put("/bucket/new").body(large()).send().await;
        put.refused_with(503, "ServiceUnavailable");
        fixture.lose_disks(0);
        assert!(client.get("/bucket/k").send().await.is(200).body == large());
        client.head("/bucket/new").send().await.is(404);
    });
}

/// What boto3 makes unless it is told to use V4.
#[test]
fn presigned_urls_of_version_2_are_taken() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        client.put("/bucket/k").body("old").send().await.is(200);
        let expires = client.date().secs() + 60;
        let url = |method: &str, path: &str, query: &str| {
            let text = format!("{method}\n\n\n{expires}\n{path}{query}");
            let signature = client.sign_v2(&text);
            let joint = if query.is_empty() { '?' } else { '&' };
            format!(
                "{path}{query}{joint}AWSAccessKeyId={}&Signature={signature}&Expires={expires}",
                client.access_key()
            )
        };
        let get = url("GET", "/bucket/k", "");
        let reply = fixture.nobody.get(&get).send_unsigned().await.is(200);
        assert_eq!(reply.body, "old");
        let typed = url("GET", "/bucket/k", "?response-content-type=a/b");
        let reply = fixture.nobody.get(&typed).send_unsigned().await.is(200);
        assert_eq!(reply.header("content-type"), Some("a/b"));
        let put = url("PUT", "/bucket/k", "");
        let reply = fixture.nobody.put(&put).body("new").send_unsigned().await;
        reply.is(200);

        for slash in ["", "/"] {
            let text = format!("GET\n\n\n{expires}\n/bucket{slash}");
            let list = format!(
                "/bucket?prefix=k&AWSAccessKeyId={}&Signature={}&Expires={expires}",
                client.access_key(),
                client.sign_v2(&text)
            );
            let reply = fixture.nobody.get(&list).send_unsigned().await.is(200);
            assert_eq!(reply.elements("Key"), ["k"]);
        }

        let other = fixture.nobody.delete(&get).send_unsigned().await;
        other.refused_with(403, "SignatureDoesNotMatch");
        let more = fixture.nobody.get(&format!("{get}&attributes"));
        more.send_unsigned().await.refused_with(403, "AccessDenied");
        let more = fixture.nobody.get(&format!("{get}&acl"));
        more.send_unsigned()
            .await
            .refused_with(403, "SignatureDoesNotMatch");
        let acl = fixture
            .nobody
            .put(&put)
            .header("x-amz-meta-a", "1")
            .body("x");
        acl.send_unsigned()
            .await
            .refused_with(403, "SignatureDoesNotMatch");
    });
}

#[test]
fn headers_of_version_2_are_taken() {
    talk(async {
        let fixture = fixture().await;
        let (client, nobody) = (&fixture.owner, &fixture.nobody);
        let http_date = |secs: u64| {
            let when = time::OffsetDateTime::from_unix_timestamp(secs.cast_signed());
            let format = time::format_description::well_known::Rfc2822;
            when.expect("a time").format(&format).expect("a date")
        };
        let now = http_date(client.date().secs());
        let signed = |text: &str| {
            let signature = client.signature_v2(text);
            format!("AWS {}:{signature}", client.access_key())
        };
        let put = nobody
            .put("/bucket/k")
            .header("date", &now)
            .header("content-type", "a/b")
            .header("x-amz-meta-a", "1")
            .body("old");
        let authorization = signed(&format!("PUT\n\na/b\n{now}\nx-amz-meta-a:1\n/bucket/k"));
        let put = put.header("authorization", &authorization);
        put.send_unsigned().await.is(200);
        let get = |more: &str| {
            let authorization = signed(&format!("GET\n\n\n{now}\n/bucket/k{more}"));
            let get = nobody.get(&format!("/bucket/k{more}"));
            get.header("date", &now)
                .header("authorization", &authorization)
        };
        let reply = get("").send_unsigned().await.is(200);
        assert_eq!(reply.body, "old");
        assert_eq!(reply.header("x-amz-meta-a"), Some("1"));
        get("?acl").send_unsigned().await.is(200);
        // With x-amz-date, the line of the date is empty.
        let text = format!("GET\n\n\n\nx-amz-date:{now}\n/bucket/?location");
        let location = nobody.get("/bucket?location").header("x-amz-date", &now);
        let location = location.header("authorization", &signed(&text));
        location.send_unsigned().await.is(200);

        let other = signed("GET\n\n\nnow\n/bucket/k");
        for (name, value) in [
            ("x-amz-meta-a", "1"),
            ("content-type", "a/b"),
            ("authorization", other.as_str()),
        ] {
            let reply = get("").header(name, value).send_unsigned().await;
            reply.refused_with(403, "SignatureDoesNotMatch");
        }
        // What it does not sign is not taken from it.
        get("?attributes")
            .send_unsigned()
            .await
            .refused_with(403, "AccessDenied");
        for (date, code) in [
            ("Bad Date", "AccessDenied"),
            ("", "AccessDenied"),
            ("Tue, 07 Jul 1950 21:53:04 GMT", "AccessDenied"),
            ("Tue, 07 Jul 2010 21:53:04 GMT", "RequestTimeTooSkewed"),
            ("Tue, 07 Jul 9999 21:53:04 GMT", "RequestTimeTooSkewed"),
        ] {
            let get = get("").header("x-amz-date", date);
            get.send_unsigned().await.refused_with(403, code);
        }
        let late = get("").without("date");
        late.send_unsigned().await.refused_with(403, "AccessDenied");
        for (authorization, status, code) in [
            ("AWS HAHAHA", 400, "InvalidArgument"),
            ("AWS", 400, "InvalidArgument"),
            ("AWS NOBODY:c2ln", 403, "InvalidAccessKeyId"),
        ] {
            let get = get("").header("authorization", authorization);
            get.send_unsigned().await.refused_with(status, code);
        }
        // Calls that are bodies are not signed by it at all.
        let call = nobody.post("/").body("Action=ListUsers&Version=2010-05-08");
        let call = call
            .header("content-type", "application/x-www-form-urlencoded")
            .header("date", &now);
        let authorization = signed(&format!(
            "POST\n\napplication/x-www-form-urlencoded\n{now}\n/"
        ));
        let call = call.header("authorization", &authorization);
        assert_ne!(call.send_unsigned().await.status, 200);
    });
}

#[test]
fn an_object_without_an_online_copy_is_to_be_asked_for_again_later() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        client.put("/bucket/k").body("on tape").send().await.is(200);
        fixture.recall_is_needed("k").await;
        let get = client.get("/bucket/k").send().await;
        let get = get.refused_with(503, "ServiceUnavailable");
        assert_eq!(get.header("retry-after"), Some("60"));
        // A copy in the same pool is another name of the same bytes.
        let copy = client
            .put("/bucket/copy")
            .header("x-amz-copy-source", "/bucket/k");
        copy.send().await.is(200);
        let get = client.get("/bucket/copy").send().await;
        get.refused_with(503, "ServiceUnavailable");
        let head = client.head("/bucket/k").send().await.is(200);
        assert_eq!(head.header("content-length"), Some("7"));
    });
}
