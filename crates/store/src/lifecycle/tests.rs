//! What is due when, and that the scanner does it and nothing else.

use std::collections::BTreeMap;
use std::time::Duration;

use dewar_catalog::Tenant;
use dewar_catalog::record::{ETag, VersionFlags, VersionRecord};
use dewar_env::worker::PauseGate;
use dewar_types::{ErrorKind, Timestamp, VersionId};

use super::evaluation::{DueAction, EvaluatedVersion};
use super::rules::{
    Expiration, Filter, NoncurrentExpiration, NoncurrentTransition, Rule, Transition,
};
use super::scan::PassPacer;
use super::{DAY, Lifecycle};
use dewar_checksum::AlgorithmSet;

use crate::api::{
    CreateUploadRequest, ExpectedContent, ListVersionsRequest, UploadPartRequest,
    VersionAttributes, Versioning,
};
use crate::tests::{Rig, bucket, content, object, run};

fn version(written: u64) -> VersionRecord {
    let digests = dewar_checksum::DigestSet::new(1, 0);
    let modified = Timestamp::from_secs(written);
    VersionRecord {
        tags: BTreeMap::from([("a".into(), "1".into()), ("b".into(), "2".into())]),
        ..VersionRecord::new(VersionId(1), 100, ETag::Version, modified, digests)
    }
}

fn rule(prefix: &str) -> Rule {
    Rule {
        id: "rule".into(),
        enabled: true,
        filter: Filter {
            prefix: Some(prefix.into()),
            ..Filter::default()
        },
        ..Rule::default()
    }
}

fn due_at(rule: &Rule, seen: &EvaluatedVersion<'_>, secs: u64, day: u64) -> Option<DueAction> {
    let rules = Lifecycle {
        rules: vec![rule.clone()],
    };
    rules.due(seen, Timestamp::from_secs(secs), Duration::from_secs(day))
}

#[test]
fn current_versions_expire_by_days_and_dates() {
    let version = version(1000);
    let seen = |key| EvaluatedVersion {
        key,
        version: &version,
        older: None,
        alone: true,
    };
    let days = Rule {
        expiration: Some(Expiration::Days(2)),
        ..rule("a/")
    };
    assert_eq!(due_at(&days, &seen("a/k"), 1019, 10), None);
    assert_eq!(
        due_at(&days, &seen("a/k"), 1020, 10),
        Some(DueAction::Expire)
    );
    assert_eq!(due_at(&days, &seen("b/k"), 9999, 10), None);
    // Real days end at midnight.
    let real = |secs| due_at(&days, &seen("a/k"), secs, DAY.as_secs());
    assert_eq!(real(1000 + 2 * 86_400), None);
    assert_eq!(real(3 * 86_400 - 1), None);
    assert_eq!(real(3 * 86_400), Some(DueAction::Expire));
    let off = Rule {
        enabled: false,
        ..days.clone()
    };
    assert_eq!(due_at(&off, &seen("a/k"), 9999, 10), None);
    let date = Rule {
        expiration: Some(Expiration::Date(Timestamp::from_secs(86_400))),
        ..rule("")
    };
    assert_eq!(due_at(&date, &seen("k"), 86_399, 10), None);
    assert_eq!(
        due_at(&date, &seen("k"), 86_400, 10),
        Some(DueAction::Expire)
    );
}

#[test]
fn filters_are_all_of_their_parts() {
    let version = version(0);
    let seen = EvaluatedVersion {
        key: "k",
        version: &version,
        older: None,
        alone: true,
    };
    let with = |filter: Filter| Rule {
        filter,
        expiration: Some(Expiration::Days(1)),
        ..rule("")
    };
    let tag = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    for (filter, matches) in [
        (Filter::default(), true),
        (
            Filter {
                tags: vec![tag("a", "1"), tag("b", "2")],
                ..Filter::default()
            },
            true,
        ),
        (
            Filter {
                tags: vec![tag("a", "1"), tag("b", "3")],
                ..Filter::default()
            },
            false,
        ),
        (
            Filter {
                larger: Some(99),
                smaller: Some(101),
                ..Filter::default()
            },
            true,
        ),
        (
            Filter {
                larger: Some(100),
                ..Filter::default()
            },
            false,
        ),
        (
            Filter {
                smaller: Some(100),
                ..Filter::default()
            },
            false,
        ),
    ] {
        let due = due_at(&with(filter.clone()), &seen, 9999, 10);
        assert_eq!(due.is_some(), matches, "{filter:?}");
    }
}

#[test]
fn older_versions_count_from_when_they_were_replaced() {
    let version = version(0);
    let older = |newer, since| EvaluatedVersion {
        key: "k",
        version: &version,
        older: Some((newer, Timestamp::from_secs(since))),
        alone: false,
    };
    let plain = Rule {
        noncurrent: Some(NoncurrentExpiration {
            days: 1,
            keep: None,
        }),
        expiration: Some(Expiration::Days(1)),
        ..rule("")
    };
    assert_eq!(due_at(&plain, &older(0, 1000), 1009, 10), None);
    assert_eq!(
        due_at(&plain, &older(0, 1000), 1010, 10),
        Some(DueAction::Expire)
    );
    let keeping = Rule {
        noncurrent: Some(NoncurrentExpiration {
            days: 1,
            keep: Some(2),
        }),
        ..rule("")
    };
    assert_eq!(due_at(&keeping, &older(1, 0), 9999, 10), None);
    assert_eq!(
        due_at(&keeping, &older(2, 0), 9999, 10),
        Some(DueAction::Expire)
    );
    let moving = Rule {
        noncurrent_transitions: vec![NoncurrentTransition {
            days: 1,
            keep: None,
            class: "COLD".into(),
        }],
        ..rule("")
    };
    let moved = due_at(&moving, &older(0, 0), 10, 10);
    assert_eq!(moved, Some(DueAction::Move("COLD".into())));
}

#[test]
fn markers_go_when_nothing_stands_behind_them() {
    let marker = VersionRecord {
        flags: VersionFlags::DELETE_MARKER,
        ..version(1000)
    };
    let seen = |alone| EvaluatedVersion {
        key: "k",
        version: &marker,
        older: None,
        alone,
    };
    for expiration in [Expiration::Marker(true), Expiration::Days(1)] {
        let rule = Rule {
            expiration: Some(expiration),
            ..rule("")
        };
        assert_eq!(due_at(&rule, &seen(false), 9999, 10), None);
        assert_eq!(
            due_at(&rule, &seen(true), 9999, 10),
            Some(DueAction::Expire)
        );
    }
    for expiration in [
        Expiration::Marker(false),
        Expiration::Date(Timestamp::from_secs(1)),
    ] {
        let rule = Rule {
            expiration: Some(expiration),
            ..rule("")
        };
        assert_eq!(due_at(&rule, &seen(true), 9999, 10), None);
    }
}

#[test]
fn the_last_move_that_is_due_counts() {
    let to = |days, class: &str| Transition {
        days: Some(days),
        date: None,
        class: class.into(),
    };
    let rule = Rule {
        transitions: vec![to(3, "COLDER"), to(1, "COLD")],
        ..rule("")
    };
    let here = version(0);
    let moved = VersionRecord {
        storage_class: Some("COLDER".into()),
        ..version(0)
    };
    let seen = |version| EvaluatedVersion {
        key: "k",
        version,
        older: None,
        alone: true,
    };
    assert_eq!(due_at(&rule, &seen(&here), 9, 10), None);
    assert_eq!(
        due_at(&rule, &seen(&here), 10, 10),
        Some(DueAction::Move("COLD".into()))
    );
    assert_eq!(
        due_at(&rule, &seen(&here), 30, 10),
        Some(DueAction::Move("COLDER".into()))
    );
    assert_eq!(due_at(&rule, &seen(&moved), 30, 10), None);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let expiring = |expiration| Rule {
        expiration: Some(expiration),
        ..rule("")
    };
    let fine = expiring(Expiration::Days(1));
    let check = |rules: Vec<Rule>| Lifecycle { rules }.check(|class| class == "COLD");
    assert!(check(vec![fine.clone()]).is_ok());
    let moving = |class: &str| Rule {
        transitions: vec![Transition {
            days: Some(0),
            date: None,
            class: class.into(),
        }],
        ..rule("")
    };
    assert!(check(vec![moving("COLD")]).is_ok(), "at once");
    for rules in [
        Vec::new(),
        vec![fine.clone(), fine.clone()],
        vec![Rule {
            id: "x".repeat(256),
            ..fine.clone()
        }],
        vec![expiring(Expiration::Days(0))],
        vec![expiring(Expiration::Date(Timestamp::from_secs(5)))],
        vec![moving("HOT")],
        vec![Rule {
            filter: Filter {
                tags: vec![("a".into(), "b".into())],
                ..Filter::default()
            },
            ..expiring(Expiration::Marker(true))
        }],
    ] {
        let refused = check(rules.clone()).expect_err("no sense");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{rules:?}");
    }
}

#[test]
fn only_keys_that_rules_are_about_are_looked_at() {
    let expires = |prefix: &str| Rule {
        expiration: Some(Expiration::Days(1)),
        ..rule(prefix)
    };
    let looked_at = |rules: Vec<Rule>| {
        let rules = Lifecycle { rules };
        let prefixes = rules.prefixes().into_iter();
        prefixes.map(str::to_owned).collect::<Vec<_>>()
    };
    let rules = ["b/", "a/x/", "c", "a/", "b/", "c/d", "a"].map(expires);
    assert_eq!(looked_at(rules.to_vec()), ["a", "b/", "c"]);
    let all = Rule {
        filter: Filter::default(),
        ..expires("")
    };
    assert_eq!(looked_at(vec![expires("a"), all]), [""]);
    let off = Rule {
        enabled: false,
        ..expires("off")
    };
    let uploads = Rule {
        abort_days: Some(1),
        ..rule("uploads")
    };
    let older = Rule {
        noncurrent: Some(NoncurrentExpiration::default()),
        ..rule("older")
    };
    assert_eq!(looked_at(vec![off, uploads, older]), ["older"]);
}

#[test]
fn a_pass_goes_on_where_it_was() {
    let due = |from: &'static str| {
        run(async move {
            let rig = Rig::new(2).await;
            for key in ["a/1", "a/2", "between", "c/1", "c/2"] {
                rig.put(key, &content(100, 1)).await.expect("put");
            }
            let expires = |prefix: &str| Rule {
                id: prefix.into(),
                expiration: Some(Expiration::Days(1)),
                ..rule(prefix)
            };
            let rules = Lifecycle {
                rules: ["c/", "a/"].map(expires).to_vec(),
            };
            rig.world.clock().jump(3 * DAY.as_nanos() as i64);
            let inner = &rig.store.inner;
            let tenant = Tenant::default_tenant();
            let bucket = inner.tree.bucket(&tenant, &bucket("first").name).await;
            let bucket = bucket.expect("read").expect("there");
            let mut pace = PassPacer::new(DAY, PauseGate::open());
            let scanned = inner.scan(&bucket, &rules, from.into(), &mut pace).await;
            scanned.expect("scanned");
            let left = versions(&rig).await;
            rig.settle().await;
            left.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        })
    };
    assert_eq!(due(""), ["between"]);
    assert_eq!(due("a/2"), ["a/1", "between"]);
    assert_eq!(due("between"), ["a/1", "a/2", "between"]);
    assert_eq!(due("c/2"), ["a/1", "a/2", "between", "c/1"]);
    assert_eq!(due("d"), ["a/1", "a/2", "between", "c/1", "c/2"]);
}

async fn versions(rig: &Rig) -> Vec<(String, bool)> {
    let request = ListVersionsRequest {
        bucket: bucket("first"),
        prefix: String::new(),
        delimiter: String::new(),
        after: String::new(),
        after_version: None,
        max: 1000,
    };
    let page = rig.store.list_versions(&rig.ann, request).await;
    let page = page.expect("listed");
    let shown = page.versions.into_iter();
    shown.map(|seen| (seen.object.key, seen.marker)).collect()
}

/// Three days, and then time for a pass.
async fn days_pass(rig: &Rig) {
    let nanos = 3 * DAY.as_nanos();
    rig.world.clock().jump(nanos as i64);
    tokio::time::sleep(DAY / 11).await;
}

#[test]
fn the_scanner_does_what_is_due() {
    run(async {
        let rig = Rig::new(1).await;
        let (store, first) = (&rig.store, bucket("first"));
        for key in ["old/a", "old/b", "kept", "kept2"] {
            rig.put(key, &content(20_000, 1)).await.expect("put");
        }
        let lifecycle = Lifecycle {
            rules: vec![Rule {
                expiration: Some(Expiration::Days(1)),
                noncurrent: Some(NoncurrentExpiration {
                    days: 1,
                    keep: None,
                }),
                ..rule("old/")
            }],
        };
        let denied = store.set_lifecycle(&rig.bob, &first, &lifecycle).await;
        assert_eq!(denied.expect_err("bob's").kind(), ErrorKind::Denied);
        let set = store.set_lifecycle(&rig.ann, &first, &lifecycle).await;
        set.expect("set");
        let put = rig.put("old/c", &content(10, 1)).await.expect("put");
        assert_eq!(put.expiry.expect("a date").rule, "rule");
        let versioning = Versioning::Enabled;
        days_pass(&rig).await;
        let kept = [("kept".to_owned(), false), ("kept2".to_owned(), false)];
        assert_eq!(versions(&rig).await, kept);

        // With versions what expires is hidden first, and goes later; the marker goes in the end.
        let set = store.set_versioning(&rig.ann, &first, versioning).await;
        set.expect("set");
        rig.put("old/d", &content(20_000, 2)).await.expect("put");
        days_pass(&rig).await;
        let both = [("old/d".to_owned(), true), ("old/d".to_owned(), false)];
        assert_eq!(
            versions(&rig).await[2..],
            both,
            "a marker at the end of a page"
        );
        days_pass(&rig).await;
        days_pass(&rig).await;
        assert_eq!(versions(&rig).await, kept);
        assert_eq!(rig.get("kept").await.expect("kept"), content(20_000, 1));

        // Several rules, of which one is within another, and what lies between them stays.
        for key in ["a/1", "a/2", "a/x/1", "kept1", "z", "z1", "zz/1"] {
            rig.put(key, &content(100, 3)).await.expect("put");
        }
        let expires = |prefix: &str| Rule {
            id: prefix.into(),
            expiration: Some(Expiration::Days(1)),
            noncurrent: Some(NoncurrentExpiration {
                days: 1,
                keep: None,
            }),
            ..rule(prefix)
        };
        let lifecycle = Lifecycle {
            rules: ["zz", "a/x/", "a/", "z1"].map(expires).to_vec(),
        };
        let set = store.set_lifecycle(&rig.ann, &first, &lifecycle).await;
        set.expect("set");
        for _ in 0..3 {
            days_pass(&rig).await;
        }
        let left = versions(&rig).await;
        let left: Vec<&str> = left.iter().map(|(key, _)| &**key).collect();
        assert_eq!(left, ["kept", "kept1", "kept2", "z"]);
        rig.settle().await;
    });
}

/// Seven days after its last part an upload ends, whatever bucket it is in and without any rule.
#[test]
fn an_upload_that_nobody_goes_on_with_ends() {
    run(async {
        let rig = Rig::new(3).await;
        let store = &rig.store;
        let begin = async |key: &str| {
            let request = CreateUploadRequest {
                object: object(key),
                checksum: None,
                composite: false,
                attributes: VersionAttributes::default(),
                encryption: None,
                acl: None,
            };
            store
                .create_upload(&rig.ann, request)
                .await
                .expect("begun")
                .id
        };
        let add = async |key: &str, upload| {
            let request = UploadPartRequest {
                object: object(key),
                upload,
                number: 1,
                size: Some(9),
                checksum: None,
                want: AlgorithmSet::EMPTY,
                customer_key: None,
            };
            let mut part = store.upload_part(&rig.ann, request).await.expect("open");
            part.write(content(9, 1)).await.expect("written");
            part.commit(ExpectedContent::default())
                .await
                .expect("stored");
        };
        let (old, alive) = (begin("old").await, begin("alive").await);
        add("old", old).await;
        add("alive", alive).await;
        let days = |days: u64| i64::try_from(DAY.as_nanos()).expect("fits") * days as i64;
        rig.world.clock().jump(days(4));
        add("alive", alive).await;
        rig.world.clock().jump(days(3));
        tokio::time::sleep(DAY / 11).await;
        let usage = store.upload_usage().await.expect("read");
        assert_eq!((usage[0].uploads, usage[0].bytes), (1, 9));
        let tree = store.tree();
        let left = tree.uploads_after(None, 10).await.expect("read");
        assert_eq!(left[0].upload.id, alive);
        rig.world.clock().jump(days(4));
        tokio::time::sleep(DAY / 11).await;
        assert_eq!(store.upload_usage().await.expect("read"), []);
        let audit = tree.audit().await.expect("read");
        assert!(audit.faults.is_empty(), "{:?}", audit.faults);
        rig.settle().await;
    });
}
