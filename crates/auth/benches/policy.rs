//! What a decision costs, by how many statements a user has: `cargo bench -p dewar-auth`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and may fail"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use dewar_auth::{
    Action, Caller, Details, IDENTITY_POLICY_BYTES_MAX, Policy, PolicyKind, Resource, User,
    UserPolicies, UserPolicy, authorize,
};
use dewar_types::{TenantName, Timestamp, UserId};

const STATEMENTS_PER_POLICY: usize = 100;

fn caller(statements: usize) -> Caller {
    let mut policies = Vec::new();
    for policy in 0..statements / STATEMENTS_PER_POLICY {
        let all: Vec<String> = (0..STATEMENTS_PER_POLICY)
            .map(|at| {
                let user = policy * STATEMENTS_PER_POLICY + at;
                format!(
                    "{{\"Effect\":\"Allow\",\"Action\":\"s3:GetObject\",\
                     \"Resource\":\"arn:aws:s3:::atlas/user/u{user}/*\"}}"
                )
            })
            .collect();
        let text = format!(
            "{{\"Version\":\"2012-10-17\",\"Statement\":[{}]}}",
            all.join(",")
        );
        policies.push(UserPolicy {
            source: format!("policy {policy}").into(),
            policy: Arc::new(
                Policy::parse(&text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX).unwrap(),
            ),
            tenant_wide: true,
        });
    }
    let user = User::new(UserId(1), "ann", TenantName::default(), Timestamp(0));
    Caller::for_user(User {
        account: UserId(9),
        policies: UserPolicies::new(policies),
        ..user
    })
}

fn main() {
    let tenant = TenantName::default();
    println!("{:>10}  {:>10}  {:>10}", "statements", "allowed", "denied");
    for statements in [100, 1000, 10_000] {
        let caller = caller(statements);
        let mut cells = Vec::new();
        for key in [
            format!("user/u{}/x.root", statements - 1),
            "other/x.root".to_owned(),
        ] {
            let resource = Resource::Bucket {
                tenant: &tenant,
                bucket: "atlas",
                owner: UserId(7),
                access: None,
                key: Some(&key),
                object: None,
            };
            let rounds = 20_000;
            let began = Instant::now();
            for _ in 0..rounds {
                let decision = authorize(&caller, Action::GetObject, resource, &Details::default());
                black_box(decision.is_ok());
            }
            let nanos = began.elapsed().as_nanos() / rounds;
            cells.push(format!("{:.2} us", nanos as f64 / 1000.0));
        }
        println!("{statements:>10}  {:>10}  {:>10}", cells[0], cells[1]);
    }
}
