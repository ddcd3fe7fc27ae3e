//! Copies: what goes along is asked for by itself.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{Fixture, fixture, talk};

const STRANGER: &str = r#"{"AWS":"0000000000000002"}"#;
const OWNER: &str = r#"{"AWS":"0000000000000001"}"#;

/// Lets somebody do these things in a bucket.
async fn allow(owner: &TestClient, bucket: &str, who: &str, actions: &str) {
    let text = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{who},
        "Action":[{actions}],"Resource":["arn:aws:s3:::{bucket}","arn:aws:s3:::{bucket}/*"]}}]}}"#
    );
    let put = owner.put(&format!("/{bucket}?policy")).body(text);
    put.send().await.is(204);
}

async fn copy(
    client: &TestClient,
    source: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> TestResponse {
    let mut call = client.put(target).header("x-amz-copy-source", source);
    for (name, value) in headers {
        call = call.header(name, value);
    }
    call.send().await
}

/// The owner's bucket with an object that has tags and one that has none, and the stranger's.
async fn furnished() -> Fixture {
    let fixture = fixture().await;
    let tagged = fixture.owner.put("/bucket/tagged").body("x");
    let tagged = tagged.header("x-amz-tagging", "secret=yes");
    tagged.send().await.is(200);
    fixture
        .owner
        .put("/bucket/plain")
        .body("x")
        .send()
        .await
        .is(200);
    fixture.stranger.put("/theirs").send().await.is(200);
    fixture
}

async fn tags(client: &TestClient, key: &str) -> Vec<String> {
    let shown = client.get(&format!("{key}?tagging")).send().await;
    shown.is(200).elements("Key")
}

/// S3 user guide, CopyObject: an object with tags needs `s3:GetObjectTagging` at its source.
#[test]
fn tags_go_along_for_who_may_read_them() {
    talk(async {
        let fixture = furnished().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        let read = r#""s3:GetObject""#;
        allow(owner, "bucket", STRANGER, read).await;
        // Whether names are written or bytes pass makes no difference.
        let ways: [&[(&str, &str)]; 3] = [
            &[],
            &[("x-amz-checksum-algorithm", "SHA256")],
            &[("x-amz-server-side-encryption", "AES256")],
        ];
        for way in ways {
            let stolen = copy(stranger, "bucket/tagged", "/theirs/c", way).await;
            stolen.refused_with(403, "AccessDenied");
            stranger.get("/theirs/c").send().await.is(404);
            copy(stranger, "bucket/plain", "/theirs/p", way)
                .await
                .is(200);
            let mut own = way.to_vec();
            own.push(("x-amz-tagging-directive", "REPLACE"));
            copy(stranger, "bucket/tagged", "/theirs/r", &own)
                .await
                .is(200);
            assert!(tags(stranger, "/theirs/r").await.is_empty());
        }
        let said = [("x-amz-tagging-directive", "COPY")];
        copy(stranger, "bucket/tagged", "/theirs/c", &said)
            .await
            .refused_with(403, "AccessDenied");
        allow(
            owner,
            "bucket",
            STRANGER,
            r#""s3:GetObject","s3:GetObjectTagging""#,
        )
        .await;
        for way in ways {
            copy(stranger, "bucket/tagged", "/theirs/c", way)
                .await
                .is(200);
            assert_eq!(tags(stranger, "/theirs/c").await, ["secret"]);
            stranger.delete("/theirs/c").send().await.is(204);
        }
    });
}

#[test]
fn tags_of_a_version_have_a_right_of_their_own() {
    talk(async {
        let fixture = furnished().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        let source = "bucket/tagged?versionId=null";
        let both = r#""s3:GetObjectVersion","s3:GetObjectTagging""#;
        allow(owner, "bucket", STRANGER, both).await;
        copy(stranger, source, "/theirs/c", &[])
            .await
            .refused_with(403, "AccessDenied");
        let both = r#""s3:GetObjectVersion","s3:GetObjectVersionTagging""#;
        allow(owner, "bucket", STRANGER, both).await;
        copy(stranger, source, "/theirs/c", &[]).await.is(200);
        assert_eq!(tags(stranger, "/theirs/c").await, ["secret"]);
    });
}

/// Whoever writes tags must be let do it, also where they come from another object.
#[test]
fn tags_come_only_from_who_may_give_them() {
    talk(async {
        let fixture = furnished().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        allow(stranger, "theirs", OWNER, r#""s3:PutObject""#).await;
        for way in [&[][..], &[("x-amz-checksum-algorithm", "SHA256")]] {
            copy(owner, "bucket/tagged", "/theirs/c", way)
                .await
                .refused_with(403, "AccessDenied");
            copy(owner, "bucket/plain", "/theirs/c", way).await.is(200);
        }
        allow(
            stranger,
            "theirs",
            OWNER,
            r#""s3:PutObject","s3:PutObjectTagging""#,
        )
        .await;
        copy(owner, "bucket/tagged", "/theirs/c", &[]).await.is(200);
    });
}

/// A part is bytes, and has no tags.
#[test]
fn parts_take_no_tags_along() {
    talk(async {
        let fixture = furnished().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        allow(owner, "bucket", STRANGER, r#""s3:GetObject""#).await;
        let begun = stranger.post("/theirs/m?uploads").send().await.is(200);
        let id = begun.element("UploadId").expect("an id");
        let target = format!("/theirs/m?partNumber=1&uploadId={id}");
        let part = copy(stranger, "bucket/tagged", &target, &[]).await;
        let etag = part.is(200).element("ETag").expect("an ETag");
        let list = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
             </CompleteMultipartUpload>"
        );
        let done = stranger
            .post(&format!("/theirs/m?uploadId={id}"))
            .body(list);
        done.send().await.is(200);
        assert!(tags(stranger, "/theirs/m").await.is_empty());
    });
}
