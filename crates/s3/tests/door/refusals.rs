//! Everything that must be refused, and how.

use crate::client::hex;
use crate::fixture::{fixture, talk};

#[test]
fn nobody_gets_in() {
    talk(async {
        let fixture = fixture().await;
        fixture
            .owner
            .put("/bucket/k")
            .body("secret")
            .send()
            .await
            .is(200);
        for client in [&fixture.nobody, &fixture.stranger] {
            client
                .get("/bucket/k")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .put("/bucket/k")
                .body("x")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .delete("/bucket/k")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .get("/bucket")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .get("/bucket/none")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .get("/bucket?policy")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .get("/bucket?acl")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client
                .post("/bucket/k?uploads")
                .send()
                .await
                .refused_with(403, "AccessDenied");
            client.head("/bucket/k").send().await.is(403);
            let copy = client
                .put("/bucket/c")
                .header("x-amz-copy-source", "bucket/k");
            copy.send().await.refused_with(403, "AccessDenied");
        }
        let nobody = &fixture.nobody;
        let none = nobody.get("/").send().await.is(200);
        assert!(!none.text().contains("<Bucket>"));
        nobody
            .put("/newbucket")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        // Not even whether a request would make sense.
        for target in ["/bucket?unknown", "/Bad_Name/k", "/bucket/k?versionId=1"] {
            nobody
                .get(target)
                .send()
                .await
                .refused_with(403, "AccessDenied");
        }
    });
}

#[test]
fn broken_signatures_are_told_apart() {
    talk(async {
        let fixture = fixture().await;
        let client = &fixture.owner;
        let (mut request, _) = client.get("/bucket").signed();
        *request.uri_mut() = "/bucket?delimiter=/".parse().expect("a URI");
        let reply = client.send(request, 100).await;
        let reply = reply.refused_with(403, "SignatureDoesNotMatch");
        assert!(reply.element("StringToSign").is_some());
        assert!(!reply.text().contains("secret of"));

        let changed = |from: &'static str, to: &'static str| {
            let (mut request, _) = client.get("/bucket").signed();
            let value = request.headers()["authorization"].to_str().expect("text");
            let value = value.replace(from, to).parse().expect("a value");
            request.headers_mut().insert("authorization", value);
            request
        };
        let unknown = client.send(changed("KEY-owner", "KEY-nobody"), 100).await;
        unknown.refused_with(403, "InvalidAccessKeyId");
        // A payload hash that is none is told before the signature is looked at.
        let (mut request, _) = client.get("/bucket").signed();
        let none = "no-hash".parse().expect("a value");
        request.headers_mut().insert("x-amz-content-sha256", none);
        let reply = client.send(request, 100).await;
        reply.refused_with(400, "InvalidArgument");
        let region = client.send(changed("eu-dewar-1", "us-east-1"), 100).await;
        let region = region.refused_with(400, "AuthorizationHeaderMalformed");
        assert_eq!(region.element("Region").as_deref(), Some("eu-dewar-1"));
        let scheme = client
            .send(changed("AWS4-HMAC-SHA256", "Digest"), 100)
            .await;
        scheme.refused_with(400, "InvalidArgument");
        let token = client
            .send(changed("AWS4-HMAC-SHA256", "Bearer"), 100)
            .await;
        token.refused_with(400, "InvalidToken");
        let old = client
            .get("/bucket")
            .header("x-amz-date", "20000101T000000Z");
        // The signer overwrites the date, so it is put back behind its back.
        let (mut request, _) = old.signed();
        let date = "20000101T000000Z".parse().expect("a value");
        request.headers_mut().insert("x-amz-date", date);
        let reply = client.send(request, 100).await;
        assert_ne!(reply.status, 200);
    });
}

#[test]
fn unknown_sub_resources_never_fall_through() {
    talk(async {
        let client = fixture().await.owner;
        client.put("/bucket/k").body("x").send().await.is(200);
        for (method, target) in [
            ("GET", "/bucket?unknown"),
            ("GET", "/bucket?versions&list-type=2"),
            ("GET", "/bucket?inventory"),
            ("DELETE", "/bucket?website"),
            ("PUT", "/bucket/k?tagging&acl"),
            ("DELETE", "/bucket/k?retention"),
            ("DELETE", "/bucket/k?unknown"),
            ("POST", "/bucket/k?select&select-type=2"),
        ] {
            client
                .call(method, target)
                .send()
                .await
                .refused_with(501, "NotImplemented");
        }
        client.head("/bucket/k").send().await.is(200);
        client
            .call("PATCH", "/bucket/k")
            .send()
            .await
            .refused_with(405, "MethodNotAllowed");
        client
            .call("OPTIONS", "/bucket/k")
            .send()
            .await
            .refused_with(400, "BadRequest");
        client
            .post("/")
            .send()
            .await
            .refused_with(405, "MethodNotAllowed");
        let twice = client.get("/bucket?prefix=a&prefix=b").send().await;
        twice.refused_with(400, "InvalidArgument");
    });
}

#[test]
fn what_is_not_kept_is_answered_as_s3_does() {
    talk(async {
        let client = fixture().await.owner;
        client.put("/bucket/k").body("x").send().await.is(200);
        for (name, code) in [
            ("policy", "NoSuchBucketPolicy"),
            ("tagging", "NoSuchTagSet"),
            ("cors", "NoSuchCORSConfiguration"),
            ("lifecycle", "NoSuchLifecycleConfiguration"),
            (
                "encryption",
                "ServerSideEncryptionConfigurationNotFoundError",
            ),
            ("object-lock", "ObjectLockConfigurationNotFoundError"),
            ("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
        ] {
            client
                .get(&format!("/bucket?{name}"))
                .send()
                .await
                .refused_with(404, code);
            client
                .get(&format!("/none?{name}"))
                .send()
                .await
                .refused_with(404, "NoSuchBucket");
        }
        let versioning = client.get("/bucket?versioning").send().await.is(200);
        assert!(versioning.text().contains("<VersioningConfiguration"));
        for target in ["/bucket?acl", "/bucket/k?acl"] {
            let acl = client.get(target).send().await.is(200);
            assert_eq!(acl.element("Permission").as_deref(), Some("FULL_CONTROL"));
        }
        let tags = client.get("/bucket/k?tagging").send().await.is(200);
        assert!(tags.text().contains("<TagSet></TagSet>"));
        client
            .get("/bucket/none?tagging")
            .send()
            .await
            .refused_with(404, "NoSuchKey");
        let lock = client.get("/bucket/k?retention").send().await;
        lock.refused_with(400, "InvalidRequest");
    });
}

#[test]
fn promises_that_cannot_be_kept_are_not_made() {
    talk(async {
        let client = fixture().await.owner;
        for (name, value, status, code) in [
            (
                "x-amz-server-side-encryption",
                "aws:kms",
                501,
                "NotImplemented",
            ),
            (
                "x-amz-server-side-encryption-customer-key",
                "k",
                400,
                "InvalidArgument",
            ),
            (
                "x-amz-object-lock-mode",
                "COMPLIANCE",
                400,
                "InvalidArgument",
            ),
            ("x-amz-object-lock-legal-hold", "ON", 400, "InvalidRequest"),
            ("x-amz-tagging", "a=b&a=c", 400, "InvalidArgument"),
            ("x-amz-acl", "public", 400, "InvalidArgument"),
            ("x-amz-grant-read", "id=1", 400, "InvalidArgument"),
            (
                "x-amz-storage-class",
                "OUTPOSTS",
                400,
                "InvalidStorageClass",
            ),
        ] {
            let put = client
                .put("/bucket/k")
                .header(name, value)
                .body("x")
                .send()
                .await;
            put.refused_with(status, code);
            let begin = client
                .post("/bucket/k?uploads")
                .header(name, value)
                .send()
                .await;
            begin.refused_with(status, code);
        }
        client.head("/bucket/k").send().await.is(404);
        let fine = client.put("/bucket/k").header("x-amz-acl", "private");
        fine.header("x-amz-storage-class", "STANDARD")
            .body("x")
            .send()
            .await
            .is(200);
        // Amazon's own names are labels.
        let cold = client.put("/bucket/cold").body("x");
        let cold = cold.header("x-amz-storage-class", "DEEP_ARCHIVE");
        cold.send().await.is(200);
        let head = client.head("/bucket/cold").send().await.is(200);
        assert_eq!(head.header("x-amz-storage-class"), Some("DEEP_ARCHIVE"));
        let large = client
            .put("/bucket/k")
            .header("x-amz-meta-a", &"v".repeat(2049));
        large
            .body("x")
            .send()
            .await
            .refused_with(400, "MetadataTooLarge");
    });
}

#[test]
fn hostile_addresses_get_an_answer() {
    talk(async {
        let client = fixture().await.owner;
        let long = format!("/bucket/{}", "k".repeat(1025));
        client
            .get(&long)
            .send()
            .await
            .refused_with(400, "KeyTooLongError");
        client
            .get("/ab")
            .send()
            .await
            .refused_with(400, "InvalidBucketName");
        client
            .get("/none/k")
            .send()
            .await
            .refused_with(404, "NoSuchBucket");
        let reply = client.get("/bucket/%3Cscript%3E%00").send().await;
        let reply = reply.refused_with(404, "NoSuchKey");
        assert!(!reply.text().contains("<script>"));
        let (mut request, _) = client.get("/bucket/a").signed();
        *request.uri_mut() = "/bucket/%ff".parse().expect("a URI");
        let reply = client.send(request, 100).await;
        assert_eq!(reply.status, 403, "{}", reply.text());
        assert_eq!(hex(b"\xff"), "ff");
    });
}

#[test]
fn a_request_names_one_host() {
    talk(async {
        let client = fixture().await.owner;
        let hosts: [&[&str]; 3] = [&[], &["s3.example.org", "bucket.localhost"], &["a", "a"]];
        for hosts in hosts {
            let (mut request, _) = client.get("/bucket").signed();
            request.headers_mut().remove("host");
            for host in hosts {
                let host = host.parse().expect("a value");
                request.headers_mut().append("host", host);
            }
            let reply = client.send(request, 100).await;
            reply.refused_with(400, "BadRequest");
        }
        let (mut request, _) = client.get("/bucket").signed();
        request.headers_mut().remove("host");
        *request.version_mut() = http::Version::HTTP_10;
        let reply = client.send(request, 100).await;
        assert_ne!(reply.code(), "BadRequest", "HTTP/1.0 knows no hosts");
    });
}

/// A document is in memory before the store is asked whether the caller may do anything.
#[test]
fn nobody_has_large_documents_read() {
    talk(async {
        let fixture = fixture().await;
        let garbage = "x".repeat(20 * 1024);
        for target in ["/bucket?delete", "/bucket/key?uploadId=a"] {
            let call = fixture.nobody.post(target).body(&*garbage);
            let md5 = "mZFLkyvTelC5g8XnyQrpOw==";
            let reply = call.header("content-md5", md5).send().await;
            reply.refused_with(403, "AccessDenied");
        }
    });
}
