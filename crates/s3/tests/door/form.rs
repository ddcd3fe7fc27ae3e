//! Uploads from a browser's form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

fn form(fields: &[(&str, &str)], file: &str) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        text.push_str(&format!(
            "--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        ));
    }
    text.push_str(&format!(
        "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\
         Content-Type: text/plain\r\n\r\n{file}\r\n--edge--\r\n"
    ));
    text
}

/// Posts a form whose policy lets keys below `up/` have 1 to 10 bytes.
async fn post(
    signer: &TestClient,
    sender: &TestClient,
    more: &[(&str, &str)],
    file: &str,
) -> TestResponse {
    let credential = format!("{}/{}", signer.access_key(), signer.scope());
    let date = signer.date();
    let policy = format!(
        r#"{{"expiration":"2999-01-01T00:00:00Z","conditions":[{{"bucket":"bucket"}},
        ["starts-with","$key","up/"],["content-length-range",1,10],
        ["starts-with","$success_action_status",""],["starts-with","$x-amz-meta-a",""],
        ["starts-with","$success_action_redirect",""],
        {{"x-amz-credential":"{credential}"}},{{"x-amz-algorithm":"AWS4-HMAC-SHA256"}},
        {{"x-amz-date":"{}"}}]}}"#,
        date.as_str()
    );
    let policy = STANDARD.encode(policy);
    let signature = signer.signing_key().sign(&policy).to_string();
    let mut fields = vec![
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", credential.as_str()),
        ("x-amz-date", date.as_str()),
        ("policy", policy.as_str()),
        ("x-amz-signature", signature.as_str()),
    ];
    fields.extend_from_slice(more);
    sender
        .post("/bucket")
        .header("content-type", "multipart/form-data; boundary=edge")
        .body(form(&fields, file))
        .pieces(50)
        .send_unsigned()
        .await
}

#[test]
fn a_signed_policy_lets_a_form_in() {
    talk(async {
        let fixture = fixture().await;
        let (owner, nobody) = (&fixture.owner, &fixture.nobody);
        let fields = [
            ("key", "up/${filename}"),
            ("x-amz-meta-a", "1"),
            ("success_action_status", "201"),
        ];
        let reply = post(owner, nobody, &fields, "content").await.is(201);
        let place = "http://localhost:9000/bucket/up/f.txt";
        assert_eq!(reply.element("Location").as_deref(), Some(place));
        assert_eq!(reply.header("location"), Some(place));
        assert_eq!(reply.element("Key").as_deref(), Some("up/f.txt"));
        assert_eq!(reply.element("Bucket").as_deref(), Some("bucket"));
        let get = owner.get("/bucket/up/f.txt").send().await.is(200);
        assert_eq!(get.body, "content");
        assert_eq!(get.header("content-type"), Some("text/plain"));
        assert_eq!(get.header("x-amz-meta-a"), Some("1"));
        post(owner, nobody, &[("key", "up/b")], "x").await.is(204);
        let target = "http://example.org/done?a=b";
        let fields = [("key", "up/c"), ("success_action_redirect", target)];
        let reply = post(owner, nobody, &fields, "x").await.is(303);
        let location = reply.header("location").expect("a place");
        assert!(location.starts_with("http://example.org/done?a=b&bucket=bucket&key=up%2Fc&etag="));

        let refused = |fields: Vec<(&'static str, &'static str)>, file: &'static str| async move {
            post(owner, nobody, &fields, file).await
        };
        refused(vec![("key", "down/a")], "x")
            .await
            .refused_with(403, "AccessDenied");
        refused(vec![("key", "up/a"), ("acl", "private")], "x")
            .await
            .refused_with(403, "AccessDenied");
        refused(vec![("key", "up/a")], "eleven byte")
            .await
            .refused_with(400, "EntityTooLarge");
        refused(vec![("key", "up/a")], "")
            .await
            .refused_with(400, "EntityTooSmall");
        owner.head("/bucket/up/a").send().await.is(404);
        let stranger = post(&fixture.stranger, nobody, &[("key", "up/a")], "x").await;
        stranger.refused_with(403, "AccessDenied");
    });
}

#[test]
fn a_form_without_a_policy_is_anonymous() {
    talk(async {
        let fixture = fixture().await;
        let reply = fixture
            .nobody
            .post("/bucket")
            .header("content-type", "multipart/form-data; boundary=edge")
            .body(form(&[("key", "up/a")], "x"))
            .send_unsigned()
            .await;
        reply.refused_with(403, "AccessDenied");
        let broken = fixture
            .nobody
            .post("/bucket")
            .header("content-type", "multipart/form-data; boundary=edge")
            .body("--edge\r\nnonsense")
            .send_unsigned()
            .await;
        broken.refused_with(400, "MalformedPOSTRequest");
    });
}

/// Posts a form with a policy of this document, signed as Signature V2 does.
async fn post_v2(
    signer: &TestClient,
    sender: &TestClient,
    policy: &str,
    more: &[(&str, &str)],
) -> TestResponse {
    let policy = STANDARD.encode(policy);
    let (id, signature) = (signer.access_key(), signer.signature_v2(&policy));
    let mut fields = vec![
        ("AWSAccessKeyId", id.as_str()),
        ("policy", policy.as_str()),
        ("signature", signature.as_str()),
        ("key", "up/a"),
    ];
    fields.extend_from_slice(more);
    let call = sender.post("/bucket");
    call.header("content-type", "multipart/form-data; boundary=edge")
        .body(form(&fields, "hello"))
        .send_unsigned()
        .await
}

#[test]
fn policies_are_read_strictly() {
    talk(async {
        let fixture = fixture().await;
        let (owner, nobody) = (&fixture.owner, &fixture.nobody);
        let conditions = r#"[{"bucket":"bucket"},["starts-with","$key","up/"]]"#;
        let with = |expiration: &str, conditions: &str| {
            format!(r#"{{"expiration":"{expiration}","conditions":{conditions}}}"#)
        };
        let good = with("2999-01-01T00:00:00Z", conditions);
        post_v2(owner, nobody, &good, &[]).await.is(204);
        for bad in [
            with("2999-01-01 00:00:00Z", conditions),
            with("soon", conditions),
            with("2999-01-01T00:00:00Z", "[{}]"),
            with("2999-01-01T00:00:00Z", r#"[["eq","$key"]]"#),
            "no JSON".to_owned(),
        ] {
            let reply = post_v2(owner, nobody, &bad, &[]).await;
            reply.refused_with(400, "InvalidPolicyDocument");
        }
        let anywhere = with("2999-01-01T00:00:00Z", r#"[["starts-with","$key","up/"]]"#);
        let reply = post_v2(owner, nobody, &anywhere, &[]).await;
        let reply = reply.refused_with(403, "AccessDenied");
        assert!(reply.text().contains("Extra input fields: bucket"));
        let late = with("2000-01-01T00:00:00Z", conditions);
        let reply = post_v2(owner, nobody, &late, &[]).await;
        reply.refused_with(403, "AccessDenied");
        // No policy needs to speak of a checksum, which can only make an upload fail.
        let sum = ("x-amz-checksum-crc32", "NhCmhg==");
        post_v2(owner, nobody, &good, &[sum]).await.is(204);
        let head = owner
            .head("/bucket/up/a")
            .header("x-amz-checksum-mode", "ENABLED");
        let head = head.send().await.is(200);
        assert_eq!(head.header("x-amz-checksum-crc32"), Some("NhCmhg=="));
        for wrong in ["AAAAAA==", "sailor"] {
            let sum = ("x-amz-checksum-crc32", wrong);
            let reply = post_v2(owner, nobody, &good, &[sum]).await;
            reply.refused_with(400, "BadDigest");
        }
        let other = post_v2(&fixture.stranger, nobody, &good, &[]).await;
        other.refused_with(403, "AccessDenied");
    });
}
