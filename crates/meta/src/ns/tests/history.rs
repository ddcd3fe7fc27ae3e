//! Older versions keep their place: no call makes them yet, so they are put by hand.

use bytes::Bytes;

use super::*;
use crate::kv::Batch;
use crate::ns::record::{Counter, Scope, VersionFlags};

/// An older version of the file, counted as it would be.
async fn add_older(tree: &Tree, bucket: &Bucket, published: &Published, name: &str) -> VersionId {
    let found = tree.lookup(bucket, &key(name)).await.unwrap().unwrap();
    let (parent, file_name, _) = keys::parse_entry(&found.key).unwrap();
    let id = tree.ids().version().await.unwrap();
    let mut version = published.version.clone();
    version.id = id;
    version.size = 5;
    let blob = tree.ids().blob().await.unwrap();
    version.copies[0].extents = vec![Extent::large(blob, 0, 5)];
    let counters = [
        Counter::Bytes(Scope::Tenant(bucket.tenant.id)),
        Counter::Bytes(Scope::Bucket(bucket.id)),
    ];
    tree.kv()
        .commit(Batch {
            puts: vec![(keys::version(parent, file_name, id), version.to_value())],
            adds: counters.iter().map(|counter| (counter.key(), 5)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    id
}

async fn versions_of(tree: &Tree, bucket: &Bucket, name: &str) -> Vec<VersionId> {
    let found = tree.lookup(bucket, &key(name)).await.unwrap().unwrap();
    let (parent, file_name, _) = keys::parse_entry(&found.key).unwrap();
    let history = tree.history(parent, file_name, name).await.unwrap();
    history.iter().map(|version| version.id).collect()
}

#[tokio::test]
async fn history_moves_with_renames() {
    let (tree, bucket) = tree().await;
    let published = put(&tree, &bucket, "d/file").await;
    let first = add_older(&tree, &bucket, &published, "d/file").await;
    let second = add_older(&tree, &bucket, &published, "d/file").await;
    assert_sound(&tree).await;

    let none = (&Condition::NONE, &Condition::NONE);
    tree.rename_file(
        &ALICE,
        (&bucket, &key("d/file")),
        (&bucket, &key("e/other")),
        none,
    )
    .await
    .unwrap();
    assert_eq!(
        versions_of(&tree, &bucket, "e/other").await,
        [second, first],
        "newest first"
    );
    assert_sound(&tree).await;

    let options = RenameOptions {
        make_parents: true,
        ..RenameOptions::default()
    };
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("e")),
        (&bucket, &key("x/y")),
        options,
    )
    .await
    .unwrap();
    assert_eq!(
        versions_of(&tree, &bucket, "x/y/other").await,
        [second, first]
    );
    assert_sound(&tree).await;
}

#[tokio::test]
async fn history_keeps_its_directory_but_not_visible() {
    let (tree, bucket) = tree().await;
    let published = put(&tree, &bucket, "d/file").await;
    add_older(&tree, &bucket, &published, "d/file").await;
    delete(&tree, &bucket, "d/file").await.unwrap();
    assert_eq!(all_keys(&tree, &bucket).await, Vec::<String>::new());
    assert!(tree.find_dir(&bucket, &key("d")).await.unwrap().is_none());
    reclaim_all(&tree).await;
    assert_eq!(
        assert_sound(&tree).await.dirs,
        1,
        "the place of the history"
    );
    let gone = tree.delete_bucket(&ALICE, &bucket).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotEmpty);
    // Neither is it overwritten by a rename.
    put(&tree, &bucket, "other/file").await;
    let onto = tree
        .rename_dir(
            &ALICE,
            (&bucket, &key("other")),
            (&bucket, &key("d")),
            RenameOptions::default(),
        )
        .await
        .unwrap_err();
    assert_eq!(onto.kind(), ErrorKind::NotEmpty);
}

#[tokio::test]
async fn delete_markers_hide_the_file() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "d/file").await;
    let found = tree.lookup(&bucket, &key("d/file")).await.unwrap().unwrap();
    let mut file = found.file.clone();
    file.current.flags = VersionFlags::DELETE_MARKER;
    let value: Bytes = file.to_value();
    let counters = [
        Scope::Tenant(bucket.tenant.id),
        Scope::Bucket(bucket.id),
        Scope::User(ALICE.user),
    ];
    tree.kv()
        .commit(Batch {
            puts: vec![(found.key.clone(), value)],
            adds: counters
                .iter()
                .map(|scope| (Counter::Objects(*scope).key(), -1))
                .collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    assert!(
        tree.lookup(&bucket, &key("d/file"))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(all_keys(&tree, &bucket).await, Vec::<String>::new());
    assert!(tree.find_dir(&bucket, &key("d")).await.unwrap().is_none());
    assert!(delete(&tree, &bucket, "d/file").await.is_none());
    assert_sound(&tree).await;
    // A new version takes the marker's place.
    put(&tree, &bucket, "d/file").await;
    assert_eq!(all_keys(&tree, &bucket).await, ["d/file"]);
    assert_sound(&tree).await;
}
