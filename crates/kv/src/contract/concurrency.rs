//! Many writers at once.

use std::sync::Arc;

use super::{adds, bytes, commit, count, get, puts};
use crate::{Batch, CommitError, Kv, KvRead, Precondition, Scan};

/// Runs `writers` tasks and waits for all.
async fn race<F>(kv: &Arc<dyn Kv>, writers: usize, task: impl Fn(usize, Arc<dyn Kv>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(task(writer, Arc::clone(kv))))
        .collect();
    for task in tasks {
        task.await.expect("a writer must not panic");
    }
}

/// After a conflict, the conflicting value can be read.
pub async fn conflict_is_visible_at_once(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("a", "0")])).await;
    race(&kv, 8, |writer, kv| async move {
        for round in 0..20 {
            let read = kv.get(b"a").await.expect("get");
            let batch = Batch {
                require: vec![Precondition::same(bytes("a"), &read)],
                puts: vec![(bytes("a"), bytes(format!("{writer}-{round}")))],
                ..Batch::default()
            };
            if let Err(error) = kv.commit(batch).await {
                assert!(matches!(error, CommitError::Conflict(0)), "{error:?}");
                let now = kv.get(b"a").await.expect("get");
                assert_ne!(now.value, read.value, "the winner is not visible");
            }
        }
    })
    .await;
}

/// Read, add one, write with a precondition, retry: nothing is lost and nothing counted twice.
pub async fn concurrent_increments_are_exact(kv: Arc<dyn Kv>) {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 25;
    race(&kv, WRITERS, |_, kv| async move {
        for _ in 0..ROUNDS {
            loop {
                let read = kv.get(b"n").await.expect("get");
                let n: u64 = match &read.value {
                    Some(value) => String::from_utf8_lossy(value).parse().expect("a number"),
                    None => 0,
                };
                let batch = Batch {
                    require: vec![Precondition::same(bytes("n"), &read)],
                    puts: vec![(bytes("n"), bytes(format!("{}", n + 1)))],
                    ..Batch::default()
                };
                match kv.commit(batch).await {
                    Ok(_) => break,
                    Err(CommitError::Conflict(0)) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    })
    .await;
    let expected = format!("{}", WRITERS * ROUNDS);
    assert_eq!(get(&*kv, "n").await, Some(expected));
}

/// Many writers fill a counter exactly up to its limit.
pub async fn limits_are_exact(kv: Arc<dyn Kv>) {
    const LIMIT: i64 = 100;
    race(&kv, 16, |writer, kv| async move {
        for round in 0..10 {
            let mut batch = adds(&[("used", 3)]);
            batch
                .puts
                .push((bytes(format!("k/{writer}/{round}")), bytes("v")));
            batch.require.push(Precondition::AtMost {
                counter: bytes("used"),
                max: LIMIT - 3,
            });
            match kv.commit(batch).await {
                Ok(_) | Err(CommitError::Conflict(0)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(count(&*kv, "used").await, Some(99));
    // What goes makes room.
    commit(&kv, adds(&[("used", -3)])).await;
    let mut batch = adds(&[("used", 4)]);
    batch.require.push(Precondition::AtMost {
        counter: bytes("used"),
        max: LIMIT - 4,
    });
    commit(&kv, batch).await;
    assert_eq!(count(&*kv, "used").await, Some(100));
}

/// Adds of many writers sum up without any conflict.
pub async fn concurrent_adds_are_exact(kv: Arc<dyn Kv>) {
    race(&kv, 16, |writer, kv| async move {
        for round in 0..25 {
            let mut batch = adds(&[("total", 1), (&format!("of-{writer}"), 2)]);
            batch
                .puts
                .push((bytes(format!("k/{writer}/{round}")), bytes("v")));
            commit(&kv, batch).await;
        }
    })
    .await;
    assert_eq!(count(&*kv, "total").await, Some(400));
    assert_eq!(count(&*kv, "of-7").await, Some(50));
    let page = kv
        .scan(Scan {
            from: b"k/",
            to: b"k0",
            limit: 1000,
            reverse: false,
        })
        .await
        .expect("scan");
    assert_eq!(page.pairs.len(), 400);
}

/// Money moves between accounts while auditors add it up on snapshots and in single scans.
pub async fn transfers_keep_the_sum(kv: Arc<dyn Kv>) {
    const ACCOUNTS: usize = 8;
    let open = Batch {
        puts: (0..ACCOUNTS)
            .map(|i| (bytes(format!("acc/{i}")), bytes("100")))
            .collect(),
        ..Batch::default()
    };
    commit(&kv, open).await;
    race(&kv, 8, |writer, kv| async move {
        for round in 0..30 {
            if writer < 2 {
                assert_eq!(sum(&*kv.snapshot()).await, 100 * ACCOUNTS as i64);
                assert_eq!(sum(&*kv).await, 100 * ACCOUNTS as i64);
                tokio::task::yield_now().await;
                continue;
            }
            let view = kv.snapshot();
            let from = format!("acc/{}", (writer + round) % ACCOUNTS);
            let to = format!("acc/{}", (writer * 3 + round * 5 + 1) % ACCOUNTS);
            if from == to {
                continue;
            }
            let (a, b) = (
                view.get(from.as_bytes()).await.expect("get"),
                view.get(to.as_bytes()).await.expect("get"),
            );
            let number = |value: &Option<bytes::Bytes>| -> i64 {
                let value = value.as_ref().expect("accounts stay");
                String::from_utf8_lossy(value).parse().expect("a number")
            };
            let batch = Batch {
                require: vec![
                    Precondition::same(bytes(&from), &a),
                    Precondition::same(bytes(&to), &b),
                ],
                puts: vec![
                    (bytes(&from), bytes(format!("{}", number(&a.value) - 1))),
                    (bytes(&to), bytes(format!("{}", number(&b.value) + 1))),
                ],
                ..Batch::default()
            };
            match kv.commit(batch).await {
                Ok(_) | Err(CommitError::Conflict(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(sum(&*kv).await, 100 * ACCOUNTS as i64);
}

async fn sum<R: KvRead + ?Sized>(kv: &R) -> i64 {
    let page = kv
        .scan(Scan {
            from: b"acc/",
            to: b"acc0",
            limit: 100,
            reverse: false,
        })
        .await
        .expect("scan");
    page.pairs
        .iter()
        .map(|(_, value)| -> i64 { String::from_utf8_lossy(value).parse().expect("a number") })
        .sum()
}
