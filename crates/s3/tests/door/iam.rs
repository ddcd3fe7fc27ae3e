//! The IAM API at the same door: users, keys, policies, groups, roles, and who may.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

async fn iam(client: &TestClient, form: &str) -> TestResponse {
    let client = client.of_service("iam");
    let call = client
        .post("/")
        .header("content-type", FORM)
        .body(format!("{form}&Version=2010-05-08"));
    call.send().await
}

#[track_caller]
fn refused(reply: TestResponse, status: u16, code: &str) {
    let reply = reply.is(status);
    assert_eq!(reply.code(), code, "{}", reply.text());
}

#[test]
fn users_live_get_keys_and_go() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let made = iam(owner, "Action=CreateUser&UserName=ann&Path=/team/").await;
        let made = made.is(200);
        let arn = made.element("Arn").expect("an ARN");
        assert!(arn.ends_with(":user/team/ann"), "{arn}");
        let twice = iam(owner, "Action=CreateUser&UserName=ann").await;
        refused(twice, 409, "EntityAlreadyExists");
        let users = iam(owner, "Action=ListUsers&PathPrefix=/team/")
            .await
            .is(200);
        assert_eq!(users.elements("UserName"), ["ann"]);
        let none = iam(owner, "Action=ListUsers&PathPrefix=/other/").await;
        assert!(none.is(200).elements("UserName").is_empty());
        let key = iam(owner, "Action=CreateAccessKey&UserName=ann").await;
        let key = key.is(200);
        let id = key.element("AccessKeyId").expect("an id");
        let secret = key.element("SecretAccessKey").expect("a secret");
        let ann = owner.with_key(&id, &secret);

        // A user without a policy may nothing, not even in its own account.
        ann.get("/bucket")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        refused(iam(&ann, "Action=ListUsers").await, 403, "AccessDenied");
        let policy = "%7B%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A\
                      %22s3%3APutObject%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
        let put = format!("Action=PutUserPolicy&UserName=ann&PolicyName=p&PolicyDocument={policy}");
        iam(owner, &put).await.is(200);
        ann.put("/bucket/k").body("x").send().await.is(200);
        ann.get("/bucket/k")
            .send()
            .await
            .refused_with(403, "AccessDenied");
        let named = iam(owner, "Action=ListUserPolicies&UserName=ann").await;
        assert_eq!(named.is(200).elements("member"), ["p"]);
        let broken = put.replace("%7B%22Statement", "%22Statement");
        refused(iam(owner, &broken).await, 400, "MalformedPolicyDocument");

        let switch =
            format!("Action=UpdateAccessKey&UserName=ann&AccessKeyId={id}&Status=Inactive");
        iam(owner, &switch).await.is(200);
        let off = ann.put("/bucket/k").body("y").send().await;
        assert_eq!(off.status, 403);
        // What still has something is not removed.
        let early = iam(owner, "Action=DeleteUser&UserName=ann").await;
        refused(early, 409, "DeleteConflict");
        for form in [
            "Action=DeleteUserPolicy&UserName=ann&PolicyName=p".to_owned(),
            format!("Action=DeleteAccessKey&UserName=ann&AccessKeyId={id}"),
            "Action=DeleteUser&UserName=ann".to_owned(),
        ] {
            iam(owner, &form).await.is(200);
        }
        let gone = iam(owner, "Action=GetUser&UserName=ann").await;
        refused(gone, 404, "NoSuchEntity");
    });
}

#[test]
fn accounts_do_not_see_each_other() {
    talk(async {
        let fixture = fixture().await;
        iam(&fixture.owner, "Action=CreateUser&UserName=ann")
            .await
            .is(200);
        let seen = iam(&fixture.stranger, "Action=ListUsers").await.is(200);
        assert!(!seen.elements("UserName").contains(&"ann".to_owned()));
        let get = iam(&fixture.stranger, "Action=GetUser&UserName=ann").await;
        refused(get, 404, "NoSuchEntity");
        let key = iam(&fixture.stranger, "Action=CreateAccessKey&UserName=ann").await;
        refused(key, 404, "NoSuchEntity");
    });
}

#[test]
fn groups_carry_policies_to_their_members() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let policy = "%7B%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A\
                      %22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
        for form in [
            "Action=CreateUser&UserName=ann".to_owned(),
            "Action=CreateGroup&GroupName=g".to_owned(),
            format!("Action=PutGroupPolicy&GroupName=g&PolicyName=p&PolicyDocument={policy}"),
        ] {
            iam(owner, &form).await.is(200);
        }
        let key = iam(owner, "Action=CreateAccessKey&UserName=ann")
            .await
            .is(200);
        let id = key.element("AccessKeyId").expect("an id");
        let secret = key.element("SecretAccessKey").expect("a secret");
        let ann = owner.with_key(&id, &secret);
        ann.get("/bucket").send().await.is(403);
        iam(owner, "Action=AddUserToGroup&GroupName=g&UserName=ann")
            .await
            .is(200);
        ann.get("/bucket").send().await.is(200);
        let group = iam(owner, "Action=GetGroup&GroupName=g").await.is(200);
        assert_eq!(group.elements("UserName"), ["ann"]);
        iam(owner, "Action=RemoveUserFromGroup&GroupName=g&UserName=ann")
            .await
            .is(200);
        ann.get("/bucket").send().await.is(403);
    });
}

#[test]
fn what_is_no_call_is_refused_in_words_of_iam() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        refused(iam(owner, "Action=MakeCoffee").await, 400, "InvalidAction");
        refused(
            iam(owner, "Action=CreateUser").await,
            400,
            "ValidationError",
        );
        refused(
            iam(owner, "Action=GetUser&UserName=%zz").await,
            400,
            "MalformedQueryString",
        );
        refused(
            iam(owner, "Action=GetUser&Action=ListUsers").await,
            400,
            "MalformedQueryString",
        );
        let providers = iam(owner, "Action=ListOpenIDConnectProviders")
            .await
            .is(200);
        assert!(providers.element("OpenIDConnectProviderList").is_some());
        // Nobody, a signature for the wrong service, and one over another body.
        assert_eq!(iam(&fixture.nobody, "Action=ListUsers").await.status, 403);
        let form = "Action=ListUsers&Version=2010-05-08";
        let call = |client: &TestClient| {
            let client = client.clone();
            async move {
                let kind = "application/x-www-form-urlencoded; charset=utf-8";
                let call = client.post("/").header("content-type", kind).body(form);
                call.send_with_body(b"Action=CreateUser&UserName=ann&Version=2010-05-08")
                    .await
            }
        };
        assert_ne!(call(&owner.of_service("iam")).await.status, 200);
        let gone = iam(owner, "Action=GetUser&UserName=ann").await;
        refused(gone, 404, "NoSuchEntity");
    });
}

/// Signature V2 does not cover the body, in which a call of the IAM API stands.
#[test]
fn signatures_of_version_2_are_not_taken() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let id = owner.access_key();
        let date = "Tue, 27 Mar 2007 19:36:42 +0000";
        let signature = owner.signature_v2(&format!("POST\n\n{FORM}\n{date}\n/"));
        let expires = owner.date().secs() + 60;
        let presigned = owner.sign_v2(&format!("POST\n\n{FORM}\n{expires}\n/"));
        let url = format!("/?AWSAccessKeyId={id}&Signature={presigned}&Expires={expires}");
        for action in ["ListUsers", "GetCallerIdentity"] {
            let call = |url: &str| {
                let call = fixture.nobody.post(url).header("content-type", FORM);
                call.body(format!("Action={action}"))
            };
            let signed = call("/")
                .header("date", date)
                .header("authorization", &format!("AWS {id}:{signature}"));
            refused(signed.send_unsigned().await, 400, "InvalidRequest");
            // Such calls have no query string at all.
            refused(call(&url).send_unsigned().await, 405, "MethodNotAllowed");
        }
    });
}

#[test]
fn parameters_that_take_rights_away_are_not_ignored() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let boundary = "PermissionsBoundary=arn%3Aaws%3Aiam%3A%3Aaws%3Apolicy%2FReadOnlyAccess";
        let trust = "%7B%22Statement%22%3A%5B%5D%7D";
        for form in [
            format!("Action=CreateUser&UserName=ann&{boundary}"),
            format!("Action=CreateRole&RoleName=r&AssumeRolePolicyDocument={trust}&{boundary}"),
        ] {
            refused(iam(owner, &form).await, 400, "ValidationError");
        }
        let user = iam(owner, "Action=GetUser&UserName=ann").await;
        refused(user, 404, "NoSuchEntity");
        let sts = owner.of_service("sts");
        for form in [
            "Action=GetSessionToken&SerialNumber=arn%3Aaws%3Aiam%3A%3A1%3Amfa%2Fx&TokenCode=000000",
            "Action=AssumeRole&RoleArn=r&RoleSessionName=s&TokenCode=000000",
            "Action=AssumeRole&RoleArn=r&RoleSessionName=s&ProvidedContexts.member.1.ContextAssertion=x",
        ] {
            let call = sts.post("/").header("content-type", FORM);
            let call = call.body(format!("{form}&Version=2011-06-15"));
            refused(call.send().await, 400, "ValidationError");
        }
    });
}
