//! Files and directories as hierarchical fronts use them.

use bytes::Bytes;
use dewar_checksum::{Algorithm, Digest};
use dewar_types::{ByteRange, ErrorKind, Result};
use proptest::prelude::*;

use super::{Rig, SMALL, bucket, content, get, object, run};
use crate::ContentReader;
use crate::ContentWriter;
use crate::api::{
    ExpectedContent, ObjectInfo, RenameRequest, WriteCondition, WriteMode, WriteRequest,
};
use crate::file::{MakeDirRequest, Node, ReadDirRequest};

fn write(key: &str, mode: WriteMode) -> WriteRequest {
    WriteRequest::file(object(key), mode)
}

fn adler32(bytes: &[u8]) -> Digest {
    let value = dewar_checksum::adler32(bytes).to_be_bytes();
    Digest::new(Algorithm::Adler32, &value).expect("four bytes")
}

async fn begin(rig: &Rig, key: &str, mode: WriteMode) -> Result<ContentWriter> {
    rig.store.write(&rig.ann, write(key, mode)).await
}

async fn put_pieces(
    rig: &Rig,
    key: &str,
    mode: WriteMode,
    pieces: &[(u64, Bytes)],
) -> Result<ObjectInfo> {
    let mut revision = begin(rig, key, mode).await?;
    for (offset, bytes) in pieces {
        revision.write_at(*offset, bytes.clone().into()).await?;
    }
    revision.commit(ExpectedContent::of_size(None)).await
}

async fn read(file: &ContentReader, start: u64, end: u64) -> Bytes {
    let mut bytes = file.read(ByteRange { start, end });
    let mut out = Vec::new();
    while let Some(part) = bytes.next().await {
        out.extend_from_slice(&part.expect("read"));
    }
    out.into()
}

async fn names(rig: &Rig, directory: &str, max: usize) -> Vec<(String, bool)> {
    let (mut after, mut names) = (None, Vec::new());
    loop {
        let request = ReadDirRequest {
            bucket: bucket("first"),
            directory: directory.to_owned(),
            after,
            max,
        };
        let page = rig.store.read_dir(&rig.ann, request).await.expect("listed");
        for entry in page.entries {
            names.push((entry.name, matches!(entry.node, Node::Directory(_))));
        }
        after = page.next;
        if after.is_none() {
            return names;
        }
    }
}

async fn make_dir(rig: &Rig, key: &str, parents: bool) -> Result<()> {
    let request = MakeDirRequest {
        directory: object(key),
        mode: 0o755,
        parents,
        existing: false,
    };
    rig.store.make_dir(&rig.ann, request).await
}

#[test]
fn what_is_written_in_order_is_what_a_put_makes() {
    run(async {
        let rig = Rig::new(1).await;
        for len in [0, 1, SMALL as usize, SMALL as usize + 1, 900_000] {
            let bytes = content(len, 3);
            let mut revision = begin(&rig, "d/f", WriteMode::Replace).await.expect("begun");
            for (i, chunk) in bytes.chunks(50_000).enumerate() {
                let offset = i as u64 * 50_000;
                let written = revision
                    .write_at(offset, bytes.slice_ref(chunk).into())
                    .await;
                written.expect("written");
            }
            // Nobody sees it yet.
            let info = revision
                .commit(ExpectedContent::of_size(Some(len as u64)))
                .await
                .expect("committed");
            assert_eq!(info.size, len as u64);
            assert_eq!(info.digests.get(Algorithm::Adler32), Some(adler32(&bytes)));
            assert_eq!(rig.found("d/f").await.digests, info.digests);
            assert_eq!(rig.get("d/f").await.expect("read"), bytes);
        }
        rig.delete("d/f").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn an_update_shares_what_did_not_change() {
    run(async {
        let rig = Rig::new(2).await;
        let mut model = content(1_000_000, 1).to_vec();
        rig.put("f", &Bytes::from(model.clone()))
            .await
            .expect("put");
        let old = rig
            .store
            .open_file(&rig.ann, get("f"))
            .await
            .expect("opened");
        // Disks that are being looked at for the first time have other files for a moment.
        let shards = || {
            let files = rig.files().into_iter();
            files.filter(|path| path.starts_with("blobs/0")).count()
        };
        let before = shards();
        assert!(before > 0);
        let patch = content(100, 9);
        let pieces = [(500_000, patch.clone())];
        let info = put_pieces(&rig, "f", WriteMode::Update, &pieces)
            .await
            .expect("updated");
        assert_eq!(info.size, 1_000_000);
        assert_eq!(
            shards(),
            before,
            "a hundred bytes are small, the rest is shared"
        );
        // A small change of a large file: nobody read it for its digests.
        assert_eq!(info.digests.get(Algorithm::Adler32), None);
        // Who has it open keeps what it was.
        assert_eq!(read(&old, 499_990, 500_110).await, &model[499_990..500_110]);
        model[500_000..500_100].copy_from_slice(&patch);
        assert_eq!(rig.get("f").await.expect("read"), model);
        rig.settle().await;
        assert_eq!(rig.get("f").await.expect("sealed"), model);
        drop(old);
        rig.delete("f").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn a_file_replaced_while_it_is_changed_is_not_changed() {
    run(async {
        let rig = Rig::new(3).await;
        rig.put("f", &content(50_000, 1)).await.expect("put");
        let mut revision = begin(&rig, "f", WriteMode::Update).await.expect("begun");
        revision
            .write_at(7, content(60_000, 2).into())
            .await
            .expect("written");
        let other = content(70_000, 3);
        rig.put("f", &other).await.expect("put");
        let error = revision
            .commit(ExpectedContent::of_size(None))
            .await
            .expect_err("replaced");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(rig.get("f").await.expect("read"), other);
        rig.delete("f").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn what_is_given_up_was_never_there() {
    run(async {
        let rig = Rig::new(4).await;
        let mut revision = begin(&rig, "f", WriteMode::New).await.expect("begun");
        for i in 0..6 {
            let offset = (6 - i) * 100_000;
            revision
                .write_at(offset, content(100_000, i).into())
                .await
                .expect("written");
            // Reading seals what was written so far.
            let range = ByteRange {
                start: offset,
                end: offset + 100_000,
            };
            assert_eq!(
                revision.read_back(range).await.expect("read"),
                content(100_000, i)
            );
        }
        let error = rig.get("f").await.expect_err("not yet");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = begin(&rig, "f", WriteMode::Update)
            .await
            .expect_err("not yet");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        drop(revision);
        let mut revision = begin(&rig, "f", WriteMode::New).await.expect("begun");
        revision
            .write_at(0, content(100_000, 1).into())
            .await
            .expect("written");
        let error = revision
            .commit(ExpectedContent::of_size(Some(100_001)))
            .await
            .expect_err("short");
        assert_eq!(error.kind(), ErrorKind::IncompleteBody);
        let first = begin(&rig, "f", WriteMode::New).await.expect("begun");
        put_pieces(&rig, "f", WriteMode::New, &[])
            .await
            .expect("made");
        let error = first
            .commit(ExpectedContent::of_size(None))
            .await
            .expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let error = begin(&rig, "f", WriteMode::New).await.expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        rig.delete("f").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u64),
    Truncate(u64),
    Read(u64, u64),
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0u64..150_000;
    let len = prop_oneof![Just(0usize), 1usize..200, 1000usize..60_000];
    prop_oneof![
        6 => (at.clone(), len, any::<u64>()).prop_map(|(at, len, seed)| Step::Write(at, len, seed)),
        1 => at.clone().prop_map(Step::Truncate),
        2 => (at, 0u64..40_000).prop_map(|(at, len)| Step::Read(at, len)),
        1 => Just(Step::Commit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Against bytes in memory, with revisions upon revisions, and nothing is left behind.
    #[test]
    fn writes_anywhere_are_as_on_a_file(seed in any::<u64>(), steps in proptest::collection::vec(step(), 1..25)) {
        run(async {
            let rig = Rig::new(seed).await;
            let mut model: Vec<u8> = Vec::new();
            let mut revision = begin(&rig, "f", WriteMode::New).await.expect("begun");
            for step in steps.into_iter().chain([Step::Commit]) {
                match step {
                    Step::Write(at, len, seed) => {
                        let bytes = content(len, seed);
                        revision.write_at(at, bytes.clone().into()).await.expect("written");
                        let (at, end) = (at as usize, at as usize + len);
                        if model.len() < end && len > 0 { model.resize(end, 0); }
                        if len == 0 { continue; }
                        model[at..end].copy_from_slice(&bytes);
                    }
                    Step::Truncate(size) => {
                        revision.truncate(size).expect("cut");
                        model.resize(size as usize, 0);
                    }
                    Step::Read(at, len) => {
                        let range = ByteRange { start: at, end: at + len };
                        let got = revision.read_back(range).await.expect("read");
                        let end = model.len().min((at + len) as usize);
                        assert_eq!(&got[..], &model[(at as usize).min(end)..end]);
                    }
                    Step::Commit => {
                        assert_eq!(revision.size(), model.len() as u64);
                        let info = revision.commit(ExpectedContent::of_size(Some(model.len() as u64))).await.expect("committed");
                        if let Some(sum) = info.digests.get(Algorithm::Adler32) {
                            assert_eq!(sum, adler32(&model));
                        }
                        assert_eq!(rig.get("f").await.expect("read"), model);
                        let file = rig.store.open_file(&rig.ann, get("f")).await.expect("opened");
                        let half = model.len() / 2;
                        assert_eq!(&read(&file, half as u64, u64::MAX).await[..], &model[half..]);
                        revision = begin(&rig, "f", WriteMode::Update).await.expect("begun");
                    }
                }
            }
            drop(revision);
            rig.delete("f").await.expect("deleted");
            rig.assert_empty().await;
        });
    }
}

#[test]
fn directories_are_what_lies_in_them_and_what_was_made() {
    run(async {
        let rig = Rig::new(5).await;
        for key in ["a", "d/x", "d/y/z", "d-e", "a/b", "slash//x"] {
            rig.put(key, &content(10, 1)).await.expect("put");
        }
        make_dir(&rig, "d/made/deep", true).await.expect("made");
        let error = make_dir(&rig, "no/such", false)
            .await
            .expect_err("no parent");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = make_dir(&rig, "d/x", false).await.expect_err("a file");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let error = make_dir(&rig, "d/x/under", true)
            .await
            .expect_err("a file above");
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let error = begin(&rig, "d/x/under", WriteMode::New)
            .await
            .expect_err("a file above");
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let error = begin(&rig, "d", WriteMode::Replace)
            .await
            .expect_err("a directory");
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        for max in [1, 2, 1000] {
            let (file, dir) = (false, true);
            let of = |list: &[(&str, bool)]| -> Vec<(String, bool)> {
                list.iter()
                    .map(|(name, dir)| ((*name).to_owned(), *dir))
                    .collect()
            };
            let in_d = of(&[("made", dir), ("x", file), ("y", dir)]);
            assert_eq!(names(&rig, "d", max).await, in_d);
            assert_eq!(names(&rig, "d/made/deep", max).await, []);
            let root: Vec<String> = names(&rig, "", max)
                .await
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            let once: std::collections::BTreeSet<_> = root.iter().map(String::as_str).collect();
            assert_eq!(once, ["a", "d", "d-e", "slash"].into());
        }
        let stat = async |key: &str| rig.store.stat(&rig.ann, &object(key)).await;
        assert!(
            matches!(stat("a").await, Ok(Node::Directory(_))),
            "hidden by a directory"
        );
        assert!(matches!(stat("d/made").await, Ok(Node::Directory(_))));
        assert!(matches!(stat("d/x").await, Ok(Node::File(_, info)) if info.size == 10));
        assert_eq!(
            stat("d/w").await.expect_err("nothing").kind(),
            ErrorKind::NotFound
        );
        let denied = rig
            .store
            .stat(&rig.bob, &object("d/x"))
            .await
            .expect_err("not bob's");
        assert_eq!(denied.kind(), ErrorKind::Denied);
        let remove = async |key: &str| {
            let removed = rig.store.remove_dir(&rig.ann, &object(key)).await;
            removed.err().map(|error| error.kind())
        };
        assert_eq!(remove("d").await, Some(ErrorKind::NotEmpty));
        assert_eq!(remove("d/x").await, Some(ErrorKind::NotADirectory));
        assert_eq!(remove("d/w").await, Some(ErrorKind::NotFound));
        assert_eq!(remove("d/made").await, Some(ErrorKind::NotEmpty));
        assert_eq!(remove("d/made/deep").await, None);
        let rename = RenameRequest {
            source: object("d/"),
            source_condition: WriteCondition::default(),
            target: object("e/").key,
            condition: WriteCondition::default(),
        };
        rig.store.rename(&rig.ann, rename).await.expect("renamed");
        assert_eq!(rig.get("e/y/z").await.expect("read"), content(10, 1));
        assert_eq!(remove("e/made").await, None);
        // S3 clients keep directories by empty objects with a slash at the end.
        rig.put("kept/", &Bytes::new()).await.expect("put");
        rig.put("kept/deeper/", &Bytes::new()).await.expect("put");
        assert_eq!(remove("kept").await, Some(ErrorKind::NotEmpty));
        assert_eq!(remove("kept/deeper").await, None);
        rig.put("kept/not-empty/", &content(5, 1))
            .await
            .expect("put");
        assert_eq!(remove("kept/not-empty").await, Some(ErrorKind::NotEmpty));
        rig.delete("kept/not-empty/").await.expect("deleted");
        assert_eq!(remove("kept").await, None);
        for key in ["a", "e/x", "e/y/z", "d-e", "a/b", "slash//x"] {
            rig.delete(key).await.expect("deleted");
        }
        rig.assert_empty().await;
    });
}

#[test]
fn a_write_is_judged_without_being_begun() {
    run(async {
        let rig = Rig::new(41).await;
        rig.put("there", &content(10, 1)).await.expect("put");
        let judged = async |caller, key, mode| {
            let write = WriteRequest {
                size: Some(3_000_000),
                ..write(key, mode)
            };
            let outcome = rig.store.authorize_write(caller, &write).await;
            outcome.map_err(|error| error.kind())
        };
        let ids = rig.store.tree().ids();
        let before = ids.blob().await.expect("an id");
        for (caller, key, mode, outcome) in [
            (&rig.ann, "new", WriteMode::New, Ok(())),
            (&rig.ann, "there", WriteMode::Replace, Ok(())),
            (&rig.ann, "there", WriteMode::Update, Ok(())),
            (
                &rig.ann,
                "there",
                WriteMode::New,
                Err(ErrorKind::AlreadyExists),
            ),
            (&rig.ann, "new", WriteMode::Update, Err(ErrorKind::NotFound)),
            (
                &rig.ann,
                "there/below",
                WriteMode::New,
                Err(ErrorKind::NotADirectory),
            ),
            (&rig.bob, "new", WriteMode::New, Err(ErrorKind::Denied)),
            (&rig.bob, "there", WriteMode::Update, Err(ErrorKind::Denied)),
        ] {
            assert_eq!(judged(caller, key, mode).await, outcome, "{key} {mode:?}");
        }
        let after = ids.blob().await.expect("an id");
        assert_eq!(after.0, before.0 + 1, "ids were taken");
    });
}
