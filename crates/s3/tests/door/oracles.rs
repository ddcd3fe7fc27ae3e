//! Who lacks the right to know learns nothing about what exists: every answer about a key that is
//! there, one that never was and one behind a delete marker is the same.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{Fixture, fixture, talk};

const STRANGER: &str = r#"{"AWS":"0000000000000002"}"#;
const ETAG: &str = "\"5ebe2294ecd0e0f08eab7690d2a6ee69\"";

async fn allow(fixture: &Fixture, actions: &str) {
    let text = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{STRANGER},
        "Action":[{actions}],"Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}}]}}"#
    );
    let put = fixture.owner.put("/bucket?policy").body(text);
    put.send().await.is(204);
}

/// What a stranger is told, apart from ids.
fn told(reply: &TestResponse) -> (u16, String, Option<String>, Option<String>) {
    let header = |name| reply.header(name).map(str::to_owned);
    let (marker, version) = ("x-amz-delete-marker", "x-amz-version-id");
    (reply.status, reply.code(), header(marker), header(version))
}

/// A bucket with versions: `k` is there, `gone` is behind a marker. Gives the marker's id and that of
/// what is behind it.
async fn furnished() -> (Fixture, String, String) {
    let fixture = fixture().await;
    let owner = &fixture.owner;
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    owner
        .put("/bucket?versioning")
        .body(on)
        .send()
        .await
        .is(200);
    let put = owner.put("/bucket/k").body("secret").send().await;
    put.is(200);
    let before = owner.put("/bucket/gone").body("secret").send().await;
    let before = before.is(200);
    let before = before.header("x-amz-version-id").expect("an id").to_owned();
    let gone = owner.delete("/bucket/gone").send().await.is(204);
    let marker = gone.header("x-amz-version-id").expect("an id").to_owned();
    (fixture, marker, before)
}

/// Requests about a key that only look.
async fn looks(client: &TestClient, key: &str) -> Vec<(String, TestResponse)> {
    let mut replies = Vec::new();
    for (method, what) in [
        ("GET", ""),
        ("HEAD", ""),
        ("GET", "?tagging"),
        ("GET", "?acl"),
        ("GET", "?retention"),
        ("GET", "?legal-hold"),
        ("GET", "?attributes"),
        ("DELETE", "?tagging"),
    ] {
        let call = client.call(method, &format!("/bucket/{key}{what}"));
        let call = call.header("x-amz-object-attributes", "ETag");
        replies.push((format!("{method} {what}"), call.send().await));
    }
    for header in ["x-amz-copy-source", "x-amz-rename-source"] {
        let target = match header {
            "x-amz-rename-source" => "/theirs/c?renameObject",
            _ => "/theirs/c",
        };
        let call = client.put(target);
        let call = call.header(header, &format!("/bucket/{key}"));
        replies.push((header.to_owned(), call.send().await));
    }
    replies
}

/// Of two keys nothing different is told.
async fn same(client: &TestClient, one: &str, other: &str) {
    let (one, other) = (looks(client, one).await, looks(client, other).await);
    for ((what, one), (_, other)) in one.iter().zip(&other) {
        assert_eq!(told(one), told(other), "{what}");
    }
}

#[test]
fn who_may_read_but_not_list_is_told_nothing_of_markers() {
    talk(async {
        let (fixture, marker, _) = furnished().await;
        let stranger = &fixture.stranger;
        stranger.put("/theirs").send().await.is(200);
        for actions in [
            r#""s3:GetObjectTorrent""#,
            r#""s3:GetObject","s3:GetObjectVersion""#,
            r#""s3:PutObject","s3:DeleteObject""#,
        ] {
            allow(&fixture, actions).await;
            same(stranger, "gone", "none").await;
            let named = format!("gone?versionId={marker}");
            let named = stranger.get(&format!("/bucket/{named}")).send().await;
            let never = stranger.get("/bucket/none?versionId=null").send().await;
            assert_eq!(told(&named), told(&never), "{actions}");
            assert_eq!(named.status, 403);
        }
        // The owner is told.
        let gone = fixture.owner.get("/bucket/gone").send().await.is(404);
        assert_eq!(gone.header("x-amz-delete-marker"), Some("true"));
        assert_eq!(gone.header("x-amz-version-id"), Some(marker.as_str()));
    });
}

/// A listing of keys shows neither markers nor ids of versions.
#[test]
fn who_may_only_list_keys_is_told_nothing_of_versions() {
    talk(async {
        let (fixture, marker, before) = furnished().await;
        let stranger = &fixture.stranger;
        stranger.put("/theirs").send().await.is(200);
        allow(&fixture, r#""s3:ListBucket""#).await;
        same(stranger, "gone", "none").await;
        stranger.get("/bucket/gone").send().await.is(404);
        let version = |id: &str| stranger.get(&format!("/bucket/gone?versionId={id}"));
        let known = [
            told(&version(&before).send().await),
            told(&version(&marker).send().await),
            told(&version("null").send().await),
        ];
        assert_eq!(known[0].0, 403);
        assert!(known.iter().all(|one| *one == known[0]), "{known:?}");
        // Who may list versions, or read, may know.
        for actions in [
            r#""s3:ListBucket","s3:ListBucketVersions""#,
            r#""s3:ListBucket","s3:GetObject","s3:GetObjectVersion""#,
        ] {
            allow(&fixture, actions).await;
            let gone = stranger.get("/bucket/gone").send().await.is(404);
            assert_eq!(gone.header("x-amz-version-id"), Some(marker.as_str()));
            let named = version(&marker).send().await.is(405);
            assert_eq!(named.header("x-amz-delete-marker"), Some("true"));
            version("null")
                .send()
                .await
                .refused_with(404, "NoSuchVersion");
        }
    });
}

/// S3 user guide, "Conditional requests": `If-Match` needs `s3:GetObject`.
#[test]
fn conditions_of_writes_are_no_way_to_read() {
    talk(async {
        let (fixture, ..) = furnished().await;
        let stranger = &fixture.stranger;
        allow(&fixture, r#""s3:PutObject","s3:DeleteObject""#).await;
        let right = ("if-match", ETAG);
        let wrong = ("if-match", "\"00000000000000000000000000000000\"");
        let other = ("if-none-match", ETAG);
        for key in ["k", "gone", "none"] {
            let target = format!("/bucket/{key}");
            for (name, value) in [right, wrong, ("if-match", "*"), other] {
                let put = stranger.put(&target).body("x").header(name, value);
                put.send().await.refused_with(403, "AccessDenied");
            }
            for (name, value) in [right, wrong] {
                let gone = stranger.delete(&target).header(name, value);
                gone.send().await.refused_with(403, "AccessDenied");
                let text = format!(
                    "<Delete><Object><Key>{key}</Key><ETag>{}</ETag></Object></Delete>",
                    value.replace('"', "&quot;")
                );
                let many = stranger.post("/bucket?delete").body(text).send().await;
                assert_eq!(
                    many.is(200).element("Code").as_deref(),
                    Some("AccessDenied")
                );
            }
        }
        let kept = fixture.owner.get("/bucket/k").send().await.is(200);
        assert_eq!(kept.text(), "secret");
        // That nothing shall have the name needs no more than writing, and reading opens the rest.
        let new = stranger.put("/bucket/new").body("x");
        new.header("if-none-match", "*").send().await.is(200);
        allow(&fixture, r#""s3:PutObject","s3:GetObject""#).await;
        let put = stranger.put("/bucket/k").body("y");
        put.header(wrong.0, wrong.1).send().await.is(412);
        let put = stranger.put("/bucket/k").body("y");
        put.header(right.0, right.1).send().await.is(200);
    });
}
