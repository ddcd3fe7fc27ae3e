//! Accounts over the memory engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::token::{Claims, Issuer, MappingRule, MappingTarget, VerifiedToken};
use dewar_auth::{Action, Caller, TokenFacts};
use dewar_catalog::keys as catalog;
use dewar_env::BoxFuture;
use dewar_kv::Batch;
use dewar_types::{ErrorKind, ObjectKey, Result, TenantId, TenantName, Timestamp};
use tokio::time::{Instant, sleep};

use super::record::{IssuerKeysRecord, UserRecord, decode, encode};
use super::references::group_key;
use super::users::user_key;
use super::{
    Accounts, AssumeRole, FetchKeys, GROUP, IssuedSession, MacaroonRequest, NewIssuer, NewUser,
    POLICY, PolicyHolder, PolicyHolderKind, RoleChange, UserChange,
};
use crate::api::BucketRef;
use crate::tests::{Rig, bucket, origin, run};

const ALLOW: &str =
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#;
const TRUST: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole",
    "Principal":{"AWS":"*"}}}"#;

fn new(name: &str) -> NewUser {
    NewUser {
        name: name.into(),
        ..NewUser::default()
    }
}

#[test]
fn users_belong_to_tenants_and_accounts() {
    run(async {
        let rig = Rig::new(11).await;
        let accounts = rig.store.accounts();
        let atlas = TenantName::new("atlas").expect("valid");
        let made = accounts
            .make_user(NewUser {
                tenant: atlas.clone(),
                display_name: Some("Ann of Atlas".into()),
                email: Some("Ann@Example.org".into()),
                ..new("ann")
            })
            .await
            .expect("made");
        assert!(made.is_root());
        assert_eq!(made.shown_name(), "Ann of Atlas");
        let found = accounts.user("atlas:ann").await.expect("found");
        assert_eq!(found, made);
        assert_ne!(accounts.user("ann").await.expect("another").id, made.id);
        let by_mail = accounts
            .user_by_email("ann@example.ORG")
            .await
            .expect("read");
        assert_eq!(by_mail.map(|user| user.id), Some(made.id));
        let by_id = accounts
            .user_by_id(made.id)
            .await
            .expect("read")
            .expect("there");
        assert_eq!(by_id.name, "ann");
        let same_mail = NewUser {
            email: Some("ann@example.org".into()),
            ..new("other")
        };
        let error = accounts.make_user(same_mail).await.expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let robot = accounts.make_user(new("ann/Robot")).await.expect("made");
        assert!(!robot.is_root());
        assert_eq!(robot.account, accounts.user("ann").await.expect("root").id);
        assert!(robot.arn().ends_with(":user/Robot"));
        // Names of an account do not depend on case.
        let error = accounts
            .make_user(new("ann/robot"))
            .await
            .expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            accounts.user("ann/ROBOT").await.expect("found").name,
            "ann/Robot"
        );
        let none = TenantName::default();
        assert_eq!(
            accounts.users_of(&none, "ann").await.expect("listed").len(),
            1
        );
        assert_eq!(
            accounts
                .users_of(&atlas, "ann")
                .await
                .expect("listed")
                .len(),
            0
        );
        for (name, kind) in [
            ("nobody/x", ErrorKind::NotFound),
            ("a/b/c", ErrorKind::InvalidName),
            ("", ErrorKind::InvalidName),
            ("a b", ErrorKind::InvalidName),
        ] {
            let error = accounts.make_user(new(name)).await.expect_err(name);
            assert_eq!(error.kind(), kind, "{name}");
        }
        let like_an_account = NewUser {
            tenant: TenantName::new("0001000000000001").expect("valid"),
            ..new("x")
        };
        assert!(accounts.make_user(like_an_account).await.is_err());
    });
}

#[test]
fn a_renamed_user_keeps_its_keys() {
    run(async {
        let rig = Rig::new(12).await;
        let accounts = rig.store.accounts();
        accounts.make_user(new("ann/a")).await.expect("made");
        accounts.make_user(new("ann/taken")).await.expect("made");
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        let rename = |name: &str| UserChange {
            name: Some(name.into()),
            ..UserChange::default()
        };
        let error = accounts.change_user("ann/a", rename("ann/taken")).await;
        assert_eq!(error.expect_err("taken").kind(), ErrorKind::AlreadyExists);
        accounts
            .change_user("ann/a", rename("ann/b"))
            .await
            .expect("renamed");
        assert!(accounts.user("ann/a").await.is_err());
        let found = accounts.lookup(&key).await.expect("read").expect("valid");
        assert_eq!(found.user.name, "ann/b");
        let by_id = accounts.user_by_id(found.user.id).await.expect("read");
        assert_eq!(by_id.expect("there").name, "ann/b");
        // With its root off, the account is off.
        accounts.set_user_disabled("ann", true).await.expect("off");
        assert!(accounts.lookup(&key).await.expect("read").is_none());
    });
}

/// Writes past the verbs.
async fn write(accounts: &Accounts, puts: Vec<(Bytes, Bytes)>, deletes: Vec<Bytes>) {
    let batch = Batch {
        puts,
        deletes,
        ..Batch::default()
    };
    accounts.commit(batch).await.expect("committed");
}

async fn default_tenant(accounts: &Accounts) -> TenantId {
    accounts
        .tenant_id(&TenantName::default())
        .await
        .expect("there")
}

const DENY: &str =
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"s3:*","Resource":"*"}}"#;

/// A group of ann's that denies everything, with members.
async fn suspended(accounts: &Accounts, members: &[&str]) -> PolicyHolder {
    let none = TenantName::default();
    accounts
        .make_group(&none, "ann/suspended", "/")
        .await
        .expect("made");
    let group = PolicyHolder {
        kind: PolicyHolderKind::Group,
        tenant: none.clone(),
        name: "ann/suspended".into(),
    };
    accounts
        .put_policy(&group, "deny", DENY)
        .await
        .expect("put");
    for member in members {
        accounts.make_user(new(member)).await.expect("made");
        accounts
            .set_member(&none, member, "ann/suspended", true)
            .await
            .expect("in");
    }
    group
}

#[test]
fn a_rename_is_one_batch() {
    run(async {
        let rig = Rig::new(31).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        suspended(accounts, &["ann/a", "ann/b", "ann/c"]).await;
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        accounts.refer_by_id().await.expect("nothing to do");
        let before = accounts.kv.last_sequence();
        let moved = accounts.change_group(&none, "ann/suspended", Some("ann/blocked"), Some("/x/"));
        moved.await.expect("renamed");
        assert_eq!(accounts.kv.last_sequence(), before + 1, "the group");
        assert_eq!(
            accounts
                .members(&none, "ann/blocked")
                .await
                .expect("listed")
                .len(),
            3
        );
        // A later group of the old name has nobody in it.
        let later = accounts.make_group(&none, "ann/suspended", "/").await;
        later.expect("made");
        let members = accounts.members(&none, "ann/suspended").await;
        assert!(members.expect("listed").is_empty());
        let change = UserChange {
            name: Some("ann/z".into()),
            ..UserChange::default()
        };
        let before = accounts.kv.last_sequence();
        accounts
            .change_user("ann/a", change)
            .await
            .expect("renamed");
        assert_eq!(accounts.kv.last_sequence(), before + 1, "the user");
        let found = accounts.lookup(&key).await.expect("read").expect("valid");
        assert_eq!(found.user.name, "ann/z");
        assert_eq!(found.user.policies.iter().count(), 1);
        let keys = accounts.access_keys(Some("ann/z")).await.expect("listed");
        assert_eq!(keys[0].user, "ann/z");
        // A later user of the old name gets nothing of it.
        accounts.make_user(new("ann/a")).await.expect("made");
        let keys = accounts.access_keys(Some("ann/a")).await.expect("listed");
        assert!(keys.is_empty());
        let found = accounts.lookup(&key).await.expect("read").expect("valid");
        assert_eq!(found.user.name, "ann/z");
    });
}

#[test]
fn keys_of_users_that_have_no_place_by_id_work() {
    run(async {
        let rig = Rig::new(36).await;
        let accounts = rig.store.accounts();
        let id = accounts.make_user(new("ann/a")).await.expect("made").id;
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        let place = catalog::user_by(super::BY_ID, &id.0.to_be_bytes());
        write(accounts, Vec::new(), vec![place]).await;
        let found = accounts.lookup(&key).await.expect("read").expect("valid");
        assert_eq!(found.user.id, id);
    });
}

#[test]
fn a_mail_address_goes_with_its_user() {
    run(async {
        let rig = Rig::new(32).await;
        let accounts = rig.store.accounts();
        let with_mail = NewUser {
            email: Some("a@example.org".into()),
            ..new("ann/a")
        };
        let id = accounts.make_user(with_mail).await.expect("made").id;
        let change = UserChange {
            name: Some("ann/b".into()),
            ..UserChange::default()
        };
        accounts
            .change_user("ann/a", change)
            .await
            .expect("renamed");
        accounts.make_user(new("ann/a")).await.expect("made");
        let found = accounts.user_by_email("A@example.org").await.expect("read");
        assert_eq!(found.map(|user| user.id), Some(id));
    });
}

#[test]
fn what_is_referred_to_and_is_not_there_fails_the_lookup() {
    run(async {
        let rig = Rig::new(33).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        let group = suspended(accounts, &["ann/a"]).await;
        accounts
            .make_policy(&none, "ann/p", "/", None, DENY)
            .await
            .expect("made");
        accounts
            .attach_policy(&group, "ann/p")
            .await
            .expect("attached");
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        let tenant = default_tenant(accounts).await;
        let id = accounts
            .group(&none, "ann/suspended")
            .await
            .expect("there")
            .id;
        let kept = [
            catalog::identity(POLICY, tenant, "ann/p"),
            catalog::identity(GROUP, tenant, "ann/suspended"),
            group_key(id),
        ];
        accounts.lookup(&key).await.expect("read").expect("valid");
        for record in kept {
            let value = accounts.kv.get(&record).await.expect("read").value;
            let value = value.expect("there");
            write(accounts, Vec::new(), vec![record.clone()]).await;
            let error = accounts.lookup(&key).await.expect_err("closed");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(accounts.user("ann/a").await.is_err());
            write(accounts, vec![(record, value)], Vec::new()).await;
            accounts.lookup(&key).await.expect("read").expect("valid");
        }
        // A policy whose default version is not there.
        let record = catalog::identity(POLICY, tenant, "ann/p");
        let value = accounts.kv.get(&record).await.expect("read").value;
        let mut policy: super::record::PolicyRecord =
            decode(&value.expect("there")).expect("a record");
        policy.default = 7;
        write(accounts, vec![(record, encode(&policy))], Vec::new()).await;
        accounts.lookup(&key).await.expect_err("closed");
    });
}

/// A user as 708fabe wrote it, in a group and with a policy, both by name.
fn old_user() -> UserRecord {
    let hex = include_str!("../../testdata/accounts-v1/user.hex").trim();
    let digits =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("hex"), 16).expect("hex");
    let bytes: Vec<u8> = hex.as_bytes().chunks(2).map(digits).collect();
    decode(&bytes).expect("opens")
}

#[test]
fn groups_that_are_known_by_name_become_known_by_id() {
    run(async {
        let rig = Rig::new(34).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        let tenant = default_tenant(accounts).await;
        suspended(accounts, &["ann/a", "ann/b", "ann/ghost"]).await;
        let id = accounts
            .group(&none, "ann/suspended")
            .await
            .expect("there")
            .id;
        assert_eq!(old_user().groups, ["ann/g"]);
        // As releases before wrote it: names in users, and no way from an id to its group.
        let old = async |name: &str, group: &str| {
            let key = user_key(tenant, name);
            let value = accounts.kv.get(&key).await.expect("read").value;
            let mut record: UserRecord = decode(&value.expect("there")).expect("a record");
            record.group_ids.clear();
            record.groups = vec![group.to_owned()];
            write(accounts, vec![(key, encode(&record))], Vec::new()).await;
        };
        write(accounts, Vec::new(), vec![group_key(id)]).await;
        for name in ["ann/a", "ann/b"] {
            old(name, "ann/Suspended").await;
            let user = accounts.user(name).await.expect("found");
            assert_eq!(user.policies.iter().count(), 1, "before it is turned");
        }
        // A rename that was cut short before left this one behind.
        old("ann/ghost", "ann/gone").await;
        accounts.user("ann/ghost").await.expect_err("closed");
        accounts.refer_by_id().await.expect("turned");
        for name in ["ann/a", "ann/b"] {
            let record = accounts.user_in(tenant, name).await.expect("there");
            assert_eq!((record.groups.len(), &record.group_ids[..]), (0, &[id][..]));
            let user = accounts.user(name).await.expect("found");
            assert_eq!(user.policies.iter().count(), 1, "after it was turned");
        }
        // A new group of the name does not take it in, and taking it out mends it.
        accounts
            .make_group(&none, "ann/gone", "/")
            .await
            .expect("made");
        assert!(
            accounts
                .members(&none, "ann/gone")
                .await
                .expect("listed")
                .is_empty()
        );
        accounts.user("ann/ghost").await.expect_err("closed");
        accounts
            .set_member(&none, "ann/ghost", "ann/gone", false)
            .await
            .expect("out");
        accounts.user("ann/ghost").await.expect("mended");
        let before = accounts.kv.last_sequence();
        accounts.refer_by_id().await.expect("nothing to do");
        assert_eq!(accounts.kv.last_sequence(), before);
    });
}

#[test]
fn policies_reach_users_by_themselves_and_by_groups() {
    run(async {
        let rig = Rig::new(13).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        accounts.make_user(new("ann/a")).await.expect("made");
        let holder = |kind, name: &str| PolicyHolder {
            kind,
            tenant: none.clone(),
            name: name.into(),
        };
        let user = holder(PolicyHolderKind::User, "ann/a");
        let error = accounts
            .put_policy(&user, "p", "{}")
            .await
            .expect_err("no policy");
        assert_eq!(error.kind(), ErrorKind::MalformedPolicy);
        accounts.put_policy(&user, "p", ALLOW).await.expect("put");
        accounts
            .make_group(&none, "ann/g", "/")
            .await
            .expect("made");
        let group = holder(PolicyHolderKind::Group, "ann/G");
        accounts
            .make_policy(&none, "ann/managed", "/", None, ALLOW)
            .await
            .expect("made");
        accounts
            .attach_policy(&group, "ann/managed")
            .await
            .expect("attached");
        accounts
            .set_member(&none, "ann/a", "ann/g", true)
            .await
            .expect("in");
        let found = accounts.user("ann/a").await.expect("found");
        let sources: Vec<&str> = found.policies.iter().map(|p| &*p.source).collect();
        assert_eq!(
            sources,
            ["user ann/a, policy p", "group ann/g, policy ann/managed v1"]
        );
        assert!(found.policies.iter().all(|policy| !policy.tenant_wide));
        let error = accounts.remove_managed(&none, "ann/managed").await;
        assert_eq!(error.expect_err("in use").kind(), ErrorKind::Conflict);
        let error = accounts
            .remove_group(&none, "ann/g", &[])
            .await
            .expect_err("in use");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let moved = accounts.change_group(&none, "ann/g", Some("ann/h"), Some("/x/"));
        assert_eq!(moved.await.expect("moved").name, "ann/h");
        let members = accounts.members(&none, "ann/h").await.expect("listed");
        assert_eq!(members.len(), 1);
        accounts
            .set_member(&none, "ann/a", "ann/h", false)
            .await
            .expect("out");
        let moved = holder(PolicyHolderKind::Group, "ann/h");
        accounts
            .detach_policy(&moved, "ann/managed")
            .await
            .expect("detached");
        accounts
            .remove_group(&none, "ann/h", &[])
            .await
            .expect("removed");
        accounts
            .remove_managed(&none, "ann/managed")
            .await
            .expect("removed");
        accounts.delete_policy(&user, "p").await.expect("deleted");
        assert!(
            accounts
                .user("ann/a")
                .await
                .expect("found")
                .policies
                .is_empty()
        );
        // Of a group of the tenant's, policies reach the tenant.
        accounts
            .make_group(&none, "readers", "/")
            .await
            .expect("made");
        let readers = holder(PolicyHolderKind::Group, "readers");
        accounts
            .put_policy(&readers, "p", ALLOW)
            .await
            .expect("put");
        accounts
            .set_member(&none, "bob", "readers", true)
            .await
            .expect("in");
        let bob = accounts.user("bob").await.expect("found");
        assert!(bob.policies.iter().all(|policy| policy.tenant_wide));
        assert_eq!(bob.policies.iter().count(), 1);
    });
}

#[test]
fn roles_and_wordings_are_kept() {
    run(async {
        let rig = Rig::new(14).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        let change = |trust: &str, seconds| RoleChange {
            trust: Some(trust.into()),
            max_session: Some(seconds),
            ..RoleChange::default()
        };
        for bad in [
            change(ALLOW, 3600),
            change(TRUST, 60),
            RoleChange::default(),
        ] {
            assert!(accounts.make_role(&none, "ann/r", "/", bad).await.is_err());
        }
        let role = accounts.make_role(&none, "ann/r", "/p/", change(TRUST, 43_200));
        assert_eq!(role.await.expect("made").trust, TRUST);
        assert_eq!(
            accounts
                .roles(&none, Some("ann"))
                .await
                .expect("listed")
                .len(),
            1
        );
        assert!(
            accounts
                .roles(&none, Some("bob"))
                .await
                .expect("listed")
                .is_empty()
        );
        accounts.remove_role(&none, "ann/R").await.expect("removed");
        accounts
            .make_policy(&none, "p", "/", Some("text".into()), ALLOW)
            .await
            .expect("made");
        for number in 2..=5 {
            let made = accounts.reword_policy(&none, "p", ALLOW, number == 3).await;
            assert_eq!(made.expect("reworded"), number);
        }
        assert!(
            accounts
                .reword_policy(&none, "p", ALLOW, false)
                .await
                .is_err()
        );
        assert_eq!(
            accounts.managed(&none, "p").await.expect("there").default,
            3
        );
        assert!(accounts.choose_wording(&none, "p", 3, true).await.is_err());
        accounts
            .choose_wording(&none, "p", 2, true)
            .await
            .expect("removed");
        accounts
            .choose_wording(&none, "p", 4, false)
            .await
            .expect("chosen");
        let policy = accounts.managed(&none, "p").await.expect("there");
        assert_eq!((policy.default, policy.versions.len()), (4, 4));
    });
}

fn issuer(name: &str) -> NewIssuer {
    NewIssuer {
        url: format!("https://{name}.example.org"),
        audiences: vec!["here".to_owned()],
        ..NewIssuer::default()
    }
}

#[test]
fn a_rule_of_an_issuer_goes_with_its_user_and_group() {
    run(async {
        let rig = Rig::new(35).await;
        let accounts = rig.store.accounts();
        let none = TenantName::default();
        accounts.make_user(new("ann/a")).await.expect("made");
        accounts
            .make_group(&none, "ann/g", "/")
            .await
            .expect("made");
        let rule = |becomes| MappingRule {
            claim: "sub".into(),
            value: "x".into(),
            becomes,
        };
        let new_issuer = NewIssuer {
            rules: vec![
                rule(MappingTarget::User("ann/a".into())),
                rule(MappingTarget::Group("ann/g".into())),
            ],
            ..issuer("issuer")
        };
        accounts.add_issuer(new_issuer, None).await.expect("added");
        let names = async || {
            let issuers = accounts.issuers().await.expect("listed");
            let issuer = issuers.values().next().expect("one").clone();
            let names = issuer.rules.iter().map(|rule| match &rule.becomes {
                MappingTarget::User(name) | MappingTarget::Group(name) => name.clone(),
            });
            names.collect::<Vec<String>>()
        };
        assert_eq!(names().await, ["ann/a", "ann/g"]);
        let change = UserChange {
            name: Some("ann/b".into()),
            ..UserChange::default()
        };
        accounts
            .change_user("ann/a", change)
            .await
            .expect("renamed");
        let moved = accounts.change_group(&none, "ann/g", Some("ann/h"), None);
        moved.await.expect("renamed");
        accounts.make_user(new("ann/a")).await.expect("made");
        accounts
            .make_group(&none, "ann/g", "/")
            .await
            .expect("made");
        assert_eq!(names().await, ["ann/b", "ann/h"]);
        accounts.remove_user("ann/b").await.expect("removed");
        accounts
            .remove_group(&none, "ann/h", &[])
            .await
            .expect("removed");
        accounts.make_user(new("ann/b")).await.expect("made");
        accounts
            .make_group(&none, "ann/h", "/")
            .await
            .expect("made");
        for name in names().await {
            assert!(accounts.user(&name).await.is_err(), "{name}");
            assert!(accounts.group(&none, &name).await.is_err(), "{name}");
        }
    });
}

/// A published set with one key of that name.
fn key_set(name: &str) -> String {
    let modulus = format!("{}_w", "_".repeat(340));
    format!(r#"{{"keys":[{{"kty":"RSA","kid":"{name}","n":"{modulus}","e":"AQAB"}}]}}"#)
}

#[test]
fn keys_that_come_too_late_are_nobodys() {
    run(async {
        let rig = Rig::new(19).await;
        let accounts = rig.store.accounts();
        let new = issuer("issuer");
        let set = key_set("k");
        let standing = |keys| super::IssuerKeyStatus {
            keys,
            ..super::IssuerKeyStatus::default()
        };
        let old = accounts.add_issuer(new.clone(), None).await.expect("added");
        // The fetch began before the removal, and ends after it.
        accounts.remove_issuer(&new.url).await.expect("removed");
        let learned = accounts.learn_keys(&old, set.as_bytes()).await;
        learned.expect("let go");
        let key = super::issuers::keys_key_of(&new.url);
        let stored = accounts.kv.get(&key).await.expect("read").value;
        assert_eq!(stored, None, "keys of nobody");
        // Let in again, it is another one: neither memory nor the catalog has keys of it.
        let again = accounts.add_issuer(new.clone(), None).await.expect("added");
        assert_ne!(again.id, old.id);
        let found = accounts.key_standing(&again).await.expect("read");
        assert_eq!(found, standing(0));
        let learned = accounts.learn_keys(&old, set.as_bytes()).await;
        learned.expect("let go");
        let found = accounts.key_standing(&again).await.expect("read");
        assert_eq!(found, standing(0));
        // One that is switched off meanwhile keeps what was fetched for it.
        let off = accounts.set_issuer_disabled(&new.url, true).await;
        off.expect("switched off");
        let learned = accounts.learn_keys(&again, set.as_bytes()).await;
        learned.expect("learned");
        let found = accounts.key_standing(&again).await.expect("read");
        assert_eq!((found.keys, found.fetched.is_some()), (1, true));
        assert!(accounts.kv.get(&key).await.expect("read").value.is_some());
    });
}

#[test]
fn keys_that_are_fetched_again_clear_nothing() {
    run(async {
        let rig = Rig::new(20).await;
        let accounts = rig.store.accounts();
        let set = key_set("k");
        let keys = Some(set.as_bytes());
        let issuer = accounts.add_issuer(issuer("issuer"), keys).await;
        let issuer = issuer.expect("added");
        let cleared = || accounts.cache.read().changes;
        let stored = async || {
            let key = super::issuers::keys_key_of(&issuer.url);
            let found = accounts.read::<IssuerKeysRecord>(&key).await;
            found.expect("read").expect("there")
        };
        let first = stored().await;
        let before = cleared();
        sleep(Duration::from_secs(600)).await;
        let written = accounts.kv.last_sequence();
        let learned = accounts.learn_keys(&issuer, set.as_bytes()).await;
        learned.expect("learned");
        assert_eq!(accounts.kv.last_sequence(), written, "nothing is written");
        // They are fresh all the same, and what would be too old after a restart is written again.
        let found = accounts.key_standing(&issuer).await.expect("read");
        assert_eq!(found.fetched, Some(accounts.env.clock.now()));
        assert_eq!(stored().await, first);
        sleep(Duration::from_secs(1200)).await;
        let learned = accounts.learn_keys(&issuer, set.as_bytes()).await;
        learned.expect("learned");
        assert_eq!(stored().await.fetched, accounts.env.clock.now());
        assert_eq!(cleared(), before);
        // Other keys are written at once, and what was proven with the old ones is looked at again.
        let set = key_set("other");
        let learned = accounts.learn_keys(&issuer, set.as_bytes()).await;
        learned.expect("learned");
        assert_eq!(stored().await.set, set.as_bytes());
        assert!(cleared() > before);
    });
}

/// Has keys at once, but for one issuer that says nothing.
#[derive(Default)]
struct PublishedKeys {
    asked: AtomicUsize,
}

impl FetchKeys for PublishedKeys {
    fn fetch<'a>(&'a self, issuer: &'a Issuer) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async {
            if issuer.url.contains("slow") {
                std::future::pending::<()>().await;
            }
            self.asked.fetch_add(1, Relaxed);
            Ok(key_set("k").into_bytes())
        })
    }
}

#[test]
fn an_issuer_that_says_nothing_holds_up_no_other() {
    // {"alg":"RS256","kid":"other"} and {"iss":"https://fast.example.org"}
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im90aGVyIn0.eyJpc3MiOiJodHRwczovL2Zhc3QuZXhhbXBsZS5vcmcifQ.AAAA";
    run(async {
        let rig = Rig::new(21).await;
        let accounts = rig.store.accounts();
        for name in ["slow", "fast"] {
            let added = accounts.add_issuer(issuer(name), None).await;
            added.expect("added");
        }
        let published = Arc::new(PublishedKeys::default());
        let asking = async {
            sleep(Duration::from_secs(20)).await;
            assert_eq!(published.asked.load(Relaxed), 1);
            let begun = Instant::now();
            let proven = accounts.prove(TOKEN).await.expect("looked up");
            assert!(proven.is_err(), "nobody has such a key");
            assert!(
                begun.elapsed() < Duration::from_secs(1),
                "it was waited for"
            );
            assert_eq!(published.asked.load(Relaxed), 2);
            // And by the hour.
            sleep(Duration::from_secs(3700)).await;
            assert_eq!(published.asked.load(Relaxed), 3);
        };
        tokio::select! {
            biased;
            () = accounts.keep_keys(Arc::clone(&published) as _, super::issuer_keys::UNKNOWN_EVERY) => {}
            () = asking => {}
        }
    });
}

const TRUST_LOGINS: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow",
    "Action":"sts:AssumeRoleWithWebIdentity","Principal":{"Federated":"idp.example.org"},
    "Condition":{"StringLike":{"idp.example.org:sub":"*"}}}}"#;

/// A bucket of ann's that is open to everybody but members of one group.
const NOT_SUSPENDED: &str = r#"{"Version":"2012-10-17","Statement":[
    {"Sid":"a","Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/*"},
    {"Sid":"d","Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/*",
     "Condition":{"ForAnyValue:StringEquals":{"idp.example.org:groups":"/suspended"}}}]}"#;

/// A store with an issuer, and a role that its users may become.
struct Logins {
    rig: Rig,
    issuer: Arc<Issuer>,
}

impl Logins {
    async fn new(seed: u64, rules: Vec<MappingRule>) -> Self {
        let rig = Rig::new(seed).await;
        let (accounts, none) = (rig.store.accounts(), TenantName::default());
        let new = NewIssuer {
            rules,
            ..issuer("idp")
        };
        let issuer = accounts.add_issuer(new, None).await.expect("added");
        let trust = RoleChange {
            trust: Some(TRUST_LOGINS.into()),
            max_session: Some(43_200),
            ..RoleChange::default()
        };
        let role = accounts.make_role(&none, "ann/reader", "/", trust).await;
        role.expect("made");
        let role = PolicyHolder {
            kind: PolicyHolderKind::Role,
            tenant: none,
            name: "ann/reader".into(),
        };
        let put = accounts.put_policy(&role, "p", ALLOW).await;
        put.expect("put");
        Self { rig, issuer }
    }

    async fn set_policy(&self, text: &str) {
        let (store, ann) = (&self.rig.store, &self.rig.ann);
        let set = store
            .put_bucket_policy(ann, &bucket("first"), text, false)
            .await;
        set.expect("set");
    }

    async fn session(&self, token: &VerifiedToken) -> Result<IssuedSession> {
        let accounts = self.rig.store.accounts();
        let account = accounts.user("ann").await?.account;
        let asked = AssumeRole {
            role: format!("arn:aws:iam::{account}:role/reader"),
            session: "work".into(),
            ..AssumeRole::default()
        };
        let login = accounts
            .login(origin(), &self.issuer, token, asked, "token:test")
            .await;
        login?.1
    }

    /// Somebody who comes with a session of that token.
    async fn with_session(&self, token: &VerifiedToken) -> Caller {
        let given = self.session(token).await.expect("given");
        let accounts = self.rig.store.accounts();
        let key = accounts.open_session(given.token.reveal()).await;
        Caller::by_access_key(&key.expect("opens"), origin())
    }

    /// A macaroon of who comes with the token itself.
    async fn macaroon(&self, token: &VerifiedToken) -> Result<String> {
        let accounts = self.rig.store.accounts();
        let becoming = accounts
            .map_identity(Arc::clone(&self.issuer), token.clone())
            .await?;
        let bounds = super::bearer::bounds_of(&becoming, "token:test")?;
        let caller = Caller::by_token(becoming.user, Arc::new(bounds), origin());
        let given = accounts
            .macaroon(&caller, MacaroonRequest::default())
            .await?;
        Ok(given.0.reveal().to_owned())
    }

    async fn may_read(&self, caller: &Caller) -> bool {
        let key = ObjectKey::new("a").expect("valid");
        let store = &self.rig.store;
        let action = Action::GetObject;
        let asked = store
            .explain(caller, action, &bucket("first"), Some(&key))
            .await;
        asked.expect("explained").allowed
    }
}

/// A login of somebody in that many groups with long names, and in `more`.
fn login(groups: usize, more: &[&str], profile: usize) -> VerifiedToken {
    let groups = (0..groups).map(|i| format!("{:/<57}{i:03}", "/cms/production/"));
    let groups: Vec<String> = groups
        .chain(more.iter().map(|name| (*name).to_owned()))
        .collect();
    let claims = serde_json::json!({
        "sub": "bob",
        "groups": groups,
        "profile": "x".repeat(profile),
    });
    let bytes = claims.to_string().into_bytes();
    VerifiedToken {
        subject: "bob".into(),
        expires: Timestamp::from_secs(1 << 40),
        claims: Claims::parse(&bytes).expect("claims"),
        capabilities: None,
    }
}

#[test]
fn no_deny_is_lost_because_a_login_says_much() {
    run(async {
        let logins = Logins::new(31, Vec::new()).await;
        logins.set_policy(NOT_SUSPENDED).await;
        for groups in [1, 120] {
            let suspended = login(groups, &["/suspended"], 0);
            let caller = logins.with_session(&suspended).await;
            assert!(
                !logins.may_read(&caller).await,
                "{groups} groups, suspended"
            );
            let caller = logins.with_session(&login(groups, &[], 0)).await;
            assert!(logins.may_read(&caller).await, "{groups} groups");
        }
        // What nothing asks for does not count.
        let caller = logins.with_session(&login(100, &[], 8000)).await;
        assert!(logins.may_read(&caller).await);
        let error = logins
            .session(&login(200, &[], 0))
            .await
            .expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    });
}

#[test]
fn a_policy_that_comes_after_the_session_fails_closed() {
    run(async {
        let logins = Logins::new(32, Vec::new()).await;
        let (large, small) = (login(120, &[], 0), login(2, &[], 0));
        let before = logins.with_session(&large).await;
        let complete = logins.with_session(&small).await;
        logins.set_policy(NOT_SUSPENDED).await;
        assert!(!logins.may_read(&before).await, "nobody knows its groups");
        assert!(
            logins.may_read(&complete).await,
            "all of its claims are there"
        );
        let after = logins.with_session(&large).await;
        assert!(logins.may_read(&after).await);
        // Names that are not asked for any more take no room.
        let store = &logins.rig.store;
        let removed = store
            .delete_bucket_policy(&logins.rig.ann, &bucket("first"))
            .await;
        removed.expect("removed");
        logins.session(&login(200, &[], 0)).await.expect("given");
        // Trusts name claims, too.
        let trust = RoleChange {
            trust: Some(TRUST_LOGINS.replace(":sub\":\"*", ":groups\":\"/cms*")),
            ..RoleChange::default()
        };
        let accounts = store.accounts();
        let none = TenantName::default();
        let changed = accounts.change_role(&none, "ann/reader", trust).await;
        changed.expect("changed");
        let error = logins
            .session(&login(200, &[], 0))
            .await
            .expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    });
}

/// A policy that denies by so many claims of the provider.
fn names_claims(
    names: impl IntoIterator<Item = String>,
    resource: &str,
    principal: &str,
) -> String {
    let each = names.into_iter().map(|name| {
        format!(
            r#"{{"Effect":"Deny",{principal}"Action":"s3:GetObject","Resource":"{resource}",
                "Condition":{{"StringEquals":{{"idp.example.org:{name}":"x"}}}}}}"#
        )
    });
    let all: Vec<String> = each.collect();
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{}]}}"#,
        all.join(",")
    )
}

#[test]
fn claims_that_strangers_name_refuse_no_session() {
    run(async {
        let logins = Logins::new(34, Vec::new()).await;
        let (store, accounts) = (&logins.rig.store, logins.rig.store.accounts());
        let ranks = async || {
            let role = accounts
                .as_role(&TenantName::default(), "ann/reader", "s")
                .await;
            let role = role.expect("read").expect("there");
            let named = accounts.named_claims(&logins.issuer, &role).await;
            let named = named.expect("read");
            ["groups", "profile", "own"].map(|name| named.rank_of(name))
        };
        use super::claims::ClaimRank::{Optional, Required, Unnamed};
        assert_eq!(ranks().await, [Unnamed, Unnamed, Unnamed]);
        let own = names_claims(["own".to_owned()], "*", "");
        let none = TenantName::default();
        let made = accounts.make_policy(&none, "ann/p", "/", None, &own).await;
        made.expect("made");
        assert_eq!(ranks().await, [Unnamed, Unnamed, Required]);

        // A bucket of another account: its policy counts as far as there is room for it.
        let theirs = bucket("theirs");
        let made = store.create_bucket(&logins.rig.bob, &theirs).await;
        made.expect("made");
        let everybody = r#""Principal":"*","#;
        let text = names_claims(["profile".to_owned()], "arn:aws:s3:::theirs/*", everybody);
        let set = store
            .put_bucket_policy(&logins.rig.bob, &theirs, &text, false)
            .await;
        set.expect("set");
        assert_eq!(ranks().await, [Unnamed, Optional, Required]);
        let large = login(10, &[], 9000);
        let caller = logins.with_session(&large).await;
        let bounds = caller.bounds().expect("a session");
        assert_eq!(bounds.unkept, ["profile"]);
        assert!(!bounds.own_provider, "the administrator lets the issuer in");

        // Another tenant's policies count there alone, whatever there is.
        let other = TenantName::new("other").expect("a name");
        let text = names_claims(["groups".to_owned()], "*", "");
        for name in ["p", "ann/p"] {
            let new = NewUser {
                name: "ann".into(),
                tenant: other.clone(),
                ..NewUser::default()
            };
            if name == "p" {
                accounts.make_user(new).await.expect("made");
            }
            let made = accounts.make_policy(&other, name, "/", None, &text).await;
            made.expect("made");
        }
        let eve = accounts.user("other:ann").await.expect("there");
        let eve = Caller::admitted(Arc::new(eve), origin());
        let elsewhere = BucketRef {
            tenant: Some(other.clone()),
            ..theirs.clone()
        };
        store.create_bucket(&eve, &elsewhere).await.expect("made");
        let text = names_claims(["groups".to_owned()], "arn:aws:s3:::theirs/*", everybody);
        let set = store
            .put_bucket_policy(&eve, &elsewhere, &text, false)
            .await;
        set.expect("set");
        for known in [true, false] {
            assert_eq!(ranks().await, [Unnamed, Optional, Required], "{known}");
            // Read anew it is the same: so many records have changed.
            let changed =
                (0..2000).map(|n| catalog::identity(POLICY, TenantId(99), &n.to_string()));
            accounts.claim_names.note(changed.collect());
        }
    });
}

#[test]
fn an_account_names_only_so_many_claims() {
    run(async {
        let logins = Logins::new(35, Vec::new()).await;
        let accounts = logins.rig.store.accounts();
        let none = TenantName::default();
        let policy = |n: usize| names_claims((0..10).map(|m| format!("c{n}-{m}")), "*", "");
        for n in 0..10 {
            let name = format!("bob/p{n}");
            let made = accounts
                .make_policy(&none, &name, "/", None, &policy(n))
                .await;
            made.expect("made");
        }
        let counted = async || {
            let role = accounts.as_role(&none, "ann/reader", "s").await;
            let role = role.expect("read").expect("there");
            let named = accounts.named_claims(&logins.issuer, &role).await;
            let named = named.expect("read");
            let is_named = |n: &usize| {
                let rank = named.rank_of(&format!("c{n}-0"));
                rank != super::claims::ClaimRank::Unnamed
            };
            (0..10).filter(is_named).collect::<Vec<_>>()
        };
        assert_eq!(counted().await, [0, 1, 2, 3, 4, 5]);
        // A name that is there already takes no more of the share.
        let again = accounts
            .make_policy(&none, "bob/again", "/", None, &policy(3))
            .await;
        again.expect("made");
        accounts
            .remove_managed(&none, "bob/p3")
            .await
            .expect("removed");
        assert_eq!(counted().await, [0, 1, 2, 3, 4, 5]);
        // What becomes free is for the policies that were left out.
        accounts
            .remove_managed(&none, "bob/p0")
            .await
            .expect("removed");
        assert_eq!(counted().await, [1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn a_macaroon_of_a_login_never_may_more_than_the_login() {
    run(async {
        let rule = |claim: &str, value: &str| MappingRule {
            claim: claim.into(),
            value: value.into(),
            becomes: MappingTarget::User("bob".into()),
        };
        let rules = vec![rule("sub", "bob"), rule("team", "x")];
        let logins = Logins::new(33, rules).await;
        let accounts = logins.rig.store.accounts();
        logins.set_policy(NOT_SUSPENDED).await;
        let comes_with = async |text: &str| accounts.bearer_of(text, origin()).await;
        for groups in [1, 120] {
            let text = logins.macaroon(&login(groups, &["/suspended"], 3900)).await;
            let caller = comes_with(&text.expect("given")).await.expect("taken");
            assert!(
                !logins.may_read(&caller).await,
                "{groups} groups, suspended"
            );
            let text = logins.macaroon(&login(groups, &[], 3900)).await;
            let caller = comes_with(&text.expect("given")).await.expect("taken");
            assert!(logins.may_read(&caller).await, "{groups} groups");
        }
        // A rule that asks for what was not kept leaves nobody to speak for.
        let mut facts = TokenFacts {
            issuer: logins.issuer.id,
            url: logins.issuer.url.clone(),
            subject: "bob".into(),
            claims: vec![("idp.example.org:sub".into(), vec!["bob".into()])],
            scope: None,
            scitoken: false,
            unkept: Some(Vec::new()),
        };
        let expires = Timestamp::from_secs(1 << 40);
        accounts.login_again(&facts, expires).await.expect("bob");
        facts.unkept = Some(vec!["team".into()]);
        let error = accounts
            .login_again(&facts, expires)
            .await
            .expect_err("nobody knows who that is");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    });
}
