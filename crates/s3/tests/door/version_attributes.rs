//! Tags, object lock and attributes over the wire.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

fn tagging(tags: &[(&str, &str)]) -> String {
    let tags: String = tags
        .iter()
        .map(|(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>"))
        .collect();
    format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
}

async fn locking(owner: &TestClient) {
    owner
        .put("/locks")
        .header("x-amz-bucket-object-lock-enabled", "true")
        .send()
        .await
        .is(200);
}

fn version(reply: &TestResponse) -> String {
    reply.header("x-amz-version-id").expect("an id").to_owned()
}

#[test]
fn objects_have_tags() {
    talk(async {
        let owner = fixture().await.owner;
        let put = owner
            .put("/bucket/k")
            .header("x-amz-tagging", "b=2&a=1%20x")
            .body("body");
        put.send().await.is(200);
        let tags = owner.get("/bucket/k?tagging").send().await.is(200);
        assert_eq!(tags.elements("Key"), ["a", "b"]);
        assert_eq!(tags.elements("Value"), ["1 x", "2"]);
        let head = owner.head("/bucket/k").send().await;
        assert_eq!(head.header("x-amz-tagging-count"), Some("2"));

        let copy = |directive: &str, target: &str| {
            owner
                .put(&format!("/bucket/{target}"))
                .header("x-amz-copy-source", "/bucket/k")
                .header("x-amz-tagging-directive", directive)
                .header("x-amz-tagging", "c=3")
        };
        copy("COPY", "same").send().await.is(200);
        copy("REPLACE", "other").send().await.is(200);
        let tags = owner.get("/bucket/same?tagging").send().await;
        assert_eq!(tags.elements("Key"), ["a", "b"]);
        let tags = owner.get("/bucket/other?tagging").send().await;
        assert_eq!(tags.elements("Key"), ["c"]);

        let set = owner.put("/bucket/k?tagging").body(tagging(&[("x", "")]));
        set.send().await.is(200);
        let tags = owner.get("/bucket/k?tagging").send().await;
        assert_eq!(
            (tags.elements("Key"), tags.elements("Value")),
            (vec!["x".into()], vec![String::new()])
        );
        owner.delete("/bucket/k?tagging").send().await.is(204);
        let tags = owner.get("/bucket/k?tagging").send().await.is(200);
        assert!(tags.elements("Key").is_empty());
        assert_eq!(owner.get("/bucket/k").send().await.text(), "body");

        let many: Vec<_> = (0..11).map(|n| format!("k{n}")).collect();
        let many: Vec<_> = many.iter().map(|key| (key.as_str(), "v")).collect();
        let long = "x".repeat(129);
        for bad in [
            tagging(&many),
            tagging(&[(&long, "v")]),
            tagging(&[("k", &"v".repeat(257))]),
            tagging(&[("k", "1"), ("k", "2")]),
            tagging(&[("", "v")]),
        ] {
            let refused = owner.put("/bucket/k?tagging").body(bad).send().await;
            refused.refused_with(400, "InvalidTag");
        }
        let none = owner.get("/bucket/none?tagging").send().await;
        none.refused_with(404, "NoSuchKey");
    });
}

#[test]
fn buckets_have_tags() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let none = owner.get("/bucket?tagging").send().await;
        none.refused_with(404, "NoSuchTagSet");
        let set = owner.put("/bucket?tagging").body(tagging(&[("a", "b")]));
        set.send().await.is(204);
        let tags = owner.get("/bucket?tagging").send().await.is(200);
        assert_eq!(tags.elements("Key"), ["a"]);
        let stranger = fixture.stranger.get("/bucket?tagging").send().await;
        stranger.refused_with(403, "AccessDenied");
        owner.delete("/bucket?tagging").send().await.is(204);
        let none = owner.get("/bucket?tagging").send().await;
        none.refused_with(404, "NoSuchTagSet");
    });
}

#[test]
fn buckets_say_how_long_versions_are_kept() {
    talk(async {
        let owner = fixture().await.owner;
        let rule = |inside: &str| {
            format!(
                "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>\
                 <DefaultRetention>{inside}</DefaultRetention></Rule></ObjectLockConfiguration>"
            )
        };
        let days = rule("<Mode>GOVERNANCE</Mode><Days>1</Days>");
        let off = owner.put("/bucket?object-lock").body(&days).send().await;
        off.refused_with(409, "InvalidBucketState");
        let none = owner.get("/bucket?object-lock").send().await;
        none.refused_with(404, "ObjectLockConfigurationNotFoundError");
        locking(&owner).await;
        let told = owner.get("/locks?object-lock").send().await.is(200);
        assert_eq!(
            told.element("ObjectLockEnabled").as_deref(),
            Some("Enabled")
        );
        assert_eq!(told.element("Rule"), None);
        owner
            .put("/locks?object-lock")
            .body(&days)
            .send()
            .await
            .is(200);
        let told = owner.get("/locks?object-lock").send().await;
        assert_eq!(told.element("Days").as_deref(), Some("1"));
        let suspend =
            "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
        let suspend = owner.put("/locks?versioning").body(suspend).send().await;
        suspend.refused_with(409, "InvalidBucketState");
        for (bad, code) in [
            (
                "<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>",
                "MalformedXML",
            ),
            ("<Mode>governance</Mode><Days>1</Days>", "MalformedXML"),
            ("<Mode>GOVERNANCE</Mode>", "MalformedXML"),
            (
                "<Mode>GOVERNANCE</Mode><Days>0</Days>",
                "InvalidRetentionPeriod",
            ),
            (
                "<Mode>COMPLIANCE</Mode><Years>-1</Years>",
                "InvalidRetentionPeriod",
            ),
        ] {
            let refused = owner.put("/locks?object-lock").body(rule(bad)).send().await;
            refused.refused_with(400, code);
        }
        let put = owner.put("/locks/k").body("x").send().await.is(200);
        let head = owner.head("/locks/k").send().await;
        assert_eq!(head.header("x-amz-object-lock-mode"), Some("GOVERNANCE"));
        let id = version(&put);
        let kept = owner
            .delete(&format!("/locks/k?versionId={id}"))
            .send()
            .await;
        kept.refused_with(403, "AccessDenied");
        // A marker is no removal.
        owner.delete("/locks/k").send().await.is(204);
        let bypass = owner
            .delete(&format!("/locks/k?versionId={id}"))
            .header("x-amz-bypass-governance-retention", "true");
        bypass.send().await.is(204);
    });
}

#[test]
fn versions_are_retained_and_held() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        owner.put("/bucket/k").body("x").send().await.is(200);
        for what in ["retention", "legal-hold"] {
            let plain = owner.get(&format!("/bucket/k?{what}")).send().await;
            plain.refused_with(400, "InvalidRequest");
        }
        locking(owner).await;
        let put = owner
            .put("/locks/k")
            .header("x-amz-object-lock-mode", "GOVERNANCE")
            .header(
                "x-amz-object-lock-retain-until-date",
                "2500-01-03T00:00:00Z",
            )
            .header("x-amz-object-lock-legal-hold", "ON")
            .body("x");
        let id = version(&put.send().await.is(200));
        let head = owner.head("/locks/k").send().await;
        assert_eq!(head.header("x-amz-object-lock-legal-hold"), Some("ON"));
        assert_eq!(
            head.header("x-amz-object-lock-retain-until-date"),
            Some("2500-01-03T00:00:00.000Z")
        );
        let retain = |mode: &str, day: u32, bypass: bool| {
            let xml = format!(
                "<Retention><Mode>{mode}</Mode><RetainUntilDate>2500-01-{day:02}T00:00:00Z\
                 </RetainUntilDate></Retention>"
            );
            let call = owner.put("/locks/k?retention").body(xml);
            if bypass {
                call.header("x-amz-bypass-governance-retention", "true")
            } else {
                call
            }
        };
        retain("GOVERNANCE", 4, false).send().await.is(200);
        let less = retain("GOVERNANCE", 3, false).send().await;
        less.refused_with(403, "AccessDenied");
        retain("GOVERNANCE", 3, true).send().await.is(200);
        let mode = retain("COMPLIANCE", 3, false).send().await;
        mode.refused_with(403, "AccessDenied");
        let other = retain("abc", 3, false).send().await;
        other.refused_with(400, "MalformedXML");
        let told = owner.get("/locks/k?retention").send().await.is(200);
        assert_eq!(told.element("Mode").as_deref(), Some("GOVERNANCE"));

        let target = format!("/locks/k?versionId={id}");
        let remove = || {
            owner
                .delete(&target)
                .header("x-amz-bypass-governance-retention", "true")
        };
        remove().send().await.refused_with(403, "AccessDenied");
        let hold = |status: &str| {
            let xml = format!("<LegalHold><Status>{status}</Status></LegalHold>");
            owner.put("/locks/k?legal-hold").body(xml)
        };
        hold("abc").send().await.refused_with(400, "MalformedXML");
        hold("OFF").send().await.is(200);
        let told = owner.get("/locks/k?legal-hold").send().await;
        assert_eq!(told.element("Status").as_deref(), Some("OFF"));
        // Once in compliance mode nothing helps.
        retain("COMPLIANCE", 3, true).send().await.is(200);
        remove().send().await.refused_with(403, "AccessDenied");
        let softer = retain("GOVERNANCE", 5, true).send().await;
        softer.refused_with(403, "AccessDenied");
        let many =
            format!("<Delete><Object><Key>k</Key><VersionId>{id}</VersionId></Object></Delete>");
        let many = owner.post("/locks?delete").body(many).send().await.is(200);
        assert_eq!(many.element("Code").as_deref(), Some("AccessDenied"));
        let half = owner
            .put("/locks/l")
            .header("x-amz-object-lock-mode", "GOVERNANCE");
        half.send().await.refused_with(400, "InvalidArgument");
        let unlocked = owner
            .put("/bucket/l")
            .header("x-amz-object-lock-legal-hold", "ON");
        unlocked.send().await.refused_with(400, "InvalidRequest");
    });
}

#[test]
fn attributes_tell_what_is_asked_for() {
    talk(async {
        let owner = fixture().await.owner;
        owner.put("/bucket/k").body("body").send().await.is(200);
        let ask = |names: &str| {
            owner
                .get("/bucket/k?attributes")
                .header("x-amz-object-attributes", names)
        };
        let all = ask("ETag,Checksum,ObjectParts, StorageClass,ObjectSize");
        let all = all.send().await.is(200);
        assert_eq!(all.element("ObjectSize").as_deref(), Some("4"));
        assert_eq!(all.element("StorageClass").as_deref(), Some("STANDARD"));
        assert!(all.element("ChecksumCRC64NVME").is_some());
        assert_eq!(all.element("ObjectParts"), None);
        assert!(all.header("last-modified").is_some());
        let one = ask("ObjectSize").send().await.is(200);
        assert_eq!(one.element("ETag"), None);
        for bad in ["", "Size", "ETag,,"] {
            ask(bad).send().await.refused_with(400, "InvalidArgument");
        }
        let none = owner
            .get("/bucket/none?attributes")
            .header("x-amz-object-attributes", "ETag");
        none.send().await.refused_with(404, "NoSuchKey");
        let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
        owner
            .put("/bucket?versioning")
            .body(on)
            .send()
            .await
            .is(200);
        let other = owner.put("/bucket/other").body("x").send().await.is(200);
        let version = other.header("x-amz-version-id").expect("an id").to_owned();
        for key in ["k", "none"] {
            let missing = format!("/bucket/{key}?attributes&versionId={version}");
            let missing = owner
                .get(&missing)
                .header("x-amz-object-attributes", "ETag");
            missing.send().await.refused_with(404, "NoSuchVersion");
        }
    });
}
