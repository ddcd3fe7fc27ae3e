//! Many documents at once: whoever sends half of them keeps nobody else from being served.

use std::sync::Arc;

use dewar_auth::AcceptedConnection;
use dewar_auth::fair_share::ShareOwner;

use crate::client::TestClient;
use crate::fixture::{fixture, talk};

/// A document as large as any may be.
const BYTES: usize = 4 * 1024 * 1024;
/// As many as would fill the whole room.
const MANY: usize = 33;

/// Begins to send many large documents, and gives how many were refused at once.
async fn crowd(client: &TestClient, target: &'static str) -> usize {
    let client = Arc::new(client.clone());
    let body = Arc::new(vec![b' '; BYTES]);
    let mut calls = Vec::new();
    for _ in 0..MANY {
        let (client, body) = (Arc::clone(&client), Arc::clone(&body));
        calls.push(tokio::spawn(async move {
            let (request, _) = client.post(target).body(&*body).signed();
            client.send_begun(request).await.status
        }));
    }
    // Each of them has had its turn then.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let mut refused = 0;
    for call in calls {
        if call.is_finished() {
            assert_eq!(call.await.expect("no panic"), 503);
            refused += 1;
        }
    }
    refused
}

async fn deletes(client: &TestClient, bucket: &str) -> u16 {
    let text = "<Delete><Object><Key>none</Key></Object></Delete>";
    let call = client.post(&format!("/{bucket}?delete")).body(text);
    call.send().await.status
}

#[test]
fn half_sent_documents_of_one_account_leave_room_for_others() {
    talk(async {
        let fixture = fixture().await;
        fixture.stranger.put("/theirs").send().await.is(200);
        let refused = crowd(&fixture.owner, "/bucket?delete").await;
        assert_eq!(deletes(&fixture.stranger, "theirs").await, 200);
        let form = "Action=GetCallerIdentity&Version=2011-06-15";
        let kind = "application/x-www-form-urlencoded; charset=utf-8";
        let stranger = fixture.stranger.of_service("sts");
        let who = stranger.post("/").body(form);
        who.header("content-type", kind).send().await.is(200);
        // A share is a quarter of 128 MiB.
        assert_eq!(MANY - refused, 8);
        assert_eq!(deletes(&fixture.owner, "bucket").await, 503);
    });
}

/// Calls of the IAM API are read before anybody knows whose they are.
#[test]
fn half_sent_calls_of_one_address_leave_room_for_others() {
    talk(async {
        let fixture = fixture().await;
        let kind = "application/x-www-form-urlencoded; charset=utf-8";
        let form = "Action=GetCallerIdentity&Version=2011-06-15";
        let far = fixture.nobody.over_tls([192, 0, 2, 66], "1.3");
        let long = format!("{form}&Padding={}", "a".repeat(60_000));
        let mut calls = Vec::new();
        for _ in 0..700 {
            let (far, long) = (far.clone(), long.clone());
            calls.push(tokio::spawn(async move {
                let call = far.post("/").header("content-type", kind).body(long);
                let (request, _) = call.signed();
                far.send_begun(request).await.status
            }));
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(calls.iter().any(tokio::task::JoinHandle::is_finished));
        let near = fixture.owner.over_tls([192, 0, 2, 7], "1.3");
        let near = near.of_service("sts");
        let who = near.post("/").header("content-type", kind).body(form);
        who.send().await.is(200);
        assert_eq!(deletes(&fixture.owner, "bucket").await, 200);
    });
}

/// A connection whose client has as many as are free for others.
struct Excess;

impl AcceptedConnection for Excess {
    fn authenticated(&self, _: &ShareOwner) -> bool {
        false
    }

    fn is_crowded(&self) -> bool {
        false
    }
}

#[test]
fn connections_beyond_the_share_of_an_account_are_told_to_slow_down() {
    talk(async {
        let fixture = fixture().await;
        let owner = fixture.owner.on(Arc::new(Excess));
        let put = owner.put("/bucket/key").body("x").send().await;
        let put = put.refused_with(503, "SlowDown");
        assert_eq!(put.header("retry-after"), Some("1"));
        let kind = "application/macaroon-request";
        let macaroon = owner.post("/bucket/key").header("content-type", kind);
        macaroon.body("{}").send().await.is(503);
        for service in ["iam", "sts"] {
            let kind = "application/x-www-form-urlencoded";
            let owner = owner.of_service(service);
            let call = owner.post("/").header("content-type", kind);
            let told = call.body("Action=None").send().await.is(503);
            assert_eq!(told.code(), "Throttling");
        }
        // Of nobody there is no account whose share it would be.
        let nobody = fixture.nobody.on(Arc::new(Excess));
        nobody.get("/bucket/key").send().await.is(403);
        fixture.owner.get("/bucket/key").send().await.is(404);
    });
}
