//! What limits, and what it does not hinder.

use std::sync::Arc;

use dewar_types::{ErrorKind, GroupId, VersionName};

use super::*;
use crate::ns::record::{Scope, Versioning};

fn bytes(max: u64) -> Quota {
    Quota {
        max_bytes: Some(max),
        ..Quota::default()
    }
}

fn objects(max: u64) -> Quota {
    Quota {
        max_objects: Some(max),
        ..Quota::default()
    }
}

/// Publishes so many bytes; why not, if it is refused.
async fn fill(tree: &Tree, bucket: &Bucket, name: &str, size: u64) -> Result<(), ErrorKind> {
    let new = content(tree, size, name).await;
    let published = tree
        .publish(
            &ALICE,
            bucket,
            &key(name),
            new,
            &Condition::NONE,
            &Extra::default(),
        )
        .await;
    published.map(drop).map_err(|error| error.kind())
}

async fn room(tree: &Tree, bucket: &Bucket, name: &str, size: u64) -> Result<(), ErrorKind> {
    let checked = tree.check_room(bucket, &key(name), ALICE.user, size).await;
    checked.map_err(|error| error.kind())
}

const FULL: Result<(), ErrorKind> = Err(ErrorKind::Quota);

#[tokio::test]
async fn a_bucket_takes_what_fits() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    let other = make_bucket(&tree, "two").await;
    let scope = Scope::Bucket(bucket.id);
    tree.limit(scope, bytes(10)).await.unwrap();
    assert_eq!(fill(&tree, &bucket, "a", 6).await, Ok(()));
    assert_eq!(room(&tree, &bucket, "b", 5).await, FULL);
    assert_eq!(fill(&tree, &bucket, "b", 5).await, FULL);
    assert_eq!(fill(&tree, &other, "b", 500).await, Ok(()));
    // In place of what is there it fits, up to the last byte.
    assert_eq!(room(&tree, &bucket, "a", 10).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "a", 10).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "a", 11).await, FULL);
    assert_eq!(fill(&tree, &bucket, "empty", 0).await, Ok(()));

    // Below what is there already: nothing is lost, less is taken, more is not.
    tree.limit(scope, bytes(4)).await.unwrap();
    assert_eq!(fill(&tree, &bucket, "a", 8).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "c", 1).await, FULL);
    // It is remembered.
    let tree = tree_on(&kv).await;
    assert_eq!(tree.quota(scope), Some(bytes(4)));
    assert_eq!(fill(&tree, &bucket, "c", 1).await, FULL);
    delete(&tree, &bucket, "a").await.unwrap();
    assert_eq!(fill(&tree, &bucket, "c", 4).await, Ok(()));
    tree.limit(scope, Quota::default()).await.unwrap();
    assert_eq!(fill(&tree, &bucket, "d", 100).await, Ok(()));
    assert_eq!(tree.all_quotas().await.unwrap(), []);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn whoever_owns_it_and_its_tenant_are_limited_too() {
    let (tree, bucket) = tree().await;
    tree.limit(Scope::User(ALICE.user), objects(1))
        .await
        .unwrap();
    assert_eq!(fill(&tree, &bucket, "a", 1).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "b", 1).await, FULL);
    tree.limit(Scope::User(ALICE.user), Quota::default())
        .await
        .unwrap();
    tree.limit(Scope::Tenant(bucket.tenant.id), bytes(3))
        .await
        .unwrap();
    assert_eq!(fill(&tree, &bucket, "b", 2).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "c", 1).await, FULL);
}

#[tokio::test]
async fn a_group_is_charged_for_what_is_put_where_it_owns() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    let (group, other) = (GroupId(77), GroupId(78));
    let scope = Scope::Group(group);
    fill(&tree, &bucket, "d/before", 7).await.unwrap();
    tree.set_group(&ALICE, &bucket, Some(&key("d")), Some(group))
        .await
        .unwrap();
    let of = async |tree: &Tree, group| tree.usage(Scope::Group(group)).await.unwrap();
    assert_eq!(of(&tree, group).await, Usage::default());
    tree.limit(scope, bytes(20)).await.unwrap();
    assert_eq!(fill(&tree, &bucket, "d/x/y/a", 10).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "outside", 100).await, Ok(()));
    assert_eq!(room(&tree, &bucket, "d/b", 11).await, FULL);
    assert_eq!(fill(&tree, &bucket, "d/b", 11).await, FULL);
    assert_eq!(room(&tree, &bucket, "outside2", 11).await, Ok(()));
    // What was there before is charged when it is written anew; a file that is moved keeps its group.
    assert_eq!(fill(&tree, &bucket, "d/before", 10).await, Ok(()));
    assert_eq!(of(&tree, group).await.bytes, 20);
    tree.rename_file(
        &ALICE,
        (&bucket, &key("d/before")),
        (&bucket, &key("outside3")),
        (&Condition::NONE, &Condition::NONE),
    )
    .await
    .unwrap();
    assert_eq!(of(&tree, group).await.bytes, 20);
    assert_eq!(fill(&tree, &bucket, "d/b", 1).await, FULL);
    // The innermost directory counts, then those above, then the bucket, also after a restart.
    let tree = tree_on(&kv).await;
    tree.set_group(&ALICE, &bucket, None, Some(other))
        .await
        .unwrap();
    let name = BucketName::new("one").expect("a valid name");
    let found = tree.bucket(&Tenant::default_tenant(), &name).await;
    let bucket = found.unwrap().expect("it is there");
    assert_eq!(fill(&tree, &bucket, "d/b", 1).await, FULL);
    assert_eq!(fill(&tree, &bucket, "e/f", 5).await, Ok(()));
    assert_eq!(of(&tree, other).await.bytes, 5);
    tree.set_group(&ALICE, &bucket, Some(&key("d")), None)
        .await
        .unwrap();
    assert_eq!(tree.group_of(&bucket, Some(&key("d"))).await.unwrap(), None);
    assert_eq!(tree.group_of(&bucket, None).await.unwrap(), Some(other));
    assert_eq!(fill(&tree, &bucket, "d/b", 1).await, Ok(()));
    assert_eq!(of(&tree, other).await.bytes, 6);
    delete(&tree, &bucket, "outside3").await.unwrap();
    assert_eq!(of(&tree, group).await.bytes, 10);
    let none = key("none");
    let missing = tree.set_group(&ALICE, &bucket, Some(&none), Some(group));
    assert_eq!(missing.await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn a_space_takes_what_fits_wherever_it_goes() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    put(&tree, &bucket, "s/before").await;
    let id = tree
        .limit_space(&ALICE, &bucket, &key("s"), bytes(20))
        .await
        .unwrap();
    assert_eq!(tree.usage(Scope::Space(id)).await.unwrap().bytes, 10);
    assert_eq!(fill(&tree, &bucket, "s/x/a", 11).await, FULL);
    assert_eq!(room(&tree, &bucket, "s/x/a", 11).await, FULL);
    assert_eq!(fill(&tree, &bucket, "s/x/a", 10).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "outside", 100).await, Ok(()));
    // Moved in is as put in.
    let moved = tree
        .rename_file(
            &ALICE,
            (&bucket, &key("outside")),
            (&bucket, &key("s/inside")),
            (&Condition::NONE, &Condition::NONE),
        )
        .await;
    assert_eq!(moved.map(drop).map_err(|error| error.kind()), FULL);
    // Its limits go with it, and are known after a restart.
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("s")),
        (&bucket, &key("t")),
        RenameOptions::default(),
    )
    .await
    .unwrap();
    let tree = tree_on(&kv).await;
    assert_eq!(fill(&tree, &bucket, "t/more", 1).await, FULL);
    assert_eq!(room(&tree, &bucket, "t/more", 1).await, FULL);
    assert_eq!(fill(&tree, &bucket, "s/free", 100).await, Ok(()));
    let found = tree.space(&bucket, &key("t")).await.unwrap();
    assert_eq!(found, Some((id, bytes(20))));
    let set = tree.all_quotas().await.unwrap();
    assert_eq!(set[0].place, Some((bucket.id, key("s"))));
    assert_sound(&tree).await;
}

/// What was there when a directory was limited counts, though the process died before it counted.
#[tokio::test]
async fn a_count_that_was_cut_short_is_made_later() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "s/before").await;
    let id = tree
        .mark_space(&ALICE, &bucket, &key("s"), bytes(20))
        .await
        .unwrap();
    let used = async || tree.usage(Scope::Space(id)).await.unwrap().bytes;
    assert_eq!(used().await, 0);
    let count = async |path: &str| tree.count_if_uncounted(&bucket, &key(path)).await.unwrap();
    assert!(count("s").await);
    assert_eq!(used().await, 10);
    assert!(!count("s").await && !count("none").await && !count("s/none").await);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn many_at_once_fill_it_to_the_last_byte() {
    let (tree, bucket) = tree().await;
    tree.limit(Scope::Bucket(bucket.id), bytes(7))
        .await
        .unwrap();
    let tree = Arc::new(tree);
    let writers: Vec<_> = (0..32)
        .map(|number| {
            let (tree, bucket) = (Arc::clone(&tree), bucket.clone());
            tokio::spawn(async move { fill(&tree, &bucket, &format!("{number}"), 1).await })
        })
        .collect();
    let mut taken = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => taken += 1,
            refused => assert_eq!(refused, FULL),
        }
    }
    assert_eq!(taken, 7);
    assert_sound(&tree).await;
}

/// What frees is never refused, also where it counts an object more.
#[tokio::test]
async fn removing_a_delete_marker_is_no_putting() {
    let (tree, bucket) = tree().await;
    tree.configure_bucket(&ALICE, &bucket, |change| {
        change.settings.versioning = Versioning::Enabled;
        Ok(())
    })
    .await
    .unwrap();
    put(&tree, &bucket, "a").await;
    let marker = tree
        .delete(&ALICE, &bucket, &Doomed::key(key("a")), false)
        .await
        .unwrap();
    put(&tree, &bucket, "b").await;
    tree.limit(Scope::Bucket(bucket.id), objects(1))
        .await
        .unwrap();
    assert_eq!(fill(&tree, &bucket, "c", 0).await, FULL);
    let marker = marker.marker.expect("a marker").id;
    let doomed = Doomed {
        version: Some(VersionName::Id(marker)),
        ..Doomed::key(key("a"))
    };
    tree.delete(&ALICE, &bucket, &doomed, false).await.unwrap();
    let usage = tree.usage(Scope::Bucket(bucket.id)).await.unwrap();
    assert_eq!(usage.objects, 2);
}
