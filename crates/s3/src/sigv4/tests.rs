//! Known answers: the examples of the S3 API reference ("Examples: signature calculations",
//! "Signature calculations: browser-based uploads") and requests signed by botocore.

use std::sync::Arc;

use dewar_auth::{AccessKey, CredentialStore, Secret, User};
use dewar_env::BoxFuture;
use dewar_sigv4::{Credentials, Query, RequestDate, RequestToSign, Signer};
use dewar_types::{TenantName, Timestamp, UserId};
use http::Request;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::error::{Code, Refusal};
use crate::form::FormFields;

pub(crate) const DOC_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
pub(crate) const DOC_SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
pub(crate) const DOC_DATE: &str = "20130524T000000Z";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One key, which a test may change.
pub(crate) struct OneKey(pub(crate) Mutex<AccessKey>);

impl CredentialStore for OneKey {
    fn access_key<'a>(
        &'a self,
        id: &'a str,
    ) -> BoxFuture<'a, dewar_types::Result<Option<AccessKey>>> {
        let key = self.0.lock().clone();
        Box::pin(async move { Ok((*key.id == *id).then_some(key)) })
    }

    fn session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, dewar_types::Result<AccessKey>> {
        let error = dewar_types::Error::new(dewar_types::ErrorKind::Unauthenticated, "no session");
        Box::pin(async move { Err(error) })
    }

    fn bearer<'a>(
        &'a self,
        _: &'a str,
        _: dewar_auth::Origin,
    ) -> BoxFuture<'a, dewar_types::Result<dewar_auth::Caller>> {
        let error = dewar_types::Error::new(dewar_types::ErrorKind::Unauthenticated, "no token");
        Box::pin(async move { Err(error) })
    }
}

pub(crate) fn one_key(id: &str, secret: &str) -> Arc<OneKey> {
    let user = User::new(UserId(1), "physicist", TenantName::default(), Timestamp(0));
    let user = Arc::new(user);
    Arc::new(OneKey(Mutex::new(AccessKey {
        id: id.into(),
        secret: Secret::new(secret.into()),
        revision: 1,
        user,
        bounds: None,
    })))
}

pub(crate) fn doc_verifier() -> Verifier {
    Verifier::new(one_key(DOC_KEY, DOC_SECRET), "us-east-1")
}

pub(crate) fn at(date: &str) -> Timestamp {
    Timestamp::from_secs(RequestDate::parse(date).expect("a date").secs())
}

fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

/// Verifies without a runtime: key lookups of these tests never wait.
pub(crate) fn verify(
    verifier: &Verifier,
    head: &Parts,
    now: Timestamp,
) -> Result<SignatureCheck, Refusal> {
    let query = Query::parse(head.uri.query())?;
    futures_util::FutureExt::now_or_never(verifier.verify(head, &query, None, now)).expect("ready")
}

/// A request of the API reference, its credential filled in.
fn documented(
    method: &str,
    target: &str,
    signed_headers: &str,
    signature: &str,
    headers: &[(&str, &str)],
) -> Parts {
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={DOC_KEY}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed_headers},Signature={signature}"
    );
    let mut all = vec![
        ("Host", "examplebucket.s3.amazonaws.com"),
        ("x-amz-date", DOC_DATE),
        ("Authorization", authorization.as_str()),
    ];
    all.extend_from_slice(headers);
    head(method, target, &all)
}

fn get_object(signature: &str) -> Parts {
    let headers = [("Range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY)];
    let signed = "host;range;x-amz-content-sha256;x-amz-date";
    documented("GET", "/test.txt", signed, signature, &headers)
}

const GET_SIGNATURE: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

#[test]
fn the_examples_of_the_api_reference_verify() {
    let signed = "host;x-amz-content-sha256;x-amz-date";
    let empty = [("x-amz-content-sha256", EMPTY)];
    let put = [
        ("Date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        (
            "x-amz-content-sha256",
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        ),
    ];
    let requests = [
        get_object(GET_SIGNATURE),
        documented(
            "PUT",
            "/test%24file.text",
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            &put,
        ),
        documented(
            "GET",
            "/?lifecycle",
            signed,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            &empty,
        ),
        documented(
            "GET",
            "/?max-keys=2&prefix=J",
            signed,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            &empty,
        ),
    ];
    let verifier = doc_verifier();
    for head in &requests {
        let claim = verify(&verifier, head, at(DOC_DATE));
        let Ok(SignatureCheck::Signed(signed)) = claim else {
            panic!("{} {}: {claim:?}", head.method, head.uri);
        };
        assert_eq!(&*signed.key.id, DOC_KEY);
        assert!(signed.chunks.is_some());
    }
}

#[test]
fn the_presigned_example_verifies_until_it_expires() {
    let target = format!(
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={DOC_KEY}%2F20130524%2F\
         us-east-1%2Fs3%2Faws4_request&X-Amz-Date={DOC_DATE}&X-Amz-Expires=86400&\
         X-Amz-SignedHeaders=host&X-Amz-Signature=\
         aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
    let host = [("Host", "examplebucket.s3.amazonaws.com")];
    let request = head("GET", &target, &host);
    let verifier = doc_verifier();
    assert!(verify(&verifier, &request, at("20130524T235959Z")).is_ok());
    let late = verify(&verifier, &request, at("20130525T000001Z")).expect_err("expired");
    assert_eq!(late.code(), Code::AccessDenied);
    let other = head("PUT", &target, &host);
    let refusal = verify(&verifier, &other, at(DOC_DATE)).expect_err("another method");
    assert_eq!(refusal.code(), Code::SignatureDoesNotMatch);
    // A header that S3 acts upon cannot be added by whoever holds the URL.
    let more = [host[0], ("x-amz-acl", "public-read")];
    let refusal = verify(&verifier, &head("GET", &target, &more), at(DOC_DATE));
    let refusal = refusal.expect_err("an unsigned header");
    assert_eq!(refusal.find("HeadersNotSigned"), Some("x-amz-acl"));
}

#[test]
fn the_form_example_verifies() {
    let policy = include_str!("../../testdata/post_policy_example.b64").trim();
    let credential = format!("{DOC_KEY}/20151229/us-east-1/s3/aws4_request");
    let fields = |signature: &str| {
        let mut form = FormFields::default();
        for (name, value) in [
            ("key", "user/user1/photo.png"),
            ("acl", "public-read"),
            (
                "success_action_redirect",
                "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html",
            ),
            ("Content-Type", "image/jpeg"),
            ("x-amz-meta-uuid", "14365123651274"),
            ("x-amz-server-side-encryption", "AES256"),
            ("X-Amz-Credential", credential.as_str()),
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Date", "20151229T000000Z"),
            ("x-amz-meta-tag", ""),
            ("Policy", policy),
            ("X-Amz-Signature", signature),
        ] {
            form.push(name, value.to_owned()).expect("once each");
        }
        form
    };
    let verifier = doc_verifier();
    let check = |form: &FormFields, now| {
        futures_util::FutureExt::now_or_never(verify_form(&verifier, form, at(now))).expect("ready")
    };
    let good = fields("8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e");
    let (key, policy) = check(&good, "20151229T120000Z")
        .expect("valid")
        .expect("signed");
    assert_eq!(&*key.id, DOC_KEY);
    let now = at("20151229T120000Z");
    assert!(policy.check(&good, "sigv4examplebucket", now).is_ok());
    assert!(policy.check(&good, "otherbucket", now).is_err());
    assert!(
        policy
            .check(&good, "sigv4examplebucket", at("20151230T120000Z"))
            .is_err()
    );
    let bad = fields("0afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e");
    let refusal = check(&bad, "20151229T120000Z").expect_err("forged");
    assert_eq!(refusal.code(), Code::SignatureDoesNotMatch);
    assert!(
        check(&good, "20160106T000000Z").is_err(),
        "older than a week"
    );
}

fn botocore() -> Value {
    let text = include_str!("../../testdata/sigv4_botocore.json");
    serde_json::from_str(text).expect("valid JSON")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().expect(name)
}

#[test]
fn what_botocore_signs_verifies_and_nothing_else_does() {
    let document = botocore();
    let key = one_key(text(&document, "access_key"), text(&document, "secret_key"));
    let verifier = Verifier::new(key, text(&document, "region"));
    let now = at(text(&document, "date"));
    let requests = document["requests"].as_array().expect("a list");
    assert!(requests.len() > 40);
    for request in requests {
        let headers = request["headers"].as_object().expect("headers");
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().expect("text")))
            .collect();
        let (method, target) = (text(request, "method"), text(request, "target"));
        let good = head(method, target, &headers);
        let claim = verify(&verifier, &good, now);
        assert!(
            matches!(claim, Ok(SignatureCheck::Signed(_))),
            "{request}: {claim:?}"
        );

        let joint = if target.contains('?') { '&' } else { '?' };
        let more = head(method, &format!("{target}{joint}acl"), &headers);
        let refusal = verify(&verifier, &more, now).expect_err("another query");
        assert_eq!(refusal.code(), Code::SignatureDoesNotMatch, "{request}");
        let method = if method == "GET" { "DELETE" } else { "GET" };
        assert!(verify(&verifier, &head(method, target, &headers), now).is_err());
    }
}

#[test]
fn the_form_that_botocore_signs_verifies() {
    let document = botocore();
    let key = one_key(text(&document, "access_key"), text(&document, "secret_key"));
    let verifier = Verifier::new(key, text(&document, "region"));
    let now = at(text(&document, "date"));
    let mut form = FormFields::default();
    for (name, value) in document["form"].as_object().expect("fields") {
        let value = value.as_str().expect("text").to_owned();
        form.push(name, value).expect("once each");
    }
    let verified = futures_util::FutureExt::now_or_never(verify_form(&verifier, &form, now));
    let (_, policy) = verified.expect("ready").expect("valid").expect("signed");
    policy
        .check(&form, "bucket", now)
        .expect("within its policy");
    let length = policy.length().expect("a range");
    assert_eq!((length.min, length.max), (1, 9));
    form.push("acl", "public-read".into()).expect("new");
    assert!(
        policy.check(&form, "bucket", now).is_err(),
        "a field that no condition covers"
    );
}

#[test]
fn each_way_to_be_wrong_has_its_code() {
    let verifier = doc_verifier();
    let code = |head: &Parts, now| {
        verify(&verifier, head, at(now))
            .expect_err("refused")
            .code()
    };
    let good = get_object(GET_SIGNATURE);
    assert_eq!(code(&good, "20130524T001501Z"), Code::RequestTimeTooSkewed);
    let forged = get_object(&GET_SIGNATURE.replace('f', "e"));
    assert_eq!(code(&forged, DOC_DATE), Code::SignatureDoesNotMatch);

    let change = |name: &'static str, value: Option<&str>| {
        let mut head = get_object(GET_SIGNATURE);
        match value {
            Some(value) => head.headers.insert(name, value.parse().expect("a value")),
            None => head.headers.remove(name),
        };
        head
    };
    let authorization = good.headers["authorization"].to_str().expect("text");
    for (from, to, expected) in [
        (DOC_KEY, "AKIAUNKNOWN", Code::InvalidAccessKeyId),
        ("us-east-1", "eu-west-1", Code::AuthorizationHeaderMalformed),
        ("/s3/", "/ec2/", Code::AuthorizationHeaderMalformed),
        ("20130524/", "20130523/", Code::AuthorizationHeaderMalformed),
        ("host;", "", Code::AccessDenied),
        ("x-amz-date,", "x-amz-none,", Code::AccessDenied),
        ("range;", "range;x-none;", Code::SignatureDoesNotMatch),
    ] {
        let head = change("authorization", Some(&authorization.replace(from, to)));
        assert_eq!(code(&head, DOC_DATE), expected, "{from} -> {to}");
    }
    let token = change("x-amz-security-token", Some("t"));
    assert_eq!(code(&token, DOC_DATE), Code::AccessDenied, "unsigned token");
    assert_eq!(
        code(&change("x-amz-date", None), DOC_DATE),
        Code::AccessDenied
    );
    assert_eq!(
        code(&change("x-amz-content-sha256", None), DOC_DATE),
        Code::InvalidRequest
    );

    let mut twice = get_object(GET_SIGNATURE);
    twice
        .headers
        .append("authorization", "x".parse().expect("a value"));
    assert_eq!(code(&twice, DOC_DATE), Code::InvalidArgument);
    let mut both = get_object(GET_SIGNATURE);
    both.uri = "/test.txt?X-Amz-Signature=1".parse().expect("a URI");
    assert_eq!(code(&both, DOC_DATE), Code::InvalidArgument);
    let version2 = head("GET", "/b/k?AWSAccessKeyId=A&Expires=1&Signature=s", &[]);
    assert_eq!(code(&version2, DOC_DATE), Code::AccessDenied, "expired");
    let nobody = verify(
        &verifier,
        &head("GET", "/b/k", &[("Host", "h")]),
        at(DOC_DATE),
    );
    assert!(matches!(nobody, Ok(SignatureCheck::Anonymous)));
}

#[test]
fn a_changed_secret_stops_signing_at_once() {
    let keys = one_key(DOC_KEY, DOC_SECRET);
    let verifier = Verifier::new(Arc::clone(&keys) as Arc<dyn CredentialStore>, "us-east-1");
    let good = get_object(GET_SIGNATURE);
    assert!(verify(&verifier, &good, at(DOC_DATE)).is_ok());
    {
        let mut key = keys.0.lock();
        key.secret = Secret::new("another".into());
        key.revision = 2;
    }
    let refusal = verify(&verifier, &good, at(DOC_DATE)).expect_err("the cached key is stale");
    assert_eq!(refusal.code(), Code::SignatureDoesNotMatch);
    keys.0.lock().secret = Secret::new(DOC_SECRET.into());
    keys.0.lock().revision = 3;
    assert!(verify(&verifier, &good, at(DOC_DATE)).is_ok());
}

#[test]
fn tokens_of_no_session_are_refused() {
    // Signed by our own key, so that only the token is at fault.
    let credentials = Credentials::new(DOC_KEY, DOC_SECRET);
    let mut signer = Signer::new(credentials, "us-east-1", at(DOC_DATE).secs());
    let credential = format!("{DOC_KEY}/20130524/us-east-1/s3/aws4_request");
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={DOC_DATE}&\
         X-Amz-Expires=60&X-Amz-Security-Token=tok&X-Amz-SignedHeaders=host",
        credential.replace('/', "%2F")
    );
    let signature = signer.sign(&RequestToSign {
        method: "GET",
        path: "/k",
        query: &query,
        headers: &[("host", "h")],
        payload: "UNSIGNED-PAYLOAD",
    });
    let target = format!("/k?{query}&X-Amz-Signature={signature}");
    let request = head("GET", &target, &[("Host", "h")]);
    let refusal = verify(&doc_verifier(), &request, at(DOC_DATE)).expect_err("no session");
    assert_eq!(refusal.code(), Code::InvalidToken);
}

#[test]
fn skew_is_fifteen_minutes_both_ways() {
    let date = RequestDate::parse(DOC_DATE).expect("valid");
    let at = |secs: i64| {
        let secs = date.secs().checked_add_signed(secs).expect("in range");
        check_skew(&date, Timestamp::from_secs(secs))
    };
    assert!(at(900).is_ok() && at(-900).is_ok());
    for secs in [901, -901] {
        let refusal = at(secs).expect_err("skewed");
        assert_eq!(refusal.code(), Code::RequestTimeTooSkewed);
    }
}

/// No test can measure it reliably, so this test reads the code. Signatures of Version 4 are compared by
/// the type `Signature`.
#[test]
fn secrets_are_compared_in_constant_time() {
    let code = include_str!("../sigv2/mod.rs");
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    assert!(code.contains("hmac::verify(") && !code.contains("signature =="));
}
