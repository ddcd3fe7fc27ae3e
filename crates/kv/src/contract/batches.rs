//! Preconditions, counters, limits and the change log.

use std::sync::Arc;

use super::{adds, bytes, commit, conflict, count, deletes, get, puts};
use crate::{BATCH_BYTES_MAX, Batch, CommitError, Kv, Precondition};
use dewar_types::ErrorKind;

fn requiring(require: Vec<Precondition>, mut batch: Batch) -> Batch {
    batch.require = require;
    batch
}

fn empty(from: &str, to: &str) -> Precondition {
    Precondition::Empty {
        from: bytes(from),
        to: bytes(to),
    }
}

/// A batch with a failed precondition changes nothing, and the error says which one failed.
pub async fn failed_precondition_changes_nothing(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("a", "1"), ("b", "1")])).await;
    let read = kv.get(b"a").await.expect("get");
    commit(&kv, puts(&[("a", "2")])).await;
    let batch = Batch {
        require: vec![
            Precondition::absent(bytes("z")),
            Precondition::same(bytes("a"), &read),
        ],
        puts: vec![(bytes("c"), bytes("1"))],
        deletes: vec![bytes("b")],
        adds: vec![(bytes("n"), 1)],
        log: vec![bytes("never")],
        carry: None,
        ..Batch::default()
    };
    assert_eq!(conflict(&kv, batch).await, 1);
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("2"));
    assert_eq!(get(&*kv, "b").await.as_deref(), Some("1"));
    assert_eq!(get(&*kv, "c").await, None);
    assert_eq!(count(&*kv, "n").await, None);
    assert!(kv.changes(0, 10).await.expect("changes").is_empty());
}

/// `Same` compares the value, so it holds for a key that was changed and changed back.
pub async fn same_is_about_the_value(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("a", "1")])).await;
    let read = kv.get(b"a").await.expect("get");
    commit(&kv, puts(&[("other", "1")])).await;
    commit(
        &kv,
        requiring(
            vec![Precondition::same(bytes("a"), &read)],
            puts(&[("b", "1")]),
        ),
    )
    .await;
    commit(&kv, puts(&[("a", "2")])).await;
    let stale = requiring(
        vec![Precondition::same(bytes("a"), &read)],
        puts(&[("b", "2")]),
    );
    assert_eq!(conflict(&kv, stale.clone()).await, 0);
    commit(&kv, puts(&[("a", "1")])).await;
    commit(&kv, stale).await;
    assert_eq!(get(&*kv, "b").await.as_deref(), Some("2"));
}

/// Reads of any age and from snapshots serve as preconditions, for present and absent keys.
pub async fn same_by_old_reads(kv: Arc<dyn Kv>) {
    let never = kv.get(b"a").await.expect("get");
    commit(&kv, puts(&[("a", "1")])).await;
    let view = kv.snapshot();
    for i in 0..50 {
        commit(&kv, puts(&[("b", &format!("{i}"))])).await;
    }
    let old = view.get(b"a").await.expect("get");
    let gone = requiring(
        vec![Precondition::same(bytes("a"), &never)],
        puts(&[("c", "0")]),
    );
    assert_eq!(conflict(&kv, gone.clone()).await, 0);
    commit(
        &kv,
        requiring(vec![Precondition::same(bytes("a"), &old)], deletes(&["a"])),
    )
    .await;
    let again = requiring(
        vec![Precondition::same(bytes("a"), &old)],
        puts(&[("c", "1")]),
    );
    assert_eq!(conflict(&kv, again).await, 0);
    commit(&kv, gone).await;
    assert_eq!(get(&*kv, "c").await.as_deref(), Some("0"));
}

/// Of two that create the same key, one wins.
pub async fn absent_and_create_once(kv: Arc<dyn Kv>) {
    let create = |value| {
        requiring(
            vec![Precondition::absent(bytes("a"))],
            puts(&[("a", value)]),
        )
    };
    commit(&kv, create("1")).await;
    assert_eq!(conflict(&kv, create("2")).await, 0);
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("1"));
    commit(&kv, deletes(&["a"])).await;
    commit(&kv, create("3")).await;
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("3"));
}

/// `Empty` checks exactly its range.
pub async fn empty_range_precondition(kv: Arc<dyn Kv>) {
    commit(&kv, puts(&[("d/a", "1"), ("e", "1")])).await;
    let attempt = |from: &str, to: &str| requiring(vec![empty(from, to)], puts(&[("x", "1")]));
    assert_eq!(conflict(&kv, attempt("d/", "d0")).await, 0);
    commit(&kv, attempt("d/b", "d0")).await;
    commit(&kv, attempt("d/", "d/a")).await;
    assert_eq!(conflict(&kv, attempt("d/a", "d/aa")).await, 0);
    assert_eq!(conflict(&kv, attempt("a", "")).await, 0);
    commit(&kv, attempt("y", "")).await;
    // A counter is a key like any other.
    commit(&kv, adds(&[("n/1", 0)])).await;
    assert_eq!(conflict(&kv, attempt("n/", "n0")).await, 0);
}

/// A range is empty after all its keys were deleted, and not empty after one of them was put again.
pub async fn empty_range_sees_deletes(kv: Arc<dyn Kv>) {
    let batch = Batch {
        puts: (0..300)
            .map(|i| (bytes(format!("d/{i:03}")), bytes("v")))
            .collect(),
        ..Batch::default()
    };
    commit(&kv, batch).await;
    let remove = || requiring(vec![empty("d/", "d0")], puts(&[("gone", "1")]));
    for i in 0..300 {
        if i % 50 == 0 {
            assert_eq!(conflict(&kv, remove()).await, 0);
        }
        commit(&kv, deletes(&[&format!("d/{i:03}")])).await;
    }
    let view = kv.snapshot();
    commit(&kv, remove()).await;
    commit(&kv, puts(&[("d/new", "1")])).await;
    assert_eq!(conflict(&kv, remove()).await, 0);
    assert_eq!(get(&*view, "gone").await, None);
}

/// The rule of [`Batch`]: a key is in one list only; repeated adds are allowed.
pub async fn batch_writing_a_key_twice_is_refused(kv: Arc<dyn Kv>) {
    let mut both = puts(&[("a", "1")]);
    both.deletes.push(bytes("a"));
    let mut counted = puts(&[("a", "1")]);
    counted.adds.push((bytes("a"), 1));
    for batch in [puts(&[("a", "1"), ("a", "2")]), both, counted] {
        match kv.commit(batch).await {
            Err(CommitError::Failed(error)) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            }
            other => panic!("expected an error, got {other:?}"),
        }
    }
    assert_eq!(get(&*kv, "a").await, None);
    commit(&kv, adds(&[("n", 1), ("n", 2)])).await;
    assert_eq!(count(&*kv, "n").await, Some(3));
}

/// A batch over the limit is refused, and the engine continues to work.
pub async fn oversized_batch_is_refused(kv: Arc<dyn Kv>) {
    let half = bytes(vec![1; BATCH_BYTES_MAX / 4]);
    let batch = Batch {
        puts: (0..5).map(|i| (bytes([i]), half.clone())).collect(),
        ..Batch::default()
    };
    match kv.commit(batch).await {
        Err(CommitError::Failed(error)) => assert_eq!(error.kind(), ErrorKind::TooLarge),
        other => panic!("expected an error, got {other:?}"),
    }
    commit(&kv, puts(&[("a", "1")])).await;
    assert_eq!(get(&*kv, "a").await.as_deref(), Some("1"));
}

/// A counter is the sum of its additions; a counter whose sum is zero exists.
pub async fn adds_sum_up(kv: Arc<dyn Kv>) {
    assert_eq!(count(&*kv, "n").await, None);
    for i in 1..=100 {
        commit(&kv, adds(&[("n", i), ("m", -1)])).await;
    }
    assert_eq!(count(&*kv, "n").await, Some(5050));
    assert_eq!(count(&*kv, "m").await, Some(-100));
    commit(&kv, adds(&[("n", -5050)])).await;
    assert_eq!(count(&*kv, "n").await, Some(0));
}

/// A counter can be set by a put of 8 bytes and removed; adding starts from there.
pub async fn adds_over_puts_and_deletes(kv: Arc<dyn Kv>) {
    let set = |n: i64| Batch {
        puts: vec![(bytes("n"), bytes(n.to_be_bytes()))],
        ..Batch::default()
    };
    commit(&kv, adds(&[("n", 3)])).await;
    commit(&kv, set(100)).await;
    let view = kv.snapshot();
    commit(&kv, adds(&[("n", 1)])).await;
    assert_eq!(count(&*kv, "n").await, Some(101));
    commit(&kv, deletes(&["n"])).await;
    assert_eq!(count(&*kv, "n").await, None);
    commit(&kv, adds(&[("n", 2)])).await;
    assert_eq!(count(&*kv, "n").await, Some(2));
    assert_eq!(count(&*view, "n").await, Some(100));
}

/// An addition does not conflict with a precondition on another key, but with one on the counter.
pub async fn adds_need_no_precondition(kv: Arc<dyn Kv>) {
    commit(&kv, adds(&[("n", 1)])).await;
    let read = kv.get(b"n").await.expect("get");
    commit(
        &kv,
        requiring(
            vec![Precondition::same(bytes("n"), &read)],
            adds(&[("n", 1)]),
        ),
    )
    .await;
    let stale = requiring(
        vec![Precondition::same(bytes("n"), &read)],
        adds(&[("n", 1)]),
    );
    assert_eq!(conflict(&kv, stale).await, 0);
    assert_eq!(count(&*kv, "n").await, Some(2));
}

/// Readers see every record once, in commit order, whole batches at a time.
pub async fn changes_in_commit_order(kv: Arc<dyn Kv>) {
    let logging = |records: &[&str]| Batch {
        puts: vec![(bytes("k"), bytes("v"))],
        log: records.iter().map(bytes).collect(),
        ..Batch::default()
    };
    let a = commit(&kv, logging(&["a1", "a2"])).await;
    commit(&kv, puts(&[("quiet", "1")])).await;
    let b = commit(&kv, logging(&["b1"])).await;
    let c = commit(&kv, logging(&["c1", "c2", "c3"])).await;
    let all = vec![
        (a, bytes("a1")),
        (a, bytes("a2")),
        (b, bytes("b1")),
        (c, bytes("c1")),
        (c, bytes("c2")),
        (c, bytes("c3")),
    ];
    assert_eq!(kv.changes(0, 100).await.expect("changes"), all);
    assert_eq!(kv.changes(0, 2).await.expect("changes"), all[..3]);
    assert_eq!(kv.changes(a, 100).await.expect("changes"), all[2..]);
    assert_eq!(kv.changes(b, 1).await.expect("changes"), all[3..]);
    assert!(kv.changes(c, 100).await.expect("changes").is_empty());
}
