//! Quotas of accounts, and the memory that their records take.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{AccessKey, CredentialStore as _};
use dewar_catalog::keys as catalog;
use dewar_catalog::record::{Counter, CounterScope};
use dewar_kv::Batch;
use dewar_types::{ErrorKind, GroupId, Result, TenantName};

use super::keys::key_of_user;
use super::{AccountLimits, Accounts, NewUser, PolicyHolder, PolicyHolderKind, RoleChange};
use crate::names::designation;
use crate::record::{GROUP, KEYS_BY_USER, POLICY};
use crate::tests::{Rig, run};

/// A policy of so many statements about a bucket.
fn policy(bucket: &str, statements: usize) -> String {
    let one = |n: usize| {
        format!(
            r#"{{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::{bucket}/{n}/*"}}"#
        )
    };
    let all: Vec<String> = (0..statements).map(one).collect();
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{}]}}"#,
        all.join(",")
    )
}

/// The tenant and the name of `[TENANT:]NAME`.
fn parts(name: &str) -> (TenantName, String) {
    let (tenant, name) = designation(name).expect("a name");
    (tenant, name.to_owned())
}

fn holder(kind: PolicyHolderKind, name: &str) -> PolicyHolder {
    let (tenant, name) = parts(name);
    PolicyHolder { kind, tenant, name }
}

async fn user(accounts: &Accounts, name: &str) {
    let (tenant, own) = parts(name);
    let new = NewUser {
        name: own,
        tenant,
        ..NewUser::default()
    };
    accounts.make_user(new).await.expect(name);
}

/// Fails where something is not refused for a quota.
fn over(result: Result<()>, what: &str) {
    let error = result.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Quota, "{what}: {error}");
}

/// A user of an account with an inline policy, and a key of its.
async fn user_with_policy(accounts: &Accounts, name: &str, statements: usize) -> String {
    user(accounts, name).await;
    let text = policy(&name.replace(['/', ':'], "-"), statements);
    let its = holder(PolicyHolderKind::User, name);
    accounts.put_policy(&its, "p", &text).await.expect("put");
    accounts.add_key(name, None, None).await.expect("added").0
}

async fn used(accounts: &Accounts, key: &str) -> Result<AccessKey> {
    accounts
        .access_key(key)
        .await
        .map(|key| key.expect("a key"))
}

fn wide() -> AccountLimits {
    AccountLimits {
        user_policy_chars: 20_000,
        ..AccountLimits::default()
    }
}

#[test]
fn keys_of_a_user_share_what_is_compiled() {
    run(async {
        let rig = Rig::new(301).await;
        let accounts = &rig.accounts;
        accounts.set_limits(wide());
        let key = user_with_policy(accounts, "ann/robot", 50).await;
        let first = used(accounts, &key).await.expect("taken");
        let bytes = accounts.compiled.bytes();
        assert!(bytes > 5_000, "{bytes} bytes");
        for _ in 0..40 {
            let (key, _) = accounts
                .add_key("ann/robot", None, None)
                .await
                .expect("added");
            let next = used(accounts, &key).await.expect("taken");
            assert!(Arc::ptr_eq(&first.user, &next.user));
        }
        assert_eq!(accounts.compiled.bytes(), bytes);
        // The same text of another user of the account is the same policy; of another account it is not.
        let text = policy("ann-robot", 50);
        for (name, times) in [("ann/other", 1), ("bob/other", 2)] {
            user(accounts, name).await;
            let its = holder(PolicyHolderKind::User, name);
            accounts.put_policy(&its, "p", &text).await.expect("put");
            let (key, _) = accounts.add_key(name, None, None).await.expect("added");
            used(accounts, &key).await.expect("taken");
            assert_eq!(accounts.compiled.bytes(), times * bytes, "{name}");
        }
        drop(first);
        accounts.forget();
        assert_eq!(accounts.compiled.bytes(), 0);
    });
}

#[test]
fn compiled_policies_are_bounded_and_no_account_takes_them_all() {
    run(async {
        let rig = Rig::new(302).await;
        let accounts = &rig.accounts;
        accounts.set_limits(wide());
        let mut keys = Vec::new();
        for n in 0..30 {
            keys.push(user_with_policy(accounts, &format!("ann/u{n}"), 50).await);
        }
        let one = user_with_policy(accounts, "bob/u", 50).await;
        used(accounts, &keys[0]).await.expect("taken");
        let each = accounts.compiled.bytes();
        let max = each * 8;
        accounts.set_compiled_bytes_max(max);
        // One after the other all are taken: what is cached goes.
        for key in &keys {
            used(accounts, key).await.expect("taken");
            assert!(accounts.compiled.bytes() <= max);
        }
        // What requests hold does not go, and who holds half of it gets no more.
        let mut held = Vec::new();
        let error = loop {
            match used(accounts, &keys[held.len()]).await {
                Ok(key) => held.push(key),
                Err(error) => break error,
            }
            assert!(accounts.compiled.bytes() <= max);
        };
        assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error}");
        assert!((3..=4).contains(&held.len()), "{} held", held.len());
        used(accounts, &one)
            .await
            .expect("another account is served");
        let failed = keys[held.len()].clone();
        drop(held);
        used(accounts, &failed).await.expect("taken again");
    });
}

/// Nothing is proven where a key is looked up: that is what a request with a wrong signature does, too.
#[test]
fn an_account_evicts_no_compiled_policies_of_others() {
    run(async {
        let rig = Rig::new(305).await;
        let accounts = &rig.accounts;
        accounts.set_limits(wide());
        let others = ["bob/u", "Ann/u", "other:ann/u"];
        for root in ["Ann", "other:ann"] {
            user(accounts, root).await;
        }
        let mut keys = Vec::new();
        for name in others {
            keys.push(user_with_policy(accounts, name, 50).await);
        }
        let mut anns = Vec::new();
        for n in 0..40 {
            anns.push(user_with_policy(accounts, &format!("ann/u{n}"), 50).await);
        }
        used(accounts, &keys[0]).await.expect("taken");
        let each = accounts.compiled.bytes();
        accounts.set_compiled_bytes_max(each * 16);
        for key in &keys {
            used(accounts, key).await.expect("taken");
        }
        let cached = |key: &String| accounts.cache.read().keys.contains_key(key);
        for key in &anns {
            used(accounts, key).await.expect("taken");
            assert!(keys.iter().all(cached), "of others");
            assert!(accounts.compiled.bytes() <= each * 16);
        }
        assert!(cached(&anns[39]), "its own last one");
        // So it is with many small accounts: the cache takes up no more, and all are served.
        for n in 0..40 {
            user(accounts, &format!("eve{n}")).await;
            let key = user_with_policy(accounts, &format!("eve{n}/u"), 50).await;
            used(accounts, &key).await.expect("served");
            assert!(keys.iter().all(cached), "of others");
            assert!(accounts.compiled.bytes() <= each * 15);
        }
        // Entries that no request has used for a minute go when memory is needed.
        tokio::time::sleep(crate::compiled_policies::IDLE).await;
        used(accounts, &keys[0]).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut held = Vec::new();
        for key in &anns[..4] {
            held.push(used(accounts, key).await.expect("taken"));
        }
        assert!(cached(&keys[0]) && !cached(&keys[1]));
    });
}

#[test]
fn nobody_gets_what_is_being_removed() {
    run(async {
        let rig = Rig::new(306).await;
        let accounts = &rig.accounts;
        let none = TenantName::default();
        user(accounts, "ann/u").await;
        let u = holder(PolicyHolderKind::User, "ann/u");
        let make = async || {
            let made = accounts
                .make_policy(&none, "ann/p", "/", None, &policy("p", 1))
                .await;
            made.expect("made");
            accounts
                .make_group(&none, "ann/g", "/")
                .await
                .expect("made");
        };
        make().await;
        let id = accounts.tenant_id(&none).await.expect("there");
        let keys = [POLICY, GROUP].map(|kind| catalog::identity(kind, id, "ann/"));
        let keys = [(&keys[0], "p"), (&keys[1], "g")]
            .map(|(key, name)| [&key[..], name.as_bytes()].concat().into());
        let mut removals = Vec::new();
        for key in &keys {
            removals.push(accounts.begin_removal(key, "it", "x").await.expect("begun"));
            let again = accounts.begin_removal(key, "it", "x").await;
            assert_eq!(again.expect_err("twice").kind(), ErrorKind::Conflict);
        }
        let attach = async || accounts.attach_policy(&u, "ann/P").await;
        let join = async || accounts.set_member(&none, "ann/u", "ann/G", true).await;
        let conflict = Err(ErrorKind::Conflict);
        assert_eq!(attach().await.map_err(|error| error.kind()), conflict);
        assert_eq!(join().await.map_err(|error| error.kind()), conflict);
        drop(removals);
        assert!(accounts.removals.lock().is_empty());
        // Side by side, one of the two happens.
        for _ in 0..20 {
            let (attached, removed) =
                tokio::join!(attach(), accounts.remove_managed(&none, "ann/p"));
            assert_ne!(attached.is_ok(), removed.is_ok());
            let (joined, gone) = tokio::join!(join(), accounts.remove_group(&none, "ann/g"));
            assert_ne!(joined.is_ok(), gone.is_ok());
            accounts
                .user("ann/u")
                .await
                .expect("refers to what is there");
            for (had, left) in [(attached.is_ok(), true), (joined.is_ok(), false)] {
                match (had, left) {
                    (true, true) => {
                        accounts.detach_policy(&u, "ann/p").await.expect("detached");
                        accounts
                            .remove_managed(&none, "ann/p")
                            .await
                            .expect("removed");
                    }
                    (true, false) => {
                        let out = accounts.set_member(&none, "ann/u", "ann/g", false).await;
                        out.expect("left");
                        let gone = accounts.remove_group(&none, "ann/g").await;
                        gone.expect("removed");
                    }
                    (false, _) => {}
                }
            }
            make().await;
        }
    });
}

#[test]
fn a_change_of_an_account_clears_what_is_cached_of_it_alone() {
    run(async {
        let rig = Rig::new(303).await;
        let accounts = &rig.accounts;
        let ann = user_with_policy(accounts, "ann/robot", 1).await;
        let bob = user_with_policy(accounts, "bob/robot", 1).await;
        let cached = |key: &String| accounts.cache.read().keys.contains_key(key);
        for key in [&ann, &bob] {
            used(accounts, key).await.expect("taken");
        }
        let bobs = holder(PolicyHolderKind::User, "bob/robot");
        accounts
            .put_policy(&bobs, "q", &policy("q", 1))
            .await
            .expect("put");
        assert!(cached(&ann) && !cached(&bob));
        used(accounts, &bob).await.expect("taken");
        accounts
            .make_group(&TenantName::default(), "bob/g", "/")
            .await
            .expect("made");
        assert!(cached(&ann) && !cached(&bob));
        used(accounts, &bob).await.expect("taken");
        accounts
            .set_user_disabled("bob", true)
            .await
            .expect("switched off");
        assert!(cached(&ann) && !cached(&bob));
        let off = accounts.access_key(&bob).await.expect("read");
        assert!(off.is_none());
        accounts
            .set_user_disabled("bob", false)
            .await
            .expect("switched on");
        used(accounts, &bob).await.expect("taken");
        accounts
            .set_key_disabled(&ann, true)
            .await
            .expect("switched off");
        assert!(!cached(&ann) && cached(&bob));
        // A policy of the account that somebody elsewhere was given by the administrator.
        let none = TenantName::default();
        accounts
            .make_policy(&none, "ann/p", "/", None, &policy("p", 1))
            .await
            .expect("made");
        accounts
            .attach_policy(&bobs, "ann/p")
            .await
            .expect("attached");
        used(accounts, &bob).await.expect("taken");
        accounts
            .reword_policy(&none, "ann/p", &policy("r", 1), true)
            .await
            .expect("set");
        assert!(!cached(&bob));
        // What belongs to the tenant may concern everybody.
        used(accounts, &bob).await.expect("taken");
        accounts
            .make_group(&none, "readers", "/")
            .await
            .expect("made");
        assert!(!cached(&bob));
    });
}

#[test]
fn keys_of_a_user_are_found_in_catalogs_of_before_the_index() {
    run(async {
        let rig = Rig::new(304).await;
        let accounts = &rig.accounts;
        let ann = user_with_policy(accounts, "ann/robot", 1).await;
        let (other, _) = accounts
            .add_key("ann/robot", None, None)
            .await
            .expect("added");
        let bob = user_with_policy(accounts, "bob/robot", 1).await;
        let id = accounts.user("ann/robot").await.expect("there").id;
        let bobs = accounts.user("bob/robot").await.expect("there").id;
        let all = accounts.access_keys(None).await.expect("listed").len();
        // As a release without the index wrote it, but for one that was added since.
        let old = Batch {
            deletes: vec![
                key_of_user(id, &ann),
                key_of_user(bobs, &bob),
                catalog::user_by(KEYS_BY_USER, b""),
            ],
            ..Batch::default()
        };
        accounts.commit(old).await.expect("as it was");
        let listed = accounts
            .access_keys(Some("ann/robot"))
            .await
            .expect("listed");
        let mut ids: Vec<&str> = listed.iter().map(|key| key.access_key.as_str()).collect();
        ids.sort_unstable();
        let mut both = [ann.as_str(), other.as_str()];
        both.sort_unstable();
        assert_eq!(ids, both);
        assert_eq!(
            accounts
                .access_keys(Some("bob/robot"))
                .await
                .expect("listed")
                .len(),
            1
        );
        accounts.remove_key(&other).await.expect("removed");
        let left = accounts
            .access_keys(Some("ann/robot"))
            .await
            .expect("listed");
        assert_eq!(left.len(), 1);
        assert_eq!(
            accounts.access_keys(None).await.expect("listed").len(),
            all - 1
        );
        accounts.remove_user("ann/robot").await.expect("removed");
        assert!(accounts.access_key(&ann).await.expect("read").is_none());
    });
}

#[test]
fn an_account_has_the_quotas_of_aws() {
    run(async {
        let rig = Rig::new(305).await;
        let accounts = &rig.accounts;
        accounts.set_limits(AccountLimits {
            users: 2,
            groups: 2,
            roles: 1,
            policies: 3,
            groups_per_user: 1,
            attached_policies: 2,
            ..AccountLimits::default()
        });
        let none = TenantName::default();
        let make = |name: &str| NewUser {
            name: name.to_owned(),
            ..NewUser::default()
        };
        for name in ["ann/1", "ann/2", "bob/1"] {
            accounts.make_user(make(name)).await.expect(name);
        }
        over(accounts.make_user(make("ann/3")).await.map(drop), "users");
        for name in ["ann/1", "ann/2"] {
            accounts.make_group(&none, name, "/").await.expect(name);
        }
        over(
            accounts.make_group(&none, "ann/3", "/").await.map(drop),
            "groups",
        );
        accounts
            .set_member(&none, "ann/1", "ann/1", true)
            .await
            .expect("joined");
        accounts
            .set_member(&none, "ann/1", "ann/1", true)
            .await
            .expect("is in it already");
        over(
            accounts.set_member(&none, "ann/1", "ann/2", true).await,
            "groups of a user",
        );
        let trust = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Principal":"*"}}"#;
        let role = || RoleChange {
            trust: Some(trust.to_owned()),
            ..RoleChange::default()
        };
        accounts
            .make_role(&none, "ann/r", "/", role())
            .await
            .expect("made");
        over(
            accounts
                .make_role(&none, "ann/s", "/", role())
                .await
                .map(drop),
            "roles",
        );
        for name in ["ann/p", "ann/q", "ann/r"] {
            let made = accounts
                .make_policy(&none, name, "/", None, &policy("b", 1))
                .await;
            made.expect(name);
        }
        let made = accounts
            .make_policy(&none, "ann/s", "/", None, &policy("b", 1))
            .await;
        over(made.map(drop), "policies");
        let ann = holder(PolicyHolderKind::User, "ann/1");
        for name in ["ann/p", "ann/q"] {
            accounts.attach_policy(&ann, name).await.expect(name);
        }
        over(
            accounts.attach_policy(&ann, "ann/r").await,
            "attached policies",
        );
    });
}

#[test]
fn policies_of_an_account_have_the_sizes_of_aws() {
    run(async {
        let rig = Rig::new(306).await;
        let accounts = &rig.accounts;
        let none = TenantName::default();
        user(accounts, "ann/1").await;
        let made = accounts.make_group(&none, "ann/1", "/").await;
        made.expect("made");
        let short = policy("b", 1);
        let made = accounts.make_policy(&none, "ann/p", "/", None, &short);
        made.await.expect("made");
        let ann = holder(PolicyHolderKind::User, "ann/1");
        // Sizes are those of all inline policies, without white space.
        let spaced = policy("b", 8).replace(',', ", \n   ");
        accounts
            .put_policy(&ann, "one", &spaced)
            .await
            .expect("put");
        accounts
            .put_policy(&ann, "two", &policy("b", 8))
            .await
            .expect("put");
        over(
            accounts.put_policy(&ann, "three", &policy("b", 12)).await,
            "inline policies",
        );
        let group = holder(PolicyHolderKind::Group, "ann/1");
        accounts
            .put_policy(&group, "three", &policy("b", 12))
            .await
            .expect("a group has more");
        let long = policy("b", 100);
        over(
            accounts
                .reword_policy(&none, "ann/p", &long, true)
                .await
                .map(drop),
            "size",
        );
        // The administrator's own are not counted.
        accounts
            .make_policy(&none, "long", "/", None, &long)
            .await
            .expect("made");
        let root = holder(PolicyHolderKind::User, "ann");
        accounts
            .put_policy(&root, "long", &long)
            .await
            .expect("put");
    });
}

#[test]
fn a_group_that_is_charged_or_limited_is_not_removed() {
    run(async {
        let rig = Rig::new(307).await;
        let (accounts, none) = (&rig.accounts, TenantName::default());
        let group = accounts.make_group(&none, "muons", "/").await;
        let scope = CounterScope::Group(GroupId(group.expect("made").id));
        let add = async |counter: Counter, delta| {
            let batch = Batch {
                adds: vec![(counter.key(), delta)],
                ..Batch::default()
            };
            rig.write(batch).await;
        };
        let refusal = async || {
            // The batch itself sees what came after all was looked at.
            let error = accounts.remove_uncharged_group(&none, "muons").await;
            assert_eq!(error.expect_err("charged").kind(), ErrorKind::Conflict);
            let error = accounts.remove_group(&none, "muons").await;
            let error = error.expect_err("charged");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            error.message().to_owned()
        };
        add(Counter::Objects(scope), 1).await;
        assert!(refusal().await.contains("1 objects"));
        add(Counter::Objects(scope), -1).await;
        add(Counter::Bytes(scope), 10).await;
        assert!(refusal().await.contains("0 objects"));
        add(Counter::Bytes(scope), -10).await;
        let limits = scope.quota_key();
        let batch = Batch {
            puts: vec![(limits.clone(), Bytes::from_static(b"limits"))],
            ..Batch::default()
        };
        rig.write(batch).await;
        assert!(refusal().await.contains("limits"));
        let batch = Batch {
            deletes: vec![limits],
            ..Batch::default()
        };
        rig.write(batch).await;
        let removed = accounts.remove_group(&none, "muons").await;
        removed.expect("removed");
    });
}
