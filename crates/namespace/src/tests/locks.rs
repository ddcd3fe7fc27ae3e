//! Locks of WebDAV: which exclude each other, how long they last, and that they survive a restart.

use dewar_catalog::record::LockRecord;
use dewar_kv::MemoryKv;
use dewar_types::{ErrorKind, Timestamp};

use super::{Bucket, Tree, key, make_bucket, put, tree, tree_on};
use crate::{LockGrant, NameLock};

/// A lock that lasts for as long as the test, and longer.
fn record(bucket: &Bucket, path: &str, shared: bool, deep: bool) -> LockRecord {
    LockRecord {
        bucket: bucket.id,
        path: path.to_owned(),
        shared,
        deep,
        holder: "ann".to_owned(),
        principal: "ann".to_owned(),
        owner: String::new(),
        expires: Timestamp(u64::MAX),
    }
}

async fn take(tree: &Tree, bucket: &Bucket, number: u128, record: LockRecord) -> Option<NameLock> {
    let path = key(&record.path);
    let taken = tree.take_lock(bucket, &path, number, record, 10).await;
    match taken.expect("memory does not fail") {
        LockGrant::Granted(lock) => Some(lock),
        LockGrant::Excluded(_) => None,
    }
}

async fn covering(tree: &Tree, bucket: &Bucket, path: &str, with_parent: bool) -> Vec<u128> {
    let locks = tree.locks_covering(bucket, &key(path), with_parent).await;
    let locks = locks.expect("memory does not fail");
    locks.iter().map(|lock| lock.number).collect()
}

#[tokio::test]
async fn locks_exclude_each_other_up_and_down() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "a/b/c").await;
    let lock = |path: &str, shared, deep| record(&bucket, path, shared, deep);
    assert!(
        take(&tree, &bucket, 1, lock("a/b/c", true, false))
            .await
            .is_some()
    );
    assert!(
        take(&tree, &bucket, 2, lock("a/b/c", true, false))
            .await
            .is_some()
    );
    assert!(
        take(&tree, &bucket, 3, lock("a/b/c", false, false))
            .await
            .is_none()
    );
    // A deep lock concerns what is below it, a flat one does not.
    assert!(
        take(&tree, &bucket, 4, lock("a", false, true))
            .await
            .is_none()
    );
    assert!(
        take(&tree, &bucket, 5, lock("a", true, true))
            .await
            .is_some()
    );
    assert!(
        take(&tree, &bucket, 6, lock("a/b", true, false))
            .await
            .is_some()
    );
    assert_eq!(covering(&tree, &bucket, "a/b/c", false).await, [5, 1, 2]);
    assert_eq!(covering(&tree, &bucket, "a/b/c", true).await, [5, 6, 1, 2]);
    assert_eq!(covering(&tree, &bucket, "a/x", false).await, [5]);
    assert_eq!(covering(&tree, &bucket, "b", true).await, [0u128; 0]);
    // Other names that begin alike are no concern.
    assert!(
        take(&tree, &bucket, 7, lock("ab", false, true))
            .await
            .is_some()
    );
    let below = tree.locks_below(&bucket, &key("a")).await.expect("read");
    assert_eq!(below.len(), 3);
    tree.remove_locks(below).await.expect("written");
    assert_eq!(covering(&tree, &bucket, "a/b/c", false).await, [5]);
}

#[tokio::test]
async fn locks_survive_a_restart_and_end() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "a").await;
    let lock = take(&tree, &bucket, 1, record(&bucket, "a", false, false)).await;
    let again = tree_on(&kv).await;
    assert_eq!(covering(&again, &bucket, "a", false).await, [1]);
    let lock = lock.expect("granted");
    again
        .extend_lock(&lock, Timestamp(1))
        .await
        .expect("written");
    assert_eq!(covering(&again, &bucket, "a", false).await, [0u128; 0]);
    assert!(again.has_locks(), "nobody has removed it yet");
    assert!(
        take(&again, &bucket, 2, record(&bucket, "a", false, false))
            .await
            .is_some()
    );
    assert_eq!(again.all_locks().await.expect("read").len(), 1);
}

#[tokio::test]
async fn a_holder_has_so_many_locks() {
    let (tree, bucket) = tree().await;
    for number in 0..10 {
        let lock = record(&bucket, &format!("file{number}"), false, false);
        assert!(take(&tree, &bucket, number, lock).await.is_some());
    }
    let (path, lock) = (key("more"), record(&bucket, "more", false, false));
    let refused = tree.take_lock(&bucket, &path, 11, lock.clone(), 10).await;
    assert_eq!(refused.expect_err("too many").kind(), ErrorKind::Quota);
    let other = LockRecord {
        holder: "bob".to_owned(),
        ..lock
    };
    assert!(take(&tree, &bucket, 12, other).await.is_some());
    let lost = record(&bucket, "absent/file", false, false);
    let refused = tree
        .take_lock(&bucket, &key("absent/file"), 13, lost, 100)
        .await;
    assert_eq!(
        refused.expect_err("no directory").kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn a_lock_that_has_ended_is_not_extended() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "a").await;
    let ended = LockRecord {
        expires: Timestamp(1),
        ..record(&bucket, "a", false, false)
    };
    let lock = take(&tree, &bucket, 1, ended).await.expect("granted");
    let extended = tree.extend_lock(&lock, Timestamp(u64::MAX)).await;
    assert_eq!(extended.expect_err("ended").kind(), ErrorKind::Precondition);
    assert_eq!(covering(&tree, &bucket, "a", false).await, [0u128; 0]);
}
