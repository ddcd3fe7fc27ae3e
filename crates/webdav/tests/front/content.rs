//! GET, HEAD, PUT, DELETE and MKCOL.

use bytes::Bytes;
use dewar_webdav::WebDavConfig;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};

use crate::fixture::{fixture, fixture_with, talk};

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n % 251) as u8).collect()
}

#[test]
fn a_file_is_written_read_replaced_and_removed() {
    talk(async {
        let dewar = fixture().await;
        let large = bytes(3 << 20);
        // Missing parents are made.
        let made = dewar.put("/bucket/a/b%20c/file", &large).await.is(201);
        let etag = made.header("etag").expect("an ETag").to_owned();
        let got = dewar.get("//bucket/./a/b%20c//file").await.is(200);
        assert_eq!(got.body, large);
        assert_eq!(got.header("etag"), Some(&etag[..]));
        assert_eq!(got.header("content-length"), Some("3145728"));
        assert_eq!(got.header("content-type"), Some("application/octet-stream"));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert!(
            got.header("content-security-policy")
                .expect("one")
                .contains("sandbox")
        );
        let kind = dewar.owner("PUT", "/bucket/a/b%20c/file");
        let kind = kind.header("content-type", "text/plain").body(b"new");
        kind.send().await.is(200);
        let head = dewar
            .owner("HEAD", "/bucket/a/b%20c/file")
            .send()
            .await
            .is(200);
        assert_eq!(head.header("content-length"), Some("3"));
        assert_eq!(head.header("content-type"), Some("text/plain"));
        assert!(head.body.is_empty());
        dewar
            .owner("DELETE", "/bucket/a/b%20c/file")
            .send()
            .await
            .is(204);
        dewar.get("/bucket/a/b%20c/file").await.is(404);
        dewar
            .owner("DELETE", "/bucket/a/b%20c/file")
            .send()
            .await
            .is(404);
    });
}

#[test]
fn empty_files_and_odd_names_are_files() {
    talk(async {
        let dewar = fixture().await;
        let long = format!("/bucket/{}", "k".repeat(1024));
        for path in [
            "/bucket/%25%2B%23%3A%20%C3%BC",
            "/bucket/a+b:c",
            long.as_str(),
        ] {
            dewar.put(path, b"").await.is(201);
            let got = dewar.get(path).await.is(200);
            assert_eq!(
                (got.body.len(), got.header("content-length")),
                (0, Some("0")),
                "{path}"
            );
        }
        let listed = dewar
            .owner("PROPFIND", "/bucket")
            .header("depth", "1")
            .send()
            .await
            .is(207);
        let hrefs = listed.hrefs();
        assert!(
            hrefs.contains(&"/bucket/%25+%23:%20%C3%BC".to_owned()),
            "{hrefs:?}"
        );
        assert!(hrefs.contains(&"/bucket/a+b:c".to_owned()), "{hrefs:?}");
        dewar.put(&format!("{long}k"), b"").await.is(400);
    });
}

#[test]
fn what_cannot_be_written_is_refused_before_the_body_is_read() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"x").await.is(201);
        dewar.owner("MKCOL", "/bucket/dir").send().await.is(201);
        // A body that is read panics, and with it the test.
        let put = |path: &str| {
            let body = stream::poll_fn(|_| panic!("the body was read"));
            let body = StreamBody::new(body).boxed();
            dewar
                .owner("PUT", path)
                .header("expect", "100-continue")
                .header("content-length", "5")
                .wire(body)
        };
        put("/absent/file").send().await.is(404);
        put("/bucket/dir").send().await.is(409);
        put("/bucket/new/").send().await.is(409);
        put("/bucket").send().await.is(409);
        put("/bucket/file/below").send().await.is(409);
        put("/bucket/file")
            .header("if-none-match", "*")
            .send()
            .await
            .is(412);
        put("/bucket/new")
            .header("if-match", "*")
            .send()
            .await
            .is(412);
        put("/bucket/file")
            .header("if-match", "\"other\"")
            .send()
            .await
            .is(412);
        put("/bucket/file")
            .header("content-range", "bytes 0-4/10")
            .send()
            .await
            .is(400);
        put("/bucket/file")
            .header("digest", "adler32=xyz")
            .send()
            .await
            .is(400);
        let huge = dewar
            .owner("PUT", "/bucket/file")
            .header("expect", "100-continue");
        huge.header("content-length", &(6u64 << 40).to_string())
            .send()
            .await
            .is(413);
        assert_eq!(&dewar.get("/bucket/file").await.body[..], b"x");
    });
}

#[test]
fn a_body_must_have_its_length_and_its_digests() {
    talk(async {
        let dewar = fixture().await;
        let short = dewar
            .owner("PUT", "/bucket/file")
            .header("content-length", "5");
        let one = stream::iter([Ok(http_body::Frame::data(Bytes::from_static(b"abc")))]);
        let short = short.wire(StreamBody::new(one).boxed());
        short.send().await.is(400);
        dewar.get("/bucket/file").await.is(404);
        let put = |name, value| {
            dewar
                .owner("PUT", "/bucket/file")
                .header(name, value)
                .body(b"abc")
                .send()
        };
        put("digest", "adler32=00000000").await.is(412);
        put("repr-digest", "adler=:AAAAAA==:").await.is(412);
        put("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==").await.is(412);
        put(
            "oc-checksum",
            "SHA1:0000000000000000000000000000000000000000",
        )
        .await
        .is(412);
        dewar.get("/bucket/file").await.is(404);
        put("digest", "adler32=024d0127").await.is(201);
        put("repr-digest", "adler32=:Ak0BJw==:").await.is(200);
        put("content-md5", "kAFQmDzST7DWlj99KOF/cg==").await.is(200);
        put(
            "oc-checksum",
            "SHA1:a9993e364706816aba3e25717850c26c9cd0d89d",
        )
        .await
        .is(200);
        // rclone compares the MD5 with servers of this kind, although it sent another digest.
        let listed = dewar.owner("PROPFIND", "/bucket/file").header("depth", "0");
        let listed = listed.send().await.is(207).text();
        let shown = "SHA1:a9993e364706816aba3e25717850c26c9cd0d89d \
                     MD5:900150983cd24fb0d6963f7d28e17f72 ADLER32:024d0127";
        assert!(listed.contains(shown), "{listed}");
        let asked = put("want-digest", "md5").await.is(200);
        assert_eq!(asked.header("digest"), Some("md5=kAFQmDzST7DWlj99KOF/cg=="));
        let chunked = dewar
            .owner("PUT", "/bucket/chunked")
            .header("transfer-encoding", "chunked");
        let two =
            stream::iter([&b"ab"[..], b"c"].map(|part| Ok(http_body::Frame::data(part.into()))));
        chunked
            .wire(StreamBody::new(two).boxed())
            .send()
            .await
            .is(201);
        let head = |name, value| {
            dewar
                .owner("HEAD", "/bucket/chunked")
                .header(name, value)
                .send()
        };
        let found = head("want-digest", "ADLER32").await.is(200);
        assert_eq!(found.header("digest"), Some("adler32=024d0127"));
        let found = head("want-repr-digest", "adler=9").await.is(200);
        assert_eq!(found.header("repr-digest"), Some("adler=:Ak0BJw==:"));
        // One that the version lacks is computed.
        let found = head("want-digest", "sha-256").await.is(200);
        let sha = "sha-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
        assert_eq!(found.header("digest"), Some(sha));
        assert_eq!(
            head("want-digest", "unknown")
                .await
                .is(200)
                .header("digest"),
            None
        );
    });
}

#[test]
fn one_range_is_a_part_and_many_are_a_multipart() {
    talk(async {
        let dewar = fixture().await;
        let content = bytes(2 << 20);
        dewar.put("/bucket/file", &content).await.is(201);
        let get = |ranges: &str| {
            dewar
                .owner("GET", "/bucket/file")
                .header("range", ranges)
                .send()
        };
        let part = get("bytes=1000-1999").await.is(206);
        assert_eq!(part.body, content[1000..2000]);
        assert_eq!(
            part.header("content-range"),
            Some("bytes 1000-1999/2097152")
        );
        assert_eq!(
            get("bytes=-10").await.is(206).body,
            content[content.len() - 10..]
        );
        let outside = get("bytes=3000000-").await.is(416);
        assert_eq!(outside.header("content-range"), Some("bytes */2097152"));
        get("bytes=3000000-3000001,4000000-").await.is(416);

        // As many as davix sends, out of order, one of them larger than a piece.
        let mut ranges: Vec<(usize, usize)> =
            (0..1200).map(|n| (n * 1700, n * 1700 + 99)).collect();
        ranges.reverse();
        ranges.push((2_050_000, 2_090_000));
        let spec: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        let several = get(&format!("bytes={}", spec.join(","))).await.is(206);
        let kind = several.header("content-type").expect("a type");
        let boundary = kind
            .strip_prefix("multipart/byteranges; boundary=")
            .expect("a boundary");
        let length = several.header("content-length").map(str::to_owned);
        assert_eq!(length, Some(several.body.len().to_string()));
        assert_eq!(parts(&several.body, boundary), ranges_of(&content, &ranges));

        // Overlaps are merged, so that no request gets more than the file.
        let overlaps = get("bytes=0-,0-,5-9").await.is(206);
        assert!(overlaps.body.len() < content.len() + 500);
        let if_range = dewar
            .owner("GET", "/bucket/file")
            .header("range", "bytes=0-1,5-6");
        let whole = if_range
            .header("if-range", "\"other\"")
            .send()
            .await
            .is(200);
        assert_eq!(whole.body.len(), content.len());
        let outside = get("lines=1-2").await.is(200);
        assert_eq!(outside.body.len(), content.len());
    });
}

/// The heads of the parts, and their bytes.
fn parts(body: &[u8], boundary: &str) -> Vec<(String, Vec<u8>)> {
    let mark = format!("--{boundary}");
    let mut rest = body.strip_prefix(mark.as_bytes()).expect("begins with it");
    let mut found = Vec::new();
    loop {
        if rest == b"--\r\n" {
            return found;
        }
        let end = rest
            .windows(4)
            .position(|at| at == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8(rest[..end].to_vec()).expect("text");
        let (_, range) = head.split_once("Content-Range: bytes ").expect("a range");
        let (range, _) = range.split_once('/').expect("a size");
        let (first, last) = range.split_once('-').expect("two ends");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        let length = number(last) + 1 - number(first);
        let (bytes, after) = rest[end + 4..].split_at(length);
        found.push((range.to_owned(), bytes.to_vec()));
        rest = after
            .strip_prefix(format!("\r\n{mark}").as_bytes())
            .expect("the next");
    }
}

fn ranges_of(content: &[u8], ranges: &[(usize, usize)]) -> Vec<(String, Vec<u8>)> {
    let part = |(first, last): &(usize, usize)| {
        (format!("{first}-{last}"), content[*first..=*last].to_vec())
    };
    ranges.iter().map(part).collect()
}

#[test]
fn conditions_of_reads_hold_or_not() {
    talk(async {
        let dewar = fixture().await;
        let made = dewar.put("/bucket/file", b"abc").await.is(201);
        let etag = made.header("etag").expect("an ETag").to_owned();
        let get = |name: &str, value: &str| {
            dewar
                .owner("GET", "/bucket/file")
                .header(name, value)
                .send()
        };
        let same = get("if-none-match", &etag).await.is(304);
        assert_eq!(same.header("etag"), Some(&etag[..]));
        assert!(same.body.is_empty());
        get("if-match", "\"other\"").await.is(412);
        get("if-match", &etag).await.is(200);
    });
}

#[test]
fn collections_are_made_one_by_one() {
    talk(async {
        let dewar = fixture().await;
        let make = |path: &str| dewar.owner("MKCOL", path).send();
        make("/bucket/dir/").await.is(201);
        make("/bucket/dir").await.is(405);
        make("/bucket/absent/dir").await.is(409);
        make("/absent/dir").await.is(409);
        make("/bucket").await.is(405);
        make("/").await.is(405);
        dewar.put("/bucket/file", b"x").await.is(201);
        make("/bucket/file").await.is(405);
        make("/bucket/file/dir").await.is(409);
        dewar
            .owner("MKCOL", "/bucket/other")
            .body(b"x")
            .send()
            .await
            .is(415);
        dewar.owner("HEAD", "/bucket/dir").send().await.is(200);
        dewar.owner("HEAD", "/bucket").send().await.is(200);
        dewar.owner("HEAD", "/").send().await.is(200);
        make("/second").await.is(201);
        dewar.owner("DELETE", "/second").send().await.is(204);
    });
}

#[test]
fn directories_are_removed_with_their_content_unless_that_is_off() {
    talk(async {
        let dewar = fixture().await;
        for n in 0..250 {
            dewar
                .put(&format!("/bucket/dir/sub{}/{n}", n % 3), b"x")
                .await
                .is(201);
        }
        dewar
            .owner("MKCOL", "/bucket/dir/empty")
            .send()
            .await
            .is(201);
        dewar.owner("DELETE", "/bucket").send().await.is(409);
        dewar.owner("DELETE", "/bucket/dir/").send().await.is(204);
        dewar.owner("HEAD", "/bucket/dir").send().await.is(404);
        dewar.owner("DELETE", "/").send().await.is(403);
        let config = WebDavConfig {
            recursive_delete: false,
            ..WebDavConfig::default()
        };
        let dewar = fixture_with(config).await;
        dewar.owner("MKCOL", "/bucket/dir").send().await.is(201);
        dewar.put("/bucket/dir/file", b"x").await.is(201);
        dewar.owner("DELETE", "/bucket/dir").send().await.is(409);
        dewar
            .owner("DELETE", "/bucket/dir/file")
            .send()
            .await
            .is(204);
        dewar.owner("DELETE", "/bucket/dir").send().await.is(204);
    });
}

#[test]
fn a_delete_has_conditions_too() {
    talk(async {
        let dewar = fixture().await;
        let made = dewar.put("/bucket/file", b"abc").await.is(201);
        let etag = made.header("etag").expect("an ETag").to_owned();
        let remove = |etag: &str| {
            dewar
                .owner("DELETE", "/bucket/file")
                .header("if-match", etag)
                .send()
        };
        remove("\"other\"").await.is(412);
        remove(&etag).await.is(204);
    });
}

#[test]
fn a_directory_is_a_page_for_people() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/%3Cscript%3E", b"x").await.is(201);
        let slash = dewar.get("/bucket").await.is(301);
        assert_eq!(slash.header("location"), Some("/bucket/"));
        let slash = dewar.get("//bucket?after=a").await.is(301);
        assert_eq!(slash.header("location"), Some("/bucket/?after=a"));
        let page = dewar.get("/bucket/").await.is(200);
        assert_eq!(
            page.header("content-type"),
            Some("text/html; charset=utf-8")
        );
        let text = page.text();
        assert!(
            text.contains("<a href=\"/bucket/%3Cscript%3E\">&lt;script&gt;</a>"),
            "{text}"
        );
        let root = dewar.get("/").await.is(200);
        assert!(
            root.text().contains("<a href=\"/bucket/\">bucket/</a>"),
            "{}",
            root.text()
        );
    });
}

#[test]
fn missing_disks_are_an_error_with_a_code() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", &bytes(1 << 20)).await.is(201);
        dewar.lose_disks(3);
        for ranges in ["bytes=0-", "bytes=0-299999,400000-900000"] {
            let get = dewar.owner("GET", "/bucket/file").header("range", ranges);
            let refused = get.send().await.is(503);
            assert!(refused.header("retry-after").is_some());
        }
    });
}

#[test]
fn conditions_take_lists_and_weak_tags() {
    talk(async {
        let dewar = fixture().await;
        let put = dewar.put("/bucket/file", b"1").await.is(201);
        let etag = put.header("etag").expect("an ETag").to_owned();
        let put = |name: &str, value: &str| {
            let request = dewar.owner("PUT", "/bucket/file").header(name, value);
            request.body(b"1").send()
        };
        put("if-match", "\"x\", \"y\"").await.is(412);
        put("if-match", &format!("W/{etag}")).await.is(412);
        put("if-none-match", &format!("\"x\", W/{etag}"))
            .await
            .is(412);
        put("if-none-match", "\"x\", \"y\"").await.is(200);
        let head = dewar.owner("HEAD", "/bucket/file").send().await.is(200);
        let etag = head.header("etag").expect("an ETag").to_owned();
        put("if-match", &format!("\"x\", {etag}")).await.is(200);
        let delete = dewar.owner("DELETE", "/bucket/file");
        delete
            .header("if-match", "\"x\", \"y\"")
            .send()
            .await
            .is(412);
        let get = dewar.owner("GET", "/bucket/file");
        let get = get.header("if-match", "W/\"x\", *").send().await;
        get.is(200);
    });
}

#[test]
fn a_get_sends_the_preferred_digest_that_is_known() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"123").await.is(201);
        let get = |value: &str, range: &str| {
            let request = dewar.owner("GET", "/bucket/file");
            let request = request.header("want-digest", value).header("range", range);
            request.send()
        };
        let answer = get("sha-512, adler32;q=0.5", "bytes=0-").await.is(206);
        assert_eq!(answer.header("digest"), Some("adler32=012d0097"));
        let answer = get("sha-512", "bytes=0-0,2-2").await.is(206);
        assert_eq!(answer.header("digest"), None);
        // A HEAD computes it, and then a GET knows it.
        let head = dewar
            .owner("HEAD", "/bucket/file")
            .header("want-digest", "sha-512");
        let head = head.send().await.is(200);
        let digest = head.header("digest").expect("computed").to_owned();
        let answer = get("sha-512, adler32;q=0.5", "bytes=0-").await.is(206);
        assert_eq!(answer.header("digest"), Some(digest.as_str()));
    });
}

#[test]
fn the_heads_of_many_ranges_are_small() {
    talk(async {
        let dewar = fixture().await;
        let kind = format!("text/{}", "x".repeat(2000));
        let put = dewar
            .owner("PUT", "/bucket/file")
            .header("content-type", &kind);
        put.body(&[7; 1000]).send().await.is(201);
        let ranges: Vec<String> = (0..100).map(|at| format!("{0}-{0}", at * 10)).collect();
        let get = dewar
            .owner("GET", "/bucket/file")
            .header("range", &format!("bytes={}", ranges.join(",")));
        let answer = get.send().await.is(206);
        assert!(answer.body.len() < 100 * 300, "{}", answer.body.len());
    });
}
