//! Who may: policies, lists, ownership, the public access block, and what they refuse.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{Fixture, fixture, talk};

const OWNER: &str = "0000000000000001";
const STRANGER: &str = "0000000000000002";

fn policy(effect: &str, principal: &str, action: &str, resource: &str, more: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"{effect}","Principal":{principal},
        "Action":"{action}","Resource":"arn:aws:s3:::{resource}"{more}}}]}}"#
    )
}

async fn set(client: &TestClient, target: &str, body: &str) -> TestResponse {
    client.put(target).body(body).send().await
}

/// A house with one object in its bucket.
async fn furnished() -> Fixture {
    let fixture = fixture().await;
    fixture
        .owner
        .put("/bucket/k")
        .body("secret")
        .send()
        .await
        .is(200);
    fixture
}

#[test]
fn a_policy_lets_others_in_and_keeps_them_out() {
    talk(async {
        let fixture = furnished().await;
        let none = fixture.owner.get("/bucket?policy").send().await;
        none.refused_with(404, "NoSuchBucketPolicy");
        let text = policy("Allow", "\"*\"", "s3:GetObject", "bucket/k*", "");
        set(&fixture.owner, "/bucket?policy", &text).await.is(204);
        let kept = fixture.owner.get("/bucket?policy").send().await.is(200);
        assert_eq!(kept.text(), text);
        for client in [&fixture.stranger, &fixture.nobody] {
            let read = client.get("/bucket/k").send().await.is(200);
            assert_eq!(read.text(), "secret");
            client.get("/bucket/other").send().await.is(403);
            client.get("/bucket").send().await.is(403);
            client.put("/bucket/k").body("x").send().await.is(403);
            set(client, "/bucket?policy", &text).await.is(403);
            client.delete("/bucket?policy").send().await.is(403);
            client.get("/bucket?policy").send().await.is(403);
        }
        let status = fixture
            .owner
            .get("/bucket?policyStatus")
            .send()
            .await
            .is(200);
        assert_eq!(status.element("IsPublic").as_deref(), Some("true"));
        // What it denies it denies to the owner too, who can change it none the less.
        let text = policy("Deny", "\"*\"", "s3:*", "bucket*", "");
        set(&fixture.owner, "/bucket?policy", &text).await.is(204);
        fixture
            .owner
            .get("/bucket/k")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        fixture.owner.delete("/bucket?policy").send().await.is(204);
        fixture.owner.get("/bucket/k").send().await.is(200);
        fixture.stranger.get("/bucket/k").send().await.is(403);
        let locking = fixture.owner.put("/bucket?policy").body(&text);
        let locking = locking.header("x-amz-confirm-remove-self-bucket-access", "true");
        locking.send().await.is(204);
        fixture.owner.delete("/bucket?policy").send().await.is(403);
    });
}

#[test]
fn what_is_no_policy_is_refused() {
    talk(async {
        let fixture = furnished().await;
        for bad in [
            "",
            "no json",
            "{}",
            &policy("Allow", "\"*\"", "s3:GetObject", "other/*", ""),
            &policy("Allow", "\"*\"", "s3:GetObjects", "bucket/*", ""),
            &policy("Perhaps", "\"*\"", "s3:GetObject", "bucket/*", ""),
            &" ".repeat(21_000),
        ] {
            let put = set(&fixture.owner, "/bucket?policy", bad).await;
            put.refused_with(400, "MalformedPolicy");
        }
        let none = fixture.owner.get("/bucket?policy").send().await;
        none.refused_with(404, "NoSuchBucketPolicy");
    });
}

#[test]
fn conditions_see_the_request() {
    talk(async {
        let fixture = furnished().await;
        let allow = |action: &str, resource: &str, condition: &str| {
            let more = format!(",\"Condition\":{condition}");
            policy("Allow", "\"*\"", action, resource, &more)
        };
        let referer = allow(
            "s3:GetObject",
            "bucket/*",
            r#"{"StringLike":{"aws:Referer":"http://example.org/*"},
               "StringEquals":{"aws:PrincipalType":"Anonymous"}}"#,
        );
        set(&fixture.owner, "/bucket?policy", &referer)
            .await
            .is(204);
        let read = || fixture.nobody.get("/bucket/k");
        read().send().await.is(403);
        read()
            .header("referer", "http://example.org/x")
            .send()
            .await
            .is(200);
        read()
            .header("referer", "http://evil.org/x")
            .send()
            .await
            .is(403);
        let prefix = allow(
            "s3:ListBucket",
            "bucket",
            r#"{"StringLike":{"s3:prefix":"public/*"},"NumericLessThanEquals":{"s3:max-keys":"10"}}"#,
        );
        set(&fixture.owner, "/bucket?policy", &prefix).await.is(204);
        let nobody = &fixture.nobody;
        nobody
            .get("/bucket?prefix=public/&max-keys=10")
            .send()
            .await
            .is(200);
        nobody
            .get("/bucket?prefix=public/&max-keys=11")
            .send()
            .await
            .is(403);
        nobody
            .get("/bucket?prefix=private/&max-keys=1")
            .send()
            .await
            .is(403);
        let canned = allow(
            "s3:PutObject",
            "bucket/*",
            r#"{"StringEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}}"#,
        );
        set(&fixture.owner, "/bucket?policy", &canned).await.is(204);
        let put = || fixture.stranger.put("/bucket/n").body("x");
        put().send().await.is(403);
        put()
            .header("x-amz-acl", "bucket-owner-full-control")
            .send()
            .await
            .is(200);
    });
}

/// Only who may list a bucket learns that a key is not there.
#[test]
fn existence_is_not_told() {
    talk(async {
        let fixture = furnished().await;
        let read = policy("Allow", "\"*\"", "s3:GetObject", "bucket/*", "");
        set(&fixture.owner, "/bucket?policy", &read).await.is(204);
        fixture
            .stranger
            .get("/bucket/none")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        fixture.stranger.head("/bucket/none").send().await.is(403);
        let list = policy(
            "Allow",
            "\"*\"",
            "s3:ListBucket",
            "bucket",
            r#","Condition":{"StringLike":{"s3:prefix":"public/*"}}"#,
        );
        set(&fixture.owner, "/bucket?policy", &list).await.is(204);
        fixture
            .stranger
            .head("/bucket/public/none")
            .send()
            .await
            .is(404);
        fixture
            .stranger
            .head("/bucket/private/none")
            .send()
            .await
            .is(403);
        fixture.stranger.head("/bucket/k").send().await.is(403);
    });
}

#[test]
fn lists_grant_what_they_say() {
    talk(async {
        let fixture = furnished().await;
        let (owner, stranger, nobody) = (&fixture.owner, &fixture.stranger, &fixture.nobody);
        let put = |name: &'static str| owner.put("/bucket?acl").header("x-amz-acl", name);
        put("public-read").send().await.is(200);
        nobody.get("/bucket").send().await.is(200);
        nobody.get("/bucket/k").send().await.is(403);
        nobody.put("/bucket/n").body("x").send().await.is(403);
        put("authenticated-read").send().await.is(200);
        nobody.get("/bucket").send().await.is(403);
        stranger.get("/bucket").send().await.is(200);
        put("public-read-write").send().await.is(200);
        stranger
            .put("/bucket/theirs")
            .body("x")
            .send()
            .await
            .is(200);
        // What the stranger wrote is the stranger's.
        owner.get("/bucket/theirs").send().await.is(403);
        let acl = stranger.get("/bucket/theirs?acl").send().await.is(200);
        assert_eq!(acl.element("ID").as_deref(), Some(STRANGER));
        assert_eq!(acl.element("DisplayName").as_deref(), Some("stranger"));
        owner.delete("/bucket/theirs").send().await.is(204);
        put("private").send().await.is(200);
        nobody.get("/bucket").send().await.is(403);
        let document = |grants: &str| {
            format!(
                "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Owner>\
                 <ID>{OWNER}</ID></Owner><AccessControlList>{grants}</AccessControlList>\
                 </AccessControlPolicy>"
            )
        };
        let grant = |kind: &str, who: &str, what: &str| {
            format!(
                "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
                 xsi:type=\"{kind}\">{who}</Grantee><Permission>{what}</Permission></Grant>"
            )
        };
        let to = format!("<ID>{STRANGER}</ID>");
        let text = document(&grant("CanonicalUser", &to, "READ_ACP"));
        set(owner, "/bucket?acl", &text).await.is(200);
        let shown = stranger.get("/bucket?acl").send().await.is(200);
        assert_eq!(shown.elements("ID"), [STRANGER, OWNER]);
        stranger.get("/bucket").send().await.is(403);
        set(stranger, "/bucket?acl", &text).await.is(403);
        for (bad, status, code) in [
            (
                "<AccessControlPolicy/>".to_owned(),
                400,
                "MalformedACLError",
            ),
            (text.replace(OWNER, STRANGER), 403, "AccessDenied"),
            (text.replace(STRANGER, "_foo"), 400, "InvalidArgument"),
            (
                text.replace("READ_ACP", "READ_ALL"),
                400,
                "MalformedACLError",
            ),
            (
                document(&grant(
                    "AmazonCustomerByEmail",
                    "<EmailAddress>no@one</EmailAddress>",
                    "READ",
                )),
                400,
                "UnresolvableGrantByEmailAddress",
            ),
        ] {
            set(owner, "/bucket?acl", &bad)
                .await
                .refused_with(status, code);
        }
        owner
            .put("/bucket?acl")
            .send()
            .await
            .refused_with(400, "MissingSecurityHeader");
    });
}

#[test]
fn ownership_switches_lists_off() {
    talk(async {
        let fixture = furnished().await;
        let owner = &fixture.owner;
        let none = owner.get("/bucket?ownershipControls").send().await;
        none.refused_with(404, "OwnershipControlsNotFoundError");
        let controls = |name: &str| {
            format!(
                "<OwnershipControls xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule>\
                 <ObjectOwnership>{name}</ObjectOwnership></Rule></OwnershipControls>"
            )
        };
        let target = "/bucket?ownershipControls";
        let open = owner.put("/bucket?acl").header("x-amz-acl", "public-read");
        open.send().await.is(200);
        let enforced = controls("BucketOwnerEnforced");
        let put = set(owner, target, &enforced).await;
        put.refused_with(400, "InvalidBucketAclWithObjectOwnership");
        let close = owner.put("/bucket?acl").header("x-amz-acl", "private");
        close.send().await.is(200);
        set(owner, target, &enforced).await.is(200);
        let shown = owner.get(target).send().await.is(200);
        assert_eq!(
            shown.element("ObjectOwnership").as_deref(),
            Some("BucketOwnerEnforced")
        );
        let everything = policy("Allow", "\"*\"", "s3:*", "bucket*", "");
        set(owner, "/bucket?policy", &everything).await.is(204);
        let put = |name: &'static str| {
            fixture
                .stranger
                .put("/bucket/n")
                .body("x")
                .header("x-amz-acl", name)
        };
        put("private")
            .send()
            .await
            .refused_with(400, "AccessControlListNotSupported");
        put("bucket-owner-full-control").send().await.is(200);
        let acl = fixture.stranger.get("/bucket/n?acl").send().await.is(200);
        assert_eq!(acl.element("ID").as_deref(), Some(OWNER));
        let list = owner.put("/bucket?acl").header("x-amz-acl", "private");
        list.send()
            .await
            .refused_with(400, "AccessControlListNotSupported");
        let preferred = controls("BucketOwnerPreferred");
        set(owner, target, &preferred).await.is(200);
        fixture
            .stranger
            .put("/bucket/m")
            .body("x")
            .send()
            .await
            .is(200);
        let acl = fixture.stranger.get("/bucket/m?acl").send().await.is(200);
        assert_eq!(acl.element("ID").as_deref(), Some(STRANGER));
        owner.delete(target).send().await.is(204);
        owner.get(target).send().await.is(404);
        set(owner, target, &controls("Nobody")).await.is(400);
        let made = fixture
            .owner
            .put("/enforced")
            .header("x-amz-acl", "public-read");
        let made = made
            .header("x-amz-object-ownership", "BucketOwnerEnforced")
            .send()
            .await;
        made.refused_with(400, "InvalidBucketAclWithObjectOwnership");
    });
}

#[test]
fn the_public_can_be_kept_out() {
    talk(async {
        let fixture = furnished().await;
        let owner = &fixture.owner;
        let target = "/bucket?publicAccessBlock";
        let block = |on: &str| {
            format!(
                "<PublicAccessBlockConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <{on}>true</{on}></PublicAccessBlockConfiguration>"
            )
        };
        let read = policy("Allow", "\"*\"", "s3:GetObject", "bucket/*", "");
        set(owner, target, &block("BlockPublicPolicy"))
            .await
            .is(200);
        let put = set(owner, "/bucket?policy", &read).await;
        put.refused_with(403, "AccessDenied");
        set(owner, target, &block("BlockPublicAcls")).await.is(200);
        set(owner, "/bucket?policy", &read).await.is(204);
        fixture.nobody.get("/bucket/k").send().await.is(200);
        let open = || owner.put("/bucket?acl").header("x-amz-acl", "public-read");
        open().send().await.refused_with(403, "AccessDenied");
        let object = owner
            .put("/bucket/n")
            .body("x")
            .header("x-amz-acl", "public-read");
        object.send().await.refused_with(403, "AccessDenied");
        set(owner, target, &block("RestrictPublicBuckets"))
            .await
            .is(200);
        fixture.nobody.get("/bucket/k").send().await.is(403);
        owner.get("/bucket/k").send().await.is(200);
        set(owner, target, &block("IgnorePublicAcls")).await.is(200);
        open().send().await.is(200);
        fixture.nobody.get("/bucket").send().await.is(403);
        let shown = owner.get(target).send().await.is(200);
        assert_eq!(shown.element("IgnorePublicAcls").as_deref(), Some("true"));
        owner.delete(target).send().await.is(204);
        fixture.nobody.get("/bucket").send().await.is(200);
        let none = owner.get(target).send().await;
        none.refused_with(404, "NoSuchPublicAccessBlockConfiguration");
    });
}

#[test]
fn said_owners_and_payers_count() {
    talk(async {
        let fixture = furnished().await;
        let owner = &fixture.owner;
        let said = |id: &'static str| {
            owner
                .get("/bucket/k")
                .header("x-amz-expected-bucket-owner", id)
        };
        said(OWNER).send().await.is(200);
        said(STRANGER)
            .send()
            .await
            .refused_with(403, "AccessDenied");
        let read = policy("Allow", "\"*\"", "s3:GetObject", "bucket/*", "");
        set(owner, "/bucket?policy", &read).await.is(204);
        let text = "<RequestPaymentConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <Payer>Requester</Payer></RequestPaymentConfiguration>";
        set(owner, "/bucket?requestPayment", text).await.is(200);
        let shown = owner.get("/bucket?requestPayment").send().await.is(200);
        assert_eq!(shown.element("Payer").as_deref(), Some("Requester"));
        fixture.nobody.get("/bucket/k").send().await.is(403);
        fixture.stranger.get("/bucket/k").send().await.is(403);
        let pays = fixture
            .stranger
            .get("/bucket/k")
            .header("x-amz-request-payer", "requester");
        pays.send().await.is(200);
        owner.get("/bucket/k").send().await.is(200);
    });
}

#[test]
fn who_may_only_write_cannot_make_what_nobody_may_remove() {
    talk(async {
        let fixture = fixture().await;
        let lock = fixture.owner.put("/locks");
        let lock = lock.header("x-amz-bucket-object-lock-enabled", "true");
        lock.send().await.is(200);
        let stranger = format!("{{\"AWS\":\"{STRANGER}\"}}");
        let allow = |action: &str| policy("Allow", &stranger, action, "locks/*", "");
        let put = |name: &'static str, value: &'static str| {
            let put = fixture
                .stranger
                .put("/locks/k")
                .body("x")
                .header(name, value);
            match name {
                "x-amz-object-lock-mode" => put.header(
                    "x-amz-object-lock-retain-until-date",
                    "2500-01-03T00:00:00Z",
                ),
                _ => put,
            }
        };
        let marks = [
            ("x-amz-object-lock-mode", "COMPLIANCE"),
            ("x-amz-object-lock-legal-hold", "ON"),
        ];
        set(&fixture.owner, "/locks?policy", &allow("s3:PutObject"))
            .await
            .is(204);
        fixture
            .stranger
            .put("/locks/k")
            .body("x")
            .send()
            .await
            .is(200);
        for (name, value) in marks {
            put(name, value)
                .send()
                .await
                .refused_with(403, "AccessDenied");
        }
        set(&fixture.owner, "/locks?policy", &allow("s3:PutObject*"))
            .await
            .is(204);
        for (name, value) in marks {
            put(name, value).send().await.is(200);
        }
    });
}

#[test]
fn tags_and_lists_given_with_a_write_need_their_own_right() {
    talk(async {
        let fixture = fixture().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        let who = format!("{{\"AWS\":\"{STRANGER}\"}}");
        let put = |name: &str, value: &str| {
            let put = stranger.put("/bucket/k").body("x");
            put.header(name, value)
        };
        let allow = policy("Allow", &who, "s3:PutObject", "bucket/*", "");
        set(owner, "/bucket?policy", &allow).await.is(204);
        put("x-amz-meta-a", "1").send().await.is(200);
        put("x-amz-tagging", "a=1")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        let begin = stranger.post("/bucket/k?uploads");
        let begin = begin.header("x-amz-tagging", "a=1");
        begin.send().await.refused_with(403, "AccessDenied");
        let both = allow.replace(
            "\"s3:PutObject\"",
            "[\"s3:PutObject\",\"s3:PutObjectTagging\"]",
        );
        set(owner, "/bucket?policy", &both).await.is(204);
        put("x-amz-tagging", "a=1").send().await.is(200);

        // Where lists count, who writes owns what it writes, and may open it unless told not to.
        let ownership = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>\
                         </Rule></OwnershipControls>";
        set(owner, "/bucket?ownershipControls", ownership)
            .await
            .is(200);
        let blocks = "<PublicAccessBlockConfiguration/>";
        set(owner, "/bucket?publicAccessBlock", blocks)
            .await
            .is(200);
        put("x-amz-acl", "public-read").send().await.is(200);
        let deny = policy("Deny", "\"*\"", "s3:PutObjectAcl", "bucket/*", "");
        let deny = deny.split_once("\"Statement\":[").expect("statements").1;
        let both = both.replace("}]}", &format!("}},{deny}"));
        set(owner, "/bucket?policy", &both).await.is(204);
        put("x-amz-meta-a", "1").send().await.is(200);
        for client in [stranger, owner] {
            let put = client.put("/bucket/k").body("x");
            let put = put.header("x-amz-acl", "public-read");
            put.send().await.refused_with(403, "AccessDenied");
        }
    });
}
