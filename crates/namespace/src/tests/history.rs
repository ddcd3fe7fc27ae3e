//! Versions: kept, named, hidden by markers, taken away, moved.

use dewar_catalog::record::{
    CounterScope, DefaultRetention, ObjectLock, Retention, RetentionMode, Versioning,
};
use dewar_types::{Timestamp, VersionName};

use super::*;

async fn keep(tree: &Tree, bucket: &Bucket, versioning: Versioning) {
    tree.configure_bucket(&ALICE, bucket, |change| {
        change.settings.versioning = versioning;
        Ok(())
    })
    .await
    .unwrap();
}

/// A tree with a bucket that keeps versions.
async fn keeping() -> (Tree, Bucket) {
    let (tree, bucket) = tree().await;
    keep(&tree, &bucket, Versioning::Enabled).await;
    (tree, bucket)
}

/// Names of all versions of a key, newest first; delete markers with a `-`.
async fn versions_of(tree: &Tree, bucket: &Bucket, name: &str) -> Vec<String> {
    let query = VersionQuery {
        prefix: name,
        max: LIST_MAX,
        ..VersionQuery::default()
    };
    let page = tree.list_versions(bucket, query).await.unwrap();
    page.items
        .iter()
        .filter_map(|item| match item {
            ListedVersion::Version { key, version, .. } if key == name => {
                let mark = if version.flags.delete_marker() {
                    "-"
                } else {
                    ""
                };
                Some(format!("{mark}{}", version.name()))
            }
            _ => None,
        })
        .collect()
}

async fn remove(
    tree: &Tree,
    bucket: &Bucket,
    name: &str,
    version: Option<VersionName>,
) -> Result<DeleteOutcome, ErrorKind> {
    let doomed = DeleteTarget {
        version,
        ..DeleteTarget::key(key(name))
    };
    let removed = tree.delete(&ALICE, bucket, &doomed, false).await;
    removed.map_err(|error| error.kind())
}

fn named(published: &Published) -> Option<VersionName> {
    Some(VersionName::Id(published.version.id))
}

#[tokio::test]
async fn versions_are_kept_and_come_back() {
    let (tree, bucket) = keeping().await;
    let first = put(&tree, &bucket, "d/file").await;
    let second = put(&tree, &bucket, "d/file").await;
    assert_eq!(
        second.replaced.as_ref().map(|v| v.id),
        Some(first.version.id)
    );
    let marker = remove(&tree, &bucket, "d/file", None).await.unwrap();
    let marker = marker.marker.expect("a marker");
    assert_eq!(
        versions_of(&tree, &bucket, "d/file").await,
        [
            format!("-{}", marker.id),
            second.version.id.to_string(),
            first.version.id.to_string()
        ]
    );
    assert!(all_keys(&tree, &bucket).await.is_empty());
    let object = key("d/file");
    assert!(tree.lookup(&bucket, &object).await.unwrap().is_none());
    let hidden = tree.lookup_version(&bucket, &object, None).await.unwrap();
    assert!(!hidden.expect("the marker").is_live());
    let older = tree
        .lookup_version(&bucket, &object, named(&first))
        .await
        .unwrap()
        .expect("kept");
    assert_eq!(older.current.etag, first.version.etag);
    assert_eq!(older.attributes.owner, ALICE.user);
    let usage = tree
        .catalog()
        .usage(CounterScope::Bucket(bucket.id))
        .await
        .unwrap();
    assert_eq!((usage.objects, usage.bytes), (3, 20));
    assert_sound(&tree).await;

    // The marker goes, and the file is back.
    let back = remove(&tree, &bucket, "d/file", Some(VersionName::Id(marker.id))).await;
    assert!(back.unwrap().version.unwrap().flags.delete_marker());
    assert_eq!(all_keys(&tree, &bucket).await, ["d/file"]);
    assert_sound(&tree).await;
    // The current version goes, and the one before is current.
    remove(&tree, &bucket, "d/file", named(&second))
        .await
        .unwrap();
    let found = tree.lookup(&bucket, &object).await.unwrap().unwrap();
    assert_eq!(found.current.id, first.version.id);
    assert_eq!((found.older, found.current.owner), (0, None));
    // Twice is no error, and changes nothing.
    let again = remove(&tree, &bucket, "d/file", named(&second)).await;
    assert_eq!(again, Ok(DeleteOutcome::default()));
    remove(&tree, &bucket, "d/file", named(&first))
        .await
        .unwrap();
    reclaim_all(&tree).await;
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.files, audit.dirs, audit.queued.len()), (0, 0, 2));
    tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap();
}

#[tokio::test]
async fn null_is_one_version_wherever_it_stands() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "k").await;
    assert_eq!(versions_of(&tree, &bucket, "k").await, ["null"]);
    keep(&tree, &bucket, Versioning::Enabled).await;
    let second = put(&tree, &bucket, "k").await;
    let id = second.version.id.to_string();
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        [id.as_str(), "null"]
    );
    assert_sound(&tree).await;
    keep(&tree, &bucket, Versioning::Suspended).await;
    // The new null takes the place of the old one, which is not the current version.
    put(&tree, &bucket, "k").await;
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        ["null", id.as_str()]
    );
    assert_eq!(assert_sound(&tree).await.queued.len(), 1);
    put(&tree, &bucket, "k").await;
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        ["null", id.as_str()]
    );
    // So does a marker.
    remove(&tree, &bucket, "k", None).await.unwrap();
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        ["-null", id.as_str()]
    );
    remove(&tree, &bucket, "k", None).await.unwrap();
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        ["-null", id.as_str()]
    );
    assert_sound(&tree).await;
    keep(&tree, &bucket, Versioning::Enabled).await;
    let third = put(&tree, &bucket, "k").await;
    let third = third.version.id.to_string();
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        [third.as_str(), "-null", id.as_str()]
    );
    remove(&tree, &bucket, "k", Some(VersionName::Null))
        .await
        .unwrap();
    assert_eq!(
        versions_of(&tree, &bucket, "k").await,
        [third.as_str(), id.as_str()]
    );
    assert_sound(&tree).await;
    // A name is no id, and an id no name.
    let object = key("k");
    let none = tree.lookup_version(&bucket, &object, Some(VersionName::Null));
    assert!(none.await.unwrap().is_none());
}

#[tokio::test]
async fn who_took_longer_is_newer_all_the_same() {
    let (tree, bucket) = keeping().await;
    let mut slow = content(&tree, 10, "slow").await;
    slow.id = Some(tree.ids().version().await.unwrap());
    let quick = put(&tree, &bucket, "k").await;
    let late = tree
        .publish(
            &ALICE,
            (&bucket, &key("k")).into(),
            slow,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await
        .unwrap();
    assert!(late.version.id > quick.version.id);
    assert_sound(&tree).await;
    remove(&tree, &bucket, "k", named(&late)).await.unwrap();
    let found = tree.lookup(&bucket, &key("k")).await.unwrap().unwrap();
    assert_eq!(found.current.id, quick.version.id);
}

#[tokio::test]
async fn lists_take_versions_of_one_key_in_one_batch() {
    let (tree, bucket) = keeping().await;
    let mut list = Vec::new();
    for _ in 0..20 {
        let published = put(&tree, &bucket, "d/k").await;
        list.push(DeleteTarget {
            version: named(&published),
            ..DeleteTarget::key(key("d/k"))
        });
    }
    // In the middle a marker is put on top, and the list is out of order.
    list.insert(7, DeleteTarget::key(key("d/k")));
    list.swap(2, 19);
    let done = tree
        .delete_many(&ALICE, &bucket, &list, false)
        .await
        .unwrap();
    assert!(done.iter().enumerate().all(|(place, done)| {
        let done = done.as_ref().unwrap();
        done.marker.is_some() == (place == 7) && done.version.is_some() == (place != 7)
    }));
    assert_eq!(versions_of(&tree, &bucket, "d/k").await.len(), 1);
    assert_eq!(assert_sound(&tree).await.queued.len(), 20);
}

#[tokio::test]
async fn kept_versions_stay() {
    let (tree, bucket) = keeping().await;
    tree.configure_bucket(&ALICE, &bucket, |change| {
        change.settings.object_lock = Some(ObjectLock {
            default: Some(DefaultRetention {
                mode: RetentionMode::Governance,
                count: 1,
                years: false,
            }),
        });
        Ok(())
    })
    .await
    .unwrap();
    let first = put(&tree, &bucket, "k").await;
    let retention = first.version.retention.expect("the bucket's");
    assert_eq!(
        retention.until.0,
        first.version.modified.0 + 86_400_000_000_000
    );
    put(&tree, &bucket, "k").await;
    let refused = remove(&tree, &bucket, "k", named(&first)).await;
    assert_eq!(refused, Err(ErrorKind::Locked));
    let doomed = DeleteTarget {
        version: named(&first),
        ..DeleteTarget::key(key("k"))
    };
    let set = async |retention, hold| {
        let name = named(&first);
        tree.change_version(&ALICE, (&bucket, &key("k")).into(), name, |version, _| {
            version.retention = retention;
            version.legal_hold = hold;
            Ok(())
        })
        .await
        .unwrap();
    };
    // Who may bypass governance may not bypass the others.
    set(None, Some(true)).await;
    let held = tree.delete(&ALICE, &bucket, &doomed, true).await;
    assert_eq!(held.unwrap_err().kind(), ErrorKind::Locked);
    let compliance = Retention {
        mode: RetentionMode::Compliance,
        until: Timestamp(u64::MAX),
    };
    set(Some(compliance), Some(false)).await;
    let kept = tree.delete(&ALICE, &bucket, &doomed, true).await;
    assert_eq!(kept.unwrap_err().kind(), ErrorKind::Locked);
    assert_sound(&tree).await;
    let over = Retention {
        until: Timestamp(1),
        ..compliance
    };
    set(Some(over), None).await;
    let gone = tree.delete(&ALICE, &bucket, &doomed, false).await.unwrap();
    assert!(gone.version.is_some());
    // Names do not move where versions are kept.
    let none = (&WriteCondition::NONE, &WriteCondition::NONE);
    let moved = tree
        .rename_file(
            &ALICE,
            (&bucket, &key("k")).into(),
            (&bucket, &key("l")).into(),
            none,
            Hierarchy::Flat,
        )
        .await;
    assert_eq!(moved.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn history_moves_with_renames() {
    let (tree, bucket) = keeping().await;
    for _ in 0..3 {
        put(&tree, &bucket, "d/file").await;
    }
    let versions = versions_of(&tree, &bucket, "d/file").await;
    assert_eq!(versions.len(), 3);
    let none = (&WriteCondition::NONE, &WriteCondition::NONE);
    let rename = async |from: &str, to: &str| {
        tree.rename_file(
            &ALICE,
            (&bucket, &key(from)).into(),
            (&bucket, &key(to)).into(),
            none,
            Hierarchy::Flat,
        )
        .await
    };
    rename("d/file", "e/other").await.unwrap();
    assert_eq!(versions_of(&tree, &bucket, "e/other").await, versions);
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
    assert_eq!(versions_of(&tree, &bucket, "x/y/other").await, versions);
    assert_sound(&tree).await;
    // Onto a name with versions it would hide them.
    put(&tree, &bucket, "x/z").await;
    let hides = rename("x/z", "x/y/other").await.unwrap_err();
    assert_eq!(hides.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn history_keeps_its_directory_but_not_visible() {
    let (tree, bucket) = keeping().await;
    put(&tree, &bucket, "d/file").await;
    remove(&tree, &bucket, "d/file", None).await.unwrap();
    assert_eq!(all_keys(&tree, &bucket).await, Vec::<String>::new());
    let node = tree.find_node(&bucket, &key("d")).await.unwrap();
    assert!(node.directory().is_none());
    reclaim_all(&tree).await;
    assert_eq!(
        assert_sound(&tree).await.dirs,
        1,
        "the place of the history"
    );
    let gone = tree
        .delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap_err();
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
    // A new version takes the place on top.
    put(&tree, &bucket, "d/file").await;
    assert_eq!(all_keys(&tree, &bucket).await, ["d/file", "other/file"]);
    assert_eq!(versions_of(&tree, &bucket, "d/file").await.len(), 3);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn conditions_of_deletes_see_markers() {
    let (tree, bucket) = keeping().await;
    let matching = |etag: &str| WriteCondition {
        if_match: vec![ETagMatch::Is(etag.into())],
        ..WriteCondition::NONE
    };
    let remove = async |condition| {
        let doomed = DeleteTarget {
            condition,
            ..DeleteTarget::key(key("k"))
        };
        let removed = tree.delete(&ALICE, &bucket, &doomed, false).await;
        removed.map_err(|error| error.kind())
    };
    // Where there is nothing, a condition is about nothing.
    assert_eq!(remove(matching("x")).await, Ok(DeleteOutcome::default()));
    put(&tree, &bucket, "k").await;
    assert_eq!(remove(matching("x")).await, Err(ErrorKind::Precondition));
    assert!(remove(matching("k")).await.unwrap().marker.is_some());
    assert_eq!(remove(matching("k")).await, Err(ErrorKind::Precondition));
    // Without a condition there is always another marker.
    assert!(remove(WriteCondition::NONE).await.unwrap().marker.is_some());
    assert_eq!(versions_of(&tree, &bucket, "k").await.len(), 3);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn attributes_change_where_the_version_stands() {
    let (tree, bucket) = keeping().await;
    let first = put(&tree, &bucket, "k").await;
    let second = put(&tree, &bucket, "k").await;
    let tag = async |name, value: &str| {
        let tree = tree.clone();
        let object = key("k");
        tree.change_version(&ALICE, (&bucket, &object).into(), name, |version, _| {
            let tags = version.tags.get_or_insert_default();
            tags.insert("t".into(), value.into());
            Ok(())
        })
        .await
    };
    tag(named(&first), "old").await.unwrap();
    tag(None, "new").await.unwrap();
    let look = async |name| {
        let found = tree.lookup_version(&bucket, &key("k"), name).await.unwrap();
        let version = found.expect("there").current;
        (version.id, version.tags["t"].clone())
    };
    assert_eq!(look(named(&first)).await, (first.version.id, "old".into()));
    assert_eq!(look(None).await, (second.version.id, "new".into()));
    assert_sound(&tree).await;
    let unknown = Some(VersionName::Id(VersionId(1)));
    let kind = |result: Result<VersionRecord, Error>| result.unwrap_err().kind();
    assert_eq!(kind(tag(unknown, "x").await), ErrorKind::NoSuchVersion);
    let marker = remove(&tree, &bucket, "k", None).await.unwrap();
    let marker = marker.marker.map(|marker| VersionName::Id(marker.id));
    assert_eq!(kind(tag(None, "x").await), ErrorKind::NotFound);
    assert_eq!(kind(tag(marker, "x").await), ErrorKind::DeleteMarker);
    // A copy of an older version has its tags and nothing else of its own.
    let options = CopyOptions {
        source_name: named(&first),
        ..CopyOptions::default()
    };
    let copy = tree
        .copy(
            &ALICE,
            (&bucket, &key("k")).into(),
            (&bucket, &key("c")).into(),
            &options,
        )
        .await
        .unwrap();
    assert_eq!(copy.version.tags["t"], "old");
    assert!(copy.version.id > second.version.id && copy.version.owner.is_none());
    assert_sound(&tree).await;
}
