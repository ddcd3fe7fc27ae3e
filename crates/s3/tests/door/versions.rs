//! Versions over the wire: kept, named, marked, listed, deleted.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

async fn set(owner: &TestClient, status: &str) {
    let xml =
        format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
    let put = owner.put("/bucket?versioning").body(xml);
    put.send().await.is(200);
}

async fn put(owner: &TestClient, key: &str, body: &str) -> TestResponse {
    owner
        .put(&format!("/bucket/{key}"))
        .body(body)
        .send()
        .await
        .is(200)
}

fn version(reply: &TestResponse) -> String {
    reply.header("x-amz-version-id").expect("an id").to_owned()
}

#[test]
fn versioning_is_off_until_it_is_set() {
    talk(async {
        let owner = fixture().await.owner;
        let off = owner.get("/bucket?versioning").send().await.is(200);
        assert_eq!(off.element("Status"), None);
        let plain = put(&owner, "k", "a").await;
        assert_eq!(plain.header("x-amz-version-id"), None);
        let read = owner.get("/bucket/k").send().await.is(200);
        assert_eq!(read.header("x-amz-version-id"), None);
        for status in ["Suspended", "Enabled", "Enabled", "Suspended"] {
            set(&owner, status).await;
            let told = owner.get("/bucket?versioning").send().await;
            assert_eq!(told.element("Status").as_deref(), Some(status));
        }
        for bad in [
            "<VersioningConfiguration><Status>enabled</Status></VersioningConfiguration>",
            "<VersioningConfiguration/>",
            "",
        ] {
            let refused = owner.put("/bucket?versioning").body(bad).send().await;
            refused.refused_with(400, "MalformedXML");
        }
        let read = owner.get("/bucket/k").send().await.is(200);
        assert_eq!(read.header("x-amz-version-id"), Some("null"));
        owner.get("/bucket/k?versionId=null").send().await.is(200);
    });
}

#[test]
fn versions_are_read_by_their_ids_and_markers_hide_them() {
    talk(async {
        let owner = fixture().await.owner;
        set(&owner, "Enabled").await;
        let first = version(&put(&owner, "a/k", "one").await);
        let second = version(&put(&owner, "a/k", "second").await);
        assert_ne!(first, second);
        let old = owner.get(&format!("/bucket/a/k?versionId={first}"));
        let old = old.send().await.is(200);
        assert_eq!((old.text().as_str(), version(&old)), ("one", first.clone()));
        let head = owner.head("/bucket/a/k").send().await.is(200);
        assert_eq!(version(&head), second);

        let gone = owner.delete("/bucket/a/k").send().await.is(204);
        let marker = version(&gone);
        assert_eq!(gone.header("x-amz-delete-marker"), Some("true"));
        let hidden = owner.get("/bucket/a/k").send().await;
        let hidden = hidden.refused_with(404, "NoSuchKey");
        assert_eq!(hidden.header("x-amz-delete-marker"), Some("true"));
        assert_eq!(version(&hidden), marker);
        let read = owner.get(&format!("/bucket/a/k?versionId={marker}"));
        let read = read.send().await.refused_with(405, "MethodNotAllowed");
        assert_eq!(read.header("allow"), Some("DELETE"));
        assert_eq!(read.header("x-amz-delete-marker"), Some("true"));
        let none = owner.get("/bucket/a/other").send().await;
        let none = none.refused_with(404, "NoSuchKey");
        assert_eq!(none.header("x-amz-delete-marker"), Some("false"));
        owner.get("/bucket?list-type=2").send().await.is(200);

        let unknown = format!("/bucket/a/k?versionId={}", "0".repeat(32));
        let unknown = owner.get(&unknown).send().await;
        unknown.refused_with(404, "NoSuchVersion");
        for bad in ["", "x", "NULL", "%00"] {
            let bad = owner.get(&format!("/bucket/a/k?versionId={bad}"));
            bad.send().await.refused_with(400, "InvalidArgument");
        }

        // The marker goes and the object is back; then the versions one by one.
        let back = owner.delete(&format!("/bucket/a/k?versionId={marker}"));
        let back = back.send().await.is(204);
        assert_eq!(back.header("x-amz-delete-marker"), Some("true"));
        assert_eq!(owner.get("/bucket/a/k").send().await.text(), "second");
        let gone = owner.delete(&format!("/bucket/a/k?versionId={second}"));
        let gone = gone.send().await.is(204);
        assert_eq!(version(&gone), second);
        assert_eq!(gone.header("x-amz-delete-marker"), None);
        assert_eq!(owner.get("/bucket/a/k").send().await.text(), "one");
        let copied = owner
            .put("/bucket/copy")
            .header(
                "x-amz-copy-source",
                &format!("/bucket/a/k?versionId={first}"),
            )
            .send()
            .await
            .is(200);
        assert_eq!(
            copied.header("x-amz-copy-source-version-id"),
            Some(first.as_str())
        );
        owner
            .delete("/bucket")
            .send()
            .await
            .refused_with(409, "BucketNotEmpty");
    });
}

#[test]
fn listings_page_through_versions() {
    talk(async {
        let owner = fixture().await.owner;
        set(&owner, "Enabled").await;
        let mut expected = Vec::new();
        for key in ["a&", "b/1", "b/2", "c"] {
            let mut ids = Vec::new();
            for n in 0..3 {
                ids.push(version(&put(&owner, key, &n.to_string()).await));
            }
            ids.push(version(
                &owner.delete(&format!("/bucket/{key}")).send().await,
            ));
            ids.reverse();
            expected.extend(ids.into_iter().map(|id| (key.to_owned(), id)));
        }
        let all = owner.get("/bucket?versions").send().await.is(200);
        let keys: Vec<_> = all
            .elements("Key")
            .iter()
            .map(|key| key.replace("&amp;", "&"))
            .collect();
        let shown: Vec<_> = keys.into_iter().zip(all.elements("VersionId")).collect();
        assert_eq!(shown, expected);
        let text = all.text();
        assert_eq!(text.matches("<DeleteMarker>").count(), 4);
        assert_eq!(text.matches("<IsLatest>true</IsLatest>").count(), 4);
        assert!(
            text.find("<DeleteMarker>") < text.find("<Version>"),
            "in one sequence"
        );

        // Page by page it is the same.
        let mut paged = Vec::new();
        let mut next = String::new();
        loop {
            let page = owner.get(&format!(
                "/bucket?versions&encoding-type=url&max-keys=3{next}"
            ));
            let page = page.send().await.is(200);
            paged.extend(page.elements("VersionId"));
            match page.element("NextKeyMarker") {
                None => break,
                Some(key) => {
                    let id = page.element("NextVersionIdMarker").expect("an id");
                    next = format!("&key-marker={key}&version-id-marker={id}");
                }
            }
        }
        let ids: Vec<_> = expected.iter().map(|(_, id)| id.clone()).collect();
        assert_eq!(paged, ids);

        let rolled = owner
            .get("/bucket?versions&delimiter=/&prefix=")
            .send()
            .await;
        assert_eq!(rolled.elements("VersionId").len(), 8);
        assert!(
            rolled
                .text()
                .contains("<CommonPrefixes><Prefix>b/</Prefix>")
        );
        let inside = owner.get("/bucket?versions&prefix=b/").send().await;
        assert_eq!(inside.elements("VersionId"), ids[4..12]);
    });
}

#[test]
fn many_versions_go_at_once() {
    talk(async {
        let owner = fixture().await.owner;
        set(&owner, "Enabled").await;
        let mut xml = String::from("<Delete>");
        for key in ["a", "b"] {
            for _ in 0..3 {
                let id = version(&put(&owner, key, key).await);
                xml.push_str(&format!(
                    "<Object><Key>{key}</Key><VersionId>{id}</VersionId></Object>"
                ));
            }
        }
        xml.push_str("<Object><Key>new</Key></Object></Delete>");
        for _ in 0..2 {
            let done = owner.post("/bucket?delete").body(&xml).send().await.is(200);
            assert_eq!(
                done.text().matches("<Deleted>").count(),
                7,
                "{}",
                done.text()
            );
            assert_eq!(done.elements("DeleteMarkerVersionId").len(), 1);
            assert!(!done.text().contains("<Error>"));
        }
        let left = owner.get("/bucket?versions").send().await;
        assert_eq!(left.elements("Key"), ["new", "new"]);
        let bad = "<Delete><Object><Key>a</Key><VersionId>x</VersionId></Object></Delete>";
        let bad = owner.post("/bucket?delete").body(bad).send().await.is(200);
        assert_eq!(bad.element("Code").as_deref(), Some("NoSuchVersion"));
    });
}
