//! Against vectors of libmacaroons, and what caveats let happen.

use std::net::IpAddr;

use dewar_types::{TenantName, Timestamp, UserId};

use super::*;
use crate::token::CapabilityDecision;
use crate::{Action, Details, Origin, Resource};

fn secret() -> Secret {
    Secret::new("this is our super secret key; only we should know it".to_owned())
}

/// The example of libmacaroons' README.
#[test]
fn it_is_what_other_implementations_make() {
    let plain = Macaroon::mint("http://mybank/", "we used our secret key", &secret());
    assert_eq!(
        plain.text().reveal(),
        "MDAxY2xvY2F0aW9uIGh0dHA6Ly9teWJhbmsvCjAwMjZpZGVudGlmaWVyIHdlIHVzZWQgb3VyIHNlY3JldCBrZXkK\
         MDAyZnNpZ25hdHVyZSDj2eApCFJsTAA5rhURQRXZf91ovyujebNCqvD2F9BVLwo"
    );
    let hex = |macaroon: &Macaroon| {
        let digits = macaroon.signature.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>()
    };
    assert_eq!(
        hex(&plain.with("test = caveat")),
        "197bac7a044af33332865b9266e26d493bdd668a660e44d88ce1a998c23dbd67"
    );
}

#[test]
fn nothing_can_be_taken_off_or_changed() {
    let whole = Macaroon::mint("here", "id", &secret())
        .with("activity:DOWNLOAD")
        .with("path:/a");
    assert!(whole.is_rooted_in(&secret()));
    assert!(!whole.is_rooted_in(&Secret::new("another".into())));
    let forged = |change: &dyn Fn(&mut Macaroon)| {
        let mut copy = whole.clone();
        change(&mut copy);
        assert!(!copy.is_rooted_in(&secret()));
    };
    forged(&|m| drop(m.caveats.pop()));
    forged(&|m| drop(m.caveats.remove(0)));
    forged(&|m| m.caveats.clear());
    forged(&|m| m.caveats.swap(0, 1));
    forged(&|m| m.caveats[1] = "path:/".into());
    forged(&|m| m.identifier = "another".into());
    forged(&|m| m.caveats.push("path:/a/b".into()));
    assert!(whole.clone().with("path:/a/b").is_rooted_in(&secret()));
}

#[test]
fn both_versions_are_read_and_no_garbage() {
    let whole = Macaroon::mint("here", "id", &secret()).with("path:/a");
    let text = whole.text();
    assert_eq!(Macaroon::parse(text.reveal()), Ok(whole.clone()));
    assert_eq!(
        Macaroon::parse(&format!("{}==", text.reveal())).is_ok(),
        text.reveal().len() % 4 == 2
    );
    let mut two = vec![2, 1, 4];
    two.extend_from_slice(b"here\x02\x02id\x00\x02\x07path:/a\x00\x00\x06\x20");
    two.extend_from_slice(&whole.signature);
    assert_eq!(Macaroon::parse(&BASE64.encode(&two)), Ok(whole));
    for end in 0..two.len() {
        assert!(
            Macaroon::parse(&BASE64.encode(&two[..end])).is_err(),
            "{end}"
        );
    }
    let bytes = BASE64.decode(text.reveal()).expect("base64");
    for end in 0..bytes.len() {
        assert!(
            Macaroon::parse(&BASE64.encode(&bytes[..end])).is_err(),
            "{end}"
        );
    }
    let third = b"\x02\x02\x02id\x00\x01\x01x\x02\x01c\x04\x01v\x00\x00\x06\x20";
    let third = [&third[..], &[0; 32]].concat();
    let parsed = Macaroon::parse(&BASE64.encode(third));
    assert_eq!(parsed, Err(MacaroonError::ThirdParty));
    for not in ["", "MDAw", "a.b.c", "Ag"] {
        assert!(Macaroon::parse(not).is_err(), "{not}");
    }
}

fn parse(caveats: &[&str]) -> Result<Caveats, CaveatError> {
    let caveats: Vec<String> = caveats.iter().map(|text| (*text).to_owned()).collect();
    Caveats::parse(&caveats)
}

fn lets(
    caveats: &[&str],
    action: Action,
    key: Option<&str>,
    more: Details<'_>,
) -> CapabilityDecision {
    let origin = Origin {
        address: "192.0.2.7".parse::<IpAddr>().ok(),
        secure: true,
    };
    let tenant = TenantName::default();
    let resource = Resource::Bucket {
        tenant: &tenant,
        bucket: "b",
        owner: UserId(1),
        access: None,
        key,
        object: None,
    };
    let caveats = parse(caveats).expect("caveats");
    caveats.lets(action, &resource, &more, origin)
}

fn at(caveats: &[&str], action: Action, key: &str) -> CapabilityDecision {
    lets(caveats, action, Some(key), Details::default())
}

#[test]
fn caveats_that_are_not_known_let_nothing_happen() {
    for unknown in ["colour:red", "nothing", "", "Path:/a", "test = caveat"] {
        assert!(
            matches!(parse(&[unknown]), Err(CaveatError::Unknown(_))),
            "{unknown}"
        );
    }
    for unreadable in [
        "path:a",
        "path:/a//b",
        "path:/a/../b",
        "before:tomorrow",
        "ip:localhost",
        "ip:10.0.0.0/33",
        "activity:FLY",
        "activity:DOWNLOAD,FLY",
        "activity:",
    ] {
        assert!(
            matches!(parse(&[unreadable]), Err(CaveatError::Unreadable(_))),
            "{unreadable}"
        );
    }
}

#[test]
fn activities_let_what_they_say() {
    use Action as A;
    let just = |activity: &str, action| at(&[&format!("activity:{activity}")], action, "k");
    assert_eq!(just("DOWNLOAD", A::GetObject), CapabilityDecision::Always);
    assert_eq!(just("UPLOAD", A::PutObject), CapabilityDecision::IfNew);
    assert_eq!(
        just("UPLOAD,DELETE", A::PutObject),
        CapabilityDecision::Always
    );
    assert_eq!(just("DELETE", A::DeleteObject), CapabilityDecision::Always);
    assert_eq!(just("MANAGE", A::RenameObject), CapabilityDecision::Always);
    for (activity, action) in [
        ("UPLOAD", A::GetObject),
        ("DOWNLOAD", A::PutObject),
        ("UPLOAD", A::DeleteObject),
        ("LIST", A::GetObject),
        ("READ_METADATA", A::GetObject),
        ("DOWNLOAD,UPLOAD,DELETE", A::RenameObject),
        ("DOWNLOAD,UPLOAD,DELETE,MANAGE", A::PutObjectAcl),
        ("MANAGE", A::PutObjectRetention),
        (
            "DOWNLOAD,UPLOAD,DELETE,MANAGE",
            A::BypassGovernanceRetention,
        ),
    ] {
        assert_eq!(
            just(activity, action),
            CapabilityDecision::Never,
            "{activity} {action}"
        );
    }
    // Several narrow.
    assert_eq!(
        at(
            &["activity:DOWNLOAD,UPLOAD", "activity:UPLOAD,LIST"],
            A::GetObject,
            "k"
        ),
        CapabilityDecision::Never
    );
    assert_eq!(
        at(&["activity:DOWNLOAD", "activity:UPLOAD"], A::PutObject, "k"),
        CapabilityDecision::Never
    );
    // Without any: whatever the holder may, but for policies and lists.
    assert_eq!(at(&[], A::DeleteObject, "k"), CapabilityDecision::Always);
    assert_eq!(at(&[], A::PutObjectAcl, "k"), CapabilityDecision::Never);
    let bucket = |action| lets(&[], action, None, Details::default());
    assert_eq!(bucket(A::PutBucketPolicy), CapabilityDecision::Never);
    assert_eq!(bucket(A::ListBucket), CapabilityDecision::Always);
}

#[test]
fn paths_narrow_by_components() {
    use Action as A;
    let path = &["path:/b/dir"][..];
    for (key, may) in [
        ("dir", true),
        ("dir/x", true),
        ("dir/x/y", true),
        ("director", false),
        ("x", false),
    ] {
        let wanted = if may {
            CapabilityDecision::Always
        } else {
            CapabilityDecision::Never
        };
        assert_eq!(at(path, A::GetObject, key), wanted, "{key}");
    }
    assert_eq!(
        at(&["path:/b/dir", "path:/b/dir/sub"], A::GetObject, "dir/x"),
        CapabilityDecision::Never
    );
    assert_eq!(
        at(
            &["path:/b/dir/sub", "path:/b/dir"],
            A::GetObject,
            "dir/sub/x"
        ),
        CapabilityDecision::Always
    );
    assert_eq!(
        at(&["path:/b/dir/sub", "path:/b"], A::GetObject, "dir/x"),
        CapabilityDecision::Never
    );
    assert_eq!(
        at(&["path:/b/dir", "path:/b/other"], A::GetObject, "dir/x"),
        CapabilityDecision::Never
    );
    assert_eq!(
        at(&["path:/c"], A::GetObject, "dir/x"),
        CapabilityDecision::Never
    );
    let listing = |prefix: &'static str, stat| {
        let details = Details {
            prefix: Some(prefix),
            stat,
            ..Details::default()
        };
        lets(path, A::ListBucket, None, details)
    };
    assert_eq!(listing("dir/", false), CapabilityDecision::Always);
    assert_eq!(listing("dir/x", false), CapabilityDecision::Always);
    assert_eq!(listing("dir", false), CapabilityDecision::Never);
    assert_eq!(listing("", false), CapabilityDecision::Never);
    // What is above may be looked at, and made, but not listed.
    assert_eq!(listing("", true), CapabilityDecision::Always);
    assert_eq!(
        at(&["path:/b/a/c", "activity:UPLOAD"], A::PutObject, "a/"),
        CapabilityDecision::IfNew
    );
    assert_eq!(
        at(&["path:/b/a/c", "activity:UPLOAD"], A::PutObject, "a"),
        CapabilityDecision::Never
    );
    assert_eq!(
        at(&["path:/b/a/c", "activity:UPLOAD"], A::PutObject, "x/"),
        CapabilityDecision::Never
    );
}

#[test]
fn time_address_name_and_tenant_narrow() {
    use Action as A;
    let may = |caveat: &str| at(&[caveat], A::GetObject, "k") == CapabilityDecision::Always;
    assert!(
        may("ip:192.0.2.7")
            && may("ip:192.0.2.0/24")
            && may("ip:10.0.0.0/8,192.0.2.7")
            && may("ip:0.0.0.0/0")
    );
    assert!(!may("ip:192.0.2.8") && !may("ip:192.0.3.0/24") && !may("ip:::/0"));
    let then = |secs| Details {
        now: Timestamp::from_secs(secs),
        ..Details::default()
    };
    let before = &["before:1970-01-01T00:10:00Z", "before:1970-01-01T01:00:00Z"][..];
    assert_eq!(
        lets(before, A::GetObject, Some("k"), then(599)),
        CapabilityDecision::Always
    );
    assert_eq!(
        lets(before, A::GetObject, Some("k"), then(600)),
        CapabilityDecision::Never
    );
    assert_eq!(
        parse(before).expect("caveats").before(),
        Some(Timestamp::from_secs(600))
    );
    let named = parse(&["name:ann"]).expect("caveats");
    assert!(named.lets_name("ann") && !named.lets_name("bob"));
    let elsewhere = parse(&[])
        .expect("caveats")
        .within(TenantName::new("lab").expect("a name"));
    let tenant = TenantName::default();
    let origin = Origin {
        address: None,
        secure: true,
    };
    let resource = Resource::Tenant(&tenant);
    let details = Details::default();
    assert_eq!(
        elsewhere.lets(A::ListAllMyBuckets, &resource, &details, origin),
        CapabilityDecision::Never
    );
}
