//! Condition keys: that each which a policy may name has a value, as requests that come through the
//! door show. A key without one would make a statement that denies under it deny nothing.

use std::collections::BTreeSet;

use dewar_auth::condition_keys;

use crate::client::{TestClient, TestResponse, sha256};
use crate::fixture::{Fixture, REGION, fixture, talk};

const OWNER: &str = "0000000000000001";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
/// What no request says.
const OTHER: &str = "something-else";
/// The MD5 of what is in `/bucket/k`, as its ETag.
const ETAG: &str = "\"5ebe2294ecd0e0f08eab7690d2a6ee69\"";

/// Who sends a request, and so where the policy stands that denies it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallerKind {
    /// The owner of the bucket; its policy.
    Owner,
    /// A session of a role of the owner's account; the bucket's policy.
    Session,
    /// A user of the owner's account; its own policy.
    Member,
    /// The owner, who wants to become a role; the role's trust policy.
    Trusted,
}

/// A request that gives a key a value.
struct Case {
    /// The key, with a name behind a slash.
    key: &'static str,
    /// The value, or `*` where it differs from time to time.
    value: &'static str,
    who: CallerKind,
    method: &'static str,
    target: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
}

fn case(
    key: &'static str,
    value: &'static str,
    method: &'static str,
    target: &'static str,
) -> Case {
    Case {
        key,
        value,
        who: CallerKind::Owner,
        method,
        target,
        headers: Vec::new(),
        body: "",
    }
}

impl Case {
    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    fn by(self, who: CallerKind) -> Self {
        Self { who, ..self }
    }
}

const TAGGING: &str =
    "<Tagging><TagSet><Tag><Key>team</Key><Value>muons</Value></Tag></TagSet></Tagging>";
const OWNERSHIP: &str = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership>\
                         </Rule></OwnershipControls>";
const LOCATION: &str = "<CreateBucketConfiguration><LocationConstraint>eu-dewar-1\
                        </LocationConstraint></CreateBucketConfiguration>";
const DELETE: &str = "<Delete><Object><Key>gone</Key>\
                      <ETag>\"5ebe2294ecd0e0f08eab7690d2a6ee69\"</ETag></Object></Delete>";
const HOLD: &str = "<LegalHold><Status>OFF</Status></LegalHold>";

/// Headers that the door refuses whatever policies say, with their keys.
const REFUSED: [(&str, &str, &str); 2] = [
    (
        "s3:x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "key",
    ),
    (
        "s3:x-amz-website-redirect-location",
        "x-amz-website-redirect-location",
        "/",
    ),
];

/// Keys of logins, which need an issuer: `dewar-auth` tests what sessions of logins say.
const LOGINS: [&str; 1] = ["aws:FederatedProvider"];

#[allow(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    use CallerKind::{Member, Session, Trusted};
    let get = |key, value| case(key, value, "GET", "/bucket/k");
    let put = |key, value, header| case(key, value, "PUT", "/bucket/new").header(header, value);
    let grant = |key, header| {
        let to = "id=\"0000000000000002\"";
        case(key, to, "PUT", "/bucket/new").header(header, to)
    };
    let lock = |key, value| {
        case(key, value, "PUT", "/locked/new")
            .header("x-amz-object-lock-mode", "GOVERNANCE")
            .header("x-amz-object-lock-retain-until-date", "@5")
    };
    let retention = |key, value| {
        case(key, value, "PUT", "/locked/k?retention").body(
            "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>@5</RetainUntilDate></Retention>",
        )
    };
    let become_role = |key, value| case(key, value, "POST", "/").by(Trusted);
    let member = |key, value, form| case(key, value, "POST", "/").body(form).by(Member);
    vec![
        get("aws:username", "owner"),
        get("aws:userid", OWNER),
        get("aws:PrincipalArn", "arn:aws:iam::*"),
        get("aws:PrincipalAccount", OWNER),
        get("aws:PrincipalType", "Account"),
        get("aws:PrincipalType", "AssumedRole").by(Session),
        get("aws:PrincipalIsAWSService", "false"),
        get("sts:authentication", "false"),
        get("aws:ViaAWSService", "false"),
        get("aws:SourceIp", "192.0.2.7"),
        get("aws:SecureTransport", "true"),
        get("aws:CurrentTime", "*"),
        get("aws:EpochTime", "*"),
        get("aws:RequestedRegion", REGION),
        get("aws:ResourceAccount", OWNER),
        get("s3:ResourceAccount", OWNER),
        get("aws:MultiFactorAuthPresent", "false").by(Session),
        get("sts:authentication", "false"),
        get("sts:authentication", "true").by(Session),
        get("aws:TokenIssueTime", "*").by(Session),
        get("aws:SourceIdentity", "ann@example.org").by(Session),
        get("aws:PrincipalTag/team", "muons").by(Session),
        get("aws:UserAgent", "boto3/1").header("user-agent", "boto3/1"),
        get("aws:Referer", "http://example.org/").header("referer", "http://example.org/"),
        get("aws:ResourceTag/team", "electrons"),
        get("s3:BucketTag/team", "electrons"),
        case("aws:ResourceTag/team", "electrons", "GET", "/bucket"),
        get("s3:ExistingObjectTag/team", "muons"),
        case("s3:ExistingObjectTag/team", "muons", "GET", "/bucket/k?tagging"),
        case("aws:RequestTag/team", "electrons", "PUT", "/bucket?tagging")
            .body("<Tagging><TagSet><Tag><Key>team</Key><Value>electrons</Value></Tag></TagSet></Tagging>"),
        case("aws:TagKeys", "team", "PUT", "/bucket?tagging")
            .body("<Tagging><TagSet><Tag><Key>team</Key><Value>electrons</Value></Tag></TagSet></Tagging>"),
        case("s3:prefix", "a/", "GET", "/bucket?prefix=a/"),
        case("s3:prefix", "a/", "GET", "/bucket?list-type=2&prefix=a/"),
        case("s3:prefix", "a/", "GET", "/bucket?versions&prefix=a/"),
        case("s3:prefix", "a/", "GET", "/bucket?uploads&prefix=a/"),
        case("s3:delimiter", "/", "GET", "/bucket?delimiter=/"),
        case("s3:delimiter", "/", "GET", "/bucket?uploads&delimiter=/"),
        case("s3:max-keys", "7", "GET", "/bucket?max-keys=7"),
        case("s3:max-keys", "1000", "GET", "/bucket"),
        case("s3:x-amz-copy-source", "bucket/k", "PUT", "/bucket/copy")
            .header("x-amz-copy-source", "/bucket/k"),
        case("s3:x-amz-copy-source", "bucket/k", "PUT", "/bucket/parts?partNumber=1&uploadId=@")
            .header("x-amz-copy-source", "/bucket/k"),
        case("s3:x-amz-metadata-directive", "REPLACE", "PUT", "/bucket/copy")
            .header("x-amz-copy-source", "/bucket/k")
            .header("x-amz-metadata-directive", "REPLACE"),
        case("s3:VersionId", "null", "GET", "/bucket/k?versionId=null"),
        case("s3:VersionId", "null", "GET", "/bucket/k?tagging&versionId=null"),
        case("s3:VersionId", "null", "DELETE", "/bucket/gone?versionId=null"),
        case("s3:ObjectCreationOperation", "true", "PUT", "/bucket/new"),
        case("s3:ObjectCreationOperation", "true", "PUT", "/bucket/copy")
            .header("x-amz-copy-source", "/bucket/k"),
        case("s3:ObjectCreationOperation", "false", "POST", "/bucket/new?uploads"),
        case("s3:ObjectCreationOperation", "false", "PUT", "/bucket/parts?partNumber=1&uploadId=@"),
        case("s3:RequestObjectTag/team", "a b", "PUT", "/bucket/new")
            .header("x-amz-tagging", "team=a%20b"),
        case("s3:RequestObjectTag/team", "muons", "PUT", "/bucket/k?tagging").body(TAGGING),
        case("s3:RequestObjectTag/team", "a b", "POST", "/bucket/new?uploads")
            .header("x-amz-tagging", "team=a%20b"),
        // A copy takes the tags of its source along.
        case("s3:RequestObjectTag/team", "muons", "PUT", "/bucket/copy")
            .header("x-amz-copy-source", "/bucket/k"),
        case("s3:RequestObjectTagKeys", "team", "PUT", "/bucket/new")
            .header("x-amz-tagging", "team=x"),
        case("s3:RequestObjectTagKeys", "team", "PUT", "/bucket/k?tagging").body(TAGGING),
        put("s3:x-amz-tagging", "team=x", "x-amz-tagging"),
        put("s3:x-amz-acl", "public-read", "x-amz-acl"),
        grant("s3:x-amz-grant-read", "x-amz-grant-read"),
        grant("s3:x-amz-grant-read-acp", "x-amz-grant-read-acp"),
        grant("s3:x-amz-grant-write-acp", "x-amz-grant-write-acp"),
        grant("s3:x-amz-grant-full-control", "x-amz-grant-full-control"),
        case("s3:x-amz-grant-write", "id=\"0000000000000001\"", "PUT", "/bucket?acl")
            .header("x-amz-grant-write", "id=\"0000000000000001\""),
        put("s3:x-amz-server-side-encryption", "AES256", "x-amz-server-side-encryption"),
        put(
            "s3:x-amz-server-side-encryption-customer-algorithm",
            "AES256",
            "x-amz-server-side-encryption-customer-algorithm",
        )
        .header(
            "x-amz-server-side-encryption-customer-key",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        )
        .header(
            "x-amz-server-side-encryption-customer-key-md5",
            "cLyPS3KoaSFGi/joRB3OUQ==",
        ),
        put("s3:x-amz-storage-class", "STANDARD", "x-amz-storage-class"),
        case("s3:x-amz-content-sha256", "UNSIGNED-PAYLOAD", "PUT", "/bucket/new")
            .header("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        get("s3:authType", "REST-HEADER"),
        get("s3:signatureversion", "AWS4-HMAC-SHA256"),
        get("s3:signatureAge", "*"),
        get("s3:TlsVersion", "1.3"),
        get("s3:if-match", ETAG).header("if-match", ETAG),
        case("s3:if-match", ETAG, "POST", "/bucket?delete").body(DELETE),
        put("s3:if-none-match", "\"x\"", "if-none-match"),
        case("s3:x-amz-object-ownership", "ObjectWriter", "PUT", "/bucket?ownershipControls")
            .body(OWNERSHIP),
        case("s3:locationconstraint", REGION, "PUT", "/another").body(LOCATION).by(Member),
        case("s3:x-amz-object-ownership", "ObjectWriter", "PUT", "/third")
            .header("x-amz-object-ownership", "ObjectWriter")
            .by(Member),
        lock("s3:object-lock-mode", "GOVERNANCE"),
        lock("s3:object-lock-retain-until-date", "*"),
        lock("s3:object-lock-remaining-retention-days", "5"),
        retention("s3:object-lock-mode", "GOVERNANCE"),
        retention("s3:object-lock-retain-until-date", "*"),
        retention("s3:object-lock-remaining-retention-days", "5"),
        case("s3:object-lock-legal-hold", "OFF", "PUT", "/locked/new")
            .header("x-amz-object-lock-legal-hold", "OFF"),
        case("s3:object-lock-legal-hold", "OFF", "PUT", "/locked/k?legal-hold").body(HOLD),
        become_role("sts:RoleSessionName", "session"),
        become_role("sts:ExternalId", "agreed"),
        become_role("sts:SourceIdentity", "ann@example.org"),
        become_role("sts:TransitiveTagKeys", "team"),
        become_role("aws:RequestTag/team", "muons"),
        member(
            "iam:PolicyARN",
            "arn:aws:iam::0000000000000001:policy/p",
            "Action=AttachUserPolicy&UserName=bob&PolicyArn=arn:aws:iam::0000000000000001:policy/p\
             &Version=2010-05-08",
        ),
    ]
}

/// The stage of all cases: a house and what stands in it.
struct Stage {
    _house: Fixture,
    owner: TestClient,
    member: TestClient,
    upload: String,
}

fn encoded(text: &str) -> String {
    let safe = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let byte = |b: u8| match safe(&b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

async fn call(client: &TestClient, service: &'static str, form: &str) -> TestResponse {
    let client = client.of_service(service);
    let call = client.post("/").header("content-type", FORM).body(form);
    call.send().await
}

async fn iam(client: &TestClient, form: &str) -> TestResponse {
    call(client, "iam", &format!("{form}&Version=2010-05-08"))
        .await
        .is(200)
}

fn trust(deny: &str) -> String {
    let allow = r#"{"Effect":"Allow","Principal":{"AWS":"0000000000000001"},
        "Action":["sts:AssumeRole","sts:TagSession","sts:SetSourceIdentity"]}"#;
    format!(r#"{{"Version":"2012-10-17","Statement":[{allow}{deny}]}}"#)
}

fn assume_role() -> String {
    let role = encoded("arn:aws:iam::0000000000000001:role/r");
    format!(
        "Action=AssumeRole&Version=2011-06-15&RoleArn={role}&RoleSessionName=session\
         &ExternalId=agreed&SourceIdentity=ann%40example.org&Tags.member.1.Key=team\
         &Tags.member.1.Value=muons&TransitiveTagKeys.member.1=team"
    )
}

const EVERYTHING: &str = r#"{"Effect":"Allow","Action":"*","Resource":"*"}"#;

impl Stage {
    async fn set() -> Self {
        let fixture = fixture().await;
        let owner = fixture.owner.over_tls([192, 0, 2, 7], "1.3");
        let locked = owner.put("/locked");
        let locked = locked.header("x-amz-bucket-object-lock-enabled", "true");
        locked.send().await.is(200);
        owner.put("/locked/k").body("secret").send().await.is(200);
        let object = owner.put("/bucket/k").body("secret");
        let object = object.header("x-amz-tagging", "team=muons");
        object.send().await.is(200);
        let tags = TAGGING.replace("muons", "electrons");
        let tagged = owner.put("/bucket?tagging").body(&tags);
        tagged.send().await.is(204);
        let begun = owner.post("/bucket/parts?uploads").send().await.is(200);
        let upload = begun.element("UploadId").expect("an id");
        for name in ["ann", "bob"] {
            iam(&owner, &format!("Action=CreateUser&UserName={name}")).await;
        }
        let key = iam(&owner, "Action=CreateAccessKey&UserName=ann").await;
        let (id, secret) = (key.element("AccessKeyId"), key.element("SecretAccessKey"));
        let member = owner.with_key(&id.expect("an id"), &secret.expect("a secret"));
        let all = encoded(&format!(
            "{{\"Version\":\"2012-10-17\",\"Statement\":[{EVERYTHING}]}}"
        ));
        let trusted = encoded(&trust(""));
        iam(
            &owner,
            &format!("Action=CreateRole&RoleName=r&AssumeRolePolicyDocument={trusted}"),
        )
        .await;
        for form in [
            format!("Action=PutRolePolicy&RoleName=r&PolicyName=all&PolicyDocument={all}"),
            format!("Action=CreatePolicy&PolicyName=p&PolicyDocument={all}"),
        ] {
            iam(&owner, &form).await;
        }
        Self {
            _house: fixture,
            owner,
            member,
            upload,
        }
    }

    /// Puts a statement that denies everything where the key's value is like this.
    async fn deny(&self, case: &Case, value: &str) {
        let owner = &self.owner;
        let value = value.replace('"', "\\\"");
        let condition = format!(
            r#""Condition":{{"StringLike":{{"{}":"{value}"}}}}"#,
            case.key
        );
        match case.who {
            CallerKind::Owner | CallerKind::Session => {
                let bucket = bucket_of(case);
                let text = format!(
                    r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*",
                    "Action":"s3:*","Resource":["arn:aws:s3:::{bucket}","arn:aws:s3:::{bucket}/*"],
                    {condition}}}]}}"#
                );
                let put = owner.put(&format!("/{bucket}?policy")).body(&text);
                put.send().await.is(204);
            }
            CallerKind::Member => {
                let text = format!(
                    r#"{{"Version":"2012-10-17","Statement":[{EVERYTHING},
                    {{"Effect":"Deny","Action":"*","Resource":"*",{condition}}}]}}"#
                );
                let text = encoded(&text);
                iam(
                    owner,
                    &format!(
                        "Action=PutUserPolicy&UserName=ann&PolicyName=p&PolicyDocument={text}"
                    ),
                )
                .await;
            }
            CallerKind::Trusted => {
                let text = encoded(&trust(&format!(
                    r#",{{"Effect":"Deny","Principal":"*","Action":"sts:*",{condition}}}"#
                )));
                let form =
                    format!("Action=UpdateAssumeRolePolicy&RoleName=r&PolicyDocument={text}");
                iam(owner, &form).await;
            }
        }
    }

    async fn send(&self, case: &Case) -> TestResponse {
        let owner = &self.owner;
        let session;
        let (client, token) = match case.who {
            CallerKind::Trusted => return call(owner, "sts", &assume_role()).await,
            CallerKind::Member if case.target == "/" => {
                return call(&self.member, "iam", case.body).await;
            }
            CallerKind::Owner => (owner, None),
            CallerKind::Member => (&self.member, None),
            CallerKind::Session => {
                let given = call(owner, "sts", &assume_role()).await.is(200);
                let part = |name| given.element(name).expect("credentials");
                session = owner.with_key(&part("AccessKeyId"), &part("SecretAccessKey"));
                (&session, Some(part("SessionToken")))
            }
        };
        let target = case.target.replace('@', &self.upload);
        // Five days from now, as dates are written.
        let date = client.date().secs() + 5 * 86_400;
        let date = time::OffsetDateTime::from_unix_timestamp(date.cast_signed()).expect("a date");
        let format = time::format_description::well_known::Rfc3339;
        let date = date.format(&format).expect("a date");
        let mut call = client.call(case.method, &target);
        let body = case.body.replace("@5", &date);
        if !body.is_empty() || case.method == "PUT" {
            call = call.body(&body);
        }
        if target.ends_with("?delete") {
            call = call.header("x-amz-content-sha256", &sha256(body.as_bytes()));
        }
        for (name, value) in &case.headers {
            call = call.header(name, &value.replace("@5", &date));
        }
        if let Some(token) = token {
            call = call.header("x-amz-security-token", &token);
        }
        call.send().await
    }
}

fn bucket_of(case: &Case) -> &str {
    case.target[1..]
        .split(['/', '?'])
        .next()
        .unwrap_or_default()
}

/// A header that the verb does not look at says nothing: what it does stands in its document.
#[test]
fn headers_do_not_say_what_documents_leave_out() {
    talk(async {
        let owner = fixture().await.owner;
        owner.put("/bucket/k").body("kept").send().await.is(200);
        let unless = |action: &str, key: &str| {
            format!(
                r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*","Action":"{action}",
                "Resource":"arn:aws:s3:::bucket/*","Condition":{{"Null":{{"{key}":"true"}}}}}}]}}"#
            )
        };
        let policy = async |action: &str, key: &str| {
            let put = owner.put("/bucket?policy").body(unless(action, key));
            put.send().await.is(204);
        };
        policy("s3:DeleteObject", "s3:if-match").await;
        let body = "<Delete><Object><Key>k</Key></Object></Delete>";
        let all = owner.post("/bucket?delete").body(body);
        let all = all.header("x-amz-content-sha256", &sha256(body.as_bytes()));
        let reply = all.header("if-match", "\"x\"").send().await.is(200);
        assert!(reply.text().contains("<Code>AccessDenied</Code>"));
        owner.get("/bucket/k").send().await.is(200);
        policy("s3:DeleteObjectTagging", "s3:RequestObjectTag/team").await;
        let tags = owner.delete("/bucket/k?tagging");
        let tags = tags.header("x-amz-tagging", "team=muons").send().await;
        tags.refused_with(403, "AccessDenied");
    });
}

#[test]
fn every_key_has_a_value_in_some_request() {
    talk(async {
        let stage = Stage::set().await;
        let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
        for case in cases() {
            let what = format!("{} in {} {}", case.key, case.method, case.target);
            stage.deny(&case, case.value).await;
            let reply = stage.send(&case).await;
            // A bulk delete tells of each key by itself.
            let denied = reply.status == 403 || reply.text().contains("<Code>AccessDenied</Code>");
            if !denied {
                wrong.push(format!(
                    "{what} is not denied: {} {}",
                    reply.status,
                    reply.text()
                ));
            }
            stage.deny(&case, OTHER).await;
            let reply = stage.send(&case).await;
            let done = matches!(reply.status, 200..=299) && !reply.text().contains("AccessDenied");
            if !done {
                wrong.push(format!(
                    "{what} is not done: {} {}",
                    reply.status,
                    reply.text()
                ));
            }
            seen.insert(case.key.to_ascii_lowercase());
            if case.who == CallerKind::Owner {
                let bucket = format!("/{}?policy", bucket_of(&case));
                stage.owner.delete(&bucket).send().await.is(204);
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let owner = &stage.owner;
        for (key, header, value) in REFUSED {
            let put = owner.put("/bucket/new").header(header, value);
            put.send().await.refused_with(501, "NotImplemented");
            seen.insert(key.to_ascii_lowercase());
        }
        seen.extend(LOGINS.iter().map(|key| key.to_ascii_lowercase()));
        for key in condition_keys() {
            let named = if key.ends_with('/') {
                format!("{key}team")
            } else {
                key.to_owned()
            };
            assert!(
                seen.contains(&named.to_ascii_lowercase()),
                "no request gives {key} a value, so what a policy denies under it is not denied"
            );
        }
    });
}
