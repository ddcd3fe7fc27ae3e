//! Removing directories with their content in one step.

use dewar_catalog::record::{CounterScope, Versioning};
use dewar_types::ErrorKind;

use super::*;

async fn usage(tree: &Tree, scope: CounterScope) -> (u64, u64) {
    let usage = tree.catalog().usage(scope).await.expect("reads");
    (usage.objects, usage.bytes)
}

fn kind<T>(result: Result<T, Error>) -> Result<(), ErrorKind> {
    result.map(drop).map_err(|error| error.kind())
}

#[tokio::test]
async fn a_removed_directory_is_gone_at_once_and_freed_later() {
    let (tree, bucket) = tree().await;
    for at in 0..600 {
        put(&tree, &bucket, &format!("run/d{}/f{at}", at % 3)).await;
    }
    put(&tree, &bucket, "kept").await;
    let before = tree.kv().last_sequence();
    let removed = tree.detach_dir(&ALICE, &bucket, &key("run")).await;
    assert_eq!(kind(removed), Ok(()));
    assert_eq!(tree.kv().last_sequence(), before + 1, "one batch");
    assert_eq!(all_keys(&tree, &bucket).await, ["kept"]);
    let file = tree.lookup(&bucket, &key("run/d0/f0")).await;
    assert!(file.expect("reads").is_none());
    let of_bucket = CounterScope::Bucket(bucket.id);
    assert_eq!(usage(&tree, of_bucket).await, (601, 6010));
    // The name is free for something else, which stays.
    put(&tree, &bucket, "run/d0/f0").await;
    assert_sound(&tree).await;
    let dir = tree.removed_dirs().await.expect("reads");
    let [dir] = dir[..] else {
        panic!("one directory was removed: {dir:?}");
    };
    let step = tree.free_removed(dir).await.expect("frees");
    assert_eq!(step, FreeingStep::Freed(200));
    assert_eq!(usage(&tree, of_bucket).await, (402, 4020));
    assert_sound(&tree).await;
    free_all(&tree).await;
    assert_eq!(usage(&tree, of_bucket).await, (2, 20));
    assert_eq!(all_keys(&tree, &bucket).await, ["kept", "run/d0/f0"]);
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.queued.len(), audit.named.len()), (600, 2));
    assert!(tree.removed_dirs().await.expect("reads").is_empty());
}

#[tokio::test]
async fn freeing_goes_on_after_a_restart() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    for at in 0..300 {
        put(&tree, &bucket, &format!("run/f{at}")).await;
    }
    tree.detach_dir(&ALICE, &bucket, &key("run"))
        .await
        .expect("removes");
    let dir = tree.removed_dirs().await.expect("reads")[0];
    tree.free_removed(dir).await.expect("frees");
    drop(tree);
    let tree = tree_on(&kv).await;
    assert_eq!(tree.removed_dirs().await.expect("reads"), [dir]);
    free_all(&tree).await;
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.files, audit.queued.len()), (0, 300));
}

#[tokio::test]
async fn a_write_into_a_directory_that_is_being_removed_is_not_lost_with_it() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "run/a").await;
    let found = tree.find_name(&bucket, &key("run/b")).await.expect("reads");
    tree.detach_dir(&ALICE, &bucket, &key("run"))
        .await
        .expect("removes");
    let new = content(&tree, 10, "b").await;
    let target = key("run/b");
    tree.publish(
        &ALICE,
        NameRef::new(&bucket, &target, Some(found)),
        new,
        &WriteCondition::NONE,
        &DataChanges::default(),
    )
    .await
    .expect("puts");
    assert_eq!(all_keys(&tree, &bucket).await, ["run/b"]);
    free_all(&tree).await;
    assert_eq!(all_keys(&tree, &bucket).await, ["run/b"]);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn what_must_be_kept_is_not_removed_in_one_step() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "run/deep/space/f").await;
    let limited = Quota {
        max_bytes: Some(1000),
        ..Quota::default()
    };
    let (space, run) = (key("run/deep/space"), key("run"));
    tree.limit_space(&ALICE, &bucket, &space, limited)
        .await
        .expect("limits");
    for path in ["run", "run/deep", "run/deep/space"] {
        let removed = tree.detach_dir(&ALICE, &bucket, &key(path)).await;
        assert_eq!(kind(removed), Err(ErrorKind::Unsupported), "{path}");
    }
    // Beside it, in it, and below a name that begins alike, nothing forbids it.
    for path in ["run/other", "run/deep/space/in", "run/dee"] {
        put(&tree, &bucket, &format!("{path}/f")).await;
        let removed = tree.detach_dir(&ALICE, &bucket, &key(path)).await;
        assert_eq!(kind(removed), Ok(()), "{path}");
    }
    // A space that was renamed is found all the same.
    let options = RenameOptions::default();
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("run/deep")),
        (&bucket, &key("run/moved")),
        options,
    )
    .await
    .expect("renames");
    let removed = tree.detach_dir(&ALICE, &bucket, &run).await;
    assert_eq!(kind(removed), Err(ErrorKind::Unsupported));
    free_all(&tree).await;
    assert_sound(&tree).await;
    assert_eq!(all_keys(&tree, &bucket).await, ["run/moved/space/f"]);

    let two = make_bucket(&tree, "two").await;
    put(&tree, &two, "run/f").await;
    tree.configure_bucket(&ALICE, &two, |change| {
        change.settings.versioning = Versioning::Suspended;
        Ok(())
    })
    .await
    .expect("changes");
    let removed = tree.detach_dir(&ALICE, &two, &run).await;
    assert_eq!(kind(removed), Err(ErrorKind::Unsupported));
    let removed = tree.detach_dir(&ALICE, &two, &key("none")).await;
    assert_eq!(kind(removed), Err(ErrorKind::NotFound));
}

#[tokio::test]
async fn content_that_is_being_freed_counts_in_its_space_until_then() {
    let (tree, bucket) = tree().await;
    for at in 0..300 {
        put(&tree, &bucket, &format!("space/run/f{at}")).await;
    }
    let limited = Quota {
        max_bytes: Some(100_000),
        ..Quota::default()
    };
    let path = key("space");
    let id = tree
        .limit_space(&ALICE, &bucket, &path, limited)
        .await
        .expect("limits");
    tree.detach_dir(&ALICE, &bucket, &key("space/run"))
        .await
        .expect("removes");
    let dir = tree.removed_dirs().await.expect("reads")[0];
    tree.free_removed(dir).await.expect("frees");
    let scope = CounterScope::Space(id);
    assert_eq!(usage(&tree, scope).await, (50, 500));
    // Counting again finds the same.
    tree.count_space(&bucket, &path).await.expect("counts");
    assert_eq!(usage(&tree, scope).await, (50, 500));
    assert_sound(&tree).await;
    tree.unmark_space(&ALICE, &bucket, &path)
        .await
        .expect("unmarks");
    free_all(&tree).await;
    assert_eq!(usage(&tree, scope).await, (0, 0));
    assert_sound(&tree).await;
}

#[tokio::test]
async fn a_bucket_may_go_before_its_content_is_freed() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "run/f").await;
    tree.detach_dir(&ALICE, &bucket, &key("run"))
        .await
        .expect("removes");
    tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .expect("deletes");
    assert_sound(&tree).await;
    // Another bucket of the name does not pay for it.
    let again = make_bucket(&tree, "one").await;
    free_all(&tree).await;
    assert_eq!(usage(&tree, CounterScope::Bucket(again.id)).await, (0, 0));
    assert_eq!(usage(&tree, CounterScope::User(ALICE.user)).await, (0, 0));
    assert_sound(&tree).await;
}

#[tokio::test]
async fn a_rename_may_replace_a_directory_with_its_content() {
    let (tree, bucket) = tree().await;
    for name in ["new/a", "new/deep/b", "old/c", "old/deep/d", "file", "lone"] {
        put(&tree, &bucket, name).await;
    }
    let over = RenameOptions {
        replaces: ReplaceRule::Everything,
        hierarchy: Hierarchy::Strict,
        ..RenameOptions::default()
    };
    let rename = async |from: &str, to: &str| {
        let (from, to) = (key(from), key(to));
        kind(
            tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), over)
                .await,
        )
    };
    let before = tree.kv().last_sequence();
    assert_eq!(rename("new", "old").await, Ok(()));
    assert_eq!(tree.kv().last_sequence(), before + 1, "one batch");
    assert_eq!(
        all_keys(&tree, &bucket).await,
        ["file", "lone", "old/a", "old/deep/b"]
    );
    assert_sound(&tree).await;
    // A directory in the place of a file, and a file in that of a directory.
    assert_eq!(rename("old", "file").await, Ok(()));
    assert_eq!(
        all_keys(&tree, &bucket).await,
        ["file/a", "file/deep/b", "lone"]
    );
    let (from, to) = (key("lone"), key("file"));
    let none = WriteCondition::NONE;
    tree.rename_file_over(
        &ALICE,
        (&bucket, &from).into(),
        (&bucket, &to).into(),
        (&none, &none),
    )
    .await
    .expect("renames");
    assert_eq!(all_keys(&tree, &bucket).await, ["file"]);
    free_all(&tree).await;
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.files, audit.queued.len()), (1, 5));
}

#[tokio::test]
async fn nothing_takes_the_place_of_a_directory_that_it_is_in() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "a/b/c").await;
    let over = RenameOptions {
        replaces: ReplaceRule::Everything,
        hierarchy: Hierarchy::Strict,
        ..RenameOptions::default()
    };
    let (outer, inner, file) = (key("a"), key("a/b"), key("a/b/c"));
    let renamed = tree
        .rename_dir(&ALICE, (&bucket, &inner), (&bucket, &outer), over)
        .await;
    assert_eq!(kind(renamed), Err(ErrorKind::InvalidArgument));
    let none = WriteCondition::NONE;
    let renamed = tree
        .rename_file_over(
            &ALICE,
            (&bucket, &file).into(),
            (&bucket, &outer).into(),
            (&none, &none),
        )
        .await;
    assert_eq!(kind(renamed), Err(ErrorKind::InvalidArgument));
    assert_eq!(all_keys(&tree, &bucket).await, ["a/b/c"]);
}
