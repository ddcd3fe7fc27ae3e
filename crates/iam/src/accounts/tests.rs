//! Accounts on a catalog in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::token::{Issuer, MappingRule, MappingTarget};
use dewar_catalog::keys as catalog;
use dewar_env::BoxFuture;
use dewar_kv::Batch;
use dewar_types::{ErrorKind, Result, TenantId, TenantName};
use tokio::time::{Instant, sleep};

use super::references::group_key;
use super::users::user_key;
use super::{
    Accounts, FetchKeys, NewIssuer, NewUser, PolicyHolder, PolicyHolderKind, RoleChange, UserChange,
};
use crate::record::{GROUP, IssuerKeysRecord, POLICY, UserRecord, decode, encode};
use crate::tests::{Rig, run};

pub(super) const ALLOW: &str =
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
        let accounts = &rig.accounts;
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
        let accounts = &rig.accounts;
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
        let accounts = &rig.accounts;
        let none = TenantName::default();
        suspended(accounts, &["ann/a", "ann/b", "ann/c"]).await;
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        accounts.refer_by_id().await.expect("nothing to do");
        let before = accounts.catalog.kv().last_sequence();
        let moved = accounts.change_group(&none, "ann/suspended", Some("ann/blocked"), Some("/x/"));
        moved.await.expect("renamed");
        assert_eq!(
            accounts.catalog.kv().last_sequence(),
            before + 1,
            "the group"
        );
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
        let before = accounts.catalog.kv().last_sequence();
        accounts
            .change_user("ann/a", change)
            .await
            .expect("renamed");
        assert_eq!(
            accounts.catalog.kv().last_sequence(),
            before + 1,
            "the user"
        );
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
        let accounts = &rig.accounts;
        let id = accounts.make_user(new("ann/a")).await.expect("made").id;
        let (key, _) = accounts.add_key("ann/a", None, None).await.expect("added");
        let place = catalog::user_by(crate::record::BY_ID, &id.0.to_be_bytes());
        write(accounts, Vec::new(), vec![place]).await;
        let found = accounts.lookup(&key).await.expect("read").expect("valid");
        assert_eq!(found.user.id, id);
    });
}

#[test]
fn a_mail_address_goes_with_its_user() {
    run(async {
        let rig = Rig::new(32).await;
        let accounts = &rig.accounts;
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
        let accounts = &rig.accounts;
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
            let value = accounts
                .catalog
                .kv()
                .get(&record)
                .await
                .expect("read")
                .value;
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
        let value = accounts
            .catalog
            .kv()
            .get(&record)
            .await
            .expect("read")
            .value;
        let mut policy: crate::record::PolicyRecord =
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
        let accounts = &rig.accounts;
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
            let value = accounts.catalog.kv().get(&key).await.expect("read").value;
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
        let before = accounts.catalog.kv().last_sequence();
        accounts.refer_by_id().await.expect("nothing to do");
        assert_eq!(accounts.catalog.kv().last_sequence(), before);
    });
}

#[test]
fn policies_reach_users_by_themselves_and_by_groups() {
    run(async {
        let rig = Rig::new(13).await;
        let accounts = &rig.accounts;
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
            .remove_group(&none, "ann/g")
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
            .remove_group(&none, "ann/h")
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
        let accounts = &rig.accounts;
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

pub(super) fn issuer(name: &str) -> NewIssuer {
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
        let accounts = &rig.accounts;
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
            .remove_group(&none, "ann/h")
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
        let accounts = &rig.accounts;
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
        let stored = accounts.catalog.kv().get(&key).await.expect("read").value;
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
        assert!(
            accounts
                .catalog
                .kv()
                .get(&key)
                .await
                .expect("read")
                .value
                .is_some()
        );
    });
}

#[test]
fn keys_that_are_fetched_again_clear_nothing() {
    run(async {
        let rig = Rig::new(20).await;
        let accounts = &rig.accounts;
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
        let written = accounts.catalog.kv().last_sequence();
        let learned = accounts.learn_keys(&issuer, set.as_bytes()).await;
        learned.expect("learned");
        assert_eq!(
            accounts.catalog.kv().last_sequence(),
            written,
            "nothing is written"
        );
        // They are fresh all the same, and what would be too old after a restart is written again.
        let found = accounts.key_standing(&issuer).await.expect("read");
        assert_eq!(found.fetched, Some(accounts.catalog.env().clock.now()));
        assert_eq!(stored().await, first);
        sleep(Duration::from_secs(1200)).await;
        let learned = accounts.learn_keys(&issuer, set.as_bytes()).await;
        learned.expect("learned");
        assert_eq!(stored().await.fetched, accounts.catalog.env().clock.now());
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
        let accounts = &rig.accounts;
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
