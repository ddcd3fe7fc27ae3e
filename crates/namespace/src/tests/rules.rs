//! Single rules: buckets, tenants, conditions, long lists, what rides along.

use bytes::Bytes;
use dewar_catalog::keys;
use dewar_catalog::record::{ChangeKind, ContentCopy, CounterScope};
use dewar_types::{BucketName, ByteRange, TenantName};

use super::*;

fn name(text: &str) -> BucketName {
    BucketName::new(text).unwrap()
}

#[tokio::test]
async fn buckets_belong_to_tenants_and_owners() {
    let (tree, one) = tree().await;
    let default = Tenant::default_tenant();
    let kind = async |actor: &Actor<'_>, tenant: &Tenant, text: &str| {
        tree.create_bucket(actor, tenant, &name(text), NewBucket::default())
            .await
            .map(|bucket| bucket.path("k"))
            .map_err(|error| error.kind())
    };
    let bob = Actor {
        user: UserId(8),
        principal: "bob",
    };
    assert_eq!(
        kind(&ALICE, &default, "one").await,
        Err(ErrorKind::AlreadyOwned)
    );
    assert_eq!(
        kind(&bob, &default, "one").await,
        Err(ErrorKind::AlreadyExists)
    );
    let cms = tree
        .catalog()
        .create_tenant(&ALICE, &TenantName::new("cms").unwrap())
        .await
        .unwrap();
    let again = tree
        .catalog()
        .create_tenant(&ALICE, &cms.name)
        .await
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert_eq!(kind(&bob, &cms, "one").await, Ok("/@cms/one/k".into()));
    let theirs = tree.bucket(&cms, &name("one")).await.unwrap().unwrap();
    put(&tree, &one, "k").await;
    assert_eq!(all_keys(&tree, &theirs).await, Vec::<String>::new());
    assert_eq!(
        tree.catalog().tenants().await.unwrap(),
        [default, cms.clone()]
    );
    assert_eq!(tree.catalog().tenant(&cms.name).await.unwrap(), Some(cms));
    assert_sound(&tree).await;
}

#[tokio::test]
async fn buckets_are_listed_by_name_in_pages() {
    let (tree, _) = tree().await;
    let bob = Actor {
        user: UserId(8),
        principal: "bob",
    };
    let mut names = vec![
        "one", "one.a", "one-a", "one-a-b", "on1", "onf", "zzz", "aaa", "aaaa",
    ];
    for (n, text) in names.iter().enumerate().skip(1) {
        let actor = if n % 2 == 0 { &ALICE } else { &bob };
        tree.create_bucket(
            actor,
            &Tenant::default_tenant(),
            &name(text),
            NewBucket::default(),
        )
        .await
        .unwrap();
    }
    let list = async |query: BucketQuery<'_>| {
        let page = tree
            .buckets(&Tenant::default_tenant(), query)
            .await
            .unwrap();
        let names: Vec<String> = page.buckets.iter().map(|b| b.name.to_string()).collect();
        (names, page.truncated)
    };
    let all = BucketQuery {
        owner: None,
        prefix: "",
        after: None,
        max: 100,
    };
    let bobs: Vec<_> = list(BucketQuery {
        owner: Some(UserId(8)),
        ..all
    })
    .await
    .0;
    names.sort_unstable();
    assert_eq!(
        list(all).await,
        (names.iter().map(|n| (*n).to_owned()).collect(), false)
    );
    assert_eq!(bobs, ["aaa", "one-a-b", "one.a", "onf"]);
    let with_prefix = BucketQuery {
        prefix: "one",
        ..all
    };
    assert_eq!(
        list(with_prefix).await.0,
        ["one", "one-a", "one-a-b", "one.a"]
    );
    for max in 1..5 {
        let (mut paged, mut after) = (Vec::new(), None::<String>);
        loop {
            let (page, truncated) = list(BucketQuery {
                after: after.as_deref(),
                max,
                ..all
            })
            .await;
            assert!(page.len() <= max);
            after = page.last().cloned();
            paged.extend(page);
            if !truncated {
                break;
            }
        }
        assert_eq!(paged, names, "{max} at a time");
    }
    assert_eq!(
        list(BucketQuery { max: 0, ..all }).await,
        (Vec::new(), false)
    );
}

#[tokio::test]
async fn a_bucket_goes_when_nothing_is_in_it() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "a/b").await;
    let refused = tree
        .delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotEmpty);
    delete(&tree, &bucket, "a/b").await.unwrap();
    // Uploads do not hinder it, and are not leaked.
    for n in 0..250 {
        let upload = tree
            .create_upload(
                &ALICE,
                &bucket,
                &key(&format!("u/{n}")),
                &NewUpload::default(),
            )
            .await
            .unwrap();
        if n == 0 {
            let copy = content(&tree, 10, "part").await.copies;
            let part = NewPart {
                id: None,
                size: 10,
                etag: ETag::Text("part".into()),
                digests: DIGESTS(),
                copies: copy,
                checksum: None,
            };
            tree.put_part(
                &bucket,
                &key("u/0"),
                upload.id,
                1,
                &part,
                &DataChanges::default(),
            )
            .await
            .unwrap();
        }
    }
    tree.delete_bucket(&ALICE, &bucket, Emptiness::Bare)
        .await
        .unwrap();
    let audit = assert_sound(&tree).await;
    assert_eq!(
        (audit.named.len(), audit.queued.len(), audit.dirs),
        (0, 2, 0)
    );
    assert!(
        tree.bucket(&bucket.tenant, &bucket.name)
            .await
            .unwrap()
            .is_none()
    );

    // Another of the same name is another bucket.
    let new = make_bucket(&tree, "one").await;
    assert_ne!(new.id, bucket.id);
    let wrote = content(&tree, 1, "x").await;
    let stale = tree
        .publish(
            &ALICE,
            (&bucket, &key("k")).into(),
            wrote,
            &WriteCondition::NONE,
            &DataChanges::default(),
        )
        .await
        .unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::NoSuchBucket);
    let listed = tree
        .list(
            &bucket,
            ListQuery {
                max: 1,
                ..ListQuery::default()
            },
        )
        .await;
    assert_eq!(listed.unwrap_err().kind(), ErrorKind::NoSuchBucket);
    let lookup = tree.lookup(&bucket, &key("k")).await;
    assert_eq!(lookup.unwrap_err().kind(), ErrorKind::NoSuchBucket);
}

#[tokio::test]
async fn renames_stay_in_their_bucket() {
    let (tree, one) = tree().await;
    let two = make_bucket(&tree, "two").await;
    put(&tree, &one, "d/k").await;
    let none = (&WriteCondition::NONE, &WriteCondition::NONE);
    let file = tree
        .rename_file(
            &ALICE,
            (&one, &key("d/k")).into(),
            (&two, &key("k")).into(),
            none,
            Hierarchy::Flat,
        )
        .await;
    assert_eq!(file.unwrap_err().kind(), ErrorKind::Unsupported);
    let dir = tree
        .rename_dir(
            &ALICE,
            (&one, &key("d")),
            (&two, &key("d")),
            RenameOptions::default(),
        )
        .await;
    assert_eq!(dir.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_rename_keeps_file_and_version() {
    let (tree, bucket) = tree().await;
    let before = put(&tree, &bucket, "a").await;
    let none = (&WriteCondition::NONE, &WriteCondition::NONE);
    let after = tree
        .rename_file(
            &ALICE,
            (&bucket, &key("a")).into(),
            (&bucket, &key("x/y")).into(),
            none,
            Hierarchy::Flat,
        )
        .await
        .unwrap();
    let mut moved = before.version;
    // Who read what had the name before is not to go on with this.
    moved.flags = moved.flags.with_replaced(true);
    assert_eq!((after.entry, after.version), (before.entry, moved));
    let overwritten = put(&tree, &bucket, "x/y").await;
    assert_eq!(
        overwritten.entry, before.entry,
        "an overwrite is the same file"
    );
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one story of an upload")]
async fn ten_thousand_parts_become_one_file() {
    let (tree, bucket) = tree().await;
    let upload = tree
        .create_upload(&ALICE, &bucket, &key("big"), &NewUpload::default())
        .await
        .unwrap();
    let mut list = Vec::new();
    for number in 1..=PART_NUMBER_MAX {
        let blob = tree.ids().blob().await.unwrap();
        let size = 5 + u64::from(number % 3);
        let part = NewPart {
            id: None,
            size,
            etag: ETag::Text(format!("{number}")),
            digests: DIGESTS(),
            copies: vec![ContentCopy {
                extents: vec![Extent::large(blob, 0, size)],
                ..ContentCopy::default()
            }],
            checksum: None,
        };
        tree.put_part(
            &bucket,
            &key("big"),
            upload.id,
            number,
            &part,
            &DataChanges::default(),
        )
        .await
        .unwrap();
        list.push(CompletePart {
            number,
            etag: number.to_string(),
        });
    }
    let join = |_: &record::UploadRecord, parts: &[(u16, &record::PartRecord)]| {
        Ok(CompletedObject {
            encryption: None,
            etag: ETag::PartSizes([1; 16], parts.len() as u16),
            digests: DIGESTS(),
            checksum: None,
            part_digests: Vec::new(),
            version: None,
        })
    };
    let done = tree
        .complete_upload(
            &ALICE,
            (&bucket, &key("big")).into(),
            upload.id,
            &list,
            5,
            &WriteCondition::NONE,
            &join,
        )
        .await
        .unwrap();
    assert!(
        done.version.to_value().len() < 300,
        "lists stand beside the record"
    );
    assert_eq!(tree.extents(&done.version, 0).await.unwrap().len(), 10_000);
    let runs = tree.part_runs(&done.version).await.unwrap().unwrap();
    assert_eq!(
        runs.iter()
            .map(|run| u64::from(run.count) * run.size)
            .sum::<u64>(),
        done.version.size
    );

    // A copy shares every blob; both gone, every blob is to be freed.
    tree.copy(
        &ALICE,
        (&bucket, &key("big")).into(),
        (&bucket, &key("copy")).into(),
        &CopyOptions::default(),
    )
    .await
    .unwrap();
    delete(&tree, &bucket, "big").await.unwrap();
    assert_eq!(assert_sound(&tree).await.queued.len(), 0);
    let gone = delete(&tree, &bucket, "copy").await.unwrap();
    let audit = assert_sound(&tree).await;
    assert_eq!((audit.queued.len(), audit.named.len()), (10_000, 0));
    assert_eq!(
        tree.extents(&gone, 0).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );

    // The data layer frees them.
    let later = dewar_types::Timestamp(u64::MAX);
    let unnamed = tree
        .catalog()
        .unnamed_blobs(later, None, 20_000)
        .await
        .unwrap();
    assert_eq!(unnamed.len(), 10_000);
    let behind = tree
        .catalog()
        .unnamed_blobs(later, Some(&unnamed[6]), 3)
        .await;
    assert_eq!(behind.unwrap(), unnamed[7..10]);
    let behind = tree.catalog().unnamed_blobs(later, unnamed.last(), 3).await;
    assert!(behind.unwrap().is_empty());
    tree.catalog().forget_blobs(&unnamed).await.unwrap();
    assert!(
        tree.catalog()
            .unnamed_blobs(later, None, 1)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn records_of_the_data_layer_ride_along() {
    let (tree, bucket) = tree().await;
    let new = content(&tree, 10, "x").await;
    let blob = new.copies[0].extents[0].blob;
    let extra = DataChanges {
        puts: vec![(keys::blob(blob), Bytes::from_static(b"layout"))],
        ..DataChanges::default()
    };
    // A refused put leaves nothing behind.
    put(&tree, &bucket, "k").await;
    let refused = tree
        .publish(
            &ALICE,
            (&bucket, &key("k")).into(),
            new.clone(),
            &WriteCondition::absent(),
            &extra,
        )
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Precondition);
    assert_eq!(tree.catalog().blob_record(blob).await.unwrap(), None);
    tree.publish(
        &ALICE,
        (&bucket, &key("k")).into(),
        new,
        &WriteCondition::NONE,
        &extra,
    )
    .await
    .unwrap();
    assert_eq!(
        tree.catalog().blob_record(blob).await.unwrap(),
        Some(Bytes::from_static(b"layout"))
    );
}

#[tokio::test]
async fn groups_and_spaces_are_counted() {
    let (tree, bucket) = tree().await;
    let group = dewar_types::GroupId(4);
    let mut new = content(&tree, 10, "x").await;
    new.group = Some(group);
    tree.publish(
        &ALICE,
        (&bucket, &key("s/t/k")).into(),
        new,
        &WriteCondition::NONE,
        &DataChanges::default(),
    )
    .await
    .unwrap();
    let outer = tree
        .mark_space(&ALICE, &bucket, &key("s"), Quota::default())
        .await
        .unwrap();
    let inner = tree
        .mark_space(&ALICE, &bucket, &key("s/t"), Quota::default())
        .await
        .unwrap();
    // Not counted yet; what changes meanwhile must come out right.
    put(&tree, &bucket, "s/t/l").await;
    delete(&tree, &bucket, "s/t/k").await.unwrap();
    tree.count_space(&bucket, &key("s/t")).await.unwrap();
    put(&tree, &bucket, "s/m").await;
    tree.count_space(&bucket, &key("s")).await.unwrap();
    put(&tree, &bucket, "s/t/n").await;
    assert_sound(&tree).await;
    let objects = async |scope| tree.catalog().usage(scope).await.unwrap().objects;
    // The inner directory counts too.
    assert_eq!(objects(CounterScope::Space(outer)).await, 4);
    assert_eq!(objects(CounterScope::Space(inner)).await, 2);
    assert_eq!(objects(CounterScope::Group(group)).await, 0);
    // Counting again changes nothing.
    tree.count_space(&bucket, &key("s")).await.unwrap();
    assert_eq!(objects(CounterScope::Space(outer)).await, 4);
}

#[tokio::test]
async fn parts_are_listed_in_pages_and_copied_by_range() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "source").await;
    let upload = tree
        .create_upload(&ALICE, &bucket, &key("k"), &NewUpload::default())
        .await
        .unwrap()
        .id;
    for number in [3, 1, 9] {
        let names = PartNames {
            etag: ETag::Text(number.to_string()),
            digests: DIGESTS(),
            checksum: None,
        };
        let range = Some(ByteRange { start: 2, end: 7 });
        let part = tree
            .copy_part(
                (&bucket, &key("source")).into(),
                range,
                &CopyOptions::default(),
                (&bucket, &key("k")),
                upload,
                number,
                names,
            )
            .await
            .unwrap();
        assert_eq!(part.copies[0].extents[0].offset, 2);
    }
    let numbers = async |after, max| {
        let page = tree
            .list_parts(&bucket, &key("k"), upload, after, max)
            .await
            .unwrap();
        (
            page.parts.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            page.truncated,
        )
    };
    assert_eq!(numbers(0, 100).await, (vec![1, 3, 9], false));
    assert_eq!(numbers(0, 2).await, (vec![1, 3], true));
    assert_eq!(numbers(3, 2).await, (vec![9], false));
    assert_eq!(numbers(0, 0).await, (vec![], false));
    let part = NewPart {
        id: None,
        size: 0,
        etag: ETag::Version,
        digests: DIGESTS(),
        copies: Vec::new(),
        checksum: None,
    };
    for number in [0, PART_NUMBER_MAX + 1] {
        let refused = tree
            .put_part(
                &bucket,
                &key("k"),
                upload,
                number,
                &part,
                &DataChanges::default(),
            )
            .await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_sound(&tree).await;
}

#[tokio::test]
async fn the_change_log_tells_the_story() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "d/a").await;
    put(&tree, &bucket, "d/a").await;
    tree.rename_dir(
        &ALICE,
        (&bucket, &key("d")),
        (&bucket, &key("e")),
        RenameOptions::default(),
    )
    .await
    .unwrap();
    delete(&tree, &bucket, "e/a").await.unwrap();
    let story: Vec<_> = tree
        .changes(0, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|(_, change)| (change.verb, change.path, change.source))
        .collect();
    let entry =
        |verb, path: &str, source: Option<&str>| (verb, path.to_owned(), source.map(str::to_owned));
    assert_eq!(
        story,
        [
            entry(ChangeKind::CreateTenant, "/@", None),
            entry(ChangeKind::CreateBucket, "/one/", None),
            entry(ChangeKind::Put, "/one/d/a", None),
            entry(ChangeKind::Put, "/one/d/a", None),
            entry(ChangeKind::RenameDir, "/one/e", Some("/one/d")),
            entry(ChangeKind::Delete, "/one/e/a", None),
        ]
    );
}
