//! Documents that must be taken, and those that must not. The vectors are the examples of AWS's
//! own pages, put in our words where they are long.

use proptest::prelude::*;

use super::statement::PolicyRequest;
use super::*;
use crate::Action;

fn bucket(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, PolicyKind::Bucket("bucket"), BUCKET_POLICY_BYTES_MAX)
}

fn identity(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX)
}

/// A bucket policy of one statement, given its elements.
fn one(elements: &str) -> String {
    format!("{{\"Version\":\"2012-10-17\",\"Statement\":[{{{elements}}}]}}")
}

const WHO: &str = r#""Effect":"Allow","Principal":"*""#;
const WHAT: &str = r#""Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*""#;

#[test]
fn documents_of_aws_are_taken() {
    for text in [
        // `mc anonymous set download`
        r#"{"Version":"2012-10-17","Statement":[
            {"Sid":"","Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation"],"Resource":["arn:aws:s3:::bucket"]},
            {"Sid":"","Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::bucket"],
             "Condition":{"StringEquals":{"s3:prefix":["t"]}}},
            {"Sid":"","Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::bucket/t*"]}]}"#,
        // "Examples of Amazon S3 bucket policies"
        r#"{"Version":"2012-10-17","Statement":[{"Sid":"AddPublicReadCannedAcl","Effect":"Allow",
            "Principal":{"AWS":["arn:aws:iam::111122223333:root","arn:aws:iam::444455556666:root"]},
            "Action":["s3:PutObject","s3:PutObjectAcl"],"Resource":"arn:aws:s3:::bucket/*",
            "Condition":{"StringEquals":{"s3:x-amz-acl":["public-read"]}}}]}"#,
        r#"{"Version":"2012-10-17","Id":"S3PolicyId1","Statement":[{"Sid":"IPAllow","Effect":"Deny",
            "Principal":"*","Action":"s3:*","Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"],
            "Condition":{"NotIpAddress":{"aws:SourceIp":["192.0.2.0/24","2001:DB8:1234:5678::/64"]}}}]}"#,
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":{"AWS":"*"},
            "Action":"s3:*","Resource":"arn:aws:s3:::bucket/*",
            "Condition":{"Bool":{"aws:SecureTransport":false},"NumericLessThan":{"s3:TlsVersion":1.2}}}}"#,
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":
            {"CanonicalUser":"79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"},
            "Action":"s3:List*","Resource":"arn:aws:s3:::bucket"}]}"#,
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Deny","NotPrincipal":
            {"AWS":"arn:aws:iam::111122223333:user/Bob"},"NotAction":"s3:Get*",
            "NotResource":"arn:aws:s3:::bucket/public/*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"logging.s3.amazonaws.com",
            "Federated":"cognito-identity.amazonaws.com"},"Action":"s3:PutObject",
            "Resource":"arn:aws:s3:::bucket/logs*",
            "Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:s3:::source"},
            "ForAllValues:StringLike":{"s3:RequestObjectTagKeys":["a*"]},"Null":{"aws:Referer":"true"},
            "DateGreaterThan":{"aws:CurrentTime":"2020-04-01T00:00:00Z"}}}]}"#,
        // Resources that hold more than this bucket hold this bucket too.
        &one(&format!(
            "{WHO},\"Action\":\"s3:ListBucket\",\"Resource\":[\"arn:aws:s3:::*\",\"*\"]"
        )),
        &one(&format!(
            "{WHO},\"Action\":\"S3:getobject\",\"Resource\":\"arn:aws:s3::atlas:bucket/*\""
        )),
    ] {
        bucket(text).expect(text);
    }
    for text in [
        // "Allows IAM users access to their S3 home directory"
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:ListAllMyBuckets",
            "s3:GetBucketLocation"],"Resource":"*"},{"Effect":"Allow","Action":"s3:ListBucket",
            "Resource":"arn:aws:s3:::bucket-name","Condition":{"StringLike":{"s3:prefix":["",
            "home/","home/${aws:username}/*"]}}},{"Effect":"Allow","Action":"s3:*","Resource":
            ["arn:aws:s3:::bucket-name/home/${aws:username}","arn:aws:s3:::bucket-name/home/${aws:username}/*"]}]}"#,
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["iam:*","ec2:Run*","*"],"Resource":"*"}}"#,
    ] {
        identity(text).expect(text);
    }
    let trust = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRoleWithWebIdentity",
        "Principal":{"Federated":["arn:aws:iam:::oidc-provider/localhost:8080/auth/realms/demo"]},
        "Condition":{"StringEquals":{"idp.example.org/realms/demo:aud":"account"}}}]}"#;
    Policy::parse(trust, PolicyKind::Trust, 20_000).expect("a trust policy");
}

#[test]
fn what_is_not_understood_is_refused() {
    let statement = format!("{WHO},{WHAT}");
    for text in [
        "",
        "[]",
        "null",
        r#"{"Version":"2012-10-17"}"#,
        r#"{"Version":"2012-10-17","Statement":[]}"#,
        &one(&statement).replace("2012-10-17", "2010-10-17"),
        &one(&statement).replace("\"2012-10-17\"", "20121017"),
        &one(&statement).replace("Statement", "Statements"),
        &one(&format!("{statement},\"Unknown\":1")),
        &one(&format!("{statement},\"Effect\":\"Deny\"")),
        &one(&format!("{statement},\"NotAction\":\"s3:*\"")),
        &one(&statement.replace("Allow", "allow")),
        &one(&statement.replace(WHO, "\"Effect\":\"Allow\"")),
        &one(&statement.replace("\"Principal\"", "\"NotPrincipal\"")),
        &one(&statement.replace("\"*\"", "{}")),
        &one(&statement.replace("\"*\"", "{\"AWS\":[]}")),
        &one(&statement.replace("\"*\"", "{\"AWS\":\"arn:aws:iam::1:user/a*\"}")),
        &one(&statement.replace("\"*\"", "{\"AWS\":\"arn:aws:s3:::bucket\"}")),
        &one(&statement.replace("\"*\"", "{\"Someone\":\"1\"}")),
        &one(&statement.replace("s3:GetObject", "s3:GetObjects")),
        &one(&statement.replace("s3:GetObject", "GetObject")),
        &one(&statement.replace("s3:GetObject", "iam:*")),
        &one(&statement.replace("\"s3:GetObject\"", "[]")),
        &one(&statement.replace("bucket/*", "other/*")),
        &one(&statement.replace("bucket/*", "bucket2")),
        &one(&statement.replace("arn:aws:s3:::bucket/*", "bucket/*")),
        &one(&statement.replace("arn:aws:s3:::bucket/*", "arn:aws:s3:bucket")),
        &one(&statement.replace("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/${aws:nobody}")),
        &one(&format!("{statement},\"Condition\":[]")),
        &one(&format!(
            "{statement},\"Condition\":{{\"StringIs\":{{\"s3:prefix\":\"a\"}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"StringLike\":{{\"s3:prefixes\":\"a\"}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"StringLike\":{{\"s3:prefix\":[]}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"StringLike\":{{\"s3:prefix\":{{}}}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"IpAddress\":{{\"aws:SourceIp\":\"10.0.0.0/33\"}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"NumericEquals\":{{\"s3:max-keys\":\"ten\"}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"DateEquals\":{{\"aws:CurrentTime\":\"soon\"}}}}"
        )),
        &one(&format!(
            "{statement},\"Condition\":{{\"NullIfExists\":{{\"s3:prefix\":true}}}}"
        )),
        r#"{"Version":"2012-10-17","Statement":[{"Sid":"a","Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"},
            {"Sid":"a","Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"}]}"#,
    ] {
        let error = bucket(text).expect_err(text);
        assert!(matches!(error, PolicyError::Malformed(_)), "{text}");
    }
    assert_eq!(
        bucket(&" ".repeat(BUCKET_POLICY_BYTES_MAX + 1)),
        Err(PolicyError::TooLong)
    );
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(bucket(&one(&format!("{statement},\"Condition\":{deep}"))).is_err());
    // On users: no principal. On roles: no resource.
    let named = statement.replacen(r#""Principal":"*""#, r#""Principal":{"AWS":"7"}"#, 1);
    assert_ne!(named, statement);
    assert!(identity(&one(&named)).is_err());
    // But for everybody, who whoever has the policy is one of.
    assert!(identity(&one(&statement)).is_ok());
    assert!(Policy::parse(&one(&statement), PolicyKind::Trust, 9_999).is_err());
}

/// S3 user guide, "The meaning of public".
#[test]
fn public_is_what_s3_calls_public() {
    let public = |elements: &str| bucket(&one(elements)).expect(elements).is_public();
    let plain = format!("{WHO},{WHAT}");
    assert!(public(&plain));
    assert!(!public(&plain.replace("Allow", "Deny")));
    assert!(!public(
        &plain.replace("\"*\"", "{\"AWS\":\"arn:aws:iam::1:root\"}")
    ));
    for (condition, open) in [
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"0.0.0.0/1"}}"#, true),
        (
            r#"{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","0.0.0.0/0"]}}"#,
            true,
        ),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, true),
        (
            r#"{"IpAddressIfExists":{"aws:SourceIp":"10.0.0.0/8"}}"#,
            true,
        ),
        (r#"{"StringLike":{"aws:SourceVpc":"vpc-*"}}"#, true),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, false),
        (
            r#"{"StringLike":{"aws:Referer":"http://example.com/*"}}"#,
            true,
        ),
    ] {
        assert_eq!(
            public(&format!("{plain},\"Condition\":{condition}")),
            open,
            "{condition}"
        );
    }
}

#[test]
fn keys_are_told_apart_where_it_matters() {
    let apart = |elements: &str| bucket(&one(elements)).expect(elements).tells_keys_apart();
    assert!(!apart(&format!(
        "{WHO},\"Action\":\"s3:*\",\"Resource\":\"*\""
    )));
    assert!(apart(&format!("{WHO},{WHAT}")));
    assert!(apart(&format!(
        "{WHO},\"Action\":\"s3:*\",\"NotResource\":\"*\""
    )));
}

// What a reader with a pencil would decide.

/// One statement, as the reader sees it.
#[derive(Clone, Debug)]
struct Line {
    deny: bool,
    actions: Vec<&'static str>,
    /// Behind `arn:aws:s3:::`.
    resources: Vec<String>,
    negated: bool,
}

fn naive_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            naive_glob(&pattern[1..], text) || (!text.is_empty() && naive_glob(pattern, &text[1..]))
        }
        (Some(b'?'), Some(_)) => naive_glob(&pattern[1..], &text[1..]),
        (Some(p), Some(t)) if p == t => naive_glob(&pattern[1..], &text[1..]),
        _ => false,
    }
}

impl Line {
    fn speaks_of(&self, action: Action, path: &str) -> bool {
        let name = action.to_string();
        let acts = self
            .actions
            .iter()
            .any(|pattern| naive_glob(pattern.as_bytes(), name.as_bytes()));
        let holds = self
            .resources
            .iter()
            .any(|pattern| naive_glob(pattern.as_bytes(), path.as_bytes()));
        acts && holds != self.negated
    }

    fn json(&self) -> serde_json::Value {
        let resources: Vec<String> = self
            .resources
            .iter()
            .map(|path| format!("arn:aws:s3:::{path}"))
            .collect();
        let what = if self.negated {
            "NotResource"
        } else {
            "Resource"
        };
        serde_json::json!({
            "Effect": if self.deny { "Deny" } else { "Allow" },
            "Action": self.actions,
            what: resources,
        })
    }
}

fn decided_naively(lines: &[Line], action: Action, path: &str) -> Option<bool> {
    let mut speaking = lines
        .iter()
        .filter(|line| line.speaks_of(action, path))
        .peekable();
    speaking.peek()?;
    Some(!speaking.any(|line| line.deny))
}

fn asked(policy: &Policy, action: Action, path: &str) -> (Option<bool>, Option<bool>) {
    let (bucket, key) = match path.split_once('/') {
        Some((bucket, key)) => (bucket, Some(key)),
        None => (path, None),
    };
    let user = crate::User::new(
        dewar_types::UserId(1),
        "ann",
        dewar_types::TenantName::default(),
        dewar_types::Timestamp(0),
    );
    let caller = crate::Caller::for_user(user);
    let tenant = dewar_types::TenantName::default();
    let resource = crate::Resource::Bucket {
        tenant: &tenant,
        bucket,
        owner: dewar_types::UserId(7),
        access: None,
        key,
        object: None,
    };
    let details = crate::Details::default();
    let named = std::cell::OnceCell::new();
    let ask = PolicyRequest::new(&caller, action, &resource, &details, &named);
    let said = |verdict: Verdict<'_>| match (verdict.deny, verdict.allow) {
        (Some(_), _) => Some(false),
        (None, Some(_)) => Some(true),
        (None, None) => None,
    };
    let whole = said(policy.evaluate(&ask, &policy.denying, &policy.allowing));
    (said(policy.verdict(&ask)), whole)
}

fn a_path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,2}", 1..4).prop_map(|names| names.join("/"))
}

fn a_line() -> impl Strategy<Value = Line> {
    let action = prop::sample::select(vec![
        "s3:GetObject",
        "s3:PutObject",
        "s3:Get*",
        "s3:*",
        "s3:List*",
    ]);
    let resource = prop_oneof![
        a_path(),
        a_path().prop_map(|path| format!("{path}/*")),
        a_path().prop_map(|path| format!("{path}*")),
        "[ab/*?]{1,6}",
    ];
    (
        prop::bool::weighted(0.3),
        prop::collection::vec(action, 1..3),
        prop::collection::vec(resource, 1..3),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(deny, actions, resources, negated)| Line {
            deny,
            actions,
            resources,
            negated,
        })
}

proptest! {
    #[test]
    fn a_policy_decides_as_a_naive_reader_would(
        lines in prop::collection::vec(a_line(), 1..40),
        path in a_path(),
        action in prop::sample::select(vec![Action::GetObject, Action::PutObject, Action::DeleteObject]),
    ) {
        let path = format!("{path}/k");
        let statements: Vec<_> = lines.iter().map(Line::json).collect();
        let text = serde_json::json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        let policy = identity(&text).expect(&text);
        let (found, whole) = asked(&policy, action, &path);
        prop_assert_eq!(found, whole, "the index leaves something out");
        prop_assert_eq!(found, decided_naively(&lines, action, &path));
    }
}
