//! Principals of bucket policies: users and roles of accounts, through renames and removals.

use dewar_auth::{Action, Caller};
use dewar_iam::{NewUser, RoleChange, UserChange};
use dewar_types::{ErrorKind, TenantName, UserId};

use super::{Rig, bucket, run};

const TRUST: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole",
    "Principal":{"AWS":"*"}}}"#;

fn arn(rest: &str) -> String {
    format!("arn:aws:iam::{}:{rest}", UserId(10))
}

/// A store in which the account of ann has a user with a key, and a role.
async fn site(seed: u64) -> Rig {
    let rig = Rig::new(seed).await;
    let accounts = rig.store.accounts();
    let new = NewUser {
        name: "ann/Target".into(),
        path: "/team/".into(),
        ..NewUser::default()
    };
    accounts.make_user(new).await.expect("made");
    let key = accounts.add_key("ann/Target", None, None).await;
    key.expect("added");
    let change = RoleChange {
        trust: Some(TRUST.into()),
        ..RoleChange::default()
    };
    let made = accounts
        .make_role(&TenantName::default(), "ann/Prod", "/team/", change)
        .await;
    made.expect("made");
    rig
}

async fn caller(rig: &Rig, name: &str) -> Caller {
    Caller::for_user(rig.store.accounts().user(name).await.expect("there"))
}

#[test]
fn a_policy_of_a_bucket_names_users_and_roles_for_good() {
    run(async {
        let rig = site(413).await;
        let (store, accounts) = (&rig.store, rig.store.accounts());
        let text = |principal: &str| {
            format!(
                r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow",
                    "Principal": {{"AWS": "{principal}"}}, "Action": "s3:ListBucket",
                    "Resource": "arn:aws:s3:::first"}}]}}"#
            )
        };
        let user = arn("user/team/Target");
        let lists = async |caller: &Caller| {
            let request = crate::api::ListRequest {
                bucket: bucket("first"),
                prefix: String::new(),
                delimiter: String::new(),
                after: String::new(),
                max: 10,
            };
            store.list(caller, request).await.is_ok()
        };
        let shown = async || {
            let shown = store.bucket_policy(&rig.ann, &bucket("first")).await;
            shown.expect("read").expect("there")
        };
        let put = async |text: &str| {
            let bucket = bucket("first");
            let done = store.put_bucket_policy(&rig.ann, &bucket, text, false);
            done.await.expect("put");
        };
        let principal = async || {
            let document = shown().await;
            let found = dewar_auth::principals_of(&document).expect("a policy");
            found.into_iter().next().expect("one")
        };
        put(&text(&user)).await;
        assert_eq!(principal().await, user);
        let target = caller(&rig, "ann/Target").await;
        assert!(lists(&target).await);
        // Renamed, it is shown by its new name, and who takes the old name gets nothing.
        let change = UserChange {
            name: Some("ann/Other".into()),
            path: Some("/else/".into()),
            ..UserChange::default()
        };
        accounts
            .change_user("ann/Target", change)
            .await
            .expect("renamed");
        let namesake = NewUser {
            name: "ann/Target".into(),
            path: "/team/".into(),
            ..NewUser::default()
        };
        accounts.make_user(namesake.clone()).await.expect("made");
        assert_eq!(principal().await, arn("user/else/Other"));
        assert!(lists(&caller(&rig, "ann/Other").await).await);
        assert!(!lists(&caller(&rig, "ann/Target").await).await);
        // What is shown is what can be put again.
        put(&shown().await).await;
        assert!(lists(&caller(&rig, "ann/Other").await).await);
        // Gone, it is shown by its id and means nobody.
        let id = target.user_id().to_string();
        for key in accounts
            .access_keys(Some("ann/Other"))
            .await
            .expect("listed")
        {
            accounts.remove_key(&key.access_key).await.expect("removed");
        }
        accounts.remove_user("ann/Other").await.expect("removed");
        let namesake = NewUser {
            name: "ann/Other".into(),
            path: "/else/".into(),
            ..NewUser::default()
        };
        accounts.make_user(namesake).await.expect("made");
        assert_eq!(principal().await, id);
        put(&shown().await).await;
        // An id that the policy did not have would be told as a name.
        let hidden = caller(&rig, "ann/Other").await.user_id().to_string();
        let (name, hidden) = (bucket("first"), text(&hidden));
        let refused = store.put_bucket_policy(&rig.ann, &name, &hidden, false);
        let refused = refused.await.expect_err("an id of no account");
        assert_eq!(refused.kind(), ErrorKind::MalformedPolicy);
        assert!(!lists(&caller(&rig, "ann/Other").await).await);
        // A role of an account, and what names nobody or an account.
        put(&text(&arn("role/team/Prod"))).await;
        assert_eq!(principal().await, arn("role/team/Prod"));
        let session = accounts
            .as_role(&TenantName::default(), "ann/Prod", "s")
            .await;
        let session = Caller::for_user(session.expect("read").expect("there"));
        assert!(lists(&session).await);
        for other in [
            arn("root"),
            arn("user/none"),
            "arn:aws:iam:::user/bob".to_owned(),
            UserId(10).to_string(),
        ] {
            put(&text(&other)).await;
            assert_eq!(shown().await, text(&other));
        }
    });
}

#[test]
fn a_denial_by_name_outlives_a_rename_and_a_removal() {
    run(async {
        let rig = site(415).await;
        let (store, accounts) = (&rig.store, rig.store.accounts());
        let user = arn("user/team/Target");
        let text = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":"*"}},"Action":"s3:ListBucket","Resource":"arn:aws:s3:::first"}},{{"Effect":"Deny","Principal":{{"AWS":"{user}"}},"Action":"s3:ListBucket","Resource":"arn:aws:s3:::first"}}]}}"#
        );
        let first = bucket("first");
        let put = store.put_bucket_policy(&rig.ann, &first, &text, false);
        put.await.expect("put");
        let shown = store.bucket_policy(&rig.ann, &first).await;
        assert_eq!(shown.expect("read").as_ref(), Some(&text));
        let lists = async |name: &str| {
            let caller = caller(&rig, name).await;
            let asked = store.explain(&caller, Action::ListBucket, &first, None);
            asked.await.expect("explained").allowed
        };
        assert!(!lists("ann/Target").await);
        let change = UserChange {
            name: Some("ann/Other".into()),
            ..UserChange::default()
        };
        let renamed = accounts.change_user("ann/Target", change).await;
        renamed.expect("renamed");
        assert!(!lists("ann/Other").await, "it is the same user");
        let namesake = NewUser {
            name: "ann/Target".into(),
            path: "/team/".into(),
            ..NewUser::default()
        };
        accounts.make_user(namesake).await.expect("made");
        assert!(!lists("ann/Target").await, "it has the name");
        // Both are shown, and what is shown is what can be put again.
        let shown = store.bucket_policy(&rig.ann, &first).await;
        let shown = shown.expect("read").expect("there");
        assert!(shown.contains(&user) && shown.contains(&arn("user/team/Other")));
        let put = store.put_bucket_policy(&rig.ann, &first, &shown, false);
        put.await.expect("put");
        assert!(!lists("ann/Other").await && !lists("ann/Target").await);
    });
}
