//! The IAM API about what comes from elsewhere: OpenID Connect providers, AWS's own policies, roles of the
//! tenant.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const URL: &str = "https%3A%2F%2Fidp.example.org%2Flab";
const THUMBPRINT: &str = "0123456789abcdef0123456789abcdef01234567";
const TRUST: &str = "%7B%22Statement%22%3A%7B%22Effect%22%3A%22Allow%22%2C%22Principal%22%3A%7B%22AWS%22%3A\
                     %22%2A%22%7D%2C%22Action%22%3A%22sts%3AAssumeRole%22%7D%7D";

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

async fn provider(client: &TestClient) -> String {
    let form = format!(
        "Action=CreateOpenIDConnectProvider&Url={URL}&ClientIDList.member.1=one\
         &ClientIDList.member.2=two&ThumbprintList.member.1={THUMBPRINT}"
    );
    let made = iam(client, &form).await.is(200);
    made.element("OpenIDConnectProviderArn").expect("an ARN")
}

#[test]
fn providers_are_made_changed_and_removed() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let arn = provider(owner).await;
        assert_eq!(
            arn,
            "arn:aws:iam::0000000000000001:oidc-provider/idp.example.org/lab"
        );
        let named = |action: &str| format!("Action={action}&OpenIDConnectProviderArn={arn}");
        let get = || async { iam(owner, &named("GetOpenIDConnectProvider")).await.is(200) };
        let found = get().await;
        assert_eq!(
            found.element("Url").as_deref(),
            Some("https://idp.example.org/lab")
        );
        assert_eq!(found.elements("member"), ["one", "two", THUMBPRINT]);
        assert!(found.element("CreateDate").is_some());
        let twice = format!("Action=CreateOpenIDConnectProvider&Url={URL}");
        refused(iam(owner, &twice).await, 409, "EntityAlreadyExists");

        for client_id in ["three", "three"] {
            let add = named("AddClientIDToOpenIDConnectProvider");
            iam(owner, &format!("{add}&ClientID={client_id}"))
                .await
                .is(200);
        }
        for client_id in ["one", "one"] {
            let remove = named("RemoveClientIDFromOpenIDConnectProvider");
            iam(owner, &format!("{remove}&ClientID={client_id}"))
                .await
                .is(200);
        }
        let other = THUMBPRINT.replace('0', "f");
        let update = named("UpdateOpenIDConnectProviderThumbprint");
        let form = format!("{update}&ThumbprintList.member.1={other}");
        iam(owner, &form).await.is(200);
        refused(
            iam(owner, &format!("{update}&ThumbprintList.member.1=short")).await,
            400,
            "ValidationError",
        );
        let changed = get().await.elements("member");
        assert_eq!(changed, ["two", "three", other.as_str()]);

        let list = "Action=ListOpenIDConnectProviders";
        assert_eq!(
            iam(owner, list).await.is(200).elements("Arn"),
            [arn.as_str()]
        );
        iam(owner, &named("DeleteOpenIDConnectProvider"))
            .await
            .is(200);
        assert!(iam(owner, list).await.is(200).elements("Arn").is_empty());
        for action in ["GetOpenIDConnectProvider", "DeleteOpenIDConnectProvider"] {
            refused(iam(owner, &named(action)).await, 404, "NoSuchEntity");
        }
    });
}

#[test]
fn providers_are_their_accounts_and_need_its_policies() {
    talk(async {
        let fixture = fixture().await;
        let arn = provider(&fixture.owner).await;
        for action in [
            "GetOpenIDConnectProvider",
            "DeleteOpenIDConnectProvider",
            "AddClientIDToOpenIDConnectProvider&ClientID=x",
            "RemoveClientIDFromOpenIDConnectProvider&ClientID=x",
            "UpdateOpenIDConnectProviderThumbprint",
        ] {
            let form = format!("Action={action}&OpenIDConnectProviderArn={arn}");
            for other in [&fixture.stranger, &fixture.manager] {
                refused(iam(other, &form).await, 404, "NoSuchEntity");
            }
        }
        let list = "Action=ListOpenIDConnectProviders";
        for other in [&fixture.stranger, &fixture.manager] {
            assert!(iam(other, list).await.is(200).elements("Arn").is_empty());
        }
        // Another account, and the tenant, may have one of the same name.
        assert_ne!(provider(&fixture.stranger).await, arn);
        let of_tenant = provider(&fixture.manager).await;
        assert_eq!(of_tenant, "arn:aws:iam:::oidc-provider/idp.example.org/lab");

        // Users of the account may what its policies say.
        iam(&fixture.owner, "Action=CreateUser&UserName=ann")
            .await
            .is(200);
        let key = iam(&fixture.owner, "Action=CreateAccessKey&UserName=ann").await;
        let key = key.is(200);
        assert!(key.element("CreateDate").is_some());
        let id = key.element("AccessKeyId").expect("an id");
        let ann = fixture
            .owner
            .with_key(&id, &key.element("SecretAccessKey").expect("a secret"));
        let get = format!("Action=GetOpenIDConnectProvider&OpenIDConnectProviderArn={arn}");
        let delete = format!("Action=DeleteOpenIDConnectProvider&OpenIDConnectProviderArn={arn}");
        for form in [get.as_str(), delete.as_str(), list] {
            refused(iam(&ann, form).await, 403, "AccessDenied");
        }
        let policy = "arn:aws:iam::aws:policy/IAMReadOnlyAccess";
        let attach = format!("Action=AttachUserPolicy&UserName=ann&PolicyArn={policy}");
        iam(&fixture.owner, &attach).await.is(200);
        for form in [get.as_str(), list] {
            iam(&ann, form).await.is(200);
        }
        refused(iam(&ann, &delete).await, 403, "AccessDenied");
    });
}

#[test]
fn a_provider_elsewhere_than_the_administrator_allows_is_refused() {
    talk(async {
        let fixture = fixture().await;
        for url in [
            "https%3A%2F%2Fidp.example.net",
            "http%3A%2F%2Flocalhost%3A9001",
            "http%3A%2F%2Fidp.example.org",
        ] {
            let form = format!("Action=CreateOpenIDConnectProvider&Url={url}");
            refused(iam(&fixture.manager, &form).await, 400, "ValidationError");
        }
    });
}

#[test]
fn policies_of_aws_are_there_to_be_attached_and_not_changed() {
    talk(async {
        let fixture = fixture().await;
        let owner = &fixture.owner;
        let arn = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess";
        let listed = iam(owner, "Action=ListPolicies&Scope=AWS").await.is(200);
        assert!(listed.elements("Arn").contains(&arn.to_owned()));
        assert_eq!(listed.elements("Arn").len(), 5);
        let local = iam(owner, "Action=ListPolicies&Scope=Local").await.is(200);
        assert!(local.elements("Arn").is_empty());
        let all = iam(owner, "Action=ListPolicies").await.is(200);
        assert_eq!(all.elements("Arn"), listed.elements("Arn"));
        let got = iam(owner, &format!("Action=GetPolicy&PolicyArn={arn}"))
            .await
            .is(200);
        assert_eq!(got.element("DefaultVersionId").as_deref(), Some("v3"));
        let version = format!("Action=GetPolicyVersion&PolicyArn={arn}&VersionId=v3");
        let version = iam(owner, &version).await.is(200);
        assert!(
            version
                .element("Document")
                .expect("a document")
                .contains("s3%3AGet")
        );

        for change in [
            "DeletePolicy",
            "CreatePolicyVersion&PolicyDocument=%7B%22Statement%22%3A%5B%5D%7D",
            "DeletePolicyVersion&VersionId=v3",
            "SetDefaultPolicyVersion&VersionId=v3",
        ] {
            for client in [owner, &fixture.manager] {
                let form = format!("Action={change}&PolicyArn={arn}");
                refused(iam(client, &form).await, 403, "AccessDenied");
            }
        }

        iam(owner, "Action=CreateUser&UserName=ann").await.is(200);
        let key = iam(owner, "Action=CreateAccessKey&UserName=ann")
            .await
            .is(200);
        let id = key.element("AccessKeyId").expect("an id");
        let ann = owner.with_key(&id, &key.element("SecretAccessKey").expect("a secret"));
        ann.get("/bucket").send().await.is(403);
        let attach = format!("Action=AttachUserPolicy&UserName=ann&PolicyArn={arn}");
        iam(owner, &attach).await.is(200);
        let attached = iam(owner, "Action=ListAttachedUserPolicies&UserName=ann").await;
        assert_eq!(attached.is(200).elements("PolicyArn"), [arn]);
        ann.get("/bucket").send().await.is(200);
        ann.put("/bucket/k").body("x").send().await.is(403);
        // What an account gives ends with the account.
        fixture.stranger.put("/elsewhere").send().await.is(200);
        ann.get("/elsewhere").send().await.is(403);
        iam(owner, &attach.replace("Attach", "Detach"))
            .await
            .is(200);
        ann.get("/bucket").send().await.is(403);
        let unknown = attach.replace("AmazonS3ReadOnlyAccess", "AmazonEC2FullAccess");
        refused(iam(owner, &unknown).await, 404, "NoSuchEntity");
    });
}

#[test]
fn who_manages_a_tenant_makes_roles_of_the_tenant() {
    talk(async {
        let fixture = fixture().await;
        let create = format!("Action=CreateRole&RoleName=r&AssumeRolePolicyDocument={TRUST}");
        for (client, arn) in [
            (&fixture.manager, "arn:aws:iam:::role/r"),
            (&fixture.owner, "arn:aws:iam::0000000000000001:role/r"),
        ] {
            let made = iam(client, &create).await.is(200);
            assert_eq!(made.element("Arn").as_deref(), Some(arn));
            let found = iam(client, "Action=GetRole&RoleName=r").await.is(200);
            assert_eq!(found.element("Arn").as_deref(), Some(arn));
            refused(iam(client, &create).await, 409, "EntityAlreadyExists");
            let listed = iam(client, "Action=ListRoles").await.is(200);
            assert_eq!(listed.elements("Arn"), [arn]);
            // The answer has a result, though nothing is in it.
            let update = "Action=UpdateRole&RoleName=r&MaxSessionDuration=7200";
            let updated = iam(client, update).await.is(200);
            assert!(
                updated
                    .text()
                    .contains("<UpdateRoleResult></UpdateRoleResult>")
            );
            let longer = iam(client, "Action=GetRole&RoleName=r").await.is(200);
            assert_eq!(
                longer.element("MaxSessionDuration").as_deref(),
                Some("7200")
            );
        }
        // A slash leads into no account.
        let other = "Action=GetRole&RoleName=owner%2Fr";
        refused(iam(&fixture.manager, other).await, 404, "NoSuchEntity");
        iam(&fixture.manager, "Action=DeleteRole&RoleName=r")
            .await
            .is(200);
        iam(&fixture.owner, "Action=GetRole&RoleName=r")
            .await
            .is(200);
    });
}
