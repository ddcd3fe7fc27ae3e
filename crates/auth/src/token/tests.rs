//! Tokens by the letter of the profiles, and those that must not pass.

use aws_lc_rs::rand as chance;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dewar_types::{TenantName, Timestamp, UserId};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Action, Details, Resource};

const NOW: u64 = 1_800_000_000;
const URL: &str = "https://idp.example.org/realms/lab";
const AUD: &str = "https://storage.example.org";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

enum Signer {
    Rsa(RsaKeyPair, &'static str),
    Ec(EcdsaKeyPair, &'static str, &'static str),
}

impl Signer {
    fn rsa(alg: &'static str) -> Self {
        let pair = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).expect("makes a key");
        Self::Rsa(pair, alg)
    }

    fn ec(scheme: &'static EcdsaSigningAlgorithm, alg: &'static str, curve: &'static str) -> Self {
        Self::Ec(
            EcdsaKeyPair::generate(scheme).expect("makes a key"),
            alg,
            curve,
        )
    }

    fn es256() -> Self {
        Self::ec(&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256", "P-256")
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Rsa(pair, _) => {
                // PKCS #1: a sequence of the modulus, 256 bytes after a zero, and the exponent.
                let der = pair.public_key().as_ref();
                let (n, e) = (&der[9..265], &der[der.len() - 3..]);
                json!({"kty": "RSA", "kid": id, "use": "sig", "n": b64(n), "e": b64(e)})
            }
            Self::Ec(pair, _, curve) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "kid": id, "crv": curve, "x": b64(x), "y": b64(y)})
            }
        }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = chance::SystemRandom::new();
        match self {
            Self::Rsa(pair, alg) => {
                use aws_lc_rs::signature as s;
                let mut out = vec![0; pair.public_modulus_len()];
                let padding: &'static dyn s::RsaEncoding = match *alg {
                    "RS256" => &s::RSA_PKCS1_SHA256,
                    "RS384" => &s::RSA_PKCS1_SHA384,
                    _ => &s::RSA_PKCS1_SHA512,
                };
                pair.sign(padding, &random, message, &mut out)
                    .expect("signs");
                out
            }
            Self::Ec(pair, ..) => pair
                .sign(&random, message)
                .expect("signs")
                .as_ref()
                .to_vec(),
        }
    }

    fn alg(&self) -> &'static str {
        match self {
            Self::Rsa(_, alg) | Self::Ec(_, alg, _) => alg,
        }
    }

    fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.alg(), "kid": "k"}), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", b64(signature))
    }
}

fn keys(of: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": of }).to_string().as_bytes()).expect("a key set")
}

fn issuer() -> Issuer {
    Issuer {
        id: 1,
        url: URL.into(),
        audiences: vec![AUD.into()],
        keys_url: None,
        origins: Vec::new(),
        tenant: TenantName::default(),
        base: BasePath::parse("/atlas"),
        rules: Vec::new(),
        disabled: false,
    }
}

fn claims() -> Value {
    json!({"iss": URL, "sub": "ann", "aud": AUD, "iat": NOW, "exp": NOW + 3600, "jti": "1",
        "wlcg.ver": "1.0", "scope": "openid storage.read:/data"})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn judged(_: &Signer, set: &KeySet, token: &str) -> Result<VerifiedToken, TokenError> {
    let jws = Jws::parse(token)?;
    check(
        &jws,
        &issuer(),
        set,
        LIFETIME_MAX,
        Timestamp::from_secs(NOW),
    )
}

#[test]
fn every_algorithm_that_is_allowed_verifies_with_its_own_key_alone() {
    let signers = [
        Signer::rsa("RS256"),
        Signer::rsa("RS384"),
        Signer::rsa("RS512"),
        Signer::es256(),
        Signer::ec(&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384", "P-384"),
        Signer::ec(&ECDSA_P521_SHA512_FIXED_SIGNING, "ES512", "P-521"),
    ];
    for (at, signer) in signers.iter().enumerate() {
        let token = signer.token(&claims());
        for (other, holder) in signers.iter().enumerate() {
            let result = judged(signer, &keys(&[holder.jwk("k")]), &token);
            assert_eq!(
                result.is_ok(),
                at == other,
                "{} {other}: {result:?}",
                signer.alg()
            );
        }
    }
}

#[test]
fn no_header_chooses_how_it_is_checked() {
    let signer = Signer::rsa("RS256");
    let set = keys(&[signer.jwk("k")]);
    for alg in [
        "none", "None", "HS256", "HS512", "PS256", "EdDSA", "rs256", "RS1", "",
    ] {
        let token = signer.token_with(&json!({"alg": alg, "kid": "k"}), &claims());
        let result = judged(&signer, &set, &token);
        assert!(matches!(result, Err(TokenError::Algorithm(_))), "{alg}");
    }
    // The public key as an HMAC secret, and another length than the key is for.
    for alg in ["RS384", "RS512", "ES256"] {
        let token = signer.token_with(&json!({"alg": alg, "kid": "k"}), &claims());
        assert_eq!(
            judged(&signer, &set, &token),
            Err(TokenError::Signature),
            "{alg}"
        );
    }
    let mut bound = signer.jwk("k");
    bound["alg"] = "RS512".into();
    let token = signer.token(&claims());
    assert_eq!(
        judged(&signer, &keys(&[bound]), &token),
        Err(TokenError::Signature)
    );
    let header = json!({"alg": "RS256", "kid": "k", "crit": ["b64"], "b64": false});
    assert!(judged(&signer, &set, &signer.token_with(&header, &claims())).is_err());
    // A header brings no key along.
    let stranger = Signer::rsa("RS256");
    let header = json!({"alg": "RS256", "kid": "k", "jwk": stranger.jwk("k"),
        "jku": "https://evil.example.org/keys", "x5u": "https://evil.example.org/x"});
    let token = stranger.token_with(&header, &claims());
    assert_eq!(judged(&signer, &set, &token), Err(TokenError::Signature));
}

#[test]
fn only_keys_for_signatures_count() {
    let (signer, other) = (Signer::es256(), Signer::rsa("RS256"));
    let mut encryption = signer.jwk("k");
    encryption["use"] = "enc".into();
    assert!(KeySet::parse(json!({"keys": [encryption]}).to_string().as_bytes()).is_err());
    let odd = json!({"kty": "OKP", "crv": "Ed25519", "x": "AA", "kid": "o"});
    let broken = json!({"kty": "RSA", "n": "!!"});
    let set = keys(&[odd, broken, json!("text"), other.jwk("o"), signer.jwk("k")]);
    assert_eq!(set.len(), 2);
    assert!(judged(&signer, &set, &signer.token(&claims())).is_ok());
    // Without kid only a set of one key is tried.
    let nameless = signer.token_with(&json!({"alg": "ES256"}), &claims());
    assert!(matches!(
        judged(&signer, &set, &nameless),
        Err(TokenError::UnknownKey { .. })
    ));
    assert!(judged(&signer, &keys(&[signer.jwk("k")]), &nameless).is_ok());
    let small = json!({"kty": "RSA", "kid": "k", "n": b64([0xff; 128]), "e": "AQAB"});
    assert!(KeySet::parse(json!({"keys": [small]}).to_string().as_bytes()).is_err());
}

#[test]
fn claims_are_checked_exactly() {
    let signer = Signer::es256();
    let set = keys(&[signer.jwk("k")]);
    let judge = |claims: Value| judged(&signer, &set, &signer.token(&claims));
    let fine = judge(claims()).expect("fine");
    assert_eq!(fine.subject, "ann");
    assert_eq!(fine.expires, Timestamp::from_secs(NOW + 3600));
    for good in [
        with("aud", json!([AUD, "other"])),
        with("aud", json!(format!("{AUD}/"))),
        with("aud", json!(format!("{AUD}:443"))),
        with("exp", json!(NOW - 59)),
        with("exp", json!(NOW + LIFETIME_MAX.as_secs())),
        with("iat", json!(NOW + 60)),
        with("nbf", json!(NOW + 60)),
        with("wlcg.ver", json!("1.9")),
        with("exp", json!(NOW as f64 + 0.5)),
    ] {
        assert!(judge(good.clone()).is_ok(), "{good}");
    }
    for bad in [
        with("iss", json!("https://idp.example.org/realms/lab/")),
        with("iss", json!("https://IDP.example.org/realms/lab")),
        with("aud", json!("https://storage.example.org.evil.org")),
        with("aud", json!("https://Storage.example.org")),
        with("aud", json!([])),
        with("aud", Value::Null),
        with("exp", json!(NOW - 60)),
        with("exp", Value::Null),
        with("exp", json!(1e300)),
        with("exp", json!(u64::MAX)),
        with("exp", json!(NOW + LIFETIME_MAX.as_secs() + 1)),
        with("iat", json!(-1e300)),
        with("exp", json!("never")),
        with("iat", json!(NOW + 61)),
        with("iat", Value::Null),
        with("nbf", json!(NOW + 61)),
        with("sub", Value::Null),
        with("sub", json!("")),
        with("wlcg.ver", json!("2.0")),
        with("wlcg.ver", json!(1)),
        with("typ", json!("Refresh")),
        with(
            "events",
            json!({"http://schemas.openid.net/event/backchannel-logout": {}}),
        ),
        with("scope", json!("storage.read")),
    ] {
        assert!(judge(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn cut_and_changed_tokens_are_refused() {
    let signer = Signer::es256();
    let set = keys(&[signer.jwk("k")]);
    let token = signer.token(&claims());
    for at in 0..token.len() {
        assert!(judged(&signer, &set, &token[..at]).is_err(), "cut at {at}");
    }
    for at in (0..token.len()).step_by(3) {
        let mut bytes = token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).expect("text");
        assert!(judged(&signer, &set, &changed).is_err(), "changed at {at}");
    }
    for odd in ["", ".", "..", "a.b.c", "a.b.c.d", &"x".repeat(20_000)] {
        assert!(Jws::parse(odd).is_err(), "{odd}");
    }
}

fn capabilities(scope: &str) -> Capabilities {
    let base = BasePath::parse("/atlas").expect("a base");
    let parsed = Capabilities::parse(scope, &base, false).expect("scopes that can be");
    parsed.expect("capabilities")
}

fn lets(scope: &str, action: Action, bucket: &str, key: &str) -> CapabilityDecision {
    lets_with(scope, action, bucket, Some(key), &Details::default())
}

fn lets_with(
    scope: &str,
    action: Action,
    bucket: &str,
    key: Option<&str>,
    details: &Details<'_>,
) -> CapabilityDecision {
    let tenant = TenantName::default();
    let resource = Resource::Bucket {
        tenant: &tenant,
        bucket,
        owner: UserId(1),
        access: None,
        key,
        object: None,
    };
    capabilities(scope).lets(action, &resource, details)
}

#[test]
fn paths_are_compared_by_components() {
    for (scope, key, expected) in [
        (
            "storage.read:/foo/bar",
            "foo/bar",
            CapabilityDecision::Always,
        ),
        (
            "storage.read:/foo/bar",
            "foo/bar/x",
            CapabilityDecision::Always,
        ),
        (
            "storage.read:/foo/bar",
            "foo/barbaz",
            CapabilityDecision::Never,
        ),
        ("storage.read:/foo/bar", "foo", CapabilityDecision::Never),
        (
            "storage.read:/foo/bar/",
            "foo/bar",
            CapabilityDecision::Never,
        ),
        (
            "storage.read:/foo/bar/",
            "foo/bar/x",
            CapabilityDecision::Always,
        ),
        (
            "storage.read:/foo%20bar",
            "foo bar",
            CapabilityDecision::Always,
        ),
        (
            "storage.read:/",
            "anything/at/all",
            CapabilityDecision::Always,
        ),
        ("storage.modify:/foo", "foo", CapabilityDecision::Never),
        ("storage.create:/foo", "foo", CapabilityDecision::Never),
        ("storage.stage:/foo", "foo", CapabilityDecision::Never),
        ("storage.future:/foo", "foo", CapabilityDecision::Never),
    ] {
        assert_eq!(
            lets(scope, Action::GetObject, "atlas", key),
            expected,
            "{scope} {key}"
        );
        assert_eq!(
            lets(scope, Action::GetObject, "atlas2", key),
            CapabilityDecision::Never,
            "{scope}"
        );
    }
    for bad in [
        "storage.read",
        "storage.read:",
        "storage.read:foo",
        "storage.read:/foo/../bar",
        "storage.read:/foo/%2e%2e/bar",
        "storage.read:/foo/./bar",
        "storage.read:/foo//bar",
        "storage.read:/foo%2fbar",
        "storage.read:/foo%",
        "storage.read:/foo%00",
        "storage.modify:/ok storage.read:/..",
        "storage.future",
    ] {
        let base = BasePath::parse("/atlas").expect("a base");
        assert!(Capabilities::parse(bad, &base, false).is_err(), "{bad}");
    }
    let none = Capabilities::parse("openid profile read:/x", &BasePath::default(), false);
    assert_eq!(none, Ok(None));
    let some = Capabilities::parse("read:/x", &BasePath::default(), true).expect("can be");
    assert!(some.is_some());
}

#[test]
fn rights_are_those_of_the_profile() {
    use Action as A;
    let always =
        |scope: &str, action| lets(scope, action, "atlas", "d/f") == CapabilityDecision::Always;
    assert!(always("storage.modify:/d", A::PutObject));
    assert!(always("storage.modify:/d", A::DeleteObject));
    assert!(always("storage.modify:/d", A::RenameObject));
    assert_eq!(
        lets("storage.create:/d", A::PutObject, "atlas", "d/f"),
        CapabilityDecision::IfNew
    );
    for action in [
        A::DeleteObject,
        A::RenameObject,
        A::PutObjectTagging,
        A::GetObject,
    ] {
        assert_eq!(
            lets("storage.create:/d", action, "atlas", "d/f"),
            CapabilityDecision::Never,
            "{action}"
        );
    }
    assert!(always("storage.stage:/d", A::RestoreObject));
    assert!(!always("storage.read:/d", A::RestoreObject));
    assert!(!always("storage.read:/d", A::PutObject));
    // Nothing reaches what decides about rights.
    for action in [
        A::PutObjectAcl,
        A::BypassGovernanceRetention,
        A::PutObjectRetention,
        A::PutBucketPolicy,
        A::DeleteBucket,
        A::PutLifecycleConfiguration,
    ] {
        assert_eq!(
            lets("storage.modify:/", action, "atlas", "d/f"),
            CapabilityDecision::Never,
            "{action}"
        );
    }
    // Parents of the path may be made, and nothing else above it.
    let scope = "storage.create:/a/b/c";
    assert_eq!(
        lets(scope, A::PutObject, "atlas", "a/"),
        CapabilityDecision::IfNew
    );
    assert_eq!(
        lets(scope, A::PutObject, "atlas", "a/b/"),
        CapabilityDecision::IfNew
    );
    assert_eq!(
        lets(scope, A::PutObject, "atlas", "a/x/"),
        CapabilityDecision::Never
    );
    assert_eq!(
        lets(scope, A::PutObject, "atlas", "a/b"),
        CapabilityDecision::Never
    );
    assert_eq!(
        lets("storage.read:/a/b/c", A::PutObject, "atlas", "a/"),
        CapabilityDecision::Never
    );
}

#[test]
fn writers_may_look_and_readers_may_list() {
    let stat = Details {
        stat: true,
        ..Details::default()
    };
    for scope in [
        "storage.create:/d",
        "storage.modify:/d",
        "storage.stage:/d",
        "storage.read:/d",
    ] {
        let get = |key, details| lets_with(scope, Action::GetObject, "atlas", Some(key), details);
        assert_eq!(get("d/f", &stat), CapabilityDecision::Always, "{scope}");
        assert_eq!(get("e/f", &stat), CapabilityDecision::Never, "{scope}");
    }
    // A directory is looked at as what lies below it.
    let look = |scope: &str, prefix| {
        let details = Details {
            prefix: Some(prefix),
            ..stat
        };
        lets_with(scope, Action::ListBucket, "atlas", None, &details)
    };
    assert_eq!(
        look("storage.create:/d/e", "d/e/"),
        CapabilityDecision::Always
    );
    assert_eq!(
        look("storage.create:/d/e", "d/"),
        CapabilityDecision::Always
    );
    assert_eq!(look("storage.create:/d/e", "x/"), CapabilityDecision::Never);
    assert_eq!(look("storage.read:/d/e", "d/"), CapabilityDecision::Never);
    let poll = lets_with(
        "storage.poll:/d",
        Action::GetObject,
        "atlas",
        Some("d/f"),
        &stat,
    );
    assert_eq!(poll, CapabilityDecision::Never);
    let list = |scope: &str, prefix: Option<&str>| {
        let details = Details {
            prefix,
            ..Details::default()
        };
        lets_with(scope, Action::ListBucket, "atlas", None, &details)
    };
    assert_eq!(
        list("storage.read:/d", Some("d/")),
        CapabilityDecision::Always
    );
    assert_eq!(
        list("storage.read:/d", Some("d/x")),
        CapabilityDecision::Always
    );
    for outside in [None, Some(""), Some("d"), Some("dd/"), Some("e/")] {
        assert_eq!(
            list("storage.read:/d", outside),
            CapabilityDecision::Never,
            "{outside:?}"
        );
    }
    assert_eq!(list("storage.read:/", None), CapabilityDecision::Always);
    assert_eq!(list("storage.modify:/", None), CapabilityDecision::Never);
}

#[test]
fn mapping_rules_look_at_values_and_elements() {
    let claims = Claims::parse(
        json!({"groups": ["/atlas", "/atlas/production"], "sub": "ann",
            "realm_access": {"roles": ["admin"]}, "wlcg.groups": ["/cms"], "n": 7})
        .to_string()
        .as_bytes(),
    )
    .expect("claims");
    let fits = |claim: &str, value: &str| {
        let becomes = MappingTarget::Group("g".into());
        let (claim, value) = (claim.into(), value.into());
        MappingRule {
            claim,
            value,
            becomes,
        }
        .fits(&claims)
    };
    assert!(fits("groups", "/atlas"));
    assert!(fits("groups", "/atlas/*"));
    assert!(!fits("groups", "/atl"));
    assert!(fits("sub", "ann"));
    assert!(fits("realm_access.roles", "admin"));
    assert!(fits("wlcg.groups", "/cms"));
    assert!(fits("n", "7"));
    assert!(!fits("none", ""));
}

#[test]
fn addresses_of_issuers_are_https_or_of_this_machine() {
    for good in [
        "https://idp.example.org/realms/lab",
        "https://idp.example.org:8443",
        "http://127.0.0.1:18080/realms/hep",
        "http://[::1]:1/",
        "http://localhost/x",
    ] {
        assert_eq!(check_url(good), Ok(()), "{good}");
    }
    for bad in [
        "http://idp.example.org",
        "http://127.0.0.1.evil.org/",
        "http://10.0.0.1/",
        "ftp://idp.example.org",
        "https://",
        "https://:443",
        "https://user:pw@idp.example.org",
        "https://idp.example.org/?x",
        "https://idp.example.org/#x",
        "https://idp.example.org:99999/",
        "https://idp example.org/",
        "idp.example.org",
    ] {
        assert!(check_url(bad).is_err(), "{bad}");
    }
    assert_eq!(
        origin_of("https://IDP.example.org:443/a/b"),
        "https://idp.example.org"
    );
    assert_eq!(origin_of("http://[::1]:8080/a"), "http://[::1]:8080");
    for name in [
        "https://idp.example.org/realms/lab",
        "idp.example.org/realms/lab/",
        "arn:aws:iam::1234:oidc-provider/idp.example.org/realms/lab",
    ] {
        assert_eq!(provider_name(name), "idp.example.org/realms/lab");
    }
}

/// What a reader of the profile would do by hand: split both, compare one by one.
fn covers_naively(path: &[String], key: &[String]) -> bool {
    key.len() >= path.len() && path.iter().zip(key).all(|(a, b)| a == b)
}

proptest! {
    #[test]
    fn a_capability_covers_what_a_naive_reader_thinks(
        path in prop::collection::vec("[ab]{1,2}", 0..4),
        key in prop::collection::vec("[ab]{1,2}", 1..5),
    ) {
        let scope = format!("storage.read:/{}", path.join("/"));
        let found = lets(&scope, Action::GetObject, "atlas", &key.join("/"));
        prop_assert_eq!(found == CapabilityDecision::Always, covers_naively(&path, &key));
    }

    #[test]
    fn a_listing_that_is_let_shows_only_what_may_be_read(
        path in prop::collection::vec("[ab]{1,2}", 0..3),
        prefix in "[ab/]{0,6}",
        rest in "[ab/]{0,4}",
    ) {
        let scope = format!("storage.read:/{}", path.join("/"));
        let details = Details { prefix: Some(&prefix), ..Details::default() };
        let listed = lets_with(&scope, Action::ListBucket, "atlas", None, &details);
        let key = format!("{prefix}{rest}");
        if listed == CapabilityDecision::Always && !key.is_empty() {
            prop_assert_eq!(lets(&scope, Action::GetObject, "atlas", &key), CapabilityDecision::Always);
        }
    }

    #[test]
    fn nothing_makes_the_parser_fail(text in "\\PC{0,200}") {
        let _ = Jws::parse(&text);
        let _ = Capabilities::parse(&text, &BasePath::default(), true);
        let _ = KeySet::parse(text.as_bytes());
        let _ = BasePath::parse(&text);
        let _ = check_url(&text);
        let _ = origin_of(&text);
    }
}
