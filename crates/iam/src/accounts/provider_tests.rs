//! Logins by providers that accounts let in for themselves: what they become, and what they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use aws_lc_rs::rand as chance;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use dewar_auth::Secret;
use dewar_auth::token::Issuer;
use dewar_env::BoxFuture;
use dewar_types::{ErrorKind, Result, TenantName, UserId};

use super::{
    Accounts, AssumeRole, FederationConfig, FetchKeys, IssuedSession, NewIssuer, NewUser,
    ProviderChange, ProviderOwner, RevokeTarget, RoleChange, WebIdentity,
};
use crate::tests::{Rig, origin, run};

const URL: &str = "https://idp.example.org/realms/lab";
const NAME: &str = "idp.example.org/realms/lab";
const AUDIENCE: &str = "https://storage.example.org";

fn b64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=chunk.len()].copy_from_slice(chunk);
        let word = u32::from_be_bytes(word);
        for place in 0..=chunk.len() {
            let digit = (word >> (18 - 6 * place)) & 63;
            text.push(char::from(DIGITS[digit as usize]));
        }
    }
    text
}

/// An identity provider.
struct Idp {
    pair: EcdsaKeyPair,
    asked: AtomicUsize,
}

impl Idp {
    fn new() -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        Self {
            pair: pair.expect("makes a key"),
            asked: AtomicUsize::new(0),
        }
    }

    /// What it signs for a user whose tokens are for `audience`.
    fn token(&self, accounts: &Accounts, audience: &str) -> String {
        let now = accounts.catalog.env().clock.now().secs();
        let head = r#"{"alg":"ES256","kid":"k"}"#;
        let tags = r#""https://aws.amazon.com/tags":{"principal_tags":{"team":["a","b"]}}"#;
        let claims = format!(
            r#"{{"iss":"{URL}","sub":"bob","aud":"{audience}","iat":{now},"exp":{},{tags}}}"#,
            now + 3600
        );
        let message = format!("{}.{}", b64(head.as_bytes()), b64(claims.as_bytes()));
        let signature = self
            .pair
            .sign(&chance::SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", b64(signature.expect("signs").as_ref()))
    }
}

impl FetchKeys for Idp {
    fn fetch<'a>(&'a self, _: &'a Issuer) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async {
            self.asked.fetch_add(1, Relaxed);
            let point = &self.pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let set = format!(
                r#"{{"keys":[{{"kty":"EC","kid":"k","crv":"P-256","x":"{}","y":"{}"}}]}}"#,
                b64(x),
                b64(y)
            );
            Ok(set.into_bytes())
        })
    }
}

async fn become_role(
    accounts: &Accounts,
    idp: &Idp,
    role: &str,
    audience: &str,
) -> Result<IssuedSession> {
    let asked = AssumeRole {
        role: role.to_owned(),
        session: "test".into(),
        ..AssumeRole::default()
    };
    let web = WebIdentity {
        token: Secret::new(idp.token(accounts, audience)),
        asked,
    };
    accounts.assume_role_with_web_identity(origin(), web).await
}

async fn root(accounts: &Accounts, name: &str) -> (ProviderOwner, UserId) {
    let new = NewUser {
        name: name.into(),
        ..NewUser::default()
    };
    let id = accounts.make_user(new).await.expect("made").id;
    let tenant = TenantName::default();
    let owner = ProviderOwner {
        tenant,
        account: Some(id),
    };
    (owner, id)
}

async fn role(accounts: &Accounts, name: &str, condition: &str) {
    let trust = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Principal":{{"Federated":"{NAME}"}},
            "Action":["sts:AssumeRoleWithWebIdentity","sts:TagSession"],"Condition":{condition}}}}}"#
    );
    let change = RoleChange {
        trust: Some(trust),
        ..RoleChange::default()
    };
    let tenant = TenantName::default();
    let made = accounts.make_role(&tenant, name, "/", change).await;
    made.expect(name);
}

fn open() -> FederationConfig {
    FederationConfig {
        provider_hosts: vec!["*.example.org".into()],
        audiences: vec![AUDIENCE.into()],
        ..FederationConfig::default()
    }
}

fn kind<T>(outcome: Result<T>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

/// Talks while keys are kept.
async fn kept(accounts: &Accounts, idp: &Arc<Idp>, talk: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = accounts.keep_keys(Arc::clone(idp) as _, Duration::from_secs(10)) => {}
        () = talk => {}
    }
}

#[test]
fn a_provider_vouches_for_roles_of_its_own_account_alone() {
    run(async {
        let rig = Rig::new(41).await;
        let accounts = &rig.accounts;
        accounts.set_federation(open());
        let (ann, ann_id) = root(accounts, "one").await;
        let (_, bob_id) = root(accounts, "two").await;
        let condition = format!(r#"{{"StringEquals":{{"{NAME}:sub":"bob"}}}}"#);
        for name in ["one/r", "two/r", "r"] {
            role(accounts, name, &condition).await;
        }
        let made = accounts.make_provider(&ann, URL, vec!["portal".into()], Vec::new());
        made.await.expect("made");
        let idp = Arc::new(Idp::new());
        let of = |id: UserId| format!("arn:aws:iam::{id}:role/r");
        let talk = async {
            let given = become_role(accounts, &idp, &of(ann_id), "portal").await;
            let given = given.expect("given");
            let token = given.token.reveal();
            let key = accounts.open_session(token).await.expect("opens");
            let bounds = key.bounds.expect("a session");
            assert_eq!(bounds.tags.len(), 2, "all values of a tag count");
            assert!(bounds.own_provider, "it is no issuer of the administrator");

            // Nobody else's roles, nor the tenant's; no other audience; no door.
            for (role, audience) in [
                (of(bob_id), "portal"),
                ("arn:aws:iam:::role/r".to_owned(), "portal"),
                (of(ann_id), AUDIENCE),
            ] {
                let refused = become_role(accounts, &idp, &role, audience).await;
                assert_eq!(kind(refused), Some(ErrorKind::Unauthenticated), "{role}");
            }
            let bearer = accounts
                .bearer_of(&idp.token(accounts, "portal"), origin())
                .await;
            assert_eq!(kind(bearer), Some(ErrorKind::Unauthenticated));
            assert_eq!(idp.asked.load(Relaxed), 1, "keys were fetched once");

            // Revoking what came from an issuer means the providers of that name too.
            accounts
                .revoke(&RevokeTarget::Issuer(URL.into()))
                .await
                .expect("revoked");
            let opened = accounts.open_session(token).await;
            assert_eq!(kind(opened), Some(ErrorKind::Unauthenticated));
            let again = become_role(accounts, &idp, &of(ann_id), "portal").await;
            assert_eq!(kind(again), None);
        };
        kept(accounts, &idp, talk).await;
    });
}

#[test]
fn sessions_end_with_their_provider_and_with_a_ban_of_its_issuer() {
    run(async {
        let rig = Rig::new(42).await;
        let accounts = &rig.accounts;
        accounts.set_federation(open());
        let (ann, id) = root(accounts, "one").await;
        let condition = format!(r#"{{"StringEquals":{{"{NAME}:sub":"bob"}}}}"#);
        role(accounts, "one/r", &condition).await;
        let made = accounts.make_provider(&ann, URL, Vec::new(), Vec::new());
        made.await.expect("made");
        let idp = Arc::new(Idp::new());
        let arn = format!("arn:aws:iam::{id}:role/r");
        let talk = async {
            // Without client ids it takes what is for this service.
            let given = become_role(accounts, &idp, &arn, AUDIENCE).await;
            let given = given.expect("given");
            let opens = || accounts.open_session(given.token.reveal());
            opens().await.expect("opens");
            let other = become_role(accounts, &idp, &arn, "https://other.example.org").await;
            assert_eq!(kind(other), Some(ErrorKind::Unauthenticated));

            // An issuer that the administrator switched off is off for everybody.
            let issuer = NewIssuer {
                url: URL.into(),
                audiences: vec!["x".into()],
                ..NewIssuer::default()
            };
            accounts.add_issuer(issuer, None).await.expect("added");
            opens().await.expect("opens");
            let off = accounts.set_issuer_disabled(URL, true).await;
            off.expect("switched off");
            assert_eq!(kind(opens().await), Some(ErrorKind::Unauthenticated));
            let refused = become_role(accounts, &idp, &arn, AUDIENCE).await;
            assert_eq!(kind(refused), Some(ErrorKind::Unauthenticated));
            accounts.remove_issuer(URL).await.expect("removed");
            opens().await.expect("opens");

            // So is a host that the administrator takes off the list, until it is there again.
            let hosts = vec!["*.example.net".into(), "other.example.org".into()];
            accounts.set_federation(FederationConfig {
                provider_hosts: hosts,
                ..open()
            });
            assert_eq!(kind(opens().await), Some(ErrorKind::Unauthenticated));
            let refused = become_role(accounts, &idp, &arn, AUDIENCE).await;
            assert_eq!(kind(refused), Some(ErrorKind::Unauthenticated));
            accounts.set_federation(open());
            opens().await.expect("opens");

            accounts.remove_provider(&ann, NAME).await.expect("removed");
            assert_eq!(kind(opens().await), Some(ErrorKind::Unauthenticated));
            let refused = become_role(accounts, &idp, &arn, AUDIENCE).await;
            assert_eq!(kind(refused), Some(ErrorKind::Unauthenticated));
        };
        kept(accounts, &idp, talk).await;
    });
}

#[test]
fn providers_are_closed_by_default_and_bounded() {
    run(async {
        let rig = Rig::new(43).await;
        let accounts = &rig.accounts;
        let (ann, _) = root(accounts, "one").await;
        let make = |url: String| {
            let (accounts, ann) = (&accounts, &ann);
            async move {
                kind(
                    accounts
                        .make_provider(ann, &url, Vec::new(), Vec::new())
                        .await,
                )
            }
        };
        assert_eq!(make(URL.into()).await, Some(ErrorKind::InvalidArgument));
        accounts.set_federation(open());
        for url in [
            "http://idp.example.org",
            "https://idp.example.net",
            "http://localhost:9001/metrics",
            "https://127.0.0.1",
        ] {
            assert_eq!(
                make(url.into()).await,
                Some(ErrorKind::InvalidArgument),
                "{url}"
            );
        }
        assert_eq!(make(URL.into()).await, None);
        let slash = format!("{URL}/");
        assert_eq!(make(slash).await, Some(ErrorKind::AlreadyExists));
        for n in 1..100 {
            let url = format!("https://idp.example.org/{n}");
            assert_eq!(make(url).await, None, "{n}");
        }
        let further = "https://idp.example.org/100".to_owned();
        assert_eq!(make(further).await, Some(ErrorKind::Quota));
        for n in 0..100 {
            let add = ProviderChange::AddClientId(format!("client-{n}"));
            let added = accounts.change_provider(&ann, NAME, add).await;
            assert_eq!(kind(added), None, "{n}");
        }
        let add = ProviderChange::AddClientId("one more".into());
        let added = accounts.change_provider(&ann, NAME, add).await;
        assert_eq!(kind(added), Some(ErrorKind::Quota));
    });
}

#[test]
fn trust_in_all_users_of_a_client_is_the_administrators_to_allow() {
    run(async {
        let rig = Rig::new(44).await;
        let accounts = &rig.accounts;
        root(accounts, "one").await;
        let trust = |condition: &str| {
            let text = format!(
                r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow",
                    "Principal":{{"Federated":"{NAME}"}},"Action":"sts:AssumeRoleWithWebIdentity",
                    "Condition":{{"StringEquals":{{{condition}}}}}}}}}"#
            );
            RoleChange {
                trust: Some(text),
                ..RoleChange::default()
            }
        };
        let make = |name: &'static str, condition: String| {
            let change = trust(&condition);
            async move {
                let tenant = TenantName::default();
                kind(accounts.make_role(&tenant, name, "/", change).await)
            }
        };
        let client = || format!(r#""{NAME}:azp":"portal""#);
        let refused = Some(ErrorKind::MalformedPolicy);
        assert_eq!(make("one/a", client()).await, refused);
        assert_eq!(
            make("one/b", r#""aws:TagKeys":"team""#.into()).await,
            refused
        );
        // What the provider says about somebody tells apart.
        assert_eq!(
            make("one/c", r#""aws:RequestTag/team":"a""#.into()).await,
            None
        );
        accounts.set_federation(FederationConfig {
            client_trust: true,
            ..open()
        });
        assert_eq!(make("one/a", client()).await, None);
        let issuer = format!(r#""{NAME}:iss":"{URL}""#);
        assert_eq!(make("one/d", issuer).await, refused);
    });
}

/// Answers for the administrator's issuer, and never for another.
struct Slow(Idp);

impl FetchKeys for Slow {
    fn fetch<'a>(&'a self, issuer: &'a Issuer) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            if issuer.url != URL {
                std::future::pending::<()>().await;
            }
            self.0.fetch(issuer).await
        })
    }
}

#[test]
fn slow_providers_leave_places_to_others() {
    run(async {
        let rig = Rig::new(45).await;
        let accounts = &rig.accounts;
        accounts.set_federation(open());
        let mut owners = Vec::new();
        for name in ["one", "two"] {
            owners.push(root(accounts, name).await);
        }
        for (owner, _) in &owners {
            for n in 0..90 {
                let url = format!("https://idp.example.org/{n}");
                let made = accounts.make_provider(owner, &url, Vec::new(), Vec::new());
                made.await.expect("made");
            }
        }
        let issuer = NewIssuer {
            url: URL.into(),
            audiences: vec![AUDIENCE.into()],
            ..NewIssuer::default()
        };
        let fetcher = Arc::new(Slow(Idp::new()));
        let talk = async {
            let waits = |owner: &ProviderOwner, n: usize| {
                let field = owner.field();
                async move {
                    let head = b64(br#"{"alg":"ES256","kid":"k"}"#);
                    let claims = format!(r#"{{"iss":"https://idp.example.org/{n}"}}"#);
                    let token = format!("{head}.{}.AAAA", b64(claims.as_bytes()));
                    let begun = tokio::time::Instant::now();
                    let proven = accounts.prove_for(&field, &token).await;
                    assert!(proven.expect("read").is_err(), "no keys");
                    usize::from(begun.elapsed() >= Duration::from_secs(1))
                }
            };
            let (first, second) = (&owners[0].0, &owners[1].0);
            let all = async {
                let ones = (0..90).map(|n| waits(first, n));
                let twos = (0..90).map(|n| waits(second, n));
                let ones = futures_util::future::join_all(ones);
                let twos = futures_util::future::join_all(twos);
                let (ones, twos) = tokio::join!(ones, twos);
                (ones.iter().sum::<usize>(), twos.iter().sum::<usize>())
            };
            let administrators = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                accounts.add_issuer(issuer, None).await.expect("added");
                let token = fetcher.0.token(accounts, AUDIENCE);
                let proven = accounts.prove(&token).await.expect("read");
                proven.expect("a place was free");
            };
            let (counts, ()) = tokio::join!(all, administrators);
            assert_eq!(counts, (16, 8), "requests that waited");
        };
        tokio::select! {
            biased;
            () = accounts.keep_keys(Arc::clone(&fetcher) as _, Duration::from_secs(10)) => {}
            () = talk => {}
        }
    });
}
