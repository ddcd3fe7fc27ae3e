//! The IAM API decides about the record that was found: a policy that names it by its own path and
//! name holds, in whatever case, path or id the caller writes it.

use std::sync::{Arc, OnceLock};

use dewar_auth::{Action, Caller};
use dewar_types::{Error, ErrorKind, Result, TenantName, UserId};

use super::{Rig, origin, run};
use crate::{
    AssumeRole, Identities, NewUser, PolicyHolder, PolicyHolderKind, RoleChange, UserChange,
};

const ALLOW: &str =
    r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#;
const TRUST: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sts:AssumeRole",
    "Principal":{"AWS":"*"}}}"#;
const STAR: &str = r#"{"Effect":"Allow","Action":"iam:*","Resource":"*"}"#;

/// What a verb names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    User,
    Group,
    Role,
    Policy,
}

impl Field {
    /// The record in ARNs.
    fn path(self) -> &'static str {
        match self {
            Self::User => "user/team/Target",
            Self::Group => "group/team/Admins",
            Self::Role => "role/team/Prod",
            Self::Policy => "policy/team/Power",
        }
    }

    fn kind(self) -> &'static str {
        self.path().split_once('/').expect("a path").0
    }

    /// The ways to write it that are tried.
    fn spellings(self) -> Vec<String> {
        let name = self.path().rsplit_once('/').expect("a path").1;
        let names = [name.to_owned(), name.to_lowercase(), name.to_uppercase()];
        let paths = match self {
            Self::Policy => &["team/", "", "safe/", "TEAM/", "team/safe/"][..],
            _ => return names.to_vec(),
        };
        let arn = |path: &&str| {
            let arns = names
                .iter()
                .map(|name| arn(&format!("policy/{path}{name}")));
            arns.collect::<Vec<_>>()
        };
        paths.iter().flat_map(arn).collect()
    }
}

fn arn(rest: &str) -> String {
    format!("arn:aws:iam::{}:{rest}", UserId(10))
}

/// What a call names.
#[derive(Clone)]
struct Names {
    user: String,
    group: String,
    role: String,
    policy: String,
    key: String,
}

impl Names {
    fn new(key: &str) -> Self {
        Self {
            user: "Target".into(),
            group: "Admins".into(),
            role: "Prod".into(),
            policy: arn(Field::Policy.path()),
            key: key.into(),
        }
    }

    fn with(&self, field: Field, spelling: &str) -> Self {
        let mut names = self.clone();
        *match field {
            Field::User => &mut names.user,
            Field::Group => &mut names.group,
            Field::Role => &mut names.role,
            Field::Policy => &mut names.policy,
        } = spelling.into();
        names
    }
}

/// The verbs that name something that is there, and what they name.
fn fields(action: Action) -> Vec<Field> {
    use Action as A;
    match action {
        A::GetUser
        | A::UpdateUser
        | A::DeleteUser
        | A::CreateAccessKey
        | A::ListAccessKeys
        | A::UpdateAccessKey
        | A::DeleteAccessKey
        | A::PutUserPolicy
        | A::GetUserPolicy
        | A::DeleteUserPolicy
        | A::ListUserPolicies
        | A::ListAttachedUserPolicies
        | A::ListGroupsForUser => vec![Field::User],
        A::GetGroup
        | A::UpdateGroup
        | A::DeleteGroup
        | A::PutGroupPolicy
        | A::GetGroupPolicy
        | A::DeleteGroupPolicy
        | A::ListGroupPolicies
        | A::ListAttachedGroupPolicies => vec![Field::Group],
        A::GetRole
        | A::UpdateRole
        | A::UpdateAssumeRolePolicy
        | A::DeleteRole
        | A::PutRolePolicy
        | A::GetRolePolicy
        | A::DeleteRolePolicy
        | A::ListRolePolicies
        | A::ListAttachedRolePolicies => vec![Field::Role],
        A::GetPolicy
        | A::ListPolicyVersions
        | A::GetPolicyVersion
        | A::CreatePolicyVersion
        | A::DeletePolicyVersion
        | A::SetDefaultPolicyVersion
        | A::DeletePolicy => vec![Field::Policy],
        A::AddUserToGroup | A::RemoveUserFromGroup => vec![Field::Group, Field::User],
        A::AttachUserPolicy | A::DetachUserPolicy => vec![Field::User, Field::Policy],
        A::AttachGroupPolicy | A::DetachGroupPolicy => vec![Field::Group, Field::Policy],
        A::AttachRolePolicy | A::DetachRolePolicy => vec![Field::Role, Field::Policy],
        // They make something, list, or are no verbs here.
        A::CreateUser
        | A::CreateGroup
        | A::CreateRole
        | A::CreatePolicy
        | A::ListUsers
        | A::ListGroups
        | A::ListRoles
        | A::ListPolicies
        | A::ListEntitiesForPolicy
        | A::GenerateCredentialReport
        | A::GenerateServiceLastAccessedDetails
        | A::SimulateCustomPolicy
        | A::SimulatePrincipalPolicy
        | A::GetAccountSummary
        | A::PassRole
        | A::TagRole
        | A::TagUser
        | A::UntagRole
        | A::UntagUser => Vec::new(),
        _ if action.name().contains("OpenIDConnectProvider") => Vec::new(),
        _ => panic!("{action} is missing here"),
    }
}

/// All verbs of the IAM API that name something that is there.
fn verbs() -> impl Iterator<Item = Action> {
    let all = Action::ALL.iter().copied();
    all.filter(|action| action.service() == "iam" && !fields(*action).is_empty())
}

async fn perform(iam: &Identities<'_>, action: Action, names: &Names) -> Result<()> {
    use Action as A;
    let (user, group, role) = (&names.user, &names.group, &names.role);
    let (arn, key) = (&names.policy, &names.key);
    match action {
        A::GetUser => iam.user(action, Some(user)).await.map(drop),
        A::UpdateUser => iam.update_user(user, None, Some("/else/")).await,
        A::DeleteUser => iam.delete_user(user).await,
        A::CreateAccessKey => iam.create_key(Some(user)).await.map(drop),
        A::ListAccessKeys => iam.list_keys(Some(user)).await.map(drop),
        A::UpdateAccessKey => iam.change_key(Some(user), key, Some(true)).await,
        A::DeleteAccessKey => iam.change_key(Some(user), key, None).await,
        A::ListGroupsForUser => iam.groups_of(user).await.map(drop),
        A::GetGroup => iam.members(group).await.map(drop),
        A::UpdateGroup => iam.update_group(group, None, Some("/else/")).await,
        A::DeleteGroup => iam.delete_group(group).await,
        A::AddUserToGroup => iam.set_member(group, user, true).await,
        A::RemoveUserFromGroup => iam.set_member(group, user, false).await,
        A::GetRole => iam.role(action, role).await.map(drop),
        A::UpdateRole | A::UpdateAssumeRolePolicy => {
            iam.update_role(action, role, RoleChange::default()).await
        }
        A::DeleteRole => iam.delete_role(role).await,
        A::CreatePolicyVersion => iam.reword_policy(arn, ALLOW, false).await.map(drop),
        A::DeletePolicyVersion => iam.choose_wording(arn, 3, true).await,
        A::SetDefaultPolicyVersion => iam.choose_wording(arn, 2, false).await,
        A::DeletePolicy => iam.delete_policy(arn).await,
        _ => {
            let (kind, name) = match fields(action)[0] {
                Field::User => (PolicyHolderKind::User, user),
                Field::Group => (PolicyHolderKind::Group, group),
                Field::Role => (PolicyHolderKind::Role, role),
                Field::Policy => return iam.policy(action, arn).await.map(drop),
            };
            let attached = action.name().starts_with("Attach");
            if attached || action.name().starts_with("Detach") {
                return iam.set_attached(action, kind, name, arn, attached).await;
            }
            iam.find(action, kind, name).await.map(drop)
        }
    }
}

/// The default tenant.
fn none() -> &'static TenantName {
    static NONE: OnceLock<TenantName> = OnceLock::new();
    NONE.get_or_init(TenantName::default)
}

fn policy(statements: &[&str]) -> String {
    let statements = statements.join(",");
    format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
}

/// The account of ann, with one of everything in `/team/`, and a user and a key of bob's account.
struct Site {
    rig: Rig,
    names: Names,
}

impl Site {
    async fn new(seed: u64) -> Self {
        let rig = Rig::new(seed).await;
        let accounts = &rig.accounts;
        for (name, path) in [
            ("ann/helper", "/staff/"),
            ("ann/Target", "/team/"),
            ("bob/helper", "/staff/"),
            ("bob/Target", "/team/"),
        ] {
            let new = NewUser {
                name: name.into(),
                path: path.into(),
                ..NewUser::default()
            };
            accounts.make_user(new).await.expect("made");
        }
        let (key, _) = accounts
            .add_key("ann/Target", None, None)
            .await
            .expect("added");
        let made = accounts.make_group(none(), "ann/Admins", "/team/").await;
        made.expect("made");
        let change = RoleChange {
            trust: Some(TRUST.into()),
            ..RoleChange::default()
        };
        let made = accounts.make_role(none(), "ann/Prod", "/team/", change);
        made.await.expect("made");
        let made = accounts.make_policy(none(), "ann/Power", "/team/", None, ALLOW);
        made.await.expect("made");
        for _ in 2..=3 {
            let made = accounts.reword_policy(none(), "ann/Power", ALLOW, false);
            made.await.expect("reworded");
        }
        let names = Names::new(&key);
        Self { rig, names }
    }

    /// A user with just these statements.
    async fn caller(&self, name: &str, statements: &[&str]) -> Caller {
        let holder = PolicyHolder {
            kind: PolicyHolderKind::User,
            tenant: none().clone(),
            name: name.into(),
        };
        let accounts = &self.rig.accounts;
        if !statements.is_empty() {
            let text = policy(statements);
            let put = accounts.put_policy(&holder, "only", &text).await;
            put.expect("put");
        }
        Caller::for_user(accounts.user(name).await.expect("there"))
    }

    async fn call(&self, caller: &Caller, action: Action, names: &Names) -> Result<()> {
        let iam = self.rig.accounts.identities(caller).await.expect("a user");
        perform(&iam, action, names).await
    }

    async fn keys(&self, user: &str) -> usize {
        let keys = self.rig.accounts.access_keys(Some(user)).await;
        keys.expect("listed").len()
    }
}

fn kind(done: &Result<()>) -> Option<ErrorKind> {
    done.as_ref().err().map(Error::kind)
}

#[test]
fn what_denies_a_record_holds_however_it_is_written() {
    run(async {
        let site = Site::new(401).await;
        for action in verbs() {
            for field in fields(action) {
                let deny = format!(
                    r#"{{"Effect":"Deny","Action":"iam:*","Resource":"{}"}}"#,
                    arn(field.path())
                );
                let helper = site.caller("ann/helper", &[STAR, &deny]).await;
                for spelling in field.spellings() {
                    let done = site
                        .call(&helper, action, &site.names.with(field, &spelling))
                        .await;
                    let other = field == Field::Policy
                        && !spelling.contains(":policy/team/P")
                        && !spelling.contains(":policy/team/p");
                    let expected = match other {
                        true => ErrorKind::NotFound,
                        false => ErrorKind::Denied,
                    };
                    assert_eq!(kind(&done), Some(expected), "{action} {spelling}: {done:?}");
                }
            }
        }
    });
}

#[test]
fn what_allows_other_paths_does_not_reach_a_record() {
    run(async {
        let site = Site::new(402).await;
        for action in verbs() {
            for field in fields(action) {
                let safe = format!(
                    r#"{{"Effect":"Allow","Action":"iam:*","Resource":"{}"}}"#,
                    arn(&format!("{}/safe/*", field.kind()))
                );
                let others = format!(
                    r#"{{"Effect":"Allow","Action":"iam:*","NotResource":"{}"}}"#,
                    arn(&format!("{}/*", field.kind()))
                );
                let helper = site.caller("ann/helper", &[&safe, &others]).await;
                for spelling in field.spellings() {
                    let names = site.names.with(field, &spelling);
                    let done = site.call(&helper, action, &names).await;
                    let expected = match spelling.contains("/safe/") {
                        true if !spelling.contains("/team/") => ErrorKind::NotFound,
                        _ => ErrorKind::Denied,
                    };
                    assert_eq!(kind(&done), Some(expected), "{action} {spelling}: {done:?}");
                }
            }
        }
    });
}

#[test]
fn a_condition_on_the_policy_sees_its_own_arn() {
    run(async {
        let site = Site::new(403).await;
        let allow = format!(
            r#"{{"Effect":"Allow","Action":"iam:*","Resource":"*",
                "Condition":{{"ArnLike":{{"iam:PolicyARN":"{}"}}}}}}"#,
            arn("policy/safe/*")
        );
        let helper = site.caller("ann/helper", &[&allow]).await;
        for action in [
            Action::AttachUserPolicy,
            Action::AttachGroupPolicy,
            Action::AttachRolePolicy,
        ] {
            for spelling in Field::Policy.spellings() {
                let names = site.names.with(Field::Policy, &spelling);
                let done = site.call(&helper, action, &names).await;
                assert!(done.is_err(), "{action} {spelling}");
            }
        }
        // One that is there can be given, in any case of its name.
        let accounts = &site.rig.accounts;
        let made = accounts.make_policy(none(), "ann/Read", "/safe/", None, ALLOW);
        made.await.expect("made");
        let names = site.names.with(Field::Policy, &arn("policy/safe/read"));
        let done = site.call(&helper, Action::AttachUserPolicy, &names).await;
        done.expect("attached");
    });
}

#[test]
fn every_verb_works_for_who_may_in_any_case() {
    run(async {
        let site = Site::new(404).await;
        let helper = site.caller("ann/helper", &[STAR]).await;
        let mut names = site.names.clone();
        for field in [Field::User, Field::Group, Field::Role] {
            names = names.with(field, field.spellings().last().expect("some"));
        }
        let rank = |action: &Action| match action {
            Action::DeleteUser
            | Action::DeleteGroup
            | Action::DeleteRole
            | Action::DeletePolicy => 2,
            action => usize::from(
                ["Delete", "Detach", "Remove"]
                    .iter()
                    .any(|word| action.name().starts_with(word)),
            ),
        };
        let mut verbs: Vec<Action> = verbs().collect();
        verbs.sort_by_key(rank);
        for action in verbs {
            if action == Action::DeleteUser {
                let accounts = &site.rig.accounts;
                let keys = accounts.access_keys(Some("ann/Target")).await;
                for key in keys.expect("listed") {
                    accounts.remove_key(&key.access_key).await.expect("removed");
                }
            }
            let done = site.call(&helper, action, &names).await;
            done.unwrap_or_else(|error| panic!("{action}: {error}"));
        }
    });
}

#[test]
fn users_beyond_the_account_are_as_if_they_were_not_there() {
    run(async {
        let site = Site::new(405).await;
        let accounts = &site.rig.accounts;
        let mut foreign = vec!["ann".to_owned(), "bob".to_owned()];
        for name in ["ann", "bob", "bob/helper", "bob/Target", "ann/Target"] {
            foreign.push(accounts.user(name).await.expect("there").id.to_string());
        }
        let own = r#"{"Effect":"Allow","Action":"iam:*","Resource":"arn:aws:iam::*:user/${aws:username}"}"#;
        let groups = r#"{"Effect":"Allow","Action":"iam:*","NotResource":"arn:aws:iam::*:user/*"}"#;
        for statements in [&[STAR][..], &[own, groups], &[own]] {
            let helper = site.caller("ann/helper", statements).await;
            for action in verbs().filter(|action| fields(*action).contains(&Field::User)) {
                let absent = site.names.with(Field::User, "nobody");
                let absent = site
                    .call(&helper, action, &absent)
                    .await
                    .expect_err("nobody");
                for name in &foreign {
                    let names = site.names.with(Field::User, name);
                    let error = site.call(&helper, action, &names).await.expect_err(name);
                    assert_eq!(error.kind(), absent.kind(), "{action} {name}");
                    let words = error.message();
                    let words = words.replace(&format!("{name:?}"), "\"nobody\"");
                    let words = words.replace(&format!("user/{name}:"), "user/nobody:");
                    assert_eq!(words, absent.message(), "{action} {name}");
                }
            }
        }
        for (user, keys) in [("ann", 1), ("bob", 1), ("bob/helper", 0), ("bob/Target", 0)] {
            assert_eq!(site.keys(user).await, keys, "{user}");
        }
        // By its id everybody finds itself.
        let helper = site.caller("ann/helper", &[STAR]).await;
        let id = helper.user_id().to_string();
        let iam = site.rig.accounts.identities(&helper).await.expect("a user");
        let found = iam.user(Action::GetUser, Some(&id)).await.expect("itself");
        assert_eq!(found.id, helper.user_id());
    });
}

#[test]
fn a_user_called_like_its_account_gets_no_key_of_the_account() {
    run(async {
        let site = Site::new(406).await;
        let accounts = &site.rig.accounts;
        accounts.set_limits(crate::AccountLimits {
            keys_per_user: 3,
            ..crate::AccountLimits::default()
        });
        let new = NewUser {
            name: "ann/ann".into(),
            ..NewUser::default()
        };
        accounts.make_user(new).await.expect("made");
        let own = r#"{"Effect":"Allow","Action":"iam:*","Resource":"arn:aws:iam::*:user/${aws:username}"}"#;
        let caller = site.caller("ann/ann", &[own]).await;
        let iam = site.rig.accounts.identities(&caller).await.expect("a user");
        let (user, _, _) = iam.create_key(Some("ann")).await.expect("its own");
        assert_eq!(user.name, "ann/ann");
        let root = UserId(10).to_string();
        iam.create_key(Some(&root)).await.expect_err("the root");
        assert_eq!(site.keys("ann").await, 1);
        // The root has its own in its own hands.
        let ann = site
            .rig
            .accounts
            .identities(&site.rig.ann)
            .await
            .expect("a user");
        for name in [None, Some(root.as_str())] {
            let (user, _, _) = ann.create_key(name).await.expect("its own");
            assert_eq!(user.name, "ann");
        }
    });
}

#[test]
fn a_policy_of_the_tenant_does_not_reach_namesakes_in_accounts() {
    run(async {
        let site = Site::new(407).await;
        let accounts = &site.rig.accounts;
        let new = NewUser {
            name: "ann/bob".into(),
            ..NewUser::default()
        };
        let namesake = accounts.make_user(new).await.expect("made").id.to_string();
        let own = r#"{"Effect":"Allow","Action":"iam:*","Resource":"arn:aws:iam::*:user/${aws:username}"}"#;
        let bob = site.caller("bob", &[own]).await;
        let iam = site.rig.accounts.identities(&bob).await.expect("a user");
        let error = iam
            .create_key(Some(&namesake))
            .await
            .expect_err("another's");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(site.keys("ann/bob").await, 0);
    });
}

#[test]
fn who_manages_the_tenant_finds_accounts_and_nobody_in_them() {
    run(async {
        let site = Site::new(408).await;
        let accounts = &site.rig.accounts;
        let admin = UserChange {
            tenant_admin: Some(true),
            ..UserChange::default()
        };
        accounts.change_user("bob", admin).await.expect("changed");
        let bob = site.caller("bob", &[]).await;
        let iam = site.rig.accounts.identities(&bob).await.expect("a user");
        for name in ["ann".to_owned(), UserId(10).to_string()] {
            let found = iam
                .find(Action::PutUserPolicy, PolicyHolderKind::User, &name)
                .await;
            assert_eq!(found.expect("found").name, "ann");
        }
        let inside = accounts.user("ann/Target").await.expect("there").id;
        for name in [inside.to_string(), "ann/Target".to_owned()] {
            let found = iam.user(Action::GetUser, Some(&name)).await;
            assert_eq!(found.expect_err("nobody").kind(), ErrorKind::NotFound);
        }
    });
}

#[test]
fn a_session_of_a_role_is_not_the_user_of_its_name() {
    run(async {
        let site = Site::new(409).await;
        let accounts = &site.rig.accounts;
        let role = PolicyHolder {
            kind: PolicyHolderKind::Role,
            tenant: none().clone(),
            name: "ann/Target".into(),
        };
        let change = RoleChange {
            trust: Some(TRUST.into()),
            ..RoleChange::default()
        };
        let made = accounts.make_role(none(), "ann/Target", "/", change);
        made.await.expect("made");
        accounts
            .put_policy(&role, "all", &policy(&[STAR]))
            .await
            .expect("put");
        let session = accounts.as_role(none(), "ann/Target", "session").await;
        let session = Caller::for_user(session.expect("read").expect("there"));
        let iam = site
            .rig
            .accounts
            .identities(&session)
            .await
            .expect("a role");
        let error = iam.create_key(None).await.expect_err("no user");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(site.keys("ann/Target").await, 1);
    });
}

#[test]
fn a_rename_is_asked_for_by_both_names() {
    run(async {
        let site = Site::new(410).await;
        let own = |kind: &str| {
            format!(
                r#"{{"Effect":"Allow","Action":"iam:*","Resource":"{}"}}"#,
                arn(&format!("{kind}/*"))
            )
        };
        let rename =
            async |caller: &Caller, group: bool, name: Option<&str>, path: Option<&str>| {
                let iam = site.rig.accounts.identities(caller).await.expect("a user");
                match group {
                    true => iam.update_group("admins", name, path).await,
                    false => iam.update_user("TARGET", name, path).await,
                }
            };
        for (group, kind, path) in [
            (true, "group/team", "group/curators/boss"),
            (false, "user/team", "user/curators/boss"),
        ] {
            let deny = format!(
                r#"{{"Effect":"Deny","Action":"iam:*","Resource":"{}"}}"#,
                arn(path)
            );
            for statements in [&[own(kind).as_str()][..], &[STAR, &deny]] {
                let helper = site.caller("ann/helper", statements).await;
                let done = rename(&helper, group, Some("boss"), Some("/curators/")).await;
                assert_eq!(done.expect_err(path).kind(), ErrorKind::Denied);
            }
            let helper = site.caller("ann/helper", &[&own(kind)]).await;
            let done = rename(&helper, group, None, Some("/else/")).await;
            assert_eq!(done.expect_err("another path").kind(), ErrorKind::Denied);
            let done = rename(&helper, group, Some("Other"), None).await;
            done.expect("within what it may");
        }
    });
}

#[test]
fn roles_and_policies_of_a_session_are_judged_by_their_records() {
    run(async {
        let site = Site::new(411).await;
        let allow = r#"{"Effect":"Allow","Action":"sts:*","Resource":"*"}"#;
        let deny = format!(
            r#"{{"Effect":"Deny","Action":"sts:*","Resource":"{}"}}"#,
            arn("role/team/Prod")
        );
        let assume = async |caller: &Caller, role: &str, policy: Option<&str>| {
            let asked = AssumeRole {
                role: arn(role),
                session: "session".into(),
                policies: policy.map(arn).into_iter().collect(),
                ..AssumeRole::default()
            };
            let given = site.rig.accounts.assume_role(caller, asked).await;
            given.map(drop)
        };
        let signed = async |statements: &[&str]| {
            let user = site.caller("ann/helper", statements).await;
            Caller::admitted(Arc::new(user.user().expect("one").clone()), origin())
        };
        let helper = signed(&[allow, &deny]).await;
        for role in [
            "role/team/Prod",
            "role/team/PROD",
            "role/team/prod",
            "role/prod",
        ] {
            let error = assume(&helper, role, None).await.expect_err(role);
            assert_eq!(error.kind(), ErrorKind::Denied, "{role}");
        }
        let helper = signed(&[allow]).await;
        for (policy, taken) in [
            ("policy/team/Power", true),
            ("policy/safe/Power", false),
            ("policy/Power", false),
        ] {
            let given = assume(&helper, "role/team/prod", Some(policy)).await;
            assert_eq!(given.is_ok(), taken, "{policy}");
        }
    });
}

#[test]
fn accounts_whose_names_differ_in_case_alone_share_nothing() {
    run(async {
        let site = Site::new(412).await;
        let accounts = &site.rig.accounts;
        let new = NewUser {
            name: "ANN".into(),
            ..NewUser::default()
        };
        accounts.make_user(new).await.expect("made");
        let other = site.caller("ANN", &[]).await;
        let iam = site.rig.accounts.identities(&other).await.expect("a user");
        let absent = |kind| assert_eq!(kind, ErrorKind::NotFound);
        absent(
            iam.user(Action::GetUser, Some("Target"))
                .await
                .expect_err("a user")
                .kind(),
        );
        absent(
            iam.group(Action::GetGroup, "Admins")
                .await
                .expect_err("a group")
                .kind(),
        );
        absent(
            iam.role(Action::GetRole, "Prod")
                .await
                .expect_err("a role")
                .kind(),
        );
        let arn = format!("arn:aws:iam::{}:policy/team/Power", other.user_id());
        absent(
            iam.policy(Action::GetPolicy, &arn)
                .await
                .expect_err("a policy")
                .kind(),
        );
        assert!(iam.list_users().await.expect("listed").is_empty());
        assert!(iam.list_groups().await.expect("listed").is_empty());
        assert!(iam.list_roles().await.expect("listed").is_empty());
        assert!(iam.list_policies().await.expect("listed").is_empty());
    });
}

#[test]
fn a_trust_policy_names_users_for_good() {
    run(async {
        let site = Site::new(414).await;
        let accounts = &site.rig.accounts;
        let user = arn("user/team/Target");
        let trust = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{{"AWS":"{user}"}}}}]}}"#
        );
        let iam = site
            .rig
            .accounts
            .identities(&site.rig.ann)
            .await
            .expect("a user");
        let change = RoleChange {
            trust: Some(trust.clone()),
            ..RoleChange::default()
        };
        let action = Action::UpdateAssumeRolePolicy;
        iam.update_role(action, "Prod", change)
            .await
            .expect("changed");
        let role = iam.role(Action::GetRole, "Prod").await.expect("there");
        assert_eq!(role.trust, trust);
        let assume = async |name: &str| {
            let user = accounts.user(name).await.expect("there");
            let asked = AssumeRole {
                role: arn("role/team/Prod"),
                session: "session".into(),
                ..AssumeRole::default()
            };
            let caller = Caller::admitted(Arc::new(user), origin());
            accounts.assume_role(&caller, asked).await.is_ok()
        };
        assert!(assume("ann/Target").await);
        let change = UserChange {
            name: Some("ann/Other".into()),
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
        accounts.make_user(namesake).await.expect("made");
        assert!(assume("ann/Other").await);
        assert!(!assume("ann/Target").await);
        let roles = iam.list_roles().await.expect("listed");
        assert!(roles[0].trust.contains("user/team/Other"));
    });
}
