//! Many documents at once: whoever sends half of them keeps nobody else from being served.

use std::sync::Arc;

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
