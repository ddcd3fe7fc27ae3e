//! Verbs by the rules of a hierarchy, as WebDAV and XRootD use them.

use bytes::Bytes;
use dewar_checksum::{Algorithm, AlgorithmSet, Digest};
use dewar_types::{ErrorKind, Result};

use super::{Rig, bucket, content, get, object, put_request, run};
use crate::api::{
    DigestMismatch, ETagMatch, ExpectedContent, Hierarchy, ObjectInfo, Overwrite,
    RenameNodeRequest, VersionAttributes, WriteCondition, WriteRequest,
};
use crate::file::{CopyTreeRequest, MakeDirRequest, Node};

/// What a WebDAV front makes of a PUT with `If-Match`, `Content-Type` and `Repr-Digest`.
fn webdav_put(key: &str, condition: WriteCondition, content_type: &str) -> WriteRequest {
    let mut attributes = VersionAttributes::default();
    attributes.headers.content_type = Some(content_type.to_owned());
    WriteRequest {
        attributes,
        condition,
        hierarchy: Hierarchy::Strict,
        want: AlgorithmSet::EMPTY.with(Algorithm::Sha256),
        ..put_request(key)
    }
}

async fn put(
    rig: &Rig,
    request: WriteRequest,
    bytes: &Bytes,
    digest: Digest,
) -> Result<ObjectInfo> {
    let mut upload = rig.store.write(&rig.ann, request).await?;
    upload.write(bytes.clone()).await?;
    let expect = ExpectedContent {
        size: Some(bytes.len() as u64),
        digests: vec![digest],
    };
    upload.commit(expect).await
}

async fn sha256(bytes: &Bytes) -> Digest {
    let wanted = AlgorithmSet::EMPTY.with(Algorithm::Sha256);
    let lanes = dewar_checksum::Md5Lanes::new();
    let mut digests = dewar_checksum::StreamDigests::new(wanted, &lanes);
    digests.update(bytes.clone()).await;
    let digests = digests.finish().await;
    digests.get(Algorithm::Sha256).expect("was wanted")
}

async fn make_dir(rig: &Rig, key: &str, parents: bool, existing: bool) -> Result<(), ErrorKind> {
    let request = MakeDirRequest {
        directory: object(key),
        mode: 0o755,
        parents,
        existing,
    };
    let made = rig.store.make_dir(&rig.ann, request).await;
    made.map_err(|error| error.kind())
}

async fn rename(rig: &Rig, from: &str, to: &str, overwrite: Overwrite) -> Result<(), ErrorKind> {
    let request = RenameNodeRequest {
        source: object(from),
        target: object(to),
        overwrite,
    };
    let renamed = rig.store.rename_node(&rig.ann, request).await;
    renamed.map_err(|error| error.kind())
}

async fn is_directory(rig: &Rig, key: &str) -> Option<bool> {
    let node = rig.store.stat(&rig.ann, &object(key)).await.ok()?;
    Some(matches!(node, Node::Directory(_)))
}

#[test]
fn a_put_has_conditions_attributes_digests_and_the_rules_of_a_hierarchy() {
    run(async {
        let rig = Rig::new(61).await;
        let (bytes, other) = (content(50_000, 1), content(60_000, 2));
        let (digest, wrong) = (sha256(&bytes).await, sha256(&other).await);
        let kind = |done: Result<ObjectInfo>| done.map(drop).map_err(|error| error.kind());
        let absent = || webdav_put("d/e/f", WriteCondition::absent(), "a/b");
        let refused = put(&rig, absent(), &bytes, wrong).await;
        let refused = refused.expect_err("it has another digest");
        assert_eq!(refused.kind(), ErrorKind::ChecksumMismatch);
        let mismatch = DigestMismatch {
            expected: wrong,
            computed: Some(digest),
        };
        let source = std::error::Error::source(&refused);
        let source = source.and_then(|source| source.downcast_ref::<DigestMismatch>());
        assert_eq!(source, Some(&mismatch));
        let info = put(&rig, absent(), &bytes, digest).await.expect("put");
        let shown = info.attributes.headers.content_type.as_deref();
        assert_eq!(shown, Some("a/b"));
        assert_eq!(info.digests.get(Algorithm::Sha256), Some(digest));
        assert_eq!(rig.get("d/e/f").await.expect("read"), bytes);
        let again = put(&rig, absent(), &bytes, digest).await;
        assert_eq!(kind(again), Err(ErrorKind::Precondition));

        let matches = |etag: &str| WriteCondition {
            if_match: vec![ETagMatch::Is(etag.to_owned())],
            ..WriteCondition::NONE
        };
        let second = webdav_put("d/e/f", matches(&info.etag), "c/d");
        put(&rig, second.clone(), &other, wrong).await.expect("put");
        let late = put(&rig, second, &bytes, digest).await;
        assert_eq!(kind(late), Err(ErrorKind::Precondition));
        for (key, expected) in [
            ("d", ErrorKind::IsADirectory),
            ("d/e", ErrorKind::IsADirectory),
            ("d/e/f/g", ErrorKind::NotADirectory),
            ("d/e/f/g/h", ErrorKind::NotADirectory),
        ] {
            let request = webdav_put(key, WriteCondition::NONE, "a/b");
            let done = put(&rig, request, &bytes, digest).await;
            assert_eq!(kind(done), Err(expected), "{key}");
        }

        // The rules hold when the name is given, too.
        let late = async |key: &str| {
            let request = webdav_put(key, WriteCondition::NONE, "a/b");
            rig.store.write(&rig.ann, request).await.expect("begun")
        };
        let (directory, below) = (late("later").await, late("above/below").await);
        make_dir(&rig, "later", false, false).await.expect("made");
        rig.put("above", &bytes).await.expect("put");
        let done = directory.commit(ExpectedContent::default()).await;
        assert_eq!(kind(done), Err(ErrorKind::IsADirectory));
        let done = below.commit(ExpectedContent::default()).await;
        assert_eq!(kind(done), Err(ErrorKind::NotADirectory));

        let removed = rig.store.remove_dir(&rig.ann, &object("later")).await;
        removed.expect("removed");
        for key in ["d/e/f", "above"] {
            rig.delete(key).await.expect("deleted");
        }
        rig.assert_empty().await;
    });
}

#[test]
fn directories_are_made_with_all_above_them_or_not_at_all() {
    run(async {
        let rig = Rig::new(62).await;
        rig.put("file", &content(10, 1)).await.expect("put");
        assert_eq!(
            make_dir(&rig, "a/b/c", false, false).await,
            Err(ErrorKind::NotFound)
        );
        assert_eq!(make_dir(&rig, "a/b/c", true, false).await, Ok(()));
        assert_eq!(
            make_dir(&rig, "a/b/c", true, false).await,
            Err(ErrorKind::AlreadyExists)
        );
        assert_eq!(make_dir(&rig, "a/b/c", false, true).await, Ok(()));
        for (key, expected) in [
            ("file", ErrorKind::AlreadyExists),
            ("file/below", ErrorKind::NotADirectory),
            ("file/far/below", ErrorKind::NotADirectory),
        ] {
            assert_eq!(
                make_dir(&rig, key, true, true).await,
                Err(expected),
                "{key}"
            );
        }
        // A name that went leaves its directories for a while, and nobody sees them.
        rig.put("gone/deep/file", &content(10, 1))
            .await
            .expect("put");
        rig.delete("gone/deep/file").await.expect("deleted");
        assert_eq!(is_directory(&rig, "gone").await, None);
        assert_eq!(
            make_dir(&rig, "gone/deep", false, false).await,
            Err(ErrorKind::NotFound)
        );
        assert_eq!(make_dir(&rig, "gone/deep/er", true, false).await, Ok(()));
        // Those above stay as well when the last one goes.
        for key in ["a/b/c", "gone/deep/er"] {
            let removed = rig.store.remove_dir(&rig.ann, &object(key)).await;
            removed.expect("removed");
        }
        rig.settle().await;
        for key in ["a/b", "a", "gone/deep", "gone"] {
            assert_eq!(is_directory(&rig, key).await, Some(true), "{key}");
            let removed = rig.store.remove_dir(&rig.ann, &object(key)).await;
            removed.expect("removed");
        }
        rig.delete("file").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn files_are_removed_and_directories_are_not() {
    run(async {
        let rig = Rig::new(63).await;
        rig.put("d/file", &content(10, 1)).await.expect("put");
        let remove = async |key: &str| {
            let removed = rig.store.remove_file(&rig.ann, &object(key)).await;
            removed.map_err(|error| error.kind())
        };
        assert_eq!(remove("d").await, Err(ErrorKind::IsADirectory));
        assert_eq!(remove("none").await, Err(ErrorKind::NotFound));
        assert_eq!(remove("d/file").await, Ok(()));
        assert_eq!(remove("d/file").await, Err(ErrorKind::NotFound));
        assert_eq!(remove("d").await, Err(ErrorKind::NotFound));
        let opened = rig.store.open_file(&rig.ann, get("d")).await;
        assert_eq!(opened.expect_err("gone").kind(), ErrorKind::NotFound);
        rig.put("d/file", &content(10, 1)).await.expect("put");
        let opened = rig.store.open_file(&rig.ann, get("d")).await;
        assert_eq!(opened.expect_err("none").kind(), ErrorKind::IsADirectory);
        assert_eq!(remove("d/file").await, Ok(()));
        rig.assert_empty().await;
    });
}

#[test]
fn names_change_by_the_rules_of_a_hierarchy() {
    run(async {
        let rig = Rig::new(64).await;
        for key in ["a", "b", "d/x", "e/y"] {
            rig.put(key, &content(10, key.len() as u64))
                .await
                .expect("put");
        }
        make_dir(&rig, "empty", false, false).await.expect("made");
        for (from, to, overwrite, expected) in [
            ("none", "c", Overwrite::Files, ErrorKind::NotFound),
            ("a", "b", Overwrite::Never, ErrorKind::AlreadyExists),
            ("a", "d", Overwrite::Files, ErrorKind::IsADirectory),
            ("a", "b/c", Overwrite::Files, ErrorKind::NotADirectory),
            ("d", "a", Overwrite::Files, ErrorKind::NotADirectory),
            ("d", "b/c", Overwrite::Files, ErrorKind::NotADirectory),
            ("d", "e", Overwrite::EmptyDirectories, ErrorKind::NotEmpty),
            ("d", "empty", Overwrite::Files, ErrorKind::AlreadyExists),
            ("d", "d/below", Overwrite::Files, ErrorKind::InvalidArgument),
        ] {
            let renamed = rename(&rig, from, to, overwrite).await;
            assert_eq!(renamed, Err(expected), "{from} to {to}");
        }
        let bytes = rig.get("a").await.expect("read");
        assert_eq!(rename(&rig, "a", "b", Overwrite::Files).await, Ok(()));
        assert_eq!(
            rename(&rig, "b", "new/deep/b", Overwrite::Never).await,
            Ok(())
        );
        assert_eq!(rig.get("new/deep/b").await.expect("read"), bytes);
        let into = rename(&rig, "d", "empty", Overwrite::EmptyDirectories).await;
        assert_eq!(into, Ok(()));
        assert_eq!(
            rename(&rig, "empty", "new/d", Overwrite::Never).await,
            Ok(())
        );
        assert_eq!(rig.keys().await, ["e/y", "new/d/x", "new/deep/b"]);
        rig.store
            .create_bucket(&rig.ann, &bucket("other"))
            .await
            .expect("made");
        let mut away = RenameNodeRequest {
            source: object("e"),
            target: object("e"),
            overwrite: Overwrite::Files,
        };
        away.target.bucket = bucket("other");
        let moved = rig.store.rename_node(&rig.ann, away).await;
        assert_eq!(moved.expect_err("refused").kind(), ErrorKind::Unsupported);
        for key in rig.keys().await {
            rig.delete(&key).await.expect("deleted");
        }
        rig.assert_empty().await;
    });
}

#[test]
fn directories_are_copied_and_removed_with_their_content() {
    run(async {
        let rig = Rig::new(65).await;
        let mut keys: Vec<String> = (0..250).map(|n| format!("from/{}/{n}", n % 3)).collect();
        keys.push("from/".to_owned());
        keys.push("from/deep/er/file".to_owned());
        for key in &keys {
            let bytes = content(10 + key.len(), 1);
            rig.put(key, &bytes).await.expect("put");
        }
        make_dir(&rig, "from/made/empty", true, false)
            .await
            .expect("made");
        let copy = |source: &str, target: &str, overwrite| CopyTreeRequest {
            source: object(source),
            target: object(target),
            overwrite,
        };
        for (source, target, expected) in [
            ("none", "to", ErrorKind::NotFound),
            ("from/0/0", "to", ErrorKind::NotADirectory),
            ("from", "from/below", ErrorKind::InvalidArgument),
            ("from", "none/to", ErrorKind::NotFound),
        ] {
            let copied = rig
                .store
                .copy_tree(&rig.ann, copy(source, target, true))
                .await;
            assert_eq!(copied.expect_err("refused").kind(), expected, "{source}");
        }
        let copied = rig
            .store
            .copy_tree(&rig.ann, copy("from", "to", false))
            .await;
        let report = copied.expect("copied");
        let whole = keys.len() as u64 + 3;
        assert_eq!((report.done, report.failed), (whole, 0), "{report:?}");
        assert_eq!(is_directory(&rig, "to/made/empty").await, Some(true));
        for key in &keys {
            let to = key.replacen("from", "to", 1);
            assert_eq!(
                rig.get(&to).await.expect("read"),
                rig.get(key).await.expect("read")
            );
        }
        // Again: what is there is said to be, or replaced.
        rig.delete("to/0/0").await.expect("deleted");
        let copied = rig
            .store
            .copy_tree(&rig.ann, copy("from", "to", false))
            .await;
        let report = copied.expect("copied");
        assert_eq!((report.done, report.failed), (4, whole - 4));
        let exists =
            |(_, error): &(String, dewar_types::Error)| error.kind() == ErrorKind::AlreadyExists;
        assert!(report.failures.iter().all(exists));
        assert_eq!(report.failures.len(), crate::limits::TREE_FAILURES_MAX);
        let copied = rig
            .store
            .copy_tree(&rig.ann, copy("from", "to", true))
            .await;
        assert_eq!(copied.expect("copied").failed, 0);

        for tree in ["from", "to"] {
            let removed = rig.store.remove_tree(&rig.ann, &object(tree)).await;
            let report = removed.expect("removed");
            // The directory itself was made for the copy only.
            let made = if tree == "to" { 3 } else { 2 };
            assert_eq!((report.done, report.failed), (keys.len() as u64 + made, 0));
            assert_eq!(is_directory(&rig, tree).await, None);
        }
        rig.assert_empty().await;
    });
}

#[test]
fn one_account_does_not_take_all_walks() {
    run(async {
        let rig = Rig::new(66).await;
        rig.put("d/file", &content(10, 1)).await.expect("put");
        let sharer = dewar_auth::fair_share::ShareOwner::of(&rig.ann);
        let walks = &rig.store.inner.tree_walks;
        let held: Vec<_> = std::iter::from_fn(|| walks.take(&sharer)).collect();
        let removed = rig.store.remove_tree(&rig.ann, &object("d")).await;
        let error = removed.expect_err("too many");
        assert!(matches!(error.kind(), ErrorKind::Busy(_)));
        drop(held);
        let removed = rig.store.remove_tree(&rig.ann, &object("d")).await;
        assert_eq!(removed.expect("removed").done, 1);
        rig.assert_empty().await;
    });
}
