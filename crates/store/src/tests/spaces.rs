//! Named spaces: what is refused, and what follows renames.

use dewar_catalog::Actor;
use dewar_namespace::{Emptiness, RenameOptions};
use dewar_types::{BucketName, ErrorKind, ObjectKey, Result, TenantName, UserId};

use super::{Rig, bucket, content, object, run};
use crate::api::{BucketRef, Overwrite, RenameNodeRequest};
use crate::file::{CopyTreeRequest, MakeDirRequest};
use crate::quota::{Quota, QuotaTarget};
use crate::space::{AddSpace, SpaceReport};

fn key(path: &str) -> ObjectKey {
    ObjectKey::new(path).expect("valid")
}

fn bytes(max: u64) -> Quota {
    Quota {
        max_bytes: Some(max),
        ..Quota::default()
    }
}

fn space(name: &str, path: &str, max: u64) -> AddSpace {
    AddSpace {
        name: name.to_owned(),
        bucket: bucket("first"),
        path: key(path),
        quota: bytes(max),
        group: None,
        vos: vec!["atlas".to_owned()],
    }
}

async fn add(rig: &Rig, name: &str, path: &str, max: u64) -> Result<SpaceReport> {
    rig.store.add_space(space(name, path, max)).await
}

async fn refusal(rig: &Rig, new: AddSpace) -> (ErrorKind, String) {
    let error = rig.store.add_space(new).await.expect_err("refused");
    (error.kind(), error.message().to_owned())
}

async fn paths(rig: &Rig) -> Vec<(String, String)> {
    let spaces = rig.store.spaces().await.expect("read").into_iter();
    spaces.map(|space| (space.name, space.path)).collect()
}

#[test]
fn a_space_counts_its_content_and_is_named_when_it_is_full() {
    run(async {
        let rig = Rig::new(41).await;
        rig.put("data/disk/a", &content(700, 1)).await.expect("put");
        let made = add(&rig, "DISK", "data/disk", 1000).await.expect("made");
        assert_eq!((made.usage.objects, made.usage.bytes), (1, 700));
        assert_eq!(
            (made.path.as_str(), made.inner),
            ("/first/data/disk", false)
        );
        assert_eq!(made.vos, ["atlas"]);
        let full = rig.put("data/disk/b", &content(301, 2)).await;
        let full = full.expect_err("full");
        assert_eq!(full.kind(), ErrorKind::Quota);
        assert!(
            full.message().starts_with("the space DISK holds 700 bytes"),
            "{full}"
        );
        rig.put("data/disk/b", &content(300, 2))
            .await
            .expect("fits");
        // Without its name the directory keeps its limits.
        let none = TenantName::default();
        rig.store
            .remove_space(&none, "DISK")
            .await
            .expect("removed");
        assert_eq!(paths(&rig).await, []);
        let full = rig
            .put("data/disk/c", &content(1, 2))
            .await
            .expect_err("full");
        assert!(full.message().starts_with("the directory holds"), "{full}");
        let again = rig.store.remove_space(&none, "DISK").await;
        assert_eq!(again.expect_err("gone").kind(), ErrorKind::NotFound);
    });
}

#[test]
fn names_and_quotas_that_contradict_are_refused() {
    run(async {
        let rig = Rig::new(42).await;
        add(&rig, "OUTER", "a", 1000).await.expect("made");
        let invalid = ErrorKind::InvalidArgument;
        for (new, kind, words) in [
            (
                space("OUTER", "b", 10),
                ErrorKind::AlreadyExists,
                "a space OUTER already",
            ),
            (
                space("OTHER", "a", 10),
                ErrorKind::AlreadyExists,
                "is the space OUTER already",
            ),
            (
                space("INNER", "a/b", 1001),
                invalid,
                "the space OUTER around it",
            ),
            (space("public", "c", 10), invalid, "reserved"),
            (space("no/name", "c", 10), invalid, "is no name of a space"),
            (
                AddSpace {
                    quota: Quota::default(),
                    ..space("X", "c", 1)
                },
                invalid,
                "needs a limit",
            ),
            (
                AddSpace {
                    vos: vec![String::new()],
                    ..space("X", "c", 1)
                },
                invalid,
                "is no VO",
            ),
            (
                AddSpace {
                    group: Some("nobody".to_owned()),
                    ..space("X", "c", 1)
                },
                ErrorKind::NotFound,
                "nobody",
            ),
        ] {
            let name = new.name.clone();
            let (found, said) = refusal(&rig, new).await;
            assert_eq!(found, kind, "{name}: {said}");
            assert!(said.contains(words), "{name}: {said}");
        }
        let inner = add(&rig, "INNER", "a/b", 1000).await.expect("as large");
        assert!(inner.inner);
        // A quota of what is around a space, or of a space itself, cannot contradict it later.
        let directory = |path| QuotaTarget::Directory(bucket("first"), key(path));
        let whole = || QuotaTarget::Bucket(bucket("first"));
        for (target, quota, words) in [
            (directory("a"), bytes(999), "the space INNER in it"),
            (whole(), bytes(999), "in it has a larger quota"),
            (directory("a/b"), bytes(1001), "the space OUTER around it"),
            (directory("a/b"), Quota::default(), "needs a limit of bytes"),
        ] {
            let error = rig.store.set_quota(&target, quota).await.expect_err(words);
            assert_eq!(error.kind(), invalid, "{error}");
            assert!(error.message().contains(words), "{error}");
        }
        rig.store
            .set_quota(&whole(), bytes(1000))
            .await
            .expect("as large");
        let (kind, said) = refusal(&rig, space("WIDE", "w", 1001)).await;
        assert_eq!(kind, invalid);
        assert!(said.contains("the bucket around it"), "{said}");
        rig.store
            .set_quota(&directory("a/b"), bytes(500))
            .await
            .expect("smaller");
        rig.store
            .set_quota(&directory("a"), bytes(500))
            .await
            .expect("still larger");
    });
}

#[test]
fn a_space_keeps_its_directory() {
    run(async {
        let rig = Rig::new(43).await;
        let store = &rig.store;
        add(&rig, "INNER", "a/b", 1000).await.expect("made");
        rig.put("a/b/file", &content(100, 1)).await.expect("put");
        rig.put("a/beside", &content(100, 1)).await.expect("put");
        let stays = |error: dewar_types::Error| {
            assert_eq!(error.kind(), ErrorKind::NotEmpty, "{error}");
            assert!(
                error.message().contains("`dewar space remove INNER`"),
                "{error}"
            );
        };
        for path in ["a", "a/b"] {
            stays(
                store
                    .remove_tree(&rig.ann, &object(path))
                    .await
                    .expect_err(path),
            );
        }
        let away = CopyTreeRequest {
            source: object("a"),
            target: object("away"),
            overwrite: false,
        };
        stays(store.move_tree(&rig.ann, away).await.expect_err("moved"));
        // Nothing was removed by what was refused.
        assert_eq!(store.spaces().await.expect("read")[0].usage.objects, 1);
        assert!(rig.delete("a/b/file").await.is_ok());
        stays(
            store
                .remove_dir(&rig.ann, &object("a/b"))
                .await
                .expect_err("empty"),
        );
        rig.delete("a/beside").await.expect("deleted");
        let first = bucket("first");
        for emptiness in [Emptiness::Bare, Emptiness::DirectoriesOnly] {
            let deleted = store.delete_bucket(&rig.ann, &first, emptiness);
            stays(deleted.await.expect_err("a space is in it"));
        }
        store
            .remove_space(&TenantName::default(), "INNER")
            .await
            .expect("removed");
        store
            .remove_dir(&rig.ann, &object("a/b"))
            .await
            .expect("removed");
        let deleted = store.delete_bucket(&rig.ann, &first, Emptiness::DirectoriesOnly);
        deleted.await.expect("empty");
    });
}

#[test]
fn a_space_follows_the_renames_of_directories() {
    run(async {
        let rig = Rig::new(44).await;
        add(&rig, "OUTER", "a/b", 1000).await.expect("made");
        add(&rig, "INNER", "a/b/c", 1000).await.expect("made");
        add(&rig, "OTHER", "ab", 1000).await.expect("made");
        let tree = rig.store.tree();
        let tenant = tree.catalog().tenant(&TenantName::default()).await;
        let tenant = tenant.expect("read").expect("there");
        let name = BucketName::new("first").expect("valid");
        let first = tree
            .bucket(&tenant, &name)
            .await
            .expect("read")
            .expect("there");
        let actor = Actor {
            user: UserId(10),
            principal: "ann",
        };
        let rename = async |from: &str, to: &str| {
            let (from, to) = (key(from), key(to));
            let options = RenameOptions {
                make_parents: true,
                ..RenameOptions::default()
            };
            tree.rename_dir(&actor, (&first, &from), (&first, &to), options)
                .await
        };
        rename("a", "x/y").await.expect("renamed");
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        let all = [
            ("INNER", "/first/x/y/b/c"),
            ("OTHER", "/first/ab"),
            ("OUTER", "/first/x/y/b"),
        ];
        assert_eq!(paths(&rig).await, owned(&all));
        // Across spaces a directory is copied.
        let across = rename("x/y/b/c", "c").await.expect_err("another space");
        assert_eq!(across.kind(), ErrorKind::Unsupported);
        rename("x/y/b/c", "x/y/b/d")
            .await
            .expect("within the space");
        assert_eq!(
            paths(&rig).await[0],
            ("INNER".to_owned(), "/first/x/y/b/d".to_owned())
        );
        // Limits and counts moved along, and a start reads the same.
        rig.put("x/y/b/d/file", &content(10, 1)).await.expect("put");
        let spaces = rig.store.spaces().await.expect("read");
        let used: Vec<u64> = spaces.iter().map(|space| space.usage.bytes).collect();
        assert_eq!((used, spaces[0].quota), (vec![10, 0, 10], bytes(1000)));
        let again = dewar_namespace::Tree::open(
            std::sync::Arc::clone(tree.kv()),
            rig.store.env().clone(),
            1,
        );
        assert_eq!(again.await.expect("opened").spaces(), tree.spaces());
        rig.settle().await;
    });
}

#[test]
fn a_space_is_found_by_name_only_by_those_who_may_list_it() {
    run(async {
        let rig = Rig::new(45).await;
        add(&rig, "DISK", "disk", 1000).await.expect("made");
        rig.put("disk/a", &content(10, 1)).await.expect("put");
        let found = rig
            .store
            .space_named(&rig.ann, "DISK")
            .await
            .expect("found");
        assert_eq!((found.usage.bytes, found.quota), (10, bytes(1000)));
        let hidden = rig
            .store
            .space_named(&rig.bob, "DISK")
            .await
            .expect_err("hidden");
        let missing = rig
            .store
            .space_named(&rig.ann, "NONE")
            .await
            .expect_err("none");
        assert_eq!(
            (hidden.kind(), missing.kind()),
            (ErrorKind::NotFound, ErrorKind::NotFound)
        );
        let first: BucketRef = bucket("first");
        let at = async |path: &str| {
            let state = rig.store.quota_at(&rig.ann, &first, Some(&key(path))).await;
            state
                .expect("read")
                .map(|state| (state.space, state.quota.max_bytes))
        };
        let disk = Some("DISK".to_owned());
        assert_eq!(at("disk/new/file").await, Some((disk.clone(), Some(1000))));
        assert_eq!(at("diskless").await, None);
        // A limited directory in a space tells its own limits.
        let request = MakeDirRequest {
            directory: object("disk/part"),
            mode: 0o755,
            parents: false,
            existing: false,
        };
        rig.store.make_dir(&rig.ann, request).await.expect("made");
        let part = QuotaTarget::Directory(first.clone(), key("disk/part"));
        rig.store.set_quota(&part, bytes(5)).await.expect("limited");
        assert_eq!(at("disk/part/x").await, Some((disk, Some(5))));
    });
}

#[test]
fn a_directory_that_becomes_a_space_keeps_limits_that_are_not_given() {
    run(async {
        let rig = Rig::new(48).await;
        rig.put("data/f", &content(10, 1)).await.expect("put");
        let target = QuotaTarget::Directory(bucket("first"), key("data"));
        let before = Quota {
            max_objects: Some(7),
            soft_bytes: Some(500),
            ..bytes(2000)
        };
        rig.store.set_quota(&target, before).await.expect("limited");
        add(&rig, "DATA", "data", 1000).await.expect("made");
        let after = rig.store.quota(&target).await.expect("read").quota;
        let expected = Quota {
            max_bytes: Some(1000),
            ..before
        };
        assert_eq!(after, expected);
        // A name that is taken makes no directory.
        refusal(&rig, space("DATA", "fresh", 10)).await;
        let fresh = QuotaTarget::Directory(bucket("first"), key("fresh"));
        let missing = rig.store.quota(&fresh).await.expect_err("no directory");
        assert!(missing.message().ends_with("does not exist"), "{missing}");
    });
}

#[test]
fn a_rename_does_not_replace_the_directory_of_a_space() {
    run(async {
        let rig = Rig::new(49).await;
        for name in ["space/f", "from/f", "lone"] {
            rig.put(name, &content(10, 1)).await.expect("put");
        }
        add(&rig, "DATA", "space", 1000).await.expect("made");
        for source in ["from", "lone"] {
            let request = RenameNodeRequest {
                source: object(source),
                target: object("space"),
                overwrite: Overwrite::Everything,
            };
            let renamed = rig.store.rename_node(&rig.ann, request).await;
            let error = renamed.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::NotEmpty, "{source}");
        }
        assert_eq!(rig.keys().await, ["from/f", "lone", "space/f"]);
    });
}
