//! What the verbs cost in calls of the engine.

use std::sync::Arc;

use super::probe::{Probe, ProbeCounts};
use super::*;

async fn probed() -> (Tree, Bucket, Arc<ProbeCounts>) {
    let kv = Probe::new();
    let counts = Arc::clone(&kv.counts);
    let tree = Tree::open(Arc::new(kv), Env::real(), 0).await.unwrap();
    let bucket = make_bucket(&tree, "one").await;
    (tree, bucket, counts)
}

#[tokio::test]
async fn a_put_in_known_directories_reads_the_entry_alone() {
    let (tree, bucket, counts) = probed().await;
    put(&tree, &bucket, "a/b/c/first").await;
    let new = content(&tree, 10, "second").await;
    counts.reset();
    let done = tree
        .publish(
            &ALICE,
            (&bucket, &key("a/b/c/d")).into(),
            new,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await
        .unwrap();
    assert_eq!(counts.read(), (1, 0, 0, 1), "one get, one commit");

    counts.reset();
    put(&tree, &bucket, "a/b/c/d").await;
    assert_eq!(
        counts.read(),
        (2, 0, 0, 1),
        "and the old blob's count when it replaces"
    );

    counts.reset();
    tree.lookup(&bucket, &key("a/b/c/d"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(counts.read(), (1, 0, 0, 0));

    counts.reset();
    delete(&tree, &bucket, "a/b/c/d").await.unwrap();
    assert_eq!(counts.read(), (2, 0, 0, 1));
    drop(done);
}

#[tokio::test]
async fn a_thousand_deletes_take_few_batches() {
    let (tree, bucket, counts) = probed().await;
    let names: Vec<_> = (0..1000).map(|n| format!("d{}/{n}", n % 3)).collect();
    for name in &names {
        put(&tree, &bucket, name).await;
    }
    let list: Vec<_> = names
        .iter()
        .map(|name| DeleteTarget::key(key(name)))
        .collect();
    counts.reset();
    let results = tree
        .delete_many(&ALICE, &bucket, &list, false)
        .await
        .unwrap();
    assert!(results.iter().all(|result| matches!(
        result,
        Ok(DeleteOutcome {
            version: Some(_),
            ..
        })
    )));
    assert_eq!(counts.read().3, 4, "batches");
    assert_sound(&tree).await;
    reclaim_all(&tree).await;
    assert_eq!(assert_sound(&tree).await.dirs, 0);
}

#[tokio::test]
async fn a_directory_rename_is_one_small_batch() {
    let (tree, bucket, counts) = probed().await;
    for n in 0..500 {
        put(&tree, &bucket, &format!("old/{}/{n}", n % 7)).await;
    }
    counts.reset();
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("old")),
        (&bucket, &key("x/new")),
        RenameOptions {
            make_parents: true,
            ..RenameOptions::default()
        },
    )
    .await
    .unwrap();
    let (gets, scans, pairs, commits) = counts.read();
    assert!(
        gets + scans < 15 && pairs < 20 && commits == 1,
        "{:?}",
        counts.read()
    );
    assert!(
        all_keys(&tree, &bucket)
            .await
            .iter()
            .all(|key| key.starts_with("x/new/"))
    );
}

#[tokio::test]
async fn listings_cost_what_they_return() {
    let (tree, bucket, counts) = probed().await;
    for dir in 0..60 {
        for n in 0..60 {
            put(&tree, &bucket, &format!("dir{dir:02}/file-{n:02}")).await;
        }
    }
    for n in 0..3000 {
        put(&tree, &bucket, &format!("flat/{:02}-{n:04}", n % 20)).await;
    }
    let measure = async |query: ListQuery<'_>, items: usize| {
        counts.reset();
        let page = tree.list(&bucket, query).await.unwrap();
        assert_eq!(page.items.len(), items, "{query:?}");
        let (gets, scans, pairs, _) = counts.read();
        (gets + scans, pairs)
    };

    // Directories rolled up: a look into each.
    let dirs = ListQuery {
        delimiter: Some("/"),
        max: 1000,
        ..ListQuery::default()
    };
    let (calls, pairs) = measure(dirs, 61).await;
    assert!(calls < 75 && pairs < 200, "{calls} calls, {pairs} pairs");

    // From the middle of everything.
    let middle = ListQuery {
        after: Some("dir30/file-30"),
        max: 10,
        ..ListQuery::default()
    };
    let (calls, pairs) = measure(middle, 10).await;
    assert!(calls < 10 && pairs < 40, "{calls} calls, {pairs} pairs");

    // Rolled up at another string inside names: seeks past each.
    let skips = ListQuery {
        prefix: "flat/",
        delimiter: Some("-"),
        max: 1000,
        ..ListQuery::default()
    };
    let (calls, pairs) = measure(skips, 20).await;
    assert!(calls < 60 && pairs < 300, "{calls} calls, {pairs} pairs");

    // A long page.
    let long = ListQuery {
        prefix: "flat/",
        max: 1000,
        ..ListQuery::default()
    };
    let (calls, pairs) = measure(long, 1000).await;
    assert!(calls < 15 && pairs < 2200, "{calls} calls, {pairs} pairs");
}

#[tokio::test]
async fn a_lock_costs_the_same_however_many_others_there_are() {
    let (tree, bucket, counts) = probed().await;
    put(&tree, &bucket, "a/b/c").await;
    let take = async |number: u128, path: &str, deep| {
        let record = dewar_catalog::record::LockRecord {
            bucket: bucket.id,
            path: path.to_owned(),
            shared: false,
            deep,
            holder: "ann".to_owned(),
            principal: "ann".to_owned(),
            owner: String::new(),
            expires: dewar_types::Timestamp(u64::MAX),
        };
        let path = key(path);
        let taken = tree.take_lock(&bucket, &path, number, record, 2000);
        assert!(matches!(taken.await.unwrap(), LockGrant::Granted(_)));
    };
    take(1, "a/b/c", false).await;
    counts.reset();
    take(2, "a/b/x", true).await;
    let few = counts.read();
    for number in 10..500 {
        take(number, &format!("a/b/other{number}"), false).await;
    }
    counts.reset();
    take(1000, "a/b/y", true).await;
    assert_eq!(counts.read(), few);
    counts.reset();
    let locks = tree.locks_below(&bucket, &key("a/b/none")).await.unwrap();
    assert!(locks.is_empty());
    assert_eq!(counts.read(), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_directory_is_removed_at_the_same_cost_whatever_is_in_it() {
    let (tree, bucket, counts) = probed().await;
    for at in 0..300 {
        put(&tree, &bucket, &format!("small/{at}")).await;
        put(&tree, &bucket, &format!("large/d{at}/a")).await;
    }
    counts.reset();
    tree.detach_dir(&ALICE, &bucket, &key("small"))
        .await
        .unwrap();
    let cost = counts.read();
    counts.reset();
    tree.detach_dir(&ALICE, &bucket, &key("large"))
        .await
        .unwrap();
    assert_eq!(counts.read().3, 1);
    // It looks at the first names to see whether something is visible.
    assert!(
        counts.read().2 <= cost.2 + 2,
        "{:?} {cost:?}",
        counts.read()
    );
}
