//! Access control lists that are put back as they were read, as `s3cmd cp` and `s3cmd setacl` do.

use crate::client::TestClient;
use crate::fixture::{Fixture, fixture, talk};

const OWNER: &str = "0000000000000001";
const STRANGER: &str = "0000000000000002";
const UNSUPPORTED: &str = "AccessControlListNotSupported";

async fn enforced() -> Fixture {
    let fixture = fixture().await;
    let owner = &fixture.owner;
    owner.put("/bucket/k").body("x").send().await.is(200);
    let controls = "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced\
                    </ObjectOwnership></Rule></OwnershipControls>";
    let put = owner.put("/bucket?ownershipControls").body(controls);
    put.send().await.is(200);
    fixture
}

async fn read(client: &TestClient, target: &str) -> String {
    client.get(target).send().await.is(200).text()
}

/// As s3cmd writes it: no namespace, nothing but ids.
fn of_s3cmd(owner: &str, grants: &[(&str, &str)]) -> String {
    let grants: String = grants
        .iter()
        .map(|(id, permission)| {
            format!(
                "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
                 xsi:type=\"CanonicalUser\"><ID>{id}</ID></Grantee>\
                 <Permission>{permission}</Permission></Grant>"
            )
        })
        .collect();
    format!(
        "<AccessControlPolicy><Owner><ID>{owner}</ID></Owner><AccessControlList>{grants}\
         </AccessControlList></AccessControlPolicy>"
    )
}

/// S3 user guide, "Disabling ACLs": what gives the bucket's owner everything and nobody else anything
/// is taken, and changes nothing.
#[test]
fn a_list_that_says_what_is_so_is_taken_where_lists_are_off() {
    talk(async {
        let fixture = enforced().await;
        let owner = &fixture.owner;
        for target in ["/bucket?acl", "/bucket/k?acl"] {
            let before = read(owner, target).await;
            let unnamed = before.replace("<DisplayName>owner</DisplayName>", "<DisplayName/>");
            assert_ne!(unnamed, before);
            let empty = unnamed.replace("<DisplayName/>", "<DisplayName></DisplayName>");
            let full = ("FULL_CONTROL", OWNER);
            for text in [
                before.clone(),
                unnamed,
                empty,
                of_s3cmd(OWNER, &[(full.1, full.0)]),
                of_s3cmd(
                    OWNER,
                    &[(full.1, full.0), (full.1, "READ"), (full.1, full.0)],
                ),
            ] {
                owner.put(target).body(&text).send().await.is(200);
                assert_eq!(read(owner, target).await, before);
            }
            let call = |name: &'static str, value: &str| owner.put(target).header(name, value);
            for (name, value) in [
                ("x-amz-acl", "bucket-owner-full-control"),
                ("x-amz-grant-full-control", &*format!("id=\"{OWNER}\"")),
            ] {
                call(name, value).send().await.is(200);
            }
            for (name, value) in [
                ("x-amz-acl", "public-read"),
                ("x-amz-acl", "authenticated-read"),
                ("x-amz-grant-read", &*format!("id=\"{STRANGER}\"")),
                // The owner's, but not everything.
                ("x-amz-grant-read", &*format!("id=\"{OWNER}\"")),
            ] {
                let put = call(name, value).send().await;
                put.refused_with(400, UNSUPPORTED);
            }
            for grants in [
                &[(OWNER, "FULL_CONTROL"), (STRANGER, "READ")][..],
                &[(OWNER, "READ")],
                &[],
            ] {
                let put = owner.put(target).body(of_s3cmd(OWNER, grants));
                put.send().await.refused_with(400, UNSUPPORTED);
            }
            let theirs = of_s3cmd(STRANGER, &[(STRANGER, "FULL_CONTROL")]);
            owner.put(target).body(theirs).send().await.is(403);
            let text = of_s3cmd(OWNER, &[(OWNER, "FULL_CONTROL")]);
            fixture.stranger.put(target).body(text).send().await.is(403);
            assert_eq!(read(owner, target).await, before);
        }
    });
}

/// The list that is shown is the bucket owner's, also where somebody else wrote the object before.
#[test]
fn what_others_wrote_before_is_the_bucket_owners_too() {
    talk(async {
        let fixture = fixture().await;
        let (owner, stranger) = (&fixture.owner, &fixture.stranger);
        let open = owner
            .put("/bucket?acl")
            .header("x-amz-acl", "public-read-write");
        open.send().await.is(200);
        stranger.put("/bucket/k").body("x").send().await.is(200);
        let close = owner.put("/bucket?acl").header("x-amz-acl", "private");
        close.send().await.is(200);
        let controls = "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced\
                        </ObjectOwnership></Rule></OwnershipControls>";
        let put = owner.put("/bucket?ownershipControls").body(controls);
        put.send().await.is(200);
        let shown = read(owner, "/bucket/k?acl").await;
        assert!(shown.contains(OWNER) && !shown.contains(STRANGER));
        owner.put("/bucket/k?acl").body(shown).send().await.is(200);
    });
}

#[test]
fn lists_that_grant_come_back_as_they_were() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        owner.put("/bucket/k").body("x").send().await.is(200);
        let (read_to, all) = (
            format!("id={STRANGER}"),
            "http://acs.amazonaws.com/groups/global/AllUsers",
        );
        for target in ["/bucket?acl", "/bucket/k?acl"] {
            for canned in [
                "private",
                "public-read",
                "public-read-write",
                "authenticated-read",
                "bucket-owner-read",
                "bucket-owner-full-control",
                "log-delivery-write",
            ] {
                let put = owner.put(target).header("x-amz-acl", canned);
                put.send().await.is(200);
                let before = read(owner, target).await;
                owner.put(target).body(&before).send().await.is(200);
                assert_eq!(read(owner, target).await, before, "{canned}");
            }
            let put = owner.put(target).header("x-amz-grant-read-acp", &read_to);
            let put = put.header("x-amz-grant-read", &format!("uri=\"{all}\""));
            put.send().await.is(200);
            let before = read(owner, target).await;
            owner.put(target).body(&before).send().await.is(200);
            assert_eq!(read(owner, target).await, before);
        }
    });
}
