//! What limits, and what it does not hinder.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_catalog::record::{Counter, CounterScope, DocumentKind, Versioning};
use dewar_types::{ErrorKind, GroupId, VersionName};

use super::*;

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
            (bucket, &key(name)).into(),
            new,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await;
    published.map(drop).map_err(|error| error.kind())
}

async fn room(tree: &Tree, bucket: &Bucket, name: &str, size: u64) -> Result<(), ErrorKind> {
    let found = tree.find_name(bucket, &key(name)).await.unwrap();
    let checked = tree.check_room(&found, ALICE.user, size).await;
    checked.map_err(|error| error.kind())
}

const FULL: Result<(), ErrorKind> = Err(ErrorKind::Quota);

#[tokio::test]
async fn a_bucket_takes_what_fits() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    let other = make_bucket(&tree, "two").await;
    let scope = CounterScope::Bucket(bucket.id);
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
    assert_eq!(tree.catalog().all_quotas().await.unwrap(), []);
    assert_sound(&tree).await;
}

#[tokio::test]
async fn whoever_owns_it_and_its_tenant_are_limited_too() {
    let (tree, bucket) = tree().await;
    tree.limit(CounterScope::User(ALICE.user), objects(1))
        .await
        .unwrap();
    assert_eq!(fill(&tree, &bucket, "a", 1).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "b", 1).await, FULL);
    tree.limit(CounterScope::User(ALICE.user), Quota::default())
        .await
        .unwrap();
    tree.limit(CounterScope::Tenant(bucket.tenant.id), bytes(3))
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
    let scope = CounterScope::Group(group);
    fill(&tree, &bucket, "d/before", 7).await.unwrap();
    tree.set_group(&ALICE, &bucket, Some(&key("d")), Some(group))
        .await
        .unwrap();
    let of = async |tree: &Tree, group| {
        tree.catalog()
            .usage(CounterScope::Group(group))
            .await
            .unwrap()
    };
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
        (&bucket, &key("d/before")).into(),
        (&bucket, &key("outside3")).into(),
        (&WriteCondition::NONE, &WriteCondition::NONE),
        Hierarchy::Flat,
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
    assert_eq!(
        tree.catalog()
            .usage(CounterScope::Space(id))
            .await
            .unwrap()
            .bytes,
        10
    );
    assert_eq!(fill(&tree, &bucket, "s/x/a", 11).await, FULL);
    assert_eq!(room(&tree, &bucket, "s/x/a", 11).await, FULL);
    assert_eq!(fill(&tree, &bucket, "s/x/a", 10).await, Ok(()));
    assert_eq!(fill(&tree, &bucket, "outside", 100).await, Ok(()));
    // Moved in is as put in.
    let moved = tree
        .rename_file(
            &ALICE,
            (&bucket, &key("outside")).into(),
            (&bucket, &key("s/inside")).into(),
            (&WriteCondition::NONE, &WriteCondition::NONE),
            Hierarchy::Flat,
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
    let set = tree.catalog().all_quotas().await.unwrap();
    assert_eq!(set[0].place, Some((bucket.id, key("t"))));
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
    let used = async || {
        tree.catalog()
            .usage(CounterScope::Space(id))
            .await
            .unwrap()
            .bytes
    };
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
    tree.limit(CounterScope::Bucket(bucket.id), bytes(7))
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

/// What frees is never refused.
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
        .delete(&ALICE, &bucket, &DeleteTarget::key(key("a")), false)
        .await
        .unwrap();
    put(&tree, &bucket, "b").await;
    tree.limit(CounterScope::Bucket(bucket.id), objects(1))
        .await
        .unwrap();
    assert_eq!(fill(&tree, &bucket, "c", 0).await, FULL);
    let marker = marker.marker.expect("a marker").id;
    let doomed = DeleteTarget {
        version: Some(VersionName::Id(marker)),
        ..DeleteTarget::key(key("a"))
    };
    tree.delete(&ALICE, &bucket, &doomed, false).await.unwrap();
    let usage = tree
        .catalog()
        .usage(CounterScope::Bucket(bucket.id))
        .await
        .unwrap();
    assert_eq!(usage.objects, 2);
}

async fn keeping(tree: &Tree, bucket: &Bucket) {
    tree.configure_bucket(&ALICE, bucket, |change| {
        change.settings.versioning = Versioning::Enabled;
        Ok(())
    })
    .await
    .unwrap();
}

async fn used(tree: &Tree, scope: CounterScope) -> (u64, u64) {
    let usage = tree.catalog().usage(scope).await.unwrap();
    (usage.objects, usage.bytes)
}

fn text(bytes: usize) -> BTreeMap<String, String> {
    BTreeMap::from([("m".to_owned(), "x".repeat(bytes - 1))])
}

async fn fill_with(
    tree: &Tree,
    bucket: &Bucket,
    name: &str,
    metadata: usize,
) -> Result<(), ErrorKind> {
    let mut new = content(tree, 0, name).await;
    new.attributes.metadata = text(metadata);
    let published = tree
        .publish(
            &ALICE,
            (bucket, &key(name)).into(),
            new,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await;
    published.map(drop).map_err(|error| error.kind())
}

/// Each version and marker is an object, and metadata beyond what is free is bytes.
#[tokio::test]
async fn versions_markers_and_their_metadata_count() {
    let (tree, bucket) = tree().await;
    keeping(&tree, &bucket).await;
    let scope = CounterScope::Bucket(bucket.id);
    assert_eq!(fill_with(&tree, &bucket, "a", 2048).await, Ok(()));
    assert_eq!(used(&tree, scope).await, (1, 0));
    assert_eq!(fill_with(&tree, &bucket, "a", 3048).await, Ok(()));
    assert_eq!(used(&tree, scope).await, (2, 1000));
    tree.limit(
        scope,
        Quota {
            max_bytes: Some(1500),
            max_objects: Some(4),
            ..Quota::default()
        },
    )
    .await
    .unwrap();
    assert_eq!(fill_with(&tree, &bucket, "a", 2549).await, FULL);
    assert_eq!(fill_with(&tree, &bucket, "a", 2548).await, Ok(()));
    // Tags and extended attributes are metadata too, of the version and of the file.
    let a = key("a");
    let tag = async |bytes: usize| {
        let tagged = tree.change_version(&ALICE, (&bucket, &a).into(), None, |attributes, _| {
            attributes.tags = Some(text(bytes));
            Ok(())
        });
        tagged.await.map(drop).map_err(|error| error.kind())
    };
    assert_eq!(tag(1).await, FULL);
    tree.limit(scope, objects(4)).await.unwrap();
    assert_eq!(tag(100).await, Ok(()));
    assert_eq!(used(&tree, scope).await, (3, 1600));
    tree.alter_file(&ALICE, (&bucket, &key("a")).into(), |attributes| {
        attributes.xattrs.insert("x".into(), vec![0; 9].into());
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(used(&tree, scope).await, (3, 1610));
    assert_sound(&tree).await;
    // What takes metadata away is never refused.
    tree.limit(scope, bytes(1)).await.unwrap();
    assert_eq!(tag(1).await, Ok(()));
    assert_eq!(used(&tree, scope).await, (3, 1511));
    // A marker over something readable always comes, one for a name without must fit. The file's
    // extended attributes stay with it.
    tree.limit(scope, objects(3)).await.unwrap();
    let mark = async |name: &str| {
        let doomed = DeleteTarget::key(key(name));
        let done = tree.delete(&ALICE, &bucket, &doomed, false);
        done.await.map(drop).map_err(|error| error.kind())
    };
    assert_eq!(mark("a").await, Ok(()));
    assert_eq!(used(&tree, scope).await.0, 4);
    assert_eq!(mark("a").await, FULL);
    assert_eq!(mark("none").await, FULL);
    assert_sound(&tree).await;
    // In a list only that one is refused.
    tree.limit(scope, objects(5)).await.unwrap();
    assert_eq!(fill(&tree, &bucket, "b", 1).await, Ok(()));
    let list = [DeleteTarget::key(key("none")), DeleteTarget::key(key("b"))];
    let done = tree.delete_many(&ALICE, &bucket, &list, false).await;
    let done: Vec<_> = done.unwrap().into_iter().collect();
    let kinds: Vec<_> = done
        .iter()
        .map(|done| done.as_ref().err().map(dewar_types::Error::kind))
        .collect();
    assert_eq!(kinds, [Some(ErrorKind::Quota), None]);
    assert_sound(&tree).await;
}

async fn part(tree: &Tree, size: u64) -> NewPart {
    NewPart {
        id: None,
        size,
        etag: ETag::Text(size.to_string()),
        digests: DIGESTS(),
        copies: content(tree, size, "part").await.copies,
        checksum: None,
    }
}

/// Parts count when they come, and an upload that was taken can be completed.
#[tokio::test]
async fn uploads_and_their_parts_count() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "s/before").await;
    let id = tree
        .limit_space(&ALICE, &bucket, &key("s"), bytes(100))
        .await
        .unwrap();
    let (space, user) = (CounterScope::Space(id), CounterScope::User(ALICE.user));
    let k = key("s/upload");
    let new = NewUpload {
        attributes: VersionAttributes {
            metadata: text(2050),
            ..VersionAttributes::default()
        },
        ..NewUpload::default()
    };
    let upload = tree.create_upload(&ALICE, &bucket, &k, &new).await;
    let upload = upload.unwrap().id;
    assert_eq!(used(&tree, space).await, (2, 12));
    let add = async |number: u16, size: u64| {
        let part = part(&tree, size).await;
        let extra = DataChanges::default();
        let done = tree.put_part(&bucket, &k, upload, number, &part, &extra);
        done.await.map(drop).map_err(|error| error.kind())
    };
    let room = async |number: u16, size: u64| {
        let checked = tree.check_part_room(&bucket, &k, upload, number, size);
        checked.await.map_err(|error| error.kind())
    };
    assert_eq!(add(1, 80).await, Ok(()));
    assert_eq!(room(2, 9).await, FULL);
    assert_eq!(add(2, 9).await, FULL);
    assert_eq!(room(1, 88).await, Ok(()));
    assert_eq!(add(1, 88).await, Ok(()));
    assert_eq!(add(1, 50).await, Ok(()));
    assert_eq!(add(2, 38).await, Ok(()));
    assert_eq!(used(&tree, space).await, (2, 100));
    assert_eq!(fill(&tree, &bucket, "s/more", 1).await, FULL);
    assert_sound(&tree).await;
    let owners = tree.upload_usage(10).await.unwrap();
    let owner = &owners[0];
    assert_eq!(
        (owner.owner, owner.uploads, owner.bytes),
        (ALICE.user, 1, 90)
    );
    assert!(owner.oldest.is_some());
    // Less than what is there already: it can be completed all the same, and gives back what it drops.
    tree.limit_space(&ALICE, &bucket, &key("s"), bytes(20))
        .await
        .unwrap();
    let list = [CompletePart {
        number: 2,
        etag: "38".into(),
    }];
    let join = |_: &record::UploadRecord, _: &[(u16, &record::PartRecord)]| {
        Ok(CompletedObject {
            etag: ETag::Text("whole".into()),
            digests: DIGESTS(),
            checksum: None,
            encryption: None,
            part_digests: Vec::new(),
            version: None,
        })
    };
    let none = &WriteCondition::NONE;
    tree.complete_upload(&ALICE, (&bucket, &k).into(), upload, &list, 0, none, &join)
        .await
        .unwrap();
    assert_eq!(used(&tree, space).await, (2, 50));
    // With the directory, which stays since it is limited.
    assert_eq!(used(&tree, user).await, (3, 50));
    assert_eq!(tree.upload_usage(10).await.unwrap(), []);
    assert_sound(&tree).await;
}

/// An upload stays charged to the space it began in, wherever that goes.
#[tokio::test]
async fn an_upload_outlives_its_space() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "s/before").await;
    let none = Quota::default();
    let limited = tree.limit_space(&ALICE, &bucket, &key("s"), none).await;
    let space = CounterScope::Space(limited.unwrap());
    let k = key("s/upload");
    let new = NewUpload::default();
    let begin = async || {
        let begun = tree.create_upload(&ALICE, &bucket, &k, &new).await;
        begun.unwrap().id
    };
    let add = async |upload, size| {
        let part = part(&tree, size).await;
        let extra = DataChanges::default();
        tree.put_part(&bucket, &k, upload, 1, &part, &extra)
            .await
            .unwrap();
    };
    let (first, second) = (begin().await, begin().await);
    add(first, 5).await;
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("s")),
        (&bucket, &key("t")),
        RenameOptions::default(),
    )
    .await
    .unwrap();
    add(second, 7).await;
    assert_eq!(used(&tree, space).await, (3, 22));
    assert_sound(&tree).await;
    // Counted anew it is the same.
    tree.count_space(&bucket, &key("t")).await.unwrap();
    assert_eq!(used(&tree, space).await, (3, 22));
    tree.abort_upload(&ALICE, &bucket, &k, first).await.unwrap();
    assert_eq!(used(&tree, space).await, (2, 17));
    delete(&tree, &bucket, "t/before").await.unwrap();
    tree.remove_dir(&ALICE, &bucket, &key("t")).await.unwrap();
    // The space is gone, and nothing is counted for it any more.
    tree.abort_upload(&ALICE, &bucket, &k, second)
        .await
        .unwrap();
    assert_eq!(used(&tree, space).await, (0, 0));
    let counter = Counter::Bytes(space).key();
    assert_eq!(tree.kv().get(&counter).await.unwrap().value, None);
    assert_sound(&tree).await;
}

/// An upload without a part for a while ends, one with a late part does not.
#[tokio::test]
async fn an_upload_is_as_old_as_its_last_part() {
    let (tree, bucket) = tree().await;
    let k = key("k");
    let upload = tree
        .create_upload(&ALICE, &bucket, &k, &NewUpload::default())
        .await
        .unwrap();
    let part = part(&tree, 5).await;
    let part = tree
        .put_part(&bucket, &k, upload.id, 1, &part, &DataChanges::default())
        .await
        .unwrap();
    let ended = async |before| {
        let due = |last| last < before;
        let ended = tree.abort_upload_if(&ALICE, &bucket, &k, upload.id, due);
        ended.await.unwrap()
    };
    assert!(!ended(part.modified).await);
    let page = tree.uploads_after(None, 10).await.unwrap();
    assert_eq!(page[0].upload.id, upload.id);
    assert_eq!(tree.uploads_after(Some(&page[0]), 10).await.unwrap(), []);
    assert!(ended(dewar_types::Timestamp(part.modified.0 + 1)).await);
    assert_eq!(used(&tree, CounterScope::User(ALICE.user)).await, (0, 0));
    assert_sound(&tree).await;
}

/// A catalog of 708fabe counts otherwise; the first opening makes its counters right.
#[tokio::test]
async fn counters_of_an_older_release_are_made_right() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    keeping(&tree, &bucket).await;
    put(&tree, &bucket, "s/a").await;
    put(&tree, &bucket, "s/a").await;
    fill_with(&tree, &bucket, "s/b", 3000).await.unwrap();
    delete(&tree, &bucket, "s/a").await;
    document(&tree, &bucket, DocumentKind::Policy, 2100)
        .await
        .unwrap();
    let space = tree
        .limit_space(&ALICE, &bucket, &key("s"), bytes(1 << 20))
        .await
        .unwrap();
    let upload = tree
        .create_upload(&ALICE, &bucket, &key("u"), &NewUpload::default())
        .await
        .unwrap();
    let new = part(&tree, 77).await;
    tree.put_part(
        &bucket,
        &key("u"),
        upload.id,
        1,
        &new,
        &DataChanges::default(),
    )
    .await
    .unwrap();
    let scopes = [
        CounterScope::Tenant(bucket.tenant.id),
        CounterScope::Bucket(bucket.id),
        CounterScope::Space(space),
        CounterScope::User(ALICE.user),
    ];
    // As it counted: readable files and their bytes.
    for scope in scopes {
        let right = tree.catalog().usage(scope).await.unwrap();
        let batch = dewar_kv::Batch {
            adds: vec![
                (Counter::Objects(scope).key(), 1 - right.objects as i64),
                (Counter::Bytes(scope).key(), 20 - right.bytes as i64),
            ],
            ..Default::default()
        };
        tree.kv().commit(batch).await.unwrap();
    }
    let batch = dewar_kv::Batch {
        deletes: vec![
            Counter::Uploads(ALICE.user).key(),
            Counter::UploadBytes(ALICE.user).key(),
        ],
        ..Default::default()
    };
    tree.kv().commit(batch).await.unwrap();
    assert!(!tree.audit().await.unwrap().faults.is_empty());
    let tree = tree_on(&kv).await;
    assert!(tree.recount_if_outdated().await.unwrap());
    assert_sound(&tree).await;
    assert_eq!(used(&tree, scopes[2]).await, (4, 20 + 952));
    assert_eq!(used(&tree, scopes[3]).await, (6, 20 + 952 + 77 + 52));
    assert!(!tree.recount_if_outdated().await.unwrap());
    // As a release counted that knew all but directories and documents.
    let directory = [scopes[0], scopes[1], scopes[3]];
    let adds = directory.map(|scope| (Counter::Objects(scope).key(), -1));
    let documents = directory.map(|scope| (Counter::Bytes(scope).key(), -52));
    let batch = dewar_kv::Batch {
        adds: [adds, documents].concat(),
        puts: vec![(keys::work(b'c'), bytes::Bytes::from_static(&[2]))],
        ..Default::default()
    };
    tree.kv().commit(batch).await.unwrap();
    assert!(!tree.audit().await.unwrap().faults.is_empty());
    let tree = tree_on(&kv).await;
    assert!(tree.recount_if_outdated().await.unwrap());
    assert_sound(&tree).await;
    assert_eq!(used(&tree, scopes[3]).await, (6, 20 + 952 + 77 + 52));
}

/// Gives a bucket a document of so many bytes, or none; why not, if it is refused.
async fn document(
    tree: &Tree,
    bucket: &Bucket,
    kind: DocumentKind,
    size: usize,
) -> Result<(), ErrorKind> {
    let changed = tree.configure_bucket(&ALICE, bucket, |change| {
        match size {
            0 => change.remove(kind),
            _ => change.put(kind, vec![b'x'; size].into()),
        }
        Ok(())
    });
    changed.await.map_err(|error| error.kind())
}

/// The documents of a bucket beyond what is free are bytes of the bucket, its owner and its tenant.
#[tokio::test]
async fn documents_of_buckets_count() {
    let (tree, bucket) = tree().await;
    let tenant = CounterScope::Tenant(bucket.tenant.id);
    let scopes = [
        tenant,
        CounterScope::User(ALICE.user),
        CounterScope::Bucket(bucket.id),
    ];
    let counts = async |bytes| {
        for scope in scopes {
            assert_eq!(used(&tree, scope).await, (0, bytes), "{scope:?}");
        }
        assert_sound(&tree).await;
    };
    document(&tree, &bucket, DocumentKind::Policy, 2000)
        .await
        .unwrap();
    counts(0).await;
    document(&tree, &bucket, DocumentKind::Lifecycle, 1048)
        .await
        .unwrap();
    counts(1000).await;
    for scope in scopes {
        tree.limit(scope, bytes(1500)).await.unwrap();
        let more = document(&tree, &bucket, DocumentKind::Cors, 501).await;
        assert_eq!(more, FULL, "{scope:?}");
        let longer = document(&tree, &bucket, DocumentKind::Policy, 2501).await;
        assert_eq!(longer, FULL, "{scope:?}");
        tree.limit(scope, Quota::default()).await.unwrap();
    }
    counts(1000).await;
    // Over the limit what takes less is not refused, and neither are settings.
    tree.limit(scopes[1], bytes(10)).await.unwrap();
    let set = tree.configure_bucket(&ALICE, &bucket, |change| {
        change.settings.md5 = true;
        Ok(())
    });
    set.await.unwrap();
    document(&tree, &bucket, DocumentKind::Policy, 1900)
        .await
        .unwrap();
    counts(900).await;
    assert_eq!(fill(&tree, &bucket, "a", 1).await, FULL);
    document(&tree, &bucket, DocumentKind::Policy, 0)
        .await
        .unwrap();
    counts(0).await;
    tree.limit(scopes[1], Quota::default()).await.unwrap();
    // They go with their bucket.
    document(&tree, &bucket, DocumentKind::Tags, 5000)
        .await
        .unwrap();
    tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap();
    counts(0).await;
    // A bucket may begin with some.
    tree.limit(tenant, bytes(100)).await.unwrap();
    let name = dewar_types::BucketName::new("new").unwrap();
    let begin = async |size| {
        let new = NewBucket {
            documents: BTreeMap::from([(DocumentKind::Acl, vec![b'x'; size].into())]),
            ..NewBucket::default()
        };
        let made = tree.create_bucket(&ALICE, &bucket.tenant, &name, new).await;
        made.map(drop).map_err(|error| error.kind())
    };
    assert_eq!(begin(2149).await, FULL);
    assert_eq!(begin(2148).await, Ok(()));
    assert_eq!(used(&tree, tenant).await, (0, 100));
    assert_sound(&tree).await;
}

/// Directories that were made are objects, and their attributes beyond what is free are bytes; those that
/// only slashes made are free until somebody wants them to stay.
#[tokio::test]
async fn directories_and_their_attributes_count() {
    let (tree, bucket) = tree().await;
    let scope = CounterScope::Bucket(bucket.id);
    let make = async |path: &str| {
        let options = DirOptions {
            existing: false,
            hierarchy: Hierarchy::Flat,
            group: None,
            mode: 0o755,
            make_parents: true,
        };
        let made = tree.make_dir(&ALICE, &bucket, &key(path), options).await;
        made.map(drop).map_err(|error| error.kind())
    };
    let attribute = async |path: &str, len: usize| {
        let path = key(path);
        let altered = tree.alter_dir(&ALICE, &bucket, &path, |attributes| {
            let value = vec![0; len - 1].into();
            attributes.xattrs.insert("x".into(), value);
            Ok(())
        });
        altered.await.map(drop).map_err(|error| error.kind())
    };
    assert_eq!(make("a/b/made").await, Ok(()));
    assert_eq!(used(&tree, scope).await, (1, 0));
    let space = tree
        .limit_space(&ALICE, &bucket, &key("a"), objects(4))
        .await
        .unwrap();
    let space = CounterScope::Space(space);
    // The directory that is limited counts above itself.
    assert_eq!(used(&tree, space).await, (1, 0));
    assert_eq!(used(&tree, scope).await, (2, 0));
    put(&tree, &bucket, "a/c/d/file").await;
    assert_eq!(used(&tree, space).await, (2, 10));
    // Who sets an attribute of a directory keeps it.
    assert_eq!(attribute("a/c/d", 2058).await, Ok(()));
    assert_eq!(used(&tree, space).await, (3, 20));
    delete(&tree, &bucket, "a/c/d/file").await.unwrap();
    while tree.reclaim_empty_dirs(10).await.unwrap().more {}
    assert_eq!(used(&tree, space).await, (2, 10));
    assert_eq!(make("a/c/e").await, Ok(()));
    assert_eq!(make("a/c/f").await, Ok(()));
    assert_eq!(make("a/c/g").await, FULL);
    // A directory above the one that is attributed is not there for free either.
    assert_eq!(attribute("a/c", 1).await, FULL);
    let limits = Quota {
        max_bytes: Some(12),
        ..Quota::default()
    };
    let limited = tree.limit_space(&ALICE, &bucket, &key("a"), limits).await;
    limited.unwrap();
    assert_eq!(attribute("a/c/e", 2051).await, FULL);
    assert_eq!(attribute("a/c/e", 2050).await, Ok(()));
    assert_eq!(used(&tree, space).await, (4, 12));
    assert_sound(&tree).await;
    // It is the same when all is counted anew, and less when they go.
    tree.count_space(&bucket, &key("a")).await.unwrap();
    assert_eq!(used(&tree, space).await, (4, 12));
    tree.remove_dir(&ALICE, &bucket, &key("a/c/e"))
        .await
        .unwrap();
    assert_eq!(used(&tree, space).await, (3, 10));
    let options = RenameOptions {
        replaces: ReplaceRule::EmptyDirectory,
        ..RenameOptions::default()
    };
    let (from, to) = (key("a/c/d"), key("a/c/f"));
    tree.rename_dir(&ALICE, (&bucket, &from), (&bucket, &to), options)
        .await
        .unwrap();
    assert_eq!(used(&tree, space).await, (2, 10));
    assert_sound(&tree).await;
    // Spaces in spaces, and all of it goes.
    let inner = tree
        .limit_space(&ALICE, &bucket, &key("a/b"), objects(9))
        .await
        .unwrap();
    let inner = CounterScope::Space(inner);
    assert_eq!(used(&tree, inner).await, (1, 0));
    let emptied = tree.delete_bucket(&ALICE, &bucket, Emptiness::DirectoriesOnly);
    emptied.await.unwrap();
    for scope in [inner, space, scope, CounterScope::User(ALICE.user)] {
        assert_eq!(used(&tree, scope).await, (0, 0), "{scope:?}");
    }
    let tenant = CounterScope::Tenant(bucket.tenant.id);
    assert_eq!(used(&tree, tenant).await, (0, 0));
    assert_sound(&tree).await;
}

/// Directories hinder S3 from nothing, however they were made and limited.
#[tokio::test]
async fn a_bucket_of_directories_can_be_deleted() {
    let kv = MemoryKv::new();
    let tree = tree_on(&kv).await;
    let bucket = make_bucket(&tree, "one").await;
    let options = DirOptions {
        existing: false,
        hierarchy: Hierarchy::Flat,
        group: None,
        mode: 0o755,
        make_parents: true,
    };
    tree.make_dir(&ALICE, &bucket, &key("made/below"), options)
        .await
        .unwrap();
    put(&tree, &bucket, "limited/once/file").await;
    let id = tree
        .limit_space(&ALICE, &bucket, &key("limited/once"), bytes(100))
        .await
        .unwrap();
    let upload = tree
        .create_upload(
            &ALICE,
            &bucket,
            &key("limited/once/u"),
            &NewUpload::default(),
        )
        .await;
    upload.unwrap();
    let delete_bucket = async |emptiness| {
        let done = tree.delete_bucket(&ALICE, &bucket, emptiness).await;
        done.map_err(|error| error.kind())
    };
    let refused = Err(ErrorKind::NotEmpty);
    assert_eq!(delete_bucket(Emptiness::DirectoriesOnly).await, refused);
    // What was refused took nothing away.
    let made = tree.find_node(&bucket, &key("made/below")).await.unwrap();
    assert!(made.directory().is_some());
    delete(&tree, &bucket, "limited/once/file").await.unwrap();
    assert_eq!(delete_bucket(Emptiness::Bare).await, refused);
    assert_eq!(delete_bucket(Emptiness::DirectoriesOnly).await, Ok(()));
    assert_eq!(tree.catalog().all_quotas().await.unwrap(), []);
    let counter = Counter::Bytes(CounterScope::Space(id)).key();
    assert_eq!(tree.kv().get(&counter).await.unwrap().value, None);
    assert_eq!(used(&tree, CounterScope::User(ALICE.user)).await, (0, 0));
    assert_sound(&tree).await;
}

/// What open writers have on disks counts for others, up to what is limited, until they go.
#[tokio::test]
async fn open_writers_reserve_what_they_write() {
    let (tree, bucket) = tree().await;
    let (k, owner) = (key("s/open"), ALICE.user);
    let mut writer = tree.reservation(&bucket, &k, owner, None);
    // Nothing is limited, so nobody is asked.
    tree.reserve(&mut writer, &bucket, &k, 70).await.unwrap();
    assert_eq!(writer.covers(), 0);
    put(&tree, &bucket, "s/before").await;
    let space = tree
        .limit_space(&ALICE, &bucket, &key("s"), bytes(100))
        .await
        .unwrap();
    for scope in [CounterScope::User(owner), CounterScope::Bucket(bucket.id)] {
        tree.limit(scope, bytes(1000)).await.unwrap();
    }
    let reserve = async |writer: &mut Reservation, bytes| {
        let reserved = tree.reserve(writer, &bucket, &k, bytes).await;
        reserved.map_err(|error| error.kind())
    };
    assert_eq!(reserve(&mut writer, 30).await, Ok(()));
    assert_eq!(writer.covers(), 30);
    // It takes twice of what it has where that fits, else what it needs.
    assert_eq!(reserve(&mut writer, 31).await, Ok(()));
    assert_eq!(writer.covers(), 60);
    assert_eq!(reserve(&mut writer, 61).await, Ok(()));
    assert_eq!(writer.covers(), 61);
    assert_eq!(room(&tree, &bucket, "s/more", 30).await, FULL);
    assert_eq!(fill(&tree, &bucket, "s/more", 30).await, FULL);
    assert_eq!(fill(&tree, &bucket, "s/more", 29).await, Ok(()));
    assert_eq!(reserve(&mut writer, 62).await, FULL);
    assert_eq!(writer.covers(), 61);
    let said = tree.reserve(&mut writer, &bucket, &k, 62).await;
    let said = said.unwrap_err().to_string();
    assert!(said.contains("take 62 bytes"), "{said}");
    drop(writer);
    assert_eq!(fill(&tree, &bucket, "s/more2", 61).await, Ok(()));
    assert_eq!(used(&tree, CounterScope::Space(space)).await, (3, 100));
    for scope in [CounterScope::Space(space), CounterScope::User(owner)] {
        assert_eq!(tree.quotas.reserved.bytes(scope), 0);
    }
    assert_sound(&tree).await;
}

/// One writer of a name may take the bytes of the version that it replaces, if that goes.
#[tokio::test]
async fn a_writer_has_the_room_of_what_it_replaces_once() {
    let (tree, bucket) = tree().await;
    let k = key("a");
    fill(&tree, &bucket, "a", 80).await.unwrap();
    tree.limit(CounterScope::Bucket(bucket.id), bytes(100))
        .await
        .unwrap();
    let there = tree.lookup(&bucket, &k).await.unwrap().unwrap();
    let begin = |bucket: &Bucket| tree.reservation(bucket, &k, ALICE.user, Some(&there));
    let reserve = async |writer: &mut Reservation, bytes| {
        let reserved = tree.reserve(writer, &bucket, &k, bytes).await;
        reserved.map_err(|error| error.kind())
    };
    let (mut first, mut second) = (begin(&bucket), begin(&bucket));
    assert_eq!(reserve(&mut first, 90).await, Ok(()));
    assert_eq!(reserve(&mut second, 11).await, FULL);
    assert_eq!(reserve(&mut second, 10).await, Ok(()));
    assert_eq!(reserve(&mut first, 91).await, FULL);
    drop((first, second));
    let mut third = begin(&bucket);
    assert_eq!(reserve(&mut third, 100).await, Ok(()));
    drop(third);
    keeping(&tree, &bucket).await;
    let tenant = bucket.tenant.clone();
    let now = tree.bucket(&tenant, &bucket.name).await.unwrap().unwrap();
    let mut fourth = begin(&now);
    assert_eq!(reserve(&mut fourth, 21).await, FULL);
    assert_eq!(reserve(&mut fourth, 20).await, Ok(()));
}

/// The room of what is replaced is small, since that may go by other means. What does not fit for that is
/// refused when its size is announced.
#[tokio::test]
async fn a_large_version_makes_little_room_for_its_successor() {
    let (tree, bucket) = tree().await;
    let (k, mib) = (key("a"), 1 << 20);
    fill(&tree, &bucket, "a", 40 * mib).await.unwrap();
    tree.limit(CounterScope::Bucket(bucket.id), bytes(60 * mib))
        .await
        .unwrap();
    let there = tree.lookup(&bucket, &k).await.unwrap().unwrap();
    let mut writer = tree.reservation(&bucket, &k, ALICE.user, Some(&there));
    assert_eq!(writer.covers(), 16 * mib);
    for (size, expected) in [(36 * mib, Ok(())), (36 * mib + 1, FULL)] {
        let found = tree.find_name(&bucket, &k).await.unwrap();
        let checked = tree.check_reservation(&writer, &found, size).await;
        assert_eq!(checked.map_err(|error| error.kind()), expected);
        let reserved = tree.reserve(&mut writer, &bucket, &k, size).await;
        assert_eq!(reserved.map_err(|error| error.kind()), expected);
    }
}
