//! Logins with tokens: the claims that their sessions and macaroons keep.

use std::sync::Arc;

use dewar_auth::token::{Claims, Issuer, MappingRule, MappingTarget, VerifiedToken};
use dewar_auth::{Caller, TokenFacts};
use dewar_catalog::{Tenant, keys as catalog};
use dewar_types::{ErrorKind, Result, TenantId, TenantName, Timestamp};

use super::tests::{ALLOW, issuer};
use super::{
    AssumeRole, IssuedSession, MacaroonRequest, NewIssuer, NewUser, PolicyHolder, PolicyHolderKind,
    RoleChange,
};
use crate::record::POLICY;
use crate::tests::{Rig, TestBucket, origin, run};

const TRUST_LOGINS: &str = r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow",
    "Action":"sts:AssumeRoleWithWebIdentity","Principal":{"Federated":"idp.example.org"},
    "Condition":{"StringLike":{"idp.example.org:sub":"*"}}}}"#;

/// A bucket of ann's that is open to everybody but members of one group.
const NOT_SUSPENDED: &str = r#"{"Version":"2012-10-17","Statement":[
    {"Sid":"a","Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/*"},
    {"Sid":"d","Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::first/*",
     "Condition":{"ForAnyValue:StringEquals":{"idp.example.org:groups":"/suspended"}}}]}"#;

/// Accounts with an issuer, a role that its users may become, and a bucket of ann's.
struct Logins {
    rig: Rig,
    issuer: Arc<Issuer>,
    first: TestBucket,
}

impl Logins {
    async fn new(seed: u64, rules: Vec<MappingRule>) -> Self {
        let rig = Rig::new(seed).await;
        let (accounts, none) = (&rig.accounts, TenantName::default());
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
        let first = rig
            .bucket(&Tenant::default_tenant(), "first", &rig.ann)
            .await;
        Self { rig, issuer, first }
    }

    async fn set_policy(&mut self, text: Option<&str>) {
        self.rig.set_policy(&mut self.first, text).await;
    }

    async fn session(&self, token: &VerifiedToken) -> Result<IssuedSession> {
        let accounts = &self.rig.accounts;
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
        let accounts = &self.rig.accounts;
        let key = accounts.open_session(given.token.reveal()).await;
        Caller::by_access_key(&key.expect("opens"), origin())
    }

    /// A macaroon of who comes with the token itself.
    async fn macaroon(&self, token: &VerifiedToken) -> Result<String> {
        let accounts = &self.rig.accounts;
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

    fn may_read(&self, caller: &Caller) -> bool {
        self.first.may_read(caller)
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
        let mut logins = Logins::new(31, Vec::new()).await;
        logins.set_policy(Some(NOT_SUSPENDED)).await;
        for groups in [1, 120] {
            let suspended = login(groups, &["/suspended"], 0);
            let caller = logins.with_session(&suspended).await;
            assert!(!logins.may_read(&caller), "{groups} groups, suspended");
            let caller = logins.with_session(&login(groups, &[], 0)).await;
            assert!(logins.may_read(&caller), "{groups} groups");
        }
        // What nothing asks for does not count.
        let caller = logins.with_session(&login(100, &[], 8000)).await;
        assert!(logins.may_read(&caller));
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
        let mut logins = Logins::new(32, Vec::new()).await;
        let (large, small) = (login(120, &[], 0), login(2, &[], 0));
        let before = logins.with_session(&large).await;
        let complete = logins.with_session(&small).await;
        logins.set_policy(Some(NOT_SUSPENDED)).await;
        assert!(!logins.may_read(&before), "nobody knows its groups");
        assert!(logins.may_read(&complete), "all of its claims are there");
        let after = logins.with_session(&large).await;
        assert!(logins.may_read(&after));
        // Names that are not asked for any more take no room.
        logins.set_policy(None).await;
        logins.session(&login(200, &[], 0)).await.expect("given");
        // Trusts name claims, too.
        let trust = RoleChange {
            trust: Some(TRUST_LOGINS.replace(":sub\":\"*", ":groups\":\"/cms*")),
            ..RoleChange::default()
        };
        let accounts = &logins.rig.accounts;
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
        let (rig, accounts) = (&logins.rig, &logins.rig.accounts);
        let ranks = async || {
            let role = accounts
                .as_role(&TenantName::default(), "ann/reader", "s")
                .await;
            let role = role.expect("read").expect("there");
            let named = accounts.named_claims(&logins.issuer, &role).await;
            let named = named.expect("read");
            ["groups", "profile", "own"].map(|name| named.rank_of(name))
        };
        use crate::claims::ClaimRank::{Optional, Required, Unnamed};
        assert_eq!(ranks().await, [Unnamed, Unnamed, Unnamed]);
        let own = names_claims(["own".to_owned()], "*", "");
        let none = TenantName::default();
        let made = accounts.make_policy(&none, "ann/p", "/", None, &own).await;
        made.expect("made");
        assert_eq!(ranks().await, [Unnamed, Unnamed, Required]);

        // A bucket of another account: its policy counts as far as there is room for it.
        let mut theirs = rig
            .bucket(&Tenant::default_tenant(), "theirs", &rig.bob)
            .await;
        let everybody = r#""Principal":"*","#;
        let text = names_claims(["profile".to_owned()], "arn:aws:s3:::theirs/*", everybody);
        rig.set_policy(&mut theirs, Some(&text)).await;
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
        let tenant = accounts.catalog.tenant(&other).await.expect("read");
        let tenant = tenant.expect("there");
        let mut elsewhere = rig.bucket(&tenant, "theirs", &eve).await;
        let text = names_claims(["groups".to_owned()], "arn:aws:s3:::theirs/*", everybody);
        rig.set_policy(&mut elsewhere, Some(&text)).await;
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
        let accounts = &logins.rig.accounts;
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
                rank != crate::claims::ClaimRank::Unnamed
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
        let mut logins = Logins::new(33, rules).await;
        logins.set_policy(Some(NOT_SUSPENDED)).await;
        let accounts = &logins.rig.accounts;
        let comes_with = async |text: &str| accounts.bearer_of(text, origin()).await;
        for groups in [1, 120] {
            let text = logins.macaroon(&login(groups, &["/suspended"], 3900)).await;
            let caller = comes_with(&text.expect("given")).await.expect("taken");
            assert!(!logins.may_read(&caller), "{groups} groups, suspended");
            let text = logins.macaroon(&login(groups, &[], 3900)).await;
            let caller = comes_with(&text.expect("given")).await.expect("taken");
            assert!(logins.may_read(&caller), "{groups} groups");
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
