//! Listing as S3 documents it, in cases one can read.

use super::*;

async fn names(tree: &Tree, bucket: &Bucket, query: ListQuery<'_>) -> Vec<String> {
    let page = tree.list(bucket, query).await.unwrap();
    page.items
        .iter()
        .map(|item| item.name().to_owned())
        .collect()
}

fn all<'a>() -> ListQuery<'a> {
    ListQuery {
        max: 1000,
        ..ListQuery::default()
    }
}

#[tokio::test]
async fn keys_come_in_byte_order_of_the_whole() {
    let (tree, bucket) = tree().await;
    let mut keys = vec![
        "a",
        "a/",
        "a//",
        "a//b",
        "a/b",
        "a/b/c",
        "a-b",
        "a.b",
        "a0",
        "/",
        "/a",
        "//",
        "a\0",
        "a\0/b",
        "\u{7f}",
        "é",
        "\u{10ffff}",
        "é/\u{10ffff}",
        "b",
    ];
    for name in &keys {
        put(&tree, &bucket, name).await;
    }
    keys.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    assert_eq!(all_keys(&tree, &bucket).await, keys);
    for name in &keys {
        let found = tree.lookup(&bucket, &key(name)).await.unwrap().unwrap();
        assert_eq!(found.current.etag(), *name);
    }
    // From every key on, one at a time.
    for (at, name) in keys.iter().enumerate() {
        let query = ListQuery {
            after: Some(name),
            max: 1,
            ..all()
        };
        let next: Vec<_> = keys.get(at + 1).copied().into_iter().collect();
        assert_eq!(names(&tree, &bucket, query).await, next);
    }
}

#[tokio::test]
async fn the_example_of_the_s3_guide() {
    let (tree, bucket) = tree().await;
    for name in [
        "sample.jpg",
        "photos/2006/January/sample.jpg",
        "photos/2006/February/sample2.jpg",
        "photos/2006/February/sample3.jpg",
        "photos/2006/February/sample4.jpg",
    ] {
        put(&tree, &bucket, name).await;
    }
    let slash = ListQuery {
        delimiter: Some("/"),
        ..all()
    };
    assert_eq!(
        names(&tree, &bucket, slash).await,
        ["photos/", "sample.jpg"]
    );
    let below = ListQuery {
        prefix: "photos/2006/",
        ..slash
    };
    assert_eq!(
        names(&tree, &bucket, below).await,
        ["photos/2006/February/", "photos/2006/January/"]
    );
    let word = ListQuery {
        prefix: "photos/2006/",
        delimiter: Some("uary"),
        ..all()
    };
    assert_eq!(
        names(&tree, &bucket, word).await,
        ["photos/2006/February", "photos/2006/January"]
    );
    let odd = ListQuery {
        delimiter: Some("2006/J"),
        ..all()
    };
    assert_eq!(names(&tree, &bucket, odd).await[3], "photos/2006/J");
}

#[tokio::test]
async fn a_marker_inside_a_rolled_up_prefix_skips_it() {
    let (tree, bucket) = tree().await;
    for name in ["a/1", "a/2", "b/1", "c"] {
        put(&tree, &bucket, name).await;
    }
    for after in ["a/", "a/1", "a/zzz"] {
        let query = ListQuery {
            delimiter: Some("/"),
            after: Some(after),
            ..all()
        };
        assert_eq!(
            names(&tree, &bucket, query).await,
            ["b/", "c"],
            "after {after}"
        );
    }
    let query = ListQuery {
        delimiter: Some("/"),
        after: Some("a"),
        ..all()
    };
    assert_eq!(names(&tree, &bucket, query).await, ["a/", "b/", "c"]);
}

#[tokio::test]
async fn what_nothing_lives_in_is_not_shown() {
    let (tree, bucket) = tree().await;
    put(&tree, &bucket, "x/y/z/file").await;
    put(&tree, &bucket, "kept").await;
    delete(&tree, &bucket, "x/y/z/file").await.unwrap();
    let slash = ListQuery {
        delimiter: Some("/"),
        explicit_dirs: true,
        ..all()
    };
    assert_eq!(names(&tree, &bucket, slash).await, ["kept"]);
    let options = DirOptions {
        existing: false,
        hierarchy: Hierarchy::Flat,
        group: None,
        mode: 0o755,
        make_parents: true,
    };
    tree.make_dir(&ALICE, &bucket, &key("x/y/w"), options)
        .await
        .unwrap();
    assert_eq!(names(&tree, &bucket, slash).await, ["kept", "x/"]);
    let keys_alone = ListQuery {
        explicit_dirs: false,
        ..slash
    };
    assert_eq!(names(&tree, &bucket, keys_alone).await, ["kept"]);
    // A prefix that is a directory brings its record.
    let page = tree
        .list(
            &bucket,
            ListQuery {
                prefix: "x/y/",
                ..slash
            },
        )
        .await
        .unwrap();
    let [
        Listed::Prefix {
            prefix,
            dir: Some(dir),
        },
    ] = &page.items[..]
    else {
        panic!("{page:?}");
    };
    assert_eq!((prefix.as_str(), dir.implicit), ("x/y/w/", false));
}

#[tokio::test]
async fn uploads_are_listed_by_key_then_age() {
    let (tree, bucket) = tree().await;
    let mut ids = Vec::new();
    for name in ["b", "a/1", "a/2", "a\0", "a/1", "c/d"] {
        let upload = tree
            .create_upload(&ALICE, &bucket, &key(name), &NewUpload::default())
            .await
            .unwrap();
        ids.push(upload.id);
    }
    let show = |page: &UploadPage| -> Vec<String> {
        page.items
            .iter()
            .map(|item| match item {
                ListedUpload::Upload { key, upload } => {
                    format!(
                        "{key}:{}",
                        ids.iter().position(|id| *id == upload.id).unwrap()
                    )
                }
                ListedUpload::Prefix(prefix) => prefix.clone(),
            })
            .collect()
    };
    let everything = UploadQuery {
        max: 100,
        ..UploadQuery::default()
    };
    let page = tree.list_uploads(&bucket, everything).await.unwrap();
    assert_eq!(
        show(&page),
        ["a\0:3", "a/1:1", "a/1:4", "a/2:2", "b:0", "c/d:5"]
    );
    let rolled = UploadQuery {
        delimiter: Some("/"),
        ..everything
    };
    assert_eq!(
        show(&tree.list_uploads(&bucket, rolled).await.unwrap()),
        ["a\0:3", "a/", "b:0", "c/"]
    );
    let below = UploadQuery {
        prefix: "a/",
        ..rolled
    };
    assert_eq!(
        show(&tree.list_uploads(&bucket, below).await.unwrap()),
        ["a/1:1", "a/1:4", "a/2:2"]
    );
    for delimiter in [None, Some("/")] {
        let whole = show(
            &tree
                .list_uploads(
                    &bucket,
                    UploadQuery {
                        delimiter,
                        ..everything
                    },
                )
                .await
                .unwrap(),
        );
        let (mut paged, mut marker) = (Vec::new(), None::<(String, Option<dewar_types::UploadId>)>);
        loop {
            let query = UploadQuery {
                delimiter,
                after_key: marker.as_ref().map(|(key, _)| key.as_str()),
                after_upload: marker.as_ref().and_then(|(_, id)| *id),
                max: 1,
                ..UploadQuery::default()
            };
            let page = tree.list_uploads(&bucket, query).await.unwrap();
            paged.extend(show(&page));
            match page.next {
                Some(next) => marker = Some(next),
                None => break,
            }
        }
        assert_eq!(paged, whole);
    }
}

async fn short_page(
    tree: &Tree,
    bucket: &Bucket,
    query: ListQuery<'_>,
    names_max: usize,
) -> (Vec<String>, Option<String>) {
    let budget = ListBudget {
        names_max,
        gate: None,
    };
    let page = tree.list_within(bucket, query, budget).await.unwrap();
    let names = page.items.iter().map(|item| item.name().to_owned());
    (names.collect(), page.next)
}

/// Delete markers are looked at and not shown: a page looks at so many at most, and the next one goes on.
#[tokio::test]
async fn a_page_looks_at_few_dead_names() {
    let (tree, bucket) = tree().await;
    tree.configure_bucket(&ALICE, &bucket, |change| {
        change.settings.versioning = record::Versioning::Enabled;
        Ok(())
    })
    .await
    .unwrap();
    put(&tree, &bucket, "a").await;
    for n in 0..25 {
        let doomed = DeleteTarget::key(key(&format!("dead/{n:02}")));
        tree.delete(&ALICE, &bucket, &doomed, false).await.unwrap();
    }
    put(&tree, &bucket, "dead/live").await;
    put(&tree, &bucket, "z").await;
    let pages = async |query: ListQuery<'_>, names_max| {
        let (mut shown, mut empty, mut after) = (Vec::new(), 0, None::<String>);
        loop {
            let query = ListQuery {
                after: after.as_deref(),
                ..query
            };
            let (names, next) = short_page(&tree, &bucket, query, names_max).await;
            empty += usize::from(names.is_empty());
            shown.extend(names);
            match next {
                Some(next) => after = Some(next),
                None => return (shown, empty),
            }
        }
    };
    let whole = ["a", "dead/live", "z"].map(str::to_owned);
    let (shown, empty) = pages(all(), 10).await;
    assert_eq!(shown, whole);
    assert!(empty >= 1, "{empty} empty pages");
    let slash = ListQuery {
        delimiter: Some("/"),
        ..all()
    };
    let (shown, _) = pages(slash, 10).await;
    assert_eq!(shown, ["a", "dead/", "z"]);
    // The directory is looked into with what the budget of a page allows, not with what is left of one.
    let (shown, next) = short_page(&tree, &bucket, slash, 27).await;
    assert_eq!(
        (shown.as_slice(), next.as_deref()),
        (&whole[..1], Some("a"))
    );
    delete_all_versions(&tree, &bucket, "dead/live").await;
    let (shown, _) = pages(slash, 40).await;
    assert_eq!(shown, ["a", "z"]);
    // A cheap page asks nobody, one that passes over many names does.
    let list: Vec<_> = (0..2010)
        .map(|n| DeleteTarget::key(key(&format!("e{n:04}"))))
        .collect();
    let marked = tree.delete_many(&ALICE, &bucket, &list, false).await;
    marked.unwrap();
    let budget = |names_max| ListBudget {
        names_max,
        gate: Some(&Refuse),
    };
    let cheap = tree.list_within(&bucket, all(), budget(2000)).await;
    assert!(cheap.unwrap().truncated());
    let expensive = tree.list_within(&bucket, all(), budget(3000)).await;
    assert_eq!(
        expensive.unwrap_err().kind(),
        dewar_types::ErrorKind::Denied
    );
}

struct Refuse;

impl ListGate for Refuse {
    fn admit(&self) -> Result<(), dewar_types::Error> {
        let kind = dewar_types::ErrorKind::Denied;
        Err(dewar_types::Error::new(kind, "expensive"))
    }
}

async fn delete_all_versions(tree: &Tree, bucket: &Bucket, name: &str) {
    let found = tree.lookup(bucket, &key(name)).await.unwrap();
    let doomed = DeleteTarget {
        version: Some(found.expect("there").current.name()),
        ..DeleteTarget::key(key(name))
    };
    tree.delete(&ALICE, bucket, &doomed, false).await.unwrap();
}
