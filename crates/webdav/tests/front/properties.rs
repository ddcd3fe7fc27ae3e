//! PROPFIND and PROPPATCH.

use dewar_webdav::WebDavConfig;

use crate::fixture::{Fixture, TestResponse, fixture, fixture_with, talk};

async fn find(dewar: &Fixture, path: &str, depth: &str, body: &str) -> TestResponse {
    let request = dewar.owner("PROPFIND", path).header("depth", depth);
    request.body(body.as_bytes()).send().await
}

fn named(names: &str) -> String {
    format!("<D:propfind xmlns:D=\"DAV:\"><D:prop>{names}</D:prop></D:propfind>")
}

async fn patch(dewar: &Fixture, path: &str, changes: &str) -> TestResponse {
    let body = format!(
        "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:x=\"urn:x\">{changes}</D:propertyupdate>"
    );
    dewar
        .owner("PROPPATCH", path)
        .body(body.as_bytes())
        .send()
        .await
}

#[test]
fn exactly_the_asked_properties_come() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"abc").await.is(201);
        let asked =
            named("<D:getcontentlength/><D:resourcetype/><D:displayname/><x xmlns=\"urn:x\"/>");
        let answer = find(&dewar, "/bucket/file", "0", &asked).await.is(207);
        let expected = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
            <D:multistatus xmlns:D=\"DAV:\" xmlns:oc=\"http://owncloud.org/ns\" xmlns:dw=\"urn:dewar:webdav\">\n\
            <D:response><D:href>/bucket/file</D:href><D:propstat><D:prop>\
            <D:getcontentlength>3</D:getcontentlength><D:resourcetype/>\
            <D:displayname>file</D:displayname></D:prop>\
            <D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
            <D:propstat><D:prop><x xmlns=\"urn:x\"/></D:prop>\
            <D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>\n\
            </D:multistatus>\n";
        assert_eq!(answer.text(), expected);
        assert_eq!(
            answer.header("content-type"),
            Some("application/xml; charset=utf-8")
        );
        let answer = find(&dewar, "/bucket/file", "0", "").await.is(207);
        let text = answer.text();
        for part in [
            "<D:getcontenttype>application/octet-stream</D:getcontenttype>",
            "<D:getetag>&quot;",
            "<D:iscollection>0</D:iscollection>",
            "ADLER32:024d0127",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("quota") && !text.contains("404"), "{text}");
    });
}

#[test]
fn directories_list_their_names() {
    talk(async {
        let dewar = fixture().await;
        for name in ["a/x", "b", "c%20d", "e&f"] {
            dewar
                .put(&format!("/bucket/dir/{name}"), b"1")
                .await
                .is(201);
        }
        let resource = named("<D:resourcetype/>");
        let listed = find(&dewar, "/bucket/dir", "1", &resource).await.is(207);
        let expected = [
            "/bucket/dir/",
            "/bucket/dir/a/",
            "/bucket/dir/b",
            "/bucket/dir/c%20d",
            "/bucket/dir/e&amp;f",
        ];
        assert_eq!(listed.hrefs(), expected);
        assert_eq!(listed.text().matches("<D:collection/>").count(), 2);
        assert_eq!(
            find(&dewar, "/bucket/dir/", "0", &resource)
                .await
                .is(207)
                .hrefs(),
            ["/bucket/dir/"]
        );
        assert_eq!(
            find(&dewar, "/", "1", &resource).await.is(207).hrefs(),
            ["/", "/bucket/"]
        );
        assert_eq!(
            find(&dewar, "/bucket/dir/b", "1", "").await.is(207).hrefs(),
            ["/bucket/dir/b"]
        );
        find(&dewar, "/bucket/absent", "1", "").await.is(404);
        find(&dewar, "/absent", "1", "").await.is(404);
        find(&dewar, "/bucket/dir", "2", "").await.is(400);
        let refused = find(&dewar, "/bucket/dir", "infinity", "").await.is(403);
        assert!(
            refused.text().contains("<D:propfind-finite-depth/>"),
            "{}",
            refused.text()
        );
        dewar.owner("PROPFIND", "/bucket/dir").send().await.is(403);
        let config = WebDavConfig {
            propfind_infinity: true,
            ..WebDavConfig::default()
        };
        let dewar = fixture_with(config).await;
        for name in ["a/x/y", "a/z", "b"] {
            dewar.put(&format!("/bucket/{name}"), b"1").await.is(201);
        }
        let all = find(&dewar, "/", "infinity", &resource).await.is(207);
        let expected = [
            "/",
            "/bucket/",
            "/bucket/a/",
            "/bucket/a/x/",
            "/bucket/a/x/y",
            "/bucket/a/z",
            "/bucket/b",
        ];
        assert_eq!(all.hrefs(), expected);
    });
}

#[test]
fn a_large_directory_is_streamed_whole() {
    talk(async {
        let dewar = fixture().await;
        for n in 0..1300 {
            dewar.put(&format!("/bucket/dir/{n:05}"), b"").await.is(201);
        }
        let listed = find(&dewar, "/bucket/dir", "1", "").await.is(207);
        assert_eq!(listed.header("content-length"), None);
        let hrefs = listed.hrefs();
        assert_eq!(hrefs.len(), 1301);
        assert_eq!(hrefs[1300], "/bucket/dir/01299");
        assert!(listed.text().ends_with("</D:multistatus>\n") && !listed.broken);
    });
}

#[test]
fn quotas_are_properties_of_directories() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/file", b"12345").await.is(201);
        let text = find(&dewar, "/bucket/dir", "0", "").await.is(207).text();
        assert!(
            text.contains("<D:quota-used-bytes>5</D:quota-used-bytes>"),
            "{text}"
        );
        assert!(text.contains("<D:quota-available-bytes>"), "{text}");
        let first = text.split("</D:propstat>").next().expect("one");
        assert!(first.contains("quota-available-bytes"));
        // Programs ask the root for the space of the whole.
        let root = find(&dewar, "/", "0", "").await.is(207).text();
        assert!(root.contains("<D:quota-available-bytes>"), "{root}");
        let asked = named("<D:quota-used-bytes/>");
        let listed = find(&dewar, "/bucket", "1", &asked).await.is(207).text();
        assert_eq!(
            listed.matches("<D:quota-used-bytes>5<").count(),
            2,
            "{listed}"
        );
    });
}

#[test]
fn dead_properties_are_kept_copied_and_removed() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/file", b"abc").await.is(201);
        let value = "<x:p a=\"1\"><y xmlns=\"urn:y\">\u{10400} &amp; z</y></x:p>";
        for path in ["/bucket/dir/file", "/bucket/dir"] {
            let set = format!("<D:set><D:prop>{value}<x:q/></D:prop></D:set>");
            let changed = patch(&dewar, path, &set).await.is(207);
            assert!(changed.text().contains("200 OK"), "{}", changed.text());
        }
        let asked = named("<p xmlns=\"urn:x\"/><q xmlns=\"urn:x\"/>");
        let kept = "<p xmlns=\"urn:x\" a=\"1\"><y xmlns=\"urn:y\">\u{10400} &amp; z</y></p><q xmlns=\"urn:x\"/>";
        let check = |path: &'static str| {
            let (dewar, asked) = (&dewar, &asked);
            async move {
                let text = find(dewar, path, "0", asked).await.is(207).text();
                assert!(
                    text.contains(kept) && !text.contains("404"),
                    "{path}: {text}"
                );
            }
        };
        check("/bucket/dir/file").await;
        check("/bucket/dir").await;
        let all = find(&dewar, "/bucket", "1", "").await.is(207).text();
        assert!(all.contains(kept), "{all}");
        // A new content keeps them, and so do a copy and a move.
        dewar.put("/bucket/dir/file", b"new").await.is(200);
        check("/bucket/dir/file").await;
        let copy = dewar
            .owner("COPY", "/bucket/dir")
            .header("destination", "/bucket/copy");
        copy.send().await.is(201);
        check("/bucket/copy").await;
        check("/bucket/copy/file").await;
        let moved = dewar
            .owner("MOVE", "/bucket/copy/file")
            .header("destination", "/bucket/moved");
        moved.send().await.is(201);
        check("/bucket/moved").await;
        // In one request, the last change of a property counts.
        let changes = "<D:set><D:prop><x:p>1</x:p></D:prop></D:set>\
            <D:remove><D:prop><x:p/><x:absent/></D:prop></D:remove>\
            <D:set><D:prop><x:q>2</x:q></D:prop></D:set>";
        patch(&dewar, "/bucket/moved", changes).await.is(207);
        let text = find(&dewar, "/bucket/moved", "0", &asked)
            .await
            .is(207)
            .text();
        assert!(text.contains("<q xmlns=\"urn:x\">2</q>"), "{text}");
        assert!(
            text.contains(
                "<D:propstat><D:prop><p xmlns=\"urn:x\"/></D:prop><D:status>HTTP/1.1 404"
            ),
            "{text}"
        );
        let names = "<D:propfind xmlns:D=\"DAV:\"><D:propname/></D:propfind>";
        let names = find(&dewar, "/bucket/moved", "0", names)
            .await
            .is(207)
            .text();
        assert!(
            names.contains("<q xmlns=\"urn:x\"/>") && names.contains("<D:getetag/>"),
            "{names}"
        );
    });
}

#[test]
fn live_properties_are_not_changed() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/file", b"abc").await.is(201);
        let changes = "<D:set><D:prop><D:getetag>1</D:getetag><x:p>1</x:p></D:prop></D:set>";
        let refused = patch(&dewar, "/bucket/file", changes).await.is(207).text();
        assert!(
            refused.contains("403 Forbidden") && refused.contains("424 Failed Dependency"),
            "{refused}"
        );
        let asked = named("<p xmlns=\"urn:x\"/>");
        let text = find(&dewar, "/bucket/file", "0", &asked)
            .await
            .is(207)
            .text();
        assert!(text.contains("404"), "{text}");
        patch(&dewar, "/bucket", "<D:set><D:prop><x:p/></D:prop></D:set>")
            .await
            .is(403);
        patch(&dewar, "/bucket/file", "").await.is(400);
        let large = format!(
            "<D:set><D:prop><x:p>{}</x:p></D:prop></D:set>",
            "a".repeat(70_000)
        );
        patch(&dewar, "/bucket/file", &large).await.is(507);
    });
}

#[test]
fn documents_have_limits() {
    talk(async {
        let dewar = fixture().await;
        for (body, status) in [
            ("<foo>", 400),
            ("<!DOCTYPE a><a/>", 400),
            (
                "<D:propfind xmlns:D=\"DAV:\"><D:prop><b:c xmlns:b=\"\"/></D:prop></D:propfind>",
                400,
            ),
        ] {
            find(&dewar, "/bucket", "0", body).await.is(status);
        }
        let long = " ".repeat(65 * 1024);
        find(&dewar, "/bucket", "0", &long).await.is(413);
    });
}

#[test]
fn a_directory_has_as_many_properties_as_a_file() {
    talk(async {
        let dewar = fixture().await;
        dewar.put("/bucket/dir/file", b"1").await.is(201);
        let set = |bytes: usize| {
            let value = "v".repeat(bytes);
            format!("<D:set><D:prop><x:p>{value}</x:p></D:prop></D:set>")
        };
        for path in ["/bucket/dir", "/bucket/dir/file"] {
            let changed = patch(&dewar, path, &set(60 << 10)).await.is(207).text();
            assert!(changed.contains("200 OK"), "{path}: {changed}");
            let refused = patch(&dewar, path, &set(65 << 10)).await.is(207).text();
            assert!(!refused.contains("200 OK"), "{path}: {refused}");
        }
        let asked = named("<p xmlns=\"urn:x\"/>");
        let moved = dewar
            .owner("MOVE", "/bucket/dir")
            .header("destination", "/bucket/moved");
        moved.send().await.is(201);
        let copy = dewar
            .owner("COPY", "/bucket/moved")
            .header("destination", "/bucket/copy");
        copy.send().await.is(201);
        for path in ["/bucket/moved", "/bucket/copy", "/bucket/copy/file"] {
            let text = find(&dewar, path, "0", &asked).await.is(207).text();
            assert!(text.len() > 60 << 10, "{path}");
        }
    });
}
