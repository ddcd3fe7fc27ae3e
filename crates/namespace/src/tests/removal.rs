//! Removing directories with their content in one step.

use dewar_catalog::record::{CounterScope, Versioning};
use dewar_kv::KvRead;
use dewar_types::ErrorKind;

use super::*;
use crate::batch_builder::{BatchBuilder, CommitOutcome};

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
    tree.remove_dir(&ALICE, &bucket, &path)
        .await
        .expect("removes");
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

fn limited() -> Quota {
    Quota {
        max_bytes: Some(1 << 40),
        ..Quota::default()
    }
}

/// A new version with so many blobs.
async fn long_content(tree: &Tree, blobs: usize) -> NewVersion {
    let mut extents = Vec::new();
    for at in 0..blobs {
        let blob = tree.ids().blob().await.expect("mints");
        extents.push(Extent::large(blob, at as u64, 1));
    }
    let size = blobs as u64;
    NewVersion::new(size, record::ETag::Text("long".into()), DIGESTS(), extents)
}

#[tokio::test]
async fn a_step_of_freeing_ends_after_many_extents() {
    let (tree, bucket) = tree().await;
    for at in 0..7 {
        let new = long_content(&tree, 4_000).await;
        let name = key(&format!("run/f{at}"));
        tree.publish(
            &ALICE,
            (&bucket, &name).into(),
            new,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await
        .expect("puts");
    }
    tree.detach_dir(&ALICE, &bucket, &key("run"))
        .await
        .expect("removes");
    let dir = tree.removed_dirs().await.expect("reads")[0];
    let step = tree.free_removed(dir).await.expect("frees");
    assert_eq!(step, FreeingStep::Freed(5));
    let step = tree.free_removed(dir).await.expect("frees");
    assert_eq!(step, FreeingStep::Freed(2));
    free_all(&tree).await;
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.files, audit.queued.len()), (0, 28_000));
}

#[tokio::test]
async fn a_directory_whose_limits_were_removed_goes_with_its_content_and_hinders_nothing() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    for name in ["other/f", "dir/f", "outer/dir/f"] {
        put(&tree, &bucket, name).await;
    }
    for path in ["dir", "outer/dir"] {
        for quota in [limited(), Quota::default()] {
            tree.limit_space(&ALICE, &bucket, &key(path), quota)
                .await
                .expect("limits");
        }
    }
    let reopened = tree_on(&kv).await;
    for (tree, path) in [(&tree, "other"), (&tree, "dir"), (&reopened, "outer")] {
        let removed = tree.detach_dir(&ALICE, &bucket, &key(path)).await;
        assert_eq!(kind(removed), Ok(()), "{path}");
        assert_sound(tree).await;
    }
    let tree = reopened;
    for dir in tree.removed_dirs().await.expect("reads") {
        tree.free_removed(dir).await.expect("frees");
        assert_sound(&tree).await;
    }
    free_all(&tree).await;
    assert_eq!(assert_sound(&tree).await.files, 0);
}

#[tokio::test]
async fn limited_directories_are_known_where_they_are_after_renames_and_openings() {
    let kv = MemoryKv::new();
    let mut tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "a/b/space/f").await;
    let space = tree
        .limit_space(&ALICE, &bucket, &key("a/b/space"), limited())
        .await
        .expect("limits");
    for (from, to) in [("a", "x"), ("x/b", "x/c"), ("x/c/space", "x/c/moved")] {
        tree.rename_dir(
            &ALICE,
            (&bucket, &key(from)),
            (&bucket, &key(to)),
            RenameOptions::default(),
        )
        .await
        .expect("renames");
        for path in ["a/free", "x/free", "x/c/free", "a/b/space"] {
            put(&tree, &bucket, &format!("{path}/f")).await;
            let removed = tree.detach_dir(&ALICE, &bucket, &key(path)).await;
            assert_eq!(kind(removed), Ok(()), "{path} after {from}");
        }
        let removed = tree.detach_dir(&ALICE, &bucket, &key("x")).await;
        assert_eq!(kind(removed), Err(ErrorKind::Unsupported));
        drop(tree);
        tree = tree_on(&kv).await;
        let removed = tree.detach_dir(&ALICE, &bucket, &key("x")).await;
        assert_eq!(kind(removed), Err(ErrorKind::Unsupported));
    }
    let set = tree.catalog().all_quotas().await.expect("reads");
    assert_eq!(set[0].scope, CounterScope::Space(space));
    assert_eq!(set[0].place, Some((bucket.id, key("x/c/moved"))));
    // A release before did not note where it is by now.
    let mut stage = BatchBuilder::new(&tree);
    Tree::renote_space(&mut stage, space, (bucket.id, &key("old/place")));
    assert!(matches!(stage.commit().await, Ok(CommitOutcome::Done)));
    drop(tree);
    let tree = tree_on(&kv).await;
    let detach = async |path: &str| kind(tree.detach_dir(&ALICE, &bucket, &key(path)).await);
    put(&tree, &bucket, "y/f").await;
    for path in ["x", "y"] {
        assert_eq!(detach(path).await, Err(ErrorKind::Unsupported), "{path}");
    }
    let found = tree.trace_space(&bucket, space).await.expect("reads");
    assert_eq!(found, Some(key("x/c/moved")));
    assert_eq!(detach("y").await, Ok(()));
    assert_eq!(detach("x").await, Err(ErrorKind::Unsupported));
    tree.limit_space(&ALICE, &bucket, &key("x/c/moved"), Quota::default())
        .await
        .expect("removes the limits");
    assert_eq!(detach("x").await, Ok(()));
}

#[tokio::test]
async fn a_space_that_goes_while_its_content_is_freed_has_no_counters_afterwards() {
    let kv = super::probe::Probe::new();
    let tree = Tree::open(Arc::new(kv.clone()), Env::real(), 0)
        .await
        .expect("opens");
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "space/run/f").await;
    let path = key("space");
    let space = tree
        .limit_space(&ALICE, &bucket, &path, limited())
        .await
        .expect("limits");
    tree.detach_dir(&ALICE, &bucket, &key("space/run"))
        .await
        .expect("removes");
    let dir = tree.removed_dirs().await.expect("reads")[0];
    // The step has looked at the space, and its commit waits.
    let gate = Arc::new(tokio::sync::Notify::new());
    *kv.counts.gate.lock() = Some(Arc::clone(&gate));
    let step = tokio::spawn({
        let tree = tree.clone();
        async move { tree.free_removed(dir).await }
    });
    while kv.counts.gate.lock().is_some() {
        tokio::task::yield_now().await;
    }
    let removed = tokio::spawn({
        let (tree, bucket) = (tree.clone(), bucket.clone());
        async move { tree.remove_dir(&ALICE, &bucket, &key("space")).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.notify_one();
    step.await.expect("no panic").expect("frees");
    removed.await.expect("no panic").expect("removes");
    free_all(&tree).await;
    for counter in [
        record::Counter::Objects(CounterScope::Space(space)),
        record::Counter::Bytes(CounterScope::Space(space)),
    ] {
        let left = kv.get(&counter.key()).await.expect("reads").value;
        assert_eq!(left, None, "{counter:?}");
    }
    assert_sound(&tree).await;
}

#[tokio::test]
async fn a_named_space_does_not_move_into_a_directory_that_is_being_removed() {
    let kv = super::probe::Probe::new();
    let tree = Tree::open(Arc::new(kv.clone()), Env::real(), 0)
        .await
        .expect("opens");
    let bucket = make_bucket(&tree, "one").await;
    for name in ["run/deep/f", "moves/space/f"] {
        put(&tree, &bucket, name).await;
    }
    let new = NewSpace {
        name: "data".to_owned(),
        group: None,
        vos: Vec::new(),
        quota: limited(),
    };
    tree.add_space(&ALICE, &bucket, &key("moves/space"), new)
        .await
        .expect("adds");
    // The removal has looked for spaces, and its commit waits.
    let gate = Arc::new(tokio::sync::Notify::new());
    *kv.counts.gate.lock() = Some(Arc::clone(&gate));
    let removed = tokio::spawn({
        let (tree, bucket) = (tree.clone(), bucket.clone());
        async move { tree.detach_dir(&ALICE, &bucket, &key("run")).await }
    });
    while kv.counts.gate.lock().is_some() {
        tokio::task::yield_now().await;
    }
    let moved = tokio::spawn({
        let (tree, bucket) = (tree.clone(), bucket.clone());
        async move {
            let (from, to) = (key("moves"), key("run/deep/moves"));
            let options = RenameOptions::default();
            tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), options)
                .await
        }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.notify_one();
    assert_eq!(kind(removed.await.expect("no panic")), Ok(()));
    let moved = kind(moved.await.expect("no panic"));
    assert_eq!(moved, Err(ErrorKind::NotFound));
    free_all(&tree).await;
    assert_eq!(all_keys(&tree, &bucket).await, ["moves/space/f"]);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn the_directory_of_a_named_space_is_not_freed() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "run/space/f").await;
    let space = tree
        .mark_space(&ALICE, &bucket, &key("run/space"), Quota::default())
        .await
        .expect("marks");
    tree.detach_dir(&ALICE, &bucket, &key("run"))
        .await
        .expect("removes");
    let mut stage = BatchBuilder::new(&tree);
    let record = record::SpaceRecord {
        name: "data".to_owned(),
        tenant: bucket.tenant.id,
        bucket: "one".to_owned(),
        path: "elsewhere".to_owned(),
        group: None,
        vos: Vec::new(),
    };
    stage.put(keys::space(space), record.to_value());
    assert!(matches!(stage.commit().await, Ok(CommitOutcome::Done)));
    let dir = tree.removed_dirs().await.expect("reads")[0];
    let step = kind(tree.free_removed(dir).await);
    assert_eq!(step, Err(ErrorKind::NotEmpty));
    assert_eq!(assert_sound(&tree).await.queued.len(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn removals_limits_and_renames_of_one_name_do_not_wait_for_each_other_for_ever() {
    let kv = super::probe::Probe::new();
    let tree = Tree::open(Arc::new(kv.clone()), Env::real(), 0)
        .await
        .expect("opens");
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "run/f").await;
    kv.counts
        .yields
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let mut tasks = Vec::new();
    for task in 0..12 {
        let (tree, bucket) = (tree.clone(), bucket.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..30 {
                let run = key("run");
                match task % 4 {
                    0 => drop(tree.detach_dir(&ALICE, &bucket, &run).await),
                    1 => {
                        let quota = Quota::default();
                        drop(tree.mark_space(&ALICE, &bucket, &run, quota).await);
                    }
                    2 => {
                        let (from, options) = (key("from"), RenameOptions::default());
                        let options = RenameOptions {
                            replaces: ReplaceRule::Everything,
                            ..options
                        };
                        put(&tree, &bucket, "from/f").await;
                        let renamed =
                            tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &run), options);
                        drop(renamed.await);
                    }
                    _ => drop(put(&tree, &bucket, "run/f").await),
                }
            }
        }));
    }
    let all = async {
        for task in tasks {
            task.await.expect("no panic");
        }
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), all).await;
    assert_eq!(ended, Ok(()), "they wait for each other");
    free_all(&tree).await;
    assert_sound(&tree).await;
}
