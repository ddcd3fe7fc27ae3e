//! The rules, one by one, and the whole against an evaluator that is too simple to be wrong.

use std::borrow::Cow;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    AccessKey, Acl, CannedAcl, Fact, Facts, Grantee, Origin, Policy, PolicyKind, PublicAccessBlock,
    Secret, UserKind, UserPolicies, UserPolicy,
};

const ORIGIN: Origin = Origin {
    address: Some(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3))),
    secure: true,
};

fn tenant(name: &str) -> TenantName {
    TenantName::new(name).expect("valid")
}

fn user(id: u64, name: &str) -> User {
    User::new(UserId(id), name, TenantName::default(), Timestamp(0))
}

/// A user of the account of user `account`.
fn member(id: u64, account: u64, name: &str) -> User {
    User {
        account: UserId(account),
        ..user(id, name)
    }
}

fn by(user: User) -> Caller {
    let key = AccessKey {
        id: "AK".into(),
        secret: Secret::new("s".into()),
        revision: 1,
        user: Arc::new(user),
        bounds: None,
    };
    Caller::by_access_key(&key, ORIGIN)
}

fn with_policy(user: User, text: &str, tenant_wide: bool) -> User {
    let policy = Policy::parse(text, PolicyKind::Identity, 20_000).expect(text);
    User {
        policies: UserPolicies::new(vec![UserPolicy {
            source: "user policy".into(),
            policy: Arc::new(policy),
            tenant_wide,
        }]),
        ..user
    }
}

fn bucket_policy(text: &str) -> BucketAccess {
    let policy = Policy::parse(text, PolicyKind::Bucket("data"), 20_000).expect(text);
    BucketAccess {
        policy: Some(Arc::new(policy)),
        ..BucketAccess::default()
    }
}

/// What may be asked of bucket `data` of user 1.
struct Bucket<'a> {
    access: &'a BucketAccess,
    object: Option<ObjectAccess<'a>>,
    details: Details<'a>,
}

impl<'a> Bucket<'a> {
    fn new(access: &'a BucketAccess) -> Self {
        Self {
            access,
            object: None,
            details: Details::default(),
        }
    }

    fn ask(&self, caller: &Caller, action: Action) -> Decision {
        let tenant = TenantName::default();
        let resource = Resource::Bucket {
            tenant: &tenant,
            bucket: "data",
            owner: UserId(1),
            access: Some(self.access),
            key: (action.level() == Level::Object).then_some("a/b"),
            object: self.object,
        };
        explain(caller, action, resource, &self.details)
    }

    fn may(&self, caller: &Caller, action: Action) -> bool {
        self.ask(caller, action).allowed
    }
}

fn statement(effect: &str, principal: &str, action: &str, resource: &str, more: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Sid":"s","Effect":"{effect}",{principal}
        "Action":"{action}","Resource":"{resource}"{more}}}}}"#
    )
}

const ANYBODY: &str = r#""Principal":"*","#;
const ALL: &str = "arn:aws:s3:::*";

#[test]
fn only_owners_get_in_where_nothing_is_said() {
    let access = BucketAccess::default();
    let bucket = Bucket::new(&access);
    for action in Action::ALL {
        assert!(bucket.may(&by(user(1, "ann")), *action), "{action}");
        assert!(!bucket.may(&by(user(2, "bob")), *action), "{action}");
        assert!(
            !bucket.may(&by(member(3, 1, "ann/robot")), *action),
            "{action}"
        );
        assert!(!bucket.may(&Caller::anonymous(ORIGIN), *action), "{action}");
        assert!(bucket.may(&Caller::system(), *action), "{action}");
    }
    let mut disabled = user(1, "ann");
    disabled.disabled = true;
    assert!(!bucket.may(&by(disabled), Action::GetObject));
    // The id of nobody must not open what nobody owns.
    let tenant = TenantName::default();
    let nobodys = Resource::Bucket {
        tenant: &tenant,
        bucket: "data",
        owner: UserId(0),
        access: None,
        key: None,
        object: None,
    };
    let nobody = Caller::anonymous(ORIGIN);
    assert!(authorize(&nobody, Action::ListBucket, nobodys, &Details::default()).is_err());
}

#[test]
fn buckets_are_made_in_the_own_tenant_only() {
    let (mine, other) = (tenant("atlas"), tenant("cms"));
    let ann = by(User {
        tenant: mine.clone(),
        ..user(1, "ann")
    });
    let may = |caller: &Caller, tenant: &TenantName| {
        let asked = Resource::Tenant(tenant);
        authorize(caller, Action::ListAllMyBuckets, asked, &Details::default()).is_ok()
    };
    assert!(may(&ann, &mine));
    assert!(!may(&ann, &other));
    assert!(!may(&by(member(3, 1, "x/y")), &TenantName::default()));
    let allowed = statement("Allow", "", "s3:ListAllMyBuckets", "*", "");
    let robot = with_policy(member(3, 1, "x/y"), &allowed, false);
    assert!(may(&by(robot), &TenantName::default()));
}

#[test]
fn a_bucket_policy_allows_and_denies() {
    let open = bucket_policy(&statement("Allow", ANYBODY, "s3:GetObject", ALL, ""));
    let bucket = Bucket::new(&open);
    let nobody = Caller::anonymous(ORIGIN);
    let decision = bucket.ask(&nobody, Action::GetObject);
    assert!(decision.allowed);
    assert_eq!(
        decision.reason.to_string(),
        "statement 1 (\"s\") of the bucket's policy allows it"
    );
    assert!(!bucket.may(&nobody, Action::PutObject));
    let closed = bucket_policy(&statement("Deny", ANYBODY, "s3:*", ALL, ""));
    let bucket = Bucket::new(&closed);
    let ann = by(user(1, "ann"));
    assert!(!bucket.may(&ann, Action::GetObject));
    assert!(
        bucket.may(&ann, Action::PutBucketPolicy),
        "the owner can mend it"
    );
    assert!(!bucket.may(&by(member(3, 1, "ann/robot")), Action::PutBucketPolicy));
    let locked = BucketAccess {
        policy_locks_owner_out: true,
        ..closed.clone()
    };
    assert!(!Bucket::new(&locked).may(&ann, Action::PutBucketPolicy));
}

#[test]
fn principals_are_told_apart() {
    let who = |principal: &str| {
        let text = statement("Allow", principal, "s3:GetObject", ALL, "");
        let access = bucket_policy(&text);
        let bucket = Bucket::new(&access);
        let all = statement("Allow", "", "s3:*", "arn:aws:s3:::*", "");
        let robot = with_policy(member(3, 2, "bob/robot"), &all, false);
        let callers = [
            by(user(2, "bob")),
            by(robot),
            by(member(3, 2, "bob/robot")),
            by(user(4, "eve")),
            Caller::anonymous(ORIGIN),
        ];
        callers.map(|caller| bucket.may(&caller, Action::GetObject))
    };
    let id = UserId(2);
    assert_eq!(who(ANYBODY), [true, true, false, true, true]);
    let bobs = [true, true, false, false, false];
    assert_eq!(
        who(&format!(
            r#""Principal":{{"AWS":"arn:aws:iam::{id}:root"}},"#
        )),
        bobs
    );
    assert_eq!(who(&format!(r#""Principal":{{"AWS":"{id}"}},"#)), bobs);
    assert_eq!(
        who(&format!(r#""Principal":{{"CanonicalUser":"{id}"}},"#)),
        bobs
    );
    let robot = format!(r#""Principal":{{"AWS":"arn:aws:iam::{id}:user/robot"}},"#);
    assert_eq!(who(&robot), [false, true, false, false, false]);
    let named = r#""Principal":{"AWS":["arn:aws:iam:::user/bob","arn:aws:iam:::user/eve"]},"#;
    assert_eq!(who(named), [true, false, false, true, false]);
    assert_eq!(
        who(r#""Principal":{"AWS":"arn:aws:iam::atlas:root"},"#),
        [false; 5]
    );
}

#[test]
fn users_of_an_account_do_what_policies_say() {
    let access = BucketAccess::default();
    let bucket = Bucket::new(&access);
    let read = statement("Allow", "", "s3:Get*", "arn:aws:s3:::data/*", "");
    let robot = with_policy(member(3, 1, "ann/robot"), &read, false);
    assert!(bucket.may(&by(robot.clone()), Action::GetObject));
    assert!(!bucket.may(&by(robot), Action::PutObject));
    // The same policy in another account opens nothing here, unless the tenant's manager gave it.
    let foreign = with_policy(member(4, 2, "bob/robot"), &read, false);
    assert!(!bucket.may(&by(foreign), Action::GetObject));
    let bob = with_policy(user(2, "bob"), &read, true);
    assert!(bucket.may(&by(bob.clone()), Action::GetObject));
    let elsewhere = User {
        tenant: tenant("atlas"),
        ..bob
    };
    assert!(!bucket.may(&by(elsewhere), Action::GetObject));
    let deny = statement("Deny", "", "s3:DeleteObject", "*", "");
    let ann = by(with_policy(user(1, "ann"), &deny, true));
    assert!(!bucket.may(&ann, Action::DeleteObject));
    assert!(bucket.may(&ann, Action::GetObject));
    let in_person = format!(
        r#""Principal":{{"AWS":"arn:aws:iam::{}:user/robot"}},"#,
        UserId(1)
    );
    let access = bucket_policy(&statement("Allow", &in_person, "s3:ListBucket", ALL, ""));
    let bucket = Bucket::new(&access);
    assert!(bucket.may(&by(member(3, 1, "ann/robot")), Action::ListBucket));
}

#[test]
fn lists_grant_and_ownership_switches_them_off() {
    let bob = by(user(2, "bob"));
    let nobody = Caller::anonymous(ORIGIN);
    let mut access = BucketAccess {
        acl: Some(Arc::new(CannedAcl::PublicRead.acl(UserId(1), UserId(1)))),
        ..BucketAccess::default()
    };
    assert!(Bucket::new(&access).may(&nobody, Action::ListBucket));
    assert!(!Bucket::new(&access).may(&nobody, Action::GetObject));
    assert!(!Bucket::new(&access).may(&bob, Action::PutObject));
    access.block = Some(PublicAccessBlock {
        ignore_public_acls: true,
        ..PublicAccessBlock::default()
    });
    assert!(!Bucket::new(&access).may(&bob, Action::ListBucket));
    access.block = None;
    access.ownership = Some(Ownership::BucketOwnerEnforced);
    assert!(!Bucket::new(&access).may(&nobody, Action::ListBucket));
    access.ownership = None;
    // An object of bob's in ann's bucket is bob's; ann may delete it, no more.
    let object = |acl: Option<&'static Acl>| ObjectAccess {
        owner: UserId(2),
        acl,
        tags: &[],
    };
    let mut bucket = Bucket::new(&access);
    bucket.object = Some(object(None));
    let ann = by(user(1, "ann"));
    assert!(bucket.may(&bob, Action::GetObject) && bucket.may(&bob, Action::PutObjectAcl));
    assert!(bucket.may(&bob, Action::GetObjectTagging));
    assert!(!bucket.may(&ann, Action::GetObject) && !bucket.may(&ann, Action::GetObjectAcl));
    bucket.object = None;
    assert!(bucket.may(&ann, Action::DeleteObject));
    let enforced = BucketAccess {
        ownership: Some(Ownership::BucketOwnerEnforced),
        ..access.clone()
    };
    let mut bucket = Bucket::new(&enforced);
    bucket.object = Some(object(None));
    assert!(bucket.may(&ann, Action::GetObject));
    assert!(!bucket.may(&bob, Action::GetObject));
    // Whoever owns an object can always mend its list, but reads only what the list grants.
    let empty = Acl {
        owner: UserId(2),
        grants: Vec::new(),
    };
    let mut bucket = Bucket::new(&access);
    bucket.object = Some(ObjectAccess {
        owner: UserId(2),
        acl: Some(&empty),
        tags: &[],
    });
    assert!(!bucket.may(&bob, Action::GetObject));
    assert!(bucket.may(&bob, Action::PutObjectAcl));
    let shared = Acl {
        owner: UserId(2),
        grants: vec![Grant {
            grantee: Grantee::User(UserId(1)),
            permission: Permission::FullControl,
        }],
    };
    bucket.object = Some(ObjectAccess {
        owner: UserId(2),
        acl: Some(&shared),
        tags: &[],
    });
    assert!(bucket.may(&ann, Action::GetObject));
    let robot = by(member(3, 1, "ann/robot"));
    assert!(!bucket.may(&robot, Action::GetObject));
    assert_eq!(
        bucket.ask(&robot, Action::GetObject).reason,
        Reason::NoPolicyOfUser
    );
}

#[test]
fn a_public_policy_can_be_restricted() {
    let mut access = bucket_policy(&statement("Allow", ANYBODY, "s3:GetObject", ALL, ""));
    access.block = Some(PublicAccessBlock {
        restrict_public_buckets: true,
        ..PublicAccessBlock::default()
    });
    let bucket = Bucket::new(&access);
    let decision = bucket.ask(&Caller::anonymous(ORIGIN), Action::GetObject);
    assert_eq!(
        (decision.allowed, decision.reason),
        (false, Reason::Restricted)
    );
    assert!(bucket.may(&by(user(1, "ann")), Action::GetObject));
    assert!(bucket.may(&by(member(3, 1, "ann/robot")), Action::GetObject));
    assert!(!access.is_public());
}

#[test]
fn identities_are_managed_by_their_account_and_the_tenant() {
    let tenant = TenantName::default();
    let may = |caller: &Caller, account: u64, action, of_tenant| {
        let resource = Resource::Identity {
            tenant: &tenant,
            account: UserId(account),
            path: "user/robot",
            of_tenant,
        };
        authorize(caller, action, resource, &Details::default()).is_ok()
    };
    let ann = by(user(1, "ann"));
    assert!(may(&ann, 1, Action::CreateUser, false));
    assert!(!may(&ann, 2, Action::CreateUser, false));
    assert!(may(&ann, 1, Action::CreateAccessKey, true));
    assert!(
        !may(&ann, 1, Action::PutUserPolicy, true),
        "nobody gives rights to itself"
    );
    let admin = by(User {
        tenant_admin: true,
        ..user(9, "boss")
    });
    assert!(may(&admin, 1, Action::PutUserPolicy, true));
    let star = statement("Allow", "", "iam:*", "*", "");
    let robot = by(with_policy(member(3, 1, "ann/robot"), &star, false));
    assert!(may(&robot, 1, Action::CreateUser, false));
    assert!(
        !may(&robot, 2, Action::CreateUser, false),
        "a policy ends with its account"
    );
    assert!(!may(&robot, 1, Action::PutUserPolicy, true));
    for action in [
        Action::CreateAccessKey,
        Action::UpdateAccessKey,
        Action::DeleteAccessKey,
    ] {
        assert!(may(&ann, 1, action, true), "its own keys");
        assert!(
            !may(&robot, 1, action, true),
            "a key of the account's own user has all its rights"
        );
    }
    assert!(!may(&Caller::anonymous(ORIGIN), 1, Action::GetUser, false));
}

#[test]
fn names_in_accounts_are_not_names_in_the_tenant() {
    let may = |caller: User, principal: &str| {
        let principal = format!(r#""Principal":{{"AWS":"{principal}"}},"#);
        let access = bucket_policy(&statement("Allow", &principal, "s3:GetObject", ALL, ""));
        let all = statement("Allow", "", "s3:*", "*", "");
        Bucket::new(&access).may(&by(with_policy(caller, &all, false)), Action::GetObject)
    };
    let role = |id, account, name: &str| User {
        kind: UserKind::Role {
            session: "s".into(),
        },
        ..member(id, account, name)
    };
    let account = UserId(5);
    for (of_tenant, of_account, kind, name) in [
        (user(2, "bob"), member(6, 5, "eve/bob"), "user", "bob"),
        (role(3, 3, "lead"), role(7, 5, "eve/lead"), "role", "lead"),
    ] {
        let by_tenant = format!("arn:aws:iam:::{kind}/{name}");
        assert!(may(of_tenant.clone(), &by_tenant));
        assert!(
            !may(of_account.clone(), &by_tenant),
            "a namesake in an account"
        );
        let by_account = format!("arn:aws:iam::{account}:{kind}/{name}");
        assert!(may(of_account.clone(), &by_account));
        assert!(!may(of_tenant.clone(), &by_account));
        // By its id each is meant alone.
        let id = of_account.id.to_string();
        assert!(may(of_account, &id));
        assert!(!may(of_tenant, &id));
        assert!(!may(member(9, 5, "eve/other"), &id));
    }
    let session = role(7, 5, "eve/lead");
    assert!(!may(session.clone(), "arn:aws:sts:::assumed-role/lead/s"));
    assert!(may(
        session,
        &format!("arn:aws:sts::{account}:assumed-role/lead/s")
    ));
}

#[test]
fn a_name_that_takes_rights_away_means_its_namesakes_in_accounts() {
    let role = |id, account, name: &str| User {
        kind: UserKind::Role {
            session: "s".into(),
        },
        ..member(id, account, name)
    };
    let may = |caller: &User, effect: &str, kind: &str, principal: &str| {
        let principal = format!(r#""{kind}":{{"AWS":"{principal}"}},"#);
        let one = statement(effect, &principal, "s3:GetObject", ALL, "");
        let access = bucket_policy(&one);
        let all = statement("Allow", "", "s3:*", "*", "");
        let caller = with_policy(caller.clone(), &all, true);
        Bucket::new(&access).may(&by(caller), Action::GetObject)
    };
    for (caller, path) in [
        (user(2, "bob"), "user/bob"),
        (member(6, 5, "eve/bob"), "user/bob"),
        (role(3, 3, "lead"), "role/lead"),
        (role(7, 5, "eve/lead"), "role/lead"),
        (role(7, 5, "eve/lead"), "assumed-role/lead/s"),
    ] {
        let account = caller.account;
        for field in [String::new(), account.to_string()] {
            let named = format!("arn:aws:iam::{field}:{path}");
            assert!(!may(&caller, "Deny", "Principal", &named), "{named}");
        }
        for other in [
            format!("arn:aws:iam::{}:{path}", UserId(99)),
            format!("arn:aws:iam::other:{path}"),
            format!("arn:aws:iam:::{path}x"),
        ] {
            assert!(may(&caller, "Deny", "Principal", &other), "{other}");
        }
    }
    // Only the one of that name is exempt from a denial.
    let exempt = |caller: &User| may(caller, "Deny", "NotPrincipal", "arn:aws:iam:::user/bob");
    assert!(exempt(&user(2, "bob")));
    assert!(!exempt(&member(6, 5, "eve/bob")));
}

#[test]
fn the_word_of_an_accounts_provider_counts_in_the_account_alone() {
    let session = |account: u64, name: &str, own_provider| {
        let bounds = crate::Bounds {
            provider: Some("idp.example.org".into()),
            own_provider,
            claims: vec![
                ("idp.example.org:groups".into(), vec!["good".into()]),
                ("idp.example.org:sub".into(), vec!["bob".into()]),
            ],
            ..crate::Bounds::default()
        };
        let role = User {
            kind: UserKind::Role {
                session: "s".into(),
            },
            ..member(7, account, name)
        };
        let all = statement("Allow", "", "s3:*", "*", "");
        // The owner's account needs no policy of its own for what the bucket's allows.
        let role = match account {
            1 => role,
            _ => with_policy(role, &all, false),
        };
        Caller::by_token(Arc::new(role), Arc::new(bounds), ORIGIN)
    };
    let says = |caller: &Caller, effect: &str, condition: &str| {
        let more = format!(r#","Condition":{condition}"#);
        let access = bucket_policy(&statement(effect, ANYBODY, "s3:GetObject", ALL, &more));
        let asked = Bucket::new(&access).ask(caller, Action::GetObject);
        match effect {
            "Allow" => asked.allowed,
            _ => matches!(
                asked.reason,
                Reason::Statement {
                    effect: Effect::Deny,
                    ..
                }
            ),
        }
    };
    let good = r#"{"ForAnyValue:StringEquals":{"idp.example.org:groups":"good"}}"#;
    let bad = r#"{"ForAnyValue:StringEquals":{"idp.example.org:groups":"bad"}}"#;
    let none = r#"{"Null":{"idp.example.org:groups":"true"}}"#;
    let from = r#"{"StringEquals":{"aws:FederatedProvider":"idp.example.org"}}"#;
    // The bucket is of account 1. An issuer of the administrator is believed everywhere.
    for (account, name, own_provider) in [(5, "eve/r", false), (1, "ann/r", true), (7, "r", true)] {
        let caller = session(account, name, own_provider);
        assert!(
            says(&caller, "Deny", good) && says(&caller, "Deny", from),
            "{name}"
        );
        assert!(
            !says(&caller, "Deny", bad) && !says(&caller, "Deny", none),
            "{name}"
        );
        assert!(
            !says(&caller, "Allow", bad) && !says(&caller, "Allow", none),
            "{name}"
        );
    }
    for condition in [good, from] {
        assert!(says(&session(5, "eve/r", false), "Allow", condition));
    }
    // That of another account says nothing here: what denies does, what allows does not.
    let stranger = session(5, "eve/r", true);
    for condition in [good, bad, none, from] {
        assert!(says(&stranger, "Deny", condition), "{condition}");
        assert!(!says(&stranger, "Allow", condition), "{condition}");
    }
    // Of another issuer nothing is known, as of everybody.
    let other = r#"{"StringEquals":{"other.example.org:sub":"bob"}}"#;
    assert!(!says(&stranger, "Deny", other));
    // So it is with policies that the administrator wrote for a role of the account.
    let denies = |tenant_wide| {
        let mut role = member(7, 5, "eve/r");
        role.kind = UserKind::Role {
            session: "s".into(),
        };
        let more = format!(r#","Condition":{bad}"#);
        let deny = statement("Deny", "", "s3:GetObject", ALL, &more);
        let role = with_policy(role, &deny, tenant_wide);
        let bounds = Arc::new(stranger.bounds().expect("a session").clone());
        let caller = Caller::by_token(Arc::new(role), bounds, ORIGIN);
        let access = BucketAccess::default();
        let asked = Bucket::new(&access).ask(&caller, Action::GetObject);
        matches!(asked.reason, Reason::Statement { .. })
    };
    assert!(denies(true) && !denies(false));
}

#[test]
fn a_role_is_a_resource_of_iam_when_it_is_assumed() {
    let tenant = TenantName::default();
    let role = Resource::Identity {
        tenant: &tenant,
        account: UserId(1),
        path: "role/lead",
        of_tenant: false,
    };
    let trust = statement("Allow", ANYBODY, "sts:AssumeRole", "*", "");
    let trust = trust
        .replace(r#""Resource":"*","#, "")
        .replace(r#","Resource":"*""#, "");
    let trust = Policy::parse(&trust, PolicyKind::Trust, 20_000).expect("a trust policy");
    let deny = |path: &str| {
        let resource = format!("arn:aws:iam::{}:{path}", UserId(1));
        let deny = statement("Deny", "", "sts:AssumeRole", &resource, "");
        let robot = by(with_policy(member(3, 1, "ann/robot"), &deny, false));
        assume(
            &robot,
            Action::AssumeRole,
            role,
            &trust,
            &Details::default(),
        )
        .is_err()
    };
    assert!(deny("role/lead"));
    assert!(!deny("role/other"));
}

#[test]
fn a_name_that_an_account_gives_counts_in_the_account() {
    let homes = "arn:aws:s3:::data/${aws:username}/b";
    let allow = statement("Allow", "", "s3:GetObject", homes, "");
    let access = BucketAccess::default();
    let bucket = Bucket::new(&access);
    // The object is a/b in a bucket of user 1.
    assert!(bucket.may(
        &by(with_policy(user(2, "a"), &allow, true)),
        Action::GetObject
    ));
    let namesake = with_policy(member(3, 2, "bob/a"), &allow, true);
    assert!(!bucket.may(&by(namesake), Action::GetObject));
    let own = with_policy(member(3, 1, "ann/a"), &allow, true);
    assert!(bucket.may(&by(own), Action::GetObject));
    // Where the name does not count, its negation does not either.
    let others = allow.replace(r#""Resource""#, r#""NotResource""#);
    let other = with_policy(user(2, "z"), &others, true);
    assert!(bucket.may(&by(other), Action::GetObject));
    let namesake = with_policy(member(3, 2, "bob/a"), &others, true);
    assert!(!bucket.may(&by(namesake), Action::GetObject));
    // A policy on the bucket gives a name to nobody who chose it in another account.
    let open = bucket_policy(&statement("Allow", ANYBODY, "s3:GetObject", homes, ""));
    let anything = statement("Allow", "", "s3:*", "*", "");
    let of_bucket = |user| Bucket::new(&open).may(&by(user), Action::GetObject);
    assert!(of_bucket(user(2, "a")));
    let namesake = member(3, 2, "bob/a");
    assert!(!of_bucket(with_policy(namesake, &anything, false)));
    let all = statement("Allow", "", "s3:*", "*", "").replace(
        r#""Statement":"#,
        r#""Statement":[{"Effect":"Deny","Action":"s3:GetObject","Resource":"arn:aws:s3:::data/${aws:username}/*"},"#,
    );
    let all = format!("{}]}}", all.strip_suffix('}').expect("a document"));
    let namesake = with_policy(member(3, 2, "bob/a"), &all, true);
    assert!(bucket.may(&by(namesake.clone()), Action::PutObject));
    assert!(
        !bucket.may(&by(namesake), Action::GetObject),
        "it denies all of a name"
    );
}

#[test]
fn a_condition_on_a_name_knows_no_namesakes_of_other_accounts() {
    let all = statement("Allow", "", "s3:*", "*", "");
    let bob = |name| with_policy(member(3, 2, name), &all, false);
    let reads = |policy: &BucketAccess, user| Bucket::new(policy).may(&by(user), Action::GetObject);
    let ann = |operator: &str| format!(r#","Condition":{{"{operator}":{{"aws:username":"ann"}}}}"#);
    // What allows a name allows the user of the tenant and the account's own.
    let object = "arn:aws:s3:::data/*";
    let only = bucket_policy(&statement(
        "Allow",
        ANYBODY,
        "s3:*",
        object,
        &ann("StringEquals"),
    ));
    assert!(reads(&only, user(4, "ann")));
    assert!(reads(&only, member(5, 1, "data/ann")));
    assert!(!reads(&only, bob("bob/ann")));
    let but = bucket_policy(&statement(
        "Allow",
        ANYBODY,
        "s3:*",
        object,
        &ann("StringNotEquals"),
    ));
    assert!(reads(&but, bob("bob/eve")) && !reads(&but, bob("bob/ann")));
    // What denies all others denies its namesakes, and what denies a name, too.
    let open = |effect: &str| {
        let deny = statement("Deny", ANYBODY, "s3:*", object, effect);
        let deny = deny.replace(
            r#""Statement":"#,
            r#""Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::data/*"},"#,
        );
        bucket_policy(&format!(
            "{}]}}",
            deny.strip_suffix('}').expect("a document")
        ))
    };
    let others = open(&ann("StringNotEquals"));
    assert!(reads(&others, user(4, "ann")) && !reads(&others, user(4, "eve")));
    assert!(!reads(&others, bob("bob/ann")));
    let named = open(&ann("StringEquals"));
    assert!(!reads(&named, user(4, "ann")) && !reads(&named, bob("bob/ann")));
    assert!(reads(&named, bob("bob/eve")));
    let users = open(r#","Condition":{"Null":{"aws:username":"true"}}"#);
    assert!(reads(&users, user(4, "ann")) && !reads(&users, bob("bob/ann")));
    // The same for the name as a variable. The object is a/b.
    let outside = statement(
        "Deny",
        ANYBODY,
        "s3:*",
        "arn:aws:s3:::data/${aws:username}/*",
        "",
    )
    .replace(r#""Resource""#, r#""NotResource""#);
    let outside = outside.replace(
        r#""Statement":"#,
        r#""Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::data/*"},"#,
    );
    let outside = bucket_policy(&format!(
        "{}]}}",
        outside.strip_suffix('}').expect("a document")
    ));
    assert!(reads(&outside, user(4, "a")));
    assert!(!reads(&outside, bob("bob/a")) && !reads(&outside, bob("bob/z")));
}

#[test]
fn a_bucket_knows_no_namesakes_of_other_tenants() {
    let elsewhere = |name: &str| User {
        tenant: tenant("atlas"),
        ..user(2, name)
    };
    let reads = |more: &str, resource: &str, user| {
        let open = bucket_policy(&statement("Allow", ANYBODY, "s3:GetObject", resource, more));
        let user = with_policy(
            user,
            &statement("Allow", "", "s3:*", "arn:aws:s3::*:*", ""),
            true,
        );
        Bucket::new(&open).may(&by(user), Action::GetObject)
    };
    // The object is a/b.
    let (homes, all) = ("arn:aws:s3:::data/${aws:username}/*", "arn:aws:s3:::data/*");
    let named = r#","Condition":{"StringEquals":{"aws:username":"a"}}"#;
    assert!(reads("", homes, user(2, "a")) && reads(named, all, user(2, "a")));
    assert!(reads("", all, elsewhere("a")));
    assert!(!reads("", homes, elsewhere("a")) && !reads(named, all, elsewhere("a")));
}

struct FixedFacts(Vec<(Fact, &'static str)>);

impl Facts for FixedFacts {
    fn fact(&self, fact: Fact) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(name, _)| *name == fact);
        found.map(|(_, value)| Cow::Borrowed(*value))
    }
}

/// Each operator, as the IAM user guide's table has it.
#[test]
fn conditions_compare() {
    let tags = [("class".to_owned(), "Public".to_owned())];
    let acl = Acl::private(UserId(1));
    let facts = Arc::new(FixedFacts(vec![
        (Fact::UserAgent, "boto3/1.2"),
        (Fact::SignatureAge, "600"),
        (Fact::Tagging, "team=a%20b&x=1+2"),
        (Fact::TlsVersion, "1.3"),
    ]));
    let caller = by(user(2, "bob")).with_facts(facts);
    let meets = |condition: &str| {
        let more = format!(r#","Condition":{condition}"#);
        let access = bucket_policy(&statement("Allow", ANYBODY, "s3:*", ALL, &more));
        let mut bucket = Bucket::new(&access);
        bucket.object = Some(ObjectAccess {
            owner: UserId(1),
            acl: Some(&acl),
            tags: &tags,
        });
        bucket.details = Details {
            now: Timestamp::from_secs(1_700_000_000),
            prefix: Some("home/bob/x"),
            max_keys: Some(10),
            ..Details::default()
        };
        bucket.may(&caller, Action::GetObject)
    };
    for (condition, holds) in [
        (r#"{"StringEquals":{"s3:prefix":["a","home/bob/x"]}}"#, true),
        (r#"{"StringEquals":{"s3:prefix":"HOME/bob/x"}}"#, false),
        (r#"{"StringEquals":{"s3:prefix":"home/*"}}"#, false),
        (
            r#"{"StringEqualsIgnoreCase":{"s3:prefix":"HOME/bob/x"}}"#,
            true,
        ),
        (
            r#"{"StringNotEquals":{"s3:prefix":["a","home/bob/x"]}}"#,
            false,
        ),
        (r#"{"StringNotEquals":{"s3:delimiter":"/"}}"#, true),
        (
            r#"{"StringLike":{"s3:prefix":"home/${aws:username}/*"}}"#,
            true,
        ),
        (
            r#"{"StringLike":{"s3:prefix":"home/${aws:userid}/*"}}"#,
            false,
        ),
        (r#"{"StringNotLike":{"s3:prefix":"home/*"}}"#, false),
        (r#"{"StringLike":{"s3:delimiter":"*"}}"#, false),
        (r#"{"StringLikeIfExists":{"s3:delimiter":"x"}}"#, true),
        (r#"{"StringLikeIfExists":{"s3:prefix":"x"}}"#, false),
        (r#"{"NumericEquals":{"s3:max-keys":"10"}}"#, true),
        (r#"{"NumericNotEquals":{"s3:max-keys":10}}"#, false),
        (r#"{"NumericLessThan":{"s3:max-keys":10}}"#, false),
        (r#"{"NumericLessThanEquals":{"s3:max-keys":"10.0"}}"#, true),
        (r#"{"NumericGreaterThan":{"s3:signatureAge":"599"}}"#, true),
        (
            r#"{"NumericGreaterThanEquals":{"s3:TlsVersion":"1.2"}}"#,
            true,
        ),
        (
            r#"{"DateGreaterThan":{"aws:CurrentTime":"2023-01-01T00:00:00Z"}}"#,
            true,
        ),
        (
            r#"{"DateLessThan":{"aws:CurrentTime":"2023-01-01"}}"#,
            false,
        ),
        (
            r#"{"DateLessThanEquals":{"aws:EpochTime":"1700000000"}}"#,
            true,
        ),
        (
            r#"{"DateEquals":{"aws:CurrentTime":"2023-11-14T23:13:20+01:00"}}"#,
            true,
        ),
        (r#"{"Bool":{"aws:SecureTransport":"true"}}"#, true),
        (r#"{"Bool":{"aws:SecureTransport":"FALSE"}}"#, false),
        (
            r#"{"IpAddress":{"aws:SourceIp":["192.0.2.0/24","10.1.0.0/16"]}}"#,
            true,
        ),
        (r#"{"IpAddress":{"aws:SourceIp":"10.1.2.4"}}"#, false),
        (r#"{"IpAddress":{"aws:SourceIp":"::/0"}}"#, false),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, false),
        (
            r#"{"ArnEquals":{"aws:PrincipalArn":"arn:aws:iam::*:root"}}"#,
            true,
        ),
        (
            r#"{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/*"}}"#,
            false,
        ),
        (
            r#"{"ArnNotLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/*"}}"#,
            true,
        ),
        (
            r#"{"Null":{"s3:delimiter":"true","s3:prefix":"false"}}"#,
            true,
        ),
        (r#"{"Null":{"s3:prefix":"true"}}"#, false),
        (
            r#"{"StringEquals":{"s3:ExistingObjectTag/class":"Public"}}"#,
            true,
        ),
        (
            r#"{"StringEquals":{"s3:ExistingObjectTag/Class":"Public"}}"#,
            false,
        ),
        (
            r#"{"StringEquals":{"s3:RequestObjectTag/team":"a b","s3:RequestObjectTag/x":"1 2"}}"#,
            true,
        ),
        (
            r#"{"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["team","x","y"]}}"#,
            true,
        ),
        (
            r#"{"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":["team"]}}"#,
            false,
        ),
        (
            r#"{"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":["team"]}}"#,
            true,
        ),
        (
            r#"{"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":["none"]}}"#,
            false,
        ),
        (
            r#"{"ForAllValues:StringEquals":{"s3:delimiter":"x"}}"#,
            true,
        ),
        (
            r#"{"ForAnyValue:StringEquals":{"s3:delimiter":"x"}}"#,
            false,
        ),
        (
            r#"{"StringLike":{"aws:UserAgent":"boto3/*"},"StringEquals":{"aws:PrincipalType":"Account"}}"#,
            true,
        ),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, false),
        (
            r#"{"StringEquals":{"aws:username":"bob","aws:userid":"0000000000000002"}}"#,
            true,
        ),
    ] {
        assert_eq!(meets(condition), holds, "{condition}");
    }
}

/// A bucket policy as the property test makes it up.
#[derive(Clone, Debug)]
struct Sketch {
    allow: bool,
    principal: Option<u64>,
    actions: Vec<&'static str>,
    not_action: bool,
    resource: &'static str,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let principal = prop::option::of(1u64..4);
    let actions = prop::collection::vec(
        prop::sample::select(vec![
            "s3:GetObject",
            "s3:PutObject",
            "s3:Get*",
            "s3:*",
            "s3:ListBucket",
        ]),
        1..3,
    );
    let resource = prop::sample::select(vec![
        "arn:aws:s3:::data",
        "arn:aws:s3:::data/*",
        "arn:aws:s3:::data/a/*",
        "arn:aws:s3:::data/x",
        "*",
    ]);
    (any::<bool>(), principal, actions, any::<bool>(), resource).prop_map(
        |(allow, principal, actions, not_action, resource)| Sketch {
            allow,
            principal,
            actions,
            not_action,
            resource,
        },
    )
}

impl Sketch {
    fn json(&self) -> String {
        let effect = if self.allow { "Allow" } else { "Deny" };
        let principal = self.principal.map_or("\"*\"".into(), |id| {
            format!(r#"{{"AWS":"arn:aws:iam::{}:root"}}"#, UserId(id))
        });
        let action = if self.not_action {
            "NotAction"
        } else {
            "Action"
        };
        format!(
            r#"{{"Effect":"{effect}","Principal":{principal},"{action}":{:?},"Resource":"{}"}}"#,
            self.actions, self.resource
        )
    }

    /// Whether it speaks of the request, by the letter.
    fn speaks(&self, who: Option<u64>, action: Action, path: &str) -> bool {
        let like = |pattern: &str, text: &str| {
            pattern
                .strip_suffix('*')
                .map_or(pattern == text, |prefix| text.starts_with(prefix))
        };
        let name = action.to_string();
        let listed = self.actions.iter().any(|pattern| like(pattern, &name));
        let resource = self
            .resource
            .strip_prefix("arn:aws:s3:::")
            .unwrap_or(self.resource);
        (self.principal.is_none() || self.principal == who)
            && listed != self.not_action
            && like(resource, path)
    }
}

proptest! {
    #[test]
    fn is_what_the_letter_says(
        sketches in prop::collection::vec(sketch(), 1..6),
        who in prop::option::of(1u64..4),
        action in prop::sample::select(vec![Action::GetObject, Action::PutObject, Action::ListBucket]),
    ) {
        let statements: Vec<String> = sketches.iter().map(Sketch::json).collect();
        let text = format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
        let access = bucket_policy(&text);
        let caller = who.map_or_else(|| Caller::anonymous(ORIGIN), |id| by(user(id, "someone")));
        let path = if action.level() == Level::Object { "data/a/b" } else { "data" };
        let said = |allow: bool| {
            sketches.iter().any(|s| s.allow == allow && s.speaks(who, action, path))
        };
        let expected = !said(false) && (who == Some(1) || said(true));
        prop_assert_eq!(Bucket::new(&access).may(&caller, action), expected, "{}", text);
    }
}

/// A front whose client said nothing beside.
struct NoFacts;

impl Facts for NoFacts {
    fn fact(&self, _: Fact) -> Option<Cow<'_, str>> {
        None
    }

    fn says_page_length(&self) -> bool {
        false
    }
}

/// What a request means without saying it is compared, and is absent none the less.
#[test]
fn what_is_meant_but_not_said_is_absent_to_null_alone() {
    let caller = by(user(2, "bob")).with_facts(Arc::new(NoFacts));
    let meets = |condition: &str| {
        let more = format!(r#","Condition":{condition}"#);
        let access = bucket_policy(&statement("Allow", ANYBODY, "s3:*", ALL, &more));
        let mut bucket = Bucket::new(&access);
        bucket.details = Details {
            prefix: Some(""),
            max_keys: Some(1000),
            ..Details::default()
        };
        bucket.may(&caller, Action::ListBucket)
    };
    for (condition, holds) in [
        (r#"{"Null":{"s3:prefix":"true"}}"#, true),
        (r#"{"Null":{"s3:max-keys":"true"}}"#, true),
        (r#"{"Null":{"s3:max-keys":"false"}}"#, false),
        (r#"{"StringEquals":{"s3:prefix":""}}"#, true),
        (r#"{"StringNotLike":{"s3:prefix":"home/*"}}"#, true),
        (r#"{"StringLikeIfExists":{"s3:prefix":"home/*"}}"#, false),
        (r#"{"NumericGreaterThan":{"s3:max-keys":"10"}}"#, true),
        (r#"{"Null":{"s3:delimiter":"true"}}"#, true),
        // Nothing at all: a negation and IfExists hold, and so does "all of none".
        (r#"{"StringNotEquals":{"aws:SourceVpc":"vpc-1"}}"#, true),
        (
            r#"{"StringEqualsIfExists":{"aws:SourceVpc":"vpc-1"}}"#,
            true,
        ),
        (r#"{"StringEquals":{"aws:SourceVpc":"vpc-1"}}"#, false),
        (
            r#"{"ForAllValues:StringEquals":{"s3:RequestObjectTagKeys":"a"}}"#,
            true,
        ),
        (
            r#"{"ForAnyValue:StringEquals":{"s3:RequestObjectTagKeys":"a"}}"#,
            false,
        ),
        (
            r#"{"ForAnyValue:StringNotEquals":{"s3:RequestObjectTagKeys":"a"}}"#,
            false,
        ),
    ] {
        assert_eq!(meets(condition), holds, "{condition}");
    }
}

/// What only sessions of logins say: the door's own table of keys leaves it to this.
#[test]
fn sessions_of_logins_say_who_vouched() {
    let bounds = crate::Bounds {
        provider: Some("idp.example.org".into()),
        claims: vec![("idp.example.org:aud".into(), vec!["web".into()])],
        ..crate::Bounds::default()
    };
    let caller = Caller::by_token(Arc::new(user(2, "bob")), Arc::new(bounds), ORIGIN);
    let denies = |condition: &str| {
        let more = format!(r#","Condition":{condition}"#);
        let deny = statement("Deny", ANYBODY, "s3:*", ALL, &more);
        let access = bucket_policy(&deny);
        let asked = Bucket::new(&access).ask(&caller, Action::ListBucket);
        matches!(asked.reason, Reason::Statement { .. })
    };
    for (condition, holds) in [
        (
            r#"{"StringEquals":{"aws:FederatedProvider":"idp.example.org"}}"#,
            true,
        ),
        (
            r#"{"StringEquals":{"aws:FederatedProvider":"other.example.org"}}"#,
            false,
        ),
        (r#"{"StringEquals":{"idp.example.org:aud":"web"}}"#, true),
    ] {
        assert_eq!(denies(condition), holds, "{condition}");
    }
}

/// A claim that the session does not carry may have had any values, or none: whatever the operator, a
/// statement that denies by it denies, and one that allows by it allows nothing.
#[test]
fn conditions_on_a_claim_that_was_not_kept_fail_closed() {
    let caller = |unkept: &[&str]| {
        let bounds = crate::Bounds {
            provider: Some("idp.example.org".into()),
            claims: vec![
                ("idp.example.org:sub".into(), vec!["bob".into()]),
                ("idp.example.org:roles".into(), vec!["x".into(), "y".into()]),
            ],
            unkept: unkept.iter().map(|name| (*name).to_owned()).collect(),
            ..crate::Bounds::default()
        };
        Caller::by_token(Arc::new(user(2, "bob")), Arc::new(bounds), ORIGIN)
    };
    let says = |caller: &Caller, effect: &str, resource: &str, more: &str| {
        let access = bucket_policy(&statement(effect, ANYBODY, "s3:GetObject", resource, more));
        let asked = Bucket::new(&access).ask(caller, Action::GetObject);
        match asked.reason {
            Reason::Statement { effect, .. } => Some(effect),
            _ => None,
        }
    };
    let condition = |text: &str| format!(r#","Condition":{text}"#);
    let closed = caller(&["groups"]);
    for text in [
        r#"{"StringEquals":{"idp.example.org:groups":"a"}}"#,
        r#"{"StringNotEquals":{"idp.example.org:groups":"a"}}"#,
        r#"{"StringEqualsIfExists":{"idp.example.org:groups":"a"}}"#,
        r#"{"StringNotLikeIfExists":{"idp.example.org:groups":"a*"}}"#,
        r#"{"ForAnyValue:StringEquals":{"idp.example.org:groups":"a"}}"#,
        r#"{"ForAnyValue:StringNotEquals":{"idp.example.org:groups":"a"}}"#,
        r#"{"ForAllValues:StringEquals":{"idp.example.org:groups":["a","b"]}}"#,
        r#"{"ForAllValues:StringNotLike":{"idp.example.org:groups":"a*"}}"#,
        r#"{"Null":{"idp.example.org:groups":"true"}}"#,
        r#"{"Null":{"idp.example.org:groups":"false"}}"#,
        r#"{"NumericLessThan":{"idp.example.org:groups":"5"}}"#,
        r#"{"Bool":{"idp.example.org:groups":"true"}}"#,
        r#"{"StringEquals":{"idp.example.org:sub":"${idp.example.org:groups}"}}"#,
        r#"{"StringNotEquals":{"idp.example.org:sub":"${idp.example.org:groups}"}}"#,
        r#"{"StringLike":{"idp.example.org:sub":"b${idp.example.org:groups, 'ob'}"}}"#,
        r#"{"ForAllValues:StringNotLike":{"idp.example.org:roles":"${idp.example.org:groups}*"}}"#,
        r#"{"StringEquals":{"idp.example.org:groups":"a","idp.example.org:sub":"bob"}}"#,
    ] {
        let more = condition(text);
        let deny = says(&closed, "Deny", ALL, &more);
        assert_eq!(deny, Some(Effect::Deny), "{text}");
        assert_eq!(says(&closed, "Allow", ALL, &more), None, "{text}");
        // So with a session of a release that did not say what it left out.
        let all = caller(&[crate::ALL_CLAIMS_OMITTED]);
        assert_eq!(says(&all, "Deny", ALL, &more), Some(Effect::Deny), "{text}");
    }
    // What the missing claim cannot change is decided as ever.
    for (text, holds) in [
        (
            r#"{"StringEquals":{"idp.example.org:groups":"a","idp.example.org:sub":"ann"}}"#,
            false,
        ),
        (
            r#"{"StringEquals":{"idp.example.org:sub":"a${idp.example.org:groups}"}}"#,
            false,
        ),
        (
            r#"{"StringNotEquals":{"idp.example.org:sub":"a${idp.example.org:groups}"}}"#,
            true,
        ),
        (
            r#"{"StringEquals":{"idp.example.org:sub":["${idp.example.org:groups}","bob"]}}"#,
            true,
        ),
        (r#"{"StringEquals":{"idp.example.org:email":"a"}}"#, false),
        (r#"{"Null":{"idp.example.org:email":"true"}}"#, true),
        (
            r#"{"StringEquals":{"other.example.org:groups":"a"}}"#,
            false,
        ),
    ] {
        let more = condition(text);
        for (effect, is) in [("Deny", Effect::Deny), ("Allow", Effect::Allow)] {
            let said = says(&closed, effect, ALL, &more);
            assert_eq!(said, holds.then_some(is), "{effect} {text}");
        }
    }
    let denied = {
        let more = condition(r#"{"StringEquals":{"idp.example.org:groups":"a"}}"#);
        let access = bucket_policy(&statement("Deny", ANYBODY, "s3:GetObject", ALL, &more));
        Bucket::new(&access).ask(&closed, Action::GetObject).reason
    };
    assert!(
        denied
            .to_string()
            .contains("the claim \"idp.example.org:groups\"")
    );
    // Variables in resources.
    let home = "arn:aws:s3:::data/a/${idp.example.org:groups}";
    assert_eq!(says(&closed, "Deny", home, ""), Some(Effect::Deny));
    assert_eq!(says(&closed, "Allow", home, ""), None);
    let elsewhere = "arn:aws:s3:::data/none/${idp.example.org:groups}";
    assert_eq!(says(&closed, "Deny", elsewhere, ""), None);
}

/// A tag of a login may have several values: each counts, also where a variable stands for it.
#[test]
fn all_values_of_a_tag_count() {
    let bounds = |tag_keys| {
        let tags = [("team", "a"), ("team", "b"), ("site", "x"), ("site", "y")];
        let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned()));
        crate::Bounds {
            tags: tags.into(),
            tag_keys,
            ..crate::Bounds::default()
        }
    };
    let by = |tag_keys| {
        let bounds = Arc::new(bounds(tag_keys));
        Caller::by_token(Arc::new(user(2, "bob")), bounds, ORIGIN)
    };
    let says = |caller: &Caller, effect: &str, resource: &str, condition: &str| {
        let more = format!(r#","Condition":{condition}"#);
        let access = bucket_policy(&statement(effect, ANYBODY, "s3:GetObject", resource, &more));
        let asked = Bucket::new(&access).ask(caller, Action::GetObject);
        matches!(asked.reason, Reason::Statement { .. })
    };
    let caller = by(false);
    for (condition, holds) in [
        (r#"{"StringEquals":{"aws:PrincipalTag/team":"a"}}"#, true),
        (r#"{"StringEquals":{"aws:PrincipalTag/team":"b"}}"#, true),
        (r#"{"StringEquals":{"aws:PrincipalTag/team":"c"}}"#, false),
        (
            r#"{"StringNotEquals":{"aws:PrincipalTag/team":"b"}}"#,
            false,
        ),
        (
            r#"{"ForAllValues:StringEquals":{"aws:PrincipalTag/team":"a"}}"#,
            false,
        ),
        (
            r#"{"ForAllValues:StringEquals":{"aws:PrincipalTag/team":["a","b"]}}"#,
            true,
        ),
        // Every combination of the values of two variables is tried.
        (
            r#"{"StringEquals":{"aws:PrincipalTag/team":"${aws:PrincipalTag/team}"}}"#,
            true,
        ),
        (
            r#"{"StringEquals":{"aws:PrincipalTag/site":"${aws:PrincipalTag/site}",
                "s3:prefix":"${aws:PrincipalTag/team}"}}"#,
            false,
        ),
        (r#"{"Null":{"aws:TagKeys":"false"}}"#, false),
        (r#"{"StringEquals":{"sts:authentication":"false"}}"#, true),
    ] {
        for effect in ["Allow", "Deny"] {
            let found = says(&caller, effect, ALL, condition);
            assert_eq!(found, holds, "{effect} {condition}");
        }
    }
    let always = r#"{"StringEquals":{"aws:PrincipalTag/site":"y"}}"#;
    for (resource, holds) in [
        ("arn:aws:s3:::data/${aws:PrincipalTag/team}/b", true),
        (
            "arn:aws:s3:::data/${aws:PrincipalTag/team}/${aws:PrincipalTag/team}",
            false,
        ),
        ("arn:aws:s3:::data/*/${aws:PrincipalTag/team}", true),
        ("arn:aws:s3:::data/${aws:PrincipalTag/site}/*", false),
    ] {
        assert_eq!(says(&caller, "Deny", resource, always), holds, "{resource}");
    }
    // Where the administrator wants it, the session's tags count as a request's.
    let keys = r#"{"ForAnyValue:StringEquals":{"aws:TagKeys":"team"}}"#;
    assert!(!says(&caller, "Allow", ALL, keys));
    assert!(says(&by(true), "Allow", ALL, keys));
}

/// What a bucket's policy gives a session by its own ARN is not held to the session's policy; its scopes,
/// caveats and what the session's policy denies still count.
#[test]
fn a_bucket_policy_may_name_a_session() {
    let session = |policy: &str| {
        let text = statement("Allow", "", "s3:PutObject", ALL, "");
        let text = if policy.is_empty() {
            text
        } else {
            policy.to_owned()
        };
        let policy = Policy::parse(&text, PolicyKind::Identity, 20_000).expect("a policy");
        let bounds = crate::Bounds {
            limits: vec![crate::Limit::Policy {
                source: "the session's policy".into(),
                policy: Arc::new(policy),
            }],
            ..crate::Bounds::default()
        };
        let role = User {
            kind: crate::UserKind::Role {
                session: "night".into(),
            },
            ..user(2, "r")
        };
        let role = with_policy(role, &statement("Allow", "", "s3:*", ALL, ""), false);
        Caller::by_token(Arc::new(role), Arc::new(bounds), ORIGIN)
    };
    let may = |caller: &Caller, principal: &str| {
        let principal = format!(r#""Principal":{{"AWS":"arn:aws:{principal}"}},"#);
        let text = statement("Allow", &principal, "s3:GetObject", ALL, "");
        Bucket::new(&bucket_policy(&text)).may(caller, Action::GetObject)
    };
    let caller = session("");
    for (principal, allowed) in [
        ("sts:::assumed-role/r/night", true),
        ("iam:::assumed-role/r/night", true),
        ("sts:::assumed-role/r/day", false),
        ("iam:::role/r", false),
    ] {
        assert_eq!(may(&caller, principal), allowed, "{principal}");
    }
    let denied = session(&statement("Deny", "", "s3:GetObject", ALL, ""));
    assert!(!may(&denied, "sts:::assumed-role/r/night"));
}
